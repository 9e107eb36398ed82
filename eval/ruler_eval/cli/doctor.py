"""`ruler-eval doctor`."""

import json
from dataclasses import asdict
from typing import Annotated

import typer

from ruler_data.errors import RulerError
from ruler_data.terminal import out, progress, say
from ruler_eval.cli import options as opt
from ruler_eval.doctor.checks import Diagnosis, diagnose
from ruler_eval.doctor.estimate import UTILIZATION, Estimate


def doctor(
    context: typer.Context,
    data: opt.Data,
    model: opt.ModelSpec = "",
    protocol: opt.ProtocolOption = "completion",
    engine: opt.EngineOption = "vllm",
    revision: opt.Revision = None,
    configs: opt.Configs = "",
    rows: opt.Rows = None,
    sample: Annotated[
        int, typer.Option("--sample", min=1, help="Rows of each config to render and examine.")
    ] = 20,
    everything: Annotated[bool, typer.Option("--all", help="Examine every row.")] = False,
    gpu: Annotated[
        str | None, typer.Option("--gpu", help="Estimate hours and memory on this GPU, e.g. h100.")
    ] = None,
    tensor_parallel: opt.TensorParallel = 1,
    option: opt.Options = None,
    extra_tokens: opt.ExtraTokens = None,
    no_context: opt.NoContext = False,
    tokenizer: opt.TokenizerOption = None,
    model_revision: opt.ModelRevision = None,
    as_json: opt.JsonFlag = False,
) -> None:
    """Find what would spoil a run before any GPU is used, and estimate its cost."""
    config = opt.eval_config(context.params)
    with progress(None) as advance:
        diagnosis = diagnose(config, None if everything else sample, gpu, advance)
    if as_json:
        out.print_json(json.dumps(_record(diagnosis)))
    else:
        for finding in diagnosis.findings:
            say(str(finding))
        if diagnosis.estimate is not None:
            _print(diagnosis.estimate, gpu, tensor_parallel)
        say(
            f"{diagnosis.rows} rows examined: {diagnosis.errors} errors, "
            f"{len(diagnosis.findings)} findings"
        )
    if diagnosis.errors:
        msg = f"{diagnosis.errors} errors: this run would be worthless as it is"
        raise RulerError(msg)


def _record(diagnosis: Diagnosis) -> dict[str, object]:
    return {
        "rows": diagnosis.rows,
        "errors": diagnosis.errors,
        "findings": [asdict(finding) for finding in diagnosis.findings],
        "estimate": asdict(diagnosis.estimate) if diagnosis.estimate else None,
    }


def _print(cost: Estimate, gpu: str | None, gpus: int) -> None:
    say(f"prompts: {cost.prompt_tokens:,} tokens; answers: {cost.answer_tokens:,} at most")
    say(
        f"model: {cost.parameters / 1e9:.2f} B parameters, {cost.weight_bytes / 1e9:.1f} GB in "
        f"bf16; keys and values: {cost.kv_bytes_a_token / 1e3:.1f} kB per token, "
        f"{cost.kv_bytes_longest / 1e9:.2f} GB for the longest row"
    )
    if cost.gpu_hours is not None:
        say(
            f"prefill: {cost.prefill_flops:.2e} operations; about {cost.gpu_hours:.1f} GPU hours "
            f"on {gpu} with {gpus} per copy, if prefill reaches {UTILIZATION:.0%} of its peak "
            "(an assumption)"
        )
