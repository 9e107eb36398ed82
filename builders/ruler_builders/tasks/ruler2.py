"""RULER v2 (`mk_niah_*`, `mv_niah_*`, `qa_*`): find, copy and solve labelled texts.

    Question 4821377: Which gas do plants take in? A. Oxygen B. Nitrogen C. Carbon dioxide D. Argon

    Question 9013342: ...

    Please solve the Question 4821377 from the context with an answer from A, B, C, D.

Every haystack is a list of labelled texts: numbers with keys (basic), questions of multiple choice
from MMLU, or documents from HotpotQA. Labels are random, so none tells a place. The queried texts
keep their labels at every length; the other texts are labelled by place.

Source: NVIDIA-NeMo/Skills, `nemo_skills/dataset/ruler2`. What differs is in docs/decisions.md.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import lru_cache, partial

import numpy as np
import pyarrow.compute as pc
from numpy.typing import NDArray

from ruler_builders import prompts
from ruler_builders.prompts import Example, PromptTemplate
from ruler_builders.rows.randomness import depth, distinct, permutation, rng
from ruler_builders.rows.row_template import Haystack, Needle, RowTemplate, slots
from ruler_builders.rows.segments import SPARE, Segments, choose, count_segments, spell
from ruler_builders.rows.tokenized_sources import TokenizedSources
from ruler_builders.sources import Choice, Question
from ruler_builders.tasks.qa import distractors, question_order
from ruler_data.tasks import Ruler2

#: Solved questions of the haystack in front of a question that is to be solved.
EXAMPLES = 5
#: Most characters of the gold documents of a question, so that an answer can copy them.
LONGEST = 1500
#: Row i takes its labels from place i * STRIDE modulo BEGINNINGS of their stream on.
STRIDE = 499
BEGINNINGS = 4096
#: Least label, a number of seven digits.
_LABEL = 10**6
#: Least value, a number of ten digits.
_VALUE = 10**9

Numbers = NDArray[np.intp]


@dataclass(frozen=True)
class _Plan:
    """The question of a row, and the texts around it.

    Attributes:
        prompt: the text around the haystack.
        outputs: gold answers.
        needles: labelled texts that are in every haystack, by depth.
        texts: returns texts and the numbers of those that exceed a room (tokens), the preferred
            ones first.
        stream: the stream of the labels.
        taken: numbers of that stream that needles have.
        preferred: how many texts are preferred.
        note: which questions repeat over rows; empty for none.
    """

    prompt: PromptTemplate
    outputs: tuple[str, ...]
    needles: Sequence[Needle]
    texts: Callable[[int], tuple[Segments, Numbers]]
    stream: str
    taken: Numbers
    preferred: int = 0
    note: str = ""


def draw(
    name: str, params: Ruler2, sources: TokenizedSources, index: int, length: int, budget: int
) -> RowTemplate:
    """Draw one row; see `ruler_builders.tasks.draw`."""
    neighbours = ("\n\n", "The")
    if params.kind == "qa":
        plan = _documents(name, params, sources, index)
    elif params.level == "basic":
        plan = _keys(name, params, sources, index)
        neighbours = ("\n", "One")
    else:
        plan = _questions(name, params, sources, index)
    row = (sources.seed, name, index)
    texts = [needle.text for needle in plan.needles]
    tokens = int(count_segments(sources.tokenizer, texts, *neighbours).sum())

    def fill(room: int) -> Haystack:
        texts, order = plan.texts(max(room, 0))
        labels, numbers = _window(sources, plan.stream, index, len(order), plan.taken)
        numbers = np.repeat(numbers, params.copies)[: len(order)]
        costs = labels.costs[numbers]
        picks = choose(texts.costs[order], room - tokens, costs, plan.preferred)
        ordered = order[picks][permutation(rng(*row, "order"), len(picks))]
        numbers = numbers[: len(picks)][permutation(rng(*row, "labels"), len(picks))]
        totals = (texts.costs[ordered] + labels.costs[numbers]).cumsum()
        places = slots([needle.depth for needle in plan.needles], totals)
        text, edges = spell((labels, numbers), (texts, ordered))
        pieces, evidence = _weave(text, edges[[2 * place for place in places]], plan.needles)
        is_repeated = len(np.unique(ordered)) < len(ordered)
        notes = list[str]()
        if plan.note:
            notes.append(plan.note)
        if is_repeated:
            notes.append(f"{plan.stream}s of the haystack repeat within a row")
        cost = tokens + int(texts.costs[ordered].sum() + labels.costs[numbers].sum())
        return Haystack(pieces, evidence, cost, len(picks), "; ".join(notes))

    return RowTemplate(plan.prompt, plan.outputs, fill)


def _weave(
    text: memoryview, edges: NDArray[np.int64], needles: Sequence[Needle]
) -> tuple[list[bytes | memoryview], NDArray[np.int64]]:
    """Return a text with needles inserted at its edges (bytes), and the spans of the evidence."""
    pieces = list[bytes | memoryview]()
    spans = list[tuple[int, int]]()
    before = 0
    size = 0
    for needle, edge in zip(needles, edges.tolist(), strict=True):
        line = needle.text.encode()
        start = size + edge - before
        pieces += [text[before:edge], line]
        before = edge
        size = start + len(line)
        if needle.is_evidence:  # without the separator, and the space that some documents end in
            spans.append((start, start + len(line.rstrip())))
    return [*pieces, text[before:]], np.array(spans, dtype=np.int64)


def _keys(name: str, params: Ruler2, sources: TokenizedSources, index: int) -> _Plan:
    """Return the plan of a question about the numbers of a key."""
    source = rng(sources.seed, name, index, "needles")
    key = distinct(source, sources.compounds, 1)
    values = distinct(source, 9 * _VALUE, params.copies)
    word = sources.compound(int(key[0]))
    outputs = tuple(str(_VALUE + value) for value in values)
    texts = [f"{prompts.KEY.format(word)}{value}{prompts.PERIOD}" for value in outputs]

    def surrounding(room: int) -> tuple[Segments, Numbers]:
        streams = (_stream(sources, role, BEGINNINGS)[1] for role in ("key", "value"))
        least = sum(int(stream.costs.min()) for stream in streams)
        return _window(sources, "value", index, room // least + 2 * SPARE, values)

    prompt = prompts.ruler2(params, word)
    needles = _at_depths(sources.seed, name, index, texts)
    return _Plan(prompt, outputs, needles, surrounding, "key", key)


def _questions(name: str, params: Ruler2, sources: TokenizedSources, index: int) -> _Plan:
    """Return the plan of a query for one question of multiple choice, or four of one label."""
    seed = sources.seed
    queries = sources.choices.queries
    haystack = sources.choices.haystack
    order = question_order(seed, name, len(queries))
    turns = range(index * params.copies, (index + 1) * params.copies)
    items = [queries[order[turn % len(order)]] for turn in turns]
    labels = distinct(rng(seed, name, index, "numbers"), 9 * _LABEL, 1 + EXAMPLES)
    number, *labels_left = (str(_LABEL + fresh) for fresh in labels)
    has_examples = params.kind == "mk_niah" and params.level != "easy"
    picks = distinct(rng(seed, name, index, "examples"), len(haystack), EXAMPLES * has_examples)
    examples = [
        Example(label, haystack[pick].text, haystack[pick].letter)
        for label, pick in zip(labels_left, picks, strict=False)
    ]
    texts = [_question(number, item) for item in items]
    needles = _at_depths(seed, name, index, texts)
    copies = [
        needle.text.removeprefix(prompts.QUESTION.format(number)).strip() for needle in needles
    ]
    place = ""
    outputs = tuple(copies)
    if has_examples:
        outputs = (items[0].letter,)
    elif params.copies > 1 and params.level != "easy":
        at = rng(seed, name, index, "place").randrange(params.copies)
        place = prompts.PLACES[at]
        outputs = (outputs[at],)
    texts = [_question(example.number, example) for example in examples]
    needles += _at_depths(seed, name, index, texts, "example", evidence=0)
    drawn_order = permutation(rng(seed, name, index, "haystack"), len(haystack))
    return _Plan(
        prompts.ruler2(params, number, place, examples),
        outputs,
        sorted(needles, key=lambda needle: needle.depth),
        partial(_enough, sources.choice_texts, drawn_order[~np.isin(drawn_order, picks)]),
        "question",
        labels,
        note=_repeated("mmlu", len(queries) // params.copies, index),
    )


def _documents(name: str, params: Ruler2, sources: TokenizedSources, index: int) -> _Plan:
    """Return the plan of a query for documents, or of a question about them."""
    seed = sources.seed
    documents = sources.corpus("hotpotqa").documents
    questions = _copyable(sources)
    order = question_order(seed, name, len(questions))
    question = questions[order[index % len(order)]]
    labels = distinct(rng(seed, name, index, "numbers"), 9 * _LABEL, len(question.gold))
    numbers = tuple(str(_LABEL + number) for number in labels)
    gold = [documents[place] for place in question.gold]
    texts = [
        f"{prompts.DOCUMENT.format(number)}{text}{prompts.EMPTY_LINE}"
        for number, text in zip(numbers, gold, strict=True)
    ]
    wrong = distractors(seed, name, index, question, len(documents))
    is_free = ~_holding(sources, question.answers)[wrong]
    query = question.text
    outputs = question.answers
    evidence = 2
    if params.level == "easy":
        outputs = numbers
    elif params.level == "basic":
        query = gold[0]
        outputs = numbers[:1]
        evidence = 1
    return _Plan(
        prompts.ruler2(params, query),
        outputs,
        _at_depths(seed, name, index, texts, evidence=evidence),
        partial(_enough, sources.documents("hotpotqa"), wrong[is_free]),
        "document",
        labels,
        int(is_free[: len(question.near)].sum()),
        _repeated("hotpotqa", len(questions), index),
    )


def _question(number: str, choice: Choice | Example) -> str:
    return f"{prompts.QUESTION.format(number)}{choice.text}{prompts.EMPTY_LINE}"


def _at_depths(
    seed: int,
    name: str,
    index: int,
    texts: Sequence[str],
    role: str = "needle",
    evidence: int = 4,
) -> list[Needle]:
    """Return texts as needles, by depth; the first ones, so many, are evidence."""
    needles = [
        Needle(text, depth(seed, name, index, f"{role} {number}"), number < evidence)
        for number, text in enumerate(texts)
    ]
    return sorted(needles, key=lambda needle: needle.depth)


def _repeated(source: str, rows: int, index: int) -> str:
    if index < rows:
        return ""
    return f"{source} has questions for {rows} rows: rows from {rows} on repeat them"


def _enough(texts: Segments, order: Numbers, room: int) -> tuple[Segments, Numbers]:
    """Return texts, and numbers in this order, all as often as needed to exceed a room."""
    totals = texts.costs[order].cumsum()
    order = np.tile(order, 2 + room // int(totals[-1]))
    return texts, order[: 2 * SPARE + int(texts.costs[order].cumsum().searchsorted(room))]


@lru_cache(maxsize=2)
def _copyable(sources: TokenizedSources) -> list[Question]:
    """Return the questions whose gold documents are short enough to be copied."""
    corpus = sources.corpus("hotpotqa")
    copyable = list[Question]()
    for question in corpus.questions:
        size = sum(len(corpus.documents[place]) for place in question.gold)
        if size <= LONGEST:
            copyable.append(question)
    return copyable


@lru_cache(maxsize=512)
def _holding(sources: TokenizedSources, answers: tuple[str, ...]) -> NDArray[np.bool_]:
    """Return which documents hold an answer, as scorers search it; none hold a yes or a no."""
    texts = sources.documents("hotpotqa").texts
    is_holding = np.zeros(len(texts), dtype=bool)
    for answer in answers:
        if answer not in ("yes", "no"):
            is_holding |= pc.match_substring(texts, answer, ignore_case=True).to_numpy(False)
    return is_holding


def _window(
    sources: TokenizedSources, role: str, index: int, size: int, taken: Numbers
) -> tuple[Segments, Numbers]:
    """Return a stream, and the places of the texts that row `index` may take, in order."""
    places = index * STRIDE % BEGINNINGS + np.arange(size + len(taken))
    numbers, texts = _stream(sources, role, 1 << int(places[-1]).bit_length())
    return texts, places[~np.isin(numbers[places], taken)][:size]


@lru_cache(maxsize=16)
def _stream(sources: TokenizedSources, role: str, size: int) -> tuple[Numbers, Segments]:
    """Return different labels or values, the same for all rows: numbers, and texts with tokens.

    Fewer are a prefix of more.
    """
    form, before, after = {
        "key": (prompts.KEY, "\n", " 1"),
        "value": (f"{{}}{prompts.PERIOD}", ":", "One"),
        "question": (prompts.QUESTION, "\n\n", " The"),
        "document": (prompts.DOCUMENT, "\n\n", "The"),
    }[role]
    source = rng(sources.seed, "ruler2", 0, role)
    if role == "key":
        numbers = distinct(source, sources.compounds, size)
        texts = [form.format(sources.compound(number)) for number in numbers.tolist()]
    else:
        least = _LABEL
        if role == "value":
            least = _VALUE
        numbers = distinct(source, 9 * least, size)
        texts = [form.format(number) for number in (least + numbers).tolist()]
    # A space belongs to the token on its right, so a label leaves it to its text.
    counted = [text.rstrip(" ") for text in texts]
    if role == "value":
        counted = [f" {text}" for text in texts]
    return numbers, Segments.of(texts, count_segments(sources.tokenizer, counted, before, after))
