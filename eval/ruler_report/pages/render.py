"""A report as an HTML page and as Markdown."""

from pathlib import Path

import jinja2

from ruler_report.failures import MEANINGS
from ruler_report.format import fenced, markdown_text, visible
from ruler_report.pages.report import Report

TEMPLATES = Path(__file__).parent / "templates"


def html_page(report: Report) -> str:
    """Return the report as one self-contained page: no network, scripts or fonts are needed."""
    style = (TEMPLATES / "report.css").read_text(encoding="utf-8").strip()
    page = _environment(autoescape=True).get_template("report.html.j2")
    return page.render(report=report, style=style, meanings=MEANINGS).lstrip()


def markdown_page(report: Report) -> str:
    """Return the report as Markdown; its pictures are files in `figures/`."""
    return _environment(autoescape=False).get_template("report.md.j2").render(report=report)


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
