"""One run of an upstream script: its arguments, its two random generators, and its main loop.

A script seeds Python's and numpy's global generators once and draws from them for everything:
first for each probe of the search for a size, then for each row, again for each row that came out
too long. So a row depends on all that was drawn before it, on the tokenizer, the template and the
length, and rows must be made in order. Shuffles do not draw from these generators: each begins
again from the seed, and gives all lists of one length the same order.
"""

import random
import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import NamedTuple, TypeVar

import numpy as np

from ruler_builders.prompts import PromptTemplate
from ruler_builders.upstream.edition import Edition
from ruler_data.errors import RulerError
from ruler_data.names import config_name
from ruler_data.tasks import Task

T = TypeVar("T")

#: Draws of one row at one size, all too long, after which upstream counts as endless.
ATTEMPTS = 1000


@dataclass(frozen=True)
class Arguments:
    """What an upstream script is started with.

    Attributes:
        length: `max_seq_length`: tokens of the prompt and of the answer's room at most.
        rows: `num_samples`.
        seed: of both generators and of all shuffles.
        template: chat template, a text with `{task_template}` in it.
        template_tokens: tokens to keep free instead (`--prepare_for_ns`, since 2025-06).
    """

    edition: Edition
    task: Task
    length: int
    rows: int
    seed: int = 42
    template: str = "{task_template}"
    template_tokens: int = 0

    @property
    def has_template(self) -> bool:
        """Whether the prompts contain a chat template."""
        return self.template != "{task_template}"

    @property
    def limit(self) -> int:
        """Tokens of a row at most."""
        return self.length - self.template_tokens

    @property
    def config(self) -> str:
        """Name of the config."""
        return config_name(self.task.name, self.length)

    def prompt(self, task_template: str, prefix: str) -> str:
        """Return a task's template within the chat template, and the answer prefix."""
        return self.template.format(task_template=task_template) + prefix

    def endless(self, index: int, reason: str, remedy: str = "") -> RulerError:
        """Return the error for a row that upstream would draw for ever."""
        if not remedy:
            remedy = "use another length"
            if self.template_tokens:  # nobody chooses the length of the example of vt
                remedy += ", or a smaller --reserve"
        return RulerError(
            f"{self.config}/{index}: upstream does not finish this row ({self.edition.name}): "
            f"{reason}; {remedy}"
        )


def texts(prompt: PromptTemplate) -> tuple[str, str]:
    """Return the template of a script, with its {context}, and its answer prefix."""
    return f"{prompt.head}{{context}}{prompt.tail}{prompt.question}", prompt.prefix


class Draft(NamedTuple):
    """A prompt with its answer prefix, its gold answers, and the texts that they rest on."""

    prompt: str
    outputs: list[str]
    evidence: list[str]


@dataclass(frozen=True)
class UpstreamRow:
    """A row as upstream writes it.

    Attributes:
        index: of the row; niah of 2026-07 has the position of the first answer here.
        input: the prompt, chat template included.
        outputs: gold answers.
        length: tokens of the prompt, without BOS, and of the room for the answer.
        answer_prefix: the end of the prompt where it is a column of its own; else empty.
        evidence: texts within `input` that the answers rest on; not written by upstream.
    """

    index: int
    input: str
    outputs: list[str]
    length: int
    answer_prefix: str
    evidence: list[str]

    @property
    def prompt(self) -> str:
        """The prompt with its answer prefix."""
        return self.input + self.answer_prefix


class State:
    """The random generators and the counter of one run.

    `count(text)` is tokens, special tokens in the text recognized, no BOS added.
    """

    def __init__(self, arguments: Arguments, count: Callable[[str], int]) -> None:
        self.arguments = arguments
        self.count = count
        self.random = random.Random(arguments.seed)
        self.numpy = np.random.RandomState(arguments.seed)

    def within(self, length: int, rows: int, room: int) -> "State":
        """Return the run with other limits, `room` tokens for the answer; it shares generators."""
        task = replace(self.arguments.task, max_new_tokens=room)
        state = State(replace(self.arguments, length=length, rows=rows, task=task), self.count)
        state.random = self.random
        state.numpy = self.numpy
        return state

    def shuffled(self, items: Sequence[T]) -> list[T]:
        """Return items in the order that the seed gives all lists of their length."""
        return [items[place] for place in _order(self.arguments.seed, len(items))]

    def letters(self, alphabet: str, size: int) -> str:
        """Return letters drawn one by one."""
        return "".join(self.random.choices(alphabet, k=size))

    def size(
        self,
        draw: Callable[[int], Draft],
        step: int,
        answers: Callable[[list[str]], str] = " {}".format,
        *,
        cap: int = sys.maxsize,
        past: bool = False,
        example: int = 0,
        probe: int = 0,
        estimate: Callable[[float], int] | None = None,
    ) -> int:
        """Return the size of the haystack that the edition's search ends at.

        Until 2025-06 it grows by steps until a probe and its answers are too long; where a probe
        has exactly `limit` tokens, the search ends a step above it. Since then it is bisected,
        though a larger probe may have fewer tokens; where none fits, the size is the step.

        Steps count `answers` behind a probe, and end at `cap`, before or after a probe `past` it.
        Bisection adds the tokens of an `example`; `estimate` gives the largest size from the tokens
        of one unit in a first probe, whose size is `probe` or the step.
        """
        if not self.arguments.edition.bisects:
            return self._stepped(draw, step, answers, cap, past=past)
        probe = probe or step
        tokens = self.count(draw(probe).prompt) / probe
        if estimate is None:
            largest = int((self.arguments.limit / tokens) * 3)
        else:
            largest = estimate(tokens)
        return self._bisected(draw, step, max(largest, 2 * step), example)

    def _stepped(
        self,
        draw: Callable[[int], Draft],
        step: int,
        answers: Callable[[list[str]], str],
        cap: int,
        *,
        past: bool,
    ) -> int:
        limit = self.arguments.limit
        size = step
        tokens = 0
        while tokens < limit:
            draft = draw(size)
            tokens = self.count(draft.prompt + answers(draft.outputs))
            tokens += self.arguments.task.max_new_tokens
            if tokens > limit:
                return size - step
            if past and size > cap:
                return cap
            size += step
            if not past and size > cap:
                return cap
        return size

    def _bisected(self, draw: Callable[[int], Draft], low: int, high: int, example: int) -> int:
        limit = self.arguments.limit - self.arguments.task.max_new_tokens - example
        best = low
        while low <= high:
            middle = (low + high) // 2
            if self.count(draw(middle).prompt) <= limit:
                best = middle
                low = middle + 1
            else:
                high = middle - 1
        return best

    def rows(
        self,
        draw: Callable[[int, int], Draft],
        size: int,
        step: int,
        prefix: str,
        *,
        shrink: bool = True,
    ) -> Iterator[UpstreamRow]:
        """Yield all rows.

        A row that is too long, or impossible at its size, is drawn again a step smaller, as long
        as its size is above the step, and then at that size for ever.

        `draw` makes a row of a size and an index; ValueError or IndexError where that is
        impossible. Without `shrink` it is always drawn at the first size.
        """
        limit = self.arguments.limit
        budget = self.arguments.task.max_new_tokens
        for index in range(self.arguments.rows):
            used = size
            attempts = 0
            while True:
                attempts += 1
                try:
                    draft = draw(used, index)
                except (ValueError, IndexError) as error:
                    reason = f"cannot be drawn ({error})"
                else:
                    length = self.count(draft.prompt) + budget
                    if length <= limit:
                        break
                    reason = f"has {length} tokens, limit {limit}"
                if shrink and used > step:
                    used = used - step
                    attempts = 0
                elif attempts >= ATTEMPTS:
                    raise self.arguments.endless(index, f"at size {used} it {reason}")
            yield self.finish(index, draft, length, prefix)

    def finish(self, index: int, draft: Draft, length: int, prefix: str) -> UpstreamRow:
        """Return a row, cut where the first ten characters of its answer prefix begin."""
        text = draft.prompt
        start = len(text)
        if self.arguments.edition.bisects:
            start = text.rfind(prefix[:10])
        return UpstreamRow(index, text[:start], draft.outputs, length, text[start:], draft.evidence)


@lru_cache(maxsize=8)
def _order(seed: int, size: int) -> list[int]:
    order = list(range(size))
    random.Random(seed).shuffle(order)
    return order
