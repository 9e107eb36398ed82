r"""The columns in which others keep RULER's rows, and their prompts taken apart.

    upstream      input, outputs, length, since 2025-06 answer_prefix    vt/validation.jsonl
    kvpress       context, question, answer_prefix, answer, task         4096/test-*.parquet
    self-long     input, answers, length                                 vt_64k/*.parquet
    lighteval     as upstream                                            RULER-4096-X/vt-*.parquet
    NeMo-Skills   question, generation (the prefix), expected_answer     vt/test.jsonl
    lm-eval       doc: input, gen_prefix, outputs, max_length            samples_ruler_vt_*.jsonl

A prompt is read from its end: the last question tells the family and where the context ends, and
what stands before the first instruction and between question and answer prefix is a chat template.
"""

import csv
import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, NamedTuple

from ruler_builders.checks.prompt_parser import template_of
from ruler_builders.upstream import TEMPLATES
from ruler_builders.upstream.niah import singular
from ruler_data.errors import RulerError, UsageError
from ruler_data.hub.download import fetch_tables
from ruler_data.names import quote
from ruler_data.parquet import UNREADABLE, opened
from ruler_data.row import Row
from ruler_data.tasks import TASKS, Niah, Task

#: Files of rows; and most bytes of a line, or of a file of JSON.
SUFFIXES = (".jsonl", ".json", ".parquet", ".csv")
LARGEST = 2**30


class Layout(NamedTuple):
    """One way to name the columns; the texts are joined to the prompt.

    Attributes:
        name: of the tool that writes it.
        texts: columns of the prompt, without the answer prefix where that has a column.
        prefix: column of the answer prefix; empty if it ends the text.
        outputs: column of the gold answers.
    """

    name: str
    texts: tuple[str, ...]
    prefix: str
    outputs: str


LAYOUTS = (
    Layout("ruler-data", ("context", "question"), "answer_prefix", "outputs"),
    Layout("kvpress", ("context", "question"), "answer_prefix", "answer"),
    Layout("lm-eval", ("input",), "gen_prefix", "outputs"),
    Layout("upstream", ("input",), "answer_prefix", "outputs"),
    Layout("upstream", ("input",), "", "outputs"),
    Layout("self-long", ("input",), "", "answers"),
    Layout("NeMo-Skills", ("question",), "generation", "expected_answer"),
)


class Parts(NamedTuple):
    """A prompt taken apart; `opening` and `closing` are those of a chat template around the turn.

    The context includes the opening and the question the closing. An answer prefix that the row has
    lost is the task's.
    """

    context: str
    question: str
    answer_prefix: str
    opening: str
    closing: str


@dataclass(frozen=True)
class OtherRow:
    """A row of somebody else.

    Attributes:
        where: file and number of the record, from 1.
        task: of the prompt, by its text.
        size: length of the config in tokens, by names of files and columns; None if unknown.
        has_prefix: whether the row has its answer prefix.
        index: as stored; likewise `length`, and `budget`, of the answer, both in tokens.
    """

    where: str
    layout: str
    task: Task
    size: int | None
    parts: Parts
    has_prefix: bool
    outputs: tuple[str, ...]
    index: int | None
    length: int | None
    budget: int | None

    @property
    def prompt(self) -> str:
        """The text that a model continues, an answer prefix that was lost put back."""
        return self.parts.context + self.parts.question + self.parts.answer_prefix

    @property
    def template(self) -> str:
        """Name of upstream's chat template in the prompt; a text where it is another one."""
        around = f"{self.parts.opening}{{task_template}}{self.parts.closing}"
        names = (name for name, text in TEMPLATES.items() if around in (text, singular(text)))
        return next(names, around)

    def row(self, index: int) -> Row:
        """Return the row in the columns of this dataset, without length and evidence."""
        budget = self.budget or self.task.max_new_tokens
        return Row(index, self.task.name, *self.parts[:3], self.outputs, budget, 0, ())


def find_files(place: str, revision: str | None, pattern: str) -> tuple[list[Path], str]:
    """Return the files of rows of a file, a folder or a Hub repo, and the repo with its commit.

    Raises:
        UsageError: there are none.
        RulerError: the Hub does not provide them.
    """
    path = Path(place).expanduser()
    repo = ""
    if path.exists():
        if revision:
            msg = f"--revision {quote(revision)}: {quote(place)} is not a repo"
            raise UsageError(msg)
        files = [path] if path.is_file() else sorted(path.glob(pattern))
    else:
        commit, files = fetch_tables(place, revision or "main", pattern, SUFFIXES)
        repo = f"{place}@{commit}"
    known = [file for file in files if file.suffix in SUFFIXES and file.is_file()]
    if not known:
        msg = f"{quote(place)}: has no rows; files of rows end in {', '.join(SUFFIXES)}"
        raise UsageError(msg)
    return known, repo


def read_file(path: Path, task: str = "", size: int | None = None) -> Iterator[OtherRow | str]:
    """Yield the rows of a file, or for a bad one where it is and what is wrong.

    `task` is that of all rows, instead of what prompts tell; `size`, in tokens, what names tell.

    Raises:
        RulerError: the file cannot be read.
    """
    try:
        for number, record in enumerate(_records(path), 1):
            if record is None:
                continue  # a blank line
            where = f"{path.name} row {number}"
            try:
                yield _row(record, where, path, task, size)
            except (ValueError, TypeError, KeyError) as error:
                yield f"{where}: {error}"
    except (*UNREADABLE, csv.Error, MemoryError, RecursionError) as error:
        msg = f"{path}: cannot be read ({type(error).__name__}: {' '.join(str(error).split())})"
        raise RulerError(msg) from error


def _records(path: Path) -> Iterator[Any]:
    """Yield the records of a file: an error for what is not JSON, None for a blank line."""
    if path.suffix == ".parquet":
        with opened(path, in_batches=True) as file:
            for batch in file.iter_batches(16):
                yield from batch.to_pylist()
    elif path.suffix == ".csv":
        csv.field_size_limit(2**28)
        with path.open(encoding="utf-8", newline="") as lines:
            yield from csv.DictReader(lines)
    elif path.suffix == ".json":
        if path.stat().st_size > LARGEST:
            msg = f"over {LARGEST:,} bytes; give a file of lines (.jsonl)"
            raise ValueError(msg)
        body = json.loads(path.read_bytes())
        # Repos keep other things in files of JSON: settings, results, manifests.
        yield from body if isinstance(body, list) else [body] if _layout(body) else []
    else:
        with path.open("rb") as raw:
            while line := raw.readline(LARGEST):
                try:
                    yield json.loads(line) if line.strip() else None
                except (ValueError, RecursionError) as error:
                    yield error


def _layout(record: Any) -> Layout | None:  # noqa: ANN401 - parsed JSON
    columns = set(record) if isinstance(record, Mapping) else set()
    known = (one for one in LAYOUTS if {*one.texts, one.outputs, one.prefix} - {""} <= columns)
    return next(known, None)


def _row(record: Any, where: str, path: Path, task: str, size: int | None) -> OtherRow:  # noqa: ANN401
    if isinstance(record, Exception):
        msg = f"not JSON ({type(record).__name__})"
        raise TypeError(msg)
    if not isinstance(record, Mapping):
        msg = f"a mapping expected, found {type(record).__name__}"
        raise TypeError(msg)
    record = record["doc"] if isinstance(record.get("doc"), Mapping) else record
    layout = _layout(record)
    if layout is None:
        msg = f"no known layout: its columns are {', '.join(map(str, record))[:120] or 'none'}"
        raise ValueError(msg)
    text = "".join(_text(record, name) for name in layout.texts)
    prefix = _text(record, layout.prefix) if layout.prefix else ""
    if prefix and not prefix[0].isspace() and not text[-1:].isspace():
        prefix = " " + prefix  # the harness puts the space, NeMo-Skills strips it
    outputs = record[layout.outputs]
    if isinstance(outputs, str):
        outputs = [outputs]
    if not isinstance(outputs, list) or not outputs or not all(isinstance(o, str) for o in outputs):
        msg = f"column {layout.outputs}: a list of texts expected, found {ascii(outputs)[:60]}"
        raise TypeError(msg)
    found = size or _number(record, "max_length") or _size_of(path, str(record.get("config") or ""))
    family, parts = _take_apart(text, prefix)
    chosen = TASKS.get(task or str(record.get("task") or "")) or _task(family, parts, outputs)
    numbers = (_number(record, name) for name in ("index", "length", "max_new_tokens"))
    row = OtherRow(where, layout.name, chosen, found, parts, bool(parts.answer_prefix),
                   tuple(outputs), *numbers)  # fmt: skip
    if row.has_prefix:
        return row
    lost = template_of(chosen, row.row(0)).prefix
    return replace(row, parts=parts._replace(answer_prefix=lost))


def _text(record: Mapping[str, Any], name: str) -> str:
    value = record[name]
    if not isinstance(value, str):
        msg = f"column {name}: text expected, found {type(value).__name__}"
        raise TypeError(msg)
    value.encode()  # a lone surrogate is an error of the row
    return value


def _number(record: Mapping[str, Any], name: str) -> int | None:
    value = record.get(name)
    if isinstance(value, str) and value.isascii() and value.isdigit():
        value = int(value)
    return value if type(value) is int else None


#: Tokens of the shortest config that a name is taken to mean.
SHORTEST = 500
_LENGTHS = re.compile(
    r"(?<![0-9A-Za-z.])([1-9][0-9]{2,7})(?![0-9A-Za-z])|(?<![0-9])([1-9][0-9]{0,3})([kKmM])(?![A-Za-z0-9])"
)


def _size_of(path: Path, config: str) -> int | None:
    """Return the length in tokens that a config, a file's name or a folder above it names."""
    cached = [
        part for part in path.parts if part.startswith("datasets--")
    ]  # the repo, in the cache
    above = [parent.name for parent in path.parents[:4]]
    for part in (config, path.stem, *above, *cached):
        clean = re.sub(r"-[0-9]{5}-of-[0-9]{5}|[0-9a-f]{40}", "", part).replace("_", " ")
        for number, short, unit in _LENGTHS.findall(clean):
            if number and int(number) >= SHORTEST:
                return int(number)
            if short:
                return int(short) * (1024 if unit in "kK" else 1024 * 1024)
    return None


_ONLY = r"Answer the question based on the given documents\. Only give me the answer and do not "
_ENDS = r"(?=\s*(?:<\||\[/|ASSISTANT:|\n|$)| Answer:)"
#: By family: how the instruction begins, the question, and how the answer prefix begins.
_SHAPES = {
    "niah": (
        "(?:A|Some) special magic",
        r"What (?:is|are all) the special magic \w+ for (.+?) mentioned in the provided text\?",
        r"\s?The special magic",
    ),
    **{
        family: (start, question, r"\s?Answer:")
        for family, start, question in (
            ("vt", "Memorize and track", r"Question: Find all variables .+? text above\."),
            ("cwe", "Below is a numbered list", r"Question: What are the 10 most .+? above list\?"),
            ("fwe", "Read the following coded text", r"Question: Do not provide .+? coded text\?"),
            ("qa", _ONLY, _ONLY + r"output any other words\.\n\nQuestion: (.+?)" + _ENDS),
        )
    },
}
_COMPILED = {name: tuple(map(re.compile, shape)) for name, shape in _SHAPES.items()}


def _take_apart(text: str, prefix: str) -> tuple[str, Parts]:
    """Return the family and the parts; the prefix is empty where the text has none either."""
    tail = max(len(text) - 4000, 0)  # no question is longer
    questions = [
        (match.start(), family, match)
        for family, (_, question, _) in _COMPILED.items()
        for match in question.finditer(text, tail)
    ]
    if not questions:
        msg = f"no question of RULER at the end of the prompt: {text[-80:]!a}"
        raise ValueError(msg)
    start, family, match = max(questions, key=lambda one: one[0])
    opening = _COMPILED[family][0].search(text, 0, start)
    before = text[: opening.start()] if opening else ""
    rest = text[match.end() :]
    found = _COMPILED[family][2].search(rest)
    if not prefix and found:
        rest, prefix = rest[: found.start()], rest[found.start() :]
    # vt of 2024-04 begins with a space, which is not a chat template
    return family, Parts(text[:start], match[0] + rest, prefix, before if before.strip() else "",
                         rest)  # fmt: skip


_KEYS = re.compile(r", and |, ")
_UUID = re.compile(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}")


def _task(family: str, parts: Parts, outputs: list[str]) -> Task:
    """Return the task of the 13 that a prompt and its answers have the form of."""
    if family == "qa":
        documents = parts.context.split("\n\nDocument ")[1:]
        titled = sum(document.count("\n") > 1 for document in documents)
        return TASKS["qa_2" if 2 * titled > len(documents) else "qa_1"]
    if family != "niah":
        return TASKS[family]
    match = _COMPILED["niah"][1].match(parts.question)
    keys = _KEYS.split(match[1]) if match else [""]
    needles = parts.context.count("One of the special magic")
    noise = parts.context.count("The grass is green.") > 1
    haystack = "noise" if noise else "essays" if needles < 16 else "needles"
    uuids = [bool(_UUID.fullmatch(text)) for text in (keys[0], outputs[0])]
    for task in TASKS.values():
        params = task.params
        if not isinstance(params, Niah):
            continue
        form = (params.queries, params.values * params.queries, params.haystack)
        kinds = [kind == "uuids" for kind in (params.key_type, params.value_type)]
        several = params.keys * params.values > 1
        fits = form == (len(keys), len(outputs), haystack) and kinds == uuids
        if fits and (haystack != "essays" or several == (needles > 1)):
            return task
    msg = f"no task has {len(keys)} keys, {len(outputs)} answers and {needles} needles"
    raise ValueError(msg)
