"""Named randomness: every draw has a generator of its own, seeded by its purpose.

No generator is passed on or shared, so a row is the same alone, in a batch or on another machine,
and adding a draw changes no other. Depths have one generator for a block of 500 rows, over which
they are spread evenly.
"""

import random
from collections.abc import Sequence
from functools import lru_cache
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

from ruler_data.version import data_major

T = TypeVar("T")

#: Parts of each stratum of depth: runs of 2, 10, 50, 100 and 500 rows each cover 0-100 % evenly.
RADICES = (2, 5, 5, 2, 5)
#: Rows of the largest run.
BLOCK = 500


def rng(seed: int, task: str, index: int, aspect: str) -> random.Random:
    """Return the random generator of one part of one row.

    The seed contains only the MAJOR number of the data version, since MINOR and PATCH versions
    promise the same rows. `random.Random` seeds from a string by sha512, the same on every
    platform and Python.
    """
    return random.Random(f"ruler/{data_major()}/{seed}/{task}/{index}/{aspect}")


def randints_below(source: random.Random, bound: int, size: int) -> NDArray[np.uint64]:
    """Return `size` random numbers from 0 to bound - 1, for draws by the thousand.

    Each takes eight bytes of the generator, so drawing 3 and then 4 gives the same as drawing 7.
    The remainder favours small numbers by less than bound / 2^64.
    """
    return np.frombuffer(source.randbytes(8 * size), dtype="<u8") % np.uint64(bound)


def draw_names(
    source: random.Random, alphabet: str, letters: int, names: dict[str, None], size: int
) -> None:
    """Add random names of `letters` letters to `names` until there are at least `size`.

    `alphabet` is of consecutive ASCII letters.
    """
    while len(names) < size:
        codes = randints_below(source, len(alphabet), letters * (size - len(names)))
        text = (codes + np.uint64(ord(alphabet[0]))).astype(np.uint8)
        names.update(dict.fromkeys(text.view(f"S{letters}").astype(str).tolist()))


def distinct(source: random.Random, bound: int, size: int) -> NDArray[np.intp]:
    """Return `size` different numbers from 0 to bound - 1; fewer are a prefix of more."""
    assert size <= bound, (size, bound)
    numbers: dict[int, None] = {}
    while len(numbers) < size:
        numbers.update(dict.fromkeys(randints_below(source, bound, size - len(numbers)).tolist()))
    return np.fromiter(numbers, dtype=np.intp)


def subset(source: random.Random, size: int, count: int) -> NDArray[np.intp]:
    """Return `count` of the numbers 0 .. size-1, rising; every subset is equally likely.

    Each number is first taken with about the right probability, by a random byte of its own. Then
    random ones are added or removed until the count is right. This is much cheaper than a
    permutation.
    """
    share = round(256 * count / max(size, 1))
    is_taken = np.frombuffer(source.randbytes(size), dtype=np.uint8) < share
    surplus = int(np.count_nonzero(is_taken)) - count
    likes = np.flatnonzero(is_taken == (surplus > 0))
    is_taken[likes[distinct(source, len(likes), abs(surplus))]] = surplus < 0
    return np.flatnonzero(is_taken)


def permutation(source: random.Random, size: int) -> NDArray[np.intp]:
    """Return the numbers 0 .. size-1 in random order.

    Each number gets 32 random bits and all are sorted by them, 16 bits at a time by numpy's radix
    sort: many times faster than `random.shuffle` on the 80,000 words of a long row. The sort is
    stable, so every platform gives the same; numbers with equal bits, one pair in 2^32, keep their
    order. (With only 16 bits, 42 % of 80,000 neighbours would be equal, and the order of two words
    would tell which is the more frequent.)
    """
    low, high = np.frombuffer(source.randbytes(4 * size), dtype="<u2").reshape(2, size)
    order = np.argsort(low, kind="stable")
    return order.take(np.argsort(high.take(order), kind="stable"))


def shuffled(source: random.Random, items: Sequence[T]) -> list[T]:
    """Return the items in random order."""
    return [items[i] for i in permutation(source, len(items)).tolist()]


def depth(seed: int, task: str, index: int, aspect: str) -> float:
    """Return the relative depth, in [0, 1), of one needle of one row.

    Rows are stratified without knowing how many there are. Every aligned run of 2, 10, 50, 100
    and 500 rows (`RADICES`) has one row in each of as many strata. This is a van der Corput
    sequence in mixed radix with a new random permutation for every run (Owen 1995), so needles of
    one row are independent of each other. Within its stratum a depth is uniform.

    >>> sorted(int(500 * depth(0, "vt", i, "x")) for i in range(500)) == list(range(500))
    True
    """
    block, row = divmod(index, BLOCK)
    return _depths(seed, task, block, aspect).item(row)


@lru_cache(maxsize=4096)
def _depths(seed: int, task: str, block: int, aspect: str) -> NDArray[np.float64]:
    """Return the depths of one needle in a block of 500 rows; cached for neighbouring rows."""
    source = rng(seed, task, block, f"{aspect}/depth")
    rows = np.arange(BLOCK)
    strata = np.zeros(BLOCK, dtype=np.intp)
    run = 1
    for radix in RADICES:
        # For every run of the next size and every stratum so far: which row gets which part.
        bits = np.frombuffer(source.randbytes(4 * BLOCK), dtype="<u4").reshape(-1, run, radix)
        deals = np.argsort(bits, axis=-1, kind="stable")
        strata = strata * radix + deals[rows // (run * radix), strata, rows // run % radix]
        run *= radix
    # 53 bits, as many as `random.Random.random` has.
    within = np.frombuffer(source.randbytes(8 * BLOCK), dtype="<u8") >> np.uint64(11)
    return np.minimum((strata + within * 2.0**-53) / BLOCK, BELOW_ONE)


BELOW_ONE = 1.0 - 2.0**-53
