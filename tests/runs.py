"""Runs as an engine leaves them behind, written by hand from the rows of a real build."""

import json
import random
from collections.abc import Callable, Iterable
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

from ruler_data import Row
from ruler_data.names import config_file
from ruler_data.parquet import read_rows
from ruler_data.row import question_digest
from ruler_eval.running.answers import Answer
from ruler_eval.running.data import DataInfo, open_dataset
from ruler_eval.running.run_dir import RUN_FILE, RunInfo
from tests.commands import Done, one_line, succeeded
from tests.running.processes import evaluate

Say = Callable[[str, Row], str | None]


def golden(_config: str, row: Row) -> str:
    """Answer with every golden answer."""
    return " " + ", ".join(row.outputs)


def silent(_config: str, _row: Row) -> str:
    """Answer with nothing."""
    return ""


def patchy(rate: float, name: str = "") -> Say:
    """Answer right with a chance that falls with the length of the config; else something wrong."""

    def say(config: str, row: Row) -> str:
        length = int(config.rpartition("_")[2])
        rng = random.Random(f"{name}/{config}/{row.index}")
        kept = [output for output in row.outputs if rng.random() < rate * (4096 / length) ** 0.2]
        return " " + (", ".join(kept) or rng.choice(["", "I'm sorry, it is not mentioned.", "42"]))

    return say


def rows_of(data: Path, config: str) -> list[Row]:
    """Return a config's rows."""
    return list(read_rows(data / config_file(config)))


def run_info(data: Path, configs: Iterable[str], **changes: Any) -> RunInfo:  # noqa: ANN401 - any field of it
    """Return what a run over some configs says of itself."""
    return RunInfo(
        **{
            "data": open_dataset(str(data)).choose(configs=list(configs)).info,
            "model": "org/model-7b",
            "model_revision": "0" * 40,
            "protocol": "completion",
            "engine": "vllm",
            "engine_info": {"version": "1.0", "dtype": "bfloat16", "tensor_parallel": 1},
            "sampling": {"temperature": 0.0},
            **changes,
        }
    )


def make_run(
    folder: Path,
    data: Path,
    say: Say,
    configs: Iterable[str] | None = None,
    data_info: DataInfo | None = None,
    **changes: Any,  # noqa: ANN401 - any field of RunInfo
) -> Path:
    """Write a run of two shards; rows to which nothing (None) is said have no line.

    `data_info` is what the run says of its data, if not that it is the folder.
    """
    names = list(configs or open_dataset(str(data)).manifest.configs)
    run = run_info(data, names, **changes)
    run = replace(run, data=data_info or run.data)
    folder.mkdir(parents=True)
    (folder / RUN_FILE).write_text(json.dumps(asdict(run)), encoding="utf-8")
    lines: tuple[list[str], list[str]] = ([], [])
    for config in names:
        for row in rows_of(data, config):
            text = say(config, row)
            if text is not None:
                cut = len(text) > 200
                sent, said = (
                    row.length - row.max_new_tokens,
                    min(max(1, len(text.split())), row.max_new_tokens),
                )
                finish = "length" if cut else "stop"
                digest = question_digest(row)
                answer = Answer(
                    config, row.index, text, finish, sent, said, 0.01, question_digest=digest
                )
                lines[row.index % 2].append(json.dumps(asdict(answer)) + "\n")
    for shard, part in enumerate(lines):
        path = folder / f"answers-{shard}-of-2.made.{run.short_fingerprint}.jsonl"
        path.write_text("".join(part), encoding="utf-8")
    return folder


def scored_run(folder: Path, data: Path, say: Say, configs: Iterable[str] | None = None) -> Path:
    """Write a run, and score it."""
    run = make_run(folder, data, say, configs)
    succeeded(evaluate("score", run, "--data", data))
    return run


def reported(out: Path, *arguments: object) -> str:
    """Write a report without pictures; return it as Markdown."""
    succeeded(evaluate("report", *arguments, "--no-pictures", "--out", out))
    return (out / "report.md").read_text(encoding="utf-8")


def refused(done: Done, code: int = 1) -> str:
    """Return the one line in which a command says why it fails."""
    return one_line(done, code)
