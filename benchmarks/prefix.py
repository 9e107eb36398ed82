"""What share of prefill a prefix cache saves, and how evenly rows are dealt to shards.

    python benchmarks/prefix.py --data DIR

Counted, not timed: the tokens that each prompt begins in common with prompts before it, in whole
blocks of 16 as vLLM caches them.
  (a) rows in the order of the data, a cache that holds the last row,
  (b) rows as a run sorts them, a cache that holds the last row,
  (c) a cache without limit, in any order.
Then, for several numbers of shards: by how much the costliest is over the cheapest, in the cost
model that deals them (plan.py), and how many rows of the greatest length each has.
"""

import argparse
from collections.abc import Sequence
from itertools import pairwise
from pathlib import Path

import numpy as np
from measuring import table

from ruler_data.names import parse_config
from ruler_eval.eval_config import EvalConfig
from ruler_eval.runner import open_job, requests
from ruler_eval.sharding import Item, assign, cost, items_of

BLOCK = 16
Prompt = np.ndarray[tuple[int], np.dtype[np.int64]]


def shared(left: Prompt, right: Prompt) -> int:
    """Return the tokens of whole blocks in which two prompts begin alike."""
    size = min(len(left), len(right))
    differs = np.nonzero(left[:size] != right[:size])[0]
    return (int(differs[0]) if len(differs) else size) // BLOCK * BLOCK


def with_last(prompts: Sequence[Prompt]) -> int:
    """Return the tokens that each prompt shares with the one before it."""
    return sum(shared(*pair) for pair in pairwise(prompts))


def with_all(prompts: Sequence[Prompt]) -> int:
    """Return the most tokens that each prompt shares with any before it."""
    return sum(
        max(shared(prompt, before) for before in prompts[:place])
        for place, prompt in enumerate(prompts)
        if place
    )


def spread(items: Sequence[Item]) -> list[str]:
    """Return how evenly rows are dealt."""
    lines = []
    longest = max(parse_config(item.config)[1] for item in items)
    rows = sum(parse_config(item.config)[1] == longest for item in items)
    for shards in (2, 4, 8, 16, 32, 64, 128):
        costs = [sum(cost(item.tokens) for item in shard) for shard in assign(items, shards)]
        over = max(costs) / min(costs) - 1 if min(costs) else float("inf")
        lines.append((shards, f"{rows / shards:.1f}", f"{over:.2%}"))
    return table(("shards", "longest rows each", "costliest over cheapest"), lines)


def main() -> None:
    """Count and print."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--data", type=Path, required=True)
    options = parser.parse_args()
    job = open_job(EvalConfig(data=options.data, model="bench", engine="oracle"))
    lines, totals = [], np.zeros(4)
    for config in job.data.rows:
        todo = [item for item in items_of(job.data) if item.config == config]
        by_run = [(each.row.index, np.array(each.ids)) for each in requests(job, todo)]
        in_order = [ids for _, ids in sorted(by_run, key=lambda one: one[0])]
        saved = (with_last(in_order), with_last([ids for _, ids in by_run]), with_all(in_order))
        found = np.array([*saved, sum(map(len, in_order))])
        totals += found
        lines.append((config, len(todo), *(f"{share:.3f}" for share in found[:3] / found[3])))
    lines.append(("all", "", *(f"{share:.3f}" for share in totals[:3] / totals[3])))
    heads = ("config", "rows", "(a) data order", "(b) sorted", "(c) no limit")
    print(*table(heads, lines), "", *spread(items_of(job.data)), sep="\n")


if __name__ == "__main__":
    main()
