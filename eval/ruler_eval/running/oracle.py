"""The oracle: it answers with the gold answers, and so tests everything but the model."""

import os
import signal
import time
from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial

from ruler_data.row import Row
from ruler_eval.running.answers import Answer
from ruler_eval.running.engine import Engine, Request, Setup, read_options

#: Characters of a context in which an instruction asks for a box.
INSTRUCTION = 300


def gold_text(row: Row) -> str:
    """Return a text that scores 1: the gold answers, in a box if the instruction asks for one."""
    text = ", ".join(row.outputs)
    return f"\\boxed{{{text}}}" if "\\boxed" in row.context[:INSTRUCTION] else text


@dataclass(frozen=True)
class OracleOptions:
    """Options of the oracle."""

    seconds: float = 0.0  # before each answer
    fail: int | None = None  # index of rows that stay unscored
    crash: int | None = None  # index of rows that kill the process, as a fault of a GPU does


def prepare(setup: Setup) -> Engine:
    """Return an oracle, which joins the gold answers by commas."""
    options = read_options("oracle", OracleOptions, setup.config.settings)
    return Engine(partial(_generate, options), {}, {}, setup.model.window)


def _generate(options: OracleOptions, requests: Iterator[Request | None]) -> Iterator[Answer]:
    for request in filter(None, requests):
        time.sleep(options.seconds)
        if request.row.index == options.crash:
            os.kill(os.getpid(), signal.SIGKILL)
        if request.row.index == options.fail:
            yield request.failed("the option `fail` names this row")
            continue
        text = gold_text(request.row)
        # No model counts its tokens.
        yield request.answered(text, "stop", None, options.seconds, hardware="cpu")
