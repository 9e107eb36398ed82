"""`ruler-eval report`: what it writes, what it says, and that it can be made again."""

import csv
import gzip
import io
import json
import re
from collections.abc import Iterable
from dataclasses import replace
from html.parser import HTMLParser
from pathlib import Path

import jsonschema
import pytest
from markdown_it import MarkdownIt

import ruler_report
from ruler_data import TASKS
from ruler_eval.scoring.results import Example, Scores
from ruler_eval.scoring.results_file import write_results
from ruler_report.contents import build
from ruler_report.runs import labels_of
from tests.commands import succeeded
from tests.conftest import ROOT
from tests.results import coin, results_of
from tests.running.processes import evaluate
from tests.runs import refused, reported

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


def save(folder: Path, results: Scores) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    write_results(folder / "results.json", results)
    return folder


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
    alts = [div["aria-label"] for div in page.all("div") if div.get("role") == "img"]
    assert len(alts) == 3 < len(page.all("img"))
    assert all(alt and len(alt) > 30 for alt in alts)
    ids = [attrs["id"] for _, attrs in page.tags if "id" in attrs]
    assert len(ids) == len(set(ids)), "an id stands twice"


def test_what_a_run_lacks_is_in_no_rank_and_is_named() -> None:
    base, worse, better = (few(name, rate) for name, rate in (("b", 0.9), ("w", 0.3), ("x", 1.0)))
    partial = replace(better, configs={"vt_4096": better.configs["vt_4096"]})
    alone, beside = (build([base, worse, *more], medium=None) for more in ((), (partial,)))
    assert alone.verdict[0] == "frame: 2 tasks at 4K, 8K, 12 rows of each."
    assert alone.verdict[1].endswith("it is better than every other run.")
    assert beside.verdict[0].startswith("frame: 1 task at 4K, 12 rows of each; not in it: ")
    assert "(org/b, org/w)" in beside.verdict[0]
    assert beside.verdict[1].startswith("org/b shares the highest mean with org/x, 100.0 [")


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
    one = few("one", tasks=TASKS)
    run = replace(one.run, data=replace(one.run.data, edition=edition, sample=sample))
    ruler_report.report(replace(one, run=run), tmp_path, pictures=False)
    text = (tmp_path / "report.md").read_text(encoding="utf-8")
    assert "| Gemini-1.5-Pro | 96.7 |" in text and "| org/one | all tasks | 85.6 |" in text
    assert "Table 16 of arXiv" in text and "most likely measured on upstream-2024-04" in text
    assert ("on rows of this edition with other questions" in text) == alike
    assert ("| org/one, on other rows | " in text) != alike


def test_a_report_is_made_again_from_its_results_alone(report: Path, tmp_path: Path) -> None:
    results = [report / "results-1.json.gz", report / "results-2.json.gz"]
    reported(tmp_path / "again", *results)
    again, first = ((folder / "report.csv").read_text() for folder in (tmp_path / "again", report))
    assert again.replace(" [claimed]", "") == first
    page = (tmp_path / "again" / "index.html").read_text(encoding="utf-8")
    assert page.count("validity: claimed; only results.json was read") == 1, (
        "equal lines stand once"
    )
    assert "has the highest mean" not in page  # what is only claimed is not ranked
    done = evaluate("report", *results, "--out", tmp_path / "again", "--claimed", "--no-pictures")
    assert "org/one [claimed] has the highest mean" in done.stdout


def test_the_results_keep_to_their_schema(report: Path) -> None:
    schema = json.loads((ROOT / "docs" / "results.schema.json").read_text(encoding="utf-8"))
    body = json.loads(gzip.decompress((report / "results-1.json.gz").read_bytes()))
    jsonschema.validate(body, schema)
    with pytest.raises(jsonschema.ValidationError):
        jsonschema.validate({"run": {}}, schema)


def test_long_names_keep_their_end_and_repeated_ones_are_told_apart_by_what_differs() -> None:
    def of(model: str, revision: str = "", **options: float) -> Scores:
        info = {"arguments": options}
        return results_of({"vt_4096": [1.0]}, model=model, model_revision=revision or None,
                          engine_info=info)  # fmt: skip

    long = "org/" + "a-very-long-model-name-" * 4
    first, second = labels_of([of(f"{long}snapkv-{ratio}") for ratio in (0.25, 0.5)])
    assert len(first) == 80 and first.endswith("snapkv-0.25") and second.endswith("snapkv-0.5")
    runs = [of("m"), *(of("m", ratio=ratio, window=8) for ratio in (0.25, 0.5, 0.5))]
    names = ["m", "m (ratio 0.25, window 8)", "m (ratio 0.5, window 8)"]
    assert labels_of(runs) == [*names, f"{names[2]} (2)"]
    revisions = [of("m", revision) for revision in ("v1", "v2")]
    assert labels_of(revisions) == ["m (revision v1)", "m (revision v2)"]
    same = [of(name) for name in ("x", "x", "x (2)")]
    assert labels_of(same) == ["x", "x (2)", '"x (2)"']


@pytest.mark.parametrize("command", ["report", "leaderboard"])
def test_nothing_is_written_into_a_file_a_dataset_or_a_run(command: str, tmp_path: Path) -> None:
    place = save(tmp_path / "run", few("one", rows=2))
    for name, said in (
        ("out", "a file; give a folder"),
        ("data/manifest.json", "holds a dataset; give another folder"),
        ("other/run.json", "holds a run; give another folder"),
    ):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text("mine")
        out = tmp_path / name.partition("/")[0]
        assert said in refused(evaluate(command, place, "--out", out), code=2)
        assert (tmp_path / name).read_text() == "mine"
        assert out.is_file() or len([*out.iterdir()]) == 1


HOSTILE = (
    "</pre><script>document.title='owned'</script><img src=x onerror=alert(1)>"
    "\x1b[31mred\x07 \u202egnp.exe $x^2$ {{ 7*7 }} {% raw %} ](javascript:alert(1)) "
    "```\n# head\n|a|b|"
)


def hostile() -> Scores:
    example = Example("vt_4096", 1, "other", 0.0, HOSTILE, ("=1+1", HOSTILE), HOSTILE)
    results = replace(few("hostile", rows=6), examples=(example,), notes=(HOSTILE,))
    formula = "=cmd|' /C'!A0"
    data = replace(results.run.data, tokenizer=formula)
    info = {"note": HOSTILE, "=cmd": formula}
    run = replace(results.run, model=HOSTILE, data=data, engine_info=info)
    return replace(results, run=run)


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
    assert "{{ 7*7 }}" in page.said


def test_hostile_text_stays_text_in_markdown_and_spreadsheets(hostile_report: Path) -> None:
    markdown = (hostile_report / "report.md").read_text(encoding="utf-8")
    assert "\x1b" not in markdown and "\u202e" not in markdown
    page = Page(MarkdownIt("commonmark").enable("table").render(markdown))
    assert {"script"}.isdisjoint(tag for tag, _ in page.tags)
    assert all((img.get("src") or "").startswith("figures/") for img in page.all("img"))
    assert not page.all("a") and "head" not in re.findall(r"<h1>(.*?)</h1>", markdown)
    table = csv.reader(io.StringIO((hostile_report / "report.csv").read_text(encoding="utf-8")))
    assert all(cell[:1] not in ("=", "+", "-", "@", "\t", "\r") for row in table for cell in row)
