"""Recount: a few rows of each config are counted again by the reference library.

A fast counter is tested before it is used; this notices a difference that those texts miss.
Counting all rows would cost more than building them.
"""

from ruler_data.row import PackedRow
from ruler_data.tokenizers import Tokenizer

#: Length (tokens) up to which three rows of a config are counted again, and beyond which one is.
SHORT = 16_384


def recounted_rows(rows: int, length: int) -> frozenset[int]:
    """Return which rows of a config are counted again: the first; of a short one two more.

    >>> sorted(recounted_rows(500, 4096)), sorted(recounted_rows(500, 131072))
    ([0, 250, 499], [0])
    """
    return frozenset((0, rows // 2, rows - 1) if length <= SHORT else (0,))


def recount(tokenizer: Tokenizer, row: PackedRow) -> int:
    """Return the length of a row (tokens, room for the answer included) by the reference."""
    content = str(row.context, "utf-8") + row.question
    return tokenizer.recount_prompt(content, row.answer_prefix) + row.max_new_tokens
