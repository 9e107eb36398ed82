"""The contract that builders, evaluators and users of the dataset share.

    rows = ruler_data.load("org/ruler", "vt_4096", revision="v1.0.0")

The core types are `Row` (what is published), `Task` (what is asked) and `Manifest` (what proves
it). A module is loaded when one of its names is first used, so importing the package is fast.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from ruler_data.version import DATA_VERSION, __version__

if TYPE_CHECKING:
    from ruler_data.dataset import Dataset, Rows, load
    from ruler_data.errors import BudgetError, RulerError, UsageError
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
    "load",
    "parse_config",
]

_HOMES = {
    "dataset": ("Dataset", "Rows", "load"),
    "errors": ("BudgetError", "RulerError", "UsageError"),
    "manifest": ("Manifest",),
    "names": ("config_name", "parse_config"),
    "row": ("Row", "Span", "digest_rows"),
    "tasks": ("TASKS", "Task"),
}
_HOME = {name: home for home, names in _HOMES.items() for name in names}


def __getattr__(name: str) -> Any:  # noqa: ANN401 - a name of any type
    if name not in _HOME:
        msg = f"module {__name__!r} has no attribute {name!r}"
        raise AttributeError(msg)
    return getattr(import_module(f"{__name__}.{_HOME[name]}"), name)
