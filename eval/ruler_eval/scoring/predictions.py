"""Predictions of other tools, in the forms in which these write them.

    {"id": "vt_4096/17", "prediction": "..."}   plain, also with config, index and text
    vt_4096.jsonl, 4096/pred/vt.jsonl           upstream
    samples_ruler_vt_4096_DATE.jsonl            lm-evaluation-harness (`--log_samples`)
    ruler.llama_4096.vt/output.jsonl            NeMo-Skills
    predictions.csv                             kvpress, with its config.yaml

`_FORMS` says where a record has the row, the text and the gold answers. Most tools also draw rows
of their own under the same names, so their gold answers are kept and compared with those of the
frozen rows.
"""

import re
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO, NamedTuple

from ruler_data.errors import RulerError, UsageError
from ruler_data.files import TEXT_BYTES, open_file, parse_json, read_bytes, read_lines
from ruler_data.names import config_name, quote
from ruler_data.tasks import TASKS
from ruler_eval.running.answers import Answer, Key

#: Most bytes of the head of a table, fields of its lines, and rows that are read at once.
CSV_HEAD, CSV_FIELDS, CSV_ROWS = 4096, 1 << 20, 1024

#: A text of a list as numpy writes it, with either quotes.
_NUMPY_TEXT = re.compile(r"""'((?:[^'\\]|\\.)*)'|"((?:[^"\\]|\\.)*)\"""")

#: A file or folder, `{"vt_4096/0": text}`, or records.
Predictions = Path | Mapping[str, str] | Iterable[Mapping[str, Any]]


@dataclass(frozen=True)
class ImportedPrediction(Answer):
    """A prediction that another tool wrote.

    Attributes:
        outputs: the gold answers that its line has for the row; None if the line has none.
    """

    outputs: tuple[str, ...] | None = None


class Place(NamedTuple):
    """Where a prediction stands: its file, None for records, and its number there, from 1."""

    path: Path | None
    number: int

    def __str__(self) -> str:
        if self.path is None:
            return f"record {self.number}"
        return f"{self.path.name} {'row' if self.path.suffix == '.csv' else 'line'} {self.number}"


def read_predictions(predictions: Predictions, rows: Mapping[str, int]) -> dict[Key, Answer]:
    """Return the predictions for rows, given the number of rows of each config.

    Raises:
        UsageError: there are none.
        RulerError: one is damaged, is there twice, or is of no row.
    """
    places: dict[Key, Place] = {}
    answers: dict[Key, Answer] = {}
    for where, record in _records(predictions):
        if record is None:
            continue
        answer = parse_record(record, where, rows)
        row = quote(f"{answer.config}/{answer.index}")
        if not 0 <= answer.index < rows.get(answer.config, 0):
            last = rows.get(answer.config, 0) - 1
            rows_there = (
                f"rows 0 to {last} are" if last >= 0 else f"no row of {quote(answer.config)} is"
            )
            msg = f"{where}: {row} is not a row to score; {rows_there}"
            raise RulerError(msg)
        if answers.setdefault(answer.key, answer) is not answer:
            msg = f"{where}: {row} already has a prediction, in {places[answer.key]}"
            raise RulerError(msg)
        places[answer.key] = where
    if not answers:
        file = f"{quote(str(predictions))}: " if isinstance(predictions, Path) else ""
        msg = f"{file}no predictions: give a run, a file, texts by row or records"
        raise UsageError(msg)
    return answers


def _records(predictions: Predictions) -> Iterator[tuple[Place, Any]]:
    if isinstance(predictions, Mapping):
        predictions = [{"id": row, "text": text} for row, text in predictions.items()]
    if not isinstance(predictions, Path):
        yield from ((Place(None, number), body) for number, body in enumerate(predictions, 1))
        return
    for path in files_of(predictions):
        try:
            for number, record in enumerate(_READERS.get(path.suffix, _lines)(path), 1):
                yield Place(path, number), record
        except (OSError, KeyError, ValueError, RecursionError) as error:
            said = " ".join(str(error).split())
            msg = f"{path.name}: cannot be read ({type(error).__name__}: {said})"
            raise RulerError(msg) from error


def files_of(place: Path) -> list[Path]:
    """Return the file, or the files of a folder, that predictions are read from."""
    if place.is_file():
        return [place]
    return [path for path in sorted(place.rglob("*")) if path.suffix in _READERS]


def _lines(path: Path) -> Iterator[Any]:
    """Yield what the lines of a file hold; None for an empty line."""
    for number, line in enumerate(read_lines(path), 1):
        try:
            yield parse_json(line) if line.strip() else None
        except ValueError as error:
            msg = f"{Place(path, number)}: not JSON ({type(error).__name__})"
            raise RulerError(msg) from error


def records_of_csv(path: Path) -> Iterator[Mapping[str, Any]]:
    """Yield the lines of `predictions.csv`; without a column index, rows count within a task.

    The gold answers were written by numpy: `['a' 'b']`.
    """
    import pandas as pd

    settings = path.with_name("config.yaml")
    text = read_bytes(settings).decode(errors="replace") if settings.is_file() else ""
    length = re.search(r"^data_dir: *['\"]?([0-9]+)", text, re.MULTILINE)
    counts = Counter[str]()
    with open_file(path, TEXT_BYTES) as file:
        _check_width(path, file)
        for table in pd.read_csv(
            file, dtype=str, keep_default_na=False, lineterminator="\n", chunksize=CSV_ROWS
        ):  # pandas wrote it, and does not quote a text for its carriage returns
            table.columns = table.columns.str.strip()
            if "predicted_answer" not in table or "answer" not in table:
                return
            for record in table.to_dict("records"):
                task = record.get("task", "")
                gold = _NUMPY_TEXT.findall(record["answer"])
                yield {
                    **record,
                    "answer": [
                        re.sub(r"\\(.)", r"\1", single or double) for single, double in gold
                    ],
                    "name": record.get("config") or f"{task}_{length[1]}" if length else task,
                    "index": int(record.get("index") or counts[task]),
                }
                counts[task] += 1


def _check_width(path: Path, file: BinaryIO) -> None:
    """Raise an error if the head or a line of a table would fill the memory once it is split."""
    is_wide = len(file.readline(CSV_HEAD + 1)) > CSV_HEAD
    if is_wide or max((line.count(b",") for line in file), default=0) >= CSV_FIELDS:
        reason = f"has a head of over {CSV_HEAD:,} bytes, or a line of over {CSV_FIELDS:,} fields"
        raise RulerError(path.name, reason)
    file.seek(0)


#: By suffix, how the records of a file are read.
_READERS: Mapping[str, Callable[[Path], Iterator[Any]]] = {".jsonl": _lines, ".csv": records_of_csv}


class Form(NamedTuple):
    """How one tool writes a prediction; a path is of fields, and enters a list at its first item.

    Attributes:
        mark: field that only this form has.
        text: path of the generated text.
        outputs: path of the gold answers; empty if there are none.
        row: path of the row's index, a number or its digits; or of its id, CONFIG/INDEX.
        name: path of the name of the config or task; empty for that of the file.
    """

    mark: str
    text: str
    outputs: str = ""
    row: str = "index"
    name: str = ""


_FORMS = (
    Form("prediction", "prediction", row="id"),
    Form("pred", "pred", "outputs"),
    Form("filtered_resps", "filtered_resps", "doc.outputs", "doc.index"),  # lm-eval
    Form("resps", "resps", "doc.outputs", "doc.index"),
    Form("expected_answer", "generation", "expected_answer"),  # NeMo-Skills
    Form("predicted_answer", "predicted_answer", "answer", name="name"),  # kvpress
    Form("text", "text", row="id"),
)
_SAMPLES = re.compile(r"samples_(?P<task>.+?)_\d{4}-\d{2}-\d{2}T.*")
#: The harness's names of tasks that differ from upstream's (its tasks/ruler, 0.4.13).
_HARNESS = {"qa_squad": "qa_1", "qa_hotpot": "qa_2"}
_LENGTH = re.compile(
    r"(?<![0-9a-z])([1-9][0-9]{2,7})(?![0-9a-z])|(?<![0-9a-z])([0-9]{1,4})k\b", re.I
)


def parse_record(
    record: Any,  # noqa: ANN401
    where: Place,
    configs: Collection[str],
) -> ImportedPrediction:
    """Return the prediction of a record; errors say where it is."""
    try:
        if not isinstance(record, Mapping):
            msg = f"a mapping expected, found {type(record).__name__}"
            raise TypeError(msg)
        form = next((form for form in _FORMS if form.mark in record), None)
        if form is None:
            msg = f"no prediction: none of the fields {', '.join(form.mark for form in _FORMS)}"
            raise ValueError(msg)
        outputs = tuple(_at(record, form.outputs, list)) if form.outputs else None
        if not all(isinstance(output, str) for output in outputs or ()):
            msg = f"field {form.outputs}: a list of strings expected"
            raise ValueError(msg)
        config, index = _row(form, record, where, configs)
        text = _at(record, form.text, str)
    except (TypeError, ValueError) as error:
        msg = f"{where}: {error}"
        raise RulerError(msg) from error
    return ImportedPrediction(config, index, text, outputs=outputs)


def _row(
    form: Form, record: Mapping[str, Any], where: Place, configs: Collection[str]
) -> tuple[str, int]:
    """Return config and index of a record."""
    if form.row == "id" and "id" in record:
        row = _at(record, "id", str)
        if not (match := re.fullmatch(r"(.*)/([0-9]{1,9})", row, re.DOTALL)):
            msg = f"id {quote(row)} is not a row; a row is CONFIG/INDEX, e.g. vt_4096/17"
            raise ValueError(msg)
        return match[1], int(match[2])
    if form.row == "id":
        return _at(record, "config", str), _at(record, "index", int)
    index = _at(record, form.row, object)
    if isinstance(index, str) and index.isascii() and index.isdigit():
        index = int(index)
    if type(index) is not int:
        msg = f"field {form.row}: int expected, found {type(index).__name__}"
        raise ValueError(msg)
    text, gold = record.get("input"), record.get("outputs")
    if isinstance(text, str) and gold and index > 0 and text.find(str(gold[0])) == index:
        index = where.number - 1  # since 2025-06 upstream's niah writes the answer's place instead
    doc = record.get("doc")
    if isinstance(doc, Mapping) and isinstance(doc.get("max_length"), int):
        return config_name(_task(_stem(where.path)), doc["max_length"]), index
    name = _at(record, form.name, str) if form.name else _stem(where.path)
    return _config_of(name, where.path, configs), index


def _stem(path: Path | None) -> str:
    """Return what a file's name says of its config; NeMo-Skills has it in the folder's."""
    if path is None:
        return ""
    if path.stem.startswith("output"):
        return path.parent.name.rpartition(".")[2]
    match = _SAMPLES.fullmatch(path.stem)
    return match["task"] if match else path.stem


def _task(name: str) -> str:
    """Return upstream's name of a task, or the config, that a tool calls by another one."""
    name = name.partition("|")[0].rpartition(":")[2].removeprefix("ruler_")
    return _HARNESS.get(name, name)


def _config_of(name: str, path: Path | None, configs: Collection[str]) -> str:
    """Return the config of a name: itself, or its task with a length of the folders above."""
    name = _task(name)
    if name in configs:
        return name
    same = [config for config in configs if config.rpartition("_")[0] == name]
    if name in TASKS or same:
        folders = (path.parent.name, path.parent.parent.name) if path else ()
        for folder in folders:
            for number, kilo in _LENGTH.findall(folder):
                config = config_name(name, int(number) if number else int(kilo) * 1024)
                if not configs or config in configs:
                    return config
        if len(same) == 1:
            return same[0]
    elif (match := re.fullmatch(r"[a-z0-9_]+_[1-9][0-9]*", name)) is not None:
        return match[0]
    msg = "the file name has no config; name it CONFIG.jsonl, e.g. vt_4096.jsonl"
    raise ValueError(msg)


def _at(record: Any, path: str, kind: type) -> Any:  # noqa: ANN401 - of that kind
    """Return the value at a path."""
    value, missing = record, False
    for name in path.split("."):
        while isinstance(value, list) and value:
            value = value[0]
        missing = not isinstance(value, Mapping) or name not in value
        value = None if missing else value[name]
    while isinstance(value, list) and value and kind is str:
        value = value[0] if not isinstance(value[0], Mapping) else value[0].get("text")
    if not isinstance(value, kind) or isinstance(value, bool):
        actual = "missing" if missing else type(value).__name__
        msg = f"field {path}: {kind.__name__} expected, found {actual}"
        raise ValueError(msg)
    return value
