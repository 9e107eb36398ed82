"""Conclusions about pairs of runs: differences with intervals, p-values and verdicts.

`pairs.py` computes the table of all pairs; what stands here only reads it. Holm's method corrects
p-values within each family of tests, over all pairs of runs that are compared together: all cells,
all tasks, all lengths, all categories, and the overall means. `contamination.py` compares the runs
of one model on public and fresh rows.
"""

import re
from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import asdict, dataclass, field, replace
from itertools import combinations, product
from typing import Any, get_args

from ruler_data.errors import RulerError, UsageError
from ruler_data.names import quote
from ruler_eval.run_dir import RunInfo
from ruler_report.format import format_length, format_p, format_signed, visible
from ruler_report.results_file import Results, Run, ScoreName, read_results
from ruler_report.stats.comparability import basis_of, caveats, obstacles
from ruler_report.stats.intervals import LEVEL
from ruler_report.stats.pairs import Pairs, Ranks, ScoreStack, holm
from ruler_report.stats.score_table import Key
from ruler_report.table import Shown, Table

FIRST, SECOND, CANNOT_TELL = "first", "second", "cannot tell"
#: A difference that is significant alone, but not after the correction for all pairs.
UNCORRECTED = "not after correction"
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
        rows: the answered rows in each mean; for paired runs the same number twice.
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
#: A cell or a mean of the table; or a category.
Name = Key | str


@dataclass(frozen=True, repr=False)
class Comparison(Shown):
    """Two runs compared; it prints as a table with a conclusion.

    Attributes:
        runs: the two runs; `labels` are their names.
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
        validity: a line for each run: what its scores rest on.
    """

    runs: tuple[RunInfo, RunInfo]
    labels: tuple[str, str]
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
    validity: tuple[str, ...] = ()

    def shown(self) -> tuple[Table | str, ...]:
        """Return the differences, the conclusions, and how the runs were compared."""
        exact = [f"exact score: {self._conclude(self.exact)}"] if self.exact else []
        return self.table(), self.conclusion, *exact, self.basis, *self.validity

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
        first, second = self.labels
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
            "notes": list(self.notes),
            "validity": list(self.validity),
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
        first, second = self.labels
        result = f"{overall} points, p {format_p(overall.adjusted, relation=True)}"
        if self.margin is not None:
            public, fresh = overall.rows
            meaning = MEANINGS[overall.verdict].format(margin=self.margin)
            rows = f"{public:,} public rows minus {fresh:,} fresh rows"
            return f"{first} on {rows}: {result}: {overall.verdict}; {meaning}"
        verdicts = {
            FIRST: f"{first} is better",
            SECOND: f"{second} is better",
            UNCORRECTED: "not shown after Holm's correction for all pairs",
            CANNOT_TELL: "cannot tell them apart",
        }
        verdict = verdicts[overall.verdict]
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
                mark = " *" if cell.verdict in (FIRST, SECOND, CONTAMINATED) else ""
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


def labels_of(runs: Sequence[Results]) -> list[str]:
    """Return a distinct name for each run: the user's, or its model; what is claimed is marked."""
    labels: list[str] = []
    for run in runs:
        name = visible(run.name or run.run.model)[:80]
        name += " without context" * (run.run.no_context and not run.name)
        again = sum(re.split(r" \(\d+\)| \[claimed\]", label)[0] == name for label in labels)
        labels.append(name + f" ({again + 1})" * bool(again) + " [claimed]" * bool(run.claimed))
    return labels


class PairTable:
    """The differences of all pairs of runs, by task and length and in their means.

    Means are over the tasks and lengths that all runs have, so that they are of the same rows.

    Attributes:
        runs: the results; `labels` are their names.
        tasks: that all runs have at each of the `lengths`.
        pairs: by task and length; None stands for the mean over all of them.
        categories: likewise, for the means over the tasks of a category and all lengths.
    """

    def __init__(
        self,
        runs: Sequence[Results],
        labels: Sequence[str],
        *,
        apart: bool = False,
    ) -> None:
        """Compute the table; `apart` as in `ScoreStack`."""
        self.runs, self.labels = tuple(runs), tuple(labels)
        self.stack = ScoreStack(runs, apart=apart)
        self.tasks, self.lengths = self.stack.shared()
        if not self.tasks:
            msg = (
                "nothing to compare: no task was scored by both runs at all lengths that both "
                "have; report them one at a time"
            )
            raise RulerError(msg)
        self.pairs: dict[Key, Pairs] = {}
        for task, length in product((*self.tasks, None), (*self.lengths, None)):
            tasks = self.tasks if task is None else (task,)
            self.pairs[task, length] = self.mean(
                tasks, self.lengths if length is None else (length,)
            )
        by_category: dict[str, list[str]] = {}
        for task in self.tasks:
            category = self.stack.configs[0][task, self.lengths[0]].category
            by_category.setdefault(category, []).append(task)
        self.categories = {
            name: self.mean(tasks, self.lengths) for name, tasks in by_category.items()
        }

    def mean(self, tasks: Sequence[str], lengths: Sequence[int]) -> Pairs:
        """Return the pairs of the mean over tasks and lengths."""
        return self.stack.pairs(tasks, dict.fromkeys(lengths, 1 / len(lengths)))

    def ranks(self, without: Collection[int] = ()) -> list[Ranks]:
        """Return the interval of each run's rank by the mean over all tasks and lengths."""
        return self.pairs[None, None].ranks(without)

    def order(self) -> list[int]:
        """Return the runs by their mean, the best first; unanswered rows count against a run."""
        means = self.stack.lowest(self.tasks, dict.fromkeys(self.lengths, 1 / len(self.lengths)))
        return sorted(range(len(self.runs)), key=lambda run: -means[run])

    def compared(
        self, places: Sequence[tuple[int, int]], verdict: Verdict, margin: float | None = None
    ) -> list[Comparison]:
        """Return comparisons of pairs, corrected over all pairs of the table.

        With a margin tests are one-sided: whether the second run is better.
        """
        everyone = list(combinations(range(len(self.runs)), 2)) if margin is None else places
        every: dict[Name, Pairs] = {}
        every.update(self.pairs.items())
        every.update(self.categories.items())
        ps = {name: pairs.p if margin is None else pairs.above for name, pairs in every.items()}
        families: dict[object, list[Name]] = {}
        for name in every:
            kind = "categories" if isinstance(name, str) else (name[0] is None, name[1] is None)
            families.setdefault(kind, []).append(name)
        adjusted: dict[tuple[Name, tuple[int, int]], float] = {}
        for names in families.values():
            tests = {(name, at): float(ps[name][at]) for name in names for at in everyone}
            adjusted |= holm(tests)

        def difference(name: Name, first: int, second: int) -> Difference:
            pairs = every[name]
            at = first, second
            test = (name, at) if (name, at) in adjusted else (name, (second, first))
            value, low, high = (100 * float(x[at]) for x in (pairs.value, *pairs.interval))
            rows = int(pairs.rows[second, first]), int(pairs.rows[at])
            found = Difference(value, low, high, float(ps[name][at]), rows, adjusted[test])
            return replace(found, verdict=verdict(found))

        return [self._comparison(*place, difference, margin) for place in places]

    def _comparison(
        self,
        first: int,
        second: int,
        difference: Callable[[Any, int, int], Difference],
        margin: float | None,
    ) -> Comparison:
        runs = self.runs[first], self.runs[second]
        configs = {f"{task}_{length}" for task, length in product(self.tasks, self.lengths)}
        left_out = sorted((runs[0].configs.keys() | runs[1].configs.keys()) - configs)
        differences = {key: difference(key, first, second) for key in self.pairs}
        paired = self.stack.paired(first, second)
        return Comparison(
            runs=(runs[0].run, runs[1].run),
            labels=(self.labels[first], self.labels[second]),
            lengths=self.lengths,
            tasks=self.tasks,
            differences=differences,
            paired=paired,
            basis=basis_of(*runs, paired=paired, shared=self.stack.shared_rows(first, second)),
            margin=margin,
            left_out=tuple(left_out),
            warnings=tuple(obstacles(*runs, paired=paired)),
            notes=tuple(self._notes((first, second), left_out, margin)),
            categories={name: difference(name, first, second) for name in self.categories},
            validity=tuple(
                f"{self.labels[place]}: {self.runs[place].validity_line}"
                for place in (first, second)
            ),
        )

    def _notes(
        self, places: tuple[int, int], left_out: Sequence[str], margin: float | None
    ) -> Iterator[str]:
        one, other = (self.runs[place] for place in places)
        labels = [self.labels[place] for place in places]
        if margin is not None:
            labels = ["fresh rows", "public rows"]
        paired = self.stack.paired(*places)
        yield from (f"forced: {why}" for why in obstacles(one, other, paired=paired))
        for label, run in zip(labels, (one, other), strict=True):
            if run.scored < run.rows:
                yield (
                    f"{label}: {run.scored:,} of {run.rows:,} rows scored; the others count as "
                    "wrong in one end of its intervals and as right in the other"
                )
            yield from (f"{label}: {caveat}" for caveat in caveats(run.run))
            if run.noise:
                yield (
                    f"{label}: rows that were asked again changed by {200 * run.noise:.1f} points "
                    "on average; that noise is in the intervals"
                )
        if left_out:
            yield f"not compared, not in all runs or not at every length: {', '.join(left_out)}"


def better(difference: Difference) -> str:
    """Return which of two runs is better."""
    if difference.adjusted < LEVEL:
        return SECOND if difference.value > 0 else FIRST
    return CANNOT_TELL if difference.low <= 0 <= difference.high else UNCORRECTED


def check_comparable(
    runs: Sequence[Results],
    stack: ScoreStack,
    *,
    names: Sequence[str] = (),
    remedy: str = "--force compares anyway",
    force: bool = False,
) -> None:
    """Check that all runs can be compared with the first; `names` are theirs in the refusal.

    Raises:
        RulerError: they cannot, and `force` is false or their editions differ.
    """
    for place, other in enumerate(runs):
        found = list(obstacles(runs[0], other, paired=stack.paired(0, place)))
        same_edition = runs[0].run.data.edition == other.run.data.edition
        if found and not (force and same_edition):
            whose = f"{names[place]}: " if names else ""
            way_out = remedy if same_edition else "run both models on one edition"
            msg = f"{whose}not comparable: {'; '.join(found)}; {way_out}"
            raise RulerError(msg)


def pair_table(
    runs: Sequence[Results],
    labels: Sequence[str] | None = None,
    *,
    force: bool = False,
    score: ScoreName | None = None,
) -> PairTable:
    """Return the table of runs that can be compared; `score` as in `compare`."""
    check_comparable(runs, ScoreStack(runs), force=force)
    labels = labels or labels_of(runs)
    return PairTable([_with_score(run, score) for run in runs], labels)


def compare(
    first: Run, second: Run, *, force: bool = False, score: ScoreName | None = None
) -> Comparison:
    """Compare two runs; differences are second minus first.

    Args:
        first: a run: its folder, the path of its `results.json`, or its results.
        second: another run.
        force: compare even if protocols or versions differ; `notes` then says so.
        score: the score to compare; by default that which reports lead with.

    Raises:
        UsageError: there is no such run or score, or it is not scored.
        RulerError: the runs cannot be compared and `force` is false, their editions differ, or
            they share no task.
    """
    runs = [read_results(first), read_results(second)]
    (made,) = pair_table(runs, force=force, score=score).compared([(0, 1)], better)
    chosen = [_with_score(run, score) for run in runs]
    exact = [_with_score(run, "exact") for run in runs if _has(run, "exact")]
    if len(exact) < 2 or exact == chosen:
        return made
    (also,) = PairTable(exact, made.labels).compared([(0, 1)], better)
    return replace(made, exact=also.overall)


def _has(results: Results, score: ScoreName) -> bool:
    return all(
        set(one.scores_of(score)) != {None} or not one.scored for one in results.configs.values()
    )


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
