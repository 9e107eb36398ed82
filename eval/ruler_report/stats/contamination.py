"""Contamination: does a model score higher on public rows than on fresh rows of another seed?

The questions differ, so nothing is paired. If public rows are no easier for the model, every
question could have come from either seed. The p-value is the share of random reassignments of a
task's questions, each with its scores at all lengths, that give as great a gap. The test is
one-sided, since seen rows can only help. An interval combines those of the two runs (MOVER: Zou and
Donner 2008), so a run whose rows are all right adds the uncertainty that its few rows leave.
"""

from collections.abc import Callable
from dataclasses import replace

import numpy as np

from ruler_data.errors import RulerError
from ruler_data.names import parse_config
from ruler_eval.schema import RunInfo
from ruler_report.results import Results, Run, read_results
from ruler_report.stats.comparison import (
    CANNOT_TELL,
    CONTAMINATED,
    LEVEL,
    NO_SIGN,
    Comparison,
    Difference,
    Measure,
    tabulate,
)
from ruler_report.stats.resampling import FLIPS, permute_labels
from ruler_report.stats.score_table import ScoreTable, score_matrix

#: The smallest gap that matters, in percentage points; `no sign` rules it out.
MARGIN = 2.0

#: What must be the same in both runs.
SAME: dict[str, Callable[[RunInfo], object]] = {
    "the models differ": lambda run: (run.model, run.model_revision),
    "the protocols differ": lambda run: (run.protocol, run.no_context, run.frame),
    "the engines or their settings differ": lambda run: (run.engine, run.engine_info, run.sampling),
    "the tokenizers differ": lambda run: (run.data.tokenizer_fingerprint, run.model_tokenizer),
    "the data versions differ": lambda run: run.data.data_version.partition(".")[0],
    "the suites differ": lambda run: run.data.suite,
    "the editions differ": lambda run: run.data.edition,
    "the sources or reserves differ": lambda run: (run.data.sample, run.data.inputs),
    "the tasks or lengths differ": lambda run: set(run.data.rows),
}


def contamination(
    public: Run, fresh: Run, *, margin: float = MARGIN, force: bool = False
) -> Comparison:
    """Test whether a model scores higher on public rows than on fresh rows of another seed.

    Differences are public minus fresh. Verdicts are `contaminated` (public rows are easier),
    `no sign` (a gap of the margin or more is ruled out) or `cannot tell`.

    Args:
        public: a run on the public rows, as for `compare`.
        fresh: a run of the same model on rows of another seed.
        margin: the smallest gap that matters, in percentage points.
        force: compare even if the runs differ in more than the seed; `notes` then says so.

    Raises:
        UsageError: there is no such run, or it is not scored.
        RulerError: the runs differ in more than the seed and `force` is false, the seeds are equal
            or in the wrong order, or no task was scored at all lengths.
    """
    public, fresh = read_results(public), read_results(fresh)
    warnings = _check(public, fresh, force=force)
    tasks, lengths = _common(public, fresh)
    compared = [f"{task}_{length}" for task in tasks for length in lengths]
    tables = [
        ScoreTable.of(replace(run, configs={name: run.configs[name] for name in compared}))
        for run in (public, fresh)
    ]

    def verdict(gap: Difference) -> str:
        if gap.adjusted < LEVEL and gap.value > 0:
            return CONTAMINATED
        return NO_SIGN if gap.high < margin else CANNOT_TELL

    measure = _unpaired_measure(*tables)
    return tabulate((public, fresh), tasks, lengths, measure, verdict, warnings, margin)


def _check(public: Results, fresh: Results, *, force: bool) -> list[str]:
    """Return what differs beside the seed; an error unless `force` allows it."""
    first, second = public.run, fresh.run
    if first.data.seed == second.data.seed:
        msg = (
            "not a test of contamination: both runs are on rows of the same seed; give one on the "
            "public rows and one on rows of `ruler-data build --fresh`"
        )
        raise RulerError(msg)
    if first.data.seed < 0 <= second.data.seed:
        msg = (
            "not a test of contamination: the first run is on rows of a private seed, and the "
            "second is not; give the run on the public rows first"
        )
        raise RulerError(msg)
    warnings = [reason for reason, key in SAME.items() if key(first) != key(second)]
    common = [name for name in public.configs if name in fresh.configs]
    for name in common:
        if public.configs[name].params != fresh.configs[name].params:
            warnings.append(f"the parameters of {name} differ")
            break
    if warnings and not force:
        msg = (
            f"not a test of contamination: {'; '.join(warnings)}; a contamination test "
            "allows only a different seed; --force compares anyway"
        )
        raise RulerError(msg)
    return warnings


def _common(public: Results, fresh: Results) -> tuple[list[str], list[int]]:
    """Return the tasks that both runs scored at all lengths that both have, and these lengths."""
    common = {
        parse_config(name): config.scored and fresh.configs[name].scored
        for name, config in public.configs.items()
        if name in fresh.configs
    }
    lengths = sorted({length for _, length in common})
    tasks = [
        task
        for task in dict.fromkeys(task for task, _ in common)
        if all(common.get((task, length)) for length in lengths)
    ]
    if not tasks:
        msg = "nothing to compare: no task was scored in both runs at all lengths that both have"
        raise RulerError(msg)
    return tasks, lengths


def _unpaired_measure(public: ScoreTable, fresh: ScoreTable) -> Measure:
    """Return the measure of gaps between two tables of the same tasks and lengths."""
    permuted = {}
    for task in public.tasks:
        first, second = (
            score_matrix(table.configs, task, table.lengths) for table in (public, fresh)
        )
        permuted[task] = 100 * permute_labels(task, first, second)

    def measure(rows: slice, columns: slice) -> Difference:
        tasks, lengths = public.tasks[rows], public.lengths[columns]
        one, other = (
            table.means(tasks)[lengths[0]] if len(lengths) == 1 else table.averages(tasks)["avg"]
            for table in (public, fresh)
        )
        value = one.value - other.value
        gaps = np.mean([permuted[task][:, columns].mean(axis=1) for task in tasks], axis=0)
        extreme = int(np.sum(gaps >= value - 1e-9))  # tolerates another order of summation
        return Difference(
            value,
            value - float(np.hypot(one.value - one.low, other.high - other.value)),
            value + float(np.hypot(one.high - one.value, other.value - other.low)),
            (1 + extreme) / (FLIPS + 1),
            (one.scored, other.scored),
        )

    return measure
