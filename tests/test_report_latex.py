"""`ruler-eval report --format latex`: tables and figures that a paper can include."""

import re
import shutil
import subprocess
from dataclasses import replace
from pathlib import Path

import pytest

import ruler_report
from ruler_data import TASKS
from ruler_report.typesetting import latex_text
from tests.commands import succeeded
from tests.conftest import ROOT
from tests.results import config_result
from tests.running.processes import evaluate
from tests.runs import refused
from tests.test_report import HOSTILE, few, hostile, save


@pytest.fixture(scope="module")
def paper(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The report of the results of two models."""
    out = tmp_path_factory.mktemp("paper")
    runs = [ROOT / "results" / f"{one}-base" for one in ("smollm2-135m-instruct", "gemma-3-270m")]
    named = ("--name", f"a_b={runs[0]}", runs[1])
    done = evaluate("report", *named, "--format", "latex", "--out", out)
    assert done.returncode == 0 and "report.tex" in done.stdout, done.stderr
    return out


@pytest.mark.slow
def test_tables_are_booktabs_with_as_many_cells_as_columns(paper: Path) -> None:
    text = (paper / "report.tex").read_text(encoding="utf-8")
    tables = re.findall(
        r"\\begin\{tabular\}\{@\{\}(l r*|lr*)@\{\}\}(.*?)\\end\{tabular\}", text, re.DOTALL
    )
    assert len(tables) == 2
    for columns, body in tables:
        rules = [body.index(rule) for rule in (r"\toprule", r"\midrule", r"\bottomrule")]
        assert rules == sorted(rules) and "|" not in columns and r"\hline" not in body
        lines = [line for line in body.splitlines() if line.endswith(r" \\")]
        assert {len(re.findall(r"(?<!\\)&", line)) for line in lines} == {len(columns) - 1}
    assert r"a\_b" in text
    bare = re.sub(r"\\\\|\\[{}]", "", text)
    assert bare.count("{") == bare.count("}")
    assert not re.search(r"\d--[-+]", text)  # two minus signs would be set as one dash


def test_every_figure_is_there_as_pdf(paper: Path) -> None:
    text = (paper / "report.tex").read_text(encoding="utf-8")
    named = set(
        re.findall(r"\\includegraphics\[width=\\linewidth,.*\]\{(figures/[\w-]+\.pdf)\}", text)
    )
    assert named and named == {f"figures/{path.name}" for path in (paper / "figures").glob("*.pdf")}
    for path in (paper / "figures").glob("*.pdf"):
        assert path.read_bytes().startswith(b"%PDF")
    assert (paper / "report.csv").is_file() and not (paper / "index.html").exists()


@pytest.mark.slow
def test_the_report_of_the_results_fits_on_the_pages_of_a_paper(paper: Path) -> None:
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


def test_bold_is_unbeaten_and_only_complete_scores_are_underlined(tmp_path: Path) -> None:
    whole, other, gaps = (
        few(f"{name}-model-7b", rate, TASKS, 40)
        for name, rate in (("whole", 0.95), ("other", 0.5), ("gaps", 0.9))
    )
    for name, one in gaps.configs.items():
        holes = [score or None for score in one.scores]
        gaps.configs[name] = replace(
            config_result(holes, family=one.family, category=one.category), questions=one.questions
        )
    ruler_report.report([whole, other, gaps], tmp_path, form="latex", pictures=False)
    text = (tmp_path / "report.tex").read_text(encoding="utf-8")
    table = text.partition(r"\label{tab:ruler-headline}")[2].partition(r"\end{table*}")[0]
    lines = {line.partition("-")[0]: line for line in table.splitlines() if line.endswith(r" \\")}
    assert r"\textbf" in lines["whole"] and r"\underline" in lines["whole"]
    assert r"\textbf" not in lines["other"]
    assert "100.0" in lines["gaps"] and r"\underline" not in lines["gaps"]
    assert "; no run is shown to be better than those in bold" in text
    assert (
        "org/gaps-model-7b: incomplete: " in table and "% org/gaps-model-7b: incomplete" not in text
    )
