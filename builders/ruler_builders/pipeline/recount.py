"""Recount: a few rows of each config are counted again by the reference library.

A fast counter is tested before it is used; this notices a difference that those texts miss.
Counting all rows would cost more than building them.
"""

from ruler_data.row import PackedRow
from ruler_data.tokenizers import Tokenizer


def recounted_rows(rows: int) -> frozenset[int]:
    """Return which rows of a config are counted again: the first, the middle and the last.

    >>> sorted(recounted_rows(500)), sorted(recounted_rows(1))
    ([0, 250, 499], [0])
    """
    return frozenset((0, rows // 2, rows - 1))


def recount(tokenizer: Tokenizer, row: PackedRow) -> int:
    """Return the length of a row (tokens, room for the answer included) by the reference."""
    content = str(row.context, "utf-8") + row.question
    return tokenizer.recount_prompt(content, row.answer_prefix) + row.max_new_tokens
