"""The plan of a run: rows are dealt evenly by cost, the same way always, each exactly once."""

from hypothesis import given
from hypothesis import strategies as st

from ruler_eval.sharding import Item, assign, cost
from tests.running.test_estimate import LLAMA_8B, shape

LENGTHS = st.sampled_from([4096, 8192, 16384, 32768, 65536, 131_072])


@st.composite
def runs(draw: st.DrawFn) -> list[Item]:
    """Rows of some configs, up to the whole benchmark."""
    configs = draw(
        st.lists(st.tuples(st.integers(0, 12), LENGTHS), min_size=1, max_size=20, unique=True)
    )
    rows = draw(st.integers(1, 30))
    return [Item(f"t{task}_{length}", index, length - index % 40) for task, length in configs
            for index in range(rows)]  # fmt: skip


@given(items=runs(), shards=st.integers(1, 16))
def test_every_row_is_dealt_to_one_shard_in_the_order_of_the_data(
    items: list[Item], shards: int
) -> None:
    dealt = assign(items, shards)
    assert sorted(item.key for one in dealt for item in one) == sorted(item.key for item in items)
    places = {item.key: place for place, item in enumerate(items)}
    assert all([places[i.key] for i in one] == sorted(places[i.key] for i in one) for one in dealt)


@given(items=runs(), shards=st.integers(2, 16))
def test_no_two_shards_differ_by_more_than_one_row(items: list[Item], shards: int) -> None:
    loads = [sum(cost(item.tokens) for item in one) for one in assign(items, shards)]
    assert max(loads) - min(loads) <= max(cost(item.tokens) for item in items) * 1.000001


@given(
    shards=st.integers(2, 8),
    longest=LENGTHS,
    others=st.lists(st.integers(500, 131_072), max_size=400),
)
def test_shards_of_forty_longest_rows_and_more_finish_within_five_percent(
    shards: int, longest: int, others: list[int]
) -> None:
    lengths = [longest] * 40 * shards + [min(length, longest) for length in others]
    items = [Item("vt_131072", index, length) for index, length in enumerate(lengths)]
    loads = [sum(cost(item.tokens) for item in one) for one in assign(items, shards)]
    assert max(loads) <= 1.05 * min(loads)


def test_the_cost_of_a_row_goes_with_the_operations_of_its_prefill() -> None:
    llama = shape(**LLAMA_8B)
    ratio = [llama.prefill_flops(n) / cost(n) for n in (4096, 32768, 131_072, 1_048_576)]
    assert max(ratio) / min(ratio) < 1.1
