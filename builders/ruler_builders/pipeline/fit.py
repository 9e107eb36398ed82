"""Fit: find the fullest haystack with which the finished prompt of a row is within its length."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import accumulate, islice, pairwise
from typing import NamedTuple

import numpy as np

from ruler_builders.rows.row_template import Haystack, RowTemplate, Spans
from ruler_builders.rows.segments import SLACK
from ruler_builders.rows.tokenized_sources import TokenizedSources
from ruler_builders.tasks import draw
from ruler_data.errors import BudgetError, RulerError, UsageError
from ruler_data.row import PackedRow, Span
from ruler_data.tasks import Task
from ruler_data.tokenizers import PromptTokenizer

#: Rows of a batch, which are all drawn, then planned, then fitted.
ROWS_AT_ONCE = 20
#: Most tokens of a batch of several rows, since it is held in memory.
TOKENS_AT_ONCE = 2**21

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
    fitter = _Fitter(task, sources, target)
    at_once = max(min(TOKENS_AT_ONCE // max(target.length, 1), ROWS_AT_ONCE), 1)
    remaining = iter(indices)
    while batch := list(islice(remaining, at_once)):
        for row, note in fitter.rows(batch):
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
    texts = [" ".join(outputs)]
    if task.metric in ("part", "soft_part"):  # one of them is enough
        texts = [*outputs]
    return min(sources.tokenizer.count(texts))


class _Prompt(NamedTuple):
    """A haystack in its prompt: length of the row in tokens, and context and question in UTF-8."""

    length: int
    haystack: Haystack
    text: bytes


@dataclass(frozen=True)
class _Fitter:
    """Fits rows of a task to a target."""

    task: Task
    sources: TokenizedSources
    target: Target

    def rows(self, batch: Sequence[int]) -> Iterator[tuple[PackedRow, str]]:
        """Draw, plan and fit rows; yield each with the source that ran out, empty for none."""
        budget = self.target.budget(self.task)
        length = self.target.length
        templates = [draw(self.task, self.sources, index, length, budget) for index in batch]
        frames = self.sources.tokenizer.count([template.prompt.text for template in templates])
        rooms = [
            budget - self.task.below(index) - frame
            for index, frame in zip(batch, frames, strict=True)
        ]
        haystacks = [template.fill(room) for template, room in zip(templates, rooms, strict=True)]
        for index, template, room, haystack in zip(batch, templates, rooms, haystacks, strict=True):
            prompt = self._closest(index, template, room, haystack)
            yield self._row(index, template, prompt), prompt.haystack.exhausted

    def _closest(self, index: int, template: RowTemplate, room: int, haystack: Haystack) -> _Prompt:
        """Return the prompt whose length is within the target and closest to it.

        The haystack was planned for the room (tokens). If the count of the finished prompt differs,
        the room is corrected by the difference and the haystack is filled again.
        """
        limit = self.target.length - self.target.extra_reserve - self.task.below(index)
        fitting = list[_Prompt]()
        for attempt in range(ATTEMPTS):
            if attempt:
                haystack = template.fill(room)
            prompt = self._prompt(template, haystack)
            free = limit - prompt.length
            if free >= 0:
                fitting.append(prompt)
                gap = free - (room - haystack.cost)
                if gap <= self._slack:
                    break
                room += gap
            elif haystack.segments:
                room += free
                if not fitting:
                    room -= attempt  # break a cycle of rooms
            else:
                need = prompt.length + self.target.extra_reserve
                raise BudgetError(self.task.name, need, self.target.length)
        best = max(fitting, key=lambda prompt: prompt.length, default=None)
        if best is None or (self.task.is_exact and best.length != limit):
            raise self._unfitted(index)
        return best

    @property
    def _slack(self) -> int:
        """Tokens that a haystack may leave free."""
        if self.task.is_exact:
            return 0
        return SLACK

    def _prompt(self, template: RowTemplate, haystack: Haystack) -> _Prompt:
        text = _text(template, haystack)
        tokens = self.sources.tokenizer.count_prompt(text, template.prompt.prefix)
        return _Prompt(tokens + self.task.max_new_tokens, haystack, text)

    def _row(self, index: int, template: RowTemplate, prompt: _Prompt) -> PackedRow:
        fixed = template.prompt
        start = len(fixed.head.encode())
        size = len(prompt.text) - len(fixed.question.encode())
        evidence = prompt.haystack.evidence.ravel() + start
        edges = np.array([start, *evidence, size - len(fixed.tail.encode())])
        characters = in_characters(prompt.text, edges)
        return PackedRow(
            index=index,
            task=self.task.name,
            context=memoryview(prompt.text)[:size],
            question=fixed.question,
            answer_prefix=fixed.prefix,
            outputs=template.outputs,
            max_new_tokens=self.task.max_new_tokens,
            length=prompt.length,
            evidence=characters[1:-1].reshape(-1, 2),
            haystack=Span(int(characters[0]), int(characters[-1])),
        )

    def _unfitted(self, index: int) -> RulerError:
        """Return the error for a row of which no haystack is near enough to the target."""
        length = self.target.length
        problem = f"row {index} cannot be fitted into {length} tokens"
        if self.task.is_exact and length < EXACT_FROM:
            remedy = f"use --lengths of at least {EXACT_FROM}"
            return UsageError(self.task.name, f"{problem}, which it has to fill exactly; {remedy}")
        return RulerError(self.task.name, f"{problem}; please report this")


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
