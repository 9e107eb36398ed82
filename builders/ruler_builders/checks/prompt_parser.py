"""Parse prompts: needles in any wording, and the fixed text of each task's prompt.

The fixed text is written out here again, apart from the generators: no solver would notice a
question that asks for something else.
"""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from ruler_data.row import Row
from ruler_data.tasks import Cwe, Fwe, Niah, Qa, Task, Vt

_OPENING = "One of the special magic "
_NEEDLE = re.compile(r"One of the special magic \w+ for (\S+) is: (\S+)\.(?=\s|$)")
#: The wordings of suites, each with its longest fixed words. These are searched first, since a
#: regular expression takes a hundred times longer on a long text.
_REWORDED = [
    (
        max(re.split(r"KEY|VALUE|\\w\+", form), key=len),
        re.compile(form.replace("KEY", r"(?P<key>\S+?)").replace("VALUE", r"(?P<value>\S+?)")),
    )
    for form in (
        r"Anyone who asks about KEY should be told that its special magic \w+ is VALUE\.(?=\s|$)",
        r"It was decided long ago that VALUE would be the special magic \w+ of KEY\.(?=\s|$)",
        r"The special magic \w+ assigned to KEY happens to be VALUE\.(?=\s|$)",
        r"Remember VALUE, which is the special magic \w+ that goes with KEY\.(?=\s|$)",
        r"If KEY ever comes up, the special magic \w+ to give is VALUE\.(?=\s|$)",
    )
]
_POINTER = re.compile(
    r"The special magic \w+ for (\S+) is the one that is filed under (\S+?)\.(?=\s|$)"
)
_FILED = re.compile(r"What is filed under (\S+) is (\S+?)\.(?=\s|$)")


def needles(context: str, keys: Sequence[str]) -> list[tuple[tuple[str, ...], str, str]]:
    """Return the needles of keys: each one's sentences in order, its key and its value."""
    found = [needle for key in dict.fromkeys(keys) for needle in _plain(context, key)]
    for words, form in _REWORDED:
        if words in context:
            sentences = (match for match in form.finditer(context) if match["key"] in keys)
            found += [((match[0],), match["key"], match["value"]) for match in sentences]
    if "filed under" not in context:
        return found
    filed = {match[1]: match for match in _FILED.finditer(context)}
    for match in _POINTER.finditer(context):
        if match[1] in keys and match[2] in filed:
            both = sorted((match, filed[match[2]]), key=re.Match.start)
            found.append((tuple(one[0] for one in both), match[1], filed[match[2]][2]))
    return found


def _plain(context: str, key: str) -> Iterator[tuple[tuple[str, ...], str, str]]:
    """Yield the needles of a key in the wording of the benchmark.

    The key is searched first, since a text may hold thousands of needles.
    """
    words = f" for {key} is: "
    place = context.find(words)
    while place >= 0:
        match = _NEEDLE.match(context, max(context.rfind(_OPENING, 0, place), 0))
        if match and match[1] == key and match.start(1) > place:
            yield (match[0],), key, match[2]
        place = context.find(words, place + 1)


_QUERY = re.compile(r" for (.+) mentioned in the provided text\?")
_VALUE = re.compile(r" the value ([0-9]+) in the text above\.$")
_ONLY = (
    "Answer the question based on the given documents. Only give me the answer and do not output "
    "any other words.\n\n"
)

_ALONE = "Answer the question. Only give me the answer and do not output any other words.\n\n"


@dataclass(frozen=True)
class PromptTemplate:
    """Fixed text of a prompt: how the context begins and ends, the question, the prefix."""

    head: str
    tail: str
    question: str
    prefix: str


def frame_findings(task: Task, row: Row) -> Iterator[str]:
    """Yield where a row departs from the fixed text of its task."""
    frame = _frame(task, row)
    if not row.context.startswith(frame.head):
        yield f"context begins with {row.context[:40]!r}, not with the task's instruction"
    if not row.context.endswith(frame.tail):
        yield f"context ends with {row.context[-20:]!r}, not with {frame.tail!r}"
    if row.question != frame.question:
        yield f"question is {row.question[:120]!r}, the task's is {frame.question[:120]!r}"
    if row.answer_prefix != frame.prefix:
        yield f"answer_prefix is {row.answer_prefix[:120]!r}, the task's is {frame.prefix[:120]!r}"


def _frame(task: Task, row: Row) -> PromptTemplate:
    params = task.params
    if isinstance(params, Niah):
        return _niah(params, row)
    if isinstance(params, Vt):
        return _vt(params, row)
    if isinstance(params, Qa):
        if params.documents == "none":
            question = row.question.removeprefix("Question: ").strip()
            return PromptTemplate(_ALONE, _ALONE, f"Question: {question}", " Answer:")
        question = row.question.removeprefix(_ONLY + "Question: ").strip()
        head = _ONLY + "The following are given documents.\n\nDocument 1:\n"
        return PromptTemplate(head, "\n\n", f"{_ONLY}Question: {question}", " Answer:")
    return {Cwe: _CWE, Fwe: _FWE}[type(params)]


def _niah(params: Niah, row: Row) -> PromptTemplate:
    found = _QUERY.search(row.question)
    query = found[1] if found else "KEY"
    if params.queries * params.values == 1:
        kind = params.value_type.removesuffix("s")
        article, verb, which = "A", "is", "is"
    else:
        kind, article, verb, which = params.value_type, "Some", "are", "are all"
    return PromptTemplate(
        head=(
            f"{article} special magic {kind} {verb} hidden within the following text. Make sure to "
            f"memorize it. I will quiz you about the {kind} afterwards.\n"
        ),
        tail="\n",
        question=(
            f"What {which} the special magic {kind} for {query} mentioned in the provided text?"
            + (" If the provided text does not mention it, answer: none." * (params.none != "no"))
        ),
        prefix=f" The special magic {kind} for {query} mentioned in the provided text {verb}",
    )


def _vt(params: Vt, row: Row) -> PromptTemplate:
    found = _VALUE.search(row.question)
    value = found[1] if found else "VALUE"
    return PromptTemplate(
        head=(
            "Memorize and track the chain(s) of variable assignment hidden in the following "
            "text.\n\n"
        ),
        tail="\n",
        question=(
            f"Question: Find all variables that are assigned the value {value} in the text above."
        ),
        prefix=(
            " Answer: According to the chain(s) of variable assignment in the text above, "
            f"{params.hops + 1} variables are assigned the value {value}, they are: "
        ),
    )


_CWE = PromptTemplate(
    head=(
        "Below is a numbered list of words. In these words, some appear more often than others. "
        "Memorize the ones that appear most often.\n1. "
    ),
    tail="\n",
    question="Question: What are the 10 most common words in the above list?",
    prefix=" Answer: The top 10 words that appear most often in the list are:",
)
_FWE = PromptTemplate(
    head=(
        "Read the following coded text and track the frequency of each coded word. Find the three "
        "most frequently appeared coded words. "
    ),
    tail="\n",
    question=(
        "Question: Do not provide any explanation. Please ignore the dots '....'. What are the "
        "three most frequently appeared words in the above coded text?"
    ),
    prefix=(
        " Answer: According to the coded text above, the three most frequently appeared words are:"
    ),
)
