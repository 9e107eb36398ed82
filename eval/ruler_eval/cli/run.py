"""`ruler-eval run`."""

import json
import os
import sys
from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import typer
from rich.table import Table

from ruler_data.errors import RulerError
from ruler_data.names import parse_shard
from ruler_data.terminal import named_path, out, say
from ruler_eval.api import Run, run_job, summarize, warn_of_other_tokenizer
from ruler_eval.cli import options as opt
from ruler_eval.data_parallel import end_with_parent, run_processes
from ruler_eval.run_dir import RunFolder
from ruler_eval.runner import Outcome, open_job
from ruler_eval.sharding import Shard


def run(
    context: typer.Context,
    data: opt.Data,
    folder: Annotated[
        Path,
        typer.Option("--out", parser=named_path, metavar="<path>", help="Folder of the run."),
    ],
    model: opt.ModelSpec = "",
    engine: opt.EngineOption = "vllm",
    protocol: opt.ProtocolOption = "completion",
    revision: opt.Revision = None,
    configs: opt.Configs = "",
    rows: opt.Rows = None,
    shard: opt.ShardOption = "0/1",
    tensor_parallel: opt.TensorParallel = 1,
    data_parallel: Annotated[
        int, typer.Option("--data-parallel", min=1, help="Copies of the model on this machine.")
    ] = 1,
    option: opt.Options = None,
    extra_tokens: opt.ExtraTokens = None,
    no_context: opt.NoContext = False,
    base_url: opt.BaseUrl = None,
    tokenizer: opt.TokenizerOption = None,
    model_name: opt.ModelName = None,
    model_revision: opt.ModelRevision = None,
    as_json: opt.JsonFlag = False,
) -> None:
    """Answer frozen rows, one journal line for each; a run that was interrupted resumes."""
    job = open_job(opt.eval_config(context.params))
    share, run_folder = Shard(*parse_shard(shard)), RunFolder(folder)
    end_with_parent()
    if data_parallel == 1:
        done = run_job(job, run_folder, share)
    else:
        warn_of_other_tokenizer(job)
        visible = os.environ.get("CUDA_VISIBLE_DEVICES")
        run_processes(job, run_folder, share, data_parallel, visible, sys.argv[1:])
        done = summarize(job, run_folder, Outcome())
    _print(done, as_json=as_json)
    if done.outcome.unscored or done.outcome.missing:
        msg = (
            f"{folder}: shard {share}: {done.outcome.unscored} rows could not be answered "
            f"({done.outcome.first_error}), {done.outcome.missing} were not asked; run the same "
            "command again to ask only those"
        )
        raise RulerError(msg)


def _print(done: Run, *, as_json: bool) -> None:
    """Print what the run has of each config, over all shards."""
    if as_json:
        configs = [asdict(config) for config in done.configs]
        out.print_json(json.dumps({"complete": done.complete, "configs": configs}))
        return
    names, *lines = done.table()
    table = Table(box=None)
    for name in names:
        table.add_column(name, justify="left" if name == "config" else "right")
    for line in lines:
        table.add_row(*line)
    out.print(table)
    say(f"{done.folder}: {done.answered} of {done.rows} rows answered")
