"""Questions that may have no answer: how often a run claims what is not so, in percent."""

from collections.abc import Collection
from dataclasses import dataclass

from ruler_report.failures import ABSENT, FALSE_NONE, NEARBY, WRONG_NEEDLE
from ruler_report.results import ConfigResult
from ruler_report.stats.score_table import Pool

#: Failures that are a value where there is none.
HALLUCINATED = (NEARBY, WRONG_NEEDLE, ABSENT)


@dataclass(frozen=True)
class Claims:
    """False claims, in percent of the scored rows.

    Attributes:
        false_none: says none though the needle is there; by task and length.
        hallucinated: names a value though there is none; by task and length.
        balanced: mean of the score where the needle is there and of the score where it is not, by
            length; always or never saying none gives 50 at the best.
    """

    false_none: dict[str, dict[int, float]]
    hallucinated: dict[str, dict[int, float]]
    balanced: dict[int, float]


def claims_of(pool: Pool) -> Claims | None:
    """Return the false claims of a run; None where no question may have no answer."""
    there, absent = (_tasks(pool, allowed) for allowed in ("possible", "true"))
    if not (there or absent):
        return None
    ours, theirs = pool.means(there) if there else {}, pool.means(absent) if absent else {}
    return Claims(
        false_none=_rates(pool, there, (FALSE_NONE,)),
        hallucinated=_rates(pool, absent, HALLUCINATED),
        balanced={length: (ours[length].value + theirs[length].value) / 2
                  for length in ours if length in theirs},
    )  # fmt: skip


def _tasks(pool: Pool, allowed: str) -> tuple[str, ...]:
    found = {task for (task, _), config in pool.configs.items()
             if config.params.get("none") == allowed}  # fmt: skip
    return tuple(task for task in pool.tasks if task in found)


def _rates(
    pool: Pool, tasks: Collection[str], kinds: Collection[str]
) -> dict[str, dict[int, float]]:
    return {
        task: {
            length: _share(pool.configs[task, length], kinds)
            for length in pool.lengths
            if (task, length) in pool.configs
        }
        for task in tasks
    }


def _share(config: ConfigResult, kinds: Collection[str]) -> float:
    return 100 * sum(len(config.failures.get(kind, ())) for kind in kinds) / config.scored
