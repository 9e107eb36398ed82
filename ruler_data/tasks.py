"""Families of tasks with their parameters, and the table of the 13 tasks.

The parameters of the 13 are those of the paper's Table 5 (Hsieh et al. 2024, arXiv 2404.06654);
answer budgets and metrics are those of upstream (`tokens_to_generate`, `metric_fn`). A suite's YAML
file sets other parameters, within the ranges given here.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, Any, Literal

from annotated_types import Interval

#: What a key or a value of a needle is.
PartType = Literal["words", "numbers", "uuids"]
Metric = Literal["all", "part"]
Category = Literal["retrieval", "multi-hop tracing", "aggregation", "question answering"]


@dataclass(frozen=True)
class Niah:
    """Needles in a haystack.

    Attributes:
        haystack: what surrounds the needles.
        key_type: of keys; likewise `value_type` of values.
        keys: number of keys.
        values: number of values of each key.
        queries: number of keys that the question is about.
        depths: number of depths of a grid over the haystack, and row i has its needle at depth i
            mod `depths`; 0 for depths stratified over the rows.
        wording: of needles: plain, paraphrased, or split over two places half a haystack apart.
        lookalikes: number of distractor needles, each with a key and a value close to the right
            ones.
        none: whether the question allows that the key is missing: `no`; or yes, and the key is
            there (`possible`) or missing (`true`).
        domains: of the texts of a haystack of domains, in turns if there are several.
    """

    haystack: Literal["noise", "essays", "needles", "domains"]
    key_type: PartType = "words"
    value_type: PartType = "numbers"
    keys: Annotated[int, Interval(ge=1, le=64)] = 1
    values: Annotated[int, Interval(ge=1, le=64)] = 1
    queries: Annotated[int, Interval(ge=1, le=64)] = 1
    depths: Annotated[int, Interval(ge=0, le=101)] = 0
    wording: Literal["plain", "paraphrased", "split"] = "plain"
    lookalikes: Annotated[int, Interval(ge=0, le=32)] = 0
    none: Literal["no", "possible", "true"] = "no"
    domains: tuple[str, ...] = ()
    family: Literal["niah"] = "niah"

    @property
    def impossible(self) -> str:
        """Why these parameters do not go together, as `KEY: REASON`; empty if they do."""
        if self.queries > self.keys:
            return f"queries: {self.queries} keys are queried and there are {self.keys}"
        if self.depths == 1:
            return "depths: a grid has at least two depths"
        if self.depths and self.keys * self.values > 1:
            return "depths: a grid needs one needle per row"
        if self.wording != "plain" and self.haystack == "needles":
            return f"wording: a {self.wording} needle would stand out in a haystack of needles"
        if self.none == "true" and self.queries * self.values > 1:
            return "none: a missing key needs one query and one value"
        if self.haystack == "domains" and not self.domains:
            return "haystack: `domains` needs the key `domains`"
        if self.domains and self.haystack != "domains":
            return f"domains: only for a haystack of domains, and this one is of {self.haystack}"
        if len(set(self.domains)) < len(self.domains):
            return "domains: one occurs twice"
        return ""


@dataclass(frozen=True)
class Vt:
    """Variable tracking: `chains` chains of `hops` assignments after the first."""

    chains: Annotated[int, Interval(ge=1, le=64)] = 1
    hops: Annotated[int, Interval(ge=1, le=64)] = 4
    family: Literal["vt"] = "vt"
    impossible = ""


@dataclass(frozen=True)
class Cwe:
    """Common words: `common` words occur `common_repeats` times, all others `other_repeats`."""

    common: Annotated[int, Interval(ge=10, le=10)] = 10  # the question says how many
    common_repeats: Annotated[int, Interval(ge=2, le=1000)] = 30
    other_repeats: Annotated[int, Interval(ge=1, le=999)] = 3
    family: Literal["cwe"] = "cwe"

    @property
    def impossible(self) -> str:
        """Why these parameters do not go together, as `KEY: REASON`; empty if they do."""
        if self.other_repeats >= self.common_repeats:
            return f"other_repeats: {self.other_repeats} is not below {self.common_repeats}"
        return ""


@dataclass(frozen=True)
class Fwe:
    """Frequent words: counts follow a zeta distribution of exponent `alpha`."""

    alpha: Annotated[float, Interval(ge=1.1, le=6.0)] = 2.0
    family: Literal["fwe"] = "fwe"
    impossible = ""


@dataclass(frozen=True)
class Qa:
    """Questions about documents of a source, or without them, to measure what a model knows."""

    source: Literal["squad", "hotpotqa"]
    documents: Literal["all", "none"] = "all"
    family: Literal["qa"] = "qa"
    impossible = ""


Params = Niah | Vt | Cwe | Fwe | Qa


@dataclass(frozen=True)
class Family:
    """What all tasks of a family share.

    Attributes:
        max_new_tokens: default of the largest number of tokens of an answer.
        metric: `all` scores the share of gold answers found, `part` whether any is found.
        category: the paper's category, over which reports average.
    """

    max_new_tokens: int
    metric: Metric
    category: Category


FAMILIES: dict[type[Params], Family] = {
    Niah: Family(128, "all", "retrieval"),
    Vt: Family(30, "all", "multi-hop tracing"),
    Cwe: Family(120, "all", "aggregation"),
    Fwe: Family(50, "all", "aggregation"),
    Qa: Family(32, "part", "question answering"),
}


@dataclass(frozen=True)
class Task:
    """A task: the parameters of its family, with a name and an answer budget.

    Attributes:
        name: as in config names.
        params: parameters of its family; their type is the family.
        about: what it measures, in one line.
        max_new_tokens: largest number of tokens of an answer.
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
        """Whether rows fill the config's length; a question without documents does not."""
        return not (isinstance(self.params, Qa) and self.params.documents == "none")

    @property
    def sources(self) -> tuple[str, ...]:
        """Names of the sources that its rows are made of."""
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
    """Return a task; its budget is the family's unless another is given."""
    return Task(name, params, about, max_new_tokens or FAMILIES[type(params)].max_new_tokens)


def read_task(record: Mapping[str, Any]) -> Task:
    """Return the task of a record of `dataclasses.asdict`."""
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
    """Return the sort key of a task in tables: the 13 in their order, then others by name.

    >>> sorted(["vt_hops_12", "vt_hops_2", "vt", "cwe"], key=task_place)
    ['vt', 'cwe', 'vt_hops_2', 'vt_hops_12']
    """
    if name in TASKS:
        return list(TASKS).index(name), ()
    parts = re.split(r"([0-9]+)", name)
    return len(TASKS), tuple((int(part), "") if part.isdigit() else (-1, part) for part in parts)


def config_place(config: str) -> tuple[object, int]:
    """Return the sort key of a config in tables: by task, then by length.

    >>> sorted(["vt_8192", "qa_1_4096", "vt_4096"], key=config_place)
    ['vt_4096', 'vt_8192', 'qa_1_4096']
    """
    task, length = config.rsplit("_", 1)
    return task_place(task), int(length)
