"""A table of text, and how terminals, HTML, Markdown and LaTeX show it."""

import io
import re
from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from markupsafe import Markup
from rich.console import Console, ConsoleOptions, RenderableType
from rich.table import Column
from rich.table import Table as RichTable
from rich.text import Text

from ruler_report.format import markdown_text, render

#: A cell, by line and column.
Place = tuple[int, int]


@dataclass(frozen=True)
class Table:
    """A table; the first cell of a row is its heading.

    Attributes:
        name: identifies it within a report, and is its class in HTML.
        caption: what it shows, with units.
        head: the headings of the columns.
        rows: as many cells each as `head`.
        marked: indexes of the rows to emphasize.
        bars: indexes of columns whose numbers, 0 to 100, pages also show as bars.
        bold: cells, by line and column, that LaTeX shows bold; the heads are line 0.
        best: what is bold, in words.
        underlined: cells that reach a threshold.
    """

    name: str
    caption: str
    head: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    marked: tuple[int, ...] = ()
    bars: tuple[int, ...] = ()
    bold: frozenset[Place] = frozenset()
    best: str = ""
    underlined: frozenset[Place] = frozenset()

    def __str__(self) -> str:
        return plain_text(self)

    def __rich_console__(self, _: Console, __: ConsoleOptions) -> Iterator[RenderableType]:
        columns = (Column(Text(name), no_wrap=not place) for place, name in enumerate(self.head))
        table = RichTable(*columns, box=None)  # names stay whole
        for place, row in enumerate(self.rows):
            table.add_row(*map(Text, row), style="bold" if place in self.marked else None)
        yield table
        yield Text(f" {self.caption}\n", style="italic")

    def _repr_html_(self) -> str:
        # The page of a report hides this second caption, for screen readers, by its style sheet.
        return str(self.__html__()).replace("<caption>", "<caption hidden>")

    def __html__(self) -> Markup:
        return Markup(render("table.html.j2", table=self))

    def latex(self, notes: Sequence[str] = ()) -> str:
        """Return the table for LaTeX, with booktabs and graphicx, never wider than the text.

        Long names stand in rows, not in columns, and intervals, which stand below their numbers,
        are left out beside more than 12 columns. More rows than a page holds go on in another
        table. Notes stand below.
        """
        grid = [[_without_owner(cell) for cell in row] for row in (self.head, *self.rows)]
        bold, underlined = self.bold, self.underlined
        longest = max(len(row[0]) for row in grid)
        if len(grid) <= 2 * _WIDE and len(grid[0]) > 4 and max(map(len, grid[0][1:])) > longest:
            grid = [list(column) for column in zip(*grid, strict=True)]
            bold, underlined = (frozenset((x, y) for y, x in cells) for cells in (bold, underlined))
        head, *rows = grid
        wide = len(head) > _WIDE
        return render(
            "table.tex.j2",
            name=self.name,
            caption=self.caption.replace(", with 95 % intervals", "") if wide else self.caption,
            head=head,
            rows=[*enumerate(rows, 1)],
            tallest=_TALLEST,
            bold=bold,
            best=self.best,
            notes=notes,
            underlined=underlined,
            wide=wide,
            most_characters=_HEAD,
        )

    def markdown(self) -> str:
        """Return the table as Markdown, below its caption."""
        head, *rows = (
            f"| {' | '.join(map(markdown_text, row))} |" for row in (self.head, *self.rows)
        )
        rule = f"|{'|'.join(['---', *['---:'] * (len(self.head) - 1)])}|"
        return "\n".join([markdown_text(self.caption), "", head, rule, *rows, ""])


class Printable(ABC):
    """A result that prints as tables and lines of text, and that notebooks show as HTML.

    Attributes:
        notes: what a reader must know before the numbers.
    """

    notes: tuple[str, ...] = ()

    @abstractmethod
    def display_parts(self) -> Sequence[Table | str]:
        """Return what is printed, without the notes."""

    def __rich_console__(self, console: Console, _: ConsoleOptions) -> Iterator[RenderableType]:
        for part in self.display_parts():
            if isinstance(part, str):  # what reads a pipe gets a line as one
                wide = not console.is_terminal
                yield Text(part, no_wrap=wide, overflow="ignore" if wide else "fold")
            else:
                yield part

    def __str__(self) -> str:
        return "\n".join([plain_text(self), *(f"note: {note}" for note in self.notes)])

    __repr__ = __str__

    def _repr_html_(self) -> str:
        parts = [*self.display_parts(), *(f"note: {note}" for note in self.notes)]
        return "\n".join(
            Markup("<p>{}</p>").format(part) if isinstance(part, str) else part._repr_html_()
            for part in parts
        )


def plain_text(renderable: RenderableType) -> str:
    """Return what a terminal wide enough for it would show, without colours."""
    file = io.StringIO()
    console = Console(
        file=file,
        width=1000,
        color_system=None,
        force_terminal=False,
        force_jupyter=False,
        emoji=False,
    )
    console.print(renderable)
    return "\n".join(line.rstrip() for line in file.getvalue().splitlines())


#: Rows of a table on one page of a paper, columns beside which intervals are left out, and
#: characters of heads that stand upright.
_TALLEST, _WIDE, _HEAD = 45, 12, 110


def _without_owner(cell: str) -> str:
    """Return a model's name without the organization before it.

    >>> _without_owner("Qwen/Qwen3-8B"), _without_owner("1 / 2")
    ('Qwen3-8B', '1 / 2')
    """
    return re.sub(r"^[\w.-]+/(?=[\w.-]+)", "", cell)
