"""A run against a baseline: non-inferiority for checkpoints, and retention of its scores.

A run passes if every difference from the baseline, over all tasks and in each category, is shown to
be above minus the margin: the lower end of its 95 % interval is. Each test has to be passed, so no
correction for several tests is needed (intersection-union test, Berger 1982). Retention is a score
in percent of the baseline's. Its interval has all ratios r for which the interval of the score
minus r times the baseline's holds 0 (Fieller 1954).
"""

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from ruler_data.errors import UsageError
from ruler_report.format import format_length
from ruler_report.results_file import Results, Run
from ruler_report.stats.comparability import comparability
from ruler_report.stats.comparison import Comparison, Difference, compare, labels_of
from ruler_report.stats.intervals import minus
from ruler_report.stats.score_table import Key, SharedScores
from ruler_report.table import Shown, Table

#: Percentage points that a run may lose.
MARGIN = 1.0
#: Verdicts of a difference.
PASSED, WORSE, OPEN = "passed", "worse", "not shown"
#: Score in percent from which a baseline is at its ceiling: other rows would have to tell.
CEILING = 99.0
#: Ratios that a retention is looked for in.
MOST = 4.0


@dataclass(frozen=True, repr=False)
class Gate(Shown):
    """Whether a run is not inferior to a baseline; it prints as one line.

    Attributes:
        margin: percentage points that it may lose.
        comparison: run minus baseline.
        verdicts: `passed`, `worse` (by more than the margin) or `not shown` (more rows would tell),
            by category; `overall` is that over all tasks.
    """

    margin: float
    comparison: Comparison
    verdicts: dict[str, str]
    notes: tuple[str, ...] = ()

    @property
    def passed(self) -> bool:
        """Whether every difference passed."""
        return set(self.verdicts.values()) == {PASSED}

    @property
    def exit_status(self) -> int:
        """0 if it passed, else 1."""
        return int(not self.passed)

    def shown(self) -> tuple[str]:
        """Return the line."""
        gaps = self.comparison.means
        parts = (
            f"{name} {gaps[name]}" + (f" {verdict}" if verdict != PASSED else "")
            for name, verdict in self.verdicts.items()
        )
        base, new = labels_of(self.comparison.runs)
        how = "not inferior to" if self.passed else "not shown to be as good as"
        how = "inferior to" if WORSE in self.verdicts.values() else how
        word = "passed" if self.passed else "failed"
        margin = f"margin {self.margin:g} points"
        return (f"{word}: {new} is {how} {base}, {margin}: {', '.join(parts)}",)

    def to_record(self) -> dict[str, Any]:
        """Return the gate as plain values, as `ruler-eval gate --json` prints it."""
        parts = {
            name: {**asdict(gap), "verdict": self.verdicts[name]}
            for name, gap in self.comparison.means.items()
        }
        how = {"paired": self.comparison.paired, "basis": self.comparison.basis}
        return {"passed": self.passed, "margin": self.margin, **how, "differences": parts}


def gate(new: Run, baseline: Run, *, margin: float = MARGIN) -> Gate:
    """Test whether a run is not inferior to a baseline, over all tasks and in each category.

    Args:
        new: a run, as for `compare`.
        baseline: the run that it must not fall behind.
        margin: percentage points that it may lose.

    Raises:
        UsageError: there is no such run, it is not scored, or the margin is not positive.
        RulerError: the runs cannot be compared.
    """
    if not 0 < margin <= 100:
        msg = f"--margin {margin:g}: give percentage points above 0, at most 100"
        raise UsageError(msg)
    comparison = compare(baseline, new)

    def verdict(gap: Difference) -> str:
        return PASSED if gap.low > -margin else WORSE if gap.high < -margin else OPEN

    verdicts = {name: verdict(gap) for name, gap in comparison.means.items()}
    return Gate(margin, comparison, verdicts, comparison.notes)


@dataclass(frozen=True)
class Retention:
    """A run's mean score in percent of the baseline's, with its 95 % interval.

    Attributes:
        flag: `floor` if the baseline is not shown to be above the floor, so that guessing would
            be retained as well; `ceiling` if both are at the ceiling, so that only a large loss
            would show.
    """

    value: float
    low: float
    high: float
    flag: str

    def __str__(self) -> str:
        high = f"{self.high:.1f}" if self.high < 100 * MOST else "…"
        return f"{self.value:.1f} [{self.low:.1f}, {high}] {self.flag}".rstrip()


def retention(run: Results, baseline: Results) -> dict[Key, Retention]:
    """Return the retention of all tasks and lengths that both have; None is the mean over them."""
    paired = comparability(baseline, run).paired
    shared = SharedScores.of(baseline, run, paired=paired)
    ratios = np.linspace(0, MOST, 121)
    found: dict[Key, Retention] = {}
    for (task, length), tasks in shared.cells().items():
        base, new = shared.means(tasks, length)
        lengths = [length] if length else shared.lengths
        cells = [baseline.configs[f"{name}_{one}"] for name in tasks for one in lengths]
        floor = sum(cell.floor.score if cell.floor else 0.0 for cell in cells) / len(cells)
        flag = "ceiling" if 100 * min(base.value, new.value) >= CEILING else ""
        flag = "floor" if base.interval()[0] <= floor else flag
        ratio = float(new.value / base.value) if base.value else 0.0
        # Both ends fall with the ratio.
        ends = minus(new, base, paired=paired, share=ratios).interval()
        low, high = (float(np.interp(0, -end, ratios)) for end in ends)
        found[task, length] = Retention(100 * ratio, 100 * low, 100 * high, flag)
    return found


def retention_table(name: str, labels: Sequence[str], run: Results, baseline: Results) -> Table:
    """Return the retention of a run by task and length, as a table of a report."""
    found = retention(run, baseline)
    lengths = [length for task, length in found if task is None and length]
    rows = tuple(
        (task or "all tasks", *(str(found[task, length]) for length in (None, *lengths)))
        for task in dict.fromkeys(task for task, _ in found)
    )
    caption = (
        f"{labels[1]} in percent of {labels[0]}, with 95 % intervals; floor: {labels[0]} is not "
        f"shown to be above what answers score that ignore the question, though they have the "
        f"whole context; ceiling: both score {CEILING:g} or more"
    )
    head = ("task", "mean", *map(format_length, lengths))
    return Table(name, caption, head, rows, (len(rows) - 1,))
