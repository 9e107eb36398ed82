"""`report.tex` and the pictures as PDF: what a paper can include."""

import re
import shutil
import subprocess
from pathlib import Path

import pytest

import ruler_report
from ruler_report.typesetting import latex_text, spreadsheet
from tests.test_report import HOSTILE, few, hostile


@pytest.mark.slow
def test_the_table_and_pictures_fit_on_the_pages_of_a_paper(tmp_path: Path) -> None:
    ruler_report.report([few("one"), few("two", 0.5)], tmp_path)
    for path in (tmp_path / "figures").glob("*.pdf"):
        box = re.search(rb"/MediaBox \[ ?0 0 ([\d.]+) ([\d.]+)", path.read_bytes())
        assert box and float(box[1]) == 3.25 * 72 and float(box[2]) < 7 * 72, path.name
    if not shutil.which("pdflatex"):
        pytest.skip("no pdflatex, which would set the table")
    head = r"\documentclass{article}\usepackage{booktabs,graphicx}\begin{document}"
    (tmp_path / "paper.tex").write_text(head + "\n" + r"\input{report}\end{document}")
    command = ["pdflatex", "-interaction=nonstopmode", "paper.tex"]
    log = subprocess.run(command, cwd=tmp_path, capture_output=True, check=False).stdout.decode()
    assert "Output written on paper.pdf" in log
    assert not re.findall(r"^!.*", log, re.MULTILINE)


def test_hostile_names_stay_text_in_latex(tmp_path: Path) -> None:
    ruler_report.report([hostile(), few("one", rows=6)], tmp_path, pictures=False)
    text = (tmp_path / "report.tex").read_text(encoding="utf-8")
    assert "\x1b" not in text and latex_text(HOSTILE)[:30] in text
    assert latex_text(r"\input{/etc/passwd}%") == r"\textbackslash{}input\{/etc/passwd\}\%"


@pytest.mark.parametrize("first", "=+-@|%")
def test_a_cell_of_a_spreadsheet_is_no_formula(first: str) -> None:
    assert spreadsheet(f"{first}1") == f"'{first}1"
    assert spreadsheet(f"1{first}") == f"1{first}"
