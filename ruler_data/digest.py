"""The content digest: what a config's rows are, whatever file holds them.

pyarrow 21, 24 and 26 write three different files for the same rows, so a file's hash cannot
say that two datasets are equal. The digest is a sha256 over the rows themselves, each field
framed as a netstring (https://cr.yp.to/proto/netstrings.txt), which no field's content can break.
"""

import hashlib
from collections.abc import Iterable

import numpy as np
from numpy.typing import NDArray

from ruler_data.row import PackedRow, Row, utf8

#: Changes whenever the serialization does, so that digests of two kinds never look comparable.
HEADER = b"ruler-rows/1\n"


class RowDigest:
    """A digest that rows are fed to one by one, in order."""

    def __init__(self) -> None:
        self._hash = hashlib.sha256(HEADER)

    def add(self, row: Row | PackedRow) -> None:
        """Take in the next row."""
        for piece in _pieces(row):
            self._hash.update(piece)

    def hexdigest(self) -> str:
        """Return the digest so far as `sha256:` and 64 hexadecimal digits."""
        return "sha256:" + self._hash.hexdigest()


def serialize(row: Row | PackedRow) -> bytes:
    """Return the canonical bytes of a row: a netstring of the netstrings of its fields."""
    return b"".join(_pieces(row))


def _pieces(row: Row | PackedRow) -> tuple[bytes, bytes | memoryview, bytes]:
    """Return the canonical bytes in pieces, so that a long context is not copied."""
    context = utf8(row.context)
    before = _netstrings([b"%d" % row.index, row.task.encode()]) + b"%d:" % len(context)
    after = b"," + _netstrings([
        row.question.encode(),
        row.answer_prefix.encode(),
        _netstrings([output.encode() for output in row.outputs]),
        b"%d" % row.max_new_tokens,
        b"%d" % row.length,
        _netstrings(_spans(np.array(row.evidence, dtype=np.int64).reshape(-1, 2))),
    ])  # fmt: skip
    size = len(before) + len(context) + len(after)
    return b"%d:%b" % (size, before), context, after + b","


def _spans(spans: NDArray[np.int64]) -> list[bytes]:
    """Return `start-end` of all spans, written in one step: cwe has 300 a row."""
    return ((b"%d-%d " * len(spans)) % tuple(spans.ravel().tolist())).split()


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
