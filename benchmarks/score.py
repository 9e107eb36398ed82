"""What scoring costs: seconds and peak memory of the command, and of upstream's metric beside it.

    python benchmarks/score.py --data FOLDER [--upstream CHECKOUT] [--before CHECKOUT]

Answers are made up for every row of a built folder, seven in ten of them right. The command scores
all of them, then a tenth of them, and a tenth with answers of 64 KB: memory that grows with rows
or answers would show in the ratios. Reading every row is the floor. Upstream's functions score the
same predictions in memory, without reading rows or telling failures apart. With another checkout of
this project, both score all rows in turns, all of them right and seven in ten; the digits of their
scores must be the same.
"""

import argparse
import json
import random
import runpy
import subprocess
import sys
import tempfile
from dataclasses import asdict, replace
from pathlib import Path
from statistics import median

from derive import journal_of
from measuring import about, cpu, facts, run, table

from ruler_data import TASKS, parse_config
from ruler_eval.running.answers import Answer
from ruler_eval.running.data import Dataset, open_dataset
from ruler_eval.running.run_dir import RUN_FILE, RunInfo
from ruler_eval.scoring.metrics import SCORERS, clean

Said = dict[str, list[tuple[str, list[str]]]]
#: What is scored: one in how many rows, answers padded to how many characters.
ANSWERS = (("all rows", 1, 0), ("a tenth", 10, 0), ("a tenth, answers of 64 KB", 10, 65_536))
#: Times that two checkouts score the same answers in turns.
PAIRS = 5
#: What one of them does: the CPU seconds of deriving scores, and a digest of them.
DERIVE = """
import hashlib, json, sys, time
from pathlib import Path
from ruler_eval.running.data import open_dataset
from ruler_eval.running.run_dir import RunFolder, read_info
from ruler_eval.scoring.scores import derive
data, folder = open_dataset(sys.argv[1]), RunFolder(Path(sys.argv[2]))
answers, info = folder.answers(), read_info(folder.path)
start = time.process_time()
scores = derive(info, answers, data)
spent = time.process_time() - start
columns = [scores.table[name].to_pylist() for name in ("official", "exact", "f1")]
print(spent, hashlib.sha256(json.dumps(columns).encode()).hexdigest())
"""


def make_run(
    folder: Path, data: Dataset, share: int, padding: int = 0, right_share: float = 0.7
) -> Path:
    """Write a run over one in `share` rows of every config, answers padded to some characters."""
    rows = {name: info.rows // share for name, info in data.manifest.configs.items()}
    run = RunInfo(replace(data, rows=rows).info, "org/model", None, "completion", "made up")
    folder.mkdir()
    (folder / RUN_FILE).write_text(json.dumps(asdict(run)), encoding="utf-8")
    with journal_of(folder, run).open("w", encoding="utf-8") as file:
        for config in rows:
            for row, _ in zip(data.read(config), range(rows[config]), strict=False):
                right = random.Random(f"{config}/{row.index}").random() < right_share
                is_any = TASKS[parse_config(config)[0]].metric == "part"
                text = (
                    ", ".join(row.outputs[: 1 if is_any else None]) if right else "It is not known."
                ).ljust(padding)
                answer = Answer(config, row.index, text, "stop", row.length, 9, 0.1)
                file.write(json.dumps(asdict(answer)) + "\n")
    return folder


def predictions(run: Path, data: Dataset) -> Said:
    """Return predictions beside golden answers, by config, as upstream's functions take them."""
    texts: dict[str, list[str]] = {}
    with next(run.glob("answers-*")).open(encoding="utf-8") as file:
        for line in file:
            record = json.loads(line)
            texts.setdefault(record["config"], []).append(clean(record["text"]))
    return {
        config: [
            (text, list(row.outputs)) for text, row in zip(said, data.read(config), strict=False)
        ]
        for config, said in texts.items()
    }


def ours(said: Said) -> None:
    """Score every prediction."""
    for config, pairs in said.items():
        scorer = SCORERS[TASKS[parse_config(config)[0]].metric]
        for text, outputs in pairs:
            scorer(text, outputs)


def upstreams(said: Said, checkout: Path) -> float:
    """Return the CPU seconds in which upstream's functions score every prediction."""
    functions = runpy.run_path(str(checkout / "scripts/eval/synthetic/constants.py"))

    def work() -> None:
        for config, pairs in said.items():
            texts, outputs = map(list, zip(*pairs, strict=True))
            functions[f"string_match_{TASKS[parse_config(config)[0]].metric}"](texts, outputs)

    return cpu(work)


def against(checkout: Path, run: Path, data: str) -> str:
    """Return the CPU seconds of two checkouts in turns, and their ratio."""
    pairs = []
    for _ in range(PAIRS):
        said = []
        for root in (checkout.resolve(), Path(__file__).resolve().parents[1]):
            path = ":".join(str(root / name) for name in ("", "builders", "eval"))
            command = ("env", f"PYTHONPATH={path}", sys.executable, "-c", DERIVE, data, str(run))
            said.append(subprocess.check_output(command, text=True).split())
        (before, digest), (now, same) = said
        if digest != same:
            sys.exit(f"{run}: the scores of the two checkouts differ")
        pairs.append((float(now) / float(before), float(before), float(now)))
    ratios, *seconds = zip(*pairs, strict=True)
    spans = [f"{min(numbers):.2f} to {max(numbers):.2f}" for numbers in (*seconds, ratios)]
    return (
        f"{spans[0]} CPU s before, {spans[1]} now; now / before, {PAIRS} pairs: "
        f"{median(ratios):.2f} ({spans[2]})"
    )


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--upstream", type=Path)
    parser.add_argument("--before", type=Path, help="another checkout, to score with in turns")
    given = parser.parse_args()
    data = open_dataset(str(given.data))
    score = (sys.executable, "-m", "ruler_cli", "score", "--json", "--data", str(given.data))
    said: Said = {}
    rows, costs, compared = [], [], dict[str, str]()
    with tempfile.TemporaryDirectory() as folder:
        for place, (what, share, padding) in enumerate(ANSWERS):
            made = make_run(Path(folder, str(place)), data, share, padding)
            cost = run([*score, str(made)])
            many = sum(info.rows // share for info in data.manifest.configs.values())
            rows.append((what, many, cost.wall, cost.cpu, many / cost.cpu, cost.peak / 1e6))
            costs.append(cost)
            said = said or predictions(made, data)  # of all rows
        for name, right in (("all right", 1.0), ("seven in ten right", 0.7)) * bool(given.before):
            made = make_run(Path(folder, name), data, 1, right_share=right)
            compared[f"derived, {name}"] = against(given.before, made, str(given.data))
    whole, tenth, long = costs
    arithmetic = cpu(lambda: ours(said))
    floor = cpu(lambda: [sum(1 for _ in data.read(config)) for config in data.manifest.configs])
    tokens = sum(info.length_mean * info.rows for info in data.manifest.configs.values())
    measured = {
        "memory": f"all rows / a tenth = {whole.peak / tenth.peak:.2f}; answers of 64 KB / short = "
        f"{long.peak / tenth.peak:.2f}",
        "reading every row and nothing else": f"{floor:.1f} CPU s; the command / that = "
        f"{whole.cpu / floor:.2f}",
        "the arithmetic of the scores alone": f"{arithmetic:.2f} CPU s, "
        f"{arithmetic / whole.cpu:.0%} of the command",
    }
    if given.upstream:
        spent = upstreams(said, given.upstream)
        measured["upstream's functions, scores alone"] = f"{spent:.2f} CPU s"
    content = f"{len(data.manifest.configs)} configs, {tokens / 1e6:,.0f} M tokens of prompts"
    print(*facts(about("numpy", "pyarrow") | {"data": content}), "", sep="\n")
    print(
        *table(("answers", "rows", "wall s", "CPU s", "rows / CPU s", "peak MB"), rows),
        "",
        sep="\n",
    )
    print(*facts(measured | compared), sep="\n")


if __name__ == "__main__":
    main()
