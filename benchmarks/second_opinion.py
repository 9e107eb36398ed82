r"""The same model on the same rows, by `ruler-eval` and by lm-evaluation-harness: row by row.

    python benchmarks/second_opinion.py --data DIR --model DIR [--tasks vt,cwe] [--lengths 1024] \\
        [--rows 5] [--dtype bfloat16] --work DIR [--table FILE.md]

`ruler-data export --for lm-eval` writes the harness's tasks, its model `hf` answers them, and
`ruler-eval run --engine transformers --protocol base` answers the same rows. Python needs both
programs (`pip install -e '.[transformers]' lm-eval`). Both resume in the folder of `--work`.
"""

import argparse
import json
import subprocess
import sys
from importlib.metadata import version
from os.path import commonprefix
from pathlib import Path
from statistics import fmean

from measuring import table

import ruler_builders
import ruler_data
from ruler_data.tasks import config_place
from ruler_eval.scoring.metrics import SCORERS

Answers = dict[tuple[str, int], tuple[str, float]]


def harness(options: argparse.Namespace, names: list[str]) -> Answers:
    """Return what the harness generated and its score, for each config and row."""
    export, out = options.work / "export", options.work / "harness"
    if not export.is_dir():
        ruler_builders.export(options.data, tool="lm-eval", out=export, tasks=options.tasks,
                              lengths=options.lengths)  # fmt: skip
    missing = [name for name in names if not list(out.rglob(f"samples_ruler_{name}_*.jsonl"))]
    if missing:
        model = (
            f"pretrained={options.model},dtype={options.dtype},max_length=8192,add_bos_token=True"
        )
        command = [
            *(sys.executable, "-m", "lm_eval", "run", "--model", "hf", "--model_args", model),
            *("--tasks", ",".join(f"ruler_{name}" for name in missing), "--log_samples"),
            *("--include_path", str(export), "--output_path", str(out)),
            *("--limit", str(options.rows), "--batch_size", "1"),
        ]
        subprocess.run(command, check=True)
    found: Answers = {}
    for path in out.rglob("samples_ruler_*.jsonl"):
        for line in path.read_text(encoding="utf-8").splitlines():
            record = json.loads(line)
            name = f"{record['doc']['task']}_{path.name.rpartition('_')[0].rpartition('_')[2]}"
            found[name, record["doc"]["index"]] = record["resps"][0][0], record["ruler"]
    return found


def own(options: argparse.Namespace, names: list[str]) -> Answers:
    """Return the same by this project."""
    out = options.work / "own"
    tasks = ",".join(sorted({name.rpartition("_")[0] for name in names}))
    lengths = ",".join(sorted({name.rpartition("_")[2] for name in names}))
    command = [
        *(sys.executable, "-m", "ruler_cli", "run", "--data", str(options.data), "--model"),
        *(str(options.model), "--engine", "transformers", "--protocol", "base"),
        *("--option", f"dtype={options.dtype}", "--tasks", tasks, "--lengths", lengths),
        *("--rows", str(options.rows), "--out", str(out)),
    ]
    subprocess.run(command, check=True)
    dataset = ruler_data.load(options.data)
    rows = {name: list(ruler_data.load(options.data, name)) for name in names}
    found: Answers = {}
    for path in sorted(out.rglob("*.jsonl")):
        for line in path.read_text(encoding="utf-8").splitlines():
            record = json.loads(line)
            if "text" not in record:
                continue
            name, index = record["config"], record["index"]
            score = SCORERS[dataset.manifest.table[name.rpartition("_")[0]].metric]
            text, outputs = record["text"], rows[name][index].outputs
            found[name, index] = text, score(text, outputs)
    return found


def explained(one: str, other: str) -> str:
    """Return where two answers part, with what follows in each."""
    if not other:
        return (
            "the model's first token ends its answer, which the harness takes as empty; this "
            f"project asks for at least one token (min_tokens=1): `{ascii(one)[1:40]}`"
        )
    place = len(commonprefix([one, other]))  # noqa: RUF071 - of characters
    shown = [ascii(text[max(place - 12, 0) : place + 20])[1:-1] for text in (one, other)]
    return f"character {place}: `{shown[0]}` and `{shown[1]}`"


def page(mine: Answers, theirs: Answers, options: argparse.Namespace) -> str:
    """Return the comparison as Markdown."""
    versions = ", ".join(f"{name} {version(name)}" for name in ("lm-eval", "transformers", "torch"))
    rows, notes = [], []
    for name in sorted({name for name, _ in mine}, key=config_place):
        pairs = {key: (mine[key], theirs[key]) for key in sorted(mine) if key[0] == name}
        for (_, index), (one, other) in pairs.items():
            if one != other:
                scores = f"scores {one[1]:.2f} and {other[1]:.2f}"
                notes.append(f"- {name}/{index}: {explained(one[0], other[0])}; {scores}")
        equal = [sum(a[part] == b[part] for a, b in pairs.values()) for part in (0, 1)]
        means = [f"{fmean(pair[side][1] for pair in pairs.values()):.3f}" for side in (0, 1)]
        rows.append([name, len(pairs), *equal, *means])
    heads = ("config", "rows", "equal answers", "equal scores", "mean here", "mean in the harness")
    return f"""# A second opinion: lm-evaluation-harness on the same rows

Written by `benchmarks/second_opinion.py`: {options.model.name}, {options.dtype}, CPU, the first \
{options.rows} rows of each config of `{options.data.name}`, without a chat template (protocol \
`base`). {versions}. The harness runs its model `hf` on the tasks that `ruler-data export --for \
lm-eval` writes; this project runs its engine `transformers`. Equal answers are equal character by \
character.

""" + "\n".join(
        [*table(heads, rows), "", f"Rows that differ: {len(notes)} of {len(mine)}.", *notes, ""]
    )


def main() -> None:
    """Run both and write the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    for name in ("data", "model", "work"):
        parser.add_argument(f"--{name}", type=Path, required=True)
    parser.add_argument("--tasks", default="all")
    parser.add_argument("--lengths", default="1024")
    parser.add_argument("--rows", type=int, default=5)
    parser.add_argument("--dtype", default="bfloat16")
    parser.add_argument("--table", type=Path, help="file to write instead of printing")
    options = parser.parse_args()
    manifest = ruler_data.load(options.data).manifest
    tasks = None if options.tasks == "all" else options.tasks.split(",")
    names = list(manifest.select(tasks, [int(length) for length in options.lengths.split(",")]))
    text = page(own(options, names), harness(options, names), options)
    if options.table:
        options.table.write_text(text, encoding="utf-8")
    else:
        print(text)


if __name__ == "__main__":
    main()
