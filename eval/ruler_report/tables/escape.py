r"""What models say is hostile input: made harmless for each place that it is shown in.

<script>      HTML          escaped by the template (autoescape), and no script may run (CSP)
**[x](y)**    Markdown      escaped, or fenced by more backticks than it holds
\x1b[31m      terminals     control characters written as escapes
=cmd|...      spreadsheets  kept from being a formula by an apostrophe
\u202e        any           characters that turn or hide text written as escapes
"""

import re
import unicodedata

_FORMULA = ("=", "+", "-", "@", "\t", "\r", "\n", "|", "%")
_MARKDOWN = re.compile(r"([\\`*_{}\[\]<>#|~$&!@]|:(?=/)|(?<=www)\.)")


def visible(text: str, *, lines: bool = False) -> str:
    r"""Return a text whose control, turning and invisible characters are written as escapes.

    Args:
        text: any.
        lines: whether line ends stay.

    >>> visible("a\x1b[31m\u202eb")
    'a\\x1b[31m\\u202eb'
    """
    return "".join(c if c == "\n" and lines else ascii(c)[1:-1] if _hidden(c) else c for c in text)


def markdown_text(text: str) -> str:
    r"""Return a text as one line of Markdown that shows just these characters.

    >>> markdown_text("*a*|<b>")
    '\\*a\\*\\|\\<b\\>'
    """
    return _MARKDOWN.sub(r"\\\1", visible(text))


def fenced(text: str) -> str:
    r"""Return a text as a fenced block that it cannot end.

    >>> fenced("a```b")
    '````text\na```b\n````'
    """
    longest = max((len(run) for run in re.findall("`+", text)), default=0)
    fence = "`" * max(3, longest + 1)
    return f"{fence}text\n{visible(text, lines=True)}\n{fence}"


def spreadsheet(text: str) -> str:
    """Return a text that no spreadsheet takes for a formula.

    >>> spreadsheet("=1+1"), spreadsheet("vt")
    ("'=1+1", 'vt')
    """
    shown = visible(text)
    return f"'{shown}" if shown.startswith(_FORMULA) else shown


def _hidden(character: str) -> bool:
    category = unicodedata.category(character)
    return category in ("Cc", "Cf", "Cs", "Co", "Zl", "Zp") and character != "\u200d"
