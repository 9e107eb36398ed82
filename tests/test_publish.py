"""A release on the Hub: what it holds, and its version."""

import re
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

import ruler_builders
from ruler_builders.pipeline.build_dir import BuildDir
from ruler_builders.publish.plan import closed_licences, source_notes
from ruler_builders.sources import CATALOGUE
from ruler_data.manifest import SourceInfo
from tests.commands import call_in
from tests.hub import READ, Blob
from tests.hub_faults import answers
from tests.publishing import Site
from tests.tampering import (
    MANIFEST,
    bytes_of,
    copy_of,
    edit_card,
    edit_file,
    edit_manifest,
    manifest_of,
    table_of,
)
from tests.test_golden import compare

VT = "vt_1024/test-00000-of-00001.parquet"


def test_a_release_holds_the_rows_that_were_verified(site: Site) -> None:
    folder = site.builds()
    done = site.publish(folder, "1.0.0")
    assert done.code == 0, done.said
    assert site.held.tags == {"v1.0.0": done.commit}
    assert len(site.held.log()) == 2, "the Hub's own first commit, and one"
    held = site.contents("v1.0.0")
    names = {"README.md", "LICENSES.md", "manifest.json"}
    assert set(held) == {path for path in held if path.endswith(".parquet")} | names
    built = BuildDir(folder).manifest()
    assert built
    for name, info in built.configs.items():
        assert held[info.file] == (folder / info.file).read_bytes()
        assert site.manifest("v1.0.0").configs[name] == info
    assert (
        f'load_dataset("{site.repo}", "vt_1024", split="test", revision="v1.0.0")'
        in held["README.md"].decode()
    )


def test_publishing_again_sends_nothing(site: Site) -> None:
    done = site.publish(site.builds(), "1.0.0")
    site.hub.requests.clear()
    for version in ("1.0.0", ""):
        again = site.publish(site.builds(), version)
        assert (again.code, again.published, again.sent) == (0, done.commit, ())
    assert site.hub.writes() == []
    assert len(site.held.log()) == 2


def test_publishing_an_older_version_again_sends_nothing(site: Site) -> None:
    first = site.publish(site.builds(), "1.0.0")
    site.publish(site.builds("vt", length=2048), "1.1.0")
    site.hub.requests.clear()
    again = site.publish(site.builds(), "1.0.0")
    assert (again.code, again.tag, again.published) == (0, "v1.0.0", first.commit), again.said
    assert site.hub.writes() == []


def test_a_dry_run_writes_nothing(site: Site) -> None:
    done = site.publish(site.builds(), "1.0.0", dry_run=True)
    assert done.code == 0 and done.tag == "v1.0.0" and VT in done.to_send
    assert site.hub.writes() == [] and site.repo not in site.hub.repos
    site.publish(site.builds(), "1.0.0")
    site.hub.requests.clear()
    wider = site.publish(site.builds("vt,fwe,niah_single_1"), dry_run=True)
    assert (wider.tag, wider.change, wider.commit) == ("v1.1.0", "MINOR", None)
    assert VT not in wider.to_send
    assert site.hub.writes() == []


def test_added_configs_are_a_minor_release_and_the_old_ones_stay(site: Site) -> None:
    site.publish(site.builds(), "1.0.0")
    site.hub.requests.clear()
    done = site.publish(site.builds("vt", length=2048))
    assert (done.code, done.tag, done.change) == (0, "v1.1.0", "MINOR"), done.said
    assert not [path for path in done.sent if "_1024/" in path]
    assert sum("/lfs/" in line and line.startswith("PUT") for line in site.hub.requests) == 1
    manifest = site.manifest("v1.1.0")
    assert list(manifest.configs) == ["vt_1024", "vt_2048", "fwe_1024"]
    assert manifest.data_version == "1.1.0"
    card = site.contents("v1.1.0")["README.md"].decode()
    assert card.count("version: 1.1.0") == 3 and "version: 1.0.0" not in card
    assert site.manifest("v1.0.0").data_version == "1.0.0", "what was stays as it was"


@pytest.mark.parametrize(
    ("tasks", "options", "version", "words"),
    [
        ("vt,fwe,niah_single_1", {}, "1.0.1", "this is 1.1.0"),
        ("vt,fwe,niah_single_1", {}, "2.0.0", "this is 1.1.0"),
        ("vt,fwe,niah_single_1", {}, "1.0.0", "a tag is never moved"),
        ("vt,fwe", {"seed": 43}, "1.1.0", "this is 2.0.0"),
        ("vt,fwe", {"seed": 43}, "", "name the new version: --version 2.0.0"),
        ("vt,fwe", {"seed": 43}, "1.0.0", "a tag is never moved"),
        ("vt,fwe", {}, "1.0.1", "nothing changes"),
        ("vt,fwe", {}, "0.9.0", "published already"),
        ("vt", {"seed": 43}, "", "seed 42, this folder with 43"),
        ("vt,fwe", {"tokenizer": "mistral"}, "", "a repo holds one tokenizer"),
    ],
)
def test_a_version_that_lies_or_a_stranger_is_refused(
    tasks: str, options: dict[str, object], version: str, words: str, site: Site
) -> None:
    site.publish(site.builds(), "1.0.0")
    site.hub.requests.clear()
    done = site.publish(site.builds(tasks, **options), version)
    assert done.code == 2 and words in done.said, done.said
    assert site.hub.writes() == []


def test_rows_of_a_higher_major_data_version_are_not_mixed_with_published_ones(site: Site) -> None:
    site.publish(site.builds(), "1.0.0")
    site.hub.requests.clear()
    folder = site.builds("vt")
    edit_manifest(folder, data_version="2.0.0")
    done = site.publish(folder, "2.0.0")
    assert done.code == 2 and "rows of MAJOR data version 1, this folder with 2" in done.said
    assert site.hub.writes() == []


def test_only_the_sources_of_configs_that_stay_have_to_be_those_of_the_folder(site: Site) -> None:
    site.publish(site.builds("vt,qa_1"), "1.0.0", allowed=["sample"])
    manifest = site.manifest("v1.0.0")
    sources = tuple(replace(one, sha256="5" * 64) for one in manifest.sources)  # another copy
    text = replace(manifest, sources=sources).to_json()
    site.held.tags["v1.0.0"] = site.hub.foreign_commit(site.repo, MANIFEST, text.encode())
    done = site.publish(site.builds("qa_1"), allowed=["sample"])
    assert (done.code, done.tag, done.change) == (0, "v1.0.1", "PATCH"), done.said
    assert list(site.manifest("v1.0.1").configs) == ["vt_1024", "qa_1_1024"]


def test_what_somebody_edited_on_the_hub_is_replaced_with_a_note(site: Site) -> None:
    site.publish(site.builds(), "1.0.0")
    site.hub.foreign_commit(site.repo, "README.md", b"mine")
    site.hub.foreign_commit(site.repo, "NOTES.txt")
    site.hub.foreign_commit(site.repo, "more.txt")
    assert site.publish(site.builds()).published == site.held.tags["v1.0.0"]
    done = site.publish(site.builds("vt", length=2048))
    assert "note: changed on the Hub since 1.0.0: README.md;" in done.said
    assert (
        "note: no part of a release: 'NOTES.txt', 'more.txt'; removed by this release, kept by"
        in done.said
    )
    assert done.sent[-2:] == ("NOTES.txt", "more.txt")
    held = site.contents("v1.1.0")
    assert not {"NOTES.txt", "more.txt"} & held.keys() and held["README.md"] != b"mine"


def test_a_card_that_was_there_before_the_first_release_is_replaced_with_a_note(site: Site) -> None:
    site.hub.create(site.repo)
    site.hub.foreign_commit(site.repo, "README.md", b"mine")
    note = "note: changed on the Hub: README.md; replaced by this release"
    dry = site.publisher.command(site.builds(), "--repo", site.repo, "--dry-run")
    assert note in dry.stdout and note in site.publish(site.builds()).said


def test_rows_added_to_those_of_a_config_are_a_minor_release(site: Site) -> None:
    site.publish(site.builds(rows=2), "1.0.0")
    refused = site.publish(site.builds(rows=3), "2.0.0")
    assert refused.code == 2 and "new: vt_1024 (2 rows, now 3), fwe_1024" in refused.said
    done = site.publish(site.builds(rows=3))
    assert (done.code, done.change) == (0, "MINOR"), done.said
    assert site.manifest("v1.1.0").configs["vt_1024"].rows == 3
    other = site.publish(site.builds(rows=5, seed=43))
    assert other.code == 2 and "name the new version: --version 2.0.0" in other.said
    assert site.publish(site.builds(rows=5, seed=43), "2.0.0").code == 0
    longer = site.publish(site.builds("vt", length=2048, rows=5, seed=43))
    assert (longer.code, longer.tag) == (0, "v2.1.0"), "the same rows, of a data version 1"


def test_a_short_trial_does_not_replace_a_release_by_accident(site: Site) -> None:
    site.publish(site.builds(), "1.0.0")
    site.hub.requests.clear()
    trial = site.builds(rows=2)
    refused = site.publish(trial, "2.0.0", dry_run=True)
    assert refused.code == 2 and "--allow fewer-rows" in refused.said, refused.said
    assert f"configs have at most 2 rows, and {site.repo} holds 3" in refused.said
    assert site.publish(trial, "2.0.0").code == 2 and site.hub.writes() == []
    done = site.publish(trial, "2.0.0", allowed=["fewer-rows"])
    assert done.code == 0 and site.manifest("main").configs["vt_1024"].rows == 2


def test_the_card_that_is_shown_is_the_one_that_is_published(site: Site) -> None:
    site.publish(site.builds(), "1.0.0")
    longer = site.builds("vt", length=2048)
    show = ("show", longer, "--card", "--repo", site.repo)
    shown = call_in(site.publisher.pool, "ruler-data", *show, env=site.publisher.env())
    assert shown.returncode == 0, shown.stderr
    assert "--revision v1.1.0" in shown.stdout and "vt_1024" in shown.stdout
    assert site.publish(longer).code == 0
    assert shown.stdout == site.contents("v1.1.0")["README.md"].decode()


def test_configs_of_unequal_rows_are_no_release(site: Site) -> None:
    site.publish(site.builds(), "1.0.0")
    site.hub.requests.clear()
    refused = site.publish(site.builds("vt", length=2048, rows=5))
    assert refused.code == 2
    assert "these have 3 or 5; build each with the same --rows" in refused.said
    assert site.hub.writes() == []


def test_the_plan_says_what_changes_in_each_config(site: Site) -> None:
    site.publish(site.builds(), "1.0.0")
    old = site.manifest("v1.0.0").configs["vt_1024"]
    folder = site.builds("vt,fwe", seed=43, rows=4)
    now = manifest_of(folder).configs["vt_1024"]
    done = site.publisher.command(folder, "--repo", site.repo, "--version", "2.0.0", "--dry-run")
    assert done.returncode == 0, done.stderr
    lines = done.stdout.splitlines()
    assert f"{site.repo} (public): v1.0.0 -> v2.0.0" in lines
    bytes_of_both = f"{old.bytes:,} -> {now.bytes:,} bytes"
    assert f"  vt_1024: other rows, 3 -> 4 rows, {bytes_of_both}" in lines
    more = site.publisher.command(site.builds("vt", length=2048), "--repo", site.repo, "--dry-run")
    lines = more.stdout.splitlines()
    assert "  2 configs unchanged" in lines
    assert any(line.startswith("  vt_2048: new, 3 rows, ") for line in lines)


def test_all_that_publications_say_is_golden(site: Site) -> None:
    longer = site.builds("vt", length=2048)
    said = list[str]()
    for folder, *options in (
        (site.builds(), "--dry-run", "--private"), (site.builds(), "--private"), (site.builds(),),
        (longer, "--dry-run"), (longer,), (longer, "--dry-run"),
        (site.builds(seed=43), "--version", "2.0.0", "--dry-run"),
        (site.builds("niah_single_2", length=1536), "--allow", "sample", "--dry-run"),
    ):  # fmt: skip
        done = site.publisher.command(folder, "--repo", site.repo, *options)
        name = f"{folder.name} {' '.join(map(str, options))}: {done.returncode}"
        said += [name, done.stdout, done.stderr]
    text = "\n".join(said).replace(str(longer.parent), "DIST")
    text = re.sub(r"\b[0-9a-f]{40}\b", "COMMIT", text.replace(site.repo, "org/ruler"))
    # Sizes are pyarrow's.
    text = re.sub(r"([0-9,]+ -> )?[0-9,]+ bytes", "BYTES", text)
    compare("publish.txt", text)


def of_another_pyarrow(folder: Path) -> str:
    """Let a folder be written by another pyarrow, and return its version."""
    version = manifest_of(folder).pyarrow
    other = "0" + version[1:]
    data = bytes_of(table_of(folder, "vt_1024")).replace(version.encode(), other.encode())
    edit_file(folder, "vt_1024", data)
    edit_manifest(folder, pyarrow=other)
    return other


def test_the_same_rows_in_other_bytes_are_a_patch(tmp_path: Path, site: Site) -> None:
    site.publish(site.builds(), "1.0.0")
    of_another_pyarrow(folder := copy_of(site.builds(), tmp_path))
    path, size = folder / VT, manifest_of(folder).configs["vt_1024"]
    files = site.held.files("v1.0.0")
    manifest = site.manifest("v1.0.0")
    manifest = replace(manifest, configs={**manifest.configs, "vt_1024": size})
    commit = site.held.commit(
        {
            **files,
            VT: Blob(path.read_bytes(), large=True),
            MANIFEST: Blob(manifest.to_json().encode(), large=False),
        }
    )
    site.held.tags["v1.0.0"] = commit
    refused = site.publish(site.builds(), "1.1.0")
    assert refused.code == 2 and "this is 1.0.1" in refused.said
    done = site.publish(site.builds())
    assert (done.code, done.tag, done.change) == (0, "v1.0.1", "PATCH"), done.said
    before, now = (site.manifest(tag).configs["vt_1024"] for tag in ("v1.0.0", "v1.0.1"))
    assert before.digest == now.digest and before.sha256 != now.sha256


@pytest.mark.parametrize("package", ["pyarrow", "ruler-data"])
def test_a_folder_of_other_versions_is_not_published_with_any_consent(
    package: str, tmp_path: Path, site: Site
) -> None:
    folder = copy_of(site.builds(), tmp_path)
    if package == "pyarrow":
        version = of_another_pyarrow(folder)
    else:
        version = "99.0.0"
        edit_manifest(folder, package_version=version)
    site.hub.requests.clear()
    for consents in ((), ("--allow", "unproved")):
        done = site.publisher.command(folder, "--repo", site.repo, *consents)
        assert done.returncode == 1, done.stderr
        assert f"pip install '{package}=={version}'" in done.stderr
        assert "--allow" not in done.stderr
    assert site.hub.writes() == []


@pytest.mark.parametrize(
    ("file", "version", "words"),
    [
        *(
            (file, "1.0.0", "config vt_1024 names the file")
            for file in ("/etc/hostname", "vt_1024/../../secret", "fwe_1024/x.parquet")
        ),
        (VT, "1.0.7", "whose manifest says 1.0.7; it was changed after publication"),
    ],
)
def test_a_release_whose_manifest_was_forged_is_not_extended(
    file: str, version: str, words: str, site: Site
) -> None:
    site.publish(site.builds(), "1.0.0")
    manifest = site.manifest("v1.0.0")
    configs = {**manifest.configs, "vt_1024": replace(manifest.configs["vt_1024"], file=file)}
    text = replace(manifest, configs=configs, data_version=version).to_json()
    site.held.tags["v1.0.0"] = site.hub.foreign_commit(site.repo, MANIFEST, text.encode())
    site.hub.requests.clear()
    done = site.publish(site.builds("vt", length=2048))
    assert done.code == 1 and words in done.said, done.said
    assert site.hub.writes() == []


def not_pinned(folder: Path) -> None:
    manifest = manifest_of(folder)
    source = SourceInfo("squad", "SQuAD", "real", "", "5" * 64, "CC0-1.0", "", False, "")
    unpinned = replace(manifest, sources=(*manifest.sources, source))
    (folder / MANIFEST).write_text(unpinned.to_json(), encoding="utf-8")


#: What is done to a folder before it is published, with which options; exit status, and words.
AT_ONCE: dict[str, tuple[Callable[[Path], object], dict[str, Any], int, str]] = {
    **{
        f"version {version!a}": (str, {"version": version}, 2, "write MAJOR.MINOR.PATCH")
        for version in ("1", "1.0", "v1.0.0", "1.0.0-rc1", "01.0.0", "-1.0.0", "1.0.0\n")
    },
    "a card that is no YAML": (
        lambda folder: edit_card(folder, "language:\n- en\n", "language: [English\n"),
        {}, 1, "README.md: the Hub would refuse the card: YAML",
    ),
    "a file cut short": (
        lambda folder: (folder / VT).write_bytes((folder / VT).read_bytes()[:-1]),
        {}, 1, f"verification failed: {VT}: is missing or not",
    ),
    "sources not pinned": (not_pinned, {}, 2, "--allow unpinned"),
    "a token in no ASCII": (str, {"token": "hf_gehe\u00efm" + "x" * 30}, 1, "not ASCII"),
}  # fmt: skip


@pytest.mark.parametrize("name", AT_ONCE)
def test_what_cannot_be_released_is_refused_at_once(name: str, site: Site, tmp_path: Path) -> None:
    act, options, code, words = AT_ONCE[name]
    copy = copy_of(site.builds(), tmp_path)
    act(copy)
    done = site.publish(copy, **options)
    assert done.code == code and words in done.said, done.said
    assert len(done.said.splitlines()) == 1 and "gehe" not in done.said
    assert site.hub.requests == []


@pytest.mark.parametrize(
    "name",
    ["ruler", "../ruler", "/ruler", "org/../x", "org/-rf", "org/x\ny", "org/" + "x" * 300, "a/b/c"],
)
def test_hostile_repo_names_are_refused_at_once(name: str, site: Site) -> None:
    done = site.publisher(site.builds(), name)
    assert done.code == 2 and "\n" not in done.said and site.hub.requests == []


@pytest.mark.parametrize(
    ("env", "code", "words"),
    [
        ({"HF_HUB_OFFLINE": "1"}, 2, "HF_HUB_OFFLINE"),
        ({"RULER_OFFLINE": "1"}, 2, "RULER_OFFLINE"),
        ({"HF_TOKEN": ""}, 1, "no token"),
        ({"HF_OIDC_RESOURCE": "datasets/org/x", "HF_OIDC_ID_TOKEN": "", "GITHUB_ACTIONS": ""}, 1,
         "no OIDC id token"),
    ],
)  # fmt: skip
def test_without_token_or_downloads_nothing_is_asked(
    env: dict[str, str], code: int, words: str, site: Site
) -> None:
    done = site.publisher.command(site.builds(), "--repo", site.repo, **env)
    assert done.returncode == code and words in done.stderr
    assert len(done.stderr.splitlines()) == 1 and site.hub.requests == []


def test_samples_and_unpinned_sources_are_published_only_when_asked(
    site: Site, tmp_path: Path
) -> None:
    folder = site.builds("niah_single_2", length=1536)
    refused = site.publish(folder)
    assert refused.code == 2 and "--allow sample" in refused.said and site.hub.requests == []
    assert site.publish(folder, allowed=["sample"]).code == 0
    copy = copy_of(site.builds(), tmp_path)
    not_pinned(copy)
    (line,) = source_notes(manifest_of(copy))
    assert line == f"unpinned: SQuAD: sha256 {'5' * 64} is not the pinned one"
    assert "give --allow unpinned" not in site.publish(copy, allowed=["unpinned"]).said


def test_what_needs_absent_sources_is_published_only_when_asked(
    site: Site, shared: Path, tmp_path: Path
) -> None:
    folder = tmp_path / "out"
    ruler_builders.build(
        "mistral", tasks="vt,qa_1", lengths="1024", rows=2, sources=shared / "sources", out=folder
    )
    words = (folder, "--repo", site.repo, "--allow")
    refused = site.publisher.command(*words, "unpinned", RULER_CACHE=str(tmp_path / "cache"))
    assert refused.returncode == 1 and "give --allow unproved" in refused.stderr, refused.stderr
    assert site.hub.writes() == []
    done = site.publisher.command(*words, "unpinned,unproved", RULER_CACHE=str(tmp_path / "cache"))
    assert done.returncode == 0, done.stderr


OFFLINE = {"RULER_OFFLINE": "1", "HF_HUB_OFFLINE": "1", "HF_TOKEN": ""}


@pytest.mark.parametrize(
    ("owner", "env", "shown", "told"),
    [
        ("org", {"HF_TOKEN": ""}, "would be created", ["no token"]),
        ("else", {}, "would be created", ["tester, who is not seen to belong to else"]),
        ("org", OFFLINE, "can be released", ["whether the token may write", "check of the card"]),
    ],
)
def test_a_dry_run_says_what_it_cannot_know_and_ends_with_3(
    owner: str, env: dict[str, str], shown: str, told: list[str], site: Site
) -> None:
    done = site.publisher.command(site.builds(), "--repo", f"{owner}/new", "--dry-run", **env)
    assert done.returncode == 3 and shown in done.stdout, done.stderr
    assert all(words in done.stderr for words in told), done.stderr
    assert site.hub.requests == [] or env is not OFFLINE


def test_a_dry_run_in_the_token_s_own_namespace_knows_that_it_may_write(site: Site) -> None:
    done = site.publisher.command(site.builds(), "--repo", "tester/new", "--dry-run")
    assert done.returncode == 0 and "would be created" in done.stdout, done.stderr


def test_a_repo_of_other_data_is_refused(site: Site) -> None:
    site.hub.create(site.repo)
    site.hub.foreign_commit(site.repo, "train.csv")
    done = site.publish(site.builds())
    assert done.code == 2 and "train.csv" in done.said
    assert site.hub.writes() == []


def test_the_token_must_be_there_and_may_write(site: Site) -> None:
    read_only = site.publish(site.builds(), token=READ)
    assert read_only.code == 1 and "write access" in read_only.said
    assert site.hub.writes() == []
    unknown = site.publish(site.builds(), token="hf_nobody")
    assert unknown.code == 1 and "does not accept the token" in unknown.said
    assert site.repo not in site.hub.repos


def test_the_hubs_own_check_comes_before_any_write_and_in_a_dry_run_too(site: Site) -> None:
    refused = answers(400, said="tags: not allowed")
    for dry_run in (True, False):
        site.hub.fail("POST /api/validate-yaml", refused, times=9)
        done = site.publish(site.builds(), dry_run=dry_run)
        assert done.code == 1 and "README.md" in done.said and "tags: not allowed" in done.said
        site.hub.faults.clear()
    assert site.hub.writes() == [] and site.repo not in site.hub.repos
    assert site.hub.requests[0] == "GET /api/whoami-v2", "the token is asked about first"


def test_a_public_repo_is_not_taken_for_the_private_one_that_was_asked_for(site: Site) -> None:
    site.hub.create(site.repo)
    for dry_run in (True, False):
        done = site.publish(site.builds(), private=True, dry_run=dry_run)
        assert done.code == 2 and f"{site.repo}: is public, and --private" in done.said
    assert site.hub.writes() == []
    hidden = site.publisher(site.builds(), f"{site.repo}-hidden", private=True)
    assert hidden.code == 0 and f"{site.repo}-hidden (private): no release" in hidden.said
    assert site.hub.repos[f"{site.repo}-hidden"].private


def test_each_licence_that_is_not_open_is_a_line_of_the_dry_run(site: Site) -> None:
    manifest = manifest_of(site.builds())
    sources = [
        SourceInfo(one.name, one.title, "real", "", "", one.licence, "", True, "")
        for one in CATALOGUE.values()
    ]
    built = replace(manifest, sources=tuple(sources))
    (line,) = closed_licences(built)
    assert "Essays" in line and "all rights reserved" in line and "your responsibility" in line
    assert list(closed_licences(manifest)) == []
