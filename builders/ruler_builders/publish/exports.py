"""Publish an export: a release's rows in the files of another tool, in a repo of their own.

The rows are proved by their release, which `ruler.json` names with its commit; so an export of a
local folder is refused. One commit, then the tag, as for a release.
"""

from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from ruler_builders.listing import folder_listing
from ruler_builders.publish.version import Version
from ruler_data.errors import RulerError, UsageError
from ruler_data.files import read_bytes, read_text
from ruler_data.hub.repo import (
    PushFile,
    check_card,
    ensure_repo,
    head,
    name_of,
    put_files,
    put_tag,
    tags,
    tree,
)
from ruler_data.manifest import FILENAME, reader_of
from ruler_data.names import counted, quote

#: What an export says of its rows.
ABOUT = "ruler.json"


@dataclass(frozen=True)
class About:
    """The rows of an export; without a revision, those of a folder."""

    data: str
    data_version: str
    revision: str | None


@dataclass(frozen=True)
class PublishedExport:
    """What was published, or would be; without a commit, nothing was written."""

    repo: str
    tag: str
    data: str
    files: tuple[str, ...]
    commit: str | None = None

    def to_record(self) -> dict[str, Any]:
        """Return it as plain values."""
        return asdict(self)

    def __str__(self) -> str:
        done = "dry run, nothing sent"
        if self.commit:
            done = f"commit {self.commit}"
        return f"{self.repo} {self.tag}: {counted(len(self.files), 'file')} of {self.data}; {done}"


def publish_export(
    folder: Path, repo: str, version: str, *, private: bool, dry_run: bool
) -> PublishedExport:
    """Publish the folder of an export.

    Raises:
        UsageError: it was exported from a folder, or the version is published already.
        RulerError: the Hub refuses, or cannot be reached.
    """
    about = _about(folder)
    if about.revision is None:
        reason = "exported from a folder, whose rows nobody else can check; publish the rows, then"
        raise UsageError(folder, f"{reason} export from the release: --revision v1.0.0")
    tag = Version.parse(version or about.data_version).tag
    files = _files(folder)
    names = tuple(file.path for file in files)
    data = f"{about.data}@{about.revision}"
    card = read_text(folder / "README.md")
    if dry_run:
        return PublishedExport(repo, tag, data, names)
    check_card(repo, card)
    ensure_repo(repo, private=private)
    repo = name_of(repo)
    info = head(repo)
    if info and FILENAME in tree(repo, str(info.sha)):
        raise RulerError(repo, "holds a release of rows; name another repo for the export")
    if tag in tags(repo):
        raise UsageError(repo, f"{tag} is published already; give another --version")
    commit, _ = put_files(repo, files, f"Export of {data}")
    put_tag(repo, tag, commit)
    return PublishedExport(repo, tag, data, names, commit)


def _about(folder: Path) -> About:
    """Return what an export says of its rows."""
    try:
        about: About = reader_of(About).validate_json(read_bytes(folder / ABOUT), extra="ignore")
    except ValidationError as error:
        reason = f"not of an export ({error.errors()[0]['msg']}); export again"
        raise RulerError(folder / ABOUT, reason) from error
    return about


def _files(folder: Path) -> list[PushFile]:
    """Return the files of a folder.

    Raises:
        RulerError: it holds links or devices, or a name that is not UTF-8.
    """
    files = []
    for path, entry in sorted(folder_listing(folder).items()):
        if entry.kind:
            raise RulerError(folder, f"{quote(path)} is {entry.kind}; export again")
        if not path.isprintable():
            raise RulerError(folder, f"{quote(path)}: the Hub takes no such name; export again")
        files.append(PushFile(path, entry.bytes, entry.sha256, partial(Path, folder, path)))
    return files
