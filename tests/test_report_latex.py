"""`ruler-eval report --format latex`: tables and figures that a paper can include."""

import re
import shutil
import subprocess
from pathlib import Path

import pytest

from ruler_report.typesetting import latex_text
from tests.commands import succeeded
from tests.conftest import ROOT
from tests.running.processes import evaluate
from tests.runs import refused
from tests.test_report import HOSTILE, few, hostile, save


@pytest.mark.slow
def test_the_report_of_the_results_fits_on_the_pages_of_a_paper(tmp_path: Path) -> None:
    paper = tmp_path / "paper"
    runs = [ROOT / "results" / f"{one}-base" for one in ("smollm2-135m-instruct", "gemma-3-270m")]
    succeeded(evaluate("report", *runs, "--format", "latex", "--out", paper))
    for path in (paper / "figures").glob("*.pdf"):
        box = re.search(rb"/MediaBox \[ ?0 0 ([\d.]+) ([\d.]+)", path.read_bytes())
        assert box and float(box[1]) == 3.25 * 72 and float(box[2]) < 7 * 72, path.name
    if not shutil.which("pdflatex"):
        pytest.skip("no pdflatex, which would set the report")
    head = r"\documentclass[twocolumn]{article}\usepackage{booktabs,graphicx}\begin{document}"
    (paper / "paper.tex").write_text(head + "\n" + r"\input{report}\end{document}")
    command = ["pdflatex", "-interaction=nonstopmode", "paper.tex"]
    log = subprocess.run(command, cwd=paper, capture_output=True, check=False).stdout.decode()
    assert "Output written on paper.pdf" in log
    assert not re.findall(r"^!.*|.*too large for page.*", log, re.MULTILINE)


def test_hostile_names_stay_text_in_latex(tmp_path: Path) -> None:
    place = save(tmp_path / "run", hostile())
    options = ("--format", "latex", "--no-pictures", "--out", tmp_path / "o")
    succeeded(evaluate("report", place, *options))
    text = (tmp_path / "o" / "report.tex").read_text(encoding="utf-8")
    assert "\x1b" not in text and latex_text(HOSTILE)[:40] in text
    assert latex_text(r"\input{/etc/passwd}%") == r"\textbackslash{}input\{/etc/passwd\}\%"


def test_an_unknown_format_is_refused_before_anything_is_written(tmp_path: Path) -> None:
    place = save(tmp_path / "run", few("one", rows=2))
    said = refused(evaluate("report", place, "--format", "word", "--out", tmp_path / "out"), code=2)
    assert "--format 'word': not known; known: html, latex" in said
    assert not (tmp_path / "out").exists()
