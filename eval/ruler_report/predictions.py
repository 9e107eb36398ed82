"""Read predictions, of a run or of other tools, and pair them with frozen rows."""

import zipfile
from collections.abc import Collection, Iterator, Mapping
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path

from ruler_data.errors import RulerError, UsageError
from ruler_data.names import quote
from ruler_data.parquet import UNREADABLE
from ruler_data.reasoning import opens
from ruler_data.row import Row
from ruler_data.tasks import Task
from ruler_eval.answers import Answer, Key, scored_text
from ruler_eval.data import Dataset
from ruler_eval.metrics import CLEANED
from ruler_eval.prompts import PROTOCOLS
from ruler_eval.run_dir import ANSWER_FILES, RUN_FILE, RunFolder, RunInfo, read_info
from ruler_eval.scoring import PREDICTIONS, Data, open_rows, rows_of_run
from ruler_report.prediction_formats import (
    READERS,
    ImportedPrediction,
    Place,
    parse_record,
    read_lines,
)


@dataclass(frozen=True)
class Predictions:
    """The predictions for the rows of a dataset, and what was left out of them."""

    answers: Mapping[Key, Answer]
    notes: tuple[str, ...] = ()

    def of(self, config: str, rows: int, sample: int = 0) -> Iterator[Answer | None]:
        """Yield the predictions for the first rows of a config; None for a row without one."""
        return (self.answers.get((config, index, sample)) for index in range(rows))


def read_run(folder: Path) -> tuple[RunInfo, Predictions]:
    """Return the description of a run and its predictions.

    Raises:
        UsageError: the folder holds no run, or the run has no prediction yet.
        RulerError: a file is damaged.
    """
    run, torn = read_info(folder), list[str]()
    if not any(folder.glob(ANSWER_FILES)):
        msg = f"{quote(str(folder))}: has no {ANSWER_FILES}; no row was answered yet"
        raise UsageError(msg)
    answers = RunFolder(folder).answers(torn)
    return run, Predictions(answers, tuple(torn))


def _read_files(place: Path, rows: Mapping[str, int]) -> dict[Key, Answer]:
    """Return the predictions of a file, or of every file of a known form under a folder.

    A failed request gives way to an answer.
    """
    files = [place] if place.is_file() else sorted(place.rglob("*"))
    places: dict[Key, Place] = {}
    answers: dict[Key, Answer] = {}
    for path in (path for path in files if path.suffix in READERS or path == place):
        for where, answer in _records(path, rows):
            if not 0 <= answer.index < rows.get(answer.config, 0):
                row, last = quote(f"{answer.config}/{answer.index}"), rows.get(answer.config, 0) - 1
                known = f"rows 0 to {last} are"
                known = known if last >= 0 else f"no row of {quote(answer.config)} is"
                msg = f"{where}: {row} is not a row to score; {known}"
                raise RulerError(msg)
            first = answers.get(answer.key)
            if first and first.text is not None and answer.text is not None:
                row = f"{answer.config}/{answer.index}"
                msg = f"{where}: {row} already has a prediction, in {places[answer.key]}"
                raise RulerError(msg)
            if first is None or first.text is None:
                places[answer.key], answers[answer.key] = where, answer
    if not answers:
        msg = f"{quote(str(place))}: has neither a run nor predictions ({', '.join(READERS)})"
        raise UsageError(msg)
    return answers


def _records(path: Path, configs: Collection[str]) -> Iterator[tuple[Place, ImportedPrediction]]:
    try:
        for number, record in enumerate(READERS.get(path.suffix, read_lines)(path), 1):
            if record is not None:
                where = Place(path, number)
                yield where, parse_record(record, where, configs)
    except (*UNREADABLE, zipfile.BadZipFile, NotImplementedError, RecursionError) as error:
        msg = f"{path.name}: cannot be read ({type(error).__name__}: {error})"
        raise RulerError(msg) from error


def load(
    place: Path,
    data: Data | None = None,
    revision: str | None = None,
    *,
    model: str = "",
    protocol: str = "",
) -> tuple[RunInfo, Predictions, Dataset]:
    """Open predictions and the rows to score, and check that they belong together.

    Returns:
        The description of the run (for other predictions, of `model` and `protocol`), the
        predictions, and the rows: those of the run, or of every config that the predictions touch.

    Raises:
        UsageError: something is not there, or an option is missing.
        RulerError: something is damaged, or the predictions are for other rows.
    """
    if protocol and protocol not in PROTOCOLS:
        msg = f"--protocol {quote(protocol)}: not known; known: {', '.join(PROTOCOLS)}"
        raise UsageError(msg)
    if (place / RUN_FILE).is_file():
        if model or protocol:
            msg = "--model and --protocol are for predictions; a run has its own"
            raise UsageError(msg)
        run, records = read_run(place)
        return run, records, rows_of_run(place, run, data, revision)
    if not place.exists():
        msg = f"{quote(str(place))}: no such run, file or folder"
        raise UsageError(msg)
    rows = open_rows(data, revision)
    answers = _read_files(place, rows.rows)
    rows = rows.choose({config for config, *_ in answers}).fetch()
    run = RunInfo(rows.info, model, None, protocol, PREDICTIONS)
    return run, Predictions(answers), rows


def pair_rows(
    data: Dataset, predictions: Predictions, config: str, samples: int = 1
) -> Iterator[tuple[Row, tuple[Answer | None, ...]]]:
    """Yield each row of a config with the predictions of its samples, None where there is none.

    Raises:
        RulerError: the rows cannot be read, or a prediction has other gold answers than its row.
    """
    count = data.rows[config]
    samples_of = zip(*(predictions.of(config, count, n) for n in range(samples)), strict=True)
    with closing(data.read(config)) as rows:
        for row, several in zip(rows, samples_of, strict=True):
            prediction = several[0]
            outputs = prediction.outputs if isinstance(prediction, ImportedPrediction) else None
            if outputs is not None and set(outputs) != set(row.outputs):
                msg = (
                    f"{config}/{row.index}: the gold answers beside the prediction are "
                    f"{ascii(list(outputs))[:80]}, those of the row {ascii(list(row.outputs))[:80]}"
                    "; score predictions on the data that they were made on"
                )
                raise RulerError(msg)
            yield row, several


def answer_of(run: RunInfo, prediction: Answer | None, task: Task) -> str | None:
    """Return the text that is scored, without reasoning; None for a row without an answer."""
    if prediction is None or prediction.text is None:
        return None
    return scored_text(prediction, opened=opens(run.frame), cleaned=task.metric in CLEANED)
