"""`ruler-eval run`."""

import json
import sys
from dataclasses import asdict
from typing import Annotated

from rich.table import Column, Table

from ruler_data.errors import RulerError
from ruler_data.names import counted
from ruler_data.options import Option, command
from ruler_data.terminal import out, say
from ruler_eval.data_parallel import end_with_parent, run_processes
from ruler_eval.eval_config import RunConfig
from ruler_eval.run_status import Outcome, Run, summarize
from ruler_eval.runner import open_job, run_shard


@command()
def run(
    config: RunConfig,
    data_parallel: Annotated[
        int, Option("Copies of the model on this machine.", min=1, after="tensor_parallel")
    ] = 1,
    as_json: Annotated[bool, Option("Print figures as JSON on standard output.", "--json")] = False,
) -> None:
    """Run a model over the rows; the same command resumes an interrupted run."""
    folder, share = config.folder.checked(), config.share
    job = open_job(config)
    end_with_parent()
    outcome = Outcome()
    if data_parallel == 1:
        outcome = run_shard(job, folder, share)
    else:
        run_processes(job, folder, share, data_parallel, sys.argv[1:])
    done = summarize(folder, job.info, outcome)
    if as_json:
        configs = [asdict(each) for each in done.configs]
        out.print_json(json.dumps({"complete": done.complete, "configs": configs}))
    else:
        show(done)
    if outcome.unscored or outcome.missing:
        msg = (
            f"{folder.path}: shard {share}: {counted(outcome.unscored, 'row')} could not be "
            f"answered ({outcome.first_error}), {outcome.missing} were not run; run the command "
            "again to run only these rows"
        )
        raise RulerError(msg)


def show(run: Run) -> None:
    """Print what a run has of each config."""
    names, *lines = run.table()
    table = Table(names[0], *(Column(name, justify="right") for name in names[1:]), box=None)
    for line in lines:
        table.add_row(*line)
    out.print(table)
    say(run.coverage)
