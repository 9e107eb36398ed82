"""`ruler-eval doctor`."""

from typing import Annotated

from ruler_data.options import Option, command
from ruler_data.terminal import print_result, progress
from ruler_eval.eval_config import EvalConfig
from ruler_eval.preflight import diagnose


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
    with progress(None) as advance:
        found = diagnose(config, None if everything else sample, gpu, price, advance)
    status = print_result("ruler-eval", found, as_json=as_json)
    if status:
        raise SystemExit(status)
