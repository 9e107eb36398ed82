"""False claims where a question may have no answer (suite `no_needle`), in percent."""

from collections.abc import Iterable
from dataclasses import dataclass

from ruler_report.failures import ABSENT, FALSE_NONE, NEARBY, WRONG_NEEDLE
from ruler_report.stats.score_table import Pool

#: Failures in which a value is named although the needle is absent.
HALLUCINATED = (NEARBY, WRONG_NEEDLE, ABSENT)


@dataclass(frozen=True)
class Claims:
    """False claims, in percent of the scored rows.

    Attributes:
        false_none: says none although the needle is present; by task and length.
        hallucinated: names a value although the needle is absent; by task and length.
        balanced: mean of the score with the needle present and the score with it absent, by
            length; always or never saying none gives 50 at most.
    """

    false_none: dict[str, dict[int, float]]
    hallucinated: dict[str, dict[int, float]]
    balanced: dict[int, float]


def claims_of(pool: Pool) -> Claims | None:
    """Return the false claims of a run; None if all of its questions have an answer."""
    present, absent = (_tasks(pool, allowed) for allowed in ("possible", "true"))
    if not (present or absent):
        return None
    with_needle = pool.means(present) if present else {}
    without = pool.means(absent) if absent else {}
    return Claims(
        false_none=_rates(pool, present, (FALSE_NONE,)),
        hallucinated=_rates(pool, absent, HALLUCINATED),
        balanced={
            length: (with_needle[length].value + without[length].value) / 2
            for length in with_needle
            if length in without
        },
    )


def _tasks(pool: Pool, none: str) -> list[str]:
    """Return the tasks whose parameter `none` has this value."""
    found = {task for (task, _), cell in pool.configs.items() if cell.params.get("none") == none}
    return [task for task in pool.tasks if task in found]


def _rates(pool: Pool, tasks: Iterable[str], kinds: Iterable[str]) -> dict[str, dict[int, float]]:
    """Return the share of rows that failed in these kinds, by task and length."""
    rates: dict[str, dict[int, float]] = {task: {} for task in tasks}
    for task, length in sorted(pool.configs):
        if task in rates:
            config = pool.configs[task, length]
            failures = sum(len(config.failures.get(kind, ())) for kind in kinds)
            rates[task][length] = 100 * failures / config.scored
    return rates
