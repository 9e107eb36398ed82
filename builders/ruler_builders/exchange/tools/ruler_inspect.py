"""RULER in Inspect: `inspect eval ruler_inspect.py --model ... -T configs=vt_4096,cwe_4096`.

`ruler.json` beside this file, written by `ruler-data export --for inspect`, names the data.
"""

import json
import re
from functools import partial
from pathlib import Path
from typing import Any

from inspect_ai import Task, task
from inspect_ai.dataset import MemoryDataset, Sample, hf_dataset
from inspect_ai.model import GenerateConfig
from inspect_ai.scorer import Score, Scorer, Target, grouped, mean, scorer
from inspect_ai.solver import Generate, Solver, TaskState, solver

RULER = json.loads(Path(__file__).with_name("ruler.json").read_text(encoding="utf-8"))


def sample(row: dict[str, Any], config: str) -> Sample:
    """Return a row; the prompt is sent as it is."""
    return Sample(
        input=row["context"] + row["question"] + row["answer_prefix"],
        target=list(row["outputs"]),
        id=f"{config}/{row['index']}",
        metadata={"config": config, "max_tokens": row["max_new_tokens"]},
    )


def samples(config: str) -> list[Sample]:
    """Return the rows of a config, from the Hub or from the folder of a build."""
    return list(
        hf_dataset(
            RULER["data"],
            name=config,
            split="test",
            revision=RULER["revision"],
            sample_fields=partial(sample, config=config),
        )
    )


@solver
def answer() -> Solver:
    """Generate greedily, as many tokens as the row allows."""

    async def solve(state: TaskState, generate: Generate) -> TaskState:
        return await generate(state, temperature=0.0, max_tokens=state.metadata["max_tokens"])

    return solve


@scorer(metrics=[grouped(mean(), "config")])
def ruler_score() -> Scorer:
    """Score the share of the gold answers named; for qa, any."""

    async def score(state: TaskState, target: Target) -> Score:
        text = re.sub(r"[\x00-\x1f]", "\n", state.output.completion.strip()).strip().lower()
        matches = [gold.lower() in text for gold in target]
        part = RULER["configs"][state.metadata["config"]]["metric"] == "part"
        return Score(value=float(any(matches)) if part else sum(matches) / len(matches))

    return score


@task
def ruler(configs: str | list[str] = "all") -> Task:
    """Return the task of some configs, comma-separated, or of all."""
    parts = configs.split(",") if isinstance(configs, str) else configs
    names = list(RULER["configs"]) if parts == ["all"] else parts
    return Task(
        dataset=MemoryDataset([one for name in names for one in samples(name)]),
        solver=answer(),
        scorer=ruler_score(),
        config=GenerateConfig(temperature=0.0),
    )
