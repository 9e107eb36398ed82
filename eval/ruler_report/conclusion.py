"""What is concluded from runs: one object, which every output prints.

    scores, narrowed ─► frame ─► one array, resampled once ─► Conclusion

    conclusion = conclude([load_scores("runs/x"), load_scores("runs/y")])
    conclusion.ranks, conclusion.gap(MEAN, 1, 0), conclusion.effective(0)

Two families of tests, each of which errs in 5 % of tries as a whole: the means over the frame, of
all pairs of ranked runs; and the cells, tasks, lengths and categories, of each run against the one
that all are compared with. Ranks and the first sentence are of the first family alone.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import combinations
from typing import TYPE_CHECKING, Literal

from ruler_eval.scoring.scores import Scores
from ruler_report.columns import MEAN, Column, Name, columns_of
from ruler_report.effective_length import (
    RULER,
    THRESHOLDS,
    EffectiveLength,
    own_length,
    paper_length,
)
from ruler_report.frame import Cell, Frame, RowsOfRun, frame_of_runs, share_questions
from ruler_report.lines import Cost, cost_of, depth_grid, failures_of, lines_of
from ruler_report.means import FEWEST, Estimate, Gap, Means, Test, identities_of
from ruler_report.names import names_of
from ruler_report.resampling import Array

if TYPE_CHECKING:
    import pandas as pd

#: A score of a row, by name.
ScoreName = Literal["official", "exact"]

#: The best and the worst rank that the gaps of the means leave open.
Ranks = tuple[int, int]

#: Verdicts of a mean against another.
BETTER, WORSE, CANNOT_TELL, UNCORRECTED = (
    "better", "worse", "cannot tell", "not after correction",
)  # fmt: skip


@dataclass(frozen=True, eq=False)
class Conclusion:
    """All that is concluded from runs.

    Attributes:
        runs: their scores, narrowed.
        names: of the runs, all different.
        frame: the rows in question.
        base: the place of the run that others are compared with.
        category_of: the category of each task.
        means: of the scores that the tasks lead with.
        beside: means of the other score, which stands beside them: exact, or official where all
            tasks lead with exact scores.
        beside_name: its name.
    """

    runs: tuple[Scores, ...]
    names: tuple[str, ...]
    frame: Frame
    base: int
    category_of: Mapping[str, str]
    means: Means
    beside: Means
    beside_name: ScoreName

    @property
    def score_name(self) -> str:
        """The name of the scores that the tasks lead with."""
        if self.beside_name == "exact":
            return "official"
        return "exact"

    @property
    def columns(self) -> Mapping[Name, Column]:
        """The means in question, by name."""
        return self.means.columns

    @cached_property
    def categories(self) -> tuple[str, ...]:
        """The categories of the tasks of the frame."""
        return tuple(dict.fromkeys(self.category_of[task] for task in self.frame.tasks))

    # --- Numbers -------------------------------------------------------------------------------

    def estimate(self, name: Name, run: int) -> Estimate | None:
        """Return a mean with its interval; None where the run has not answered a cell of it."""
        return self.means.estimate(name, run)

    def value(self, name: Name, run: int) -> float | None:
        """Return a mean; None where the run has not answered a cell of it."""
        return self.means.value(name, run)

    def value_beside(self, name: Name, run: int) -> float | None:
        """Return a mean of the other score; None where the run has not answered a cell of it."""
        return self.beside.value(name, run)

    def number(self, cell: Cell, run: int) -> int:
        """Return the number of rows that a run's mean of a cell is of."""
        answered = self.answered(run)
        if cell not in answered:
            return 0
        return len(answered[cell].index)

    def answered(self, run: int) -> RowsOfRun:
        """Return the rows that a run's means are of."""
        return self.means.array.answered[run]

    # --- The first family: means over the frame ------------------------------------------------

    @cached_property
    def _mean_tests(self) -> dict[Test, bool]:
        if MEAN not in self.columns:
            return {}
        pairs = [(run, base) for base, run in combinations(self.frame.ranked, 2)]
        return self.means.shown([MEAN], pairs)

    def mean_gap(self, run: int, base: int) -> Gap | None:
        """Return the mean of a ranked run minus that of another; None if there is no mean."""
        tests = self._mean_tests
        if not {run, base} <= {*self.frame.ranked} or MEAN not in self.columns:
            return None
        shown = tests.get((MEAN, run, base), tests.get((MEAN, base, run), False))
        return replace(self.means.difference(MEAN, run, base), shown=shown)

    def verdict(self, run: int, base: int) -> str:
        """Return what the means of two ranked runs show of the first."""
        return verdict_of(self.mean_gap(run, base))

    @cached_property
    def ranks(self) -> dict[int, Ranks]:
        """The best and the worst rank of each ranked run; none where a cell has too few rows."""
        ranked = self.frame.ranked
        if MEAN not in self.columns or len(ranked) < 2 or self.fewest < FEWEST:
            return {}
        values = self.means.values[MEAN]
        above = dict.fromkeys(ranked, 0)
        below = dict.fromkeys(ranked, 0)
        for (_, run, rival), is_shown in self._mean_tests.items():
            if is_shown:
                worse, better = sorted((run, rival), key=lambda place: values[place])
                above[worse] += 1
                below[better] += 1
        return {run: (1 + above[run], len(ranked) - below[run]) for run in ranked}

    @property
    def fewest(self) -> int:
        """Number of rows of the smallest cell."""
        return min(self.frame.rows.values(), default=0)

    @cached_property
    def order(self) -> list[int]:
        """The runs: the ranked ones by their mean, the best first, then the others."""

        def key(run: int) -> tuple[bool, bool, float]:
            value = self.value(MEAN, run)
            return run not in self.frame.ranked, value is None, -(value or 0.0)

        return sorted(range(len(self.runs)), key=key)

    # --- The second family: cells, tasks, lengths, categories ----------------------------------

    @cached_property
    def compared(self) -> list[int]:
        """The ranked runs that are compared with the base; none if the base has no rank."""
        if self.base not in self.frame.ranked or not self.columns:
            return []
        return [run for run in self.order if run in self.frame.ranked and run != self.base]

    @cached_property
    def _cell_tests(self) -> dict[Test, bool]:
        names = [name for name in self.columns if name != MEAN]
        return self.means.shown(names, [(run, self.base) for run in self.compared])

    def gap(self, name: Name, run: int) -> Gap | None:
        """Return a mean of a compared run minus that of the base; each family has its own tests."""
        if run not in self.compared or name not in self.columns:
            return None
        if name == MEAN:
            return self.mean_gap(run, self.base)
        shown = self._cell_tests[name, run, self.base]
        return replace(self.means.difference(name, run, self.base), shown=shown)

    def is_paired(self, run: int) -> bool:
        """Whether a run was asked the base's questions."""
        return share_questions(self.frame.runs[self.base], self.frame.runs[run])

    # --- Effective length ----------------------------------------------------------------------

    def paper_length(self, run: int) -> EffectiveLength | None:
        """Return the effective length by the paper's threshold; None for other tasks or suites."""
        if self.runs[run].run.data.suite != RULER or not self.columns:
            return None
        return paper_length(self.means, run, THRESHOLDS[group_of(self.runs[run])])

    def own_length(self, run: int) -> EffectiveLength | None:
        """Return the effective length at 85 % of the run's own score at the shortest length."""
        if self.columns:
            return own_length(self.means, run)
        return None

    def effective(self, run: int) -> EffectiveLength | None:
        """Return the effective length that is named first."""
        return self._effective[run]

    @cached_property
    def _effective(self) -> list[EffectiveLength | None]:
        return [self.paper_length(run) or self.own_length(run) for run in range(len(self.runs))]

    # --- What the same rows say besides --------------------------------------------------------

    def lines(self, run: int) -> "pd.DataFrame":
        """Return the lines of a run's table that its means are of."""
        if run not in self._lines:
            indexes = {cell: rows.index for cell, rows in self.answered(run).items()}
            self._lines[run] = lines_of(self.runs[run].table, indexes)
        return self._lines[run]

    @cached_property
    def _lines(self) -> dict[int, "pd.DataFrame"]:
        return {}

    def failures(self, run: int) -> "pd.DataFrame":
        """Return how many lines failed in which way: tasks and lengths by labels."""
        return failures_of(self.lines(run))

    def depth(self, run: int) -> "pd.DataFrame":
        """Return the percentage of needles that answers name: bins of depth by lengths."""
        return depth_grid(self.lines(run), self.frame.lengths)

    def cost(self, run: int) -> Cost:
        """Return what the answers cost."""
        return cost_of(self.lines(run))

    def flips(self, run: int) -> "pd.DataFrame":
        """Return the rows that one of a compared run and the base has right, and not the other.

        Columns: task, length, index, index_base, score, score_base; those that differ most first.
        """
        import pandas as pd

        pieces = []
        for task, length in self.frame.cells:
            old = self._row_scores((task, length), self.base)
            new = self._row_scores((task, length), run)
            pairs = old.merge(new, on="question", suffixes=("_base", ""))
            flipped = pairs[(pairs["score"] == 1) != (pairs["score_base"] == 1)]
            pieces.append(flipped.assign(task=task, length=length))
        flips = pd.concat(pieces, ignore_index=True)
        change = (flips["score"] - flips["score_base"]).abs()
        return flips.iloc[(-change).argsort(kind="stable")]

    def _row_scores(self, cell: Cell, run: int) -> "pd.DataFrame":
        import pandas as pd

        rows = self.answered(run)[cell]
        score = self.means.array.scores(cell, run)
        return pd.DataFrame({"question": rows.questions, "index": rows.index, "score": score})

    @property
    def refused(self) -> list[int]:
        """The runs that `score` refuses."""
        return [place for place, run in enumerate(self.runs) if run.validity.refusals]


def verdict_of(gap: Gap | None) -> str:
    """Return what a difference shows of its first run."""
    if gap is None:
        return CANNOT_TELL
    if gap.shown:
        if gap.value > 0:
            return BETTER
        return WORSE
    if gap.is_clear:
        return UNCORRECTED
    return CANNOT_TELL


def group_of(run: Scores) -> str:
    """Return whose thresholds apply: `base` to plain text, `aligned` where a template is used.

    Rows of upstream's editions can contain the template; they are run with the protocol `base`.
    """
    is_plain = run.run.protocol == "base" and run.chat_template in ("", "base")
    if is_plain:
        return "base"
    return "aligned"


def conclude(
    runs: Sequence[Scores],
    *,
    base: int = 0,
    score: ScoreName | None = None,
    partial: bool = False,
    claimed: bool = False,
    force: bool = False,
) -> Conclusion:
    """Return the conclusion of runs whose tables are already narrowed.

    Args:
        runs: their scores.
        base: the place of the run that others are compared with.
        score: that is compared; by default that which the tasks lead with.
        partial: show unanswered rows as wrong; runs with such rows have no rank.
        claimed: rank also runs whose scores cannot be made again here.
        force: compare runs although protocols differ.

    Raises:
        RulerError: runs cannot be compared, or one has no row.
    """
    names = names_of(runs)
    frame = frame_of_runs(runs, names, partial=partial, claimed=claimed, force=force)
    tasks = {name: task for run in runs for name, task in run.tasks.items()}
    headline = {name: score or task.headline for name, task in tasks.items()}
    beside_name: ScoreName = "exact"
    if {headline[task] for task in frame.tasks} == {"exact"}:
        beside_name = "official"
    category_of = {name: task.category for name, task in tasks.items()}
    columns = columns_of(frame, category_of)
    identities = identities_of(runs, frame.runs)
    return Conclusion(
        runs=tuple(runs),
        names=tuple(names),
        frame=frame,
        base=base,
        category_of=category_of,
        means=Means(Array(frame, headline), columns, identities),
        beside=Means(Array(frame, beside_name), columns, identities),
        beside_name=beside_name,
    )
