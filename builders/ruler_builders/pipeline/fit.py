"""Fit: find the fullest haystack with which the finished prompt of a row is within its length."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from itertools import accumulate, islice, pairwise

import numpy as np

from ruler_builders.rows.row_template import Haystack, RowTemplate, Spans
from ruler_builders.rows.segments import SLACK
from ruler_builders.rows.tokenized_sources import TokenizedSources
from ruler_builders.tasks import draw
from ruler_data.errors import BudgetError, RulerError, UsageError
from ruler_data.row import PackedRow, Span
from ruler_data.tasks import Task
from ruler_data.tokenizers import PromptTokenizer

#: Rows of a batch, which are all drawn, then planned, then fitted; and the most tokens of a batch
#: of several rows, since it is held in memory.
ROWS_AT_ONCE, TOKENS_AT_ONCE = 20, 2**21

#: Attempts for each row. For known tokenizers the first is exact; others need corrections.
ATTEMPTS = 12

#: Tokens from which on every row of a task that ends at an exact token has text enough to do so.
EXACT_FROM = 1024


@dataclass(frozen=True)
class Target:
    """The length of rows, and what template and user reserve of it, all in tokens."""

    length: int
    template_reserve: int
    extra_reserve: int = 0

    def budget(self, task: Task) -> int:
        """Return the tokens that a prompt's own text may take."""
        reserved = task.max_new_tokens + self.template_reserve + self.extra_reserve
        return self.length - reserved


def make_row(task: Task, sources: TokenizedSources, index: int, target: Target) -> PackedRow:
    """Draw and fit one row; it does not depend on what else is built, where or in which order."""
    return next(make_rows(task, sources, [index], target))


def make_rows(
    task: Task,
    sources: TokenizedSources,
    indices: Iterable[int],
    target: Target,
    exhausted: set[str] | None = None,
) -> Iterator[PackedRow]:
    """Draw and fit rows, batched in groups of 20 so that each stage stays in the processor's cache.

    Sources that run out are added to `exhausted`.

    Raises:
        BudgetError: a row does not fit with an empty haystack.
    """
    length = target.length
    budget = target.budget(task)
    at_once = max(min(TOKENS_AT_ONCE // max(length, 1), ROWS_AT_ONCE), 1)
    remaining = iter(indices)
    while batch := list(islice(remaining, at_once)):
        templates = [draw(task, sources, index, length, budget) for index in batch]
        frames = sources.tokenizer.count([template.prompt.text for template in templates])
        rooms = [
            budget - task.below(index) - frame for index, frame in zip(batch, frames, strict=True)
        ]
        haystacks = [template.fill(room) for template, room in zip(templates, rooms, strict=True)]
        for plan in zip(batch, templates, rooms, haystacks, strict=True):
            row, note = _fit(task, *plan, sources, target)
            if note and exhausted is not None:
                exhausted.add(note)
            yield row


def need(task: Task, sources: TokenizedSources, index: int, target: Target) -> int:
    """Return a length in tokens at which a row can be made; for nearly all tasks, the smallest.

    The vocabulary of fwe depends on the length, and so does what its smallest text costs.
    """
    least = 0
    while (tokens := least_length(task, sources, index, target)) > least:
        least = tokens
        target = replace(target, length=tokens)
    return least


def least_length(task: Task, sources: TokenizedSources, index: int, target: Target) -> int:
    """Return the length in tokens of a row that is drawn for a target, with an empty haystack."""
    try:
        template = draw(task, sources, index, target.length, target.budget(task))
        text = _text(template, template.fill(0))
    except BudgetError as error:
        return error.need
    prompt = sources.tokenizer.count_prompt(text, template.prompt.prefix)
    return prompt + task.max_new_tokens + target.extra_reserve + task.below(index)


def answer_need(task: Task, sources: TokenizedSources, index: int, target: Target) -> int:
    """Return the tokens of the shortest text that names what a row asks for."""
    outputs = draw(task, sources, index, target.length, target.budget(task)).outputs
    texts = outputs if task.metric in ("part", "soft_part") else [" ".join(outputs)]
    return min(sources.tokenizer.count(texts))


def _fit(
    task: Task,
    index: int,
    template: RowTemplate,
    room: int,
    haystack: Haystack,
    sources: TokenizedSources,
    target: Target,
) -> tuple[PackedRow, str]:
    """Return the row of a template whose length is within the target and closest to it.

    The second value names the source that ran out, if one did.

    The haystack was planned for the room (tokens). If the count of the finished prompt differs, the
    room is corrected by the difference and the haystack is filled again.
    """
    length, haystack, text = _closest(task, index, template, room, haystack, sources, target)
    start = len(template.prompt.head.encode())
    question = len(template.prompt.question.encode())
    end = len(text) - len(template.prompt.tail.encode()) - question
    edges = in_characters(text, np.array([start, *(haystack.evidence.ravel() + start), end]))
    row = PackedRow(
        index=index,
        task=task.name,
        context=memoryview(text)[: len(text) - question],
        question=template.prompt.question,
        answer_prefix=template.prompt.prefix,
        outputs=template.outputs,
        max_new_tokens=task.max_new_tokens,
        length=length,
        evidence=edges[1:-1].reshape(-1, 2),
        haystack=Span(int(edges[0]), int(edges[-1])),
    )
    return row, haystack.exhausted


def _closest(
    task: Task,
    index: int,
    template: RowTemplate,
    room: int,
    haystack: Haystack,
    sources: TokenizedSources,
    target: Target,
) -> tuple[int, Haystack, bytes]:
    """Return length, haystack and text of the prompt that is within the target and closest."""
    limit = target.length - target.extra_reserve - task.below(index)
    best: tuple[int, Haystack, bytes] | None = None
    for attempt in range(ATTEMPTS):
        if attempt:
            haystack = template.fill(room)
        text = _text(template, haystack)
        prompt = sources.tokenizer.count_prompt(text, template.prompt.prefix)
        length = prompt + task.max_new_tokens
        if length > limit:
            if not haystack.segments:
                raise BudgetError(task.name, length + target.extra_reserve, target.length)
            room -= length - limit
            if best is None:
                room -= attempt  # break a cycle of rooms
            continue
        if best is None or length > best[0]:
            best = length, haystack, text
        gap = (limit - length) - (room - haystack.cost)
        if gap <= (0 if task.is_exact else SLACK):
            break
        room += gap
    if best is None or (task.is_exact and best[0] != limit):
        raise _unfitted(task, index, target)
    return best


def _unfitted(task: Task, index: int, target: Target) -> RulerError:
    """Return the error for a row of which no haystack is near enough to the target."""
    problem = f"row {index} cannot be fitted into {target.length} tokens"
    if task.is_exact and target.length < EXACT_FROM:
        remedy = f"use --lengths of at least {EXACT_FROM}"
        return UsageError(task.name, f"{problem}, which it has to fill exactly; {remedy}")
    return RulerError(task.name, f"{problem}; please report this")


def in_characters(text: bytes, spans: Spans) -> Spans:
    """Return rising places or ordered spans in bytes of a text's UTF-8 in characters.

    >>> in_characters("Zoë was here".encode(), np.array([[0, 4], [5, 8]])).tolist()
    [[0, 3], [4, 7]]
    """
    if text.isascii():
        return spans
    # Continuation bytes of UTF-8 are 0b10xxxxxx: as signed numbers, below -64.
    signed = np.frombuffer(text, dtype=np.int8)
    edges = pairwise([0, *spans.ravel().tolist()])
    later = accumulate(int(np.count_nonzero(signed[start:end] < -64)) for start, end in edges)
    return spans - np.array(list(later), dtype=np.int64).reshape(spans.shape)


def _text(template: RowTemplate, haystack: Haystack) -> bytes:
    """Return context and question in UTF-8."""
    after = template.prompt.tail + template.prompt.question
    return b"".join((template.prompt.head.encode(), *haystack.pieces, after.encode()))


#: Tokens of the rows of a config that are checked: at least one row, and at most three.
CHECKED_TOKENS = 16_384


def checked_rows(rows: int, length: int) -> frozenset[int]:
    """Return the rows of a config whose prompt is rendered, and counted by the reference library.

    A fast counter is tested before it is used; this notices a difference that those texts miss.
    Counting all rows would cost more than building them.

    >>> [sorted(checked_rows(500, length)) for length in (4096, 32768, 65536, 131072)]
    [[0, 250, 499], [250], [499], [0]]
    """
    first = length.bit_length() % 3  # another one at each length
    places = (0, rows // 2, rows - 1) * 2
    return frozenset(places[first : first + min(max(CHECKED_TOKENS // length, 1), 3)])


def recount(tokenizer: PromptTokenizer, row: PackedRow) -> int:
    """Return the length of a row (tokens, room for the answer included) by the reference."""
    content = str(row.context, "utf-8") + row.question
    return tokenizer.recount_prompt(content, row.answer_prefix) + row.max_new_tokens
