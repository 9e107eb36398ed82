"""What a run has: `Run` after a call, `Status` while it goes on; no lock is taken to read it.

runs/x: 212 of 1,000 rows answered, 3 unscored
shard  state          rows     unscored  rows/s  left
0/2    running        110/500         3     2.1  3 min
1/2    not started    102/500         0
"""

import math
import time
from collections import Counter
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import asdict, dataclass, fields
from datetime import datetime
from html import escape
from pathlib import Path
from typing import Any

from ruler_data.dataset import html_table
from ruler_data.names import parse_config
from ruler_eval import journal
from ruler_eval.run_dir import ALIVE, DEAD, JOURNAL, RunFolder
from ruler_eval.schema import Key, Prediction, RunInfo, read_info
from ruler_eval.sharding import Shard, cost

#: The last answers that are shown.
LAST = 3


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
        return [asdict(prediction) for prediction in RunFolder(self.folder).predictions()]

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


@dataclass(frozen=True)
class ShardStatus:
    """How far a shard is."""

    shard: str  # e.g. `0/8`
    state: str  # `not started`, `running`, `finished`, `stopped` (in order), or `died`
    answered: int = 0  # rows with an answer, also those of earlier starts
    unscored: int = 0  # rows that could not be answered
    pending: int | None = None  # rows without an answer; None where that is not known
    speed: float | None = None  # rows per second since the start; None before the first
    left: float | None = None  # seconds until its end, by the cost of its rows; likewise


@dataclass(frozen=True)
class Status:
    """How far a run is.

    Attributes:
        folder: of the run.
        rows: number of rows; of samples, where there are several of each row.
        configs: what it has of each config.
        shards: of the last number of shards that was used.
        unscored: reasons why rows have no answer, with the number of rows and the first of them.
        last: last answers, the newest last.
    """

    folder: Path
    rows: int
    configs: tuple[ConfigSummary, ...]
    shards: tuple[ShardStatus, ...]
    unscored: dict[str, tuple[int, str]]
    last: tuple[Prediction, ...]

    @property
    def answered(self) -> int:
        """Number of rows with an answer."""
        return sum(config.answered for config in self.configs)

    @property
    def speed(self) -> float:
        """Rows per second of the running shards together."""
        return sum(shard.speed or 0.0 for shard in self.shards if shard.state == "running")

    @property
    def left(self) -> float | None:
        """Seconds until the last shard ends; None unless all that are not finished are running."""
        times = [shard.left for shard in self.shards if shard.state != "finished"]
        return None if None in times else max(filter(None, times), default=0.0)

    @property
    def running(self) -> bool:
        """Whether a shard runs."""
        return any(shard.state == "running" for shard in self.shards)


def summarize(folder: RunFolder, info: RunInfo, outcome: Outcome) -> Run:
    """Return what all shards of a run have so far."""
    found = list(folder.predictions())
    unscored = {
        row_name(each.key, info.samples): each.error for each in found if each.error is not None
    }
    return Run(folder.path, tally(info, found), unscored, outcome, info.samples)


def status(folder: str | Path) -> Status:
    """Return how far a run is; a run that is under way is not disturbed.

    Raises:
        UsageError: the folder holds no run.
        RulerError: a file of it is damaged.
    """
    run, info = RunFolder(Path(folder)), read_info(Path(folder))
    found = {
        shard: list(journal.read(run.file(JOURNAL, shard), growing=True))
        for shard in run.journals()
    }
    every = [each for several in found.values() for each in several]
    answered = {each.key for each in every if each.error is None}
    # A row that one shard could not answer may have been answered by a shard of another count.
    kept = [each for each in every if each.error is None or each.key not in answered]
    reasons = Counter(each.error for each in kept if each.error is not None)
    firsts = {each.error: row_name(each.key, info.samples) for each in reversed(kept)}
    newest = sorted(found, key=lambda shard: run.file(JOURNAL, shard).stat().st_mtime)
    last = [each for shard in newest for each in found[shard][-LAST:] if each.error is None]
    starts = [(str(start["shard"]), start) for start in run.starts()]
    latest, count = dict(starts), int(starts[-1][0].partition("/")[2]) if starts else 1
    return Status(
        folder=run.path,
        rows=sum(info.data.rows.values()) * info.samples,
        configs=tally(info, kept),
        shards=tuple(
            _status_of(run, shard, latest.get(str(shard)), found.get(shard, []))
            for shard in (Shard(index, count) for index in range(count))
        ),
        unscored={reason: (number, firsts[reason]) for reason, number in reasons.most_common()},
        last=tuple(last[-LAST:]),
    )


def tally(info: RunInfo, predictions: Iterable[Prediction]) -> tuple[ConfigSummary, ...]:
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


def _status_of(
    run: RunFolder, shard: Shard, start: dict[str, Any] | None, found: list[Prediction]
) -> ShardStatus:
    """Return how far a shard is, from its last start and its journal."""
    if start is None:
        return ShardStatus(str(shard), "not started")
    unscored = sum(prediction.error is not None for prediction in found)
    since = found[start.get("kept", 0) :]
    asked = start["pending"] - len(since) if "pending" in start else None
    state = "finished" if asked == 0 and not unscored else "stopped"
    now = time.time()
    begun = end = datetime.fromisoformat(start["at"]).timestamp()
    with suppress(OSError):
        end = run.file(JOURNAL, shard).stat().st_mtime
    with suppress(OSError):
        state = "running" if now - run.file(ALIVE, shard).stat().st_mtime < DEAD else "died"
    seconds = max((now if state == "running" else end) - begun, 1.0)
    spent = sum(cost(parse_config(prediction.config)[1]) for prediction in since)
    left = None
    if state == "running" and spent and "cost" in start:
        left = max(0.0, start["cost"] - spent) * seconds / spent
    return ShardStatus(
        shard=str(shard),
        state=state,
        answered=len(found) - unscored,
        unscored=unscored,
        pending=None if asked is None else asked + unscored,
        speed=len(since) / seconds if since else None,
        left=left,
    )


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
