"""A report as an HTML page, as Markdown and for LaTeX."""

import base64
import hashlib
import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import jinja2

from ruler_report.failures import MEANINGS
from ruler_report.figures.style import COLOURS, DARK
from ruler_report.format import fenced, latex_text, markdown_text, visible
from ruler_report.pages.report import Report

#: Signs of the markers in pictures.
SIGNS = "●■◆▲▼✚✖★◀▶⬟⬢"
#: Rows of a table on one page of a paper.
TALLEST = 45
TEMPLATES = Path(__file__).parent / "templates"


def html_page(report: Report) -> str:
    """Return the report as one self-contained page: no network, scripts or fonts are needed."""
    style = page_style("report.css")
    page = _environment(autoescape=True).get_template("report.html.j2")
    key = list(enumerate(zip(report.runs, SIGNS * len(report.runs), strict=False)))
    return page.render(report=report, style=style, meanings=MEANINGS, key=key).lstrip()


def board_page(board: dict[str, Any]) -> str:
    """Return a leaderboard as one page; the only script that may run is its own."""
    script = (TEMPLATES / "leaderboard.js").read_text(encoding="utf-8").strip()
    digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
    data = json.dumps(board, separators=(",", ":"))  # ASCII
    for character in "<>&":  # nothing in it can end the element that holds it
        data = data.replace(character, f"\\u{ord(character):04x}")
    page = _environment(autoescape=True).get_template("leaderboard.html.j2")
    style = page_style("report.css")
    return page.render(board=board, data=data, script=script, digest=digest, style=style).lstrip()


def page_style(name: str) -> str:
    """Return a style sheet with the colours of series, which differ on dark pages."""
    light, dark = (
        "".join(f"--s{number}: {colour}; " for number, colour in enumerate(colours))
        for colours in (COLOURS, DARK)
    )
    sheet = (TEMPLATES / name).read_text(encoding="utf-8").strip()
    on_dark = f"@media screen and (prefers-color-scheme: dark) {{ :root {{ {dark}}} }}"
    return f":root {{ {light}}}\n{on_dark}\n{sheet}"


def markdown_page(report: Report) -> str:
    """Return the report as Markdown; its pictures are files in `figures/`."""
    return _environment(autoescape=False).get_template("report.md.j2").render(report=report)


def latex_page(report: Report) -> str:
    """Return the tables and pictures of all runs together, for a paper; needs booktabs."""
    parts = ["% Needs \\usepackage{booktabs,graphicx}, and figures/ beside the paper."]
    parts += [f"% {line}" for line in (*report.verdict, *report.validity, *report.notes)]
    for section in (
        one for chapter in report.chapters if not chapter.folded for one in chapter.sections
    ):
        parts += [
            "\n".join((
                r"\begin{figure}[t]",
                r"\centering",
                r"\includegraphics[width=\linewidth,height=.8\textheight,keepaspectratio]"
                rf"{{figures/{picture.name}.pdf}}",
                rf"\caption{{{latex_text(picture.title)}.}}",
                rf"\label{{fig:ruler-{picture.name}}}",
                r"\end{figure}",
            ))
            for picture in section.pictures
        ]  # fmt: skip
        for table in section.tables:
            several = len(table.rows) > TALLEST
            for start in range(0, len(table.rows), TALLEST):
                name = f"{table.name}-{start // TALLEST + 1}" if several else table.name
                rows = table.rows[start : start + TALLEST]
                parts.append(replace(table, name=name, rows=rows).latex())
    return "\n\n".join(part.strip() for part in parts) + "\n"


def _environment(*, autoescape: bool) -> jinja2.Environment:
    environment = jinja2.Environment(
        loader=jinja2.FileSystemLoader(TEMPLATES),
        undefined=jinja2.StrictUndefined,
        autoescape=autoescape,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
    )
    environment.filters |= {
        "fenced": fenced,
        "md": markdown_text,
        "visible": visible,
        "visible_lines": lambda text: visible(text, lines=True),
    }
    return environment
