"""Two real models on all 13 tasks, from download to report; needs no Hub.

    .ci/engines                                           # the environment, once
    .venv-engines/bin/python benchmarks/example.py        # 5 CPU hours; stop, resume at any time
    ... benchmarks/example.py --rows 1024:2,2048:1 --out /tmp/x     # the same with few rows
    ... benchmarks/example.py --study coder               # 4,096 to 32,768 tokens, for a GPU

The models come as GGUF files from the Python package index. `small`: SmolLM2-135M-Instruct and
Gemma 3 270M (base) in the protocol `base`, which compares them across their tokenizers, and SmolLM2
also in `completion` at 1,024 tokens. `coder`: Qwen2.5-Coder-Instruct of 0.5B and 1.5B parameters in
`completion`, on the same rows; a run of the 0.5B model is in results/. Folder OUT gets manifests,
answers, scores and the report; models and rows stay in dist/example. Cards show the scores of
`results`, as `--card` prints them.
`--repeat TASK,…` runs all rows of these tasks at the least length again, in the same batches, and
compares the answers.
"""

import argparse
import csv
import json
import os
import shutil
import subprocess
import sys
from collections.abc import Iterable
from pathlib import Path

from ruler_data.packages import Member, Wheel, read_member
from ruler_data.tasks import TASKS
from ruler_eval.running.config import parse_rows
from ruler_eval.scoring.loading import load_scores
from ruler_report.conclusion import conclude
from ruler_report.typesetting import format_number, join

WORK = Path("dist/example")
SMOLLM2, GEMMA = "SmolLM2-135M-Instruct-Q4_1", "gemma-3-270m-Q4_K_M"
CODER, LARGER = (f"Qwen2.5-Coder-{size}-Instruct-Q4_K_M" for size in ("0.5B", "1.5B"))
#: Runs by study, each a model and a protocol, and the rows at each length; the first two are
#: compared.
STUDIES = {
    "small": (
        ((SMOLLM2, "base"), (GEMMA, "base"), (SMOLLM2, "completion")),
        "1024:40,2048:25,4096:15",
    ),
    "coder": (
        ((CODER, "completion"), (LARGER, "completion")),
        "4096:100,8192:100,16384:60,32768:40",
    ),
}


def pieces(name: str) -> list[Member]:
    """Return the pieces of a model's GGUF file, in order, from example_models.csv.

    SmolLM2 and Qwen2.5-Coder are Apache-2.0, Gemma is under the Gemma Terms of Use.
    """
    with Path(__file__).with_name("example_models.csv").open(encoding="utf-8") as file:
        return [
            Member(
                Wheel(line["wheel"], line["version"], line["wheel_sha256"]),
                line["path"],
                int(line["size"]),
                line["sha256"],
            )
            for line in csv.DictReader(file)
            if line["model"] == name
        ]


def main() -> None:
    """Download, build, run, score and report, each as far as it is not done."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--study", choices=STUDIES, default="small")
    parser.add_argument("--rows", help="LENGTH:ROWS,…")
    parser.add_argument("--sources", help="folder with the source texts")
    parser.add_argument("--out", type=Path, default=Path("results"))
    parser.add_argument("--card", action="store_true", help="print the scores for cards instead")
    parser.add_argument("--repeat", metavar="TASK,…", help="compare with a second run instead")
    options = parser.parse_args()
    chosen, default = STUDIES[options.study]
    rows = parse_rows(options.rows or default)
    if not isinstance(rows, dict):
        parser.error("--rows: write LENGTH:ROWS,…")
    shortest = min(rows)
    # A third run is at the least length alone.
    runs = [
        (name, protocol, {shortest: rows[shortest]} if place == 2 else rows)
        for place, (name, protocol) in enumerate(chosen)
    ]
    folders = [options.out / folder(name, protocol) for name, protocol, _ in runs]
    if options.card:
        scored = [place for place in folders[:2] if (place / "results.json").exists()]
        if not scored:
            parser.error(f"--card: {options.out} has no results of the study {options.study}")
        print(card_table(scored), end="")
    elif options.repeat:
        repeat(runs, options.repeat.split(","), {shortest: rows[shortest]}, options.out)
    else:
        build([name for name, _ in chosen], rows, options.sources, options.out)
        for name, protocol, wanted in runs:
            run(name, protocol, wanted, options.out)
        ruler("eval", "report", *folders[:2], "--out", options.out / f"report-{options.study}")
        ruler("eval", "compare", *folders[:2])


def build(names: list[str], rows: dict[int, int], sources: str | None, out: Path) -> None:
    """Convert each model, build the rows of its tokenizer, and keep their manifest."""
    for name in dict.fromkeys(names):
        model = WORK / name
        data = WORK / f"data-{name}"
        if not (model / "complete").exists():
            convert(name, model)
        options = ["--lengths", ",".join(map(str, rows)), "--rows", max(rows.values())]
        if sources:
            options += ["--sources", sources]
        ruler("builders", "build", "--tokenizer", model, *options, "--out", data)
        kept = out / "data" / name
        kept.mkdir(parents=True, exist_ok=True)
        shutil.copy(data / "manifest.json", kept)


def convert(name: str, model: Path) -> None:
    """Save a model's GGUF file as safetensors in bfloat16, with its tokenizer."""
    import torch
    from transformers import AutoModelForCausalLM, AutoTokenizer, logging

    logging.set_verbosity_error()
    logging.disable_progress_bar()
    model.mkdir(parents=True, exist_ok=True)
    gguf = model / "model.gguf"
    with gguf.open("wb") as file:
        for member in pieces(name):
            file.write(read_member(member, allow_download=True))
    loaded = AutoModelForCausalLM.from_pretrained(model, gguf_file=gguf.name, dtype=torch.bfloat16)
    config = loaded.config.to_dict()
    config.pop("quantization_config", None)  # the weights are no longer quantized
    plain = type(loaded)(type(loaded.config).from_dict(config)).to(torch.bfloat16)
    plain.load_state_dict(loaded.state_dict())
    plain.generation_config = loaded.generation_config
    plain.save_pretrained(model)
    AutoTokenizer.from_pretrained(model, gguf_file=gguf.name).save_pretrained(model)
    gguf.unlink()
    (model / "complete").touch()


def run(
    name: str, protocol: str, rows: dict[int, int], out: Path, tasks: Iterable[str] = TASKS
) -> None:
    """Run a model on the rows of its tokenizer, and score it."""
    data, target = WORK / f"data-{name}", out / folder(name, protocol)
    wanted = ",".join(f"{length}:{count}" for length, count in rows.items())
    ruler(
        *("eval", "run", "--data", data, "--model", WORK / name, "--model-name", name),
        *("--engine", "python", "--option", "function=batched_generate:generate"),
        *("--option", "batch=8", "--option", f"model={WORK / name}"),
        *("--option", f"dtype={fast_dtype()}"),
        *("--protocol", protocol, "--rows", wanted),
        *("--tasks", ",".join(tasks), "--lengths", ",".join(map(str, rows)), "--out", target),
    )
    ruler("eval", "score", target, "--data", data)


def fast_dtype() -> str:
    """Return bfloat16, as on GPUs; float32 for a processor that does not compute in it."""
    import torch

    processor = torch.cpu._is_avx512_bf16_supported() or torch.cpu._is_amx_tile_supported()
    return "bfloat16" if torch.cuda.is_available() or processor else "float32"


def card_table(folders: list[Path]) -> str:
    """Return the scores of runs as the table that cards show (`cards/scores.md`)."""
    conclusions = [conclude([load_scores(folder)]) for folder in folders]
    first = conclusions[0]
    run = first.runs[0].run
    columns = [(conclusion, n) for conclusion in conclusions for n in conclusion.frame.lengths]
    heads = [f"{conclusion.runs[0].run.model}, {n:,}" for conclusion, n in columns]
    lines = [["task", *heads], ["---", *("--:" for _ in columns)]]
    for task in first.frame.tasks:
        means = [conclusion.value((task, n), 0) for conclusion, n in columns]
        lines.append([f"`{task}`", *(format_number(mean, 1) for mean in means)])
    lines.append(["mean", *(str(conclusion.estimate((None, n), 0)) for conclusion, n in columns)])
    rows = join([f"{first.frame.rows['vt', n]:,}" for n in first.frame.lengths])
    lengths = join([f"{n:,}" for n in first.frame.lengths])
    about = (
        f"Protocol `{run.protocol}`, the first {rows} rows of each task at {lengths} tokens "
        f"in each model's own tokenizer, data version {run.data.data_version}; `qa_2` is "
        "from a sample of HotpotQA. Scores in percent, the mean of all tasks with its 95 % "
        "interval.\n\n"
    )
    return about + _markdown(lines)


def _markdown(lines: list[list[str]]) -> str:
    """Return the lines of a table."""
    return "".join(f"| {' | '.join(line)} |\n" for line in lines)


def repeat(
    runs: list[tuple[str, str, dict[int, int]]],
    tasks: list[str],
    rows: dict[int, int],
    out: Path,
) -> None:
    """Run some tasks again in a new folder, and compare the answers with those in `out`."""
    for name, protocol, _ in runs:
        again = WORK / "again"
        shutil.rmtree(again, ignore_errors=True)
        run(name, protocol, rows, again, tasks)
        before, after = (answers(one / folder(name, protocol)) for one in (out, again))
        differing = [row for row, text in after.items() if before.get(row) != text]
        print(f"{name}, {protocol}: {len(after)} rows again, {len(differing)} answers differ")
        if differing:
            sys.exit(", ".join(f"{config}/{index}" for config, index in differing))


def answers(run: Path) -> dict[tuple[str, int], str]:
    """Return the text of each answer in the journals of a run."""
    lines = (line for path in run.glob("answers-*.jsonl") for line in path.open(encoding="utf-8"))
    records = map(json.loads, lines)
    return {(one["config"], one["index"]): one["text"] for one in records}


def folder(name: str, protocol: str) -> str:
    """Return the name of a run's folder.

    >>> folder(SMOLLM2, "base")
    'smollm2-135m-instruct-base'
    """
    return f"{name.lower().rpartition('-')[0]}-{protocol}"


def ruler(package: str, *arguments: object) -> None:
    """Run a command; end as it ends if it fails."""
    module = {"builders": "ruler_builders", "eval": "ruler_cli"}[package]
    line = [sys.executable, "-m", module, *map(str, arguments)]
    print("$", *line[3:], flush=True)
    path = os.pathsep.join(filter(None, ("docs/recipes", os.environ.get("PYTHONPATH"))))
    env = {**os.environ, "PYTHONPATH": path}
    if code := subprocess.run(line, env=env, check=False).returncode:
        sys.exit(code)


if __name__ == "__main__":
    main()
