"""identify, import and export: rows from other tools and for them."""

import json
import os
import runpy
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import ruler_builders
import ruler_data
import ruler_eval
from ruler_builders.checks.defects import measure_defects
from ruler_builders.exchange.identify import Identities
from ruler_builders.exchange.imports import Imported, import_rows
from ruler_builders.pipeline import build_one
from ruler_builders.upstream import (
    Arguments,
    UpstreamRow,
    UpstreamSources,
    edition_of,
    model_template,
    replay,
)
from ruler_data.manifest import SourceInfo
from ruler_data.row import Row
from ruler_data.tasks import TASKS
from tests.commands import finish, spawn, started
from tests.conftest import Builds, Cli
from tests.hub import Blob, Hub, Repo
from tests.rows import counter
from tests.running.tiny import make_tokenizer
from tests.test_build_sources import squad

pytestmark = pytest.mark.slow

Record = dict[str, object]
OLD, NEW = "upstream-2025-01", "upstream-2026-07"
TOKENIZER = "mistral-v0.2"
#: Those that count it as their own: Mistral's SentencePiece models have one vocabulary.
ALIKE = "mistral-v0.2 or mistral-v3 or mistral-v7"
TOOLS = ["nemo", "kvpress", "lm-eval", "self-long", "jsonl", "blacklist"]


@pytest.fixture(autouse=True)
def _by_the_reference(monkeypatch: pytest.MonkeyPatch) -> None:
    """An import tries its fast counter for half a second, which a few rows do not give back."""
    monkeypatch.setattr(build_one, "WORTHWHILE", 2**40)


def identify(*arguments: Any, **options: Any) -> Identities:  # noqa: ANN401 - of the command
    identities = ruler_builders.identify(*arguments, **options)
    assert isinstance(identities, Identities)
    return identities


def lines(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]


@cache
def upstream_rows(
    edition: str, task: str, rows: int = 3, template: str = "base", words: str = "",
    tokenizer: str = TOKENIZER,
) -> list[UpstreamRow]:  # fmt: skip
    arguments = Arguments(
        edition_of(edition), TASKS[task], 4096, rows, template=model_template(template)
    )
    sources = UpstreamSources(None, version=words)
    return list(replay(arguments, sources, lambda text: counter(tokenizer).count([text])[0]))


def as_upstream(row: UpstreamRow) -> Record:
    record = {"index": row.index, "input": row.input, "outputs": row.outputs, "length": row.length}
    return {**record, "answer_prefix": row.answer_prefix} if row.answer_prefix else record


def _cut(row: UpstreamRow) -> tuple[str, str, str]:
    """Return context, question and prefix of a niah row as kvpress cuts them."""
    text = row.input + row.answer_prefix
    question, prefix = text.rindex("What is the special"), text.rindex(" The special")
    return text[:question], text[question:prefix], text[prefix:]


def as_kvpress(row: UpstreamRow) -> Record:
    context, question, prefix = _cut(row)
    return {"context": context, "question": question, "answer_prefix": prefix,
            "answer": row.outputs, "task": "niah_single_1", "max_new_tokens": 128}  # fmt: skip


def as_nemo(row: UpstreamRow) -> Record:
    context, question, prefix = _cut(row)
    return {"index": row.index, "question": context + question, "expected_answer": row.outputs,
            "length": row.length, "generation": prefix.strip()}  # fmt: skip


def as_harness(row: UpstreamRow) -> Record:
    context, question, prefix = _cut(row)
    doc = {"index": row.index, "input": context + question, "outputs": row.outputs,
           "length": row.length, "max_length": 4096, "gen_prefix": prefix.strip()}  # fmt: skip
    return {"doc_id": 0, "doc": doc, "filtered_resps": [" 1"]}


def as_self_long(row: UpstreamRow) -> Record:
    return {"index": row.index, "input": row.input, "answers": row.outputs, "length": row.length,
            "predictions": {"a/b": "c"}}  # fmt: skip


def as_ruler_full(row: UpstreamRow) -> Record:
    extra = {"ruler_task": "niah_single_1", "ground_truth": {"answers": row.outputs}}
    return {"prompt": row.input, "category": "ruler/niah_single_1_4096", "extra_info": extra}


LAYOUTS: dict[str, tuple[Callable[[UpstreamRow], Record], str]] = {
    "upstream": (as_upstream, "4096/data/niah_single_1/validation.jsonl"),
    "lighteval": (as_upstream, "RULER-4096-X/data/niah_single_1-00000-of-00001.parquet"),
    "kvpress": (as_kvpress, "4096/test-00000-of-00001.parquet"),
    "NeMo-Skills": (as_nemo, "llama_4k/niah_single_1/test.jsonl"),
    "lm-eval": (as_harness, "samples_niah_single_1_2026-01-01T00-00-00.0.jsonl"),
    "self-long": (as_self_long, "niah_single_1_4k/validation-00000-of-00001.parquet"),
    "ruler-full": (as_ruler_full, "plain/validation-00000-of-00001.parquet"),
}


def write(path: Path, records: Iterator[Record] | list[Record]) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    if path.suffix == ".parquet":
        pq.write_table(pa.Table.from_pylist(list(records)), path)
    else:
        path.write_text("".join(json.dumps(record) + "\n" for record in records))
    return path


@pytest.mark.parametrize("layout", LAYOUTS)
def test_rows_of_every_layout_are_identified_and_imported(layout: str, tmp_path: Path) -> None:
    form, name = LAYOUTS[layout]
    theirs = upstream_rows(OLD, "niah_single_1", words="2.2.0")
    write(tmp_path / "theirs" / name, map(form, theirs))
    (found,) = identify(tmp_path / "theirs")
    assert found.edition.startswith(OLD) and found.same == found.rows == 3
    assert (found.task, found.length, found.words) == ("niah_single_1", 4096, "2.2.0")
    assert TOKENIZER in found.tokenizer.split(" or ")
    done = import_rows(tmp_path / "theirs", tokenizer=TOKENIZER, out=tmp_path / "mine")
    rows = ruler_data.load(tmp_path / "mine", "niah_single_1_4096")
    assert [row.prompt for row in rows] == [row.input + row.answer_prefix for row in theirs]
    assert [list(row.outputs) for row in rows] == [row.outputs for row in theirs]
    for row, other in zip(rows, theirs, strict=True):
        assert [row.context[start:end] for start, end in row.evidence] == other.evidence
        assert row.question.startswith("What is the") and row.answer_prefix.startswith(" The")
    assert not done.skipped and done.manifest.edition == "imported"
    report = ruler_builders.verify(tmp_path / "mine")
    assert report.exit_status == 3 and "somebody else made" in report.notes[0]


@pytest.mark.parametrize("edition", ["upstream-2024-04", OLD, NEW])
def test_vt_tells_all_three_editions(edition: str, tmp_path: Path) -> None:
    theirs = upstream_rows(edition, "vt")
    path = write(tmp_path / "vt_4096.jsonl", map(as_upstream, theirs))
    (found,) = identify(path)
    assert (found.edition, found.same, found.tokenizer) == (edition, 3, ALIKE)
    done = import_rows(path, tokenizer=TOKENIZER, out=tmp_path / "mine")
    assert not any("answer" in defect for defect in done.defects["vt_4096"])
    for row, other in zip(ruler_data.load(tmp_path / "mine", "vt_4096"), theirs, strict=True):
        assert [row.context[start:end] for start, end in row.evidence] == other.evidence


@pytest.mark.parametrize("tool", ["kvpress", "jsonl"])
def test_exported_rows_come_back(tool: str, builds: Builds, tmp_path: Path) -> None:
    own = builds("niah_single_3,niah_multiquery,vt,cwe,fwe,qa_2", rows=2)
    theirs = ruler_builders.export(own, tool=tool, out=tmp_path / "theirs")  # type: ignore[arg-type]
    (tmp_path / "theirs" / "ruler.json").unlink()
    done = import_rows(theirs, tokenizer=TOKENIZER, out=tmp_path / "mine")
    assert done.manifest.configs.keys() == ruler_data.load(own).manifest.configs.keys()
    for name in done.manifest.configs:
        before, after = (ruler_data.load(folder, name) for folder in (own, tmp_path / "mine"))
        assert [row.prompt for row in after] == [row.prompt for row in before]
        if TASKS[name.rpartition("_")[0]].category == "question answering":
            continue  # needs the sources
        assert [row.evidence for row in after] == [row.evidence for row in before], name
        found = [what for what in done.defects[name] if "answer" in what]
        assert not found, (name, found)


def test_the_digest_of_an_import_is_of_all_its_rows(builds: Builds, tmp_path: Path) -> None:
    theirs = ruler_builders.export(builds("vt,fwe"), tool="jsonl", out=tmp_path / "theirs")

    def imported(name: str) -> SourceInfo:
        out = tmp_path / name
        done = import_rows(theirs, tokenizer=TOKENIZER, out=out)
        (source,) = done.manifest.sources
        assert source.detail == "layout ruler-data, 2 files"
        return source

    before = imported("one")
    (theirs / "ruler.json").write_text('{"data": "elsewhere"}')
    assert imported("two") == before
    for number, path in enumerate(sorted(theirs.rglob("*.jsonl"))):
        path.write_text("\n" + path.read_text())
        assert imported(f"edited-{number}") != before


@pytest.mark.parametrize("task", ["cwe", "fwe", "niah_multikey_3"])
def test_a_chat_template_is_found_and_stays_in_the_prompt(task: str, tmp_path: Path) -> None:
    theirs = upstream_rows(NEW, task, template="meta-chat")
    path = write(tmp_path / f"{task}_4096.jsonl", map(as_upstream, theirs))
    (found,) = identify(path)
    assert (found.task, found.edition, found.template) == (task, NEW, "meta-chat")
    done = import_rows(path, tokenizer=TOKENIZER, out=tmp_path / "mine")
    assert done.manifest.chat_template == "meta-chat"
    assert "run with the protocol base" in done.report()
    assert ruler_builders.verify(tmp_path / "mine").findings == ()
    assert {*done.defects[f"{task}_4096"]}.isdisjoint(
        {"an answer is not in the prompt", "the prompt supports other answers too"}
    )


def test_without_the_tokenizer_characters_tell_edition_and_words(tmp_path: Path) -> None:
    theirs = upstream_rows(OLD, "niah_multikey_2", words="2.2.0")
    path = write(tmp_path / "niah_multikey_2_4096.jsonl", map(as_upstream, theirs))
    (found,) = identify(path, tokenizer="mistral")
    assert found.edition.startswith(OLD) and (found.words, found.tokenizer) == ("2.2.0", "")
    assert "no tokenizer here counts the stored lengths" in found.untested


@pytest.mark.slow
def test_rows_of_this_project_and_of_nobody_are_told(tmp_path: Path, cli: Cli) -> None:
    ruler_builders.build("mistral", tasks=["vt", "fwe"], lengths="4k", rows=2, out=tmp_path / "own")
    found = identify(tmp_path / "own")
    assert [(one.edition, one.tokenizer) for one in found] == [("balanced", "mistral")] * 2
    other = upstream_rows(NEW, "niah_single_1")
    text = other[0].input.replace(other[0].outputs[0], "1234567")
    record: Record = {
        "input": text,
        "outputs": ["1234567"],
        "answer_prefix": other[0].answer_prefix,
    }
    done = cli("identify", write(tmp_path / "x_4096.jsonl", [record]))
    assert done.returncode == 1 and "no known edition" in done.stderr
    assert "nearest is" in done.stdout and "Traceback" not in done.stderr


def test_rows_with_another_text_are_not_the_same(builds: Builds, tmp_path: Path) -> None:
    own = builds("vt,fwe", tokenizer="mistral")
    path = ruler_builders.export(own, tool="jsonl", out=tmp_path / "out") / "vt_1024.jsonl"
    (found,) = identify(path)
    assert (found.edition, found.tokenizer, found.same) == ("balanced", "mistral", 3)
    assert "3 of the first 3 rows the same" in str(found)
    records = [json.loads(line) for line in path.read_text().splitlines()]
    for record in records:
        record["context"] = record["context"].replace("The grass is green. ", "Junk. ")
    write(path, records)
    (found,) = identify(path)
    assert found.edition == "balanced" and found.same == 0
    assert "questions and answers of the first 3 rows the same; text not compared" in str(found)
    identities = identify(path, tokenizer="mistral")
    assert identities.exit_status == 1
    differs = "balanced with mistral: row 0: same answers, the prompt differs from character"
    assert differs in str(identities)


def test_an_edited_row_does_not_hide_the_others(builds: Builds, tmp_path: Path) -> None:
    own = ruler_builders.export(builds("vt,fwe", tokenizer="mistral"), tool="jsonl", out=tmp_path)
    balanced = [json.loads(line) for line in (own / "vt_1024.jsonl").read_text().splitlines()]
    theirs = [*map(as_upstream, upstream_rows(NEW, "niah_single_1"))]
    for records, column, by, name in (
        (balanced, "context", ("balanced", "mistral"), "vt_1024.jsonl"),
        (theirs, "input", (NEW, ALIKE), "niah_single_1_4096.jsonl"),
    ):
        text = str(records[0][column])
        records[0][column] = f"{text[:115]}#{text[116:]}"
        (found,) = identify(write(tmp_path / "edited" / name, records))
        assert (found.edition, found.tokenizer, found.same) == (*by, 2)
        said = "row 0: same answers, the prompt differs from character 115"
        assert str(found).endswith(f"2 of the first 3 rows the same; {said}")


def test_rows_of_named_sources_are_known(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "squad.json").write_bytes(squad())
    monkeypatch.setenv("RULER_SOURCES", str(tmp_path))
    ruler_builders.build("mistral", tasks=["qa_1"], lengths=[1280], rows=2, out=tmp_path / "own")
    (found,) = identify(tmp_path / "own", tokenizer="mistral")
    assert (found.edition, found.tokenizer, found.same) == ("balanced", "mistral", 2)


def test_an_edition_of_upstream_that_was_built_here_is_identified(tmp_path: Path) -> None:
    """Its lengths are of the prompts as they are sent, which upstream's are not."""
    own = {
        "tasks": ["vt", "fwe"],
        "lengths": [4096],
        "rows": 2,
        "edition": OLD,
        "template": "meta-llama3",
    }
    ruler_builders.build(TOKENIZER, **own, out=tmp_path / "own")  # type: ignore[arg-type]
    for one in identify(tmp_path / "own", tokenizer=TOKENIZER):
        assert one.edition.startswith(OLD) and one.tokenizer == f"{TOKENIZER} (by its manifest)"
        assert (one.template, one.same) == ("meta-llama3", 2)


def test_the_public_llama3_rows_are_identified(shared: Path, tmp_path: Path) -> None:
    """The first rows of niah_single_1 at 4,096 in the public set of 2024-12 begin like this."""
    tokenizer = str(shared / "tokenizers" / "llama3")
    theirs = upstream_rows(OLD, "niah_single_1", words="2.2.0", tokenizer=tokenizer)
    assert [row.outputs[0] for row in theirs] == ["8090293", "4612365", "7374122"]
    assert [row.length for row in theirs] == [3799, 3802, 3799]
    path = write(tmp_path / "niah_single_1_4096.jsonl", map(as_upstream, theirs))
    (found,) = identify(path, tokenizer=tokenizer)
    assert (found.edition[:16], found.words, found.same) == (OLD, "2.2.0", 3)


def test_defects_are_reported(tmp_path: Path) -> None:
    (first, second, third) = map(as_upstream, upstream_rows(NEW, "niah_single_1"))
    del first["answer_prefix"]
    second["outputs"] = ["7654321"]
    double = str(third["input"]).replace("\n", f"\n{'One of the special magic numbers for '}", 1)
    key = double.rpartition(" for ")[2].split(" mentioned")[0]
    double = double.replace(
        "special magic numbers for ", f"special magic numbers for {key} is: 9. ", 1
    )
    records = [first, second, third, third, {**third, "input": double}]
    path = write(tmp_path / "niah_single_1_4096.jsonl", records)
    done = import_rows(path, tokenizer=TOKENIZER, out=tmp_path / "mine")
    found = done.defects["niah_single_1_4096"]
    assert found["answer prefix lost, and put back"] == "1 of 5 rows"
    assert found["an answer is not in the prompt"] == "1 of 5 rows"
    assert found["same prompt as an earlier row"] == "1 of 5 rows"
    assert found["stored index is not the row's number"] == "5 of 5 rows"
    assert found["the prompt supports other answers too"] == "2 of 5 rows"
    assert "| niah_single_1_4096 | 5 |" in done.report()


def test_a_key_of_two_needles_is_reported() -> None:
    said = "One of the special magic numbers for dull-moon is: {}."
    question = "What is the special magic number for dull-moon mentioned in the provided text?"
    texts = [said.format(1234567), "\n".join(map(said.format, (1234567, 7654321)))]
    rows = [Row(n, "niah_single_1", text, question, "", ("1234567",), 128, 100, ())
            for n, text in enumerate(texts)]  # fmt: skip
    found = measure_defects(TASKS["niah_single_1"], rows)
    assert found == {"queried key is not unique": "1 of 2 rows"}


def test_rows_of_the_files_of_a_pattern_alone_are_imported(tmp_path: Path, cli: Cli) -> None:
    line = json.dumps(as_upstream(upstream_rows(NEW, "fwe", rows=1)[0]))
    for folder, name in (("one", "fwe_4096"), ("two", "fwe_8192")):
        (tmp_path / folder).mkdir()
        (tmp_path / folder / f"{name}.jsonl").write_text(line)
    out = tmp_path / "out"
    done = cli("identify", tmp_path, "--files", "one/*", "--tokenizer", TOKENIZER, "--out", out)
    assert done.returncode == 0, done.stderr
    assert [*ruler_data.load(out).manifest.configs] == ["fwe_4096"]


def test_bad_lines_have_number_and_reason_and_nothing_is_written(tmp_path: Path, cli: Cli) -> None:
    good = as_upstream(upstream_rows(NEW, "fwe", rows=1)[0])
    path = tmp_path / "fwe_4096.jsonl"
    lines = [json.dumps(good), "", "{", "[]", '{"a": 1}', '{"input": "?", "outputs": ["a"]}',
             json.dumps({**good, "outputs": [1]}), json.dumps({**good, "outputs": []})]  # fmt: skip
    path.write_text("\n".join(lines))
    out = tmp_path / "mine"
    done = cli("identify", path, "--tokenizer", TOKENIZER, "--out", out)
    assert done.returncode == 1 and not out.exists() and len(done.stderr.splitlines()) == 1
    assert "line 3: not JSON" in done.stderr and "line 5: no known layout" in done.stderr
    assert " and 1 more; --skip-bad leaves them out" in done.stderr  # five of six are named
    done = cli("identify", path, "--tokenizer", TOKENIZER, "--out", out, "--skip-bad")
    assert done.returncode == 0 and "Rows left out: 6." in done.stdout
    assert list(tmp_path.iterdir()) != [] and not list(tmp_path.glob(".mine*"))
    for name, where, said in (
        ("none", tmp_path / "new", "is not a registry name"),
        (TOKENIZER, out, "exists already"),
    ):
        done = cli("identify", path, "--tokenizer", name, "--out", where)
        assert done.returncode == 2 and said in done.stderr


@pytest.mark.parametrize(
    ("name", "data", "said"),
    [
        ("a_4096.parquet", b"PAR1junk", "a_4096.parquet: cannot be read"),
        ("a_4096.json", b'{"rows":', "a_4096.json: cannot be read"),
        ("a_4096.json", b'{"builder_name": "parquet"}', "no row can be read"),
        ("a_4096.json", b"[" * 100_000, "a_4096.json: cannot be read"),
        ("a_4096.jsonl", b"[" * 100_000, "line 1: not JSON (it is nested too deeply)"),
        ("a_4096.jsonl", b'{"input": "\\ud800", "outputs": ["a"]}', "surrogates not allowed"),
        ("a_4096.txt", b"", "has no rows"),
    ],
)
def test_a_broken_file_is_one_line(
    name: str, data: bytes, said: str, tmp_path: Path, cli: Cli
) -> None:
    (tmp_path / name).write_bytes(data)
    for command in (
        ("identify",),
        ("identify", "--tokenizer", TOKENIZER, "--out", tmp_path / "new"),
    ):
        done = cli(*command, tmp_path / name)
        assert done.returncode in (1, 2) and len(done.stderr.splitlines()) == 1, done.stderr
        assert said in done.stderr or command == ("identify",)
    done = cli("identify", tmp_path / name, "--out", tmp_path / "new")
    assert done.returncode == 2 and "--out: lengths are counted in a tokenizer" in done.stderr
    assert [path.name for path in tmp_path.iterdir()] == [name]


@pytest.mark.slow
def test_a_strangers_repo_is_identified_and_imported(tmp_path: Path, hub: Hub) -> None:
    """Beside its rows it keeps what repos keep: settings, a README, scores."""
    lines = "".join(
        json.dumps(as_upstream(row)) + "\n" for row in upstream_rows(OLD, "niah_single_1")
    )
    repo = hub.repos["stranger/rows"] = Repo()
    files = {"4096/data/niah_single_1/validation.jsonl": lines, "dataset_infos.json": "{}",
             "README.md": "# rows", "results/scores.json": '{"vt": 97.5}'}  # fmt: skip
    commit = repo.commit({path: Blob(text.encode(), False) for path, text in files.items()})
    env = {**hub.env(), "HF_HOME": str(tmp_path / "hf")}
    done = spawn("ruler-data", "identify", "stranger/rows", env=env)
    assert done.returncode == 0 and "niah_single_1_4096: upstream-2025-01" in done.stdout
    out = ("--tokenizer", TOKENIZER, "--out", tmp_path / "mine")
    done = spawn("ruler-data", "identify", "stranger/rows", *out, env=env)
    assert done.returncode == 0, done.stderr
    (source,) = ruler_data.load(tmp_path / "mine").manifest.sources
    assert source.title == f"stranger/rows@{commit}"
    done = spawn("ruler-data", "identify", "stranger/none", *out, env=env)
    assert done.returncode != 0 and len(done.stderr.splitlines()) == 1


@pytest.mark.slow
def test_an_import_that_is_interrupted_leaves_nothing(tmp_path: Path) -> None:
    (row,) = map(as_upstream, upstream_rows(NEW, "niah_single_1", rows=1))
    path = write(tmp_path / "niah_single_1_4096.jsonl", [row] * 5000)
    out = tmp_path / "new" / "mine"
    with started("ruler-data", "identify", path, "--tokenizer", TOKENIZER, "--out", out) as process:
        while not list(tmp_path.glob("new/.mine*/niah*")):
            assert process.poll() is None
            time.sleep(0.01)
        os.killpg(process.pid, signal.SIGINT)
        done = finish(process)
    assert done.returncode == 130 and "Traceback" not in done.stderr
    assert not list((tmp_path / "new").iterdir())


def test_a_tokenizer_that_only_the_manifest_names_is_told(tmp_path: Path, cli: Cli) -> None:
    make_tokenizer(tmp_path / "own-tokenizer")
    ruler_builders.build(
        str(tmp_path / "own-tokenizer"), tasks=["fwe"], lengths=[512], rows=2, out=tmp_path / "data"
    )
    done = cli("identify", tmp_path / "data")
    assert "balanced, tokenizer own-tokenizer (by its manifest)" in done.stdout
    assert done.stderr.count("tokenizers not here: ") == 1 and len(done.stderr.splitlines()) == 2


def test_imported_rows_are_run_scored_and_their_card_says_so(tmp_path: Path, cli: Cli) -> None:
    path = write(tmp_path / "vt_4096.jsonl", map(as_upstream, upstream_rows(OLD, "vt")))
    data = tmp_path / "mine"
    import_rows(path, tokenizer=TOKENIZER, out=data)
    ruler_eval.run(data, generate=lambda asked: [" ".join(one.row.outputs) for one in asked],
                   out=tmp_path / "run")  # fmt: skip
    assert ruler_eval.score(tmp_path / "run", data).official.mean() == 1
    card = (data / "README.md").read_text()
    assert "# RULER (imported)" in card and "Somebody else drew these rows" in card
    assert "use: 1 synthetic task, at" in card and "| Size | 1 config, named" in card
    assert cli("show", data, "--card").stdout == card


def test_a_row_is_too_long_from_a_token_over_its_length(tmp_path: Path) -> None:
    (row,) = upstream_rows(OLD, "vt", 1)
    too_long = "longer than the config's length, with BOS and template"

    def imported(length: int) -> Imported:
        path = write(tmp_path / f"{length}" / f"vt_{length}.jsonl", [as_upstream(row)])
        return import_rows(path, tokenizer=TOKENIZER, out=tmp_path / f"out-{length}")

    (counted,) = ruler_data.load(imported(4096).folder, "vt_4096")
    size = counted.length
    assert too_long not in imported(size).defects[f"vt_{size}"]
    assert too_long in imported(size - 1).defects[f"vt_{size - 1}"]


@pytest.mark.parametrize("tool", TOOLS)
def test_every_config_is_exported(tool: str, sample_build: Path, tmp_path: Path) -> None:
    out = ruler_builders.export(sample_build, tool=tool, out=tmp_path / "out")  # type: ignore[arg-type]
    about = json.loads((out / "ruler.json").read_text())
    manifest = ruler_data.load(sample_build).manifest
    assert list(about["configs"]) == list(manifest.configs)
    assert about["configs"]["vt_4096"]["max_new_tokens"] == 30
    assert ("ruler-eval score" in (out / "README.md").read_text()) == (tool != "blacklist")
    rows = ruler_data.load(sample_build, "vt_4096")
    prompts = [row.prompt for row in rows]
    if tool == "lm-eval":
        assert len(list(out.glob("*.yaml"))) == 13 + 1
        assert "max_length=4097 " in (out / "README.md").read_text()
    elif tool == "self-long":
        found = pq.read_table(out / "vt_4k" / "validation-00000-of-00001.parquet").to_pylist()
        assert [one["input"] for one in found] == prompts
        assert found[0]["answers"] == list(rows[0].outputs)
    elif tool == "nemo":
        found = lines(out / "mistral_4096" / "vt" / "test.jsonl")
        asked = [f"{one['question']} {one['generation']}" for one in found]
        assert asked == [prompt.rstrip() for prompt in prompts]
        setup = runpy.run_path(str(out / "mistral_4096" / "__init__.py"))
        assert setup["IS_BENCHMARK_GROUP"] and "ruler.mistral_4096.vt" in setup["BENCHMARKS"]
        task = runpy.run_path(str(out / "mistral_4096" / "qa_1" / "__init__.py"))
        assert "match_type=part ++inference.tokens_to_generate=32 " in task["GENERATION_ARGS"]
        gym = lines(out / "mistral_4096.jsonl")
        assert len(gym) == 13 * 6 and {one["subset"] for one in gym} == {*TASKS}
    for module in out.glob("*.py"):
        compile(module.read_text(encoding="utf-8"), module, "exec")


@pytest.mark.parametrize("tool", ["kvpress", "self-long"])
def test_an_export_is_loaded_by_the_names_that_others_use(
    tool: str, sample_build: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    out = ruler_builders.export(sample_build, tool=tool, tasks="vt,fwe", out=tmp_path / "out")  # type: ignore[arg-type]
    datasets = pytest.importorskip("datasets")
    cache = str(tmp_path / "cache")
    if tool == "kvpress":
        named = datasets.load_dataset(str(out), "4096", cache_dir=cache)["test"]
        placed = datasets.load_dataset(str(out), data_dir="4096", split="test", cache_dir=cache)
        assert named["context"] == placed["context"] and len(named) == 12
    else:
        loaded = datasets.load_dataset(str(out), "vt_4k", split="validation", cache_dir=cache)
        assert len(loaded) == 6 and loaded[0]["answers"]


def test_a_blacklist_finds_what_rows_hold(sample_build: Path, tmp_path: Path) -> None:
    out = ruler_builders.export(sample_build, tool="blacklist", out=tmp_path / "out")
    row = ruler_data.load(sample_build, "niah_single_1_4096")[0]
    needle = row.context[row.evidence[0].start : row.evidence[0].end]
    texts = {
        "clean": "The grass is green. The sky is blue. The sun is yellow. Here we go.",
        "question": f"a user asked:\n{row.question.upper()}",
        "needle": needle.replace(" ", "\n"),
        "answer": f"it was {row.outputs[0]}.",
    }
    for kind, text in texts.items():
        (tmp_path / f"{kind}.txt").write_text(f"{text}\n")
        command = [
            sys.executable,
            *map(str, (out / "check_blacklist.py", tmp_path / f"{kind}.txt")),
        ]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        assert done.returncode == (kind != "clean"), done.stderr
        assert kind == "clean" or f"{kind} of niah_single_1" in done.stdout
    (file,) = out.glob("texts/*.parquet")
    table = pq.read_table(file)
    assert table.schema.names == ["id", "text"]
    by_id = dict(zip(*table.to_pydict().values(), strict=True))
    assert by_id["niah_single_1_4096/0/needle/0"] == needle
    assert by_id["niah_single_1_4096/0/answer/0"] == row.outputs[0]
    assert len(by_id) == table.num_rows == len({*by_id.values()})


def test_an_export_never_overwrites(sample_build: Path, tmp_path: Path, cli: Cli) -> None:
    (tmp_path / "kept").write_text("x")
    done = cli("export", sample_build, "--for", "jsonl", "--out", tmp_path)
    assert done.returncode == 2 and "exists already" in done.stderr
    done = cli("export", sample_build, "--for", "jsonl", "--out", "/proc/new/out")
    assert (
        "/proc/new/out: cannot be written: No such file or directory; make it writable"
        in done.stderr
    )
    done = cli("export", sample_build, "--for", "nothing", "--out", tmp_path / "new")
    assert done.returncode == 2 and not (tmp_path / "new").exists()
