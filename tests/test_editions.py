"""`--edition upstream-...`: built, verified, run and reported like any folder, and never mixed."""

import hashlib
import json
import shutil
from dataclasses import replace
from itertools import product
from pathlib import Path

import pytest

from ruler_builders import verify
from ruler_builders.upstream import EDITIONS, Arguments, UpstreamSources, replay
from ruler_builders.upstream.columns import columns
from ruler_builders.upstream.edition import edition_of, model_template
from ruler_builders.upstream.sources import Question
from ruler_data import TASKS, RulerError, UsageError
from ruler_data.manifest import BALANCED, read_manifest
from ruler_data.names import config_file
from ruler_data.parquet import read_rows
from ruler_data.tasks import Niah
from ruler_data.tokenizers import load_tokenizer
from tests import commands
from tests.commands import Done
from tests.conftest import Cli
from tests.tampering import edit_manifest
from tests.test_golden import compare

#: Tasks that need no texts.
TASK_NAMES = ("niah_single_1", "vt", "cwe", "fwe")
OLD, NEW = "upstream-2025-01", "upstream-2026-07"
#: What is said of the file of `test_what_cannot_be_built_is_one_line`.
UNKNOWN = f"sha256 {hashlib.sha256(b'[]').hexdigest()} is not a known file of upstream"


def build(out: Path, *more: object, edition: str = NEW) -> tuple[object, ...]:
    """Return the command of a small build; a list in `more` replaces that of the same option."""
    lists = {"--tasks": ",".join(TASK_NAMES), "--lengths": 4096}
    given = [part for pair in lists.items() if pair[0] not in more for part in pair]
    return (
        *("build", "--edition", edition, "--tokenizer", "mistral-v0.2", "--rows", 3),
        *(*given, "--out", out, *more),
    )


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory, cli: Cli) -> Path:
    out = tmp_path_factory.mktemp("editions") / "new"
    done = cli(*build(out))
    assert done.returncode == 0, done.stderr
    return out


def test_the_manifest_and_the_card_name_the_edition_and_its_defects(folder: Path) -> None:
    assert read_manifest(folder).edition == NEW
    card = (folder / "README.md").read_text()
    assert f"pretty_name: RULER (mistral-v0.2, {NEW})" in card
    assert "| cwe_4096 |" in card and "different layouts: 1 in 3 rows" in card
    assert "every row is fitted individually" not in card


def test_verify_replays_every_row(folder: Path, tmp_path: Path) -> None:
    report = verify(folder)
    assert report.exit_status == 0 and report.made == report.rows == 12
    forged = tmp_path / "forged"
    shutil.copytree(folder, forged)
    edit_manifest(forged, edition=OLD)
    findings = verify(forged).findings
    assert any(finding.startswith("vt_4096/0: context is ") for finding in findings)


def test_a_folder_never_mixes_editions(folder: Path, cli: Cli) -> None:
    done = cli(*build(folder, edition=OLD))
    assert done.returncode == 2
    assert "holds a build with other inputs (edition upstream-2026-07, now upstream-2025-01)" in (
        done.stderr
    )


def test_a_chat_template_is_part_of_the_prompt_and_of_the_inputs(tmp_path: Path, cli: Cli) -> None:
    done = cli(*build(tmp_path / "chat", "--template", "meta-chat", "--tasks", "vt"))
    assert done.returncode == 0, done.stderr
    (row, *_) = read_rows(tmp_path / "chat" / config_file("vt_4096"))
    assert row.context.startswith("[INST] Memorize") and row.question.endswith(" [/INST]")
    tokenizer = load_tokenizer("mistral-v0.2")
    sent = tokenizer.prompt_ids(row.context + row.question, row.answer_prefix, None)
    assert row.length == len(sent) + row.max_new_tokens <= 4096 + 1
    assert verify(tmp_path / "chat").findings == ()
    assert cli(*build(tmp_path / "chat", "--tasks", "vt")).returncode == 2


def test_a_reserve_is_kept_free_in_every_row(tmp_path: Path, cli: Cli) -> None:
    done = cli(*build(tmp_path / "out", "--reserve", 200, "--tasks", "vt"))
    assert done.returncode == 0, done.stderr
    rows = [*read_rows(tmp_path / "out" / config_file("vt_4096"))]
    assert len(rows) == 3 and all(row.length <= 3896 + 1 for row in rows)  # BOS, as above


@pytest.mark.parametrize(
    ("more", "said"),
    [
        (("--edition", "upstream-2023-01"), "is not known"),
        (("--template", "llama"), "is not known"),
        (("--fresh",), "--fresh: not possible with --edition"),
        (("--sources", "sample"), "--sources sample: not possible"),
        (("--seed", 2**32), "--seed 4294967296: not possible"),
        (("--seed", 7, "--edition", "upstream-2024-04"), "--seed 7: not possible"),
        (("--suite", "depth", "--tasks", "all"), "not possible with --edition"),
        (("--edition", OLD, "--reserve", 9), "--reserve 9: not possible"),
        (("--edition", BALANCED, "--template", "meta-chat"), "--template: only for"),
        (("--tasks", "qa_2"), "source hotpotqa"),
        (("--tasks", "qa_2", "--sources", "pinned"), f"ruler-data: source hotpotqa: {UNKNOWN}\n"),
        (("--tasks", "cwe", "--lengths", 262144), "english_words.json"),
        (("--tasks", "vt", "--lengths", 200), "limit 200; use another length\n"),
        (("--tasks", "vt", "--reserve", 260), "another length, or a smaller --reserve\n"),
        (("--tasks", "fwe", "--lengths", 149), "fwe_149: upstream needs a length >= 150"),
        (("--tasks", "fwe", "--lengths", 99, "--edition", OLD), "needs a length >= 100"),
    ],
)
def test_what_cannot_be_built_is_one_line(
    more: tuple[object, ...], said: str, tmp_path: Path, cli: Cli
) -> None:
    (tmp_path / "hotpotqa.json").write_text("[]")
    env = {"RULER_SOURCES": str(tmp_path)} if "pinned" in more else {}
    done = cli(*build(tmp_path / "out", *more), env=env)
    assert done.returncode in (1, 2) and said in done.stderr
    assert "Traceback" not in done.stderr and len(done.stderr.strip().splitlines()) <= 2


def test_an_unknown_edition_is_answered_with_all_that_there_are() -> None:
    with pytest.raises(UsageError) as refused:
        edition_of("upstream-2020")
    assert str(refused.value).endswith(f"known: {', '.join([BALANCED, *EDITIONS])}")


@pytest.mark.parametrize("error", [ValueError, IndexError])
def test_a_script_of_upstream_that_ends_with_an_error_is_one_line(
    error: type[Exception], monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: object) -> None:
        raise error("a name twice")

    monkeypatch.setattr("ruler_builders.upstream.vt.replay", fail)
    arguments = Arguments(EDITIONS[NEW], TASKS["vt"], 4096, 1)
    with pytest.raises(RulerError, match=r"vt_4096: .* ends with an error before its first row"):
        list(replay(arguments, UpstreamSources(None), len))


def test_a_template_is_a_known_name_or_a_text_with_one_place_for_the_task() -> None:
    assert model_template("meta-chat") == "[INST] {task_template} [/INST]"
    assert model_template("U: {task_template} A:") == "U: {task_template} A:"
    for wrong in ("U: A:", "{task_template} {task_template}", "nosuch"):
        with pytest.raises(UsageError, match="is not known; known: base, meta-chat"):
            model_template(wrong)


def test_words_of_the_users_sources_go_before_those_installed(tmp_path: Path) -> None:
    (tmp_path / "wonderwords").mkdir()
    for kind, words in (("noun", "cat\nant\n"), ("adjective", "big\n"), ("verb", "go\n")):
        (tmp_path / "wonderwords" / f"{kind}list.txt").write_text(words)
    assert [*UpstreamSources(tmp_path).needle_words] == ["big-ant", "big-cat"]
    assert len(UpstreamSources(None).needle_words) > 1_000_000


@pytest.mark.parametrize(
    ("edition", "names"), [(OLD, ["words"]), (NEW, ["words", "english_words"])]
)
def test_english_words_are_a_source_only_since_2025_06(
    edition: str, names: list[str], tmp_path: Path
) -> None:
    (tmp_path / "english_words.json").write_text('{"1": "cat"}')
    infos = UpstreamSources(tmp_path).infos(TASKS["cwe"], EDITIONS[edition])
    assert [info.name for info in infos] == names


def test_essays_that_are_not_upstreams_one_file_are_refused(tmp_path: Path) -> None:
    (tmp_path / "PaulGrahamEssays").mkdir()
    (tmp_path / "PaulGrahamEssays" / "love.txt").write_text("What do you love?")
    with pytest.raises(RulerError) as refused:
        _ = UpstreamSources(tmp_path).essays
    assert str(refused.value).endswith(
        ": upstream reads one file, PaulGrahamEssays*.json; give --sources DIR with it"
    )


@pytest.mark.parametrize(("values", "word"), [(1, "answer"), (4, "answers")])
def test_a_question_for_one_value_makes_a_chat_template_singular_too(
    values: int, word: str
) -> None:
    task = replace(TASKS["niah_single_1"], params=Niah("noise", values=values))
    template = model_template("vicuna-chat")
    arguments = Arguments(EDITIONS[NEW], task, 1024, 1, template=template)
    (row,) = replay(arguments, UpstreamSources(None), lambda text: len(text.split()))
    assert f"detailed, and polite {word} to the user's questions. USER: " in row.input


def test_runs_of_two_editions_are_never_compared(folder: Path, tmp_path: Path, cli: Cli) -> None:
    old = tmp_path / "old"
    assert cli(*build(old, edition=OLD)).returncode == 0
    for data, name in ((folder, "a"), (old, "b")):
        ran = evaluate(
            *("run", "--data", data, "--model", "golden", "--engine", "oracle"),
            *("--out", tmp_path / name),
        )
        assert ran.returncode == 0, ran.stderr
        assert evaluate("score", tmp_path / name, "--data", data).returncode == 0
    for command in ("compare", "report"):
        out = ("--out", tmp_path / "report") if command == "report" else ()
        done = evaluate(command, tmp_path / "a", tmp_path / "b", *out)
        assert done.returncode == 1 and "the editions" in done.stderr, done.stderr
    forced = evaluate("compare", tmp_path / "a", tmp_path / "b", "--force")
    assert forced.returncode == 1 and "the editions" in forced.stderr
    done = evaluate("report", tmp_path / "a", "--no-pictures", "--out", tmp_path / "report")
    assert done.returncode == 0, done.stderr
    assert f"edition {NEW}: upstream's own rows" in (tmp_path / "report" / "report.md").read_text()


def evaluate(*arguments: object) -> Done:
    """Run a command of `ruler-eval` to its end."""
    return commands.run("ruler-eval", *arguments)


class FourDocuments(UpstreamSources):
    """Four documents, and a question that the third of them answers."""

    def __init__(self) -> None:
        super().__init__(None)

    def corpus(self, name: str) -> tuple[list[str], list[Question]]:  # type: ignore[override]
        documents = [f"Harbour {number} of {name}." for number in range(4)]
        return documents, [Question("Which one?", ["2"], [2], [], [documents[2]])]


@pytest.mark.parametrize(
    ("edition", "often"),
    [("upstream-2024-04", [1, 1, 1, 1]), (OLD, [1, 1, 1, 1]), (NEW, [8, 7, 7, 7])],
)
def test_documents_are_repeated_beyond_their_end_only_since_2025_06(
    edition: str, often: list[int]
) -> None:
    arguments = Arguments(EDITIONS[edition], TASKS["qa_1"], 256, 1)
    (row,) = replay(arguments, FourDocuments(), lambda text: len(text.split()))
    assert [row.input.count(f"\nHarbour {number} of squad.\n") for number in range(4)] == often


def test_where_the_questions_end_the_rows_are_named_and_not_the_reserve() -> None:
    arguments = Arguments(EDITIONS[NEW], TASKS["qa_1"], 256, 2, template_tokens=9)
    rows = replay(arguments, FourDocuments(), lambda text: len(text.split()))
    assert next(rows)
    with pytest.raises(RulerError, match=r"there are 1 questions; build fewer rows$"):
        next(rows)


def test_a_gold_document_is_evidence_wherever_it_stands() -> None:
    arguments = Arguments(EDITIONS[NEW], TASKS["qa_1"], 256, 1)
    (row,) = replay(arguments, FourDocuments(), lambda text: len(text.split()))
    context, _, _, evidence, _ = columns(row, arguments.task.params)
    texts = [context[span.start : span.end] for span in evidence]
    assert texts == ["Harbour 2 of squad."] * 7
    assert len({*evidence}) == 7


@pytest.mark.slow
def test_rows_of_editions_at_other_lengths_are_golden() -> None:
    """Of a tokenizer that counts words and letters, at lengths with other steps and lists."""

    def count(text: str) -> int:
        return len(text.split()) + len(text) // 16

    found: dict[str, object] = {}
    tasks = (*TASK_NAMES, "niah_multikey_2", "niah_multikey_3")
    for edition, name, length in product(EDITIONS.values(), tasks, (256, 1024, 2048)):
        arguments = Arguments(edition, TASKS[name], length, 2, seed=42)
        try:
            rows = [*replay(arguments, UpstreamSources(None), count)]
        except (RulerError, UsageError) as error:
            found[f"{edition.name} {name} {length}"] = str(error).partition(": at size")[0]
            continue
        texts = [[row.index, row.input, row.outputs, row.length] for row in rows]
        digest = hashlib.sha256(json.dumps(texts).encode()).hexdigest()
        lengths = [row.length for row in rows]
        found[f"{edition.name} {name} {length}"] = [*lengths, digest]
    compare("upstream-words.json", json.dumps(found, indent=1) + "\n")
