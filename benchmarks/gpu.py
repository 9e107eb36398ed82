"""A run beside vLLM's own bench on the same prompts, and beside the estimate of `run --check`.

    python benchmarks/gpu.py --data dist/qwen2.5 --tokenizer FOLDER --rows 4         # on a GPU
    python benchmarks/gpu.py --data FOLDER --tokenizer FOLDER --size tiny --rows 2    # on a CPU

The model has the shape of Qwen2.5-7B, random weights and no end of sequence, so that all answers
are as long as they may be. Run and bench alternate, each with an engine of its own and the same
arguments; both get the same ids in the same order. The bench samples at temperature 1, a run is
greedy. A run is timed from its first prompt, with the model loaded, until its last answer is in the
journal; the bench times itself. Tokens are those of prompts and answers. The estimate has neither
loading nor what the prefix cache saves.
"""

import argparse
import json
import shutil
import sys
import tempfile
import time
from collections.abc import Iterator
from dataclasses import replace
from functools import partial
from pathlib import Path
from statistics import median

from measuring import about, facts, table

from ruler_eval.running.answers import Answer
from ruler_eval.running.config import EvalConfig
from ruler_eval.running.engine import Request
from ruler_eval.running.run_dir import RunFolder, Shard
from ruler_eval.running.runner import RunJob, open_job, requests, run_shard

#: Hidden size, inner size, layers, heads and key-value heads; 7b is Qwen2.5-7B.
SIZES = {"tiny": (128, 256, 4, 4, 2), "7b": (3584, 18944, 28, 28, 4)}


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--tokenizer", type=Path, required=True, help="tokenizer of the data")
    parser.add_argument("--size", choices=SIZES, default="7b")
    parser.add_argument("--lengths")
    parser.add_argument("--rows", type=int, help="of each config")
    parser.add_argument("--pairs", type=int, default=1)
    options = parser.parse_args()
    import torch

    gpu = torch.cuda.get_device_name() if torch.cuda.is_available() else None
    lines: list[tuple[str, ...]] = []
    ratios = []
    with tempfile.TemporaryDirectory() as scratch:
        model = make_model(Path(scratch, "model"), options.size, options.tokenizer)
        config = EvalConfig(
            options.data,
            model=model,
            lengths=options.lengths,
            rows=options.rows,
            options={"load_format": "dummy"},
        )
        for pair in range(options.pairs):
            speeds = []
            for name, work in (
                ("run", partial(run, out=Path(scratch, str(pair)))),
                ("bench", bench),
            ):
                seconds, tokens = work(open_job(config))
                speeds.append(tokens / seconds)
                lines.append((name, f"{tokens:,}", f"{seconds:.1f}", f"{speeds[-1]:,.0f}"))
                print(*lines[-1], flush=True)
            ratios.append(speeds[0] / speeds[1])
        job = open_job(config)
        saved = cached(Path(scratch, "0"))
    versions = {name: str(job.engine.info[name]) for name in ("vllm", "torch")}
    print(*facts(about() | versions | {"GPU": gpu or "none", "model": options.size}), sep="\n")
    print(*table(("", "tokens", "seconds", "tokens a second"), lines), sep="\n")
    print(
        f"run / bench, median: {median(ratios):.3f}; prompt tokens from the prefix cache: {saved}"
    )


def make_model(folder: Path, size: str, tokenizer: Path) -> Path:
    """Write the config of a Qwen2 beside a tokenizer; the weights are random."""
    shutil.copytree(tokenizer, folder)
    hidden, inner, layers, heads, kv_heads = SIZES[size]
    config = {
        "architectures": ["Qwen2ForCausalLM"], "model_type": "qwen2", "hidden_size": hidden,
        "intermediate_size": inner, "num_hidden_layers": layers, "num_attention_heads": heads,
        "num_key_value_heads": kv_heads, "vocab_size": 152_064, "max_position_embeddings": 131_072,
        "rope_theta": 1e6, "rms_norm_eps": 1e-6, "hidden_act": "silu", "torch_dtype": "bfloat16",
        "tie_word_embeddings": False, "bos_token_id": None, "eos_token_id": None,
    }  # fmt: skip
    (folder / "config.json").write_text(json.dumps(config), encoding="utf-8")
    return folder


def run(job: RunJob, out: Path) -> tuple[float, int]:
    """Return the seconds of a run into a folder, and its tokens."""
    times: list[float] = []
    tokens = 0
    inner = job.engine.generate

    def timed(requested: Iterator[Request | None]) -> Iterator[Answer]:
        nonlocal tokens

        def taken() -> Iterator[Request | None]:
            times.append(time.perf_counter())  # the engine is loaded
            yield from requested

        for answer in inner(taken()):
            tokens += (answer.prompt_tokens or 0) + (answer.answer_tokens or 0)
            yield answer
            times.append(time.perf_counter())  # the answer is in the journal

    out.mkdir()
    if missing := run_shard(
        replace(job, engine=replace(job.engine, generate=timed)), RunFolder(out), Shard()
    ):
        sys.exit(missing)
    return times[-1] - times[0], tokens


def bench(job: RunJob) -> tuple[float, int]:
    """Return the seconds that vLLM's own bench reports for the prompts of a run, and its tokens."""
    from vllm.benchmarks.datasets import SampleRequest
    from vllm.benchmarks.throughput import run_vllm
    from vllm.engine.arg_utils import EngineArgs

    asked = list(requests(job, job.data.shares()[0]))
    prompts = [
        SampleRequest({"prompt_token_ids": one.ids}, len(one.ids), one.max_tokens) for one in asked
    ]
    arguments = job.engine.generate.args[0]  # type: ignore[attr-defined]
    seconds, outputs = run_vllm(prompts, 1, EngineArgs(**arguments), do_profile=False)
    assert outputs
    counts = (len(one.prompt_token_ids or ()) + len(one.outputs[0].token_ids) for one in outputs)
    return seconds, sum(counts)


def cached(run: Path) -> str:
    """Return the share of a run's prompt tokens that the prefix cache held."""
    answers = RunFolder(run).answers().values()
    held = sum(one.cached_tokens or 0 for one in answers)
    return f"{held / sum(one.prompt_tokens or 0 for one in answers):.0%}"


if __name__ == "__main__":
    main()
