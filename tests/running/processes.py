"""`ruler-eval` as a user runs it: started, watched and killed; and what it wrote."""

import json
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any

import ruler_eval
from ruler_data.parquet import read_rows
from tests import commands
from tests.commands import Done, Process

#: What tests look for in a line.
NAMES = ("text", "finish", "error", "reasoning", "prompt_tokens", "answer_tokens", "cached_tokens")


def order(data: Path, out: Path, *more: object) -> tuple[object, ...]:
    """Return what a run of the golden answers is asked for."""
    return ("run", "--data", data, "--model", "golden", "--engine", "oracle", "--out", out, *more)


def evaluate(*arguments: object, env: dict[str, str] | None = None) -> Done:
    """Run a command of `ruler-eval` to its end."""
    return commands.run("ruler-eval", *arguments, env=env)


def ran(data: Path, **options: Any) -> ruler_eval.Run:  # noqa: ANN401 - options of a run
    """Run in this process, as `ruler_eval.run` does."""
    run = ruler_eval.run(data, **options)
    assert isinstance(run, ruler_eval.Run)
    return run


def started(*arguments: object) -> AbstractContextManager[Process]:
    """Start a command in a process group of its own; nothing of it outlives the block."""
    return commands.started("ruler-eval", *arguments)


def lines(folder: Path) -> list[dict[str, object]]:
    """Return every whole line of every journal of a run, read without our own reader.

    What a line leaves out is None.
    """
    return [
        dict.fromkeys(NAMES) | json.loads(line)
        for path in sorted(folder.glob("answers-*.jsonl"))
        for line in path.read_bytes().split(b"\n")
        if line.endswith(b"}")
    ]


def whole_lines(folder: Path) -> int:
    """Return how many whole lines all journals of a run have so far."""
    return sum(path.read_bytes().count(b"\n") for path in folder.glob("answers-*.jsonl"))


def keys(folder: Path) -> list[tuple[object, object]]:
    """Return the identity of each line's row, sorted."""
    return sorted((line["config"], line["index"]) for line in lines(folder))


def answered(folder: Path) -> list[dict[str, object]]:
    """Return the lines that hold an answer."""
    return [line for line in lines(folder) if line["error"] is None]


def all_keys(data: Path) -> list[tuple[str, int]]:
    """Return the identity of each row of frozen data, sorted."""
    return sorted(
        (path.parent.name, row.index)
        for path in data.glob("*/*.parquet")
        for row in read_rows(path)
    )


def refusal(done: Done, code: int = 2) -> str:
    """Return the one line in which a command says why it does not do what it was asked."""
    return commands.one_line(done, code, beside="warning: ")
