"""vLLM in this process: as many rows at once as its memory holds, answered as they finish.

Facts that shape this module (vLLM 0.32): a prompt sent as text may get a second BOS, so ids are
sent; `max_tokens` is 16 where it is not given; a prompt that leaves less room than `max_tokens`
is cut short silently, so the window was checked before; one over-long prompt aborts a whole
`LLM.generate`, so rows are enqueued one by one and the engine is stepped here.
"""

import os
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import islice
from typing import Any

from ruler_data.terminal import block_sigint_in_children
from ruler_eval.engines.interface import GREEDY, EngineConfig, Request, check, installed, published
from ruler_eval.models import stretched
from ruler_eval.schema import Prediction

#: Rows that the engine holds at once; it computes as many of them as its memory allows.
IN_FLIGHT = 128
#: Rows given to it between two steps, so that a long prompt never waits for all others to render.
FEED = 2


@dataclass(frozen=True)
class VllmEngine:
    """One vLLM engine."""

    setup: EngineConfig
    arguments: Mapping[str, Any]
    versions: dict[str, str]
    renders: bool = False

    @property
    def info(self) -> dict[str, Any]:
        """Versions, dtype, parallelism and options, for the record."""
        return {
            **self.versions,
            "dtype": self.arguments["dtype"],
            "tensor_parallel": self.setup.tensor_parallel,
            "options": published(self.setup.options),
        }

    @property
    def sampling(self) -> dict[str, Any]:
        """Greedy decoding."""
        return dict(GREEDY)

    @property
    def window(self) -> int | None:
        """Tokens that the model's positions reach, or what the options limit them to."""
        limit = self.setup.options.get("max_model_len")
        return limit if isinstance(limit, int) else self.setup.model.window

    def answer(self, asks: Iterator[Request | None]) -> Iterator[Prediction]:
        """Yield an answer for each row, as they finish."""
        llm = self._load()
        waiting: dict[str, tuple[Request, float]] = {}
        more = True
        try:
            while more or waiting:
                room = min(FEED, IN_FLIGHT - len(waiting))
                taken = list(islice(asks, room)) if more else []
                more = more and len(taken) == room
                for ask in filter(None, taken):
                    try:
                        name = _enqueue(llm, ask.ids, self._params(ask))
                    except ValueError as error:
                        yield ask.unscored(str(error).splitlines()[0])
                        continue
                    waiting[name] = ask, time.monotonic()
                for output in llm.llm_engine.step() if waiting else ():
                    if output.finished:
                        ask, begun = waiting.pop(output.request_id)
                        yield _answer(ask, output, time.monotonic() - begun)
        finally:
            llm.llm_engine.engine_core.shutdown()

    def _params(self, ask: Request) -> Any:  # noqa: ANN401 - vllm's own, imported late
        from vllm import SamplingParams

        return SamplingParams(
            **GREEDY,
            max_tokens=ask.max_tokens,
            skip_special_tokens=self.setup.asking.protocol.name != "thinking",
        )

    def _load(self) -> Any:  # noqa: ANN401 - vllm's own, imported late
        from vllm import LLM

        with block_sigint_in_children():
            return LLM(**self.arguments)


def _enqueue(llm: Any, ids: list[int], params: Any) -> str:  # noqa: ANN401 - vllm's own
    """Hand a prompt over and return the name that its output will have."""
    (name,) = llm.enqueue({"prompt_token_ids": ids}, params, use_tqdm=False)
    return str(name).partition("-")[0]  # behind it stands a random part that outputs lack


def _answer(ask: Request, output: Any, seconds: float) -> Prediction:  # noqa: ANN401 - vllm's own
    said = output.outputs[0]
    if said.finish_reason not in ("stop", "length"):
        return ask.unscored(f"vllm ended the row: {said.finish_reason}")
    cached = output.num_cached_tokens
    tokens = len(said.token_ids)
    return ask.answered(said.text, said.finish_reason, tokens, seconds, cached_tokens=cached)


def prepare(setup: EngineConfig) -> VllmEngine:
    """Return the engine, not loaded; its arguments are checked against the installed vLLM's.

    Raises:
        UsageError: vLLM is not installed, or has no such argument.
    """
    versions = installed("vllm", "vllm", "torch", "transformers")
    os.environ.setdefault("VLLM_LOGGING_LEVEL", "WARNING")
    os.environ.setdefault("VLLM_LOGGING_STREAM", "ext://sys.stderr")  # ours is for figures
    os.environ.setdefault("VLLM_NO_USAGE_STATS", "1")
    from vllm.engine.arg_utils import EngineArgs

    arguments = {**defaults(setup), **setup.options}
    check("vllm", EngineArgs.__dataclass_fields__, arguments)
    overrides = stretched(setup.model.config, setup.options.get("hf_overrides", {}))
    arguments |= {"hf_overrides": overrides} if overrides else {}
    return VllmEngine(setup, arguments, versions)


def defaults(setup: EngineConfig) -> dict[str, Any]:
    """Return the arguments that vLLM gets where the options say nothing else."""
    window = setup.model.window
    return {
        "model": setup.model.source,
        "revision": setup.model.hub_revision,
        "dtype": "bfloat16",
        "tensor_parallel_size": setup.tensor_parallel,
        # As long as the longest row and no longer: memory for more would be taken from the rows.
        "max_model_len": min(setup.longest, window or setup.longest),
        "enable_prefix_caching": True,
        "enable_chunked_prefill": True,
        "load_format": "safetensors",  # nothing is unpickled
        "use_tqdm_on_load": False,
    }
