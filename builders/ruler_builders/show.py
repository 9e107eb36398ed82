"""What `ruler-data show`, `list` and `find` print."""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from rich.console import Group, RenderableType
from rich.panel import Panel
from rich.table import Table
from rich.text import Text

from ruler_data.dataset import Rows, Source, open_source
from ruler_data.errors import RulerError, UsageError
from ruler_data.files import read_bytes
from ruler_data.manifest import Manifest
from ruler_data.names import counted, parse_config, quote
from ruler_data.procedures import READ_ON, Procedure, find_procedure
from ruler_data.procedures import procedures as known_procedures
from ruler_data.row import Row
from ruler_data.suites import packaged
from ruler_data.terminal import visible

#: Characters of a hash that a table shows; JSON has all.
HASH = 16
#: Characters shown at both ends of a context and around each evidence span.
AROUND = 160
#: Evidence spans shown; cwe has three hundred.
MOST_SPANS = 12


@dataclass(frozen=True)
class Listing:
    """Records, of which a table shows some values and JSON all."""

    heading: str
    records: Sequence[Mapping[str, Any]]
    keys: Sequence[str]

    def to_record(self) -> Sequence[Mapping[str, Any]]:
        """Return the records."""
        return self.records

    def __rich__(self) -> Table:
        headings = {"name": self.heading, "where": "available", "about": "what it is for"}
        table = Table(*(headings.get(key, key) for key in self.keys), box=None)
        for record in self.records:
            table.add_row(*(_cell(key, record[key]) for key in self.keys))
        return table


def _cell(key: str, value: object) -> str:
    if isinstance(value, list):
        return str(len(value))
    if value is None:  # a procedure's sources leave it open
        return "open"
    text = str(value)
    if key in ("sha256", "fingerprint", "revision"):
        text = text[:HASH]
    return text


@dataclass(frozen=True)
class ProcedurePage:
    """A procedure with the sources of its facts, and what they leave open."""

    procedure: Procedure

    def to_record(self) -> dict[str, Any]:
        """Return all of it."""
        return {**self.procedure.to_record(), "read_on": READ_ON}

    def __str__(self) -> str:
        lines = list[str]()
        for name, value in self.to_record().items():
            if isinstance(value, list | tuple):
                if value:
                    lines += [f"{name}:", *map(_item, value)]
            elif value is None:
                lines.append(f"{name}: open")
            elif value != "":
                lines.append(f"{name}: {value}")
        return "\n".join(lines)


def _item(value: object) -> str:
    """Return an item of a list as a line."""
    if isinstance(value, Mapping):
        return "- " + "; ".join(f"{name}: {text}" for name, text in value.items())
    return f"- {value}"


@dataclass(frozen=True)
class ShownConfigs:
    """The configs of a dataset; the same questions have one digest, shown by its first digits."""

    manifest: Manifest

    def to_record(self) -> dict[str, Any]:
        """Return the entry of each config."""
        return {name: asdict(info) for name, info in self.manifest.configs.items()}

    def __rich__(self) -> Table:
        about = "floor: the best score without the question, e.g. by listing all"
        table = Table(
            "config", "rows", "floor (%)", "questions", "content", box=None, caption=about
        )
        for name, info in self.manifest.configs.items():
            floor = f"{100 * info.floor.score:.1f}" if info.floor else "not recorded"
            questions = info.question_digest.removeprefix("sha256:")[:12]
            content = info.digest.removeprefix("sha256:")[:12]
            table.add_row(name, str(info.rows), floor, questions, content)
        return table


@dataclass(frozen=True)
class ShownRow:
    """One row; with `full`, its whole context."""

    config: str
    row: Row
    full: bool = False

    def to_record(self) -> dict[str, Any]:
        """Return the row."""
        return self.row.to_record()

    def __rich__(self) -> RenderableType:
        row = self.row
        facts = Table.grid(padding=(0, 2))
        facts.add_row("row", f"{self.config}/{row.index}")
        facts.add_row("length", f"{row.length} tokens, {row.max_new_tokens} of them for the answer")
        facts.add_row("context", f"{len(row.context):,} characters")
        facts.add_row("evidence", counted(len(row.evidence), "span"))
        gold = Text(", ").join(Text(visible(output), style="bold green") for output in row.outputs)
        return Group(
            facts,
            Panel(highlight(row, full=self.full), title="context", title_align="left"),
            Panel(Text(visible(row.question)), title="question", title_align="left"),
            Panel(Text(visible(row.answer_prefix)), title="answer prefix", title_align="left"),
            Panel(gold, title="gold answers", title_align="left"),
        )


def highlight(row: Row, *, full: bool = False) -> Text:
    """Return the context with its evidence in bold yellow, and the lengths of parts left out."""
    text = Text(visible(row.context))
    for span in row.evidence:
        text.stylize("bold yellow", span.start, span.end)
    if full:
        return text
    size = len(row.context)
    keep = [(0, 2 * AROUND), (max(size - AROUND, 0), size)]
    keep += [
        (max(piece.start - AROUND, 0), piece.end + AROUND) for piece in row.evidence[:MOST_SPANS]
    ]
    excerpt = Text()
    done = 0
    for start, end in sorted(keep):
        if end <= done:
            continue
        if start > done:
            excerpt.append(f" [... {start - done:,} characters ...] ", style="dim")
        excerpt.append_text(text[max(start, done) : end])
        done = end
    return excerpt


def show(
    data: str, config: str, index: int, revision: str | None, *, full: bool
) -> ShownRow | ShownConfigs:
    """Return a row of a folder or a release; without a config, its configs."""
    if config:
        parse_config(config)
    source = open_source(data, revision)
    configs = source.manifest.configs
    if not config:
        return ShownConfigs(source.manifest)
    if config not in configs:
        raise UsageError(f"{quote(config)} is not in {source}; it has {', '.join(configs)}")
    if index >= configs[config].rows:
        raise UsageError(f"{config} has rows 0 to {configs[config].rows - 1}, not {index}")
    return ShownRow(config, Rows(source, config)[index], full)


def card(source: Source) -> str:
    """Return the card of a folder or a release, without its last line feed.

    Raises:
        RulerError: there is no card.
    """
    from ruler_builders.card import CARD_BYTES

    if source.release:
        source.release.fetch((), ["README.md"])
    elif not (source.folder / "README.md").is_file():
        raise RulerError(source.folder, "has no README.md; the same build command writes it again")
    text = read_bytes(source.folder / "README.md", CARD_BYTES, "README.md")
    return text.decode(errors="replace").removesuffix("\n")


def suites() -> Listing:
    """Return the suites of this package: what each is for, and its tasks."""
    records = [
        {
            "name": suite.name,
            "about": suite.about,
            "tasks": list(suite.tasks),
            "lengths": suite.lengths,
            "rows": suite.rows,
        }
        for suite in packaged().values()
    ]
    return Listing("suite", records, ("name", "tasks", "rows", "about"))


def procedures() -> Listing:
    """Return how published RULER numbers were measured."""
    records = [procedure.to_record() for procedure in known_procedures().values()]
    return Listing("procedure", records, ("name", "edition", "rows", "temperature", "about"))


def procedure(name: str) -> ProcedurePage:
    """Return all facts of a procedure with their sources."""
    return ProcedurePage(find_procedure(name))


def sources() -> Listing:
    """Return which sources are available, from where, with which hash."""
    from ruler_builders.sources.library import inventory

    return Listing("source", inventory(None), ("name", "where", "pinned", "sha256", "licence"))


def tokenizers() -> Listing:
    """Return which tokenizers are available, from where, with which hash."""
    from ruler_data.tokenizers.registry import inventory

    keys = ("name", "source", "revision", "where", "fingerprint", "note")
    return Listing("name", inventory(), keys)
