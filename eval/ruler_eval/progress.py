"""Progress of a run on the terminal: rows and prompt tokens per second, and what is left."""

import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager

from ruler_data.terminal import progress_bars, raise_if_interrupted
from ruler_eval.schema import Prediction
from ruler_eval.sharding import Item, cost


@contextmanager
def bar(pending: Sequence[Item]) -> Iterator[Callable[[Prediction], None]]:
    """Yield a function that advances a bar by a prediction.

    The bar moves by the cost of rows, so that short rows promise nothing about long ones.
    """
    if not pending:
        yield lambda _: None
        return
    tokens = {item.key: item.tokens for item in pending}
    done = prefilled = 0
    started = time.monotonic()
    with progress_bars() as bars:
        total, first = sum(map(cost, tokens.values())), f"0/{len(pending)} rows"
        task = bars.add_task("waiting for the first answer", total=total, items=first, speed="")

        def advance(prediction: Prediction) -> None:
            nonlocal done, prefilled
            raise_if_interrupted()
            length, seconds = tokens.get(prediction.key, 0), time.monotonic() - started
            done += 1
            prefilled += prediction.prompt_tokens or length
            bars.update(
                task,
                advance=cost(length),
                description="all configs",
                items=f"{done}/{len(pending)} rows",
                speed=f"{done / seconds:.1f} rows/s, {prefilled / seconds:,.0f} tokens/s",
            )

        yield advance
