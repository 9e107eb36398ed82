"""The answers of a run, wherever they stand: read line by line, never held all at once.

A first pass notes where each row's answer stands; a second reads them in the order of the rows.
So a million answers, or one of a megabyte, cost no more memory than their places.

Predictions that others made on the frozen rows, in the forms that they are found in.

    {"id": "vt_4096/17", "prediction": "..."}                        plain
    {"index": 17, "pred": "...", "outputs": [...], ...}              upstream: vt_4096.jsonl
                                                                     or 4096/pred/vt.jsonl
    {"doc": {"index": 17, ...}, "filtered_resps": ["..."], ...}      lm-evaluation-harness samples

A line is refused, with its number, if anything in it is missing or of another type. Upstream and
the harness also make rows of their own under the same names, so the golden answers that their
lines carry are compared with those of the frozen rows.

What a run left behind, read: its description and the journals of its shards.
"""

import json
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, BinaryIO, NamedTuple, get_type_hints

from pydantic import TypeAdapter, ValidationError

from ruler_data.errors import RulerError, UsageError
from ruler_data.names import config_name, parse_config, quote
from ruler_data.tasks import TASKS
from ruler_eval.schema import ANSWER_FILES, RUN_FILE, Prediction, RunInfo


class Line(NamedTuple):
    """What a line holds.

    Attributes:
        answer: to a row.
        outputs: golden answers that the line says the row has; None if it says nothing.
    """

    answer: Prediction
    outputs: tuple[str, ...] | None = None


#: Reads one line of a file; a ValueError says what is wrong with it.
Parse = Callable[[bytes, Path], Line]


class Place(NamedTuple):
    """A line: which file, from which byte, and its number from 1."""

    file: int
    offset: int
    line: int


@dataclass(frozen=True)
class Answers:
    """Where the answer of each row stands.

    Attributes:
        files: that hold them.
        parse: reads a line of these files.
        places: of each row, by config and index; rows without an answer are absent.
        notes: what was left out, for people.
    """

    files: tuple[Path, ...]
    parse: Parse
    places: Mapping[tuple[str, int], Place]
    notes: tuple[str, ...] = ()

    def of(self, config: str, rows: int) -> Iterator[Line | None]:
        """Yield the answers to the first rows of a config; None where there is none."""
        open_files: dict[int, BinaryIO] = {}
        try:
            for index in range(rows):
                place = self.places.get((config, index))
                yield None if place is None else self._read(place, open_files)
        finally:
            for file in open_files.values():
                file.close()

    def _read(self, place: Place, open_files: dict[int, BinaryIO]) -> Line:
        path = self.files[place.file]
        if place.file not in open_files:
            open_files[place.file] = path.open("rb")
        file = open_files[place.file]
        file.seek(place.offset)
        return self.parse(file.readline(), path)


@dataclass
class _Pass:
    """The first pass over the files, so far."""

    rows: Mapping[str, int]
    answered: dict[tuple[str, int], Place] = field(default_factory=dict)
    failed: dict[tuple[str, int], Place] = field(default_factory=dict)

    def take(self, answer: Prediction, place: Place) -> None:
        """Note a line; a failure gives way to an answer.

        Raises:
            ValueError: the row was not asked, or was answered before.
        """
        row = (answer.config, answer.index)
        if not 0 <= answer.index < self.rows.get(answer.config, 0):
            asked = self.rows.get(answer.config)
            known = f"rows 0 to {asked - 1}" if asked else "other configs"
            msg = f"{quote(answer.config)} row {answer.index} was not asked; {known} were"
            raise ValueError(msg)
        if answer.text is None:
            self.failed[row] = place
            return
        if row in self.answered:
            before = self.answered[row].line
            msg = f"{answer.config} row {answer.index} was answered before, in line {before}"
            raise ValueError(msg)
        self.answered[row] = place


def index_answers(
    files: Sequence[Path], parse: Parse, rows: Mapping[str, int], *, torn: bool
) -> Answers:
    """Find every row's answer in files of one line each.

    Args:
        files: to read.
        parse: reads a line.
        rows: how many rows of each config were asked.
        torn: whether the last line of a file may have been cut off by a crash; it is left out
            and noted.

    Raises:
        RulerError: a line cannot be read, or is of a row that was not asked or was answered before.
    """
    found = _Pass(rows)
    notes: list[str] = []
    for number, path in enumerate(files):
        for place, line, last in _lines(number, path):
            try:
                found.take(parse(line, path).answer, place)
            except ValueError as error:
                if torn and last and not line.endswith(b"\n"):
                    notes.append(f"{path.name}: the last line is torn; {len(line)} bytes left out")
                    continue
                msg = f"{path.name} line {place.line}: {error}"
                raise RulerError(msg) from error
    return Answers(tuple(files), parse, {**found.failed, **found.answered}, tuple(notes))


def load_object(line: bytes) -> dict[str, object]:
    """Return the JSON object of a line.

    Raises:
        ValueError: it is none.
    """
    try:
        record = json.loads(line)
    except (ValueError, RecursionError) as error:
        msg = f"not JSON ({type(error).__name__})"
        raise ValueError(msg) from error
    if not isinstance(record, dict):
        msg = "not a JSON object"
        raise ValueError(msg)
    return record


def _lines(number: int, path: Path) -> Iterator[tuple[Place, bytes, bool]]:
    """Yield the lines of a file that hold anything, and whether each is its last."""
    size = path.stat().st_size
    offset = line_number = 0
    with path.open("rb") as file:
        for line in file:
            line_number += 1
            if line.strip():
                yield Place(number, offset, line_number), line, offset + len(line) == size
            offset += len(line)


_SAMPLES = re.compile(r"samples_(?P<task>.+?)_\d{4}-\d{2}-\d{2}T.*")
#: The harness's names of tasks that are not upstream's (its tasks/ruler, 0.4.13).
_HARNESS = {
    "ruler_vt": "vt",
    "ruler_cwe": "cwe",
    "ruler_fwe": "fwe",
    "ruler_qa_squad": "qa_1",
    "ruler_qa_hotpot": "qa_2",
}


def read_predictions(place: Path, rows: Mapping[str, int]) -> Answers:
    """Read a file of predictions, or every `.jsonl` file under a folder.

    Args:
        place: file or folder.
        rows: number of rows of each config of the data.

    Raises:
        UsageError: there are no predictions.
        RulerError: a line is refused.
    """
    files = [place] if place.is_file() else sorted(place.rglob("*.jsonl"))
    if not files:
        msg = f"{quote(str(place))}: no run and no .jsonl predictions are here"
        raise UsageError(msg)
    return index_answers(files, parse_prediction, rows, torn=False)


def parse_prediction(line: bytes, path: Path) -> Line:
    """Read a line of any of the three forms.

    Raises:
        ValueError: it is of none, or something in it is missing.
    """
    record = load_object(line)
    for name, read in _FORMS.items():
        if name in record:
            return read(record, path)
    msg = f"no prediction: none of the fields {', '.join(_FORMS)}"
    raise ValueError(msg)


def _plain(record: dict[str, Any], _path: Path) -> Line:
    row = _get(record, "id", str)
    config, slash, index = row.rpartition("/")
    if not (slash and index.isascii() and index.isdigit() and len(index) < 10):
        msg = f"id {quote(row)} is no row; a row is CONFIG/INDEX, e.g. vt_4096/17"
        raise ValueError(msg)
    return _line(config, int(index), _get(record, "prediction", str), None)


def _upstream(record: dict[str, Any], path: Path) -> Line:
    index, text = _get(record, "index", int), _get(record, "pred", str)
    return _line(_config_of(path.stem, path), index, text, _get(record, "outputs", list))


def _samples(record: dict[str, Any], path: Path) -> Line:
    doc = _get(record, "doc", dict)
    response = record.get("filtered_resps") or record.get("resps")
    while isinstance(response, list) and response:
        response = response[0]
    if not isinstance(response, str):
        msg = "filtered_resps holds no text"
        raise ValueError(msg)
    match = _SAMPLES.fullmatch(path.stem)
    name = match["task"] if match else path.stem
    if isinstance(doc.get("max_length"), int):  # the harness's own ruler tasks
        config = config_name(_HARNESS.get(name, name), doc["max_length"])
    else:
        config = _config_of(name, path)
    return _line(config, _get(doc, "index", int), response, _get(doc, "outputs", list))


_FORMS = {"prediction": _plain, "pred": _upstream, "doc": _samples}


def _line(config: str, index: int, text: str, outputs: list[Any] | None) -> Line:
    if outputs is not None and not all(isinstance(output, str) for output in outputs):
        msg = "field outputs: a list of texts expected"
        raise ValueError(msg)
    answer = Prediction(config, index, text, None, None, None, None)
    return Line(answer, None if outputs is None else tuple(outputs))


def _config_of(name: str, path: Path) -> str:
    """Return the config that a file is of, by its name and the folders above it."""
    if name in TASKS:  # upstream's layout: LENGTH/pred/TASK.jsonl
        above = [path.parent.name, path.parent.parent.name]
        lengths = [int(part) for part in above if part.isascii() and part.isdigit()]
        if lengths:
            return config_name(name, lengths[0])
    else:
        with suppress(RulerError):
            return config_name(*parse_config(name))
    msg = "the file's name says no config; name it CONFIG.jsonl, e.g. vt_4096.jsonl"
    raise ValueError(msg)


def _get(record: dict[str, Any], name: str, kind: type) -> Any:  # noqa: ANN401 - of that kind
    value = record.get(name)
    if not isinstance(value, kind) or isinstance(value, bool):
        found = "missing" if name not in record else type(value).__name__
        msg = f"field {name}: {kind.__name__} expected, found {found}"
        raise ValueError(msg)
    return value


def read_run(folder: Path) -> tuple[RunInfo, Answers]:
    """Read what a run left behind.

    Raises:
        UsageError: it is no run.
        RulerError: its files are damaged.
    """
    path = folder / RUN_FILE
    if not path.is_file():
        msg = f"{quote(str(folder))}: holds no {RUN_FILE}; give the folder that a run wrote"
        raise UsageError(msg)
    try:
        run = _RUN.validate_json(path.read_bytes(), strict=True, extra="ignore")
    except ValidationError as error:
        first = error.errors()[0]
        place = ".".join(map(str, first["loc"])) or "the file"
        msg = f"{path}: not a run: {place}: {first['msg']}; run it again"
        raise RulerError(msg) from error
    said = load_object(path.read_bytes()).get("fingerprint", run.fingerprint)
    if said != run.fingerprint:
        msg = (
            f"{path}: edited after it was written: it says {said}, its content is {run.fingerprint}"
        )
        raise RulerError(msg)
    files = sorted(folder.glob(ANSWER_FILES))
    if not files:
        msg = f"{quote(str(folder))}: holds no {ANSWER_FILES}; no row was answered yet"
        raise UsageError(msg)
    return run, index_answers(files, parse_answer, run.data.rows, torn=True)


def parse_answer(line: bytes, _path: Path) -> Line:
    """Read a line of our own journal.

    Raises:
        ValueError: it is not an answer.
    """
    record = load_object(line)
    for name, kind in _FIELDS.items():
        value = record.get(name)
        if not isinstance(value, kind) or isinstance(value, bool):
            found = "nothing" if name not in record else type(value).__name__
            msg = f"not an answer: field {name} holds {found}"
            raise ValueError(msg)
    known: dict[str, Any] = {name: record.get(name) for name in _FIELDS}
    return Line(Prediction(**known))


_RUN = TypeAdapter(RunInfo)
#: JSON has one kind of number.
_FIELDS: dict[str, Any] = {
    name: kind | int if kind == float | None else kind
    for name, kind in get_type_hints(Prediction).items()
}
