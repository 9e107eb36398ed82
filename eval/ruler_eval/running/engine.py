"""The interface of an engine: `Request` in, `Answer` out, and its options.

Each engine is a module of this package with a function `prepare`, which imports its heavy library
when it first generates.
"""

import hashlib
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field, fields, replace
from importlib import import_module
from importlib.metadata import PackageNotFoundError, version
from typing import TYPE_CHECKING, Any, TypeVar, get_type_hints

from pydantic import TypeAdapter, ValidationError

from ruler_data.errors import UsageError
from ruler_data.names import near, quote
from ruler_data.row import Row, question_digest
from ruler_data.tokenizers import PromptTokenizer
from ruler_data.tokenizers.protocol import Ids
from ruler_eval.running.answers import LARGEST, Answer, Key, why_unanswered
from ruler_eval.running.config import EvalConfig
from ruler_eval.running.models import Model
from ruler_eval.running.spending import Ledger

if TYPE_CHECKING:
    from _typeshed import DataclassInstance


#: Options of an engine that are named where another is wanted.
MANY = 12
#: Types of the fields of a record.
KINDS = get_type_hints(Answer)


@dataclass(frozen=True, slots=True, eq=False)
class Request:
    """One row, or one sample of it, as an engine gets it.

    Attributes:
        config: e.g. `vt_4096`.
        row: the frozen row; its context and its question are separate. A function gets it without
            what the prompt leaves out.
        ids: token ids of the prompt, as rendered here: an array of uint32.
        max_tokens: tokens that the answer may take.
        prompt: the prompt as text, only for engine `python`; a BOS that the tokenizer adds itself
            is in `ids` only.
        sample: number of the sample, from 0.
    """

    config: str
    row: Row
    ids: Ids
    max_tokens: int
    prompt: str = ""
    sample: int = 0

    @property
    def key(self) -> Key:
        """The row and the sample of the request."""
        return self.config, self.row.index, self.sample

    @property
    def seed(self) -> int:
        """A seed of 31 bits for sampling: the same whenever this sample is requested."""
        digest = hashlib.sha256("/".join(map(str, self.key)).encode()).digest()
        return int.from_bytes(digest[:4]) >> 1

    def answered(
        self,
        text: str | None,
        finish: str | None,
        answer_tokens: int | None,
        seconds: float,
        rendered: int | None = None,
        slack: int = 0,
        **details: Any,  # noqa: ANN401 - fields of `Answer`
    ) -> Answer:
        """Return the record of what was generated; an error if it does not answer the row.

        `details` are more fields of `Answer`; the engine read the prompt as it was rendered if they
        do not say otherwise. A server should read `rendered` tokens, those of the prompt if this is
        None; its count may differ by up to `slack`.
        """
        read = {"prompt_tokens": len(self.ids), "counted": "engine"}
        details = {**read, **details, "answer_tokens": answer_tokens}
        details |= {"text": text, "finish": finish, "seconds": round(seconds, 4)}
        # A server or a function may return anything.
        misreported = {
            name: f"{_short(value)} is reported as {name}"
            for name, value in details.items()
            if not _fits(value, KINDS[name])
        }
        answer = replace(self.failed(""), error=None, **(details | dict.fromkeys(misreported)))
        error = next(iter(misreported.values()), None) or why_unanswered(
            answer,
            budget=self.max_tokens,
            rendered=len(self.ids) if rendered is None else rendered,
            slack=slack,
        )
        if error is None:
            return answer
        return replace(answer, text=None, error=error)

    def failed(self, error: str) -> Answer:
        """Return the record of a row that got no answer, for this reason."""
        digest = question_digest(self.row)
        place = self.config, self.row.index
        return Answer(*place, error=error, sample=self.sample, question_digest=digest)


def _fits(value: object, kind: Any) -> bool:  # noqa: ANN401 - a type, or a union of types
    is_count = type(value) is int and 0 <= value < LARGEST
    return isinstance(value, kind) and (is_count or not isinstance(value, int))


def _short(value: object) -> str:
    if isinstance(value, int) and abs(value) >= LARGEST:
        return quote(hex(value))  # `str` refuses thousands of digits
    return quote(str(value))


#: Yields an answer for each request, in any order, taking requests as it has room. None instead
#: of a request means that none is ready yet, and that the engine should work on those it has; it
#: never occurs while the engine has none. A row that fails is yielded as an error. The engine loads
#: when this is first called, and frees what it holds when the iterator is closed. It raises a
#: RulerError if it cannot load, or cannot answer any more.
Generate = Callable[[Iterator[Request | None]], Iterator[Answer]]


@dataclass(frozen=True)
class Setup:
    """What an engine is made from."""

    config: EvalConfig
    model: Model
    tokenizer: PromptTokenizer | None  # that renders here; None in a copy on Ray
    longest: int  # tokens of the longest prompt with its answer


@dataclass(frozen=True)
class Engine:
    """What answers requests; not loaded yet."""

    generate: Generate
    info: dict[str, Any]  # versions, dtype, parallelism, options that decide on answers
    sampling: dict[str, Any]  # what requests set beyond the rows' own `max_new_tokens`
    window: int | None  # tokens that a prompt with its answer may take, if that is known
    renders_prompts: bool = False  # whether it applies the chat template itself
    #: For a server only: returns the engine as requests reveal it, with other `info`, `sampling`
    #: and `seen`. It is called once, when the shard is locked, and before they are recorded.
    open: "Callable[[Ledger], Engine] | None" = None
    #: What was seen of a server: `offset`, `sampling` and `window` (`running.calibration`).
    seen: dict[str, Any] = field(default_factory=dict)


def prepare(setup: Setup) -> Engine:
    """Return the engine that the options name, ready to load; nothing heavy has happened yet."""
    module = import_module(f"ruler_eval.running.{setup.config.engine}")
    engine: Engine = module.prepare(setup)
    return engine


class NotInstalled(UsageError):
    """The library of an engine is not installed here, or cannot be imported."""


T = TypeVar("T", bound="DataclassInstance")


def check_options(engine: str, allowed: Iterable[str], options: Mapping[str, Any]) -> None:
    """Refuse options that an engine does not know, naming the one that is spelled similarly."""
    names = sorted(allowed)
    for name in options:
        if name not in names:
            hint = near(name, names) or f"; it takes {', '.join(names[:MANY])}"
            raise UsageError(f"--option {quote(name)}", f"engine {engine} has no such option{hint}")


def take_options(kind: type[T], options: Mapping[str, Any]) -> tuple[T, dict[str, Any]]:
    """Return the options that are fields of an engine's dataclass, as such, and all others."""
    names = {option.name for option in fields(kind)} & options.keys()
    try:
        engine_options = TypeAdapter(kind).validate_python({name: options[name] for name in names})
    except ValidationError as error:
        first = error.errors()[0]
        option = f"--option {'.'.join(map(str, first['loc']))}={quote(str(first['input']))}"
        raise UsageError(option, first["msg"]) from error
    return engine_options, {name: value for name, value in options.items() if name not in names}


def read_options(engine: str, kind: type[T], options: Mapping[str, Any]) -> T:
    """Return the options of an engine that takes no others."""
    check_options(engine, (option.name for option in fields(kind)), options)
    return take_options(kind, options)[0]


def installed_versions(engine: str, *packages: str) -> dict[str, str]:
    """Return the versions of the packages that an engine needs; the first must be installed."""
    versions: dict[str, str] = {}
    for package in packages:
        for name in (f"{package}-cpu", package):
            with suppress(PackageNotFoundError):
                versions[package] = version(name)
    if packages[0] not in versions:
        raise NotInstalled(
            f"engine {engine} is not installed; pip install -e '.[{engine}]' in the checkout"
        )
    return versions
