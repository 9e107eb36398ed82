"""`check-engine`: does an engine lose answers where a prompt ends, or by what was cached?

    rows of the suite `pages`  ->  five conditions  ->  exact test  ->  faults, and what was seen

A condition counts only where it was seen: a hit is a hit by the cached tokens that the engine
reports, or by the time of the answer, and a prompt has two blocks of the cache. What was never met
is not tested, and the check does not pass.
"""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from contextlib import closing
from dataclasses import asdict, dataclass
from hashlib import sha256
from typing import Any

import numpy as np

from ruler_data.errors import UsageError
from ruler_data.names import counted, parse_config
from ruler_data.progress import progress
from ruler_eval.engine_check.conditions import Asker, Pair, Seen
from ruler_eval.engine_check.verdict import (
    CONDITIONS,
    Fault,
    Integers,
    first_look,
    second_look,
    second_questions,
    smallest,
    suspects,
)
from ruler_eval.running.runner import RunJob

#: Residues that are told apart: of the prompt's tokens modulo the largest page.
RESIDUES = 128
#: Residues that must be met; prompts of other protocols than `completion` miss a few.
FEWEST_RESIDUES = 120
#: Blocks of the cache that a prompt must have, so that a hit leaves something to compute.
BLOCKS = 2
#: Conditions in which a cache must have held a part of the prompt.
HITS = ("self-hit", "prefix-hit", "shared")
#: Engines that cannot ask in all conditions: one reads each prompt anew, one loads at each call.
UNCACHED = ("transformers", "ray")


@dataclass(frozen=True)
class EngineCheck:
    """What a check at one length found.

    Attributes:
        length: of the rows, in tokens.
        rows: that were asked, each in five conditions.
        residues: of 128, at which prompts of the first look ended.
        faults: places and conditions where answers are lost or changed.
        smallest: share of answers whose loss would have been seen, by shape of the fault; None if
            no loss would have been.
        kinds: number of answers by condition: right, wrong, empty, ...
        seen: in how many answers each condition was seen.
        block: tokens of a block of the cache, as named or as the cached tokens show; None if
            neither.
        not_tested: why a condition was not tested, by condition.
        beginning: tokens of the line before each text that makes a prompt new to a cache.
    """

    length: int
    rows: int
    residues: int
    faults: tuple[Fault, ...]
    smallest: Mapping[str, float | None]
    kinds: Mapping[str, Mapping[str, int]]
    seen: Mapping[str, Seen]
    block: int | None
    not_tested: Mapping[str, str]
    beginning: int

    @property
    def can_tell(self) -> bool:
        """Whether enough residues were met, and enough answers right, for a loss to be seen."""
        is_seen = self.smallest["one residue of 128"] is not None
        return is_seen and self.residues >= FEWEST_RESIDUES

    @property
    def exit_status(self) -> int:
        """0: all was tested and nothing found; 1: a fault; 3: cannot tell, or not all tested."""
        if self.faults:
            return 1
        return 0 if self.can_tell and not self.not_tested else 3

    def to_record(self) -> dict[str, Any]:
        """Return it as JSON values."""
        faults = [{**asdict(fault), "sentence": str(fault)} for fault in self.faults]
        return {**asdict(self), "faults": faults, "exit_status": self.exit_status}

    def __str__(self) -> str:
        lines = [str(fault) for fault in self.faults]
        if not lines:
            lines.append(self._without_faults())
        for condition in CONDITIONS:
            answers = [f"{number} {kind}" for kind, number in self.kinds[condition].items()]
            lines.append(f"  {condition}: {', '.join(answers)}; {self.seen[condition]}")
        for condition, reason in self.not_tested.items():
            lines.append(f"  not tested: {condition}: {reason}")
        last = f"  each prompt begins with a line of {self.beginning} tokens, new to any cache"
        if self.block:
            last += f", the cache's block of {counted(self.block, 'token')}"
        lines.append(last)
        return "\n".join(lines)

    def _without_faults(self) -> str:
        losses = []
        for name, share in self.smallest.items():
            if share == 1:
                losses.append(f"all at {name}")
            elif share is not None:
                losses.append(f"{100 * share:.0f} % at {name}")
        size = "no loss would have been seen"
        if losses:
            size = f"a loss of these answers would have been seen: {', '.join(losses)}"
        rows = f"{counted(self.rows, 'row')} of {self.length} tokens, {self.residues} residues"
        if not self.can_tell:
            remedy = "use more rows (256 of a task), shorter ones or a better model"
            return f"cannot tell with {rows}: {size}; {remedy}"
        if self.not_tested:
            names = ", ".join(self.not_tested)
            return f"nothing found where {rows} were tested; not tested: {names}; {size}"
        return f"nothing found in {rows}; {size}"


def check_engine(job: RunJob, length: int | None = None, block: int | None = None) -> EngineCheck:
    """Ask the rows of one length in five conditions and test them.

    Args:
        job: a run over rows of the suite `pages`, opened.
        length: of the rows, in tokens; by default the shortest.
        block: tokens of a block of the engine's cache, where it is known.

    Raises:
        UsageError: the rows are not of the suite `pages` or do not fit, or the engine has no cache.
        RulerError: the engine does not answer.
    """
    if job.config.engine in UNCACHED:
        raise UsageError(
            job.config.engine,
            "keeps no cache from one prompt to the next; use vllm, or a server with --base-url",
        )
    length, names = _rows_of(job, length)
    pairs = _pairs(job, names)
    first = _one_for_each_residue(pairs)
    number = 2 * len(first)
    with closing(Asker(job)) as asker:
        with progress(len(CONDITIONS) * number * length, "asking for every residue") as advance:
            asker.ask(dict.fromkeys(first, 0), advance)
        sheet = asker.sheet(first)
        faults = first_look(sheet)
        suspected = suspects(sheet)
        others = {pair: tokens for pair, tokens in pairs.items() if pair not in {*first}}
        if not faults and suspected and others:
            added = int((sheet.tokens[:2] - pairs[first[0]])[0])  # tokens that were not counted
            moved = {pair: tokens + added for pair, tokens in others.items()}
            again = second_questions(moved, suspected, asker.longest(first[0]))
            number += 2 * len(again)
            total = 2 * len(CONDITIONS) * len(again) * length
            with progress(total, "a second look at other questions") as advance:
                asker.ask(again, advance)
            faults = second_look(asker.sheet(again), suspected)
        return EngineCheck(
            length=length,
            rows=number,
            residues=len({*(sheet.tokens % RESIDUES).tolist()}),
            faults=tuple(map(asker.named, faults)),
            smallest=smallest(sheet, fresh=bool(others)),
            kinds=asker.kinds,
            seen={condition: asker.seen(condition) for condition in CONDITIONS},
            block=block or asker.block,
            not_tested=not_tested(asker, block),
            beginning=asker.beginning,
        )


def not_tested(asker: Asker, block: int | None) -> dict[str, str]:
    """Return why conditions were not tested, by condition; those that were met are left out."""
    reasons = dict[str, str]()
    block = block or asker.block
    shortest = min(asker.tokens.values())
    for condition in CONDITIONS:
        seen = asker.seen(condition)
        if condition in HITS and block and BLOCKS * block > shortest:
            reasons[condition] = (
                f"prompts of {shortest} tokens are shorter than {BLOCKS} blocks of {block} of the "
                f"cache; use --block {block}, or a --length over {BLOCKS * block}"
            )
        elif not seen.is_met(condition):
            reasons[condition] = _why_unmet(condition, seen)
    return reasons


def _why_unmet(condition: str, seen: Seen) -> str:
    if condition in ("batched", "shared") and seen.together < 2:
        return "the engine took one request at a time (--option concurrency=8, or batch=8)"
    if condition == "cold":
        return f"a cache held a new prompt ({seen}); is its answer cached by something else?"
    return (
        f"too few prompts were read from a cache ({seen}); turn the engine's prefix cache on, or "
        "name its block if prompts are shorter than two (--block N, in tokens)"
    )


def _rows_of(job: RunJob, length: int | None) -> tuple[int, list[str]]:
    """Return the length in tokens, and the configs of the suite `pages` that have it."""
    names = defaultdict[int, list[str]](list)  # by length
    for name in job.data.rows:
        task, tokens = parse_config(name)
        if job.data.manifest.table[task].is_exact:
            names[tokens].append(name)
    if not names:
        raise UsageError(job.data.source, "no rows for every residue; build --suite pages")
    length = length or min(names)
    if length not in names:
        have = ", ".join(map(str, sorted(names)))
        problem = f"no rows for every residue of {length} tokens; it has {have}"
        raise UsageError(job.data.source, problem)
    return length, names[length]


def _pairs(job: RunJob, names: Sequence[str]) -> dict[Pair, Integers]:
    """Return pairs of neighbouring rows in random order of tasks, with the tokens of prompts."""
    tokens = dict[Pair, Integers]()
    for name in names:
        counts = [len(job.ids(row)) for row in job.data.read(name)]
        for index in range(0, len(counts) - 1, 2):
            tokens[name, index] = np.array(counts[index : index + 2])

    def order(pair: Pair) -> tuple[int, bytes]:
        return pair[1], sha256(f"{pair}".encode()).digest()

    return {pair: tokens[pair] for pair in sorted(tokens, key=order)}


def _one_for_each_residue(pairs: Mapping[Pair, Integers]) -> list[Pair]:
    """Return the first pairs whose prompts end at residues that none before ended at."""
    chosen = list[Pair]()
    covered = set[int]()
    for pair, tokens in pairs.items():
        residues = {*(tokens % RESIDUES).tolist()}
        if not residues <= covered:
            chosen.append(pair)
            covered |= residues
    return chosen
