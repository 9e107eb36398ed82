"""Question answering, as upstream draws it (`qa.py`).

Known defects, kept: questions are taken in order, so that 500 rows are of the first few articles;
all rows with the same number of documents have the gold one at the same place; until 2025-05, once
all documents are needed, shuffling them changes what later rows know by their numbers.
"""

from collections.abc import Iterator
from typing import NamedTuple

from ruler_builders import prompts
from ruler_builders.upstream.state import Draft, State, UpstreamRow, endless, texts
from ruler_data.tasks import Qa

TEMPLATE, PREFIX = texts(prompts.qa(Qa("squad"), "{query}"))

STEP = 10


class Question(NamedTuple):
    """A question, its answers, and documents.

    Attributes:
        own: numbers of the documents that always stand in its rows.
        near: numbers of those that come next.
        gold: texts of the documents that the answer rests on.
    """

    query: str
    outputs: list[str]
    own: list[int]
    near: list[int]
    gold: list[str]


def replay(state: State, documents: list[str], questions: list[Question]) -> Iterator[UpstreamRow]:
    """Yield the rows of a task."""
    arguments, draws = state.arguments, _Rows(state, documents, questions)
    size = state.size(lambda used: draws.draw(0, used), STEP, cap=len(documents))

    def draw(index: int, used: int) -> Draft:
        if index >= len(questions):
            raise endless(
                arguments, index, f"there are {len(questions)} questions", "build fewer rows"
            )
        return draws.draw(index, used)

    for index, draft, length in state.rows(draw, size, STEP):
        yield state.finish(index, draft, length, PREFIX)


class _Rows:
    def __init__(self, state: State, documents: list[str], questions: list[Question]) -> None:
        self._state, self._documents, self._questions = state, list(documents), questions
        self._template = state.arguments.template.format(task_template=TEMPLATE) + PREFIX

    def draw(self, number: int, size: int) -> Draft:
        """Draw a row of the question of this number among so many documents."""
        question = self._questions[number]
        listed = self._state.shuffled(self._choose(question, size))
        if size >= len(self._documents) and not self._state.arguments.edition.bisects:
            self._documents = listed
        context = "\n\n".join([f"Document {n}:\n{text}" for n, text in enumerate(listed, 1)])
        prompt = self._template.format(context=context, query=question.query)
        return Draft(prompt, question.outputs, question.gold)

    def _choose(self, question: Question, size: int) -> list[str]:
        """Return the documents of a row: its own, near ones, then others; or all of them."""
        documents, sample = self._documents, self._state.random.sample
        if size >= len(documents):
            if not self._state.arguments.edition.bisects:
                return documents
            return (documents * -(-size // len(documents)))[:size]
        wanted = size - len(question.own)
        if wanted > len(question.near):
            known = {*question.own, *question.near}
            others = [number for number in range(len(documents)) if number not in known]
            chosen = question.near + sample(others, wanted - len(question.near))
        else:
            chosen = sample(question.near, wanted)
        return [documents[number] for number in question.own + chosen]
