"""Retrieval by the depth of the needle: its position in the context.

The canonical picture of the field: the niah tasks alone, and a row is one observation. A row with
several needles counts in the cell of each by its share, so that the weights of a row add up to 1.
"""

from collections.abc import Sequence

import numpy as np

from ruler_data.names import parse_config
from ruler_report.frame import Floats
from ruler_report.results_file import BINS, Results

#: Rows that a number must be of; depths are pooled until they are.
MIN_ROWS = 8


def retrieval_by_depth(results: Results, lengths: Sequence[int]) -> Floats:
    """Return the percentage of niah rows that are right, equal bins of depth by lengths.

    There are 10 bins, or 5 or 2 if that gives each number `MIN_ROWS` rows. NaN where there are no
    rows.
    """
    right, rows = np.zeros((2, BINS, len(lengths)))
    for name, config in results.configs.items():
        _, length = parse_config(name)
        if config.family != "niah" or not config.depth or length not in lengths:
            continue
        pieces, shown, count = (
            np.array(getattr(config.depth, part), float) for part in ("pieces", "shown", "rows")
        )
        weight = count * config.scored / max(count.sum(), 1)
        column = lengths.index(length)
        rows[:, column] += weight
        right[:, column] += weight * np.divide(shown, pieces, out=shown * 0, where=pieces > 0)
    for bins in (BINS, 5, 2):
        pooled = [part.reshape(bins, -1, len(lengths)).sum(axis=1) for part in (right, rows)]
        if pooled[1][:, pooled[1].any(axis=0)].min(initial=MIN_ROWS) >= MIN_ROWS:
            break
    with np.errstate(invalid="ignore"):
        return np.where(pooled[1] > 0, 100 * pooled[0] / pooled[1], np.nan)
