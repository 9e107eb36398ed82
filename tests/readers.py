"""Readers of published releases: each in a process of its own, with a cache of its own."""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import NamedTuple

from tests.commands import HANG
from tests.hub import Hub

#: Fetch releases one after another; print of each its commit, version and files, or the error.
FETCH = """
import json, sys
from ruler_data import RulerError
from ruler_data.hub.download import fetch_release
for repo, revision, configs, pinned in json.loads(sys.argv[1]):
    try:
        release = fetch_release(repo, revision, configs, pinned)
        paths = [path.relative_to(release.folder) for path in release.folder.rglob("*.*")]
        files = sorted(path.as_posix() for path in paths)
        print(json.dumps([release.commit, release.manifest.data_version, files, ""]))
    except RulerError as error:
        print(json.dumps([None, None, [], str(error)]))
"""


class Found(NamedTuple):
    """A release as a reader got it: commit, version and files; or why it did not."""

    commit: str | None
    version: str | None
    files: list[str]
    refused: str


class Reader:
    """Somebody with a cache of their own, and no token."""

    def __init__(self, hub: Hub, home: Path) -> None:
        self.env = {**os.environ, **hub.env(), "HF_TOKEN": "", "HF_HOME": str(home)}
        self.warned = ""

    def run(self, *arguments: object, **env: str) -> "subprocess.CompletedProcess[str]":
        """Run Python to its end."""
        return subprocess.run(
            [sys.executable, *map(str, arguments)], capture_output=True, text=True, timeout=HANG,
            env={**self.env, **env}, check=False,
        )  # fmt: skip

    def fetch_all(
        self, repo: str, *revisions: str, pinned: str | None = None, **env: str
    ) -> list[Found]:
        """Fetch revisions one after another in one process; `warned` is what it said meanwhile."""
        return self._fetch([(repo, revision, None, pinned) for revision in revisions], env)

    def fetch(
        self, repo: str, revision: str, configs: list[str] | None = None, **env: str
    ) -> Found:
        """Fetch one revision, or configs of it."""
        return self._fetch([(repo, revision, configs, None)], env)[0]

    def _fetch(
        self, requests: list[tuple[str, str, list[str] | None, str | None]], env: dict[str, str]
    ) -> list[Found]:
        done = self.run("-c", FETCH, json.dumps(requests), **env)
        assert done.returncode == 0, done.stderr
        self.warned = done.stderr
        return [Found(*json.loads(line)) for line in done.stdout.splitlines()]
