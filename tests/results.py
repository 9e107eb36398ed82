"""Scores made of nothing but numbers, for conclusions that need many rows and no files."""

import hashlib
import random
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from ruler_data import TASKS
from ruler_data.names import parse_config
from ruler_data.suites import packaged
from ruler_data.tasks import Niah, Task
from ruler_eval.running.data import DataInfo
from ruler_eval.running.run_dir import RunInfo
from ruler_eval.scoring.scores import FILENAME, Scores, write_scores
from ruler_eval.scoring.table import Line, to_table
from ruler_eval.scoring.validity import Validity

ConfigLists = Mapping[str, Sequence[float | None]]


def question_of(config: str, index: int) -> str:
    """Return the digest of a question; a task asks the same at every length."""
    task, _ = parse_config(config)
    return hashlib.sha256(f"{task}/{index}".encode()).hexdigest()[:16]


def task_named(name: str) -> Task:
    """Return a task of the package."""
    if name in TASKS:
        return TASKS[name]
    return next(suite.tasks[name] for suite in packaged().values() if name in suite.tasks)


def results_of(
    scores: ConfigLists,
    *,
    exact: ConfigLists | None = None,
    indexes: Sequence[int] | None = None,
    seed: str = "",
    **changes: Any,  # noqa: ANN401 - fields of RunInfo
) -> Scores:
    """Return the scores of a run; a wrong answer has a label, a needle is shown if it is right.

    `exact` are exact scores where they are not 1 for right answers; `indexes` are those of chosen
    rows; another `seed` asks other questions.
    """
    lines = []
    for config, column in scores.items():
        name, length = parse_config(config)
        for place, score in enumerate(column):
            index = indexes[place] if indexes else place
            asked = question_of(f"{seed}{config}", index)
            line = Line(name, length, index, 0, asked)
            if isinstance(task_named(name).params, Niah):
                line.depth = [(place % 10) / 10]
            if score is None:
                line.error = "not asked"
            else:
                exact_score = exact[config][place] if exact else float(score == 1)
                _fill(line, score, exact_score or 0.0)
            lines.append(line)
    tasks = {name: task_named(name) for name in dict.fromkeys(line.task for line in lines)}
    data = DataInfo(
        repo="org/ruler", revision="1" * 40, data_version="1.0.0", suite="ruler", seed=42,
        sample=False, tokenizer="llama3", tokenizer_fingerprint="f" * 64,
        digests=dict.fromkeys(scores, "sha256:" + "0" * 64),
        rows={config: len(column) for config, column in scores.items()}, inputs="0" * 64,
    )  # fmt: skip
    run = RunInfo(data, "org/model-7b", "0" * 40, "completion", "vllm",
                  {"version": "0.33.0", "dtype": "bfloat16"}, {"temperature": 0.0})  # fmt: skip
    run = replace(run, **changes)
    answered = sum(line.official is not None for line in lines)
    validity = Validity(rows=len(lines), answered=answered, models={run.model: answered})
    return Scores(
        run=run, fingerprint=run.fingerprint, validity=validity, tasks=tasks, table=to_table(lines)
    )


def _fill(line: Line, score: float, exact: float) -> None:
    """Write an answer into a line."""
    line.official = score
    line.exact = exact
    line.f1 = exact
    line.label = None if exact == 1 else "incomplete"
    line.finish = "stop"
    line.empty = False
    line.truncated = score < 1
    line.prompt_tokens = line.length
    line.answer_tokens = 7
    line.seconds = 0.5
    if line.depth is not None:
        line.shown = [score == 1]


def with_data(scores: Scores, **changes: Any) -> Scores:  # noqa: ANN401 - fields of DataInfo
    """Return scores of a run whose rows are described otherwise."""
    return replace(scores, run=replace(scores.run, data=replace(scores.run.data, **changes)))


def refused_by_score(scores: Scores) -> Scores:
    """Return scores that `score` refuses."""
    return replace(scores, validity=replace(scores.validity, suspect="suspect harness: noise"))


def save(folder: Path, scores: Scores) -> Path:
    """Write scores without their answers; a folder that holds no more is a claim."""
    folder.mkdir(parents=True, exist_ok=True)
    write_scores(folder / FILENAME, scores)
    return folder


def coin(name: str, chance: float, rows: int) -> list[float]:
    """Return scores of rows that are right with a chance, named as all chance here."""
    rng = random.Random(name)
    return [float(rng.random() < chance) for _ in range(rows)]
