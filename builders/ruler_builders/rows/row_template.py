"""What a task family returns: the question of a row, and how its haystack fills a room."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ruler_builders.prompts import PromptTemplate

#: Start and end of spans of a text, shape (spans, 2), in bytes of its UTF-8 until the row is
#: finished.
Spans = NDArray[np.int64]


@dataclass(frozen=True)
class Haystack:
    """A haystack with its needles in place.

    Attributes:
        pieces: its text in UTF-8, to be joined.
        evidence: spans of the text that the answer rests on, in order.
        cost: planned tokens.
        segments: number of segments beyond the necessary ones; 0 for the smallest haystack.
        exhausted: which source ran out, and what was done; empty for none.
    """

    pieces: Sequence[bytes | memoryview]
    evidence: Spans
    cost: int
    segments: int
    exhausted: str = ""


@dataclass(frozen=True)
class RowTemplate:
    """A row before its haystack. All but `fill` is the same at every length and tokenizer.

    Attributes:
        prompt: the text around the haystack, with the in-context example.
        outputs: gold answers.
        fill: returns the fullest haystack planned within a room of tokens, else the smallest.
        depths: of the evidence, rising; before needles are moved apart.
    """

    prompt: PromptTemplate
    outputs: tuple[str, ...]
    fill: Callable[[int], Haystack]
    depths: tuple[float, ...] = ()


@dataclass(frozen=True)
class Needle:
    """A text to insert at a relative depth in [0, 1); a distractor is no evidence."""

    text: str
    depth: float
    is_evidence: bool = True
