"""What is scored: the rows of a run, found again, and the predictions of other tools.

The rows are held against what the run recorded of them. `ruler_data.layouts` reads what tools
write; most of them draw rows of their own under the same names, so the gold answers beside a
prediction are kept, and compared with those of the rows.
"""

import os
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, NamedTuple

from ruler_data.dataset import Dataset as LoadedDataset
from ruler_data.dataset import Rows
from ruler_data.errors import RulerError, UsageError
from ruler_data.layouts import Place, ToolAnswer, files_of_answers, parse_answers, read_answers
from ruler_data.manifest import FILENAME
from ruler_data.names import config_name, is_repo, quote
from ruler_data.terminal import visible_line
from ruler_eval.running.answers import Answer, Key
from ruler_eval.running.data import DataInfo, Dataset, open_dataset
from ruler_eval.running.run_dir import RunFolder, RunInfo, read_info

#: A folder, a Hub repo, or what `ruler_data.load` or `open_dataset` returned.
Data = str | os.PathLike[str] | LoadedDataset | Rows | Dataset
#: What a run records of its rows and the manifest says, too.
RECORDED = ("suite", "seed", "sample", "tokenizer", "tokenizer_fingerprint", "edition", "essays")


def rows_of_run(
    folder: Path, run: RunInfo, data: Data | None = None, revision: str | None = None
) -> Dataset:
    """Return the rows of a run, not fetched; they must be those that it recorded.

    They are looked for in `data`; by default where the run read them.

    Raises:
        UsageError: it is not known where they are.
        RulerError: they are others, or the run describes them otherwise than their manifest.
    """
    source = data
    if not data or _is_redirected(run, data, revision):
        source = run.data.repo or _last_folder(folder)
    if source is None:
        raise UsageError(
            "--data is missing: give the folder or Hub repo of the rows "
            f"(tokenizer {visible_line(run.data.tokenizer)}) to `ruler-eval score`"
        )
    if source == run.data.repo:
        revision = revision or run.data.revision
    dataset = open_rows(source, revision)
    for difference in _differences(run.data, dataset):
        raise RulerError(folder, f"{difference}; give --data the dataset of the run")
    return replace(dataset, rows=run.data.rows)


def _is_redirected(run: RunInfo, data: Data, revision: str | None) -> bool:
    """Whether a repo may be the one whose index led the run to another repo."""
    if revision is not None or not run.data.repo or not isinstance(data, str):
        return False
    return is_repo(data) and not Path(data).is_dir()


def _last_folder(folder: Path) -> str | None:
    """Return the folder that a run last read its rows from; None if they are not there."""
    for start in reversed([*RunFolder(folder).starts()]):
        path = str(start.get("data", ""))
        if path and Path(path, FILENAME).is_file():
            return path
    return None


class Text(NamedTuple):
    """The texts of a row; the answer is the first of its samples."""

    question: str
    outputs: tuple[str, ...]
    answer: str


class Texts:
    """The texts of a run, read from its rows and answers."""

    def __init__(self, folder: Path, data: Data | None) -> None:
        """Open a run.

        Raises:
            RulerError: it is no run, or its rows or answers are not there.
        """
        self._rows = rows_of_run(folder, read_info(folder), data).fetch()
        self._answers = RunFolder(folder).answers([])

    def of(self, keys: Collection[tuple[str, int]]) -> dict[tuple[str, int], Text]:
        """Return the texts of rows by config and index; rows without an answer are left out."""
        texts = {}
        for config in dict.fromkeys(config for config, _ in keys):
            for row in self._rows.question_rows(config):
                answer = self._answers.get((config, row.index, 0))
                if answer is not None and (config, row.index) in keys:
                    texts[config, row.index] = Text(row.question, row.outputs, answer.text or "")
        return texts


def open_rows(data: Data | None, revision: str | None = None) -> Dataset:
    """Return the rows that `data` names, not fetched."""
    if data is None:
        raise UsageError("--data is missing: give the folder or Hub repo of the rows")
    if isinstance(data, Dataset):
        return data
    if isinstance(data, Rows):
        return Dataset(data.source, {data.config: len(data)})
    if isinstance(data, LoadedDataset):
        return Dataset(data.source, {name: data.manifest.configs[name].rows for name in data})
    return open_dataset(str(data), revision)


def _differences(recorded: DataInfo, data: Dataset) -> Iterator[str]:
    """Yield what a run says of its rows and their manifest does not."""
    for config, digest in recorded.digests.items():
        info = data.manifest.configs.get(config)
        if info is None or info.digest != digest:
            digest_there = info.digest if info else "no such config"
            yield f"{config}: the run used rows {digest}, the data has {digest_there}"
        elif not 0 < recorded.rows.get(config, 0) <= info.rows:
            yield f"{config}: the run has {recorded.rows.get(config, 0)} rows, the data {info.rows}"
    actual = data.info
    for name in RECORDED:
        of_run = getattr(recorded, name)
        of_rows = getattr(actual, name)
        if of_run != of_rows:
            yield f"the run says that {name} is {of_run}, the manifest of the rows {of_rows}"


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
