"""A table of text, and how terminals, HTML, Markdown and LaTeX show it."""

import io
from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from markupsafe import Markup
from rich.console import Console, ConsoleOptions, RenderableType
from rich.markup import escape as rich_text
from rich.table import Table as RichTable
from rich.text import Text

from ruler_report.format import latex_text, markdown_text


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
        thresholds: by row, the number from which those are underlined; empty for none.
    """

    name: str
    caption: str
    head: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    marked: tuple[int, ...] = ()
    bars: tuple[int, ...] = ()
    thresholds: tuple[float | None, ...] = ()

    def __str__(self) -> str:
        return plain_text(self)

    def __rich_console__(self, _: Console, __: ConsoleOptions) -> Iterator[RenderableType]:
        table = RichTable(*map(rich_text, self.head), box=None)
        for place, row in enumerate(self.rows):
            table.add_row(*map(rich_text, row), style="bold" if place in self.marked else None)
        yield table
        yield Text(f" {self.caption}\n", style="italic")

    def _repr_html_(self) -> str:
        # The page of a report hides this second caption, for screen readers, by its style sheet.
        return str(self.__html__()).replace("<caption>", "<caption hidden>")

    def __html__(self) -> Markup:
        head = Markup("").join(Markup('<th scope="col">{}</th>').format(cell) for cell in self.head)
        rows = Markup("").join(
            Markup('<tr{}><th scope="row">{}</th>{}</tr>\n').format(
                Markup(' class="marked"') if place in self.marked else "",
                row[0],
                Markup("").join(self._html_cell(place, column) for column in range(1, len(row))),
            )
            for place, row in enumerate(self.rows)
        )
        return _HTML.format(name=self.name, caption=self.caption, head=head, rows=rows)

    def _html_cell(self, row: int, column: int) -> Markup:
        """Return a cell, its interval on a second line, and a bar if its column has bars."""
        value, interval = cell = _split(self.rows[row][column])
        text = value if interval is None else Markup("{} <small>[{}]</small>").format(*cell)
        if column not in self.bars or not value:
            return Markup("<td>{}</td>").format(text)
        threshold = self.thresholds[row] if self.thresholds else None
        passes = threshold is not None and float(value) >= threshold
        kind = Markup(' class="passes"') if passes else ""
        return Markup('<td{} style="--bar-width: {}%">{}</td>').format(kind, value, text)

    def latex(self) -> str:
        """Return the table for LaTeX, with booktabs; intervals stand below their numbers."""
        head, *rows = (
            " & ".join(map(_latex_cell, row)) + r" \\" for row in (self.head, *self.rows)
        )
        size = r"\footnotesize" if len(self.head) > 8 else r"\small"
        body = [
            r"\begin{table*}[t]",
            rf"\caption{{{latex_text(self.caption)}.}}",
            rf"\label{{tab:ruler-{self.name}}}",
            rf"\centering{size}\setlength{{\tabcolsep}}{{3pt}}",
            rf"\begin{{tabular}}{{@{{}}l{'r' * (len(self.head) - 1)}@{{}}}}",
            r"\toprule",
            head,
            r"\midrule",
            *rows,
            r"\bottomrule",
            r"\end{tabular}",
            r"\end{table*}",
        ]
        return "\n".join(body) + "\n"

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

    def __rich_console__(self, console: Console, _: ConsoleOptions) -> Iterator[RenderableType]:
        for part in self.shown():
            if isinstance(part, str):  # what reads a pipe gets a line as one
                wide = not console.is_terminal
                yield Text(part, no_wrap=wide, overflow="ignore" if wide else "fold")
            else:
                yield part

    def __str__(self) -> str:
        return "\n".join([plain_text(self), *(f"note: {note}" for note in self.notes)])

    __repr__ = __str__

    def _repr_html_(self) -> str:
        parts = [*self.shown(), *(f"note: {note}" for note in self.notes)]
        return "\n".join(
            Markup("<p>{}</p>").format(part) if isinstance(part, str) else part._repr_html_()
            for part in parts
        )


def plain_text(shown: RenderableType) -> str:
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
    console.print(shown)
    return "\n".join(line.rstrip() for line in file.getvalue().splitlines())


def _split(cell: str) -> tuple[str, str | None]:
    """Return a number with its mark, and its interval; None if it has none.

    >>> _split("+1.3 [0.2, 2.4] *")
    ('+1.3 *', '0.2, 2.4')
    """
    value, bracket, rest = cell.partition(" [")
    interval, _, mark = rest.partition("]")
    return value + mark, interval if bracket else None


def _latex_cell(cell: str) -> str:
    value, interval = _split(cell)
    if interval is None:
        return latex_text(value)
    return rf"\shortstack[r]{{{latex_text(value)}\\{{\tiny [{latex_text(interval)}]}}}}"
