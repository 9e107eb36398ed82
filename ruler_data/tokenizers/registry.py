"""The registry of known tokenizers, and loading by name, folder or Hub id."""

import hashlib
import json
import os
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from difflib import get_close_matches
from pathlib import Path

from ruler_data.errors import RulerError, UsageError
from ruler_data.files import cache_dir, hash_files, keep_copy, sha256_file, write_bytes
from ruler_data.hub import fetch_files
from ruler_data.manifest import TokenizerInfo
from ruler_data.names import check_name, quote
from ruler_data.tokenizers.hf import FILES, LOCAL, HfTokenizer, Origin
from ruler_data.tokenizers.llama import LLAMA, Llama
from ruler_data.tokenizers.mistral import MistralCommonTokenizer, packaged
from ruler_data.tokenizers.package import read_member
from ruler_data.tokenizers.protocol import PromptTokenizer
from ruler_data.tokenizers.ranks import read_ranks, tokenizer_json
from ruler_data.tokenizers.tiktoken import RANKS, TiktokenTokenizer


@dataclass(frozen=True)
class Mirror:
    """A copy of a gated `tokenizer.json`, in a repo that is not gated.

    Attributes:
        repo: Hub id.
        revision: commit.
        sha256: of the file, the same in both repos.
        bos: BOS token.
        template: Jinja template of one user turn, since a mirror may have changed its own.
    """

    repo: str
    revision: str
    sha256: str
    bos: str
    template: str


@dataclass(frozen=True)
class Known:
    """A tokenizer of the registry.

    Attributes:
        source: Hub id, file in the package `mistral-common`, or encoding of tiktoken.
        revision: commit on the Hub; None for the others.
        family: models that it is for.
        note: what else to know.
        models: Hub ids of models that have it, besides `source`.
        mirror: to take it from if the Hub gates `source`.
    """

    source: str
    revision: str | None
    family: str
    note: str = ""
    models: tuple[str, ...] = ()
    mirror: Mirror | None = None

    @property
    def ids(self) -> tuple[str, ...]:
        """Hub ids of the models that are known to have it."""
        return (self.source, *self.models) if self.revision else self.models


_META = "Llama licence; from Meta's package, so without access to the gated repo"
_GEMMA_TURN = (
    "{{ bos_token }}<start_of_turn>user\n{{ messages[0]['content'] | trim }}<end_of_turn>\n"
    "{% if add_generation_prompt %}<start_of_turn>model\n{% endif %}"
)


def _owned(owner: str, names: str) -> tuple[str, ...]:
    return tuple(f"{owner}/{name}" for name in names.split())


REGISTRY: dict[str, Known] = {
    "mistral": Known(
        "tekken_240911.json",
        None,
        "Mistral NeMo and later",
        "Tekken; in a package that is always installed, so offline",
    ),
    "mistral-v0.2": Known(
        "tokenizer.model.v1",
        None,
        "Mistral 7B v0.1 and v0.2",
        "SentencePiece; offline too",
        _owned("mistralai", "Mistral-7B-Instruct-v0.1 Mistral-7B-Instruct-v0.2"),
    ),
    "llama3": Known(
        "meta-llama/Llama-3.1-8B-Instruct",
        "0e9e39f249a16976918f6564b8830bc894c89659",
        "Llama 3.1, 3.2 (text) and 3.3",
        _META,
        _owned(
            "meta-llama",
            "Llama-3.1-70B-Instruct Llama-3.1-405B-Instruct Llama-3.2-1B-Instruct "
            "Llama-3.2-3B-Instruct Llama-3.3-70B-Instruct",
        ),
    ),
    "llama3.0": Known(
        "meta-llama/Meta-Llama-3-8B-Instruct",
        "8afb486c1db24fe5011ec46dfbe5b5dccdb575c2",
        "Llama 3 of April 2024",
        f"{_META}; its template has no system turn",
        _owned("meta-llama", "Meta-Llama-3-70B-Instruct"),
    ),
    "llama4": Known(
        "meta-llama/Llama-4-Scout-17B-16E-Instruct",
        "92f3b1597a195b523d8d9e5700e57e4fbb8f20d3",
        "Llama 4",
        _META,
        _owned("meta-llama", "Llama-4-Maverick-17B-128E-Instruct"),
    ),
    "qwen2.5": Known(
        "Qwen/Qwen2.5-7B-Instruct",
        "a09a35458c702b33eeacc393d103063234e8bc28",
        "Qwen2.5",
        models=_owned(
            "Qwen",
            "Qwen2.5-0.5B-Instruct Qwen2.5-1.5B-Instruct Qwen2.5-3B-Instruct Qwen2.5-14B-Instruct "
            "Qwen2.5-32B-Instruct Qwen2.5-72B-Instruct",
        ),
    ),
    "qwen3": Known(
        "Qwen/Qwen3-8B",
        "b968826d9c46dd6066d109eabc6255188de91218",
        "Qwen3",
        models=_owned("Qwen", "Qwen3-0.6B Qwen3-1.7B Qwen3-4B Qwen3-14B Qwen3-32B"),
    ),
    "qwen3.5": Known("Qwen/Qwen3.5-9B", "c202236235762e1c871ad0ccb60c8ee5ba337b9a", "Qwen3.5"),
    "gemma3": Known(
        "google/gemma-3-4b-it",
        "093f9f388b31de276ce2de164bdc2081324b9767",
        "Gemma 3",
        "gated: with a token that has access, or from a mirror of the same file",
        _owned("google", "gemma-3-1b-it gemma-3-12b-it gemma-3-27b-it"),
        Mirror(
            "unsloth/gemma-3-4b-it",
            "bf46152c47f5dd20b896357cb51abc4c03b8ee8c",
            "4667f2089529e8e7657cfb6d1c19910ae71ff5f28aa7ab2ff2763330affad795",
            "<bos>",
            _GEMMA_TURN,
        ),
    ),
    "phi4": Known("microsoft/phi-4", "2db69c1c3e91a05d2c64a3185acfbaf36f744e25", "Phi-4 (14B)"),
    "deepseek-v3": Known(
        "deepseek-ai/DeepSeek-V3", "e815299b0bcbac849fa540c768ef21845365c9eb", "DeepSeek V3"
    ),
    "deepseek-v3.1": Known(
        "deepseek-ai/DeepSeek-V3.1", "c0781d039fb7a1ba2abc4add0bdc293e92d2b8db", "DeepSeek V3.1"
    ),
    "deepseek-r1": Known(
        "deepseek-ai/DeepSeek-R1",
        "56d4cbbb4d29f4355bab4b9a39ccb717a14ad5ad",
        "DeepSeek R1",
        "a reasoning model: build with --reserve",
    ),
    "glm4.5": Known(
        "zai-org/GLM-4.5",
        "cbb2c7cfb52fa128a9660cb1a7a78e017899e115",
        "GLM-4.5 and 4.5-Air",
        models=("zai-org/GLM-4.5-Air",),
    ),
    "gpt-oss": Known(
        "openai/gpt-oss-20b",
        "6cee5e81ee83917806bbde320786a8fb61efebee",
        "gpt-oss",
        "a reasoning model: build with --reserve",
        ("openai/gpt-oss-120b",),
    ),
    "olmo2": Known(
        "allenai/OLMo-2-1124-7B-Instruct", "470b1fba1ae01581f270116362ee4aa1b97f4c84", "OLMo 2"
    ),
    "granite3.3": Known(
        "ibm-granite/granite-3.3-8b-instruct",
        "51dd4bc2ade4059a6bd87649d68aa11e4fb2529b",
        "Granite 3.3",
    ),
    "nemotron-nano-v2": Known(
        "nvidia/NVIDIA-Nemotron-Nano-9B-v2",
        "6533e8de2c68e4536bf7c411d7a3ce5734111476",
        "Nemotron Nano v2",
    ),
    "smollm3": Known(
        "HuggingFaceTB/SmolLM3-3B", "a07cc9a04f16550a088caea529712d1d335b0ac1", "SmolLM3"
    ),
    "gpt-4o": Known(
        "o200k_base", None, "GPT-4o", "plain prompts: OpenAI's chat format is not public"
    ),
}

#: Names of point releases that share a tokenizer and a prompt.
ALIASES = {"llama3.1": "llama3", "llama3.2": "llama3", "llama3.3": "llama3"}


def load_tokenizer(spec: str, *, allow_download: bool = True) -> PromptTokenizer:
    """Return the tokenizer that a registry name, a folder or a Hub id stands for.

    A name is searched in the folder `RULER_TOKENIZERS` (one sub-folder per name), in a package that
    holds it, in the Hub's cache, and on the Hub at the pinned revision.

    Raises:
        UsageError: there is no such tokenizer, or it is not available.
    """
    name = ALIASES.get(spec, spec)
    if name in REGISTRY:  # for a folder of that name, write ./NAME
        return _load_known(name, REGISTRY[name], allow_download)
    path = Path(os.path.expanduser(spec))  # noqa: PTH111 - Path's raises for unknown users
    if spec and path.is_dir():
        return load_folder(path, check_name("tokenizer", path.resolve().name))
    if spec.startswith((".", "/", "~")) or spec.count("/") != 1:
        msg = (
            f"tokenizer {quote(spec)} is not a registry name, a folder or a Hub id; "
            f"{_known_names(spec)}"
        )
        raise UsageError(msg)
    owner, name = spec.split("/")
    check_name("tokenizer", owner)
    return _first_available(
        check_name("tokenizer", name), spec, [lambda: _hub_files(spec, None, allow_download)]
    )


def find_by_fingerprint(info: TokenizerInfo) -> str | None:
    """Return how to load a manifest's tokenizer, if it is available offline, else None."""
    kept = cache_dir("tokenizers") / info.fingerprint
    for spec in (info.name, info.hub_id, str(kept)):
        try:
            if spec and load_tokenizer(spec, allow_download=False).info.counts_like(info):
                return spec
        except UsageError:
            continue
    return None


def load_folder(folder: Path, name: str, origin: Origin = LOCAL) -> PromptTokenizer:
    """Return the tokenizer in a folder, and keep a copy of its files by fingerprint.

    Raises:
        UsageError: the folder holds no tokenizer in a known format.
    """
    tokenizer: PromptTokenizer
    if (folder / "tokenizer.json").is_file():
        tokenizer = HfTokenizer(folder, name, origin)
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


#: A folder of tokenizer files, and where they come from.
Found = tuple[Path, Origin]


def _load_known(name: str, known: Known, allow_download: bool) -> PromptTokenizer:
    local = os.environ.get("RULER_TOKENIZERS")
    if local and (Path(local) / name).is_dir():
        hub_id = known.source if known.revision else None
        return load_folder(Path(local) / name, name, Origin(hub_id, known.revision))
    if known.source in RANKS:
        return TiktokenTokenizer(known.source, name, allow_download=allow_download)
    if known.revision is None:
        return packaged(known.source, name)
    return _first_available(name, known.source, [*_places(name, known, allow_download)])


def _places(name: str, known: Known, allow_download: bool) -> Iterator[Callable[[], Found]]:
    """Yield the places of a tokenizer that is on the Hub, in the order in which they are tried."""
    if name in LLAMA:
        yield lambda: _converted(LLAMA[name], allow_download)
    yield lambda: _hub_files(known.source, known.revision, allow_download)
    if mirror := known.mirror:
        yield lambda: _mirrored(mirror, known, allow_download)


def _first_available(name: str, hub_id: str, places: list[Callable[[], Found]]) -> PromptTokenizer:
    """Return the tokenizer from the first place that has it.

    Raises:
        UsageError: none has; with the reason of each.
    """
    reasons: list[str] = []
    for place in places:
        try:
            folder, origin = place()
        except RulerError as error:
            reasons.append(str(error))
        else:
            return load_folder(folder, name, origin)
    msg = (
        f"tokenizer {quote(name)} ({hub_id}): {'; '.join(reasons)}; offline, give its folder, or "
        f"set RULER_TOKENIZERS; {_known_names(name)}"
    )
    raise UsageError(msg)


def _known_names(spec: str) -> str:
    close = get_close_matches(spec.lower(), [*REGISTRY, *ALIASES], 3, 0.5)
    near = f"close names: {', '.join(close)}; " if close else ""
    return f"{near}`ruler-data tokenizers` lists all {len(REGISTRY)}"


def _hub_files(hub_id: str, revision: str | None, allow_download: bool) -> Found:
    folder, commit = fetch_files(hub_id, FILES, revision, allow_download=allow_download)
    return folder, Origin(hub_id, commit)


def _converted(llama: Llama, allow_download: bool) -> Found:
    """Return a tokenizer that is converted from the ranks in a package."""

    def convert() -> bytes:
        ranks = read_ranks(read_member(llama.member, allow_download=allow_download))
        special = {text: llama.size + n for n, text in enumerate(llama.special)}
        return tokenizer_json(ranks, llama.pattern, special)

    folder = _made([*llama], convert, llama.special[0], llama.template)
    return folder, Origin(None, str(llama.member.wheel))


def _mirrored(mirror: Mirror, known: Known, allow_download: bool) -> Found:
    """Return a tokenizer from a mirror of its repo, with the pinned hash."""

    def fetch() -> bytes:
        folder, _ = fetch_files(
            mirror.repo, FILES[:1], mirror.revision, allow_download=allow_download
        )
        if (found := sha256_file(folder / FILES[0])) != mirror.sha256:
            msg = f"{mirror.repo}: refused: sha256 expected {mirror.sha256}, found {found}"
            raise RulerError(msg)
        return (folder / FILES[0]).read_bytes()

    folder = _made([mirror.sha256, mirror.template], fetch, mirror.bos, mirror.template)
    return folder, Origin(known.source, known.revision, f"{mirror.repo} at {mirror.revision}")


def _made(key: object, vocabulary: Callable[[], bytes], bos: str, template: str) -> Path:
    """Return a folder in the cache with a `tokenizer.json` and a template; damaged ones are remade.

    Args:
        key: all that decides on the files.
        vocabulary: returns the `tokenizer.json`.
        bos: BOS token.
        template: Jinja template of one user turn.
    """
    folder = cache_dir("made") / hashlib.sha256(json.dumps([key, 1]).encode()).hexdigest()[:32]
    hashes = folder / "sha256.json"
    try:
        if json.loads(hashes.read_bytes()) == hash_files(folder, FILES):
            return folder
    except (OSError, ValueError):
        pass
    config = {"bos_token": bos, "chat_template": template}
    write_bytes(folder / FILES[0], vocabulary())
    write_bytes(folder / FILES[1], json.dumps(config).encode())
    write_bytes(hashes, json.dumps(hash_files(folder, FILES)).encode())
    return folder


def inventory() -> list[dict[str, str]]:
    """Return, for each known name, whether it is available offline, and its fingerprint."""
    records = []
    for name, known in REGISTRY.items():
        try:
            info = load_tokenizer(name, allow_download=False).info
            fingerprint, where = info.identity or info.fingerprint, "yes"
        except UsageError:
            fingerprint, where = "-", "no: downloaded when first needed"
        records.append(
            {
                "name": name,
                "source": str(LLAMA[name].member.wheel) if name in LLAMA else known.source,
                "revision": known.revision or "packaged",
                "where": where,
                "fingerprint": fingerprint,
                "note": ". ".join(filter(None, (known.family, known.note))),
            }
        )
    return records
