"""Large files through Xet, the Hub's store: into a folder here, by the Hub's own library."""

import hashlib
import socket
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.commands import spawn
from tests.conftest import Builds
from tests.hub import Hub
from tests.hub_faults import answers
from tests.publishing import FIRST, Publisher, Site, publishing

XET = {"HF_HUB_DISABLE_XET": ""}


@pytest.fixture(scope="module")
def xet_publisher(hub: Hub, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Publisher]:
    """A publisher with Xet on; the library reads that switch once in a process."""
    pytest.importorskip("hf_xet")
    with publishing(hub, tmp_path_factory.mktemp("hf"), XET) as publisher:
        yield publisher


@pytest.fixture
def store(hub: Hub, builds: Builds, tmp_path: Path) -> Iterator[Path]:
    """Xet's store; the Hub looks up there what it is told by hash."""
    hub.xet = tmp_path
    files = [path.read_bytes() for path in builds().rglob("*.parquet")]
    hub.vault = {hashlib.sha256(data).hexdigest(): data for data in files}
    yield tmp_path
    hub.xet, hub.vault, hub.xet_hashes = None, {}, {}


@pytest.fixture
def site(xet_publisher: Publisher, hub: Hub, repo: str, builds: Builds) -> Site:
    """Where a test publishes, with Xet."""
    return Site(xet_publisher, hub, repo, builds)


@pytest.mark.slow
def test_a_release_goes_through_xet_and_is_the_same(store: Path, site: Site) -> None:
    done = site.publish(site.builds())
    assert done.code == 0, done.said
    assert list(store.rglob("default.*")), "the files are in Xet's store"
    assert not [line for line in site.hub.requests if line.startswith("PUT")]
    held = site.contents(FIRST)
    for path in site.builds().rglob("*.parquet"):
        assert held[path.relative_to(site.builds()).as_posix()] == path.read_bytes()
    site.hub.requests.clear()
    assert site.publish(site.builds()).published == done.commit
    assert site.hub.writes() == []


@pytest.mark.slow
@pytest.mark.parametrize(("status", "words"), [(401, "token"), (403, "write access")])
def test_what_xet_refuses_is_said(status: int, words: str, store: Path, site: Site) -> None:
    site.hub.fail(r"GET .*/xet-write-token/", answers(status), times=99)
    done = site.publish(site.builds())
    assert done.code == 1 and words in done.said and str(status) in done.said, done.said
    assert site.held.tags == {}


@pytest.mark.slow
def test_a_store_of_xet_that_lost_the_file_is_said_in_one_line(store: Path, site: Site) -> None:
    assert site.publish(site.builds(), FIRST[1:]).code == 0
    files = [path.read_bytes() for path in site.builds().rglob("*.parquet")]
    site.hub.xet_hashes = {hashlib.sha256(data).hexdigest(): "ab" * 32 for data in files}
    env = {**site.publisher.env(), "HF_HOME": str(store / "reader"), "RULER_HUB_PATIENCE": "1"}
    show = ("show", site.repo, "vt_1024", "--revision", FIRST)
    done = spawn("ruler-data", *show, env=env)
    assert done.returncode == 1 and "Traceback" not in done.stderr
    assert len([one for one in done.stderr.splitlines() if one.startswith("ruler-data: ")]) == 1


@pytest.fixture
def silent_host() -> Iterator[str]:
    """A host behind a firewall that drops packets: it takes connections and never answers."""
    with socket.create_server(("127.0.0.1", 0), backlog=64) as server:
        yield f"127.0.0.1:{server.getsockname()[1]}"


@pytest.mark.slow
def test_a_silent_host_of_xet_is_named(store: Path, silent_host: str, site: Site) -> None:
    site.hub.xet = f"http://{silent_host}"
    env = {**site.publisher.env(), "RULER_HUB_PATIENCE": "5"}
    command = ("publish", site.builds(), "--repo", site.repo, "--version", "1.0.0")
    done = spawn("ruler-data", *command, env=env)
    told = [line for line in done.stderr.splitlines() if silent_host in line]
    assert done.returncode == 1 and len(told) == 1 and "HF_HUB_DISABLE_XET=1" in told[0]
    assert not site.held.tags
    done = spawn("ruler-data", *command, env={**env, "HF_HUB_DISABLE_XET": "1"})
    assert done.returncode == 0 and site.held.tags["v1.0.0"], done.stderr
