"""Suites: files that are read strictly, and builds of more than the thirteen."""

import json
import os
from pathlib import Path

import pytest

from ruler_data import TASKS, UsageError
from ruler_data.suites import load_suite, packaged, with_own_domains
from tests.conftest import Cli

MINE = """\
name: mine
about: A few tasks of my own.
lengths: [1024]
rows: 4
include: [vt]
tasks:
  vt_two: {family: vt, chains: 2, hops: 2}
  fwe_steep:
    family: fwe
    alpha: 3.5
    about: Steep.
  niah_grid: {family: niah, haystack: noise, depths: 11, max_new_tokens: 20}
"""


def write(folder: Path, text: str) -> Path:
    path = folder / "mine.yaml"
    path.write_text(text, encoding="utf-8")
    return path


WRONG = {
    "an unknown key": ("rows: 4", "row: 4", "mine.yaml: row: no such key; known: name, about"),
    "an unknown key of a task": ("chains: 2", "chain: 2", "mine.yaml: tasks.vt_two.chain: no su"),
    "a key twice": ("rows: 4", "rows: 4\nrows: 5", "mine.yaml:5: 'rows' occurs"),
    "a decimal for a number": ("hops: 2", "hops: 1.10", "tasks.vt_two.hops: 1.1: Input should be"),
    "impossible": ("depths: 11", "depths: 1", "mine.yaml: tasks.niah_grid.depths: a grid has"),
    "no family": ("family: vt, ", "", "mine.yaml: tasks.vt_two.family: None: must be one of"),
    "no name of its own": ("name: mine\n", "", "mine.yaml: name: is missing"),
    "nothing about it": ("about: A few tasks of my own.\n", "", "mine.yaml: about: is missing"),
    "a bare truth": ("depths: 11", "none: true", "none: True: Input should be 'no', 'possible' "
                     'or \'true\'; for the word, write "true"'),
    "no haystack": ("haystack: noise, ", "", "mine.yaml: tasks.niah_grid.haystack: is missing"),
    "one of the thirteen": ("vt_two", "vt", "tasks.vt: is the name of one of the thirteen"),
    "no name": ("vt_two", "../vt", "tasks.../vt: is not a name of a task"),
    "another name": ("vt_two", "two", "tasks.two: must be named after its family, e.g. vt_two"),
    "a length": ("[1024]", "[1024, 1k]", "mine.yaml: lengths.1: '1k': Input should be a valid"),
    "code": ("Steep.", "!!python/object/apply:os.system [x]", "mine.yaml:11: the tag 'tag:y"),
    "an anchor": ("about: Steep.", "about: &a Steep.", "anchors and aliases are not"),
    "depth": ("Steep.", "[" * 40 + "]" * 40, "nested deeper than 8 levels"),
    "two documents": ("rows: 4", "---\nrows: 4", "but found another document"),
    "Markdown": ("about: Steep.", "about: 'a | b'", "tasks.fwe_steep.about: 'a | b': must be"),
    "control": ("about: Steep.", 'about: "a\\u202eb"', ".about: 'a\\u202eb': must be one line"),
    "a name of the package": ("name: mine", "name: depth", "name: depth is a suite of the"),
    "half a character": ("about: Steep.", 'about: "\\ud800"', "an escape that is not a char"),
    "torn YAML": ("[1024]", "[1024", "mine.yaml:4: expected ',' or"),
}  # fmt: skip


def test_a_task_has_its_own_words_and_that_of_the_suite_where_it_has_none(tmp_path: Path) -> None:
    tasks = load_suite(str(write(tmp_path, MINE))).tasks
    assert (tasks["fwe_steep"].about, tasks["vt_two"].about) == (
        "Steep.",
        "A few tasks of my own.",
    )


def test_lengths_rise_and_stand_once_whatever_their_order_in_the_file(tmp_path: Path) -> None:
    path = write(tmp_path, MINE.replace("[1024]", "[4096, 1024, 4096, 2048]"))
    assert load_suite(str(path)).lengths == (1024, 2048, 4096)


def test_a_file_has_eight_levels_at_most(tmp_path: Path) -> None:
    for levels, said in ((8, "must be one line"), (9, "nested deeper than 8 levels")):
        lists = ["[" * (levels - 3), "]" * (levels - 3)]
        with pytest.raises(UsageError, match=said):
            load_suite(str(write(tmp_path, MINE.replace("Steep.", "x".join(lists)))))


def test_a_task_of_ruler_2_is_named_after_its_kind(tmp_path: Path) -> None:
    head = "name: mine\nabout: Mine.\nlengths: [1024]\ntasks:\n"
    task = "{family: ruler2, kind: mv_niah, level: easy}"
    path = write(tmp_path, f"{head}  mv_niah_mine: {task}\n")
    assert [*load_suite(str(path)).tasks] == ["mv_niah_mine"]
    with pytest.raises(UsageError, match=r"named after its family, e\.g\. mv_niah_ruler2_x"):
        load_suite(str(write(tmp_path, f"{head}  ruler2_x: {task}\n")))


@pytest.mark.parametrize("what", WRONG)
def test_a_wrong_suite_is_refused_with_file_key_and_value(what: str, tmp_path: Path) -> None:
    before, after, said = WRONG[what]
    assert MINE.count(before) == 1
    path = write(tmp_path, MINE.replace(before, after))
    with pytest.raises(UsageError) as caught:
        load_suite(str(path))
    assert said in str(caught.value)
    assert "\n" not in str(caught.value)


def test_a_task_that_cannot_fit_is_refused(tmp_path: Path, cli: Cli) -> None:
    large = "niah_x: {family: niah, haystack: noise, keys: 16, values: 16}"
    text = MINE.replace(
        "niah_grid: {family: niah, haystack: noise, depths: 11, max_new_tokens: 20}", large
    )
    options = ("--suite", write(tmp_path, text), "--lengths", 4096, "--sources", "sample")
    refused = cli("build", *options, "--tasks", "niah_x,vt", "--out", tmp_path / "out")
    assert refused.returncode == 2 and "niah_x_4096 needs at least" in refused.stderr
    assert not (tmp_path / "out").exists()


def test_a_missing_needle_among_needles_is_possible(tmp_path: Path, cli: Cli) -> None:
    text = MINE.replace("haystack: noise, depths: 11", 'haystack: needles, none: "true"')
    options = ("--suite", write(tmp_path, text), "--tasks", "niah_grid", "--rows", 2)
    done = cli("build", *options, "--sources", "sample", "--out", tmp_path / "out")
    assert done.returncode == 0, done.stderr


def test_suites_of_the_package_share_no_name_with_the_thirteen_or_one_another() -> None:
    suites = [suite for name, suite in packaged().items() if name != "ruler"]
    own = [task for suite in suites for task in suite.tasks if task not in TASKS]
    assert len(own) == len(set(own)) > 30
    assert all(suite.about and suite.lengths for suite in suites)
    assert [suite.name for suite in suites] == [name for name in packaged() if name != "ruler"]


def test_a_suite_of_ones_own_is_built_verified_and_shown(tmp_path: Path, cli: Cli) -> None:
    path, folder = write(tmp_path, MINE).rename(tmp_path / "later.yml"), tmp_path / "out"
    built = cli("build", "--suite", path, "--sources", "sample", "--out", folder)
    assert built.returncode == 0, built.stderr
    assert "4 configs of the suite mine, " in built.stdout
    path.unlink()  # the manifest says all that there is to know
    manifest = json.loads((folder / "manifest.json").read_text(encoding="utf-8"))
    assert manifest["suite"] == "mine"
    assert list(manifest["configs"]) == [
        "vt_1024", "fwe_steep_1024", "niah_grid_1024", "vt_two_1024"
    ]  # fmt: skip
    assert {one["rows"] for one in manifest["configs"].values()} == {4}
    assert sorted(manifest["tasks"]) == ["fwe_steep", "niah_grid", "vt_two"]
    verified = cli("verify", folder)
    assert verified.returncode == 0, verified.stdout + verified.stderr
    assert "a grid" not in cli("show", folder, "niah_grid_1024", 3).stderr
    card = (folder / "README.md").read_text(encoding="utf-8")
    assert "A few tasks of my own." in card or "Steep." in card


def test_a_folder_takes_no_other_suite_or_parameters(tmp_path: Path, cli: Cli) -> None:
    path, folder = write(tmp_path, MINE), tmp_path / "out"
    common = ("--sources", "sample", "--rows", 1, "--out", folder)
    assert cli("build", "--suite", path, "--tasks", "vt_two", *common).returncode == 0
    other = cli("build", "--tasks", "vt", "--lengths", "1024", *common)
    assert other.returncode == 2 and "suite mine, now ruler" in other.stderr
    write(tmp_path, MINE.replace("chains: 2", "chains: 3"))
    changed = cli("build", "--suite", path, "--tasks", "vt_two", *common)
    assert changed.returncode == 2 and "other inputs (task vt_two " in changed.stderr


def test_suites_are_listed_with_what_they_are_for(cli: Cli) -> None:
    said = cli("list", "suites", "--json")
    assert said.returncode == 0, said.stderr
    listed = {one["name"]: one for one in json.loads(said.stdout)}
    assert listed["ruler"]["tasks"] == list(TASKS)
    assert "paper" in listed and listed["depth"]["about"]
    assert "paper" in cli("list", "suites").stdout


def test_a_grid_puts_each_needle_at_its_depth(tmp_path: Path, cli: Cli) -> None:
    from ruler_data.parquet import read_rows

    folder = tmp_path / "out"
    done = cli(
        "build", "--suite", "depth", "--lengths", "4096", "--rows", 22, "--sources", "sample",
        "--out", folder,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    rows = list(read_rows(folder / "niah_depth_4096" / "test-00000-of-00001.parquet"))
    for row in rows:
        start = row.context.index("\n") + 1
        room = len(row.context) - start - (row.evidence[0].end - row.evidence[0].start)
        assert abs((row.evidence[0].start - start) / room - row.index % 11 / 10) < 0.02
    assert len({row.outputs for row in rows}) == 22


TASK = """\
name: mine
about: One task.
tasks:
  {}
"""
NIAH = "niah_x: {family: niah, haystack: "

WRONG_TASKS = {
    NIAH + "noise, domains: [a]}": "tasks.niah_x.domains: only for a haystack of domains",
    NIAH + "domains}": "tasks.niah_x.haystack: `domains` needs the key `domains`",
    NIAH + "domains, domains: [a, a]}": "tasks.niah_x.domains: one occurs twice",
    NIAH + "domains, domains: a}": "tasks.niah_x.domains: 'a': Input should be a valid",
    "qa_x: {family: qa, source: ../towns.json}": "source: '../towns.json' is neither squad",
    "qa_x: {family: qa, source: towns.txt}": "source: 'towns.txt' is neither squad",
    "cwe_x: {family: cwe, vocabulary: 10}": "vocabulary: 10 words are too few for 10 common",
    "cwe_x: {family: cwe, ask: count}": "ask: a question about a count has no example; add",
    "niah_x: {family: niah, haystack: noise, ordinal: true}": "ordinal: needs 2 to 16 values",
    "cwe_x: {family: cwe, ask: count, example: false, common_repeats: 6}": "common: 10 words have",
    "niah_x: {family: niah, haystack: noise, wording: split, values: 4, ordinal: true}": "a needle",
    "niah_x: {family: niah, haystack: noise, wording: associated, keys: 49}": "at most 48 keys",
    "graph_x: {family: graph}": "ask: is missing",
    "graph_x: {family: graph, ask: parents, steps: 2}": "steps: parents are one step away",
    "graph_x: {family: graph, ask: within, steps: 6}": "steps: 126 nodes are in the answer",
    "vt_x: {family: vt, same_questions_as: cwe}": "'cwe' is not a task of the family vt",
    "vt_x: {family: vt, same_questions_as: vt_x}": "'vt_x' has another task's questions itself",
}  # fmt: skip


@pytest.mark.parametrize("task", WRONG_TASKS)
def test_a_wrong_task_is_refused_with_file_key_and_value(task: str, tmp_path: Path) -> None:
    path = write(tmp_path, TASK.format(task))
    with pytest.raises(UsageError) as caught:
        load_suite(str(path))
    assert str(caught.value).startswith("mine.yaml: ") and WRONG_TASKS[task] in str(caught.value)


@pytest.mark.parametrize(
    ("data", "said"),
    [
        (b"name: \xff", "mine.yaml: not UTF-8 at byte 6"),
        (b"name: x\n\nabout: \0", "mine.yaml:3: special characters are not allowed"),
        (b"", "mine.yaml:1: a suite is a mapping"),
        (bytes(200_001), "at most 200,000 are read"),
    ],
)
def test_what_is_no_text_is_one_line(data: bytes, said: str, tmp_path: Path) -> None:
    (tmp_path / "mine.yaml").write_bytes(data)
    with pytest.raises(UsageError, match=said):
        load_suite(str(tmp_path / "mine.yaml"))


def test_what_is_no_file_is_refused_without_reading_it(tmp_path: Path) -> None:
    (tmp_path / "folder.yaml").mkdir()
    os.mkfifo(tmp_path / "pipe.yaml")
    (tmp_path / "loop.yaml").symlink_to("loop.yaml")
    for name, said in (
        ("none.yaml", "cannot be read: No such file"), ("folder.yaml", "Is a directory"),
        ("pipe.yaml", "not a regular file"), ("loop.yaml", "cannot be"),
    ):  # fmt: skip
        with pytest.raises(UsageError, match=said):
            load_suite(str(tmp_path / name))
    with pytest.raises(UsageError, match="no such suite; known: ruler"):
        load_suite("none")


def test_domains_of_ones_own_keep_the_names_and_the_tasks_that_are_there(tmp_path: Path) -> None:
    task = NIAH.replace("niah_x", "niah_domain_letters") + "domains, domains: [legal]}"
    with pytest.raises(UsageError, match="has a task niah_domain_letters already"):
        with_own_domains(load_suite(str(write(tmp_path, TASK.format(task)))), ["letters"])
    suite = load_suite(
        str(write(tmp_path, TASK.format(NIAH + "domains, domains: [legal, letters]}")))
    )
    assert with_own_domains(suite, ["letters", "notes"]) == suite
    legal = load_suite(str(write(tmp_path, TASK.format(NIAH + "domains, domains: [legal]}"))))
    mixed = with_own_domains(legal, ["letters", "notes"]).tasks
    assert [*mixed] == [
        "niah_x", "niah_domain_letters", "niah_domain_notes", "niah_domain_all"
    ]  # fmt: skip
    assert [getattr(task.params, "domains", ()) for task in mixed.values()] == [
        ("legal",), ("letters",), ("notes",), ("legal", "letters", "notes")
    ]  # fmt: skip
