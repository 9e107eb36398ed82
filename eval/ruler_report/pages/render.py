"""A report as an HTML page, as Markdown and for LaTeX."""

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
