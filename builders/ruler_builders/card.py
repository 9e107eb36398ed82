"""The files beside the rows: card and licences.

All of them follow from the manifest and the first row of each task, so they are never edited.
"""

import math
import re
from collections.abc import Callable, Mapping
from contextlib import closing
from dataclasses import dataclass, field
from itertools import groupby
from pathlib import Path

import yaml

from ruler_data.card_templates import template
from ruler_data.errors import RulerError
from ruler_data.files import read_text
from ruler_data.manifest import BALANCED, IMPORTED, ConfigInfo, Manifest, SourceInfo
from ruler_data.names import counted, parse_config
from ruler_data.parquet import CANARY, read_rows
from ruler_data.row import Row
from ruler_data.tasks import Metric, Task
from ruler_data.tokenizers.registry import REGISTRY
from ruler_data.version import repository

#: Largest card that is read, in bytes.
CARD_BYTES = 4_000_000
#: Characters of an example's context that the card shows around each needle.
EXCERPT = 120
#: How an answer is scored, in words.
METRICS: dict[Metric, str] = {
    "all": "share of gold answers named",
    "part": "any gold answer named",
    "soft_all": "mean likeness to the gold answers",
    "soft_part": "likeness to the nearest gold answer",
    "soft_last": "likeness of the last paragraph",
    "letter": "the boxed letter",
}


@dataclass(frozen=True)
class Address:
    """Repo and revision of a release on the Hub, and the address of its code, for its card.

    The address of the code comes from the publisher's package; nothing in the data proves it.
    """

    repo: str
    revision: str
    code: str = field(default_factory=repository)

    @property
    def owner(self) -> str:
        """Who publishes it."""
        return self.repo.partition("/")[0]

    @property
    def url(self) -> str:
        """The page of the repo."""
        return f"https://huggingface.co/datasets/{self.repo}"


def card_files(
    manifest: Manifest, locate: Callable[[str], Path], address: Address | None = None
) -> dict[str, bytes]:
    """Return the files beside the rows: README.md and LICENSES.md.

    Args:
        manifest: of the dataset; its `files` may still be empty.
        locate: returns the path of a config's file, for the examples.
        address: where the dataset is published; None for a folder.
    """
    by_task = [
        (manifest.table[name], [(parse_config(config)[1], info) for config, info in group])
        for name, group in groupby(manifest.configs.items(), key=lambda item: _task(item[0]))
    ]
    variables = {
        "manifest": manifest,
        "address": address,
        "code": address.code if address else "",  # a folder is the same whoever builds it
        "front_matter": front_matter(manifest, address),
        "tasks": by_task,
        "lengths": sorted({parse_config(config)[1] for config in manifest.configs}),
        "example": _example(*by_task[0], locate),
        "metrics": METRICS,
        "registry": REGISTRY,
        "uses": _uses(manifest),
        "canary": CANARY,
        "counted": counted,
    }
    return {
        "README.md": template("dataset.md.j2").render(variables).encode(),
        "LICENSES.md": template("licenses.md.j2").render(variables).encode(),
    }


def front_matter(manifest: Manifest, address: Address | None = None) -> str:
    """Return the card's YAML: what the Hub lists, and a config for every file that exists.

    The Hub takes as `license_link` only `LICENSE`, `LICENSE.md` or an address, so the card of a
    folder, which has no address, has no link.

    `datasets` caches a local folder by name and configs, so each config carries its version
    and its content digest: rebuilt rows are never served from the cache of earlier ones.
    """
    total = sum(info.rows for info in manifest.configs.values())
    limits = ((1_000, "n<1K"), (10_000, "1K<n<10K"), (100_000, "10K<n<100K"))
    licences = {"apache-2.0"}
    for source in manifest.sources:
        licence = "other"
        if source.licence in OPEN_LICENCES:
            licence = source.licence.lower()
        licences.add(licence)
    other_licence = dict[str, str]()
    if "other" in licences:
        other_licence["license_name"] = "licences-of-the-sources"
        if address:
            other_licence["license_link"] = f"{address.url}/blob/{address.revision}/LICENSES.md"
    real = (source.name for source in manifest.sources if source.kind == "real")
    origins = dict[str, list[str]]()
    for name in real:
        if name in _DATASETS:
            origins.setdefault("source_datasets", []).append(_DATASETS[name])
    body = {
        "pretty_name": f"RULER ({_variant(manifest)})",
        "language": ["en"],
        "license": sorted(licences),
        **other_licence,
        **origins,
        "task_categories": ["question-answering", "text-generation"],
        "annotations_creators": ["machine-generated"],
        "tags": ["long-context", "benchmark", "ruler", "needle-in-a-haystack", "synthetic"],
        "size_categories": [next((name for most, name in limits if total < most), "100K<n<1M")],
    }
    return _yaml(body) + configs_yaml(manifest)


#: Licences of sources that everybody may share under their terms; the Hub has a name for each.
OPEN_LICENCES = ("CC-BY-SA-4.0", "CC0-1.0", "MIT", "Apache-2.0")
#: Sources that the Hub has.
_DATASETS = {"squad": "rajpurkar/squad_v2", "hotpotqa": "hotpotqa/hotpot_qa"}


def configs_yaml(manifest: Manifest) -> str:
    """Return the end of the card's YAML, its `configs`: a line for every file, and no other."""
    lines = ["configs:\n"]
    for config, info in manifest.configs.items():
        entry = {
            "config_name": config,
            "version": manifest.data_version,
            "description": info.digest,
            "data_files": [{"split": "test", "path": info.file}],
        }
        text = yaml.safe_dump(entry, sort_keys=False, default_flow_style=True, width=math.inf)
        lines.append(f"- {text}")
    return "".join(lines)


def _yaml(body: Mapping[str, object]) -> str:
    return yaml.safe_dump(body, sort_keys=False, allow_unicode=True, width=100)


def _uses(manifest: Manifest) -> list[tuple[SourceInfo, list[str]]]:
    """Return each source with the configs that use it."""
    used = {name: (IMPORTED, *manifest.table[_task(name)].sources) for name in manifest.configs}
    return [
        (source, [name for name, sources in used.items() if source.name in sources])
        for source in manifest.sources
    ]


def _example(
    task: Task, infos: list[tuple[int, ConfigInfo]], locate: Callable[[str], Path]
) -> dict[str, object]:
    """Return the first row of the shortest config of a task, shortened."""
    _, info = min(infos, key=lambda item: item[0])
    with closing(read_rows(locate(info.file))) as rows:
        row = next(rows, None)
    if row is None:
        raise RulerError(info.file, "has no rows")
    return {
        "task": task,
        "context": _fenced(excerpt(row, EXCERPT)),
        "question": _fenced(row.question),
        "answer_prefix": _fenced(row.answer_prefix),
        "outputs": ", ".join(f"`{output}`" for output in row.outputs),
    }


def excerpt(row: Row, around: int) -> str:
    """Return the beginning of a context, its first two evidence spans and its end.

    `around` is in characters; `[...]` marks what is left out.
    """
    size = len(row.context)
    keep = [(0, 2 * around), (size - around, size)]
    keep += [(span.start - around, span.end + around // 3) for span in row.evidence[:2]]
    text = ""
    done = 0
    for start, end in sorted((max(a, 0), min(b, size)) for a, b in keep):
        if end <= done:
            continue
        piece = row.context[max(start, done) : min(end, max(start, done) + 6 * around)]
        if start > done:
            text = (text.rpartition(" ")[0] or text) + " [...] "  # between words
            if sentence := _SENTENCE.search(piece, 0, around):
                piece = piece[sentence.end() :]
            else:
                piece = piece.partition(" ")[2] or piece
        text = text + piece
        done = end
    return text


#: What ends before a sentence or a line begins.
_SENTENCE = re.compile(r"[.!?]['\")]* |\n+")


def _fenced(text: str) -> str:
    """Return text that cannot end the Markdown code block around it."""
    return re.sub(r"`{3,}", "``", text)


def _variant(manifest: Manifest) -> str:
    """Return the tokenizer, and the edition where it is not the balanced one."""
    name = manifest.tokenizer.name
    if manifest.edition == BALANCED:
        return name
    return f"{name}, {manifest.edition}"


def _task(config: str) -> str:
    return parse_config(config)[0]


def address_of(folder: Path) -> Address | None:
    """Return the address that a folder's card names; None for an unpublished one."""
    try:
        text = read_text(folder / "README.md", CARD_BYTES, "README.md")
    except (OSError, UnicodeDecodeError):
        return None
    match = _VERIFY_LINE.search(text)
    if match is None:
        return None
    code = _CODE_LINE.search(text)
    if code is None:
        return Address(match[1], match[2], "")
    return Address(match[1], match[2], code[1])


_VERIFY_LINE = re.compile(r"^ruler-data verify (\S+) --revision (v\S+) ", re.MULTILINE)
_CODE_LINE = re.compile(r"^\| Code \| \[ruler-data\]\((https://[^\s)]+)\)", re.MULTILINE)
