"""What the lines of a table say beside scores: failures, retrieval by depth, cost.

Depth by length is the canonical picture of the field: the niah tasks alone, and a row is one
observation; a row with several needles counts in the cell of each by its share.
"""

import math
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from ruler_report.frame import Cell, Ints

if TYPE_CHECKING:
    import pandas as pd

#: Bins of depth, finest first; coarser ones are taken until each has `MIN_ROWS` rows.
BINS = (10, 5, 2)
MIN_ROWS = 8


@dataclass(frozen=True)
class Cost:
    """What answers cost, as far as their records say it; NaN where they do not.

    Attributes:
        lines: number of answers.
        truncated: share of them that reached their limit of tokens; `empty` likewise.
        tokens: read and generated, of an answer on average.
        seconds: from request to last token, of an answer on average.
        money: of all answers together, in the currency that the server states.
    """

    lines: int
    truncated: float
    empty: float
    tokens: float
    seconds: float
    money: float

    @property
    def speed(self) -> float:
        """Tokens in a second of one request, on average."""
        return self.tokens / (self.seconds or math.nan)


def lines_of(table: pa.Table, rows: Mapping[Cell, Ints]) -> "pd.DataFrame":
    """Return the lines of the first rows of cells, given the indexes of these rows, rising."""
    lines: pd.DataFrame = (
        table.drop_columns(["question", "error"]).to_pandas().astype({"task": str})
    )
    last = {cell: int(index[-1]) for cell, index in rows.items()}
    limits = [last.get(cell, -1) for cell in zip(lines["task"], lines["length"], strict=True)]
    return lines[lines["index"] <= limits].reset_index(drop=True)


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
        truncated=float(lines["truncated"].astype(float).mean()),
        empty=float(lines["empty"].astype(float).mean()),
        tokens=float(tokens.mean()),
        seconds=float(lines["seconds"].mean()),
        money=float(lines["cost"].sum(min_count=1)),
    )
