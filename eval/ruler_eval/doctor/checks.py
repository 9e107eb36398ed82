"""What would go wrong: each finding names the rows, what is wrong and what to do.

The doctor: examines an order without loading the model.
"""

from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from itertools import islice
from typing import Literal

from ruler_data.errors import UsageError
from ruler_data.names import quote
from ruler_data.row import Row
from ruler_data.tokenizers import PromptTokenizer
from ruler_eval.data import Dataset
from ruler_eval.doctor.estimate import GPUS, Estimate, estimate, shape_of
from ruler_eval.eval_config import EvalConfig
from ruler_eval.models import Model, text_part
from ruler_eval.prompts import PromptFormat, counts_alike
from ruler_eval.sharding import Item

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


@dataclass(frozen=True)
class Bench:
    """What rows are examined with."""

    data: Dataset
    tokenizer: PromptTokenizer
    asking: PromptFormat
    window: int | None


@dataclass(frozen=True)
class Sent:
    """A row, and the token ids that the model would see of it."""

    row: Row
    ids: list[int]


#: A level and what is wrong, or None; and what finds it.
Said = tuple[Level, str] | None
Check = Callable[[Bench, Sent], Said]


def examine_model(bench: Bench) -> Iterator[Finding]:
    """Yield what is wrong with the model's tokenizer and template for this data and protocol."""
    tokenizer, asking = bench.tokenizer, bench.asking
    theirs = bench.data.manifest.tokenizer
    if not counts_alike(bench.data, tokenizer):
        yield Finding(
            "warning", "tokenizer",
            f"{tokenizer.info.name} has fingerprint {tokenizer.info.fingerprint[:16]}, the data is "
            f"counted in {theirs.name}, {theirs.fingerprint[:16]}",
        )  # fmt: skip
    if asking.protocol.template and not tokenizer.has_template:
        yield Finding(
            "note", "template", "the model has none: prompts are plain text, as in protocol base"
        )
    elif asking.protocol.template and not tokenizer.opens_turn:
        yield Finding(
            "error", "template",
            "it has no generation prompt: the model would go on as the user; use a template that "
            "heeds add_generation_prompt",
        )  # fmt: skip


def examine_rows(bench: Bench, config: str, rows: Iterable[Row]) -> Iterator[Finding]:
    """Yield what is wrong with rows of a config; of each kind the first, with their number."""
    first: dict[Check, Finding] = {}
    counts: Counter[Check] = Counter()
    examined = listed = room = 0
    for row in rows:
        examined += 1
        sent = Sent(row, bench.asking.ids(bench.tokenizer, row))
        for check in CHECKS:
            if said := check(bench, sent):
                counts[check] += 1
                first.setdefault(check, Finding(said[0], f"{config}/{row.index}", said[1]))
        listed = max(listed, _as_list(bench, row))
        room = bench.asking.max_tokens(row.max_new_tokens)
    for check, finding in first.items():
        more = f" ({counts[check]} of {examined} rows examined)"
        yield replace(finding, message=finding.message + more)
    if listed > room:
        yield Finding(
            "warning", config,
            f"golden answers as a numbered list take up to {listed} tokens, the protocol gives "
            f"{room}: a model that numbers its answers is cut off; --extra-tokens "
            f"{listed - room + 8} gives room, but other results than everyone else's",
        )  # fmt: skip


def _length(bench: Bench, sent: Sent) -> Said:
    """The prompt of `completion` must be as long as the data says, if it is of one tokenizer."""
    if not bench.asking.is_counted:
        return None
    found = len(sent.ids) + sent.row.max_new_tokens
    if found == sent.row.length:
        return None
    level: Level = "error" if counts_alike(bench.data, bench.tokenizer) else "warning"
    return level, (
        f"prompt and answer are {found} tokens, the data says {sent.row.length}; lengths of this "
        "data are not this model's: build it with --tokenizer of the model to compare it fairly"
    )


def _window(bench: Bench, sent: Sent) -> Said:
    need = len(sent.ids) + bench.asking.max_tokens(sent.row.max_new_tokens)
    if bench.window is None or need <= bench.window:
        return None
    return "error", (
        f"prompt and answer need {need} tokens, the window is {bench.window}; leave the config "
        "out, or extend the window, e.g. with YaRN"
    )


def _bos(bench: Bench, sent: Sent) -> Said:
    """Exactly one BOS, at the beginning, where the model has one."""
    if not bench.tokenizer.wants_bos:
        return None
    bos = bench.tokenizer.bos_id
    count = next((place for place, token in enumerate(sent.ids) if token != bos), len(sent.ids))
    if count == 1:
        return None
    what = "no BOS" if count == 0 else f"{count} BOS"
    return "error", f"the prompt begins with {what}, the model wants one; mend its chat template"


def _golden(bench: Bench, sent: Sent) -> Said:
    """What is sent, decoded again, must hold the golden answers (those of qa may be implied)."""
    if bench.asking.no_context or _is_qa(bench, sent.row):
        return None
    text = bench.tokenizer.decode(sent.ids).lower()
    lost = [output for output in sent.row.outputs if output.lower() not in text]
    if not lost:
        return None
    return "error", f"golden answer {lost[0]!r} is not in the prompt as sent; verify the data"


#: What every row is examined for.
CHECKS: tuple[Check, ...] = (_length, _window, _bos, _golden)


def _is_qa(bench: Bench, row: Row) -> bool:
    task = bench.data.manifest.table.get(row.task)
    return task is not None and task.metric == "part"


def _as_list(bench: Bench, row: Row) -> int:
    """Return the tokens of several golden answers written as a numbered list; 0 for one answer."""
    if _is_qa(bench, row) or len(row.outputs) == 1:
        return 0
    lines = (f"{number}. {output}" for number, output in enumerate(row.outputs, 1))
    return bench.tokenizer.count(["\n" + "\n".join(lines)])[0]


@dataclass(frozen=True)
class Diagnosis:
    """What was found.

    Attributes:
        findings: what to know.
        rows: number of rows examined.
        estimate: what the run would cost; None where the model's config does not tell.
    """

    findings: tuple[Finding, ...]
    rows: int
    estimate: Estimate | None

    @property
    def errors(self) -> int:
        """Number of findings that would make the run worthless."""
        return sum(finding.level == "error" for finding in self.findings)


def diagnose(
    order: EvalConfig, sample: int | None, gpu: str | None, progress: Callable[[str, int], None]
) -> Diagnosis:
    """Examine an order.

    Args:
        order: what would be run.
        sample: rows of each config to render, evenly spread; all where None.
        gpu: name of the GPU that would compute.
        progress: called with each config and the number of its rows that were examined.

    Raises:
        UsageError: data, model or tokenizer cannot be had, or the GPU is not known.
    """
    if gpu is not None and gpu not in GPUS:
        msg = f"--gpu {quote(gpu)}: not known; known: {', '.join(GPUS)}"
        raise UsageError(msg)
    data, model, asking = order.open_data(), order.open_model(), order.asking
    tokenizer = order.open_tokenizer(model, data)
    asking.check(tokenizer)
    limit = order.options.get("max_model_len", model.window)
    bench = Bench(data, tokenizer, asking, limit if isinstance(limit, int) else None)
    findings, examined = list(examine_model(bench)), 0
    if bench.window is None:
        findings.append(Finding("warning", "window", "not known: the model's config does not say"))
    for config, count in data.rows.items():
        step = 1 if sample is None else max(1, count // sample)
        findings += examine_rows(bench, config, islice(data.read(config), 0, None, step))
        examined += len(range(0, count, step))
        progress(config, count)
    cost = _estimate(order, data, model, gpu)
    if cost is not None and cost.fits is False:
        findings.append(_too_small(order, cost, str(gpu)))
    return Diagnosis(tuple(findings), examined, cost)


def _estimate(order: EvalConfig, data: Dataset, model: Model, gpu: str | None) -> Estimate | None:
    shape = shape_of(text_part(model.config))
    if shape is None:
        return None
    items = [
        (Item(config, index, size.length + order.asking.extra_tokens), room)
        for config in data.rows
        for index, size in enumerate(data.sizes(config))
        for room in [order.asking.max_tokens(size.max_new_tokens)]
    ]
    return estimate(shape, items, GPUS[gpu] if gpu else None, order.tensor_parallel)


def _too_small(order: EvalConfig, cost: Estimate, gpu: str) -> Finding:
    return Finding(
        "error", "memory",
        f"weights of {cost.weight_bytes / 1e9:.1f} GB and keys and values of the longest row, "
        f"{cost.kv_bytes_longest / 1e9:.1f} GB, do not fit on {order.tensor_parallel} {gpu}; "
        "use more with --tensor-parallel",
    )  # fmt: skip
