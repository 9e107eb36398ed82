"""The rows of a run, found again and held against what the run recorded of them."""

import os
from collections.abc import Collection, Iterator
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple

from ruler_data.dataset import Dataset as LoadedDataset
from ruler_data.dataset import Rows
from ruler_data.errors import RulerError, UsageError
from ruler_data.manifest import FILENAME
from ruler_data.names import is_repo
from ruler_data.terminal import visible_line
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
    # A repo without a revision may be the one whose index led the run to another repo.
    is_repo_name = isinstance(data, str) and not Path(data).is_dir() and is_repo(data)
    is_redirected = revision is None and run.data.repo and is_repo_name
    starts = reversed([*RunFolder(folder).starts()])
    folders = (str(start["data"]) for start in starts if "data" in start)
    local = next((path for path in folders if Path(path, FILENAME).is_file()), None)
    source = run.data.repo if is_redirected else data or run.data.repo or local
    if source is None:
        raise UsageError(
            "--data is missing: give the folder or Hub repo of the rows "
            f"(tokenizer {visible_line(run.data.tokenizer)}) to `ruler-eval score`"
        )
    commit = run.data.revision if source == run.data.repo else None
    dataset = open_rows(source, revision or commit)
    for difference in _differences(run.data, dataset):
        raise RulerError(folder, f"{difference}; give --data the dataset of the run")
    return replace(dataset, rows=run.data.rows)


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
