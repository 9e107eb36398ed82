"""`ruler-data`: what every command shares, and `sources` and `tokenizers`."""

import hashlib
import json
import re
import signal
import subprocess
import sys
from collections.abc import Callable
from dataclasses import replace
from importlib.metadata import version
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

from ruler_data import DATA_VERSION
from ruler_data.tokenizers.registry import REGISTRY
from tests.commands import call, one_line, succeeded
from tests.conftest import Cli
from tests.tampering import at, copy_of, file_of, forge, manifest_of, rows_of


def records_of(done: subprocess.CompletedProcess[str]) -> dict[str, dict[str, Any]]:
    """Return what a listing printed as JSON, by name."""
    return {record["name"]: record for record in json.loads(succeeded(done).stdout)}


def test_the_version_is_the_installed_ones_and_the_datas(cli: Cli) -> None:
    said = f"ruler-data {version('ruler-data')} (data {DATA_VERSION})\n"
    assert succeeded(cli("--version")).stdout == said


def test_a_version_that_is_asked_for_before_a_command_is_all_that_is_done(cli: Cli) -> None:
    assert cli("--version", "list", "suites").stdout == cli("--version").stdout


def test_the_script_and_the_contract_are_the_module(cli: Cli) -> None:
    script = Path(sys.executable).with_name("ruler-data")
    if not script.is_file():
        pytest.skip("the package is not installed with its script")
    for command in ([script], [sys.executable, "-m", "ruler_data"]):
        done = subprocess.run([*command, "--version"], capture_output=True, text=True, check=True)
        assert done.stdout == cli("--version").stdout


@pytest.mark.parametrize("module", ["ruler_builders", "ruler_cli"])
@pytest.mark.parametrize(
    ("handler", "code"), [(signal.default_int_handler, -signal.SIGINT), (signal.SIG_IGN, 0)],
    ids=["heard", "ignored"],
)  # fmt: skip
def test_ctrl_c_while_a_program_loads_ends_it_without_a_traceback_unless_it_is_ignored(
    module: str, handler: Callable[..., object] | signal.Handlers, code: int
) -> None:
    before = signal.signal(signal.SIGINT, handler)  # a job in the background ignores it
    command = (sys.executable, "-X", "importtime", "-m", module, "--help")
    with subprocess.Popen(
        command, bufsize=0, pipesize=4096,  # soon full, so that it cannot end before
        stdout=subprocess.DEVNULL, stderr=subprocess.PIPE,
    ) as process:  # fmt: skip
        assert process.stderr
        next(line for line in process.stderr if line.endswith(b" rich._extension\n"))
        process.send_signal(signal.SIGINT)
        said = process.stderr.read()
    signal.signal(signal.SIGINT, before)
    assert process.returncode == code
    assert b"Traceback" not in said


def test_a_second_list_of_an_option_is_refused_and_never_replaces_the_first(cli: Cli) -> None:
    publish = ("publish", "x", "--repo", "org/x", "--allow", "sample", "--allow", "unpinned")
    twice = "is given 2 times: write one list"
    assert one_line(cli(*publish), 2) == f"ruler-data: --allow {twice}"
    for option in ("--tasks", "--lengths"):
        said = one_line(cli("build", option, "a", option, "b"), 2)
        assert said == f"ruler-data: {option} {twice}"
    run = ("run", "--data", "x", "--model", "m", "--tasks", "vt", "--tasks", "cwe")
    assert one_line(call("ruler-eval", *run), 2) == f"ruler-eval: --tasks {twice}"


@pytest.mark.parametrize("arguments", [("nothing",), ("--nothing",), ("show",), ("verify",)])
def test_what_is_no_command_is_refused_in_one_line(arguments: tuple[str, ...], cli: Cli) -> None:
    said = one_line(cli(*arguments), 2)
    assert said.startswith("ruler-data: ")
    assert "see `ruler-data" in said and "--help`" in said


def test_a_program_without_a_command_prints_its_help(cli: Cli) -> None:
    assert succeeded(cli()).stdout == succeeded(cli("--help")).stdout


def test_sources_name_the_four_texts_and_the_samples_without_any_download(cli: Cli) -> None:
    records = records_of(cli("list", "sources", "--json"))
    assert set(records) >= {"essays", "squad", "hotpotqa", "words"}
    for name in ("essays", "squad", "hotpotqa"):
        assert records[name]["where"].startswith("no")
        assert records[f"{name} (sample)"]["licence"] == "CC0-1.0"
    assert records["mmlu"]["where"] == "no: no download, save mmlu*.jsonl"
    assert len(records["words"]["sha256"]) == 64


def test_a_local_source_is_listed_with_its_own_hash(tmp_path: Path, cli: Cli) -> None:
    data = b'{"data": []}'
    (tmp_path / "squad-mine.json").write_bytes(data)
    done = cli("list", "sources", "--json", env={"RULER_SOURCES": str(tmp_path)})
    record = records_of(done)["squad"]
    assert record["sha256"] == hashlib.sha256(data).hexdigest()
    assert (record["pinned"], record["where"]) == ("no", str(tmp_path / "squad-mine.json"))


@pytest.mark.parametrize("name", ["nowhere", "file"])
def test_a_sources_folder_that_is_none_is_refused(name: str, tmp_path: Path, cli: Cli) -> None:
    (tmp_path / "file").touch()
    done = cli("list", "sources", "--json", env={"RULER_SOURCES": str(tmp_path / name)})
    assert done.returncode == 2
    assert str(tmp_path / name) in done.stderr
    assert (done.stdout, len(done.stderr.splitlines())) == ("", 1)


def test_the_registry_lists_each_tokenizer_and_what_is_here(cli: Cli) -> None:
    records = records_of(cli("list", "tokenizers", "--json"))
    assert records.keys() == REGISTRY.keys()
    for name, known in REGISTRY.items():
        packaged = known.revision is None and known.encoding is None
        assert (records[name]["where"] == "yes") is packaged
        assert (len(records[name]["fingerprint"]) == 64) is packaged
        assert records[name]["revision"] and records[name]["note"]
    shown = cli("list", "tokenizers").stdout
    commits = [known.revision for known in REGISTRY.values() if known.revision]
    assert commits
    for commit in commits:
        assert f" {commit[:16]} " in shown and commit[:17] not in shown


@pytest.mark.slow
def test_a_reader_that_went_away_is_no_crash(sample_build: Path) -> None:
    show = [sys.executable, "-m", "ruler_builders", "show", str(sample_build), "cwe_4096"]
    with subprocess.Popen(show, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        process.stdout.close()
        assert b"Traceback" not in process.stderr.read()
    assert process.returncode in (0, 1)


BOLD = re.compile("\x1b\\[1;33m(.*?)\x1b\\[0m")


def squeeze(text: str) -> str:
    """Leave out what a panel adds to a text: borders, padding and line ends."""
    return re.sub(r"[\s│]+", "", text)


@pytest.mark.parametrize(("task", "index"), [("niah_multiquery", 4), ("vt", 0), ("qa_2", 5)])
def test_a_row_as_json_is_its_record(task: str, index: int, sample_build: Path, cli: Cli) -> None:
    done = cli("show", sample_build, f"{task}_4096", index, "--json")
    assert (done.returncode, done.stderr) == (0, "")
    with pq.ParquetFile(sample_build / file_of(f"{task}_4096")) as file:
        record = file.read().slice(index, 1).to_pylist()[0]
    assert json.loads(done.stdout) == record
    assert list(json.loads(done.stdout)) == list(record)


@pytest.mark.parametrize("task", ["niah_multiquery", "vt"])
def test_a_row_is_shown_whole_on_request(task: str, sample_build: Path, cli: Cli) -> None:
    row = rows_of(sample_build, f"{task}_4096")[3]
    full = cli("show", sample_build, f"{task}_4096", 3, "--full")
    short = cli("show", sample_build, f"{task}_4096", 3)
    assert (full.returncode, full.stderr) == (0, "")
    for done in (full, short):
        shown = squeeze(done.stdout)
        assert f"{task}_4096/3" in shown
        assert f"{row.length}tokens" in shown
        assert "evidence1spans" not in shown
        assert squeeze(row.question) in shown
        assert squeeze(row.answer_prefix) in shown
        assert all(squeeze(output) in shown for output in row.outputs)
    assert squeeze(row.context) in squeeze(full.stdout)
    assert squeeze(row.context) not in squeeze(short.stdout)
    assert "characters ...]" in short.stdout


def test_without_a_config_the_digests_of_all_are_listed(sample_build: Path, cli: Cli) -> None:
    configs = manifest_of(sample_build).configs
    lines = cli("show", sample_build).stdout.splitlines()
    listed = {line.split()[0]: line for line in lines if "floor" not in line}
    assert list(listed) == list(configs)
    for name, info in configs.items():
        assert info.floor
        floor = f"{100 * info.floor.score:.1f}"
        assert listed[name].split() == [
            *(name, "6", floor), info.question_digest[7:19], info.digest[7:19],
        ]  # fmt: skip
    found = json.loads(cli("show", sample_build, "--json").stdout)
    assert found == json.loads((sample_build / "manifest.json").read_text())["configs"]


def test_evidence_is_highlighted_where_colours_are(sample_build: Path, cli: Cli) -> None:
    row = rows_of(sample_build, "niah_multivalue_4096")[1]
    shown = cli(
        "show", sample_build, "niah_multivalue_4096", 1, env={"FORCE_COLOR": "1", "TERM": "xterm"}
    ).stdout
    marked = squeeze("".join(BOLD.findall(shown)))
    assert marked == squeeze("".join(row.context[s.start : s.end] for s in row.evidence))
    plain = cli("show", sample_build, "niah_multivalue_4096", 1).stdout
    assert "\x1b" not in plain


def test_markup_and_escapes_are_text(sample_build: Path, tmp_path: Path, cli: Cli) -> None:
    copy = copy_of(sample_build, tmp_path)
    odd = "[bold]:smile:[/bold] \x1b[31mred\x1b[0m \x1b]0;title\x07 naïve 東京"
    forge(copy, "vt_4096", at(0, lambda row: replace(row, question=odd)))
    done = succeeded(cli("show", copy, "vt_4096", 0))
    assert "[bold]:smile:[/bold]" in done.stdout
    assert "naïve 東京" in done.stdout
    assert "\x1b" not in done.stdout
    as_json = cli("show", copy, "vt_4096", 0, "--json")
    assert json.loads(as_json.stdout)["question"] == odd


def test_letters_of_no_encoding_are_replaced(sample_build: Path, tmp_path: Path, cli: Cli) -> None:
    copy = copy_of(sample_build, tmp_path)
    forge(copy, "vt_4096", at(0, lambda row: replace(row, question="naïve 東京?")))
    done = cli("show", copy, "vt_4096", env={"PYTHONIOENCODING": "ascii"})
    assert "VAR" in succeeded(done).stdout


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("vt_8192",), ["'vt_8192'", "vt_4096", "qa_2_4096"]),
        (("vt",), ["'vt'", "TASK_LENGTH"]),
        (("../vt_4096",), ["'../vt_4096'", "TASK_LENGTH"]),
        (("x" * 300 + "\n",), ["'xxx", "TASK_LENGTH"]),
        (("vt_4096", "6"), ["0 to 5", "6"]),
        (("vt_4096", "99999999999999999999"), ["0 to 5"]),
        (("vt_4096", "--", "-1"), ["index '-1'"]),
        (("vt_4096", "one"), ["index 'one'"]),
    ],
)
def test_a_row_that_is_not_there_is_refused_and_those_that_are_are_named(
    arguments: tuple[str, ...], words: list[str], sample_build: Path, cli: Cli
) -> None:
    done = cli("show", sample_build, *arguments)
    assert done.returncode == 2
    assert done.stdout == ""
    assert all(word in done.stderr for word in words), done.stderr
    assert "Traceback" not in done.stderr
