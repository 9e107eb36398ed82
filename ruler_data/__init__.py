"""The contract that builders, evaluators and users of the dataset share.

    rows = ruler_data.load("org/ruler", "vt_4096", revision="v1.0.0")

The core types are `Row` (what is published), `Task` (the task definition) and `Manifest` (hashes
and origin). Importing the package loads neither numpy nor pyarrow: functions import what they need.
"""

from ruler_data.dataset import Dataset, Rows, load
from ruler_data.errors import BudgetError, RulerError, UsageError
from ruler_data.index import find
from ruler_data.manifest import Manifest
from ruler_data.names import config_name, parse_config
from ruler_data.row import Row, Span, digest_rows
from ruler_data.tasks import TASKS, Task
from ruler_data.version import DATA_VERSION, __version__

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
