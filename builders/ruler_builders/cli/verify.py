"""`ruler-data verify`: check a folder, or a release on the Hub."""

import json
from pathlib import Path
from typing import Annotated

import typer

from ruler_builders.cli.options import (
    CounterOption,
    HaystackOption,
    JsonFlag,
    SourcesOption,
    WorkersOption,
    parse_lengths,
    parse_tasks,
)
from ruler_data.errors import RulerError
from ruler_data.terminal import out, progress, say, warn


def verify(
    data: Annotated[str, typer.Argument(help="Folder of a build, or a repo with --revision.")],
    revision: Annotated[
        str, typer.Option(help="Tag or commit of a release on the Hub; it is downloaded.")
    ] = "",
    tasks: Annotated[str, typer.Option(help="Verify only these, comma-separated.")] = "all",
    lengths: Annotated[str, typer.Option(help="Verify only these (tokens).")] = "all",
    tokenizer: Annotated[
        str | None,
        typer.Option(help="Folder or Hub id of the tokenizer, if the manifest does not suffice."),
    ] = None,
    no_lengths: Annotated[
        bool, typer.Option("--no-lengths", help="Do not tokenize every prompt again.")
    ] = False,
    rebuild: Annotated[
        int, typer.Option(min=0, help="Build this many random rows again and compare them.")
    ] = 0,
    sources: SourcesOption = None,
    haystack: HaystackOption = None,
    workers: WorkersOption = 1,
    counter: CounterOption = "auto",
    as_json: JsonFlag = False,
) -> None:
    """Check everything that a folder or a release promises; exit 0 only if it is clean."""
    from ruler_builders.audit.verify import verify

    folder, where = Path(data), data
    of_tasks, of_lengths = parse_tasks(tasks), parse_lengths(lengths)
    if revision:
        from ruler_data.hub import open_release

        release = open_release(data, revision)
        chosen = release.manifest.select(of_tasks, of_lengths)
        folder = release.fetch(chosen, files=release.manifest.files)
        where = f"{data} at {revision} (commit {release.commit})"
    with progress(None) as advance:
        report = verify(
            folder,
            tasks=of_tasks,
            lengths=of_lengths,
            tokenizer=tokenizer,
            count_lengths=not no_lengths,
            rebuild=rebuild,
            sources=sources,
            haystack=haystack,
            workers=workers,
            counter=counter,
            strays=not revision,
            progress=advance,
        )
    for line in report.untested:
        warn(line)
    if as_json:
        out.print_json(json.dumps(report.to_dict()))
    else:
        for finding in report.findings:
            say(finding)
    if not report.clean:
        msg = f"{where}: verification failed: {len(report.findings)} findings"
        raise RulerError(msg)
    if not as_json:
        rebuilt = f", {report.rebuilt} rows rebuilt" if rebuild else ""
        unchecked = ", lengths not counted" if no_lengths else ""
        say(f"{where}: clean: {report.configs} configs, {report.rows} rows{rebuilt}{unchecked}")
