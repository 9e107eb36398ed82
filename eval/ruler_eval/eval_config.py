"""The options of a run or a preflight check."""

import json
import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import KW_ONLY, dataclass, fields
from functools import cached_property
from pathlib import Path
from typing import Annotated, Any, Literal, get_args

from ruler_data.errors import UsageError
from ruler_data.names import parse_length, parse_shard, quote
from ruler_data.options import Option
from ruler_data.terminal import named_path
from ruler_eval.prompts import PROTOCOLS, PromptFormat, ProtocolName
from ruler_eval.run_dir import RunFolder
from ruler_eval.sharding import Shard

#: Engines; each is a module of `ruler_eval.engines` with a function `prepare`.
EngineName = Literal["vllm", "transformers", "openai", "ray", "python", "oracle"]


@dataclass(frozen=True)
class EvalConfig:
    """The options, as the user gave them."""

    data: Annotated[str | Path, Option("Frozen rows: a folder, or a Hub repo.")]
    _: KW_ONLY
    model: Annotated[
        str | Path,
        Option(
            "Model: a folder, a Hub id, or a server's name for it. Engine `python` needs none.",
            show_default=False,
        ),
    ] = ""
    engine: Annotated[
        EngineName | str, Option("Engine; `oracle` returns the gold answers (for tests).")
    ] = "vllm"
    protocol: Annotated[
        ProtocolName | str, Option("How prompts are formatted; see docs/protocols.md.")
    ] = "completion"
    revision: Annotated[str | None, Option("Tag or commit of the data's repo.")] = None
    configs: Annotated[
        str | Iterable[str] | None,
        Option("Configs, comma-separated, e.g. vt_4096 [default: all]."),
    ] = None
    tasks: Annotated[
        str | Iterable[str] | None,
        Option("Tasks whose configs to run [default: all].", command=False),
    ] = None
    rows: Annotated[
        str | int | Mapping[int, int] | None,
        Option("Rows of each config, the first ones, e.g. 40 or 4k:40,8k:20 [default: all]."),
    ] = None
    tensor_parallel: Annotated[int, Option("GPUs that share one copy of the model.", min=1)] = 1
    options: Annotated[
        list[str] | Mapping[str, Any] | None,
        Option("NAME=VALUE for the engine; repeatable.", "--option"),
    ] = None
    extra_tokens: Annotated[
        int | None,
        Option(
            "Tokens that an answer may take beyond the row's own [default: 8192 in thinking].",
            min=0,
        ),
    ] = None
    samples: Annotated[int, Option("Answers to each row; needs a temperature.", min=1)] = 1
    temperature: Annotated[
        float | None, Option("Of sampling [default: 0, greedy decoding].", min=0)
    ] = None
    top_p: Annotated[
        float | None, Option("Share of the probability that sampling keeps [default: 1].")
    ] = None
    no_context: Annotated[bool, Option("Leave the context out, as a baseline.")] = False
    base_url: Annotated[
        str | None,
        Option("Address of an OpenAI-compatible server, with /v1; selects engine `openai`."),
    ] = None
    tokenizer: Annotated[
        str | Path | None, Option("Tokenizer that renders prompts [default: the model's own].")
    ] = None
    model_name: Annotated[
        str | None, Option("Name to record [default: the folder's, or the id].")
    ] = None
    model_revision: Annotated[str | None, Option("Tag or commit of the model's repo.")] = None
    generate: Annotated[
        Callable[..., Any] | None,
        Option(
            "Function from a list of `Request`s to one text or `Generation` for each, for engine "
            "`python`, which it selects; see `ruler_eval.engines.python`.",
            command=False,
        ),
    ] = None

    def __post_init__(self) -> None:
        """Check what needs no file; a function or an address selects its engine."""
        if self.engine == "vllm" and (self.generate is not None or self.base_url is not None):
            object.__setattr__(self, "engine", "python" if self.generate else "openai")
        choices = {"engine": get_args(EngineName), "protocol": PROTOCOLS}
        for name, known in choices.items():
            if (choice := getattr(self, name)) not in known:
                msg = f"{name} {quote(choice)}: not known; known: {', '.join(known)}"
                raise UsageError(msg)
        for one in fields(self):
            value, least = getattr(self, one.name), get_args(one.type)[1].min
            if value is not None and least is not None and value < least:
                msg = f"{one.name} {value}: must be at least {least}"
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
        elif not self.model and not python:
            msg = f"--model is missing: engine {self.engine} needs a folder, a Hub id or a name"
        else:
            _ = self.engine_options, self.first_rows
            return
        raise UsageError(msg)

    @cached_property
    def first_rows(self) -> int | dict[int, int] | None:
        """Rows of each config, or of the configs of each length (tokens); None for all."""
        return parse_rows(self.rows)

    @cached_property
    def engine_options(self) -> dict[str, Any]:
        """Options of the engine, by name."""
        given = self.options or {}
        return dict(given) if isinstance(given, Mapping) else parse_options(given)

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


@dataclass(frozen=True)
class RunConfig(EvalConfig):
    """The options of one shard of a run."""

    _: KW_ONLY
    out: Annotated[str | Path, Option("Folder of the run.", metavar="<path>", after="data")]
    shard: Annotated[str, Option("Run only shard I of N, e.g. 0/8.", after="rows")] = "0/1"

    @property
    def folder(self) -> RunFolder:
        """Folder of the run."""
        return RunFolder(named_path(self.out))

    @property
    def share(self) -> Shard:
        """Share of the rows to answer."""
        return Shard(*parse_shard(self.shard))


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


def parse_options(texts: Iterable[str]) -> dict[str, Any]:
    """Return options written NAME=VALUE by name; values are JSON, or else plain text.

    >>> parse_options(["max_num_seqs=8", "dtype=float32", 'hf_overrides={"a": 1}'])
    {'max_num_seqs': 8, 'dtype': 'float32', 'hf_overrides': {'a': 1}}
    """
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
