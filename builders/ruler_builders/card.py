"""What lies beside the rows: card, licences and registration, from the manifest and first rows.

`eval.yaml`, by which the Hub knows a benchmark and its leaderboards.

What the Hub would refuse in a card, found here before the Hub is asked.
"""

import re
from collections.abc import Callable, Iterator, Mapping
from contextlib import closing
from dataclasses import dataclass
from itertools import groupby
from pathlib import Path
from typing import Any

import yaml

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
class CardExample:
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
        "eval.yaml": eval_yaml(manifest),
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
) -> CardExample:
    """Return the first row of the shortest config of a task."""
    _, info = min(infos, key=lambda item: item[0])
    with closing(read_rows(locate(info.file))) as rows:
        row = next(rows)
    return CardExample(
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


def eval_yaml(manifest: Manifest) -> str:
    """Return `eval.yaml`, which registers a benchmark: a leaderboard for all, and one a length.

    Format: https://huggingface.co/docs/hub/eval-results. It is checked when it is pushed. A
    leaderboard takes in the configs of all tasks, and the format has room for one, so none is
    named; `evaluation_framework` is a closed list that the Hub keeps and ours is not in.
    """
    suite, lengths = manifest.suite, sorted({parse_config(one)[1] for one in manifest.configs})
    body = {
        "name": f"{'RULER' if suite == 'ruler' else suite} ({manifest.tokenizer.name})",
        "description": (
            "How much of its context a language model can really use: synthetic tasks at lengths "
            f"counted in the {manifest.tokenizer.name} tokenizer, frozen. Scores are means over "
            f"tasks, 0 to 100; `{suite}` is the mean over all lengths."
        ),
        "tasks": [
            {"id": name, "split": "test"} for name in (suite, *(f"{suite}_{n}" for n in lengths))
        ],
    }
    return yaml.safe_dump(body, sort_keys=False, allow_unicode=True, width=100)


_LANGUAGE = re.compile(r"[a-z]{2,3}(-[A-Za-z0-9]+)*|multilingual|code")
#: Lists of strings in a card's metadata.
_LISTS = ("license", "language", "tags", "task_categories", "size_categories")
#: Configs that the Hub's Croissant metadata and loading snippets take in; later ones are left out.
CROISSANT_CONFIGS = 100


def card_faults(text: str, manifest: Manifest) -> Iterator[str]:
    """Say what is wrong with a card's metadata: its YAML, its values, its list of configs."""
    if not text.startswith("---\n") or "\n---\n" not in text[4:]:
        yield "the metadata at the top, between two lines `---`, is missing"
        return
    try:
        matter = yaml.safe_load(text[4:].partition("\n---\n")[0])
    except yaml.YAMLError as error:
        yield f"the metadata is no YAML: {' '.join(str(error).split())}"
        return
    if not isinstance(matter, dict):
        yield "the metadata is no mapping"
        return
    for name in _LISTS:
        values = matter.get(name)
        if not isinstance(values, list) or not all(isinstance(value, str) for value in values):
            yield f"{name}: is no list of strings"
        elif name == "language":
            yield from (f"language: {one!r} is no code" for one in values if not _is_code(one))
    yield from _config_faults(matter.get("configs"), manifest)


def _is_code(language: str) -> bool:
    return _LANGUAGE.fullmatch(language) is not None


def _config_faults(configs: Any, manifest: Manifest) -> Iterator[str]:  # noqa: ANN401 - any YAML
    """Compare the configs of a card with those of the manifest."""
    expected = config_entries(manifest)
    if configs == expected:
        return
    names = [one.get("config_name") for one in configs or () if isinstance(one, dict)]
    for name in sorted(set(manifest.configs) - set(map(str, names))):
        yield f"configs: {name} is missing"
    for place, (found, wanted) in enumerate(zip(configs or (), expected, strict=False)):
        if found != wanted:
            yield f"configs: number {place} is not {wanted['config_name']} of the manifest"
    if len(names) > len(expected):
        yield "configs: there are more than in the manifest"
