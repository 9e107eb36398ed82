"""`ruler-eval doctor`."""

import json
from dataclasses import asdict
from typing import Annotated

from ruler_data.errors import RulerError, UsageError
from ruler_data.names import counted
from ruler_data.options import Option, command
from ruler_data.terminal import out, progress, say
from ruler_eval.doctor.checks import diagnose
from ruler_eval.doctor.estimate import BEST, WORST, Estimate
from ruler_eval.eval_config import EvalConfig
from ruler_eval.run_status import duration


@command(without=("model_name",))
def doctor(
    config: EvalConfig,
    sample: Annotated[
        int, Option("Rows of each config to render and examine.", min=1, after="rows")
    ] = 20,
    everything: Annotated[bool, Option("Examine every row.", "--all", after="sample")] = False,
    gpu: Annotated[
        str | None, Option("Estimate time and memory on this GPU, e.g. h100.", after="everything")
    ] = None,
    price: Annotated[
        float | None, Option("Of one hour of the GPU, to estimate the cost.", after="gpu")
    ] = None,
    as_json: Annotated[bool, Option("Print figures as JSON on standard output.", "--json")] = False,
) -> None:
    """Check a run for problems without a GPU, and estimate its cost."""
    if price is not None and (gpu is None or not price > 0):
        option = f"--price {price}"
        raise UsageError(option, "must be over 0, and needs --gpu")
    with progress(None) as advance:
        findings, rows, cost = diagnose(config, None if everything else sample, gpu, advance)
    errors = sum(finding.level == "error" for finding in findings)
    if as_json:
        spent = cost.gpu_hours if cost and price else None
        record = {
            "rows": rows,
            "errors": errors,
            "findings": [asdict(finding) for finding in findings],
            "estimate": asdict(cost) if cost else None,
            "price": [price * hours for hours in spent] if price and spent else None,
        }
        out.print_json(json.dumps(record))
    else:
        for finding in findings:
            say(str(finding))
        if cost is not None:
            _print(cost, gpu, config.tensor_parallel, price)
        found = f"{counted(errors, 'error')}, {counted(len(findings), 'finding')}"
        say(f"{counted(rows, 'row')} examined: {found}")
    if errors:
        raise RulerError(counted(errors, "error"), "fix before you run")


def _print(cost: Estimate, gpu: str | None, gpus: int, price: float | None) -> None:
    say(
        f"prompts: {cost.prompt_tokens:,} tokens, {cost.prefill_flops:.2e} operations; answers: "
        f"{cost.answer_tokens:,} tokens at most"
    )
    say(
        f"model: {cost.parameters / 1e9:.2f} B parameters, weights {cost.weight_bytes / 1e9:.1f} "
        f"GB; keys and values of the longest row: {cost.kv_bytes_longest / 1e9:.2f} GB"
    )
    if cost.gpu_hours is None:
        return
    total, prefill, decoding, loading = (
        " to ".join(dict.fromkeys(duration(3600 * each) for each in hours or ()))
        for hours in (cost.gpu_hours, cost.prefill_hours, cost.decoding_hours, cost.loading_hours)
    )
    low, high = cost.gpu_hours
    bill = "" if price is None else f", {price * low:.2f} to {price * high:.2f}"
    say(
        f"GPU time on {gpu}: {total}{bill}: prefill {prefill}, decoding {decoding}, loading one "
        f"copy {loading}"
    )
    shared = f", {gpus} GPUs a copy keep {WORST.parallel:.0%} to {BEST.parallel:.0%} of their speed"
    say(
        f"assumed: prefill reaches {WORST.prefill:.0%} to {BEST.prefill:.0%} of the peak, decoding "
        f"{WORST.decoding:.0%} to {BEST.decoding:.0%} of the bandwidth"
        + (f"{shared} at each doubling" if gpus > 1 else "")
    )
