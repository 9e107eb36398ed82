"""Examine a run without loading the model: each finding names the rows, the fault and a remedy."""

from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping
from dataclasses import asdict, dataclass, replace
from itertools import islice
from typing import Any, Literal

from ruler_data.names import counted, parse_config, short_length
from ruler_data.row import Row
from ruler_eval.running.config import EvalConfig
from ruler_eval.running.engine import Engine, NotInstalled, Request, Setup, prepare
from ruler_eval.running.inputs import PROBES, Inputs, open_inputs
from ruler_eval.running.models import is_recurrent, text_part
from ruler_eval.running.spending import UNIT, Ledger, Prices

#: Bytes of a number in the cache, in bf16.
BF16 = 2


@dataclass(frozen=True)
class Cost:
    """What a run costs at most: a model may end its answers before their budgets."""

    tokens: dict[int, tuple[int, int]]  # by length: prompt tokens, answer tokens
    prices: Prices | None = None
    weight_bytes: int | None = None  # of the model's files; None where they are not here
    cache_bytes: int | None = None  # of the longest row; None for other than plain attention

    @property
    def totals(self) -> tuple[int, int]:
        """Prompt and answer tokens of all lengths."""
        read = sum(tokens for tokens, _ in self.tokens.values())
        written = sum(tokens for _, tokens in self.tokens.values())
        return read, written

    @property
    def money(self) -> float | None:
        """What all tokens cost; None without prices."""
        if self.prices is None:
            return None
        return self.prices.of(*self.totals)

    def to_record(self) -> dict[str, Any]:
        """Return it as JSON values."""
        prompt, answer = self.totals
        by_length = {
            str(length): {"prompt_tokens": read, "answer_tokens": written}
            for length, (read, written) in self.tokens.items()
        }
        return {
            "prompt_tokens": prompt,
            "answer_tokens": answer,
            "money": self.money,
            "weight_bytes": self.weight_bytes,
            "cache_bytes": self.cache_bytes,
            "lengths": by_length,
        }

    @property
    def lines(self) -> list[str]:
        """All of it, a line for each length, the sum, and the bytes."""
        rows = [(short_length(length), tokens) for length, tokens in sorted(self.tokens.items())]
        if len(rows) > 1:
            rows.append(("all lengths", self.totals))
        lines = []
        for name, (read, written) in rows:
            line = f"{name}: reads {read:,} tokens, writes at most {written:,} tokens"
            if self.prices is not None:
                line += f", costs at most {self.prices.of(read, written):,.2f} ({UNIT})"
            lines.append(line)
        if self.weight_bytes is not None:
            lines.append(f"weights: {self.weight_bytes / 1e9:.2f} GB")
        if self.cache_bytes is not None:
            lines.append(
                f"keys and values of the longest row: {self.cache_bytes / 1e9:.3f} GB (bf16)"
            )
        return lines


def cache_bytes(config: Mapping[str, Any], tokens: int) -> int | None:
    """Return the bytes of a row's keys and values in bf16; None for other than plain attention.

    Args:
        config: the part of a model's config that describes the language model.
        tokens: of the prompt with its answer.

    >>> cache_bytes({"num_hidden_layers": 2, "hidden_size": 64, "num_attention_heads": 4}, 100)
    51200
    """
    layers = config.get("num_hidden_layers")
    heads = config.get("num_attention_heads")
    if not isinstance(layers, int) or not isinstance(heads, int) or heads <= 0:
        return None
    if is_recurrent(config) or "kv_lora_rank" in config:
        return None
    window = config.get("sliding_window")
    kinds = config.get("layer_types")
    if kinds is None:
        if window and config.get("use_sliding_window", True):
            return None  # which of the layers slide, the config does not say
        kinds = ["full_attention"] * layers
    spans = {"full_attention": tokens, "sliding_attention": min(tokens, int(window or tokens))}
    if set(kinds) - spans.keys():
        return None
    width = _bytes_of_position(config, heads)
    return sum(width * spans[kind] for kind in kinds)


def _bytes_of_position(config: Mapping[str, Any], heads: int) -> int:
    """Return the bytes of the keys and values of a token in a layer."""
    size = int(config.get("head_dim") or int(config.get("hidden_size") or 0) // heads)
    return 2 * BF16 * size * int(config.get("num_key_value_heads") or heads)


#: Rows of each config that are rendered, at least.
SAMPLE = 20
#: Seconds that an examined server may take to answer a short prompt, if no option says otherwise.
PATIENCE = 10
#: Tokens that it is to return.
ANSWER_TOKENS = 16


@dataclass(frozen=True)
class Finding:
    """Something to know before a run."""

    #: `error` where the run would be worthless, `warning` where answers may suffer, or `note`.
    level: Literal["error", "warning", "note"]
    about: str  # the config and row, or what else it is about
    message: str  # what is wrong, and what to do

    def __str__(self) -> str:
        return f"{self.level}: {self.about}: {self.message}"


@dataclass(frozen=True)
class Diagnosis:
    """Findings of an examination."""

    findings: list[Finding]
    rows: int  # examined
    cost: Cost

    @property
    def errors(self) -> int:
        """Number of findings that make the run worthless."""
        return sum(finding.level == "error" for finding in self.findings)

    @property
    def exit_status(self) -> int:
        """1 if there is an error, else 0."""
        return int(self.errors > 0)

    @property
    def failure(self) -> str | None:
        """Why the run should not be started; None if it may."""
        return f"{counted(self.errors, 'error')}: fix before you run" if self.errors else None

    def to_record(self) -> dict[str, Any]:
        """Return it as JSON values."""
        return {
            "rows": self.rows,
            "errors": self.errors,
            "findings": [asdict(finding) for finding in self.findings],
            "cost": self.cost.to_record(),
        }

    def __str__(self) -> str:
        last = f"{counted(self.rows, 'row')} examined: {counted(self.errors, 'error')}"
        return "\n".join([*map(str, self.findings), *self.cost.lines, last])


def diagnose(config: EvalConfig, progress: Callable[[str, int], None]) -> Diagnosis:
    """Return what was found, and the cost of the run.

    `progress` is called with each config that is examined, and the number of its rows.
    """
    if config.engine == "openai":
        config = replace(config, options={"patience": PATIENCE, **config.settings})
    inputs = open_inputs(config)
    findings = [*_examine_tokenizer(inputs), *_examine_engine(inputs)]
    inputs.use_fast_counter()  # as a run does
    rows, examined = _examine_rows(inputs, progress)
    return Diagnosis([*findings, *rows], examined, _cost(inputs))


def _cost(inputs: Inputs) -> Cost:
    """Return what the run costs: by the rows' own lengths, or by counting a few of each config."""
    config = inputs.config
    prompts = inputs.prompts
    data = inputs.data
    tokens = dict[int, tuple[int, int]]()
    longest = 0
    for name in data.rows:
        share = 1.0
        if prompts.no_context or not inputs.counts_alike:
            probed = [*islice(data.read(name), PROBES)]
            counts = sum(len(inputs.ids(row)) for row in probed)
            share = counts / sum(row.length - row.max_new_tokens for row in probed)
        length = parse_config(name)[1]
        read, written = tokens.get(length, (0, 0))
        for whole, budget in data.sizes(name):
            prompt_tokens = round(share * (whole - budget))
            answer_tokens = budget + prompts.extra_tokens
            read += config.samples * prompt_tokens
            written += config.samples * answer_tokens
            longest = max(longest, prompt_tokens + answer_tokens)
        tokens[length] = read, written
    model = inputs.model
    cache = cache_bytes(text_part(model.config), longest)
    return Cost(tokens, Prices.read(vars(config)), model.weight_bytes, cache)


def _examine_tokenizer(inputs: Inputs) -> Iterator[Finding]:
    """Yield what is wrong with the tokenizer and the template for this data and protocol."""
    tokenizer = inputs.tokenizer
    if difference := inputs.tokenizer_difference():
        is_chosen = inputs.config.tokenizer is not None
        yield Finding("warning" if is_chosen else "error", "tokenizer", difference)
    has_switch = inputs.prompts.protocol.variables is not None and tokenizer.has_template
    if has_switch and not tokenizer.opens_turn:
        message = "it has no generation prompt: the model would continue as the user"
        remedy = "use a template that supports add_generation_prompt"
        yield Finding("error", "template", f"{message}; {remedy}")


def _examine_engine(inputs: Inputs) -> Iterator[Finding]:
    """Yield whether window and options are known, and what a server does with the longest row."""
    if inputs.config.engine != "openai" and inputs.model.window is None:
        yield Finding("warning", "window", "not known: the model's config does not say")
    try:
        longest = max(inputs.longest_requests().values())
        engine = prepare(Setup(inputs.config, inputs.model, inputs.tokenizer, longest))
    except NotInstalled as error:
        yield Finding("note", "options", f"not checked: {error}")
        return
    if engine.open is not None:
        yield _examine_server(inputs, engine.open(Ledger()))  # reports what the server refuses


def _examine_server(inputs: Inputs, engine: Engine) -> Finding:
    """Return what a server does with the longest row."""
    config, row = _longest_row(inputs)
    name = f"{config}/{row.index}"
    ids = inputs.ids(row)
    need = len(ids) + inputs.room(row)
    if engine.window is not None and engine.window < need:
        window = f"its window is {engine.window} tokens, {name} needs {need}"
        remedy = "start it with a longer one, or leave the config out"
        return Finding("error", "server", f"{window}; {remedy}")
    (answer,) = engine.generate(iter([Request(config, row, ids, ANSWER_TOKENS)]))
    if answer.error is not None:
        return Finding("error", name, answer.error)
    if answer.prompt_tokens is None:
        return Finding("warning", "server", "does not report how many tokens of a prompt it read")
    read = f"read {answer.prompt_tokens} tokens of {name}, {len(ids)} were rendered here"
    more = answer.prompt_tokens - len(ids)
    if not more:
        return Finding("note", "server", read)
    return Finding(
        "warning", "server", f"{read}; its template differs from the one here by {more:+} tokens"
    )


def _longest_row(inputs: Inputs) -> tuple[str, Row]:
    """Return the longest row, with its config."""
    data = inputs.data
    lengths = {
        (config, index): length
        for config in data.rows
        for index, (length, _) in enumerate(data.sizes(config))
    }
    config, index = max(lengths, key=lambda place: (lengths[place], place))
    return config, next(iter(data.read_alike(config, {index})))


def _examine_rows(
    inputs: Inputs, progress: Callable[[str, int], None]
) -> tuple[list[Finding], int]:
    """Return one finding for each fault that rows have, and the number of rows examined."""
    faults = defaultdict[str, list[tuple[int, str, str]]](list)  # tokens, row and message
    examined = 0
    for config, count in inputs.data.rows.items():
        for row in islice(inputs.data.read(config), 0, None, max(1, count // SAMPLE)):
            examined += 1
            ids = inputs.ids(row)
            need = len(ids) + inputs.room(row)
            for fault, message in inputs.length_errors(row, ids, inputs.model.window).items():
                faults[fault].append((need, f"{config}/{row.index}", message))
        progress(config, count)
    findings = []
    for rows in faults.values():
        _, name, message = max(rows)
        where = f"{counted(len(rows), 'row')} like it, {examined} examined"
        findings.append(Finding("error", name, f"{message} ({where})"))
    return findings, examined
