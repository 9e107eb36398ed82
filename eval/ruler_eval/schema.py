"""The files of a run: its description, and one answer for each row (`ruler_eval.answers`).

    runs/x/run.json                 everything that decides on the answers, and its fingerprint
    runs/x/answers-0-of-8.jsonl     the journal of one shard, one line for each row

Scores, reports and comparisons read nothing else.
"""

import hashlib
import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from ruler_data.errors import RulerError, UsageError
from ruler_data.manifest import BALANCED, Manifest, reader_of
from ruler_data.names import quote

#: Version of the layout of both files.
FORMAT = 1

RUN_FILE = "run.json"
ANSWER_FILES = "answers-*.jsonl"


#: Options of engines that do not decide on answers, with the reason. They may change from one start
#: of a run to the next, and `starts.jsonl` records them. All others are part of a run's identity.
#: (vLLM computes a row together with others that wait, so its last bits differ from run to run
#: anyway.)
FREE: Mapping[str, str] = {
    name: reason
    for reason, names in {
        "memory of the GPU": "gpu_memory_utilization kv_cache_memory_bytes num_gpu_blocks_override "
        "swap_space cpu_offload_gb block_size",
        "rows and tokens at once, and their order": "max_num_seqs max_num_batched_tokens "
        "max_num_partial_prefills max_long_partial_prefills "
        "long_prefill_token_threshold scheduling_policy async_scheduling",
        "how weights are loaded and processes started": "max_parallel_loading_workers "
        "safetensors_load_strategy distributed_executor_backend download_dir",
        "logging": "disable_log_stats use_tqdm_on_load",
        "copies of the model and their places (ray)": "copies gpus wait",
        "requests at once, and when to give up (openai)": "concurrency patience timeout",
        "which answers are accepted, not what they are (openai)": "tolerance",
    }.items()
    for name in names.split()
}


@dataclass(frozen=True)
class DataInfo:
    """The frozen rows of a run.

    Attributes:
        repo: Hub repo; None for a local folder, whose path is private.
        revision: commit on the Hub; None for a folder.
        data_version: of the rows, from the manifest.
        suite: of the configs, from the manifest.
        seed: of the rows, from the manifest; for a private seed, a one-way hash as a negative
            number.
        sample: whether the rows are made of the bundled sample corpus.
        tokenizer: name of the tokenizer that lengths are counted in.
        tokenizer_fingerprint: sha256 of its files.
        digests: content digest of each config of the run, by name.
        rows: number of rows of each config, the first ones; by name.
        inputs: sha256 of what else decides on the rows: the hashes of the sources and the reserve;
            empty in runs of versions that did not record it.
        edition: of the rows, from the manifest.
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
    edition: str = BALANCED


@dataclass(frozen=True)
class RunInfo:
    """Everything that decides on the answers of a run.

    Attributes:
        data: the rows.
        model: name or Hub id, as the user may publish it; never a path.
        model_revision: commit, or sha256 over samples of the weights; None where neither is known.
        protocol: completion, base, chat or thinking.
        engine: name of the engine.
        engine_info: versions, dtype, parallelism and options of the engine.
        sampling: what requests ask for beyond the rows' own `max_new_tokens`.
        no_context: whether the context was left out, as a baseline.
        frame: the prompt with `{content}` for the user's turn and `{answer_prefix}` for the text
            that opens the answer; it shows default system prompts. None where the server renders
            prompts.
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
    def samples(self) -> int:
        """Number of answers to each row."""
        return int(self.sampling.get("samples", 1))

    @property
    def fingerprint(self) -> str:
        """One sha256 over all of it. Answers of different fingerprints are never mixed."""
        body = asdict(self)
        if self.data.edition == BALANCED:  # runs of earlier versions keep their fingerprint
            del body["data"]["edition"]
        text = json.dumps(body, sort_keys=True, ensure_ascii=False, separators=(",", ":"))
        return "sha256:" + hashlib.sha256(text.encode()).hexdigest()


def read_info(folder: Path) -> RunInfo:
    """Return the description of a run.

    Raises:
        UsageError: the folder holds no run.
        RulerError: it is damaged.
    """
    path = folder / RUN_FILE
    if not path.is_file():
        raise UsageError(quote(str(folder)), f"has no {RUN_FILE}; give the output folder of a run")
    try:
        body = path.read_bytes()
        run: RunInfo = reader_of(RunInfo).validate_json(body, strict=True, extra="ignore")
    except ValidationError as error:
        raise RulerError(path, f"not a run: {faults(error)}; run it again") from error
    noted = json.loads(body).get("fingerprint", run.fingerprint)
    if noted != run.fingerprint:
        edited = f"its fingerprint is {noted}, that of its content {run.fingerprint}"
        raise RulerError(path, f"edited after it was written: {edited}")
    return run


def faults(error: ValidationError) -> str:
    """Return what pydantic found wrong, in one line, e.g. `seed: Field required`."""
    return "; ".join(
        ": ".join(filter(None, (".".join(map(str, each["loc"])), each["msg"])))
        for each in error.errors()[:3]
    )


def published_seed(manifest: Manifest) -> int:
    """Return the seed; for a private seed, a one-way hash as a negative number.

    Runs and results may be published, and anybody who knows a seed can draw its rows again.
    """
    if not manifest.is_private:
        return manifest.seed
    digest = hashlib.sha256(f"private seed {manifest.seed}".encode()).digest()
    return -int.from_bytes(digest[:6])
