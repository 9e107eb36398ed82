"""Templates of cards.

Templates are beside this module in the wheel, under `cards/` in a checkout.
"""

from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import jinja2


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
