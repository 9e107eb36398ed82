"""What a run has of each config, complete or not; it shows as a table in a notebook."""

import math
from collections import Counter
from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields
from html import escape
from pathlib import Path
from typing import Any

from rich.console import Group
from rich.table import Column, Table
from rich.text import Text

from ruler_data.names import counted, quote
from ruler_data.views import html_table
from ruler_eval.answers import Answer, Key
from ruler_eval.run_dir import RunFolder
from ruler_eval.schema import RunInfo, read_info

#: Reasons of failures that are printed.
REASONS = 5


@dataclass
class ConfigSummary:
    """What a run has of one config, over all shards."""

    config: str
    rows: int  # number of rows of the run; of samples, where there are several of each row
    answered: int = 0
    failed: int = 0  # asked without an answer
    left: int = 0  # not asked yet
    cut_off: int = 0  # answers that ended at their limit of tokens
    prompt_tokens: int = 0  # sent
    cached_tokens: int | None = None  # of these, held by a prefix cache; None if not reported
    answer_tokens: int | None = None  # generated; None if not reported
    calls: int | None = None  # of a model, where answers took several; None if not reported
    total_tokens: int | None = None  # read and generated in all calls; None if not reported
    seconds: float = 0.0  # of all requests together; they may have run side by side


@dataclass(frozen=True)
class Run:
    """A run, complete or not; it shows as a table in a notebook.

    Attributes:
        folder: with its description and journals.
        configs: what it has of each config, over all shards.
        failed: why rows that were asked have no answer, by row, e.g. `vt_4096/17`.
        samples: answers to each row.
        rows_per_second: of the processes that run now; None without any.
        failure: why the call that returned this did not answer all that it was to; None if it did.
        decision: what `--until-decided` found; None if it was not asked.
    """

    folder: Path
    configs: tuple[ConfigSummary, ...]
    failed: dict[str, str]
    samples: int = 1
    rows_per_second: float | None = None
    failure: str | None = None
    decision: dict[str, Any] | None = None

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

    @property
    def exit_status(self) -> int:
        """1 after a call that did not answer all that it was to, else 0."""
        return int(self.failure is not None)

    @property
    def coverage(self) -> str:
        """How much of it is answered, in words."""
        what, failed = "rows" if self.samples == 1 else "samples", len(self.failed)
        left = self.rows - self.answered - failed
        more = f", {failed:,} failed, {left:,} left" if failed or left else ""
        speed = self.rows_per_second
        running = "" if speed is None else f"; running, {speed:.2f} {what} per second"
        return f"{self.folder}: {self.answered:,} of {self.rows:,} {what} answered{more}{running}"

    def to_records(self) -> list[dict[str, Any]]:
        """Return one dict for each row that was asked, e.g. for `pandas.DataFrame`."""
        return [asdict(answer) for answer in RunFolder(self.folder).answers().values()]

    def to_record(self) -> dict[str, Any]:
        """Return its figures as JSON values."""
        return {
            "complete": self.complete,
            "rows": self.rows,
            "answered": self.answered,
            "failed": self.failed,
            "left": self.rows - self.answered - len(self.failed),
            "rows_per_second": self.rows_per_second,
            "decision": self.decision,
            "configs": [asdict(config) for config in self.configs],
        }

    def table(self) -> list[list[str]]:
        """Return the configs as a table: names of columns, then a line for each."""
        names = [field.name.replace("_", " ") for field in fields(ConfigSummary)]
        return [names, *(list(map(_shown, asdict(config).values())) for config in self.configs)]

    def __fspath__(self) -> str:
        """Return the path of the folder, so that `ruler_eval.score` takes a run as it is."""
        return str(self.folder)

    def __repr__(self) -> str:
        row, reason = next(iter(self.failed.items()), ("", ""))
        return f"<Run {self.coverage}{f', e.g. {row}: {reason}' if row else ''}>"

    def _repr_html_(self) -> str:
        names, *lines = self.table()
        return f"<p>{escape(repr(self).strip('<>'))}</p>{html_table(names, lines)}"

    def __rich__(self) -> Group:
        """Return what `run` and `status` print."""
        names, *lines = self.table()
        widths = [max(map(len, name.split())) for name in names]  # no word of a head is cut
        heads = zip(names[1:], widths[1:], strict=True)
        columns = (Column(name, justify="right", min_width=width) for name, width in heads)
        table = Table(names[0], *columns, box=None)
        for line in lines:
            table.add_row(*line)
        reasons = Counter(self.failed.values()).most_common(REASONS)
        failures = (f"{counted(n, 'row')} failed: {quote(reason, 200)}" for reason, n in reasons)
        decided = [] if self.decision is None else [str(self.decision["answer"])]
        lines_below = (self.coverage, *failures, *decided)
        texts = (Text(line, no_wrap=True, overflow="ignore") for line in lines_below)
        return Group(table, *texts)


def summarize(folder: RunFolder, info: RunInfo, failure: str | None = None) -> Run:
    """Return what all shards of a run have so far."""
    found = folder.answers()
    failed = {
        row_name(key, info.samples): one.error
        for key, one in found.items()
        if one.error is not None
    }
    configs = tally(info, found)
    speed, decision = folder.rows_per_second(), folder.decision()
    return Run(folder.path, configs, failed, info.samples, speed, failure, decision)


def tally(info: RunInfo, answers: Mapping[Key, Answer]) -> tuple[ConfigSummary, ...]:
    """Return what records make of each config of a run."""
    configs = {
        name: ConfigSummary(name, rows * info.samples) for name, rows in info.data.rows.items()
    }
    for answer in answers.values():
        if (summary := configs.get(answer.config)) is None:
            continue
        if answer.error is not None:
            summary.failed += 1
            continue
        summary.answered += 1
        summary.cut_off += answer.finish == "length"
        summary.prompt_tokens += answer.prompt_tokens or 0
        for name in ("cached_tokens", "answer_tokens", "calls", "total_tokens"):
            if (tokens := getattr(answer, name)) is not None:
                setattr(summary, name, (getattr(summary, name) or 0) + tokens)
        summary.seconds = round(summary.seconds + (answer.seconds or 0.0), 4)
    for summary in configs.values():
        summary.left = summary.rows - summary.answered - summary.failed
    return tuple(configs.values())


def status(folder: str | Path) -> Run:
    """Return how far a run is; one that is under way is not disturbed."""
    return summarize(RunFolder(Path(folder)), read_info(Path(folder)))


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
