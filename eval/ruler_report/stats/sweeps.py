"""What a suite varies, found from the parameters of its tasks and never from their names.

    vt_hops_2    {chains: 1, hops: 2}
    vt_hops_4    {chains: 1, hops: 4}      a line over hops: 2, 4, 12
    vt_hops_12   {chains: 1, hops: 12}

So the sweeps of this package (Figures 2 and 3 of RULER, arXiv 2404.06654, section 5) and a user's
own are drawn by the same rules.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal, get_args, get_type_hints

from ruler_data.tasks import FAMILIES, TASKS
from ruler_report.results import Param
from ruler_report.stats.score_table import Configs

#: Number of keys of a haystack that is nothing but needles, as the paper's Figure 2 has it.
FULL = "full"

Params = Mapping[str, Param]


@dataclass(frozen=True)
class Axis:
    """A parameter that varies, or several that always have the same value.

    Attributes:
        names: of the parameters.
        values: that occur, numbers rising.
    """

    names: tuple[str, ...]
    values: tuple[Param, ...]


@dataclass(frozen=True)
class Point:
    """A task and its values on the axes."""

    task: str
    values: tuple[Param, ...]


@dataclass(frozen=True)
class Study:
    """Tasks of one family that differ in their parameters.

    Attributes:
        family: of the tasks.
        shape: `line` where one thing varies, `grid` where two do and every pair is there, else
            `list`.
        axes: what varies.
        points: tasks, in the order of the values.
    """

    family: str
    shape: Literal["line", "grid", "list"]
    axes: tuple[Axis, ...]
    points: tuple[Point, ...]


def studies_of(configs: Configs) -> tuple[Study, ...]:
    """Return what the tasks of each family vary; the thirteen alone are no study."""
    families: dict[str, dict[str, Params]] = {}
    for (task, _), config in configs.items():
        if config.params:
            families.setdefault(config.family, {}).setdefault(task, config.params)
    return tuple(
        study
        for family, tasks in families.items()
        if len(tasks) > 1 and not TASKS.keys() >= tasks.keys()
        for study in _study(family, tasks)
    )


def _study(family: str, tasks: Mapping[str, Params]) -> Iterator[Study]:
    folded = _arranged(family, _folded(tasks))
    study = folded if folded and folded.shape == "line" else _arranged(family, tasks)
    if study:
        yield study


def _folded(tasks: Mapping[str, Params]) -> dict[str, Params]:
    """Return the tasks with a haystack of needles said as one of `full` keys in the others'."""
    others = {params["haystack"] for params in tasks.values()
              if params.get("haystack", "needles") != "needles"}  # fmt: skip
    if len(others) != 1:
        return dict(tasks)
    return {
        task: {**params, "haystack": next(iter(others)), "keys": FULL}
        if params.get("haystack") == "needles" and params.get("keys") == 1
        else params
        for task, params in tasks.items()
    }


def _arranged(family: str, tasks: Mapping[str, Params]) -> Study | None:
    axes = _axes(family, tasks)
    if not axes:
        return None
    points = [
        Point(task, tuple(params[axis.names[0]] for axis in axes)) for task, params in tasks.items()
    ]
    points.sort(key=lambda point: tuple(
        axis.values.index(value) for axis, value in zip(axes, point.values, strict=True)
    ))  # fmt: skip
    once = len({point.values for point in points}) == len(points)
    if once and len(axes) == 1:
        return Study(family, "line", axes, tuple(points))
    pairs = len(axes) == 2 and len(points) == len(axes[0].values) * len(axes[1].values)
    return Study(family, "grid" if once and pairs else "list", axes, tuple(points))


def _axes(family: str, tasks: Mapping[str, Params]) -> tuple[Axis, ...]:
    """Return what varies, parameters of always equal values as one."""
    columns: dict[tuple[Param, ...], list[str]] = {}
    shared = [name for name in next(iter(tasks.values()))
              if all(name in params for params in tasks.values())]  # fmt: skip
    for name in shared:
        column = tuple(params[name] for params in tasks.values())
        if len(set(column)) > 1:
            columns.setdefault(column, []).append(name)
    return tuple(Axis(tuple(names), _sorted(family, names[0], column))
                 for column, names in columns.items())  # fmt: skip


def _sorted(family: str, name: str, column: Sequence[Param]) -> tuple[Param, ...]:
    """Return the values once: numbers rising, then words as the table of tasks has them."""
    kind = next((kind for kind in FAMILIES if kind.family == family), None)
    known = get_args(get_type_hints(kind).get(name)) if kind else ()
    words = [value for value in dict.fromkeys(column) if isinstance(value, str)]
    numbers = sorted({value for value in column if not isinstance(value, str)})
    return (*numbers, *sorted(words, key=lambda word: known.index(word) if word in known else 99))
