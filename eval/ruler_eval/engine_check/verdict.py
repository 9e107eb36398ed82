"""The exact test of `check-engine`: where answers of an engine are lost or changed. Pure.

A row is a question with an answer in each of five conditions. A fault is a place (residues of the
prompt's tokens modulo 16, 32, 64 or 128) and the conditions under which answers are lost there.

Two looks, each with half of the chance of a false alarm. The first is at one row for each residue
of 128: rows inside a place against rows outside (Fisher's exact test), and conditions against their
mirror (sign test), corrected for everything that is looked at. What one row shows may be a hard
question, so the second look is at other questions, which words before them move to a suspected
residue, corrected for the suspects alone. Both are exact if rows have nothing to do with residues
and conditions are alike.
"""

import math
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from itertools import islice
from math import comb
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

CONDITIONS = ("cold", "self-hit", "prefix-hit", "batched", "shared")
#: Conditions that a fault may be confined to, and those that mirror them where nothing is wrong.
#: Cold and self-hit send one prompt; the other three send one each, with other first lines. So a
#: sound engine misses a row in the first two together, and in the others alike: a mirror swaps
#: cold with self-hit, or two of the others, and nothing else.
ONLY = {
    "": ((0, 1, 2, 3, 4), None),
    "only on a self-hit": ((1,), (0,)),
    "only on a prefix-hit": ((2,), (3,)),
    "only in a batch of other beginnings": ((3,), (2,)),
    "only together behind one prefix": ((4,), (3,)),
    "only cold": ((0,), (1,)),
    "only on cache hits": ((1, 2, 4), (1, 2, 3)),
    "only on cache hits, alone": ((1, 2), (1, 3)),
    "only where a part was cached": ((2, 4), (2, 3)),
    "only where no part was cached": ((0, 1, 3), (0, 1, 4)),
    "only without a cache hit": ((0, 3), (0, 4)),
    "only in a batch": ((3, 4), (2, 3)),
    "only alone, cold or again": ((0, 1), None),
}
#: Chance of a false alarm, at most.
ALPHA = 0.05
#: Share of faults of the smallest size that are found.
POWER = 0.95
#: Share of the lost rows that fewer conditions must explain to be named.
EXPLAINED = 0.75
#: The largest p-value of a suspect.
SUSPECT = 0.1
#: Residues, and places, that are looked at again.
SUSPECTS = 32
#: Pairs of rows that a second look has at a place.
INSIDE = 24
#: The same at a residue of 128.
MOVED = 5
#: The same in all, at least.
FRESH = 64
PAGES = (16, 32, 64, 128)

Bools = NDArray[np.bool_]
Integers = NDArray[np.integer[Any]]
Pair = TypeVar("Pair", bound=Hashable)


@dataclass(frozen=True)
class Place:
    """Residues `first`, `first` + 1, ... of the prompt's tokens, `size` of them."""

    modulus: int
    first: int
    size: int

    def holds(self, tokens: Integers) -> Bools:
        """Return which prompts of so many tokens end there."""
        inside: Bools = (tokens - self.first) % self.modulus < self.size
        return inside

    def __str__(self) -> str:
        if self.modulus == 1:
            return "at any number of prompt tokens"
        last = (self.first + self.size - 1) % self.modulus
        span = f"{self.first}" if self.size == 1 else f"{self.first} to {last}"
        return f"where prompt tokens are {span} mod {self.modulus}"


ANYWHERE = Place(1, 0, 1)


@lru_cache(maxsize=1)
def places() -> tuple[Place, ...]:
    """Return every run of residues modulo 16; of larger pages single ones, heads and tails."""
    runs = [Place(16, first, size) for first in range(16) for size in range(1, 16)]
    for page in PAGES[1:]:
        runs += [Place(page, first, 1) for first in range(page)]
        runs += [Place(page, 0, size) for size in range(2, page)]
        runs += [Place(page, first, page - first) for first in range(1, page - 1)]
    return tuple(runs)


@dataclass(frozen=True)
class Sheet:
    """What rows showed."""

    tokens: Integers  # of the prompts as sent
    lost: Bools  # whether the answer was not right; shape (rows, conditions)
    changed: Bools  # whether it was another one than cold; likewise

    def without(self, rows: Bools) -> "Sheet":
        """Return the sheet of the other rows."""
        return Sheet(self.tokens[~rows], self.lost[~rows], self.changed[~rows])

    def lost_only(self, inside: Sequence[int]) -> Bools:
        """Return the rows that are lost in half of these conditions, and in none of the others."""
        outside = [place for place in range(len(CONDITIONS)) if place not in inside]
        often: Bools = 2 * self.lost[:, inside].sum(axis=1) >= len(inside)
        return often & ~self.lost[:, outside].any(axis=1)

    @property
    def events(self) -> dict[tuple[str, str], Bools]:
        """For each kind of fault and its conditions, the rows that show it."""
        events: dict[tuple[str, str], Bools] = {}
        for only, (inside, _) in ONLY.items():
            events["lost", only] = self.lost_only(inside)
        right = ~self.lost.any(axis=1)
        for place, condition in enumerate(CONDITIONS[1:], start=1):
            events["changed", f"on {condition}"] = self.changed[:, place] & right
        return events


@dataclass(frozen=True)
class Fault:
    """A place where answers are lost or changed, with rows of rows inside and outside."""

    kind: str
    only: str
    place: Place
    inside: tuple[int, int]
    outside: tuple[int, int]
    p: float  # corrected, once it is a finding

    def __str__(self) -> str:
        hits, rows = self.inside
        hits_outside, rows_outside = self.outside
        p = f"p = {self.p:.1g}" if self.p >= 1e-6 else "p < 1e-6"
        only = f", {self.only}" if self.only else ""
        counts = f"{hits} of {rows} against {hits_outside} of {rows_outside}"
        return f"answers are {self.kind} {self.place}{only}: {counts}, {p}"


@lru_cache(maxsize=200_000)
def fisher(rows: int, inside: int, events: int, hits: int) -> float:
    """Return the chance that at least `hits` of the events fall on the rows inside.

    >>> round(fisher(128, 1, 1, 1) * 128, 6), fisher(10, 5, 3, 0)
    (1.0, 1.0)
    """
    ways = sum(
        comb(inside, count) * comb(rows - inside, events - count)
        for count in range(hits, min(inside, events) + 1)
    )
    return ways / comb(rows, events)


@lru_cache(maxsize=20_000)
def sign(hits: int, mirrored: int) -> float:
    """Return the chance of at least `hits` heads among `hits` + `mirrored` fair coins."""
    coins = hits + mirrored
    ways = sum(comb(coins, count) for count in range(hits, coins + 1))
    return float(ways / 2**coins)


def scan(sheet: Sheet) -> Iterator[Fault]:
    """Yield each place and kind with an event, and its p-value for itself alone."""
    rows = len(sheet.tokens)
    inside = np.array([place.holds(sheet.tokens) for place in places()]).astype(np.int32)
    sizes = inside.sum(axis=1).tolist()
    for (kind, only), event in sheet.events.items():
        if not (events := int(event.sum())):
            continue
        hits = (inside @ event.astype(np.int32)).tolist()
        for place, size, hit in zip(places(), sizes, hits, strict=True):
            if hit * rows > events * size:  # more than by chance
                p = fisher(rows, size, events, hit)
                outside = events - hit, rows - size
                yield Fault(kind, only, place, (hit, size), outside, p)
        mirror = ONLY[only][1] if kind == "lost" else None
        if mirror is not None:
            mirrored = sheet.lost_only(mirror)
            hits_alone = int((event & ~mirrored).sum())
            mirrored_alone = int((mirrored & ~event).sum())
            p = sign(hits_alone, mirrored_alone)
            counts = (hits_alone, rows), (mirrored_alone, rows)
            yield Fault(kind, only, ANYWHERE, *counts, p)


def _families() -> tuple[int, int]:
    """Return how many places with kinds, and how many conditions, a first look has."""
    mirrored = sum(mirror is not None for _, mirror in ONLY.values())
    return len(places()) * (len(ONLY) + len(CONDITIONS) - 1), mirrored


def _conditions(fault: Fault) -> int:
    """Return the number of conditions under which answers are lost; 0 for changed ones."""
    return len(ONLY[fault.only][0]) if fault.kind == "lost" else 0


def _rank(fault: Fault) -> tuple[float, int, bool, float]:
    """The likeliest first; then the fewest conditions, lost before changed, the fewest residues."""
    share = fault.place.size / fault.place.modulus
    return fault.p, _conditions(fault), fault.kind == "changed", share


def _best(faults: Iterable[Fault]) -> Fault | None:
    """Return the likeliest fault, under the fewest conditions that explain most of its rows.

    A row that is lost in half of the conditions counts for all of them, so that a fault that shows
    on cache hits alone may be likelier under all conditions.
    """
    likely = [fault for fault in faults if fault.p <= ALPHA]
    best = min(likely, key=_rank, default=None)
    if best is None:
        return None
    hits, _ = best.inside
    same = [fault for fault in likely if (fault.kind, fault.place) == (best.kind, best.place)]
    explaining = [fault for fault in same if fault.inside[0] >= EXPLAINED * hits]
    return min(explaining, key=lambda fault: (_conditions(fault), fault.p))


def _proved(sheet: Sheet, weight: Callable[[Fault], float]) -> list[Fault]:
    """Return the faults that rows prove, one place after the other, with corrected p-values.

    `weight` is the number of those that are looked at, for one of them.
    """
    faults: list[Fault] = []
    while len(sheet.tokens):
        best = _best(replace(fault, p=min(1.0, fault.p * weight(fault))) for fault in scan(sheet))
        if best is None:
            break
        faults.append(best)
        sheet = sheet.without(best.place.holds(sheet.tokens))
    return faults


def first_look(sheet: Sheet) -> list[Fault]:
    """Return the faults that one row for each residue proves."""
    local, anywhere = _families()
    return _proved(sheet, lambda fault: 4 * (anywhere if fault.place == ANYWHERE else local))


def _is_residue(fault: Fault) -> bool:
    return (fault.place.modulus, fault.place.size) == (PAGES[-1], 1)


def suspects(sheet: Sheet) -> list[Fault]:
    """Return what a second look is for: the least likely by chance, each set of rows once.

    Residues of 128 come first and are counted apart: what one row shows is never unlikely.
    """
    events = sheet.events
    residues = dict[bytes, Fault]()  # by the rows that show them
    larger = dict[tuple[str, bytes], Fault]()
    for fault in sorted(scan(sheet), key=lambda fault: (fault.kind == "changed", _rank(fault))):
        rows = events[fault.kind, fault.only] & fault.place.holds(sheet.tokens)
        size = bytes([fault.place.size == 1]) + fault.place.modulus.to_bytes(2)
        if _is_residue(fault):
            residues.setdefault(rows.tobytes(), fault)
        elif fault.p <= SUSPECT:
            larger.setdefault((fault.kind, rows.tobytes() + size), fault)
    return [*islice(residues.values(), SUSPECTS), *islice(larger.values(), SUSPECTS)]


def second_questions(
    pairs: Mapping[Pair, Integers], suspected: Sequence[Fault], most: float
) -> dict[Pair, int]:
    """Return pairs of other questions, each with how many tokens to put before it.

    `pairs` have the tokens of their prompts. A place gets pairs that end there, a residue of 128
    any, moved there if they have at most `most` tokens then. The others are controls.
    """
    chosen = dict[Pair, int]()
    for fault in suspected:
        left = {pair: tokens for pair, tokens in pairs.items() if pair not in chosen}
        ends = [pair for pair, tokens in left.items() if fault.place.holds(tokens).any()]
        wanted = MOVED if _is_residue(fault) else INSIDE
        chosen |= dict.fromkeys(ends[:wanted], 0)
        if _is_residue(fault):
            moves = {
                pair: int(fault.place.first - tokens[0]) % PAGES[-1]
                for pair, tokens in left.items()
                if pair not in chosen
            }
            fitting = (pair for pair in moves if pairs[pair].max() + moves[pair] <= most)
            chosen |= {pair: moves[pair] for pair in islice(fitting, max(0, wanted - len(ends)))}
    controls = (pair for pair in pairs if pair not in chosen)
    return chosen | dict.fromkeys(islice(controls, max(0, FRESH - len(chosen))), 0)


def second_look(fresh: Sheet, suspected: Sequence[Fault]) -> list[Fault]:
    """Return the suspects that other questions prove.

    A residue of 128 is suspected under all conditions: its row may have missed some by itself.
    """
    names = {(fault.kind, fault.only, fault.place) for fault in suspected}
    residues = [fault.place for fault in suspected if _is_residue(fault)]
    names |= {("lost", only, place) for place in residues for only in ONLY}

    def weight(fault: Fault) -> float:
        is_suspect = (fault.kind, fault.only, fault.place) in names
        return 2 * len(names) if is_suspect else math.inf

    return _proved(fresh, weight)


#: Faults whose smallest size is told: name, rows inside of 128, and fresh rows of 128.
SHAPES = {
    "one residue of 128": (1, MOVED),
    "one residue of 16": (8, INSIDE),
    "any prompt": (128, 0),
}


def smallest(sheet: Sheet, *, fresh: bool = True) -> dict[str, float | None]:
    """Return for each shape the smallest share of answers whose loss would have been seen.

    In all conditions or one, 95 times in 100, with the losses that the rows show anyway; None if
    not even the loss of all would. `fresh`: whether there are other questions for a second look.
    """
    background = max(
        int(event.sum()) for (kind, _), event in sheet.events.items() if kind == "lost"
    )
    shares = [share / 100 for share in range(1, 101)]
    return {
        name: next(
            (share for share in shares if _power(sheet, background, *shape, fresh, share) >= POWER),
            None,
        )
        for name, shape in SHAPES.items()
    }


def _power(
    sheet: Sheet, background: int, inside: int, again: int, fresh: bool, share: float
) -> float:
    """Return the chance, at least, that a look finds a fault that loses this share inside."""
    rows = len(sheet.tokens)
    local, anywhere = _families()
    if inside >= rows:
        needed = _fewest(lambda hits: 4 * anywhere * sign(hits, background) <= ALPHA, rows)
        return _at_least(rows, share, needed)

    def proves(total: int, size: int, weight: int, limit: float) -> int:
        return _fewest(
            lambda hits: weight * fisher(total, size, min(total, background + hits), hits) <= limit,
            size,
        )

    at_once = _at_least(inside, share, proves(rows, inside, 4 * local, ALPHA))
    noticed = _at_least(inside, share, proves(rows, inside, 1, SUSPECT))
    crowded = background >= SUSPECTS
    confirmed = _at_least(again, share, proves(2 * FRESH, again, 2 * SUSPECTS * len(ONLY), ALPHA))
    return max(at_once, noticed * confirmed * (fresh and not crowded))


def _fewest(enough: Any, most: int) -> int:  # noqa: ANN401 - a function of hits
    return next((hits for hits in range(1, most + 1) if enough(hits)), most + 1)


def _at_least(rows: int, share: float, hits: int) -> float:
    """Return the chance of at least `hits` in `rows` tries of this share."""
    return sum(
        comb(rows, count) * share**count * (1 - share) ** (rows - count)
        for count in range(hits, rows + 1)
    )
