"""Differences between two runs, with intervals, p-values and verdicts.

`comparability.py` decides whether two runs can be compared, and how. If paired, only questions that
both scored count, and each one's two scores are subtracted. Intervals and p-values are those of
`intervals.py`: a p-value is below 5 % exactly if the interval leaves out 0. `contamination.py`
compares the runs of one model on public and fresh rows.

Holm's method (Holm 1979) corrects p-values within each family of tests, over all pairs of runs
that are compared together: all cells, all tasks, all lengths, and the overall means.
"""

from collections import defaultdict
from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from itertools import product
from typing import Any, TypeVar, get_args

import numpy as np

from ruler_data.errors import RulerError, UsageError
from ruler_data.names import counted, quote
from ruler_eval.schema import RunInfo
from ruler_report.format import format_length, format_p, format_signed, visible
from ruler_report.results_file import Results, Run, ScoreName, read_results
from ruler_report.stats.comparability import Comparability, caveats, comparability
from ruler_report.stats.intervals import LEVEL, minus
from ruler_report.stats.score_table import Key, SharedScores
from ruler_report.table import Shown, Table

K = TypeVar("K", bound=Hashable)
FIRST, SECOND, CANNOT_TELL = "first", "second", "cannot tell"
CONTAMINATED, NO_SIGN = "contaminated", "no sign"
#: What a verdict about contamination means.
MEANINGS = {
    CONTAMINATED: "public rows are easier for it than fresh ones, as if it had seen them",
    NO_SIGN: "if public rows are easier for it, then by less than {margin:g} points",
    CANNOT_TELL: "a gap of {margin:g} points is neither shown nor ruled out; more rows would tell",
}


@dataclass(frozen=True)
class Difference:
    """A difference between two means, in percentage points.

    Attributes:
        value: the difference; `low` and `high` are its 95 % interval.
        p: the p-value; `adjusted` is corrected for the other tests of its family. Two-sided, but
            one-sided in a test for contamination.
        rows: the scored rows in each mean; for paired runs the same number twice.
        verdict: what the difference shows.

    >>> print(Difference(-7.25, -8.0, -6.5, 0.0001, (500, 500)))
    -7.2 [-8.0, -6.5]
    """

    value: float
    low: float
    high: float
    p: float
    rows: tuple[int, int]
    adjusted: float = 1.0
    verdict: str = CANNOT_TELL

    def __str__(self) -> str:
        return f"{format_signed(self.value)} [{self.low:+.1f}, {self.high:+.1f}]"


Verdict = Callable[[Difference], str]


@dataclass(frozen=True, repr=False)
class Comparison(Shown):
    """Two runs compared; it prints as a table with a conclusion.

    Attributes:
        runs: the two runs.
        lengths: in tokens, of all that is compared.
        tasks: those that both runs have at every one of these lengths.
        differences: by task and length; None stands for the mean over all tasks, or lengths.
            Second minus first; public minus fresh in a test for contamination.
        paired: whether both runs answered the same questions.
        basis: how the runs are compared, in one line.
        margin: in a test for contamination the smallest gap that matters, in percentage points;
            the first run is then on public and the second on fresh rows.
        left_out: configs that are not compared: a run lacks them, at this or another length.
        warnings: why the runs should not be compared; empty unless the comparison was forced.
        notes: everything that a reader must know before the numbers, warnings included.
        categories: differences of the means over the tasks of a category and all lengths.
        exact: difference of the mean exact scores, if another score is compared; not corrected.
    """

    runs: tuple[RunInfo, RunInfo]
    lengths: tuple[int, ...]
    tasks: tuple[str, ...]
    differences: dict[Key, Difference]
    paired: bool
    basis: str
    margin: float | None = None
    left_out: tuple[str, ...] = ()
    warnings: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()
    categories: dict[str, Difference] = field(default_factory=dict)
    exact: Difference | None = None

    def shown(self) -> tuple[Table | str, ...]:
        """Return the differences, the conclusions, and how the runs were compared."""
        exact = [f"exact score: {self._conclude(self.exact)}"] if self.exact else []
        return self.table(), self.conclusion, *exact, self.basis

    @property
    def overall(self) -> Difference:
        """The difference of the means over all tasks and lengths."""
        return self.differences[None, None]

    @property
    def means(self) -> dict[str, Difference]:
        """The differences of the means over all lengths: `overall`, and by category."""
        return {"overall": self.overall, **self.categories}

    def to_record(self) -> dict[str, Any]:
        """Return the comparison as plain values, as `ruler-eval compare --json` prints it."""
        first, second = (run.model for run in self.runs)
        runs: dict[str, Any] = {"first": first, "second": second}
        if self.margin is not None:
            runs = {"model": first, "margin": self.margin}
        plain = {key: self._plain(one) for key, one in self.differences.items()}
        return {
            "paired": self.paired,
            "basis": self.basis,
            "cells": {f"{task}_{n}": one for (task, n), one in plain.items() if task and n},
            "by_task": {task: one for (task, n), one in plain.items() if task and not n},
            "by_length": {n: one for (task, n), one in plain.items() if n and not task},
            "by_category": {name: self._plain(one) for name, one in self.categories.items()},
            "overall": plain[None, None],
            **runs,
            **({"exact": self._plain(self.exact)} if self.exact else {}),
            "lengths": list(self.lengths),
            "tasks": list(self.tasks),
            "left_out": list(self.left_out),
            "warnings": list(self.warnings),
        }

    def to_records(self) -> list[dict[str, Any]]:
        """Return a flat record for each difference; `task` or `length` is None in a mean over it.

        `pandas.DataFrame(comparison.to_records())` is a table of all of them.
        """
        return [
            {"task": task, "length": length, **self._plain(difference)}
            for (task, length), difference in self.differences.items()
        ]

    def _plain(self, difference: Difference) -> dict[str, Any]:
        record = asdict(difference)
        first, second = record.pop("rows")
        if self.paired:
            return {**record, "pairs": first}
        names = ("rows_first", "rows_second") if self.margin is None else ("public", "fresh")
        return {**record, **dict(zip(names, (first, second), strict=True))}

    @property
    def conclusion(self) -> str:
        """What the overall difference shows, in one line."""
        return self._conclude(self.overall)

    def _conclude(self, overall: Difference) -> str:
        first, second = labels_of(self.runs)
        result = f"{overall} points, p {format_p(overall.p, relation=True)}"
        if self.margin is not None:
            public, fresh = overall.rows
            meaning = MEANINGS[overall.verdict].format(margin=self.margin)
            rows = f"{public:,} public rows minus {fresh:,} fresh rows"
            return f"{first} on {rows}: {result}: {overall.verdict}; {meaning}"
        better = {FIRST: f"{first} is better", SECOND: f"{second} is better"}
        verdict = better.get(overall.verdict, "cannot tell them apart")
        return f"{second} minus {first}: {result}: {verdict}"

    def table(self, name: str = "comparison", labels: Sequence[str] = ()) -> Table:
        """Return the differences by task and length.

        With `labels` for the runs it is for a page: it has all intervals, and verdicts name runs.
        """
        names = dict(zip((FIRST, SECOND), labels, strict=False))
        rows = []
        for task in (*self.tasks, None):
            cells = []
            for length in self.lengths:
                cell = self.differences[task, length]
                mark = "" if cell.verdict in (CANNOT_TELL, NO_SIGN) else " *"
                cells.append((str(cell) if labels else format_signed(cell.value)) + mark)
            mean = self.differences[task, None]
            verdict = names.get(mean.verdict, mean.verdict)
            ps = map(format_p, (mean.p, mean.adjusted))
            rows.append((task or "all tasks", verdict, str(mean), *ps, *cells))
        last = "better" if self.margin is None else "verdict"
        head = ("task", last, "mean", "p", "p (Holm)", *map(format_length, self.lengths))
        return Table(name, self._caption(labels), head, tuple(rows), (len(rows) - 1,))

    def _caption(self, labels: Sequence[str]) -> str:
        if self.margin is not None:
            return "public minus fresh rows, in percentage points; * greater than by chance"
        first, second = labels or ("first", "second run")
        how = "paired" if self.paired else "unpaired"
        intervals = ", with 95 % intervals" if labels else ""
        return (
            f"{second} minus {first}, {how}, in percentage points{intervals}; "
            "* significant at 5 % after Holm's correction"
        )


def labels_of(runs: Sequence[RunInfo]) -> list[str]:
    """Return a distinct name for each run: its model, numbered if another run has the same."""
    labels: list[str] = []
    for run in runs:
        name = visible(run.model)[:80] + (" without context" if run.no_context else "")
        again = sum(label == name or label.startswith(f"{name} (") for label in labels)
        labels.append(f"{name} ({again + 1})" if again else name)
    return labels


def holm(values: Mapping[K, float]) -> dict[K, float]:
    """Return Holm's corrected p-values of a family of tests.

    >>> holm({"a": 0.03, "b": 0.02})
    {'b': 0.04, 'a': 0.04}
    """
    adjusted: dict[K, float] = {}
    floor = 0.0
    for place, (name, p) in enumerate(sorted(values.items(), key=lambda item: item[1])):
        floor = adjusted[name] = max(floor, min(1.0, p * (len(values) - place)))
    return adjusted


def judge(comparisons: Sequence[Comparison], verdict: Verdict) -> list[Comparison]:
    """Return comparisons with p-values corrected over all of them, and with verdicts."""
    families: defaultdict[object, dict[tuple[int, object], float]] = defaultdict(dict)
    for place, comparison in enumerate(comparisons):
        for key, one in comparison.differences.items():
            families[key[0] is None, key[1] is None][place, key] = one.p
        for name, one in comparison.categories.items():
            families["categories"][place, name] = one.p
    adjusted = {test: p for family in families.values() for test, p in holm(family).items()}

    def judged(place: int, gaps: Mapping[K, Difference]) -> dict[K, Difference]:
        corrected = {key: replace(gap, adjusted=adjusted[place, key]) for key, gap in gaps.items()}
        return {key: replace(gap, verdict=verdict(gap)) for key, gap in corrected.items()}

    return [
        replace(
            comparison,
            differences=judged(place, comparison.differences),
            categories=judged(place, comparison.categories),
        )
        for place, comparison in enumerate(comparisons)
    ]


def better(difference: Difference) -> str:
    """Return which of two runs is better."""
    if difference.adjusted >= LEVEL:
        return CANNOT_TELL
    return SECOND if difference.value > 0 else FIRST


def compare(
    first: Run, second: Run, *, force: bool = False, score: ScoreName | None = None
) -> Comparison:
    """Compare two runs; differences are second minus first.

    Args:
        first: a run: its folder, the path of its `results.json`, or its results.
        second: another run.
        force: compare even if protocols, suites or versions differ; `notes` then says so.
        score: the score to compare; by default that which reports lead with.

    Raises:
        UsageError: there is no such run or score, or it is not scored.
        RulerError: the runs cannot be compared and `force` is false, their editions differ, or
            they share no task.
    """
    return compare_all([(first, second)], force=force, score=score)[0]


def compare_all(
    pairs: Sequence[tuple[Run, Run]], *, force: bool = False, score: ScoreName | None = None
) -> list[Comparison]:
    """Compare pairs of runs as `compare`, with p-values corrected over all pairs."""
    runs = [(read_results(first), read_results(second)) for first, second in pairs]
    return judge([_compare(first, second, force, score) for first, second in runs], better)


def _compare(first: Results, second: Results, force: bool, score: ScoreName | None) -> Comparison:
    how = comparability(first, second)
    same_edition = first.run.data.edition == second.run.data.edition
    if how.obstacles and not (force and same_edition):
        remedy = "--force compares anyway" if same_edition else "run both models on one edition"
        msg = f"not comparable: {'; '.join(how.obstacles)}; {remedy}"
        raise RulerError(msg)
    runs = [_with_score(run, score) for run in (first, second)]
    made = measure(runs[0], runs[1], how)
    if any(set(one.exact) <= {None} for run in runs for one in run.configs.values()):
        return made
    exact = [_with_score(run, "exact") for run in runs]
    if exact == runs:
        return made
    overall = measure(exact[0], exact[1], how).overall
    overall = replace(overall, adjusted=overall.p)
    return replace(made, exact=replace(overall, verdict=better(overall)))


def _with_score(results: Results, score: ScoreName | None) -> Results:
    """Return results whose headline is a score; unchanged if none is named."""
    if score is None:
        return results
    if score not in get_args(ScoreName):
        msg = f"--score {quote(score)}: not known; known: {', '.join(get_args(ScoreName))}"
        raise UsageError(msg)
    for name, config in results.configs.items():
        if config.scored and set(config.scores_of(score)) == {None}:
            msg = f"--score {score}: {name} was scored by a version without it; score it again"
            raise UsageError(msg)
    configs = {name: replace(one, headline=score) for name, one in results.configs.items()}
    return replace(results, configs=configs)


def measure(
    first: Results, second: Results, how: Comparability, margin: float | None = None
) -> Comparison:
    """Return all differences between two runs, p-values not yet corrected.

    With a margin, as in `Comparison`, they are first minus second and the tests one-sided.
    """
    shared = SharedScores.of(first, second, paired=how.paired)
    if not shared.tasks:
        msg = (
            "nothing to compare: no task was scored by both runs at all lengths that both have; "
            "report them one at a time"
        )
        raise RulerError(msg)

    def difference(tasks: Sequence[str], length: int | None) -> Difference:
        one, other = shared.means(tasks, length)
        gap = minus(*((one, other) if margin is not None else (other, one)), paired=how.paired)
        above, below = gap.p_values()
        p = above if margin is not None else np.minimum(1, 2 * np.minimum(above, below))
        return Difference(*gap.percent(), float(p), (one.scored, other.scored))

    configs = {f"{task}_{length}" for task, length in product(shared.tasks, shared.lengths)}
    left_out = sorted((first.configs.keys() | second.configs.keys()) - configs)
    categories: dict[str, list[str]] = {}
    for task in shared.tasks:
        category = first.configs[f"{task}_{shared.lengths[0]}"].category
        categories.setdefault(category, []).append(task)
    runs = (first.run, second.run)
    labels = labels_of(runs) if margin is None else ("public rows", "fresh rows")
    notes = [f"forced: {obstacle}" for obstacle in how.obstacles]
    for label, run in zip(labels, (first, second), strict=True):
        if run.scored < run.rows:
            notes.append(f"{label}: {run.scored:,} of {run.rows:,} rows scored")
        notes += [f"{label}: {caveat}" for caveat in caveats(run.run)]
    if how.paired:
        notes += _uneven(first, second, shared)
    if left_out:
        notes.append(f"not compared, not in both or not at every length: {', '.join(left_out)}")
    return Comparison(
        runs=runs,
        lengths=shared.lengths,
        tasks=shared.tasks,
        differences={key: difference(tasks, key[1]) for key, tasks in shared.cells().items()},
        paired=how.paired,
        basis=how.basis,
        margin=margin,
        left_out=tuple(left_out),
        warnings=how.obstacles,
        notes=tuple(notes),
        categories={name: difference(tasks, None) for name, tasks in categories.items()},
    )


def _uneven(first: Results, second: Results, shared: SharedScores) -> list[str]:
    """Return a note on configs of which one run has more rows."""
    names = [f"{task}_{length}" for task, length in product(shared.tasks, shared.lengths)]
    sizes = {name: (first.configs[name].rows, second.configs[name].rows) for name in names}
    uneven = [(name, *sorted(both)) for name, both in sizes.items() if both[0] != both[1]]
    if not uneven:
        return []
    name, fewer, more = uneven[0]
    others = f", and likewise of {counted(len(uneven) - 1, 'config')}" if uneven[1:] else ""
    return [f"only rows that both runs have: {fewer:,} of {more:,} of {name}{others}"]
