"""What a task family returns: a row's question, and how its haystack fills a room of tokens."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

#: Beginnings and ends of pieces of a text, shape (pieces, 2), in bytes of its UTF-8 until the
#: row is finished.
Spans = NDArray[np.int64]

#: Upstream's noise; one unit is the whole line.
NOISE = "The grass is green. The sky is blue. The sun is yellow. Here we go. There and back again."


@dataclass(frozen=True)
class Haystack:
    """A haystack with its gold pieces in place.

    Attributes:
        pieces: the haystack's text in UTF-8, in pieces that the finished context is joined from.
        evidence: spans of the text that the answer rests on, in order.
        cost: planned tokens.
        units: how many it holds beside the least that there must be; no smaller one has none.
        exhausted: which source ran out and was repeated, or nothing.
    """

    pieces: Sequence[bytes | memoryview]
    evidence: Spans
    cost: int
    segments: int
    exhausted: str = ""


@dataclass(frozen=True)
class RowTemplate:
    """What one row asks. Everything but `fill` is the same at every length and tokenizer.

    Attributes:
        head: text before the haystack: instruction, and the in-context example.
        tail: text between the haystack and the question.
        fill: returns the fullest body planned within a room of tokens, else the smallest.
    """

    head: str
    tail: str
    question: str
    answer_prefix: str
    outputs: tuple[str, ...]
    fill: Callable[[int], Haystack]


@dataclass(frozen=True)
class Needle:
    """A piece placed at a depth of its own.

    Attributes:
        text: the piece.
        depth: relative depth in [0, 1).
        is_evidence: False for a distractor placed like a needle.
    """

    text: str
    depth: float
    is_evidence: bool = True
