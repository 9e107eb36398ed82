"""A row of the dataset, one question about one context, and the digests of rows.

pyarrow 21, 24 and 26 write three different files for the same rows, so the hash of a
file cannot show that two datasets are equal. The digest is a sha256 over the rows themselves. Each
field is framed as a netstring (https://cr.yp.to/proto/netstrings.txt), so that different fields
never give the same bytes. The question digest covers the question and its answers alone: it is
equal for every tokenizer and length with the same questions.
"""

import gc
import hashlib
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, fields
from functools import partial
from itertools import chain
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

from ruler_data.names import quote

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

Utf8 = TypeVar("Utf8", bound=bytes | memoryview)


class Span(NamedTuple):
    """Characters `start` to `end` (exclusive) of a row's context."""

    start: int
    end: int


class Parts(NamedTuple):
    """The context of a row in four texts; joined, they are the context.

    An in-context example begins with the instruction, which then stands before the haystack again:
    `instruction` is the first one, and `example` ends with the second.
    """

    instruction: str
    example: str
    haystack: str
    closing: str


#: As `Span._make`, without a call of Python for each of the 300 spans of a row of cwe.
_SPAN = partial(tuple.__new__, Span)


@dataclass(frozen=True, slots=True, repr=False)
class Row:
    """One published row; the fields are the columns, in order.

    Attributes:
        index: 0-based; the row's identity is `{task}_{length}/{index}`.
        task: name of the task.
        context: instruction, in-context example where the task has one, and haystack.
        question: query that follows the context.
        answer_prefix: beginning of the model's answer in the `completion` protocol.
        outputs: gold answers; never empty.
        max_new_tokens: largest number of tokens of the answer.
        length: tokens of the prompt as the `completion` protocol sends it plus
            `max_new_tokens`; at most the config's length, but in upstream editions, whose rows can
            be a few tokens over.
        evidence: spans of `context` that the answer depends on, in order; empty for fwe, whose
            evidence is the whole text, and if a suite leaves out the needle (`none: "true"`) or the
            documents.
        haystack: span of `context` between instruction and example, and what closes the context;
            None for imported rows.
        config: name of the config that it was read from, e.g. `vt_4096`; not a column.
    """

    index: int
    task: str
    context: str = field(hash=False)  # long; what else a row has tells it from others
    question: str
    answer_prefix: str
    outputs: tuple[str, ...]
    max_new_tokens: int
    length: int
    evidence: tuple[Span, ...] = field(hash=False)
    haystack: Span | None = field(default=None, hash=False)
    config: str = field(default="", compare=False)

    @property
    def id(self) -> str:
        """The row's identity, e.g. `vt_4096/17`; without a config, its task stands for it."""
        return f"{self.config or self.task}/{self.index}"

    @property
    def prompt(self) -> str:
        """The text that a model continues: context, question and answer prefix, concatenated."""
        return self.context + self.question + self.answer_prefix

    @property
    def parts(self) -> Parts:
        """The context in its parts; all of it is haystack if nothing says where that stands."""
        start, end = self.haystack or (0, len(self.context))
        head = self.context[:start]
        # An instruction ends in a line that an example repeats.
        line = head[head.rstrip("\n").rfind("\n") + 1 :]
        cut = head.find(line) + len(line)
        return Parts(head[:cut], head[cut:], self.context[start:end], self.context[end:])

    def to_record(self) -> dict[str, Any]:
        """Return the row as plain values, in the order of the columns."""
        spans = [span._asdict() for span in self.evidence]
        haystack = self.haystack and self.haystack._asdict()
        texts = {"outputs": list(self.outputs), "evidence": spans, "haystack": haystack}
        return {**columns(self), **texts}

    @classmethod
    def from_record(cls, record: Mapping[str, Any]) -> "Row":
        """Return the row of a record, as `to_record`, `datasets` and pyarrow give it."""
        spans = tuple([Span(span["start"], span["end"]) for span in record["evidence"]])
        haystack = record["haystack"]
        return cls(
            record["index"], record["task"], record["context"], record["question"],
            record["answer_prefix"], tuple(record["outputs"]), record["max_new_tokens"],
            record["length"], spans, haystack and Span(haystack["start"], haystack["end"]),
        )  # fmt: skip

    def __repr__(self) -> str:
        return f"<Row {self.id}: {self.length} tokens, {quote(self.question)}>"


#: Names of the columns, in order.
COLUMNS = tuple(column.name for column in fields(Row) if column.name != "config")


def columns(row: "Row | PackedRow") -> dict[str, Any]:
    """Return the values of a row by column."""
    return {name: getattr(row, name) for name in COLUMNS}


def utf8(text: str | Utf8) -> bytes | Utf8:
    """Return a text in UTF-8; bytes are returned as they are."""
    return text.encode() if isinstance(text, str) else text


@dataclass(frozen=True, slots=True, eq=False)
class PackedRow:
    """A row whose long fields are stored as in a file.

    Attributes:
        context: in UTF-8, so that a long text is encoded at most once; may be a view of a larger
            buffer, which saves a copy.
        evidence: starts and ends in characters of the context, shape (spans, 2).
    """

    index: int
    task: str
    context: bytes | memoryview
    question: str
    answer_prefix: str
    outputs: tuple[str, ...]
    max_new_tokens: int
    length: int
    evidence: "NDArray[np.int64]"
    haystack: Span | None = None

    def unpack(self, config: str = "") -> Row:
        """Return the row with plain fields, and the config that it was read from."""
        text = str(self.context, "utf-8")
        spans = tuple(map(_SPAN, self.evidence.tolist()))
        return Row(**columns(self) | {"context": text, "evidence": spans, "config": config})


#: First bytes of what is hashed; they change with the serialization, so digests then differ.
HEADER = b"ruler-rows/1\n"
QUESTIONS_HEADER = b"ruler-questions/1\n"


class RowDigest:
    """Computes the digests of rows that are added one by one, in order."""

    def __init__(self) -> None:
        self._rows = hashlib.sha256(HEADER)
        self._questions = hashlib.sha256(QUESTIONS_HEADER)

    def add(self, row: Row | PackedRow) -> None:
        """Add the next row."""
        question = _question(row)
        for piece in _pieces(row, question):
            self._rows.update(piece)
        self._questions.update(_numbered(row.index, question))

    def hexdigest(self) -> str:
        """Return the content digest of the rows so far, as `sha256:` and 64 hexadecimal digits."""
        return "sha256:" + self._rows.hexdigest()

    def question_hexdigest(self) -> str:
        """Return the digest of index, question, answer prefix, outputs and `max_new_tokens`."""
        return "sha256:" + self._questions.hexdigest()


def serialize(row: Row | PackedRow) -> bytes:
    """Return the canonical bytes of a row: a netstring of the netstrings of its fields."""
    return b"".join(_pieces(row, _question(row)))


def _pieces(row: Row | PackedRow, question: list[bytes]) -> tuple[bytes, bytes | memoryview, bytes]:
    """Return the canonical bytes in three parts, so that a long context is not copied."""
    context = utf8(row.context)
    before = _netstrings([b"%d" % row.index, row.task.encode()]) + b"%d:" % len(context)
    after = b"," + _netstrings(
        [
            *question,
            b"%d" % row.length,
            _netstrings(_spans(row.evidence)),
        ]
    )
    size = len(before) + len(context) + len(after)
    return b"%d:%b" % (size, before), context, after + b","


def question_bytes(row: Row | PackedRow) -> bytes:
    """Return the canonical bytes of a row's question, which no tokenizer or length changes."""
    return _numbered(row.index, _question(row))


def _numbered(index: int, question: list[bytes]) -> bytes:
    return _netstrings([_netstrings([b"%d" % index, *question])])


def question_digest(row: Row | PackedRow) -> str:
    """Return 16 hexadecimal digits that identify a row's question; runs pair their rows by it.

    It is the beginning of the question digest of a config that has only this row: equal for all
    tokenizers, lengths and suites with the same question.
    """
    return hashlib.sha256(QUESTIONS_HEADER + question_bytes(row)).hexdigest()[:16]


def _question(row: Row | PackedRow) -> list[bytes]:
    return [
        row.question.encode(),
        row.answer_prefix.encode(),
        _netstrings([output.encode() for output in row.outputs]),
        b"%d" % row.max_new_tokens,
    ]


def _spans(spans: "tuple[Span, ...] | NDArray[np.int64]") -> list[bytes]:
    """Return `start-end` of all spans, formatted in one step because cwe has 300 per row."""
    pairs: Iterable[Iterable[int]] = spans
    if not isinstance(spans, tuple):
        pairs = spans.tolist()
    numbers = tuple(chain.from_iterable(pairs))
    return ((b"%d-%d " * len(spans)) % numbers).split()


def digest_rows(rows: Iterable[Row | PackedRow]) -> str:
    """Return the content digest of rows, in their order.

    >>> digest_rows([])
    'sha256:d64d9b8ac4a5b58a5ec0d4018153cd1d81dcac64bb7e4c38eb3280566e04890d'
    """
    digest = RowDigest()
    for row in rows:
        digest.add(row)
    return digest.hexdigest()


def _netstrings(fields: list[bytes]) -> bytes:
    return b"".join([b"%d:%b," % (len(field), field) for field in fields])


@contextmanager
def no_cycles() -> Iterator[None]:
    """Turn off the cycle collector: rows hold no cycles, and it takes a sixth of the time."""
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_enabled:
            gc.enable()
