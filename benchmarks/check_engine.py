"""How often `ruler-eval check-engine` names a fault of an engine.

    python benchmarks/check_engine.py [--runs N]
    python benchmarks/check_engine.py --tokenizer DIR [--runs N] [--blocks 16,2096]

The first is a simulation of the test alone. A simulated engine answers a question at each residue
of 128 in the five conditions, and others in a second look. It misses answers by itself (half of
that noise by hard questions, which are missed in all conditions), and has a fault: a place, what a
prompt was computed with, and the share of answers that it loses there.

The second runs the whole command on an engine in this process with a prefix cache of blocks, of
which prompts have two. It answers from the rows, misses some answers by itself, and loses those
that were computed as the planted fault says.
"""

import argparse
import sys
import tempfile
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

import ruler_builders
import ruler_eval
from ruler_cli import pages_length
from ruler_data.tokenizers.protocol import Ids
from ruler_eval import Generation, Request
from ruler_eval.engine_check.verdict import (
    ANYWHERE,
    CONDITIONS,
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


class Computed(NamedTuple):
    """How the engine computed a prompt: its tokens, those cached, and with how many others."""

    tokens: int
    cached: int
    block: int
    is_shared: bool  # a cached block was computed in the same step
    together: int

    @property
    def is_whole(self) -> bool:
        """Whether all blocks were cached that leave something to compute."""
        return self.cached == (self.tokens - 1) // self.block * self.block


#: What a prompt must have been computed with, by the conditions in which `check-engine` sees it.
COMPUTED: dict[str, tuple[Callable[[Computed], bool], tuple[int, ...]]] = {
    "always": (lambda prompt: True, (0, 1, 2, 3, 4)),
    "without a hit": (lambda prompt: prompt.cached == 0, (0, 3)),
    "on a hit": (lambda prompt: prompt.cached > 0, (1, 2, 4)),
    "on a self-hit": (lambda prompt: prompt.is_whole and not prompt.is_shared, (1,)),
    "on a prefix-hit": (
        lambda prompt: prompt.cached > 0 and not prompt.is_whole and prompt.together == 1,
        (2,),
    ),
    "in a batch": (lambda prompt: prompt.together > 1, (3, 4)),
    "in a step shared with its prefix": (lambda prompt: prompt.is_shared, (4,)),
}
BLOCKS = (16, 32, 1600, 2096, 8320)
#: Tokens with which prompts begin alike only if one is the other, or the first part of it.
BEGINNING = 64
#: Share of the answers that the engine misses by itself, and requests that it computes together.
MISSES, TOGETHER = 0.01, 8


class CachedEngine:
    """An engine with a prefix cache of blocks, and maybe a fault."""

    def __init__(self, block: int, run: int, is_lost: Callable[[Computed], bool]) -> None:
        self.block = block
        self.run = run
        self.is_lost = is_lost
        self.step = 0
        #: Prompts that were computed, with their steps, by how they begin.
        self.prompts: dict[bytes, list[tuple[Ids, int]]] = {}

    def __call__(self, requests: Sequence[Request]) -> list[Generation]:
        """Answer requests that are computed in one step."""
        self.step += 1
        return [self.answer(request, len(requests)) for request in requests]

    def answer(self, request: Request, together: int) -> Generation:
        """Answer one; its blocks are in the cache for those behind it, in the same step, too."""
        ids = request.ids
        earlier = self.prompts.setdefault(ids[:BEGINNING].tobytes(), [])
        held = 0
        is_shared = False
        for prompt, step in earlier:
            blocks = min(_alike(prompt, ids), len(ids) - 1) // self.block
            if blocks * self.block > held:
                held = blocks * self.block
                is_shared = step == self.step
        earlier.append((ids, self.step))
        digest = sha256(b"%d " % self.run + ids.tobytes()).digest()
        is_missed = int.from_bytes(digest[:4]) < MISSES * 2**32
        computed = Computed(len(ids), held, self.block, is_shared, together)
        text = ", ".join(request.row.outputs)
        if is_missed or self.is_lost(computed):
            text = "It is not known."
        return Generation(text, tokens=5, cached_tokens=held)


def _alike(first: Ids, second: Ids) -> int:
    """Return the tokens with which both begin."""
    size = min(len(first), len(second))
    differences = np.flatnonzero(first[:size] != second[:size])
    return int(differences[0]) if len(differences) else size


def planted_place(rng: np.random.Generator) -> Place:
    """Return residues of a fault: one or a run of 16, or one of 128."""
    kind = int(rng.integers(3))
    if kind == 0:
        return Place(16, int(rng.integers(16)), 1)
    if kind == 1:
        return Place(16, int(rng.integers(16)), int(rng.integers(4, 9)))
    return Place(128, int(rng.integers(128)), 1)


def is_named(place: Place, conditions: tuple[int, ...], found: Iterable[Any]) -> bool:
    """Whether a fault that was found has the very residues and conditions."""
    residues = np.arange(128)
    inside = place.holds(residues)
    return any(
        np.array_equal(fault.place.holds(residues), inside) and ONLY[fault.only][0] == conditions
        for fault in found
    )


def check(rows: Path, block: int, run: int, name: str) -> tuple[int, bool]:
    """Run the command; return its exit status, and whether the fault was named to the residue.

    Of a sound engine (no name) nothing can be named.
    """
    rng = np.random.default_rng([block, run, len(name)])
    place = planted_place(rng)

    def is_lost(prompt: Computed) -> bool:
        if not name or not place.holds(np.array([prompt.tokens]))[0]:
            return False
        return COMPUTED[name][0](prompt)

    engine = CachedEngine(block, run, is_lost)
    result = ruler_eval.check_engine(rows, generate=engine, options={"batch": TOGETHER})
    named = bool(name) and is_named(place, COMPUTED[name][1], result.faults)
    return result.exit_status, named


def check_blocks(tokenizer: Path, blocks: Sequence[int], runs: int) -> None:
    """Print how often the command finds and names faults, by block and by condition."""
    length = pages_length(max(blocks))
    print(f"Rows of {length:,} tokens; {MISSES:.0%} of the answers missed anyway.\n")
    statuses: dict[tuple[int, str], list[int]] = {}
    named = Counter[tuple[int, str]]()
    names = ["", *COMPUTED]
    with tempfile.TemporaryDirectory() as scratch:
        rows = Path(scratch, "rows")
        ruler_builders.build(
            str(tokenizer),
            suite="pages",
            tasks="niah_pages_single",
            lengths=[length],
            out=rows,
            progress=False,
        )
        for block in blocks:
            for run in range(runs):
                for name in ("", names[1 + run % len(COMPUTED)]):
                    status, is_named = check(rows, block, run, name)
                    statuses.setdefault((block, name), []).append(status)
                    named[block, name] += is_named
                    print(block, run, name or "sound", status, is_named, file=sys.stderr)
    print("| block | sound: exit 0 of | fault: exit 1 of | named of |")
    print("|--:|--:|--:|--:|")
    for block in blocks:
        sound = statuses[block, ""]
        faulty = [status for name in COMPUTED for status in statuses.get((block, name), [])]
        right = sum(named[block, name] for name in COMPUTED)
        print(
            f"| {block:,} | {sound.count(0)} of {len(sound)} | {faulty.count(1)} of {len(faulty)} "
            f"| {right} of {len(faulty)} |"
        )
    print("\n| fault | exit 1 of | named of |")
    print("|---|--:|--:|")
    for name in COMPUTED:
        faulty = [status for block in blocks for status in statuses.get((block, name), [])]
        right = sum(named[block, name] for block in blocks)
        print(f"| {name} | {faulty.count(1)} of {len(faulty)} | {right} of {len(faulty)} |")


def simulate(runs: int) -> None:
    """Print the percent of simulated checks that find something, by fault and noise."""
    heads = [f"noise {noise:.0%}" for noise in NOISE]
    print(f"Percent of {runs} simulated checks that found something.\n")
    print(f"| fault | {' | '.join(heads)} |")
    print(f"|---|{'--:|' * len(heads)}")
    for fault in FAULTS:
        cells = list[str]()
        for noise in NOISE:
            rng = np.random.default_rng([7, int(1000 * noise)])
            found = sum(is_found(fault, noise, rng) for _ in range(runs))
            cells.append(f"{100 * found / runs:.0f}")
        print(f"| {fault.name} | {' | '.join(cells)} |", flush=True)


def main() -> None:
    """Print how often faults are found."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--runs", type=int, default=20)
    parser.add_argument("--tokenizer", type=Path, help="run the command on rows for this one")
    parser.add_argument("--blocks", default=",".join(map(str, BLOCKS)))
    options = parser.parse_args()
    if options.tokenizer is not None:
        blocks = [int(block) for block in options.blocks.split(",")]
        check_blocks(options.tokenizer, blocks, options.runs)
        return
    simulate(options.runs)


if __name__ == "__main__":
    main()
