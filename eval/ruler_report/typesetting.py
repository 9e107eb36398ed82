r"""How numbers, foreign text and tables are set for terminals, HTML, Markdown, LaTeX, spreadsheets.

Models write hostile text, so it is escaped for each place that shows it:

    <script>      HTML          escaped by the template (autoescape), and no script may run (CSP)
    **[x](y)**    Markdown      escaped, or fenced by more backticks than it holds
    \x1b[31m      terminals     control characters written as escapes
    \input{x}     LaTeX         special characters written as commands
    =cmd|...      spreadsheets  an apostrophe in front, so that it is not a formula
    \u202e        any           characters that reverse or hide text written as escapes
"""

import re
import unicodedata
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ruler_data.names import short_length

if TYPE_CHECKING:
    import jinja2
import io
from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from markupsafe import Markup
from rich.console import Console, ConsoleOptions, RenderableType
from rich.table import Column
from rich.table import Table as RichTable
from rich.text import Text

#: Categories of Unicode that show nothing, or change how other characters are shown.
_HIDDEN = ("Cc", "Cf", "Cs", "Co", "Zl", "Zp")

_FORMULA = ("=", "+", "-", "@", "\t", "\r", "\n", "|", "%")

_LATEX = {
    **{character: f"\\{character}" for character in "&%$#_{}"},
    **{"\\": r"\textbackslash{}", "~": r"\textasciitilde{}", "^": r"\textasciicircum{}"},
    **{"<": r"\textless{}", ">": r"\textgreater{}", "|": r"\textbar{}", '"': r"\textquotedbl{}"},
    **{"[": "{[}", "]": "{]}"},  # after a line end, a bracket would be its option
    **{"≥": r"$\geq$", "≤": r"$\leq$", "±": r"$\pm$", "…": r"\ldots{}", "\N{EN DASH}": "--"},
}

_MARKDOWN = re.compile(r"([\\`*_{}\[\]<>#|~$&!@]|:(?=/)|(?<=www)\.)")


def visible(text: str, *, lines: bool = False) -> str:
    r"""Return the text with control, bidirectional and invisible characters written as escapes.

    Args:
        text: any.
        lines: whether line ends stay.

    >>> visible("a\x1b[31m\u202eb")
    'a\\x1b[31m\\u202eb'
    """
    keep = "\u200d\n" if lines else "\u200d"
    return "".join(
        ascii(c)[1:-1] if unicodedata.category(c) in _HIDDEN and c not in keep else c for c in text
    )


def shortened(text: str, most: int = 40) -> str:
    """Return a name as it is shown, its middle left out if it is long.

    >>> shortened("org/model-kvcache-snapkv-0.25", 16)
    'org/mod…pkv-0.25'
    """
    name, half = visible(text), most // 2
    return name if len(name) <= most else f"{name[: half - 1]}…{name[-half:]}"


def markdown_text(text: str) -> str:
    r"""Return the text as one line of Markdown that shows exactly these characters.

    >>> markdown_text("*a*|<b>")
    '\\*a\\*\\|\\<b\\>'
    """
    return _MARKDOWN.sub(r"\\\1", visible(text))


def fenced(text: str) -> str:
    r"""Return the text as a fenced Markdown block that it cannot close.

    >>> fenced("a```b")
    '````text\na```b\n````'
    """
    longest = max((len(run) for run in re.findall("`+", text)), default=0)
    fence = "`" * max(3, longest + 1)
    return f"{fence}text\n{visible(text, lines=True)}\n{fence}"


def latex_text(text: str) -> str:
    r"""Return the text for LaTeX, so that it shows exactly these characters.

    >>> latex_text("50 % of vt_4096, ≥4K")
    '50 \\% of vt\\_4096, $\\geq$4K'
    """
    return "".join(_LATEX.get(character, character) for character in visible(text))


def spreadsheet(text: str) -> str:
    """Return the text as a spreadsheet cell that is not a formula.

    >>> spreadsheet("=1+1"), spreadsheet("vt")
    ("'=1+1", 'vt')
    """
    cell = visible(text)
    return f"'{cell}" if cell.startswith(_FORMULA) else cell


def format_number(value: float | None, digits: int = 2) -> str:
    """Return a number with fixed digits; nothing for None."""
    return "" if value is None else f"{value:.{digits}f}"


def format_signed(value: float) -> str:
    """Return a difference in percentage points; one that rounds to zero has no sign.

    >>> format_signed(1.26), format_signed(-0.04)
    ('+1.3', '0.0')
    """
    return f"{value:+.1f}" if f"{abs(value):.1f}" != "0.0" else "0.0"


def format_length(length: int | None, longest: int | None = None) -> str:
    """Return a length in tokens.

    Args:
        length: in tokens; None or 0 for none.
        longest: measured length; a `length` equal to it is shown as a lower bound.

    >>> format_length(131072), format_length(1000), format_length(None), format_length(4096, 4096)
    ('128K', '1,000', 'none', '≥4K')
    """
    if not length:
        return "none"
    text = short_length(length)
    return f"≥{text}" if length == longest else text


def format_share(share: float) -> str:
    """Return a share in whole percent; 0 % and 100 % only where they are exact.

    >>> format_share(0.031), format_share(0.0004), format_share(0.9996)
    ('3 %', '<1 %', '>99 %')
    """
    if 0 < share < 0.01:
        return "<1 %"
    return ">99 %" if 0.99 < share < 1 else f"{100 * share:.0f} %"


def split_interval(cell: str) -> tuple[str, str | None]:
    """Return a number with its mark, and its interval; None if it has none.

    >>> split_interval("+1.3 [0.2, 2.4] *")
    ('+1.3 *', '0.2, 2.4')
    """
    value, bracket, remainder = cell.partition(" [")
    interval, _, mark = remainder.partition("]")
    return value + mark, interval if bracket else None


#: What the caption of a table adds if a cell is underlined.
UNDERLINED = "; underlined where it reaches the threshold of the effective length"

#: The templates of pages. Those of LaTeX have `<<` and `<%` for `{{` and `{%`.
TEMPLATES = Path(__file__).parent / "templates"

_TEX_SYNTAX: dict[str, Any] = {
    **{"variable_start_string": "<<", "variable_end_string": ">>"},
    **{"block_start_string": "<%", "block_end_string": "%>"},
    **{"comment_start_string": "<#", "comment_end_string": "#>"},
}


def render(template: str, **values: Any) -> str:  # noqa: ANN401 - whatever the template shows
    """Return a template of pages, filled in; that of an HTML page escapes every value."""
    kind = template.split(".")[1]
    return _environment(kind).get_template(template).render(values).lstrip()


@cache
def _environment(kind: str) -> "jinja2.Environment":
    import jinja2

    environment = jinja2.Environment(
        loader=jinja2.FileSystemLoader(TEMPLATES),
        undefined=jinja2.StrictUndefined,
        autoescape=kind == "html",
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
        **_TEX_SYNTAX if kind == "tex" else {},
    )
    environment.globals |= {"underlined_caption": UNDERLINED, "zip": zip}
    environment.filters |= {
        "fenced": fenced,
        "md": markdown_text,
        "split_interval": split_interval,
        "tex": latex_text,
        "visible": visible,
        "visible_lines": lambda text: visible(text, lines=True),
    }
    return environment


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
        columns = (  # names stay whole, and no word of a head is cut
            Column(Text(name), no_wrap=not place, min_width=max(map(len, name.split()), default=0))
            for place, name in enumerate(self.head)
        )
        table = RichTable(*columns, box=None)
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
        for display_part in self.display_parts():
            if isinstance(display_part, str):  # what reads a pipe gets a line as one
                wide = not console.is_terminal
                yield Text(display_part, no_wrap=wide, overflow="ignore" if wide else "fold")
            else:
                yield display_part

    def __str__(self) -> str:
        return "\n".join([plain_text(self), *(f"note: {note}" for note in self.notes)])

    __repr__ = __str__

    def _repr_html_(self) -> str:
        displayed = [*self.display_parts(), *(f"note: {note}" for note in self.notes)]
        return "\n".join(
            Markup("<p>{}</p>").format(display_part)
            if isinstance(display_part, str)
            else display_part._repr_html_()
            for display_part in displayed
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
