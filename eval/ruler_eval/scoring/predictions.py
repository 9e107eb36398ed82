"""Predictions of other tools, as answers to the rows of a dataset.

`ruler_data.layouts` reads what the tools write. Most of them draw rows of their own under the same
names, so the gold answers beside a prediction are kept, and compared with those of the rows.
"""

from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ruler_data.errors import RulerError, UsageError
from ruler_data.layouts import (
    Place,
    ToolAnswer,
    files_of_answers,
    parse_answers,
    read_answers,
)
from ruler_data.names import config_name, quote
from ruler_eval.running.answers import Answer, Key

#: A file or folder, `{"vt_4096/0": text}`, or records.
Predictions = Path | Mapping[str, str] | Iterable[Mapping[str, Any]]


@dataclass(frozen=True)
class ImportedPrediction(Answer):
    """A prediction that another tool wrote.

    Attributes:
        outputs: the gold answers that its line has for the row; None if the line has none.
    """

    outputs: tuple[str, ...] | None = None


def read_predictions(predictions: Predictions, rows: Mapping[str, int]) -> dict[Key, Answer]:
    """Return the predictions for rows, given the number of rows of each config.

    Raises:
        UsageError: there are none.
        RulerError: one is damaged, is there twice, or is of no row.
    """
    places: dict[Key, Place] = {}
    answers: dict[Key, Answer] = {}
    for prediction in _tool_answers(predictions):
        where = prediction.where
        config = _config_of(prediction, rows)
        row = quote(f"{config}/{prediction.index}")
        if not 0 <= prediction.index < rows.get(config, 0):
            choice = f"no row of {quote(config)} is"
            if config in rows:
                choice = f"rows 0 to {rows[config] - 1} are"
            raise RulerError(f"{where}: {row} is not a row to score; {choice}")
        answer = ImportedPrediction(
            config,
            prediction.index,
            prediction.text,
            sample=prediction.sample,
            outputs=prediction.outputs,
        )
        if answer.key in answers:
            first = places[answer.key]
            raise RulerError(f"{where}: {row} already has a prediction, in {first}")
        answers[answer.key] = answer
        places[answer.key] = where
    if not answers:
        file = f"{quote(str(predictions))}: " if isinstance(predictions, Path) else ""
        raise UsageError(f"{file}no predictions: give a run, a file, texts by row or records")
    return answers


def _tool_answers(predictions: Predictions) -> Iterator[ToolAnswer]:
    if isinstance(predictions, Path):
        for path in files_of_answers(predictions):
            yield from read_answers(path)
        return
    if isinstance(predictions, Mapping):
        predictions = [{"id": row, "text": text} for row, text in predictions.items()]
    records = ((Place(None, number), record) for number, record in enumerate(predictions, 1))
    yield from parse_answers(records)


def _config_of(prediction: ToolAnswer, configs: Collection[str]) -> str:
    """Return the config of a prediction: of its length, or the only one of its task.

    Raises:
        RulerError: nothing names its length.
    """
    name = prediction.task
    if name in configs:  # of a suite whose tasks end in a number
        return name
    if prediction.length:
        return config_name(name, prediction.length)
    same = [config for config in configs if config.rpartition("_")[0] == name]
    if len(same) == 1:
        return same[0]
    raise RulerError(
        f"{prediction.where}: the file name has no config; name it CONFIG.jsonl, e.g. vt_4096.jsonl"
    )
