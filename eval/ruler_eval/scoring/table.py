"""The table of scores: a line for each row and sample that a run was to answer.

    task  length  index  sample  question  official  exact  f1    label       finish  …  error
    vt    4096    0      0       3f2a…     1.0       1.0    1.0   null        stop       null
    vt    4096    1      0       91bc…     0.8       0.0    0.89  incomplete  stop       null
    vt    4096    2      0       77e0…     null      null   null  null        null       not asked

`scoring.scorer` derives it from rows and answers.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from ruler_data.parquet import texts_array

#: Stands for the engine where predictions are not a run.
PREDICTIONS = "predictions"
#: The error of a row without a record.
NOT_ASKED = "not asked"

#: Texts that repeat are kept once.
_REPEATED = pa.dictionary(pa.int32(), pa.string())
#: The columns. Scores are in [0, 1], depths are shares of the haystack, and `cost` is in the
#: currency that the server states; what is not known is null.
SCHEMA = pa.schema(
    [
        ("task", _REPEATED),
        ("length", pa.int32()),
        ("index", pa.int32()),
        ("sample", pa.int16()),
        ("question", _REPEATED),
        ("official", pa.float64()),
        ("exact", pa.float64()),
        ("f1", pa.float64()),
        ("label", _REPEATED),
        ("depth", pa.list_(pa.float64())),
        ("shown", pa.list_(pa.bool_())),
        ("finish", _REPEATED),
        ("empty", pa.bool_()),
        ("truncated", pa.bool_()),
        ("prompt_tokens", pa.int64()),
        ("answer_tokens", pa.int64()),
        ("seconds", pa.float32()),
        ("cost", pa.float64()),
        ("error", pa.string()),
    ]
)


#: Numbers of these types, in numpy.
_NUMPY: dict[pa.DataType, type[np.number[Any]]] = {
    pa.int16(): np.int16,
    pa.int32(): np.int32,
    pa.int64(): np.int64,
    pa.float32(): np.float32,
    pa.float64(): np.float64,
}


@dataclass(slots=True)
class Line:
    """A line of the table while it is made; scores and evidence are filled in step by step."""

    task: str
    length: int
    index: int
    sample: int
    question: str
    official: float | None = None
    exact: float | None = None
    f1: float | None = None
    label: str | None = None
    depth: list[float] | None = None
    shown: list[bool] | None = None
    finish: str | None = None
    empty: bool | None = None
    truncated: bool | None = None
    prompt_tokens: int | None = None
    answer_tokens: int | None = None
    seconds: float | None = None
    cost: float | None = None
    error: str | None = None
    text: str = ""  # that is scored; no column


def to_table(lines: Sequence[Line]) -> pa.Table:
    """Return lines as a table."""
    columns = []
    for field in SCHEMA:
        values = [getattr(line, field.name) for line in lines]
        columns.append(_array(values, field.type))
    return pa.table(columns, schema=SCHEMA)


def _array(values: Sequence[Any], kind: pa.DataType) -> pa.Array:
    """Return values as an array of a type, None as null.

    `pa.array` of a list imports pandas, which takes as long as scoring a hundred rows.
    """
    if pa.types.is_dictionary(kind):
        return _array(values, kind.value_type).dictionary_encode()
    size = len(values)
    is_known = np.array([value is not None for value in values], dtype=np.bool_)
    validity = _bits(is_known)
    if pa.types.is_list(kind):
        return _lists(values, kind, validity)
    if pa.types.is_string(kind):
        texts = texts_array(["" if value is None else value for value in values])
        _, ends, data = texts.buffers()
        return pa.StringArray.from_buffers(size, ends, data, validity)
    numbers = np.array([0 if value is None else value for value in values])
    if pa.types.is_boolean(kind):
        data = _bits(numbers.astype(np.bool_))
    else:
        data = pa.py_buffer(numbers.astype(_NUMPY[kind]))
    return pa.Array.from_buffers(kind, size, [validity, data])


def _lists(values: Sequence[Any], kind: pa.DataType, validity: pa.Buffer) -> pa.Array:
    """Return lists as an array: their ends, and their items one behind the other."""
    items: list[Any] = []
    ends = [0]
    for value in values:
        items += value or ()
        ends.append(len(items))
    buffers = [validity, pa.py_buffer(np.array(ends, dtype=np.int32))]
    children = [_array(items, kind.value_type)]
    return pa.ListArray.from_buffers(kind, len(values), buffers, children=children)


def _bits(flags: npt.NDArray[np.bool_]) -> pa.Buffer:
    return pa.py_buffer(np.packbits(flags, bitorder="little"))


@dataclass(frozen=True)
class CellMeans:
    """The means of a task at a length over its answered lines; scores are in [0, 1]."""

    task: str
    length: int  # tokens
    official: float | None  # None without an answer
    exact: float | None
    f1: float | None
    rows: int  # lines to answer: of each row as many as it has samples
    answered: int


def means(table: pa.Table) -> list[CellMeans]:
    """Return the means of each task and length, in the table's order.

    A mean is the sum in the order of the lines, divided by their number: upstream's digits.
    """
    names = ("task", "length", "official", "exact", "f1")
    columns = [table[name].to_pylist() for name in names]
    cells: dict[tuple[str, int], list[list[float | None]]] = {}
    for task, length, *scores in zip(*columns, strict=True):
        cells.setdefault((task, length), []).append(scores)
    return [_means_of_cell(*cell, lines) for cell, lines in cells.items()]


def _means_of_cell(task: str, length: int, lines: Sequence[Any]) -> CellMeans:
    answered = [scores for scores in lines if scores[0] is not None]
    if not answered:
        return CellMeans(task, length, None, None, None, len(lines), 0)
    official, exact, f1 = (sum(column) / len(answered) for column in zip(*answered, strict=True))
    return CellMeans(task, length, official, exact, f1, len(lines), len(answered))
