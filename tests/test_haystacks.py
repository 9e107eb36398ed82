"""Haystacks: cut from shared text, and what a row's own draws bar from it."""

import math
from collections import Counter
from collections.abc import Sequence
from itertools import combinations, pairwise

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from ruler_builders.pipeline.fit import Target, in_characters, make_row
from ruler_builders.rows.haystacks import NeedleLines, filled_up
from ruler_builders.rows.randomness import depth, distinct, permutation, rng, subset
from ruler_builders.rows.row_template import Needle, insert_needles, spread
from ruler_builders.rows.segments import SLACK, SPARE, Segments, choose, count_segments, spell
from ruler_builders.rows.tokenized_sources import TokenizedSources
from ruler_builders.sources import Library
from ruler_data import TASKS, Row
from ruler_data.parquet import NO_SPANS, SCHEMA, to_table
from ruler_data.row import PackedRow, Span, serialize
from ruler_data.tokenizers.protocol import Text
from tests.conftest import LETTERS
from tests.rows import counted, target

WORDS = st.text(LETTERS, max_size=9)
FORM = "The number for {key} is: {value}."


@given(st.lists(st.tuples(WORDS, WORDS), min_size=1, max_size=30))
def test_spelling_columns_is_joining_their_rows(rows: list[tuple[str, str]]) -> None:
    costs = np.ones(len(rows), dtype=np.int64)
    columns = [Segments.of(column, costs) for column in zip(*rows, strict=True)]
    order = np.arange(len(rows))[::-1]
    text, edges = spell(*((segments, order) for segments in columns))
    pieces = [str(text[start:end], "utf-8") for start, end in pairwise(edges)]
    assert pieces == [word for row in reversed(rows) for word in row]
    assert str(text, "utf-8") == "".join(pieces)


def test_as_many_needles_as_places_take_one_each_and_more_stay_where_they_are() -> None:
    assert spread([0, 0, 0], last=2) == [0, 1, 2]
    assert spread([0, 0, 0], last=1) == [0, 0, 0]


@pytest.mark.parametrize(("room", "total"), [(4, 5), (5, 10), (9, 10), (10, 20)])
def test_segments_are_repeated_until_they_exceed_the_room(room: int, total: int) -> None:
    assert Segments.of(["a", "b"], np.array([2, 3])).repeated(room).total == total


@pytest.mark.parametrize("room", [40, 41, 97])
def test_a_last_line_fills_the_room_to_the_token(room: int) -> None:
    sources = counted("mistral")
    lines = Segments.of(["One line."], np.array([4]))
    count = sources.tokenizer.count
    filled = filled_up(lines, room, sources)
    _, last = filled.texts.to_pylist()
    before, after = count(["Of\nof", f"Of\n{last}\nof"])
    assert filled.total == room and after - before == room - 4


def test_every_500_rows_have_depths_of_their_own() -> None:
    depths = [depth(0, "vt", index, "x") for index in range(1000)]
    first, second = ([int(500 * place) for place in part] for part in (depths[:500], depths[500:]))
    assert sorted(first) == sorted(second) == [*range(500)]
    assert first != second


@given(
    texts=st.lists(st.text(LETTERS, min_size=1, max_size=5), min_size=1, max_size=30),
    data=st.data(),
    joiner=st.sampled_from([" ", "\n\n"]),
)
def test_units_joined_are_the_text(texts: list[str], data: st.DataObject, joiner: str) -> None:
    segments = Segments.of(texts, np.ones(len(texts), dtype=np.int64))
    numbers = data.draw(st.lists(st.integers(0, len(texts) - 1), min_size=1, max_size=40))
    breaks = {place for place, (a, b) in enumerate(pairwise(numbers), 1) if b != a + 1}
    more = data.draw(st.sets(st.integers(0, len(numbers))))
    cuts = sorted({0, len(numbers), *breaks, *more})
    found = segments.runs(np.array(numbers), joiner, np.array(cuts))
    expected = [joiner.join(texts[n] for n in numbers[a:b]) for a, b in pairwise(cuts)]
    assert [str(run, "utf-8") for run in found] == expected


@given(
    sizes=st.lists(st.integers(1, 40), min_size=1, max_size=200),
    depths=st.lists(st.floats(0, 1, exclude_max=True), max_size=5),
    room=st.integers(0, 3000),
)
def test_golds_stand_between_units(sizes: list[int], depths: list[float], room: int) -> None:
    texts = [f"{number}".zfill(4) + "é" * size for number, size in enumerate(sizes)]
    segments = Segments.of(texts, np.array(sizes))
    golds = [Needle(f"gold {n}", depth) for n, depth in enumerate(depths)]
    body = insert_needles(segments, golds, len(golds), room, joiner="\n")
    whole = b"".join(body.pieces)
    text = whole.decode()
    pieces = text.split("\n") if text else []
    hay = [piece for piece in pieces if not piece.startswith("gold")]
    assert hay == sorted(hay) and set(hay) <= set(texts) and len(hay) == body.segments
    in_order = sorted(golds, key=lambda gold: gold.depth)
    assert [piece for piece in pieces if piece.startswith("gold")] == [g.text for g in in_order]
    assert [text[a:b] for a, b in in_characters(whole, body.evidence).tolist()] == [
        g.text for g in in_order
    ]
    assert body.cost == len(golds) + sum(sizes[int(piece[:4])] for piece in hay)


def lines(kinds: tuple[str, str] = ("words", "numbers")) -> NeedleLines:
    fresh = TokenizedSources(42, Library(kind="sample"), counted("mistral").tokenizer)
    return NeedleLines(fresh, FORM, kinds)  # type: ignore[arg-type]


@pytest.mark.parametrize("kinds", [("words", "numbers"), ("uuids", "uuids")])
def test_a_row_has_the_same_lines_whichever_rows_were_made_before(kinds: tuple[str, str]) -> None:
    alone, after = lines(kinds), lines(kinds)
    for index in (0, 30, 7):
        after.stretch(index, 4000, ())
    for index in (30, 3):
        texts = [
            segments.pick(numbers[:100]).texts.to_pylist()
            for segments, numbers in (one.stretch(index, 4000, ()) for one in (alone, after))
        ]
        assert texts[0] == texts[1]


def test_lines_whose_key_or_value_a_row_asks_for_are_left_out() -> None:
    shared = lines()
    segments, numbers = shared.stretch(3, 2000, ())
    pairs = [
        segments.texts[number].as_py().removeprefix("The number for ")[:-1].split(" is: ")
        for number in numbers[:9]
    ]
    for taken, places in (
        ([pairs[5][0]], {5}), ([pairs[5][1]], {5}), (pairs[5], {5}),
        ([*pairs[5], pairs[2][0], pairs[8][1]], {2, 5, 8}),
    ):  # fmt: skip
        left = shared.stretch(3, 2000, taken)[1]
        assert left.tolist() == [n for place, n in enumerate(numbers) if place not in places]


class OneToken:
    """A tokenizer to which every text is one token, however long."""

    def count(self, texts: Sequence[str]) -> list[int]:
        return [1 for _ in texts]

    def count_prompt(self, content: Text, answer_prefix: str) -> int:
        return 1


def test_lines_that_seem_to_cost_nothing_are_not_drawn_for_ever() -> None:
    strange = TokenizedSources(42, Library(kind="sample"), OneToken())
    row = make_row(TASKS["niah_multikey_3"], strange, 30, Target(1024, 0))
    assert row.length == 1 + TASKS["niah_multikey_3"].max_new_tokens


@given(st.lists(WORDS, max_size=20))
def test_spans_of_bytes_become_spans_of_the_same_characters(pieces: list[str]) -> None:
    edges = np.cumsum([0, *(len(piece.encode()) for piece in pieces)])
    spans = np.stack([edges[:-1], edges[1:]], axis=1)
    text = "".join(pieces)
    found = in_characters(text.encode(), spans).tolist()
    assert [text[start:end] for start, end in found] == pieces


@pytest.mark.parametrize("task", ["cwe", "fwe", "niah_multivalue", "qa_2"])
def test_a_packed_row_is_written_and_digested_as_the_row_that_it_is(task: str) -> None:
    tokens = target("mistral", 2048)
    packed = make_row(TASKS[task], counted("mistral"), 1, tokens)
    row = packed.unpack()
    assert serialize(packed) == serialize(row)
    assert to_table([packed]).equals(to_table([row]))
    assert to_table([packed]).equals(pa.Table.from_pylist([row.to_record()], SCHEMA))


@given(
    st.lists(st.tuples(st.integers(0, 10**9), st.integers(-999, 10**9)), max_size=9),
    st.lists(WORDS, max_size=3),
    st.text(LETTERS, max_size=99),
)
def test_the_canonical_bytes_of_a_row_are_netstrings_in_netstrings(
    spans: list[tuple[int, int]], outputs: list[str], text: str
) -> None:
    evidence = tuple(Span(*span) for span in spans)
    row = Row(3, "vt", text, "q?", "", tuple(outputs), 30, 4096, evidence)
    (whole,) = netstrings(serialize(row))
    fields = netstrings(whole)
    plain = [b"3", b"vt", text.encode(), b"q?", b""]
    assert fields[:5] == plain and fields[6:8] == [b"30", b"4096"]
    assert [output.decode() for output in netstrings(fields[5])] == outputs
    assert [tuple(map(int, one.split(b"-", 1))) for one in netstrings(fields[8])] == spans


def netstrings(data: bytes) -> list[bytes]:
    """Take netstrings apart as their inventor describes them (cr.yp.to/proto/netstrings.txt)."""
    found = []
    while data:
        size, _, rest = data.partition(b":")
        assert rest[int(size) : int(size) + 1] == b","
        found.append(rest[: int(size)])
        data = rest[int(size) + 1 :]
    return found


def test_a_packed_row_that_is_not_utf_8_is_refused() -> None:
    spoilt = PackedRow(0, "t", b"\xff", "q", "a", ("o",), 1, 2, NO_SPANS)
    with pytest.raises(ValueError, match="UTF8"):
        to_table([spoilt])


def test_a_table_holds_rows_with_and_without_evidence() -> None:
    spans: list[tuple[Span, ...]] = [(), (Span(0, 1), Span(2, 5)), (), (Span(7, 9),), ()]
    rows = [Row(n, "t", "c", "q", "a", ("o",), 1, 2, some) for n, some in enumerate(spans)]
    table = to_table(rows)
    table.validate(full=True)
    assert [Row.from_record(record) for record in table.to_pylist()] == rows


COSTS = st.lists(st.integers(1, 90), min_size=1, max_size=120)


@given(costs=COSTS, room=st.integers(0, 4000))
def test_no_unit_that_would_still_fit_is_left(costs: list[int], room: int) -> None:
    chosen = choose(np.array(costs), room).tolist()
    free = room - sum(costs[i] for i in chosen)
    assert free >= 0 and chosen == sorted(set(chosen))
    first = next((i for i in range(len(costs)) if i not in chosen), len(costs))
    rest = [i for i in range(first, min(first + SPARE, len(costs))) if i not in chosen]
    assert free <= SLACK or all(costs[i] > free for i in rest)


@given(st.lists(st.integers(40, 60), min_size=80, max_size=80), st.integers(1200, 1500))
def test_units_of_uneven_cost_use_up_the_room(costs: list[int], room: int) -> None:
    chosen = choose(np.array(costs), room).tolist()
    free = room - sum(costs[i] for i in chosen)
    pairs = combinations(range(len(costs)), 2)
    could_gain = any(
        0 < costs[j] - costs[i] <= free for i, j in pairs if i in chosen and j not in chosen
    )
    assert free <= SLACK or not could_gain


@given(st.lists(st.integers(76, 92), min_size=120, max_size=120), st.integers(3_700, 4_000))
def test_less_than_a_hundredth_stays_free(costs: list[int], room: int) -> None:
    spread = sorted(costs[:32])
    assume(sum(spread[16:]) - sum(spread[:16]) > 60)  # lines that are all equal cannot fill it
    chosen = choose(np.array(costs), room).tolist()
    assert 0 <= room - sum(costs[i] for i in chosen) <= room // 93
    assert chosen == sorted(set(chosen))


def test_costs_of_places_count_as_well() -> None:
    assert choose(np.array([5, 5, 5, 5]), 21, np.array([1, 1, 2, 9])).tolist() == [0, 1, 2]


def test_units_counted_alone_add_up_to_the_whole(llama3: str) -> None:
    tokenizer = counted(llama3).tokenizer
    sentences = ["The grass is green.", "I don't know (yet)!", '"So?" she said.', "It cost $3.50."]
    costs = count_segments(tokenizer, [" " + one for one in sentences], ".", " The")
    text = "Begin. " + " ".join(sentences) + " The end."
    assert tokenizer.count([text])[0] == tokenizer.count(["Begin. The end."])[0] + sum(costs)


#: Times that each outcome is expected, and how far the sum of squares may be off: chi-square with
#: d degrees of freedom has mean d and variance 2d.
TIMES, SIGMAS = 400, 4.0


def is_fair(found: list[tuple[int, ...]], outcomes: list[tuple[int, ...]]) -> bool:
    counts = Counter(found)
    assert set(counts) <= set(outcomes)
    expected = len(found) / len(outcomes)
    distance = sum((counts[one] - expected) ** 2 / expected for one in outcomes)
    freedom = len(outcomes) - 1
    return distance < freedom + SIGMAS * math.sqrt(2 * freedom)


@given(st.integers(1, 60), st.data())
def test_a_shorter_list_of_numbers_begins_alike(bound: int, data: st.DataObject) -> None:
    few, many = sorted(data.draw(st.tuples(st.integers(0, bound), st.integers(0, bound))))
    first, second = (distinct(rng(1, "t", bound, "x"), bound, n).tolist() for n in (few, many))
    assert first == second[:few]
    assert len(set(second)) == many and set(second) <= set(range(bound))


@given(st.integers(0, 2000), st.data())
def test_a_subset_has_the_size_that_is_asked_for(size: int, data: st.DataObject) -> None:
    chosen = data.draw(st.integers(0, size))
    found = subset(rng(1, "t", size, "x"), size, chosen).tolist()
    assert len(found) == chosen and found == sorted(set(found)) and set(found) <= set(range(size))


@pytest.mark.parametrize(("size", "chosen"), [(5, 2), (6, 5), (7, 3)])
def test_every_subset_is_as_likely_as_another(size: int, chosen: int) -> None:
    outcomes = list(combinations(range(size), chosen))
    source = rng(1, "t", size, "subset")
    draws = [subset(source, size, chosen) for _ in range(TIMES * len(outcomes))]
    assert is_fair([tuple(one.tolist()) for one in draws], outcomes)


def test_every_place_of_a_long_text_is_as_likely_as_another() -> None:
    size, chosen, times = 3000, 1100, 400
    source = rng(1, "t", 0, "long")
    often = np.zeros(size)
    for _ in range(times):
        often[subset(source, size, chosen)] += 1
    share = chosen / size
    distance = ((often - times * share) ** 2).sum() / (times * share * (1 - share))
    assert abs(distance - size) < SIGMAS * (2 * size) ** 0.5


@pytest.mark.slow
@pytest.mark.parametrize("size", [3, 30_000, 150_000])
def test_of_neighbours_in_an_order_either_is_as_often_the_greater(size: int) -> None:
    draws = 600_000 // size
    source = rng(1, "t", size, "neighbours")
    rising = sum(np.count_nonzero(np.diff(permutation(source, size)) > 0) for _ in range(draws))
    # An order of n has (n - 1) / 2 rises in the mean, with variance (n + 1) / 12.
    assert abs(rising - draws * (size - 1) / 2) < SIGMAS * math.sqrt(draws * (size + 1) / 12)
