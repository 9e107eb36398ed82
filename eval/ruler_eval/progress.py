"""Progress of a run on the terminal: rows and prefill tokens a second, what is left per config.

What journals gain, read while others write them.
"""

import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager

from rich.progress import (
    BarColumn,
    Progress,
    TaskID,
    TextColumn,
    TimeElapsedColumn,
    TimeRemainingColumn,
)
from rich.table import Table

from ruler_data.terminal import err, raise_if_interrupted
from ruler_eval import journal
from ruler_eval.run_dir import RunFolder, Shard
from ruler_eval.schema import Prediction
from ruler_eval.sharding import Item, Key, cost

#: Configs that the bar shows at once; the others stand in the total.
SHOWN = 6
#: Seconds over which speed is averaged; a row of 131,072 tokens may take a minute.
AVERAGED = 600.0


@contextmanager
def bar(todo: Sequence[Item]) -> Iterator[Callable[[Prediction], None]]:
    """Yield what advances a bar by an answer; silent where standard error is no terminal.

    Bars move by what rows cost (plan.py), so that short rows promise nothing about long ones.
    """
    shown = Progress(
        TextColumn("{task.description:<24}"),
        BarColumn(),
        TextColumn("{task.fields[rows]} rows"),
        TextColumn("{task.fields[speed]}"),
        TimeElapsedColumn(),
        TextColumn("left"),
        TimeRemainingColumn(),
        console=err,
        disable=not sys.stderr.isatty(),
        transient=True,
        speed_estimate_period=AVERAGED,
    )
    with shown:
        yield _Bars(shown, todo).advance


class _Bars:
    """A bar for the whole and one for each config that is being worked on."""

    def __init__(self, shown: Progress, todo: Sequence[Item]) -> None:
        self._shown = shown
        self._tokens: Mapping[Key, int] = {item.key: item.tokens for item in todo}
        self._rows = Counter(item.config for item in todo)
        self._costs: Counter[str] = Counter()
        for item in todo:
            self._costs[item.config] += round(cost(item.tokens))
        self._done: Counter[str] = Counter()
        self._prefilled, self._begun = 0, time.monotonic()
        self._whole = shown.add_task(
            "loading the model", total=self._costs.total(), rows=f"0/{len(todo)}", speed=""
        )
        self._tasks: dict[str, TaskID] = {}

    def advance(self, answer: Prediction) -> None:
        """Take in an answer."""
        raise_if_interrupted()
        config = answer.config
        tokens = self._tokens.get((config, answer.index), 0)
        self._done[config] += 1
        self._prefilled += answer.prompt_tokens or tokens
        seconds = time.monotonic() - self._begun
        done, rows = self._done.total(), self._rows.total()
        speed = f"{done / seconds:.1f} rows/s, {self._prefilled / seconds:,.0f} tokens/s"
        step = round(cost(tokens))
        self._shown.update(
            self._whole, advance=step, description="all configs", rows=f"{done}/{rows}", speed=speed
        )
        if config not in self._tasks:
            task = self._shown.add_task(config, total=self._costs[config], rows="", speed="")
            self._tasks[config] = task
        task, told = self._tasks[config], f"{self._done[config]}/{self._rows[config]}"
        self._shown.update(task, advance=step, rows=told)
        open_tasks = [one for one in self._shown.tasks if one.id != self._whole]
        unfinished = [one for one in open_tasks if not one.finished][:SHOWN]
        for one in open_tasks:
            self._shown.update(one.id, visible=one in unfinished)


def summary(answers: Iterator[Prediction], rows: Mapping[str, int]) -> list[dict[str, object]]:
    """Return, for each config, what became of its rows.

    Args:
        answers: of all shards.
        rows: number asked of each config.
    """
    kinds = (
        "answered", "unscored", "truncated", "prompt_tokens", "cached_tokens", "answer_tokens",
        "seconds",
    )  # fmt: skip
    found = {config: dict.fromkeys(kinds, 0.0) for config in rows}
    for answer in answers:
        line = found.get(answer.config)
        if line is None:
            continue
        line["answered"] += answer.error is None
        line["unscored"] += answer.error is not None
        line["truncated"] += answer.finish == "length"
        line["prompt_tokens"] += answer.prompt_tokens or 0
        line["cached_tokens"] += answer.cached_tokens or 0
        line["answer_tokens"] += answer.answer_tokens or 0
        line["seconds"] += answer.seconds or 0.0
    return [
        {"config": config, "rows": rows[config], **{kind: int(line[kind]) for kind in kinds[:-1]},
         "seconds": round(line["seconds"], 1)}
        for config, line in found.items()
    ]  # fmt: skip


def table(lines: Sequence[Mapping[str, object]]) -> Table:
    """Return a summary as a table."""
    shown = Table(box=None)
    for name in lines[0]:
        shown.add_column(name.replace("_", " "), justify="left" if name == "config" else "right")
    for line in lines:
        shown.add_row(*(f"{value:,}" if isinstance(value, (int, float)) else str(value)
                        for value in line.values()))  # fmt: skip
    return shown


class JournalTail:
    """Reads what the journals of some shards gain."""

    def __init__(self, folder: RunFolder, shards: Sequence[Shard]) -> None:
        self._ends = {folder.journal(shard): 0 for shard in shards}
        self._seen: set[Key] = folder.answered()

    def news(self) -> Iterator[Prediction]:
        """Yield the answers that were added since the last call."""
        for path, end in list(self._ends.items()):
            if not path.exists():
                continue
            with path.open("rb") as file:
                file.seek(end if path.stat().st_size >= end else 0)  # it was mended meanwhile
                data = file.read()
                whole = data[: data.rfind(b"\n") + 1]
                self._ends[path] = file.tell() - len(data) + len(whole)
            for line in whole.splitlines(keepends=True):
                answer = journal.parse(line, path.name)
                key = answer.config, answer.index
                if key not in self._seen:
                    self._seen.add(key)
                    yield answer
