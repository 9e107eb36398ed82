"""What a suite varies, read from the parameters of its tasks, never from their names.

    vt_hops_2    {chains: 1, hops: 2}
    vt_hops_4    {chains: 1, hops: 4}      a line over hops: 2, 4, 12
    vt_hops_12   {chains: 1, hops: 12}

So the sweeps of this package (Figures 2 and 3 of RULER, arXiv 2404.06654, section 5) and those of
a user follow the same rules.
"""

import hashlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal, get_args, get_type_hints

import numpy as np

from ruler_data.tasks import FAMILIES, TASKS
from ruler_report.format import visible
from ruler_report.results_file import Param
from ruler_report.stats.intervals import Floats
from ruler_report.stats.scores import Configs

#: Permutations of the test of a spread, and how many are drawn at once.
PERMUTATIONS, BATCH = 2000, 200
#: The number of keys in a haystack that is made of needles only, as in the paper's Figure 2.
FULL = "full"
#: Readable names of parameters; others keep their own.
NAMES = {
    "key_type": "type of key",
    "value_type": "type of value",
    "keys": "keys in the haystack",
    "values": "values of the key",
    "queries": "keys in the question",
    "alpha": "exponent of the word frequencies",
    "lookalikes": "similar needles",
    "none": "needle",
    "domains": "domains of the haystack",
    "common": "common words",
    "top": "frequent words in the answer",
    "example": "in-context example",
    "letters": "letters of a name",
    "alphabet": "different letters in names",
    "value_length": "length of the value",
    "question_at": "place of the question",
}
#: Readable names of values; others keep their own.
VALUES = {"possible": "present", "true": "absent", "no": "present, none not allowed"}

Params = Mapping[str, Param]


@dataclass(frozen=True)
class Axis:
    """A parameter that varies, or several that vary together.

    Attributes:
        names: of the parameters.
        values: distinct, numbers in increasing order.
    """

    names: tuple[str, ...]
    values: tuple[Param, ...]

    @property
    def label(self) -> str:
        """The readable names of the parameters."""
        return ", ".join(NAMES.get(name, visible(name.replace("_", " "))) for name in self.names)


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
        shape: `line` where one axis varies, `grid` where two do and every pair occurs, else
            `list`.
        axes: what varies.
        points: the tasks, in the order of their values.
    """

    family: str
    shape: Literal["line", "grid", "list"]
    axes: tuple[Axis, ...]
    points: tuple[Point, ...]

    @property
    def title(self) -> str:
        """What the study shows."""
        return f"{self.family}: score by {' and '.join(axis.label for axis in self.axes)}"


def format_value(value: Param) -> str:
    """Return the value of a parameter as text.

    >>> format_value(2.0), format_value("uuids"), format_value(True)
    ('2', 'uuids', 'yes')
    """
    if isinstance(value, bool):
        return "yes" if value else "no"
    return f"{value:g}" if isinstance(value, int | float) else VALUES.get(value, visible(value))


def studies_of(configs: Configs) -> tuple[Study, ...]:
    """Return what the tasks of each family vary; RULER's own 13 tasks are not a study."""
    families: dict[str, dict[str, Params]] = {}
    for (task, _), config in configs.items():
        if config.params:
            families.setdefault(config.family, {}).setdefault(task, config.params)
    studies = (
        _study(family, tasks)
        for family, tasks in families.items()
        if len(tasks) > 1 and not TASKS.keys() >= tasks.keys()
    )
    return tuple(study for study in studies if study)


def _study(family: str, tasks: Mapping[str, Params]) -> Study | None:
    """Return the study of a family, as a line if a haystack of needles counts as `full` keys."""
    folded = _arrange(family, _fold(tasks))
    return folded if folded and folded.shape == "line" else _arrange(family, tasks)


def _fold(tasks: Mapping[str, Params]) -> Mapping[str, Params]:
    """Return the tasks; a haystack of needles becomes `full` keys in the haystack of the others."""
    haystacks = {params.get("haystack", "needles") for params in tasks.values()} - {"needles"}
    if len(haystacks) != 1:
        return tasks
    full = {"haystack": haystacks.pop(), "keys": FULL}
    return {
        task: {**params, **full}
        if params.get("haystack") == "needles" and params.get("keys") == 1
        else params
        for task, params in tasks.items()
    }


def _arrange(family: str, tasks: Mapping[str, Params]) -> Study | None:
    """Return the tasks as a line, a grid or a list; None if nothing varies."""
    columns: dict[tuple[Param, ...], list[str]] = {}
    for name in next(iter(tasks.values())):
        if all(name in params for params in tasks.values()):
            column = tuple(params[name] for params in tasks.values())
            if len(set(column)) > 1:  # the same values in every task share an axis
                columns.setdefault(column, []).append(name)
    if not columns:
        return None
    axes = tuple(
        Axis(tuple(names), _sorted(family, names[0], column)) for column, names in columns.items()
    )
    rows = [Point(*row) for row in zip(tasks, zip(*columns, strict=True), strict=True)]
    places = [{value: place for place, value in enumerate(axis.values)} for axis in axes]
    rows.sort(key=lambda row: [at[v] for at, v in zip(places, row.values, strict=True)])
    shape: Literal["line", "grid", "list"] = "list"
    if len({row.values for row in rows}) == len(rows):
        if len(axes) == 1:
            shape = "line"
        elif len(axes) == 2 and len(rows) == len(axes[0].values) * len(axes[1].values):
            shape = "grid"
    return Study(family, shape, axes, tuple(rows))


def _sorted(family: str, name: str, column: Sequence[Param]) -> tuple[Param, ...]:
    """Return the distinct values: numbers increasing, then words in the order of their type."""
    params = next((params for params in FAMILIES if params.family == family), None)
    known = get_args(get_type_hints(params).get(name)) if params else ()
    words = [value for value in dict.fromkeys(column) if isinstance(value, str)]
    numbers = sorted({value for value in column if not isinstance(value, str)})
    return (*numbers, *sorted(words, key=lambda word: known.index(word) if word in known else 99))


@dataclass(frozen=True)
class Spread:
    """How much the mean score of the same questions depends on their prompt, at one length.

    Attributes:
        tasks: that share the questions, by their mean score, rising.
        means: of them, in percent.
        rows: scored in all of them.
        p_value: how often the spread is as great or greater if each question's scores are
            assigned to the tasks at random.
    """

    length: int
    tasks: tuple[str, ...]
    means: tuple[float, ...]
    rows: int
    p_value: float

    @property
    def points(self) -> float:
        """Highest minus lowest mean, in percentage points."""
        return self.means[-1] - self.means[0]


def spreads_of(configs: Configs) -> Iterator[Spread]:
    """Yield a spread for each length of tasks that have the same questions."""
    groups: dict[tuple[str, int], list[str]] = {}
    for (task, length), config in sorted(configs.items()):
        if not config.scored:
            continue
        groups.setdefault((config.same_questions_as or task, length), []).append(task)
    for (name, length), tasks in groups.items():
        columns = [configs[task, length].headline_scores for task in tasks]
        rows = [row for row in zip(*columns, strict=False) if None not in row]
        if len(tasks) > 1 and rows:
            scores = np.array(rows, dtype=np.float64)
            means = 100 * scores.mean(axis=0)
            order = np.argsort(means, kind="stable")
            yield Spread(
                length,
                tasks=tuple(tasks[place] for place in order),
                means=tuple(means[order].tolist()),
                rows=len(rows),
                p_value=_chance(f"{name}_{length}", scores),
            )


def _chance(name: str, scores: Floats) -> float:
    """Return the p-value of the spread of column means, by permutations within rows."""
    digest = hashlib.sha256(f"ruler-eval/1/spread/{name}".encode()).digest()
    rng = np.random.Generator(np.random.PCG64(int.from_bytes(digest[:16], "big")))
    count = 1
    spread = np.ptp(scores.sum(axis=0))
    rows = scores[np.ptp(scores, axis=1) > 0]  # the others add the same to every column
    for _ in range(0, PERMUTATIONS, BATCH):
        shuffled = rng.permuted(np.broadcast_to(rows, (BATCH, *rows.shape)).copy(), axis=2)
        count += int(np.count_nonzero(np.ptp(shuffled.sum(axis=1), axis=1) >= spread - 1e-9))
    return count / (PERMUTATIONS + 1)
