"""Read predictions and pair them with frozen rows.

Predictions are the journals of a run, or files of other tools. Of a .jsonl file
only the offset of each row's line is kept, and a second pass reads the lines in the order of the
rows: memory grows with the number of rows, not with the length of their texts.
"""

import zipfile
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, closing
from dataclasses import dataclass
from functools import partial
from itertools import chain
from pathlib import Path
from typing import Any, BinaryIO

from ruler_data.errors import RulerError, UsageError
from ruler_data.names import quote
from ruler_data.parquet import UNREADABLE
from ruler_data.row import Row
from ruler_data.tasks import Task
from ruler_eval import journal
from ruler_eval.answers import Answer, Key, scored_text, settle
from ruler_eval.data import Dataset
from ruler_eval.metrics import CLEANED
from ruler_eval.prompts import PROTOCOLS
from ruler_eval.reasoning import opens
from ruler_eval.run_dir import ANSWER_FILES, RUN_FILE, RunFolder, RunInfo, read_info
from ruler_eval.scoring import PREDICTIONS, Data, open_rows, rows_of_run
from ruler_report.prediction_formats import (
    READERS,
    ImportedPrediction,
    Line,
    parse_line,
    parse_record,
)

#: Reads one line; a RulerError names the line and what is wrong with it.
Parser = Callable[[bytes, Line], Answer]


@dataclass(frozen=True)
class Predictions:
    """The predictions for the rows of a dataset.

    `entries` has each row's prediction or the line that holds it, which `parse` reads.
    """

    entries: Mapping[Key, Answer | Line]
    parse: Parser
    notes: tuple[str, ...] = ()

    @property
    def configs(self) -> set[str]:
        """The configs that have a prediction."""
        return {config for config, *_ in self.entries}

    def of(self, config: str, rows: int, sample: int = 0) -> Iterator[Answer | None]:
        """Yield the predictions for the first rows of a config; None for a row without one."""
        files: dict[Path, BinaryIO] = {}
        with ExitStack() as stack:
            for index in range(rows):
                entry = self.entries.get((config, index, sample))
                if isinstance(entry, Line):
                    if entry.path not in files:
                        files[entry.path] = stack.enter_context(entry.path.open("rb"))
                    files[entry.path].seek(entry.offset)
                    entry = self.parse(files[entry.path].readline(), entry)
                yield entry


def read_run(folder: Path) -> tuple[RunInfo, Predictions]:
    """Return the description of a run and its predictions.

    A line that a crash tore is left out and noted; of two answers to a row the first counts.

    Raises:
        UsageError: the folder holds no run, or the run has no prediction yet.
        RulerError: a file is damaged.
    """
    run = read_info(folder)
    files = sorted(folder.glob(ANSWER_FILES))
    if not files:
        msg = f"{quote(str(folder))}: has no {ANSWER_FILES}; no row was answered yet"
        raise UsageError(msg)
    torn: list[str] = []
    found = (
        (answer, Line(path, offset, number))
        for path in files
        for answer, offset, number in journal.read(path, torn)
    )
    entries: dict[Key, Answer | Line] = {}
    for (config, index, sample), (line, reason) in settle(found).items():
        if 0 <= index < run.data.rows.get(config, 0):
            failed = Answer(config, index, error=reason, sample=sample)
            entries[config, index, sample] = failed if reason else line
    decision = RunFolder(folder).decision()
    decided = [] if decision is None else [f"{decision['answer']}; {decision['guarantee']}"]
    return run, Predictions(entries, journal.parse, (*torn, *decided))


def _read_files(place: Path, rows: Mapping[str, int]) -> Predictions:
    """Return the predictions of a file, or of every file of a known form under a folder."""
    parse = partial(parse_line, configs=frozenset(rows))
    files = [place] if place.is_file() else sorted(place.rglob("*"))
    others = [path for path in files if path.suffix in READERS]
    lines = [path for path in files if path.suffix == ".jsonl" or (path == place and not others)]
    located = chain(_read(lines, parse), *(_read_other(path, rows) for path in others))
    if not (entries := _index(located, rows)):
        kinds = ", ".join((".jsonl", *READERS))
        msg = f"{quote(str(place))}: has neither a run nor predictions ({kinds})"
        raise UsageError(msg)
    return Predictions(entries, parse)


_Located = tuple[Answer, Line]


def _read(files: Sequence[Path], parse: Parser) -> Iterator[_Located]:
    """Yield the predictions of files."""
    for path in files:
        offset = 0
        with path.open("rb") as file:
            for number, line in enumerate(file, 1):
                if line.strip():
                    where = Line(path, offset, number)
                    yield parse(line, where), where
                offset += len(line)


def _read_other(path: Path, configs: Collection[str]) -> Iterator[_Located]:
    """Yield the predictions of a file that is not of lines; none if it holds something else."""
    try:
        yield from _parsed(READERS[path.suffix](path), path, "row", configs)
    except (*UNREADABLE, zipfile.BadZipFile, NotImplementedError, RecursionError) as error:
        msg = f"{path.name}: cannot be read ({type(error).__name__}: {error})"
        raise RulerError(msg) from error


def _parsed(
    records: Iterable[Mapping[str, Any]], path: Path, unit: str, configs: Collection[str]
) -> Iterator[_Located]:
    for number, record in enumerate(records, 1):
        where = Line(path, 0, number, unit)
        yield parse_record(record, where, configs), where


def _index(predictions: Iterable[_Located], rows: Mapping[str, int]) -> dict[Key, Answer | Line]:
    """Return where the prediction for each row is; a failed request gives way to an answer."""
    entries: dict[Key, Answer | Line] = {}
    failed: set[Key] = set()
    for prediction, where in predictions:
        key = prediction.key
        config, index, _ = key
        if not 0 <= index < rows.get(config, 0):
            last = rows.get(config, 0) - 1
            known = f"rows 0 to {last} are" if last >= 0 else f"no row of {quote(config)} is"
            msg = f"{where}: {quote(f'{config}/{index}')} is not a row to score; {known}"
            raise RulerError(msg)
        in_lines = where.unit == "line"
        answered = key in entries and key not in failed
        if answered and prediction.text is not None:
            first = f", in {entries[key]}" if in_lines else ""
            msg = f"{where}: {config}/{index} already has a prediction{first}"
            raise RulerError(msg)
        if not answered:
            entries[key] = where if in_lines else prediction
            (failed.add if prediction.text is None else failed.discard)(key)
    return entries


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
        UsageError: something is not there, or more must be said.
        RulerError: something is damaged, or the predictions are for other rows.
    """
    if protocol and protocol not in PROTOCOLS:
        msg = f"--protocol {quote(protocol)}: not known; known: {', '.join(PROTOCOLS)}"
        raise UsageError(msg)
    if (place / RUN_FILE).is_file():
        if model or protocol:
            msg = "--model and --protocol are for predictions; a run has its own"
            raise UsageError(msg)
        run, found = read_run(place)
        return run, found, rows_of_run(place, run, data, revision)
    if not place.exists():
        msg = f"{quote(str(place))}: no such run, file or folder"
        raise UsageError(msg)
    rows = open_rows(data, revision)
    found = _read_files(place, rows.rows)
    rows = rows.choose(found.configs).fetch()
    return RunInfo(rows.info, model, None, protocol, PREDICTIONS), found, rows


def pair_rows(
    data: Dataset, predictions: Predictions, config: str, samples: int = 1
) -> Iterator[tuple[Row, tuple[Answer | None, ...]]]:
    """Yield each row of a config with the predictions of its samples, None where there is none.

    Raises:
        RulerError: the rows cannot be read, or a prediction has other gold answers than its row.
    """
    count = data.rows[config]
    found = zip(*(predictions.of(config, count, n) for n in range(samples)), strict=True)
    with closing(data.read(config)) as rows:
        for row, several in zip(rows, found, strict=True):
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
