"""`ruler_builders.build`: a build from Python."""

from collections.abc import Callable, Collection
from pathlib import Path
from typing import Literal

from ruler_builders.pipeline.build import build_folder
from ruler_builders.pipeline.build_config import BuildConfig, choose_suite, default_folder
from ruler_builders.pipeline.pool import Progress
from ruler_builders.sources.library import Kind
from ruler_data.manifest import BALANCED, Manifest
from ruler_data.terminal import warn as print_warning
from ruler_data.tokenizers.counters import CounterName


def build(
    tokenizer: str = "mistral",
    *,
    out: str | Path | None = None,
    suite: str = "ruler",
    tasks: Collection[str] | None = None,
    lengths: Collection[int] | None = None,
    rows: int | None = None,
    seed: int | None = None,
    fresh: bool = False,
    sources: str | Path | None = None,
    sources_kind: Kind = "auto",
    strict_sources: bool = False,
    haystack: str | Path | None = None,
    reserve: int = 0,
    counter: CounterName = "auto",
    edition: str = BALANCED,
    template: str = "base",
    workers: int = 1,
    engine: Literal["local", "ray"] = "local",
    force: bool = False,
    progress: Progress = lambda _name, _rows: None,
    warn: Callable[[str], None] = print_warning,
) -> Manifest:
    """Build a folder of frozen configs and return its manifest; resume an interrupted build.

    The same options give the same bytes, on any machine and with any number of workers. A script
    that sets `workers` needs the guard `if __name__ == "__main__":`, since workers import it.

    Args:
        tokenizer: registry name, folder or Hub id.
        out: folder to build; None for dist/TOKENIZER[-SUITE].
        suite: name of a suite, or a YAML file.
        tasks: names; None for all of the suite.
        lengths: in tokens; None for those of the suite, or 4,096 where it names none.
        rows: of each config; None for the number of the suite (500 of `ruler`).
        seed: of all draws; None for 42, the seed of published data.
        fresh: draw a private seed instead, kept in the folder.
        sources: folder with real sources; None for RULER_SOURCES, the cache or a download.
        sources_kind: `real`, `sample`, or `auto` for real sources where they are available.
        strict_sources: refuse sources that are not the pinned ones.
        haystack: folder with your own texts, for suites of domains.
        reserve: tokens of each prompt to keep free, e.g. for reasoning.
        counter: library that counts tokens; it changes the time and not the rows.
        edition: `balanced`, or upstream's own rows, e.g. `upstream-2026-07`; see docs/editions.md.
        template: upstream's chat template to put into the prompts of its editions, by name.
        workers: number of processes.
        engine: `local` for this machine, `ray` for a Ray cluster (RAY_ADDRESS).
        force: replace a build of other inputs.
        progress: called with the name of a config and the rows that are finished.
        warn: called with each warning; by default it is printed on standard error.

    Raises:
        UsageError: it cannot be built with these options; nothing was written.
        RulerError: a fault of disk, sources or workers; finished configs are kept.
    """
    texts = Path(haystack) if haystack is not None else None
    chosen = choose_suite(suite, tasks=tasks, lengths=lengths, rows=rows, haystack=texts)
    config = BuildConfig(
        tokenizer=tokenizer,
        out=Path(out)
        if out is not None
        else default_folder(tokenizer, chosen, fresh=fresh, edition=edition),
        suite=chosen,
        seed=seed,
        fresh=fresh,
        sources=Path(sources) if sources is not None else None,
        sources_kind=sources_kind,
        strict_sources=strict_sources,
        haystack=texts,
        reserve=reserve,
        counter=counter,
        edition=edition,
        template=template,
        workers=workers,
        engine=engine,
        force=force,
    )
    manifest, _ = build_folder(config, progress, warn)
    assert manifest is not None  # only a shard has none
    return manifest
