"""What sources are at hand, looked up without downloading anything."""

from pathlib import Path

from ruler_builders.sources import sample
from ruler_builders.sources.catalogue import CATALOGUE, SourceSpec
from ruler_builders.sources.domains import BUNDLED, bundled_info
from ruler_builders.sources.files import sha256_of
from ruler_builders.sources.finding import local_files
from ruler_builders.sources.library import Library
from ruler_builders.sources.words import load_words
from ruler_data.errors import RulerError
from ruler_data.manifest import SourceInfo
from ruler_data.places import cache_folder


def inventory(folder: Path | None) -> list[dict[str, str]]:
    """Return, for each source, where it is, its sha256 and whether it is the pinned one."""
    named = Library(folder, "sample").folder
    records = [_record(spec, named) for spec in CATALOGUE.values()]
    records.append(_words())
    records += [
        {**_packaged(sample.sample_info(name)), "name": f"{name} (sample)"} for name in CATALOGUE
    ]
    return records + [_packaged(bundled_info(domain)) for domain in BUNDLED]


def _packaged(info: SourceInfo) -> dict[str, str]:
    """Return the record of texts that ship with the package."""
    return {
        "name": info.name, "title": info.title, "where": "in the package", "pinned": "yes",
        "sha256": info.sha256, "licence": info.licence, "url": info.url,
    }  # fmt: skip


def _record(spec: SourceSpec, folder: Path | None) -> dict[str, str]:
    paths = local_files(folder, spec) if folder else []
    where = str(paths[0] if len(paths) == 1 else folder)
    cached = cache_folder("sources", spec.name)
    if not paths and cached.is_dir():
        paths, where = sorted(path for path in cached.iterdir() if path.is_file()), str(cached)
    if not paths:
        where = "no: downloaded when first needed"
    return {
        "name": spec.name,
        "title": spec.title,
        "where": where,
        "pinned": "-" if not paths else "yes" if spec.is_pinned(paths) else "no",
        "sha256": sha256_of(paths) if paths else "-",
        "licence": spec.licence,
        "url": spec.url,
    }


def _words() -> dict[str, str]:
    try:
        _, info = load_words()
    except RulerError as error:
        return {
            "name": "words", "title": "Word lists", "where": f"no: {error}", "pinned": "-",
            "sha256": "-", "licence": "MIT", "url": "",
        }  # fmt: skip
    return {
        "name": "words", "title": info.title, "where": "wonderwords package", "pinned": "yes",
        "sha256": info.sha256, "licence": info.licence, "url": info.url,
    }  # fmt: skip
