"""Hostile answers, names and notes: they stay text wherever a report shows them."""

import csv
import io
import re
from dataclasses import replace
from pathlib import Path

import pytest
from markdown_it import MarkdownIt

from ruler_report.results_file import Example, Results
from tests.running.processes import evaluate
from tests.test_report import Page, few, save

HOSTILE = (
    "</pre><script>document.title='owned'</script><img src=x onerror=alert(1)>"
    "\x1b[31mred\x07 \u202egnp.exe $x^2$ {{ 7*7 }} {% raw %} ](javascript:alert(1)) "
    "```\n# head\n|a|b|"
)


def hostile() -> Results:
    example = Example("vt_4096", 1, "other", 0.0, HOSTILE, ("=1+1", HOSTILE), HOSTILE)
    results = replace(few("hostile", rows=6), examples=(example,), notes=(HOSTILE,))
    run = replace(
        results.run, model=HOSTILE, engine_info={"note": HOSTILE, "=cmd": "=cmd|' /C'!A0"}
    )
    return replace(results, run=run)


@pytest.fixture(scope="module")
def hostile_report(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The report of a run in which everything that can be is hostile."""
    folder = tmp_path_factory.mktemp("hostile")
    done = evaluate("report", save(folder / "run", hostile()), "--out", folder / "out")
    assert done.returncode == 0, done.stderr
    assert "\x1b" not in done.stdout
    return folder / "out"


def test_hostile_text_stays_text_in_html(hostile_report: Path) -> None:
    text = (hostile_report / "index.html").read_text(encoding="utf-8")
    page = Page(text)
    assert {"script", "img"}.isdisjoint(tag for tag, _ in page.tags)
    assert not [name for _, attrs in page.tags for name in attrs if name.startswith("on")]
    assert "\x1b" not in text and "\u202e" not in text and "\\x1b[31mred" in page.said
    assert "{{ 7*7 }}" in page.said


def test_hostile_text_stays_text_in_markdown_and_spreadsheets(hostile_report: Path) -> None:
    markdown = (hostile_report / "report.md").read_text(encoding="utf-8")
    assert "\x1b" not in markdown and "\u202e" not in markdown
    page = Page(MarkdownIt("commonmark").enable("table").render(markdown))
    assert {"script"}.isdisjoint(tag for tag, _ in page.tags)
    assert all((img.get("src") or "").startswith("figures/") for img in page.all("img"))
    assert not page.all("a") and "head" not in re.findall(r"<h1>(.*?)</h1>", markdown)
    table = csv.reader(io.StringIO((hostile_report / "report.csv").read_text(encoding="utf-8")))
    assert all(cell[:1] not in ("=", "@", "\t", "\r") for row in table for cell in row)
