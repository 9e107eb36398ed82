"""Builds from a private seed: drawn once, found again, told to nobody."""

import json
from pathlib import Path

import pytest

from ruler_builders.pipeline.build_dir import BuildDir
from ruler_data.manifest import PRIVATE_SEEDS, shown_seed
from tests.builds import Asked, run, started, until
from tests.commands import one_line
from tests.conftest import Cli
from tests.publishing import Publisher
from tests.running.processes import ran
from tests.tampering import manifest_of


@pytest.fixture(scope="session")
def asked(tiny: Path) -> Asked:
    """A small build from a private seed."""
    small = ("--sources", "sample", "--tasks", "vt", "--lengths", 1280, "--rows", 3)
    return (*small, "--tokenizer", tiny, "--fresh")


def changed(asked: Asked, *more: object) -> Asked:
    """Return the build with other values of its options."""
    order = list(asked)
    for name, value in zip(more[::2], more[1::2], strict=True):
        if name in order:
            order[order.index(name) + 1] = value
        else:
            order[:0] = [name, value]
    return tuple(order)


@pytest.fixture(scope="module")
def fresh(asked: Asked, tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("fresh") / "out"
    done = run(*asked, "--out", out)
    assert done.returncode == 0 and "do not share the folder" in done.stdout, done.stderr
    return out


def test_a_fresh_build_has_its_own_seed(asked: Asked, fresh: Path, tmp_path: Path) -> None:
    assert run(*asked, "--out", tmp_path / "again").returncode == 0
    one, two = manifest_of(fresh), manifest_of(tmp_path / "again")
    assert one.is_private and two.is_private and one.seed != two.seed
    assert one.configs["vt_1280"].digest != two.configs["vt_1280"].digest


def test_a_folder_goes_on_with_its_seed(asked: Asked, fresh: Path, cli: Cli) -> None:
    before = manifest_of(fresh)
    more = changed(asked, "--tasks", "vt,fwe")
    assert run(*more, "--out", fresh).returncode == 0
    after = manifest_of(fresh)
    assert after.seed == before.seed and list(after.configs) == ["vt_1280", "fwe_1280"]
    assert after.configs["vt_1280"] == before.configs["vt_1280"]
    assert cli("verify", fresh).returncode == 0


@pytest.mark.slow
def test_a_fresh_build_that_was_killed_goes_on_with_its_seed(asked: Asked, tmp_path: Path) -> None:
    out = tmp_path / "out"
    order = (*changed(asked, "--tasks", "vt,fwe,cwe", "--rows", 12), "--out", out)
    with started(*order) as process:
        until((out / ".build" / "manifest.json").exists, process)
    unfinished = BuildDir(out).unfinished()
    assert unfinished
    assert run(*order).returncode == 0
    assert manifest_of(out).seed == unfinished.seed


def test_the_seed_is_in_the_manifest_alone(asked: Asked, fresh: Path) -> None:
    seed = str(manifest_of(fresh).seed)
    assert seed in (fresh / "manifest.json").read_text(encoding="utf-8")
    for name in ("README.md", "LICENSES.md"):
        assert seed not in (fresh / name).read_text(encoding="utf-8")
    other = one_line(run(*asked[:-1], "--out", fresh), 2)
    assert "seed a private one, now 42" in other and seed not in other


def test_a_public_folder_stays_as_it_is(asked: Asked, tmp_path: Path) -> None:
    out = tmp_path / "out"
    assert run(*asked[:-1], "--out", out).returncode == 0
    before = (out / "manifest.json").read_bytes()
    assert "seed 42, now a private one" in one_line(run(*asked, "--out", out), 2)
    assert (out / "manifest.json").read_bytes() == before and not (out / ".build").exists()
    assert run(*asked, "--force", "--out", out).returncode == 0
    assert manifest_of(out).is_private


def test_fresh_rows_need_consent(publisher: Publisher, fresh: Path, repo: str) -> None:
    refused = publisher(fresh, repo)
    assert refused.code == 2 and "--allow private-seed" in refused.said
    assert publisher(fresh, repo, allowed=["private-seed"]).code == 0


def test_a_run_records_a_hash_of_the_seed_alone(fresh: Path, tmp_path: Path) -> None:
    ran(fresh, model="golden", engine="oracle", out=tmp_path / "run")
    text = (tmp_path / "run" / "run.json").read_text(encoding="utf-8")
    assert str(manifest_of(fresh).seed) not in text
    assert json.loads(text)["data"]["seed"] < 0


def test_a_private_seed_is_not_shown_to_people() -> None:
    assert shown_seed(PRIVATE_SEEDS - 1) == str(PRIVATE_SEEDS - 1)
    assert shown_seed(PRIVATE_SEEDS) == "a private one"
    assert json.loads(json.dumps(2**127)) == 2**127  # as manifests hold it


@pytest.mark.parametrize(
    "wrong",
    [
        ("--lengths", "abc"), ("--lengths", 64),
        pytest.param(
            ("--suite", "no_context", "--tasks", "all", "--rows", 999), marks=pytest.mark.slow
        ),
    ],
)  # fmt: skip
def test_a_failed_build_leaves_no_seed(asked: Asked, tmp_path: Path, wrong: Asked) -> None:
    order = changed(asked, *wrong)
    one_line(run(*order, "--out", tmp_path / "out"), 2)
    assert not (tmp_path / "out").exists()
    (tmp_path / "mine").mkdir()
    one_line(run(*order, "--out", tmp_path / "mine"), 2)
    assert not list((tmp_path / "mine").iterdir())
