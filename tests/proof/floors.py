"""The floor of a config: the best score of answers that ignore key, question or context.

    niah_ordinal_4_4096     31.0 %  the place, of key 1        blind  0.0 %
    qa_2_4096               12.4 %  echo and common answers    blind 12.4 %
    vt_4096                100.0 %  list everything            blind  0.0 %

A strategy reads the prompt, takes every candidate for an answer (the values of all needles, all
variables, all words), and names one or as many as there are gold answers, by place, length, count,
form or likeness alone; or it names as many as the budget of the answer holds. Where a question has
a key and a place, others ignore one of the two. Blind strategies do not read the context: they echo
the question, or give the gold answers of other rows. Answers are scored by the task's headline
(upstream's score or the exact one), written here anew; a test compares it with `ruler_eval`.

`benchmarks/floors.py` makes the table of the package's suites (`ruler_data.floors`).
"""

import re
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import lru_cache
from itertools import islice

import numpy as np
from numpy.typing import NDArray
from rapidfuzz.distance import Levenshtein

from ruler_builders.checks.prompt_parser import needle_sentences, place_of, queried_keys, word_list
from ruler_builders.checks.ruler2_rows import labelled_texts, query_of
from ruler_builders.checks.solvers import documents
from ruler_data.manifest import Floor
from ruler_data.row import Row
from ruler_data.tasks import ORDINALS, Cwe, Fwe, Graph, Niah, Qa, Ruler2, Task, Vt, of_family
from tests.proof.task_parameters import counts_of

#: Rows on which a floor is measured, spread over the config; all rows of a smaller one.
ROWS = 100
#: Characters that an answer may have for each token of its budget.
CHARACTERS_PER_TOKEN = 4
#: Most gold answers of other rows that are tried as constants.
CONSTANTS = 300
LISTING = "list everything"
#: Metrics that require every gold answer.
ALL = ("all", "soft_all", "soft_last")

#: Candidates in the order of the prompt: how often each occurs, and the form of each.
Candidates = tuple[Counter[str], Mapping[str, object]]


class FloorMeter:
    """Measures the floor of a config with `rows` rows, which are added one by one."""

    def __init__(self, task: Task, rows: int) -> None:
        self._task = task
        self._rows = max(rows, 1)
        self._scores: dict[str, list[float]] = {}
        self._questions = list[Row]()

    def add(self, place: int, row: Row) -> None:
        """Measure a row if it belongs to the sample."""
        if row.outputs and place * ROWS // self._rows != (place - 1) * ROWS // self._rows:
            self._questions.append(replace(row, context="", evidence=()))
            for name, score in scores(self._task, row).items():
                self._scores.setdefault(name, []).append(score)

    def means(self) -> dict[str, float]:
        """Return the mean score of every strategy that reads the context, in [0, 1]."""
        return {name: round(sum(values) / len(values), 4) for name, values in self._scores.items()}

    def floor(self, questions: Sequence[Row] = ()) -> Floor | None:
        """Return the best strategies, with and without the context; None without rows.

        The blind ones are measured on `questions`, if given.
        """
        if not self._questions:
            return None
        blind, blind_strategy = blind_floor(self._task, questions or self._questions)
        means = self.means()
        means.setdefault(blind_strategy, blind)
        # of equals, one that does not list
        best = max(means, key=lambda name: (means[name], name != LISTING))
        strategy = best if means[best] else "any"
        rows = len(self._questions)
        return Floor(means[best], strategy, means[LISTING], rows, blind, blind_strategy)


def scores(task: Task, row: Row) -> dict[str, float]:
    """Return the score of every strategy that reads the context of a row, in [0, 1]."""
    counts, forms = of_family(_CANDIDATES, task, "_CANDIDATES of tests/proof/floors.py")(row)
    answers = dict[str, Sequence[str]]()
    sizes = {1}
    if task.metric in ALL:
        sizes.add(len(row.outputs))
    for size in sizes:
        prefix = "" if size == len(row.outputs) else "one: "
        answers |= {f"{prefix}{name}": texts for name, texts in _choices(counts, forms, size)}
    if isinstance(task.params, Cwe | Fwe):  # that is the question itself
        answers = {name: texts for name, texts in answers.items() if "most frequent" not in name}
    if isinstance(task.params, Niah) and task.params.none != "no":
        answers["none"] = ["none"]
    if isinstance(task.params, Niah | Ruler2):
        answers |= _half_read(task.params, row)
    answers[LISTING] = [", ".join(counts)[: CHARACTERS_PER_TOKEN * task.max_new_tokens]]
    return {name: score(task, row.outputs, texts) for name, texts in answers.items()}


def _half_read(params: Niah | Ruler2, row: Row) -> dict[str, list[str]]:
    """Return answers that use the key and not the place that a question names, or the reverse.

    The keys that have the most values are those that a question can be about.
    """
    if isinstance(params, Ruler2):
        pairs = [(text.label, text.text) for text in labelled_texts(row.context)]
        key, place = query_of(params, row)
        if not place:
            return {}
        number = int(place[0]) - 1
    elif params.ordinal:
        needles = sorted(needle_sentences(row.context), key=lambda needle: needle.spans)
        pairs = [(needle.key, needle.value) for needle in needles]
        key = queried_keys(row)[0]
        number = ORDINALS.index(place_of(row))
    else:
        return {}
    by_key: dict[str, list[str]] = {}
    for label, value in pairs:
        by_key.setdefault(label, []).append(value)
    most = max(map(len, by_key.values()), default=0)
    fullest = [values for values in by_key.values() if len(values) == most]
    answers = dict[str, list[str]]()
    for nth, values in enumerate(fullest[:4], 1):
        answers[f"the place, of key {nth}"] = values[number : number + 1]
    for nth, value in enumerate(by_key.get(key, ()), 1):
        answers[f"value {nth} of the key"] = [value]
    return answers


def score(task: Task, outputs: Sequence[str], texts: Sequence[str]) -> float:
    """Return the headline score of an answer that lists these texts; case is ignored."""
    answer = ", ".join(texts).lower()
    gold = [output.lower() for output in outputs]
    if task.headline == "exact":
        return float(sorted(answer.split(", ")) == sorted(gold))
    if task.metric == "letter":
        matches = [float(answer == output) for output in gold]
    elif task.metric in ("all", "part"):
        matches = [float(output in answer) for output in gold]
    else:
        matches = [_overlap(answer, output) for output in gold]
    return sum(matches) / len(matches) if task.metric in ALL else max(matches)


def _overlap(answer: str, output: str) -> float:
    """Return 1 if a text contains another, else one minus its word error rate, at least 0."""
    words = output.split()
    if output in answer or not words:
        return float(output in answer)
    return max(0.0, 1 - Levenshtein.distance(answer.split(), words) / len(words))


def blind_floor(task: Task, rows: Sequence[Row]) -> tuple[float, str]:
    """Return the score of the best answer written without the context, and its name."""
    gold = Counter(output for row in rows for output in dict.fromkeys(row.outputs))
    results = dict.fromkeys(("any", "echo", "common answers", "echo and common answers"), 0.0)
    for row in rows:
        answers = zip([*results][1:], _without_context(task, row, gold), strict=True)
        for name, text in answers:
            results[name] += score(task, row.outputs, [text]) / len(rows)
    for text in _constants(gold):
        names = [text in row.outputs for row in rows]
        place = names.index(True) if True in names else len(rows)  # a row is not its own constant
        scores_of_others = [
            score(task, row.outputs, [text]) for row in (*rows[:place], *rows[place + 1 :])
        ]
        results[f"constant {text[:60]!r}"] = sum(scores_of_others) / max(len(scores_of_others), 1)
    best = max(results, key=results.__getitem__)
    if not results[best]:
        return 0.0, "any"
    return round(results[best], 4), best


def _without_context(task: Task, row: Row, gold: Counter[str]) -> tuple[str, str, str]:
    """Return the question, the commonest gold answers of the other rows, and both."""
    room = CHARACTERS_PER_TOKEN * task.max_new_tokens
    question = row.question.rpartition("Question: ")[2]
    common_words = gold - Counter({*row.outputs})
    common = ", ".join(text for text, _ in common_words.most_common(room))
    return question[:room], common[:room], f"{question}, {common}"[:room]


def _constants(gold: Counter[str]) -> Iterator[str]:
    """Yield the commonest gold answers, how many begin, and the words that many have in common.

    The last scores under a word error rate: `Which of the following is A. B. C. D.`
    """
    yield from (text for text, _ in gold.most_common(CONSTANTS))
    words = [text.split() for text in gold]
    for size in range(1, 9):
        counts = Counter(" ".join(answer[:size]) for answer in words if len(answer) >= size)
        yield from (text for text, _ in counts.most_common(3))
    places: dict[str, list[float]] = {}
    for answer in words:
        for word, at in dict(zip(answer, range(len(answer)), strict=True)).items():
            places.setdefault(word, []).append(at / len(answer))
    in_order = sorted(places, key=lambda word: (sum(places[word]) / len(places[word]), word))
    for share in (0.2, 0.3, 0.5):
        yield " ".join(word for word in in_order if len(places[word]) >= share * len(words))


def _choices(
    counts: Counter[str], form_of: Mapping[str, object], size: int
) -> Iterator[tuple[str, list[str]]]:
    """Yield the answers of each strategy."""
    texts = list(counts)
    yield "all that there are", texts if len(texts) == size else []
    often = np.fromiter(counts.values(), dtype=np.int64, count=len(texts))
    sizes = np.fromiter(map(len, texts), dtype=np.int64, count=len(texts))
    forms = Counter(form_of.values())
    alone = np.zeros_like(sizes)
    if len(forms) > 1:
        alone = np.array([forms[form_of[text]] for text in texts])
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
    for halves in [*zip(*(text.partition("-") for text in texts), strict=True)][::2]:
        total += np.fromiter(map(Counter(halves).__getitem__, halves), np.int64, len(halves))
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
    lines = (block.partition("\n")[0] for block in f"\n{text}".split("\nVAR ")[1:])
    source: dict[str, str] = {}
    for line in lines:
        name, _, value = line.partition(" = ")
        source[name] = value.removeprefix("VAR ").strip()
    first: dict[str, str] = {}  # variable of the chain of each
    for name in source:
        path: dict[str, None] = {}
        while name in source and name not in first and name not in path:
            path[name] = None
            name = source[name]
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
    counts = counts_of(word_list(text.rstrip("\n").rpartition("\n")[2].strip()))
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


def _texts(row: Row) -> Candidates:
    """Return what could be the answer: letters, values, questions, or numbers of documents."""
    if row.outputs[0] in ("A", "B", "C", "D") and len(row.outputs) == 1:
        return Counter("ABCD"), {}
    texts = labelled_texts(row.context)
    if row.context.startswith("Below are some documents."):
        return Counter(text.label for text in texts), {}
    return Counter(text.text for text in texts), {}


_CANDIDATES: dict[type, Callable[[Row], Candidates]] = {
    Niah: _values,
    Vt: _variables,
    Cwe: _words,
    Fwe: _words,
    Qa: _names,
    Graph: _nodes,
    Ruler2: _texts,
}
