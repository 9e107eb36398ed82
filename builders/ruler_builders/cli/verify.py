"""`ruler-data verify`: a folder, or a release on the Hub."""

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Optional

import typer

from ruler_builders.cli.options import (
    CounterOption,
    HaystackOption,
    JsonFlag,
    SourcesOption,
    WorkersOption,
    parse_lengths,
    parse_names,
)
from ruler_data.errors import RulerError
from ruler_data.terminal import out, progress, say, warn

if TYPE_CHECKING:
    from ruler_builders.audit.verify import VerifyConfig


def verify(
    data: Annotated[str, typer.Argument(help="Folder of a build, or a repo with --revision.")],
    revision: Annotated[
        str, typer.Option(help="Tag or commit of a release on the Hub; it is downloaded.")
    ] = "",
    tasks: Annotated[str, typer.Option(help="Verify only these, comma-separated.")] = "all",
    lengths: Annotated[str, typer.Option(help="Verify only these (tokens).")] = "all",
    tokenizer: Annotated[
        Optional[str],  # noqa: UP045 - typer reads it at run time
        typer.Option(help="Where the tokenizer is, if it is not found by the manifest."),
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
    """Check everything that a folder or a release promises; exit 0 only when it is clean."""
    from ruler_builders.audit.verify import VerifyConfig, report_record, verify

    request = VerifyConfig(
        folder=Path(data),
        tokenizer=tokenizer,
        count_lengths=not no_lengths,
        rebuild=rebuild,
        sources=sources,
        haystack=haystack,
        workers=workers,
        counter=counter,
        tasks=None if tasks == "all" else parse_names(tasks),
        lengths=None if lengths == "all" else parse_lengths(lengths),
    )
    where = data
    if revision:
        request, where = _released(request, data, revision)
    with progress(None) as advance:
        report = verify(request, advance)
    for line in report.untested:
        warn(line)
    if as_json:
        out.print_json(json.dumps(report_record(report)))
    else:
        for finding in report.findings:
            say(finding)
    if report.findings:
        msg = f"{where}: {len(report.findings)} findings; this is not what was built"
        raise RulerError(msg)
    if not as_json:
        rebuilt = f", {report.rebuilt} rows rebuilt" if rebuild else ""
        unchecked = ", lengths not counted" if no_lengths else ""
        say(f"{where}: clean: {report.configs} configs, {report.rows} rows{rebuilt}{unchecked}")


def _released(request: "VerifyConfig", repo: str, revision: str) -> tuple["VerifyConfig", str]:
    """Download what is asked of a release; return the request for it, and what to call it."""
    from dataclasses import replace

    from ruler_data.hub import open_release

    release = open_release(repo, revision)
    chosen = release.manifest.select(request.tasks, request.lengths)
    release.fetch(chosen, files=release.manifest.files)
    where = f"{repo} at {revision} (commit {release.commit})"
    return replace(request, folder=release.folder, strays=False), where
