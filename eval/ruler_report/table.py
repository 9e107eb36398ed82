"""A table of text, and how terminals, HTML, Markdown and CSV show it."""

import csv
import io
from abc import ABC, abstractmethod
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from markupsafe import Markup
from markupsafe import escape as html_text
from rich.console import Console, Group, RenderableType
from rich.markup import escape as rich_text
from rich.table import Table as RichTable
from rich.text import Text

from ruler_report.format import markdown_text, spreadsheet


@dataclass(frozen=True)
class Table:
    """A table; the first cell of a row is its heading.

    Attributes:
        name: identifies it within a report, and is its class in HTML.
        caption: what it shows, with units.
        head: the headings of the columns.
        rows: as many cells each as `head`.
        marked: indexes of the rows to emphasize.
    """

    name: str
    caption: str
    head: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    marked: tuple[int, ...] = ()

    def __str__(self) -> str:
        return plain_text(self)

    def __rich__(self) -> RichTable:
        table = RichTable(*map(rich_text, self.head), box=None, caption=rich_text(self.caption))
        for place, row in enumerate(self.rows):
            table.add_row(*map(rich_text, row), style="bold" if place in self.marked else None)
        return table

    def _repr_html_(self) -> str:
        return str(self.__html__())

    def __html__(self) -> Markup:
        head = _html_cells('<th scope="col">{}</th>', self.head)
        rows = Markup("").join(
            Markup('<tr{}><th scope="row">{}</th>{}</tr>\n').format(
                Markup(' class="marked"') if place in self.marked else "",
                row[0],
                _html_cells("<td>{}</td>", map(_two_lines, row[1:])),
            )
            for place, row in enumerate(self.rows)
        )
        return _HTML.format(name=self.name, caption=self.caption, head=head, rows=rows)

    def markdown(self) -> str:
        """Return the table as Markdown, below its caption."""
        head, *rows = (
            f"| {' | '.join(map(markdown_text, row))} |" for row in (self.head, *self.rows)
        )
        rule = f"|{'|'.join(['---', *['---:'] * (len(self.head) - 1)])}|"
        return "\n".join([markdown_text(self.caption), "", head, rule, *rows, ""])


_HTML = Markup("""\
<figure class="table {name}">
<figcaption aria-hidden="true">{caption}</figcaption>
<div role="region" aria-label="{caption}" tabindex="0">
<table>
<caption>{caption}</caption>
<thead><tr>{head}</tr></thead>
<tbody>
{rows}</tbody>
</table>
</div>
</figure>
""")


class Shown(ABC):
    """A result that prints as tables and lines of text, and that notebooks show as HTML.

    Attributes:
        notes: what a reader must know before the numbers.
    """

    notes: tuple[str, ...] = ()

    @abstractmethod
    def shown(self) -> Sequence[Table | str]:
        """Return what is printed, without the notes."""

    def __rich__(self) -> Group:
        return Group(
            *(
                Text(part, no_wrap=True, overflow="ignore") if isinstance(part, str) else part
                for part in self.shown()
            )
        )

    def __str__(self) -> str:
        return "\n".join([plain_text(self), *(f"note: {note}" for note in self.notes)])

    __repr__ = __str__

    def _repr_html_(self) -> str:
        parts = [*self.shown(), *(f"note: {note}" for note in self.notes)]
        return "\n".join(
            Markup("<p>{}</p>").format(part) if isinstance(part, str) else part._repr_html_()
            for part in parts
        )


def csv_text(tables: Iterable[Table]) -> str:
    """Return tables as CSV, one after another, each below its caption."""
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    for table in tables:
        writer.writerow([spreadsheet(table.caption)])
        writer.writerows(map(spreadsheet, row) for row in (table.head, *table.rows))
        writer.writerow([])
    return text.getvalue()


def plain_text(shown: RenderableType) -> str:
    """Return what a terminal wide enough for it would show, without colours."""
    file = io.StringIO()
    console = Console(
        file=file,
        width=1000,
        color_system=None,
        force_terminal=False,
        force_jupyter=False,
        highlight=False,
        emoji=False,
    )
    console.print(shown)
    return "\n".join(line.rstrip() for line in file.getvalue().splitlines())


def _html_cells(template: str, cells: Iterable[str]) -> Markup:
    return Markup("").join(Markup(template).format(cell) for cell in cells)


def _two_lines(cell: str) -> Markup:
    """Return a cell with its interval on a second line, which keeps tables narrow."""
    value, bracket, rest = cell.partition(" [")
    if not bracket:
        return html_text(cell)
    interval, _, mark = rest.partition("]")
    return Markup("{}{} <small>[{}]</small>").format(value, mark, interval)
