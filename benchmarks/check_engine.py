"""How often `ruler-eval check-engine` names a fault of an engine, by simulation.

    python benchmarks/check_engine.py [--runs N]

A simulated engine answers a question at each residue of 128 in the five conditions, and others in
a second look. It misses answers by itself (half of that noise by hard
questions, which are missed in all conditions), and has a fault: a place, what a prompt was computed
with, and the share of answers that it loses there. Prompts have two blocks and 128 residues.
"""

import argparse
from dataclasses import dataclass

import numpy as np

from ruler_eval.engine_check.verdict import (
    ANYWHERE,
    CONDITIONS,
    Bools,
    Integers,
    Place,
    Sheet,
    first_look,
    second_look,
    second_questions,
    suspects,
)

NOISE = (0.0, 0.01, 0.05, 0.1)
#: Places of the conditions in which a fault shows, by what a prompt must have been computed with.
WHEN = {
    "always": (0, 1, 2, 3, 4),
    "self-hit": (1,),
    "hit": (1, 2, 4),
    "no hit": (0, 3),
    "batch": (3, 4),
    "shared": (4,),
}


@dataclass(frozen=True)
class Planted:
    """A fault of a simulated engine: where, with what in the cache, and how often."""

    name: str
    place: Place | None = None
    when: str = "always"
    share: float = 1.0


FAULTS = (
    Planted("none"),
    Planted("0 to 8 mod 16, half of the answers", Place(16, 0, 9), share=0.5),
    Planted("124 mod 128", Place(128, 124, 1)),
    Planted("4 mod 128, on a self-hit", Place(128, 4, 1), "self-hit"),
    Planted("100 mod 128, without a hit", Place(128, 100, 1), "no hit"),
    Planted("any prompt, on a hit", ANYWHERE, "hit"),
    Planted("any prompt, on a hit, 30 %", ANYWHERE, "hit", 0.3),
    Planted("any prompt, in a batch, 30 %", ANYWHERE, "batch", 0.3),
    Planted("5 mod 16", Place(16, 5, 1)),
    Planted("5 mod 16, on a self-hit", Place(16, 5, 1), "self-hit"),
    Planted("48 to 63 mod 64, in a batch", Place(64, 48, 16), "batch"),
    Planted("any prompt, in a step shared with its prefix", ANYWHERE, "shared"),
    Planted("8 to 15 mod 16, in a step shared with its prefix", Place(16, 8, 8), "shared"),
)


def answers(fault: Planted, noise: float, tokens: Integers, rng: np.random.Generator) -> Sheet:
    """Return what questions show whose prompts have so many tokens."""
    shape = len(tokens), len(CONDITIONS)
    # Cold and self-hit are one prompt; each of the others begins with another line.
    lost: Bools = (rng.random(shape) < noise / 2)[:, [0, 0, 2, 3, 4]]
    lost |= (rng.random(len(tokens)) < noise / 2)[:, None]
    if fault.place is not None:
        here = np.zeros(shape, dtype=bool)
        here[:, WHEN[fault.when]] = fault.place.holds(tokens)[:, None]
        lost |= here & (rng.random(shape) < fault.share)
    changed = (rng.random(shape) < noise) & ~lost
    changed[:, 0] = False
    return Sheet(tokens, lost, changed)


def is_found(fault: Planted, noise: float, rng: np.random.Generator) -> bool:
    """Return whether a check of 512 rows finds anything."""
    tokens = np.tile(np.arange(128), 4) + 4096
    first = answers(fault, noise, tokens[:128], rng)
    if first_look(first):
        return True
    suspected = suspects(first)
    if not suspected:
        return False
    others = {pair: tokens[pair : pair + 2] for pair in range(128, 512, 2)}
    moves = second_questions(others, suspected, np.inf)
    moved = np.concatenate([others[pair] + words for pair, words in moves.items()])
    return bool(second_look(answers(fault, noise, moved, rng), suspected))


def main() -> None:
    """Print the percent of checks that find something, by fault and noise."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--runs", type=int, default=100)
    options = parser.parse_args()
    heads = [f"noise {noise:.0%}" for noise in NOISE]
    print(f"Percent of {options.runs} simulated checks that found something.\n")
    print(f"| fault | {' | '.join(heads)} |")
    print(f"|---|{'--:|' * len(heads)}")
    for fault in FAULTS:
        cells = list[str]()
        for noise in NOISE:
            rng = np.random.default_rng([7, int(1000 * noise)])
            found = sum(is_found(fault, noise, rng) for _ in range(options.runs))
            cells.append(f"{100 * found / options.runs:.0f}")
        print(f"| {fault.name} | {' | '.join(cells)} |", flush=True)


if __name__ == "__main__":
    main()
