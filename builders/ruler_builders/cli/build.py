"""`ruler-data build`.

What `ruler-data build` says when it is done: a table for a person, or a record for a program.
"""

import json
import os
from collections.abc import Sequence
from dataclasses import asdict, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal, Optional

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
from ruler_data.errors import UsageError
from ruler_data.manifest import Manifest
from ruler_data.names import check_name, parse_shard
from ruler_data.suites import load_suite, with_own_domains
from ruler_data.terminal import out, progress, say, warn
from ruler_data.version import DEFAULT_SEED

if TYPE_CHECKING:
    from ruler_builders.pipeline.build import Engine
    from ruler_builders.pipeline.build_config import BuildConfig, BuiltConfig

#: Tokens of the longest row: a list of so many may take most of the six million compounds there
#: are, and a longer one would look for unused ones for ever.
LONGEST = 16_777_216


def build(
    tokenizer: Annotated[
        str, typer.Option(help="Registry name, folder or Hub id; see `ruler-data tokenizers`.")
    ] = "mistral",
    suite: Annotated[
        str, typer.Option(help="Set of tasks: a name (`ruler-data suites`) or a YAML file.")
    ] = "ruler",
    lengths: Annotated[
        Optional[str],  # noqa: UP045 - typer reads it at run time
        typer.Option(help="Lengths in tokens, comma-separated (default: the suite's, or 4096)."),
    ] = None,
    tasks: Annotated[str, typer.Option(help="Tasks, comma-separated, or `all`.")] = "all",
    rows: Annotated[
        Optional[int],  # noqa: UP045 - typer reads it at run time
        typer.Option(
            min=1, max=1_000_000, help="Rows of each config (default: the suite's; 500 of ruler)."
        ),
    ] = None,
    seed: Annotated[
        Optional[int],  # noqa: UP045 - typer reads it at run time
        typer.Option(min=0, help="Seed of all draws (default: 42, that of published data)."),
    ] = None,
    fresh: Annotated[
        bool,
        typer.Option(
            "--fresh", help="Draw a private seed, kept in the folder: rows unseen so far."
        ),
    ] = False,
    sources: SourcesOption = None,
    haystack: HaystackOption = None,
    sources_kind: Annotated[
        Literal["auto", "real", "sample"],
        typer.Option(help="Take the real sources, the sample, or what can be had."),
    ] = "auto",
    strict_sources: Annotated[
        bool, typer.Option("--strict-sources", help="Refuse sources that are not the pinned ones.")
    ] = False,
    folder: Annotated[
        Optional[Path],  # noqa: UP045 - typer reads it at run time
        typer.Option("--out", help="Folder to build (default: dist/TOKENIZER[-SUITE])."),
    ] = None,
    workers: WorkersOption = 1,
    reserve: Annotated[
        int, typer.Option(min=0, help="Tokens to keep free beyond the template, e.g. to reason.")
    ] = 0,
    engine: Annotated[
        Literal["local", "ray"],
        typer.Option(help="Where to work: on this machine, or on a Ray cluster (RAY_ADDRESS)."),
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
    """Build a folder of frozen configs; go on with one that was interrupted."""
    from ruler_builders.pipeline.build import build
    from ruler_builders.pipeline.build_config import BuildConfig
    from ruler_builders.pipeline.build_context import RowConfig
    from ruler_builders.pipeline.seeds import choose_seed, discard_seed_on_failure
    from ruler_data.tokenizers import load_tokenizer

    if shard and force:
        msg = (
            "--force with --shard would remove what other shards have built; clear the folder first"
        )
        raise UsageError(msg)
    name = check_name("tokenizer", Path(os.path.realpath(tokenizer)).name if tokenizer else "")
    chosen = load_suite(suite)
    if chosen.name != "ruler":
        name = f"{name}-{chosen.name}"
    folder = folder or Path("dist") / (f"{name}-fresh" if fresh else name)
    recipe = RowConfig(
        tokenizer, DEFAULT_SEED, sources, sources_kind, strict_sources, reserve, counter,
        haystack=haystack,
    )  # fmt: skip
    library = recipe.library(warn)
    if library.own:
        chosen = with_own_domains(chosen, tuple(library.own.domains))
    names = parse_tasks(tasks, chosen.tasks)
    sizes = _lengths(chosen.lengths or (4096,) if lengths is None else parse_lengths(lengths))
    load_tokenizer(tokenizer)  # what cannot be built leaves no seed behind
    with discard_seed_on_failure(folder):
        order = BuildConfig(
            recipe=replace(recipe, seed=choose_seed(seed, folder, fresh=fresh)),
            tasks=names,
            lengths=sizes,
            rows=chosen.rows if rows is None else rows,
            out=folder,
            workers=workers,
            force=force,
            shard=parse_shard(shard) if shard else None,
            suite=chosen,
        )
        tokens = order.rows * sum(length for _, length in order.configs.values())
        with progress(tokens) as advance:
            manifest, done = build(order, library, advance, _engine(engine))
    if as_json:
        print_record(order, done)
    else:
        print_outcome(order, manifest, done)


def _lengths(asked: tuple[int, ...]) -> tuple[int, ...]:
    """Return the lengths if rows of all tasks can be that long.

    Raises:
        UsageError: one is too great.
    """
    if asked[-1] > LONGEST:
        msg = (
            f"--lengths {asked[-1]}: more than {LONGEST} tokens, up to which there are words "
            "enough for cwe and for haystacks of needles; use a shorter length"
        )
        raise UsageError(msg)
    return asked


def _engine(name: str) -> "Engine | None":
    if name == "local":
        return None
    from ruler_builders.pipeline.ray_build import build_on_ray

    return build_on_ray


def print_outcome(
    order: "BuildConfig", manifest: Manifest | None, done: Sequence["BuiltConfig"]
) -> None:
    """Print a line for each config, and what became of the folder; a shard has no manifest."""
    out.print(_table(done))
    suite = "" if order.suite.name == "ruler" else f" of the suite {order.suite.name}"
    total = f"{len(done)} configs{suite}, {sum(one.info.bytes for one in done) / 1e6:.1f} MB"
    if manifest is None:
        say(f"{order.out}: shard {'/'.join(map(str, order.shard or ()))}: {total}")
        return
    sample = ", a SAMPLE build, not comparable with RULER" if manifest.is_sample else ""
    say(f"{order.out}: {total}, audited{sample}")
    if manifest.is_private:
        say(
            f"{order.out}: built from a private seed, which its manifest gives away: keep the "
            "folder to yourself; the same command goes on with this seed"
        )


def print_record(order: "BuildConfig", done: Sequence["BuiltConfig"]) -> None:
    """Print figures of each config as JSON."""
    configs = {one.config: {**asdict(one.info), "seconds": one.seconds} for one in done}
    out.print_json(json.dumps({"folder": str(order.out), "configs": configs}))


def _table(done: Sequence["BuiltConfig"]) -> Table:
    table = Table("config", "rows", "fill mean", "fill min", "MB", "seconds", box=None)
    for column in table.columns[1:]:
        column.justify = "right"
    for one in done:
        info = one.info
        seconds = "kept" if one.seconds is None else f"{one.seconds:.1f}"
        table.add_row(
            one.config, str(info.rows), f"{info.fill_mean:.4f}", f"{info.fill_min:.4f}",
            f"{info.bytes / 1e6:.2f}", seconds,
        )  # fmt: skip
    return table
