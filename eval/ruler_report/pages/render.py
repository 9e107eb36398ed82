r"""A report as one HTML page, as Markdown and as a spreadsheet."""

import csv
import io
from pathlib import Path

import jinja2
from markupsafe import Markup, escape

from ruler_report.failures import MEANINGS
from ruler_report.pages.report import Report
from ruler_report.stats.resampling import FLIPS, RESAMPLES
from ruler_report.tables.escape import fenced, markdown_text, spreadsheet, visible
from ruler_report.tables.tables import Table

TEMPLATES = Path(__file__).parent / "templates"


def html_page(report: Report) -> str:
    """Return the report as one page that needs nothing else: no network, no script, no font."""
    environment = _environment(autoescape=True)
    environment.filters["visible"] = visible
    environment.filters["visible_lines"] = lambda text: visible(text, lines=True)
    environment.filters["two_lines"] = _two_lines
    page = environment.get_template("report.html.j2")
    style = (TEMPLATES / "report.css").read_text(encoding="utf-8").strip()
    text = page.render(
        report=report,
        style=style,
        meanings=MEANINGS,
        resamples=f"{RESAMPLES:,}",
        flips=f"{FLIPS:,}",
    )
    return text.lstrip()


def markdown_page(report: Report) -> str:
    """Return the report as Markdown; its pictures are files under `figures/`."""
    environment = _environment(autoescape=False)
    environment.filters["md"] = markdown_text
    environment.filters["fenced"] = fenced
    environment.globals["table"] = markdown_table
    return environment.get_template("report.md.j2").render(report=report)


def markdown_table(table: Table) -> str:
    """Return a table as Markdown, under its caption."""
    rules = ["---", *["---:"] * (len(table.head) - 1)]
    rows = [_markdown_row(row) for row in (table.head, *table.rows)]
    rows.insert(1, f"|{'|'.join(rules)}|")
    return "\n".join([markdown_text(table.caption), "", *rows, ""])


def spreadsheet_page(report: Report) -> str:
    """Return all tables of the report as CSV, one after another."""
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    for table in report.tables:
        writer.writerow([spreadsheet(table.caption)])
        writer.writerows([spreadsheet(cell) for cell in row] for row in (table.head, *table.rows))
        writer.writerow([])
    return text.getvalue()


def _two_lines(cell: str) -> Markup:
    """Return a cell with its interval in a line of its own, so that tables are narrow."""
    value, bracket, rest = cell.partition(" [")
    if not bracket:
        return escape(cell)
    span, _, mark = rest.partition("]")
    return Markup("{}{} <small>[{}]</small>").format(value, mark, span)


def _markdown_row(cells: tuple[str, ...]) -> str:
    return f"| {' | '.join(markdown_text(cell) for cell in cells)} |"


def _environment(*, autoescape: bool) -> jinja2.Environment:
    return jinja2.Environment(
        loader=jinja2.FileSystemLoader(TEMPLATES),
        undefined=jinja2.StrictUndefined,
        autoescape=autoescape,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
    )
