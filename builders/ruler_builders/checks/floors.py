"""The floor of a config: the best score of answers that ignore the question.

    niah_lookalikes_4096    11.5 %  last                  listing 100.0 %
    vt_4096                100.0 %  all that there are    listing 100.0 %

Each strategy reads the prompt, takes every candidate for an answer (the values of all needles, all
variables, all words) and names as many as there are gold answers, chosen by place, length, count,
form or likeness alone. A score at or below the floor is no evidence that the question was read.
Listing is measured apart: it names every candidate, as far as the budget of the answer goes. Both
are measured by the task's headline: upstream's score or the exact one.

Floors of the package's suites are a table that ships with it (`benchmarks/floors.py`), measured on
298 questions of HotpotQA, and on MMLU without `auxiliary_train`; a build measures those of a user's
own tasks.
"""

import json
import re
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cache, lru_cache
from importlib.resources import files
from itertools import islice

import numpy as np
from numpy.typing import NDArray

from ruler_builders.checks import ruler2_rows
from ruler_builders.checks.prompt_parser import needle_sentences, word_list
from ruler_builders.checks.solvers import documents
from ruler_data.manifest import Floor
from ruler_data.row import Row
from ruler_data.suites import packaged_suite
from ruler_data.tasks import Cwe, Fwe, Graph, Niah, Qa, Ruler2, Task, Vt, of_family

#: Rows on which a floor is measured, spread over the config; all rows of a smaller one.
ROWS = 100
#: Characters that a list may have for each token of the answer's budget.
CHARACTERS_PER_TOKEN = 4

#: Candidates in the order of the prompt: how often each occurs, and the form of each.
Candidates = tuple[Counter[str], Mapping[str, object]]


@cache
def table() -> dict[str, dict[int, Floor]]:
    """Return the floors of the package's tasks by length (tokens)."""
    text = (files("ruler_builders.checks") / "floors.json").read_text(encoding="ascii")
    return {
        task: {int(length): Floor(*values) for length, values in by_length.items()}
        for task, by_length in json.loads(text).items()
    }


def known_floor(suite: str, task: str, length: int) -> Floor | None:
    """Return the floor of a task of the package's suites, at the closest length of the table."""
    by_length = table().get(task, {}) if packaged_suite(suite) else {}
    closest = min(by_length, key=lambda one: abs(one - length), default=None)
    return None if closest is None else by_length[closest]


class FloorMeter:
    """Measures the floor of a config with `rows` rows, which are added one by one."""

    def __init__(self, task: Task, rows: int) -> None:
        self._task, self._rows = task, max(rows, 1)
        self._scores: dict[str, list[float]] = {}

    def add(self, place: int, row: Row) -> None:
        """Measure a row if it belongs to the sample."""
        if row.outputs and place * ROWS // self._rows != (place - 1) * ROWS // self._rows:
            for name, score in scores(self._task, row).items():
                self._scores.setdefault(name, []).append(score)

    def means(self) -> dict[str, float]:
        """Return the mean score of every strategy, in [0, 1]."""
        return {name: round(sum(each) / len(each), 4) for name, each in self._scores.items()}

    def floor(self) -> Floor | None:
        """Return the best strategy and the score of listing everything; None without rows."""
        means = self.means()
        if not means:
            return None
        listing = means.pop(LISTING)
        best = max(means, key=means.__getitem__)
        strategy = best if means[best] else "any"
        return Floor(means[best], strategy, listing, len(self._scores[LISTING]))


LISTING = "list everything"
#: Metrics that require every gold answer.
ALL = ("all", "soft_all")


def scores(task: Task, row: Row) -> dict[str, float]:
    """Return the score of every strategy on a row, in [0, 1], under the metric of the task."""
    counts, forms = of_family(_CANDIDATES, task, "_CANDIDATES of checks/floors.py")(row)
    size = len(row.outputs) if task.metric in ALL else 1
    answers = dict(_choices(counts, forms, size))
    if isinstance(task.params, Cwe | Fwe):
        del answers["most frequent"]  # that is the question itself
    if isinstance(task.params, Qa):
        answers |= {"yes": ["yes"], "no": ["no"]}
    if isinstance(task.params, Niah) and task.params.none != "no":
        answers["none"] = ["none"]
    if isinstance(task.params, Niah) and task.params.ordinal:
        answers |= _of_fullest_key(row)
    answers[LISTING] = [", ".join(counts)[: CHARACTERS_PER_TOKEN * task.max_new_tokens]]
    return {name: _score(task, row, texts) for name, texts in answers.items()}


def _of_fullest_key(row: Row) -> dict[str, list[str]]:
    """Return values by their place among those of the key that has the most."""
    by_key: dict[str, list[str]] = {}
    for needle in needle_sentences(row.context):
        by_key.setdefault(needle.key, []).append(needle.value)
    fullest: list[str] = max(by_key.values(), key=len)
    values = sorted(fullest, key=row.context.find)
    places = {"first": 0, "middle": len(values) // 2, "last": -1}
    return {f"{name} of the fullest key": [values[at]] for name, at in places.items()}


def _score(task: Task, row: Row, texts: Sequence[str]) -> float:
    """Return the headline score of an answer that lists these texts; case is ignored."""
    answer, outputs = ", ".join(texts).lower(), [output.lower() for output in row.outputs]
    if task.headline == "exact":
        return float(sorted(answer.split(", ")) == sorted(outputs))
    matches = [
        output == answer if task.metric == "letter" else output in answer for output in outputs
    ]
    return sum(matches) / len(matches) if task.metric in ALL else float(any(matches))


def _choices(
    counts: Counter[str], form_of: Mapping[str, object], size: int
) -> Iterator[tuple[str, list[str]]]:
    """Yield the answers of each strategy."""
    texts = list(counts)
    yield "all that there are", texts if len(texts) == size else []
    often = np.fromiter(counts.values(), dtype=np.int64, count=len(texts))
    sizes = np.fromiter(map(len, texts), dtype=np.int64, count=len(texts))
    forms = Counter(form_of.values())
    alone = np.array([forms[form_of[text]] for text in texts]) if len(forms) > 1 else sizes * 0
    alike = _likeness(texts)
    keys: dict[str, NDArray[np.int64]] = {
        "shortest": sizes,
        "longest": -sizes,
        "rarest": often,
        "most frequent": -often,
        "of the rarest form": alone,
        "majority": -alike,
        "odd one out": alike,
    }
    yield "first", texts[:size]
    yield "last", texts[: -size - 1 : -1]
    for name, key in keys.items():
        yield name, [texts[at] for at in np.argsort(key, kind="stable")[:size].tolist()]
    in_order = sorted(texts)
    yield "first by alphabet", in_order[:size]
    yield "last by alphabet", in_order[: -size - 1 : -1]


def _likeness(texts: list[str]) -> NDArray[np.int64]:
    """Return how many candidates agree with each, summed over its characters or its words.

    The candidate that agrees most is the one closest to the majority of every position.

    >>> _likeness(["123", "124", "923"]).tolist()
    [7, 6, 6]
    >>> _likeness(["red-hat", "red-cloth", "new-hat"]).tolist()
    [4, 3, 3]
    """
    total = np.zeros(len(texts), dtype=np.int64)
    if len(set(map(len, texts))) == 1 and "".join(texts).isascii():
        for column in np.frombuffer("".join(texts).encode(), np.uint8).reshape(len(texts), -1).T:
            total += np.bincount(column)[column]
        return total
    for parts in [*zip(*(text.partition("-") for text in texts), strict=True)][::2]:
        total += np.fromiter(map(Counter(parts).__getitem__, parts), np.int64, len(parts))
    return total


_EDGE = re.compile(r"\b([A-Z]+) -> ([A-Z]+)\n")
#: Names or numbers taken of each document.
_NAMES = 3
_NAME = re.compile(r"[A-Z][\w'-]*(?: [A-Z][\w'-]*)*|[0-9](?:[0-9,.]*[0-9])?")


def _values(row: Row) -> Candidates:
    """Return the values of all needles, with their wordings."""
    needles = needle_sentences(row.context)
    form_of = {needle.value: needle.wording for needle in needles}
    counts = Counter(needle.value for needle in needles)
    if {*form_of.values()} - {"plain"}:  # several forms, so not in the order of the text
        counts = Counter({value: counts[value] for value in sorted(counts, key=row.context.find)})
    return counts, form_of


def _variables(row: Row) -> Candidates:
    """Return the variables chain by chain; the form is the length of the chain."""
    text = row.context.rpartition("Memorize and track ")[2]  # behind the example
    lines = (part.partition("\n")[0] for part in f"\n{text}".split("\nVAR ")[1:])
    source = {
        name: value.removeprefix("VAR ").strip()
        for name, _, value in (line.partition(" = ") for line in lines)
    }
    first: dict[str, str] = {}  # variable of the chain of each
    for name in source:
        path: dict[str, None] = {}
        while name in source and name not in first and name not in path:
            path[name], name = None, source[name]
        first |= dict.fromkeys(path, first.get(name) or next(reversed(path), name))
    chains: dict[str, list[str]] = {}
    for name in source:
        chains.setdefault(first[name], []).append(name)
    forms = {name: len(chain) for chain in chains.values() for name in chain}
    return Counter(forms.keys()), forms


def _words(row: Row) -> Candidates:
    """Return the words of the list or the coded text, which is the last line of the context.

    For a question about the count of one word, return the counts of all.
    """
    text = row.context.rpartition("coded words. ")[2]  # fwe: no line feed before it
    counts = word_list(text.rstrip("\n").rpartition("\n")[2].strip()).counts
    words = Counter({word: count for word, count in counts.items() if word[0].islower()})
    if row.outputs[0].isdecimal():
        return Counter(map(str, words.values())), {}
    return words, {word: "-" in word for word in words}


def _names(row: Row) -> Candidates:
    """Return the first names and numbers of the documents; the form is how often each occurs."""
    often = Counter(documents(row.context)[1])
    pairs = [(name, often[text]) for text in often for name in _first_names(text)]
    return Counter(name for name, _ in pairs), dict(pairs)


@lru_cache(maxsize=2**13)  # rows share most of their documents
def _first_names(document: str) -> list[str]:
    return [match[0] for match in islice(_NAME.finditer(document), _NAMES)]


def _nodes(row: Row) -> Candidates:
    """Return the nodes of all edges."""
    return Counter(node for edge in _EDGE.findall(row.context) for node in edge), {}


_CANDIDATES: dict[type, Callable[[Row], Candidates]] = {
    Niah: _values,
    Vt: _variables,
    Cwe: _words,
    Fwe: _words,
    Qa: _names,
    Graph: _nodes,
    Ruler2: lambda row: (ruler2_rows.candidates(row), {}),
}
