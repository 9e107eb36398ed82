"""Reading the rows of one file: each in its place, and those that begin alike together."""

import tempfile
from collections.abc import Iterator
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ruler_data.dataset import Source, read_in_order
from ruler_data.errors import RulerError
from ruler_data.manifest import Manifest
from ruler_data.names import config_file
from ruler_data.parquet import SCHEMA, read_groups, to_table
from ruler_data.row import Row, Span
from ruler_eval.running import data as reading
from ruler_eval.running.data import Dataset, assign, cost
from ruler_eval.running.engine import Request
from ruler_eval.running.runner import prefetch, requests

#: Letters of one, two, three and four bytes, so that the order of bytes could differ from theirs.
TEXTS = st.lists(st.text("aé語😀", max_size=3), min_size=1, max_size=12)


def rows_of(texts: list[str]) -> list[Row]:
    return [
        Row(index, "vt", text, "?", ":", ("A", "B"), 30, 100 + index, (Span(0, len(text)),))
        for index, text in enumerate(texts)
    ]


def write(path: Path, rows: list[Row], group: int = 5) -> None:
    pq.write_table(to_table(rows), path, row_group_size=group, write_page_checksum=True)


def test_a_bit_that_flipped_on_the_disk_is_told_by_the_checksum_of_its_page(tmp_path: Path) -> None:
    path = tmp_path / "rows.parquet"
    text = "".join(f"{number * 7919:08x}" for number in range(20_000))
    options = {"write_page_checksum": True, "compression": "none", "use_dictionary": False}
    pq.write_table(to_table(rows_of([text])), path, **options)
    data = bytearray(path.read_bytes())
    data[data.index(text[5000:5040].encode())] ^= 1
    path.write_bytes(data)
    with pytest.raises(OSError, match="CRC checksum"):
        list(read_groups(path))


def read_alike(path: Path, rows: int, indices: set[int]) -> Iterator[Row]:
    """Read a file as that of a run's config."""
    place = path.parent / config_file("vt_4096")
    place.parent.mkdir(exist_ok=True)
    place.write_bytes(path.read_bytes())
    data = Dataset(Source(path.parent, cast(Manifest, None)), {"vt_4096": rows})
    yield from data.read_alike("vt_4096", indices)


@given(TEXTS, st.integers(1, 4), st.integers(1, 5), st.data())
def test_rows_that_begin_alike_follow_one_another(
    texts: list[str], group: int, alike: int, data: st.DataObject
) -> None:
    rows = rows_of(texts)
    count = data.draw(st.integers(1, len(rows)))
    indices = data.draw(st.sets(st.integers(0, len(rows) - 1)))
    wanted = [row for row in rows[:count] if row.index in indices]
    batches = [wanted[start : start + alike] for start in range(0, len(wanted), alike)]
    with tempfile.TemporaryDirectory() as scratch, pytest.MonkeyPatch.context() as patch:
        patch.setattr(reading, "ALIKE", alike)
        write(path := Path(scratch) / "rows.parquet", rows, group)
        assert list(read_in_order(path, "vt_4096", count)) == rows[:count]
        assert list(read_alike(path, count, indices)) == [
            row for batch in batches for row in sorted(batch, key=lambda row: row.context)
        ]


@pytest.mark.parametrize(
    ("broken", "said"),
    [
        ({"outputs": ()}, "row 1 has no gold answer"),
        ({"outputs": ("A", None)}, "row 1: outputs has no value"),
        ({"question": None}, "Casting field 'question'"),
    ],
)
def test_a_row_that_lacks_a_field_is_refused(
    tmp_path: Path, broken: dict[str, Any], said: str
) -> None:
    rows = rows_of(["a", "b", "c"])
    rows[1] = replace(rows[1], **broken)
    lax = pa.schema([field.with_nullable(True) for field in SCHEMA])
    columns = {name: [row.to_record()[name] for row in rows] for name in SCHEMA.names}
    table = pa.table(columns, schema=lax)
    pq.write_table(table, path := tmp_path / "rows.parquet", row_group_size=1)
    for found in (read_in_order(path, "vt_4096", 3), read_alike(path, 3, {1, 2})):
        with pytest.raises(
            RulerError, match=rf"^vt_4096: cannot be read \(ValueError: {said}.*; verify"
        ):
            list(found)


def test_the_longest_configs_come_first_and_the_samples_of_a_row_together() -> None:
    places = [("vt_4096", 0), ("cwe_131072", 1), ("vt_131072", 0), ("fwe_8192", 2)]
    job = SimpleNamespace(
        data=SimpleNamespace(read_alike=lambda config, rows: [rows_of(["a"] * 3)[n] for n in rows]),
        request=lambda config, row: Request(config, row, np.array([1], dtype=np.uint32), 30),
    )
    pending = [(config, index, sample) for sample in (0, 1) for config, index in places]
    found = [request.key for request in requests(cast(Any, job), pending)]
    longest = ["cwe_131072", "vt_131072", "fwe_8192", "vt_4096"]
    assert found == [(c, dict(places)[c], sample) for c in longest for sample in (0, 1)]


def counting(seen: list[int], end: int, *, fails: bool = False) -> Iterator[int]:
    for number in range(end):
        seen.append(number)
        yield number
    if fails:
        msg = "the source failed"
        raise ValueError(msg)


def test_an_error_is_raised_after_the_items_before_it() -> None:
    found: list[int] = []
    with pytest.raises(ValueError, match="the source failed"):
        found.extend(prefetch(counting([], 3, fails=True), 4))
    items = prefetch(counting([], 3, fails=True), 4)
    assert [next(items), next(items), next(items)] == [0, 1, 2]
    with pytest.raises(ValueError, match="the source failed"):
        next(items)


def test_a_reader_that_stops_has_no_more_than_the_depth_made_ahead() -> None:
    seen: list[int] = []
    with closing(prefetch(counting(seen, 1000), 4)) as items:
        assert [next(items), next(items)] == [0, 1]
    made = len(seen)
    assert made <= 6
    assert len(seen) == made  # the thread has ended


LENGTHS = st.sampled_from([4096, 8192, 16384, 32768, 65536, 131_072])


def loads(lengths: list[int], shards: int) -> list[float]:
    return [sum(cost(lengths[n]) for n in one) for one in assign(lengths, shards)]


@given(lengths=st.lists(st.integers(500, 131_072), min_size=1), shards=st.integers(1, 16))
def test_every_row_is_in_one_shard_in_order(lengths: list[int], shards: int) -> None:
    shares = assign(lengths, shards)
    assert sorted(n for one in shares for n in one) == list(range(len(lengths)))
    assert all(one == sorted(one) for one in shares)
    costs = loads(lengths, shards)
    assert max(costs) - min(costs) <= cost(max(lengths)) * 1.000001


@given(
    shards=st.integers(2, 8),
    longest=LENGTHS,
    others=st.lists(st.integers(500, 131_072), max_size=400),
)
def test_shards_finish_within_five_percent(shards: int, longest: int, others: list[int]) -> None:
    lengths = [longest] * 40 * shards + [min(length, longest) for length in others]
    costs = loads(lengths, shards)
    assert max(costs) <= 1.05 * min(costs)


def test_a_row_that_costs_more_than_all_others_has_a_shard_to_itself() -> None:
    assert assign([4096] * 8 + [131_072], 2) == [[8], [*range(8)]]


def test_the_cost_of_a_row_goes_with_the_operations_of_its_prefill() -> None:
    # Of Llama 3.1 8B: 2 operations for each of 6.98e9 parameters and token, 2 * 32 * 4096 for each
    # pair of tokens (Kaplan et al. 2020, arXiv 2001.08361, table 1).
    lengths = (4096, 32768, 131_072, 1_048_576)
    ratio = [(2 * 6.98e9 * n + 2 * 32 * 4096 * n * n) / cost(n) for n in lengths]
    assert max(ratio) / min(ratio) < 1.1
