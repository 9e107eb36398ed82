"""How full rows are: the one rule, for a build's own audit and for whoever verifies it."""

import math
from collections.abc import Sequence

from ruler_data.tasks import Task

#: From so much room on (tokens) every row takes up at least this share of it.
FULL_FROM, LEAST_FILL = 4096, 0.99


def fill_finding(
    task: Task, length: int, reserve: int, lengths: Sequence[int]
) -> tuple[int, str] | None:
    """Return the row that takes up least of its config, with what is wrong; None if it is enough.

    A question without documents has nothing to fill its length with, and tokens that are kept
    free on purpose are no room.

    Args:
        task: of the config.
        length: of the config, in tokens.
        reserve: tokens of each prompt that are kept free.
        lengths: the `length` column, in tokens.

    >>> from ruler_data.tasks import TASKS
    >>> fill_finding(TASKS["vt"], 4096, 0, [4090, 4056])
    >>> fill_finding(TASKS["vt"], 5096, 1000, [4090, 4054, 4060])[0]
    1
    """
    room, least = length - reserve, min(lengths, default=0)
    asked = math.ceil(LEAST_FILL * room)
    short = sum(one < asked for one in lengths)
    if not (short and task.fills and room >= FULL_FROM):
        return None
    return lengths.index(least), (
        f"length {least} leaves the config unfilled: of {room} tokens at least {asked} are asked "
        f"({LEAST_FILL}); rows that are short: {short} of {len(lengths)}; what fills them is too "
        "coarse: use a greater length, or texts with more and shorter lines"
    )
