"""What a run has of each config, complete or not; it shows as a table in a notebook."""

from collections import Counter
from dataclasses import asdict, dataclass, field, fields
from html import escape
from pathlib import Path
from typing import Any

from rich.console import Group
from rich.table import Column, Table
from rich.text import Text

from ruler_data.names import counted, quote
from ruler_data.views import html_table
from ruler_eval.running.answers import settle
from ruler_eval.running.run_dir import RunFolder, read_info
from ruler_eval.running.spending import Prices, Spent

#: Reasons of failures that are printed.
REASONS = 5


@dataclass
class ConfigSummary:
    """What a run has of one config, over all shards."""

    config: str
    rows: int  # number of rows of the run; of samples, where there are several of each row
    answered: int = 0
    failed: int = 0  # sent without an answer
    left: int = 0  # not sent yet
    cut_off: int = 0  # answers that ended at their limit of tokens
    prompt_tokens: int | None = None  # sent; None if not reported
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
        failed: why rows that were sent have no answer, by row, e.g. `vt_4096/17`.
        samples: answers to each row.
        rows_per_second: of the processes that run now; None without any.
        spent: tokens of all requests, failed and repeated ones included.
        prices: of tokens, as the last start named them.
        failure: why the call that returned this did not answer all that it was to; None if it did.
        notes: lines and files of answers that were ignored.
        hardware: answers by what computed them, where the engine knows it.
    """

    folder: Path
    configs: tuple[ConfigSummary, ...]
    failed: dict[str, str]
    samples: int = 1
    rows_per_second: float | None = None
    failure: str | None = None
    spent: Spent = field(default_factory=Spent)
    prices: Prices | None = None
    notes: tuple[str, ...] = ()
    hardware: dict[str, int] = field(default_factory=dict)

    @property
    def rows(self) -> int:
        """Number of rows."""
        return sum(config.rows for config in self.configs)

    @property
    def answered(self) -> int:
        """Number of rows with an answer."""
        return sum(config.answered for config in self.configs)

    @property
    def left(self) -> int:
        """Number of rows that were not sent."""
        return self.rows - self.answered - len(self.failed)

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
        unit, speed = "rows" if self.samples == 1 else "samples", self.rows_per_second
        missing = "" if self.complete else f", {len(self.failed):,} failed, {self.left:,} left"
        running = "" if speed is None else f"; running, {speed:.2g} {unit} per second"
        on = f"; on {', '.join(map(quote, self.hardware))}" if self.hardware else ""
        answered = f"{self.answered:,} of {self.rows:,} {unit} answered"
        return f"{self.folder}: {answered}{missing}{on}{running}"

    def to_records(self) -> list[dict[str, Any]]:
        """Return one dict for each row that was sent, e.g. for `pandas.DataFrame`."""
        return [asdict(answer) for answer in RunFolder(self.folder).answers().values()]

    def to_record(self) -> dict[str, Any]:
        """Return its figures as JSON values."""
        names = ("complete", "rows", "answered", "left", "rows_per_second", "hardware")
        record = {name: getattr(self, name) for name in names}
        configs = [asdict(config) for config in self.configs]
        money = {**asdict(self.spent), "money": self.spent.money(self.prices)}
        more = {"failed": len(self.failed), "spent": money, "notes": list(self.notes)}
        return {**record, **more, "configs": configs}

    def table(self) -> list[list[str]]:
        """Return the configs as a table: names of columns, then a line for each."""
        names = [column.name.replace("_", " ") for column in fields(ConfigSummary)]
        unknown = ("" if config.left == config.rows else "unknown" for config in self.configs)
        return [
            names,
            *(
                [_cell(value, absent) for value in asdict(config).values()]
                for config, absent in zip(self.configs, unknown, strict=True)
            ),
        ]

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
        lines_of_table = [
            column for column in zip(*self.table(), strict=True) if {*column[1:]} - {"", "unknown"}
        ]
        names, *lines = zip(*lines_of_table, strict=True)
        widths = [max(map(len, name.split())) for name in names]  # no word of a head is cut
        heads = zip(names[1:], widths[1:], strict=True)
        columns = (Column(name, justify="right", min_width=width) for name, width in heads)
        whole = Column(names[0], no_wrap=True)
        table = Table(whole, *columns, box=None, padding=(0, 1, 0, 0))
        for line in lines:
            table.add_row(*line)
        reasons = Counter(self.failed.values()).most_common(REASONS)
        failures = (f"{counted(n, 'row')} failed: {quote(reason, 200)}" for reason, n in reasons)
        spent = [self.spent.line(self.prices)] if self.spent.prompt_tokens else []
        lines_below = (self.coverage, *failures, *spent, *self.notes)
        return Group(table, *(Text(line, no_wrap=True, overflow="ignore") for line in lines_below))


def _cell(value: str | float | None, absent: str) -> str:
    if value is None or isinstance(value, str):
        return value or absent
    return f"{value:,}" if isinstance(value, int) else f"{value:,.1f}"


def status(folder: str | Path, failure: str | None = None) -> Run:
    """Return what all shards of a run have so far; one that is under way is not disturbed.

    `failure` is why the caller did not answer all that it was to.
    """
    info, run = read_info(Path(folder)), RunFolder(Path(folder))
    configs = {
        name: ConfigSummary(name, rows * info.samples) for name, rows in info.data.rows.items()
    }
    failed: dict[str, str] = {}
    hardware = Counter[str]()
    notes = list[str]()
    records = run.records(notes)
    for (config, *place), answer in settle(records).items():
        summary = configs[config]
        if answer.error is not None:
            summary.failed += 1
            place_of_sample = place if info.samples > 1 else place[:1]
            failed["/".join(map(str, (config, *place_of_sample)))] = answer.error
            continue
        summary.answered += 1
        hardware.update(filter(None, [answer.hardware]))
        summary.cut_off += answer.finish == "length"
        for name in ("prompt_tokens", "cached_tokens", "answer_tokens", "calls", "total_tokens"):
            if (tokens := getattr(answer, name)) is not None:
                setattr(summary, name, (getattr(summary, name) or 0) + tokens)
        summary.seconds = round(summary.seconds + (answer.seconds or 0.0), 4)
    for summary in configs.values():
        summary.left = summary.rows - summary.answered - summary.failed
    figures, speed = tuple(configs.values()), run.rows_per_second()
    start: dict[str, Any] = next(reversed([*run.starts()]), {})
    prices = Prices.read(start.get("arguments") or {})
    return Run(
        run.path,
        figures,
        failed,
        info.samples,
        speed,
        failure,
        Spent.read(run.path, records),
        prices,
        tuple(notes),
        dict(hardware.most_common()),
    )
