"""What lies beside the rows: card, licences and registration, from the manifest and first rows."""

import re
from collections.abc import Callable, Mapping
from contextlib import closing
from dataclasses import dataclass
from itertools import groupby
from pathlib import Path

import yaml

from ruler_builders.registration import registration
from ruler_data.manifest import ConfigInfo, Manifest, SourceInfo
from ruler_data.names import parse_config
from ruler_data.parquet import read_rows
from ruler_data.row import Row
from ruler_data.tasks import Task
from ruler_data.templates import template

#: Characters of an example's context that the card shows around what matters.
EXCERPT = 150


@dataclass(frozen=True)
class Address:
    """Where a release lies on the Hub, for the snippets of its card."""

    repo: str
    revision: str


@dataclass(frozen=True)
class Example:
    """The first row of a task, shortened."""

    task: Task
    context: str
    question: str
    answer_prefix: str
    outputs: str


def card_files(
    manifest: Manifest, locate: Callable[[str], Path], address: Address | None = None
) -> dict[str, str]:
    """Return the text files of a dataset: README.md, LICENSES.md and eval.yaml.

    Args:
        manifest: of the dataset; its `files` may still be empty.
        locate: returns where the file of a config lies, for the examples.
        address: where the dataset is published; None for a folder.
    """
    by_task = [
        (manifest.table[name], [(parse_config(config)[1], info) for config, info in group])
        for name, group in groupby(manifest.configs.items(), key=lambda item: _task(item[0]))
    ]
    variables = {
        "manifest": manifest,
        "address": address,
        "front_matter": front_matter(manifest),
        "tasks": by_task,
        "lengths": sorted({parse_config(config)[1] for config in manifest.configs}),
        "examples": [_example(task, infos, locate) for task, infos in by_task],
        "first": next(iter(manifest.configs)),
        "unpinned": [one for one in manifest.sources if not one.pinned],
        "exhausted": [(name, info) for name, info in manifest.configs.items() if info.exhausted],
        "uses": _uses(manifest),
        "megabytes": sum(info.bytes for info in manifest.configs.values()) / 1e6,
        "rows": sum(info.rows for info in manifest.configs.values()),
    }
    return {
        "README.md": template("dataset.md.j2").render(variables),
        "LICENSES.md": template("licenses.md.j2").render(variables),
        "eval.yaml": registration(manifest),
    }


def front_matter(manifest: Manifest) -> str:
    """Return the card's YAML: what the Hub lists, and a config for every file that exists.

    `datasets` caches a local folder by name and configs, so each config carries its version
    and its content digest: rebuilt rows are never served from the cache of earlier ones.
    """
    total = sum(info.rows for info in manifest.configs.values())
    body = {
        "pretty_name": f"RULER ({manifest.tokenizer.name})",
        "language": ["en"],
        "license": sorted({_hub_licence(source) for source in manifest.sources} | {"apache-2.0"}),
        "task_categories": ["question-answering", "text-generation"],
        "annotations_creators": ["machine-generated"],
        "tags": ["long-context", "benchmark", "ruler", "needle-in-a-haystack", "synthetic"],
        "size_categories": [_size_category(total)],
    }
    return _yaml(body) + configs_yaml(manifest)


def configs_yaml(manifest: Manifest) -> str:
    """Return the end of the card's YAML, its `configs`."""
    return _yaml({"configs": config_entries(manifest)})


def config_entries(manifest: Manifest) -> list[dict[str, object]]:
    """Return what a card says of its configs: one entry for every file, and no other."""
    return [
        {
            "config_name": config,
            "version": manifest.data_version,
            "description": info.digest,
            "data_files": [{"split": "test", "path": info.file}],
        }
        for config, info in manifest.configs.items()
    ]


def _yaml(body: Mapping[str, object]) -> str:
    return yaml.safe_dump(body, sort_keys=False, allow_unicode=True, width=100)


def _uses(manifest: Manifest) -> list[tuple[SourceInfo, list[str]]]:
    """Return each source with the configs whose rows hold text of it."""
    return [
        (
            source,
            [
                name
                for name in manifest.configs
                if source.name in manifest.table[_task(name)].sources
            ],
        )
        for source in manifest.sources
    ]


def _example(
    task: Task, infos: list[tuple[int, ConfigInfo]], locate: Callable[[str], Path]
) -> Example:
    """Return the first row of the shortest config of a task."""
    _, info = min(infos, key=lambda item: item[0])
    with closing(read_rows(locate(info.file))) as rows:
        row = next(rows)
    return Example(
        task=task,
        context=_fenced(excerpt(row, EXCERPT)),
        question=_fenced(row.question),
        answer_prefix=_fenced(row.answer_prefix),
        outputs=", ".join(f"`{output}`" for output in row.outputs),
    )


def excerpt(row: Row, around: int) -> str:
    """Return a context's beginning, its first two pieces of evidence and its end.

    `around` is in characters; what is left out is marked `[...]`.
    """
    size = len(row.context)
    keep = [(0, 2 * around), (size - around, size)]
    keep += [(span.start - around // 3, span.end + around // 3) for span in row.evidence[:2]]
    text, done = "", 0
    for start, end in sorted((max(a, 0), min(b, size)) for a, b in keep):
        if end <= done:
            continue
        piece = row.context[max(start, done) : min(end, max(start, done) + 6 * around)]
        if start > done:  # between words
            text = (text.rpartition(" ")[0] or text) + " [...] "
            piece = piece.partition(" ")[2] or piece
        text, done = text + piece, end
    return text


def _fenced(text: str) -> str:
    """Return text that cannot end the code block it stands in."""
    return re.sub(r"`{3,}", "``", text)


def _task(config: str) -> str:
    return parse_config(config)[0]


def _hub_licence(source: SourceInfo) -> str:
    """Return the Hub's name of a licence; without a licence of its own a text is `other`."""
    licence = source.licence.lower()
    return licence if licence in ("cc-by-sa-4.0", "cc0-1.0", "mit", "apache-2.0") else "other"


def _size_category(rows: int) -> str:
    for limit, name in ((1_000, "n<1K"), (10_000, "1K<n<10K"), (100_000, "10K<n<100K")):
        if rows < limit:
            return name
    return "100K<n<1M"
