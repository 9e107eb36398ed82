"""The five families of tasks: the parameters of each, and what all tasks of a family share.

A suite's YAML file sets these parameters, within the ranges given here. Budgets and scorers are
upstream's (`tokens_to_generate`, `metric_fn`).
"""

from dataclasses import dataclass
from typing import Annotated, Literal

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
