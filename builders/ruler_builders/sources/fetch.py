"""Download every real source once, into a folder that `--sources` takes.

    essays/addiction.txt ...             dev-v2.0.json
    hotpot_dev_distractor_v1.json        nltk_data/tokenizers/punkt_tab/english/

Files that are there with the pinned sha256 are kept, so the same command resumes.
"""

from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

from rich.console import Group
from rich.table import Table

from ruler_builders.sources.catalogue import CATALOGUE
from ruler_builders.sources.essays import PUNKT_URL, check_punkt, download_punkt
from ruler_builders.sources.library import fetch_pinned
from ruler_data.errors import UsageError
from ruler_data.files import Unreachable
from ruler_data.names import counted, quote
from ruler_data.terminal import track

#: Files of a source that are listed one by one if they are missing.
MOST_LISTED = 3
#: The sentence model that cuts the essays: its name here, and its folder.
MODEL, MODEL_FOLDER = "punkt_tab", "nltk_data/tokenizers/punkt_tab/english"
MODEL_BYTES = 237_757


@dataclass(frozen=True)
class Part:
    """A file of a source, or the sentence model.

    Attributes:
        path: where it belongs, relative to the folder.
        mirrors: sha256 by address, in the order to try them; empty for an archive.
        bytes: its size; None if it is not here.
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
        table, lines = Table("source", "files", "size", "licence", "from", box=None), list[str]()
        known = {MODEL: MODEL_BYTES} | {name: spec.bytes or 0 for name, spec in CATALOGUE.items()}
        for name in dict.fromkeys(part.source for part in self.parts):
            parts = [part for part in self.parts if part.source == name]
            missing = [part for part in parts if part.reason]
            size = known[name] if missing else sum(part.bytes or 0 for part in parts)
            size_text = f"{size / 1e6:.1f} MB" if size >= 1e6 else f"{size / 1e3:.0f} kB"
            here, url = f"{len(parts) - len(missing)} of {len(parts)}", next(iter(parts[0].mirrors))
            table.add_row(name, here, size_text, parts[0].licence, url.split("/")[2])
            if len(missing) > MOST_LISTED:
                place = url.rsplit("/", 1)[0]
                lines.append(f"{name}/: {len(missing)} files from {place}/ (--json lists each)")
            else:
                lines += [f"{part.path}: from {' or '.join(part.mirrors)}" for part in missing]
        return Group(table, *lines)


def download_sources(folder: Path | str) -> Downloads:
    """Download all sources, check them, and say what is still missing.

    Raises:
        UsageError: the folder is a file.
        RulerError: a file has other content than the pinned one, or cannot be written.
    """
    folder, results = Path(folder), list[Part]()
    if folder.exists() and not folder.is_dir():
        option = f"--download {quote(str(folder))}"
        raise UsageError(option, "a file; give a folder")
    parts = [
        Part(spec.name, spec.licence, spec.place(mirrors), mirrors)
        for spec in CATALOGUE.values()
        for mirrors in spec.downloads
    ]
    parts.append(Part(MODEL, "Apache-2.0", MODEL_FOLDER, {PUNKT_URL: ""}))
    for part in track(parts, "sources"):
        # A host that did not answer is not waited for again.
        reason = results[-1].reason if results and results[-1].source == part.source else ""
        results.append(_get(part, folder, reason))
    return Downloads(folder, tuple(results))


def _get(part: Part, folder: Path, reason: str) -> Part:
    """Return a part with its size, downloaded unless it is there, or with why it is missing."""
    path = folder / part.path
    try:
        if part.source != MODEL:
            path = fetch_pinned(part.mirrors, path.parent, network=not reason)
        elif not path.is_dir():
            download_punkt(folder / "nltk_data")
    except Unreachable as error:
        return replace(part, reason=reason or str(error))
    if path.is_dir():
        check_punkt(path)
    files = path.iterdir() if path.is_dir() else [path]
    return replace(part, bytes=sum(one.stat().st_size for one in files))
