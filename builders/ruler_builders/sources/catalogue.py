"""The known sources: names, addresses, hashes and licences."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from importlib.resources import files
from pathlib import Path

from ruler_builders.sources.text_files import sha256_listing
from ruler_data.files import sha256_file

_ESSAYS = (
    "https://raw.githubusercontent.com/gkamradt/LLMTest_NeedleInAHaystack/"
    "7b90d285651b68d39a94f3d3bd3672f84192c989/needlehaystack/PaulGrahamEssays/"
)


@dataclass(frozen=True)
class Download:
    """A pinned file: its address and its sha256."""

    url: str
    sha256: str


@dataclass(frozen=True)
class SourceSpec:
    """A source of texts.

    Attributes:
        name: essays, squad or hotpotqa.
        title: shown to people.
        local: patterns for the file name of a local copy; the first match is taken.
        url: of its home page.
        licence: SPDX id, or a note if it has none.
        attribution: whom to credit.
    """

    name: str
    title: str
    local: tuple[str, ...]
    url: str
    licence: str
    attribution: str

    @cached_property
    def downloads(self) -> tuple[tuple[Download, ...], ...]:
        """The files to download; for each, its mirrors in the order to try them."""
        if self.name == "essays":
            return tuple((Download(_ESSAYS + name, sha),) for name, sha in _essay_hashes())
        return _DOWNLOADS[self.name]

    def is_pinned(self, paths: Sequence[Path]) -> bool:
        """Whether these files are all of the pinned ones, unchanged."""
        if len(self.downloads) == 1:
            return len(paths) == 1 and sha256_file(paths[0]) in {
                d.sha256 for d in self.downloads[0]
            }
        pinned = {one.url.rsplit("/", 1)[-1]: one.sha256 for (one,) in self.downloads}
        return {path.name: sha256_file(path) for path in paths} == pinned

    def pinned_sha256(self) -> set[str]:
        """Return what a manifest may give as the sha256 of the pinned source."""
        if len(self.downloads) == 1:
            return {one.sha256 for one in self.downloads[0]}
        return {
            sha256_listing({one.url.rsplit("/", 1)[-1]: one.sha256 for (one,) in self.downloads})
        }


_DOWNLOADS = {
    "squad": (
        (
            Download(
                "https://rajpurkar.github.io/SQuAD-explorer/dataset/dev-v2.0.json",
                "80a5225e94905956a6446d296ca1093975c4d3b3260f1d6c8f68bc2ab77182d8",
            ),
        ),
    ),
    "hotpotqa": (
        (
            Download(
                "http://curtis.ml.cmu.edu/datasets/hotpot/hotpot_dev_distractor_v1.json",
                "4e9ecb5c8d3b719f624d66b60f8d56bf227f03914f5f0753d6fa1b359d7104ea",
            ),
            Download(
                "https://huggingface.co/datasets/namlh2004/hotpotqa/resolve/"
                "7e54db4656209750ff487f6fdf8e39a66dba136b/hotpot_dev_distractor_v1.json",
                "e3da074df24e8369009918aa5cdbdd254dadcde4c63f7569d36afd6f2268caa8",
            ),
        ),
    ),
}

_SPECS = (
    SourceSpec(
        name="essays",
        title="Essays of Paul Graham",
        local=("PaulGrahamEssays*.json", "essays*.json", "PaulGrahamEssays", "essays"),
        url="https://github.com/gkamradt/LLMTest_NeedleInAHaystack",
        licence="all rights reserved by the author",
        attribution="Paul Graham, paulgraham.com; collected by Greg Kamradt",
    ),
    SourceSpec(
        name="squad",
        title="SQuAD 2.0, development set",
        local=("squad*.json", "dev-v2.0*.json"),
        url="https://rajpurkar.github.io/SQuAD-explorer/",
        licence="CC-BY-SA-4.0",
        attribution="Rajpurkar, Jia and Liang 2018 (arXiv 1806.03822); text from Wikipedia",
    ),
    SourceSpec(
        name="hotpotqa",
        title="HotpotQA, development set, distractor setting",
        local=("hotpot*.json",),
        url="https://hotpotqa.github.io/",
        licence="CC-BY-SA-4.0",
        attribution="Yang et al. 2018 (arXiv 1809.09600); text from Wikipedia",
    ),
)

#: The sources that users can provide as files. Words come with the wonderwords package.
CATALOGUE: dict[str, SourceSpec] = {spec.name: spec for spec in _SPECS}


def _essay_hashes() -> list[tuple[str, str]]:
    text = (files("ruler_builders") / "sources" / "essays.sha256").read_text(encoding="ascii")
    return [(name, sha) for name, sha in (line.split() for line in text.splitlines())]
