"""How often `ruler-eval repeat --pages` finds a fault of an engine, by simulation.

    python benchmarks/pages.py [--runs N]

A simulated engine answers a question at each residue of 128 in the four conditions, and others in
a second look. It misses
answers by itself (half of that noise by hard questions, which are missed in all conditions), and
has a fault: a place, its conditions, and the share of answers that it loses there.
"""

import argparse
from dataclasses import dataclass

import numpy as np

from ruler_eval.engine_check.residues import (
    ANYWHERE,
    ONLY,
    Bools,
    Integers,
    Place,
    Sheet,
    first_look,
    second_look,
    second_questions,
    suspects,
)

SELF, COLD = "only on a self-hit", "only without a cache hit"
NOISE = (0.0, 0.01, 0.05)


@dataclass(frozen=True)
class Planted:
    """A fault of a simulated engine."""

    name: str
    place: Place | None = None
    only: str = ""
    share: float = 1.0


FAULTS = (
    Planted("sound"),
    Planted("0 to 8 mod 16, half of the answers (vllm 50749)", Place(16, 0, 9), "", 0.5),
    Planted("124 mod 128 (qwen38-27b 25)", Place(128, 124, 1)),
    Planted("4 mod 128, only on a self-hit (qwen38-27b PR 13)", Place(128, 4, 1), SELF),
    Planted("100 mod 128, only without a hit (tt-metal 54413)", Place(128, 100, 1), COLD),
    Planted("cache hits alone, 30 % (vllm 47194, 43559)", ANYWHERE, "only on cache hits", 0.3),
    Planted("in a batch alone, 30 % (vllm 57267)", ANYWHERE, "only in a batch", 0.3),
    Planted("5 mod 16", Place(16, 5, 1)),
    Planted("5 mod 16, only on a prefix-hit", Place(16, 5, 1), "only on a prefix-hit"),
    Planted("12 to 15 mod 16, 30 %", Place(16, 12, 4), "", 0.3),
    Planted("48 to 63 mod 64, only in a batch, 30 %", Place(64, 48, 16), "only in a batch", 0.3),
    Planted("5 mod 16, 30 %", Place(16, 5, 1), "", 0.3),
    Planted("5 mod 16, only on a self-hit, 30 %", Place(16, 5, 1), SELF, 0.3),
    Planted("4 mod 128, 30 %", Place(128, 4, 1), "", 0.3),
)  # fmt: skip


def answers(fault: Planted, noise: float, tokens: Integers, rng: np.random.Generator) -> Sheet:
    """Return what questions show whose prompts have so many tokens."""
    rows = len(tokens)
    lost: Bools = rng.random((rows, 4)) < noise / 2
    lost |= (rng.random(rows) < noise / 2)[:, None]
    if fault.place is not None:
        here = fault.place.holds(tokens)[:, None] & (rng.random((rows, 4)) < fault.share)
        here[:, [each for each in range(4) if each not in ONLY[fault.only][0]]] = False
        lost |= here
    changed = (rng.random((rows, 4)) < noise) & ~lost
    changed[:, 0] = False
    return Sheet(tokens, lost, changed)


def is_found(fault: Planted, noise: float, rng: np.random.Generator) -> tuple[bool, int]:
    """Return whether anything was found, and the rows of a second look."""
    rows = np.tile(np.arange(128), 4) + 4096
    first = answers(fault, noise, rows[:128], rng)
    if first_look(first):
        return True, 0
    if not (suspected := suspects(first)):
        return False, 0
    others = {pair: rows[pair : pair + 2] for pair in range(128, 512, 2)}
    moves = second_questions(others, suspected, np.inf)
    moved = np.concatenate([others[pair] + words for pair, words in moves.items()])
    return bool(second_look(answers(fault, noise, moved, rng), suspected)), len(moved)


def main() -> None:
    """Print a table of what was found."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--runs", type=int, default=400)
    options = parser.parse_args()
    lines = list[tuple[str, ...]]()
    for fault in FAULTS:
        cells = list[str]()
        for noise in NOISE:
            rng = np.random.default_rng([7, int(1000 * noise)])
            found = [is_found(fault, noise, rng) for _ in range(options.runs)]
            cells += [f"{100 * np.mean([hit for hit, _ in found]):.1f}"]
            cells += [f"{np.mean([again for _, again in found]):.0f}"]
        lines.append((fault.name, *cells))
    heads = [text for noise in NOISE for text in (f"found, noise {noise:.0%}", "more rows")]
    print(f"Percent of {options.runs} simulated checks in each cell.\n")
    for line in (("fault", *heads), ("---",) * 7, *lines):
        print(f"| {' | '.join(line)} |")


if __name__ == "__main__":
    main()
