"""How rows, manifests and tables are displayed in a prompt and a notebook, and templates of cards.

Templates are beside this module in the wheel, under `cards/` in a checkout.
"""

from collections.abc import Iterable, Mapping, Sequence
from functools import cache
from html import escape
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import jinja2

#: Characters of a text that are displayed.
LONGEST = 240


def shortened(value: object, limit: int = LONGEST) -> str:
    """Return a value as text of bounded length.

    >>> shortened(("a", "b")), shortened("long text", 4)
    ('a, b', 'long… (9 characters)')
    """
    text = str(value)
    if isinstance(value, tuple):
        text = ", ".join(map(str, value))
    if len(text) <= limit:
        return text
    return f"{text[:limit]}… ({len(text):,} characters)"


def lines_of(title: str, values: Mapping[str, object]) -> str:
    """Return a title and a line for each value, for `repr`; ASCII, which every terminal shows."""
    texts = {name: shortened(value, 70).replace("…", "...") for name, value in values.items()}
    lines = [f"  {name}: {ascii(text)[1:-1]}" for name, text in texts.items()]
    return "\n".join([f"<{title}", *lines]) + ">"


def html_table(names: Sequence[str], lines: Iterable[Sequence[object]]) -> str:
    """Return a table as notebooks show it."""
    head = "".join(f"<th>{escape(name)}</th>" for name in names)
    rows = list[str]()
    for line in lines:
        cells = "".join(f"<td>{escape(shortened(cell))}</td>" for cell in line)
        rows.append(f"<tr>{cells}</tr>")
    return f"<table><thead><tr>{head}</tr></thead><tbody>{''.join(rows)}</tbody></table>"


def html_text(shown: object) -> str:
    """Return what is printed, as notebooks show it."""
    return f"<pre>{escape(str(shown))}</pre>"


_HERE = Path(__file__).parent


@cache
def template(name: str) -> "jinja2.Template":
    """Return a template of `cards/`, compiled once; a missing variable is an error."""
    import jinja2  # cards alone need it

    environment = jinja2.Environment(
        loader=jinja2.FileSystemLoader([_HERE / "cards", _HERE.parent / "cards"]),
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
        autoescape=False,  # Markdown, with variables of this package
    )
    return environment.get_template(name)
