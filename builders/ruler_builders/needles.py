"""Needles: the sentences that hold a key's value, plainly or not, and needles that look alike.

Plain needles are the benchmark's. The other wordings are for suites that ask whether a model finds
what is said in other words, or in two places.
"""

from random import Random

from ruler_builders.drafts import Materials
from ruler_builders.haystacks import draw_distinct
from ruler_data.tasks import PartType

PLAIN = "One of the special magic {kind} for {key} is: {value}."

#: The same in other words; `{one}` is the kind in the singular.
PARAPHRASES = (
    "Anyone who asks about {key} should be told that its special magic {one} is {value}.",
    "It was decided long ago that {value} would be the special magic {one} of {key}.",
    "The special magic {one} assigned to {key} happens to be {value}.",
    "Remember {value}, which is the special magic {one} that goes with {key}.",
    "If {key} ever comes up, the special magic {one} to give is {value}.",
)

#: The same in two places: what the value is filed under, and the value.
SPLIT = (
    "The special magic {one} for {key} is the one that is filed under {alias}.",
    "What is filed under {alias} is {value}.",
)

_HEX = "0123456789abcdef"


def near_miss(
    source: Random, part: str, kind: PartType, materials: Materials, taken: set[str]
) -> str:
    """Return a key or value that differs from one in a digit or in one of its two words.

    It is none that was taken, and is taken now.
    """
    while True:
        if kind == "words":
            first, _, second = part.partition("-")
            other, _, last = draw_distinct(source, "words", materials, set()).partition("-")
            near = f"{first}-{last}" if source.random() < 0.5 else f"{other}-{second}"
        else:
            digits = _HEX if kind == "uuids" else _HEX[:10]
            place = source.randrange(1, 7)  # not a number's first digit, nor a UUID's fixed ones
            near = part[:place] + source.choice(digits) + part[place + 1 :]
        if near not in taken:
            taken.add(near)
            return near
