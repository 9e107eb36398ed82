"""Examine a run without loading the model: each finding names the rows, the fault and a remedy."""

from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from itertools import islice
from typing import Literal

from ruler_data.errors import UsageError
from ruler_data.names import quote
from ruler_data.row import Row
from ruler_eval.data import Size
from ruler_eval.doctor.estimate import GPUS, Estimate, estimate, shape_of
from ruler_eval.eval_config import EvalConfig
from ruler_eval.inputs import Inputs, open_inputs
from ruler_eval.models import text_part

Level = Literal["error", "warning", "note"]


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


#: A level and what is wrong, or None.
Fault = tuple[Level, str] | None
#: Examines a row and the token ids of its prompt.
Check = Callable[[Inputs, Row, list[int]], Fault]


def examine_model(inputs: Inputs) -> Iterator[Finding]:
    """Yield what is wrong with the model's tokenizer and template for this data and protocol."""
    tokenizer, protocol = inputs.tokenizer, inputs.prompts.protocol
    counted = inputs.data.manifest.tokenizer
    if not inputs.counts_alike:
        message = (
            f"{tokenizer.info.name} has fingerprint {tokenizer.info.fingerprint[:16]}, the data is "
            f"counted in {counted.name}, {counted.fingerprint[:16]}"
        )
        yield Finding("warning", "tokenizer", message)
    if protocol.template and not tokenizer.has_template:
        message = "the model has none: prompts are plain text, as in protocol base"
        yield Finding("note", "template", message)
    elif protocol.template and not tokenizer.opens_turn:
        message = (
            "it has no generation prompt: the model would continue as the user; use a template "
            "that supports add_generation_prompt"
        )
        yield Finding("error", "template", message)


def examine_rows(inputs: Inputs, config: str, rows: Iterable[Row]) -> Iterator[Finding]:
    """Yield what is wrong with rows of a config; for each check its first finding, with a count."""
    first: dict[Check, Finding] = {}
    counts: Counter[Check] = Counter()
    examined = listed = room = 0
    for row in rows:
        examined += 1
        ids = inputs.prompts.ids(inputs.tokenizer, row)
        for check in CHECKS:
            if fault := check(inputs, row, ids):
                counts[check] += 1
                first.setdefault(check, Finding(fault[0], f"{config}/{row.index}", fault[1]))
        listed = max(listed, _tokens_as_list(inputs, row))
        room = inputs.prompts.max_tokens(row.max_new_tokens)
    for check, finding in first.items():
        more = f" ({counts[check]} of {examined} rows examined)"
        yield replace(finding, message=finding.message + more)
    if listed > room:
        message = (
            f"gold answers as a numbered list take up to {listed} tokens, the protocol gives "
            f"{room}: a model that numbers its answers is cut off; --extra-tokens "
            f"{listed - room + 8} avoids this, but the results are not comparable with the default "
            "budget"
        )
        yield Finding("warning", config, message)


def _check_length(inputs: Inputs, row: Row, ids: list[int]) -> Fault:
    """Check that a `completion` prompt is as long as the data says."""
    length = len(ids) + row.max_new_tokens
    if not inputs.prompts.is_counted or length == row.length:
        return None
    level: Level = "error" if inputs.counts_alike else "warning"
    return level, (
        f"prompt and answer are {length} tokens, the data says {row.length}; the data's lengths "
        "are not this model's: for a fair comparison build it with --tokenizer of the model"
    )


def _check_window(inputs: Inputs, row: Row, ids: list[int]) -> Fault:
    need = len(ids) + inputs.prompts.max_tokens(row.max_new_tokens)
    window = inputs.model.window
    if window is None or need <= window:
        return None
    return "error", (
        f"prompt and answer need {need} tokens, the window is {window}; leave the config out, or "
        "extend the window, e.g. with YaRN"
    )


def _check_bos(inputs: Inputs, _row: Row, ids: list[int]) -> Fault:
    """Check for exactly one BOS at the beginning, where the model has one."""
    if not inputs.tokenizer.wants_bos:
        return None
    bos = inputs.tokenizer.bos_id
    count = next((place for place, token in enumerate(ids) if token != bos), len(ids))
    if count == 1:
        return None
    number = "no BOS" if count == 0 else f"{count} BOS tokens"
    return "error", f"the prompt begins with {number}, the model expects one; fix its chat template"


def _check_gold(inputs: Inputs, row: Row, ids: list[int]) -> Fault:
    """Check that the decoded prompt holds the gold answers (those of qa may be implied)."""
    if inputs.prompts.no_context or _is_qa(inputs, row):
        return None
    text = inputs.tokenizer.decode(ids).lower()
    lost = [output for output in row.outputs if output.lower() not in text]
    if not lost:
        return None
    return "error", f"gold answer {lost[0]!r} is not in the prompt as sent; verify the data"


#: The checks of every row.
CHECKS: tuple[Check, ...] = (_check_length, _check_window, _check_bos, _check_gold)


def _is_qa(inputs: Inputs, row: Row) -> bool:
    task = inputs.data.manifest.table.get(row.task)
    return task is not None and task.metric == "part"


def _tokens_as_list(inputs: Inputs, row: Row) -> int:
    """Return the tokens of several gold answers as a numbered list; 0 for one answer."""
    if _is_qa(inputs, row) or len(row.outputs) == 1:
        return 0
    lines = (f"{number}. {output}" for number, output in enumerate(row.outputs, 1))
    return inputs.tokenizer.count(["\n" + "\n".join(lines)])[0]


@dataclass(frozen=True)
class Diagnosis:
    """What was found.

    Attributes:
        findings: what to know.
        rows: number of rows examined.
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

    Raises:
        UsageError: data, model or tokenizer are not available, or the GPU is not known.
    """
    if gpu is not None and gpu not in GPUS:
        msg = f"--gpu {quote(gpu)}: not known; known: {', '.join(GPUS)}"
        raise UsageError(msg)
    inputs = open_inputs(config)
    findings, examined = list(examine_model(inputs)), 0
    if inputs.model.window is None:
        findings.append(Finding("warning", "window", "not known: the model's config does not say"))
    for name, count in inputs.data.rows.items():
        step = 1 if sample is None else max(1, count // sample)
        findings += examine_rows(inputs, name, islice(inputs.data.read(name), 0, None, step))
        examined += len(range(0, count, step))
        progress(name, count)
    cost = _estimate(inputs, gpu)
    if cost is not None and cost.fits is False:
        message = (
            f"weights of {cost.weight_bytes / 1e9:.1f} GB and keys and values of the longest row, "
            f"{cost.kv_bytes_longest / 1e9:.1f} GB, do not fit on {config.tensor_parallel} {gpu}; "
            "use more with --tensor-parallel"
        )
        findings.append(Finding("error", "memory", message))
    return Diagnosis(tuple(findings), examined, cost)


def _estimate(inputs: Inputs, gpu: str | None) -> Estimate | None:
    shape = shape_of(text_part(inputs.model.config))
    if shape is None:
        return None
    prompts = inputs.prompts
    rows = [
        Size(size.length + prompts.extra_tokens, prompts.max_tokens(size.max_new_tokens))
        for config in inputs.data.rows
        for size in inputs.data.sizes(config)
    ]
    return estimate(shape, rows, GPUS[gpu] if gpu else None, inputs.config.tensor_parallel)
