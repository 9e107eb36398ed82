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
from ruler_report.results import Results, Run, ScoreName, read_results
from ruler_report.stats.comparability import Comparability, caveats, comparability
from ruler_report.stats.intervals import LEVEL, Floats, mean_of, minus
from ruler_report.stats.score_table import asks_of, configs_of, score_matrix
from ruler_report.table import Shown, Table

K = TypeVar("K", bound=Hashable)
#: Task and length; None for the mean over all of them.
Key = tuple[str | None, int | None]
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

    def to_dict(self) -> dict[str, Any]:
        """Return the comparison as plain values, as `ruler-eval compare --json` prints it."""
        models = [run.model for run in self.runs]
        body: dict[str, Any] = {"paired": self.paired, "basis": self.basis}
        body |= {"cells": {}, "by_task": {}, "by_length": {}}
        body["by_category"] = {name: self._plain(one) for name, one in self.categories.items()}
        for (task, length), difference in self.differences.items():
            if task is None and length is None:
                body["overall"] = self._plain(difference)
            elif task is None:
                body["by_length"][length] = self._plain(difference)
            elif length is None:
                body["by_task"][task] = self._plain(difference)
            else:
                body["cells"][f"{task}_{length}"] = self._plain(difference)
        if self.margin is None:
            body |= {"first": models[0], "second": models[1]}
        else:
            body |= {"model": models[0], "margin": self.margin}
        plain = {
            name: list(getattr(self, name)) for name in ("lengths", "tasks", "left_out", "warnings")
        }
        if self.exact:
            body["exact"] = self._plain(self.exact)
        return body | plain

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

        Args:
            name: of the table.
            labels: names of the two runs. With them the table is as wide as a page allows: it has
                all intervals, and verdicts name runs.
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
    families: defaultdict[object, dict[tuple[int, object], Difference]] = defaultdict(dict)
    for place, comparison in enumerate(comparisons):
        for key, one in comparison.differences.items():
            families[key[0] is None, key[1] is None][place, key] = one
        for name, one in comparison.categories.items():
            families["categories"][place, name] = one
    judged: dict[tuple[int, object], Difference] = {}
    for family in families.values():
        for test, p in holm({test: one.p for test, one in family.items()}).items():
            corrected = replace(family[test], adjusted=p)
            judged[test] = replace(corrected, verdict=verdict(corrected))
    return [
        replace(
            comparison,
            differences={key: judged[place, key] for key in comparison.differences},
            categories={name: judged[place, name] for name in comparison.categories},
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
        if config.scored and not any(one is not None for one in config.scores_of(score)):
            msg = f"--score {score}: {name} was scored by a version without it; score it again"
            raise UsageError(msg)
    configs = {name: replace(one, headline=score) for name, one in results.configs.items()}
    return replace(results, configs=configs)


def measure(
    first: Results, second: Results, how: Comparability, margin: float | None = None
) -> Comparison:
    """Return all differences between two runs, p-values not yet corrected.

    Args:
        first: a run.
        second: another.
        how: they are compared.
        margin: as in `Comparison`; differences are then first minus second and tests one-sided.
    """
    tasks, lengths, scores = common(first, second, paired=how.paired)
    if not tasks:
        msg = (
            "nothing to compare: no task was scored by both runs at all lengths that both have; "
            "report them one at a time"
        )
        raise RulerError(msg)
    configs = configs_of(first)
    asks = asks_of(configs)

    def difference(names: Sequence[str], length: int | None) -> Difference:
        columns = np.array([length in (None, one) for one in lengths])
        weights = {name: columns / columns.sum() / len(names) for name in names}
        one, other = (mean_of(side, weights, asks) for side in scores)
        gap = minus(*((one, other) if margin is not None else (other, one)), paired=how.paired)
        above, below = gap.p_values()
        low, high = gap.interval()
        scored = [
            sum(int((~np.isnan(side[name][:, columns])).sum()) for name in names) for side in scores
        ]
        return Difference(
            100 * float(gap.value),
            100 * float(low),
            100 * float(high),
            float(above if margin is not None else np.minimum(1, 2 * np.minimum(above, below))),
            (scored[0], scored[1]),
        )

    differences: dict[Key, Difference] = {
        (task, length): difference(tasks if task is None else [task], length)
        for task, length in product((*tasks, None), (*lengths, None))
    }
    categories: dict[str, list[str]] = {}
    for task in tasks:
        categories.setdefault(configs[task, lengths[0]].category, []).append(task)
    infos = (first.run, second.run)
    left_out = sorted(
        (first.configs.keys() | second.configs.keys())
        - {f"{task}_{length}" for task, length in product(tasks, lengths)}
    )
    labels = labels_of(infos) if margin is None else ("public rows", "fresh rows")
    notes = [f"forced: {obstacle}" for obstacle in how.obstacles]
    for label, run in zip(labels, (first, second), strict=True):
        if run.scored < run.rows:
            notes.append(f"{label}: {run.scored:,} of {run.rows:,} rows scored")
        notes += [f"{label}: {caveat}" for caveat in caveats(run.run)]
    if how.paired:
        names = [f"{task}_{length}" for task, length in product(tasks, lengths)]
        sizes = {name: (first.configs[name].rows, second.configs[name].rows) for name in names}
        uneven = [(name, *sorted(both)) for name, both in sizes.items() if both[0] != both[1]]
        for name, fewer, more in uneven[:1]:
            notes.append(
                f"only rows that both runs have: {fewer:,} of {more:,} of {name}"
                + (f", and likewise of {counted(len(uneven) - 1, 'config')}" if uneven[1:] else "")
            )
    if left_out:
        notes.append(f"not compared, not in both or not at every length: {', '.join(left_out)}")
    return Comparison(
        infos,
        lengths,
        tasks,
        differences,
        how.paired,
        how.basis,
        margin,
        tuple(left_out),
        how.obstacles,
        tuple(notes),
        {name: difference(names, None) for name, names in categories.items()},
    )


Scores = dict[str, Floats]


def common(
    first: Results, second: Results, *, paired: bool
) -> tuple[tuple[str, ...], tuple[int, ...], tuple[Scores, Scores]]:
    """Return the tasks that both runs scored at all shared lengths, the lengths, and the scores.

    If paired, both matrices of a task have the same questions, with NaN where one run has no score.
    """
    sides = (configs_of(first), configs_of(second))
    common = [key for key in sides[0] if key in sides[1]]
    every = sorted({length for _, length in common})
    matrices: dict[str, list[Floats]] = {}
    compared: set[tuple[str, int]] = set()
    for task in dict.fromkeys(task for task, _ in common):
        both = [score_matrix(configs, task, every) for configs in sides]
        if paired:
            rows = min(map(len, both))
            missing = np.isnan(both[0][:rows]) | np.isnan(both[1][:rows])
            both = [np.where(missing, np.nan, matrix[:rows]) for matrix in both]
        matrices[task] = both
        found = np.all([(~np.isnan(matrix)).any(axis=0) for matrix in both], axis=0)
        compared |= {(task, length) for length, there in zip(every, found, strict=True) if there}
    lengths = tuple(sorted({length for _, length in compared}))
    tasks = tuple(task for task in matrices if compared >= set(product([task], lengths)))
    columns = [every.index(length) for length in lengths]
    one, other = ({task: matrices[task][side][:, columns] for task in tasks} for side in (0, 1))
    return tasks, lengths, (one, other)
