r"""How numbers, foreign text and tables are set for terminals, HTML, Markdown, LaTeX, spreadsheets.

Models write hostile text, so it is escaped for each place that shows it:

    <script>      HTML          escaped by the template (autoescape), and no script may run (CSP)
    **[x](y)**    Markdown      escaped, or fenced by more backticks than it holds
    \x1b[31m      terminals     control characters written as escapes
    \input{x}     LaTeX         special characters written as commands
    =cmd|...      spreadsheets  an apostrophe in front, so that it is not a formula
    \u202e        any           characters that reverse or hide text written as escapes
"""

import io
import math
import re
import unicodedata
from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from markupsafe import Markup, escape
from rich.console import Console, ConsoleOptions, RenderableType
from rich.table import Column
from rich.table import Table as RichTable
from rich.text import Text

from ruler_data.names import counted, short_length

if TYPE_CHECKING:
    import jinja2

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


def markdown_text(text: str) -> str:
    r"""Return the text as one line of Markdown that shows exactly these characters.

    >>> markdown_text("*a*|<b>")
    '\\*a\\*\\|\\<b\\>'
    """
    return _MARKDOWN.sub(r"\\\1", visible(text))


def breakable(text: str) -> Markup:
    """Return the text as HTML whose lines may end behind an underscore.

    >>> print(breakable("niah_<b>"))
    niah_<wbr>&lt;b&gt;
    """
    return escape(text).replace("_", Markup("_<wbr>"))


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
    if cell.startswith(_FORMULA):
        return f"'{cell}"
    return cell


def format_number(value: float | None, digits: int = 2) -> str:
    """Return a number with fixed digits, or in groups of thousands; nothing for None and NaN.

    >>> format_number(0.5), format_number(12345.6, 0), format_number(None)
    ('0.50', '12,346', '')
    """
    if value is None or math.isnan(value):
        return ""
    if digits == 0:
        return f"{value:,.0f}"
    return f"{value:.{digits}f}"


def format_interval(low: float | None, high: float | None, form: str) -> str:
    """Return the ends of an interval, each in a form; nothing where there are none.

    >>> format_interval(-7.25, 8, "+.1f")
    '-7.2, +8.0'
    """
    if low is None or high is None:
        return ""
    return f"{low:{form}}, {high:{form}}"


def with_interval(value: str, interval: str) -> str:
    """Return a value, behind it its interval in brackets if there is one."""
    if interval:
        return f"{value} [{interval}]"
    return value


def format_signed(value: float) -> str:
    """Return a difference in percentage points; one that rounds to zero has no sign.

    >>> format_signed(1.26), format_signed(-0.04)
    ('+1.3', '0.0')
    """
    if f"{abs(value):.1f}" != "0.0":
        return f"{value:+.1f}"
    return "0.0"


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
    if length == longest:
        return f"≥{text}"
    return text


def format_share(share: float) -> str:
    """Return a share in whole percent; 0 % and 100 % only where they are exact.

    >>> format_share(0.031), format_share(0.0004), format_share(0.9996)
    ('3 %', '<1 %', '>99 %')
    """
    if math.isnan(share):
        return ""
    if 0 < share < 0.01:
        return "<1 %"
    if 0.99 < share < 1:
        return ">99 %"
    return f"{100 * share:.0f} %"


def name_of(name: tuple[str | None, int | None]) -> str:
    """Return the name of a mean.

    >>> name_of((None, None)), name_of((None, 4096)), name_of(("vt", 4096))
    ('mean', '4K', 'vt at 4K')
    """
    task, length = name
    if task is None:
        if length is None:
            return "mean"
        return format_length(length)
    if length is None:
        return task
    return f"{task} at {format_length(length)}"


def join(names: Sequence[str]) -> str:
    """Return names as a list in a sentence."""
    if len(names) > 1:
        return f"{', '.join(names[:-1])} and {names[-1]}"
    return names[0]


def first_of(names: Sequence[str], noun: str) -> str:
    """Return the first three names, and how many more there are.

    >>> first_of(["vt", "cwe", "fwe", "qa_1"], "task")
    'vt, cwe, fwe and 1 more task'
    """
    text = ", ".join(names[:3])
    more = len(names) - 3
    if more > 0:
        return f"{text} and {counted(more, f'more {noun}')}"
    return text


#: The templates of pages.
TEMPLATES = Path(__file__).parent / "templates"


def render(template: str, **values: Any) -> str:  # noqa: ANN401 - whatever the template shows
    """Return a template of pages, filled in; that of an HTML page escapes every value."""
    is_html = template.split(".")[1] == "html"
    return _environment(is_html).get_template(template).render(values).lstrip()


@cache
def _environment(is_html: bool) -> "jinja2.Environment":
    import jinja2

    environment = jinja2.Environment(
        loader=jinja2.FileSystemLoader(TEMPLATES),
        undefined=jinja2.StrictUndefined,
        autoescape=is_html,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
    )
    environment.globals |= {"zip": zip}
    environment.filters |= {
        "breakable": breakable,
        "fenced": fenced,
        "md": markdown_text,
        "visible": visible,
        "visible_lines": lambda text: visible(text, lines=True),
    }
    return environment


@dataclass(frozen=True)
class Number:
    """A number in a table.

    Attributes:
        value: as it is shown.
        interval: its ends, in brackets behind it.
        beside: another score of the same rows, in parentheses.
        level: 0 to 100, for a shade that repeats what the number says; None for no shade.
        mark: behind all of it.
        order: what a board sorts it by, where that is not its value.

    >>> print(Number("97.1", "95.0, 98.1", beside="87.0"))
    97.1 [95.0, 98.1] (87.0)
    """

    value: str
    interval: str = ""
    beside: str = ""
    level: float | None = None
    mark: str = ""
    order: int | None = None

    @property
    def short(self) -> str:
        """The number without its interval."""
        text = self.value + self.mark
        if self.beside:
            return f"{text} ({self.beside})"
        return text

    def __str__(self) -> str:
        text = with_interval(self.value, self.interval)
        if self.beside:
            text += f" ({self.beside})"
        return text + self.mark


#: A cell of a table.
Cell = str | Number


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
    rows: tuple[tuple[Cell, ...], ...]
    marked: tuple[int, ...] = ()

    def __str__(self) -> str:
        return plain_text(self)

    def __rich_console__(self, _: Console, __: ConsoleOptions) -> Iterator[RenderableType]:
        columns = []
        for place, name in enumerate(self.head):  # names stay whole, and no word of a head is cut
            width = max(map(len, name.split()), default=0)
            side = "right" if place else "left"
            columns.append(
                Column(Text(name), no_wrap=not place, min_width=width, justify=side)  # type: ignore[arg-type]
            )
        table = RichTable(*columns, box=None, padding=(0, 1, 0, 0))
        for place, row in enumerate(self.rows):
            cells = (Text(cell.short if isinstance(cell, Number) else cell) for cell in row)
            table.add_row(*cells, style="bold" if place in self.marked else None)
        yield table
        yield Text(f"{self.caption}\n", style="italic")

    def __html__(self) -> Markup:
        return Markup(render("table.html.j2", table=self))

    def latex(self) -> str:
        """Return the table for LaTeX, with booktabs."""
        import pandas as pd

        head = [latex_text(name) for name in self.head]
        cells = [[latex_text(str(cell)) for cell in row] for row in self.rows]
        text: str = pd.DataFrame(cells, columns=head).to_latex(
            index=False,
            escape=False,
            column_format="l" + "r" * (len(head) - 1),
            caption=f"{latex_text(self.caption)}.",
            label=f"tab:ruler-{self.name}",
            position="t",
        )
        return text

    def markdown(self) -> str:
        """Return the table as Markdown, below its caption."""
        lines = [markdown_text(self.caption), ""]
        lines.append(_markdown_row(self.head))
        lines.append("|---|" + "---:|" * (len(self.head) - 1))
        lines += [_markdown_row(row) for row in self.rows]
        return "\n".join([*lines, ""])


def _markdown_row(cells: Sequence[Cell]) -> str:
    return f"| {' | '.join(markdown_text(str(cell)) for cell in cells)} |"


class Printable(ABC):
    """A result that prints as tables and lines of text.

    Attributes:
        notes: what a reader must know before the numbers.
    """

    notes: tuple[str, ...] = ()

    @abstractmethod
    def display_parts(self) -> Sequence[Table | str]:
        """Return what is printed, without the notes."""

    def __rich_console__(self, console: Console, _: ConsoleOptions) -> Iterator[RenderableType]:
        for display_part in self.display_parts():
            if not isinstance(display_part, str):
                yield display_part
            elif console.is_terminal:
                yield Text(display_part, overflow="fold")
            else:  # what reads a pipe gets a line as one
                yield Text(display_part, no_wrap=True, overflow="ignore")

    def __str__(self) -> str:
        return "\n".join([plain_text(self), *(f"note: {note}" for note in self.notes)])

    __repr__ = __str__


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
