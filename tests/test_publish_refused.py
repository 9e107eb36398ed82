"""What is refused before anything is written, mostly before anything is asked."""

from pathlib import Path

import pytest

from tests.conftest import Builds
from tests.hub import READ, Hub
from tests.publishing import Publisher
from tests.tampering import copy_of, edit_card

VT = "vt_1024/test-00000-of-00001.parquet"


@pytest.mark.parametrize(
    "name",
    ["ruler", "../ruler", "/ruler", "org/../x", "org/-rf", "org/x\ny", "org/" + "x" * 300, "a/b/c"],
)
def test_hostile_repo_names_are_refused_before_any_request(
    name: str, publisher: Publisher, hub: Hub, repo: str, builds: Builds
) -> None:
    done = publisher(builds(), name)
    assert done.code == 2 and "\n" not in done.said
    assert hub.requests == []


@pytest.mark.parametrize(
    "version", ["1", "1.0", "v1.0.0", "1.0.0-rc1", "01.0.0", "-1.0.0", "1.0.0\n"]
)
def test_what_is_no_version_is_refused_before_any_request(
    version: str, publisher: Publisher, hub: Hub, repo: str, builds: Builds
) -> None:
    assert publisher(builds(), repo, version).code == 2
    assert hub.requests == []


def test_a_card_that_is_not_valid_is_refused_before_any_request(
    publisher: Publisher, hub: Hub, repo: str, builds: Builds, tmp_path: Path
) -> None:
    copy = copy_of(builds(), tmp_path)
    edit_card(copy, "language:\n- en\n", "language: [English\n")
    done = publisher(copy, repo)
    assert done.code == 1 and "README.md: the Hub would refuse the card: YAML" in done.said
    assert hub.requests == []


def test_a_folder_that_is_not_clean_is_refused_before_any_request(
    publisher: Publisher, hub: Hub, repo: str, builds: Builds, tmp_path: Path
) -> None:
    copy = copy_of(builds(), tmp_path)
    (copy / VT).write_bytes((copy / VT).read_bytes()[:-1])
    done = publisher(copy, repo)
    assert done.code == 1 and f"verification failed: {VT}: is missing or not" in done.said
    assert hub.requests == []


def test_a_sample_is_published_only_when_asked(
    publisher: Publisher, hub: Hub, repo: str, builds: Builds
) -> None:
    folder = builds("niah_single_2", length=1536)
    refused = publisher(folder, repo)
    assert refused.code == 2 and "--allow-sample" in refused.said
    assert hub.requests == []
    assert publisher(folder, repo, allow_sample=True).code == 0


def test_a_repo_of_other_data_is_refused(
    publisher: Publisher, hub: Hub, repo: str, builds: Builds
) -> None:
    hub.create(repo)
    hub.foreign_commit(repo, "train.csv")
    done = publisher(builds(), repo)
    assert done.code == 2 and "train.csv" in done.said
    assert hub.writes() == []


def test_the_token_must_be_there_and_may_write(
    publisher: Publisher, hub: Hub, repo: str, builds: Builds
) -> None:
    read_only = publisher(builds(), repo, token=READ)
    assert read_only.code == 1 and "write access" in read_only.said
    assert hub.writes() == []
    unknown = publisher(builds(), repo, token="hf_nobody")
    assert unknown.code == 1 and "does not accept the token" in unknown.said
    assert repo not in hub.repos
