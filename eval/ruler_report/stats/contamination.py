"""Contamination: does a model score higher on public rows than on fresh rows of another seed?

The questions differ, so nothing is paired. The test is one-sided, since seen rows can only help;
intervals are two-sided.
"""

from collections.abc import Callable
from dataclasses import replace

from ruler_data.errors import RulerError
from ruler_eval.run_dir import RunInfo
from ruler_report.results_file import Run, read_results
from ruler_report.stats.comparison import (
    CANNOT_TELL,
    CONTAMINATED,
    NO_SIGN,
    Comparison,
    Difference,
    PairTable,
    labels_of,
)
from ruler_report.stats.intervals import LEVEL
from ruler_report.stats.pairs import K

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
    seeds = (public.run.data.seed, fresh.run.data.seed)
    problem = ""
    if seeds[0] == seeds[1]:
        problem = (
            "both runs are on rows of the same seed; give one on the public rows and one on rows "
            "of `ruler-data build --fresh`"
        )
    elif seeds[0] < 0 <= seeds[1]:
        problem = (
            "the first run is on rows of a private seed, and the second is not; give the run on "
            "the public rows first"
        )
    warnings = [reason for reason, key in SAME.items() if key(public.run) != key(fresh.run)]
    changed = (
        name
        for name, config in public.configs.items()
        if name in fresh.configs and config.params != fresh.configs[name].params
    )
    warnings += [f"the parameters of {name} differ" for name in [*changed][:1]]
    if warnings and not (problem or force):
        problem = (
            f"{'; '.join(warnings)}; a contamination test allows only a different seed; --force "
            "compares anyway"
        )
    if problem:
        msg = f"not a test of contamination: {problem}"
        raise RulerError(msg)

    def verdict(gap: Difference) -> str:
        if gap.adjusted < LEVEL and gap.value > 0:
            return CONTAMINATED
        return NO_SIGN if gap.high < margin else CANNOT_TELL

    labels = labels_of([fresh, public])
    (made,) = PairTable([fresh, public], labels, apart=True).compared([(0, 1)], verdict, margin)

    def swapped(gaps: dict[K, Difference]) -> dict[K, Difference]:
        return {key: replace(gap, rows=gap.rows[::-1]) for key, gap in gaps.items()}

    notes = [note for note in made.notes if not note.startswith("forced: ")]
    return replace(
        made,
        runs=made.runs[::-1],
        labels=made.labels[::-1],
        differences=swapped(made.differences),
        categories=swapped(made.categories),
        basis="unpaired: public and fresh rows ask otherwise",
        warnings=tuple(warnings),
        notes=(*(f"forced: {warning}" for warning in warnings), *notes),
    )
