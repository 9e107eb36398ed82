"""The columns in which tools keep RULER's rows and answers: one table for all that reads them.

    tool         prompt               gold answers     answer            file
    ruler-data   context, question    outputs                            vt_4096/test-*.parquet
    plain                                              prediction, text  any.jsonl
    upstream     input                outputs          pred              4096/pred/vt.jsonl
    kvpress      context, question    answer           predicted_answer  predictions.csv
    lm-eval      doc: input           doc: outputs     filtered_resps    samples_ruler_vt_*.jsonl
    NeMo-Skills  question             expected_answer  generation        ruler.x_4k.vt/output.jsonl
    NeMo Gym     message of a request outputs          response.output   rollouts.jsonl
    self-long    input                answers                            vt_64k/*.parquet
    ruler-full   prompt (in ChatML)   extra_info: ...                    *.parquet
    RULER v2     question             expected_answer                    test.jsonl

`identify` reads rows by it, `score` and `audit` answers. A path such as `doc.input` is of names and
of places in lists. Rows of lighteval are those of upstream; most tools name a row by its task and
its number alone, so the length stands in the name of a file or of a folder above it.
"""

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, BinaryIO, NamedTuple

from ruler_data.errors import RulerError
from ruler_data.files import TEXT_BYTES, open_file, parse_json, read_bytes, read_lines
from ruler_data.names import UNITS, quote


@dataclass(frozen=True)
class Layout:
    """How a tool names the columns of its records.

    Attributes:
        tool: that writes it.
        prompt: columns that make the prompt, without the answer prefix where that has a column.
        prefix: column of the answer prefix; empty where it ends the prompt, or is left out.
        outputs: column of the gold answers; empty where there are none.
        answer: column of the generated text; empty where only rows are written.
        index: column of the row's number within its task, or of `CONFIG/INDEX`.
        sample: column of the number of an answer among several to one row.
        task: columns that may name the task or config; where none does, the file's name does.
        length: column of the config's length in tokens.
    """

    tool: str
    prompt: tuple[str, ...] = ()
    prefix: str = ""
    outputs: str = ""
    answer: str = ""
    index: str = "index"
    sample: str = ""
    task: tuple[str, ...] = ()
    length: str = ""


#: The last message of a request of NeMo Gym.
MESSAGE = "responses_create_params.input.-1.content"
#: The number of a row in NeMo Gym's file of all tasks.
GYM_ROW = "_ng_task_index"
#: Rows of RULER v2.
V2 = "RULER v2"
#: The first that fits is a record's: tools also write the columns of others.
LAYOUTS = (
    Layout("plain", answer="prediction", index="id", sample="sample"),
    Layout(
        "NeMo Gym",
        (MESSAGE,),
        outputs="outputs",
        answer="response.output",
        index=GYM_ROW,
        sample="_ng_rollout_index",
        task=("subset",),
    ),
    Layout(
        V2,
        (MESSAGE,),
        outputs="expected_answer",
        answer="response.output",
        index=GYM_ROW,
        sample="_ng_rollout_index",
        task=("task",),
    ),
    # Rollouts of 2026-03 lack gold answers and task.
    Layout(
        "NeMo Gym",
        (MESSAGE,),
        answer="response.output",
        index=GYM_ROW,
        sample="_ng_rollout_index",
    ),
    Layout("ruler-data", ("context", "question"), "answer_prefix", "outputs", task=("task",)),
    Layout(
        "kvpress",
        ("context", "question"),
        "answer_prefix",
        "answer",
        "predicted_answer",
        task=("config", "task"),
        length="data_dir",
    ),
    # On rows that `ruler-data export` wrote, and on the harness's own.
    Layout(
        "lm-eval",
        ("doc.context", "doc.question"),
        "doc.answer_prefix",
        "doc.outputs",
        "filtered_resps",
        "doc.index",
    ),
    Layout(
        "lm-eval",
        ("doc.input",),
        "doc.gen_prefix",
        "doc.outputs",
        "filtered_resps",
        "doc.index",
        length="doc.max_length",
    ),
    Layout("upstream", ("input",), "answer_prefix", "outputs", "pred"),
    Layout("upstream", ("input",), "", "outputs", "pred"),
    Layout("self-long", ("input",), "", "answers"),
    Layout("ruler-full", ("prompt",), "", "extra_info.ground_truth.answers", task=("category",)),
    Layout("NeMo-Skills", ("question",), "generation", "expected_answer", "generation"),
    Layout(V2, ("question",), "", "expected_answer"),
    Layout("plain", answer="text", index="id", sample="sample"),
)

MISSING = object()


def value_at(record: object, path: str) -> Any:  # noqa: ANN401 - parsed JSON
    """Return what stands at a path; `MISSING` if nothing does.

    >>> value_at({"doc": {"input": [{"text": "a"}, {"text": "b"}]}}, "doc.input.-1.text")
    'b'
    """
    value: Any = record
    for name in path.split("."):
        if isinstance(value, Mapping):
            value = value.get(name, MISSING)
        elif isinstance(value, list) and re.fullmatch(r"-?[0-9]", name):
            place = int(name)
            value = value[place] if -len(value) <= place < len(value) else MISSING
        else:
            return MISSING
    return value


def _has(record: object, *paths: str) -> bool:
    return all(value_at(record, path) is not MISSING for path in paths if path)


def layout_of_row(record: object) -> Layout | None:
    """Return the layout of a record that has a prompt and gold answers."""
    for layout in LAYOUTS:
        columns = (*layout.prompt, layout.prefix, layout.outputs)
        if layout.prompt and layout.outputs and _has(record, *columns):
            return layout
    return None


def layout_of_answer(record: object) -> Layout | None:
    """Return the layout of a record that has a generated text: that which lacks fewest columns."""

    def lacking(layout: Layout) -> int:
        return sum(not _has(record, column) for column in (*layout.prompt, layout.outputs))

    layouts = (layout for layout in LAYOUTS if layout.answer and _has(record, layout.answer))
    return min(layouts, key=lacking, default=None)


class Place(NamedTuple):
    """Where a record stands: its file, None for records of a caller, and its number, from 1."""

    path: Path | None
    number: int

    def __str__(self) -> str:
        if self.path is None:
            return f"record {self.number}"
        if self.path.suffix == ".jsonl":
            return f"{self.path.name} line {self.number}"
        return f"{self.path.name} row {self.number}"


@dataclass(frozen=True)
class ToolAnswer:
    """An answer as a tool wrote it.

    Attributes:
        tool: that wrote it.
        task: or the name that stands for it; empty where only the prompt tells it.
        length: of the config in tokens; None if no name tells.
        index: of the row within its task.
        outputs: gold answers of the row; None if the record has none.
        prompt: text that was sent, as far as the record has it.
        reward: score that the tool gave it; None if the record has none.
    """

    where: Place
    tool: str
    task: str
    length: int | None
    index: int
    sample: int
    text: str
    outputs: tuple[str, ...] | None = None
    prompt: str = ""
    reward: float | None = None


#: Ends of the names of files of answers.
ANSWERS = (".jsonl", ".csv")


def files_of_answers(place: Path) -> list[Path]:
    """Return the file, or the files of a folder, that answers are read from."""
    if place.is_file():
        return [place]
    return [path for path in sorted(place.rglob("*")) if path.suffix in ANSWERS]


def read_answers(path: Path, length: int | None = None) -> list[ToolAnswer]:
    """Return the answers of a file; `length` (tokens) counts where no name tells one.

    Raises:
        RulerError: the file, or one of its records, cannot be read.
    """
    if path.suffix == ".csv":
        return parse_answers(records_of_csv(path), length)
    return parse_answers(records_of_lines(path), length)


def parse_answers(
    records: Iterable[tuple[Place, Any]], length: int | None = None
) -> list[ToolAnswer]:
    """Return the answers of records; see `read_answers`."""
    answers = []
    for where, record in records:
        if isinstance(record, RulerError):
            raise record
        try:
            answers.append(_parse_answer(record, where, length))
        except (TypeError, ValueError) as error:
            raise RulerError(f"{where}: {error}") from error
    return _numbered_within_tasks(answers)


def _parse_answer(record: Any, where: Place, length: int | None) -> ToolAnswer:  # noqa: ANN401
    if not isinstance(record, Mapping):
        raise TypeError(f"a mapping expected, found {type(record).__name__}")
    layout = layout_of_answer(record)
    if layout is None and layout_of_row(record):
        raise ValueError("a row without an answer; `ruler-data identify` says whose rows these are")
    if layout is None:
        names = dict.fromkeys(layout.answer for layout in LAYOUTS if layout.answer)
        raise ValueError(f"no prediction: none of the fields {', '.join(names)}")
    outputs = _outputs(record, layout)
    prompt = _prompt(record, layout)
    name, index = _name_and_index(record, layout, where, prompt, outputs)
    task, length_of_name = split_config(task_of_name(name))
    reward = record.get("reward")
    return ToolAnswer(
        where=where,
        tool=layout.tool,
        task=task,
        length=whole_number(record, layout.length)
        or length_of_name
        or length_of_path(where.path)
        or length,
        index=index,
        sample=whole_number(record, layout.sample) or 0,
        text=text_of(value_at(record, layout.answer), layout.answer),
        outputs=outputs,
        prompt=prompt,
        reward=float(reward) if isinstance(reward, int | float) else None,
    )


def _outputs(record: Mapping[str, Any], layout: Layout) -> tuple[str, ...] | None:
    if not layout.outputs:
        return None
    outputs = value_at(record, layout.outputs)
    if isinstance(outputs, str):
        outputs = [outputs]
    if not isinstance(outputs, list) or not all(isinstance(output, str) for output in outputs):
        actual = _kind_of(outputs)
        raise ValueError(f"field {layout.outputs}: a list of strings expected, found {actual}")
    return tuple(outputs)


def _kind_of(value: object) -> str:
    """Return the type of a record's value, for an error."""
    if value is MISSING:
        return "nothing"
    return type(value).__name__


def _prompt(record: Mapping[str, Any], layout: Layout) -> str:
    """Return the texts of a prompt that a record has; kvpress writes none of the context."""
    texts = [value_at(record, column) for column in layout.prompt]
    return "".join(text for text in texts if isinstance(text, str))


def _name_and_index(
    record: Mapping[str, Any],
    layout: Layout,
    where: Place,
    prompt: str,
    outputs: tuple[str, ...] | None,
) -> tuple[str, int]:
    """Return the name of a record's task or config, and the number of its row."""
    if layout.index == "id":
        return _row_of_id(record)
    name = next((str(record[column]) for column in layout.task if record.get(column)), "")
    index = whole_number(record, layout.index)
    if layout.index == GYM_ROW:
        if index is None:
            index = where.number - 1
        return name, index
    if index is None:
        actual = _kind_of(value_at(record, layout.index))
        raise ValueError(f"field {layout.index}: int expected, found {actual}")
    if outputs and index > 0 and prompt.find(outputs[0]) == index:
        index = where.number - 1  # since 2025-06 upstream's niah writes the answer's place instead
    return name or name_of_file(where.path), index


def _row_of_id(record: Mapping[str, Any]) -> tuple[str, int]:
    if "id" not in record:
        for name, kind in (("config", str), ("index", int)):
            value = record.get(name, MISSING)
            if type(value) is not kind:
                raise ValueError(f"field {name}: {kind.__name__} expected, found {_kind_of(value)}")
        return record["config"], record["index"]
    row = record["id"]
    remedy = "is not a row; a row is CONFIG/INDEX, e.g. vt_4096/17"
    if not isinstance(row, str):
        raise ValueError(f"id {type(row).__name__} {remedy}")
    match = re.fullmatch(r"(.*)/([0-9]{1,9})", row, re.DOTALL)
    if match is None:
        raise ValueError(f"id {quote(row)} {remedy}")
    return match[1], int(match[2])


def whole_number(record: object, path: str) -> int | None:
    """Return a whole number, or its digits, at a path; None if there is none."""
    value = value_at(record, path)
    if isinstance(value, str) and value.isascii() and value.isdigit():
        return int(value)
    if type(value) is int:
        return value
    return None


def text_of(value: object, column: str) -> str:
    """Return a generated text: itself, the first of a list, or the messages of a response.

    >>> text_of([["a"]], "resps"), text_of([{"type": "message", "content": [{"text": "b"}]}], "x")
    ('a', 'b')
    """
    if isinstance(value, list) and all(isinstance(item, Mapping) for item in value):
        return _text_of_messages(value)
    while isinstance(value, list) and value:
        value = value[0]
    if not isinstance(value, str):
        raise ValueError(f"field {column}: str expected, found {type(value).__name__}")
    return value


def _text_of_messages(items: list[Mapping[str, Any]]) -> str:
    """Return the texts of the messages of a response, joined."""
    texts = list[str]()
    for item in items:
        if item.get("type") != "message":
            continue
        for piece in item.get("content") or ():
            if isinstance(piece, Mapping):
                texts.append(str(piece.get("text", "")))
    return "".join(texts)


def _numbered_within_tasks(answers: list[ToolAnswer]) -> list[ToolAnswer]:
    """Return answers whose rows count within their tasks, where NeMo Gym counts through all."""
    rows: dict[str, dict[int, int]] = {}
    for answer in sorted(answers, key=lambda answer: answer.index):
        if answer.tool in ("NeMo Gym", V2):
            places = rows.setdefault(answer.task, {})
            places.setdefault(answer.index, len(places))
    numbered = list[ToolAnswer]()
    for answer in answers:
        if answer.task in rows:
            answer = replace(answer, index=rows[answer.task][answer.index])
        numbered.append(answer)
    return numbered


_SAMPLES = re.compile(r"samples_(?P<task>.+?)_\d{4}-\d{2}-\d{2}T.*")
#: The harness's names of tasks that differ from upstream's (its tasks/ruler, 0.4.13).
_HARNESS = {"qa_squad": "qa_1", "qa_hotpot": "qa_2"}


def name_of_file(path: Path | None) -> str:
    """Return what a file's name says of its config; NeMo-Skills has it in the folder's."""
    if path is None:
        return ""
    if path.stem.startswith("output"):
        return path.parent.name.rpartition(".")[2]
    if match := _SAMPLES.fullmatch(path.stem):
        return match["task"]
    return path.stem


def task_of_name(name: str) -> str:
    """Return upstream's name of a task, or the config, that a tool calls by another one.

    >>> task_of_name("lighteval|ruler:qa_squad|0"), task_of_name("ruler_vt_4096")
    ('qa_1', 'vt_4096')
    """
    fields = name.split("|")
    if len(fields) > 2:  # lighteval's: SUITE|TASK|SHOTS
        name = fields[1]
    else:
        name = fields[0]
    name = name.rpartition(":")[2].removeprefix("ruler_")
    return _HARNESS.get(name, name)


#: Tokens of the shortest config that a name is taken to mean.
SHORTEST = 500
_LENGTHS = re.compile(
    r"(?<![0-9A-Za-z.])([1-9][0-9]{2,7})(?![0-9A-Za-z])|(?<![0-9])([1-9][0-9]{0,3})([kKmM])(?![A-Za-z0-9])"
)


def split_config(name: str) -> tuple[str, int | None]:
    """Return task and length in tokens of a config's name; of a task's, None.

    >>> split_config("vt_4096"), split_config("qa_1")
    (('vt', 4096), ('qa_1', None))
    """
    task, _, digits = name.rpartition("_")
    if task and digits.isascii() and digits.isdigit() and int(digits) >= SHORTEST:
        return task, int(digits)
    return name, None


def length_of_path(path: Path | None, name: str = "") -> int | None:
    """Return the length in tokens that a name, a file or a folder above it tells.

    Of folders above the file's own, a number within a name may be anything, e.g. a year.

    >>> length_of_path(Path("ruler__4096__knorm/predictions.csv"))
    4096
    >>> length_of_path(Path("65486/pred/vt.jsonl")), length_of_path(Path("2025-runs/x/vt.jsonl"))
    (65486, None)
    """
    if path is None:
        return None
    cached = [part for part in path.parts if part.startswith("datasets--")]  # in the Hub's cache
    lengths = [_length_of_name(text) for text in (name, path.stem, path.parent.name)]
    lengths += [_length_of_folder(folder.name) for folder in path.parents[1:4]]
    lengths += [_length_of_name(part) for part in cached]
    return next(filter(None, lengths), None)


def _length_of_folder(name: str) -> int | None:
    """Return the length that a folder's name tells if it is a usual one, or all of the name."""
    length = _length_of_name(name) or 0
    is_usual = length % 1000 == 0 or length % 1024 == 0
    return length if is_usual or name.isdecimal() else None


def _length_of_name(name: str) -> int | None:
    """Return the length in tokens that a name tells; not the number of a file, a hash or a date."""
    clean = re.sub(r"-[0-9]{5}-of-[0-9]{5}|[0-9a-f]{40}", "", name).replace("_", " ")
    clean = re.sub(r"[0-9]{4}-[0-9]{2}-[0-9]{2}T.*", "", clean)  # the harness's samples
    for digits, short, unit in _LENGTHS.findall(clean):
        if digits and int(digits) >= SHORTEST:
            return int(digits)
        if short:
            return int(short) * UNITS[unit.lower()]
    return None


def records_of_lines(path: Path) -> Iterator[tuple[Place, Any]]:
    """Yield the records of a file of lines, or an error for a line that holds none.

    Raises:
        RulerError: the file cannot be read, or a line is too long.
    """
    try:
        for number, line in enumerate(map(bytes.strip, read_lines(path)), 1):
            where = Place(path, number)
            if line:
                yield where, _parsed(line, where)
    except OSError as error:
        raise _unreadable(path, error) from error


def _parsed(line: bytes, where: Place) -> Any:  # noqa: ANN401 - parsed JSON
    try:
        return parse_json(line)
    except ValueError as error:
        reason = type(error).__name__
        if type(error) is ValueError:
            reason = str(error)
        return RulerError(f"{where}: not JSON ({reason})")


def _unreadable(path: Path, error: Exception) -> RulerError:
    return RulerError(path.name, f"cannot be read ({type(error).__name__}: {_one_line(error)})")


def _one_line(error: Exception) -> str:
    return " ".join(str(error).split())


#: Most bytes of the head of a table, and fields of its lines.
CSV_HEAD = 4096
CSV_FIELDS = 1 << 20
#: Rows of a table that are read at once.
CSV_ROWS = 1024
#: A text of a list as numpy writes it, with either quotes.
_NUMPY_TEXT = re.compile(r"""'((?:[^'\\]|\\.)*)'|"((?:[^"\\]|\\.)*)\"""")


def records_of_csv(path: Path) -> Iterator[tuple[Place, Any]]:
    """Yield the lines of kvpress's `predictions.csv`, with its length from `config.yaml`.

    Without a column `index`, rows count within a task. The gold answers were written by numpy:
    `['a' 'b']`. Another table has no lines.

    Raises:
        RulerError: the file cannot be read.
    """
    try:
        for number, record in enumerate(_csv_rows(path), 1):
            yield Place(path, number), record
    except (OSError, KeyError, ValueError, RecursionError) as error:
        raise _unreadable(path, error) from error


def _csv_rows(path: Path) -> Iterator[dict[str, Any]]:
    import pandas as pd

    length = _length_of_settings(path.with_name("config.yaml"))
    counts = Counter[str]()
    with open_file(path, TEXT_BYTES) as file:
        _check_width(path, file)
        tables = pd.read_csv(
            file, dtype=str, keep_default_na=False, lineterminator="\n", chunksize=CSV_ROWS
        )  # pandas wrote it, and does not quote a text for its carriage returns
        for table in tables:
            table.columns = table.columns.str.strip()
            if "predicted_answer" not in table or "answer" not in table:
                return
            for record in table.to_dict("records"):
                task = record.get("task", "")
                record["answer"] = [
                    re.sub(r"\\(.)", r"\1", single or double)
                    for single, double in _NUMPY_TEXT.findall(record["answer"])
                ]
                record["index"] = int(record.get("index") or counts[task])
                if length:
                    record["data_dir"] = length
                counts[task] += 1
                yield record


def _length_of_settings(path: Path) -> str:
    """Return the length that kvpress's settings beside a table name; empty if none does."""
    if not path.is_file():
        return ""
    text = read_bytes(path).decode(errors="replace")
    match = re.search(r"^data_dir: *['\"]?([0-9]+)", text, re.MULTILINE)
    if match is None:
        return ""
    return match[1]


def _check_width(path: Path, file: BinaryIO) -> None:
    """Raise an error if the head or a line of a table would fill the memory once it is split."""
    is_wide = len(file.readline(CSV_HEAD + 1)) > CSV_HEAD
    if is_wide or max((line.count(b",") for line in file), default=0) >= CSV_FIELDS:
        reason = f"has a head of over {CSV_HEAD:,} bytes, or a line of over {CSV_FIELDS:,} fields"
        raise RulerError(path.name, reason)
    file.seek(0)
