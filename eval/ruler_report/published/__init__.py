"""Published scores, which a report shows beside those of a run.

The CSV files here are the tables; SOURCES.md says where they come from.
"""

import csv
from dataclasses import dataclass
from functools import cache
from pathlib import Path

FOLDER = Path(__file__).parent
LENGTHS = (4096, 8192, 16384, 32768, 65536, 131072)

#: The edition that each file's scores were most likely measured on, by their date.
MEASURED_ON = {
    "paper-2024-04": "upstream-2024-04",
    "paper-2024-08": "upstream-2024-04",
    "leaderboard": "upstream-2024-04 to upstream-2026-07",
}

#: The last version of the paper, which runs are shown beside.
PAPER = "paper-2024-08"


@dataclass(frozen=True)
class Published:
    """One printed line; scores in percent, blank cells are absent or None.

    Attributes:
        table: number of the paper's table, or `leaderboard`.
        model: as printed; upstream marks with `*` scores that the authors of the model report.
        effective: length in tokens; 0 for `<4K`.
        scores: by length in tokens.
        averages: `avg`, `wavg_inc`, `wavg_dec`.
        ranks: of the last two.
    """

    table: str
    group: str
    model: str
    effective: int | None
    scores: dict[int, float]
    averages: dict[str, float]
    ranks: dict[str, int]


@cache
def published(name: str) -> tuple[Published, ...]:
    """Return the lines of a CSV file here.

    >>> published("paper-2024-04")[1].model
    'GPT-4'
    """
    with (FOLDER / f"{name}.csv").open(encoding="utf-8", newline="") as file:
        return tuple(map(_line, csv.DictReader(file)))


def _line(line: dict[str, str]) -> Published:
    effective = line["effective"].lstrip(">")
    averages = ("avg", "wavg_inc", "wavg_dec")
    return Published(
        table=line["table"],
        group=line["group"],
        model=line["model"],
        effective=int(effective.replace("<4096", "0")) if effective else None,
        scores={length: float(line[str(length)]) for length in LENGTHS if line[str(length)]},
        averages={name: float(line[name]) for name in averages if line[name]},
        ranks={
            f"wavg_{name}": int(line[f"rank_{name}"])
            for name in ("inc", "dec")
            if line[f"rank_{name}"]
        },
    )
