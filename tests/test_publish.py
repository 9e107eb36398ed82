"""A release on the Hub: what it holds, and its version."""

from dataclasses import replace
from pathlib import Path

import pytest

from ruler_builders.pipeline.build_dir import BuildDir
from ruler_data.manifest import Manifest
from ruler_data.version import DATA_VERSION
from tests.conftest import Builds
from tests.hub import Hub
from tests.hub_faults import answers
from tests.publishing import Publisher, contents
from tests.tampering import copy_of, edit_table, manifest_of, table_of

VT = "vt_1024/test-00000-of-00001.parquet"


def manifest_at(hub: Hub, repo: str, revision: str) -> Manifest:
    return Manifest.from_json(contents(hub, repo, revision)["manifest.json"].decode())


def test_a_release_holds_the_rows_that_were_verified(
    publisher: Publisher, hub: Hub, repo: str, builds: Builds
) -> None:
    folder = builds()
    done = publisher(folder, repo, "1.0.0")
    assert done.code == 0, done.said
    assert hub.repos[repo].tags == {"v1.0.0": done.commit}
    assert len(hub.repos[repo].log()) == 2, "the Hub's own first commit, and one"
    held = contents(hub, repo, "v1.0.0")
    names = {"README.md", "LICENSES.md", "eval.yaml", "manifest.json"}
    assert set(held) == {path for path in held if path.endswith(".parquet")} | names
    built = BuildDir(folder).manifest()
    assert built
    for name, info in built.configs.items():
        assert held[info.file] == (folder / info.file).read_bytes()
        assert manifest_at(hub, repo, "v1.0.0").configs[name] == info
    assert (
        f'load_dataset("{repo}", "vt_1024", split="test", revision="v1.0.0")'
        in held["README.md"].decode()
    )


def test_publishing_again_sends_nothing(
    publisher: Publisher, hub: Hub, repo: str, builds: Builds
) -> None:
    done = publisher(builds(), repo, "1.0.0")
    hub.requests.clear()
    for version in ("1.0.0", ""):
        again = publisher(builds(), repo, version)
        assert (again.code, again.published, again.sent) == (0, done.commit, ())
    assert hub.writes() == []
    assert len(hub.repos[repo].log()) == 2


def test_a_dry_run_writes_nothing(
    publisher: Publisher, hub: Hub, repo: str, builds: Builds
) -> None:
    done = publisher(builds(), repo, "1.0.0", dry_run=True)
    assert done.code == 0 and done.tag == "v1.0.0" and VT in done.to_send
    assert hub.writes() == [] and repo not in hub.repos
    publisher(builds(), repo, "1.0.0")
    hub.requests.clear()
    wider = publisher(builds("vt,fwe,niah_single_1"), repo, dry_run=True)
    assert (wider.tag, wider.change, wider.commit) == ("v1.1.0", "MINOR", None)
    assert VT not in wider.to_send
    assert hub.writes() == []


def test_added_configs_are_a_minor_release_and_the_old_ones_stay(
    publisher: Publisher, hub: Hub, repo: str, builds: Builds
) -> None:
    publisher(builds(), repo, "1.0.0")
    hub.requests.clear()
    done = publisher(builds("vt", length=2048), repo)
    assert (done.code, done.tag, done.change) == (0, "v1.1.0", "MINOR"), done.said
    assert not [path for path in done.sent if "_1024/" in path]
    assert sum("/lfs/" in line and line.startswith("PUT") for line in hub.requests) == 1
    manifest = manifest_at(hub, repo, "v1.1.0")
    assert list(manifest.configs) == ["vt_1024", "vt_2048", "fwe_1024"]
    assert manifest.data_version == "1.1.0" and manifest.rows_version == DATA_VERSION
    card = contents(hub, repo, "v1.1.0")["README.md"].decode()
    assert card.count("version: 1.1.0") == 3 and "version: 1.0.0" not in card
    assert manifest_at(hub, repo, "v1.0.0").data_version == "1.0.0", "what was stays as it was"


@pytest.mark.parametrize(
    ("tasks", "options", "version", "words"),
    [
        ("vt,fwe,niah_single_1", {}, "1.0.1", "this is 1.1.0"),
        ("vt,fwe,niah_single_1", {}, "2.0.0", "this is 1.1.0"),
        ("vt,fwe,niah_single_1", {}, "1.0.0", "a tag is never moved"),
        ("vt,fwe", {"seed": 43}, "1.1.0", "this is 2.0.0"),
        ("vt,fwe", {"seed": 43}, "1.0.0", "a tag is never moved"),
        ("vt,fwe", {}, "1.0.1", "nothing changes"),
        ("vt,fwe", {}, "0.9.0", "published already"),
        ("vt", {"seed": 43}, "", "seed 42, this folder with 43"),
        ("vt,fwe", {"tokenizer": "mistral"}, "", "a repo holds one tokenizer"),
    ],
)
def test_a_version_that_lies_or_a_stranger_is_refused(
    tasks: str,
    options: dict[str, object],
    version: str,
    words: str,
    publisher: Publisher,
    hub: Hub,
    repo: str,
    builds: Builds,
) -> None:
    publisher(builds(), repo, "1.0.0")
    hub.requests.clear()
    done = publisher(builds(tasks, **options), repo, version)
    assert done.code == 2 and words in done.said, done.said
    assert hub.writes() == []


def test_what_somebody_edited_on_the_hub_is_replaced_with_a_note(
    publisher: Publisher, hub: Hub, repo: str, builds: Builds
) -> None:
    publisher(builds(), repo, "1.0.0")
    hub.foreign_commit(repo, "README.md", b"mine")
    hub.foreign_commit(repo, "NOTES.txt")
    assert publisher(builds(), repo).published == hub.repos[repo].tags["v1.0.0"]
    done = publisher(builds("vt", length=2048), repo)
    assert "note: changed on the Hub since 1.0.0: README.md;" in done.said
    held = contents(hub, repo, "v1.1.0")
    assert held["NOTES.txt"] == b"hello" and held["README.md"] != b"mine"


def test_changed_rows_are_a_major_release(
    publisher: Publisher, hub: Hub, repo: str, builds: Builds
) -> None:
    publisher(builds(), repo, "1.0.0")
    before = hub.writes()
    refused = publisher(builds(seed=43), repo)
    assert refused.code == 2 and "name the new version: --version 2.0.0" in refused.said
    assert hub.writes() == before
    done = publisher(builds(seed=43), repo, "2.0.0")
    assert (done.code, done.change) == (0, "MAJOR"), done.said
    assert manifest_at(hub, repo, "v2.0.0").seed == 43


def test_rows_added_to_those_of_a_config_are_a_minor_release(
    publisher: Publisher, hub: Hub, repo: str, builds: Builds
) -> None:
    publisher(builds(rows=2), repo, "1.0.0")
    refused = publisher(builds(rows=3), repo, "2.0.0")
    assert refused.code == 2 and "new: vt_1024 (2 rows, now 3), fwe_1024" in refused.said
    done = publisher(builds(rows=3), repo)
    assert (done.code, done.change) == (0, "MINOR"), done.said
    assert manifest_at(hub, repo, "v1.1.0").configs["vt_1024"].rows == 3
    other = publisher(builds(rows=5, seed=43), repo)
    assert other.code == 2 and "name the new version: --version 2.0.0" in other.said


def test_a_short_trial_does_not_replace_a_release_by_accident(
    publisher: Publisher, hub: Hub, repo: str, builds: Builds
) -> None:
    publisher(builds(), repo, "1.0.0")
    hub.requests.clear()
    trial = builds(rows=2)
    refused = publisher(trial, repo, "2.0.0", dry_run=True)
    assert refused.code == 2 and "--allow-fewer-rows" in refused.said, refused.said
    assert "vt_1024 from 3 to 2, fwe_1024 from 3 to 2" in refused.said
    assert publisher(trial, repo, "2.0.0").code == 2 and hub.writes() == []
    done = publisher(trial, repo, "2.0.0", allow_fewer_rows=True)
    assert done.code == 0 and manifest_at(hub, repo, "main").configs["vt_1024"].rows == 2


def test_configs_of_unequal_rows_need_consent(
    publisher: Publisher, hub: Hub, repo: str, builds: Builds
) -> None:
    publisher(builds(), repo, "1.0.0")
    hub.requests.clear()
    longer = builds("vt", length=2048, rows=5)
    refused = publisher(longer, repo)
    assert refused.code == 2 and "most 3, vt_2048 5; give --allow-unequal-rows" in refused.said
    assert hub.writes() == []
    assert publisher(longer, repo, allow_unequal_rows=True).tag == "v1.1.0"


def test_the_plan_is_a_table_of_rows_bytes_and_configs(
    publisher: Publisher, hub: Hub, repo: str, builds: Builds
) -> None:
    publisher(builds(), repo, "1.0.0")
    old = manifest_at(hub, repo, "v1.0.0").configs["vt_1024"]
    folder = builds("vt,fwe", seed=43, rows=4)
    now = manifest_of(folder).configs["vt_1024"]
    done = publisher.command(folder, "--repo", repo, "--version", "2.0.0", "--dry-run")
    assert done.returncode == 0, done.stderr
    lines = done.stdout.splitlines()
    assert f"{repo}: v1.0.0 -> v2.0.0" in lines
    row = next(line.split() for line in lines if line.startswith("  vt_1024"))
    assert row[1:4] == ["3", "->", "4"] and row[-2:] == ["other", "rows"]
    assert row[4:7] == [f"{old.bytes:,}", "->", f"{now.bytes:,}"]
    assert next(line.split()[1:4] for line in lines if line.startswith("  all")) == ["6", "->", "8"]
    more = publisher.command(builds("vt", length=2048), "--repo", repo, "--dry-run")
    assert "  2 configs unchanged" in more.stdout.splitlines()


@pytest.mark.parametrize("status", [400, 403, 422])
def test_a_release_without_the_file_that_the_hub_refuses(
    status: int, publisher: Publisher, hub: Hub, repo: str, builds: Builds
) -> None:
    hub.requests.clear()
    hub.fail("POST .*/commit/main", answers(status, said="eval.yaml: unknown framework"))
    done = publisher(builds(), repo, "1.0.0")
    assert done.code == 0 and "eval.yaml is left out" in done.said, done.said
    assert "unknown framework" in done.said
    assert done.said.count("left out") == 1
    assert sum(line.startswith("PUT") for line in hub.requests) == 2, "no file is sent twice"
    assert "eval.yaml" not in contents(hub, repo, "v1.0.0")
    again = publisher(builds(), repo)
    assert again.published == done.commit
    assert publisher.verify(repo, "v1.0.0").returncode == 0


def test_the_same_rows_in_other_bytes_are_a_patch(
    publisher: Publisher, hub: Hub, repo: str, builds: Builds, tmp_path: Path
) -> None:
    publisher(builds(), repo, "1.0.0")
    folder = copy_of(builds(), tmp_path)
    edit_table(folder, "vt_1024", table_of(folder, "vt_1024"))  # rewritten with other options
    refused = publisher(folder, repo, "1.1.0")
    assert refused.code == 2 and "this is 1.0.1" in refused.said
    hub.requests.clear()
    done = publisher(folder, repo)
    assert (done.code, done.tag, done.change) == (0, "v1.0.1", "PATCH"), done.said
    before, now = (manifest_at(hub, repo, tag).configs["vt_1024"] for tag in ("v1.0.0", "v1.0.1"))
    assert before.digest == now.digest and before.sha256 != now.sha256


@pytest.mark.parametrize("file", ["/etc/hostname", "vt_1024/../../secret", "fwe_1024/x.parquet"])
def test_a_manifest_on_the_hub_that_names_files_elsewhere_is_refused(
    file: str, publisher: Publisher, hub: Hub, repo: str, builds: Builds
) -> None:
    publisher(builds(), repo, "1.0.0")
    manifest = manifest_at(hub, repo, "v1.0.0")
    hostile = replace(manifest.configs["vt_1024"], file=file)
    text = replace(manifest, configs={**manifest.configs, "vt_1024": hostile}).to_json()
    hub.repos[repo].tags["v1.0.0"] = hub.foreign_commit(repo, "manifest.json", text.encode())
    hub.requests.clear()
    done = publisher(builds("vt", length=2048), repo)
    assert done.code == 1 and "config vt_1024 names the file" in done.said, done.said
    assert hub.writes() == []
