"""Assign rows to shards so that every shard has nearly the same amount of work.

The cost of a row is that of its prefill, which dominates long contexts. A forward pass over n
tokens takes 2·P·n floating-point operations in the matrices of P parameters and 2·L·d·n² in causal
attention over L layers of d = heads · head size (Kaplan et al. 2020, arXiv 2001.08361, section 2.1,
counted for all positions). Only their ratio matters here: n + n²/c, where c = P / (L·d) is the
number of tokens at which both cost the same.
"""

import heapq
from collections.abc import Sequence
from dataclasses import dataclass

from ruler_eval.running.answers import Key
from ruler_eval.running.data import Dataset

#: c of Llama 3.1 8B: 6.98e9 parameters in the matrices of its 32 layers of 4,096. Models of its
#: kind are close to it.
CROSSOVER = 53_000


@dataclass(frozen=True, order=True)
class Shard:
    """Share `index` (from 0) of `count` of a run's rows."""

    index: int = 0
    count: int = 1

    @property
    def name(self) -> str:
        """As in file names."""
        return f"{self.index}-of-{self.count}"

    def __str__(self) -> str:
        return f"{self.index}/{self.count}"


def cost(tokens: int) -> float:
    """Return the cost of a row, in tokens of a short row.

    >>> cost(53_000)
    106000.0
    """
    return tokens + tokens * tokens / CROSSOVER


def shares_of(data: Dataset, shards: int = 1, samples: int = 1) -> list[list[Key]]:
    """Return what each shard answers; all samples of a row are in one, for its prefix cache."""
    rows = [
        (config, index, length)
        for config in data.rows
        for index, (length, _) in enumerate(data.sizes(config))
    ]
    return [
        [(*rows[place][:2], sample) for place in share for sample in range(samples)]
        for share in assign([length for *_, length in rows], shards)
    ]


def assign(lengths: Sequence[int], shards: int) -> list[list[int]]:
    """Return the places of the rows of each shard, in order; their costs are nearly equal.

    The costliest row goes first, each to the shard with the lowest cost so far (LPT; Graham 1969,
    "Bounds on multiprocessing timing anomalies"), the first among equals. No two shards differ by
    more than the cost of one row.
    """
    loads = [(0.0, shard) for shard in range(shards)]
    places: list[list[int]] = [[] for _ in range(shards)]
    for place in sorted(range(len(lengths)), key=lambda place: (-lengths[place], place)):
        load, shard = loads[0]
        heapq.heapreplace(loads, (load + cost(lengths[place]), shard))
        places[shard].append(place)
    return [sorted(indices) for indices in places]
