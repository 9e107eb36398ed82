"""`ruler-data`: what every command shares, and `sources` and `tokenizers`."""

import hashlib
import json
import signal
import subprocess
import sys
from importlib.metadata import version
from pathlib import Path
from typing import Any

import pytest

from ruler_data import DATA_VERSION
from ruler_data.tokenizers.registry import REGISTRY
from ruler_data.tokenizers.tiktoken import RANKS
from tests.conftest import Cli


def records_of(done: subprocess.CompletedProcess[str]) -> dict[str, dict[str, Any]]:
    """Return what a listing printed as JSON, by name."""
    assert done.returncode == 0, done.stderr
    return {record["name"]: record for record in json.loads(done.stdout)}


def test_the_version_is_the_installed_ones_and_the_datas(cli: Cli) -> None:
    done = cli("--version")
    assert done.returncode == 0
    assert done.stdout == f"ruler-data {version('ruler-data')} (data {DATA_VERSION})\n"


def test_the_script_is_the_module(cli: Cli) -> None:
    script = Path(sys.executable).with_name("ruler-data")
    if not script.is_file():
        pytest.skip("the package is not installed with its script")
    done = subprocess.run([script, "--version"], capture_output=True, text=True, check=True)
    assert done.stdout == cli("--version").stdout


@pytest.mark.parametrize("module", ["ruler_builders", "ruler_cli"])
def test_ctrl_c_while_a_program_loads_leaves_no_traceback(module: str) -> None:
    before = signal.signal(signal.SIGINT, signal.default_int_handler)  # a job may ignore it
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
    assert process.returncode == -signal.SIGINT
    assert b"Traceback" not in said


@pytest.mark.parametrize("arguments", [(), ("nothing",), ("--nothing",), ("show",), ("verify",)])
def test_what_is_no_command_is_refused_with_the_usage(arguments: tuple[str, ...], cli: Cli) -> None:
    done = cli(*arguments)
    assert done.returncode == 2
    assert "Usage: " in done.stderr
    assert done.stdout == ""


@pytest.mark.parametrize("command", ["sources", "tokenizers"])
def test_the_listing_for_people_names_what_the_json_names(command: str, cli: Cli) -> None:
    plain = cli(command)
    assert (plain.returncode, plain.stderr) == (0, "")
    for name in records_of(cli(command, "--json")):
        assert any(line.split("  ")[0].strip() == name for line in plain.stdout.splitlines()), name


def test_sources_name_the_four_texts_and_the_samples_without_any_download(cli: Cli) -> None:
    records = records_of(cli("sources", "--json"))
    assert set(records) >= {"essays", "squad", "hotpotqa", "words"}
    for name in ("essays", "squad", "hotpotqa"):
        assert records[name]["where"].startswith("no")
        assert records[f"{name} (sample)"]["licence"] == "CC0-1.0"
    assert records["mmlu"]["where"] == "no: no download, save mmlu*.jsonl"
    assert len(records["words"]["sha256"]) == 64


@pytest.mark.parametrize("by", ["option", "environment"])
def test_a_local_source_is_listed_with_its_own_hash(by: str, tmp_path: Path, cli: Cli) -> None:
    data = b'{"data": []}'
    (tmp_path / "squad-mine.json").write_bytes(data)
    if by == "option":
        done = cli("sources", "--sources", tmp_path, "--json")
    else:
        done = cli("sources", "--json", env={"RULER_SOURCES": str(tmp_path)})
    record = records_of(done)["squad"]
    assert record["sha256"] == hashlib.sha256(data).hexdigest()
    assert (record["pinned"], record["where"]) == ("no", str(tmp_path / "squad-mine.json"))


@pytest.mark.parametrize("name", ["nowhere", "file"])
def test_a_sources_folder_that_is_none_is_refused(name: str, tmp_path: Path, cli: Cli) -> None:
    (tmp_path / "file").touch()
    for done in (
        cli("sources", "--sources", tmp_path / name),
        cli("sources", "--json", env={"RULER_SOURCES": str(tmp_path / name)}),
    ):
        assert done.returncode == 2
        assert str(tmp_path / name) in done.stderr
        assert (done.stdout, len(done.stderr.splitlines())) == ("", 1)


def test_two_files_that_could_be_one_source_are_both_named(tmp_path: Path, cli: Cli) -> None:
    (tmp_path / "squad-a.json").touch()
    (tmp_path / "squad-b.json").touch()
    done = cli("sources", "--sources", tmp_path)
    assert done.returncode == 2
    assert "squad-a.json" in done.stderr
    assert "squad-b.json" in done.stderr


def test_the_registry_lists_each_tokenizer_and_what_is_here(cli: Cli) -> None:
    records = records_of(cli("tokenizers", "--json"))
    assert records.keys() == REGISTRY.keys()
    for name, known in REGISTRY.items():
        packaged = known.revision is None and known.source not in RANKS
        assert (records[name]["where"] == "yes") is packaged
        assert (len(records[name]["fingerprint"]) == 64) is packaged
        assert records[name]["revision"] and records[name]["note"]


def test_tokenizers_in_a_local_folder_are_available(shared: Path, cli: Cli) -> None:
    env = {"RULER_TOKENIZERS": str(shared / "tokenizers")}
    records = records_of(cli("tokenizers", "--json", env=env))
    for name in ("llama3", "qwen2.5"):
        assert records[name]["where"] == "yes"
        assert len(records[name]["fingerprint"]) == 64
    assert records["qwen3"]["where"].startswith("no")


@pytest.mark.slow
def test_a_reader_that_went_away_is_no_crash(sample_build: Path) -> None:
    show = [sys.executable, "-m", "ruler_builders", "show", str(sample_build), "cwe_4096"]
    with subprocess.Popen(show, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        process.stdout.close()
        assert b"Traceback" not in process.stderr.read()
    assert process.returncode in (0, 1)
