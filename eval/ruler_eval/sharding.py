"""The plan of a run: what each row costs, and which shard answers it.

The cost of a row is that of its prefill, the work that dominates long contexts. A forward pass
over n tokens takes 2·P·n floating-point operations in P parameters' matrices and 2·L·d·n² in
causal attention over L layers of d = heads · head size (Kaplan et al. 2020, arXiv 2001.08361,
section 2.1, counted for all positions). Only their ratio matters to dealing rows: n + n²/c, where
c = P / (L·d) is the number of tokens at which both cost the same.
"""

import heapq
from collections.abc import Sequence
from dataclasses import dataclass

from ruler_eval.data import Dataset

#: c of Llama 3.1 8B: 8.03e9 parameters, 32 layers of 4,096. Others of its kind lie near.
CROSSOVER = 61_000

Key = tuple[str, int]


@dataclass(frozen=True, slots=True)
class Item:
    """One row to answer.

    Attributes:
        config: e.g. `vt_4096`.
        index: of the row.
        tokens: length of the row, room for the answer included.
    """

    config: str
    index: int
    tokens: int

    @property
    def key(self) -> Key:
        """The row's identity."""
        return self.config, self.index


def cost(tokens: int, crossover: int = CROSSOVER) -> float:
    """Return what a row costs, in tokens of a short row.

    >>> cost(61_000)
    122000.0
    """
    return tokens + tokens * tokens / crossover


def items_of(data: Dataset) -> list[Item]:
    """Return all rows of a run, in the order of the data."""
    return [
        Item(config, index, size.length)
        for config in data.rows
        for index, size in enumerate(data.sizes(config))
    ]


def assign(items: Sequence[Item], shards: int) -> list[list[Item]]:
    """Deal rows to shards of nearly equal cost; the same rows are dealt the same way always.

    The costliest row goes first, each to the shard that has least to do (LPT; Graham 1969,
    "Bounds on multiprocessing timing anomalies"): no two shards differ by more than one row's
    cost. Within a shard rows keep the order of `items`.
    """
    ranked = sorted(range(len(items)), key=lambda place: (-items[place].tokens, place))
    loads = [(0.0, shard) for shard in range(shards)]
    dealt: list[list[int]] = [[] for _ in range(shards)]
    for place in ranked:
        load, shard = loads[0]
        heapq.heapreplace(loads, (load + cost(items[place].tokens), shard))
        dealt[shard].append(place)
    return [[items[place] for place in sorted(places)] for places in dealt]
