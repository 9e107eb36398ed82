"""Procedures: rows, prompts and sampling as a published number had them, and what still differs."""

import hashlib
import json
import re
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import ruler_builders
import ruler_data
import ruler_eval
import ruler_report
from ruler_builders.upstream import EDITIONS, Arguments, UpstreamSources, replay
from ruler_data.errors import RulerError, UsageError
from ruler_data.manifest import BALANCED
from ruler_data.names import parse_config
from ruler_data.procedures import Evidence, Procedure, gold_digest, procedures
from ruler_data.tasks import TASKS
from ruler_data.tokenizers import load_tokenizer
from ruler_eval.running.prompts import PROTOCOLS
from ruler_eval.running.run_dir import read_info
from ruler_report.conclusion import conclude
from ruler_report.procedures import ledger, published, tables_of
from tests.commands import succeeded
from tests.conftest import ROOT, Cli
from tests.results import results_of
from tests.rows import counter

NAME = "nemo-evaluator"


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Rows of two tasks that need no source, by a procedure."""
    out = tmp_path_factory.mktemp("procedure") / "data"
    small = {"tasks": "vt,fwe", "lengths": [1024], "rows": 2}
    ruler_builders.build("mistral-v0.2", procedure=NAME, out=out, **small)  # type: ignore[arg-type]
    return out


def run(data: Path, out: Path, **options: Any) -> Path:  # noqa: ANN401 - options of `run`
    options = {"procedure": NAME, "engine": "oracle", "model": "gold", **options}
    ruler_eval.run(data, out=out, progress=False, **options)
    return out


def test_every_fact_has_its_source_and_what_is_open_is_said(cli: Cli) -> None:
    for record in json.loads(succeeded(cli("list", "procedures", "--json")).stdout):
        assert record["sources"] and record["open"], record["name"]
        for source in record["sources"]:
            assert source["address"].startswith("https://") and source["date"] and source["says"]
        assert record["edition"] in (BALANCED, *EDITIONS)
        assert {*record["protocols"]} <= PROTOCOLS.keys()
        page = succeeded(cli("list", "procedures", record["name"])).stdout
        assert all(text in page for text in (record["metric"], *record["open"]))
    assert "known: ruler-2024, " in cli("list", "procedures", "nobody").stderr


def test_what_edition_and_words_rest_on_is_said() -> None:
    for procedure in procedures().values():
        assert procedure.derived, procedure.name
        named = bool(procedure.evidence)
        assert named is not procedure.derived.startswith(("not derived", "partly")) or (
            "no gold answers came with" in procedure.derived
        )
        assert not procedure.words or named, procedure.name  # no words without evidence


EVIDENCE = [
    (procedure, evidence) for procedure in procedures().values() for evidence in procedure.evidence
]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("procedure", "evidence"), EVIDENCE, ids=[evidence.config for _, evidence in EVIDENCE]
)
def test_an_edition_makes_the_gold_answers_that_were_published(
    procedure: Procedure, evidence: Evidence, shared: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("NLTK_DATA", str(shared / "sources" / "nltk_data"))
    tokenizer = load_tokenizer(str(shared / "tokenizers" / evidence.tokenizer))
    task, length = parse_config(evidence.config)
    arguments = Arguments(EDITIONS[procedure.edition], TASKS[task], length, evidence.rows)
    # The SQuAD beside the checkout has its articles in another order than the file of the digest.
    folder = shared / "sources" if task != "qa_1" else None
    sources = UpstreamSources(folder, version=procedure.words)
    try:
        rows = [*replay(arguments, sources, lambda text: tokenizer.count([text])[0])]
    except RulerError as error:
        pytest.skip(f"a source is not here: {error}")
    assert gold_digest(row.outputs for row in rows) == evidence.digest


#: Gold answers of qa_2 in a user's run with upstream's scripts (NVIDIA/RULER, issue 100), by row.
SHOWN = {7: "3,677 seated", 9: "yes", 14: "from 1986 to 2013", 15: "9,984"}


@pytest.mark.slow
@pytest.mark.parametrize("edition", EDITIONS)
def test_answers_that_a_user_of_upstream_showed_are_those_of_every_edition(
    edition: str, shared: Path
) -> None:
    tokenizer = load_tokenizer(str(shared / "tokenizers" / "llama3"))
    arguments = Arguments(EDITIONS[edition], TASKS["qa_2"], 4096, max(SHOWN) + 1)
    sources = UpstreamSources(shared / "sources")
    try:
        rows = [*replay(arguments, sources, lambda text: tokenizer.count([text])[0])]
    except RulerError as error:
        pytest.skip(f"a source is not here: {error}")
    assert {index: rows[index].outputs for index in SHOWN} == {
        index: [answer] for index, answer in SHOWN.items()
    }


def test_values_of_gym_s_public_rows_are_those_of_the_edition_s_stream() -> None:
    """The five rows of vt in NeMo Gym's example file, whose names need another tokenizer."""
    values = ["69735", "74925", "15311", "63707", "38693"]
    tokenizer = counter("mistral-v0.2")
    arguments = Arguments(EDITIONS["upstream-2026-07"], TASKS["vt"], 4096, 5)
    rows = replay(arguments, UpstreamSources(None), lambda text: tokenizer.count([text])[0])
    drawn = [re.findall(r"value (\d+) in the text above", row.input)[-1] for row in rows]
    generator = np.random.RandomState(arguments.seed)
    stream = [str(generator.randint(10000, 99999)) for _ in range(60)]
    for five in (values, drawn):  # each row takes one for its chain and one for its example
        start = stream.index(five[0])
        assert stream[start : start + 10 : 2] == five
    assert stream.index(values[0]) == 15


def test_a_build_takes_the_rows_and_a_run_prompt_and_sampling(data: Path, tmp_path: Path) -> None:
    manifest = ruler_data.load(data).manifest
    assert manifest.edition == "upstream-2025-01" and manifest.configs["vt_1024"].rows == 2
    chosen = run(data, tmp_path / "chat", protocol="chat")
    info = json.loads((chosen / "run.json").read_text())
    assert info["procedure"] == NAME and info["protocol"] == "chat"
    assert "{content}{answer_prefix}" in info["frame"]  # in the user's message
    options = json.loads((chosen / "starts.jsonl").read_text())["arguments"]
    assert (options["temperature"], options["top_p"], options["rows"]) == (0.0, 0.0001, 500)


def test_the_default_folder_of_a_procedure_bears_its_name(
    tiny: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    ruler_builders.build(str(tiny), procedure=NAME, tasks="fwe", lengths=[1024], rows=1)
    assert [path.name for path in Path("dist").iterdir()] == [f"{tiny.name}-{NAME}"]


def test_the_digest_of_gold_answers_is_that_of_compact_json() -> None:
    text = b'[["a","b"],["c"]]'
    assert gold_digest([("a", "b"), ("c",)]) == hashlib.sha256(text).hexdigest()


def test_fewer_rows_than_those_of_a_procedure_are_the_users(data: Path, tmp_path: Path) -> None:
    info = read_info(run(data, tmp_path / "run", rows=1))
    assert info.data.rows == {"vt_1024": 1, "fwe_1024": 1}


@pytest.mark.parametrize(
    ("call", "what"),
    [
        (lambda d, o: ruler_builders.build(procedure=NAME, edition=BALANCED, out=o), "edition"),
        (lambda d, o: ruler_builders.build(procedure=NAME, reserve=9, out=o), "reserve"),
        (lambda d, o: run(d, o, protocol="thinking"), "protocol 'thinking': .* base or chat"),
        (lambda d, o: run(d, o, temperature=1.0), "temperature"),
        (
            lambda d, o: run(d, o, procedure="upstream-2026"),
            "rows of edition upstream-2026-07, and",
        ),
        (lambda d, o: run(d, o, procedure="x"), "procedure 'x': not known"),
    ],
)
def test_what_contradicts_is_refused_before_anything_is_written(
    call: Callable[[Path, Path], object], what: str, data: Path, tmp_path: Path
) -> None:
    with pytest.raises(UsageError, match=what):
        call(data, tmp_path / "out")
    assert not (tmp_path / "out").exists()


def test_rows_with_room_are_refused_by_a_procedure_without_it(tmp_path: Path) -> None:
    rows = {"tasks": "vt", "lengths": [1024], "rows": 1, "edition": "upstream-2026-07"}
    out = tmp_path / "data"
    ruler_builders.build("mistral-v0.2", reserve=4, out=out, **rows)  # type: ignore[arg-type]
    with pytest.raises(UsageError, match="rows of reserve 0, and the data have 4; build them with"):
        run(out, tmp_path / "run", procedure="upstream-2026")
    assert not (tmp_path / "run").exists()


def test_where_a_procedure_leaves_a_choice_a_run_takes_the_first(
    data: Path, tmp_path: Path
) -> None:
    assert procedures()[NAME].protocols == ("base", "chat")
    assert read_info(run(data, tmp_path / "run")).protocol == "base"


@pytest.mark.parametrize(("lengths", "is_named"), [([4096], False), ([4096, 4000], True)])
def test_the_ledger_names_a_length_that_the_source_lacks_and_no_other(
    lengths: list[int], is_named: bool
) -> None:
    info = results_of({f"vt_{length}": [1.0] for length in lengths}).run
    source = procedures()["upstream-2026"]
    assert (4096 in source.lengths, 4000 in source.lengths) == (True, False)
    assert ("length in tokens" in [item for item, *_ in ledger(info, source)]) is is_named


def test_the_report_has_the_ledger_and_the_published_scores(data: Path, tmp_path: Path) -> None:
    folder = run(data, tmp_path / "run")
    ruler_report.score(folder)
    ruler_report.report(folder, tmp_path / "report", pictures=False)
    page = (tmp_path / "report" / "report.md").read_text(encoding="utf-8")
    for line in ("rows of a task | 500 | 2", "tasks | 13 | 2", "vt: first character | a space"):
        assert f"| {line} " in page
    assert "edition | upstream-2025-01 | " not in page  # as in the source
    with pytest.raises(UsageError, match="the run was made by procedure nemo-evaluator"):
        ruler_report.report(folder, tmp_path / "other", procedure="kvpress", pictures=False)


def test_a_run_without_one_of_the_paper_s_lengths_has_no_average_beside_the_paper(
    tmp_path: Path,
) -> None:
    scores = {f"{task}_{length}": [1.0] for task in TASKS for length in (4096, 8192)}
    ruler_report.report(results_of(scores, model="org/own"), tmp_path, pictures=False)
    page = (tmp_path / "report.md").read_text(encoding="utf-8")
    assert "| org/own, on other rows | 100.0 | 100.0 |  |  |  |  |  | ≥8K |" in page


@pytest.mark.parametrize(("rows", "chance"), [(2, "8.0"), (500, "0.7")])
def test_a_known_model_finds_its_published_scores_and_what_chance_may_do(
    rows: int, chance: str, tmp_path: Path
) -> None:
    """By hand, of 13 tasks: 196 √(.955 · .045 · (1 / (13 · 500) + 1 / (13 · rows)))."""
    scores = {f"{task}_4096": [1.0] * rows for task in TASKS}
    run = results_of(scores, model="meta-llama/Llama-3.1-8B-Instruct")
    ruler_report.report(run, tmp_path, pictures=False)
    page = (tmp_path / "report.md").read_text(encoding="utf-8")
    assert f"| Llama3.1 (8B) | 4K | 95.5 | 100.0 | ± {chance} | paper-2024-08 |" in page


def test_published_lengths_are_those_of_the_procedure() -> None:
    from ruler_report.procedures import _published

    for procedure in procedures().values():
        for _, model, scores in _published(procedure):
            assert {*scores} <= {*procedure.lengths}, model


def test_the_table_of_known_models_has_means_that_were_published() -> None:
    """Names are written in two ways; their first letters are the same."""

    def plain(name: str) -> str:
        return re.sub(r"[^a-z0-9.]", "", name.lower())

    page = (ROOT / "README.md").read_text(encoding="utf-8")
    table = page.partition("## What models score")[2].partition("\n\n*Paper*")[0]
    sources = {"paper": published("paper-2024-08"), "its authors": published("leaderboard")}
    rows = re.findall(r"^\| (.+?) \| (.+) \| (paper|its authors) \|$", table, re.MULTILINE)
    for name, cells, source in rows:
        means = [float(cell) for cell in cells.split(" | ")]
        names = [plain(line.model) for line in sources[source] if [*line.scores.values()] == means]
        assert any(other.startswith(plain(name)[:4]) for other in names), name
    assert len(rows) == 6


def test_the_ledger_has_every_item_in_which_a_run_is_not_as_the_source() -> None:
    source = procedures()["kvpress"]
    alike = {f"{task}_{length}": [1.0] * source.rows for task in TASKS for length in source.lengths}
    info = results_of(alike).run
    kept = replace(
        info, protocol=source.protocols[0], sampling={"temperature": source.temperature},
        data=replace(info.data, edition=source.edition),
    )  # fmt: skip
    always = [(item.item, item.theirs, item.ours) for item in source.differs]
    always += [("not said by the source", text, "") for text in source.open]
    assert ledger(kept, source) == always
    sampling = {"temperature": 0.5, "extra_tokens": 7, "min_tokens": 3}
    other = replace(
        kept, protocol="thinking", sampling=sampling, engine_info={"refused": ["top_k", "min_p"]},
        data=replace(info.data, edition="x", suite="hard", sample=True,
                     rows={"vt_4096": 9, "cwe_1024": 8}),
    )  # fmt: skip
    lengths = ", ".join(f"{length:,}" for length in source.lengths)
    assert ledger(other, source) == [
        ("edition", source.edition, "x"),
        ("suite", "ruler", "hard"),
        ("tasks", "13", "2"),
        ("rows of a task", str(source.rows), "8 to 9"),
        ("temperature", str(source.temperature), "0.5"),
        ("tokens beyond the budget", "0", "7"),
        ("tokens at least", "0", "3"),
        ("length in tokens", lengths, "1,024, 4,096"),
        ("protocol", " or ".join(source.protocols), "thinking"),
        ("source texts", "essays, SQuAD, HotpotQA", "the sample corpus"),
        ("a field that the server refused", "top_k", "left out"),
        ("a field that the server refused", "min_p", "left out"),
        *always,
    ]


def test_sampling_that_a_run_does_not_set_is_the_engines_own() -> None:
    source = procedures()[NAME]
    run = replace(results_of({"vt_4000": [1.0]}).run, protocol="chat", sampling={})
    entries = {item: (theirs, ours) for item, theirs, ours in ledger(run, source)}
    assert entries["temperature"] == ("0.0", "the engine's own")
    assert entries["top_p"] == ("0.0001", "the engine's own")
    assert entries["answer prefix"] == ("ends the user's message", "left out")
    by_procedure = ledger(replace(run, procedure=NAME), source)
    assert "answer prefix" not in [item for item, *_ in by_procedure]


@pytest.mark.parametrize(
    ("printed", "name", "is_same"),
    [
        ("Llama3.1 (8B)", "meta-llama/Llama-3.1-8B-Instruct", True),
        ("Llama3.1 (8B)", "meta-llama/Llama-3.1-70B-Instruct", False),
        ("GPT-4", "gpt-4-1106-preview", True),
        ("Yi", "yi-34b", False),
    ],
)
def test_a_printed_name_is_of_a_model_that_is_written_in_another_way(
    printed: str, name: str, is_same: bool
) -> None:
    from ruler_report.procedures import _is_same_model

    assert _is_same_model(printed, name) is is_same


@pytest.mark.parametrize("name", [None, "kvpress"])
def test_the_tables_of_a_procedure_say_whose_it_is(name: str | None) -> None:
    scores = {f"{task}_4096": [1.0] * 4 for task in TASKS}
    conclusion = conclude([results_of(scores, model="meta-llama/Llama-3.1-8B-Instruct")])
    tables = {table.name: table for _, table in tables_of(conclusion, 0, name)}
    run = "meta-llama/Llama-3.1-8B-Instruct"
    where = "of this model, on upstream's rows or by its authors"
    if name:
        where = f"by procedure {name}"
        assert tables["ledger"].caption == (
            f"Ledger of {run}: what differs from procedure {name} ({procedures()[name].about}), "
            "and what its sources leave open"
        )
        assert tables["ledger"].head == ("item", "in the source", "in the run")
    assert ("ledger" in tables) is bool(name)
    assert tables["expected"].caption == (
        f"What to expect of {run}: published means {where}, in percent, and how far two "
        "measurements of one model on different questions may differ by chance (95 %); what the "
        "ledger names is not in it"
    )
