"""`ruler-data verify`: check a folder, or a release on the Hub."""

import json
from dataclasses import replace
from typing import Annotated

from ruler_builders.audit import verify as audit
from ruler_data.errors import RulerError
from ruler_data.names import counted
from ruler_data.options import JsonFlag, Option, command
from ruler_data.terminal import out, progress, say, warn


@command()
def verify(
    config: audit.VerifyConfig,
    no_lengths: Annotated[
        bool,
        Option(
            "Verify without the tokenizer: no lengths, and texts instead of bytes.",
            after="tokenizer",
        ),
    ] = False,
    as_json: JsonFlag = False,
) -> None:
    """Check everything that a folder or a release promises; exit 0 only if it is clean."""
    config, where = config.fetched()
    with progress(config.tokens) as advance:
        config = replace(config, count_lengths=not no_lengths, progress=advance)
        report = audit.verify(**vars(config))
    for line in report.untested if report.clean else ():
        warn(line)
    if as_json:
        out.print_json(json.dumps(report.to_dict()))
    else:
        for finding in report.findings:
            say(finding)
    if not report.clean:
        raise RulerError(where, f"verification failed: {counted(len(report.findings), 'finding')}")
    if not as_json:
        for line in report.proved:
            say(f"proved: {line}")
        rebuilt = f", {counted(report.rebuilt, 'row')} rebuilt" if report.rebuilt else ""
        unchecked = ", lengths not counted" if no_lengths else ""
        checked = f"{counted(report.configs, 'config')}, {counted(report.rows, 'row')}"
        say(f"{where}: clean: {checked}{rebuilt}{unchecked}")
