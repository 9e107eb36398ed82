"""The registry of known tokenizers, and loading by name, folder or Hub id."""

import os
from dataclasses import dataclass
from pathlib import Path

from ruler_data.errors import RulerError, UsageError
from ruler_data.files import cache_dir, keep_copy
from ruler_data.hub import fetch_files
from ruler_data.manifest import TokenizerInfo
from ruler_data.names import check_name, quote
from ruler_data.tokenizers.hf import FILES, HfTokenizer
from ruler_data.tokenizers.mistral import MistralCommonTokenizer, packaged
from ruler_data.tokenizers.protocol import PromptTokenizer
from ruler_data.tokenizers.tiktoken import RANKS, TiktokenTokenizer


@dataclass(frozen=True)
class Known:
    """A tokenizer of the registry.

    Attributes:
        source: Hub id, file in the package `mistral-common`, or encoding of tiktoken.
        revision: commit on the Hub; None for the others.
        note: which models share it.
    """

    source: str
    revision: str | None
    note: str


REGISTRY: dict[str, Known] = {
    "mistral": Known(
        "tekken_240911.json", None, "Tekken; Mistral NeMo and later; in a package, so offline"
    ),
    "mistral-v0.2": Known(
        "tokenizer.model.v1", None, "SentencePiece; Mistral 7B v0.1 and v0.2; offline too"
    ),
    "llama3": Known(
        "meta-llama/Llama-3.1-8B-Instruct",
        "0e9e39f249a16976918f6564b8830bc894c89659",
        "Llama 3.1, 3.2 and 3.3; gated: needs a token with access",
    ),
    "qwen2.5": Known(
        "Qwen/Qwen2.5-7B-Instruct",
        "a09a35458c702b33eeacc393d103063234e8bc28",
        "all Qwen2.5 models",
    ),
    "qwen3": Known("Qwen/Qwen3-8B", "b968826d9c46dd6066d109eabc6255188de91218", "all Qwen3 models"),
    "gemma3": Known(
        "google/gemma-3-4b-it",
        "093f9f388b31de276ce2de164bdc2081324b9767",
        "Gemma 3; gated: needs a token with access",
    ),
    "gpt-4o": Known("o200k_base", None, "OpenAI's; plain prompts, its chat format is not public"),
}


def load_tokenizer(spec: str, *, allow_download: bool = True) -> PromptTokenizer:
    """Return the tokenizer that a registry name, a folder or a Hub id stands for.

    A name is searched in the folder `RULER_TOKENIZERS` (one sub-folder per name), then in the
    Hub's cache, then on the Hub at the pinned revision.

    Raises:
        UsageError: there is no such tokenizer, or it is not available.
    """
    if spec in REGISTRY:  # for a folder of that name, write ./NAME
        return _load_known(spec, REGISTRY[spec], allow_download)
    path = Path(os.path.expanduser(spec))  # noqa: PTH111 - Path's raises for unknown users
    if spec and path.is_dir():
        return load_folder(path, check_name("tokenizer", path.resolve().name))
    if spec.startswith((".", "/", "~")) or spec.count("/") != 1:
        known = ", ".join(REGISTRY)
        msg = (
            f"tokenizer {quote(spec)} is not a registry name, a folder or a Hub id; known names: "
            f"{known}"
        )
        raise UsageError(msg)
    owner, name = spec.split("/")
    check_name("tokenizer", owner)
    return _load_hub(check_name("tokenizer", name), spec, None, allow_download)


def find_by_fingerprint(info: TokenizerInfo) -> str | None:
    """Return how to load a manifest's tokenizer, if it is available offline, else None."""
    kept = cache_dir("tokenizers") / info.fingerprint
    for spec in (info.name, info.hub_id, str(kept)):
        try:
            if spec and load_tokenizer(spec, allow_download=False).info.files == info.files:
                return spec
        except UsageError:
            continue
    return None


def load_folder(
    folder: Path, name: str, hub_id: str | None = None, revision: str | None = None
) -> PromptTokenizer:
    """Return the tokenizer in a folder, and keep a copy of its files by fingerprint.

    Raises:
        UsageError: the folder holds no tokenizer in a known format.
    """
    tokenizer: PromptTokenizer
    if (folder / "tokenizer.json").is_file():
        tokenizer = HfTokenizer(folder, name, hub_id, revision)
    else:
        mistral = [*folder.glob("tekken*.json"), *folder.glob("*.model.v*")]
        if len(mistral) != 1:
            msg = (
                f"tokenizer {quote(str(folder))}: the folder holds no {FILES[0]}; save one with "
                "AutoTokenizer.from_pretrained(...).save_pretrained(FOLDER)"
            )
            raise UsageError(msg)
        tokenizer = MistralCommonTokenizer(mistral[0], name)
    keep_copy(folder, tokenizer.info.files, cache_dir("tokenizers") / tokenizer.info.fingerprint)
    return tokenizer


def _load_known(name: str, known: Known, allow_download: bool) -> PromptTokenizer:
    local = os.environ.get("RULER_TOKENIZERS")
    if local and (Path(local) / name).is_dir():
        return load_folder(Path(local) / name, name, _hub_id(known), known.revision)
    if known.source in RANKS:
        return TiktokenTokenizer(known.source, name, allow_download=allow_download)
    if known.revision is None:
        return packaged(known.source, name)
    return _load_hub(name, known.source, known.revision, allow_download)


def _hub_id(known: Known) -> str | None:
    return known.source if known.revision else None


def _load_hub(
    name: str, hub_id: str, revision: str | None, allow_download: bool
) -> PromptTokenizer:
    try:
        folder, commit = fetch_files(hub_id, FILES, revision, allow_download=allow_download)
    except RulerError as error:
        msg = (
            f"tokenizer {quote(name)} ({hub_id}): {error}; offline, give its folder, or set "
            f"RULER_TOKENIZERS; known names: {', '.join(REGISTRY)}"
        )
        raise UsageError(msg) from error
    return load_folder(folder, name, hub_id, commit)


def inventory() -> list[dict[str, str]]:
    """Return, for each known name, whether it is available offline, and its fingerprint."""
    records = []
    for name, known in REGISTRY.items():
        try:
            fingerprint = load_tokenizer(name, allow_download=False).info.fingerprint
            where = "yes"
        except UsageError:
            fingerprint, where = "-", "no: downloaded when first needed"
        records.append(
            {
                "name": name,
                "source": known.source,
                "revision": known.revision or "packaged",
                "where": where,
                "fingerprint": fingerprint,
                "note": known.note,
            }
        )
    return records
