"""vLLM in this process: as many rows at once as its memory holds, answered as they finish.

Facts that shape this module (vLLM 0.32): a prompt sent as text may get a second BOS, so ids are
sent; `max_tokens` defaults to 16; a prompt that leaves less room than `max_tokens` is silently cut
short, so the window is checked before; one prompt over the window aborts a whole `LLM.generate`, so
rows are enqueued one by one and the engine is stepped here; cached prefixes have changed answers of
models with linear-attention or state-space layers (vllm-project/vllm issues 43090 and 53912,
tpu-inference 3412: gsm8k 0.01 with the cache, 0.97 without), so these run without a prefix cache.
"""

import os
import time
from collections.abc import Iterator, Mapping
from contextlib import suppress
from functools import partial
from itertools import islice
from typing import Any

from ruler_data.names import quote
from ruler_data.terminal import block_sigint_in_children, warn
from ruler_eval.running.answers import Answer
from ruler_eval.running.config import EvalConfig
from ruler_eval.running.engine import (
    Engine,
    NotInstalled,
    Request,
    Setup,
    check_options,
    installed_versions,
)
from ruler_eval.running.models import is_recurrent, text_part, with_yarn_window
from ruler_eval.running.run_dir import FREE

#: Rows that the engine holds at once, unless `max_num_seqs` asks for more; it computes as many of
#: them as its memory allows.
IN_FLIGHT = 128
#: Rows enqueued between two steps, so that the engine never waits until all prompts are rendered.
FEED = 2
#: Arguments of vLLM that may change answers, with its defaults; each run records their values.
RECORDED = {
    "enable_prefix_caching": True,
    "enable_chunked_prefill": True,
    "kv_cache_dtype": "auto",
    "quantization": None,
}


def prepare(setup: Setup) -> Engine:
    """Return the engine, not loaded; its arguments are checked against those of installed vLLM."""
    versions = installed_versions("vllm", "vllm", "torch", "transformers")
    os.environ.setdefault("VLLM_LOGGING_LEVEL", "WARNING")
    os.environ.setdefault("VLLM_LOGGING_STREAM", "ext://sys.stderr")  # stdout is for results
    os.environ.setdefault("VLLM_NO_USAGE_STATS", "1")
    try:
        from vllm.engine.arg_utils import EngineArgs
    except Exception as error:  # e.g. RuntimeError of a torchvision for another torch
        why = quote(f"{type(error).__name__}: {error}", 200)
        raise NotInstalled(f"engine vllm is installed but cannot be imported ({why})") from error

    config = setup.config
    model = setup.model
    options = config.settings
    recurrent = is_recurrent(model.config)
    if recurrent and "enable_prefix_caching" not in options:
        warn(
            "prefix caching is off: it has changed answers of models with linear-attention or "
            "state-space layers (vLLM issues 43090, 53912); --option enable_prefix_caching=true"
        )
    method = (text_part(model.config).get("quantization_config") or {}).get("quant_method")
    deciding = {**RECORDED, "enable_prefix_caching": not recurrent, "quantization": method}
    deciding |= {name: options[name] for name in deciding if name in options}
    arguments = {
        "model": model.source,
        "revision": model.hub_revision,
        "dtype": "bfloat16",
        "tensor_parallel_size": config.tensor_parallel,
        # No longer than the longest row: memory for more would be taken from the rows.
        "max_model_len": min(setup.longest, model.window or setup.longest),
        "load_format": "safetensors",  # nothing is unpickled
        "use_tqdm_on_load": False,
        **{name: value for name, value in deciding.items() if name != "quantization"},
        **options,
    }
    check_options("vllm", EngineArgs.__dataclass_fields__, arguments)
    overrides = with_yarn_window(model.config, options.get("hf_overrides", {}))
    if overrides:
        arguments["hf_overrides"] = overrides
    return Engine(
        partial(_generate, arguments, config),
        info={
            **versions,
            "dtype": arguments["dtype"],
            "tensor_parallel": config.tensor_parallel,
            **deciding,
            "options": {n: v for n, v in options.items() if n not in deciding.keys() | FREE},
        },
        sampling=config.sampling,
        window=model.window,
    )


def _generate(
    arguments: Mapping[str, Any], config: EvalConfig, requests: Iterator[Request | None]
) -> Iterator[Answer]:
    from vllm import LLM, SamplingParams

    with block_sigint_in_children():
        llm = LLM(**arguments)
    hardware = _hardware()
    waiting: dict[str, tuple[Request, float]] = {}
    most = max(IN_FLIGHT, arguments.get("max_num_seqs") or 0)
    more = True
    try:
        while more or waiting:
            room = min(FEED, most - len(waiting))
            batch = list(islice(requests, room))
            more = len(batch) == room
            for request in filter(None, batch):
                params = SamplingParams(**_sampling_of(config, request))
                prompt = {"prompt_token_ids": request.ids.tolist()}
                try:
                    (name,) = llm.enqueue(prompt, params, use_tqdm=False)
                except ValueError as error:
                    yield request.failed(str(error).splitlines()[0])
                    continue
                # A random part follows the name, which outputs do not have.
                waiting[str(name).partition("-")[0]] = request, time.monotonic()
            if not waiting:
                continue
            for output in llm.llm_engine.step():
                if output.finished:
                    request, start = waiting.pop(output.request_id)
                    yield _answer(request, output, time.monotonic() - start, hardware)
    finally:
        try:
            llm.llm_engine.engine_core.shutdown()
        except Exception as error:  # e.g. of psutil: a worker that it would kill has just ended
            warn(f"vLLM did not end in order ({type(error).__name__}: {error}); answers are kept")


def _sampling_of(config: EvalConfig, request: Request) -> dict[str, Any]:
    """Return vLLM's parameters of a request."""
    sampling = config.sampling
    if "seed" in sampling:
        sampling["seed"] = request.seed
    sampling["max_tokens"] = request.max_tokens
    sampling["skip_special_tokens"] = False  # some models mark reasoning by special tokens
    return sampling


def _answer(request: Request, output: Any, seconds: float, hardware: str | None) -> Answer:  # noqa: ANN401 - of vLLM
    generated = output.outputs[0]
    return request.answered(
        generated.text,
        generated.finish_reason,
        len(generated.token_ids),
        seconds,
        cached_tokens=output.num_cached_tokens,
        hardware=hardware,
    )


def _hardware() -> str | None:
    """Return the name of the device, e.g. `NVIDIA H200`; asked earlier, it may begin CUDA here."""
    from vllm.platforms import current_platform

    with suppress(Exception):  # a platform may have no name, or no driver that tells it
        return str(current_platform.get_device_name())
    return None
