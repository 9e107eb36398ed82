"""Suite files that are none: not there, not text, too large, or naming what cannot be."""

import os
from pathlib import Path

import pytest

from ruler_data import UsageError
from ruler_data.suites import load_suite, with_own_domains
from tests.test_suites import write

TASK = """\
name: mine
about: One task.
tasks:
  {}
"""
NIAH = "niah_x: {family: niah, haystack: "

WRONG = {
    NIAH + "noise, domains: [a]}": "tasks.niah_x.domains: only for a haystack of domains",
    NIAH + "domains}": "tasks.niah_x.haystack: `domains` needs the key `domains`",
    NIAH + "domains, domains: [a, a]}": "tasks.niah_x.domains: one occurs twice",
    NIAH + "domains, domains: [1]}": "tasks.niah_x.domains.0: 1: Input should be a valid string",
    NIAH + "domains, domains: a}": "tasks.niah_x.domains: 'a': Input should be a valid",
    "qa_x: {family: qa, source: squad, documents: some}": "tasks.qa_x.documents: 'some': Input",
    "qa_x: {family: qa, source: ../towns.json}": "source: '../towns.json' is neither squad",
    "qa_x: {family: qa, source: towns.txt}": "source: 'towns.txt' is neither squad",
    "cwe_x: {family: cwe, vocabulary: 10}": "vocabulary: 10 words are too few for 10 common",
    "cwe_x: {family: cwe, vocabulary: 9000}": "vocabulary: 9000: Input should be less than",
}


@pytest.mark.parametrize("task", WRONG)
def test_a_wrong_task_is_refused_with_file_key_and_value(task: str, tmp_path: Path) -> None:
    path = write(tmp_path, TASK.format(task))
    with pytest.raises(UsageError) as caught:
        load_suite(str(path))
    assert str(caught.value).startswith("mine.yaml: ") and WRONG[task] in str(caught.value)


def test_an_alias_bomb_is_refused_at_once(tmp_path: Path) -> None:
    lines = ["a0: &a0 [x, x]"]
    lines += [f"a{i}: &a{i} [{', '.join([f'*a{i - 1}'] * 9)}]" for i in range(1, 12)]
    with pytest.raises(UsageError, match="anchors and aliases are not allowed"):
        load_suite(str(write(tmp_path, "\n".join(lines))))


@pytest.mark.parametrize(
    ("data", "said"),
    [
        (b"name: \xff", "mine.yaml: not UTF-8 at byte 6"),
        (b"name: x\n\nabout: \0", "mine.yaml:3: special characters are not allowed"),
        (b"", "mine.yaml:1: a suite is a mapping"),
        (bytes(200_001), "at most 200000 bytes"),
    ],
)
def test_a_file_that_is_not_text_or_too_large_is_one_line(
    data: bytes, said: str, tmp_path: Path
) -> None:
    (tmp_path / "mine.yaml").write_bytes(data)
    with pytest.raises(UsageError, match=said):
        load_suite(str(tmp_path / "mine.yaml"))


def test_what_is_no_file_is_refused_without_reading_it(tmp_path: Path) -> None:
    (tmp_path / "folder.yaml").mkdir()
    os.mkfifo(tmp_path / "pipe.yaml")
    (tmp_path / "loop.yaml").symlink_to("loop.yaml")
    for name, said in (
        ("none.yaml", "cannot be read: No such file"), ("folder.yaml", "not a file"),
        ("pipe.yaml", "not a file"), ("loop.yaml", "cannot be"),
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
