"""Two runs compared: their differences in words, rows that flipped, what their answers cost.

Rows that flipped are right in one run and wrong in another.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from statistics import fmean
from typing import Any

import numpy as np

from ruler_data.errors import RulerError
from ruler_data.names import counted
from ruler_eval.running.run_dir import RunInfo
from ruler_eval.scoring.results import Cost, Scores
from ruler_eval.scoring.run_rows import texts_of_run
from ruler_report.frame import Name
from ruler_report.means import CANNOT_TELL, FIRST, SECOND, UNCORRECTED, Gap
from ruler_report.typesetting import Printable, Table, format_length, format_number, format_share

MEANINGS = {
    FIRST: "{first} is better",
    SECOND: "{second} is better",
    UNCORRECTED: "not shown after the correction for all pairs and columns",
    CANNOT_TELL: "cannot tell them apart",
}


@dataclass(frozen=True, repr=False)
class Comparison(Printable):
    """Two runs compared; it prints as a table with a conclusion.

    Attributes:
        runs: the two runs; `labels` are their names.
        frame: the rows in question, in one line.
        lengths: in tokens, of all that is compared.
        tasks: those that both runs have at every one of these lengths.
        differences: second minus first, by task or category, and length; None stands for the mean
            over all of them.
        rows: answered rows in each mean.
        categories: those among the tasks.
        paired: whether both runs answered the same questions.
        basis: how the runs are compared, in one line.
        left_out: configs that are not compared: a run lacks them.
        warnings: why the runs should not be compared; empty unless the comparison was forced.
        validity: a line for each run: what its scores rest on.
        notes: everything that a reader must know before the numbers, warnings included.
        exact: difference of the mean exact scores, if another score is compared.
        claimed: whether of one of the runs only the results are known.
        costs: of the answers of each run; `cost` is a table of them beside the scores.
    """

    runs: tuple[RunInfo, RunInfo]
    labels: tuple[str, str]
    frame: str
    lengths: tuple[int, ...]
    tasks: tuple[str, ...]
    differences: dict[Name, Gap]
    rows: dict[Name, tuple[int, int]]
    categories: tuple[str, ...]
    paired: bool
    basis: str
    left_out: tuple[str, ...]
    warnings: tuple[str, ...]
    validity: tuple[str, ...]
    notes: tuple[str, ...] = ()
    exact: Gap | None = None
    claimed: bool = False
    costs: tuple[Cost, ...] = ()
    cost: Table | None = None

    def display_parts(self) -> tuple[Table | str, ...]:
        """Return the frame, the differences, the conclusions, and how the runs were compared."""
        exact = [f"exact score: {self._conclude(self.exact)}"] if self.exact else []
        cost = [self.cost] if self.cost and any(cost.rows for cost in self.costs) else []
        doubt = [self.contradiction] if self.contradiction else []
        lines = (self.conclusion, *exact, *doubt, self.basis, *self.validity)
        return (self.frame, self.table(), *cost, *lines)

    @property
    def overall(self) -> Gap:
        """The difference of the means over all tasks and lengths."""
        return self.differences[None, None]

    @property
    def contradiction(self) -> str:
        """That official and exact scores differ in their sign; empty if they do not."""
        return contradiction(self.overall, self.exact)

    def to_record(self) -> dict[str, Any]:
        """Return the comparison as plain values, as `ruler-eval compare --json` prints it."""
        plain = {name: self._plain(name) for name in self.differences}
        tasks = {task for task, _ in plain} - {None, *self.categories}
        return {
            "frame": self.frame,
            "paired": self.paired,
            "basis": self.basis,
            "cells": {f"{t}_{n}": gap for (t, n), gap in plain.items() if t in tasks and n},
            "by_task": {t: gap for (t, n), gap in plain.items() if t in tasks and not n},
            "by_length": {n: gap for (t, n), gap in plain.items() if n and not t},
            "by_category": {c: plain[c, None] for c in self.categories if (c, None) in plain},
            "overall": plain[None, None],
            **dict(zip(("first", "second"), self.labels, strict=True)),
            **({"exact": asdict(self.exact)} if self.exact else {}),
            "contradiction": self.contradiction,
            "cost": list(map(asdict, self.costs)),
            **{name: list(getattr(self, name)) for name in
               ("lengths", "tasks", "left_out", "warnings", "notes", "validity")},
        }  # fmt: skip

    def to_records(self) -> list[dict[str, Any]]:
        """Return a flat record for each difference; `task` or `length` is None in a mean over it.

        `pandas.DataFrame(comparison.to_records())` is a table of all of them.
        """
        return [
            {"task": task, "length": length, **self._plain((task, length))}
            for task, length in self.differences
            if task not in self.categories
        ]

    def _plain(self, name: Name) -> dict[str, Any]:
        gap, (first, second) = self.differences[name], self.rows[name]
        return {**asdict(gap), "verdict": gap.verdict, "rows_first": first, "rows_second": second}

    @property
    def conclusion(self) -> str:
        """What the overall difference shows, in one line."""
        return self._conclude(self.overall)

    @property
    def over(self) -> str:
        """The tasks and lengths that are compared, where a run has others; else empty."""
        lengths = ", ".join(map(format_length, self.lengths))
        return f"over {counted(len(self.tasks), 'task')} at {lengths}" * bool(self.left_out)

    def _conclude(self, gap: Gap) -> str:
        (first, second), verdict = self.labels, gap.verdict
        meaning = MEANINGS[verdict].format(first=first, second=second)
        if self.claimed and verdict in (FIRST, SECOND):
            meaning += ", if what is claimed holds"
        return f"{second} minus {first}: {gap} points{f' {self.over}' * bool(self.over)}: {meaning}"

    def table(self, name: str = "comparison", labels: Sequence[str] = ()) -> Table:
        """Return the differences by task and length.

        With `labels` for the runs it is for a page: it has all intervals, and verdicts name runs.
        """
        names = dict(zip((FIRST, SECOND), labels, strict=False))
        rows = []
        for task in (*self.tasks, None):
            cells = []
            for length in self.lengths:
                gap = self.differences[task, length]
                mark = " *" if gap.verdict in (FIRST, SECOND) else ""
                cells.append((str(gap) if labels else gap.points) + mark)
            mean = self.differences[task, None]
            verdict = mean.verdict
            rows.append(
                (
                    task or ("these tasks" if self.over else "all tasks"),
                    names.get(verdict, verdict),
                    str(mean),
                    *cells,
                )
            )
        first, second = labels or ("first", "second run")
        segments = (
            *(f"{second} minus {first}", self.over, "paired" if self.paired else "unpaired"),
            *("in percentage points", "with 95 % intervals" * bool(labels)),
        )
        caption = ", ".join(filter(None, segments))
        caption += "; * significant at 5 % after the correction for all pairs and columns"
        head = ("task", "better", "mean", *map(format_length, self.lengths))
        return Table(name, caption, head, tuple(rows), (len(rows) - 1,))


def contradiction(official: Gap, exact: Gap | None) -> str:
    """Return that official and exact scores point in opposite directions; empty if they do not."""
    if exact is None or None in (official.value, exact.value):
        return ""
    if not (official.is_clear or exact.is_clear) or (official.value or 0) * (exact.value or 0) >= 0:
        return ""
    return (
        f"official and exact scores differ in sign: official {official}, exact {exact}; answers "
        "that name more than what is asked are right by the official score alone"
    )


def cost_of(results: Scores) -> Cost:
    """Return the cost of all answers of a run; zeros if its journals do not tell."""
    costs = [config.cost for config in results.configs.values() if config.cost]
    return Cost(
        *(sum(getattr(config, field) for config in costs) for field in Cost.__annotations__)
    )


def cost_table(runs: Mapping[str, Scores]) -> Table:
    """Return scores of labelled runs beside what their answers cost, as far as journals tell."""
    rows = []
    for label, results in runs.items():
        configs, cost = [*results.configs.values()], cost_of(results)
        means = []
        for name in ("official", "exact"):
            columns = [config.scores_of(name).array for config in configs]
            answered = [column[~np.isnan(column)] for column in columns]
            means.append([column.mean() for column in answered] if all(map(len, answered)) else [])
        shares = (
            format_share(
                sum(len(getattr(config, name)) for config in configs) / max(results.scored, 1)
            )
            for name in ("truncated", "empty")
        )
        rows.append((
            label,
            *(format_number(100 * fmean(mean) if mean else None, 1) for mean in means),
            *shares,
            f"{cost.calls / cost.rows:.1f}" if cost.rows else "",
            f"{cost.tokens / cost.rows:,.0f}" if cost.rows else "",
            f"{cost.seconds / cost.rows:.2f}" if cost.rows else "",
            f"{cost.tokens / cost.seconds:,.0f}" if cost.seconds else "",
        ))  # fmt: skip
    head = (
        "model",
        "score",
        "exact",
        "cut off",
        "empty",
        "calls",
        "tokens",
        "seconds",
        "tokens per second",
    )
    caption = (
        "Mean official and exact score of all rows of these configs, in percent; answers cut off "
        "and empty; by the journals, calls, tokens (read and generated) and seconds of a row, and "
        "tokens a second of one request, also where several ran at the same time"
    )
    return Table("cost", caption, head, tuple(rows))


#: Rows that are shown of each direction, and characters of a text.
SHOWN, LONGEST = 3, 300


@dataclass(frozen=True)
class Flip:
    """A row that one run answers right and the other wrong.

    Attributes:
        row: `vt_4096/17`, of the first run.
        scores: of both runs, in percent.
        texts: the answers of both runs.
    """

    row: str
    question: str
    outputs: tuple[str, ...]
    scores: tuple[float, float]
    texts: tuple[str, str]


@dataclass(frozen=True)
class Flips:
    """How many rows of two runs flipped, and some of them."""

    labels: tuple[str, str]
    lost: int
    won: int
    rows: tuple[Flip, ...]

    @property
    def title(self) -> str:
        """How many rows flipped each way."""
        first, second = self.labels
        return (
            f"Rows that flipped: {self.lost:,} right in {first} alone, {self.won:,} right in "
            f"{second} alone"
        )


def flips(
    labels: tuple[str, str],
    runs: tuple[Scores, Scores],
    places: tuple[Path, Path],
    data: str | None,
) -> Flips:
    """Return the rows of two runs that ask the same and that one alone answers right.

    Those shown differ most, in the order of the configs; none where rows or answers are not there.
    """
    flipped = sorted(_flipped(*runs), key=lambda flip: -abs(flip[1]))
    lost, won = (
        [flip for flip in flipped if (flip[1] < 0) == is_lost] for is_lost in (True, False)
    )
    chosen = [*lost[:SHOWN], *won[:SHOWN]]
    try:
        texts = [
            texts_of_run(
                place if place.is_dir() else place.parent, {pair[at] for pair, _ in chosen}, data
            )
            for at, place in enumerate(places)
        ]
    except (RulerError, OSError):
        texts = [{}, {}]
    rows = []
    for pair, _ in chosen:
        if pair[0] in texts[0] and pair[1] in texts[1]:
            question, outputs, first = texts[0][pair[0]]
            *_, second = texts[1][pair[1]]
            (config, index), scores = pair[0], (_score(runs[0], pair[0]), _score(runs[1], pair[1]))
            shown = first[:LONGEST], second[:LONGEST]
            rows.append(Flip(f"{config}/{index}", question[-LONGEST:], outputs, scores, shown))
    return Flips(labels, len(lost), len(won), tuple(rows))


#: A config and the index of a row.
_Key = tuple[str, int]


def _flipped(first: Scores, second: Scores) -> Iterator[tuple[tuple[_Key, _Key], float]]:
    """Yield rows that ask the same in the same config, and how much the score rose."""
    for config, scores in first.configs.items():
        config_after = second.configs.get(config)
        if config_after is None:
            continue
        places = {digest: index for index, digest in enumerate(config_after.question_ids.tolist())}
        for index, digest in enumerate(scores.question_ids.tolist()):
            place = places.get(digest)
            if place is None:
                continue
            before, after = scores.headline_scores[index], config_after.headline_scores[place]
            if before is not None and after is not None and (before == 1) != (after == 1):
                yield ((config, index), (config, place)), after - before


def _score(run: Scores, key: _Key) -> float:
    return 100 * (run.configs[key[0]].headline_scores[key[1]] or 0.0)
