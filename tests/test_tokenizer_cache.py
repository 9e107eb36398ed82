"""Tokenizers from the Hub's cache: all that decides on tokens and template, or a refusal."""

import os
import tempfile
from dataclasses import replace
from pathlib import Path

import platformdirs
import pytest
from tokenizers import Tokenizer, models, pre_tokenizers

from ruler_data import RulerError, UsageError
from ruler_data.files import cache_dir
from ruler_data.hub.download import fetch_files
from ruler_data.tokenizers import load_tokenizer
from ruler_data.tokenizers.hf import FILES
from ruler_data.tokenizers.protocol import template_reserve
from ruler_data.tokenizers.registry import REGISTRY, folder_note
from tests import forks
from tests.commands import HANG, succeeded
from tests.conftest import Cli
from tests.hub import Blob, Hub
from tests.hub_faults import first
from tests.running import tiny

COMMIT = "c" * 40


@pytest.fixture
def cached(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The Hub's cache of a model of which one file was downloaded, and nothing was noted."""
    letters = sorted(pre_tokenizers.ByteLevel.alphabet())
    pairs = [("e", "s"), ("t", "h"), ("r", "e")]
    tokens = [*letters, *("".join(pair) for pair in pairs)]
    tokenizer = Tokenizer(models.BPE({token: n for n, token in enumerate(tokens)}, pairs))
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    repo = tmp_path / "hub" / "models--org--tok"
    (repo / "snapshots" / COMMIT).mkdir(parents=True)
    (repo / "refs").mkdir()
    (repo / "refs" / "main").write_text(COMMIT, encoding="ascii")
    tokenizer.save(str(repo / "snapshots" / COMMIT / "tokenizer.json"))
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_CACHE", str(repo.parent))
    return repo


def test_half_a_cache_has_no_template(cached: Path) -> None:
    with pytest.raises(UsageError, match="not complete in the Hub's cache"):
        load_tokenizer("org/tok")


def test_a_cache_that_notes_gaps_is_whole(cached: Path) -> None:
    noted = cached / ".no_exist" / COMMIT
    noted.mkdir(parents=True)
    for name in ("tokenizer_config.json", "chat_template.jinja"):
        (noted / name).touch()
    assert load_tokenizer("org/tok").count(["these"]) == [3]


def test_a_folder_is_compared_with_the_files_of_its_name_in_the_hubs_cache(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    known, home = REGISTRY["qwen2.5"], tmp_path / "hf"
    monkeypatch.setenv("HF_HOME", str(home))
    monkeypatch.setenv("RULER_CACHE", str(tmp_path / "cache"))
    monkeypatch.delenv("HF_HUB_CACHE", raising=False)
    # The Hub's client read the variable when it was imported.
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_CACHE", str(home / "hub"))
    repo = home / "hub" / f"models--{known.source.replace('/', '--')}"
    tiny.make_tokenizer(repo / "snapshots" / str(known.revision), tiny.LLAMA)
    noted = repo / ".no_exist" / str(known.revision)
    noted.mkdir(parents=True)
    (noted / "chat_template.jinja").touch()
    alike = tiny.make_tokenizer(tmp_path / "alike" / "qwen2.5", None)
    (alike / "chat_template.jinja").write_text(tiny.LLAMA, encoding="ascii")
    other = tiny.make_tokenizer(tmp_path / "other" / "qwen2.5", tiny.QWEN3)
    assert folder_note(load_tokenizer(str(alike)).info) == ""
    tokenizer = load_tokenizer(str(other))
    note = folder_note(replace(tokenizer.info, template_reserve=template_reserve(tokenizer)))
    assert note == (
        "tokenizer qwen2.5: these files are of a folder and give other prompts than the registry's "
        "qwen2.5: the chat template takes 12 tokens, there 15; the rows differ from those that an "
        "index lists for models of that name"
    )


def test_all_files_of_a_model_are_of_one_commit(hub: Hub, repo: str, tmp_path: Path) -> None:
    hub.create(repo)
    held = hub.repos[repo]
    old, new = ({name: Blob(data, large=False) for name in FILES} for data in (b"old", b"new"))
    commit = held.commit(old)
    hub.fail("HEAD .*/tokenizer_config.json", first(lambda: held.commit(new)))
    with forks.pool({**os.environ, **hub.env(), "HF_HOME": str(tmp_path)}) as pool:
        folder, found = pool.submit(fetch_files, repo, FILES, None).result(HANG)
    assert held.head != commit == found == folder.name
    assert {path.name: path.read_bytes() for path in folder.iterdir()} == dict.fromkeys(
        FILES, b"old"
    )


def test_a_model_on_the_hub_is_not_asked_for_where_a_caller_allows_no_download(
    hub: Hub, repo: str, tmp_path: Path
) -> None:
    hub.create(repo)
    hub.repos[repo].commit({name: Blob(b"{}", large=False) for name in FILES})
    with forks.pool({**os.environ, **hub.env(), "HF_HOME": str(tmp_path)}) as pool:
        fetched = pool.submit(fetch_files, repo, FILES, None, allow_download=False)
        with pytest.raises(RulerError, match=r"^it is not complete .*, and downloads are off$"):
            fetched.result(HANG)
    assert hub.requests == []


def test_a_folder_named_like_a_known_tokenizer_does_not_stand_for_it(
    tmp_path: Path, cli: Cli, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "mistral").mkdir()
    monkeypatch.chdir(tmp_path)
    options = ("--sources", "sample", "--tasks", "vt", "--lengths", 1024, "--rows", 1)
    assert cli("build", *options, "--out", "out").returncode == 0
    verified = cli("verify", "out")
    assert verified.returncode == 0, verified.stderr
    refused = cli("build", *options, "--tokenizer", "./mistral", "--out", "other")
    assert refused.returncode == 2 and "holds no tokenizer.json" in refused.stderr


def test_one_switch_alone_stops_a_download(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RULER_OFFLINE", "1")
    monkeypatch.setenv("HF_HUB_OFFLINE", "")
    monkeypatch.setenv("HF_ENDPOINT", "http://127.0.0.1:9")
    with pytest.raises(UsageError, match="Hub's cache, and downloads are off"):
        load_tokenizer("org/not-in-the-cache")


def test_a_release_is_proved_offline_beside_a_namesake(tmp_path: Path, cli: Cli) -> None:
    for names, template in (("one", tiny.LLAMA), ("other", tiny.GEMMA)):
        tiny.make_tokenizer(tmp_path / names / "llama3", template)
    one, other = ({"RULER_TOKENIZERS": str(tmp_path / names)} for names in ("one", "other"))
    options = ("--sources", "sample", "--tasks", "vt", "--lengths", 2048, "--rows", 1)
    out = tmp_path / "out"
    succeeded(cli("build", *options, "--tokenizer", "llama3", "--out", out, env=one))
    verified = cli("verify", out, env=other)
    assert verified.returncode == 0, verified.stdout + verified.stderr


def homeless(_name: str) -> Path:
    msg = "Could not determine home directory."
    raise RuntimeError(msg)


def literal(name: str) -> Path:
    """What some releases return where there is no home."""
    return Path("~/.cache") / name


def test_else_it_is_in_the_users_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("RULER_CACHE")
    monkeypatch.setattr(platformdirs, "user_cache_path", lambda name: tmp_path / name)
    assert cache_dir("sentences") == tmp_path / "ruler-data" / "sentences"


@pytest.mark.parametrize("found", [homeless, literal])
def test_no_home_is_a_temporary_folder(found: object, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("RULER_CACHE")
    monkeypatch.setattr(platformdirs, "user_cache_path", found)
    folder = cache_dir("sentences")
    assert folder.parent.parent == Path(tempfile.gettempdir())
    assert folder.parent.name.startswith("ruler-data-")
