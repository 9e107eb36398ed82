"""`ruler-data build`: build a folder, and print a line for each config."""

import json
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer
from rich.table import Table

from ruler_builders.cli.options import (
    CounterOption,
    HaystackOption,
    JsonFlag,
    SourcesOption,
    WorkersOption,
    parse_lengths,
    parse_tasks,
)
from ruler_data.names import parse_shard
from ruler_data.terminal import out as stdout
from ruler_data.terminal import progress, say, warn

if TYPE_CHECKING:
    from ruler_builders.pipeline.build_config import BuildConfig
    from ruler_builders.pipeline.build_one import BuiltConfig
    from ruler_data.manifest import Manifest


def build(
    tokenizer: Annotated[
        str, typer.Option(help="Registry name, folder or Hub id; see `ruler-data tokenizers`.")
    ] = "mistral",
    suite: Annotated[
        str, typer.Option(help="Set of tasks: a name (`ruler-data suites`) or a YAML file.")
    ] = "ruler",
    lengths: Annotated[
        str | None,
        typer.Option(help="Lengths in tokens, comma-separated (default: the suite's, or 4096)."),
    ] = None,
    tasks: Annotated[str, typer.Option(help="Tasks, comma-separated, or `all`.")] = "all",
    rows: Annotated[
        int | None,
        typer.Option(
            min=1, max=1_000_000, help="Rows of each config (default: the suite's; 500 of ruler)."
        ),
    ] = None,
    seed: Annotated[
        int | None,
        typer.Option(min=0, help="Seed of all draws (default: 42, that of published data)."),
    ] = None,
    fresh: Annotated[
        bool,
        typer.Option(
            "--fresh", help="Draw a private seed, kept in the folder: rows that no model has seen."
        ),
    ] = False,
    sources: SourcesOption = None,
    haystack: HaystackOption = None,
    sources_kind: Annotated[
        Literal["auto", "real", "sample"],
        typer.Option(help="Use real sources, the sample, or real ones where available."),
    ] = "auto",
    strict_sources: Annotated[
        bool, typer.Option("--strict-sources", help="Refuse sources that are not the pinned ones.")
    ] = False,
    out: Annotated[
        Path | None,
        typer.Option("--out", help="Folder to build (default: dist/TOKENIZER[-SUITE])."),
    ] = None,
    edition: Annotated[
        str,
        typer.Option(
            help="`balanced`, or upstream's own rows, byte for byte: upstream-2026-07, "
            "upstream-2025-01 or upstream-2024-04."
        ),
    ] = "balanced",
    template: Annotated[
        str,
        typer.Option(help="Chat template of upstream in its prompts, e.g. meta-llama3."),
    ] = "base",
    workers: WorkersOption = 1,
    reserve: Annotated[
        int, typer.Option(min=0, help="Tokens to keep free, e.g. for reasoning.")
    ] = 0,
    engine: Annotated[
        Literal["local", "ray"],
        typer.Option(help="Where to build: this machine, or a Ray cluster (RAY_ADDRESS)."),
    ] = "local",
    counter: CounterOption = "auto",
    shard: Annotated[
        str,
        typer.Option(
            help="Build share I of N of the configs, written I/N from 0/N, e.g. in a job array; "
            "the same command without it completes the folder."
        ),
    ] = "",
    force: Annotated[
        bool, typer.Option("--force", help="Replace a build of other inputs.")
    ] = False,
    as_json: JsonFlag = False,
) -> None:
    """Build a folder of frozen configs; resume an interrupted build."""
    from ruler_builders.pipeline.build import build_folder
    from ruler_builders.pipeline.build_config import BuildConfig, choose_suite, default_folder

    chosen = choose_suite(
        suite,
        tasks=parse_tasks(tasks),
        lengths=parse_lengths(lengths) if lengths is not None else None,
        rows=rows,
        haystack=haystack,
    )
    config = BuildConfig(
        tokenizer=tokenizer,
        out=out or default_folder(tokenizer, chosen, fresh=fresh, edition=edition),
        suite=chosen,
        seed=seed,
        fresh=fresh,
        sources=sources,
        sources_kind=sources_kind,
        strict_sources=strict_sources,
        haystack=haystack,
        reserve=reserve,
        counter=counter,
        edition=edition,
        template=template,
        workers=workers,
        engine=engine,
        shard=parse_shard(shard) if shard else None,
        force=force,
    )
    with progress(config.tokens) as advance:
        manifest, built = build_folder(config, advance, warn)
    if as_json:
        configs = {one.name: {**asdict(one.info), "seconds": one.seconds} for one in built}
        stdout.print_json(json.dumps({"folder": str(config.out), "configs": configs}))
    else:
        print_outcome(config, manifest, built)


def print_outcome(
    config: "BuildConfig", manifest: "Manifest | None", built: Sequence["BuiltConfig"]
) -> None:
    """Print a line for each config and a summary of the folder; a shard has no manifest."""
    table = Table("config", "rows", "fill mean", "fill min", "MB", "seconds", box=None)
    for column in table.columns[1:]:
        column.justify = "right"
    for one in built:
        table.add_row(
            one.name,
            str(one.info.rows),
            f"{one.info.fill_mean:.4f}",
            f"{one.info.fill_min:.4f}",
            f"{one.info.bytes / 1e6:.2f}",
            "kept" if one.seconds is None else f"{one.seconds:.1f}",
        )
    stdout.print(table)
    suite = "" if config.suite.name == "ruler" else f" of the suite {config.suite.name}"
    total = f"{len(built)} configs{suite}, {sum(one.info.bytes for one in built) / 1e6:.1f} MB"
    if manifest is None:
        say(f"{config.out}: shard {'/'.join(map(str, config.shard or ()))}: {total}")
        return
    if manifest.is_upstream:
        say(f"{config.out}: {total}, the rows of {manifest.edition} with its known defects")
        return
    sample = ", a SAMPLE build, not comparable with RULER" if manifest.is_sample else ""
    say(f"{config.out}: {total}, audited{sample}")
    if manifest.is_private:
        say(
            f"{config.out}: built from a private seed, which its manifest contains: do not share "
            "the folder; the same command resumes with this seed"
        )
