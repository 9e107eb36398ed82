"""The five families of tasks: the parameters of each, and what all tasks of a family share.

A suite's YAML file sets these parameters, within the ranges given here. Budgets and scorers are
upstream's (`tokens_to_generate`, `metric_fn`).

The table of tasks: what is asked, with which parameters, scored how.

Parameters of the thirteen are those of the paper's Table 5 (Hsieh et al. 2024, arXiv 2404.06654).
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
    """Needles in a haystack: `keys` keys of `values` values each; `queries` keys are asked.

    With `depths` the needles of row i stand at depth i mod `depths` of a grid from the beginning
    to the end of the haystack; without (0), anywhere, stratified over rows.

    `wording` says needles plainly, in other words, or in two places half a haystack apart.
    `lookalikes` needles more have a key and a value that nearly are the asked ones. With `none`
    the question allows that the key is not there; it is there (`possible`) or not (`true`).

    A haystack of `domains` holds texts of the domains named, in turns where there are several.
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
        """Why these values do not go together; empty if they do."""
        if self.queries > self.keys:
            return f"queries: {self.queries} keys are asked and there are {self.keys}"
        if self.depths == 1:
            return "depths: a grid has two depths at least"
        if self.depths and self.keys * self.values > 1:
            return "depths: a grid is of one needle a row"
        if self.wording != "plain" and self.haystack == "needles":
            return f"wording: a haystack of needles would give away a {self.wording} one"
        if self.none == "true" and self.queries * self.values > 1:
            return "none: one key of one value is asked where it is missing"
        if self.haystack == "domains" and not self.domains:
            return "haystack: is of domains, and `domains` names none"
        if self.domains and self.haystack != "domains":
            return f"domains: are named, and the haystack is of {self.haystack}"
        if len(set(self.domains)) < len(self.domains):
            return "domains: one is named twice"
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
    """Common words: `common` words stand `common_repeats` times, all others `other_repeats`."""

    common: Annotated[int, Interval(ge=10, le=10)] = 10  # the question says how many
    common_repeats: Annotated[int, Interval(ge=2, le=1000)] = 30
    other_repeats: Annotated[int, Interval(ge=1, le=999)] = 3
    family: Literal["cwe"] = "cwe"

    @property
    def impossible(self) -> str:
        """Why these values do not go together; empty if they do."""
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
    """Questions over documents of a source, or over none: what a model knows without them."""

    source: Literal["squad", "hotpotqa"]
    documents: Literal["all", "none"] = "all"
    family: Literal["qa"] = "qa"
    impossible = ""


Params = Niah | Vt | Cwe | Fwe | Qa


@dataclass(frozen=True)
class Family:
    """What all tasks of a kind of parameters share.

    Attributes:
        max_new_tokens: tokens that the answer may take, unless a task says otherwise.
        metric: `all` scores the share of golden answers named, `part` any of them.
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
