"""What the lines of a table say beside scores: failures, retrieval by depth, cost.

Depth by length is the canonical picture of the field: the niah tasks alone, and a row is one
observation; a row with several needles counts in the cell of each by its share.
"""

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from ruler_report.frame import Cell, Ints

if TYPE_CHECKING:
    import pandas as pd

#: Bins of depth, finest first; coarser ones are taken until each has `MIN_ROWS` rows.
BINS = (10, 5, 2)
MIN_ROWS = 8

#: Columns of a table that these numbers are made from.
COLUMNS = (
    "task", "length", "index", "sample", "official", "exact", "label", "depth", "shown", "empty",
    "truncated", "prompt_tokens", "answer_tokens", "seconds", "cost",
)  # fmt: skip


@dataclass(frozen=True)
class Cost:
    """What answers cost, as far as their records say it.

    Attributes:
        lines: number of answers.
        truncated: share of them that reached their limit of tokens; `empty` likewise.
        tokens: read and generated, of an answer on average; None where not recorded.
        seconds: from request to last token, of an answer on average.
        money: of all answers together, in the currency that the server states.
    """

    lines: int
    truncated: float
    empty: float
    tokens: float | None
    seconds: float | None
    money: float | None


def lines_of(table: pa.Table, rows: Mapping[Cell, Ints]) -> "pd.DataFrame":
    """Return the lines of some rows of a table, given the indexes of the rows by cell."""
    chosen = table.select([*COLUMNS])
    names = [str(name) for name in pc.unique(pc.cast(chosen["task"], pa.string())).to_pylist()]
    place = {name: number for number, name in enumerate(names)}
    most = max((int(index.max()) for index in rows.values() if len(index)), default=0) + 1
    lengths = sorted({length for _, length in rows})
    wanted = np.zeros((len(names), len(lengths) + 1, most + 1), dtype=bool)
    for (task, length), index in rows.items():
        wanted[place[task], lengths.index(length), index] = True
    task_codes = pc.index_in(pc.cast(chosen["task"], pa.string()), pa.array(names, pa.string()))
    length_codes = pc.index_in(chosen["length"], pa.array(lengths, pa.int32()))
    length_codes = pc.fill_null(length_codes, len(lengths))  # a length that is not wanted
    index = np.minimum(chosen["index"].to_numpy(), most)
    mask = wanted[task_codes.to_numpy(), length_codes.to_numpy(), index]
    frame: pd.DataFrame = chosen.filter(pa.array(mask)).to_pandas()
    return frame.astype({"task": str})


def failures_of(lines: "pd.DataFrame") -> "pd.DataFrame":
    """Return how many lines failed in which way: tasks and lengths by labels."""
    failed = lines[lines["label"].notna()].astype({"label": str})
    counts = failed.groupby(["task", "length", "label"], sort=False).size()
    return counts.unstack("label", fill_value=0).sort_index()


def depth_grid(lines: "pd.DataFrame", lengths: Collection[int]) -> "pd.DataFrame":
    """Return the percentage of needles that answers name: equal bins of depth by lengths.

    NaN where there are no rows; without any column where there is no needle.
    """
    import pandas as pd

    needles = lines[lines["depth"].notna() & lines["shown"].notna()]
    needles = needles[needles["depth"].map(len) == needles["shown"].map(len)]
    needles = needles[needles["depth"].map(len) > 0]
    if not len(needles):
        return pd.DataFrame()
    share = 1 / needles["depth"].map(len)
    pieces = needles[["length", "depth", "shown"]].assign(share=share)
    pieces = pieces.explode(["depth", "shown"])
    depth = pieces["depth"].astype(float).to_numpy()
    weight = pieces["share"].to_numpy()
    right = weight * pieces["shown"].astype(float).to_numpy()
    for bins in BINS:
        bin_of_piece = np.clip((depth * bins).astype(int), 0, bins - 1)
        keys = [bin_of_piece, pieces["length"].to_numpy()]
        sums = pd.DataFrame({"right": right, "rows": weight}).groupby(keys).sum()
        if sums["rows"].min() >= MIN_ROWS:
            break
    grid = (100 * sums["right"] / sums["rows"]).unstack()
    return grid.reindex(index=range(bins), columns=[*lengths])


def cost_of(lines: "pd.DataFrame") -> Cost:
    """Return what answers cost."""
    tokens = lines["prompt_tokens"] + lines["answer_tokens"]
    return Cost(
        lines=len(lines),
        truncated=float(lines["truncated"].astype(float).mean()) if len(lines) else 0.0,
        empty=float(lines["empty"].astype(float).mean()) if len(lines) else 0.0,
        tokens=_mean(tokens),
        seconds=_mean(lines["seconds"]),
        money=float(lines["cost"].sum()) if lines["cost"].notna().any() else None,
    )


def _mean(column: "pd.Series[float]") -> float | None:
    """Return the mean of the known numbers; None if there are none."""
    return float(column.mean()) if column.notna().any() else None
