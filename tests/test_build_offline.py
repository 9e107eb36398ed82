"""Without a network, and with word lists, models or caches that are not what they should be."""

import json
import re
import shutil
import subprocess
import sysconfig
from pathlib import Path

import pytest

from tests.builds import Asked, run, snapshot
from tests.commands import one_line, succeeded

#: Nothing in the environment says that downloads are off.
UNAWARE = {"RULER_OFFLINE": "", "HF_HUB_OFFLINE": ""}
HASHES = re.compile(r"sha256 expected ([0-9a-f]{64}), found ([0-9a-f]{64})")


@pytest.fixture(scope="module")
def asked(tiny: Path) -> Asked:
    """A small build of every source, in a tokenizer that is loaded at once."""
    tasks = ("--tasks", "niah_single_2,cwe,qa_1,qa_2", "--rows", 2, "--lengths", 2048)
    return (*tasks, "--tokenizer", tiny)


@pytest.fixture(scope="module")
def no_network() -> tuple[str, ...]:
    """What to put before a command so that it has no network at all."""
    wrapper = ("unshare", "--net")
    if (
        shutil.which("unshare") is None
        or subprocess.run([*wrapper, "true"], check=False).returncode
    ):
        pytest.skip("the network cannot be taken away here")
    return wrapper


def kinds(folder: Path) -> dict[str, str]:
    """Return which sources a build used, and of which kind."""
    sources = json.loads((folder / "manifest.json").read_bytes())["sources"]
    return {source["name"]: source["kind"] for source in sources}


def tampered(package: str, place: Path) -> Path:
    """Copy an installed package to where Python finds it first, for a test to change."""
    installed = Path(sysconfig.get_path("purelib")) / package
    if not installed.is_dir():
        pytest.skip(f"{package} is not installed where this looks")
    shutil.copytree(installed, place / package, ignore=shutil.ignore_patterns("__pycache__"))
    return place / package


def replace_once(path: Path, old: str, new: str) -> None:
    text = path.read_text(encoding="utf-8")
    assert old in text
    path.write_text(text.replace(old, new, 1), encoding="utf-8")


@pytest.mark.slow
def test_local_sources_and_a_local_tokenizer_need_no_network(
    asked: Asked, tmp_path: Path, shared: Path, llama3: str, no_network: tuple[str, ...]
) -> None:
    order = (*asked, "--sources", shared / "sources", "--tokenizer", llama3)
    env = {**UNAWARE, "RULER_CACHE": str(tmp_path / "cache")}
    succeeded(run(*order, "--out", tmp_path / "out", env=env, wrapper=no_network))
    assert kinds(tmp_path / "out") == dict.fromkeys(
        ["essays", "hotpotqa", "squad", "words"], "real"
    )
    succeeded(run(*order, "--out", tmp_path / "online"))
    assert snapshot(tmp_path / "online") == snapshot(tmp_path / "out")


def test_the_sample_needs_no_network_and_no_word_of_warning(
    asked: Asked, tmp_path: Path, no_network: tuple[str, ...]
) -> None:
    order = (*asked, "--sources-kind", "sample", "--out", tmp_path / "out")
    done = run(*order, env={**UNAWARE, "HF_HOME": str(tmp_path)}, wrapper=no_network)
    succeeded(done)
    assert done.stderr == ""
    assert "SAMPLE" in done.stdout
    assert kinds(tmp_path / "out")["squad"] == "sample"


@pytest.mark.slow
def test_without_network_and_sources_one_line_names_them_and_the_sample_that_stands_in(
    asked: Asked, tmp_path: Path, no_network: tuple[str, ...]
) -> None:
    env = {**UNAWARE, "RULER_CACHE": str(tmp_path / "cache")}
    done = run(*asked, "--out", tmp_path / "out", env=env, wrapper=no_network)
    succeeded(done)
    (warned,) = (line for line in done.stderr.splitlines() if "SAMPLE" in line)
    assert "not available: essays, squad, hotpotqa (https://" in warned
    assert "SAMPLE" in done.stdout
    assert b"sample" in (tmp_path / "out" / "README.md").read_bytes().lower()


@pytest.mark.slow
@pytest.mark.parametrize("task", ["niah_single_2", "qa_1", "qa_2"])
def test_real_sources_that_cannot_be_had_are_never_replaced(
    asked: Asked, tmp_path: Path, no_network: tuple[str, ...], task: str
) -> None:
    order = (*asked, "--tasks", task, "--sources-kind", "real", "--out", tmp_path / "out")
    env = {**UNAWARE, "RULER_CACHE": str(tmp_path / "cache")}
    line = one_line(run(*order, env=env, wrapper=no_network), code=1)
    assert "--sources DIR" in line
    assert not (tmp_path / "out").exists()


@pytest.mark.slow
def test_a_tokenizer_that_would_be_downloaded_is_refused_without_network(
    tmp_path: Path, no_network: tuple[str, ...]
) -> None:
    order = ("--tokenizer", "llama3", "--sources-kind", "sample", "--out", tmp_path / "out")
    env = {**UNAWARE, "HF_HOME": str(tmp_path / "hf")}
    line = one_line(run(*order, env=env, wrapper=no_network), code=2)
    assert "it is not here: give its folder" in line
    assert not (tmp_path / "out").exists()


def test_a_download_in_the_cache_that_is_not_the_pinned_file_is_not_used(
    asked: Asked, tmp_path: Path, shared: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("RULER_CACHE", str(tmp_path / "cache"))
    kept = tmp_path / "cache" / "sources" / "squad"
    kept.mkdir(parents=True)
    shutil.copyfile(shared / "sources" / "squad-dev-v2.0.json", kept / "dev-v2.0.json")
    order = (*asked, "--tasks", "qa_1", "--sources-kind", "real", "--out", tmp_path / "out")
    assert "source squad" in one_line(run(*order), code=1)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("task", "package", "file", "old", "new"),
    [
        ("cwe", "wonderwords", "assets/nounlist.txt", "abacus\n", ""),
        ("niah_single_1", "wonderwords", "assets/adjectivelist.txt", "able\n", "abler\n"),
        ("niah_single_2", "nltk", "tokenize/punkt.py", '(".", "?", "!")', '(".", "?")'),
    ],
)
def test_other_words_or_another_cutter_are_refused_with_both_hashes(
    asked: Asked,
    tmp_path: Path,
    shared: Path,
    task: str,
    package: str,
    file: str,
    old: str,
    new: str,
) -> None:
    replace_once(tampered(package, tmp_path / "first") / file, old, new)
    order = (*asked, "--tasks", task, "--sources", shared / "sources")
    env = {"PYTHONPATH": str(tmp_path / "first"), "RULER_CACHE": str(tmp_path / "cache")}
    done = run(*order, "--out", tmp_path / "out", env=env)
    assert done.returncode == 1, done.stderr
    line = done.stderr.splitlines()[-1]
    assert line.startswith(f"ruler-data: {package} ")
    assert (found := HASHES.search(line))
    assert found[1] != found[2]
    assert not (tmp_path / "out").exists()


def test_another_sentence_model_is_refused_with_both_hashes(
    asked: Asked, tmp_path: Path, shared: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("RULER_CACHE", str(tmp_path / "cache"))
    shutil.copytree(shared / "sources", tmp_path / "sources", copy_function=shutil.copyfile)
    (model,) = tmp_path.rglob("abbrev_types.txt")
    model.write_text(model.read_text(encoding="utf-8").replace("dr\n", ""), encoding="utf-8")
    order = (*asked, "--tasks", "niah_single_2", "--sources", tmp_path / "sources")
    done = run(*order, "--out", tmp_path / "out")
    assert done.returncode == 1, done.stderr
    assert HASHES.search(done.stderr.splitlines()[-1])
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize("data", [b"", b'{"sha256": "", "sentences": ["Ships."]}', b"[]"])
def test_a_damaged_cache_of_sentences_is_cut_anew(
    asked: Asked, tmp_path: Path, shared: Path, monkeypatch: pytest.MonkeyPatch, data: bytes
) -> None:
    monkeypatch.setenv("RULER_CACHE", str(tmp_path / "cache"))
    (tmp_path / "sources").mkdir()
    shutil.copytree(shared / "sources" / "nltk_data", tmp_path / "sources" / "nltk_data")
    (tmp_path / "sources" / "essays.json").write_text('{"text": "Ships come. They go. Dr. X."}')
    order = (*asked, "--tasks", "niah_single_2", "--sources", tmp_path / "sources")
    succeeded(run(*order, "--out", tmp_path / "out"))
    (kept,) = (tmp_path / "cache" / "sentences").iterdir()
    kept.write_bytes(data)
    succeeded(run(*order, "--out", tmp_path / "again"))
    assert snapshot(tmp_path / "again") == snapshot(tmp_path / "out")
    assert kept.read_bytes() != data
