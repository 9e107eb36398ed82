"""Fitting: the fullest haystack with which a row's finished prompt is within its length."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from itertools import accumulate, islice, pairwise

import numpy as np

from ruler_builders.rows.row_template import Haystack, RowTemplate, Spans
from ruler_builders.rows.segments import SLACK
from ruler_builders.rows.tokenized_sources import TokenizedSources
from ruler_builders.tasks import draw
from ruler_data.errors import BudgetError, RulerError
from ruler_data.row import PackedRow
from ruler_data.tasks import Task

#: Rows that are drawn one after another, then planned, then fitted; and tokens of all of them at
#: the most, unless one row has more, since what is planned is held.
ROWS_AT_ONCE, TOKENS_AT_ONCE = 20, 2**21

#: Plans are exact for the tokenizers we know; a stranger gets this many corrections a row.
ATTEMPTS = 12


@dataclass(frozen=True)
class Target:
    """What rows are fitted to.

    Attributes:
        length: the config's length, in tokens.
        template_reserve: tokens that the chat template adds around one user turn.
        extra_reserve: tokens that stay free beyond that.
    """

    length: int
    template_reserve: int
    extra_reserve: int = 0

    def budget(self, task: Task) -> int:
        """Return the tokens that a prompt's own text may take."""
        reserved = task.max_new_tokens + self.template_reserve + self.extra_reserve
        return self.length - reserved


@dataclass(frozen=True)
class Fitted:
    """A finished row, and which source ran out in it and was repeated (empty for none)."""

    row: PackedRow
    exhausted: str


@dataclass(frozen=True)
class _Plan:
    """A draft, the room (tokens) that its haystack has, and the fullest body planned for that."""

    draft: RowTemplate
    room: int
    body: Haystack


def make_row(task: Task, sources: TokenizedSources, index: int, target: Target) -> Fitted:
    """Draw and fit one row; the same whatever else is built, wherever and in whatever order.

    Raises:
        BudgetError: the row does not fit with an empty haystack.
    """
    return next(make_rows(task, sources, [index], target))


def make_rows(
    task: Task, sources: TokenizedSources, indices: Iterable[int], target: Target
) -> Iterator[Fitted]:
    """Draw and fit rows; a few take each step together, while the processor still knows how.

    Raises:
        BudgetError: a row does not fit with an empty haystack.
    """
    length, budget = target.length, target.budget(task)
    at_once = max(min(TOKENS_AT_ONCE // max(length, 1), ROWS_AT_ONCE), 1)
    rest = iter(indices)
    while batch := list(islice(rest, at_once)):
        drafts = [draw(task, sources, index, length, budget) for index in batch]
        rooms = [budget - _frame(draft, sources) for draft in drafts]
        plans = [_Plan(one, room, one.fill(room)) for one, room in zip(drafts, rooms, strict=True)]
        for index, plan in zip(batch, plans, strict=True):
            yield _fit(task, plan, sources, index, target)


def need(task: Task, sources: TokenizedSources, index: int, target: Target) -> int:
    """Return the least length, in tokens, at which a row can be made."""
    try:
        draft = draw(task, sources, index, target.length, target.budget(task))
        text = _text(draft, draft.fill(0))
        prompt = sources.tokenizer.count_prompt(text, draft.answer_prefix)
        least = prompt + task.max_new_tokens + target.extra_reserve
        if least < target.length:  # fwe's vocabulary shrinks with its length, and may vanish
            shorter = replace(target, length=least)
            draw(task, sources, index, least, shorter.budget(task))
    except BudgetError as error:
        return error.need
    return least


def _frame(draft: RowTemplate, sources: TokenizedSources) -> int:
    """Return the tokens of all that stands around the haystack."""
    text = draft.head + draft.tail + draft.question + draft.answer_prefix
    return sources.tokenizer.count([text])[0]


def _fit(task: Task, plan: _Plan, sources: TokenizedSources, index: int, target: Target) -> Fitted:
    """Return the row of a draft whose real length is within the target and closest to it.

    The plan is checked against the count of the finished prompt. Where the two differ, the room
    is corrected by the difference and the haystack filled again.

    Raises:
        BudgetError: it does not fit with an empty haystack.
    """
    limit = target.length - target.extra_reserve
    draft, room, body = plan.draft, plan.room, plan.body
    best: tuple[int, Haystack, bytes] | None = None
    for attempt in range(ATTEMPTS):
        if attempt:
            body = draft.fill(room)
        text = _text(draft, body)
        prompt = sources.tokenizer.count_prompt(text, draft.answer_prefix)
        length = prompt + task.max_new_tokens
        if length <= limit:
            if best is None or length > best[0]:
                best = length, body, text
            missed = (limit - length) - (room - body.cost)
            if missed <= SLACK:
                break
            room += missed
        elif not body.segments:
            raise BudgetError(task.name, length + target.extra_reserve, target.length)
        else:
            room -= length - limit + (attempt if best is None else 0)  # leave a cycle of rooms
    if best is None:
        msg = f"{task.name} row {index}: no size fits {target.length} tokens; please report this"
        raise RulerError(msg)
    length, body, text = best
    row = PackedRow(
        index=index,
        task=task.name,
        context=memoryview(text)[: len(text) - len(draft.question.encode())],
        question=draft.question,
        answer_prefix=draft.answer_prefix,
        outputs=draft.outputs,
        max_new_tokens=task.max_new_tokens,
        length=length,
        evidence=in_characters(text, body.evidence + len(draft.head.encode())),
    )
    return Fitted(row, body.exhausted)


def in_characters(text: bytes, spans: Spans) -> Spans:
    """Return spans that follow one another in a text's UTF-8 (bytes) as spans of its characters.

    >>> in_characters("Zoë was here".encode(), np.array([[0, 4], [5, 8]])).tolist()
    [[0, 3], [4, 7]]
    """
    if text.isascii():
        return spans
    # All bytes of a character but its first are 0b10xxxxxx, as a signed number below -64.
    signed = np.frombuffer(text, dtype=np.int8)
    edges = pairwise([0, *spans.ravel().tolist()])
    later = accumulate(int(np.count_nonzero(signed[start:end] < -64)) for start, end in edges)
    return spans - np.array(list(later), dtype=np.int64).reshape(spans.shape)


def _text(draft: RowTemplate, body: Haystack) -> bytes:
    """Return context and question."""
    after = draft.tail + draft.question
    return b"".join((draft.head.encode(), *body.pieces, after.encode()))
