"""A logits processor of vLLM's that puts answers into a model's mouth, token by token.

The file that FORCED names says which: for each prompt, its ids joined by spaces, the ids to say.
Other prompts are answered as the model would.
"""

import json
import os
from functools import cache
from pathlib import Path

import torch
from vllm import SamplingParams
from vllm.v1.sample.logits_processor import AdapterLogitsProcessor, RequestLogitsProcessor


@cache
def _forced_ids() -> dict[str, list[int]]:
    wanted: dict[str, list[int]] = json.loads(Path(os.environ["FORCED"]).read_text())
    return wanted


class Forced(AdapterLogitsProcessor):  # type: ignore[misc]
    """Leaves the engine one token to choose from."""

    def is_argmax_invariant(self) -> bool:
        return False

    def new_req_logits_processor(self, params: SamplingParams) -> RequestLogitsProcessor:
        return _force


def _force(prompt: list[int], generated: list[int], logits: torch.Tensor) -> torch.Tensor:
    wanted = _forced_ids().get(" ".join(map(str, prompt)), [])
    if len(generated) >= len(wanted):
        return logits
    forced = torch.full_like(logits, float("-inf"))
    forced[wanted[len(generated)]] = 0.0
    return forced
