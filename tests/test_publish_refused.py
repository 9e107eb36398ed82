"""What is refused before anything is written, mostly before anything is asked."""

from dataclasses import replace
from pathlib import Path

import pytest

from ruler_builders.publish.plan import closed_licences
from ruler_builders.sources import CATALOGUE
from ruler_data.manifest import SourceInfo
from tests.hub import READ
from tests.hub_faults import answers
from tests.publishing import Site
from tests.tampering import copy_of, edit_card, manifest_of

VT = "vt_1024/test-00000-of-00001.parquet"


@pytest.mark.parametrize(
    "name",
    ["ruler", "../ruler", "/ruler", "org/../x", "org/-rf", "org/x\ny", "org/" + "x" * 300, "a/b/c"],
)
def test_hostile_repo_names_are_refused_before_any_request(name: str, site: Site) -> None:
    done = site.publisher(site.builds(), name)
    assert done.code == 2 and "\n" not in done.said
    assert site.hub.requests == []


@pytest.mark.parametrize(
    "version", ["1", "1.0", "v1.0.0", "1.0.0-rc1", "01.0.0", "-1.0.0", "1.0.0\n"]
)
def test_what_is_no_version_is_refused_before_any_request(version: str, site: Site) -> None:
    assert site.publish(site.builds(), version).code == 2
    assert site.hub.requests == []


def test_a_card_that_is_not_valid_is_refused_before_any_request(tmp_path: Path, site: Site) -> None:
    copy = copy_of(site.builds(), tmp_path)
    edit_card(copy, "language:\n- en\n", "language: [English\n")
    done = site.publish(copy)
    assert done.code == 1 and "README.md: the Hub would refuse the card: YAML" in done.said
    assert site.hub.requests == []


def test_a_folder_that_is_not_clean_is_refused_before_any_request(
    tmp_path: Path, site: Site
) -> None:
    copy = copy_of(site.builds(), tmp_path)
    (copy / VT).write_bytes((copy / VT).read_bytes()[:-1])
    done = site.publish(copy)
    assert done.code == 1 and f"verification failed: {VT}: is missing or not" in done.said
    assert site.hub.requests == []


def test_a_sample_is_published_only_when_asked(site: Site) -> None:
    folder = site.builds("niah_single_2", length=1536)
    refused = site.publish(folder)
    assert refused.code == 2 and "--allow-sample" in refused.said
    assert site.hub.requests == []
    assert site.publish(folder, allow_sample=True).code == 0


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


def test_a_dry_run_without_a_network_says_what_it_could_not_ask(site: Site) -> None:
    offline = {"RULER_OFFLINE": "1", "HF_HUB_OFFLINE": "1", "HF_TOKEN": ""}
    done = site.publisher.command(site.builds(), "--repo", site.repo, "--dry-run", **offline)
    assert done.returncode == 3 and "can be released" in done.stdout, done.stderr
    assert "whether the token may write" in done.stderr and "check of the card" in done.stderr
    assert site.hub.requests == []


@pytest.mark.parametrize(
    ("owner", "token", "reason"),
    [
        ("org", {"HF_TOKEN": ""}, "no token"),
        ("else", {}, "tester, who is not seen to belong to else"),
    ],
)
def test_a_dry_run_that_cannot_know_whether_one_may_write_says_so_and_ends_with_3(
    owner: str, token: dict[str, str], reason: str, site: Site
) -> None:
    done = site.publisher.command(site.builds(), "--repo", f"{owner}/new", "--dry-run", **token)
    assert done.returncode == 3 and reason in done.stderr, done.stderr
    assert "would be created" in done.stdout


def test_a_public_repo_is_not_taken_for_the_private_one_that_was_asked_for(site: Site) -> None:
    site.hub.create(site.repo)
    for dry_run in (True, False):
        done = site.publish(site.builds(), private=True, dry_run=dry_run)
        assert done.code == 2 and f"{site.repo}: is public, and --private" in done.said
    assert site.hub.writes() == []
    hidden = site.publisher(site.builds(), f"{site.repo}-hidden", private=True)
    assert hidden.code == 0 and f"{site.repo}-hidden (private): no release" in hidden.said
    assert site.hub.repos[f"{site.repo}-hidden"].private


def test_a_trusted_publisher_without_its_token_is_told_in_one_line(site: Site) -> None:
    publisher = {"HF_OIDC_RESOURCE": "datasets/org/x", "HF_OIDC_ID_TOKEN": "", "GITHUB_ACTIONS": ""}
    done = site.publisher.command(site.builds(), "--repo", site.repo, **publisher)
    assert done.returncode == 1 and "no OIDC id token" in done.stderr
    assert len(done.stderr.splitlines()) == 1 and site.hub.requests == []


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
