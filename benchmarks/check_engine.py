"""How often `ruler-eval check-engine` names a fault of an engine, by simulation.

    python benchmarks/check_engine.py [--runs N]

A simulated engine answers a question at each residue of 128 in the five conditions, and others in
a second look; its cache holds whole blocks. It misses answers by itself (half of that noise by hard
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

NOISE = (0.0, 0.01, 0.05)
#: Tokens of a block of the cache: of vLLM, and of models with other layers between attention.
BLOCKS = (16, 32, 1_600, 2_096, 8_320)
SHORTEST = 4_096


@dataclass(frozen=True)
class Planted:
    """A fault of a simulated engine: where, with what in the cache, and how often."""

    name: str
    place: Place | None = None
    when: str = "always"  # or `self-hit`, `hit`, `no hit`, `batch`, `shared`
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


def computed(fault: Planted, depths: np.ndarray, tokens: Integers, block: int) -> Bools:
    """Return in which conditions a prompt is computed as the fault needs it; (rows, conditions).

    A pair begins alike up to the first of its two needles, which stand at `depths` of the text. The
    second of a pair shares the step in which the first is computed.
    """
    rows = len(tokens)
    alike = np.minimum(depths[0::2], depths[1::2]).repeat(2) * tokens
    is_second = np.arange(rows) % 2 == 1
    hits = np.zeros((rows, len(CONDITIONS)), dtype=bool)
    hits[:, CONDITIONS.index("self-hit")] = tokens > block
    hits[:, CONDITIONS.index("prefix-hit")] = alike >= block
    hits[:, CONDITIONS.index("shared")] = (alike >= block) & is_second
    where = np.zeros_like(hits)
    if fault.when == "always":
        where[:] = True
    elif fault.when == "self-hit":
        column = CONDITIONS.index("self-hit")
        where[:, column] = hits[:, column]
    elif fault.when == "hit":
        where = hits
    elif fault.when == "no hit":
        where = ~hits
    elif fault.when == "batch":
        where[:, CONDITIONS.index("batched") :] = True
    elif fault.when == "shared":
        column = CONDITIONS.index("shared")
        where[:, column] = hits[:, column]
    return where


def answers(
    fault: Planted, noise: float, tokens: Integers, block: int, rng: np.random.Generator
) -> Sheet:
    """Return what questions show whose prompts have so many tokens."""
    shape = len(tokens), len(CONDITIONS)
    lost: Bools = rng.random(shape) < noise / 2
    lost |= (rng.random(len(tokens)) < noise / 2)[:, None]
    if fault.place is not None:
        here = computed(fault, rng.random(len(tokens)), tokens, block)
        here &= fault.place.holds(tokens)[:, None]
        lost |= here & (rng.random(shape) < fault.share)
    changed = (rng.random(shape) < noise) & ~lost
    changed[:, 0] = False
    return Sheet(tokens, lost, changed)


def is_found(fault: Planted, noise: float, block: int, rng: np.random.Generator) -> bool:
    """Return whether a check of 256 rows finds anything."""
    shortest = max(SHORTEST, 2 * block)
    tokens = np.tile(np.arange(128), 4) + shortest
    first = answers(fault, noise, tokens[:128], block, rng)
    if first_look(first):
        return True
    suspected = suspects(first)
    if not suspected:
        return False
    others = {pair: tokens[pair : pair + 2] for pair in range(128, 512, 2)}
    moves = second_questions(others, suspected, np.inf)
    moved = np.concatenate([others[pair] + words for pair, words in moves.items()])
    return bool(second_look(answers(fault, noise, moved, block, rng), suspected))


def main() -> None:
    """Print the percent of checks that find something, by fault, block and noise."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--runs", type=int, default=100)
    options = parser.parse_args()
    heads = [f"block {block:,}, noise {noise:.0%}" for block in BLOCKS for noise in NOISE]
    print(f"Percent of {options.runs} simulated checks that found something.\n")
    print(f"| fault | {' | '.join(heads)} |")
    print(f"|---|{'--:|' * len(heads)}")
    for fault in FAULTS:
        cells = list[str]()
        for block in BLOCKS:
            for noise in NOISE:
                rng = np.random.default_rng([7, int(1000 * noise), block])
                found = sum(is_found(fault, noise, block, rng) for _ in range(options.runs))
                cells.append(f"{100 * found / options.runs:.0f}")
        print(f"| {fault.name} | {' | '.join(cells)} |", flush=True)


if __name__ == "__main__":
    main()
