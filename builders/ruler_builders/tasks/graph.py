"""Directed graph (`graph_*`): name the parents of a node, or all nodes within a few steps of it.

    QZKRA -> PLMEW
    PLMEW -> TUVXO
    ...
    Find all nodes that have an edge to TUVXO in the list above.

A family of suites, upstream has none. The questions are those of Graphwalks (the dataset
openai/graphwalks); prompts and graphs are drawn here. Every node has as many edges in and out as
any other and edges are in random order, so neither frequency nor place tells an answer.
"""

from collections.abc import Iterator
from functools import lru_cache
from random import Random
from string import ascii_uppercase

import numpy as np
from numpy.typing import NDArray

from ruler_builders import prompts
from ruler_builders.rows.haystacks import BEGINNINGS, STRIDE
from ruler_builders.rows.randomness import (
    depth,
    distinct,
    draw_names,
    permutation,
    randints_below,
    rng,
)
from ruler_builders.rows.row_template import Haystack, RowTemplate, slots
from ruler_builders.rows.segments import SPARE, Costs, Segments, count_segments, spell
from ruler_builders.rows.tokenized_sources import TokenizedSources
from ruler_data.tasks import Graph

LETTERS = 5
#: Names from which the nodes of a question and its answer are drawn.
GOLD_NAMES = 4096
#: Most attempts to match loops and repeated edges again.
ROUNDS = 50

#: Numbers of the nodes of edges, shape (edges, 2).
Edges = NDArray[np.intp]


def draw(
    name: str, params: Graph, sources: TokenizedSources, index: int, length: int, budget: int
) -> RowTemplate:
    """Draw one row; see `ruler_builders.tasks.draw`."""
    seed = sources.seed
    degree = params.degree
    names = _names(sources)
    gold = distinct(rng(seed, name, index, "nodes"), GOLD_NAMES, 1 + params.answers)
    edges = np.array([*_edges(params)])  # between places in `gold`
    depths = np.array([depth(seed, name, index, f"edge {number}") for number in range(len(edges))])
    by_depth = np.argsort(depths, kind="stable")

    def fill(room: int) -> Haystack:
        # One node too many; then edges are left out until the rest fit, the question's nodes' last.
        nodes = np.concatenate([gold, names.enough(room // degree, index * STRIDE, gold)])
        per_node = degree * names.costs[:, nodes].sum(axis=0)
        last = int(per_node.cumsum().searchsorted(room, side="right")) + 1
        nodes = nodes[: max(last, len(gold))]
        source = rng(seed, name, index, "edges")
        spare_edges = _match_edges(source, edges, len(nodes), degree)
        spare_edges = spare_edges[np.argsort((spare_edges >= len(gold)).all(axis=1), kind="stable")]
        costs = names.edge_costs(nodes[spare_edges])
        fixed = int(names.edge_costs(nodes[edges]).sum())
        count = int(costs.cumsum().searchsorted(room - fixed, side="right"))
        order = permutation(source, count)
        totals = costs[order].cumsum()
        places = np.array(slots(depths[by_depth].tolist(), totals))
        lines = nodes[np.insert(spare_edges[order], places, edges[by_depth], axis=0)]
        text, offsets = spell((names.starts, lines[:, 0]), (names.ends, lines[:, 1]))
        marks = 2 * (places + np.arange(len(places)))
        evidence = np.stack([offsets[marks], offsets[marks + 2] - 1], axis=1)  # no line feed
        cost = fixed + int(costs[order].sum())
        return Haystack([text[:-1]], evidence, cost, count)

    answers = tuple(names.all[number] for number in gold[1:].tolist())
    return RowTemplate(prompts.graph(params, names.all[gold[0]]), answers, fill)


def _edges(params: Graph) -> Iterator[tuple[int, int]]:
    """Yield the edges that the answer rests on; node 0 is the question's, all others the answer.

    >>> [*_edges(Graph("within", steps=2, degree=2))]
    [(0, 1), (0, 2), (1, 3), (1, 4), (2, 5), (2, 6)]
    """
    for node in range(params.answers):
        near = node // params.degree
        far = node + 1
        if params.ask == "parents":
            yield far, near
        else:
            yield near, far


def _match_edges(source: Random, edges: Edges, size: int, degree: int) -> Edges:
    """Return random edges that, with `edges`, give each of `size` nodes its degree.

    Ends are matched at random (the configuration model of Bollobas 1980), and loops and repeated
    edges again. In a graph of very few nodes some may be left, which are left out.
    """
    starts, ends = (
        np.repeat(np.arange(size), degree - np.bincount(side, minlength=size)) for side in edges.T
    )
    ends = ends[permutation(source, len(ends))]
    is_good = np.zeros(len(starts), dtype=bool)
    for _ in range(ROUNDS):
        is_good[:] = False
        is_good[np.unique(starts * size + ends, return_index=True)[1]] = True
        is_good &= starts != ends
        bad = np.flatnonzero(~is_good)
        if not len(bad):
            break
        again = np.union1d(bad, randints_below(source, len(ends), 2 * len(bad)).astype(np.intp))
        ends[again] = ends[again][permutation(source, len(again))]
    order = permutation(source, int(is_good.sum()))
    return np.stack([starts[is_good][order], ends[is_good][order]], axis=1)


class _Names:
    """Names of nodes, the same for all rows, with their tokens as start and end of an edge."""

    def __init__(self, sources: TokenizedSources) -> None:
        self._tokenizer = sources.tokenizer
        self._source = rng(sources.seed, "graph", 0, "names")
        self._drawn_names: dict[str, None] = {}
        self.all: list[str] = []
        self.costs = np.zeros((2, 0), dtype=np.int64)
        self.starts = self.ends = Segments.of([], np.zeros(0, dtype=np.int64))
        self.draw(GOLD_NAMES)

    def draw(self, size: int) -> None:
        """Draw names until there are at least `size`; more are drawn the same way later."""
        if size <= len(self.all):
            return
        draw_names(self._source, ascii_uppercase, LETTERS, self._drawn_names, size)
        new = [*self._drawn_names][len(self.all) :]
        self.all += new
        starts = count_segments(self._tokenizer, [f"{name} ->" for name in new], "\n", " ABCDE")
        ends = count_segments(self._tokenizer, [f" {name}\n" for name in new], "->", "ABCDE")
        self.costs = np.concatenate([self.costs, [starts, ends]], axis=1)
        self.starts = Segments.of([f"{name} -> " for name in self.all], self.costs[0])
        self.ends = Segments.of([f"{name}\n" for name in self.all], self.costs[1])

    def edge_costs(self, lines: Edges) -> Costs:
        """Return the tokens of edges, which are given by the numbers of their names."""
        costs: Costs = self.costs[0, lines[:, 0]] + self.costs[1, lines[:, 1]]
        return costs

    def enough(self, room: int, first: int, taken: NDArray[np.intp]) -> NDArray[np.intp]:
        """Return numbers of names that exceed a room (tokens), none of them in `taken`."""
        first %= BEGINNINGS
        room += int(self.costs[:, taken].sum())
        while self.costs[:, first:].sum() <= room + SPARE:
            self.draw(max(2 * len(self.all), first))
        numbers = np.arange(first, len(self.all))
        return numbers[~np.isin(numbers, taken)]


#: Returns the names that all rows share.
_names = lru_cache(maxsize=4)(_Names)
