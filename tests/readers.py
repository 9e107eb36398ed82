"""Readers of published releases: each in a process of its own, with a cache of its own.

As a program: fetch releases one after another, and print of each its commit, version and files, or
the error.
"""

import json
import os
import sys
from pathlib import Path
from typing import NamedTuple

from tests import forks
from tests.commands import HANG, Done
from tests.hub import Hub


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

    def run(self, module: str, *arguments: object, **env: str) -> Done:
        """Run a module to its end."""
        process = forks.Process(module, [*map(str, arguments)], {**self.env, **env}, None)
        output, errors = process.communicate(HANG)
        return Done(process.args, process.wait(), output, errors)

    def fetch_all(self, repo: str, *revisions: str, **env: str) -> list[Found]:
        """Fetch revisions one after another in one process; `warned` is what it said meanwhile."""
        return self._fetch([(repo, revision, None) for revision in revisions], env)

    def fetch(
        self, repo: str, revision: str, configs: list[str] | None = None, **env: str
    ) -> Found:
        """Fetch one revision, or configs of it."""
        return self._fetch([(repo, revision, configs)], env)[0]

    def _fetch(
        self, requests: list[tuple[str, str, list[str] | None]], env: dict[str, str]
    ) -> list[Found]:
        done = self.run("tests.readers", json.dumps(requests), **env)
        assert done.returncode == 0, done.stderr
        self.warned = done.stderr
        return [Found(*json.loads(line)) for line in done.stdout.splitlines()]


def main(asked: str) -> None:
    """Fetch releases, each given by repo, revision and configs."""
    from ruler_data import RulerError
    from ruler_data.hub.download import open_release

    def say(found: list[object]) -> None:
        sys.stdout.write(json.dumps(found) + "\n")

    for repo, revision, configs in json.loads(asked):
        try:
            release = open_release(repo, revision)
            release.fetch(configs)
            paths = [path.relative_to(release.folder) for path in release.folder.rglob("*.*")]
            files = sorted(path.as_posix() for path in paths)
            say([release.commit, release.manifest.data_version, files, ""])
        except RulerError as error:
            say([None, None, [], str(error)])


if __name__ == "__main__":
    main(sys.argv[1])
