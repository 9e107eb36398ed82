"""How a config's rows are scored and averaged, as the table of its dataset has it."""

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Literal, get_args

from ruler_data.errors import UsageError
from ruler_data.names import parse_config, quote
from ruler_data.tasks import TASKS, Category, Metric, Params, Task
from ruler_report.results import Param

Family = Literal["niah", "vt", "cwe", "fwe", "qa"]

CATEGORIES: tuple[Category, ...] = get_args(Category)


@dataclass(frozen=True)
class Kind:
    """What the evaluator must know of a config; `length` is in tokens."""

    task: str
    length: int
    family: Family
    metric: Metric
    category: Category
    params: dict[str, Param] = field(default_factory=dict)


def kind_of(config: str, table: Mapping[str, Task] = TASKS) -> Kind:
    """Return the kind of a config.

    Args:
        config: its name.
        table: of the tasks that its dataset may have (`Manifest.table`).

    >>> kind_of("niah_multikey_2_4096").category
    'retrieval'

    Raises:
        UsageError: the table has no such task.
    """
    name, length = parse_config(config)
    task = table.get(name)
    if task is None:
        msg = f"{quote(config)}: no such task; known are {', '.join(table)}"
        raise UsageError(msg)
    params = _plain(task.params)
    return Kind(name, length, task.params.family, task.metric, task.category, params)


def _plain(params: Params) -> dict[str, Param]:
    """Return parameters as plain JSON values, less the family that they are of."""
    return {
        name: ", ".join(value) if isinstance(value, tuple) else value
        for name, value in asdict(params).items()
        if name != "family"
    }
