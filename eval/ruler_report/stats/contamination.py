"""Contamination: does a model score higher on public rows than on fresh rows of another seed?

The questions differ, so nothing is paired. The test is one-sided, since seen rows can only help;
intervals are two-sided.
"""

from collections.abc import Callable
from dataclasses import replace

from ruler_data.errors import RulerError
from ruler_eval.run_dir import RunInfo
from ruler_report.results_file import Run, read_results
from ruler_report.stats.comparison import Comparison, check_scored, compared, labels_of
from ruler_report.stats.pairs import PairTable

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
}


def contamination(
    public: Run, fresh: Run, *, margin: float = MARGIN, force: bool = False
) -> Comparison:
    """Test whether a model scores higher on public rows than on fresh rows of another seed.

    Differences are public minus fresh, over the tasks and lengths of both. Verdicts are
    `contaminated` (public rows are easier), `no sign` (a gap of the margin or more, in percentage
    points, is ruled out) or `cannot tell`.

    Raises:
        RulerError: the runs differ in more than the seed and `force` is false, the seeds are equal
            or in the wrong order, or no task was scored at all lengths.
    """
    fresh, public = runs = [read_results(fresh), read_results(public)]
    seeds = [run.run.data.seed for run in runs]
    warnings = [reason for reason, key in SAME.items() if key(public.run) != key(fresh.run)]
    for name in [n for n in public.configs if n in fresh.configs]:
        if public.configs[name].params != fresh.configs[name].params:
            warnings.append(f"the parameters of {name} differ")
            break
    problem = ""
    if seeds[0] == seeds[1]:
        problem = (
            "both runs are on rows of the same seed; give one on the public rows and one on rows "
            "of `ruler-data build --fresh`"
        )
    elif seeds[1] < 0 <= seeds[0]:
        problem = (
            "the first run is on rows of a private seed, and the second is not; give the run on "
            "the public rows first"
        )
    elif warnings and not force:
        problem = (
            f"{'; '.join(warnings)}; a contamination test allows only a different seed; --force "
            "compares anyway"
        )
    if problem:
        msg = f"not a test of contamination: {problem}"
        raise RulerError(msg)
    check_scored(*runs)
    comparison = compared(PairTable(runs, labels_of(runs), margin=margin), 0, 1)
    return replace(
        comparison,
        basis="unpaired: public and fresh rows ask otherwise",
        warnings=tuple(warnings),
        notes=(*(f"forced: {warning}" for warning in warnings), *comparison.notes),
    )
