"""The commands of `ruler-data`: each function is a command, and what the package exports.

Bodies import what they need, so that `--help` and a listing load no builder.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from ruler_data.terminal import progress as progress_bar
from ruler_data.terminal import warn

if TYPE_CHECKING:
    from ruler_builders.pipeline.build import BuiltManifest
    from ruler_builders.proof import Verdict
    from ruler_data.suites import Suite

#: Called with the name of a config and the rows that were finished since the last call.
Progress = Callable[[str, int], None]

Sources = Annotated[
    Path | str | None, typer.Option(help="Folder with real sources (default: RULER_SOURCES).")
]
Haystack = Annotated[
    Path | str | None, typer.Option(help="Folder of your own texts, for suites of domains.")
]
Workers = Annotated[int, typer.Option(help="Number of processes.", min=1, max=1024)]
Counter = Annotated[
    Literal["auto", "tokenizers", "gigatoken"],
    typer.Option(help="Library that counts tokens; auto uses the fast one if it is exact."),
]


def build(
    tokenizer: Annotated[
        str, typer.Option(help="Registry name, folder or Hub id; see `ruler-data tokenizers`.")
    ] = "mistral",
    *,
    suite: Annotated[
        str | Suite, typer.Option(help="Set of tasks: a name (`ruler-data suites`) or a YAML file.")
    ] = "ruler",
    lengths: Annotated[
        str | Collection[int] | None,
        typer.Option(help="Lengths in tokens, e.g. 4096 or 4k,128k (default: the suite's)."),
    ] = None,
    tasks: Annotated[
        str | Collection[str] | None, typer.Option(help="Tasks, comma-separated, or `all`.")
    ] = "all",
    rows: Annotated[
        int | None,
        typer.Option(
            help="Rows of each config (default: the suite's; 500 of ruler).", min=1, max=1_000_000
        ),
    ] = None,
    seed: Annotated[
        int | None,
        typer.Option(help="Seed of all draws (default: 42, that of published data).", min=0),
    ] = None,
    fresh: Annotated[
        bool, typer.Option(help="Use a new private seed, stored in the folder.")
    ] = False,
    sources: Sources = None,
    haystack: Haystack = None,
    sources_kind: Annotated[
        Literal["auto", "real", "sample"],
        typer.Option(help="Use real sources, the sample, or real ones where available."),
    ] = "auto",
    strict_sources: Annotated[
        bool, typer.Option(help="Refuse sources that are not the pinned ones.")
    ] = False,
    out: Annotated[
        Path | str | None, typer.Option(help="Folder to build (default: dist/TOKENIZER[-SUITE]).")
    ] = None,
    edition: Annotated[
        str,
        typer.Option(
            help="`balanced`, or upstream's own rows, byte for byte: upstream-2026-07, "
            "upstream-2025-01 or upstream-2024-04."
        ),
    ] = "balanced",
    template: Annotated[
        str, typer.Option(help="Chat template of upstream in its prompts, e.g. meta-llama3.")
    ] = "base",
    workers: Workers = 1,
    reserve: Annotated[
        int, typer.Option(help="Tokens to keep free, e.g. for reasoning.", min=0)
    ] = 0,
    engine: Annotated[
        Literal["local", "ray"],
        typer.Option(help="Where to build: this machine, or a Ray cluster (RAY_ADDRESS)."),
    ] = "local",
    counter: Counter = "auto",
    force: Annotated[bool, typer.Option(help="Replace a build of other inputs.")] = False,
    progress: bool | Progress = True,
) -> BuiltManifest:
    """Build a folder of frozen configs; resume an interrupted build.

    The same options give the same bytes, on any machine and with any number of workers. A Python
    script that sets `workers` needs the guard `if __name__ == "__main__":`, since workers import
    it.

        ruler-data build --tokenizer llama3
        ruler-data build --tokenizer llama3 --lengths 4k,8k --tasks vt,cwe --workers 8

    Raises:
        UsageError: it cannot be built with these options; nothing was written.
        RulerError: a fault of disk, sources or workers; finished configs are kept.
    """
    from ruler_builders.pipeline.build import build_folder
    from ruler_builders.pipeline.build_dir import BuildDir
    from ruler_builders.pipeline.plan import BuildPlan, default_folder, select_suite
    from ruler_builders.pipeline.validate import check_options

    chosen = select_suite(suite, tasks, lengths, rows, haystack)
    folder = Path(out) if out else default_folder(tokenizer, chosen.name, edition, fresh=fresh)
    plan = BuildPlan(
        tokenizer,
        chosen,
        folder,
        BuildDir(folder).choose_seed(seed, fresh=fresh),
        sources=sources,
        haystack=haystack,
        sources_kind=sources_kind,
        strict_sources=strict_sources,
        edition=edition,
        template=template,
        reserve=reserve,
        counter=counter,
    )
    check_options(plan, fresh=fresh)
    on_ray = engine == "ray"
    with _shown(progress, plan.tokens) as advance:
        return build_folder(
            plan, workers=workers, on_ray=on_ray, force=force, progress=advance, warn=warn
        )


def verify(
    data: Annotated[
        Path | str, typer.Argument(help="Folder of a build, or a repo with --revision.")
    ],
    *,
    revision: Annotated[
        str, typer.Option(help="Tag or commit of a release on the Hub; it is downloaded.")
    ] = "",
    tasks: Annotated[
        str | Collection[str] | None, typer.Option(help="Verify only these, comma-separated.")
    ] = "all",
    lengths: Annotated[
        str | Collection[int] | None, typer.Option(help="Verify only these (tokens).")
    ] = "all",
    rows: Annotated[
        int | None, typer.Option(help="Make only so many rows of each config again.", min=0)
    ] = None,
    tokenizer: Annotated[
        str | None,
        typer.Option(
            help="Folder or Hub id of the tokenizer, if it cannot be found from the manifest."
        ),
    ] = None,
    sources: Sources = None,
    haystack: Haystack = None,
    workers: Workers = 1,
    counter: Counter = "auto",
    progress: bool | Progress = True,
) -> Verdict:
    """Make a folder or a release again and compare it; exit 0 only if all of it is proved.

    Exit 1: a finding. 3: nothing wrong was found, but not all could be proved: no sources, no
    tokenizer, --rows, or a card that another version rendered. 2: it could not run.

        ruler-data verify dist/llama3
        ruler-data verify org/ruler --revision v1.0.0 --tasks vt

    Raises:
        UsageError: the folder does not exist, or it has no such task or length.
        RulerError: there is no manifest, or it cannot be read.
    """
    from ruler_builders.proof import fetch_data, remember, verify_folder
    from ruler_data.names import parse_config

    found = fetch_data(data, revision, tasks, lengths)
    infos = found.manifest.configs
    tokens = sum(infos[name].rows * parse_config(name)[1] for name in found.names)
    with _shown(progress, tokens) as advance:
        verdict = verify_folder(
            found,
            tokenizer=tokenizer,
            sources=sources,
            haystack=haystack,
            counter=counter,
            rows=rows,
            workers=workers,
            progress=advance,
        )
    if verdict.exit_status == 0 and found.is_whole:
        remember(found.folder)
    return verdict


def _shown(progress: bool | Progress, tokens: int | None) -> AbstractContextManager[Progress]:
    """Return what reports progress: a bar of so many tokens, the caller's function, or nothing."""
    if progress is True:
        return progress_bar(tokens)
    return nullcontext(progress or (lambda *_: None))
