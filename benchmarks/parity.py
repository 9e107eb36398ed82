"""Scores beside upstream's own script on the same predictions: equal to the last printed digit?

    python benchmarks/parity.py --upstream CHECKOUT --data FOLDER RUN
    python benchmarks/parity.py --upstream CHECKOUT samples_niah_single_1_….jsonl …

Ours are those of `ruler-eval score`; theirs of `scripts/eval/evaluate.py`, unchanged, in a process
of its own. Predictions are a run with the folder that it was run on, or samples of
lm-evaluation-harness on rows of its own: those rows are then frozen first, as the lines have them.
Exit 1 if any score differs.
"""

import argparse
import csv
import json
import os
import subprocess
import sys
import tempfile
from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa
from measuring import table

from ruler_builders.pipeline.build_dir import write_rows
from ruler_data import TASKS, Row
from ruler_data.layouts import read_answers
from ruler_data.manifest import FILENAME, Manifest, TokenizerInfo
from ruler_data.names import config_file, parse_config
from ruler_data.version import DATA_VERSION, __version__
from ruler_eval.running.data import open_dataset
from ruler_eval.running.run_dir import RunFolder

#: What upstream's script imports beside pandas, in the little that it uses of it.
SHIMS = {
    "nltk/__init__.py": "class data:\n    find = staticmethod(lambda name: name)\n",
    "nemo/collections/asr/parts/utils/manifest_utils.py": (
        "import json\n\n\n"
        "def read_manifest(path):\n    with open(path, encoding='utf-8') as file:\n"
        "        return [json.loads(line) for line in file]\n\n\nwrite_manifest = None\n"
    ),
}


@dataclass(frozen=True)
class Said:
    """A prediction: to which row, and its golden answers."""

    config: str
    index: int
    text: str
    prompt: str
    outputs: tuple[str, ...]


def of_run(run: Path, data: Path) -> Iterator[Said]:
    """Yield the answers of a run."""
    frozen, answers = open_dataset(str(data)), RunFolder(run).answers()
    for config in frozen.rows:
        for row in frozen.read(config):
            answer = answers.get((config, row.index, 0))
            if answer and answer.text is not None:
                yield Said(config, row.index, answer.text, row.prompt, row.outputs)


def of_samples(path: Path) -> Iterator[Said]:
    """Yield the answers of a file of the harness."""
    for answer in read_answers(path):
        config = f"{answer.task}_{answer.length}"
        yield Said(config, answer.index, answer.text, answer.prompt, answer.outputs or ())


def freeze(said: Sequence[Said], folder: Path) -> Path:
    """Freeze the rows that predictions carry, so that they can be scored like any."""
    grouped = defaultdict(list)
    for one in sorted(said, key=lambda one: (one.config, one.index)):
        grouped[one.config].append(one)
    configs = {}
    for config, group in grouped.items():
        name, length = parse_config(config)
        rows = (Row(at, name, one.prompt, "", "", one.outputs, 128, length, ())
                for at, one in enumerate(group))  # fmt: skip
        configs[config] = write_rows(
            folder / config_file(config), rows, TASKS[name], length, len(group)
        )
    tokenizer = TokenizerInfo("theirs", None, None, {}, 0, 0, "none")
    manifest = Manifest(
        DATA_VERSION, __version__, 0, "ruler", tokenizer, (), configs, {}, pa.__version__,
    )  # fmt: skip
    (folder / FILENAME).write_text(manifest.to_json(), encoding="utf-8")
    return folder


def ours(place: Path, data: Path, scratch: Path, *options: str) -> dict[str, float]:
    """Return our scores by config, with the digits that upstream prints."""
    command = [sys.executable, "-m", "ruler_cli", "score", str(place), "--data", str(data),
               "--json", "--out", str(scratch / "results.json"), *options]  # fmt: skip
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    cells = json.loads(done.stdout)["cells"]
    return {f"{task}_{length}": round(cell["value"], 2)
            for task, row in cells.items() for length, cell in row.items()}  # fmt: skip


def theirs(said: Sequence[Said], checkout: Path, scratch: Path) -> dict[str, float]:
    """Return upstream's scores by config."""
    for name, text in SHIMS.items():
        (scratch / "shims" / name).parent.mkdir(parents=True, exist_ok=True)
        (scratch / "shims" / name).write_text(text, encoding="utf-8")
    for one in said:
        task, length = parse_config(one.config)
        path = scratch / "pred" / str(length) / f"{task}.jsonl"
        path.parent.mkdir(parents=True, exist_ok=True)
        with path.open("a", encoding="utf-8") as file:
            line = {"index": one.index, "input": one.prompt, "outputs": one.outputs,
                    "pred": one.text, "others": {"id": one.index}}  # fmt: skip
            file.write(json.dumps(line) + "\n")
    found = {}
    for folder in sorted((scratch / "pred").iterdir()):
        subprocess.run(
            [sys.executable, "evaluate.py", "--data_dir", str(folder), "--benchmark", "synthetic"],
            cwd=checkout / "scripts" / "eval", check=True, capture_output=True, text=True,
            env={**os.environ, "PYTHONPATH": str(scratch / "shims")},
        )  # fmt: skip
        (summary,) = folder.glob("summary*.csv")
        _, tasks, scores, *_ = csv.reader(summary.read_text(encoding="utf-8").splitlines())
        for task, score in zip(tasks[1:], scores[1:], strict=True):
            found[f"{task}_{folder.name}"] = float(score)
    return found


def main() -> None:
    """Score both ways and print both."""
    parser = argparse.ArgumentParser(description="Our scores beside upstream's own.")
    parser.add_argument("places", type=Path, nargs="+", help="a run, or files of samples")
    parser.add_argument("--upstream", type=Path, required=True, help="checkout of NVIDIA/RULER")
    parser.add_argument("--data", type=Path, help="folder that a run was run on")
    asked = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        scratch = Path(name)
        both = _both(asked.places, asked.data, asked.upstream.resolve(), scratch)
    rows = [(config, *found) for config, found in both.items()]
    print(*table(("config", "predictions", "ours", "upstream"), rows), sep="\n")
    differ = [config for config, (_, mine, other) in both.items() if mine != other]
    print(f"\n{sum(count for count, *_ in both.values()):,} predictions; "
          f"{', '.join(differ) or 'no score'} differs")  # fmt: skip
    sys.exit(bool(differ))


def _both(
    places: Sequence[Path], data: Path | None, checkout: Path, scratch: Path
) -> dict[str, tuple[int, float, float]]:
    (scratch / "data").mkdir()
    if data is not None:
        (run,) = places
        said = list(of_run(run, data))
        mine = ours(run, data, scratch, "--partial")
    else:
        said = [one for place in places for one in of_samples(place)]
        place = scratch / "theirs"
        place.mkdir()
        for path in places:
            (place / path.name).write_bytes(path.read_bytes())
        frozen = freeze(said, scratch / "data")
        mine = ours(place, frozen, scratch, "--model", "theirs", "--protocol", "completion")
    other = theirs(said, checkout, scratch)
    counts = Counter(one.config for one in said)
    return {config: (count, mine[config], other[config]) for config, count in counts.items()}


if __name__ == "__main__":
    main()
