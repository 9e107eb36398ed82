"""Progress of a run on the terminal: rows and prompt tokens per second, and what is left."""

import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING

from ruler_data.terminal import progress_bars, raise_if_interrupted
from ruler_eval.schema import Prediction
from ruler_eval.sharding import Item, cost

if TYPE_CHECKING:
    from rich.progress import Progress, TaskID

#: Configs that have a bar at once; the others count in the total.
SHOWN = 6


@contextmanager
def bar(pending: Sequence[Item]) -> Iterator[Callable[[Prediction], None]]:
    """Yield a function that advances the bars by a prediction.

    Bars move by the cost of rows, so that short rows promise nothing about long ones.
    """
    with progress_bars() as bars:
        yield _Bars(bars, pending).advance


class _Bars:
    """One bar for all configs, and one for each that is being worked on."""

    def __init__(self, bars: "Progress", pending: Sequence[Item]) -> None:
        self._progress = bars
        self._tokens = {item.key: item.tokens for item in pending}
        self._rows = Counter(item.config for item in pending)
        self._costs: Counter[str] = Counter()
        for item in pending:
            self._costs[item.config] += round(cost(item.tokens))
        self._done: Counter[str] = Counter()
        self._prefilled, self._started = 0, time.monotonic()
        self._all = bars.add_task(
            "loading the model", total=self._costs.total(), rows=f"0/{len(pending)}", speed=""
        )
        self._tasks: dict[str, TaskID] = {}

    def advance(self, prediction: Prediction) -> None:
        """Count a prediction."""
        raise_if_interrupted()
        config = prediction.config
        tokens = self._tokens.get(prediction.key, 0)
        step = round(cost(tokens))
        self._done[config] += 1
        self._prefilled += prediction.prompt_tokens or tokens
        seconds = time.monotonic() - self._started
        done, rows = self._done.total(), self._rows.total()
        speed = f"{done / seconds:.1f} rows/s, {self._prefilled / seconds:,.0f} tokens/s"
        self._progress.update(
            self._all, advance=step, description="all configs", rows=f"{done}/{rows}", speed=speed
        )
        if config not in self._tasks:
            self._tasks[config] = self._progress.add_task(
                config, total=self._costs[config], rows="", speed=""
            )
        share = f"{self._done[config]}/{self._rows[config]}"
        self._progress.update(self._tasks[config], advance=step, rows=share)
        tasks = [task for task in self._progress.tasks if task.id != self._all]
        visible = [task.id for task in tasks if not task.finished][:SHOWN]
        for task in tasks:
            self._progress.update(task.id, visible=task.id in visible)
