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
    from rich.progress import TaskID

#: Configs that have a bar at once; the others count in the total.
SHOWN = 6


@contextmanager
def bar(pending: Sequence[Item]) -> Iterator[Callable[[Prediction], None]]:
    """Yield a function that advances the bars by a prediction: one for all configs, one for each.

    Bars move by the cost of rows, so that short rows promise nothing about long ones.
    """
    if not pending:
        yield lambda _: None
        return
    tokens = {item.key: item.tokens for item in pending}
    rows = Counter(item.config for item in pending)
    costs: Counter[str] = Counter()
    for item in pending:
        costs[item.config] += round(cost(item.tokens))
    done: Counter[str] = Counter()
    prefilled, started = 0, time.monotonic()
    with progress_bars() as bars:
        total = bars.add_task(
            "waiting for the first answer",
            total=costs.total(),
            items=f"0/{len(pending)} rows",
            speed="",
        )
        tasks: dict[str, TaskID] = {}

        def advance(prediction: Prediction) -> None:
            nonlocal prefilled
            raise_if_interrupted()
            config, length = prediction.config, tokens.get(prediction.key, 0)
            step, seconds = round(cost(length)), time.monotonic() - started
            done[config] += 1
            prefilled += prediction.prompt_tokens or length
            speed = f"{done.total() / seconds:.1f} rows/s, {prefilled / seconds:,.0f} tokens/s"
            share = f"{done.total()}/{len(pending)} rows"
            bars.update(total, advance=step, description="all configs", items=share, speed=speed)
            if config not in tasks:
                tasks[config] = bars.add_task(config, total=costs[config], items="", speed="")
            bars.update(tasks[config], advance=step, items=f"{done[config]}/{rows[config]} rows")
            shown = [task.id for task in bars.tasks if not task.finished and task.id != total]
            for task in tasks.values():
                bars.update(task, visible=task in shown[:SHOWN])

        yield advance
