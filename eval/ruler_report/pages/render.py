"""A report as an HTML page, as Markdown and for LaTeX."""

import base64
import hashlib
import json
from typing import Any

from ruler_report.drawing import COLOURS
from ruler_report.failures import MEANINGS
from ruler_report.format import TEMPLATES, render
from ruler_report.pages.report import Report

#: Signs of the markers in pictures.
SIGNS = "●■◆▲▼✚✖★◀▶⬟⬢"


def html_page(report: Report) -> str:
    """Return the report as one self-contained page: no network, scripts or fonts are needed."""
    style = page_style("report.css")
    key = list(enumerate(zip(report.runs, SIGNS * len(report.runs), strict=False)))
    return render("report.html.j2", report=report, style=style, meanings=MEANINGS, key=key)


def board_page(board: dict[str, Any]) -> str:
    """Return a leaderboard as one page; the only script that may run is its own."""
    script = (TEMPLATES / "leaderboard.js").read_text(encoding="utf-8").strip()
    digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
    data = json.dumps(board, separators=(",", ":"))  # ASCII
    for character in "<>&":  # nothing in it can end the element that holds it
        data = data.replace(character, f"\\u{ord(character):04x}")
    style = page_style("report.css")
    return render(
        "leaderboard.html.j2", board=board, data=data, script=script, digest=digest, style=style
    )


def page_style(name: str) -> str:
    """Return a style sheet with the colours of series."""
    colours = "".join(f"--s{number}: {colour}; " for number, colour in enumerate(COLOURS))
    return f":root {{ {colours}}}\n{(TEMPLATES / name).read_text(encoding='utf-8').strip()}"


def markdown_page(report: Report) -> str:
    """Return the report as Markdown; its pictures are files in `figures/`."""
    return render("report.md.j2", report=report)


def latex_page(report: Report) -> str:
    """Return the tables and pictures of all runs together, for a paper; needs booktabs."""
    return render("report.tex.j2", report=report).strip() + "\n"
