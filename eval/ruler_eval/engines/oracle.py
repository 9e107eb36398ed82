"""The oracle: golden answers, at once or after a pause. It tests all but the models."""

import os
import signal
import time
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from ruler_eval.engines.interface import EngineConfig, Request, take
from ruler_eval.schema import Prediction


@dataclass(frozen=True)
class OracleOptions:
    """What the oracle can be told.

    Attributes:
        seconds: it waits before each answer.
        fail: index of the rows that it does not answer.
        crash: index of the rows that end its process, as a fault of a GPU does.
    """

    seconds: float = 0.0
    fail: int | None = None
    crash: int | None = None


@dataclass(frozen=True)
class Oracle:
    """Says the golden answers, joined by commas."""

    options: OracleOptions
    info: dict[str, Any]
    sampling: dict[str, Any]
    window: int | None
    renders: bool = False

    def answer(self, asks: Iterator[Request | None]) -> Iterator[Prediction]:
        """Yield the golden answers of each row."""
        for ask in filter(None, asks):
            time.sleep(self.options.seconds)
            if ask.row.index == self.options.crash:
                os.kill(os.getpid(), signal.SIGKILL)
            if ask.row.index == self.options.fail:
                yield ask.unscored("the oracle was told not to answer this row")
                continue
            text = ", ".join(ask.row.outputs)
            yield ask.answered(text, "stop", len(text.split()), self.options.seconds)


def prepare(setup: EngineConfig) -> Oracle:
    """Return an oracle."""
    options = take("oracle", OracleOptions, setup.options)
    return Oracle(options, {}, {}, setup.model.window)
