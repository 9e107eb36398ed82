"""Texts of this package, written for it: the sample corpus, the domains, the associations.

From the sample corpus all tasks build offline. Its essays have a sentence a line; each paragraph of
its articles has a question, and some questions need two paragraphs. The associations are things and
descriptions that share no word with them; no thing fits two descriptions:

    string instrument: cello, banjo, ukulele
"""

import textwrap
from collections.abc import Mapping
from functools import cache
from importlib.resources import files
from pathlib import Path
from typing import Any

from ruler_builders.sources.catalogue import CATALOGUE, SourceSpec
from ruler_builders.sources.domains import BUNDLED, PREFIX, Domain, cut
from ruler_builders.sources.qa import ChoiceQuestions, Corpus, parse_corpus, read_choices
from ruler_builders.sources.text_files import read_json, read_text, sha256_of
from ruler_data.manifest import SourceInfo

#: By source: its title, its file or folder in the package, and its detail in the manifest.
PACKAGED = {
    "essays": ("Sample essays of this package", "sample/essays", "one sentence a line"),
    "squad": (
        "Sample paragraphs and questions of this package",
        "sample/articles",
        "fictional facts",
    ),
    "mmlu": (
        "Sample questions of multiple choice of this package",
        "sample/questions.jsonl",
        "written for this package",
    ),
    "hotpotqa": ("Sample two-hop questions of this package", "sample/articles", "fictional facts"),
    **{
        PREFIX + name: (
            f"Texts of this package: {name}",
            "sample/essays" if name == "prose" else f"domains/{name}",
            "written for this package; names, places and figures are invented",
        )
        for name in BUNDLED
    },
    "associations": (
        "Things and their descriptions, of this package",
        "associations.txt",
        "written for this package",
    ),
}


def packaged_files(name: str) -> list[Path]:
    """Return the files of a source of the package, by name."""
    place = Path(str(files("ruler_builders"))) / PACKAGED[name][1]
    return sorted(place.iterdir()) if place.is_dir() else [place]


def packaged_info(name: str) -> SourceInfo:
    """Return the entry of a source of the package for the manifest."""
    title, _, detail = PACKAGED[name]
    url = "https://creativecommons.org/publicdomain/zero/1.0/"
    spec = SourceSpec(name, title, url, "CC0-1.0", "the authors of ruler-data")
    kind = "sample" if name in CATALOGUE else "real"
    return spec.info(sha256_of(packaged_files(name)), detail, pinned=True, kind=kind)


def sample_essays() -> tuple[str, ...]:
    """Return the sentences of the sample essays."""
    lines = (line for path in packaged_files("essays") for line in read_text(path).split("\n"))
    return tuple(filter(None, lines))


def sample_corpus(source: str) -> Corpus:
    """Return the sample's questions in place of `squad` (single-hop) or `hotpotqa` (two-hop).

    Near documents are those of the same article.
    """
    articles = [read_json(path) for path in packaged_files(source)]
    if source == "squad":
        data: Any = {
            "data": [
                {"paragraphs": [_as_squad(paragraph) for paragraph in article["paragraphs"]]}
                for article in articles
            ]
        }
    else:
        data = [
            {
                **item,
                "supporting_facts": [(title, 0) for title in item["titles"]],
                "context": [
                    (paragraph["title"], paragraph["text"]) for paragraph in article["paragraphs"]
                ],
            }
            for article in articles
            for item in article["two_hop"]
        ]
    return parse_corpus(source, data, "sample")


def sample_choices() -> ChoiceQuestions:
    """Return the sample's questions in place of `mmlu`."""
    (path,) = packaged_files("mmlu")
    return read_choices(path)[0]


def _as_squad(paragraph: Mapping[str, str]) -> dict[str, Any]:
    answers = [{"text": paragraph["answer"]}]
    return {
        "context": paragraph["text"],
        "qas": [{**paragraph, "answers": answers, "is_impossible": False}],
    }


def bundled_domain(name: str) -> Domain:
    """Return a domain of the package; prose is that of the sample essays."""
    texts = map(read_text, packaged_files(PREFIX + name))
    return cut(map(_paragraphs, texts) if name == "prose" else texts)


def _paragraphs(text: str) -> str:
    """Return a text of one sentence per line with its paragraphs wrapped to 92 characters."""
    paragraphs = (paragraph.replace("\n", " ") for paragraph in text.split("\n\n"))
    return "\n\n".join(textwrap.fill(paragraph, 92) for paragraph in paragraphs)


@cache
def associations() -> dict[str, tuple[str, ...]]:
    """Return the things that each description fits."""
    (path,) = packaged_files("associations")
    lines = (line.split(": ") for line in read_text(path).splitlines())
    return {description: tuple(members.split(", ")) for description, members in lines}
