"""Publishing in tests: in a process that stays, or by the command as a user runs it."""

import os
from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, Protocol

from ruler_data.manifest import Manifest
from ruler_data.version import DATA_VERSION
from tests import commands, forks
from tests.commands import HANG, Done, Process, call_in, spawn
from tests.hub import Hub, Repo


class Server(Protocol):
    """A Hub, as far as its clients must know it."""

    def env(self) -> dict[str, str]:
        """Return what makes the client use it."""


#: Tag of a first release that names no version.
FIRST = f"v{DATA_VERSION}"


@dataclass(frozen=True)
class Result:
    """How a publication ended: exit status, what was said last, and what was done."""

    code: int
    said: str
    tag: str = ""
    change: str = ""
    commit: str | None = None
    sent: tuple[str, ...] = ()
    to_send: tuple[str, ...] = ()
    published: str | None = None


def _publish(
    folder: Path, repo: str, version: str, env: dict[str, str], options: dict[str, Any]
) -> Result:
    """Publish in this process."""
    os.environ.update(env)  # before huggingface_hub reads it
    from ruler_builders.publish.release import release
    from ruler_builders.publish.version import Version
    from ruler_builders.rebuild import verify
    from ruler_data import RulerError

    lines: list[str] = []
    prove = partial(verify, haystack=options.pop("haystack", None))
    try:
        wanted = Version.parse(version) if version else None
        (done,) = release({repo: folder}, prove=prove, tell=lines.append, version=wanted, **options)
    except RulerError as error:
        return Result(error.exit_code, str(error))
    plan = done.planned
    return Result(
        0, "\n".join(lines), plan.version.tag, plan.change.name, done.commit, done.sent,
        plan.to_send, plan.published,
    )  # fmt: skip


@dataclass(frozen=True)
class Publisher:
    """A process that publishes to a Hub."""

    hub: Server
    pool: ProcessPoolExecutor
    home: Path
    more: dict[str, str]

    def __call__(
        self, folder: Path, repo: str, version: str = "", *, token: str = "", **options: object
    ) -> Result:
        """Publish, and return how it ended."""
        env = self.env(token)
        return self.pool.submit(_publish, folder, repo, version, env, options).result(HANG)

    def env(self, token: str = "") -> dict[str, str]:
        """Return the environment of this publisher's processes."""
        other = {"HF_TOKEN": token} if token else {}
        return {**self.hub.env(), "HF_HOME": str(self.home), **self.more, **other}

    def command(self, *arguments: object, **env: str) -> Done:
        """Run `ruler-data publish` to its end; what is read at its start, in one of its own."""
        if any(name.startswith("HF_HUB_") for name in env):
            return spawn("ruler-data", "publish", *arguments, env={**self.env(), **env})
        return call_in(self.pool, "ruler-data", "publish", *arguments, env={**self.env(), **env})

    def verify(self, repo: str, revision: str) -> Done:
        """Run `ruler-data verify` on a release."""
        asked = ("verify", repo, "--revision", revision)
        return call_in(self.pool, "ruler-data", *asked, env=self.env())

    def started(self, *arguments: object) -> AbstractContextManager[Process]:
        """Start `ruler-data publish`."""
        return commands.started("ruler-data", "publish", *arguments, env=self.env())


@contextmanager
def publishing(hub: Server, home: Path, more: dict[str, str] | None = None) -> Iterator[Publisher]:
    """Keep a process that publishes; `huggingface_hub` reads its environment but once,
    so nothing imports it before the first publication has set that."""
    with forks.pool(os.environ) as pool:
        yield Publisher(hub, pool, home, more or {})


@dataclass(frozen=True)
class Site:
    """A Hub with a publisher, a repo that no other test has, and folders to publish there."""

    publisher: Publisher
    hub: Hub
    repo: str
    builds: Callable[..., Path]

    @property
    def held(self) -> Repo:
        """The repo, which exists."""
        return self.hub.repos[self.repo]

    def publish(self, folder: Path, version: str = "", **options: object) -> Result:
        """Publish a folder into the repo, and return how it ended."""
        return self.publisher(folder, self.repo, version, **options)  # type: ignore[arg-type]

    def contents(self, revision: str) -> dict[str, bytes]:
        """Return the files of the repo at a revision, but for those that the Hub made."""
        return contents(self.hub, self.repo, revision)

    def manifest(self, revision: str) -> Manifest:
        """Return the manifest of the repo at a revision."""
        return Manifest.from_json(self.contents(revision)["manifest.json"].decode())


def contents(hub: Hub, repo: str, revision: str) -> dict[str, bytes]:
    """Return the files of a repo at a revision, but for those that the Hub made."""
    files = hub.repos[repo].files(revision)
    return {path: blob.data for path, blob in files.items() if path != ".gitattributes"}
