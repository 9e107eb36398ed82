"""Examine a run without loading the model: each finding names the rows, the fault and a remedy."""

import math
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass, replace
from itertools import islice
from typing import Any, Literal

from ruler_data.errors import UsageError
from ruler_data.names import counted, quote
from ruler_data.row import Row
from ruler_eval.engines import Request, prepare
from ruler_eval.engines.interface import NotInstalled
from ruler_eval.estimate import BATCH, GPUS, USABLE, Estimate, estimate, shape_of
from ruler_eval.eval_config import EvalConfig
from ruler_eval.inputs import Inputs, open_inputs
from ruler_eval.models import text_part

#: Seconds that an examined server may take to answer a short prompt, if no option says otherwise,
#: and tokens that it is to return.
PATIENCE, ANSWER_TOKENS = 10, 16


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
    cost: Estimate | None  # None for an architecture that is not supported
    gpu: str | None = None
    price: float | None = None  # of one hour of a GPU

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
        hours = self.cost.gpu_hours if self.cost else None
        return {
            "rows": self.rows,
            "errors": self.errors,
            "findings": [asdict(finding) for finding in self.findings],
            "estimate": asdict(self.cost) if self.cost else None,
            "price": [self.price * each for each in hours] if self.price and hours else None,
        }

    def __str__(self) -> str:
        counts = f"{counted(self.errors, 'error')}, {counted(len(self.findings), 'finding')}"
        last = f"{counted(self.rows, 'row')} examined: {counts}"
        return "\n".join([*map(str, self.findings), *self._costs(), last])

    def _costs(self) -> Iterator[str]:
        if (cost := self.cost) is None:
            return
        yield (
            f"prompts: {cost.prompt_tokens:,} tokens, {cost.prefill_flops:.2e} operations; "
            f"answers: {cost.answer_tokens:,} tokens at most"
        )
        yield (
            f"model: {cost.parameters / 1e9:.2f} B parameters, weights "
            f"{cost.weight_bytes / 1e9:.1f} GB; keys and values of the longest row: "
            f"{cost.kv_bytes_longest / 1e9:.2f} GB"
        )
        if cost.gpu_hours is None:
            return
        all_hours = cost.gpu_hours, cost.prefill_hours, cost.decoding_hours, cost.loading_hours
        total, prefill, decoding, loading = (
            " to ".join(dict.fromkeys(duration(3600 * each) for each in hours or ()))
            for hours in all_hours
        )
        low, high = (each * (self.price or 0) for each in cost.gpu_hours)
        bill = f", {low:.2f} to {high:.2f}" if self.price else ""
        parts = f"prefill {prefill}, decoding {decoding}, loading one copy {loading}"
        yield f"GPU time on {self.gpu}: {total}{bill}: {parts}"


def duration(seconds: float) -> str:
    """Return a time as people read it.

    >>> duration(42), duration(200), duration(9000)
    ('42 s', '3 min', '2.5 h')
    """
    if seconds < 90:
        return f"{math.ceil(seconds)} s"
    return f"{seconds / 60:.0f} min" if seconds < 5400 else f"{seconds / 3600:.1f} h"


def diagnose(
    config: EvalConfig,
    sample: int | None,
    gpu: str | None,
    price: float | None,
    progress: Callable[[str, int], None],
) -> Diagnosis:
    """Return what was found, and the cost of the run; `doctor` has the parameters.

    `sample` is None to examine every row; `progress` is called with each config that is examined,
    and the number of its rows.
    """
    if gpu is not None and gpu not in GPUS:
        option = f"--gpu {quote(gpu)}"
        raise UsageError(option, f"not known; known: {', '.join(GPUS)}")
    if price is not None and (gpu is None or not price > 0):
        option = f"--price {price}"
        raise UsageError(option, "must be over 0, and needs --gpu")
    if config.engine == "openai":
        config = replace(config, options={"patience": PATIENCE, **config.options})
    inputs = open_inputs(config)
    findings = [*_examine_tokenizer(inputs), *_examine_engine(inputs)]
    inputs.use_fast_counter()  # as a run does
    # Only now are the engine's options known to be right.
    cost = None if config.no_context else _estimate(inputs, gpu)
    if cost is None and (inputs.model.config or gpu):
        kind = quote(str(text_part(inputs.model.config).get("model_type")))
        why = f"not supported for {kind}, or not as quantized here"
        why = why if inputs.model.config else "the model's config.json is not here"
        why = "the lengths of the rows include the context" if config.no_context else why
        findings.append(Finding("note", "estimate", f"none: {why}"))
    if cost is not None and cost.fits is False:
        message = (
            f"weights of {cost.weight_bytes / 1e9:.1f} GB and keys and values of the longest row, "
            f"{cost.kv_bytes_longest / 1e9:.1f} GB, do not fit on {config.tensor_parallel} {gpu}; "
            "use more with --tensor-parallel"
        )
        findings.append(Finding("error", "memory", message))
    rows, examined = _examine_rows(inputs, sample, progress)
    return Diagnosis([*findings, *rows], examined, cost, gpu, price)


def _examine_tokenizer(inputs: Inputs) -> Iterator[Finding]:
    """Yield what is wrong with the tokenizer and the template for this data and protocol."""
    tokenizer, data = inputs.tokenizer, inputs.data.manifest.tokenizer
    if not inputs.counts_alike:
        config, info = next(iter(inputs.data.rows)), tokenizer.info
        row = next(inputs.data.read(config))
        length = len(inputs.ids(row)) + row.max_new_tokens
        yield Finding(
            "error" if inputs.config.tokenizer is None else "warning",
            "tokenizer",
            f"{info.name} ({info.fingerprint[:16]}) is not that of the data, {data.name} "
            f"({data.fingerprint[:16]}): {config}/0 has {length} tokens, the data says "
            f"{row.length}; use rows for this tokenizer (`ruler-data find`, or `ruler-data build "
            "--tokenizer`), or name it with --tokenizer if you want these rows all the same",
        )
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
        engine = prepare(inputs.config, inputs.model, inputs.tokenizer, longest)
    except NotInstalled as error:
        yield Finding("note", "options", f"not checked: {error}")
        return
    if engine.open is None:
        return
    engine = engine.open()  # reports what the server refuses
    sizes = ((config, inputs.data.sizes(config)) for config in inputs.data.rows)
    _, config, index = max((s[0], config, n) for config, all_ in sizes for n, s in enumerate(all_))
    name, row = f"{config}/{index}", next(iter(inputs.data.read_alike(config, {index})))
    ids = inputs.ids(row)
    need = len(ids) + inputs.room(row)
    if engine.window is not None and engine.window < need:
        window = f"its window is {engine.window} tokens, {name} needs {need}"
        remedy = "start it with a longer one, or leave the config out"
        yield Finding("error", "server", f"{window}; {remedy}")
        return
    (answer,) = engine.generate(iter([Request(config, row, ids, ANSWER_TOKENS)]))
    if answer.error is not None:
        yield Finding("error", name, answer.error)
    elif answer.prompt_tokens is None:
        yield Finding("warning", "server", "does not report how many tokens of a prompt it read")
    else:
        more = answer.prompt_tokens - len(ids)
        by = f"; its template differs from the one here by {more:+} tokens" if more else ""
        read = f"read {answer.prompt_tokens} tokens of {name}, {len(ids)} were rendered here"
        yield Finding("warning" if more else "note", "server", read + by)


def _estimate(inputs: Inputs, gpu: str | None) -> Estimate | None:
    config, options = inputs.config, inputs.config.options
    shape = shape_of(text_part(inputs.model.config), inputs.model.weight_bytes, options)
    if shape is None:
        return None
    extra = inputs.prompts.extra_tokens
    rows = [
        (length + extra, max_new_tokens + extra)
        for name in inputs.data.rows
        for length, max_new_tokens in inputs.data.sizes(name)
    ]
    batch = {"transformers": 1, "python": options.get("batch", 1)}.get(config.engine, BATCH)
    usable = options.get("gpu_memory_utilization", USABLE)
    machine = GPUS[gpu] if gpu else None
    return estimate(shape, rows, machine, config.tensor_parallel, config.samples, batch, usable)


def _examine_rows(
    inputs: Inputs, sample: int | None, progress: Callable[[str, int], None]
) -> tuple[list[Finding], int]:
    """Return one finding for each fault that rows have, and the number of rows examined."""
    rows, worst = defaultdict[str, Counter[str]](Counter), dict[str, tuple[int, str, str]]()
    examined = 0
    for config, count in inputs.data.rows.items():
        step = 1 if sample is None else max(1, count // sample)
        for row in islice(inputs.data.read(config), 0, None, step):
            examined += 1
            for fault, excess, message in _faults(inputs, row):
                rows[fault][config] += 1
                fault_of_row = excess, f"{config}/{row.index}", message
                worst[fault] = max(worst.get(fault, fault_of_row), fault_of_row)
        progress(config, count)
    findings = []
    for fault, (_, name, message) in worst.items():
        configs = list(rows[fault])
        more = f" and {len(configs) - 3} other configs" if len(configs) > 3 else ""
        where = f"{counted(rows[fault].total(), 'row')} of {', '.join(configs[:3])}{more}"
        text = f"{message} ({where}, {examined} examined)"
        findings.append(Finding("warning" if fault == "room" else "error", name, text))
    return findings, examined


def _faults(inputs: Inputs, row: Row) -> Iterator[tuple[str, int, str]]:
    """Yield the faults of a row: name, excess (the row with the largest is reported), message."""
    tokenizer, ids, room = inputs.tokenizer, inputs.ids(row), inputs.room(row)
    for fault, message in inputs.length_errors(row, ids, inputs.model.window).items():
        excess = abs(len(ids) + row.max_new_tokens - row.length)
        yield fault, excess if fault == "length" else len(ids) + room, message
    task = inputs.data.manifest.table.get(row.task)
    if task is not None and task.metric == "part":
        return  # QA answers need not appear verbatim
    text = tokenizer.decode(ids).lower()
    missing = [output for output in row.outputs if output.lower() not in text]
    if missing and not inputs.prompts.no_context:
        message = f"gold answer {missing[0]!r} is not in the prompt as sent; verify the data"
        yield "gold", 0, message
    lines = (f"\n{number}. {output}" for number, output in enumerate(row.outputs, 1))
    tokens = tokenizer.count(["".join(lines)])[0]
    if tokens > room and len(row.outputs) > 1:
        message = (
            f"gold answers as a numbered list take up to {tokens} tokens, the protocol gives "
            f"{room}: a model that numbers its answers is cut off; --extra-tokens "
            f"{tokens - room + 8} avoids this, but the results are not comparable with the default "
            "budget"
        )
        yield "room", tokens - room, message
