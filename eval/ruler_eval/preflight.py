"""Examine a run without loading the model: each finding names the rows, the fault and a remedy."""

import math
from collections import defaultdict
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass, replace
from itertools import islice
from typing import Any, Literal

from ruler_data.errors import UsageError
from ruler_data.names import counted, quote
from ruler_data.row import Row
from ruler_eval.engines import Request, prepare
from ruler_eval.engines.interface import NotInstalled
from ruler_eval.estimate import BATCH, BEST, GPUS, USABLE, WORST, Estimate, estimate, shape_of
from ruler_eval.eval_config import EvalConfig
from ruler_eval.inputs import Inputs, open_inputs
from ruler_eval.models import text_part
from ruler_eval.prompts import PROTOCOLS
from ruler_eval.reasoning import opens
from ruler_eval.sharding import items_of

Level = Literal["error", "warning", "note"]
#: Seconds that an examined server may take to be up, if no option says otherwise, and tokens that
#: it is asked for.
PATIENCE, ASKED = 10, 4


@dataclass(frozen=True)
class Finding:
    """Something to know before a run."""

    #: `error` where the run would be worthless, `warning` where answers may suffer, or `note`.
    level: Level
    about: str  # the config and row, or what else it is about
    message: str  # what is wrong, and what to do

    def __str__(self) -> str:
        return f"{self.level}: {self.about}: {self.message}"


@dataclass(frozen=True)
class Diagnosis:
    """What an examination found."""

    findings: list[Finding]
    rows: int  # examined
    cost: Estimate | None  # None for an architecture that is not supported
    gpu: str | None = None
    gpus: int = 1
    price: float | None = None  # of one hour of a GPU

    @property
    def errors(self) -> int:
        """Number of findings that make the run worthless."""
        return sum(finding.level == "error" for finding in self.findings)

    @property
    def failure(self) -> str | None:
        """Why the run should not be started; None if it may."""
        return f"{counted(self.errors, 'error')}: fix before you run" if self.errors else None

    @property
    def exit_status(self) -> int:
        """1 if there is an error, else 0."""
        return int(self.errors > 0)

    def to_record(self) -> dict[str, Any]:
        """Return it as JSON values."""
        hours = self.cost.gpu_hours if self.cost else None
        price = [self.price * each for each in hours] if self.price and hours else None
        found = [asdict(finding) for finding in self.findings]
        cost = asdict(self.cost) if self.cost else None
        record = {"rows": self.rows, "errors": self.errors, "findings": found}
        return {**record, "estimate": cost, "price": price}

    def __str__(self) -> str:
        found = f"{counted(self.errors, 'error')}, {counted(len(self.findings), 'finding')}"
        cost = _told(self.cost, self) if self.cost else ()
        last = f"{counted(self.rows, 'row')} examined: {found}"
        return "\n".join([*map(str, self.findings), *cost, last])


def _told(cost: Estimate, found: Diagnosis) -> Iterator[str]:
    yield (
        f"prompts: {cost.prompt_tokens:,} tokens, {cost.prefill_flops:.2e} operations; answers: "
        f"{cost.answer_tokens:,} tokens at most"
    )
    yield (
        f"model: {cost.parameters / 1e9:.2f} B parameters, weights {cost.weight_bytes / 1e9:.1f} "
        f"GB; keys and values of the longest row: {cost.kv_bytes_longest / 1e9:.2f} GB"
    )
    if cost.gpu_hours is None:
        return
    total, prefill, decoding, loading = (
        " to ".join(dict.fromkeys(duration(3600 * each) for each in hours or ()))
        for hours in (cost.gpu_hours, cost.prefill_hours, cost.decoding_hours, cost.loading_hours)
    )
    low, high = cost.gpu_hours
    bill = "" if found.price is None else f", {found.price * low:.2f} to {found.price * high:.2f}"
    parts = f"prefill {prefill}, decoding {decoding}, loading one copy {loading}"
    yield f"GPU time on {found.gpu}: {total}{bill}: {parts}"
    shared = f", {found.gpus} GPUs a copy keep {WORST.parallel:.0%} to {BEST.parallel:.0%}"
    yield (
        f"assumed: prefill reaches {WORST.prefill:.0%} to {BEST.prefill:.0%} of the peak, decoding "
        f"{WORST.decoding:.0%} to {BEST.decoding:.0%} of the bandwidth"
        + (f"{shared} of their speed at each doubling" if found.gpus > 1 else "")
    )


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
    """Return what was found, and the cost of the run.

    Args:
        config: rows and model of the run, and how it answers.
        sample: rows of each config to render, evenly spread; all where None.
        gpu: its name; None for an estimate without times.
        price: of one hour of it.
        progress: called with each config when its rows are examined, and their number.
    """
    if gpu is not None and gpu not in GPUS:
        option = f"--gpu {quote(gpu)}"
        raise UsageError(option, f"not known; known: {', '.join(GPUS)}")
    if price is not None and (gpu is None or not price > 0):
        option = f"--price {price}"
        raise UsageError(option, "must be over 0, and needs --gpu")
    if config.engine == "openai":
        config = replace(config, options={"patience": PATIENCE, **config.engine_options})
    inputs = open_inputs(config)
    findings = [*_examine_tokenizer(inputs), *_examine_engine(inputs)]
    inputs.use_fast_counter()  # as a run does
    cost = _estimate(inputs, gpu)  # only now are the engine's options known to be right
    findings += _examine_cost(inputs, gpu, cost)
    rows, examined = _examine_rows(inputs, sample, progress)
    return Diagnosis([*findings, *rows], examined, cost, gpu, config.tensor_parallel, price)


def _examine_tokenizer(inputs: Inputs) -> Iterator[Finding]:
    """Yield what is wrong with the tokenizer and the template for this data and protocol."""
    tokenizer, prompts = inputs.tokenizer, inputs.prompts
    info, data, protocol = tokenizer.info, inputs.data.manifest.tokenizer, prompts.protocol
    if not inputs.counts_alike:
        config = next(iter(inputs.data.rows))
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
    if protocol.variables is None:
        return
    if not tokenizer.has_template:
        message = "the model has none: prompts are plain text, as in protocol base"
        yield Finding("note", "template", message)
        return
    chat, thinking = (
        replace(prompts, protocol=PROTOCOLS[each]).frame(tokenizer) for each in ("chat", "thinking")
    )
    if not tokenizer.opens_turn:
        yield Finding(
            "error",
            "template",
            "it has no generation prompt: the model would continue as the user; use a template "
            "that supports add_generation_prompt",
        )
    if protocol.name == "thinking" and chat == thinking and not opens(thinking):
        yield Finding(
            "warning",
            "template",
            "it ignores enable_thinking and opens no block of reasoning: unless the model reasons "
            "by itself, this is protocol chat with more room",
        )


def _examine_engine(inputs: Inputs) -> Iterator[Finding]:
    """Yield whether window and options are known, and what a server does with the longest row."""
    config = inputs.config
    if config.engine != "openai" and inputs.model.window is None:
        yield Finding("warning", "window", "not known: the model's config does not say")
    try:
        longest = max(inputs.longest_requests().values())
        engine = prepare(config, inputs.model, inputs.tokenizer, longest)
    except NotInstalled as error:
        yield Finding("note", "options", f"not checked: {error}")
        return
    if engine.open is None:
        return
    engine.open()  # what it refuses it tells itself
    item = max(items_of(inputs.data), key=lambda each: (each.tokens, each.config, each.index))
    name = f"{item.config}/{item.index}"
    row = next(iter(inputs.data.read_alike(item.config, {item.index})))
    ids = inputs.ids(row)
    need = len(ids) + inputs.room(row)
    if engine.window is None:
        yield Finding("note", "server", "does not list its window (max_model_len)")
    elif engine.window < need:
        window = f"its window is {engine.window} tokens, {name} needs {need}"
        remedy = "start it with a longer one, or leave the config out"
        yield Finding("error", "server", f"{window}; {remedy}")
        return
    if "min_tokens" in config.sampling and "min_tokens" not in engine.sampling:
        yield Finding("warning", "server", "refuses min_tokens: an answer may be empty")
    (said,) = engine.generate(iter([Request(item.config, row, ids, ASKED)]))
    if said.error is not None:
        yield Finding("error", name, said.error)
    elif said.prompt_tokens is None:
        yield Finding("warning", "server", "does not report how many tokens of a prompt it read")
    else:
        more = said.prompt_tokens - len(ids)
        by = f"; its template differs from the one here by {more:+} tokens" if more else ""
        read = f"read {said.prompt_tokens} tokens of {name}, {len(ids)} were rendered here"
        yield Finding("warning" if more else "note", "server", read + by)


def _examine_cost(inputs: Inputs, gpu: str | None, cost: Estimate | None) -> Iterator[Finding]:
    if cost is None and (inputs.model.config or gpu):
        kind = str(text_part(inputs.model.config).get("model_type"))
        why = f"not supported for {quote(kind)}, or not as quantized here"
        why = why if inputs.model.config else "the model's config.json is not here"
        yield Finding("note", "estimate", f"none: {why}")
    if cost is not None and cost.fits is False:
        yield Finding(
            "error",
            "memory",
            f"weights of {cost.weight_bytes / 1e9:.1f} GB and keys and values of the longest row, "
            f"{cost.kv_bytes_longest / 1e9:.1f} GB, do not fit on {inputs.config.tensor_parallel} "
            f"{gpu}; use more with --tensor-parallel",
        )


def _examine_rows(
    inputs: Inputs, sample: int | None, progress: Callable[[str, int], None]
) -> tuple[list[Finding], int]:
    """Return one finding for each fault that rows have, and the number of rows examined."""
    found: dict[str, list[tuple[int, str, str]]] = defaultdict(list)
    examined = 0
    for config, count in inputs.data.rows.items():
        step = 1 if sample is None else max(1, count // sample)
        for row in islice(inputs.data.read(config), 0, None, step):
            examined += 1
            for fault, excess, message in _faults(inputs, row):
                found[fault].append((excess, f"{config}/{row.index}", message))
        progress(config, count)
    findings = []
    for fault, rows in found.items():
        _, worst, message = max(rows, key=lambda each: each[0])
        configs = list(dict.fromkeys(name.rpartition("/")[0] for _, name, _ in rows))
        more = f" and {len(configs) - 3} other configs" if len(configs) > 3 else ""
        where = (
            f"{counted(len(rows), 'row')} of {', '.join(configs[:3])}{more}, {examined} examined"
        )
        level: Level = "warning" if fault == "room" else "error"
        findings.append(Finding(level, worst, f"{message} ({where})"))
    return findings, examined


def _faults(inputs: Inputs, row: Row) -> Iterator[tuple[str, int, str]]:
    """Yield the faults of a row: name, excess (the row with most is shown), message."""
    tokenizer, ids, room = inputs.tokenizer, inputs.ids(row), inputs.room(row)
    for fault, message in inputs.length_errors(row, ids, inputs.model.window).items():
        wrong = abs(len(ids) + row.max_new_tokens - row.length)
        yield fault, wrong if fault == "length" else len(ids) + room, message
    bos = next((place for place, each in enumerate(ids) if each != tokenizer.bos_id), len(ids))
    if tokenizer.wants_bos and bos != 1:
        begins = f"{bos} BOS tokens" if bos else "no BOS"
        message = f"the prompt begins with {begins}, the model expects one"
        yield "bos", 0, f"{message}; fix its chat template"
    task = inputs.data.manifest.table.get(row.task)
    if task is not None and task.metric == "part":
        return  # what a question of qa asks for may be implied
    text = tokenizer.decode(ids).lower()
    lost = [output for output in row.outputs if output.lower() not in text]
    if lost and not inputs.prompts.no_context:
        message = f"gold answer {lost[0]!r} is not in the prompt as sent; verify the data"
        yield "gold", 0, message
    lines = (f"\n{number}. {output}" for number, output in enumerate(row.outputs, 1))
    listed = tokenizer.count(["".join(lines)])[0]
    if listed > room and len(row.outputs) > 1:
        message = (
            f"gold answers as a numbered list take up to {listed} tokens, the protocol gives "
            f"{room}: a model that numbers its answers is cut off; --extra-tokens "
            f"{listed - room + 8} avoids this, but the results are not comparable with the default "
            "budget"
        )
        yield "room", listed - room, message


def _estimate(inputs: Inputs, gpu: str | None) -> Estimate | None:
    config, options = inputs.config, inputs.config.engine_options
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
