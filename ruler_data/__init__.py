"""The contract that builders, evaluators and users of the dataset share.

    rows = ruler_data.load("org/ruler", "vt_4096", revision="v1.0.0")

The core types are `Row` (what is published), `Task` (the task definition) and `Manifest` (hashes
and origin). Importing the package loads nothing: a name's module is loaded when it is first used.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from ruler_data.version import DATA_VERSION, __version__

if TYPE_CHECKING:
    from ruler_data.dataset import Dataset, Rows, load
    from ruler_data.errors import BudgetError, RulerError, UsageError
    from ruler_data.index import find
    from ruler_data.manifest import Manifest
    from ruler_data.names import config_name, parse_config
    from ruler_data.row import Row, Span, digest_rows
    from ruler_data.tasks import TASKS, Task

__all__ = [
    "DATA_VERSION",
    "TASKS",
    "BudgetError",
    "Dataset",
    "Manifest",
    "Row",
    "Rows",
    "RulerError",
    "Span",
    "Task",
    "UsageError",
    "__version__",
    "config_name",
    "digest_rows",
    "find",
    "load",
    "parse_config",
]

_MODULES = {
    "TASKS": "tasks",
    "BudgetError": "errors",
    "Dataset": "dataset",
    "Manifest": "manifest",
    "Row": "row",
    "Rows": "dataset",
    "RulerError": "errors",
    "Span": "row",
    "Task": "tasks",
    "UsageError": "errors",
    "config_name": "names",
    "digest_rows": "row",
    "find": "index",
    "load": "dataset",
    "parse_config": "names",
}


def __getattr__(name: str) -> Any:  # noqa: ANN401 - a class or a function
    if name not in _MODULES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{_MODULES[name]}"), name)


def __dir__() -> list[str]:
    return sorted(__all__)
