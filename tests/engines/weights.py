"""Write a tiny Llama with random weights: `python -m tests.engines.weights FOLDER`.

Its `generation_config.json` is hostile: every engine must give greedy answers all the same.

A process of its own, since torch warns of things that our tests take for errors.
"""

import json
import sys
from pathlib import Path

import torch
from transformers import LlamaConfig, LlamaForCausalLM

from tests.running.tiny import config, make_tokenizer

#: What a model may bring, and a server then applies unless it is asked for other values.
HOSTILE = {
    "do_sample": True, "temperature": 1.7, "top_k": 3, "top_p": 0.5, "min_p": 0.1,
    "repetition_penalty": 1.3, "max_new_tokens": 3, "suppress_tokens": list(range(300, 1200)),
}  # fmt: skip


def main(folder: Path) -> None:
    """Write tokenizer, config and weights, so large that what is said hangs on what was read."""
    make_tokenizer(folder)
    torch.manual_seed(0)
    LlamaForCausalLM(LlamaConfig(**config(initializer_range=0.2))).save_pretrained(folder)
    path = folder / "generation_config.json"
    path.write_text(json.dumps({**json.loads(path.read_text()), **HOSTILE}))


if __name__ == "__main__":
    main(Path(sys.argv[1]))
