"""A small Hub on loopback: what its client needs to create, commit, tag, list and download.

It keeps everything in memory, writes down every request, and fails as it is told to. A dataset
repo is a chain of commits, each a mapping of paths to blobs.
"""

import base64
import hashlib
import re
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from http.server import ThreadingHTTPServer
from pathlib import Path
from typing import Any

from tests.hub_http import READ, WRITE, Handler, Refused
from tests.hub_store import Blob, Repo
from tests.serving import serving

__all__ = ["READ", "WRITE", "Blob", "Hub", "Repo", "running"]

#: Requests that change something; a commit's dry checks and reads are not among them.
WRITES = re.compile(r"POST /api/repos/create|POST .*/(commit|tag)/|PUT |POST .*/info/lfs/verify")


@dataclass
class Fault:
    """What goes wrong, with which requests, and how often."""

    match: str
    act: Callable[[Handler, Callable[[], None]], None]
    times: int


class Hub:
    """The server, and what tests ask of it."""

    def __init__(self) -> None:
        self.repos: dict[str, Repo] = {}
        self.large: dict[str, bytes] = {}
        self.xet: Path | str | None = None
        self.vault: dict[str, bytes] = {}
        self.xet_hashes: dict[str, str] = {}
        self.orgs = ["org"]  # of the tokens' owner
        self.renames: dict[str, str] = {}  # today's names of repos by their earlier ones
        self.faults: list[Fault] = []
        self.requests: list[str] = []
        self.lock = threading.RLock()
        handler = type("Bound", (Handler,), {"hub": self})
        self.server = ThreadingHTTPServer(("127.0.0.1", 0), handler)
        self.server.daemon_threads = True
        self.endpoint = f"http://127.0.0.1:{self.server.server_address[1]}"

    def env(self, token: str = WRITE) -> dict[str, str]:
        """Return what makes the client use this Hub and no other."""
        return {
            "HF_ENDPOINT": self.endpoint,
            "HF_TOKEN": token,
            "HF_HUB_DISABLE_XET": "1",
            "HF_HUB_DISABLE_TELEMETRY": "1",
            "HF_HUB_OFFLINE": "",
            "RULER_OFFLINE": "",
            "NO_PROXY": "127.0.0.1",
            "RULER_HUB_PAUSE": "0.001",
            "RULER_HUB_TIMEOUT": "2",
        }

    @property
    def xet_url(self) -> str:
        """Address of Xet's store: a folder, or a server that tests name."""
        return self.xet if isinstance(self.xet, str) else f"local://{self.xet}"

    def fail(
        self, match: str, act: Callable[[Handler, Callable[[], None]], None], times: int = 1
    ) -> None:
        """Let something go wrong with the next requests that match."""
        self.faults.append(Fault(match, act, times))

    def take_fault(self, line: str) -> Fault | None:
        with self.lock:
            self.requests.append(line)
            for fault in self.faults:
                if fault.times > 0 and re.search(fault.match, line):
                    fault.times -= 1
                    return fault
        return None

    def clock(self) -> float:
        """Return the seconds of a clock that nobody sets."""
        return time.monotonic()

    def writes(self) -> list[str]:
        """Return the requests so far that change something."""
        return [line for line in self.requests if WRITES.search(line)]

    def foreign_commit(self, repo: str, path: str = "NOTES.txt", data: bytes = b"hello") -> str:
        """Commit as somebody else."""
        with self.lock:
            held = self.repos[repo]
            return held.commit({**held.files("main"), path: Blob(data, large=False)})

    def rename(self, name: str, new: str) -> None:
        """Give a repo another name; the earlier one leads to it."""
        with self.lock:
            self.repos[new] = self.repos.pop(name)
            self.renames[name] = new

    # What the handler calls, under the lock.

    def renamed(self, parts: list[str]) -> tuple[str, str] | None:
        """Return the earlier and today's name of the repo in a path, if it was renamed."""
        place = 2 if parts[:1] == ["api"] else 1
        name = "/".join(parts[place : place + 2])
        return (name, self.renames[name]) if name in self.renames else None

    def create(self, name: str, *, private: bool = False) -> dict[str, Any]:
        url = f"{self.endpoint}/datasets/{name}"
        if name in self.repos:
            raise Refused(409, "You already created this dataset repo", url=url)
        repo = self.repos[name] = Repo(private=private)
        repo.commit({".gitattributes": Blob(b"*.parquet filter=lfs\n", large=False)})
        return {"url": url, "name": name, "id": "0" * 24}

    def repo(self, name: str) -> Repo:
        if name not in self.repos:
            raise Refused(404, "Repository not found", "RepoNotFound")
        return self.repos[name]

    def commit(self, name: str, lines: list[dict[str, Any]]) -> dict[str, Any]:
        repo = self.repo(name)
        files = dict(repo.files("main"))
        for line in lines:
            value = line["value"]
            if line["key"] == "header":
                if value.get("parentCommit", repo.head) != repo.head:
                    raise Refused(412, "A commit has happened since. Please refresh and try again.")
            elif line["key"] == "file":
                files[value["path"]] = Blob(base64.b64decode(value["content"]), large=False)
            elif line["key"] == "lfsFile":
                files[value["path"]] = Blob(self.uploaded(value["oid"]), large=True)
            else:
                del files[value["path"]]
        oid = repo.commit(files)
        return {"commitUrl": f"{self.endpoint}/{name}/commit/{oid}", "commitOid": oid}

    def upload(self, oid: str, data: bytes) -> None:
        """Keep a large file, unless it is torn: its sender may have been killed."""
        if hashlib.sha256(data).hexdigest() != oid:
            raise Refused(400, "content does not match its hash")
        self.large[oid] = data

    def uploaded(self, oid: str) -> bytes:
        """Return a large file; what went to Xet's own store the test has put into the vault."""
        if oid in self.large:
            return self.large[oid]
        if not (isinstance(self.xet, Path) and any(self.xet.rglob("default.*"))):
            raise Refused(400, f"LFS pointer pointed to a file that does not exist: {oid}")
        return self.vault[oid]

    def tag(self, name: str, tag: str, revision: str) -> None:
        repo = self.repo(name)
        if tag in repo.tags:
            raise Refused(409, "Tag reference exists already")
        repo.tags[tag] = repo.resolve(revision)


@contextmanager
def running() -> Iterator[Hub]:
    """Run a Hub while the block lasts."""
    hub = Hub()
    with serving(hub.server):
        yield hub
