"""What a run has of each config, complete or not."""

from collections import Counter
from dataclasses import asdict, dataclass
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
    """What a run has of one config, over all shards; a column of what `status` prints each."""

    config: str
    rows: int  # number of rows of the run; of samples, where there are several of each row
    answered: int = 0
    failed: int = 0  # sent without an answer
    left: int = 0  # not sent yet
    cut_off: int = 0  # answers that ended at their limit of tokens
    prompt_tokens: int | None = None  # sent; None if not reported
    cached_tokens: int | None = None  # of these, held by a prefix cache; None if not reported
    answer_tokens: int | None = None  # generated; None if not reported

    def add(self, answer: Answer) -> None:
        """Count an answer, or a row without one."""
        self.left -= 1
        if answer.error is not None:
            self.failed += 1
            return
        self.answered += 1
        self.cut_off += answer.finish == "length"
        for name in ("prompt_tokens", "cached_tokens", "answer_tokens"):
            tokens = getattr(answer, name)
            if tokens is not None:
                setattr(self, name, tokens + (getattr(self, name) or 0))


@dataclass(frozen=True)
class Run:
    """A run, complete or not.

    Attributes:
        folder: with its description and journals.
        configs: what it has of each config, over all shards.
        failed: why rows that were sent have no answer, by row, e.g. `vt_4096/17`.
        samples: answers to each row.
        is_running: whether a process answers rows of it now.
        spent: tokens of all requests, failed and repeated ones included.
        prices: of tokens, as the last start named them.
        failure: why the call that returned this did not answer all that it was to; None if it did.
        notes: lines and files of answers that were ignored.
        hardware: answers by what computed them, where the engine knows it.
    """

    folder: Path
    configs: tuple[ConfigSummary, ...]
    failed: dict[str, str]
    samples: int
    is_running: bool
    spent: Spent
    prices: Prices | None
    failure: str | None
    notes: tuple[str, ...]
    hardware: dict[str, int]

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
        if self.is_running:
            text += "; running"
        return text

    def to_records(self) -> list[dict[str, Any]]:
        """Return one dict for each row that was sent, e.g. for `pandas.DataFrame`."""
        return [asdict(answer) for answer in RunFolder(self.folder).answers().values()]

    def to_record(self) -> dict[str, Any]:
        """Return its figures as JSON values."""
        names = ("complete", "rows", "answered", "left", "is_running", "hardware")
        record = {name: getattr(self, name) for name in names}
        configs = [asdict(config) for config in self.configs]
        money = {**asdict(self.spent), "money": self.spent.money(self.prices)}
        more = {"failed": len(self.failed), "spent": money, "notes": list(self.notes)}
        return {**record, **more, "configs": configs}

    def __fspath__(self) -> str:
        """Return the path of the folder, so that `ruler_eval.score` takes a run as it is."""
        return str(self.folder)

    def __repr__(self) -> str:
        text = f"<Run {self.coverage}"
        for row, reason in [*self.failed.items()][:1]:
            text += f", e.g. {row}: {reason}"
        return f"{text}>"

    def __rich__(self) -> Group:
        """Return what `run` and `status` print: a line for each config, then the rest."""
        table = Table(box=None, padding=(0, 1, 0, 0))
        records = [asdict(config) for config in self.configs]
        columns = []
        for name in records[0]:
            cells = [record[name] for record in records]
            if {*cells} == {None}:  # nobody counts these tokens
                continue
            columns.append(map(_cell, cells))
            title = name.replace("_", " ")
            if name == "config":
                table.add_column(title, no_wrap=True)
            else:  # no word of a head is cut
                width = max(map(len, title.split()))
                table.add_column(title, justify="right", min_width=width)
        for line in zip(*columns, strict=True):
            table.add_row(*line)
        lines = [self.coverage]
        for reason, number in Counter(self.failed.values()).most_common(REASONS):
            lines.append(f"{counted(number, 'row')} failed: {quote(reason, 200)}")
        if self.spent.prompt_tokens:
            lines.append(self.spent.line(self.prices))
        lines += self.notes
        return Group(table, *(Text(line, no_wrap=True, overflow="ignore") for line in lines))


def _cell(value: str | int | None) -> str:
    if value is None:
        return "-"
    if isinstance(value, str):
        return value
    return f"{value:,}"


def status(folder: str | Path, failure: str | None = None) -> Run:
    """Return what all shards of a run have so far; one that is under way is not disturbed.

    `failure` is why the caller did not answer all that it was to.
    """
    info = read_info(Path(folder))
    run = RunFolder(Path(folder))
    configs = dict[str, ConfigSummary]()
    for name, rows in info.data.rows.items():
        samples = rows * info.samples
        configs[name] = ConfigSummary(name, samples, left=samples)
    failed: dict[str, str] = {}
    hardware = Counter[str]()
    notes = list[str]()
    for answer in run.answers(notes).values():
        configs[answer.config].add(answer)
        if answer.error is not None:
            place = answer.key if info.samples > 1 else answer.key[:2]
            failed["/".join(map(str, place))] = answer.error
        elif answer.hardware is not None:
            hardware[answer.hardware] += 1
    start: dict[str, Any] = next(reversed([*run.starts()]), {})
    return Run(
        folder=run.path,
        configs=tuple(configs.values()),
        failed=failed,
        samples=info.samples,
        is_running=bool(run.running()),
        spent=Spent.read(run.path),
        prices=Prices.read(start.get("arguments") or {}),
        failure=failure,
        notes=tuple(notes),
        hardware=dict(hardware.most_common()),
    )
