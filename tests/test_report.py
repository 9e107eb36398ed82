"""`ruler-eval report`: what it writes, what it says, and that it can be made again."""

import base64
import csv
import hashlib
import io
import json
import re
from collections.abc import Iterable
from dataclasses import replace
from html.parser import HTMLParser
from pathlib import Path

import pytest
from markdown_it import MarkdownIt

import ruler_report
from ruler_data import TASKS
from ruler_eval.scoring.scores import Scores
from ruler_report.conclusion import conclude
from ruler_report.names import CLAIMED, names_of, shortened
from ruler_report.pictures import short_names
from ruler_report.typesetting import Number
from tests.commands import succeeded
from tests.results import coin, results_of, save, with_data
from tests.running.processes import evaluate
from tests.runs import refused

LENGTHS = (4096, 8192)
FEW = ("vt", "cwe")


def few(name: str, rate: float = 0.95, tasks: Iterable[str] = FEW, rows: int = 12) -> Scores:
    """Return a run of some tasks at two lengths."""
    scores = {
        f"{task}_{length}": coin(f"{name}/{task}/{length}", rate - 0.05 * place, rows)
        for task in tasks
        for place, length in enumerate(LENGTHS)
    }
    return results_of(scores, model=f"org/{name}")


@pytest.fixture(scope="module")
def report(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The report of two runs."""
    folder = tmp_path_factory.mktemp("report")
    ruler_report.report([few("one", 0.95), few("two", 0.6)], folder / "out")
    return folder / "out"


class Page(HTMLParser):
    """What a page holds: its tags with their attributes, and its text."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.said = ""
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))

    def handle_data(self, data: str) -> None:
        self.said += data

    def all(self, tag: str) -> list[dict[str, str | None]]:
        return [attrs for name, attrs in self.tags if name == tag]


def test_the_page_needs_nothing_but_itself(report: Path) -> None:
    page = Page((report / "index.html").read_text(encoding="utf-8"))
    assert {"script", "link", "iframe", "object"}.isdisjoint(tag for tag, _ in page.tags)
    policy = [meta["content"] for meta in page.all("meta") if "http-equiv" in meta]
    assert policy and policy[0] and policy[0].startswith("default-src 'none'")
    targets = [value for _, attrs in page.tags for name, value in attrs.items()
               if value and name in ("src", "href", "xlink:href")]  # fmt: skip
    outside = {target for target in targets if not target.startswith(("#", "data:image/svg+xml;"))}
    assert outside == {"https://arxiv.org/abs/2404.06654"}
    assert not re.search(r"url\((?!#)|@import", (report / "index.html").read_text())


def test_tables_and_pictures_can_be_heard(report: Path) -> None:
    page = Page((report / "index.html").read_text(encoding="utf-8"))
    assert len(page.all("caption")) == len(page.all("table")) > 5
    assert all(th.get("scope") in ("row", "col") for th in page.all("th"))
    alts = [image["alt"] for image in page.all("img")]
    assert len(alts) == 1
    assert all(alt and len(alt) > 30 for alt in alts)
    ids = [attrs["id"] for _, attrs in page.tags if "id" in attrs]
    assert len(ids) == len(set(ids)), "an id stands twice"


@pytest.mark.parametrize(
    ("edition", "sample", "alike"),
    [
        ("balanced", False, False),
        ("upstream-2024-04", False, True),
        ("upstream-2024-04", True, False),  # sample sources
        ("upstream-2026-07", False, False),
    ],
)
def test_a_run_of_all_tasks_stands_beside_published_scores_as_their_like_in_their_edition(
    edition: str, sample: bool, alike: bool, tmp_path: Path
) -> None:
    one = with_data(few("one", tasks=TASKS), edition=edition, sample=sample)
    ruler_report.report(one, tmp_path, pictures=False)
    text = (tmp_path / "report.md").read_text(encoding="utf-8")
    assert "| Gemini-1.5-Pro | 96.7 |" in text and "| org/one | the paper's | 85.6 |" in text
    places = [text.index(f"| {name} |") for name in ("Gemini-1.5-Pro", "GPT-4", "Qwen2 (72B)")]
    assert places == sorted(places)  # by the average
    assert "Table 3 of arXiv" in text and "most likely measured on upstream-2024-04" in text
    assert ("on rows of this edition with other questions" in text) == alike
    assert ("| org/one, on other rows | " in text) != alike


def test_a_report_has_the_same_numbers_in_every_form(report: Path) -> None:
    body = json.loads((report / "report.json").read_text(encoding="utf-8"))
    page = (report / "index.html").read_text(encoding="utf-8")
    markdown = (report / "report.md").read_text(encoding="utf-8")
    table = (report / "report.tex").read_text(encoding="utf-8")
    for run in body["runs"]:
        mean = run["means"][0]
        shown = f"{mean['score']:.1f}"
        assert mean["name"] == "mean" and mean["n"] == 48
        assert f"{shown} <small>[{mean['low']:.1f}, {mean['high']:.1f}]" in page
        assert f"| {shown} \\[{mean['low']:.1f}" in markdown and f"{shown} {{[}}" in table
        exact = f"{mean['beside']:.1f}"
        assert f"<td>{exact}</td>" in page and f"| {exact} |" in markdown
    assert "\\toprule" in table and "&" in table


def test_pictures_are_png_for_pages_and_pdf_for_papers(report: Path) -> None:
    figures = {"lengths.png", "lengths.pdf"}
    assert {path.name for path in (report / "figures").iterdir()} == figures
    assert (report / "figures" / "lengths.pdf").read_bytes().startswith(b"%PDF")


def test_names_are_told_apart_by_what_differs() -> None:
    def of(model: str, revision: str = "", **options: float) -> Scores:
        info = {"arguments": options}
        return results_of({"vt_4096": [1.0]}, model=model, model_revision=revision or None,
                          engine_info=info)  # fmt: skip

    long = "org/" + "a-very-long-model-name-" * 4
    first, second = names_of([of(f"{long}snapkv-{ratio}") for ratio in (0.25, 0.5)])
    assert len(first) == 80 and first.endswith("snapkv-0.25") and second.endswith("snapkv-0.5")
    runs = [of("m"), *(of("m", ratio=ratio, window=8) for ratio in (0.25, 0.5, 0.5))]
    names = ["m", "m (ratio 0.25)", "m (ratio 0.5)"]
    assert names_of(runs) == [*names, f"{names[2]} (2)"]
    revisions = [of("m", revision) for revision in ("v1", "v2")]
    assert names_of(revisions) == ["m (revision v1)", "m (revision v2)"]
    options = [of("m", revision, ratio=ratio) for revision, ratio in (("v1", 0.25), ("v2", 0.5))]
    assert names_of(options) == ["m (ratio 0.25)", "m (ratio 0.5)"]
    assert names_of([of(name) for name in ("x", "x", "x (2)")]) == ["x", "x (2)", '"x (2)"']


def test_short_names_never_look_alike() -> None:
    sizes = ("0.5B", "1.5B", "14B")
    names = [f"Qwen/Qwen2.5-Coder-{size}-Instruct-Q4_K_M-of-somebody" for size in sizes]
    for most in (12, 20, 30):
        short = shortened([*names, names[0]], most)
        assert len({*short}) == 3 and short[0] == short[3]
    assert all(size in name for size, name in zip(sizes, shortened(names, 30), strict=True))
    runs = [results_of({"vt_4096": [1.0] * 9}, model=name) for name in names]
    assert len({*short_names(conclude(runs))}) == 3


def test_a_board_sorts_and_says_what_a_report_says(tmp_path: Path) -> None:
    runs = [few(f"m{place}", 0.3 + 0.1 * place) for place in range(6)]
    hostile_name = results_of(
        {f"{task}_{n}": [0.0] * 12 for task in FEW for n in LENGTHS},
        model="</script><script>alert(1)</script>",
    )
    ruler_report.report([*runs, hostile_name], tmp_path, board=True, pictures=False)
    text = (tmp_path / "index.html").read_text(encoding="utf-8")
    assert "script-src 'sha256-" in text and "<script>alert" not in text
    page = Page(text)
    assert len(page.all("button")) == len(page.all("th")) - 7 == 9
    body = json.loads((tmp_path / "report.json").read_text(encoding="utf-8"))
    assert body["headline"] in page.said


def test_a_board_sorts_effective_lengths_by_their_tokens(tmp_path: Path) -> None:
    runs = [
        results_of({f"{task}_{n}": [score] * 12 for task in TASKS for n, score in scores.items()})
        for scores in ({4096: 1.0, 8192: 1.0}, {4096: 1.0, 8192: 0.1}, {4096: 0.1, 8192: 0.1})
    ]
    ruler_report.report(runs, tmp_path, board=True, pictures=False)
    text = (tmp_path / "index.html").read_text(encoding="utf-8")
    body = re.search(r'class="table board".*?<tbody>(.*?)</tbody>', text, re.DOTALL)
    assert body
    lines = [re.findall(r"<td.*?</td>", line) for line in body[1].split("<tr>")[1:]]
    sorts = [re.findall(r'data-value="(.*?)"', cells[3]) for cells in lines]
    assert [[float(value) for value in values] for values in sorts] == [[8192], [4096], [0]]


def test_nothing_is_written_into_a_file_a_dataset_or_a_run(tmp_path: Path) -> None:
    place = save(tmp_path / "run", few("one", rows=2))
    for name, said in (
        ("out", "a file; give a folder"),
        ("data/manifest.json", "holds a dataset; give another folder"),
        ("other/run.json", "holds a run; give another folder"),
    ):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text("mine")
        out = tmp_path / name.partition("/")[0]
        assert said in refused(evaluate("report", place, "--out", out), code=2)
        assert (tmp_path / name).read_text() == "mine"
        assert out.is_file() or len([*out.iterdir()]) == 1


HOSTILE = (
    "</pre><script>document.title='owned'</script><img src=x onerror=alert(1)>"
    "\x1b[31mred\x07 \u202egnp.exe\u2028\u2029 $x^2$ {{ 7*7 }} {% raw %} ](javascript:alert(1)) "
    "```\n# head\n|a|b|"
)


def hostile() -> Scores:
    results = replace(few("hostile", rows=6), notes=(HOSTILE,))
    formula = "=cmd|' /C'!A0"
    info = {"note": HOSTILE, "=cmd": formula}
    run = replace(results.run, model=HOSTILE, engine_info=info)
    return with_data(replace(results, run=run), tokenizer=formula)


@pytest.fixture(scope="module")
def hostile_report(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The report of a run in which everything that can be is hostile."""
    folder = tmp_path_factory.mktemp("hostile")
    done = evaluate("report", save(folder / "run", hostile()), "--out", folder / "out")
    assert "\x1b" not in succeeded(done).stdout
    return folder / "out"


def test_hostile_text_stays_text_in_html(hostile_report: Path) -> None:
    text = (hostile_report / "index.html").read_text(encoding="utf-8")
    page = Page(text)
    assert "script" not in {tag for tag, _ in page.tags}
    assert all((img["src"] or "").startswith("data:image/svg+xml;") for img in page.all("img"))
    assert not [name for _, attrs in page.tags for name in attrs if name.startswith("on")]
    assert "\x1b" not in text and "\u202e" not in text and "\\x1b[31mred" in page.said
    assert "\u2028" not in text and "\u2029" not in text
    assert "\\u202egnp.exe\\u2028\\u2029" in page.said
    assert "{{ 7*7 }}" in page.said


def test_hostile_text_stays_text_in_markdown_and_spreadsheets(hostile_report: Path) -> None:
    markdown = (hostile_report / "report.md").read_text(encoding="utf-8")
    assert not {"\x1b", "\u202e", "\u2028", "\u2029"} & {*markdown}
    page = Page(MarkdownIt("commonmark").enable("table").render(markdown))
    assert {"script"}.isdisjoint(tag for tag, _ in page.tags)
    assert all((img.get("src") or "").startswith("figures/") for img in page.all("img"))
    assert not page.all("a") and "head" not in re.findall(r"<h1>(.*?)</h1>", markdown)
    table = csv.reader(io.StringIO((hostile_report / "report.csv").read_text(encoding="utf-8")))
    assert all(cell[:1] not in ("=", "+", "-", "@", "\t", "\r") for row in table for cell in row)


def test_the_script_of_a_board_is_the_one_that_its_policy_lets_run(tmp_path: Path) -> None:
    ruler_report.report([few("a"), few("b")], tmp_path, board=True, pictures=False)
    text = (tmp_path / "index.html").read_text(encoding="utf-8")
    (script,) = re.findall("<script>(.*?)</script>", text, re.DOTALL)
    digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
    assert f"script-src 'sha256-{digest}'" in text


def test_a_number_is_short_in_a_terminal_and_whole_on_a_page() -> None:
    number = Number("97.1", "95.0, 98.1", beside="87.0", mark="*")
    assert (number.short, str(number)) == ("97.1* (87.0)", "97.1 [95.0, 98.1] (87.0)*")
    assert (Number("97.1").short, str(Number("97.1", mark="*"))) == ("97.1", "97.1*")


@pytest.mark.parametrize("most", [12, 16, 30, 80])
def test_a_short_name_has_at_most_so_many_characters_with_its_mark(most: int) -> None:
    stems = [f"org/model-{size}-instruct-{'x' * 60}" for size in ("0.5b", "1.5b", "14b")]
    marked = [f"{stem}{CLAIMED}" for stem in stems]
    for names in (stems, [*marked, "a"], [*stems, marked[0]]):
        short = shortened(names, most + len(CLAIMED))
        assert max(map(len, short)) <= most + len(CLAIMED)
        assert len({*short}) == len({*names})
        for name, text in zip(names, short, strict=True):
            assert text.endswith(CLAIMED) == name.endswith(CLAIMED)
    assert shortened(["a" * most, "b" * (most + 1)], most)[0] == "a" * most
    long = f"{'a' * most}{'b' * most}"
    assert shortened([long], most) == [f"{'a' * (most // 2 - 1)}…{'b' * (most // 2)}"]
