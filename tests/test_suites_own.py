"""Suites that name a vocabulary for `cwe`, or the user's own file of questions for `qa`."""

import json
import shutil
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from ruler_builders.sources.qa import parse_own
from ruler_builders.sources.text_files import read_json
from ruler_data import Row, RulerError, UsageError
from ruler_data.manifest import read_manifest
from ruler_data.parquet import read_rows
from ruler_data.suites import load_suite
from tests.builds import run
from tests.commands import OF_A_FOLDER, one_line, succeeded
from tests.conftest import Cli

TOWNS = [f"Town {n} lies on the river R{n}. Its mayor is Mira{n} Holt." for n in range(60)]
SQUAD = {
    "data": [
        {"paragraphs": [{"context": text, "qas": [
            {"question": f"Who is the mayor of town {n}?", "answers": [{"text": f"Mira{n} Holt"}]},
            {"question": f"How old is the mayor of town {n}?", "answers": [{"text": "seventy"}]},
        ]}]}
        for n, text in enumerate(TOWNS)
    ]
}  # fmt: skip
#: Questions that rest on three documents each, and one whose answer stands in none.
HOPS: list[dict[str, Any]] = [
    {
        "question": f"Which mayor rules the country of C{n}?",
        "answer": f"Mira{n} Holt",
        "supporting_facts": [[f"{part}{n}", 0] for part in "ABC"],
        "context": [[f"{part}{n}", [f"{part}{n} is next to {TOWNS[n]}"]] for part in "ABCD"],
    }
    for n in range(60)
]
HOPS.append({**HOPS[0], "question": "Is there a mayor in A0?", "answer": "yes"})

SUITE = """\
name: mine
about: Mine.
lengths: [2048]
rows: 3
tasks:
  qa_towns: {family: qa, source: towns.json}
  qa_hops: {family: qa, source: hops.json}
  qa_hops_alone: {family: qa, source: hops.json, documents: none, same_questions_as: qa_hops}
  cwe_90: {family: cwe, vocabulary: 90, common_repeats: 8, other_repeats: 4}
"""


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the suite's file and the sources that it names."""
    root = tmp_path_factory.mktemp("own")
    (root / "mine.yaml").write_text(SUITE, encoding="utf-8")
    (root / "towns.json").write_text(json.dumps(SQUAD), encoding="utf-8")
    (root / "hops.json").write_text(json.dumps(HOPS), encoding="utf-8")
    return root


def options(folder: Path, *, sources: bool = True) -> tuple[object, ...]:
    where = ("--sources", folder) if sources else ()
    return ("--suite", folder / "mine.yaml", "--tokenizer", "mistral-v0.2", *where)


@pytest.fixture(scope="module")
def built(folder: Path) -> Path:
    done = run(*options(folder), "--out", folder / "out", "--workers", 1)
    assert done.returncode == 0, done.stderr
    return folder / "out"


def rows_of(built: Path, task: str) -> list[Row]:
    return list(read_rows(built / f"{task}_2048/test-00000-of-00001.parquet"))


def test_questions_of_ones_own_stand_among_their_documents(built: Path) -> None:
    for row in rows_of(built, "qa_towns"):
        number = row.question.rpartition("town ")[2].rstrip("?")
        assert row.outputs == (f"Mira{number} Holt",)
        assert {row.context[one.start : one.end] for one in row.evidence} == {TOWNS[int(number)]}
    for row, alone in zip(rows_of(built, "qa_hops"), rows_of(built, "qa_hops_alone"), strict=True):
        gold = {row.context[one.start : one.end] for one in row.evidence}
        assert len(gold) == 3 and all(row.outputs[0] in text for text in gold)
        assert alone.outputs == row.outputs and not alone.evidence
        assert row.question.rpartition("\n")[2] == alone.question


def test_a_list_is_of_the_words_of_its_vocabulary_alone(built: Path) -> None:
    for row in rows_of(built, "cwe_90"):
        words = Counter(row.context[row.context.rfind("\n1. ") + 1 :].split()[1::2])
        assert len(words) <= 90
        assert {word for word, often in words.items() if often == 8} == {*row.outputs}
        assert {*words.values()} == {8, 4}


def test_the_manifest_names_a_file_of_ones_own_and_says_what_was_left_out(built: Path) -> None:
    body = json.loads((built / "manifest.json").read_text(encoding="utf-8"))
    found = {one["name"]: one for one in body["sources"]}
    for name, left in (("towns.json", 60), ("hops.json", 1)):
        assert (found[name]["kind"], found[name]["pinned"]) == ("own", False)
        assert found[name]["detail"] == f"questions: 60; left out, answer in no document: {left}"
    assert "Texts of unknown licence" in (built / "README.md").read_text(encoding="utf-8")


def test_a_config_of_more_rows_than_questions_says_that_they_repeat(
    folder: Path, tmp_path: Path
) -> None:
    for rows, said in (
        (60, []), (61, ["towns.json has 60 questions: rows from 60 on repeat these questions"]),
    ):  # fmt: skip
        few = ("--tasks", "qa_towns", "--lengths", 512, "--rows", rows)
        succeeded(run(*options(folder), *few, "--out", tmp_path / str(rows)))
        (info,) = read_manifest(tmp_path / str(rows)).configs.values()
        assert [note for note in info.exhausted if "questions" in note] == said


def test_own_rows_need_their_file(folder: Path, built: Path, tmp_path: Path, cli: Cli) -> None:
    same = cli("verify", built, "--sources", folder)
    assert same.returncode == 0, same.stdout
    without = cli("verify", built)
    assert without.returncode == 3 and "give --sources DIR" in without.stderr, without.stderr
    other = shutil.copytree(folder, tmp_path / "other", ignore=lambda *_: ["out"])
    (other / "towns.json").write_text(json.dumps(SQUAD, indent=1), encoding="utf-8")
    changed = cli("verify", built, "--sources", other)
    assert changed.returncode == 3, changed.stdout  # the file that the manifest names is not here
    assert "the source towns.json here has sha256 " in changed.stderr
    assert "give --sources DIR with that" in changed.stderr


@pytest.mark.slow
def test_what_cannot_be_built_is_refused(folder: Path, tmp_path: Path, llama3: str) -> None:
    out = ("--out", tmp_path / "out")
    lacking = run(*options(folder, sources=False), *out)
    assert "source 'towns.json': give --sources DIR with it" in one_line(lacking, 2)
    short = run(*options(folder), "--tasks", "cwe_90", "--lengths", 8192, *out)
    said = one_line(short, 2)
    assert "cwe_90: vocabulary: 90 words fill " in said and "tokens of a list at 8192" in said
    spoilt = tmp_path / "spoilt"
    spoilt.mkdir()
    (spoilt / "towns.json").write_text(json.dumps(SQUAD).replace("river", "<|eot_id|>"))
    asked = ("--tokenizer", llama3, "--sources", spoilt, "--tasks", "qa_towns")
    special = run(*options(folder)[:2], *asked, *out)
    assert "would treat this text as a special token" in one_line(special, 2, OF_A_FOLDER)
    assert not (tmp_path / "out").exists()


def test_a_file_of_ones_own_may_rest_on_several_documents(tmp_path: Path) -> None:
    path = tmp_path / "x.json"
    text = json.dumps(HOPS[:-1])
    path.write_text(text, encoding="utf-8")
    corpus, detail = parse_own(read_json(path), path.name)
    assert detail == "questions: 60; left out, answer in no document: 0"
    assert {len(one.gold) for one in corpus.questions} == {3}
    assert {len(one.near) for one in corpus.questions} == {1}
    path.write_text(text[:-9], encoding="utf-8")
    with pytest.raises(RulerError, match=r"x\.json: not JSON at character"):
        read_json(path)


#: By family: its parameters, with a budget in which no answer fits.
BUDGETS = {
    "qa": "source: towns.json, max_new_tokens: 2",
    "niah": "haystack: noise, values: 4, max_new_tokens: 20",
}


@pytest.mark.parametrize("family", BUDGETS)
def test_a_budget_without_room_is_refused(family: str, folder: Path, tmp_path: Path) -> None:
    task = f"{family}_x: {{family: {family}, {BUDGETS[family]}}}"
    text = f"name: mine\nabout: Mine.\nlengths: [2048]\nrows: 2\ntasks:\n  {task}\n"
    (tmp_path / "x.yaml").write_text(text, encoding="utf-8")
    options = ("--suite", tmp_path / "x.yaml", "--tokenizer", "mistral-v0.2", "--sources", folder)
    said = one_line(run(*options, "--out", tmp_path / "out"), 2)
    assert f"{family}_x: max_new_tokens: " in said and "no answer to row 0 fits" in said
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize(
    ("data", "said"),
    [
        ({"data": 1}, "not in SQuAD"),
        ([1], "not in HotpotQA"),
        (HOPS[-1:], "no answer stands in"),
        (
            {
                "data": [
                    {
                        "paragraphs": [
                            {
                                "context": "A\n\nDocument 3:\nB",
                                "qas": [{"question": "?", "answers": [{"text": "A"}]}],
                            }
                        ]
                    }
                ]
            },
            "paragraph .* as the head of another document",
        ),
    ],
)
def test_a_file_without_a_question_that_can_be_checked_is_refused(data: object, said: str) -> None:
    with pytest.raises(RulerError, match=f"x.json: {said}"):
        parse_own(data, "x.json")


@pytest.mark.parametrize("name", ["ruler", "hard"])
def test_a_suite_of_ones_own_has_a_name_of_its_own(name: str, folder: Path) -> None:
    path = folder / f"my-{name}.yaml"
    path.write_text(SUITE.replace("name: mine", f"name: {name}"), encoding="utf-8")
    with pytest.raises(UsageError, match=f"my-{name}.yaml: name: {name} is a suite of the package"):
        load_suite(str(path))
