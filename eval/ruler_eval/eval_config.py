"""What an engine is asked for, and how the texts of options are read."""

import json
import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, Literal, get_args

from ruler_data.errors import UsageError
from ruler_data.names import parse_length, quote
from ruler_eval.prompts import PROTOCOLS, PromptFormat

#: Engines; each is a module of `ruler_eval.engines` with a function `prepare`.
EngineName = Literal["vllm", "transformers", "openai", "ray", "python", "oracle"]


@dataclass(frozen=True, kw_only=True)
class EvalConfig:
    """How answers are generated; the parameters of `ruler_eval.run` of the same names say more."""

    engine: str = "vllm"
    protocol: str = "completion"
    options: Mapping[str, Any] = field(default_factory=dict)  # of the engine
    extra_tokens: int | None = None
    no_context: bool = False
    samples: int = 1
    temperature: float | None = None
    top_p: float | None = None
    tensor_parallel: int = 1
    base_url: str | None = None
    generate: Callable[..., Any] | None = None

    def __post_init__(self) -> None:
        """Check what needs no file; a function or an address selects its engine."""
        if self.engine == "vllm" and (self.generate is not None or self.base_url is not None):
            object.__setattr__(self, "engine", "python" if self.generate else "openai")
        for name, known in (("engine", get_args(EngineName)), ("protocol", PROTOCOLS)):
            if (choice := getattr(self, name)) not in known:
                msg = f"{name} {quote(choice)}: not known; known: {', '.join(known)}"
                raise UsageError(msg)
        for name, least in (("samples", 1), ("tensor_parallel", 1), ("extra_tokens", 0)):
            if (getattr(self, name) or least) < least:
                msg = f"{name} {getattr(self, name)}: must be at least {least}"
                raise UsageError(msg)
        python, greedy = self.engine == "python", not self.temperature
        if self.top_p is not None and (greedy or not 0 < self.top_p <= 1):
            msg = f"top_p {self.top_p}: must be over 0 and at most 1, with a temperature over 0"
        elif python and self.temperature is not None:
            msg = "temperature: engine python samples by itself; give its function an --option"
        elif self.samples > 1 and greedy and self.engine not in ("python", "oracle"):
            msg = f"samples {self.samples}: greedy answers are all the same; add a temperature"
        elif self.base_url is not None and self.engine != "openai":
            msg = f"--base-url is for engine openai; leave it or --engine {self.engine} out"
        else:
            return
        raise UsageError(msg)

    @property
    def engine_options(self) -> dict[str, Any]:
        """Options of the engine, by name."""
        return dict(self.options)

    @property
    def sampling(self) -> dict[str, Any]:
        """What an engine is asked for; at least one token, as an immediate end is no answer."""
        top_p = {} if self.top_p is None else {"top_p": self.top_p}
        drawn = {**top_p, "seed": "of the row and the sample"} if self.temperature else {}
        return {"temperature": self.temperature or 0.0, "min_tokens": 1, **drawn}

    @cached_property
    def prompts(self) -> PromptFormat:
        """How rows are formatted."""
        protocol = PROTOCOLS[self.protocol]
        extra = protocol.extra_tokens if self.extra_tokens is None else self.extra_tokens
        return PromptFormat(protocol, extra, self.no_context)


def parse_names(names: str | Iterable[str] | None) -> tuple[str, ...]:
    """Return names, which may be a comma-separated list.

    >>> parse_names("vt_4096, cwe_4096")
    ('vt_4096', 'cwe_4096')
    """
    parts = names.split(",") if isinstance(names, str) else names or ()
    return tuple(name.strip() for name in parts if name.strip())


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
    found = {parse_length(length, "rows"): int(count) for length, count in pairs}
    if len(found) < len(pairs):
        msg = f"rows {quote(text)}: names a length twice"
        raise UsageError(msg)
    return found


def parse_options(texts: Iterable[str] | Mapping[str, Any]) -> dict[str, Any]:
    """Return options, which may be written NAME=VALUE, by name; values are JSON, or plain text.

    >>> parse_options(["max_num_seqs=8", "dtype=float32", 'hf_overrides={"a": 1}'])
    {'max_num_seqs': 8, 'dtype': 'float32', 'hf_overrides': {'a': 1}}
    """
    if isinstance(texts, Mapping):
        return dict(texts)
    options: dict[str, Any] = {}
    for text in texts:
        name, equals, value = text.partition("=")
        if not (equals and name.isidentifier()):
            msg = f"--option {quote(text)}: write NAME=VALUE"
            raise UsageError(msg)
        if name in options:
            msg = f"--option {name}: given twice"
            raise UsageError(msg)
        try:
            options[name] = json.loads(value)
        except (ValueError, RecursionError):
            options[name] = value
    return options
