"""What scoring costs: seconds and peak memory of the command, and of upstream's metric beside it.

    python benchmarks/score.py --data FOLDER [--upstream CHECKOUT]

Answers are made up for every row of a built folder, seven in ten of them right. The command scores
all of them, then a tenth of them, and a tenth with answers of 64 KB: memory that grows with rows
or answers would show in the ratios. Reading every row is the floor. Upstream's functions score the
same predictions in memory, without reading rows or telling failures apart.
"""

import argparse
import importlib.util
import json
import os
import platform
import random
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass, replace
from importlib.metadata import version
from pathlib import Path

from ruler_data import TASKS, parse_config
from ruler_eval.data import Dataset, open_dataset
from ruler_eval.metrics import SCORERS, clean
from ruler_eval.schema import RUN_FILE, Prediction, RunInfo
from ruler_report.exact import STRICT

Said = dict[str, list[tuple[str, list[str]]]]


@dataclass(frozen=True)
class Cost:
    """Of one process: seconds of wall and CPU time, and peak memory in megabytes."""

    rows: int
    wall: float
    cpu: float
    peak: float


def make_run(folder: Path, data: Dataset, share: int, padding: int = 0) -> Path:
    """Write a run over one in `share` rows of every config, answers padded to some characters."""
    rows = {name: info.rows // share for name, info in data.manifest.configs.items()}
    run = RunInfo(replace(data, rows=rows).info, "org/model", None, "completion", "made up")
    folder.mkdir()
    (folder / RUN_FILE).write_text(json.dumps(asdict(run)), encoding="utf-8")
    with (folder / "answers-0-of-1.jsonl").open("w", encoding="utf-8") as file:
        for config in rows:
            for row, _ in zip(data.read(config), range(rows[config]), strict=False):
                right = random.Random(f"{config}/{row.index}").random() < 0.7
                text = (", ".join(row.outputs) if right else "It is not known.").ljust(padding)
                answer = Prediction(config, row.index, text, "stop", row.length, 9, 0.1)
                file.write(json.dumps(asdict(answer)) + "\n")
    return folder


def measure(run: Path, data: Path) -> Cost:
    """Score a run by the command and return what it cost."""
    command = [sys.executable, "-m", "ruler_eval", "score", str(run), "--data", str(data), "--json"]
    start = time.perf_counter()
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL)
    _, status, used = os.wait4(process.pid, 0)
    wall = time.perf_counter() - start
    if status:
        msg = f"{' '.join(command)}: exit status {os.waitstatus_to_exitcode(status)}"
        raise SystemExit(msg)
    rows = sum(json.loads((run / RUN_FILE).read_text())["data"]["rows"].values())
    return Cost(rows, wall, used.ru_utime + used.ru_stime, used.ru_maxrss / 1024)


def predictions(run: Path, data: Dataset) -> Said:
    """Return predictions beside golden answers, by config, as upstream's functions take them."""
    texts: dict[str, list[str]] = {}
    with (run / "answers-0-of-1.jsonl").open(encoding="utf-8") as file:
        for line in file:
            record = json.loads(line)
            texts.setdefault(record["config"], []).append(clean(record["text"]))
    return {
        config: [
            (text, list(row.outputs)) for text, row in zip(said, data.read(config), strict=False)
        ]
        for config, said in texts.items()
    }


def cpu(work: Callable[[], object]) -> float:
    """Return the CPU seconds of some work in this process."""
    start = time.process_time()
    work()
    return time.process_time() - start


def ours(said: Said) -> None:
    """Score every prediction, loosely and strictly."""
    for config, pairs in said.items():
        metric = TASKS[parse_config(config)[0]].metric
        for scorer in (SCORERS[metric], STRICT[metric]):
            for text, outputs in pairs:
                scorer(text, outputs)


def upstream(checkout: Path) -> Callable[[Said], None]:
    """Return what scores every prediction by upstream's functions."""
    path = checkout / "scripts/eval/synthetic/constants.py"
    spec = importlib.util.spec_from_file_location("upstream_constants", path)
    if spec is None or spec.loader is None:
        msg = f"{path}: not a checkout of NVIDIA/RULER"
        raise SystemExit(msg)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)

    def work(said: Said) -> None:
        for config, pairs in said.items():
            metric = getattr(module, f"string_match_{TASKS[parse_config(config)[0]].metric}")
            metric([text for text, _ in pairs], [outputs for _, outputs in pairs])

    return work


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--upstream", type=Path)
    asked = parser.parse_args()
    data = open_dataset(str(asked.data))
    with tempfile.TemporaryDirectory() as folder:
        runs = {
            "all rows": make_run(Path(folder, "all"), data, 1),
            "a tenth": make_run(Path(folder, "tenth"), data, 10),
            "a tenth, answers of 64 KB": make_run(Path(folder, "long"), data, 10, 65_536),
        }
        costs = {name: measure(run, asked.data) for name, run in runs.items()}
        said = predictions(runs["all rows"], data)
    text = page(data, costs, said, upstream(asked.upstream) if asked.upstream else None)
    print(text)


def page(
    data: Dataset, costs: dict[str, Cost], said: Said, theirs: Callable[[Said], None] | None
) -> str:
    """Return what was measured as Markdown."""
    megabytes = sum(info.length_mean * info.rows for info in data.manifest.configs.values()) / 1e6
    lines = [
        f"- machine: {platform.machine()}, {os.cpu_count()} cores; Python "
        f"{platform.python_version()}, numpy {version('numpy')}, pyarrow {version('pyarrow')}",
        f"- data: {len(data.manifest.configs)} configs, {megabytes:,.0f} M tokens of prompts",
        "",
        "| answers | rows | wall s | CPU s | rows / CPU s | peak MB |",
        "|---|---:|---:|---:|---:|---:|",
    ]
    lines += [
        f"| {name} | {cost.rows:,} | {cost.wall:.1f} | {cost.cpu:.1f} | "
        f"{cost.rows / cost.cpu:,.0f} | {cost.peak:.0f} |"
        for name, cost in costs.items()
    ]
    whole, tenth, long = costs.values()
    arithmetic = cpu(lambda: ours(said))
    floor = cpu(lambda: [sum(1 for _ in data.read(config)) for config in data.manifest.configs])
    lines += [
        "",
        f"- memory: all rows / a tenth = {whole.peak / tenth.peak:.2f}; answers of 64 KB / short = "
        f"{long.peak / tenth.peak:.2f}",
        f"- reading every row and nothing else: {floor:.1f} CPU s; the command / that = "
        f"{whole.cpu / floor:.2f}",
        f"- the arithmetic alone, scores and strict scores: {arithmetic:.2f} CPU s, "
        f"{arithmetic / whole.cpu:.0%} of the command",
    ]
    if theirs:
        cost = cpu(lambda: theirs(said))
        lines.append(f"- upstream's functions, scores alone: {cost:.2f} CPU s")
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    main()
