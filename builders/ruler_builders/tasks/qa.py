"""Question answering (`qa_1`, `qa_2`): answer from gold documents among distracting ones.

    Document 1:
    The Norman dynasty had a major political, cultural and military impact ...

    Document 2: ...

Source: RULER, arXiv 2404.06654, section 3.4, over SQuAD and HotpotQA. The baseline of its Figure 3
asks the questions of `qa_1` and `qa_2` without documents.
"""

from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from ruler_builders import prompts
from ruler_builders.rows.randomness import depth, permutation, rng
from ruler_builders.rows.row_template import Haystack, RowTemplate, Spans, slots
from ruler_builders.rows.segments import Segments, choose, spell
from ruler_builders.rows.tokenized_sources import TokenizedSources
from ruler_builders.sources import Corpus, Question
from ruler_data.parquet import NO_SPANS
from ruler_data.tasks import Qa

_LABEL = "Document {}:\n"

#: By source, the task whose questions a task without documents repeats.
_QUESTIONS_OF = {"squad": "qa_1", "hotpotqa": "qa_2"}


def draw(
    name: str, params: Qa, sources: TokenizedSources, index: int, length: int, budget: int
) -> RowTemplate:
    """Draw one row; see `ruler_builders.tasks.draw`."""
    seed = sources.seed
    source = params.source
    corpus = sources.corpus(source)
    if params.documents == "none":
        question = _question(corpus, seed, _QUESTIONS_OF.get(source, name), index)
        nothing = Haystack([], NO_SPANS, 0, 0)
        return RowTemplate(prompts.qa(params, question.text), question.answers, lambda _: nothing)
    documents = sources.documents(source)
    question = _question(corpus, seed, name, index)
    depths = [depth(seed, name, index, f"document {n}") for n in range(len(question.gold))]
    needles = np.array([gold for _, gold in sorted(zip(depths, question.gold, strict=True))])
    ranked = distractors(seed, name, index, question, len(documents))

    def fill(room: int) -> Haystack:
        # A source that does not fill the room is repeated, gold documents like all others: no
        # count tells which they are. A last, incomplete round takes any documents.
        rounds = _rounds(sources, documents, room)
        labels = sources.labels(_LABEL, (rounds + 1) * len(documents), "\n\n", "The")
        fixed = needles
        spare = ranked
        first = len(question.near)
        if rounds:
            whole_rounds = np.tile(np.arange(len(documents)), rounds - 1)
            fixed = np.concatenate([needles, ranked, whole_rounds])
            spare = permutation(rng(seed, name, index, "last round"), len(documents))
            first = 0
        base = int(documents.costs[fixed].sum() + labels.before[len(fixed)])
        picks = choose(documents.costs[spare], room - base, labels.costs[len(fixed) :], first)
        distractors = np.concatenate([fixed[len(needles) :], spare[picks]])
        order = permutation(rng(seed, name, index, "order"), len(distractors))
        distractors = distractors[order]
        places = slots(sorted(depths), documents.costs[distractors].cumsum())
        order = np.insert(distractors, places, needles)
        text, evidence = _spell(documents, order, labels, np.flatnonzero(np.isin(order, needles)))
        cost = int((documents.costs[order] + labels.costs[: len(order)]).sum())
        note = ""
        if rounds:
            note = f"{source} documents, the gold ones too, repeat within a row"
        return Haystack([text], evidence, cost, len(distractors), note)

    return RowTemplate(prompts.qa(params, question.text), question.answers, fill)


def _spell(
    documents: Segments, order: NDArray[np.intp], labels: Segments, marks: NDArray[np.intp]
) -> tuple[memoryview, Spans]:
    """Return documents with their labels, and the spans (bytes) of marked ones."""
    text, offsets = spell((labels, np.arange(len(order))), (documents, order))
    spans = offsets[1:].reshape(-1, 2)[marks].tolist()
    # Documents end in an empty line, and some of HotpotQA's in a space before it.
    sizes = [len(bytes(text[a : b - 2]).rstrip(b" ")) for a, b in spans]
    return text[:-2], np.array([(a, a + size) for (a, _), size in zip(spans, sizes, strict=True)])


def _rounds(sources: TokenizedSources, documents: Segments, room: int) -> int:
    """Return how often all documents with their labels fit into a room of tokens."""
    rounds = max(room, 0) // documents.total
    while rounds:
        size = rounds * len(documents)
        labels = sources.labels(_LABEL, size, "\n\n", "The")
        if documents.total * rounds + int(labels.before[size]) <= room:
            break
        rounds -= 1
    return rounds


def _question(corpus: Corpus, seed: int, name: str, index: int) -> Question:
    """Return the question of a row."""
    order = question_order(seed, name, len(corpus.questions))
    return corpus.questions[order[index % len(order)]]


@lru_cache(maxsize=8)
def question_order(seed: int, name: str, size: int) -> list[int]:
    """Return the order of questions over rows; each comes once before any is repeated."""
    order: list[int] = permutation(rng(seed, name, 0, "questions"), size).tolist()
    return order


def distractors(
    seed: int, name: str, index: int, question: Question, size: int
) -> NDArray[np.intp]:
    """Return all other documents in the order of preference: near ones first, then any."""
    order = permutation(rng(seed, name, index, "distractors"), size)
    rank = np.ones(size, dtype=np.int8)  # 0: near, 1: any other, 2: gold, which is no distractor
    rank[list(question.near)] = 0
    rank[list(question.gold)] = 2
    ranks = rank[order]
    return np.concatenate([order[ranks == 0], order[ranks == 1]])


def repeated(corpus: Corpus, params: Qa, rows: int) -> list[str]:
    """Return a note if a config has more rows than its source has questions."""
    size = len(corpus.questions)
    if rows <= size:
        return []
    return [f"{params.source} has {size} questions: rows from {size} on repeat these questions"]
