"""Read predictions: the journals of a run, files of other tools, a mapping or records.

    {"id": "vt_4096/17", "prediction": "..."}                        plain
    {"config": "vt_4096", "index": 17, "text": "..."}                plain, the journal's names
    {"index": 17, "pred": "...", "outputs": [...], ...}              upstream: vt_4096.jsonl
                                                                     or 4096/pred/vt.jsonl
    {"doc": {"index": 17, ...}, "filtered_resps": ["..."], ...}      lm-evaluation-harness samples

A first pass over a file notes the offset of each row's line, a second pass reads the lines in the
order of the rows: memory grows with the number of rows, not with the length of their texts.

A line is refused, with its number, if a field is missing or has another type. Upstream and the
harness also draw rows of their own under the same names, so the gold answers in their lines are
kept: `ruler_eval.scoring` compares them with those of the frozen rows.
"""

import json
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO, NamedTuple

from pydantic import TypeAdapter, ValidationError

from ruler_data.errors import RulerError, UsageError
from ruler_data.names import config_name, parse_config, quote
from ruler_data.tasks import TASKS
from ruler_eval import journal
from ruler_eval.schema import ANSWER_FILES, RUN_FILE, Prediction, RunInfo
from ruler_eval.sharding import Key


@dataclass(frozen=True)
class ImportedPrediction(Prediction):
    """A prediction that another tool wrote.

    Attributes:
        outputs: the gold answers that its line has for the row; None if the line has none.
    """

    outputs: tuple[str, ...] | None = None


class Line(NamedTuple):
    """A line of a file: its offset in bytes and its number from 1."""

    path: Path
    offset: int
    number: int

    def __str__(self) -> str:
        return f"{self.path.name} line {self.number}"


#: Reads one line; a RulerError names the line and what is wrong with it.
Parser = Callable[[bytes, Line], Prediction]


@dataclass(frozen=True)
class Predictions:
    """The predictions for the rows of a dataset.

    Attributes:
        entries: by row, the prediction or the line that holds it; rows without one are absent.
        parse: reads these lines.
        notes: what was left out, for people.
    """

    entries: Mapping[Key, Prediction | Line]
    parse: Parser
    notes: tuple[str, ...] = ()

    @property
    def configs(self) -> set[str]:
        """The configs that have a prediction."""
        return {config for config, *_ in self.entries}

    def of(self, config: str, rows: int, sample: int = 0) -> Iterator[Prediction | None]:
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

    A last line that a crash cut off is left out and noted.

    Raises:
        UsageError: the folder holds no run, or the run has no prediction yet.
        RulerError: a file is damaged.
    """
    run = read_info(folder)
    files = sorted(folder.glob(ANSWER_FILES))
    if not files:
        msg = f"{quote(str(folder))}: has no {ANSWER_FILES}; no row was answered yet"
        raise UsageError(msg)
    notes: list[str] = []
    entries = _index(_read(files, _parse_journal, notes), run.data.rows)
    return run, Predictions(entries, _parse_journal, tuple(notes))


def read_info(folder: Path) -> RunInfo:
    """Return the description of a run.

    Raises:
        UsageError: the folder holds no run.
        RulerError: it is damaged.
    """
    path = folder / RUN_FILE
    if not path.is_file():
        msg = f"{quote(str(folder))}: has no {RUN_FILE}; give the output folder of a run"
        raise UsageError(msg)
    try:
        run = _RUN.validate_json(path.read_bytes(), strict=True, extra="ignore")
    except ValidationError as error:
        first = error.errors()[0]
        field = ".".join(map(str, first["loc"])) or "the file"
        msg = f"{path}: not a run: {field}: {first['msg']}; run it again"
        raise RulerError(msg) from error
    noted = json.loads(path.read_bytes()).get("fingerprint", run.fingerprint)
    if noted != run.fingerprint:
        msg = (
            f"{path}: edited after it was written: its fingerprint is {noted}, that of its "
            f"content {run.fingerprint}"
        )
        raise RulerError(msg)
    return run


def read_files(place: Path, rows: Mapping[str, int]) -> Predictions:
    """Return the predictions of a file, or of every `.jsonl` file under a folder.

    Args:
        place: file or folder.
        rows: number of rows of each config of the data.

    Raises:
        UsageError: there are no predictions.
        RulerError: a line is refused.
    """
    if not place.exists():
        msg = f"{quote(str(place))}: no such run, file or folder"
        raise UsageError(msg)
    files = [place] if place.is_file() else sorted(place.rglob("*.jsonl"))
    if not files:
        msg = f"{quote(str(place))}: has neither a run nor .jsonl predictions"
        raise UsageError(msg)
    return Predictions(_index(_read(files, parse_line), rows), parse_line)


def from_records(
    records: Mapping[str, str] | Iterable[Mapping[str, Any]], rows: Mapping[str, int]
) -> Predictions:
    """Return predictions given as `{"vt_4096/0": text}`, or as records of the plain form.

    Raises:
        UsageError: these are no records.
        RulerError: a record is refused.
    """
    if not isinstance(records, Iterable):
        msg = (
            f"predictions {quote(str(records))}: give a run, a file, texts by row "
            '({"vt_4096/0": "..."}) or records'
        )
        raise UsageError(msg)
    if isinstance(records, Mapping):
        records = ({"id": row, "prediction": text} for row, text in records.items())
    numbered = ((record, f"record {number}") for number, record in enumerate(records, 1))
    located = ((_parse_record(record, where, Path()), where) for record, where in numbered)
    return Predictions(_index(located, rows), parse_line)


_RUN = TypeAdapter(RunInfo)
#: Where a prediction is: a line, or the number of a record.
_Located = tuple[Prediction, Line | str]


def _read(
    files: Sequence[Path], parse: Parser, torn: list[str] | None = None
) -> Iterator[_Located]:
    """Yield the predictions of files; if `torn` is given, notes of unfinished lines go there."""
    for path in files:
        offset = 0
        with path.open("rb") as file:
            for number, line in enumerate(file, 1):
                if torn is not None and not line.endswith(b"\n"):
                    torn.append(
                        f"{path.name}: the last line is incomplete; {len(line)} bytes ignored"
                    )
                elif line.strip():
                    where = Line(path, offset, number)
                    yield parse(line, where), where
                offset += len(line)


def _index(
    predictions: Iterable[_Located], rows: Mapping[str, int]
) -> dict[Key, Prediction | Line]:
    """Return where the prediction for each row is; a failed request gives way to an answer.

    Raises:
        RulerError: a prediction is for a row that is not among `rows`, or is a second one.
    """
    entries: dict[Key, Prediction | Line] = {}
    failed: set[Key] = set()
    for prediction, where in predictions:
        key = prediction.key
        config, index, _ = key
        if not 0 <= index < rows.get(config, 0):
            last = rows.get(config, 0) - 1
            known = f"rows 0 to {last} are" if last >= 0 else f"no row of {quote(config)} is"
            msg = f"{where}: {quote(f'{config}/{index}')} is not a row to score; {known}"
            raise RulerError(msg)
        answered = key in entries and key not in failed
        if answered and prediction.text is not None:
            first = f", in {entries[key]}" if isinstance(where, Line) else ""
            msg = f"{where}: {config}/{index} already has a prediction{first}"
            raise RulerError(msg)
        if not answered:
            entries[key] = where if isinstance(where, Line) else prediction
            (failed.add if prediction.text is None else failed.discard)(key)
    return entries


def _parse_journal(line: bytes, where: Line) -> Prediction:
    return journal.parse(line, str(where))


def parse_line(line: bytes, where: Line) -> ImportedPrediction:
    """Return the prediction of a line of any form that another tool writes.

    Raises:
        RulerError: the line has none of the forms, or a field is missing or of another type.
    """
    try:
        record = json.loads(line)
    except (ValueError, RecursionError) as error:
        msg = f"{where}: not JSON ({type(error).__name__})"
        raise RulerError(msg) from error
    return _parse_record(record, str(where), where.path)


def _parse_record(record: Any, where: str, path: Path) -> ImportedPrediction:  # noqa: ANN401
    """Return the prediction of a record; `path` is the file that it is from."""
    try:
        if not isinstance(record, Mapping):
            msg = f"a mapping expected, found {type(record).__name__}"
            raise TypeError(msg)
        form = next((form for field, form in _FORMS.items() if field in record), None)
        if form is None:
            msg = f"no prediction: none of the fields {', '.join(_FORMS)}"
            raise ValueError(msg)
        return form(record, path)
    except (TypeError, ValueError) as error:
        msg = f"{where}: {error}"
        raise RulerError(msg) from error


_SAMPLES = re.compile(r"samples_(?P<task>.+?)_\d{4}-\d{2}-\d{2}T.*")
#: The harness's names of tasks that differ from upstream's (its tasks/ruler, 0.4.13).
_HARNESS = {
    "ruler_vt": "vt",
    "ruler_cwe": "cwe",
    "ruler_fwe": "fwe",
    "ruler_qa_squad": "qa_1",
    "ruler_qa_hotpot": "qa_2",
}


def _plain(record: Mapping[str, Any], _path: Path) -> ImportedPrediction:
    text = _get(record, "text" if "text" in record else "prediction", str)
    if "id" not in record:
        return _prediction(_get(record, "config", str), _get(record, "index", int), text)
    row = _get(record, "id", str)
    config, slash, index = row.rpartition("/")
    if not (slash and index.isascii() and index.isdigit() and len(index) < 10):
        msg = f"id {quote(row)} is not a row; a row is CONFIG/INDEX, e.g. vt_4096/17"
        raise ValueError(msg)
    return _prediction(config, int(index), text)


def _upstream(record: Mapping[str, Any], path: Path) -> ImportedPrediction:
    index, text = _get(record, "index", int), _get(record, "pred", str)
    return _prediction(_config_of(path.stem, path), index, text, _get(record, "outputs", list))


def _harness(record: Mapping[str, Any], path: Path) -> ImportedPrediction:
    doc = _get(record, "doc", dict)
    response = record.get("filtered_resps") or record.get("resps")
    while isinstance(response, list) and response:
        response = response[0]
    if not isinstance(response, str):
        msg = "filtered_resps has no text"
        raise ValueError(msg)
    match = _SAMPLES.fullmatch(path.stem)
    name = match["task"] if match else path.stem
    if isinstance(doc.get("max_length"), int):  # the harness's own ruler tasks
        config = config_name(_HARNESS.get(name, name), doc["max_length"])
    else:
        config = _config_of(name, path)
    return _prediction(config, _get(doc, "index", int), response, _get(doc, "outputs", list))


#: By the field that tells a form.
_FORMS: dict[str, Callable[[Mapping[str, Any], Path], ImportedPrediction]] = {
    "prediction": _plain,
    "pred": _upstream,
    "doc": _harness,
    "text": _plain,
}


def _prediction(
    config: str, index: int, text: str, outputs: list[Any] | None = None
) -> ImportedPrediction:
    if outputs is not None and not all(isinstance(output, str) for output in outputs):
        msg = "field outputs: a list of strings expected"
        raise ValueError(msg)
    gold = None if outputs is None else tuple(outputs)
    return ImportedPrediction(config, index, text, None, None, None, None, outputs=gold)


def _config_of(name: str, path: Path) -> str:
    """Return the config of a file, from its name and the folders above it."""
    if name in TASKS:  # upstream's layout: LENGTH/pred/TASK.jsonl
        above = [path.parent.name, path.parent.parent.name]
        lengths = [int(part) for part in above if part.isascii() and part.isdigit()]
        if lengths:
            return config_name(name, lengths[0])
    else:
        with suppress(RulerError):
            return config_name(*parse_config(name))
    msg = "the file name has no config; name it CONFIG.jsonl, e.g. vt_4096.jsonl"
    raise ValueError(msg)


def _get(record: Mapping[str, Any], name: str, kind: type) -> Any:  # noqa: ANN401 - of that kind
    value = record.get(name)
    if not isinstance(value, kind) or isinstance(value, bool):
        found = "missing" if name not in record else type(value).__name__
        msg = f"field {name}: {kind.__name__} expected, found {found}"
        raise ValueError(msg)
    return value
