"""Download every real source once, into a folder that `--sources` takes.

    essays/addiction.txt ...             dev-v2.0.json
    hotpot_dev_distractor_v1.json        nltk_data/tokenizers/punkt_tab/english/

Files that are there with the pinned sha256 are kept, so the same command resumes.
"""

from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

from rich.console import Group
from rich.table import Table

from ruler_builders.sources.catalogue import CATALOGUE
from ruler_builders.sources.essays import PUNKT_URL, check_punkt, download_punkt
from ruler_data.files import Unreachable, download, sha256_file
from ruler_data.names import counted
from ruler_data.terminal import track

#: Files of a source that are listed one by one if they are missing.
SHOWN = 3
#: The sentence model that cuts the essays: its name here, and its licence.
MODEL, MODEL_LICENCE = "punkt_tab", "Apache-2.0"


@dataclass(frozen=True)
class Part:
    """A file of a source, or the sentence model.

    Attributes:
        path: where it belongs, relative to the folder.
        mirrors: sha256 by address, in the order to try them; empty for an archive.
        bytes: its size; None if it is not here and the size is not known.
        reason: why it is not here; empty if it is.
    """

    source: str
    licence: str
    path: str
    mirrors: Mapping[str, str]
    bytes: int | None = None
    reason: str = ""


@dataclass(frozen=True)
class Downloads:
    """What a folder of sources holds, and what it lacks."""

    folder: Path
    parts: tuple[Part, ...]

    @property
    def missing(self) -> tuple[Part, ...]:
        """The parts that could not be downloaded."""
        return tuple(part for part in self.parts if part.reason)

    @property
    def failure(self) -> str | None:
        """What remains to be done, in one line; None if all is here."""
        if not self.missing:
            return None
        share = f"{len(self.missing)} of {counted(len(self.parts), 'file')} missing"
        remedy = f"copy them from the addresses above into {self.folder}"
        return f"{share} ({self.missing[0].reason}); run the command again, or {remedy}"

    @property
    def exit_status(self) -> int:
        """0 if all is here, else 1."""
        return int(bool(self.missing))

    def to_record(self) -> dict[str, Any]:
        """Return it as plain values."""
        return {"folder": str(self.folder), "files": [asdict(part) for part in self.parts]}

    def __rich__(self) -> Group:
        """Return a line for each source, and for each missing file its address and place."""
        table = Table("source", "files", "MB", "licence", "from", box=None)
        for name in dict.fromkeys(part.source for part in self.parts):
            parts = [part for part in self.parts if part.source == name]
            here = sum(not part.reason for part in parts)
            size = sum(part.bytes or 0 for part in parts) / 1e6
            host = next(iter(parts[0].mirrors)).split("/")[2]
            cells = (f"{here} of {len(parts)}", f"{size:.1f}", parts[0].licence, host)
            table.add_row(name, *cells)
        lines = []
        for name in dict.fromkeys(part.source for part in self.missing):
            several = [part for part in self.missing if part.source == name]
            if len(several) > SHOWN:
                url = next(iter(several[0].mirrors)).rsplit("/", 1)[0]
                lines.append(f"{name}/: {len(several)} files from {url}/ (--json lists each)")
            else:
                lines += [f"{part.path}: from {' or '.join(part.mirrors)}" for part in several]
        return Group(table, *lines)


def download_sources(folder: Path | str) -> Downloads:
    """Download all sources, check them, and say what is still missing.

    Raises:
        RulerError: a file has other content than the pinned one, or cannot be written.
    """
    folder, silent = Path(folder), dict[str, str]()
    wanted = [*_wanted()]
    return Downloads(folder, tuple(_get(part, folder, silent) for part in track(wanted, "sources")))


def _wanted() -> Iterator[Part]:
    for spec in CATALOGUE.values():
        for mirrors in spec.downloads:
            name = next(iter(mirrors)).rsplit("/", 1)[-1]
            path = f"{spec.name}/{name}" if len(spec.downloads) > 1 else name
            yield Part(spec.name, spec.licence, path, mirrors, spec.bytes)
    place = f"nltk_data/tokenizers/{MODEL}/english"
    yield Part(MODEL, MODEL_LICENCE, place, {PUNKT_URL: ""})


def _get(part: Part, folder: Path, silent: dict[str, str]) -> Part:
    """Return a part with its size, downloaded unless it is there, or with why it is missing.

    `silent` says of a host why it did not answer, so that it is not waited for again.
    """
    path = folder / part.path
    if part.source == MODEL and path.is_dir():
        check_punkt(path)
    elif not (path.is_file() and sha256_file(path) in part.mirrors.values()):
        hosts = {url: url.split("/")[2] for url in part.mirrors}
        if not any(_fetch(url, part, folder, silent) for url in hosts if hosts[url] not in silent):
            return replace(part, reason="; ".join(silent[host] for host in hosts.values()))
    files = path.iterdir() if path.is_dir() else [path]
    return replace(part, bytes=sum(one.stat().st_size for one in files))


def _fetch(url: str, part: Part, folder: Path, silent: dict[str, str]) -> bool:
    """Download and check a part; return whether its host answered."""
    path = folder / part.path
    try:
        if part.source == MODEL:
            check_punkt(download_punkt(folder / "nltk_data"))
        else:
            download(url, part.mirrors[url], path.parent, name=path.name)
    except Unreachable as error:
        silent[url.split("/")[2]] = str(error)
    return path.exists()
