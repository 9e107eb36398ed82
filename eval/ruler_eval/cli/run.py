"""`ruler-eval run`: parse, run, say what came of it."""

import json
import os
import sys
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path
from typing import Annotated

import typer

from ruler_data.errors import RulerError
from ruler_data.names import parse_shard
from ruler_data.terminal import named_path, out, say, warn
from ruler_eval.cli import options as opt
from ruler_eval.data_parallel import devices, follow, run_shards, shards_of
from ruler_eval.eval_config import open_job
from ruler_eval.journal import Mended
from ruler_eval.progress import bar, summary, table
from ruler_eval.prompts import counts_alike
from ruler_eval.run_dir import RunFolder, Shard
from ruler_eval.runner import Outcome, RunJob, run_shard
from ruler_eval.schema import Prediction
from ruler_eval.sharding import Item, assign, items_of


def run(
    context: typer.Context,
    data: opt.Data,
    model: opt.ModelSpec,
    folder: Annotated[
        Path,
        typer.Option("--out", parser=named_path, metavar="<path>", help="Folder of the run."),
    ],
    engine: opt.EngineName = "vllm",
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
    """Put frozen rows to a model, one journal line for each; go on where a run was interrupted."""
    job = open_job(opt.order(context.params), folder, Shard(*parse_shard(shard)))
    if job.tokenizer and not counts_alike(job.data, job.tokenizer):
        warn(
            f"tokenizer {job.tokenizer.info.name} is not the one that the data's lengths are "
            f"counted in ({job.data.manifest.tokenizer.name}); `ruler-eval doctor` compares them"
        )
    follow()
    if data_parallel > 1:
        _launch(job, data_parallel, tensor_parallel)
        outcome_of(job.out, job.data.rows, as_json=as_json)
        return
    with ExitStack() as stack:

        def begun(todo: list[Item], mended: Mended) -> Callable[[Prediction], None]:
            _tell(mended)
            return stack.enter_context(bar(todo))

        outcome = run_shard(job, begun)
    outcome_of(job.out, job.data.rows, as_json=as_json)
    _judge(job, outcome)


def _launch(job: RunJob, groups: int, size: int) -> None:
    """Run shards of this one side by side, a process for each group of GPUs."""
    job.out.begin(job.info)
    gpus = devices(groups, size, os.environ.get("CUDA_VISIBLE_DEVICES"))
    shards = shards_of(job.shard, groups)
    answered = job.out.answered()
    dealt = assign(items_of(job.data), shards[0].count)
    todo = [item for one in shards for item in dealt[one.index] if item.key not in answered]
    with bar(todo) as advance:
        run_shards(job.out, shards, gpus, sys.argv[1:], advance)


def outcome_of(out_folder: RunFolder, rows: dict[str, int], *, as_json: bool) -> bool:
    """Print what became of each config's rows, over all shards; return whether all are answered."""
    lines = summary(out_folder.answers(), rows)
    complete = all(line["answered"] == line["rows"] for line in lines)
    if as_json:
        out.print_json(json.dumps({"complete": complete, "configs": lines}))
    else:
        out.print(table(lines))
        done, whole = (sum(int(str(line[name])) for line in lines) for name in ("answered", "rows"))
        say(f"{out_folder.path}: {done} of {whole} rows answered")
    return complete


def _tell(mended: Mended) -> None:
    if mended.cut:
        warn(f"the journal was torn: {mended.cut} bytes cut off its end; that row is asked again")
    if mended.unscored:
        warn(f"{mended.unscored} rows that could not be answered before are asked again")


def _judge(job: RunJob, outcome: Outcome) -> None:
    """Fail if rows of this shard are left without an answer."""
    if outcome.unscored or outcome.missing:
        msg = (
            f"{job.out.path}: shard {job.shard}: {outcome.unscored} rows could not be answered "
            f"({outcome.first_error}), {outcome.missing} were not asked; run the same command "
            "again to ask only those"
        )
        raise RulerError(msg)
