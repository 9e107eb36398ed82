"""Tokenizers in Hugging Face's format: `tokenizer.json` and a Jinja chat template."""

import hashlib
import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import cached_property, lru_cache
from importlib.metadata import version
from pathlib import Path
from typing import Any, NamedTuple, ParamSpec, TypeVar

import numpy as np
import tokenizers

from ruler_data import memory
from ruler_data.errors import RulerError, UsageError
from ruler_data.files import (
    JSON_BYTES,
    cache_dir,
    cached_bytes,
    hash_files,
    open_file,
    read_json,
    read_text,
)
from ruler_data.manifest import TokenizerInfo
from ruler_data.row import utf8
from ruler_data.tokenizers.chat_template import TemplateError, first_line, run_template
from ruler_data.tokenizers.protocol import (
    PLAIN,
    Counter,
    Fast,
    Ids,
    Probes,
    PromptTokenizer,
    Text,
    check_parity,
    decoded,
    gigatoken_counter,
)

P = ParamSpec("P")
T = TypeVar("T")

#: User turns whose prompts are part of the identity; a template may strip a turn. The first is like
#: those of prompts: several lines, without space around them.
TURNS = ("Which of these?\n\n1. this\n2. that\nQuestion: Which?", "\n The first. \n")
PREFIX = " Answer: The first is"
#: Largest chat template that is read; gpt-oss's has 16,000 bytes.
TEMPLATE_BYTES = 1_000_000


def template_source(folder: Path, config: dict[str, Any], name: str) -> str:
    """Return the source of the chat template; empty if there is none.

    Raises:
        UsageError: it is not text.
    """
    path = folder / FILES[2]
    where = f"tokenizer {name}: its chat template"
    try:
        source = read_text(path, TEMPLATE_BYTES) if path.exists() else config.get("chat_template")
        if isinstance(source, list):  # several named templates
            source = next((t["template"] for t in source if t["name"] == "default"), None)
    except (OSError, UnicodeDecodeError, KeyError, TypeError) as error:
        raise UsageError(f"{where} cannot be read ({type(error).__name__})") from error
    if source and not isinstance(source, str):
        raise UsageError(f"{where} is {type(source).__name__}, not text")
    return source or ""


def _token_text(token: object) -> str:
    """Return the text of a special token, which a config gives as a string or an object."""
    if isinstance(token, dict):
        return str(token.get("content", ""))
    return "" if token is None else str(token)


#: Files that determine tokens or the template; no others are read or hashed.
FILES = ("tokenizer.json", "tokenizer_config.json", "chat_template.jinja")


class Origin(NamedTuple):
    """Where the files of a tokenizer come from, as `TokenizerInfo` records it."""

    hub_id: str | None = None
    revision: str | None = None
    mirror: str = ""


LOCAL = Origin()


class HfTokenizer(PromptTokenizer):
    """A tokenizer of the `tokenizers` library; renders the template as transformers does."""

    def __init__(self, folder: Path, name: str, origin: Origin = LOCAL) -> None:
        """Load a folder that holds `tokenizer.json`.

        Raises:
            UsageError: a file is missing or broken.
        """
        path = folder / FILES[0]
        for file, limit in zip(FILES, (JSON_BYTES, JSON_BYTES, TEMPLATE_BYTES), strict=True):
            if (folder / file).is_file():
                open_file(folder / file, limit, f"tokenizer {name}: {file}").close()
        self._name = f"tokenizer {name}"
        self._file = self._ask(opened, path)
        engine = f"tokenizers {version('tokenizers')}"
        self._stock = Counter(
            engine,
            lambda text: self._ask(self._file.ids, text),
            lambda texts: self._ask(self._file.counts, texts),
        )
        files = hash_files(folder, FILES)
        super().__init__(
            TokenizerInfo(
                name, origin.hub_id, origin.revision, files, 0, 0, engine, mirror=origin.mirror
            )
        )
        self.special_tokens = self._file.special_tokens()
        config = read_config(folder, name)
        self._special = {key: _token_text(config[key]) for key in config if key.endswith("_token")}
        try:
            "".join(self._special.values()).encode()
        except UnicodeEncodeError as error:
            problem = f"{FILES[1]} has a token that is not Unicode text"
            raise UsageError(self._name, problem) from error
        self._names_bos = bool(config.get("add_bos_token"))
        self._bos_text = self._special.get("bos_token") or None
        self._added_bos = self._find_bos()
        self._template = template_source(folder, config, name)
        self.has_template = bool(self._template)
        if self.has_template:
            self._run_template(None)  # it must compile

    def _ask(self, function: Callable[P, T], *values: P.args, **keywords: P.kwargs) -> T:
        """Return what a function of `TokenizerFile` does.

        Raises:
            UsageError: it fails.
            RulerError: it takes too much memory.
        """
        try:
            return function(*values, **keywords)
        except UsageError:
            raise
        except BaseException as error:
            if reason := memory.failure(error):
                raise RulerError(self._name, reason) from error
            if not isinstance(error, Exception):
                raise
            problem = f"{FILES[0]} cannot be read: {first_line(error)}"
            raise UsageError(self._name, problem) from error

    @property
    def info(self) -> TokenizerInfo:
        """Name, origin and hashes, for the manifest."""
        return replace(super().info, identity=self._identity)

    @cached_property
    def _identity(self) -> str:
        """One sha256 of what decides on the tokens of the benchmark's prompts.

        Files that give the same tokens differ in bytes: merges are strings or pairs, a fine-tuned
        model is saved again, a package has only the ranks. So the identity covers the parsed
        vocabulary, and the token ids of prompts rendered by the chat template. Special tokens that
        no prompt holds (reserved ones, padding) are left out: rows never spell one.
        """
        prompts: list[object] = []
        for turn in TURNS:
            try:
                text = self.render(turn, PREFIX)
                bos = self._missing_bos(text.encode())
                prompts.append(bos + self._stock.ids(text).tolist())
            except UsageError:  # the template refuses a user turn
                prompts.append(None)
        words = cached_bytes(  # since parsing takes a second
            cache_dir("vocabularies") / f"{self._info.files[FILES[0]]}-2",
            lambda: self._ask(self._file.vocabulary).encode(),
        )
        return digest([words.decode(), prompts])

    @property
    def _reference(self) -> Counter:
        return self._stock

    def recount_prompt(self, content: str, answer_prefix: str) -> int:
        """Return what `count_prompt` does, always by the template and the reference."""
        return self._count(self._stock, self.render(content, answer_prefix).encode())

    def _checked_fast(self, probes: Probes) -> Fast:
        fast = Counter(
            self._ask(self._file.fast_version),
            lambda text: self._ask(self._file.fast_ids, text),
            lambda texts: self._ask(self._file.fast_counts, texts),
        )
        before, turn, after = self.render(TURNS[0], "").encode().partition(TURNS[0].encode())

        def framed(content: bytes, answer_prefix: str) -> bytes:
            """Return what the template renders, without running it."""
            # A template may strip a turn, which does not change one without space around it.
            if not turn or not _is_stripped(content):
                return self.render(content.decode(), answer_prefix).encode()
            return b"".join((before, content, after, answer_prefix.encode()))

        def check() -> bool:
            """Check the ids, and return whether the frame gives what the template renders."""
            prompts = list(probes())
            rendered = [self.render(*prompt) for prompt in prompts]
            check_parity(fast, self._stock, rendered)
            framed_prompts = [framed(content.encode(), prefix) for content, prefix in prompts]
            return framed_prompts == [text.encode() for text in rendered]

        if not check():
            turn = b""
        return Fast(fast, lambda content, prefix: self._count(fast, framed(utf8(content), prefix)))

    def _count(self, counter: Counter, text: bytes) -> int:
        return counter.count([text])[0] + len(self._missing_bos(text))

    def prompt_ids(
        self, content: str, answer_prefix: str, variables: Mapping[str, object] | None = PLAIN
    ) -> Ids:
        """Return the token ids of a prompt; see `PromptTokenizer.prompt_ids`."""
        text = self.render(content, answer_prefix, variables)
        bos = self._missing_bos(text[: len(self._bos_text or "")].encode())
        if variables is None and not bos and self.wants_bos and self.bos_id is not None:
            bos = [self.bos_id]  # the template, which is not used here, would write it
        counter = self._fast.counter if self._fast else self._stock
        ids = counter.ids(text)
        if bos:
            ids = np.concatenate([np.array(bos, dtype=np.uint32), ids])
        return ids

    def decode(self, ids: Sequence[int] | Ids, *, special: bool = True) -> str:
        """Return the text of token ids, with or without special tokens."""
        return self._ask(self._file.decode, ids, not special)

    @property
    def bos_id(self) -> int | None:
        """Id of BOS: the token that the tokenizer adds, else the one that its config names."""
        if self._added_bos is not None or self._bos_text is None:
            return self._added_bos
        return self._ask(self._file.id_of, self._bos_text)

    @property
    def opens_turn(self) -> bool:
        """Whether the template has a generation prompt, which opens the model's turn."""
        closed = {"add_generation_prompt": False}
        return self.render("x", "") != self.render("x", "", closed)

    @property
    def wants_bos(self) -> bool:
        """Whether the tokenizer, its config or its template puts BOS before prompts."""
        bos = self._bos_text
        return (
            self._added_bos is not None
            or self._names_bos
            or (bos is not None and self.has_template and self.render("x", "").startswith(bos))
        )

    def render(
        self, content: str, answer_prefix: str, variables: Mapping[str, object] | None = PLAIN
    ) -> str:
        """Return the text of a prompt; see `PromptTokenizer.prompt_ids`."""
        if not self.has_template or variables is None:
            return content + answer_prefix
        turn = {
            "messages": [{"role": "user", "content": content}],
            "add_generation_prompt": True,
            "tools": None,
            "documents": None,
        }
        return self._run_template({**turn, **self._special, **variables}) + answer_prefix

    def _run_template(self, variables: Mapping[str, object] | None) -> str:
        """Return what the template renders; without variables, only compile it.

        Raises:
            UsageError: it refuses the turn, or fails.
            RulerError: it takes too much memory.
        """
        try:
            return run_template(self._template, variables)
        except TemplateError as error:
            problem = f"its chat template cannot be used: {error}"
            raise UsageError(self._name, problem) from error
        except MemoryError as error:
            raise RulerError(self._name, f"its chat template {memory.excess()}") from error

    def _missing_bos(self, text: bytes) -> list[int]:
        """Return BOS unless the text has it: a template may write it, and two would be wrong."""
        if self._added_bos is None or (self._bos_text and text.startswith(self._bos_text.encode())):
            return []
        return [self._added_bos]

    def _find_bos(self) -> int | None:
        """Return the token that the tokenizer puts before every text, or None."""
        plain = self._ask(self._file.ids, "a")
        full = self._ask(self._file.ids, "a", special=True)
        if len(full) > len(plain) and full[0] != plain[0]:
            return full[0]
        return None


def read_config(folder: Path, name: str) -> dict[str, Any]:
    """Return a folder's `tokenizer_config.json`, empty if there is none.

    Raises:
        UsageError: it is not an object of JSON.
    """
    path = folder / FILES[1]
    where = f"tokenizer {name}"
    if not path.exists():
        return {}
    try:
        config = read_json(path)
    except ValueError as error:
        raise UsageError(where, f"{path.name} is not JSON: {error}") from error
    if not isinstance(config, dict):
        raise UsageError(where, f"{path.name} is {type(config).__name__}, not an object")
    return config


def _is_stripped(text: bytes) -> bool:
    """Whether a text has no white space around it; a character has at most four bytes."""
    ends = text[:4].decode(errors="ignore")[:1], text[-4:].decode(errors="ignore")[-1:]
    return not any(end.isspace() for end in ends)


def opened(path: Path) -> "TokenizerFile":
    """Return a file that is loaded once per process: a command loads it in several places."""
    return _loaded(path.resolve(), path.stat().st_mtime_ns)


@lru_cache(maxsize=2)
def _loaded(path: Path, _changed: int) -> "TokenizerFile":
    return TokenizerFile(path)


class TokenizerFile:
    """A file that is loaded."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._tokenizer = tokenizers.Tokenizer.from_file(str(path))
        self._tokenizer.no_truncation()
        self._tokenizer.no_padding()

    def special_tokens(self) -> tuple[str, ...]:
        """Return the texts of the special tokens."""
        added = self._tokenizer.get_added_tokens_decoder().values()
        return tuple(token.content for token in added if token.special)

    def ids(self, text: Text, special: bool = False) -> list[int]:
        """Return the token ids of a text; `special` adds what the tokenizer adds to every text."""
        # Unlike `encode`, this lets other threads run, so that Ctrl-C ends it.
        (encoding,) = self._tokenizer.encode_batch([decoded(text)], add_special_tokens=special)
        return encoding.ids

    def counts(self, texts: Sequence[Text]) -> list[int]:
        """Return the number of tokens of each text."""
        whole = [decoded(text) for text in texts]
        encoded = self._tokenizer.encode_batch_fast(whole, add_special_tokens=False)
        return [len(encoding) for encoding in encoded]

    def decode(self, ids: Sequence[int] | Ids, skip_special: bool) -> str:
        """Return the text of token ids."""
        numbers = np.asarray(ids).tolist()
        return self._tokenizer.decode(numbers, skip_special_tokens=skip_special)

    def id_of(self, token: str) -> int | None:
        """Return the id of a token's text, or None."""
        return self._tokenizer.token_to_id(token)

    def vocabulary(self) -> str:
        """Return `vocabulary` of the file."""
        return vocabulary(read_json(self._path))

    @cached_property
    def _fast(self) -> Counter:
        return gigatoken_counter(self._path.name, lambda module: module.Tokenizer(self._path))

    def fast_version(self) -> str:
        """Return the version of gigatoken, which now has loaded the file."""
        return self._fast.version

    def fast_ids(self, text: Text) -> Ids:
        """Return what `ids` does, by gigatoken."""
        return self._fast.ids(text)

    def fast_counts(self, texts: Sequence[Text]) -> list[int]:
        """Return what `counts` does, by gigatoken."""
        return [len(self._fast.encode(text)) for text in texts]


def vocabulary(body: Mapping[str, Any]) -> str:
    """Return a sha256 of what decides on the tokens of plain text in a `tokenizer.json`.

    >>> ids = {"a": 0, "b": 1, "ab": 2}
    >>> pairs = {"type": "BPE", "dropout": None, "vocab": ids, "merges": [["a", "b"]]}
    >>> vocabulary({"model": pairs}) == vocabulary({"model": {"vocab": ids, "merges": ["a b"]}})
    True
    """
    model = {name: value for name, value in body["model"].items() if value not in (None, False)}
    if "merges" in model:
        model["type"] = "BPE"  # files of old versions do not name it
        model["merges"] = [
            merge.split(" ") if isinstance(merge, str) else merge for merge in model["merges"]
        ]
    added = [token for token in body.get("added_tokens") or () if not token.get("special")]
    stages = (body.get("normalizer"), body.get("pre_tokenizer"))
    return digest([*map(_without_offsets, stages), added, model])


def _without_offsets(value: Any) -> Any:  # noqa: ANN401 - JSON
    """Return a part without the setting that moves offsets and changes no token."""
    if isinstance(value, list):
        return [_without_offsets(item) for item in value]
    if isinstance(value, dict):
        return {k: _without_offsets(value) for k, value in value.items() if k != "trim_offsets"}
    return value


def digest(value: object) -> str:
    """Return the sha256 of a value as JSON."""
    text = json.dumps(value, sort_keys=True, ensure_ascii=False, separators=(",", ":"))
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()
