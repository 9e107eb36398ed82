"""Question answering, as upstream draws it (`qa.py`).

Known defects, kept: questions are taken in order, so that 500 rows are of the first few articles;
all rows with the same number of documents have the gold one at the same place; until 2025-05, once
all documents are needed, shuffling them changes what later rows know by their numbers.
"""

from collections.abc import Iterator
from itertools import cycle, islice

from ruler_builders import prompts
from ruler_builders.upstream.sources import Question, UpstreamSources
from ruler_builders.upstream.state import Draft, State, UpstreamRow, texts
from ruler_data.tasks import Qa

TEMPLATE, PREFIX = texts(prompts.qa(Qa("squad"), "{query}"))

STEP = 10


def replay(state: State, sources: UpstreamSources) -> Iterator[UpstreamRow]:
    """Yield the rows of a task."""
    arguments = state.arguments
    sample = state.random.sample
    bisects = arguments.edition.bisects
    params = arguments.task.params
    assert isinstance(params, Qa)
    documents, questions = sources.corpus(params.source)
    template = arguments.prompt(TEMPLATE, PREFIX)

    def choose_documents(question: Question, size: int) -> list[str]:
        """Return the documents of a row: its own, near ones, then others; or all of them."""
        if size >= len(documents):
            if not bisects:
                return documents
            return [*islice(cycle(documents), size)]
        count = size - len(question.own)
        near = question.near
        if count > len(near):
            excluded = {*question.own, *near}
            distractors = [number for number in range(len(documents)) if number not in excluded]
            numbers = near + sample(distractors, count - len(near))
        else:
            numbers = sample(near, count)
        return [documents[number] for number in question.own + numbers]

    def draw(size: int, index: int = 0) -> Draft:
        nonlocal documents
        if index >= len(questions):
            reason = f"there are {len(questions)} questions"
            raise arguments.endless(index, reason, "build fewer rows")
        question = questions[index]
        row_documents = state.shuffled(choose_documents(question, size))
        if size >= len(documents) and not bisects:
            documents = row_documents
        context = "\n\n".join([f"Document {n}:\n{text}" for n, text in enumerate(row_documents, 1)])
        prompt = template.format(context=context, query=question.query)
        return Draft(prompt, question.outputs, question.gold)

    size = state.size(draw, STEP, cap=len(documents))
    yield from state.rows(draw, size, STEP, PREFIX)
