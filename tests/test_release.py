"""A published release, downloaded by whoever reads it: pinned, checked, and never another one."""

from dataclasses import dataclass
from pathlib import Path

import pytest

from ruler_data.index import Index, Sibling
from ruler_data.tokenizers.registry import REGISTRY
from tests.commands import spawn, succeeded
from tests.hub import Blob, Hub
from tests.hub_faults import answers, flips_a_bit, resets
from tests.publishing import Site, contents
from tests.readers import Found, Reader

pytestmark = pytest.mark.slow

VT = "vt_1024/test-00000-of-00001.parquet"
VERIFY = ("ruler_builders", "verify")


@dataclass(frozen=True)
class TwoReleases:
    """A repo with two releases, the second with other rows, and its reader."""

    hub: Hub
    repo: str
    reader: Reader

    @property
    def tags(self) -> dict[str, str]:
        return self.hub.repos[self.repo].tags

    def fetch(self, revision: str, configs: list[str] | None = None, **env: str) -> Found:
        return self.reader.fetch(self.repo, revision, configs, **env)


@pytest.fixture
def two(site: Site, tmp_path: Path) -> TwoReleases:
    for seed, version in ((42, "1.0.0"), (43, "2.0.0")):
        assert site.publish(site.builds(seed=seed), version).code == 0
    site.hub.requests.clear()
    return TwoReleases(site.hub, site.repo, Reader(site.hub, tmp_path / "hf"))


def test_only_what_is_asked_is_downloaded(two: TwoReleases) -> None:
    found = two.fetch("v1.0.0", ["vt_1024"])
    assert found == (two.tags["v1.0.0"], "1.0.0", ["manifest.json", VT], "")
    assert not [line for line in two.hub.requests if "fwe_1024" in line]
    refused = two.fetch("v1.0.0", ["vt_2048"]).refused
    assert "vt_2048" in refused and "it has vt_1024, fwe_1024" in refused


def test_a_file_that_was_damaged_in_the_cache_is_downloaded_again(
    two: TwoReleases, tmp_path: Path
) -> None:
    found = two.fetch("v1.0.0", ["vt_1024"])
    (path,) = (tmp_path / "hf").rglob("*.parquet")
    data = bytearray(path.read_bytes())
    data[100] ^= 1
    path.write_bytes(data)
    assert two.fetch("v1.0.0", ["vt_1024"]) == found
    assert path.read_bytes() != data


def test_an_export_of_a_release_reads_its_commit(two: TwoReleases, tmp_path: Path) -> None:
    words = ("export", two.repo, "--revision", "v1.0.0", "--for", "lm-eval", "--tasks", "vt")
    env = {**two.hub.env(), "HF_HOME": str(tmp_path / "hf")}
    succeeded(spawn("ruler-data", *words, "--out", tmp_path / "out", env=env))
    task = (tmp_path / "out" / "ruler_vt_1024.yaml").read_text("utf-8")
    assert f"dataset_path: {two.repo}\n" in task
    assert f"dataset_kwargs:\n  revision: {two.tags['v1.0.0']}\n" in task


@pytest.mark.parametrize("switch", ["HF_HUB_OFFLINE=1", "RULER_OFFLINE=1", "RULER_OFFLINE=true"])
def test_offline_a_cached_release_is_found_and_no_other(switch: str, two: TwoReleases) -> None:
    two.fetch("v1.0.0")
    asked = ("v1.0.0", two.tags["v1.0.0"], "v2.0.0", "main", two.tags["v2.0.0"])
    name, _, value = switch.partition("=")
    found = two.reader.fetch_all(two.repo, *asked, **{name: value})
    assert [one.commit for one in found] == [
        two.tags["v1.0.0"],
        two.tags["v1.0.0"],
        None,
        None,
        None,
    ]
    assert f"it is commit {two.tags['v1.0.0']}" in two.reader.warned
    assert all("downloads are off" in one.refused for one in found[2:])


def test_with_the_hub_down_another_cached_revision_is_refused(two: TwoReleases) -> None:
    two.fetch("v1.0.0")
    two.hub.fail("GET|HEAD", answers(503), times=999)
    second, first = two.reader.fetch_all(two.repo, "v2.0.0", "v1.0.0", RULER_HUB_PATIENCE="0.05")
    assert "the cache does not know which commit it is" in second.refused
    assert first.commit == two.tags["v1.0.0"] and "taken from the cache" in two.reader.warned


def test_a_tag_that_moved_is_refused_and_both_commits_are_shown(two: TwoReleases) -> None:
    two.fetch("v1.0.0")
    before = two.tags["v1.0.0"]
    two.tags["v1.0.0"] = now = two.hub.foreign_commit(two.repo)
    tag, commit = two.reader.fetch_all(two.repo, "v1.0.0", before)
    assert before in tag.refused and now in tag.refused
    assert commit.commit == before, "who asks for the commit gets it"
    two.tags["v3.0.0"] = two.tags["v2.0.0"]
    assert "has data version 2.0.0" in two.fetch("v3.0.0").refused
    two.hub.create("org/no-release")
    no_manifest = two.reader.fetch("org/no-release", "main").refused
    assert "it is not a release of ruler-data" in no_manifest


def test_a_torn_download_is_tried_again_and_a_false_one_refused(two: TwoReleases) -> None:
    for act in (resets, answers(500), flips_a_bit):
        two.hub.fail("GET .*/resolve/.*parquet", act)
    assert two.fetch("v1.0.0").refused == ""
    two.hub.fail("GET .*/resolve/.*parquet", flips_a_bit, times=99)
    assert "refused: sha256 expected" in two.fetch("v2.0.0").refused


def test_a_damaged_download_of_the_manifest_is_healed_by_the_next_command(two: TwoReleases) -> None:
    two.hub.fail("GET .*/resolve/.*manifest.json", flips_a_bit, times=2)
    assert two.fetch("v1.0.0").refused
    assert two.fetch("v1.0.0").refused == "", "on a healthy Hub"
    two.hub.fail("GET .*/resolve/.*manifest.json", flips_a_bit)
    assert two.fetch("v2.0.0").refused == "", "by the same command"


def test_a_repo_without_a_revision_is_refused_as_a_run_refuses_it(two: TwoReleases) -> None:
    for command in (VERIFY, ("ruler_builders", "show")):
        done = two.reader.run(*command, two.repo)
        assert done.returncode == 2 and "give a revision, e.g. v1.0.0" in done.stderr


def test_a_release_is_shown_like_a_folder(two: TwoReleases) -> None:
    show = ("ruler_builders", "show", two.repo)
    row = two.reader.run(*show, "vt_1024", 2, "--revision", "v1.0.0")
    assert row.returncode == 0 and "vt_1024/2" in row.stdout, row.stderr
    assert "fwe_1024" in two.reader.run(*show, "--revision", "v1.0.0").stdout
    card = two.reader.run("ruler_builders", "show", two.repo, "--card", "--revision", "v1.0.0")
    assert card.stdout == contents(two.hub, two.repo, "v1.0.0")["README.md"].decode()


def test_a_damaged_cache_is_mended_online_only(tmp_path: Path, two: TwoReleases) -> None:
    two.fetch("v1.0.0")
    path = next((tmp_path / "hf").rglob(VT))
    path.write_bytes(path.read_bytes()[:-1])
    offline = two.fetch("v1.0.0", HF_HUB_OFFLINE="1")
    assert "refused: sha256 expected" in offline.refused
    assert two.fetch("v1.0.0").refused == ""


def test_what_is_not_there_is_said_in_one_line(two: TwoReleases) -> None:
    found = two.reader.fetch_all(two.repo, "v9.9.9", "../main", "-v1", "a b")
    assert "the Hub does not have it" in found[0].refused
    assert all("is not a valid name" in one.refused for one in found[1:])
    for name, words in {
        "org/nothing": "the Hub does not have it",
        "../x": "is not a valid name",
        "ruler": "is not a repo of the Hub",
    }.items():
        refused = two.reader.fetch(name, "v1.0.0").refused
        assert words in refused and len(refused.splitlines()) == 1


def test_a_cache_that_cannot_be_written_is_named(tmp_path: Path, two: TwoReleases) -> None:
    (tmp_path / "file").touch()
    refused = two.fetch("v1.0.0", HF_HOME=str(tmp_path / "file")).refused
    assert "Not a directory" in refused and str(tmp_path / "file") in refused


def test_verify_reads_what_is_asked_of_a_release(two: TwoReleases) -> None:
    some = two.reader.run(
        *VERIFY, two.repo, "--revision", "v1.0.0", "--tasks", "vt", "--lengths", "1024"
    )
    assert some.returncode == 3, some.stderr  # the card is of all configs
    assert "README.md" in some.stderr and two.tags["v1.0.0"] in some.stderr
    assert not [line for line in two.hub.requests if "fwe_1024" in line]
    all_of_it = two.reader.run(*VERIFY, two.repo, "--revision", "v1.0.0")
    assert "proved; 2 configs, 6 rows" in all_of_it.stdout, all_of_it.stderr
    two.fetch("v1.0.0")
    two.hub.requests.clear()
    offline = two.reader.run(*VERIFY, two.repo, "--revision", "v1.0.0", HF_HUB_OFFLINE="1")
    assert offline.returncode == 2 and two.hub.requests == []  # what lies there is not listed
    assert "downloads are off" in offline.stderr


def test_verify_names_what_is_wrong_with_a_release(two: TwoReleases) -> None:
    _, files = two.hub.repos[two.repo].commits[two.tags["v1.0.0"]]
    files["README.md"] = Blob(files["README.md"].data + b"more", large=False)
    done = two.reader.run(*VERIFY, two.repo, "--revision", "v1.0.0")
    assert done.returncode == 1 and "README.md: line " in done.stdout


@pytest.mark.parametrize("name", ["mistral-v0.2", *REGISTRY["mistral-v0.2"].ids])
def test_a_release_is_found_by_the_name_of_its_tokenizer_or_model_and_no_model_is_asked_for(
    name: str, two: TwoReleases
) -> None:
    done = two.reader.run("ruler_builders", "find", "--model", name, "--in", two.repo)
    assert done.returncode == 0 and f"\n{two.repo} v2.0.0, commit" in done.stdout, done.stderr
    assert not [line for line in two.hub.requests if two.repo not in line]


FOREIGN = Sibling("org/other", "v1.0.0", "c" * 40, "x", "f" * 64)
#: Files in the commit of a release that no build makes.
STRAYS = {
    "ruler.py": b"import os\n",
    "vt_1024/test-00001-of-00002.parquet": b"PAR1",
    ".cache/run.py": b"import os\n",
    "index.json": Index((FOREIGN,)).to_json().encode(),
}


@pytest.mark.parametrize("path", STRAYS)
def test_what_lies_beside_a_release_is_found_by_the_hubs_listing(
    path: str, two: TwoReleases
) -> None:
    _, files = two.hub.repos[two.repo].commits[two.tags["v1.0.0"]]
    files[path] = Blob(STRAYS[path], large=False)
    done = two.reader.run(*VERIFY, two.repo, "--revision", "v1.0.0")
    assert done.returncode == 1, done.stderr
    assert done.stdout.splitlines() == [f"{path}: no build makes it"]


def test_an_index_that_names_the_release_is_no_part_of_it(two: TwoReleases) -> None:
    _, files = two.hub.repos[two.repo].commits[two.tags["v1.0.0"]]
    own = Sibling(two.repo, "v1.0.0", "c" * 40, "x", "f" * 64)
    files["index.json"] = Blob(Index((own,)).to_json().encode(), large=False)
    assert two.reader.run(*VERIFY, two.repo, "--revision", "v1.0.0").returncode == 0


def test_a_renamed_repo_is_verified_and_published_under_its_new_name(
    site: Site, tmp_path: Path
) -> None:
    assert site.publish(site.builds(), "1.0.0").code == 0
    before, now = site.repo, f"{site.repo}-renamed"
    site.hub.rename(before, now)
    reader = Reader(site.hub, tmp_path / "hf")
    for name in (before, now):
        done = reader.run(*VERIFY, name, "--revision", "v1.0.0")
        assert done.returncode == 0, done.stdout + done.stderr
        assert (f"{before} is now {now}" in done.stderr) == (name == before)
        assert f"{now} v1.0.0 (commit " in done.stdout
    again = site.publish(site.builds("vt", length=2048))
    assert again.code == 0 and f"note: {before} is now {now}" in again.said, again.said
    card = contents(site.hub, now, "v1.1.0")["README.md"].decode()
    assert f"ruler-data verify {now} --revision v1.1.0" in card and f"{before} " not in card
    assert reader.run(*VERIFY, now, "--revision", "v1.1.0").returncode == 0
    site.hub.rename(now, f"{site.repo}-else")
    site.hub.renames.pop(before)
    site.hub.create(before)
    stolen = reader.run(*VERIFY, f"{site.repo}-else", "--revision", "v1.0.0")
    assert stolen.returncode == 1 and "README.md: line " in stolen.stdout, stolen.stderr
