"""Anybody's rows: how they are told, read or refused, and what is said of who made them."""

import json
import re
from hashlib import blake2b
from pathlib import Path
from typing import Any

import pytest

import ruler_builders
from ruler_builders.exchange.check_blacklist import entry, find
from ruler_builders.exchange.identify import NONE, Identities, Identity
from ruler_builders.exchange.imports import Imported
from ruler_builders.exchange.layouts import OtherRow, find_files, new_folder, read_file
from ruler_builders.exchange.layouts import task_of_answer as told
from ruler_builders.upstream.qa import PREFIX, TEMPLATE
from ruler_data import TASKS, RulerError, UsageError, load
from tests.commands import call_in, one_line
from tests.conftest import Cli
from tests.hub import Hub
from tests.publishing import Publisher
from tests.rows import make
from tests.test_manifest import BASE
from tests.test_sources import hotpot


@pytest.mark.parametrize("task", TASKS)
def test_the_task_of_a_prompt_is_told_by_its_form(task: str) -> None:
    row = make("mistral", task, 1, 2048)
    assert told(row.context + row.question + row.answer_prefix, row.outputs) == task
    assert told(f"<|user|>\n{row.context}{row.question}<|end|>\n", row.outputs) == task
    assert told("What is it?", row.outputs) == ""


def read(tmp_path: Path, *records: object, size: int | None = None) -> list[OtherRow | str]:
    path = tmp_path / "rows.jsonl"
    path.write_text("".join(json.dumps(record) + "\n" for record in records))
    return [*read_file(path, size)]


def one(tmp_path: Path, record: object, size: int | None = None) -> OtherRow:
    (row,) = read(tmp_path, record, size=size)
    assert isinstance(row, OtherRow), row
    return row


def test_a_prompt_is_read_into_its_parts_wherever_a_tool_puts_them(tmp_path: Path) -> None:
    row = make("mistral", "vt", 1, 2048)
    content = row.context + row.question
    base = {"outputs": list(row.outputs), "index": "7", "length": 1999, "max_new_tokens": 30}
    whole = one(tmp_path, {**base, "input": content + row.answer_prefix}, size=4096)
    assert (whole.context, whole.question) == (row.context, row.question)
    assert (whole.answer_prefix, whole.has_prefix, whole.template) == (
        row.answer_prefix,
        True,
        "base",
    )
    assert (whole.index, whole.length, whole.budget, whole.size) == (7, 1999, 30, 4096)
    assert (whole.task.name, whole.outputs, whole.layout) == ("vt", row.outputs, "upstream")
    lost = one(tmp_path, {**base, "input": content})
    assert (lost.answer_prefix, lost.has_prefix, lost.size) == (row.answer_prefix, False, None)
    apart = one(tmp_path, {**base, "input": content, "answer_prefix": row.answer_prefix.strip()})
    assert apart.answer_prefix == f" {row.answer_prefix.strip()}" and apart.has_prefix
    chat = f"[INST] {content} [/INST]{row.answer_prefix}"
    inside = one(tmp_path, {**base, "input": chat})
    assert (inside.opening, inside.closing) == ("[INST] ", " [/INST]")
    assert inside.context == f"[INST] {row.context}" and inside.answer_prefix == row.answer_prefix
    full = {"prompt": content, "extra_info": {"ground_truth": {"answers": json.dumps(row.outputs)}},
            "category": "vt_4096"}  # fmt: skip
    assert one(tmp_path, full).outputs == row.outputs and one(tmp_path, full).size == 4096
    assert one(tmp_path, full, size=8192).size == 8192  # what the user says goes before names


def upstream(**changes: Any) -> dict[str, Any]:  # noqa: ANN401 - broken values
    row = make("mistral", "vt", 1, 2048)
    return {"input": row.prompt, "outputs": ["A"], **changes}


#: Columns of a row of upstream that are changed, or another row, and what is said of it.
BROKEN: list[tuple[object, str]] = [
    (["x"], "a mapping expected, found list"),
    ({"a": 1, "b": 2}, "no known layout: its columns are a, b"),
    ({}, "no known layout: its columns are none"),
    ({"input": 5}, "column input: text expected, found int"),
    (
        {"input": "\ud800"},
        "'utf-8' codec can't encode character '\\ud800' in position 0: surrogates not allowed",
    ),
    ({"outputs": []}, "column outputs: a list of texts expected, found []"),
    ({"outputs": [1]}, "column outputs: a list of texts expected, found [1]"),
    ({"input": "Who?"}, "no question of RULER at the end of the prompt: 'Who?'"),
]


@pytest.mark.parametrize("number", range(len(BROKEN)))
def test_a_row_that_cannot_be_read_is_told_with_its_place_and_column(
    number: int, tmp_path: Path
) -> None:
    record, why = BROKEN[number]
    if isinstance(record, dict) and {"input", "outputs"} & record.keys():
        record = upstream(**record)
    good, bad = read(tmp_path, upstream(), record)
    assert isinstance(good, OtherRow)
    assert bad == f"rows.jsonl line 2: {why}"


def test_files_of_rows_are_found_by_their_ends(tmp_path: Path) -> None:
    for name in ("a.jsonl", "b.txt", "sub/c.parquet"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).touch()
    found, repo = find_files(str(tmp_path), None, "**/*")
    assert [path.name for path in found] == ["a.jsonl", "c.parquet"] and repo == ""
    assert find_files(str(tmp_path / "a.jsonl"), None, "x")[0] == [tmp_path / "a.jsonl"]
    with pytest.raises(UsageError, match=r"^--revision 'v1': '.*' is not a repo$"):
        find_files(str(tmp_path), "v1", "**/*")
    with pytest.raises(UsageError, match=r"': has no rows; files of rows end in \.jsonl, "):
        find_files(str(tmp_path / "b.txt"), None, "**/*")


def test_the_revision_that_is_asked_for_is_the_one_that_is_read(
    hub: Hub, publisher: Publisher, repo: str
) -> None:
    hub.create(repo)
    before = hub.foreign_commit(repo, "rows.jsonl", b'{"before": 1}')
    hub.foreign_commit(repo, "rows.jsonl", b'{"after": 1}')
    for revision, column in ((), "after"), (("--revision", before), "before"):
        asked = ("identify", repo, *revision)
        done = call_in(publisher.pool, "ruler-data", *asked, env=publisher.env())
        said = f"rows.jsonl line 1: no known layout: its columns are {column}"
        assert one_line(done, 1) == f"ruler-data: {said}"


def test_files_of_a_pattern_alone_are_read_of_a_repo(
    hub: Hub, publisher: Publisher, repo: str
) -> None:
    hub.create(repo)
    for name in ("one", "two", "six"):
        hub.foreign_commit(repo, f"{name}/rows.jsonl", f'{{"{name}": 1}}'.encode())
    asked = ("identify", repo, "--files", "two/*")
    done = call_in(publisher.pool, "ruler-data", *asked, env=publisher.env())
    assert one_line(done, 1) == (
        "ruler-data: rows.jsonl line 1: no known layout: its columns are two"
    )
    downloads = [line for line in hub.requests if repo in line and line.endswith("rows.jsonl")]
    assert downloads and all(line.endswith("/two/rows.jsonl") for line in downloads)


def test_a_new_folder_takes_its_place_whole_or_not_at_all(tmp_path: Path) -> None:
    out = tmp_path / "deep" / "out"
    with pytest.raises(ZeroDivisionError), new_folder(out) as folder:
        folder.mkdir()
        raise ZeroDivisionError
    assert not any(out.parent.iterdir())
    out.mkdir()
    with new_folder(out) as folder:
        folder.mkdir()
        (folder / "a").touch()
    assert [path.name for path in out.iterdir()] == ["a"]
    for taken in (out, out / "a"):
        with pytest.raises(UsageError) as refused, new_folder(taken):
            pass
        assert str(refused.value) == f"--out {str(taken)!r}: exists already; name a new folder"
    with pytest.raises(RulerError, match="cannot be written: "), new_folder(out / "a" / "b"):
        pass


def test_an_identity_is_said_in_one_line() -> None:
    none = Identity("vt", 4096, 5, "upstream", nearest="nearest is x: y", untested=("u", "v"))
    some = Identity(
        "cwe",
        None,
        5,
        "x",
        "upstream-2026-07",
        "llama3",
        "3.0.1",
        "meta-llama3",
        4,
        "row 4: z",
        ("u",),
    )
    bare = Identity("qa_1", 8192, 2, "x", "balanced", same=2)
    apart = Identity("qa_1", 8192, 2, "x", "balanced", nearest="text not compared")
    assert [str(one) for one in (none, some, bare, apart)] == [
        "vt_4096: no known edition; nearest is x: y",
        "cwe: upstream-2026-07, tokenizer llama3, wonderwords 3.0.1, chat template meta-llama3: "
        "4 of the first 5 rows the same; row 4: z",
        "qa_1_8192: balanced, tokenizer unknown: 2 of the first 2 rows the same",
        "qa_1_8192: balanced, tokenizer unknown: text not compared",
    ]
    both, nobody = Identities((none, some)), Identities((none,))
    assert (both.failure, both.exit_status, both.notes) == ("", 0, ("u", "v"))
    assert (nobody.failure, nobody.exit_status) == (NONE, 1)
    assert str(both).count("\n") == 1 and both.to_record()[1]["words"] == "3.0.1"


def test_a_blacklist_names_each_text_with_its_line() -> None:
    text = "One two, THREE.\nfour five one\ntwo three four five 12345 "
    five, number = entry("one two three four five"), entry("12345")
    assert entry("one two three four") == "" and five.split()[0] == "5" and number[:2] == "1 "
    assert [*find(text, {five: "key of vt_4096/0", number: "value of vt_4096/1"})] == [
        "line 3: value of vt_4096/1", "line 1: key of vt_4096/0", "line 2: key of vt_4096/0",
    ]  # fmt: skip
    assert [*find("one two three four", {five: "x"})] == []


def test_a_blacklist_tells_questions_apart_that_begin_with_one_instruction(tmp_path: Path) -> None:
    data = tmp_path / "data"
    ruler_builders.build(
        "mistral", tasks="qa_1", lengths=[1024], rows=4, sources="sample", out=data, progress=False
    )
    out = ruler_builders.export(data, tool="blacklist", out=tmp_path / "out")
    lines = (out / "blacklist.txt").read_text("utf-8").splitlines()
    listed = {line.split()[1]: line for line in lines if line.endswith(" question qa_1")}
    words = [re.findall(r"[^\W_]+", row.question.lower())[-13:] for row in load(data, "qa_1_1024")]
    hashes = {blake2b(" ".join(last).encode(), digest_size=8).hexdigest() for last in words}
    assert listed.keys() == hashes and len(hashes) == 4


#: Commands that contradict themselves, and what is said.
COMMANDS: list[tuple[tuple[object, ...], str]] = [
    (("publish", "--repo", "org/x"),
     "name a folder to publish, or --tokenizers to build and publish"),
    (("publish", "x", "--tokenizers", "llama3", "--repo", "org/x"),
     "name a folder to publish, or --tokenizers to build and publish"),
    (("identify", "x", "--skip-bad"), "--skip-bad: is for rows that are written; give --out"),
    (("identify", "x", "--out", "y"),
     "--out: lengths are counted in a tokenizer; give --tokenizer"),
    (("list", "suites", "ruler"),
     "suites 'ruler': only a procedure has a page; leave the name out"),
    (("list", "tokenizers", "--download", "x"),
     "--download is for `list sources`, not tokenizers"),
    (("list", "procedures", "x"), "--procedure 'x': not known; known: ruler-2024, "),
    (("show", "x", "vt_4096", "--card"), "vt_4096: --card shows the card of a dataset"),
    (("show", "x", "--repo", "org/x"), "--repo: --card shows the card of a dataset"),
    (("build", "--fresh", "--seed", 3, "--sources", "sample"),
     "--fresh draws a seed of its own; leave out --seed 3"),
]  # fmt: skip


@pytest.mark.parametrize("number", range(len(COMMANDS)))
def test_a_command_that_contradicts_itself_is_refused_in_one_line(
    number: int, tmp_path: Path, cli: Cli, monkeypatch: pytest.MonkeyPatch
) -> None:
    arguments, said = COMMANDS[number]
    monkeypatch.chdir(tmp_path)
    done = cli(*arguments)
    assert done.returncode == 2 and done.stderr.startswith(f"ruler-data: {said}"), done.stderr
    assert done.stderr.count("\n") == 1 and not any(tmp_path.iterdir())


def test_rows_that_store_no_index_are_not_said_to_be_misnumbered(
    tmp_path: Path, tiny: Path
) -> None:
    path = tmp_path / "vt_4096.jsonl"
    records = [upstream(), upstream(index=1), upstream(index=1)]
    path.write_text("".join(json.dumps(record) + "\n" for record in records))
    done = ruler_builders.identify(path, tokenizer=str(tiny), out=tmp_path / "out")
    assert isinstance(done, Imported)
    found = done.defects["vt_4096"]
    assert found["stored index is not the row's number"] == "1 of 3 rows"


def test_rows_are_compared_with_those_of_the_index_that_they_store(
    tmp_path: Path, tiny: Path
) -> None:
    row = make(str(tiny), "vt", 5, 1024)
    path = tmp_path / "vt_1024.jsonl"
    record = {"input": row.prompt, "outputs": [*row.outputs], "length": row.length}
    path.write_text(json.dumps({**record, "index": 5}))
    found = ruler_builders.identify(path, tokenizer=str(tiny))
    said = f"vt_1024: balanced, tokenizer {tiny}: 1 of the first 1 rows the same"
    assert str(found) == said


def test_an_answer_yes_rests_on_the_documents_that_the_sources_name(
    tmp_path: Path, tiny: Path
) -> None:
    documents = [f"{title}\n{title} is here. And more." for title in "ABC"]
    listed = "\n\n".join(f"Document {n}:\n{text}" for n, text in enumerate(documents, 1))
    prompt = TEMPLATE.format(context=listed, query="q?") + PREFIX
    path = tmp_path / "qa_2_1024.jsonl"
    path.write_text(json.dumps({"input": prompt, "outputs": ["yes"]}))
    sources = tmp_path / "sources"
    sources.mkdir()
    (sources / "hotpotqa.json").write_text(json.dumps(hotpot("yes", ["A", "C"], *"ABC")))
    out = tmp_path / "out"
    done = ruler_builders.identify(path, tokenizer=str(tiny), sources=sources, out=out)
    assert isinstance(done, Imported)
    assert [*done.defects["qa_2_1024"]] == ["fill below 0.99"]  # it is short
    (row,) = load(out, "qa_2_1024")
    assert [row.context[start:end] for start, end in row.evidence] == [documents[0], documents[2]]


def test_an_import_ends_with_a_table_of_what_is_wrong() -> None:
    defects: dict[str, dict[str, str]] = {name: {} for name in BASE.configs}
    defects["vt_8192"] = {"an answer is listed twice": "1 of 3 rows", "odd": "2 of 3 rows"}
    done = Imported(Path("out"), BASE, defects, ("a line 3: no", "a line 5: no"))
    assert str(done).splitlines() == [
        "# RULER rows of SQuAD", "", f"sha256 {'5' * 64}; .", "",
        "| config | rows | fill min | fill mean | found |", "|---|--:|--:|--:|---|",
        "| vt_4096 | 3 | 0.99 | 1.00 | nothing |",
        "| vt_8192 | 3 | 0.99 | 1.00 | an answer is listed twice: 1 of 3 rows; odd: 2 of 3 rows |",
        "| qa_1_8192 | 3 | 0.99 | 1.00 | nothing |", "",
        "Rows left out: 2.", "", "- a line 3: no", "- a line 5: no",
        "out: 3 configs, 9 rows imported",
    ]  # fmt: skip
    assert done.to_record() == {"configs": defects, "skipped": done.skipped}
