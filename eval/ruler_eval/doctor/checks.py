"""Examine a run without loading the model: each finding names the rows, the fault and a remedy."""

from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from itertools import islice
from typing import Any, Literal

from ruler_data.errors import UsageError
from ruler_data.names import counted, quote
from ruler_data.row import Row
from ruler_eval.data import Size
from ruler_eval.doctor.estimate import BATCH, GPUS, USABLE, Estimate, estimate, shape_of
from ruler_eval.engines import Engine, Request, prepare
from ruler_eval.engines.interface import NotInstalled
from ruler_eval.eval_config import EvalConfig
from ruler_eval.inputs import Inputs, open_inputs
from ruler_eval.metrics import opens_reasoning
from ruler_eval.models import text_part
from ruler_eval.prompts import PROTOCOLS

Level = Literal["error", "warning", "note"]
#: Seconds that an examined server may take to be up, if no option says otherwise.
PATIENCE = 10
#: Tokens that an examined server is asked for.
ASKED = 4


@dataclass(frozen=True)
class Finding:
    """Something to know before a run.

    Attributes:
        level: `error` where the run would be worthless, `warning` where answers may suffer,
            `note` otherwise.
        about: the config and row, or what else it is about.
        message: what is wrong, and what to do.
    """

    level: Level
    about: str
    message: str

    def __str__(self) -> str:
        return f"{self.level}: {self.about}: {self.message}"


@dataclass(frozen=True)
class Diagnosis:
    """What was found.

    Attributes:
        estimate: cost of the run; None where the model's config does not say enough.
    """

    findings: tuple[Finding, ...]
    rows: int
    estimate: Estimate | None

    @property
    def errors(self) -> int:
        """Number of findings that would make the run worthless."""
        return sum(finding.level == "error" for finding in self.findings)


def diagnose(
    config: EvalConfig, sample: int | None, gpu: str | None, progress: Callable[[str, int], None]
) -> Diagnosis:
    """Examine a run.

    Args:
        config: the options of the run.
        sample: rows of each config to render, evenly spread; all where None.
        gpu: name of the GPU for the estimate.
        progress: called with each config and the number of its rows that were examined.
    """
    if gpu is not None and gpu not in GPUS:
        msg = f"--gpu {quote(gpu)}: not known; known: {', '.join(GPUS)}"
        raise UsageError(msg)
    if config.engine == "openai":
        config = replace(config, options={"patience": PATIENCE, **config.engine_options})
    inputs = open_inputs(config)
    findings = list(_examine_model(inputs))
    if config.engine != "openai" and inputs.model.window is None:
        message = "not known: the model's config does not say"
        findings.append(Finding("warning", "window", message))
    longest = max(inputs.longest_requests().values())
    try:
        engine = prepare(config, inputs.model, inputs.tokenizer, longest)
    except NotInstalled as error:
        findings.append(Finding("note", "options", f"not checked: {error}"))
    else:
        findings += _examine_server(inputs, engine) if engine.opened else ()
    inputs.use_fast_counter()  # as a run does
    rows, examined = _examine_rows(inputs, sample, progress)
    cost = _estimate(inputs, gpu)
    if cost is None and inputs.model.config:
        message = "none: the model's config.json is of a kind that is not supported"
        findings.append(Finding("note", "estimate", message))
    if cost is not None and cost.fits is False:
        message = (
            f"weights of {cost.weight_bytes / 1e9:.1f} GB and keys and values of the longest row, "
            f"{cost.kv_bytes_longest / 1e9:.1f} GB, do not fit on {config.tensor_parallel} {gpu}; "
            "use more with --tensor-parallel"
        )
        findings.append(Finding("error", "memory", message))
    return Diagnosis((*findings, *rows), examined, cost)


def _examine_model(inputs: Inputs) -> Iterator[Finding]:
    """Yield what is wrong with the tokenizer and the template for this data and protocol."""
    tokenizer, prompts = inputs.tokenizer, inputs.prompts
    data = inputs.data.manifest.tokenizer
    if not inputs.counts_alike:
        config = next(iter(inputs.data.rows))
        row = next(inputs.data.read(config))
        length = len(prompts.ids(tokenizer, row)) + row.max_new_tokens
        message = (
            f"{tokenizer.info.name} ({tokenizer.info.fingerprint[:16]}) is not that of the data, "
            f"{data.name} ({data.fingerprint[:16]}): {config}/0 has {length} tokens, the data says "
            f"{row.length}; use rows for this tokenizer (`ruler-data find`, or `ruler-data build "
            "--tokenizer`), or name it with --tokenizer if you want these rows all the same"
        )
        yield Finding(
            "error" if inputs.config.tokenizer is None else "warning", "tokenizer", message
        )
    if not prompts.protocol.template:
        return
    if not tokenizer.has_template:
        message = "the model has none: prompts are plain text, as in protocol base"
        yield Finding("note", "template", message)
        return
    if not tokenizer.opens_turn:
        message = (
            "it has no generation prompt: the model would continue as the user; use a template "
            "that supports add_generation_prompt"
        )
        yield Finding("error", "template", message)
    frames = {
        name: replace(prompts, protocol=PROTOCOLS[name]).frame(tokenizer)
        for name in ("chat", "thinking")
    }
    thinks = opens_reasoning(frames["thinking"])
    if prompts.protocol.name == "thinking" and frames["chat"] == frames["thinking"] and not thinks:
        message = (
            "it ignores enable_thinking and opens no block of reasoning: unless the model reasons "
            "by itself, this is protocol chat with more room"
        )
        yield Finding("warning", "template", message)
    if prompts.protocol.name != "thinking" and opens_reasoning(frames["chat"]):
        message = "it opens a block of reasoning, which would be scored; use --protocol thinking"
        yield Finding("warning", "template", message)


def _examine_server(inputs: Inputs, engine: Engine) -> Iterator[Finding]:
    """Yield what a server does with the longest row; this takes one prefill of it."""
    assert engine.opened is not None
    engine = engine.opened()  # what the server refuses it tells itself
    sizes = [
        (size.length, config, index)
        for config in inputs.data.rows
        for index, size in enumerate(inputs.data.sizes(config))
    ]
    _, config, index = max(sizes)
    row = next(iter(inputs.data.read_alike(config, {index})))
    ids = inputs.prompts.ids(inputs.tokenizer, row)
    need = len(ids) + inputs.prompts.max_tokens(row.max_new_tokens)
    if engine.window is None:
        yield Finding("note", "server", "does not list its window (max_model_len)")
    elif engine.window < need:
        message = (
            f"its window is {engine.window} tokens, {config}/{index} needs {need}; start it with a "
            "longer one, or leave the config out"
        )
        yield Finding("error", "server", message)
        return
    if "min_tokens" in inputs.config.sampling and "min_tokens" not in engine.sampling:
        yield Finding("warning", "server", "refuses min_tokens: an answer may be empty")
    (said,) = engine.generate(iter([Request(config, row, ids, ASKED)]))
    if said.error is not None:
        yield Finding("error", f"{config}/{index}", said.error)
    elif said.prompt_tokens is None:
        yield Finding("warning", "server", "does not report how many tokens of a prompt it read")
    else:
        more = said.prompt_tokens - len(ids)
        level: Level = "warning" if more else "note"
        by = f"; its template differs from the one here by {more:+} tokens" if more else ""
        read = (
            f"read {said.prompt_tokens} tokens of {config}/{index}, {len(ids)} were rendered here"
        )
        yield Finding(level, "server", read + by)


#: What is wrong with a row: level, excess (the row with most is shown), message. None if nothing.
Fault = tuple[Level, int, str] | None
#: Examines a row and the token ids of its prompt.
Check = Callable[[Inputs, Row, list[int]], Fault]


def _examine_rows(
    inputs: Inputs, sample: int | None, progress: Callable[[str, int], None]
) -> tuple[list[Finding], int]:
    """Return one finding for each check that rows fail, and the number of rows examined."""
    worst: dict[Check, tuple[int, Finding]] = {}
    rows: dict[Check, Counter[str]] = {check: Counter() for check in CHECKS}
    examined = 0
    for config, count in inputs.data.rows.items():
        step = 1 if sample is None else max(1, count // sample)
        for row in islice(inputs.data.read(config), 0, None, step):
            examined += 1
            ids = inputs.prompts.ids(inputs.tokenizer, row)
            for check in CHECKS:
                if fault := check(inputs, row, ids):
                    level, excess, message = fault
                    rows[check][config] += 1
                    if check not in worst or excess > worst[check][0]:
                        worst[check] = excess, Finding(level, f"{config}/{row.index}", message)
        progress(config, count)
    return [
        replace(finding, message=f"{finding.message} ({_where(rows[check])}, {examined} examined)")
        for check, (_, finding) in worst.items()
    ], examined


def _where(rows: Mapping[str, int]) -> str:
    """Return how many rows of which configs.

    >>> _where({"vt_4096": 20, "cwe_4096": 1})
    '21 rows of vt_4096, cwe_4096'
    """
    names = list(rows)
    more = f" and {len(names) - 3} other configs" if len(names) > 3 else ""
    return f"{counted(sum(rows.values()), 'row')} of {', '.join(names[:3])}{more}"


def _check_length(inputs: Inputs, row: Row, ids: list[int]) -> Fault:
    """Check that a `completion` prompt is as long as the data says."""
    length = len(ids) + row.max_new_tokens
    if not (inputs.prompts.is_counted and inputs.counts_alike) or length == row.length:
        return None
    message = f"prompt and answer are {length} tokens, the data says {row.length}; verify the data"
    return "error", abs(length - row.length), message


def _check_window(inputs: Inputs, row: Row, ids: list[int]) -> Fault:
    need = len(ids) + inputs.prompts.max_tokens(row.max_new_tokens)
    window = inputs.model.window
    if window is None or need <= window:
        return None
    message = (
        f"prompt and answer need {need} tokens, the window is {window}; leave the config out, or "
        "extend the window, e.g. with YaRN"
    )
    return "error", need, message


def _check_bos(inputs: Inputs, _row: Row, ids: list[int]) -> Fault:
    """Check for exactly one BOS at the beginning, where the model has one."""
    if not inputs.tokenizer.wants_bos:
        return None
    bos = inputs.tokenizer.bos_id
    count = next((place for place, token in enumerate(ids) if token != bos), len(ids))
    if count == 1:
        return None
    number = "no BOS" if count == 0 else f"{count} BOS tokens"
    message = f"the prompt begins with {number}, the model expects one; fix its chat template"
    return "error", 0, message


def _check_gold(inputs: Inputs, row: Row, ids: list[int]) -> Fault:
    """Check that the decoded prompt holds the gold answers (those of qa may be implied)."""
    if inputs.prompts.no_context or _is_qa(inputs, row):
        return None
    text = inputs.tokenizer.decode(ids).lower()
    lost = [output for output in row.outputs if output.lower() not in text]
    if not lost:
        return None
    return "error", 0, f"gold answer {lost[0]!r} is not in the prompt as sent; verify the data"


def _check_room(inputs: Inputs, row: Row, _ids: list[int]) -> Fault:
    """Check that several gold answers as a numbered list fit the answer's budget."""
    if _is_qa(inputs, row) or len(row.outputs) == 1:
        return None
    lines = (f"{number}. {output}" for number, output in enumerate(row.outputs, 1))
    listed = inputs.tokenizer.count(["\n" + "\n".join(lines)])[0]
    room = inputs.prompts.max_tokens(row.max_new_tokens)
    if listed <= room:
        return None
    message = (
        f"gold answers as a numbered list take up to {listed} tokens, the protocol gives {room}: a "
        f"model that numbers its answers is cut off; --extra-tokens {listed - room + 8} avoids "
        "this, but the results are not comparable with the default budget"
    )
    return "warning", listed - room, message


#: The checks of every row.
CHECKS: tuple[Check, ...] = (_check_length, _check_window, _check_bos, _check_gold, _check_room)


def _is_qa(inputs: Inputs, row: Row) -> bool:
    task = inputs.data.manifest.table.get(row.task)
    return task is not None and task.metric == "part"


def _estimate(inputs: Inputs, gpu: str | None) -> Estimate | None:
    config, prompts = inputs.config, inputs.prompts
    options: dict[str, Any] = config.engine_options
    shape = shape_of(text_part(inputs.model.config), inputs.model.weight_bytes, options)
    if shape is None:
        return None
    rows = [
        Size(size.length + prompts.extra_tokens, prompts.max_tokens(size.max_new_tokens))
        for name in inputs.data.rows
        for size in inputs.data.sizes(name)
    ]
    batches = {"transformers": 1, "python": options.get("batch", 1)}
    return estimate(
        shape,
        rows,
        GPUS[gpu] if gpu else None,
        config.tensor_parallel,
        config.samples,
        batches.get(config.engine, BATCH),
        options.get("gpu_memory_utilization", USABLE),
    )
