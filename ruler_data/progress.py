"""Progress bars on standard error, if it is a terminal."""

import time
from collections.abc import Callable, Collection, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, TypeVar

from ruler_data.names import parse_config
from ruler_data.terminal import err, is_terminal, raise_if_interrupted

if TYPE_CHECKING:
    from rich.progress import Progress, TaskID

T = TypeVar("T")

#: Seconds over which a bar averages its speed; a row of 131,072 tokens may take a minute.
SPEED_PERIOD = 600.0


def progress_bars() -> "Progress":
    """Return bars of the library rich on standard error; nothing is printed into a log.

    `add_task` and `update` take two texts: `items`, e.g. `3/500 rows`, and `speed`, e.g.
    `2.1 rows/s`.
    """
    from rich import progress as bar
    from rich.table import Column

    # One line at 80 columns: name 24, bar 10, share 4, items 11, speed 11, time 7, "left" and gaps.
    return bar.Progress(
        bar.TextColumn("{task.description:.24}", table_column=Column(no_wrap=True)),
        bar.BarColumn(10),
        bar.TaskProgressColumn(),
        bar.TextColumn("{task.fields[items]}", table_column=Column(no_wrap=True)),
        bar.TextColumn("{task.fields[speed]}", table_column=Column(no_wrap=True)),
        bar.TimeRemainingColumn(compact=True, table_column=Column(no_wrap=True)),
        bar.TextColumn("left"),
        console=err,
        disable=not is_terminal(),
        transient=True,
        speed_estimate_period=SPEED_PERIOD,
    )


class Advance:
    """Advances a bar by rows of a config; `skip` takes out rows that an earlier run finished."""

    def __init__(self, bars: "Progress", task: "TaskID") -> None:
        self._bars = bars
        self._task = task
        self._done = 0
        self._started = time.monotonic()

    def __call__(self, config: str, rows: int) -> None:
        """Advance the bar; a signal that came meanwhile stops the work."""
        raise_if_interrupted()
        self._done += rows
        speed = per_second(self._done / (time.monotonic() - self._started))
        tokens = rows * parse_config(config)[1]
        items = f"{self._done} rows"
        self._bars.update(self._task, advance=tokens, description=config, items=items, speed=speed)
        if self._bars.finished:
            self._bars.stop()

    def skip(self, config: str, rows: int) -> None:
        """Leave rows out of all figures."""
        total = next(task.total for task in self._bars.tasks if task.id == self._task)
        if total is not None:
            self._bars.update(self._task, total=total - rows * parse_config(config)[1])


def per_second(rows: float) -> str:
    """Return a speed with two digits at least.

    >>> per_second(893.4), per_second(2.14), per_second(0.0123)
    ('893 rows/s', '2.1 rows/s', '0.012 rows/s')
    """
    if rows >= 10:
        return f"{rows:,.0f} rows/s"
    return f"{rows:.2g} rows/s"


@contextmanager
def progress(tokens: int | None, first: str = "reading sources") -> Iterator[Advance]:
    """Yield a function that advances a progress bar by rows of a config.

    The bar measures tokens, because a row of 131,072 tokens takes as long as thirty of 4,096. It
    disappears with the last row: what follows may have a bar of its own.

    Args:
        tokens: of all rows; None if unknown, so that the bar only shows activity.
        first: what is done before the first row.
    """
    with progress_bars() as bars:
        yield Advance(bars, bars.add_task(first, total=tokens, items="0 rows", speed=""))


#: Bytes of a download from which a bar is shown.
LEAST_SHOWN = 1 << 20


def track(items: Collection[T], about: str) -> Iterator[T]:
    """Yield items while a progress bar advances by one each; `about` says what is done."""
    with progress_bars() as bars:
        task = bars.add_task(about, total=len(items), items="", speed="")
        for done, item in enumerate(items, 1):
            yield item
            raise_if_interrupted()
            bars.update(task, advance=1, items=f"{done}/{len(items)}")


@contextmanager
def transfer(name: str, total: int | None) -> Iterator[Callable[[int], None]]:
    """Yield a function that advances the progress bar of a download by bytes.

    Args:
        name: what is downloaded.
        total: its bytes; None if they are not known.
    """
    if total is not None and total < LEAST_SHOWN:
        yield lambda _: None
        return
    with progress_bars() as bars:
        task = bars.add_task(name, total=total, items="", speed="")
        size = ""
        if total:
            size = f"/{total / 1e6:.1f}"

        def advance(received: int) -> None:
            raise_if_interrupted()
            done = bars.tasks[0].completed + received
            if total:
                done = min(done, total)
            bars.update(task, completed=done, items=f"{done / 1e6:.1f}{size} MB")

        yield advance
