"""Floors of the package's tasks: what answers score that ignore the question, or the context.

    >>> floor("niah_ordinal_4", 4096).score > 0.2
    True
    >>> blind_floor("niah_single_1", 4096)
    0.0

The table `floors.json` ships with the package; `benchmarks/floors.py` measures it.
"""

import json
from functools import cache
from importlib.resources import files

from ruler_data.manifest import Floor
from ruler_data.suites import is_packaged


@cache
def table() -> dict[str, dict[int, Floor]]:
    """Return the floors of the package's tasks by length (tokens)."""
    text = (files("ruler_data") / "floors.json").read_text(encoding="ascii")
    return {
        task: {int(length): Floor(*values) for length, values in by_length.items()}
        for task, by_length in json.loads(text).items()
    }


def floor(task: str, length: int, suite: str = "ruler") -> Floor | None:
    """Return the floor of a task at the closest length (tokens) of the table.

    Where a longer context has more candidates for an answer, floors are measured at 4,096, 16,384
    and 131,072 tokens, of the 13 tasks at six lengths. The other 78 tasks have one entry, and the
    same floor at 131,072 tokens (`benchmarks/floors.py --again 131072`).

    None for tasks that are not in the table, and for suites of users, whose tasks may have other
    parameters under the same names.
    """
    if not is_packaged(suite) or task not in table():
        return None
    by_length = table()[task]
    return by_length[min(by_length, key=lambda measured: abs(measured - length))]


def blind_floor(task: str, length: int, suite: str = "ruler") -> float | None:
    """Return the score, in [0, 1], of the best answer written without the context."""
    entry = floor(task, length, suite)
    if entry is None:
        return None
    return entry.blind
