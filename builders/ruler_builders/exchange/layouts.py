"""Rows of other tools, as `ruler_data.layouts` finds their columns, with their prompts parsed.

A prompt is read from its end: the last question tells the family and where the context ends, and
what stands before the first instruction and between question and answer prefix is a chat template.
"""

import re
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from ruler_builders.checks.prompt_parser import template_of
from ruler_builders.checks.ruler2_rows import task_of_prompt
from ruler_builders.upstream import TEMPLATES
from ruler_builders.upstream.niah import singular
from ruler_data.errors import RulerError, UsageError
from ruler_data.files import parse_json, read_json, unwritable
from ruler_data.hub.download import fetch_tables
from ruler_data.layouts import (
    V2,
    Layout,
    Place,
    layout_of_row,
    length_of_path,
    records_of_lines,
    value_at,
    whole_number,
)
from ruler_data.names import quote
from ruler_data.parquet import UNREADABLE, opened
from ruler_data.row import Row
from ruler_data.suites import load_suite
from ruler_data.tasks import TASKS, Niah, Task

#: Files of rows.
SUFFIXES = (".jsonl", ".json", ".parquet")


@dataclass(frozen=True)
class OtherRow:
    """A row in one of the layouts, its prompt parsed.

    Attributes:
        where: file and number of the record, from 1.
        layout: name of the tool that writes it so.
        task: of the prompt, by its text.
        size: length of the config in tokens, by names of files and columns; None if unknown.
        context: with the opening of a chat template, as the question ends with its `closing`.
        answer_prefix: that of the task, if the row has lost its own.
        has_prefix: whether the row has its answer prefix.
        index: as stored; likewise `length`, and `budget`, of the answer, both in tokens.
    """

    where: str
    layout: str
    task: Task
    size: int | None
    context: str
    question: str
    answer_prefix: str
    opening: str
    closing: str
    has_prefix: bool
    outputs: tuple[str, ...]
    index: int | None
    length: int | None
    budget: int | None

    @property
    def prompt(self) -> str:
        """The text that a model continues, with the answer prefix restored if it was lost."""
        return self.context + self.question + self.answer_prefix

    @property
    def template(self) -> str:
        """Name of upstream's chat template in the prompt; a text where it is another one."""
        around = f"{self.opening}{{task_template}}{self.closing}"
        names = (name for name, text in TEMPLATES.items() if around in (text, singular(text)))
        return next(names, around)

    def row(self, index: int) -> Row:
        """Return the row in the columns of this dataset, without length and evidence."""
        texts = self.context, self.question, self.answer_prefix
        budget = self.budget or self.task.max_new_tokens
        return Row(index, self.task.name, *texts, self.outputs, budget, 0, ())


def all_tasks() -> dict[str, Task]:
    """Return the tasks of RULER and of RULER v2."""
    return {**load_suite("ruler2").tasks, **TASKS}


def find_files(place: str, revision: str | None, pattern: str) -> tuple[list[Path], str]:
    """Return the files of rows of a file, a folder or a Hub repo, and the repo with its commit.

    Raises:
        UsageError: there are none.
        RulerError: the Hub does not provide them.
    """
    path = Path(place).expanduser()
    repo = ""
    if not path.exists():
        commit, files = fetch_tables(place, revision or "main", pattern, SUFFIXES)
        repo = f"{place}@{commit}"
    elif revision:
        raise UsageError(f"--revision {quote(revision)}: {quote(place)} is not a repo")
    else:
        files = sorted(path.glob(pattern))
        if path.is_file():
            files = [path]
    readable = [file for file in files if file.suffix in SUFFIXES and file.is_file()]
    if not readable:
        raise UsageError(quote(place), f"has no rows; files of rows end in {', '.join(SUFFIXES)}")
    return readable, repo


@contextmanager
def new_folder(out: Path) -> Iterator[Path]:
    """Yield the path of a folder to make, which takes the place `out` at the end.

    Raises:
        UsageError: there is something already.
        RulerError: the folder cannot be written.
    """
    if out.exists() and (not out.is_dir() or any(out.iterdir())):
        raise UsageError(f"--out {quote(str(out), 200)}: exists already; name a new folder")
    try:
        out.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=out.parent, prefix=f".{out.name}.") as scratch:
            folder = Path(scratch) / "folder"
            yield folder
            folder.replace(out)
    except OSError as error:
        raise unwritable(out, error) from error


def read_file(path: Path, size: int | None = None) -> Iterator[OtherRow | str]:
    """Yield the rows of a file; for a bad row, a message with its place.

    `size` is the length of all configs, in tokens, instead of what names tell.

    Raises:
        RulerError: the file cannot be read.
    """
    try:
        for where, record in records_of(path):
            if isinstance(record, RulerError):
                yield str(record)
                continue
            try:
                yield _row(record, where, size)
            except (ValueError, TypeError, KeyError, RecursionError) as error:
                yield f"{where}: {error}"
    except (*UNREADABLE, MemoryError, RecursionError) as error:
        reason = f"{type(error).__name__}: {' '.join(str(error).split())}"
        raise RulerError(path, f"cannot be read ({reason})") from error


def records_of(path: Path) -> Iterator[tuple[Place, Any]]:
    """Yield the records of a file, each with its place."""
    if path.suffix == ".jsonl":
        yield from records_of_lines(path)
        return
    for number, record in enumerate(_records(path), 1):
        yield Place(path, number), record


def _records(path: Path) -> Iterator[Any]:
    if path.suffix == ".parquet":
        with opened(path) as file:
            for batch in file.batches():
                yield from batch.to_pylist()
        return
    body = read_json(path)
    if isinstance(body, list):
        yield from body
    elif layout_of_row(body):  # repos keep settings, results and manifests in JSON, too
        yield body


def _row(record: Any, where: Place, size: int | None) -> OtherRow:  # noqa: ANN401
    if not isinstance(record, Mapping):
        raise TypeError(f"a mapping expected, found {type(record).__name__}")
    layout = layout_of_row(record)
    if layout is None:
        columns = ", ".join(map(str, record))[:120] or "none"
        raise ValueError(f"no known layout: its columns are {columns}")
    text = "".join(_text(record, column) for column in layout.prompt)
    name = _name(record, layout)
    row = OtherRow(
        str(where),
        layout.tool,
        task=next(iter(TASKS.values())),
        size=size or whole_number(record, layout.length) or length_of_path(where.path, name),
        context="",
        question="",
        answer_prefix="",
        opening="",
        closing="",
        has_prefix=True,
        outputs=tuple(_outputs(record, layout)),
        index=whole_number(record, layout.index),
        length=whole_number(record, "length") or whole_number(record, "doc.length"),
        budget=whole_number(record, "max_new_tokens"),
    )
    if layout.tool == V2 or name in all_tasks().keys() - TASKS.keys():
        task_name, context, question = _parse_v2(text, name)
        return replace(row, task=all_tasks()[task_name], context=context, question=question)
    return _with_prompt(row, text, _prefix(record, layout, text), name)


def _name(record: Mapping[str, Any], layout: Layout) -> str:
    """Return the name of the task or config that a record's columns have; empty if none has one."""
    for column in layout.task:
        if record.get(column):
            return str(record[column])
    return ""


def _prefix(record: Mapping[str, Any], layout: Layout, text: str) -> str:
    """Return the answer prefix, with the space before it; empty if it has no column."""
    if not layout.prefix:
        return ""
    prefix = _text(record, layout.prefix)
    if prefix and not prefix[0].isspace() and not text[-1:].isspace():
        return " " + prefix  # the harness puts the space, NeMo-Skills strips it
    return prefix


def _with_prompt(row: OtherRow, text: str, prefix: str, name: str) -> OtherRow:
    """Return a row with the parts of its prompt; a lost answer prefix is that of the task."""
    family, opening, context, question, closing, prefix = _parse_prompt(text, prefix)
    task = TASKS.get(name) or _task(family, context, question, list(row.outputs))
    row = replace(
        row,
        task=task,
        context=context,
        question=question + closing,
        answer_prefix=prefix,
        opening=opening,
        closing=closing,
        has_prefix=bool(prefix),
    )
    if row.has_prefix:
        return row
    return replace(row, answer_prefix=template_of(task, row.row(0)).prefix)


def _parse_v2(text: str, named: str) -> tuple[str, str, str]:
    """Return the task of a prompt of RULER v2, its context and its question.

    A prompt in other words, as in the examples of NeMo Gym, is all context.
    """
    try:
        return task_of_prompt(text)
    except ValueError:
        if named in all_tasks():
            return named, text, ""
        raise


def _outputs(record: Mapping[str, Any], layout: Layout) -> list[str]:
    outputs = value_at(record, layout.outputs)
    if isinstance(outputs, str):
        # ruler-full keeps a list as its text in JSON.
        outputs = parse_json(outputs) if outputs.startswith("[") else [outputs]
    if not isinstance(outputs, list) or not outputs or not all(isinstance(o, str) for o in outputs):
        found = ascii(outputs)[:60]
        raise TypeError(f"column {layout.outputs}: a list of texts expected, found {found}")
    return outputs


def _text(record: Mapping[str, Any], column: str) -> str:
    value = value_at(record, column)
    if not isinstance(value, str):
        raise TypeError(f"column {column}: text expected, found {type(value).__name__}")
    value.encode()  # a lone surrogate is an error of the row
    return value


_ONLY = r"Answer the question based on the given documents\. Only give me the answer and do not "
_ENDS = r"(?=\s*(?:<\||\[/|ASSISTANT:|\n|$)| Answer:)"
_MAGIC = r"What (?:is|are all) the special magic \w+ for (.+?) mentioned in the provided text\?"
#: By family: how the instruction begins, the question, and how the answer prefix begins.
_SHAPES = {
    family: (re.compile(start), re.compile(question), re.compile(rf"\s?{prefix}"))
    for family, start, question, prefix in (
        ("niah", "(?:A|Some) special magic", _MAGIC, "The special magic"),
        ("vt", "Memorize and track", r"Question: Find all variables .+? text above\.", "Answer:"),
        (
            "cwe",
            "Below is a numbered",
            r"Question: What are the 10 most .+? above list\?",
            "Answer:",
        ),
        ("fwe", "Read the following coded text", r"Question: Do not .+? coded text\?", "Answer:"),
        ("qa", _ONLY, rf"{_ONLY}output any other words\.\n\nQuestion: (.+?){_ENDS}", "Answer:"),
    )
}


def _parse_prompt(text: str, prefix: str) -> tuple[str, str, str, str, str, str]:
    """Return the family, and the parts of a prompt with the chat template around it.

    These are: the template's opening, the context (which begins with it), the question, the
    template's closing, and the answer prefix; empty where the text has none.
    """
    tail = max(len(text) - 4000, 0)  # no question is longer
    questions = [
        (match.start(), family, match)
        for family, (_, question, _) in _SHAPES.items()
        for match in question.finditer(text, tail)
    ]
    if not questions:
        raise ValueError(f"no question of RULER at the end of the prompt: {text[-80:]!a}")
    start, family, match = max(questions, key=lambda place: place[0])
    instruction, _, answer = _SHAPES[family]
    first = instruction.search(text, 0, start)
    after = text[match.end() :]
    opening = ""
    if first and text[: first.start()].strip():  # vt of 2024-04 begins with a space
        opening = text[: first.start()]
    if not prefix and (begin := answer.search(after)):
        after, prefix = after[: begin.start()], after[begin.start() :]
    return family, opening, text[:start], match[0], after, prefix


def task_of_answer(prompt: str, outputs: Sequence[str]) -> str:
    """Return the task that a prompt and its gold answers have the form of; empty if none."""
    try:
        family, _, context, question, *_ = _parse_prompt(prompt, "")
        return _task(family, context, question, list(outputs) or [""]).name
    except ValueError:
        return ""


_KEYS = re.compile(r", and |, ")
_UUID = re.compile(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}")


def _task(family: str, context: str, question: str, outputs: list[str]) -> Task:
    """Return the one of the 13 tasks that a prompt and its answers have the form of."""
    if family == "qa":
        return _qa_task(context)
    if family == "niah":
        return _niah_task(context, question, outputs)
    return TASKS[family]


def _qa_task(context: str) -> Task:
    """Return the task of documents: those of HotpotQA begin with a line for the title."""
    documents = context.split("\n\nDocument ")[1:]
    titled = sum(document.count("\n") > 1 for document in documents)
    if 2 * titled > len(documents):
        return TASKS["qa_2"]
    return TASKS["qa_1"]


def _niah_task(context: str, question: str, outputs: list[str]) -> Task:
    keys = [""]
    if match := _SHAPES["niah"][1].match(question):
        keys = _KEYS.split(match[1])
    needles = context.count("One of the special magic")
    haystack = "needles"
    if context.count("The grass is green.") > 1:
        haystack = "noise"
    elif needles < 16:
        haystack = "essays"
    are_uuids = bool(_UUID.fullmatch(keys[0])), bool(_UUID.fullmatch(outputs[0]))
    form = len(keys), len(outputs), haystack, are_uuids, haystack == "essays" and needles > 1
    for task in TASKS.values():
        if isinstance(task.params, Niah) and form == _form(task.params):
            return task
    raise ValueError(f"no task has {len(keys)} keys, {len(outputs)} answers and {needles} needles")


def _form(params: Niah) -> tuple[int, int, str, tuple[bool, bool], bool]:
    """Return what tells a task of niah: keys asked, answers, haystack, uuids, several needles."""
    are_uuids = params.key_type == "uuids", params.value_type == "uuids"
    has_several = params.haystack == "essays" and params.keys * params.values > 1
    answers = params.values * params.queries
    return params.queries, answers, params.haystack, are_uuids, has_several
