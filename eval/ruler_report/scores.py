"""The scores of predictions, official and exact, as `ruler_eval.score` returns them.

    >>> import ruler_eval                                               # doctest: +SKIP
    >>> scores = ruler_eval.score("runs/x", "dist/llama3")              # doctest: +SKIP
    >>> print(scores)                                                   # doctest: +SKIP
    task     4K      8K
    vt      100.00   98.40

`ruler_report.scoring` adds strict scores, failures and evidence by depth, for reports.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from statistics import fmean
from typing import Any

from ruler_data.dataset import html_table
from ruler_data.errors import RulerError
from ruler_data.names import parse_config, short_length
from ruler_eval.metrics import score_row
from ruler_report.exact import exact_scores
from ruler_report.predictions import Data, Source, answer_of, load, pair_rows


@dataclass(frozen=True, repr=False)
class Scores:
    """Official scores; printed as a table of means in percent, tasks by lengths.

    Attributes:
        configs: by config, the score of each row in order, in [0, 1], the mean over its samples;
            None for a row without an answer, or without one of its samples.
        exact: likewise, the exact score and the F1 of each row (`ruler_report.exact`).
        notes: what was left out of the predictions, e.g. a torn line.
    """

    configs: dict[str, tuple[float | None, ...]]
    exact: dict[str, tuple[tuple[float, float] | None, ...]]
    notes: tuple[str, ...] = ()

    @property
    def unscored(self) -> list[str]:
        """The rows without a score, e.g. `vt_4096/17`."""
        return [
            f"{config}/{index}"
            for config, scores in self.configs.items()
            for index, score in enumerate(scores)
            if score is None
        ]

    def to_records(self) -> list[dict[str, Any]]:
        """Return one record for each config, e.g. for `pandas.DataFrame`.

        `score`, `exact` and `f1` are means of the scored rows, in [0, 1]; None if no row is scored.
        """
        records = []
        for config, scores in self.configs.items():
            task, length = parse_config(config)
            known = [score for score in scores if score is not None]
            exact, f1 = zip(*filter(None, self.exact[config]), strict=True) if known else ((), ())
            records.append({
                "config": config,
                "task": task,
                "length": length,
                "score": _mean(known),
                "exact": _mean(exact),
                "f1": _mean(f1),
                "rows": len(scores),
                "scored": len(known),
            })  # fmt: skip
        return records

    def __repr__(self) -> str:
        cells = self._cells()
        widths = [max(map(len, column)) for column in zip(*cells, strict=True)]
        lines = [
            "  ".join([name.ljust(widths[0]), *map(str.rjust, values, widths[1:])]).rstrip()
            for name, *values in cells
        ]
        return "\n".join([*lines, *self._coverage()])

    def _repr_html_(self) -> str:
        names, *lines = self._cells()
        return html_table(names, lines) + "".join(self._coverage())

    def _coverage(self) -> list[str]:
        """Return a line on how many rows are scored; none if all are."""
        rows, missing = sum(map(len, self.configs.values())), len(self.unscored)
        return [f"{rows - missing:,} of {rows:,} rows scored"] if missing else []

    def _cells(self) -> list[list[str]]:
        """Return the table: a head, a row for each task, and the mean over tasks."""
        records = self.to_records()
        means = {(record["task"], record["length"]): record["score"] for record in records}
        tasks = list(dict.fromkeys(record["task"] for record in records))
        lengths = sorted({record["length"] for record in records})
        table = [["task", *map(short_length, lengths)]]
        table += [[task, *(_percent([means.get((task, n))]) for n in lengths)] for task in tasks]
        if len(tasks) > 1:
            means_of = ([means.get((task, length)) for task in tasks] for length in lengths)
            table.append([f"mean of {len(tasks)} tasks", *map(_percent, means_of)])
        return table


def _mean(scores: Sequence[float]) -> float | None:
    return sum(scores) / len(scores) if scores else None


def _percent(scores: list[float | None]) -> str:
    """Return the mean of scores in percent; nothing unless all are known."""
    known = [100 * score for score in scores if score is not None]
    return f"{sum(known) / len(known):.2f}" if len(known) == len(scores) else ""


def score(
    predictions: Source,
    data: Data | None = None,
    *,
    revision: str | None = None,
    protocol: str = "",
    partial: bool = False,
) -> Scores:
    """Return the official scores of predictions.

    Args:
        predictions: a run or its folder; file or folder of predictions
            (`ruler_report.prediction_formats`); texts by row, `{"vt_4096/0": "..."}`; or records
            with `id` (or `config` and `index`) and `text` (or `prediction`). Every row of a
            config that they touch is scored.
        data: folder or Hub repo of the rows, or what `ruler_data.load` returned; by default the
            repo of the run.
        revision: commit or tag of the repo; by default that of the run.
        protocol: of predictions that are not a run; `thinking` removes the reasoning block.
        partial: score what is there if rows have no answer; the scores then say n of N.

    Raises:
        UsageError: something is not there, or more must be said.
        RulerError: something is damaged or incomplete, or the predictions are for other rows.
    """
    run, found, rows = load(predictions, data, revision, protocol=protocol)
    rows.fetch()
    configs: dict[str, tuple[float | None, ...]] = {}
    exact: dict[str, tuple[tuple[float, float] | None, ...]] = {}
    for config in rows.rows:
        task = rows.manifest.table[parse_config(config)[0]]
        column: list[tuple[float, tuple[float, float]] | None] = []
        for row, several in pair_rows(rows, found, config, run.samples):
            answers = [answer_of(run, each) for each in several]
            if None in answers:
                column.append(None)
                continue
            known = [answer for answer in answers if answer is not None]
            official = [score_row(row, task, answer) for answer in known]
            pairs = [exact_scores(row, task, *each) for each in zip(known, official, strict=True)]
            exacts, f1s = zip(*pairs, strict=True)
            column.append((fmean(official), (fmean(exacts), fmean(f1s))))
        configs[config] = tuple(one and one[0] for one in column)
        exact[config] = tuple(one and one[1] for one in column)
    scores = Scores(configs, exact, found.notes)
    _check_complete(scores, partial=partial)
    return scores


def _check_complete(scores: Scores, *, partial: bool) -> None:
    unscored, rows = scores.unscored, sum(map(len, scores.configs.values()))
    if unscored and not (partial and len(unscored) < rows):
        if len(unscored) == rows:
            msg = f"0 of {rows:,} rows have an answer; check the predictions' ids (CONFIG/INDEX)"
            raise RulerError(msg)
        more = f" and {len(unscored) - 3:,} more" if len(unscored) > 3 else ""
        msg = (
            f"{rows - len(unscored):,} of {rows:,} rows have an answer; missing: "
            f"{', '.join(unscored[:3])}{more}; generate them, or pass partial=True"
        )
        raise RulerError(msg)
