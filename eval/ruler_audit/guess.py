"""A run of an upstream script whose sizes are found by its gold answers, without a tokenizer.

Until 2025-06 upstream's search for the size of a haystack grows by steps, and all that a tokenizer
decides is after which step it ends, and which rows are drawn once more because they are too long.
Both show in the gold answers of niah and vt, which are drawn from the same stream as everything
before them.
"""

import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from typing import Any

from ruler_builders.upstream import Arguments
from ruler_builders.upstream.state import Draft, State, UpstreamRow
from ruler_builders.upstream.vt import EXAMPLE_LIMIT
from ruler_data.tasks import Vt

#: Draws of a row that may have been too long, before one that fits.
REDRAWN = 3
#: Tokens of a line of noise or of needles at least; every known tokenizer needs more.
TOKENS_OF_LINE = 12


class NotTheseAnswersError(ValueError):
    """No size of the haystack makes the gold answers of the first row."""


class GuessingState(State):
    """A run that draws the rows of given gold answers.

    Args:
        arguments: of the script.
        answers: gold answers of the first rows.
        example_probes: of the search for the size of vt's example, whose answers nobody writes.
        redraws_first: whether the first row was too long when it was drawn first.
    """

    def __init__(
        self,
        arguments: Arguments,
        answers: Sequence[Sequence[str]],
        example_probes: int,
        *,
        redraws_first: bool = False,
    ) -> None:
        super().__init__(arguments, count=len)
        self._answers = [list(outputs) for outputs in answers]
        self._example_probes = example_probes
        self._redraws_first = redraws_first
        self._is_example = False

    def within(self, length: int, rows: int, room: int) -> "GuessingState":
        """Return the run with other limits; that of vt's example has a limit of its own."""
        task = replace(self.arguments.task, max_new_tokens=room)
        arguments = replace(self.arguments, length=length, rows=rows, task=task)
        state = GuessingState(
            arguments,
            self._answers,
            self._example_probes,
            redraws_first=self._redraws_first,
        )
        state._is_example = length == EXAMPLE_LIMIT and rows == 1
        state.random = self.random
        state.numpy = self.numpy
        return state

    def size(
        self,
        draw: Callable[[int], Draft],
        step: int,
        *_: object,
        cap: int = sys.maxsize,
        **__: object,
    ) -> int:
        """Return the size from which the first row has its gold answers.

        Raises:
            NotTheseAnswersError: there is none.
        """
        if self._is_example:
            for probe in range(1, self._example_probes + 1):
                self._drawn(draw, probe * step)
            return (self._example_probes - 1) * step
        largest = self.arguments.length
        if cap < sys.maxsize:
            largest = min(largest, cap)
        else:
            largest //= TOKENS_OF_LINE
        late: tuple[object, int] | None = None
        for size in range(step, largest + step + 1, step):
            self._drawn(draw, size)  # the last probe, if the search ends here
            if not self._redraws_first and self._makes(draw, size - step, step, redraws=0):
                return size - step
            if late is None:
                late = self._late(draw, size, step)
                if late is not None and self._redraws_first:
                    return late[1]
            else:
                self._restore(late[0])
                return late[1]
        raise NotTheseAnswersError(self.arguments.config)

    def _late(
        self, draw: Callable[[int], Draft], size: int, step: int
    ) -> tuple[object, int] | None:
        """Return state and size from which the first row has its gold answers when drawn again."""
        for start in (size - step, size + step):  # too long, or fitted to the token
            if self._makes(draw, start, step, redraws=1):
                return self._states(), start
        return None

    def _states(self) -> tuple[Any, Any]:
        return self.random.getstate(), self.numpy.get_state()

    def _restore(self, states: Any) -> None:  # noqa: ANN401 - states of two generators
        self.random.setstate(states[0])
        self.numpy.set_state(states[1])

    def _makes(self, draw: Callable[..., Draft], size: int, step: int, *, redraws: int) -> bool:
        """Whether the first rows have their gold answers from here on; nothing is drawn by that.

        `redraws`: of the first row of all, which may have been too long.
        """
        if size <= 0:
            return False
        is_vt = isinstance(self.arguments.task.params, Vt)
        # Names of vt's example may be drawn between two rows.
        rows = 1 if is_vt and self.arguments.edition.renames else min(3, len(self._answers))
        states = self._states()
        try:
            for index in range(rows):
                draft = self._row(draw, size, step, index, REDRAWN if index else redraws)
                if draft.outputs != self._answers[index]:
                    return False
            return True
        finally:
            self._restore(states)

    def _row(
        self, draw: Callable[..., Draft], size: int, step: int, index: int, redraws: int = REDRAWN
    ) -> Draft:
        """Draw a row; one that lacks its gold answers was too long, and is drawn again."""
        shrinks = self.arguments.edition.renames or not isinstance(self.arguments.task.params, Vt)
        draft = self._drawn(draw, size, index)
        for _ in range(redraws):
            if draft.outputs == self._answers[index]:
                break
            if shrinks and size > step:
                size -= step
            draft = self._drawn(draw, size, index)
        return draft

    def _drawn(self, draw: Callable[..., Draft], *place: int) -> Draft:
        try:
            return draw(*place)
        except (ValueError, IndexError) as error:  # there is no room for the needles
            raise NotTheseAnswersError(self.arguments.config) from error

    def rows(
        self,
        draw: Callable[[int, int], Draft],
        size: int,
        step: int,
        prefix: str,
        *,
        shrink: bool = True,
    ) -> Iterator[UpstreamRow]:
        """Yield all rows; one that lacks its gold answers was too long, and is drawn again."""
        for index in range(self.arguments.rows):
            if self._is_example:
                draft = self._drawn(draw, size, index)
            else:
                draft = self._row(draw, size, step, index)
            yield self.finish(index, draft, 0, prefix)
