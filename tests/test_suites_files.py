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


def test_a_file_that_is_not_there_or_not_text_is_one_line(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="cannot be read: No such file"):
        load_suite(str(tmp_path / "none.yaml"))
    path = tmp_path / "mine.yaml"
    for data, said in (
        (b"name: \xff", "mine.yaml: not UTF-8 at byte 6"),
        (
            b"name: x\n\nabout: \0",
            "mine.yaml:3: special characters are not allowed",
        ),
        (b"", "mine.yaml:1: a suite is a mapping"),
    ):
        path.write_bytes(data)
        with pytest.raises(UsageError, match=said):
            load_suite(str(path))
    (tmp_path / "folder.yaml").mkdir()
    os.mkfifo(tmp_path / "pipe.yaml")
    (tmp_path / "loop.yaml").symlink_to("loop.yaml")
    for name, said in (
        ("folder", "not a file"),
        ("pipe", "not a file"),
        ("loop", "cannot be"),
    ):
        with pytest.raises(UsageError, match=said):
            load_suite(str(tmp_path / f"{name}.yaml"))
    with pytest.raises(UsageError, match="no such suite; known: ruler"):
        load_suite("none")


def test_a_file_that_is_too_large_is_refused_before_it_is_read(tmp_path: Path) -> None:
    path = tmp_path / "mine.yaml"
    with path.open("wb") as file:
        file.truncate(3_000_000_000)  # sparse
    with pytest.raises(UsageError, match="at most 200000 bytes"):
        load_suite(str(path))


def test_a_domain_that_would_take_the_name_of_a_task_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "mine.yaml"
    task = "niah_domain_letters: {family: niah, haystack: domains, domains: [legal]}"
    path.write_text(f"name: mine\nabout: Mine.\ntasks:\n  {task}\n", encoding="utf-8")
    with pytest.raises(UsageError, match="has a task niah_domain_letters already"):
        with_own_domains(load_suite(str(path)), ["letters"])


def test_a_suite_that_names_a_domain_of_ones_own_gets_no_other_task(tmp_path: Path) -> None:
    path = tmp_path / "mine.yaml"
    task = "niah_both: {family: niah, haystack: domains, domains: [legal, letters]}"
    path.write_text(f"name: mine\nabout: Mine.\ntasks:\n  {task}\n", encoding="utf-8")
    suite = load_suite(str(path))
    assert with_own_domains(suite, ["letters", "notes"]) == suite
