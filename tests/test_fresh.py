"""Builds from a private seed: drawn once, found again, told to nobody."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from ruler_builders.pipeline.build_dir import BuildDir
from ruler_data import UsageError
from ruler_data.manifest import PRIVATE_SEEDS, shown_seed
from tests.builds import Asked, run, started, until
from tests.commands import finish, one_line
from tests.conftest import Cli
from tests.publishing import Publisher
from tests.tampering import manifest_of


@pytest.fixture(scope="session")
def asked(tiny: Path) -> Asked:
    """A small build from a private seed."""
    small = ("--sources-kind", "sample", "--tasks", "vt", "--lengths", 1280, "--rows", 3)
    return (*small, "--tokenizer", tiny, "--fresh")


@pytest.fixture(scope="module")
def fresh(asked: Asked, tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("fresh") / "out"
    done = run(*asked, "--out", out)
    assert done.returncode == 0 and "do not share the folder" in done.stdout, done.stderr
    return out


def test_a_fresh_build_has_a_seed_of_its_own_and_other_rows(
    asked: Asked, fresh: Path, tmp_path: Path
) -> None:
    assert run(*asked, "--out", tmp_path / "again").returncode == 0
    one, two = manifest_of(fresh), manifest_of(tmp_path / "again")
    assert one.is_private and two.is_private and one.seed != two.seed
    assert one.configs["vt_1280"].digest != two.configs["vt_1280"].digest


def test_the_same_command_goes_on_with_the_seed_of_the_folder(
    asked: Asked, fresh: Path, cli: Cli
) -> None:
    before = manifest_of(fresh)
    assert run(*asked, "--out", fresh, "--tasks", "vt,fwe").returncode == 0
    after = manifest_of(fresh)
    assert after.seed == before.seed and list(after.configs) == ["vt_1280", "fwe_1280"]
    assert after.configs["vt_1280"] == before.configs["vt_1280"]
    assert cli("verify", fresh, "--rebuild", 3).returncode == 0


def test_a_fresh_build_that_was_killed_goes_on_with_its_seed(asked: Asked, tmp_path: Path) -> None:
    out = tmp_path / "out"
    order = (*asked, "--out", out, "--tasks", "vt,fwe,cwe", "--rows", 200)
    with started(*order) as process:
        until((out / ".build" / "seed").exists, process)
    seed = int((out / ".build" / "seed").read_text(encoding="ascii"))
    assert run(*asked, "--out", out).returncode == 0
    assert manifest_of(out).seed == seed


@pytest.mark.slow
def test_shards_that_start_side_by_side_agree_on_a_seed(asked: Asked, tmp_path: Path) -> None:
    out = tmp_path / "out"
    order = (*asked, "--tasks", "vt,fwe", "--out", out)
    with started(*order, "--shard", "0/2") as one, started(*order, "--shard", "1/2") as two:
        ended = finish(one), finish(two)
    assert [done.returncode for done in ended] == [0, 0], [done.stderr for done in ended]
    assert run(*order).returncode == 0
    assert manifest_of(out).is_private


def test_the_seed_is_in_the_manifest_alone(asked: Asked, fresh: Path) -> None:
    seed = str(manifest_of(fresh).seed)
    assert seed in (fresh / "manifest.json").read_text(encoding="utf-8")
    for name in ("README.md", "LICENSES.md", "eval.yaml"):
        assert seed not in (fresh / name).read_text(encoding="utf-8")
    other = one_line(run(*asked[:-1], "--out", fresh), 2)
    assert "seed a private one, now 42" in other and seed not in other


def test_a_public_folder_is_not_gone_on_with_and_stays_as_it_is(
    asked: Asked, tmp_path: Path
) -> None:
    out = tmp_path / "out"
    assert run(*asked[:-1], "--out", out).returncode == 0
    before = (out / "manifest.json").read_bytes()
    assert "seed 42, now a private one" in one_line(run(*asked, "--out", out), 2)
    assert (out / "manifest.json").read_bytes() == before and not (out / ".build").exists()
    assert run(*asked, "--force", "--out", out).returncode == 0
    assert manifest_of(out).is_private


def test_a_seed_cannot_be_asked_for_and_drawn(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="leave out --seed 7"):
        BuildDir(tmp_path).choose_seed(7, fresh=True)
    assert BuildDir(tmp_path).choose_seed(7, fresh=False) == 7
    assert BuildDir(tmp_path).choose_seed(None, fresh=False) == 42


def test_a_drawn_seed_is_kept_only_when_a_build_begins(tmp_path: Path) -> None:
    folder = BuildDir(tmp_path / "out")
    seed = folder.choose_seed(None, fresh=True)
    assert not folder.path.exists() and seed != folder.choose_seed(None, fresh=True)
    assert folder.keep_seed(seed) == seed == folder.choose_seed(None, fresh=True)
    assert folder.keep_seed(PRIVATE_SEEDS) == seed


def test_many_processes_that_keep_a_seed_at_once_get_the_same(tmp_path: Path) -> None:
    code = (
        "import sys, pathlib; from ruler_builders.pipeline.build_dir import BuildDir; "
        "folder = BuildDir(pathlib.Path(sys.argv[1])); "
        "print(folder.keep_seed(folder.choose_seed(None, fresh=True)))"
    )
    command = [sys.executable, "-c", code, str(tmp_path / "out")]
    running = [subprocess.Popen(command, stdout=subprocess.PIPE, text=True) for _ in range(4)]
    seeds = {process.communicate(timeout=120)[0].strip() for process in running}
    assert len(seeds) == 1 and int(seeds.pop()) >= PRIVATE_SEEDS


def test_a_fresh_build_is_published_only_when_that_is_said(
    publisher: Publisher, fresh: Path, repo: str
) -> None:
    refused = publisher(fresh, repo)
    assert refused.code == 2 and "--allow-private-seed" in refused.said
    assert publisher(fresh, repo, allow_private_seed=True).code == 0


def test_a_private_seed_is_not_shown_to_people() -> None:
    assert shown_seed(PRIVATE_SEEDS - 1) == str(PRIVATE_SEEDS - 1)
    assert shown_seed(PRIVATE_SEEDS) == "a private one"
    assert json.loads(json.dumps(2**127)) == 2**127  # as manifests hold it


@pytest.mark.parametrize("kept", [b"", b"42\n", b"\xff", b"twelve\n"])
def test_what_is_kept_in_place_of_a_private_seed_is_refused(
    asked: Asked, tmp_path: Path, kept: bytes
) -> None:
    (tmp_path / ".build").mkdir()
    (tmp_path / ".build" / "seed").write_bytes(kept)
    assert "not a private seed" in one_line(run(*asked, "--out", tmp_path), 1)


@pytest.mark.parametrize(
    "wrong",
    [
        ("--lengths", "abc"), ("--tasks", "no"), ("--tokenizer", "no"), ("--lengths", 64),
        ("--shard", "9"),
        pytest.param(
            ("--suite", "no_context", "--tasks", "all", "--rows", 999), marks=pytest.mark.slow
        ),
    ],
)  # fmt: skip
def test_what_cannot_be_built_leaves_no_seed_behind(
    asked: Asked, tmp_path: Path, wrong: Asked
) -> None:
    one_line(run(*asked, *wrong, "--out", tmp_path / "out"), 2)
    assert not (tmp_path / "out").exists()
    (tmp_path / "mine").mkdir()
    one_line(run(*asked, *wrong, "--out", tmp_path / "mine"), 2)
    assert not list((tmp_path / "mine").iterdir())


def test_a_seed_that_was_there_before_survives_an_order_that_cannot_be_built(
    asked: Asked,
    tmp_path: Path,
) -> None:
    (tmp_path / ".build").mkdir()
    (tmp_path / ".build" / "seed").write_text(f"{PRIVATE_SEEDS}\n", encoding="ascii")
    one_line(run(*asked, "--lengths", 64, "--out", tmp_path), 2)
    assert run(*asked, "--out", tmp_path).returncode == 0
    assert manifest_of(tmp_path).seed == PRIVATE_SEEDS
