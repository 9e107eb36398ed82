"""One report, whole: what it says of three runs, to the letter (`make regold` writes it anew).

Three runs of one model over rows of the sample at three lengths, with and without an option: ranks,
differences with and without stars, effective lengths, a length left out because a row of it has no
answer, rows that flipped with their texts; and what a terminal of 80 columns shows of them, the
board and the comparison of two. Properties of reports that hold for any runs are in
`test_report.py`.
"""

import base64
import io
import json
import os
import re
import xml.etree.ElementTree as ET
from contextlib import chdir
from pathlib import Path

import pytest
from rich.console import Console, RenderableType

import ruler_builders
import ruler_report
from ruler_data import Row, __version__
from tests.runs import make_run, patchy

GOLDEN = Path(__file__).parent / "golden" / "report"
FILES = (
    "report.md", "report.csv", "report.json", "report.tex", "index.html", "board.html",
    "terminal.txt", "compare.txt", "compare.json",
)  # fmt: skip
#: Runs by name: the chance of a right answer, and the option in which they differ. The name of the
#: last has all that Markdown, LaTeX and spreadsheets read as their own.
RUNS = (("full", 0.82, None), ("half", 0.65, 0.5), ("=a_b|<i>$x^2$</i>", 0.3, 0.75))


@pytest.fixture(scope="module")
def written(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the rows, the runs, and the report in both forms; `half` lacks an answer."""
    folder = tmp_path_factory.mktemp("golden")
    data = folder / "data"
    ruler_builders.build("mistral-v0.2", out=data, tasks=["vt", "cwe", "niah_single_2"], rows=12,
                         lengths=[1024, 1536, 2048], sources="sample")  # fmt: skip
    runs = []
    for place, (name, rate, ratio) in enumerate(RUNS):

        def say(config: str, row: Row, rate: float = rate, name: str = name) -> str | None:
            is_lost = (name, config, row.index) == ("half", "vt_2048", 5)
            return None if is_lost else patchy(rate, name)(config, row)

        options = {} if ratio is None else {"arguments": {"compression_ratio": ratio}}
        run = make_run(folder / f"run-{place}", data, say, model=f"org/{name}",
                       engine_info={"version": "1.0", **options})  # fmt: skip
        runs.append(run)
    out = folder / "out"
    with chdir(folder):  # the terminal names the folder as it was given
        report = ruler_report.report(runs, "out", baseline=runs[0], data=str(data))
    ruler_report.report(runs, folder / "board", board=True, pictures=False, data=str(data))
    (out / "board.html").write_bytes((folder / "board" / "index.html").read_bytes())
    compared = ruler_report.compare(runs[1], runs[0], margin=5, data=str(data))
    (out / "terminal.txt").write_text(on_a_terminal(report), "utf-8")
    (out / "compare.txt").write_text(on_a_terminal(compared), "utf-8")
    (out / "compare.json").write_text(json.dumps(compared.to_record(), indent=1), "utf-8")
    return out


def on_a_terminal(shown: RenderableType) -> str:
    """Return what a terminal of 80 columns without colours shows."""
    console = Console(file=io.StringIO(), width=80, force_terminal=True, color_system=None)
    console.print(shown)
    assert isinstance(console.file, io.StringIO)
    return console.file.getvalue()


def words_of(image: re.Match[str]) -> str:
    """Return the words and numbers of a picture in a page, as they stand in it."""
    document = ET.fromstring(base64.b64decode(image[1]))
    return " | ".join("".join(text.itertext()) for text in document.iterfind(".//{*}text"))


@pytest.mark.parametrize("name", FILES)
def test_a_report_is_the_golden_one_to_the_letter(name: str, written: Path) -> None:
    text = (written / name).read_text("utf-8").replace(f"ruler-data {__version__}", "ruler-data")
    text = re.sub(
        r"(?s)<style>.*?</style>", "", re.sub(r"data:image[^,]+,([^\"]+)", words_of, text)
    )
    if name.endswith(".json"):  # the last digits of a float are those of a machine
        text = re.sub(r"\d+\.\d{5,}", lambda number: f"{float(number[0]):.4f}", text)
    if os.environ.get("REGOLD"):
        (GOLDEN / name).write_text(text, encoding="utf-8")
    assert text == (GOLDEN / name).read_text("utf-8")


def test_every_picture_that_a_page_names_is_a_file_and_each_is_there_for_papers(
    written: Path,
) -> None:
    text = (written / "report.md").read_text("utf-8")
    named = {*re.findall(r"(?<=[(])figures/([\w-]+)\.png", text)}
    files = {path.name for path in (written / "figures").iterdir()}
    assert files == {f"{name}.{kind}" for name in named for kind in ("png", "pdf")}
    assert len(named) == 5


def test_rows_that_flipped_stand_there_with_their_texts(written: Path) -> None:
    text = (written / "report.md").read_text("utf-8")
    flipped = r"flipped: [1-9]\d* right in org/full alone, \d+ right in org/half alone"
    assert re.search(flipped, text) and "Gold answers: " in text
