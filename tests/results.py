"""Results made of nothing but scores, for figures that need many rows and no files."""

import hashlib
import random
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from ruler_data import TASKS
from ruler_eval.running.data import DataInfo
from ruler_eval.running.run_dir import RunInfo
from ruler_eval.scoring.columns import Column, Counts
from ruler_eval.scoring.results import ConfigScores, Depth, Scores

ConfigLists = Mapping[str, Sequence[float | None]]


def config_result(scores: Sequence[float | None], **changes: Any) -> ConfigScores:  # noqa: ANN401
    """Return a config with these scores, its failures and answers made to fit."""
    wrong = tuple(i for i, score in enumerate(scores) if score is not None and score < 1)
    one = ConfigScores(
        digest="sha256:" + "0" * 64,
        family="vt",
        category="multi-hop tracing",
        metric="all",
        rows=len(scores),
        scores=Column(scores),
        characters=Counts([None if score is None else 20 for score in scores]),
        tokens=Counts([None if score is None else 7 for score in scores]),
        truncated=wrong[:1],
        empty=wrong[1:2],
        failed=(),
        missing=tuple(i for i, score in enumerate(scores) if score is None),
        failures={"other": wrong} if wrong else {},
        depth=Depth(tuple(range(10, 20)), tuple(range(10)), (5,) * 10),
    )
    return replace(one, **changes)


def results_of(scores: ConfigLists, **changes: Any) -> Scores:  # noqa: ANN401 - fields of RunInfo
    """Return the results of a run with these scores."""
    configs = {
        name: config_result(column, **_kind(name), questions=questions_of(name, len(column)))
        for name, column in scores.items()
    }
    data = DataInfo(
        repo="org/ruler", revision="1" * 40, data_version="1.0.0", suite="ruler", seed=42,
        sample=False, tokenizer="llama3", tokenizer_fingerprint="f" * 64,
        digests={name: config.digest for name, config in configs.items()}, inputs="e" * 64,
        rows={name: config.rows for name, config in configs.items()},
    )  # fmt: skip
    run = RunInfo(data, "org/model-7b", "0" * 40, "completion", "vllm",
                  {"version": "0.33.0", "dtype": "bfloat16"}, {"temperature": 0.0})  # fmt: skip
    run = replace(run, **changes)
    return Scores(run, run.fingerprint, configs)


def questions_of(config: str, rows: int) -> str:
    """Return digests of a config's questions; a task asks the same at every length."""
    task = config.rpartition("_")[0]
    texts = (f"{task}/{index}".encode() for index in range(rows))
    return "".join(hashlib.sha256(text).hexdigest()[:16] for text in texts)


def _kind(config: str) -> dict[str, str]:
    """Return what a config's result says of its task; those of suites are named by family."""
    family = config.partition("_")[0]
    task = next(task for task in TASKS.values() if task.params.family == family)
    return {"family": family, "category": task.category, "metric": task.metric}


def coin(name: str, chance: float, rows: int) -> list[float]:
    """Return scores of rows that are right with a chance, named as all chance here."""
    rng = random.Random(name)
    return [float(rng.random() < chance) for _ in range(rows)]
