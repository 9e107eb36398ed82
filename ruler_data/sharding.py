"""Sharding: divide work into shares of nearly equal cost, the same way every time."""

import heapq
from collections.abc import Sequence


def assign(costs: Sequence[float], shares: int) -> list[list[int]]:
    """Return, for each share, the numbers of its items, rising.

    The costliest item goes first, each to the share with the lowest cost so far (LPT; Graham
    1969, "Bounds on multiprocessing timing anomalies"). No two shares differ by more than the
    cost of one item. Among equal costs and equal shares, the first is taken.

    Args:
        costs: of each item, in any unit, >= 0.
        shares: number of shares, >= 1.

    >>> assign([1.0, 5.0, 3.0, 3.0], 2)
    [[0, 1], [2, 3]]
    """
    loads = [(0.0, share) for share in range(shares)]
    assigned: list[list[int]] = [[] for _ in range(shares)]
    for item in sorted(range(len(costs)), key=lambda item: (-costs[item], item)):
        load, share = loads[0]
        heapq.heapreplace(loads, (load + costs[item], share))
        assigned[share].append(item)
    return [sorted(items) for items in assigned]
