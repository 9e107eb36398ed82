"""`ruler-eval gate --plan`: before a run, how many rows of which configs a gate needs.

A gate passes a run if the lower ends of the 95 % intervals of its differences from the baseline,
overall and by category, are above minus the margin. For two equally good models one is with a power
of P once the margin is 1.96 + z(P) standard errors of the difference (Julious, Statistics in
Medicine 23 (2004)). Each of n tests has the nth root of 80 %, so that at least 80 of 100
pass them all.
The variance of a row's difference is taken as twice the variance of its score times 1 - `SHARED`,
because hard questions are hard for both models. Scores and their variance are those of the
baseline; without one a score of 90 is assumed.
"""

import math
from collections.abc import Iterable
from dataclasses import asdict, dataclass
from statistics import NormalDist

import numpy as np

from ruler_data.errors import UsageError
from ruler_data.names import parse_config, quote
from ruler_data.tasks import TASKS
from ruler_eval.estimate import GPUS, Estimate, estimate, shape_of
from ruler_eval.eval_config import EvalConfig
from ruler_eval.models import open_model, text_part
from ruler_report.format import format_length
from ruler_report.results_file import Results
from ruler_report.stats.baseline import check_margin
from ruler_report.stats.effective_length import OVERALL
from ruler_report.table import Printable, Table

#: Share of equal models that pass all tests.
POWER = 0.8
#: Share of the variance that two models have in common; an assumption.
SHARED = 0.5
#: Score of a row that is assumed without a baseline.
USUAL = 0.9
#: Rows of a config of the suite `ruler`.
RELEASED = 500
LENGTHS = (4096, 8192, 16384, 32768, 65536, 131072)


@dataclass(frozen=True)
class Part:
    """What one test of a gate needs: `rows` of each of its `configs`.

    Attributes:
        smallest: margin in percentage points that the available rows can show.
    """

    name: str
    configs: int
    rows: int
    smallest: float


@dataclass(frozen=True, repr=False)
class GatePlan(Printable):
    """The plan of a gate; it prints as a table.

    Attributes:
        margin: in percentage points.
        parts: the mean over all tasks, and each category.
        lengths: in tokens.
        rows: of each config that decide all tests.
        available: rows of each config that can be run.
        cost: of generating them with a model; None if none is given, or it is not supported.
    """

    margin: float
    parts: tuple[Part, ...]
    lengths: tuple[int, ...]
    rows: int
    available: int = RELEASED
    cost: Estimate | None = None
    notes: tuple[str, ...] = ()

    @property
    def decides(self) -> bool:
        """Whether that many rows are available."""
        return self.rows <= self.available

    def display_parts(self) -> list[Table | str]:
        """Return the table, the rows to run, and what they cost."""
        rows = tuple(
            (one.name, str(one.configs), f"{one.rows:,}", f"{one.smallest:.2f}")
            for one in self.parts
        )
        caption = (
            f"Rows that show a loss below {self.margin:g} points in at least 80 of 100 equal models"
        )
        smallest = f"smallest margin with {self.available} rows"
        table = Table("plan", caption, ("test", "configs", "rows a config", smallest), rows)
        lengths = ",".join(map(str, self.lengths))
        line = (
            f"the first {self.rows:,} rows of each config decide: `ruler-eval run … --rows "
            f"{self.rows}`, then `ruler-eval gate RUN --baseline … --rows {self.rows} "
            f"--lengths {lengths}`"
        )
        if not self.decides:
            worst = max(self.parts, key=lambda one: one.rows)
            line = (
                f"{self.available} rows cannot decide {worst.name} at {self.margin:g} points; they "
                f"can at --margin {math.ceil(10 * worst.smallest) / 10:g}"
            )
        if self.cost is None:
            return [table, line]
        if self.cost.gpu_hours is None:
            return [table, line, "the model does not fit on the GPU"]
        low, high = (60 * hours for hours in self.cost.gpu_hours)
        return [table, line, f"about {low:,.0f} to {high:,.0f} GPU minutes"]

    def to_record(self) -> dict[str, object]:
        """Return the plan as plain values."""
        hours = self.cost.gpu_hours if self.cost else None
        record = {
            name: getattr(self, name)
            for name in ("margin", "lengths", "rows", "available", "decides")
        }
        record["parts"] = [asdict(one) for one in self.parts]
        record["gpu_minutes"] = [60 * hour for hour in hours] if hours else None
        return {**record, "notes": self.notes}


def plan(
    margin: float,
    baseline: Results | None = None,
    *,
    rows: int | None = None,
    lengths: Iterable[int] = (),
    model: str = "",
    gpu: str = "",
) -> GatePlan:
    """Return how many rows of each config decide a gate; see the command.

    `rows` of each config can be run, by default and at most those of a release; `lengths` are by
    default those of the baseline, or RULER's six. `model` and `gpu` are for the estimate of GPU
    minutes.
    """
    check_margin(margin)
    variances = _variances(baseline, tuple(lengths))
    every = tuple(sorted({length for _, length in variances}))
    categories: dict[str, list[float]] = {OVERALL: list(variances.values())}
    for (task, length), variance in variances.items():
        name = f"{task}_{length}"
        known = baseline.configs[name].category if baseline else TASKS[task].category
        categories.setdefault(known, []).append(variance)
    available = min(rows or RELEASED, RELEASED)
    errors = 1.96 + NormalDist().inv_cdf(POWER ** (1 / len(categories)))
    parts = tuple(
        _part(name, values, margin / 100, errors, available) for name, values in categories.items()
    )
    needed = max(part.rows for part in parts)
    cost, notes = None, list[str]()
    if model or gpu:
        cost, notes = _cost(model, gpu, min(needed, available), variances)
    if baseline and (empty := [name for name in baseline.configs if not _known(baseline, name)]):
        notes.append(f"not planned, since no row of the baseline has a score: {', '.join(empty)}")
    notes.append(
        f"assumed: {SHARED:.0%} of the variance of a row's score is common to both models"
        + ("" if baseline else f", and a score of {100 * USUAL:g}; --baseline tells it")
    )
    return GatePlan(margin, parts, every, needed, available, cost, tuple(notes))


def _variances(baseline: Results | None, lengths: tuple[int, ...]) -> dict[tuple[str, int], float]:
    """Return the variance of a row's score in each config; two more rows keep it above 0."""
    if baseline is None:
        of = USUAL * (1 - USUAL)
        return {(task, length): of for length in lengths or LENGTHS for task in TASKS}
    variances = {}
    for name in baseline.configs:
        key = parse_config(name)
        if (known := _known(baseline, name)) and (not lengths or key[1] in lengths):
            variances[key] = float(np.var([*known, 0.0, 1.0]))
    if not variances:
        what = ", ".join(map(format_length, lengths)) or "any length"
        msg = f"--baseline {quote(baseline.run.model)}: no row of {what} has a score"
        raise UsageError(msg)
    return variances


def _known(baseline: Results, config: str) -> list[float]:
    return [one for one in baseline.configs[config].headline_scores if one is not None]


def _part(name: str, variances: list[float], margin: float, errors: float, available: int) -> Part:
    """Return what a mean over configs needs; a margin has so many standard errors."""
    configs = len(variances)
    of_mean = 2 * (1 - SHARED) * sum(variances) / configs**2  # times 1 / rows of each config
    rows = max(2, math.ceil(of_mean * (errors / margin) ** 2))
    return Part(name, configs, rows, 100 * errors * math.sqrt(of_mean / available))


def _cost(
    model: str, gpu: str, rows: int, configs: Iterable[tuple[str, int]]
) -> tuple[Estimate | None, list[str]]:
    """Return what the rows cost to generate, by the arithmetic of `ruler-eval doctor`."""
    if gpu not in GPUS:
        msg = f"--gpu {quote(gpu)}: known are {', '.join(GPUS)}"
        raise UsageError(msg)
    if not model:
        msg = f"--model is missing: --gpu {gpu} is for what it would cost to run one"
        raise UsageError(msg)
    checkpoint = open_model(EvalConfig(model=model))
    shape = shape_of(text_part(checkpoint.config), checkpoint.weight_bytes, {})
    if shape is None:
        return None, [f"{checkpoint.name}: no estimate for this architecture"]
    budgets = {task: TASKS[task].max_new_tokens if task in TASKS else 128 for task, _ in configs}
    tokens = [(length, budgets[task]) for task, length in configs for _ in range(rows)]
    return estimate(shape, tokens, GPUS[gpu]), []
