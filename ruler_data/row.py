"""A row of the dataset: one question over one context, with its golden answers."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple, TypeVar

import numpy as np
from numpy.typing import NDArray

Utf8 = TypeVar("Utf8", bound=bytes | memoryview)


class Span(NamedTuple):
    """Characters `start` to `end` (exclusive) of a row's context."""

    start: int
    end: int


@dataclass(frozen=True, slots=True)
class Row:
    """One published row; the fields are the columns, in order.

    Attributes:
        index: 0-based; the row's identity is `{task}_{length}/{index}`.
        task: name of the task.
        context: instruction, in-context example where the task has one, and haystack.
        question: the query that follows the context.
        answer_prefix: what opens the model's answer in the `completion` protocol.
        outputs: golden answers; never empty.
        max_new_tokens: tokens that the answer may take.
        length: tokens of the prompt as the `completion` protocol sends it plus
            `max_new_tokens`; never over the config's length.
        evidence: spans of `context` that the answer rests on, in order; empty for fwe, whose
            evidence is the whole text, and where a suite leaves out the needle (`none: "true"`)
            or the documents.
    """

    index: int
    task: str
    context: str
    question: str
    answer_prefix: str
    outputs: tuple[str, ...]
    max_new_tokens: int
    length: int
    evidence: tuple[Span, ...]

    @property
    def prompt(self) -> str:
        """The text a model is asked to continue; plain concatenation, nothing to cut apart."""
        return self.context + self.question + self.answer_prefix

    def to_record(self) -> dict[str, Any]:
        """Return the row as plain values, in the order of the columns."""
        return {
            "index": self.index,
            "task": self.task,
            "context": self.context,
            "question": self.question,
            "answer_prefix": self.answer_prefix,
            "outputs": list(self.outputs),
            "max_new_tokens": self.max_new_tokens,
            "length": self.length,
            "evidence": [{"start": span.start, "end": span.end} for span in self.evidence],
        }

    @classmethod
    def from_record(cls, record: Mapping[str, Any]) -> "Row":
        """Return the row that `to_record` gave (as `datasets` and pyarrow return it)."""
        return cls(
            index=record["index"],
            task=record["task"],
            context=record["context"],
            question=record["question"],
            answer_prefix=record["answer_prefix"],
            outputs=tuple(record["outputs"]),
            max_new_tokens=record["max_new_tokens"],
            length=record["length"],
            evidence=tuple(Span(span["start"], span["end"]) for span in record["evidence"]),
        )


def utf8(text: str | Utf8) -> bytes | Utf8:
    """Return a text in UTF-8, which it may be in already."""
    return text.encode() if isinstance(text, str) else text


#: No pieces of evidence.
NO_SPANS: NDArray[np.int64] = np.zeros((0, 2), dtype=np.int64)
NO_SPANS.setflags(write=False)


@dataclass(frozen=True, slots=True, eq=False)
class PackedRow:
    """A row on its way to a file: the same fields, its long ones as files hold them.

    Attributes:
        context: in UTF-8, so that a long text is encoded once at most; part of a longer one where
            that saves a copy.
        evidence: shape (spans, 2): beginnings and ends, in characters of the context.
    """

    index: int
    task: str
    context: bytes | memoryview
    question: str
    answer_prefix: str
    outputs: tuple[str, ...]
    max_new_tokens: int
    length: int
    evidence: NDArray[np.int64]

    def unpack(self) -> Row:
        """Return the row."""
        return Row(
            index=self.index,
            task=self.task,
            context=str(self.context, "utf-8"),
            question=self.question,
            answer_prefix=self.answer_prefix,
            outputs=self.outputs,
            max_new_tokens=self.max_new_tokens,
            length=self.length,
            evidence=tuple(map(Span._make, self.evidence.tolist())),
        )
