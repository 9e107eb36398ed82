"""What a build checks of each row.

The generators cannot know that a prompt has one answer. A solver finds the gold answers and the
evidence in the finished prompt alone and imports nothing of the generators. It returns every answer
that the prompt supports, so it also detects ambiguous prompts.
"""

import math
import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import islice

from ruler_builders.checks import ruler2_rows
from ruler_builders.checks.prompt_parser import (
    COUNTED,
    VALUE,
    Needle,
    needle_sentences,
    question_of,
    word_list,
)
from ruler_builders.prompts import NUMBERS
from ruler_builders.sources.packaged import associations
from ruler_data.row import Row, Span
from ruler_data.tasks import ORDINALS, Cwe, Fwe, Graph, Niah, Qa, Ruler2, Task, Vt, of_family

_QUESTION = re.compile(
    r"What (?:is|are all) the (?:(\w+) )?special magic \w+ for (.+) mentioned in the "
)
_ASSIGNMENT = re.compile(r"VAR ([A-Z]+) = (?:VAR ([A-Z]+) ?|([0-9]+))")
_MOST = re.compile(r"What are the (\w+) most ")
_NODE = re.compile(r"Find all nodes .*?([A-Z]{5}).*? in the list above\.$")
_WITHIN = re.compile(r" within (\d) steps ")
_DOCUMENT = re.compile(r"\n\nDocument (\d+):\n")


@dataclass(frozen=True)
class Solution:
    """The result of a solver.

    Attributes:
        answers: all answers that the prompt supports.
        evidence: the texts of the expected evidence spans, in order; None for any.
        complaint: why the prompt cannot be solved as intended; empty if it can.
    """

    answers: frozenset[str]
    evidence: list[str] | None
    complaint: str = ""


def row_findings(task: Task, length: int, place: int, row: Row) -> Iterator[str]:
    """Yield what is wrong with row `place` of a config; `length` (tokens) is its greatest."""
    yield from column_findings(task, place, row)
    if row.length > length:
        yield f"length {row.length} is over {length}, the config's without its reserve"
    if task.is_exact and row.length != length - task.below(place):
        yield f"length {row.length} is not {length - task.below(place)}, which its residue asks for"
    solution = solve(task, row)
    if solution.complaint:
        yield solution.complaint
    if len(set(row.outputs)) != len(row.outputs):
        yield f"column outputs contains {Counter(row.outputs).most_common(1)[0][0]!r} twice"
    if difference := sorted(frozenset(row.outputs) ^ solution.answers):
        if difference[0] in row.outputs:
            yield f"column outputs contains {difference[0]!r}, which the prompt does not support"
        else:
            yield f"column outputs does not contain {difference[0]!r}, which the prompt gives"
    yield from _evidence_findings(row, solution.evidence)
    span = haystack_of(task, row.context)
    if row.haystack not in (None, span):  # None in imported rows
        yield f"column haystack is {row.haystack}, the prompt's is {span}"


def column_findings(task: Task, place: int, row: Row) -> Iterator[str]:
    """Yield what is wrong with the columns that follow from place and task."""
    if row.index != place:
        yield f"row {place} of the file has index {row.index}"
    if row.task != task.name:
        yield f"task is {row.task!r}"
    if row.max_new_tokens != task.max_new_tokens:
        yield f"max_new_tokens is {row.max_new_tokens}, the task's is {task.max_new_tokens}"
    if not row.outputs or not all(row.outputs):
        yield "a gold answer is empty"
    size = len(row.context)
    if any(not 0 <= start < end <= size for start, end in row.evidence):
        yield "an evidence span is outside the context"
    if row.haystack and not 0 <= row.haystack.start <= row.haystack.end <= size:
        yield "the haystack is outside the context"


def _evidence_findings(row: Row, expected: list[str] | None) -> Iterator[str]:
    if list(row.evidence) != sorted(row.evidence):
        yield "evidence spans are not in order"
    texts = [row.context[start:end] for start, end in row.evidence]
    if expected is not None and texts != expected:
        pairs = zip(texts, expected, strict=False)
        differing = next((f"{a[:60]!r} for {b[:60]!r}" for a, b in pairs if a != b), None)
        yield f"evidence holds {differing or f'{len(texts)} spans, not {len(expected)}'}"
    if expected is None and not texts:
        yield "no evidence"


def haystack_of(task: Task, context: str) -> Span:
    """Return where the haystack stands in a context, as the fixed text around it tells."""
    end = len(context)
    if not task.fills:  # a question without documents
        return Span(end, end)
    closing = _CLOSINGS.get(type(task.params), "\n")
    if context.endswith(closing):
        end -= len(closing)
    opening = of_family(_OPENINGS, task, "_OPENINGS of checks/solvers.py")
    return Span(opening(context, end), end)


def _haystack(task: Task, row: Row) -> str:
    span = haystack_of(task, row.context)
    return row.context[span.start : span.end]


#: What closes the context of a family, where it is not a line feed.
_CLOSINGS = {Qa: "\n\n", Ruler2: ""}
_QUESTION_BEFORE = re.compile(r"(?:What .*\n\n)?.*\n")
_VARIABLES = "variable assignment hidden in the following text."
_DOCUMENTS = "The following are given documents.\n\n"
_CODED = "frequently appeared coded words. "


def _after_query(context: str, end: int) -> int:
    """Return where the haystack of niah begins: after a line, and a question before it."""
    match = _QUESTION_BEFORE.match(context, 0, end)
    return match.end() if match else 0


def _after_line(context: str, _: int) -> int:
    """Return where the haystack of ruler2 begins: after a line, and maybe an empty one."""
    start = context.find("\n") + 1
    if context.startswith("\n", start):
        start += 1
    return start


#: Where the haystack of a family begins, in a context whose closing begins at `end`. A search from
#: the end for two characters would read all of a haystack.
_OPENINGS: dict[type, Callable[[str, int], int]] = {
    Niah: _after_query,
    Vt: lambda text, end: text.find("\n\n", text.rfind(_VARIABLES, 0, end)) + 2,
    Cwe: lambda text, end: text.rfind("\n", 0, end) + 1,
    Fwe: lambda text, _: text.find(_CODED) + len(_CODED),
    Qa: lambda text, _: text.find(_DOCUMENTS) + len(_DOCUMENTS),
    Graph: lambda text, _: text.find("\n\n") + 2,
    Ruler2: _after_line,
}

#: Room (tokens) from which every row must fill it.
FULL_FROM = 4096
#: Least share of such a room.
LEAST_FILL = 0.99


def fill_finding(
    task: Task, length: int, reserve: int, lengths: Sequence[int]
) -> tuple[int, str] | None:
    """Return the least full row and what is wrong; None if all rows are full enough.

    A question without documents has nothing to fill its length with. Reserved tokens do not count
    as room. All lengths are in tokens; `lengths` is the column.

    >>> from ruler_data.tasks import TASKS
    >>> fill_finding(TASKS["vt"], 4096, 0, [4090, 4056])
    >>> fill_finding(TASKS["vt"], 5096, 1000, [4090, 4054, 4060])[0]
    1
    """
    room = length - reserve
    least = min(lengths, default=0)
    needed = math.ceil(LEAST_FILL * room)
    short = sum(tokens < needed for tokens in lengths)
    if not (short and task.fills and room >= FULL_FROM) or task.is_exact:
        return None
    return lengths.index(least), (
        f"length {least} leaves the config unfilled: of {room} tokens at least {needed} are "
        f"needed ({LEAST_FILL}); short rows: {short} of {len(lengths)}; the haystack's "
        "segments are too long or too few: use a greater length, or texts with more and shorter "
        "lines"
    )


def solve(task: Task, row: Row) -> Solution:
    """Answer a row from its prompt; for qa, find the gold answers in the gold documents."""
    return of_family(_SOLVERS, task, "_SOLVERS of checks/solvers.py")(task, row)


def _niah(task: Task, row: Row) -> Solution:
    question = _QUESTION.match(question_of(row))
    if question is None:
        return Solution(frozenset(), [], "the question asks for no key")
    place, query = question.groups()
    keys = re.split(r", and |, ", query)
    members = associations().get(query.removeprefix("the "))
    needles = needle_sentences(row.context, members or keys)
    needles.sort(key=lambda needle: needle.spans)
    evidence = _needle_texts(row, needles)
    values = [needle.value for needle in needles]
    if len(set(values)) != len(values):
        return Solution(frozenset(values), evidence, "a value occurs twice")
    if members and needles:
        keys = []  # a needle of any thing that the description fits will do
    missing = _missing_keys(keys, needles)
    if missing:
        if missing == keys and question_of(row).endswith("does not mention it, answer: none."):
            return Solution(frozenset({"none"}), evidence)
        return Solution(frozenset(values), evidence, f"no needle for {missing[0]}")
    if place is None:
        return Solution(frozenset(values), evidence)
    return _value_at(place, values, evidence)


def _needle_texts(row: Row, needles: Iterable[Needle]) -> list[str]:
    """Return the sentences of needles, in the order of the text."""
    spans = sorted(span for needle in needles for span in needle.spans)
    return [row.context[start:end] for start, end in spans]


def _missing_keys(keys: list[str], needles: Iterable[Needle]) -> list[str]:
    present = {needle.key for needle in needles}
    return [key for key in keys if key not in present]


def _value_at(place: str, values: list[str], evidence: list[str]) -> Solution:
    """Return the value at a place, e.g. `third`, among those of a key."""
    if place not in ORDINALS[: len(values)]:
        complaint = f"{len(values)} values, so none is the {place}"
        return Solution(frozenset(), evidence, complaint)
    return Solution(frozenset({values[ORDINALS.index(place)]}), evidence)


def _vt(task: Task, row: Row) -> Solution:
    value = VALUE.search(row.question)
    start = haystack_of(task, row.context).start
    everywhere = list(_assignments(row.context))  # the example's too
    evidence = [match[0].rstrip() for match in everywhere if match[1] in row.outputs]
    assignments = [match for match in everywhere if match.start() >= start]
    if row.context.endswith("in no particular order.\n\n", 0, start):
        assignments = _in_order(assignments)
    holds: dict[str, str] = {}
    for assignment in assignments:
        name, source, number = assignment.groups()
        if name in holds:
            return Solution(frozenset(), evidence, f"{name} is assigned twice")
        if source and source not in holds:
            complaint = f"{name} takes its value from {source} before it has one"
            return Solution(frozenset(), evidence, complaint)
        holds[name] = number or holds[source]
    if value is None:
        return Solution(frozenset(), evidence, "the question names no value")
    answers = frozenset(name for name, number in holds.items() if number == value[1])
    return Solution(answers, evidence)


def _in_order(assignments: list[re.Match[str]]) -> list[re.Match[str]]:
    """Return assignments so that variables have a value before they are used, if that is possible.

    Assignments whose variables never get a value are last.
    """
    users: dict[str | None, list[re.Match[str]]] = {}
    for assignment in assignments:
        users.setdefault(assignment[2], []).append(assignment)
    ordered = users.pop(None, [])
    for assignment in ordered:  # grows meanwhile
        ordered += users.pop(assignment[1], [])
    return ordered + [assignment for chain in users.values() for assignment in chain]


def _cwe(task: Task, row: Row) -> Solution:
    words = word_list(_haystack(task, row))
    word = COUNTED.search(row.question)
    most = _MOST.search(row.question)
    queried = {word[1]} if word else {*row.outputs}
    evidence = words.occurrences(queried)
    if not words.is_numbered:
        return Solution(frozenset(), evidence, "the list is not numbered from 1 without gaps")
    if word:
        return Solution(frozenset({str(len(evidence))}), evidence)
    size = 0
    if most and most[1].isdecimal():
        size = int(most[1])
    return _top(words.ranked(), size, evidence)


def _fwe(task: Task, row: Row) -> Solution:
    most = _MOST.search(row.question)
    size = next((size for size, word in NUMBERS.items() if most and word == most[1]), 0)
    ranked = word_list(_haystack(task, row)).ranked()
    coded = ((word, count) for word, count in ranked if re.fullmatch("[a-z]+", word))
    return _top(coded, size, [])


def _graph(task: Task, row: Row) -> Solution:
    lines = _haystack(task, row).splitlines()
    edges = [line.split(" -> ") for line in lines]
    node = _NODE.search(row.question)
    within = _WITHIN.search(row.question)
    if node is None:
        return Solution(frozenset(), [], "the question asks for no node")
    if any(len(edge) != 2 for edge in edges) or len(set(lines)) != len(lines):
        return Solution(frozenset(), [], "a line is no edge, or occurs twice")
    if within:
        return _nodes_within(edges, node[1], int(within[1]))
    parents = frozenset(start for start, end in edges if end == node[1])
    return Solution(parents, [f"{start} -> {end}" for start, end in edges if end == node[1]])


def _nodes_within(edges: list[list[str]], node: str, steps: int) -> Solution:
    """Return the other nodes that a node reaches in some steps, and the edges that lead there."""
    reached = {node}
    last = {node}
    passed: set[str] = set()
    for _ in range(steps):
        passed |= last
        last = {end for start, end in edges if start in last} - reached
        reached |= last
    evidence = [f"{start} -> {end}" for start, end in edges if start in passed]
    return Solution(frozenset(reached - {node}), evidence)


def _top(ranked: Iterable[tuple[str, int]], size: int, evidence: list[str]) -> Solution:
    """Return the `size` most frequent words, and complain if the next one is as frequent."""
    first = [*islice(ranked, size + 1)]
    words = frozenset(word for word, _ in first[:size])
    if len(first) > size > 0 and first[size][1] == first[size - 1][1]:
        complaint = f"{first[size][0]} occurs as often as {first[size - 1][0]}"
        return Solution(words, evidence, complaint)
    return Solution(words, evidence)


def _qa(task: Task, row: Row) -> Solution:
    if not task.fills:
        return _qa_alone(row)
    source = task.sources[0]
    numbers, texts = documents(row.context)
    if numbers != [str(number) for number in range(1, len(texts) + 1)]:
        return Solution(frozenset(), None, "the documents are not numbered from 1 without gaps")
    evidence = Counter(row.context[span.start : span.end] for span in row.evidence)
    if complaint := _document_complaint(source, evidence, Counter(texts)):
        return Solution(frozenset(), None, complaint)
    if source == "hotpotqa" and row.outputs in (("yes",), ("no",)):  # they are in no document
        return Solution(frozenset(row.outputs), None)
    text = "\n".join(evidence).lower()
    answers = frozenset(answer for answer in row.outputs if answer.lower() in text)
    return Solution(answers, None)


def _document_complaint(source: str, evidence: Counter[str], often: Counter[str]) -> str:
    """Return why a question rests on other documents than it should, or why they stand out."""
    if len(evidence) != _GOLD_DOCUMENTS.get(source, len(evidence) or 1):
        return f"{len(evidence)} gold documents"
    for number, (text, spans) in enumerate(evidence.items()):
        if often[text] != spans:
            return f"gold document {number} occurs {often[text]} times, evidence {spans}"
    if max(often.values()) > min(often.values()) + 1:
        return f"documents occur {min(often.values())} to {max(often.values())} times"
    return ""


def _qa_alone(row: Row) -> Solution:
    """Accept the answers as given: without documents, no prompt supports them."""
    if _DOCUMENT.search("\n\n" + row.context):
        return Solution(frozenset(), [], "a document, in a task without documents")
    return Solution(frozenset(row.outputs), [])


#: Number of gold documents of a question, by source; files of users have any.
_GOLD_DOCUMENTS = {"squad": 1, "hotpotqa": 2}


def _assignments(text: str) -> Iterator[re.Match[str]]:
    """Yield the assignments of a text; no other line has an equals sign."""
    sign = text.find("=")
    while sign >= 0:
        start = text.rfind("\n", 0, sign) + 1
        end = text.find("\n", sign)
        if end < 0:
            end = len(text)
        if match := _ASSIGNMENT.fullmatch(text, start, end):
            yield match
        sign = text.find("=", sign + 1)


@lru_cache(maxsize=1)  # several checks of a row use it
def documents(context: str) -> tuple[list[str], list[str]]:
    """Return the numbers and the documents, without the trailing spaces that evidence omits."""
    pieces = list[str]()
    opening = context.find(_DOCUMENTS)
    if opening >= 0:
        start = opening + len(_DOCUMENTS) - len("\n\n")  # with the empty line before a document
        pieces = _DOCUMENT.split(context[start:].removesuffix(_CLOSINGS[Qa]))
    return pieces[1::2], [text.rstrip(" ") for text in pieces[2::2]]


#: How the rows of each family are solved.
_SOLVERS: dict[type, Callable[[Task, Row], Solution]] = {
    Niah: _niah,
    Vt: _vt,
    Cwe: _cwe,
    Fwe: _fwe,
    Qa: _qa,
    Graph: _graph,
    Ruler2: lambda _, row: Solution(*ruler2_rows.solve(row)),
}
