"""Two runs on the same questions: differences, their intervals, and whether they can be told apart.

Everything is paired: a question's score in one run stands beside its score in the other, and only
questions that both scored take part.

A difference between two runs, and whether it tells them apart.

A p-value is that of a permutation test under which each question's two answers could as well have
come from either run; verdicts are at 5 % after Holm's correction (Holm 1979) within their family:
all tasks, all lengths, or all cells.
"""

from collections.abc import Hashable, Mapping
from dataclasses import asdict, dataclass, replace
from typing import Any, Final, TypeVar

import numpy as np

from ruler_data.errors import RulerError
from ruler_eval.schema import RunInfo
from ruler_report.results import Results
from ruler_report.stats.resampling import FLIPS, Floats, flip, interval, resample
from ruler_report.stats.score_table import configs_of, score_table

K = TypeVar("K", bound=Hashable)
#: A corrected p-value below which two runs are told apart.
LEVEL = 0.05
CANNOT_TELL: Final = "cannot tell"


@dataclass(frozen=True)
class Difference:
    """The second run's mean less the first's, in percent points.

    Attributes:
        value: difference; likewise `low` and `high`, its 95 % bootstrap interval.
        p: of the permutation test; `adjusted` is corrected for the other tests of its family.
        pairs: rows that both runs scored.
        verdict: `first` or `second`, the better run, or `cannot tell`.
    """

    value: float
    low: float
    high: float
    p: float
    pairs: int
    adjusted: float = 1.0
    verdict: str = CANNOT_TELL


def p_value(value: float, flips: Floats) -> float:
    """Return the two-sided p-value; the runs as they are count as a flip (Phipson, Smyth 2010)."""
    extreme = np.abs(flips) >= abs(value) - 1e-9  # sums in another order differ by less
    return float((1 + extreme.sum()) / (FLIPS + 1))


def judge(family: dict[K, Difference]) -> dict[K, Difference]:
    """Return differences with Holm's corrected p-values and their verdicts.

    >>> two = judge({1: Difference(5, 3, 7, 0.03, 9), 2: Difference(-5, -7, -3, 0.02, 9)})
    >>> two[1].adjusted, two[1].verdict, two[2].adjusted, two[2].verdict
    (0.04, 'second', 0.04, 'first')
    """
    adjusted = holm({name: one.p for name, one in family.items()})
    return {
        name: replace(one, adjusted=adjusted[name], verdict=_verdict(one, adjusted[name]))
        for name, one in family.items()
    }


def holm(values: Mapping[K, float]) -> dict[K, float]:
    """Return Holm's corrected p-values of a family of tests.

    >>> holm({"a": 0.03, "b": 0.02})
    {'b': 0.04, 'a': 0.04}
    """
    adjusted: dict[K, float] = {}
    before = 0.0
    for place, (name, p) in enumerate(sorted(values.items(), key=lambda item: item[1])):
        before = adjusted[name] = max(before, min(1.0, p * (len(values) - place)))
    return adjusted


def _verdict(one: Difference, adjusted: float) -> str:
    better = "second" if one.value > 0 else "first"
    return better if adjusted < LEVEL else CANNOT_TELL


@dataclass(frozen=True)
class Comparison:
    """Two runs compared.

    Attributes:
        lengths: in tokens, that both have.
        tasks: that both have at every one of these lengths.
        cells: by task and length; `by_task` and `by_length` are means over the other, `overall`
            over both.
        left_out: configs that take no part: not both runs have them, or not at every length.
        warnings: why the runs should not have been compared; empty unless it was forced.
    """

    lengths: tuple[int, ...]
    tasks: tuple[str, ...]
    cells: dict[tuple[str, int], Difference]
    by_task: dict[str, Difference]
    by_length: dict[int, Difference]
    overall: Difference
    left_out: tuple[str, ...] = ()
    warnings: tuple[str, ...] = ()

    def to_record(self) -> dict[str, Any]:
        """Return the comparison as plain values."""
        cells = {f"{task}_{length}": asdict(cell) for (task, length), cell in self.cells.items()}
        return {**asdict(replace(self, cells={})), "cells": cells}


def differences_of(first: RunInfo, second: RunInfo) -> list[str]:
    """Return why two runs cannot be compared; nothing where they can."""
    found = []
    if first.protocol != second.protocol:
        found.append(f"the protocols differ: {first.protocol} and {second.protocol}")
    if first.no_context != second.no_context:
        found.append("one of the runs was not given the context")
    ours, theirs = first.data.digests, second.data.digests
    other = [name for name in ours if name in theirs and ours[name] != theirs[name]]
    if other:
        tokenizers = {first.data.tokenizer, second.data.tokenizer}
        why = f" (rows for {' and '.join(sorted(tokenizers))})" if len(tokenizers) > 1 else ""
        found.append(f"the rows of {', '.join(other)} differ{why}")
    return found


def compare(first: Results, second: Results, *, force: bool = False) -> Comparison:
    """Compare two runs, question by question.

    Raises:
        RulerError: the runs cannot be compared and it is not forced, or share nothing.
    """
    warnings = differences_of(first.run, second.run)
    if warnings and not force:
        msg = f"not comparable: {'; '.join(warnings)}; --force compares them all the same"
        raise RulerError(msg)
    tables = _paired(first, second)
    lengths = tuple(sorted({length for _, length in tables}))
    tasks = tuple(
        task for task in dict.fromkeys(task for task, _ in tables)
        if all((task, length) in tables for length in lengths)
    )  # fmt: skip
    if not tasks:
        msg = (
            "nothing to compare: no task was scored by both runs at all lengths that both have; "
            "report them one at a time"
        )
        raise RulerError(msg)
    parts = {task: np.stack([tables[task, length] for length in lengths], axis=1)
             for task in tasks}  # fmt: skip
    compared = {f"{task}_{length}" for task in tasks for length in lengths}
    left_out = sorted((first.configs.keys() | second.configs.keys()) - compared)
    return replace(
        _compare(lengths, tasks, parts), left_out=tuple(left_out), warnings=tuple(warnings)
    )


def _paired(first: Results, second: Results) -> dict[tuple[str, int], Floats]:
    """Return differences of scores by task and length; NaN where a run has no score."""
    ours, theirs = configs_of(first), configs_of(second)
    tables: dict[tuple[str, int], Floats] = {}
    common = [key for key in ours if key in theirs]
    for task in dict.fromkeys(task for task, _ in common):
        lengths = sorted({length for name, length in common if name == task})
        one, other = score_table(ours, task, lengths), score_table(theirs, task, lengths)
        rows = min(len(one), len(other))
        gap = other[:rows] - one[:rows]
        for place, length in enumerate(lengths):
            if not np.isnan(gap[:, place]).all():
                tables[task, length] = _padded(gap[:, place], max(len(one), len(other)))
    return tables


def _padded(column: Floats, rows: int) -> Floats:
    return np.concatenate([column, np.full(rows - len(column), np.nan)])


@dataclass(frozen=True)
class _Tables:
    """Differences in percent points, tasks by lengths; draws and flips of them before that.

    Attributes:
        means: as they are.
        draws: of every resample.
        flips: of every flip.
        pairs: questions that both runs scored.
    """

    means: Floats
    draws: Floats
    flips: Floats
    pairs: Floats

    def difference(self, task: int | slice, length: int | slice) -> Difference:
        """Return a cell, or the mean over what is a slice."""
        value = float(self._mean(self.means, task, length))
        low, high = interval(self._mean(self.draws, task, length))
        p = p_value(value, self._mean(self.flips, task, length))
        return Difference(value, low, high, p, int(self.pairs[task, length].sum()))

    def _mean(self, table: Floats, task: int | slice, length: int | slice) -> Floats:
        def wide(pick: int | slice) -> slice:
            return pick if isinstance(pick, slice) else slice(pick, pick + 1)

        return np.asarray(table[..., wide(task), wide(length)].mean(axis=(-2, -1)))


def _compare(
    lengths: tuple[int, ...], tasks: tuple[str, ...], parts: Mapping[str, Floats]
) -> Comparison:
    tables = _Tables(
        means=np.stack([100 * np.nanmean(parts[task], axis=0) for task in tasks]),
        draws=np.stack([100 * resample(task, parts[task]) for task in tasks], axis=1),
        flips=np.stack([100 * flip(task, _shares(parts[task])) for task in tasks], axis=1),
        pairs=np.stack([(~np.isnan(parts[task])).sum(axis=0) for task in tasks]),
    )
    every = slice(None)
    cells = {
        (task, length): tables.difference(i, j)
        for i, task in enumerate(tasks)
        for j, length in enumerate(lengths)
    }
    return Comparison(
        lengths=lengths,
        tasks=tasks,
        cells=judge(cells),
        by_task=judge({task: tables.difference(i, every) for i, task in enumerate(tasks)}),
        by_length=judge({length: tables.difference(every, j) for j, length in enumerate(lengths)}),
        overall=judge({"overall": tables.difference(every, every)})["overall"],
    )


def _shares(gap: Floats) -> Floats:
    """Return what each question adds to the mean of its column; nothing where it has no pair."""
    return np.asarray(np.nan_to_num(gap) / (~np.isnan(gap)).sum(axis=0))
