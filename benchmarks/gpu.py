"""What a run reaches of its engine and its GPU; under ten minutes, and tiny on a CPU.

    python benchmarks/gpu.py                                  # 1 B parameters, 4,096 to 131,072
    python benchmarks/gpu.py --size tiny --lengths 512,1024 --rows 2    # on a CPU

The model has random weights, in vLLM if it is installed and there is a GPU, else in transformers.
Rows are built on the spot from the sample corpus. The table has for each length:

    run / alone   rows per second of a whole run, over those of the engine alone, which gets the
                  same prompts rendered before; first row left out, since it waits for the weights
    prefill       tokens per second with answers of one token
    of peak       its operations over the dense bf16 peak of the GPU; none on a CPU
    cached        share of the prompt tokens from the prefix cache: rows as a run orders them, and
                  in the order of the data; none in transformers
"""

import argparse
import importlib.util
import json
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterable, Iterator
from dataclasses import replace
from functools import partial
from pathlib import Path

from measuring import table

from ruler_eval.answers import Answer
from ruler_eval.engines import Request
from ruler_eval.estimate import GPUS, shape_of
from ruler_eval.eval_config import EvalConfig
from ruler_eval.run_dir import RunFolder
from ruler_eval.runner import RunJob, open_job, requests, run_shard
from ruler_eval.sharding import Shard, shares_of
from tests.running.tiny import config as tiny_config
from tests.running.tiny import make_tokenizer

#: Hidden size, inner size, layers, heads and key-value heads, as in Llama 3.2 1B, 3B and 3.1 8B.
SIZES = {
    "tiny": (128, 256, 4, 4, 2),
    "1b": (2048, 8192, 16, 32, 8),
    "3b": (3072, 8192, 28, 24, 8),
    "8b": (4096, 14336, 32, 32, 8),
}
LENGTHS = "4096,16384,65536,131072"


def main() -> None:
    """Make a model and rows, measure each length, and print a table."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--size", choices=SIZES, default="1b")
    parser.add_argument("--lengths", default=LENGTHS)
    parser.add_argument("--rows", type=int, help="of each of two tasks and lengths [fewer if long]")
    options = parser.parse_args()
    import torch

    gpu = torch.cuda.get_device_name() if torch.cuda.is_available() else None
    engine = "vllm" if gpu and importlib.util.find_spec("vllm") else "transformers"
    lengths = [int(length) for length in options.lengths.split(",")]
    known = next((name for name in GPUS if gpu and name in gpu.lower().replace(" ", "")), None)
    lines = []
    with tempfile.TemporaryDirectory() as scratch:
        model = make_model(Path(scratch, "model"), options.size, max(lengths))
        shape = shape_of(json.loads((model / "config.json").read_text()), None, {})
        assert shape is not None
        for length in lengths:
            rows = options.rows or max(4, 400_000 // length)
            frozen = build(Path(scratch, str(length)), model, length, rows)
            job = partial(
                open_job, EvalConfig.of({"data": frozen, "model": model, "engine": engine})
            )
            ratio = throughput(job(), Path(scratch)) / throughput(job())
            speed, tokens = prefill(job())
            share = ""
            if known:
                share = f"{shape.prefill_flops(tokens) * speed / tokens / GPUS[known].flops:.0%}"
            saved = " / ".join(filter(None, (cached(job(), alike) for alike in (1, 0))))
            lines.append((length, f"{ratio:.3f}", f"{speed:,.0f}/s", share, saved))
    print(f"{options.size} on {gpu or 'a CPU'}, engine {engine}\n")
    print(*table(("tokens", "run / alone", "prefill", "of peak", "cached"), lines), sep="\n")


def make_model(folder: Path, size: str, window: int) -> Path:
    """Write a Llama with random weights in bf16, and a tokenizer of 2,000 tokens."""
    import torch
    from transformers import AutoModelForCausalLM, LlamaConfig

    make_tokenizer(folder)
    hidden, inner, layers, heads, kv_heads = SIZES[size]
    shape = {
        "hidden_size": hidden, "intermediate_size": inner, "num_hidden_layers": layers,
        "num_attention_heads": heads, "num_key_value_heads": kv_heads, "head_dim": hidden // heads,
        "eos_token_id": None,  # answers are as long as they may be
    }  # fmt: skip
    torch.manual_seed(0)
    device = "cuda" if torch.cuda.is_available() else "cpu"
    with torch.device(device):
        made = AutoModelForCausalLM.from_config(
            LlamaConfig(**tiny_config(window, **shape)), dtype=torch.bfloat16
        )
    made.save_pretrained(folder)
    del made
    if device == "cuda":
        torch.cuda.empty_cache()
    return folder


def build(folder: Path, model: Path, length: int, rows: int) -> Path:
    """Build rows of a task with a common beginning, and of one without."""
    asked = (
        "build", "--tokenizer", model, "--sources-kind", "sample", "--tasks", "niah_single_1,fwe",
        "--lengths", length, "--rows", rows, "--out", folder,
    )  # fmt: skip
    line = [sys.executable, "-m", "ruler_builders", *map(str, asked)]
    subprocess.run(line, check=True, stdout=subprocess.DEVNULL)
    return folder


def throughput(job: RunJob, scratch: Path | None = None) -> float:
    """Return rows per second after the first: of a run into a folder, or of the engine alone."""
    if scratch is None:
        return per_second(job.engine.generate(iter(list(requests(job, shares_of(job.data)[0])))))
    times: list[float] = []
    inner = job.engine.generate

    def timed(given: Iterator[Request | None]) -> Iterator[Answer]:
        for prediction in inner(given):
            times.append(time.perf_counter())
            yield prediction

    job = replace(job, engine=replace(job.engine, generate=timed))
    with tempfile.TemporaryDirectory(dir=scratch) as out:
        run_shard(job, RunFolder(Path(out)), Shard())
        times.append(time.perf_counter())  # the last row is in the journal
    return (len(times) - 2) / (times[-1] - times[0])


def per_second(predictions: Iterable[Answer]) -> float:
    """Return rows per second after the first."""
    times = [time.perf_counter() for _ in predictions]
    return (len(times) - 1) / (times[-1] - times[0])


def prefill(job: RunJob) -> tuple[float, int]:
    """Return tokens per second with answers of one token, and the mean length of a prompt."""
    asked = [replace(one, max_tokens=1) for one in requests(job, shares_of(job.data)[0])]
    tokens = sum(len(one.ids) for one in asked) // len(asked)
    return per_second(job.engine.generate(iter(asked))) * tokens, tokens


def cached(job: RunJob, alike: int) -> str:
    """Return the share of the prompt tokens that the prefix cache held; nothing without one."""
    asked = list(requests(job, shares_of(job.data)[0]))
    if not alike:
        asked.sort(key=lambda one: one.key)
    found = [one for one in job.engine.generate(iter(asked)) if one.cached_tokens is not None]
    if not found:
        return ""
    held = sum(one.cached_tokens or 0 for one in found)
    return f"{held / sum(one.prompt_tokens or 0 for one in found):.0%}"


if __name__ == "__main__":
    main()
