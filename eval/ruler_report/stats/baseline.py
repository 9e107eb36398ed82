"""A run against a baseline: non-inferiority for checkpoints, and retention of its scores.

A run is not worse if every difference from the baseline, over all tasks and in each category, is
shown to be above minus the margin: the lower end of its 95 % interval is. Each test has to be
passed, so no correction for several tests is needed (intersection-union test, Berger 1982). It is
worse if one difference is shown to be below. Else these rows cannot tell. Rows that the baseline
has and the run lacks are unanswered: wrong in the lower end, right in the upper one. A run of which
only a claim is known does not pass.

Retention is a score in percent of the baseline's. Its interval has all ratios r for which the
interval of the score minus r times the baseline's holds 0 (Fieller 1954).
"""

import math
from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from ruler_data.errors import UsageError
from ruler_data.names import counted, parse_config
from ruler_report.format import format_length, format_number
from ruler_report.results_file import ConfigResult, Results, Run, read_results
from ruler_report.stats.comparison import (
    Comparison,
    check_scored,
    compared,
    labels_of,
    pair_table,
)
from ruler_report.stats.intervals import minus
from ruler_report.stats.pairs import Difference, PairTable
from ruler_report.stats.scores import Key, ScoreStack, have_same_answers
from ruler_report.table import Printable, Table

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
#: Ratios that a retention is looked for in.
MOST = 4.0


@dataclass(frozen=True, repr=False)
class Gate(Printable):
    """Whether a run is not worse than a baseline; it prints as one line.

    Attributes:
        margin: percentage points that it may lose.
        comparison: run minus baseline, over the rows of the baseline.
        verdicts: by category, and `overall` over all tasks.
        lacking: rows of the baseline to which the run has no answer, by config.
        rows: about how many rows a config would tell, where these cannot; None for no number.
        remedy: what would tell, where these rows cannot; in words.
        only: the rows and lengths that were chosen, in words; empty for all.
    """

    margin: float
    comparison: Comparison
    verdicts: dict[str, str]
    lacking: dict[str, int]
    rows: int | None
    remedy: str
    only: str = ""
    notes: tuple[str, ...] = ()

    @property
    def verdict(self) -> str:
        """The verdict of the gate: the worst of all."""
        return next(one for one in (WORSE, CANNOT_TELL, NOT_WORSE) if one in self.verdicts.values())

    @property
    def passed(self) -> bool:
        """Whether the run is shown to be not worse."""
        return self.verdict == NOT_WORSE

    @property
    def exit_status(self) -> int:
        """0 not worse, 1 worse, 3 cannot tell."""
        return EXIT[self.verdict]

    def display_parts(self) -> tuple[str, ...]:
        """Return the verdict with all differences, and what the scores of both runs rest on."""
        gaps = self.comparison.means
        parts = ", ".join(
            f"{name} {gaps[name]}" + (f" {verdict}" if verdict != NOT_WORSE else "")
            for name, verdict in self.verdicts.items()
        )
        base, new = self.comparison.labels
        sentence = SENTENCES[self.verdict].format(base=base, new=new)
        line = f"{self.verdict}: {sentence}{self.only}, margin {self.margin:g} points: {parts}"
        if self.verdict == CANNOT_TELL:
            line += f"; {self.remedy}"
        return (line, *self.comparison.validity)

    def to_record(self) -> dict[str, Any]:
        """Return the gate as plain values, as `ruler-eval gate --json` prints it."""
        record = self.comparison.to_record()
        means = {"overall": record.pop("overall"), **record.pop("by_category")}
        return {
            "verdict": self.verdict,
            "passed": self.passed,
            "exit_status": self.exit_status,
            "margin": self.margin,
            "differences": {
                name: {**gap, "verdict": self.verdicts[name]} for name, gap in means.items()
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
    lengths: Collection[int] = (),
    claimed: bool = False,
) -> Gate:
    """Test whether a run is not worse than a baseline, over all tasks and in each category.

    `rows` are the first ones of each config, and `lengths` the only ones; by default all. With
    `claimed`, a run passes also where only results.json is known, of it or of the baseline.
    """
    check_margin(margin)
    first, second = (_part(read_results(run), rows, lengths) for run in (baseline, new))
    labels = labels_of([first, second])
    check_scored(first)
    if not have_same_answers(first, second):
        remedy = "run it as the baseline was run"
        pair_table([first, second], remedy=remedy)  # refuses what cannot be compared
        second = against(second, first)
    runs = dict(zip(labels, (first, second), strict=True))
    is_trusted = claimed or not (first.claimed or second.claimed)
    comparison = compared(PairTable([first, second], labels), 0, 1)
    verdicts = {
        name: WORSE if gap.high < -margin
        else NOT_WORSE if is_trusted and gap.low > -margin else CANNOT_TELL
        for name, gap in comparison.means.items()
    }  # fmt: skip
    open_ones = [gap for name, gap in comparison.means.items() if verdicts[name] == CANNOT_TELL]
    per_config = max(config.rows for config in first.configs.values())
    needed = math.ceil(per_config * max((_factor(gap, margin) for gap in open_ones), default=0))
    lacking = [_lacking(one) for one in runs.values()]
    would_tell = needed if needed <= MANY and is_trusted and not any(lacking) else None
    if not is_trusted:
        which = ", ".join(label for label, one in runs.items() if one.claimed)
        remedy = f"{which}: only its results.json is known; --claimed believes it"
    elif any(lacking):
        remedy = "; ".join(
            f"{label} lacks {sum(few.values()):,} rows ({_few(few)})"
            for label, few in zip(labels, lacking, strict=True) if few
        ) + ": resume it, or choose rows that both have (--rows, --lengths)"  # fmt: skip
    elif would_tell:
        remedy = f"about {would_tell:,} rows a config would tell"
    else:
        remedy = "the difference is so near the margin that no number of rows would tell"
    only = f" at {', '.join(map(format_length, lengths))} alone" * bool(lengths)
    only += f" on the first {rows} rows of each config" * bool(rows)
    return Gate(
        margin, comparison, verdicts, lacking[1], would_tell, remedy, only, comparison.notes
    )


def _lacking(run: Results) -> dict[str, int]:
    """Return the number of rows without an answer, by config."""
    lacking = {name: config.rows - config.scored for name, config in run.configs.items()}
    return {name: rows for name, rows in lacking.items() if rows}


def _few(lacking: dict[str, int]) -> str:
    """Return the first configs with their rows, and how many more there are."""
    which = ", ".join(f"{name} {rows:,}" for name, rows in [*lacking.items()][:3])
    return which + f" and {counted(len(lacking) - 3, 'more config')}" * (len(lacking) > 3)


def check_margin(margin: float) -> None:
    """Check that a margin is one.

    Raises:
        UsageError: it is not.
    """
    if not 0 < margin <= 100:
        msg = f"--margin {margin:g}: give percentage points above 0, at most 100"
        raise UsageError(msg)


def _factor(gap: Difference, margin: float) -> float:
    """Return how many times the rows would tell, if the difference stays what it is."""
    distance = abs(gap.value + margin)
    width = gap.value - gap.low if gap.value > -margin else gap.high - gap.value
    return (width / distance) ** 2 if distance > width / 1000 else 1e6


def _part(results: Results, rows: int | None, lengths: Collection[int]) -> Results:
    """Return the first rows of each config, of some lengths."""
    configs = {
        name: config.first(rows or config.rows)
        for name, config in results.configs.items()
        if not lengths or parse_config(name)[1] in lengths
    }
    if not configs:
        msg = f"--lengths: {results.run.model} has no config of {', '.join(map(str, lengths))}"
        raise UsageError(msg)
    return replace(results, configs=configs)


def against(run: Results, baseline: Results) -> Results:
    """Return a run over the rows of a baseline; those that it lacks are unanswered.

    Rows match by their question; if the runs share none, by their number.
    """
    by_question = ScoreStack([baseline, run]).paired(0, 1)
    configs = {}
    for name, base in baseline.configs.items():
        own = run.configs.get(name)
        scores = _scores_for(own, base, by_question=by_question) if own else [None] * base.rows
        configs[name] = replace(
            base if by_question or own is None else replace(own, questions=""),
            rows=len(scores), scores=tuple(scores), headline="official", failed=(), samples=(),
            missing=tuple(row for row, score in enumerate(scores) if score is None),
            same_questions_as=base.same_questions_as, cost=own.cost if own else None,
        )  # fmt: skip
    return replace(run, configs=configs)


def _scores_for(own: ConfigResult, base: ConfigResult, *, by_question: bool) -> list[float | None]:
    """Return the run's score of each row of the baseline; None where it lacks the row."""
    scores = own.headline_scores
    if by_question and own.questions and base.questions:
        known = dict(zip(own.row_ids, scores, strict=True))
        return [known.get(row) for row in base.row_ids]
    return [*scores[: base.rows], *[None] * (base.rows - own.rows)]


@dataclass(frozen=True)
class Retention:
    """A run's mean score in percent of the baseline's, with its 95 % interval.

    Attributes:
        value: None where the baseline scores 0.
        flag: `floor` if the baseline is not shown to be above the floor, so that guessing would
            be retained as well; `ceiling` if both are at the ceiling, so that only a large loss
            would show.
    """

    value: float | None
    low: float
    high: float
    flag: str

    def __str__(self) -> str:
        high = f"{self.high:.1f}" if self.high < 100 * MOST else "…"
        value = format_number(self.value, 1)
        return f"{value} [{self.low:.1f}, {high}] {self.flag}".strip()


def retention(run: Results, baseline: Results) -> dict[Key, Retention]:
    """Return the retention of all tasks and lengths that both have; None is the mean over them."""
    table = PairTable([baseline, run], ("baseline", "run"))
    grid, paired = np.linspace(0, MOST, 121), table.stack.paired(0, 1)
    ratios: dict[Key, Retention] = {}
    for key in table.pairs:
        if isinstance(key, str):
            continue
        task, length = key
        tasks = table.tasks if task is None else (task,)
        lengths = table.lengths if length is None else (length,)
        shares = dict.fromkeys(lengths, 1 / len(lengths))
        bounds = table.stack.bounds(np.array([0]), np.array([1]), (tasks,), shares)
        if bounds is None:
            raise ValueError(key)
        base_low, base_high, new_low, new_high = bounds
        # Unanswered rows count against the run in the lower end, and for it in the upper one.
        # Both ends fall with the ratio.
        gaps = [
            minus(new, base, paired=paired, share=grid)
            for new, base in ((new_low, base_high), (new_high, base_low))
        ]
        low, high = (float(np.interp(0, -gap.interval()[i], grid)) for i, gap in enumerate(gaps))
        cells = [baseline.configs[f"{name}_{one}"] for name in tasks for one in lengths]
        floor = sum(cell.floor.score if cell.floor else 0.0 for cell in cells) / len(cells)
        flag = "ceiling" if 100 * min(base_low.value[0], new_low.value[0]) >= CEILING else ""
        flag = "floor" if base_low.interval()[0][0] <= floor else flag
        base = base_low.value[0] + base_high.value[0]
        ratio = 100 * float((new_low.value[0] + new_high.value[0]) / base) if base else None
        ratios[key] = Retention(ratio, 100 * low, 100 * high, flag)
    return ratios


def retention_table(name: str, labels: Sequence[str], run: Results, baseline: Results) -> Table:
    """Return the retention of a run by task and length, as a table of a report."""
    ratios = retention(run, baseline)
    lengths = [length for task, length in ratios if task is None and length]
    whole = "all tasks" if run.configs.keys() == baseline.configs.keys() else "these tasks"
    rows = tuple(
        (task or whole, *(str(ratios[task, length]) for length in (None, *lengths)))
        for task in dict.fromkeys(task for task, _ in ratios)
    )
    caption = (
        f"{labels[1]} in percent of {labels[0]}, with 95 % intervals; floor: {labels[0]} is not "
        f"shown to be above what answers score that ignore the question, though they have the "
        f"whole context; ceiling: both score {CEILING:g} or more"
    )
    head = ("task", "mean", *map(format_length, lengths))
    return Table(name, caption, head, rows, (len(rows) - 1,))
