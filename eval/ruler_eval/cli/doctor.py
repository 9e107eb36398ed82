"""`ruler-eval doctor`."""

import json
from dataclasses import asdict
from typing import Annotated

from ruler_data.errors import RulerError
from ruler_data.names import counted
from ruler_data.options import Option, command
from ruler_data.terminal import out, progress, say
from ruler_eval.doctor.checks import Diagnosis, diagnose
from ruler_eval.doctor.estimate import UTILIZATION, Estimate
from ruler_eval.eval_config import EvalConfig


@command(without=("base_url", "model_name", "samples", "temperature", "top_p"))
def doctor(
    config: EvalConfig,
    sample: Annotated[
        int, Option("Rows of each config to render and examine.", min=1, after="rows")
    ] = 20,
    everything: Annotated[bool, Option("Examine every row.", "--all", after="sample")] = False,
    gpu: Annotated[
        str | None,
        Option("Estimate hours and memory on this GPU, e.g. h100.", after="everything"),
    ] = None,
    as_json: Annotated[bool, Option("Print figures as JSON on standard output.", "--json")] = False,
) -> None:
    """Check a run for problems without a GPU, and estimate its cost."""
    with progress(None) as advance:
        diagnosis = diagnose(config, None if everything else sample, gpu, advance)
    if as_json:
        out.print_json(json.dumps(_record(diagnosis)))
    else:
        for finding in diagnosis.findings:
            say(str(finding))
        if diagnosis.estimate is not None:
            _print(diagnosis.estimate, gpu, config.tensor_parallel)
        say(
            f"{counted(diagnosis.rows, 'row')} examined: {counted(diagnosis.errors, 'error')}, "
            f"{counted(len(diagnosis.findings), 'finding')}"
        )
    if diagnosis.errors:
        msg = f"{counted(diagnosis.errors, 'error')}: fix before you run"
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
