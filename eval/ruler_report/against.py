"""Scores against a number: an option of the engine, a training step, a parameter of the tasks.

ratio 0.25, 0.5, 0.75    an option that runs of one model differ in, e.g. of a cache's press
step                     in the name of a model or its revision: `checkpoint-500`, `step_1000`
train_length             a number that the user gave for each model (`--attr`)
hops 2, 4, 12            a parameter in which the tasks of a suite differ
"""

import re
from collections.abc import Callable, Mapping, Sequence

from ruler_data.errors import UsageError
from ruler_data.names import counted, parse_config, quote
from ruler_report.comparison import lineup, options_of
from ruler_report.drawing import Drawing
from ruler_report.frame import Point
from ruler_report.pictures import against_picture
from ruler_report.results_file import Param
from ruler_report.summary import CATEGORIES, ScoredRun

STEP = "step"
_STEP = re.compile(r"(?:steps?|checkpoint|ckpt|iter)[-_ ]?(\d+)(?![\d.]*[bB])", re.IGNORECASE)


def against(runs: Sequence[ScoredRun], name: str, baseline: ScoredRun | None) -> Drawing | None:
    """Return the picture of scores against what varies, by name.

    A run without the number, e.g. the baseline, is a dashed line.

    Raises:
        UsageError: neither the runs nor their tasks differ in it.
    """
    places = {run.label: place for run in runs if (place := place_of(run, name)) is not None}
    if len({*places.values()}) > 1:
        return _by_run(runs, name, places, baseline)
    tasks = {
        parse_config(config)[0]: one.params[name]
        for run in runs
        for config, one in run.results.configs.items()
        if name in one.params
    }
    if len({*tasks.values()}) < 2:
        options = {key for run in runs for key in options_of(run.results.run)}
        options |= {STEP, *(key for run in runs for key in run.results.attributes)}
        varied = [key for key in sorted(options) if len({place_of(run, key) for run in runs}) > 1]
        msg = (
            f"--against {quote(name)}: neither runs nor tasks differ in it; runs differ in "
            f"{', '.join(varied) or 'no number'}"
        )
        raise UsageError(msg)
    return _by_task(runs, name, tasks)


def place_of(run: ScoredRun, name: str) -> float | None:
    """Return the number of a run by which it is drawn; None if it has none."""
    if name in run.results.attributes:
        return run.results.attributes[name]
    if name == STEP:
        info = run.results.run
        match = _STEP.search(info.model) or _STEP.search(info.model_revision or "")
        return float(match[1]) if match else None
    value = options_of(run.results.run).get(name)
    return float(value) if isinstance(value, int | float) and not isinstance(value, bool) else None


def _by_run(
    runs: Sequence[ScoredRun],
    name: str,
    places: Mapping[str, float],
    baseline: ScoredRun | None,
) -> Drawing | None:
    full = baseline or next((run for run in runs if run.label not in places), None)
    drawn = [run for run in runs if run.label in places or run is full]
    field = lineup([run.results for run in drawn], force=True)
    tasks = field.frame.tasks
    if not tasks:
        return None
    at = {run.label: place for place, run in enumerate(drawn)}

    def means(name: str | None) -> dict[str, Point]:
        estimates = {label: field.means.estimate((name, None), run) for label, run in at.items()}
        return {label: mean.point for label, mean in estimates.items() if mean and mean.known}

    def retained(run: ScoredRun) -> Point | None:
        ratio = field.means.ratio((None, None), at[full.label], at[run.label]) if full else None
        return ratio.point if ratio and ratio.known else None

    def lines(of: Callable[[ScoredRun], Point | None]) -> dict[str, dict[float | str, Point]]:
        series: dict[str, dict[float | str, Point]] = {}
        for run in sorted(drawn, key=lambda run: places.get(run.label, 0.0)):
            if run.label in places and (point := of(run)):
                series.setdefault(_series(run, drawn, name), {})[places[run.label]] = point
        return series

    overall = means(None)
    panels = {f"mean of {counted(len(tasks), 'task')}": lines(lambda run: overall.get(run.label))}
    if full:
        panels["retained, in percent"] = lines(retained)
    for category in CATEGORIES:
        if (category, None) in field.means.columns:
            by_label = means(category)
            panels[category] = lines(lambda run, by=by_label: by.get(run.label))  # type: ignore[misc]
    whole = overall.get(full.label) if full else None
    return against_picture(name, panels, whole.value if whole else None)


def _series(run: ScoredRun, runs: Sequence[ScoredRun], name: str) -> str:
    """Return what tells a line from others: the options that differ, but for the one drawn."""
    options = options_of(run.results.run)
    values = {key: {str(options_of(run.results.run).get(key)) for run in runs} for key in options}
    names = [str(options[key]) for key in options if key != name and len(values[key]) > 1]
    return ", ".join(names)


def _by_task(runs: Sequence[ScoredRun], name: str, values: Mapping[str, Param]) -> Drawing | None:
    series: dict[str, dict[float | str, Point]] = {}
    for run in runs:
        for task, value in values.items():
            mean = run.summary.by_task.get(task)
            if mean and mean.known:
                place = value if isinstance(value, str) else float(value)
                series.setdefault(run.label if len(runs) > 1 else "", {})[place] = mean.point
    return against_picture(name, {"mean over lengths": series})
