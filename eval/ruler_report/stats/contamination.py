"""Has a model seen the public rows? Its scores there against those on rows of a fresh seed.

The gap between a model's scores on public rows and on fresh ones, and what it tells.

The rows differ, so nothing is paired. If public rows are no easier for the model than fresh ones,
every question might as well have come from either seed: the p-value is the share of random deals of
the questions of a task, each with its scores at all lengths, that give so great a gap. It is of one
side, since seen rows can only help. An interval joins the two runs' own (MOVER: Zou and Donner
2008), so that a side whose rows are all right counts with what so few rows leave open.
"""

from collections.abc import Callable, Hashable, Mapping
from dataclasses import asdict, dataclass, field, replace
from typing import Any, Final, Literal, TypeVar

import numpy as np

from ruler_data.errors import RulerError
from ruler_data.names import parse_config
from ruler_eval.schema import RunInfo
from ruler_report.results import Results
from ruler_report.stats.comparison import CANNOT_TELL, LEVEL, holm
from ruler_report.stats.resampling import FLIPS, Floats, permute_labels
from ruler_report.stats.score_table import Figure, Pool, pool_of, score_table

#: A gap that would matter, in percent points; below it a run may be said to show no sign.
MARGIN = 2.0


CONTAMINATED: Final = "contaminated"
NO_SIGN: Final = "no sign"
Verdict = Literal["contaminated", "no sign", "cannot tell"]
K = TypeVar("K", bound=Hashable)


@dataclass(frozen=True)
class Gap:
    """Mean on the public rows less mean on fresh ones, in percent points.

    Attributes:
        value: gap; likewise `low` and `high`, its 95 % interval.
        p: chance of so great a gap were public rows no easier; `adjusted` for the other tests of
            its family.
        public: rows that were scored; `fresh` likewise.
        verdict: `contaminated`: public rows are easier; `no sign`: a gap of the margin or more is
            ruled out; else `cannot tell`.
    """

    value: float
    low: float
    high: float
    p: float
    public: int
    fresh: int
    adjusted: float = 1.0
    verdict: Verdict = CANNOT_TELL


@dataclass(frozen=True)
class Sides:
    """Both runs, and random deals of their questions."""

    public: Pool
    fresh: Pool
    deals: Mapping[str, Floats]

    def gap(self, tasks: tuple[str, ...], lengths: tuple[int, ...]) -> Gap:
        """Return the gap of the mean over tasks and lengths."""
        ours, theirs = (_mean(pool, tasks, lengths) for pool in (self.public, self.fresh))
        value = ours.value - theirs.value
        places = [self.public.lengths.index(length) for length in lengths]
        deals = np.mean([self.deals[task][:, places].mean(axis=1) for task in tasks], axis=0)
        greater = int(np.sum(deals >= value - 1e-9))  # sums in another order differ by less
        return Gap(
            value,
            value - float(np.hypot(ours.value - ours.low, theirs.high - theirs.value)),
            value + float(np.hypot(ours.high - ours.value, theirs.value - theirs.low)),
            (1 + greater) / (FLIPS + 1),
            ours.scored,
            theirs.scored,
        )


def _mean(pool: Pool, tasks: tuple[str, ...], lengths: tuple[int, ...]) -> Figure:
    """Return the mean over tasks at one length, or at all."""
    return pool.means(tasks)[lengths[0]] if len(lengths) == 1 else pool.averages(tasks)["avg"]


def sides_of(public: Pool, fresh: Pool) -> Sides:
    """Return two pools of the same tasks and lengths with the gaps of random deals."""
    deals = {
        task: 100 * permute_labels(task, score_table(public.configs, task, public.lengths),
                         score_table(fresh.configs, task, fresh.lengths))
        for task in public.tasks
    }  # fmt: skip
    return Sides(public, fresh, deals)


def judged(family: Mapping[K, Gap], margin: float) -> dict[K, Gap]:
    """Return gaps with corrected p-values and their verdicts, by a margin in percent points."""
    adjusted = holm({name: gap.p for name, gap in family.items()})
    return {
        name: replace(gap, adjusted=adjusted[name], verdict=_verdict(gap, adjusted[name], margin))
        for name, gap in family.items()
    }


def _verdict(gap: Gap, adjusted: float, margin: float) -> Verdict:
    if adjusted < LEVEL and gap.value > 0:
        return CONTAMINATED
    return NO_SIGN if gap.high < margin else CANNOT_TELL


@dataclass(frozen=True)
class Contamination:
    """A model on public and on fresh rows.

    Attributes:
        lengths: in tokens.
        tasks: that were asked at every one of these lengths.
        margin: of the verdicts, in percent points.
        cells: by task and length; `by_task` and `by_length` are means over the other, `overall`
            over both.
        left_out: configs of tasks that were not asked at every length.
        warnings: what differs beside the seed; empty unless it was forced.
    """

    lengths: tuple[int, ...]
    tasks: tuple[str, ...]
    margin: float
    cells: dict[tuple[str, int], Gap]
    by_task: dict[str, Gap]
    by_length: dict[int, Gap]
    overall: Gap
    left_out: tuple[str, ...] = ()
    warnings: tuple[str, ...] = field(default=())

    def to_record(self) -> dict[str, Any]:
        """Return it as plain values."""
        cells = {f"{task}_{length}": asdict(cell) for (task, length), cell in self.cells.items()}
        return {**asdict(replace(self, cells={})), "cells": cells}


#: What must be the same in both runs.
SAME: dict[str, Callable[[RunInfo], object]] = {
    "the models differ": lambda run: (run.model, run.model_revision),
    "the protocols differ": lambda run: (run.protocol, run.no_context, run.frame),
    "the engines or their settings differ": lambda run: (run.engine, run.engine_info, run.sampling),
    "the tokenizers differ": lambda run: (run.data.tokenizer_fingerprint, run.model_tokenizer),
    "the data versions differ": lambda run: run.data.data_version.partition(".")[0],
    "the suites differ": lambda run: run.data.suite,
    "the sources or reserves differ": lambda run: (run.data.sample, run.data.inputs),
    "the tasks or lengths differ": lambda run: set(run.data.rows),
}


def contamination(
    public: Results, fresh: Results, *, margin: float = MARGIN, force: bool = False
) -> Contamination:
    """Compare a run on public rows with one on fresh rows that differs in nothing but the seed.

    Raises:
        RulerError: more than the seed differs and it is not forced; or the seed does not; or there
            is no task that was asked at all lengths.
    """
    warnings = _check(public, fresh, force=force)
    lengths, tasks = _common(public, fresh)
    compared = [f"{task}_{length}" for task in tasks for length in lengths]
    left_out = sorted((public.configs.keys() | fresh.configs.keys()) - set(compared))
    pools = [pool_of(replace(run, configs={name: run.configs[name] for name in compared}))
             for run in (public, fresh)]  # fmt: skip
    made = _compared(sides_of(*pools), margin)
    return replace(made, left_out=tuple(left_out), warnings=warnings)


def _check(public: Results, fresh: Results, *, force: bool) -> tuple[str, ...]:
    """Return what differs beside the seed, if that is forced."""
    ours, theirs = public.run, fresh.run
    if ours.data.seed == theirs.data.seed:
        msg = (
            "not a test of contamination: both runs are on rows of the same seed; give one on the "
            "public rows and one on rows of `ruler-data build --fresh`"
        )
        raise RulerError(msg)
    if ours.data.seed < 0 <= theirs.data.seed:
        msg = (
            "not a test of contamination: the first run is on rows of a private seed, and the "
            "second is not; give the run on the public rows first"
        )
        raise RulerError(msg)
    warnings = tuple(why for why, of in SAME.items() if of(ours) != of(theirs))
    both = [(name, public.configs[name], fresh.configs[name]) for name in _both(public, fresh)]
    if differing := [name for name, one, other in both if one.params != other.params]:
        warnings += (f"the parameters of {differing[0]} differ",)
    if warnings and not force:
        msg = (
            f"not a test of contamination: {'; '.join(warnings)}, and only the seed may; --force "
            "compares them all the same"
        )
        raise RulerError(msg)
    return warnings


def _common(public: Results, fresh: Results) -> tuple[tuple[int, ...], tuple[str, ...]]:
    """Return the lengths that both runs have, and the tasks that both scored at all of them."""
    common = _both(public, fresh)
    lengths = tuple(sorted({parse_config(name)[1] for name in common}))
    tasks = tuple(dict.fromkeys(
        parse_config(name)[0] for name in public.configs
        if all(_scored(public, fresh, f"{parse_config(name)[0]}_{length}") for length in lengths)
    ))  # fmt: skip
    if not (tasks and lengths):
        msg = "nothing to compare: no task was scored in both runs at all lengths that both have"
        raise RulerError(msg)
    return lengths, tasks


def _both(public: Results, fresh: Results) -> list[str]:
    return [name for name in public.configs if name in fresh.configs]


def _scored(public: Results, fresh: Results, name: str) -> bool:
    return all(name in run.configs and run.configs[name].scored for run in (public, fresh))


def _compared(sides: Sides, margin: float) -> Contamination:
    lengths, tasks = sides.public.lengths, sides.public.tasks
    cells = {(task, length): sides.gap((task,), (length,)) for task in tasks for length in lengths}
    return Contamination(
        lengths=lengths,
        tasks=tasks,
        margin=margin,
        cells=judged(cells, margin),
        by_task=judged({task: sides.gap((task,), lengths) for task in tasks}, margin),
        by_length=judged({length: sides.gap(tasks, (length,)) for length in lengths}, margin),
        overall=judged({"overall": sides.gap(tasks, lengths)}, margin)["overall"],
    )
