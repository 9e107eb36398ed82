"""The options of a run, each declared here alone: type, default, limits, and what it is for.

`run` takes its signature from `EvalConfig`; what follows reads it.
"""

from __future__ import annotations

import json
import math
import os
import re
from ast import literal_eval
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from dataclasses import KW_ONLY, dataclass, fields
from functools import cached_property
from numbers import Integral, Real
from pathlib import Path
from typing import Annotated, Any, Literal

from typer import Option

from ruler_data.errors import UsageError
from ruler_data.names import parse_length, parse_lengths, parse_names, quote
from ruler_data.signatures import fitting
from ruler_eval.running.prompts import PROTOCOLS, PromptFormat, ProtocolName

#: Sampling that changes nothing, by vLLM's names; at least one token, as an immediate end is no
#: answer. It is asked for by name, because a server's model may bring other values of its own.
NEUTRAL = {
    "temperature": 0.0, "top_p": 1.0, "top_k": -1, "min_p": 0.0, "repetition_penalty": 1.0,
    "presence_penalty": 0.0, "frequency_penalty": 0.0, "min_tokens": 1,
}  # fmt: skip
#: Values that Python has and JSON has not.
_PYTHON = re.compile(r"True|False|None|[+-]?(\d+\.\d*|\.\d+)([eE][+-]?\d+)?", re.ASCII)

Rows = int | dict[int, int] | None
#: Options that other commands have too.
Model = Annotated[
    str | Path,
    Option(
        help="Folder, Hub id, or what a server calls it.",
        show_default=False,
    ),
]
BaseUrl = Annotated[str | None, Option(help="Address of an OpenAI-compatible server, with /v1.")]
EngineOptions = Annotated[
    list[str] | Mapping[str, Any] | None,
    Option("--option", help="Option of the engine; repeatable.", metavar="NAME=VALUE"),
]
Tokenizer = Annotated[
    str | Path | None,
    Option(help="Of prompts [default: the model's, else the data's]."),
]


def parse_rows(rows: str | int | Mapping[int, int] | None) -> Rows:
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
        raise UsageError(f"rows {quote(text)}: write a number from 1, or LENGTH:ROWS (4k:40,8k:20)")
    if ":" not in text:
        return int(text)
    pairs = [pair.strip().split(":") for pair in text.split(",")]
    counts = {parse_length(length, "rows"): int(count) for length, count in pairs}
    if len(counts) < len(pairs):
        raise UsageError(f"rows {quote(text)}: names a length twice")
    return counts


def parse_prices(prices: str | Collection[float] | None) -> tuple[float, float] | None:
    """Return the prices of a million tokens read, and of a million written.

    >>> parse_prices("1.25,10")
    (1.25, 10.0)
    """
    if prices is None:
        return None
    texts = prices.split(",") if isinstance(prices, str) else prices
    try:
        price_in, price_out = map(float, texts)
    except ValueError:
        price_in = price_out = math.nan
    if not (0 <= price_in < math.inf and 0 <= price_out < math.inf):
        problem = "write two numbers from 0, of a million tokens read and written, e.g. 1.25,10"
        raise UsageError(f"--prices {quote(str(prices))}", problem)
    return price_in, price_out


def plain(value: Any) -> Any:  # noqa: ANN401 - any value
    """Return a path as a text, and a number of numpy as one of Python; all else as it is."""
    if isinstance(value, os.PathLike):
        return os.fspath(value)
    if isinstance(value, bool | int | float):
        return value
    if isinstance(value, Integral):
        return int(value)
    return float(value) if isinstance(value, Real) else value


def parse_options(texts: Iterable[str] | Mapping[str, Any] | None) -> dict[str, Any]:
    """Return options, which may be written NAME=VALUE, by name.

    A value is JSON, or one of Python's True, False, None, .5 and 5., or else a text.

    >>> parse_options(["max_num_seqs=8", "dtype=float32", 'hf_overrides={"a": 1}', "ratio=.5"])
    {'max_num_seqs': 8, 'dtype': 'float32', 'hf_overrides': {'a': 1}, 'ratio': 0.5}
    """
    if isinstance(texts, Mapping):
        return _as_json_values(texts)
    options: dict[str, Any] = {}
    for text in texts or ():
        name, equals, value = text.partition("=")
        if not equals or not name.isidentifier():
            raise UsageError(f"--option {quote(text)}", "write NAME=VALUE")
        if name in options:
            raise UsageError(f"--option {quote(text)}", "given twice")
        try:
            options[name] = json.loads(value)
        except (ValueError, RecursionError):
            options[name] = literal_eval(value) if _PYTHON.fullmatch(value) else value
    return options


def _as_json_values(options: Mapping[str, Any]) -> dict[str, Any]:
    """Return options by name as a run's fingerprint has them.

    >>> _as_json_values({"path": Path("models/x"), "on": (True, 1)})
    {'path': 'models/x', 'on': [True, 1]}
    """
    values: dict[str, Any] = {}
    for name, value in options.items():
        try:
            text = json.dumps(value, ensure_ascii=False, default=_json_value)
            values[name] = json.loads(text.encode())
        except (TypeError, ValueError, RecursionError) as error:
            option = f"option {name}={quote(repr(value))}"
            remedy = "give a function such a value with functools.partial"
            raise UsageError(option, f"has no form in JSON ({error}); {remedy}") from error
    return values


def _json_value(value: object) -> object:
    simple = plain(value)
    if simple is value:
        raise TypeError(f"Object of type {type(value).__name__}")
    return simple


@dataclass(frozen=True)
class EvalConfig:
    """The rows, the model, and how it answers."""

    data: Annotated[str | Path, Option(help="Frozen rows: a folder, or a Hub repo.")]
    _: KW_ONLY
    model: Model = ""
    procedure: Annotated[
        str | None,
        Option(help="As a published number (`ruler-data list procedures`)."),
    ] = None
    #: Each is a module of `ruler_eval.running` with a function `prepare`.
    engine: Annotated[
        Literal["vllm", "transformers", "openai", "ray", "python", "oracle"],
        Option(help="What answers [default: vllm].", show_default=False),
    ] = "vllm"
    protocol: Annotated[
        ProtocolName | None,
        Option(help="How prompts are formatted [default: completion]."),
    ] = None
    revision: Annotated[str | None, Option(help="Tag or commit of the data's repo.")] = None
    tasks: Annotated[str | Collection[str] | None, Option(help="E.g. vt,cwe [default: all].")] = (
        None
    )
    lengths: Annotated[
        str | Collection[int | str] | None, Option(help="E.g. 4k,131072 [default: all].")
    ] = None
    rows: Annotated[
        str | int | Mapping[int, int] | None,
        Option(help="First rows of each config, e.g. 40 or 4k:40,8k:20."),
    ] = None
    tensor_parallel: Annotated[int, Option(help="GPUs of one copy of the model.", min=1)] = 1
    options: EngineOptions = None
    extra_tokens: Annotated[
        int | None,
        Option(
            help="More answer tokens [default: 8192 in thinking].",
            min=0,
        ),
    ] = None
    samples: Annotated[int, Option(help="Answers to a row, at a temperature.", min=1)] = 1
    temperature: Annotated[
        float | None, Option(help="Sampling temperature [default: 0, greedy].", min=0)
    ] = None
    top_p: Annotated[
        float | None,
        Option(help="Top-p of sampling [default: 1].", min=0, max=1),
    ] = None
    no_context: Annotated[bool, Option(help="Leave the context out, as a baseline.")] = False
    prices: Annotated[
        str | Collection[float] | None,
        Option(help="Price of a million tokens, e.g. 1.25,10.", metavar="IN,OUT"),
    ] = None
    base_url: BaseUrl = None
    tokenizer: Tokenizer = None
    model_name: Annotated[str | None, Option(help="Name to record [default: the model's].")] = None
    model_revision: Annotated[str | None, Option(help="Tag or commit of the model's repo.")] = None
    generate: Callable[..., Any] | None = None

    def __post_init__(self) -> None:
        """Settle what options decide together, and refuse those that contradict each other.

        A procedure sets options; a function or an address selects its engine.

        Raises:
            UsageError: a text cannot be read, or two options contradict each other.
        """
        settled: dict[str, Any] = {"protocol": self.protocol or "completion"}
        if self.procedure is not None:
            settled |= _as_published(self)
        if self.engine == "vllm" and self.generate is not None:
            settled["engine"] = "python"
        elif self.engine == "vllm" and self.base_url is not None:
            settled["engine"] = "openai"
        settled["prices"] = parse_prices(self.prices)
        for name, value in settled.items():
            object.__setattr__(self, name, value)
        _ = self.selection, self.settings
        for conflict in self._conflicts():
            raise UsageError(conflict)

    def _conflicts(self) -> Iterator[str]:
        """Yield which options contradict each other, and what to do."""
        engine = self.engine
        is_greedy = not self.temperature
        is_sampler = engine in ("python", "oracle")  # whose answers differ by themselves
        if self.top_p == 0:
            yield "top_p 0: keeps no token; give a share over 0"
        if self.procedure is None and self.top_p is not None and is_greedy:
            yield f"top_p {self.top_p}: needs a temperature over 0"
        if self.procedure is None and self.temperature is not None and engine == "python":
            yield "temperature: engine python samples by itself; give its function an --option"
        if self.samples > 1 and is_greedy and not is_sampler:
            yield f"samples {self.samples}: greedy answers are all the same; add a temperature"
        yield from self._engine_conflicts()

    def _engine_conflicts(self) -> Iterator[str]:
        """Yield which options are of another engine."""
        if self.generate is not None and self.engine != "python":
            yield f"generate: engine {self.engine} calls no function; leave --engine out"
        if self.base_url is not None and self.engine != "openai":
            yield f"--base-url is for engine openai; leave it or --engine {self.engine} out"

    @property
    def selection(self) -> tuple[Rows, tuple[str, ...], tuple[int, ...]]:
        """Rows, tasks and lengths to run, for `Dataset.choose`."""
        tasks = parse_names(self.tasks, "--tasks")
        lengths = parse_lengths(self.lengths, "--lengths")
        return parse_rows(self.rows), tasks, lengths

    @cached_property
    def settings(self) -> dict[str, Any]:
        """Options of the engine by name."""
        return parse_options(self.options)

    @property
    def sampling(self) -> dict[str, Any]:
        """Sampling options of requests: neutral, but for those that the user sets."""
        sampling: dict[str, Any] = dict(NEUTRAL)
        if self.top_p is not None:
            sampling["top_p"] = self.top_p
        if self.temperature:
            sampling["temperature"] = self.temperature
            sampling["seed"] = "of the row and the sample"
        return sampling

    @cached_property
    def prompts(self) -> PromptFormat:
        """How rows are formatted."""
        protocol = PROTOCOLS[self.protocol or "completion"]
        extra = self.extra_tokens
        if extra is None:
            extra = protocol.extra_tokens
        in_turn = False
        if self.procedure is not None:
            from ruler_data.procedures import find_procedure

            in_turn = find_procedure(self.procedure).prefix == "turn"
        return PromptFormat(protocol, extra, self.no_context, prefix_in_turn=in_turn)

    def to_record(self) -> dict[str, Any]:
        """Return the options of this class as JSON values; without a function."""
        record = {field.name: getattr(self, field.name) for field in fields(EvalConfig)}
        del record["generate"]
        names = "rows", "tasks", "lengths"
        record |= {n: value or None for n, value in zip(names, self.selection, strict=True)}
        record["options"] = self.settings
        return json.loads(json.dumps(record, default=str))  # type: ignore[no-any-return]

    @classmethod
    def read(cls, record: Mapping[str, Any]) -> EvalConfig:
        """Return the options that `to_record` wrote.

        Raises:
            UsageError: a value is not one of its option.
        """
        names = {field.name for field in fields(EvalConfig)} & record.keys()
        options = {name: record[name] for name in names}
        return EvalConfig(**fitting(EvalConfig, options))


def _as_published(config: EvalConfig) -> dict[str, Any]:
    """Return the options that a run's procedure sets; fewer rows or lengths are the user's.

    Raises:
        UsageError: an option contradicts the procedure.
    """
    from ruler_data.procedures import find_procedure

    source = find_procedure(config.procedure or "")
    names = ("temperature", "top_p", "extra_tokens")
    options = {name: getattr(config, name) for name in ("protocol", *names)}
    fixed = {name: getattr(source, name, None) for name in names}
    settled = source.settle(options, protocol=source.protocols, **fixed)
    if config.rows is None:
        settled["rows"] = source.rows
    return settled
