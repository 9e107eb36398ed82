"""The table of tasks: what is asked, with which parameters, scored how.

Parameters of the thirteen are those of the paper's Table 5 (Hsieh et al. 2024, arXiv 2404.06654).
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from ruler_data.families import (
    FAMILIES,
    Category,
    Cwe,
    Fwe,
    Metric,
    Niah,
    Params,
    PartType,
    Qa,
    Vt,
)

__all__ = [
    "FAMILIES",
    "TASKS",
    "Category",
    "Cwe",
    "Fwe",
    "Metric",
    "Niah",
    "Params",
    "PartType",
    "Qa",
    "Task",
    "Vt",
    "config_place",
    "read_task",
    "task_of",
    "task_place",
]


@dataclass(frozen=True)
class Task:
    """A task: its name in config names, the parameters of its family, its budget.

    Attributes:
        name: as in config names.
        params: parameters of its family; their type names the family.
        about: what it measures, in one line.
        max_new_tokens: tokens that the answer may take.
    """

    name: str
    params: Params
    about: str
    max_new_tokens: int

    @property
    def metric(self) -> Metric:
        """How an answer is scored."""
        return FAMILIES[type(self.params)].metric

    @property
    def category(self) -> Category:
        """The category over which reports average."""
        return FAMILIES[type(self.params)].category

    @property
    def fills(self) -> bool:
        """Whether its rows are as long as their config; a question without documents is not."""
        return not (isinstance(self.params, Qa) and self.params.documents == "none")

    @property
    def sources(self) -> tuple[str, ...]:
        """Texts that its rows are made of, beside those written for the benchmark."""
        params = self.params
        if isinstance(params, Qa):
            return (params.source,)
        if isinstance(params, Niah):
            essays = ("essays",) if params.haystack == "essays" else ()
            domains = tuple(f"domain_{name}" for name in params.domains)
            words = ("words",) if "words" in (params.key_type, params.value_type) else ()
            return essays + domains + words
        return ("words",) if isinstance(params, Cwe) else ()


def task_of(name: str, params: Params, about: str, max_new_tokens: int | None = None) -> Task:
    """Return a task, with its family's budget unless another is given."""
    return Task(name, params, about, max_new_tokens or FAMILIES[type(params)].max_new_tokens)


def read_task(record: Mapping[str, Any]) -> Task:
    """Return the task that `dataclasses.asdict` wrote."""
    params: dict[str, Any] = {
        key: tuple(value) if isinstance(value, list) else value  # what JSON makes of a tuple
        for key, value in record["params"].items()
    }
    kind = next(kind for kind in FAMILIES if kind.family == params["family"])
    return Task(**{**record, "params": kind(**params)})


_UUIDS = Niah("needles", key_type="uuids", value_type="uuids")
_TABLE = (
    task_of("niah_single_1", Niah("noise"), "One number hidden in repeated noise (passkey)."),
    task_of("niah_single_2", Niah("essays"), "One number hidden in essays (the classic needle)."),
    task_of("niah_single_3", Niah("essays", value_type="uuids"), "One UUID hidden in essays."),
    task_of("niah_multikey_1", Niah("essays", keys=4), "One of four needles, told apart by key."),
    task_of("niah_multikey_2", Niah("needles"), "One needle in a haystack of needles."),
    task_of("niah_multikey_3", _UUIDS, "One needle in a haystack of UUID needles."),
    task_of("niah_multivalue", Niah("essays", values=4), "All four values of one key."),
    task_of("niah_multiquery", Niah("essays", keys=4, queries=4), "The values of four keys."),
    task_of("vt", Vt(), "Every variable that a chain of assignments gives one value."),
    task_of("cwe", Cwe(), "The ten most common words of a numbered list."),
    task_of("fwe", Fwe(), "The three most frequent coded words of a text."),
    task_of("qa_1", Qa("squad"), "A SQuAD question among distracting paragraphs."),
    task_of("qa_2", Qa("hotpotqa"), "A two-hop HotpotQA question among distracting paragraphs."),
)

#: The 13 tasks of the benchmark, in the paper's order.
TASKS: dict[str, Task] = {task.name: task for task in _TABLE}


def task_place(name: str) -> tuple[int, tuple[tuple[int, str], ...]]:
    """Return where a task stands in tables: the thirteen in their order, then others by name.

    >>> sorted(["vt_hops_12", "vt_hops_2", "vt", "cwe"], key=task_place)
    ['vt', 'cwe', 'vt_hops_2', 'vt_hops_12']
    """
    if name in TASKS:
        return list(TASKS).index(name), ()
    parts = re.split(r"([0-9]+)", name)
    return len(TASKS), tuple((int(part), "") if part.isdigit() else (-1, part) for part in parts)


def config_place(config: str) -> tuple[object, int]:
    """Return where a config stands in tables: by task, then by length.

    >>> sorted(["vt_8192", "qa_1_4096", "vt_4096"], key=config_place)
    ['vt_4096', 'vt_8192', 'qa_1_4096']
    """
    task, length = config.rsplit("_", 1)
    return task_place(task), int(length)
