"""A table of text, and how terminals, HTML, Markdown and LaTeX show it."""

import io
import re
from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Literal

from markupsafe import Markup
from rich.console import Console, ConsoleOptions, RenderableType
from rich.table import Column
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
        best: along which the models stand, if the greatest of their scores is the best.
    """

    name: str
    caption: str
    head: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    marked: tuple[int, ...] = ()
    bars: tuple[int, ...] = ()
    thresholds: tuple[float | None, ...] = ()
    best: Literal["columns", "rows", ""] = ""

    def __str__(self) -> str:
        return plain_text(self)

    def __rich_console__(self, _: Console, __: ConsoleOptions) -> Iterator[RenderableType]:
        table = RichTable(*(Column(Text(name)) for name in self.head), box=None)
        for place, row in enumerate(self.rows):
            table.add_row(*map(Text, row), style="bold" if place in self.marked else None)
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
        """Return the table for LaTeX, with booktabs and graphicx, never wider than the text.

        The best score of the models is bold, and what reaches a threshold underlined. Long names
        stand in rows, not in columns, and intervals, which stand below their numbers, are left out
        beside more than 12 columns.
        """
        grid = [[_without_owner(cell) for cell in row] for row in (self.head, *self.rows)]
        best = self.best
        if max(map(len, grid[0][1:])) > max(len(row[0]) for row in grid) and len(grid[0]) > 4:
            grid = [list(column) for column in zip(*grid, strict=True)]
            best = "columns" if best == "rows" else "rows" if best else ""
        wide = len(grid[0]) > _WIDE
        marks = _best_places(grid, best) if best and len(self.rows) > 1 else set()
        passing = self._passing()
        head, *rows = (
            " & ".join(
                _latex_cell(cell, bold=(y, x) in marks, underlined=(y, x) in passing, bare=wide)
                if y or x == 0 or len(cell) * len(grid[0]) < _HEAD
                else rf"\rotatebox{{90}}{{{latex_text(cell)}}}"
                for x, cell in enumerate(row)
            )
            + r" \\"
            for y, row in enumerate(grid)
        )
        caption = self.caption.replace(", with 95 % intervals", "") if wide else self.caption
        size = r"\footnotesize" if len(grid[0]) > 8 else r"\small"
        body = [
            r"\begin{table*}[t]",
            rf"\caption{{{latex_text(caption)}{'; the best score is bold' * bool(marks)}.}}",
            rf"\label{{tab:ruler-{self.name}}}",
            rf"\centering{size}\setlength{{\tabcolsep}}{{3pt}}",
            r"\resizebox{\ifdim\width>\textwidth\textwidth\else\width\fi}{!}{%",
            rf"\begin{{tabular}}{{@{{}}l{'r' * (len(grid[0]) - 1)}@{{}}}}",
            r"\toprule",
            head,
            r"\midrule",
            *rows,
            r"\bottomrule",
            r"\end{tabular}}",
            r"\end{table*}",
        ]
        return "\n".join(body) + "\n"

    def _passing(self) -> set[tuple[int, int]]:
        """Return the cells, by line and column, that reach the threshold of their row."""
        return {
            (place + 1, column)
            for place, (row, limit) in enumerate(zip(self.rows, self.thresholds, strict=False))
            for column in self.bars
            if limit is not None and (value := _number(row[column])) is not None and value >= limit
        }

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


#: Columns beside which intervals are left out, and characters of heads that stand upright.
_WIDE, _HEAD = 12, 110


def _latex_cell(cell: str, *, bold: bool, underlined: bool, bare: bool) -> str:
    value, interval = _split(cell)
    text = latex_text(value)
    for command, holds in (("textbf", bold), ("underline", underlined)):
        text = rf"\{command}{{{text}}}" if holds else text
    if interval is None or bare:
        return text
    return rf"\shortstack[r]{{{text}\\{{\tiny {latex_text(interval.replace(', ', '--'))}}}}}"


def _number(cell: str) -> float | None:
    """Return the number that a cell begins with; None if it holds other text.

    >>> _number("97.4 [95.8, 98.5]"), _number("8K"), _number("")
    (97.4, None, None)
    """
    first = cell.partition(" ")[0]
    return float(first) if re.fullmatch(r"\d+\.\d+", first) else None


def _best_places(grid: Sequence[Sequence[str]], models: str) -> set[tuple[int, int]]:
    """Return line and column of the greatest number with decimals of each line across models."""
    if models == "columns":
        return {(y, x) for x, y in _best_places([*zip(*grid, strict=True)], "rows")}
    found = set()
    for x in range(1, len(grid[0])):
        numbers = {
            y: value for y in range(1, len(grid)) if (value := _number(grid[y][x])) is not None
        }
        found |= {(y, x) for y, value in numbers.items() if value == max(numbers.values())}
    return found


def _without_owner(cell: str) -> str:
    """Return a model's name without the organization before it.

    >>> _without_owner("Qwen/Qwen3-8B"), _without_owner("1 / 2")
    ('Qwen3-8B', '1 / 2')
    """
    return re.sub(r"^[\w.-]+/(?=[\w.-]+)", "", cell)
