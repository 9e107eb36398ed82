"""What an engine gets and what it gives.

Options of engines: `--option NAME=VALUE`, checked against what the engine knows.
"""

import difflib
import json
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field, fields
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any, Protocol, TypeVar

from pydantic import TypeAdapter, ValidationError

from ruler_data.errors import UsageError
from ruler_data.names import quote
from ruler_data.row import Row
from ruler_data.tokenizers import PromptTokenizer
from ruler_eval.models import Model
from ruler_eval.prompts import PromptFormat
from ruler_eval.schema import Prediction

#: Greedy, and at least one token: an end of text at once would be no answer.
GREEDY: Mapping[str, Any] = {"temperature": 0.0, "min_tokens": 1}


@dataclass(frozen=True, slots=True)
class Request:
    """One row as an engine gets it.

    Attributes:
        config: e.g. `vt_4096`.
        row: the row.
        ids: token ids of the prompt; empty where the server renders it.
        max_tokens: tokens that the answer may take.
    """

    config: str
    row: Row
    ids: list[int]
    max_tokens: int

    def answered(
        self,
        text: str,
        finish: str | None,
        answer_tokens: int | None,
        seconds: float | None,
        prompt_tokens: int | None = None,
        cached_tokens: int | None = None,
    ) -> Prediction:
        """Return what was said."""
        return Prediction(
            config=self.config,
            index=self.row.index,
            text=text,
            finish=finish,
            prompt_tokens=prompt_tokens if prompt_tokens is not None else len(self.ids) or None,
            answer_tokens=answer_tokens,
            seconds=seconds if seconds is None else round(seconds, 4),
            cached_tokens=cached_tokens,
        )

    def unscored(self, error: str) -> Prediction:
        """Return that, and why, there is no answer."""
        return Prediction(self.config, self.row.index, None, None, None, None, None, error)


@dataclass(frozen=True)
class EngineConfig:
    """What an engine is made from.

    Attributes:
        model: the model.
        tokenizer: that renders prompts; None where the engine finds one with the model.
        asking: how rows are put.
        longest: tokens of the longest prompt with its answer.
        tensor_parallel: GPUs that share one copy of the model.
        options: arguments of the engine's own, by name.
        base_url: address of a server.
    """

    model: Model
    tokenizer: PromptTokenizer | None
    asking: PromptFormat
    longest: int
    tensor_parallel: int = 1
    options: Mapping[str, Any] = field(default_factory=dict)
    base_url: str | None = None


class Engine(Protocol):
    """What turns prompts into answers."""

    @property
    def info(self) -> dict[str, Any]:
        """Versions, dtype, parallelism and options, for the record; known before it loads."""
        ...

    @property
    def sampling(self) -> dict[str, Any]:
        """What is asked of it beyond the rows' own `max_new_tokens`, for the record."""
        ...

    @property
    def window(self) -> int | None:
        """Tokens that prompt and answer may take together; None where it is not known."""
        ...

    @property
    def renders(self) -> bool:
        """Whether it puts the template round the turn itself, so that it needs no ids."""
        ...

    def answer(self, asks: Iterator[Request | None]) -> Iterator[Prediction]:
        """Yield an answer for each row, in any order, taking rows as it has room for them.

        None instead of a row says that none is ready yet, and that the engine should get on with
        those that it has; it never comes where it has none.

        A row that fails is yielded as unscored. The engine loads with the first row, and frees
        what it holds when the iterator is closed.

        Raises:
            RulerError: it cannot load, or no more answers can be had from it.
        """
        ...


T = TypeVar("T")


def parse(texts: Iterable[str]) -> dict[str, Any]:
    """Return options by name; values are JSON, or plain text where they are none.

    >>> parse(["max_num_seqs=8", "dtype=float32", 'hf_overrides={"a": 1}'])
    {'max_num_seqs': 8, 'dtype': 'float32', 'hf_overrides': {'a': 1}}

    Raises:
        UsageError: one is not NAME=VALUE, or is given twice.
    """
    found: dict[str, Any] = {}
    for text in texts:
        name, equals, value = text.partition("=")
        if not (equals and name.isidentifier()):
            msg = f"--option {quote(text)}: write NAME=VALUE"
            raise UsageError(msg)
        if name in found:
            msg = f"--option {name}: given twice"
            raise UsageError(msg)
        try:
            found[name] = json.loads(value)
        except ValueError:
            found[name] = value
    return found


def check(engine: str, known: Iterable[str], options: Mapping[str, Any]) -> None:
    """Refuse options that an engine does not know.

    Raises:
        UsageError: naming what was probably meant.
    """
    names = sorted(known)
    for name in options:
        if name not in names:
            near = difflib.get_close_matches(name, names, 3)
            hint = f"did you mean {' or '.join(near)}?" if near else f"it has {len(names)} others"
            if not near and len(names) <= 12:
                hint = f"it knows {', '.join(names)}"
            msg = f"--option {quote(name)}: engine {engine} has no such option; {hint}"
            raise UsageError(msg)


def installed(engine: str, *packages: str) -> dict[str, str]:
    """Return the versions of the packages that an engine needs.

    Raises:
        UsageError: the first of them is not installed.
    """
    found: dict[str, str] = {}
    for package in packages:
        for name in (package, f"{package}-cpu"):
            with suppress(PackageNotFoundError):
                found[package] = version(name)
                break
    if packages[0] not in found:
        msg = f"engine {engine} is not installed; pip install 'ruler-data[{engine}]'"
        raise UsageError(msg)
    return found


def published(options: Mapping[str, Any]) -> dict[str, Any]:
    """Return options as a run records them: of a path only its last part.

    >>> published({"download_dir": "/home/me/models", "max_num_seqs": 8})
    {'download_dir': 'models', 'max_num_seqs': 8}
    """
    return {
        name: Path(value).name if isinstance(value, str) and "/" in value else value
        for name, value in options.items()
    }


def take(engine: str, kind: type[T], options: Mapping[str, Any]) -> T:
    """Return options as a dataclass of an engine.

    Raises:
        UsageError: one is not known, or its value is not of its type.
    """
    check(engine, (field.name for field in fields(kind)), options)  # type: ignore[arg-type]
    try:
        return TypeAdapter(kind).validate_python(dict(options))
    except ValidationError as error:
        first = error.errors()[0]
        name = ".".join(map(str, first["loc"]))
        msg = f"--option {name}={quote(str(first['input']))}: {first['msg']}"
        raise UsageError(msg) from error
