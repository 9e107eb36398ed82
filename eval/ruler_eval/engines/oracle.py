"""The oracle: it answers with the gold answers, and so tests everything but the model."""

import os
import signal
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from ruler_data.tokenizers import PromptTokenizer
from ruler_eval.engines.interface import Request, read_options
from ruler_eval.eval_config import EvalConfig
from ruler_eval.models import Model
from ruler_eval.schema import Prediction


@dataclass(frozen=True)
class OracleOptions:
    """Options of the oracle.

    Attributes:
        seconds: pause before each answer.
        fail: index of rows that stay unscored.
        crash: index of rows that kill the process, as a fault of a GPU does.
    """

    seconds: float = 0.0
    fail: int | None = None
    crash: int | None = None


@dataclass(frozen=True)
class Oracle:
    """Answers with the gold answers, joined by commas."""

    options: OracleOptions
    window: int | None
    info: dict[str, Any] = field(default_factory=dict)
    sampling: dict[str, Any] = field(default_factory=dict)
    renders_prompts: bool = False

    def generate(self, requests: Iterator[Request | None]) -> Iterator[Prediction]:
        """Yield the gold answers of each row."""
        for request in filter(None, requests):
            time.sleep(self.options.seconds)
            if request.row.index == self.options.crash:
                os.kill(os.getpid(), signal.SIGKILL)
            if request.row.index == self.options.fail:
                yield request.unscored("the option `fail` names this row")
                continue
            text = ", ".join(request.row.outputs)
            yield request.answered(text, "stop", len(text.split()), self.options.seconds)


def prepare(
    config: EvalConfig, model: Model, _tokenizer: PromptTokenizer | None, _longest: int
) -> Oracle:
    """Return an oracle."""
    return Oracle(read_options("oracle", OracleOptions, config.options), model.window)
