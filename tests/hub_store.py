"""What the small Hub of the tests keeps: repos as chains of commits, commits as files."""

import hashlib
from dataclasses import dataclass, field

from tests.hub_http import Refused


@dataclass(frozen=True)
class Blob:
    """A file's bytes; large files are known by sha256, others by git's hash."""

    data: bytes
    large: bool

    @property
    def sha256(self) -> str:
        return hashlib.sha256(self.data).hexdigest()

    @property
    def git_oid(self) -> str:
        return hashlib.sha1(b"blob %d\0" % len(self.data) + self.data).hexdigest()


@dataclass
class Repo:
    """A dataset repo: its commits, each with its parent and its files, and its refs."""

    commits: dict[str, tuple[str | None, dict[str, Blob]]] = field(default_factory=dict)
    head: str = ""
    tags: dict[str, str] = field(default_factory=dict)
    private: bool = False

    def commit(self, files: dict[str, Blob]) -> str:
        """Put a commit on top of the branch."""
        names = "".join(f"{path} {blob.git_oid}\n" for path, blob in sorted(files.items()))
        text = f"{len(self.commits)} {self.head}\n{names}"
        oid = hashlib.sha1(text.encode()).hexdigest()
        self.commits[oid] = (self.head or None, files)
        self.head = oid
        return oid

    def files(self, revision: str) -> dict[str, Blob]:
        return self.commits[self.resolve(revision)][1]

    def resolve(self, revision: str) -> str:
        if revision == "main":
            return self.head
        found = self.tags.get(revision, revision)
        if found not in self.commits:
            raise Refused(404, f"Invalid rev id: {revision}", "RevisionNotFound")
        return found

    def log(self) -> list[str]:
        """Return the commits of the branch, the newest first."""
        found, one = [], self.head
        while one:
            found.append(one)
            one = self.commits[one][0] or ""
        return found
