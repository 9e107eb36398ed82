"""A run against a baseline: the gate for checkpoints, and how much of its scores a run retains.

The frame of a gate is the baseline's rows; the run was to answer them all. *Not worse*: the lower
end of every interval, over all tasks, by length and by category, is above minus the margin (each
test has to be passed, so none is corrected: Berger 1982). *Worse*: one mean is shown to be lower by
more, corrected for all of them. Else these rows cannot tell, nor can a run that `score` refuses.
"""

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from statistics import fmean
from typing import Any

import numpy as np

from ruler_data.errors import UsageError
from ruler_data.names import counted
from ruler_eval.scoring.derive import blind_floor_of
from ruler_eval.scoring.results import refused
from ruler_eval.scoring.results_file import Run, read_results
from ruler_report.comparison import Comparison
from ruler_report.frame import Name
from ruler_report.lineup import Lineup, lineup
from ruler_report.means import FEWEST, Gap, Means
from ruler_report.runs import check_scored
from ruler_report.typesetting import Printable, Table, format_length, format_number, visible

#: Percentage points that a run may lose.
MARGIN = 1.0
#: Verdicts by exit status, with their sentences.
NOT_WORSE, WORSE, CANNOT_TELL = "not worse", "worse", "cannot tell"
EXIT = {NOT_WORSE: 0, WORSE: 1, CANNOT_TELL: 3}
SENTENCES = {
    NOT_WORSE: "{new} is not worse than {base}",
    WORSE: "{new} is worse than {base}",
    CANNOT_TELL: "these rows cannot tell whether {new} is worse than {base}",
}
#: More rows a config than any release has.
MANY = 100_000
#: Score in percent from which a baseline is at its ceiling: other rows would have to tell.
CEILING = 99.0
#: A retention above it, in percent, has no upper end.
MOST = 400.0


@dataclass(frozen=True, repr=False)
class Gate(Printable):
    """Whether a run is not worse than a baseline; it prints as one line.

    Attributes:
        margin: percentage points that it may lose.
        comparison: run minus baseline, over the rows of the baseline.
        differences: over all tasks (`overall`), by length and by category.
        verdicts: of each of them.
        lacking: rows of the baseline to which the run has no answer, by config.
        rows: about how many rows a config would tell, where these cannot; None for no number.
        remedy: what would tell, where these rows cannot; in words.
    """

    margin: float
    comparison: Comparison
    differences: dict[str, Gap]
    verdicts: dict[str, str]
    lacking: dict[str, int]
    rows: int | None
    remedy: str
    notes: tuple[str, ...] = ()

    @property
    def verdict(self) -> str:
        """The verdict of the gate: the worst of all."""
        return next(
            name for name in (WORSE, CANNOT_TELL, NOT_WORSE) if name in self.verdicts.values()
        )

    @property
    def passed(self) -> bool:
        """Whether the run is shown to be not worse."""
        return self.verdict == NOT_WORSE

    @property
    def exit_status(self) -> int:
        """0 not worse, 1 worse, 3 cannot tell."""
        return EXIT[self.verdict]

    def display_parts(self) -> tuple[str, ...]:
        """Return the frame, the verdict with all differences, and what the scores rest on."""
        means = ", ".join(
            f"{name} {self.differences[name]}" + (f" {verdict}" if verdict != NOT_WORSE else "")
            for name, verdict in self.verdicts.items()
        )
        base, new = self.comparison.labels
        sentence = SENTENCES[self.verdict].format(base=base, new=new)
        line = f"{self.verdict}: {sentence}, margin {self.margin:g} points: {means}"
        if self.verdict == CANNOT_TELL:
            line += f"; {self.remedy}"
        doubt = [self.comparison.contradiction] if self.comparison.contradiction else []
        return (line, self.comparison.frame, *doubt, *self.comparison.validity)

    def to_record(self) -> dict[str, Any]:
        """Return the gate as plain values, as `ruler-eval gate --json` prints it."""
        record = self.comparison.to_record()
        for key in ("overall", "by_category", "by_length", "by_task", "cells"):
            del record[key]
        return {
            "verdict": self.verdict,
            "passed": self.passed,
            "exit_status": self.exit_status,
            "margin": self.margin,
            "differences": {
                name: {**asdict(gap), "verdict": self.verdicts[name]}
                for name, gap in self.differences.items()
            },
            "lacking": self.lacking,
            "rows_that_would_tell": self.rows,
            **record,
            "notes": list(self.notes),
        }


def gate(
    new: Run,
    baseline: Run,
    *,
    margin: float = MARGIN,
    rows: int | None = None,
    tasks: Collection[str] = (),
    lengths: Collection[int] = (),
    claimed: bool = False,
) -> Gate:
    """Test whether a run is not worse than a baseline, over all tasks, by length and by category.

    `rows` are the first ones of each config, `tasks` and `lengths` the only ones. With `claimed`, a
    run passes also where only results.json is known, of it or of the baseline.
    """
    if not 0 < margin <= 100:
        msg = f"--margin {margin:g}: give percentage points above 0, at most 100"
        raise UsageError(msg)
    runs = [read_results(run) for run in (baseline, new)]
    check_scored(runs[0])
    pair = lineup(
        runs, rows=rows, tasks=tasks, lengths=lengths, baseline=0, cells=False,
        remedy="run it as the baseline was run",
    )  # fmt: skip
    doubts = [*_doubts(pair)]
    is_trusted = claimed or not any(run.claimed for run in runs)
    verdicts = verdicts_of(pair.means, margin)
    if doubts:
        verdicts = dict.fromkeys(verdicts, CANNOT_TELL)
    elif not is_trusted:
        verdicts = {name: CANNOT_TELL if verdict == NOT_WORSE else verdict
                    for name, verdict in verdicts.items()}  # fmt: skip
    lacking = [_lacking(pair, run) for run in (0, 1)]
    needed = None
    if not (doubts or any(lacking)) and is_trusted:
        most = max(len(rows.places) for rows in pair.frame.lines[0].values())
        needed = rows_that_tell(pair.means, margin, most)
    remedy = "; ".join(doubts) or _remedy(pair, lacking, needed, claimed=claimed)
    gaps = {name_of(name): pair.means.gap(name, 0, 1) for name in pair.means.columns}
    comparison = pair.comparisons[1]
    return Gate(
        margin, comparison, gaps, {name_of(name): text for name, text in verdicts.items()},
        lacking[1], needed, remedy, comparison.notes,
    )  # fmt: skip


def name_of(column: Name) -> str:
    """Return the name of a column of a gate.

    >>> name_of((None, None)), name_of((None, 4096)), name_of(("retrieval", None))
    ('overall', '4K', 'retrieval')
    """
    category, length = column
    return category or (format_length(length) if length else "overall")


def verdicts_of(means: Means, margin: float, base: int = 0, new: int = 1) -> dict[Name, str]:
    """Return the verdict of each column: a run against a base."""
    worse = means.worse(base, new, margin)
    verdicts = {}
    for name in means.columns:
        low = means.difference(name, base, new).low
        passes = low is not None and low > -margin
        verdicts[name] = WORSE if worse[name] else NOT_WORSE if passes else CANNOT_TELL
    return verdicts


def rows_that_tell(means: Means, margin: float, rows: int) -> int | None:
    """Return how many rows of each config decide if no mean changes; None if too many.

    It is the gate's own interval, made narrower until it decides.
    """

    def decides(number: int) -> bool:
        verdicts = {*verdicts_of(means.with_rows(number / rows), margin).values()}
        return WORSE in verdicts or CANNOT_TELL not in verdicts

    if decides(rows) or not decides(MANY):
        return None
    few, enough = rows, MANY
    while enough - few > max(1, few // 50):
        middle = int((few * enough) ** 0.5) if enough > few + 3 else (few + enough) // 2
        few, enough = (few, middle) if decides(middle) else (middle, enough)
    return enough


def _doubts(pair: Lineup) -> list[str]:
    """Return why nothing can be told, whatever the scores are."""
    doubts = [
        f"`score` refuses {label} ({visible('; '.join(reasons))})"
        for label, run in zip(pair.labels, pair.runs, strict=True)
        if (reasons := refused(run))
    ]
    if (None, None) in pair.means.place and (floor := _floor_reached(pair, 0)) is not None:
        doubts.append(
            f"{pair.labels[0]} is not shown to be above its blind floor ({floor:.1f}), so that "
            "guessing might do as well"
        )
    if pair.means.fewest.min() < FEWEST and pair.means.identities[0] != pair.means.identities[1]:
        doubts.append(f"a task has fewer than {FEWEST} rows")
    return doubts


def _floor_reached(runs: Lineup, run: int, name: Name = (None, None)) -> float | None:
    """Return the blind floor of a mean that is not shown to be above it; None if it is."""
    estimate, cells = runs.means.estimate(name, run), runs.means.columns[name].shares
    floor = 100 * fmean(blind_floor_of(runs.runs[run], *cell) or 0.0 for cell in cells)
    is_above = estimate is not None and estimate.low is not None and estimate.low > floor
    return None if is_above else floor


def _lacking(pair: Lineup, run: int) -> dict[str, int]:
    """Return the number of rows of the frame that a run did not answer, by config."""
    lacking = {}
    table = pair.runs[run].table
    for (task, length), rows in pair.frame.lines[run].items():
        at = table.cells.get((task, length), slice(0, 0))
        answered = np.append(table.answered[at], False)[rows.places]
        if number := int((~answered).sum()):
            lacking[f"{task}_{length}"] = number
    return lacking


def _remedy(
    pair: Lineup, lacking: Sequence[Mapping[str, int]], needed: int | None, *, claimed: bool
) -> str:
    """Return what would tell."""
    if not claimed and any(run.claimed for run in pair.runs):
        names = ", ".join(
            name for name, run in zip(pair.labels, pair.runs, strict=True) if run.claimed
        )
        return f"{names}: only its results.json is known; --claimed believes it"
    if any(lacking):
        return "; ".join(
            f"{label} lacks {sum(few.values()):,} rows ({_few(few)})"
            for label, few in zip(pair.labels, lacking, strict=True) if few
        ) + ": resume it, or choose rows that both have (--rows, --lengths)"  # fmt: skip
    if needed:
        return f"if no mean changes, about {needed:,} rows a config would tell"
    return "a difference is so near the margin that more rows would not tell"


def _few(lacking: Mapping[str, int]) -> str:
    """Return the first configs with their rows, and how many more there are."""
    which = ", ".join(f"{name} {rows:,}" for name, rows in [*lacking.items()][:3])
    return which + f" and {counted(len(lacking) - 3, 'more config')}" * (len(lacking) > 3)


@dataclass(frozen=True)
class Retention:
    """A run's mean score in percent of the baseline's, with its 95 % interval.

    Attributes:
        value: None where the baseline scores 0.
        low: None where there is no interval; likewise `high`.
        flag: `floor` if the baseline is not shown to be above the blind floor, so that guessing
            would be retained as well; `ceiling` if both are at the ceiling, so that only a large
            loss would show.
    """

    value: float | None
    low: float | None
    high: float | None
    flag: str

    def __str__(self) -> str:
        text = format_number(self.value, 1)
        if self.low is not None and self.high is not None:
            high = f"{self.high:.1f}" if self.high < MOST else "…"
            text += f" [{self.low:.1f}, {high}]"
        return f"{text} {self.flag}".strip()


def retention(runs: Lineup, base: int, run: int) -> dict[Name, Retention]:
    """Return the retention in every column of a lineup."""
    ratios = {}
    for name in runs.means.columns:
        ratio, old, new = (
            runs.means.ratio(name, base, run),
            *(runs.means.estimate(name, place) for place in (base, run)),
        )
        flag = ""
        if old and new and min(old.value or 0.0, new.value or 0.0) >= CEILING:
            flag = "ceiling"
        if _floor_reached(runs, base, name) is not None:
            flag = "floor"
        ratios[name] = Retention(ratio.value, ratio.low, ratio.high, flag)
    return ratios


def retained(runs: Lineup, ratios: Mapping[int, Mapping[Name, Retention]]) -> Iterator[str]:
    """Yield the retention of runs over all that they share with the baseline, the first run."""
    for run, columns in ratios.items():
        if ratio := columns.get((None, None)):
            yield f"{runs.labels[run]}: mean score in percent of {runs.labels[0]}: {ratio}."


def retention_table(name: str, runs: Lineup, run: int, ratios: Mapping[Name, Retention]) -> Table:
    """Return the retention of a run by task and length, as a table of a report."""
    lengths = runs.frame.lengths
    whole = "these tasks" if runs.others else "all tasks"
    rows = tuple(
        (task or whole, *(str(ratios[task, length]) for length in (None, *lengths)))
        for task in (*runs.frame.tasks, None)
    )
    old, new = runs.labels[0], runs.labels[run]
    caption = (
        f"{new} in percent of {old}, with 95 % intervals; floor: {old} is not shown to be above "
        f"what answers without the context score; "
        f"ceiling: both score {CEILING:g} or more"
    )
    head = ("task", "mean", *map(format_length, lengths))
    return Table(name, caption, head, rows, (len(rows) - 1,))
