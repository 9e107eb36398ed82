"""Families of tasks with their parameters, and the table of the 13 tasks.

The parameters of the 13 are those of the paper's Table 5 (Hsieh et al. 2024, arXiv 2404.06654);
answer budgets and metrics are those of upstream (`tokens_to_generate`, `metric_fn`). A suite's YAML
file sets other parameters, within the ranges given here.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Annotated, Literal, TypeVar

from annotated_types import Interval

from ruler_data.errors import RulerError
from ruler_data.names import quote

T = TypeVar("T")

#: What a key or a value of a needle is.
PartType = Literal["words", "numbers", "uuids"]
#: `all` and `part` are RULER's, the others RULER v2's (`ruler_eval.scoring.metrics`).
Metric = Literal["all", "part", "soft_all", "soft_part", "soft_last", "letter"]
Category = Literal["retrieval", "multi-hop tracing", "aggregation", "question answering"]
#: The score that a report leads with: upstream's, or the share of exactly right sets.
Headline = Literal["official", "exact"]


#: Digits of a value that is a number.
DIGITS = 7
#: Words of a place in order, as a question names it.
ORDINALS = (
    "first", "second", "third", "fourth", "fifth", "sixth", "seventh", "eighth", "ninth", "tenth",
    "eleventh", "twelfth", "thirteenth", "fourteenth", "fifteenth", "sixteenth",
)  # fmt: skip
#: Things that a question can describe without naming them (`sources.associations`).
ASSOCIATIONS = 48
#: The name of a user's file of questions and documents.
OWN_FILE = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,58}\.jsonl?")
#: Most nodes in the answer of a question about a graph.
MOST_NODES = 64


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
        wording: of all needles: plain, paraphrased, or split into two sentences at two depths; a
            JSON record or an assignment instead of a sentence; or associated: no word of the
            question is in the needle, whose key the question describes.
        lookalikes: number of further keys; then every key shares one word with some keys and the
            other with others, and values share digits likewise, so that no needle stands out.
        none: whether the question allows that the key is missing: `no`; or yes, and the key is
            there (`possible`) or missing (`true`). There are equally many needles in both.
        domains: of the texts of a haystack of domains, in turns if there are several.
        ordinal: whether the question is about one value of a key by its place among them (the
            third, ...), drawn for each row.
        question_at: where the question stands; one before the haystack is part of the context.
        instruction: its wording.
        residues: number of residues of the prompt's tokens: row i is i mod `residues` tokens
            shorter than its length, exactly, and two neighbouring rows begin alike. 0 for rows
            that fill their length.
    """

    haystack: Literal["noise", "essays", "needles", "domains"]
    key_type: PartType = "words"
    value_type: PartType = "numbers"
    keys: Annotated[int, Interval(ge=1, le=64)] = 1
    values: Annotated[int, Interval(ge=1, le=64)] = 1
    queries: Annotated[int, Interval(ge=1, le=64)] = 1
    depths: Annotated[int, Interval(ge=0, le=101)] = 0
    wording: Literal["plain", "paraphrased", "split", "json", "assignment", "associated"] = "plain"
    lookalikes: Annotated[int, Interval(ge=0, le=60)] = 0
    none: Literal["no", "possible", "true"] = "no"
    domains: tuple[str, ...] = ()
    ordinal: bool = False
    question_at: Literal["after", "before", "around"] = "after"
    instruction: Literal["upstream", "short", "long"] = "upstream"
    residues: Annotated[int, Interval(ge=0, le=128)] = 0
    family: Literal["niah"] = "niah"

    @property
    def answers(self) -> int:
        """Number of values that the question asks for."""
        return 1 if self.ordinal else self.queries * self.values

    @property
    def impossible(self) -> str:
        """Why these parameters do not go together, as `KEY: REASON`; empty if they do."""
        return (
            self._wrong_counts()
            or self._wrong_haystack()
            or self._wrong_place()
            or self._wrong_association()
        )

    def _wrong_counts(self) -> str:
        if self.queries > self.keys:
            return f"queries: {self.queries} keys are queried and there are {self.keys}"
        if self.depths == 1:
            return "depths: a grid has at least two depths"
        if self.depths and self.keys * self.values > 1:
            return "depths: a grid needs one needle per row"
        if self.none == "true" and self.queries * self.values > 1:
            return "none: a missing key needs one query and one value"
        return ""

    def _wrong_haystack(self) -> str:
        if self.residues and (self.haystack != "domains" or self.depths):
            return "residues: needs a haystack of domains, and no grid of depths"
        if self.wording != "plain" and self.haystack == "needles":
            return f"wording: a {self.wording} needle would stand out in a haystack of needles"
        if self.haystack == "domains" and not self.domains:
            return "haystack: `domains` needs the key `domains`"
        if self.domains and self.haystack != "domains":
            return f"domains: only for a haystack of domains, and this one is of {self.haystack}"
        if len(set(self.domains)) < len(self.domains):
            return "domains: one occurs twice"
        return ""

    def _wrong_place(self) -> str:
        if not self.ordinal:
            return ""
        most = len(ORDINALS)
        if not 2 <= self.values <= most:
            return f"ordinal: needs 2 to {most} values of a key, and there are {self.values}"
        if self.queries > 1 or self.none != "no":
            return "ordinal: the question is about one value, which is there"
        if self.wording == "split":
            return "ordinal: a needle in two places has no place among others"
        return ""

    def _wrong_association(self) -> str:
        if self.wording != "associated":
            return ""
        if self.keys > ASSOCIATIONS or self.queries > 1:
            return f"wording: associated needs one query, and at most {ASSOCIATIONS} keys"
        if self.key_type != "words" or self.lookalikes or self.none != "no":
            return "wording: associated needs keys of words, without `lookalikes` and `none`"
        return ""

    @property
    def sources(self) -> tuple[str, ...]:
        """Names of the sources that rows are made of."""
        names = list[str]()
        if self.haystack == "essays":
            names.append("essays")
        names += [f"domain_{name}" for name in self.domains]
        draws_words = self.value_type == "words" or self.wording == "split"
        if self.wording == "associated":
            names.append("associations")
        else:
            draws_words = draws_words or self.key_type == "words"
        if draws_words:
            names.append("words")
        return tuple(names)


@dataclass(frozen=True)
class Vt:
    """Variable tracking: `chains` chains of `hops` assignments after the first.

    Attributes:
        order: of the assignments: rising, so a variable is assigned before it is used, or
            scrambled.
        example: whether the prompt begins with an in-context example.
    """

    chains: Annotated[int, Interval(ge=1, le=64)] = 1
    hops: Annotated[int, Interval(ge=1, le=64)] = 4
    order: Literal["rising", "scrambled"] = "rising"
    example: bool = True
    family: Literal["vt"] = "vt"
    impossible = ""


@dataclass(frozen=True)
class Cwe:
    """Common words: `common` words occur `common_repeats` times, all others `other_repeats`.

    Attributes:
        ask: for the common words, or for the count of one of them. Then no two common words have
            the same count, and counts are spread from `other_repeats` + 1 to `common_repeats`.
        example: whether the prompt begins with an in-context example.
        vocabulary: single words that the list of a row is drawn from, the common ones included; as
            many as fill it by default. A length that they do not fill is refused.
    """

    common: Annotated[int, Interval(ge=2, le=20)] = 10
    common_repeats: Annotated[int, Interval(ge=2, le=1000)] = 30
    other_repeats: Annotated[int, Interval(ge=1, le=999)] = 3
    ask: Literal["words", "count"] = "words"
    example: bool = True
    vocabulary: Annotated[int, Interval(ge=3, le=8000)] | None = None
    family: Literal["cwe"] = "cwe"
    sources = ("words",)

    @property
    def impossible(self) -> str:
        """Why these parameters do not go together, as `KEY: REASON`; empty if they do."""
        if self.other_repeats >= self.common_repeats:
            return f"other_repeats: {self.other_repeats} is not below {self.common_repeats}"
        if self.ask == "count" and self.example:
            return "ask: a question about a count has no example; add `example: false`"
        if self.ask == "count" and self.common > self.common_repeats - self.other_repeats:
            return f"common: {self.common} words have no different counts from so small a range"
        if self.vocabulary is not None and self.vocabulary <= self.common:
            return f"vocabulary: {self.vocabulary} words are too few for {self.common} common ones"
        return ""


@dataclass(frozen=True)
class Fwe:
    """Frequent words: counts follow a zeta distribution of exponent `alpha`; the answer is `top`.

    The most frequent word of all is noise, so `top` words are ranks 2 to `top` + 1.

    Attributes:
        alpha: exponent.
        top: words of the answer.
        vocabulary: ranks of the distribution, noise included; a 50th of the prompt's tokens by
            default. Ranks that a text is too short for do not appear.
    """

    alpha: Annotated[float, Interval(ge=1.1, le=6.0)] = 2.0
    top: Annotated[int, Interval(ge=2, le=10)] = 3
    vocabulary: Annotated[int, Interval(ge=4, le=16_384)] | None = None
    family: Literal["fwe"] = "fwe"

    @property
    def impossible(self) -> str:
        """Why these parameters do not go together, as `KEY: REASON`; empty if they do."""
        if self.vocabulary is not None and self.vocabulary < self.top + 2:
            return f"vocabulary: {self.vocabulary} words are too few to ask for {self.top}"
        return ""


@dataclass(frozen=True)
class Qa:
    """Questions about documents of a source, or without them, to measure what a model knows.

    Attributes:
        source: `squad`, `hotpotqa`, or the name of a file of the user.
    """

    source: str
    documents: Literal["all", "none"] = "all"
    family: Literal["qa"] = "qa"

    @property
    def sources(self) -> tuple[str, ...]:
        """Names of the sources that rows are made of."""
        return (self.source,)

    @property
    def impossible(self) -> str:
        """Why the source is none, as `KEY: REASON`; empty if it is one."""
        if self.source in ("squad", "hotpotqa") or OWN_FILE.fullmatch(self.source):
            return ""
        return f"source: {quote(self.source)} is neither squad, hotpotqa nor a name like mine.json"


@dataclass(frozen=True)
class Graph:
    """Directed graph, an edge per line; every node has `degree` edges in and `degree` out.

    Attributes:
        ask: for the parents of a node, or for the nodes within `steps` steps of it.
        steps: of a path, at most; 1 for parents.
        degree: edges into each node, and out of it.
    """

    ask: Literal["parents", "within"]
    steps: Annotated[int, Interval(ge=1, le=6)] = 1
    degree: Annotated[int, Interval(ge=2, le=16)] = 2
    family: Literal["graph"] = "graph"

    @property
    def answers(self) -> int:
        """Number of nodes in the answer."""
        return sum(self.degree**step for step in range(1, self.steps + 1))

    @property
    def impossible(self) -> str:
        """Why these parameters do not go together, as `KEY: REASON`; empty if they do."""
        if self.ask == "parents" and self.steps > 1:
            return "steps: parents are one step away"
        if self.ask == "within" and self.steps == 1:
            return "steps: needs 2 or more for `ask: within`"
        if self.answers > MOST_NODES:
            return f"steps: {self.answers} nodes are in the answer, and at most {MOST_NODES} may be"
        return ""


@dataclass(frozen=True)
class Ruler2:
    """A task of RULER v2; all texts of its haystack have a label, and the question gives one.

    Attributes:
        kind: `mk_niah` asks for what one label names, `mv_niah` for what a label names that four
            texts share, `qa` about documents.
        level: of the questions of multiple choice that `mk_niah` and `mv_niah` hide, copy one
            (easy), copy and solve it (medium) or solve it (hard); basic hides numbers. `qa` asks
            for the document of a text (basic) or of a question (easy), to copy the documents and
            answer (medium), or to answer (hard).
    """

    kind: Literal["mk_niah", "mv_niah", "qa"]
    level: Literal["basic", "easy", "medium", "hard"]
    family: Literal["ruler2"] = "ruler2"
    impossible = ""

    @property
    def copies(self) -> int:
        """Number of texts of the haystack that share a label."""
        return 4 if self.kind == "mv_niah" else 1

    @property
    def metric(self) -> Metric:
        """How an answer is scored, as NeMo-Skills does."""
        if self.kind == "qa":
            return "soft_part"
        if self.kind == "mk_niah" and self.level in ("medium", "hard"):
            return "letter"
        if self.kind == "mv_niah" and self.level == "medium":
            return "soft_last"
        return "soft_all"

    @property
    def sources(self) -> tuple[str, ...]:
        """Names of the sources that rows are made of."""
        if self.kind == "qa":
            return ("hotpotqa",)
        if self.level == "basic":
            return ("words",)
        return ("mmlu",)


Params = Niah | Vt | Cwe | Fwe | Qa | Graph | Ruler2


@dataclass(frozen=True)
class Family:
    """What all tasks of a family share.

    Attributes:
        max_new_tokens: default of the largest number of tokens of an answer.
        metric: `all` scores the share of gold answers found, `part` whether any is found. RULER v2
            has one for each task (`Ruler2.metric`).
        category: the paper's category, over which reports average; `qa` of RULER v2 has that of qa.
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
    Graph: Family(100, "all", "multi-hop tracing"),
    Ruler2: Family(128, "soft_all", "retrieval"),
}


@dataclass(frozen=True)
class Task:
    """A task: the parameters of its family, with a name and an answer budget.

    Attributes:
        name: as in config names.
        params: parameters of its family; their type is the family.
        about: what it measures, in one line.
        max_new_tokens: largest number of tokens of an answer.
        headline: the score that a report leads with.
        same_questions_as: name of the task whose keys, values, words and depths it has; None for
            its own.
    """

    name: str
    params: Params
    about: str
    max_new_tokens: int
    headline: Headline = "official"
    same_questions_as: str | None = None

    @cached_property
    def metric(self) -> Metric:
        """How an answer is scored."""
        if isinstance(self.params, Ruler2):
            return self.params.metric
        return FAMILIES[type(self.params)].metric

    @property
    def category(self) -> Category:
        """The category over which reports average."""
        if isinstance(self.params, Ruler2) and self.params.kind == "qa":
            return FAMILIES[Qa].category
        return FAMILIES[type(self.params)].category

    @property
    def fills(self) -> bool:
        """Whether rows fill the config's length; a question without documents does not."""
        return not (isinstance(self.params, Qa) and self.params.documents == "none")

    @property
    def is_exact(self) -> bool:
        """Whether rows have lengths to the token, one for each residue."""
        return isinstance(self.params, Niah) and self.params.residues > 0

    def below(self, index: int) -> int:
        """Return by how many tokens row `index` is shorter than its config's length, exactly."""
        if isinstance(self.params, Niah) and self.params.residues:
            return index % self.params.residues
        return 0

    @property
    def sources(self) -> tuple[str, ...]:
        """Names of the sources that its rows are made of."""
        if isinstance(self.params, Vt | Fwe | Graph):
            return ()
        return self.params.sources


def of_family(table: Mapping[type, T], task: Task, where: str) -> T:
    """Return the entry of a task's family in a table.

    Raises:
        RulerError: the family has none; the message says which table lacks it.
    """
    if (entry := table.get(type(task.params))) is None:
        family = getattr(task.params, "family", type(task.params).__name__)
        problem = f"task {task.name}: the family {family} has no entry in {where}"
        raise RulerError(problem, 'see "A task family" in docs/howto/extend.md')
    return entry


def task_of(
    name: str,
    params: Params,
    about: str,
    max_new_tokens: int | None = None,
    headline: Headline = "official",
    same_questions_as: str | None = None,
) -> Task:
    """Return a task; its budget is the family's unless another is given."""
    budget = max_new_tokens or FAMILIES[type(params)].max_new_tokens
    return Task(name, params, about, budget, headline, same_questions_as)


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
    pieces = list[tuple[int, str]]()
    for piece in re.split(r"([0-9]+)", name):
        if piece.isdigit():
            pieces.append((int(piece), ""))
        else:
            pieces.append((-1, piece))
    return len(TASKS), tuple(pieces)


def config_place(config: str) -> tuple[object, int]:
    """Return the sort key of a config in tables: by task, then by length.

    >>> sorted(["vt_8192", "qa_1_4096", "vt_4096"], key=config_place)
    ['vt_4096', 'vt_8192', 'qa_1_4096']
    """
    task, length = config.rsplit("_", 1)
    return task_place(task), int(length)
