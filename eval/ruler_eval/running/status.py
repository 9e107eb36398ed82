"""What a run has of each config, complete or not."""

from collections import Counter
from dataclasses import asdict, dataclass, field, fields
from pathlib import Path
from typing import Any

from rich.console import Group
from rich.table import Table
from rich.text import Text

from ruler_data.names import counted, quote
from ruler_eval.running.answers import Answer
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

    def add(self, answer: Answer) -> None:
        """Count an answer."""
        self.answered += 1
        self.cut_off += answer.finish == "length"
        for name in ("prompt_tokens", "cached_tokens", "answer_tokens", "calls", "total_tokens"):
            if (tokens := getattr(answer, name)) is not None:
                setattr(self, name, (getattr(self, name) or 0) + tokens)
        self.seconds = round(self.seconds + (answer.seconds or 0.0), 4)


@dataclass(frozen=True)
class Run:
    """A run, complete or not.

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
        unit = "rows" if self.samples == 1 else "samples"
        text = f"{self.folder}: {self.answered:,} of {self.rows:,} {unit} answered"
        if not self.complete:
            text += f", {len(self.failed):,} failed, {self.left:,} left"
        if self.hardware:
            text += f"; on {', '.join(map(quote, self.hardware))}"
        if self.rows_per_second is not None:
            text += f"; running, {self.rows_per_second:.2g} {unit} per second"
        return text

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
        table = [[column.name.replace("_", " ") for column in fields(ConfigSummary)]]
        for config in self.configs:
            absent = "" if config.left == config.rows else "unknown"
            table.append([_cell(value, absent) for value in asdict(config).values()])
        return table

    def __fspath__(self) -> str:
        """Return the path of the folder, so that `ruler_eval.score` takes a run as it is."""
        return str(self.folder)

    def __repr__(self) -> str:
        text = f"<Run {self.coverage}"
        for row, reason in [*self.failed.items()][:1]:
            text += f", e.g. {row}: {reason}"
        return f"{text}>"

    def __rich__(self) -> Group:
        """Return what `run` and `status` print."""
        table = Table(box=None, padding=(0, 1, 0, 0))
        columns = []
        for name, *cells in zip(*self.table(), strict=True):
            if {*cells} <= {"", "unknown"}:
                continue
            columns.append(cells)
            width = max(map(len, name.split()))  # no word of a head is cut
            if len(columns) == 1:
                table.add_column(name, no_wrap=True)
            else:
                table.add_column(name, justify="right", min_width=width)
        for line in zip(*columns, strict=True):
            table.add_row(*line)
        lines = [self.coverage]
        for reason, number in Counter(self.failed.values()).most_common(REASONS):
            lines.append(f"{counted(number, 'row')} failed: {quote(reason, 200)}")
        if self.spent.prompt_tokens:
            lines.append(self.spent.line(self.prices))
        lines += self.notes
        return Group(table, *(Text(line, no_wrap=True, overflow="ignore") for line in lines))


def _cell(value: str | float | None, absent: str) -> str:
    if value is None or isinstance(value, str):
        return value or absent
    return f"{value:,}" if isinstance(value, int) else f"{value:,.1f}"


def status(folder: str | Path, failure: str | None = None) -> Run:
    """Return what all shards of a run have so far; one that is under way is not disturbed.

    `failure` is why the caller did not answer all that it was to.
    """
    info = read_info(Path(folder))
    run = RunFolder(Path(folder))
    configs = {
        name: ConfigSummary(name, rows * info.samples) for name, rows in info.data.rows.items()
    }
    failed: dict[str, str] = {}
    hardware = Counter[str]()
    notes = list[str]()
    for answer in run.answers(notes).values():
        summary = configs[answer.config]
        if answer.error is None:
            summary.add(answer)
            hardware.update(filter(None, [answer.hardware]))
            continue
        summary.failed += 1
        place = f"{answer.config}/{answer.index}"
        if info.samples > 1:
            place += f"/{answer.sample}"
        failed[place] = answer.error
    for summary in configs.values():
        summary.left = summary.rows - summary.answered - summary.failed
    start: dict[str, Any] = next(reversed([*run.starts()]), {})
    prices = Prices.read(start.get("arguments") or {})
    return Run(
        run.path,
        tuple(configs.values()),
        failed,
        info.samples,
        run.rows_per_second(),
        failure,
        Spent.read(run.path),
        prices,
        tuple(notes),
        dict(hardware.most_common()),
    )
