"""The same releases on a second, independent server that speaks the Hub's language, where it is."""

import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.conftest import Builds
from tests.publishing import FIRST, Publisher, publishing

#: A server of a module that may not be here.
MiniHub = Any


class Fast:
    """The other server, with the pauses and limits that tests need."""

    def __init__(self, server: MiniHub) -> None:
        self.server = server

    def env(self) -> dict[str, str]:
        quick = {"RULER_HUB_PAUSE": "0.01", "HF_HUB_OFFLINE": "", "RULER_OFFLINE": ""}
        return {**self.server.env(), **quick, "RULER_HUB_TIMEOUT": "2"}


@pytest.fixture(scope="module")
def other(shared: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[MiniHub]:
    if not (shared / "tools" / "minihub.py").is_file():
        pytest.skip("the other server is not here")
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(str(shared / "tools"))
        patch.setattr(sys, "dont_write_bytecode", True)
        module = __import__("minihub")
        server = module.MiniHub(root=tmp_path_factory.mktemp("hub"))
    server.start()
    yield server
    server.stop()


@pytest.fixture(scope="module")
def there(other: MiniHub, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Publisher]:
    with publishing(Fast(other), tmp_path_factory.mktemp("hf")) as publisher:
        yield publisher


FAULTS: dict[str, list[dict[str, Any]]] = {
    "none": [],
    "every fifth request fails": [{"mode": "503", "every": 5}],
    "every fifth request is too many": [{"mode": "429", "every": 5, "retry_after": 0}],
    "every seventh connection ends": [{"mode": "reset", "every": 7}],
    "every fifth answer is a page": [{"mode": "502", "every": 5, "body": "html"}],
    "the card's check is a page": [{"mode": "502", "at": [1], "match": "yaml", "body": "html"}],
    "the commit is in conflict": [{"mode": "409", "at": [1], "match": "/commit/"}],
    "the manifest is damaged": [{"mode": "corrupt", "at": [1], "match": "GET .*manifest.json"}],
    "files are damaged": [{"mode": "corrupt", "at": [1], "match": "GET .*parquet"}],
    "uploads end midway": [{"mode": "reset-mid-upload", "at": [1], "match": "PUT "}],
    "the commit's answer is lost": [{"mode": "lost-response", "at": [1], "match": "/commit/"}],
    "the commit is done, and a 500": [{"mode": "lost-500", "at": [1], "match": "/commit/"}],
    "the tag's answer is lost": [{"mode": "lost-response", "at": [1], "match": "POST .*/tag/"}],
    "somebody commits first": [{"mode": "race", "at": [1], "match": "/commit/"}],
    "names lag behind": [{"mode": "stale", "match": "GET .*/revision/main", "count": 3}],
}


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::ResourceWarning")  # of the other server's connections
@pytest.mark.parametrize("name", FAULTS)
def test_a_release_is_one_commit_and_one_tag_whatever_fails(
    name: str,
    there: Publisher,
    other: MiniHub,
    repo: str,
    builds: Builds,
) -> None:
    for fault in FAULTS[name]:
        other.fault(**fault)
    done = there(builds(), repo)
    other.clear_faults()
    assert done.code == 0, done.said
    state = other.summary()[f"datasets/{repo}"]
    assert state["tags"] == {FIRST: done.commit}
    ours = [entry for entry in state["log"] if entry[1] == f"Release {FIRST}"]
    assert len(ours) == 1 and other.fsck() == []
    begun = len(other.log)
    assert there(builds(), repo).published == done.commit
    writes = {"PUT", "POST", "DELETE"}
    assert not [one for one in other.log[begun:] if one["method"] in writes]
