"""Differences between two runs, with intervals, p-values and verdicts.

`compare` is paired: each question's score in one run is compared with its score in the other, and
only questions that both runs scored count. Its p-value is that of a permutation test: if the runs
were equally good, each question's two answers could be swapped. `contamination.py` compares runs
on different questions. Both fill a `Comparison` with `tabulate`, and correct their p-values with
Holm's method (Holm 1979) within each family of tests: all tasks, all lengths, or all cells.
"""

from collections import defaultdict
from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from itertools import product
from typing import Any, TypeVar, get_args

import numpy as np

from ruler_data.errors import RulerError, UsageError
from ruler_data.names import quote
from ruler_eval.schema import RunInfo
from ruler_report.format import format_length, format_p, format_signed, visible
from ruler_report.results import Results, Run, ScoreName, read_results
from ruler_report.stats.resampling import FLIPS, Floats, flip, interval, resample
from ruler_report.stats.score_table import configs_of, score_matrix
from ruler_report.table import Shown, Table

K = TypeVar("K", bound=Hashable)
#: Task and length; None for the mean over all of them.
Key = tuple[str | None, int | None]
#: Corrected p-values below this are significant.
LEVEL = 0.05
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
        p: the p-value; `adjusted` is corrected for the other tests of its family.
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


#: Returns the difference of the mean over some tasks and lengths (slices of their indexes).
Measure = Callable[[slice, slice], Difference]
Verdict = Callable[[Difference], str]


@dataclass(frozen=True, repr=False)
class Comparison(Shown):
    """Two runs compared; it prints as a table with a conclusion.

    Attributes:
        runs: the two runs.
        lengths: in tokens, of all that is compared.
        tasks: those that both runs have at every one of these lengths.
        differences: by task and length; None stands for the mean over all tasks, or lengths.
        margin: None if the runs are paired, and differences are second minus first. Otherwise the
            first run is on public and the second on fresh rows, differences are public minus
            fresh, and this is the smallest gap that matters, in percentage points.
        left_out: configs that are not compared: a run lacks them, at this or another length.
        warnings: why the runs should not be compared; empty unless the comparison was forced.
        notes: everything that a reader must know before the numbers, warnings included.
        exact: difference of the mean exact scores, if another score is compared; not corrected.
    """

    runs: tuple[RunInfo, RunInfo]
    lengths: tuple[int, ...]
    tasks: tuple[str, ...]
    differences: dict[Key, Difference]
    margin: float | None = None
    left_out: tuple[str, ...] = ()
    warnings: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()
    exact: Difference | None = None

    def shown(self) -> tuple[Table | str, ...]:
        """Return the table of differences, the conclusion, and that of the exact scores."""
        exact = self._conclude(self.exact) if self.exact else ""
        return self.table(), self.conclusion, *([f"exact score: {exact}"] if exact else ())

    @property
    def overall(self) -> Difference:
        """The difference of the means over all tasks and lengths."""
        return self.differences[None, None]

    def to_dict(self) -> dict[str, Any]:
        """Return the comparison as plain values, as `ruler-eval compare --json` prints it."""
        models = [run.model for run in self.runs]
        body: dict[str, Any] = {"cells": {}, "by_task": {}, "by_length": {}}
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
        rows = {"pairs": first} if self.margin is None else {"public": first, "fresh": second}
        return {**record, **rows}

    @property
    def conclusion(self) -> str:
        """What the overall difference shows, in one line."""
        return self._conclude(self.overall)

    def _conclude(self, overall: Difference) -> str:
        first, second = labels_of(self.runs)
        result = f"{overall} points, p = {format_p(overall.p)}"
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
            rows.append((task or "all tasks", *cells, str(mean), format_p(mean.adjusted), verdict))
        last = "better" if self.margin is None else "verdict"
        head = ("task", *map(format_length, self.lengths), "mean", "p (Holm)", last)
        return Table(name, self._caption(labels), head, tuple(rows), (len(rows) - 1,))

    def _caption(self, labels: Sequence[str]) -> str:
        if self.margin is not None:
            return "public minus fresh rows, in percentage points; * greater than by chance"
        if not labels:
            return "second run minus first, in percentage points; * significant at 5 %"
        return (
            f"{labels[1]} minus {labels[0]}, in percentage points, on the same "
            f"{self.overall.rows[0]:,} rows, with 95 % intervals; * significant at 5 % in a paired "
            "permutation test, after Holm's correction"
        )


def labels_of(runs: Sequence[RunInfo]) -> list[str]:
    """Return a distinct name for each run: its model, numbered if another run has the same."""
    labels: list[str] = []
    for run in runs:
        name = visible(run.model)[:80] + (" without context" if run.no_context else "")
        again = sum(label == name or label.startswith(f"{name} (") for label in labels)
        labels.append(f"{name} ({again + 1})" if again else name)
    return labels


def tabulate(
    runs: tuple[Results, Results],
    tasks: Sequence[str],
    lengths: Sequence[int],
    measure: Measure,
    verdict: Verdict,
    warnings: Sequence[str],
    margin: float | None = None,
) -> Comparison:
    """Measure and judge all differences between two runs."""
    rows: dict[str | None, slice] = {task: slice(i, i + 1) for i, task in enumerate(tasks)}
    columns: dict[int | None, slice] = {length: slice(i, i + 1) for i, length in enumerate(lengths)}
    rows[None] = columns[None] = slice(None)
    families: defaultdict[tuple[bool, bool], dict[Key, Difference]] = defaultdict(dict)
    for (task, row), (length, column) in product(rows.items(), columns.items()):
        families[task is None, length is None][task, length] = measure(row, column)
    judged = [judge(family, verdict) for family in families.values()]
    compared = {f"{task}_{length}" for task, length in product(tasks, lengths)}
    left_out = sorted((runs[0].configs.keys() | runs[1].configs.keys()) - compared)
    infos = (runs[0].run, runs[1].run)
    labels = labels_of(infos) if margin is None else ("public rows", "fresh rows")
    notes = [f"forced: {warning}" for warning in warnings]
    for label, run in zip(labels, runs, strict=True):
        if run.scored < run.rows:
            notes.append(f"{label}: {run.scored:,} of {run.rows:,} rows scored")
    if left_out:
        notes.append(f"not compared, not in both or not at every length: {', '.join(left_out)}")
    return Comparison(
        infos,
        tuple(lengths),
        tuple(tasks),
        {key: difference for family in judged for key, difference in family.items()},
        margin,
        tuple(left_out),
        tuple(warnings),
        tuple(notes),
    )


def judge(family: Mapping[K, Difference], verdict: Verdict) -> dict[K, Difference]:
    """Return the differences of a family with corrected p-values and verdicts.

    >>> family = {1: Difference(5, 3, 7, 0.03, (9, 9)), 2: Difference(-5, -7, -3, 0.02, (9, 9))}
    >>> [(one.adjusted, one.verdict) for one in judge(family, better).values()]
    [(0.04, 'second'), (0.04, 'first')]
    """
    adjusted = holm({name: difference.p for name, difference in family.items()})
    corrected = {name: replace(one, adjusted=adjusted[name]) for name, one in family.items()}
    return {name: replace(one, verdict=verdict(one)) for name, one in corrected.items()}


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


def better(difference: Difference) -> str:
    """Return which of two paired runs is better."""
    if difference.adjusted >= LEVEL:
        return CANNOT_TELL
    return SECOND if difference.value > 0 else FIRST


def compare(
    first: Run, second: Run, *, force: bool = False, score: ScoreName | None = None
) -> Comparison:
    """Compare two runs question by question; differences are second minus first.

    Args:
        first: a run: its folder, the path of its `results.json`, or its results.
        second: a run on the same rows.
        force: compare even if the rows or protocols differ; `notes` then says so.
        score: the score to compare; by default that which reports lead with.

    Raises:
        UsageError: there is no such run or score, or it is not scored.
        RulerError: the runs cannot be compared and `force` is false, or they share no task.
    """
    first, second = (
        _with_score(read_results(first), score),
        _with_score(read_results(second), score),
    )
    editions = sorted({first.run.data.edition, second.run.data.edition})
    if len(editions) > 1:
        msg = (
            f"not comparable: the editions {' and '.join(editions)} have different rows; run both "
            "models on one edition"
        )
        raise RulerError(msg)
    warnings = obstacles(first.run, second.run)
    if warnings and not force:
        msg = f"not comparable: {'; '.join(warnings)}; --force compares anyway"
        raise RulerError(msg)
    lengths, parts = _paired(first, second)
    if not parts:
        msg = (
            "nothing to compare: no task was scored by both runs at all lengths that both have; "
            "report them one at a time"
        )
        raise RulerError(msg)
    measure = _paired_measure(parts)
    made = tabulate((first, second), list(parts), lengths, measure, better, warnings)
    exact = [_with_score(run, "exact") for run in (first, second) if _has_exact(run)]
    if len(exact) < 2 or exact == [first, second]:
        return made
    overall = _paired_measure(_paired(*exact)[1])(slice(None), slice(None))
    return replace(made, exact=judge({None: overall}, better)[None])


def _has_exact(results: Results) -> bool:
    return all(any(one is not None for one in config.exact) for config in results.configs.values())


def _paired(first: Results, second: Results) -> tuple[list[int], dict[str, Floats]]:
    """Return lengths, and for each task its differences at all of them, questions by lengths."""
    columns = _paired_differences(first, second)
    lengths = sorted({length for _, length in columns})
    tasks = [
        task
        for task in dict.fromkeys(task for task, _ in columns)
        if all((task, length) in columns for length in lengths)
    ]
    return lengths, {
        task: np.stack([columns[task, length] for length in lengths], axis=1) for task in tasks
    }


def _with_score(results: Results, score: ScoreName | None) -> Results:
    """Return results whose headline is a score; unchanged if none is named.

    Raises:
        UsageError: there is no such score.
    """
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


def obstacles(first: RunInfo, second: RunInfo) -> list[str]:
    """Return why two runs cannot be compared; nothing where they can."""
    reasons = []
    if first.protocol != second.protocol:
        reasons.append(f"the protocols differ: {first.protocol} and {second.protocol}")
    if first.no_context != second.no_context:
        reasons.append("one of the runs was not given the context")
    digests = second.data.digests
    differing = [
        name for name, digest in first.data.digests.items() if digests.get(name, digest) != digest
    ]
    if differing:
        tokenizers = {first.data.tokenizer, second.data.tokenizer}
        why = f" (rows for {' and '.join(sorted(tokenizers))})" if len(tokenizers) > 1 else ""
        reasons.append(f"the rows of {', '.join(differing)} differ{why}")
    return reasons


def _paired_differences(first: Results, second: Results) -> dict[tuple[str, int], Floats]:
    """Return second minus first score of each question, by task and length.

    NaN where a run has no score; no entry where no question has both.
    """
    ours, theirs = configs_of(first), configs_of(second)
    common = [key for key in ours if key in theirs]
    columns: dict[tuple[str, int], Floats] = {}
    for task in dict.fromkeys(task for task, _ in common):
        lengths = sorted({length for name, length in common if name == task})
        one, other = score_matrix(ours, task, lengths), score_matrix(theirs, task, lengths)
        rows = min(len(one), len(other))
        matrix = np.full((max(len(one), len(other)), len(lengths)), np.nan)
        matrix[:rows] = other[:rows] - one[:rows]
        for place, length in enumerate(lengths):
            if not np.isnan(matrix[:, place]).all():
                columns[task, length] = matrix[:, place]
    return columns


def _paired_measure(parts: Mapping[str, Floats]) -> Measure:
    """Return the measure of paired differences, given questions by lengths for each task."""
    pairs = np.stack([(~np.isnan(part)).sum(axis=0) for part in parts.values()])
    means = np.stack([100 * np.nanmean(part, axis=0) for part in parts.values()])
    samples = np.stack([100 * resample(task, part) for task, part in parts.items()], axis=1)
    # Each question's contribution to the mean of its column; 0 where it has no pair.
    shares = {
        task: np.nan_to_num(part) / (~np.isnan(part)).sum(axis=0) for task, part in parts.items()
    }
    flips = np.stack([100 * flip(task, share) for task, share in shares.items()], axis=1)

    def measure(tasks: slice, lengths: slice) -> Difference:
        value, sampled, flipped = (
            np.asarray(array[..., tasks, lengths].mean(axis=(-2, -1)))
            for array in (means, samples, flips)
        )
        number = int(pairs[tasks, lengths].sum())
        p = p_value(float(value), flipped)
        return Difference(float(value), *interval(sampled), p, (number, number))

    return measure


def p_value(value: float, flips: Floats) -> float:
    """Return the two-sided p-value; the observed value counts as a flip (Phipson, Smyth 2010)."""
    extreme = np.abs(flips) >= abs(value) - 1e-9  # tolerates another order of summation
    return float((1 + extreme.sum()) / (FLIPS + 1))
