"""The options of a run, checked as far as no file is needed, and how their texts are read."""

import json
import os
import re
from ast import literal_eval
from collections.abc import Callable, Iterable, Mapping
from dataclasses import field, fields
from functools import cached_property
from numbers import Integral, Real
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import (
    BeforeValidator,
    Field,
    NonNegativeFloat,
    NonNegativeInt,
    PositiveFloat,
    PositiveInt,
    ValidationError,
)
from pydantic.dataclasses import dataclass

from ruler_data.errors import UsageError
from ruler_data.names import parse_length, parse_lengths, parse_names, quote
from ruler_data.procedures import find_procedure
from ruler_eval.prompts import PROTOCOLS, PromptFormat, ProtocolName

#: Engines; each is a module of `ruler_eval.engines` with a function `prepare`.
EngineName = Literal["vllm", "transformers", "openai", "ray", "python", "oracle"]
#: Sampling that changes nothing, by vLLM's names; at least one token, as an immediate end is no
#: answer. It is asked for by name, because a server's model may bring other values of its own.
NEUTRAL = {
    "temperature": 0.0, "top_p": 1.0, "top_k": -1, "min_p": 0.0, "repetition_penalty": 1.0,
    "presence_penalty": 0.0, "frequency_penalty": 0.0, "min_tokens": 1,
}  # fmt: skip
#: Values that Python has and JSON has not.
_PYTHON = re.compile(r"True|False|None|[+-]?(\d+\.\d*|\.\d+)([eE][+-]?\d+)?", re.ASCII)


def parse_rows(rows: str | int | Mapping[int, int] | None) -> int | dict[int, int] | None:
    """Return a number of rows, for all configs or by length in tokens.

    >>> parse_rows("40"), parse_rows("4096:40, 8k:20")
    (40, {4096: 40, 8192: 20})
    """
    if rows is None:
        return None
    text = str(rows)
    if isinstance(rows, Mapping):
        text = ",".join(f"{length}:{count}" for length, count in rows.items())
    if not re.fullmatch(r"[1-9]\d*|\w+:[1-9]\d*(, *\w+:[1-9]\d*)*", text):
        msg = f"rows {quote(text)}: write a number from 1, or LENGTH:ROWS (4k:40,8k:20)"
        raise UsageError(msg)
    if ":" not in text:
        return int(text)
    pairs = [pair.strip().split(":") for pair in text.split(",")]
    counts = {parse_length(length, "rows"): int(count) for length, count in pairs}
    if len(counts) < len(pairs):
        msg = f"rows {quote(text)}: names a length twice"
        raise UsageError(msg)
    return counts


def plain(value: Any) -> Any:  # noqa: ANN401 - any value of an option
    """Return a value as JSON has it: a path as a text, a number of numpy as one of Python.

    >>> plain({"path": Path("models/x"), "on": (True, 1)})
    {'path': 'models/x', 'on': [True, 1]}
    """
    if isinstance(value, dict):
        return {name: plain(item) for name, item in value.items()}
    if isinstance(value, list | tuple):
        return [plain(item) for item in value]
    if isinstance(value, os.PathLike):
        return os.fspath(value)
    if isinstance(value, Real) and not isinstance(value, bool):
        return int(value) if isinstance(value, Integral) else float(value)
    return value


def parse_options(texts: Iterable[str] | Mapping[str, Any] | None) -> dict[str, Any]:
    """Return options, which may be written NAME=VALUE, by name.

    A value is JSON, or one of Python's True, False, None, .5 and 5., or else a text.

    >>> parse_options(["max_num_seqs=8", "dtype=float32", 'hf_overrides={"a": 1}', "ratio=.5"])
    {'max_num_seqs': 8, 'dtype': 'float32', 'hf_overrides': {'a': 1}, 'ratio': 0.5}
    """
    options: dict[str, Any] = {}
    if isinstance(texts, Mapping):
        for name, value in texts.items():
            options[name] = plain(value)
            try:
                json.dumps(options[name], ensure_ascii=False).encode()  # as in a run's fingerprint
            except (TypeError, ValueError, RecursionError) as error:
                option = f"option {name}={quote(repr(value))}"
                remedy = "give a function such a value with functools.partial"
                raise UsageError(option, f"has no form in JSON ({error}); {remedy}") from error
        return options
    for text in texts or ():
        name, equals, value = text.partition("=")
        if not (equals and name.isidentifier()) or name in options:
            reason = "given twice" if name in options else "write NAME=VALUE"
            raise UsageError(f"--option {quote(text)}", reason)  # noqa: EM102
        try:
            options[name] = json.loads(value)
        except (ValueError, RecursionError):
            options[name] = literal_eval(value) if _PYTHON.fullmatch(value) else value
    return options


@dataclass(frozen=True, kw_only=True)
class EvalConfig:
    """The rows, the model, and how it answers; see the parameters of `ruler_eval.run`."""

    data: str | Path = ""
    model: str | Path = ""
    engine: EngineName = "vllm"
    procedure: str | None = None
    protocol: ProtocolName = "completion"
    revision: str | None = None
    configs: tuple[str, ...] = ()  # empty for all
    tasks: tuple[str, ...] = ()  # likewise
    lengths: tuple[int, ...] = ()  # likewise
    rows: Annotated[int | dict[int, int] | None, BeforeValidator(parse_rows)] = None
    options: Annotated[dict[str, Any], BeforeValidator(parse_options)] = field(default_factory=dict)
    extra_tokens: NonNegativeInt | None = None
    no_context: bool = False
    samples: PositiveInt = 1
    temperature: Annotated[float, Field(ge=0)] | None = None
    top_p: Annotated[float, Field(gt=0, le=1)] | None = None
    tensor_parallel: PositiveInt = 1
    price_in: NonNegativeFloat | None = None
    price_out: NonNegativeFloat | None = None
    budget: PositiveFloat | None = None
    budget_tokens: PositiveInt | None = None
    base_url: str | None = None
    tokenizer: str | Path | None = None
    model_name: str | None = None
    model_revision: str | None = None
    generate: Callable[..., Any] | None = None

    @classmethod
    def of(cls, arguments: Mapping[str, Any]) -> "EvalConfig":
        """Return those arguments of a command that are options of a run.

        Raises:
            UsageError: a value is not one of its option, or two options contradict each other.
        """
        values = {
            field.name: arguments[field.name] for field in fields(cls) if field.name in arguments
        }
        if values.get("procedure") is not None:
            values = _as_published(values)
        values["protocol"] = values.get("protocol") or "completion"
        for name, parse in (
            ("configs", parse_names),
            ("tasks", parse_names),
            ("lengths", parse_lengths),
        ):
            values[name] = parse(values.get(name), f"--{name}")
        try:
            return cls(**values)
        except ValidationError as error:
            first = error.errors()[0]
            option = f"{first['loc'][0]} {quote(str(first['input']))}"
            raise UsageError(option, first["msg"]) from error

    def __post_init__(self) -> None:
        """Check options against each other; a function or an address selects its engine."""
        if self.engine == "vllm" and (self.generate is not None or self.base_url is not None):
            object.__setattr__(self, "engine", "python" if self.generate else "openai")
        python, greedy = self.engine == "python", not self.temperature
        repeats_itself = self.samples > 1 and greedy and self.engine not in ("python", "oracle")
        conflicts = {
            f"top_p {self.top_p}: needs a temperature over 0": self.top_p is not None
            and greedy
            and self.procedure is None,
            "temperature: engine python samples by itself; give its function an --option": python
            and self.temperature is not None
            and self.procedure is None,
            f"generate: engine {self.engine} calls no function; leave --engine out": (
                self.generate is not None and not python
            ),
            f"samples {self.samples}: greedy answers are all the same; add a temperature": (
                repeats_itself
            ),
            "--budget: give --price-in and --price-out, or --budget-tokens": (
                self.budget is not None and None in (self.price_in, self.price_out)
            ),
            f"--base-url is for engine openai; leave it or --engine {self.engine} out": (
                self.base_url is not None and self.engine != "openai"
            ),
        }
        for message, holds in conflicts.items():
            if holds:
                raise UsageError(message)

    def to_arguments(self) -> dict[str, Any]:
        """Return the arguments of `run` that give the same, as JSON values; without a function."""
        arguments = {field.name: getattr(self, field.name) for field in fields(self)}
        del arguments["generate"]
        arguments |= {name: arguments[name] or None for name in ("configs", "tasks", "lengths")}
        return json.loads(json.dumps(arguments, default=str))  # type: ignore[no-any-return]

    @property
    def sampling(self) -> dict[str, Any]:
        """Sampling options of requests: neutral, but for those that the user sets."""
        top_p = {} if self.top_p is None else {"top_p": self.top_p}
        random = {"temperature": self.temperature, "seed": "of the row and the sample"}
        return NEUTRAL | top_p | (random if self.temperature else {})

    @cached_property
    def prompts(self) -> PromptFormat:
        """How rows are formatted."""
        protocol = PROTOCOLS[self.protocol]
        extra = protocol.extra_tokens if self.extra_tokens is None else self.extra_tokens
        in_turn = self.procedure is not None and find_procedure(self.procedure).prefix == "turn"
        return PromptFormat(protocol, extra, self.no_context, prefix_in_turn=in_turn)


def _as_published(values: Mapping[str, Any]) -> dict[str, Any]:
    """Return the options of a run as its procedure sets them; fewer rows or lengths are the user's.

    Raises:
        UsageError: an option contradicts the procedure.
    """
    source = find_procedure(values["procedure"])
    names = ("protocol", "temperature", "top_p", "extra_tokens")
    arguments = {"temperature": None, "top_p": None, "extra_tokens": None, **values}
    fixed = {name: getattr(source, name, None) for name in names[1:]}
    options = source.settle(arguments, protocol=source.protocols, **fixed)
    return {**options, "rows": source.rows if options.get("rows") is None else options["rows"]}
