"""The plan of a run: rows are assigned evenly by cost, the same way always, each exactly once."""

from hypothesis import given
from hypothesis import strategies as st

from ruler_eval.sharding import assign, cost
from tests.running.test_estimate import LLAMA_8B, shape

LENGTHS = st.sampled_from([4096, 8192, 16384, 32768, 65536, 131_072])


def loads(lengths: list[int], shards: int) -> list[float]:
    return [sum(cost(lengths[n]) for n in one) for one in assign(lengths, shards)]


@given(lengths=st.lists(st.integers(500, 131_072), min_size=1), shards=st.integers(1, 16))
def test_every_row_is_in_one_shard_in_order_and_no_two_differ_by_more_than_one_row(
    lengths: list[int], shards: int
) -> None:
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
def test_shards_of_forty_longest_rows_and_more_finish_within_five_percent(
    shards: int, longest: int, others: list[int]
) -> None:
    lengths = [longest] * 40 * shards + [min(length, longest) for length in others]
    costs = loads(lengths, shards)
    assert max(costs) <= 1.05 * min(costs)


def test_the_cost_of_a_row_goes_with_the_operations_of_its_prefill() -> None:
    llama = shape(**LLAMA_8B)
    ratio = [llama.prefill_flops(n) / cost(n) for n in (4096, 32768, 131_072, 1_048_576)]
    assert max(ratio) / min(ratio) < 1.1
