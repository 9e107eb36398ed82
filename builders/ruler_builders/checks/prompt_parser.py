"""Parse prompts: needles in any wording, and the fixed text of each task's prompt.

The fixed text is written out here again, apart from the generators: no solver would notice a
question that asks for something else.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache
from typing import NamedTuple

from ruler_data.row import Row
from ruler_data.tasks import Cwe, Fwe, Graph, Niah, Qa, Task, Vt

_WORDINGS = {
    "plain": ("One of the special magic KIND for KEY is: VALUE.",),
    "paraphrased": (
        "Anyone who asks about KEY should be told that its special magic KIND is VALUE.",
        "It was decided long ago that VALUE would be the special magic KIND of KEY.",
        "The special magic KIND assigned to KEY happens to be VALUE.",
        "Remember VALUE, which is the special magic KIND that goes with KEY.",
        "If KEY ever comes up, the special magic KIND to give is VALUE.",
    ),
    "split": ("The special magic KIND for KEY is the one that is filed under VALUE.",),
    "json": ('{"special magic KIND": {"key": "KEY", "value": "VALUE"}}',),
    "assignment": ('special_magic_KIND["KEY"] = "VALUE"',),
    "associated": (
        "Under the entry KEY somebody had written VALUE.",
        "The page headed KEY gave VALUE.",
        "Against the word KEY stood VALUE.",
    ),
}
#: Each wording of a needle, with its longest fixed words. These are searched first, since a regular
#: expression takes a hundred times longer on a long text.
_FORMS = [
    (
        wording,
        max(re.split("KEY|VALUE|KIND", form), key=len),
        re.compile(
            re.escape(form)
            .replace("KIND", r"(?P<kind>\w+)")
            .replace("KEY", r"(?P<key>\S+?)")
            .replace("VALUE", r"(?P<value>\S+?)")
            + r"(?=\s|$)"
        ),
    )
    for wording, forms in _WORDINGS.items()
    for form in forms
]
_FILED = re.compile(r"What is filed under (\S+) is (\S+?)\.(?=\s|$)")


class NeedleSentence(NamedTuple):
    """A needle: its sentence, or both if it is split, in the order of the text."""

    texts: tuple[str, ...]
    kind: str
    key: str
    value: str
    wording: str


@lru_cache(maxsize=1)  # of a row, the solver and the parameters ask for the same
def needle_sentences(text: str) -> tuple[list[NeedleSentence], list[str]]:
    """Return all needles of a text in any wording, and the lines of what is no needle."""
    filed = {match[1]: match for match in _FILED.finditer(text)} if "filed under" in text else {}
    found, spans = list[NeedleSentence](), list[tuple[int, int]]()
    for wording, words, form in _FORMS:
        for match in form.finditer(text) if words in text else ():
            matches, value = [match], match["value"]
            if wording == "split":
                if value not in filed:
                    continue
                matches = sorted((match, filed[value]), key=re.Match.start)
                value = filed[value][2]
            texts, kind = tuple(one[0] for one in matches), match.groupdict().get("kind", "")
            found.append(NeedleSentence(texts, kind, match["key"], value, wording))
            spans += [one.span() for one in matches]
    spans.sort()
    ends = [0, *(end for _, end in spans)]
    starts = [*(start for start, _ in spans), len(text)]
    pieces = (text[end:start] for end, start in zip(ends, starts, strict=True) if end < start - 1)
    return found, [line for piece in pieces for line in piece.split("\n") if line.strip()]


def queried_keys(row: Row) -> list[str]:
    """Return the keys that a question is about, or the description of one."""
    found = _QUERY.search(question_of(row))
    return re.split(r", and |, ", found[1]) if found else []


def example_and_list(context: str, head: str) -> tuple[str, str]:
    """Return the in-context example, empty without one, and the text that the question is about.

    `head` is the instruction, which stands again after the example.
    """
    parts = context.split(head)
    return parts[1] if len(parts) == 3 else "", parts[-1]


_QUERY = re.compile(r" for (.+) mentioned in the provided text\?")
_PLACE = re.compile(r"What is the (\w+) special magic ")
COUNTED = re.compile(r'does the word "(.+)" appear in the above list\?$')
_NUMBERS = "two three four five six seven eight nine ten"
#: Number of words that a question of fwe asks for, in words.
NUMBERS = dict(enumerate(_NUMBERS.split(), start=2))
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
    frame = template_of(task, row)
    if not row.context.startswith(frame.head):
        yield f"context begins with {row.context[:40]!r}, not with the task's instruction"
    if not row.context.endswith(frame.tail):
        yield f"context ends with {row.context[-20:]!r}, not with {frame.tail!r}"
    if row.question != frame.question:
        yield f"question is {row.question[:120]!r}, the task's is {frame.question[:120]!r}"
    if row.answer_prefix != frame.prefix:
        yield f"answer_prefix is {row.answer_prefix[:120]!r}, the task's is {frame.prefix[:120]!r}"


def template_of(task: Task, row: Row) -> PromptTemplate:
    """Return the fixed text of a row's prompt, with what its question is about."""
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
    if isinstance(params, Graph):
        return _graph(params, row)
    return _cwe(params, row) if isinstance(params, Cwe) else _fwe(params)


def question_of(row: Row) -> str:
    """Return the question, which may stand before the text."""
    return row.question or row.context.partition("\n\n")[0]


def _niah(params: Niah, row: Row) -> PromptTemplate:
    found, place = _QUERY.search(question_of(row)), _PLACE.match(question_of(row))
    query = found[1] if found else "KEY"
    which_one = f"{place[1]} " if params.ordinal and place else ""
    kind, one = params.value_type, params.value_type.removesuffix("s")
    single = params.queries * params.values == 1 or params.ordinal
    several = not single or params.ordinal or params.wording == "associated"
    verb, which, asked = ("is", "is", one) if single else ("are", "are all", kind)
    question = (
        f"What {which} the {which_one}special magic {asked} for {query} mentioned in the provided "
        "text?"
        + (" If the provided text does not mention it, answer: none." * (params.none != "no"))
    )
    head = _instruction(params, several, kind if several else one)
    return PromptTemplate(
        head=head if params.question_at == "after" else f"{question}\n\n{head}",
        tail="\n",
        question="" if params.question_at == "before" else question,
        prefix=(
            f" The {which_one}special magic {asked} for {query} mentioned in the provided text "
            f"{verb}"
        ),
    )


def _instruction(params: Niah, several: bool, kind: str) -> str:
    hidden = "Some special magic {} are" if several else "A special magic {} is"
    hidden = hidden.format(kind) + " hidden within the following text"
    quiz = f"Make sure to memorize it. I will quiz you about the {kind} afterwards"
    if params.wording == "associated":
        return (
            f"{hidden}, each of them for one thing. {quiz} and describe the thing in other words.\n"
        )
    if params.instruction == "upstream":
        return f"{hidden}. {quiz}.\n"
    if params.instruction == "short":
        return f"Find the special magic {kind} in this text.\n"
    if several:
        return (
            f"Below is a long text. Some of its sentences state special magic {kind}, and all the "
            "others are of no importance. Read the text to its end and remember all special magic "
            f"{kind} together with their keys, because a question about them follows.\n"
        )
    return (
        f"Below is a long text. One or more of its sentences state a special magic {kind}, and all "
        "the others are of no importance. Read the text to its end and remember every special "
        f"magic {kind} together with its key, because a question about it follows.\n"
    )


def _vt(params: Vt, row: Row) -> PromptTemplate:
    found = _VALUE.search(row.question)
    value = found[1] if found else "VALUE"
    scrambled = " The assignments are in no particular order." * (params.order == "scrambled")
    return PromptTemplate(
        head=(
            "Memorize and track the chain(s) of variable assignment hidden in the following text."
            f"{scrambled}\n\n"
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


def _cwe(params: Cwe, row: Row) -> PromptTemplate:
    head = (
        "Below is a numbered list of words. In these words, some appear more often than others. "
        "Memorize "
    )
    if params.ask == "count":
        found = COUNTED.search(row.question)
        word = found[1] if found else "WORD"
        return PromptTemplate(
            head=f"{head}how often each of them appears.\n1. ",
            tail="\n",
            question=f'Question: How many times does the word "{word}" appear in the above list?',
            prefix=f' Answer: The number of times that the word "{word}" appears in the list is:',
        )
    return PromptTemplate(
        head=f"{head}the ones that appear most often.\n1. ",
        tail="\n",
        question=f"Question: What are the {params.common} most common words in the above list?",
        prefix=(f" Answer: The top {params.common} words that appear most often in the list are:"),
    )


def _fwe(params: Fwe) -> PromptTemplate:
    number = NUMBERS[params.top]
    return PromptTemplate(
        head=(
            "Read the following coded text and track the frequency of each coded word. Find the "
            f"{number} most frequently appeared coded words. "
        ),
        tail="\n",
        question=(
            "Question: Do not provide any explanation. Please ignore the dots '....'. What are the "
            f"{number} most frequently appeared words in the above coded text?"
        ),
        prefix=(
            f" Answer: According to the coded text above, the {number} most frequently appeared "
            "words are:"
        ),
    )


def _graph(params: Graph, row: Row) -> PromptTemplate:
    found = re.search(r"[A-Z]{5}", row.question)
    node = found[0] if found else "NODE"
    if params.ask == "parents":
        asked, answer = f"nodes that have an edge to {node}", f"nodes have an edge to {node}"
    else:
        reached = f"can be reached from {node} within {params.steps} steps"
        asked, answer = f"nodes other than {node} that {reached}", f"other nodes {reached}"
    return PromptTemplate(
        head=(
            "Memorize the directed graph in the following list of edges, where A -> B is an edge "
            "from A to B.\n\n"
        ),
        tail="\n",
        question=f"Question: Find all {asked} in the list above.",
        prefix=(
            f" Answer: According to the list of edges above, {params.answers} {answer}, they are: "
        ),
    )
