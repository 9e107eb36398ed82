"""What a run has of each config, complete or not; it shows as a table in a notebook."""

import math
from collections.abc import Iterable
from dataclasses import asdict, dataclass, fields
from html import escape
from pathlib import Path
from typing import Any

from ruler_data.dataset import html_table
from ruler_eval.answers import Answer, Key
from ruler_eval.run_dir import RunFolder
from ruler_eval.schema import RunInfo, read_info


@dataclass
class ConfigSummary:
    """What a run has of one config, over all shards."""

    config: str
    rows: int  # number of rows of the run; of samples, where there are several of each row
    answered: int = 0
    unscored: int = 0
    truncated: int = 0  # answers that ended at their limit of tokens
    prompt_tokens: int = 0  # sent
    cached_tokens: int | None = None  # of these, held by a prefix cache; None if not reported
    answer_tokens: int | None = None  # generated; None if not reported
    seconds: float = 0.0  # of all requests together; they may have run side by side


@dataclass(frozen=True)
class Outcome:
    """What one call of `run_shard` did; `missing` rows were not asked."""

    answered: int = 0
    unscored: int = 0
    missing: int = 0
    first_error: str | None = None


@dataclass(frozen=True)
class Run:
    """A run, complete or not; it shows as a table in a notebook.

    Attributes:
        folder: with its description and journals.
        configs: what it has of each config, over all shards.
        unscored: why rows have no answer, by row, e.g. `vt_4096/17`.
        outcome: what the call that returned this did.
        samples: answers to each row.
    """

    folder: Path
    configs: tuple[ConfigSummary, ...]
    unscored: dict[str, str]
    outcome: Outcome
    samples: int = 1

    @property
    def rows(self) -> int:
        """Number of rows."""
        return sum(config.rows for config in self.configs)

    @property
    def answered(self) -> int:
        """Number of rows with an answer."""
        return sum(config.answered for config in self.configs)

    @property
    def complete(self) -> bool:
        """Whether every row has an answer."""
        return self.answered == self.rows

    def to_records(self) -> list[dict[str, Any]]:
        """Return one dict per row that has a prediction, e.g. for `pandas.DataFrame`."""
        return [asdict(prediction) for prediction in RunFolder(self.folder).answers().values()]

    def table(self) -> list[list[str]]:
        """Return the configs as a table: names of columns, then a line for each."""
        names = [field.name.replace("_", " ") for field in fields(ConfigSummary)]
        return [names, *(list(map(_shown, asdict(config).values())) for config in self.configs)]

    @property
    def coverage(self) -> str:
        """How much of it is answered, in words."""
        what = "rows" if self.samples == 1 else "samples"
        return f"{self.folder}: {self.answered:,} of {self.rows:,} {what} answered"

    def __fspath__(self) -> str:
        """Return the path of the folder, so that `ruler_eval.score` takes a run as it is."""
        return str(self.folder)

    def __repr__(self) -> str:
        text = self.coverage
        if self.unscored:
            row, reason = next(iter(self.unscored.items()))
            text += f"; {len(self.unscored)} unscored, e.g. {row}: {reason}"
        return f"<Run {text}>"

    def _repr_html_(self) -> str:
        names, *lines = self.table()
        return f"<p>{escape(repr(self).strip('<>'))}</p>{html_table(names, lines)}"


def summarize(folder: RunFolder, info: RunInfo, outcome: Outcome) -> Run:
    """Return what all shards of a run have so far."""
    found = list(folder.answers().values())
    unscored = {
        row_name(each.key, info.samples): each.error for each in found if each.error is not None
    }
    return Run(folder.path, tally(info, found), unscored, outcome, info.samples)


def status(folder: str | Path) -> Run:
    """Return how far a run is; one that is under way is not disturbed.

    Raises:
        UsageError: the folder holds no run.
        RulerError: a file of it is damaged.
    """
    return summarize(RunFolder(Path(folder)), read_info(Path(folder)), Outcome())


def tally(info: RunInfo, predictions: Iterable[Answer]) -> tuple[ConfigSummary, ...]:
    """Return what predictions make of each config of a run."""
    configs = {
        name: ConfigSummary(name, rows * info.samples) for name, rows in info.data.rows.items()
    }
    for prediction in predictions:
        summary = configs.get(prediction.config)
        if summary is None:
            continue
        if prediction.error is not None:
            summary.unscored += 1
            continue
        summary.answered += 1
        summary.truncated += prediction.finish == "length"
        summary.prompt_tokens += prediction.prompt_tokens or 0
        for name in ("cached_tokens", "answer_tokens"):
            if (tokens := getattr(prediction, name)) is not None:
                setattr(summary, name, (getattr(summary, name) or 0) + tokens)
        summary.seconds = round(summary.seconds + (prediction.seconds or 0.0), 4)
    return tuple(configs.values())


def row_name(key: Key, samples: int) -> str:
    """Return a row as messages show it, with the number of the sample if there are several.

    >>> row_name(("vt_4096", 17, 2), samples=4)
    'vt_4096/17/2'
    """
    return "/".join(map(str, key if samples > 1 else key[:2]))


def _shown(value: str | float | None) -> str:
    if value is None or isinstance(value, str):
        return value or "unknown"
    return f"{value:,}" if isinstance(value, int) else f"{value:,.1f}"


def duration(seconds: float | None) -> str:
    """Return a time as people read it; nothing for None.

    >>> duration(42), duration(200), duration(9000)
    ('42 s', '3 min', '2.5 h')
    """
    if seconds is None:
        return ""
    if seconds < 90:
        return f"{math.ceil(seconds)} s"
    return f"{seconds / 60:.0f} min" if seconds < 5400 else f"{seconds / 3600:.1f} h"
