"""What a run leaves behind: one description of it, and one answer for each row.

    runs/x/run.json                 what decides on the answers, and its fingerprint
    runs/x/answers-0-of-8.jsonl     the journal of one shard, a line for each row

Whatever produced a run, this is all that scores, reports and comparisons read.
"""

import hashlib
import json
from dataclasses import asdict, dataclass, field
from typing import Any

from ruler_data.manifest import Manifest

#: Version of the layout of both files.
FORMAT = 1
RUN_FILE = "run.json"
ANSWER_FILES = "answers-*.jsonl"


@dataclass(frozen=True)
class DataInfo:
    """The frozen rows that were asked.

    Attributes:
        repo: Hub repo, or None for a local folder (whose path is nobody's business).
        revision: commit on the Hub; None for a folder.
        data_version: of the rows, from the manifest.
        suite: that the configs belong to, from the manifest.
        seed: of the draws, from the manifest; of a private one a negative mark in its place.
        sample: whether the rows are of the bundled sample corpus.
        tokenizer: name of the tokenizer that lengths are counted in.
        tokenizer_fingerprint: sha256 of its files.
        digests: content digest of each config that was asked, by name.
        rows: number of rows asked of each config, the first ones; by name.
        inputs: sha256 of what else decides on rows: the sources' hashes and the reserve; empty in
            runs of versions that did not note it.
    """

    repo: str | None
    revision: str | None
    data_version: str
    suite: str
    seed: int
    sample: bool
    tokenizer: str
    tokenizer_fingerprint: str
    digests: dict[str, str]
    rows: dict[str, int]
    inputs: str = ""


@dataclass(frozen=True)
class RunInfo:
    """What decides on the answers of a run.

    Attributes:
        data: the rows.
        model: name or Hub id, as the user may publish it; never a path.
        model_revision: commit, or sha256 of the weights' index; None where it cannot be known.
        protocol: completion, base, chat or thinking.
        engine: name of the engine.
        engine_info: versions, dtype, parallelism and options of the engine.
        sampling: what was asked of the engine beyond the rows' own `max_new_tokens`.
        no_context: whether rows were asked without their context, as a baseline.
        frame: what a prompt looks like, with `{content}` for the user's turn and
            `{answer_prefix}` for what opens the answer: default system prompts show here.
            None where the server renders prompts.
        model_tokenizer: fingerprint of the tokenizer that rendered the prompts; likewise.
    """

    data: DataInfo
    model: str
    model_revision: str | None
    protocol: str
    engine: str
    engine_info: dict[str, Any] = field(default_factory=dict)
    sampling: dict[str, Any] = field(default_factory=dict)
    no_context: bool = False
    frame: str | None = None
    model_tokenizer: str | None = None
    format: int = FORMAT

    @property
    def fingerprint(self) -> str:
        """Return one sha256 over all of it: answers of other fingerprints are never mixed."""
        text = json.dumps(asdict(self), sort_keys=True, ensure_ascii=False, separators=(",", ":"))
        return "sha256:" + hashlib.sha256(text.encode()).hexdigest()


@dataclass(frozen=True)
class Prediction:
    """One answered row; one line of a journal.

    Attributes:
        config: e.g. `vt_4096`.
        index: of the row.
        text: what the model said, as it said it; None if the row is unscored.
        finish: `stop`, `length`, or what else the engine says; None if the row is unscored.
        prompt_tokens: tokens sent; None where the engine does not say.
        answer_tokens: tokens said; likewise.
        seconds: from sending to the last token; likewise.
        error: why the row is unscored; None if it was answered.
        cached_tokens: of those sent, the ones that a prefix cache held; None where the engine
            does not say.
    """

    config: str
    index: int
    text: str | None
    finish: str | None
    prompt_tokens: int | None
    answer_tokens: int | None
    seconds: float | None
    error: str | None = None
    cached_tokens: int | None = None


def told_seed(manifest: Manifest) -> int:
    """Return the seed; of a private one a negative mark: the same for it alone, and no way back.

    A run and its results may be shown to anybody, and rows of a known seed could be drawn again.
    """
    if not manifest.is_private:
        return manifest.seed
    digest = hashlib.sha256(f"private seed {manifest.seed}".encode()).digest()
    return -int.from_bytes(digest[:6])
