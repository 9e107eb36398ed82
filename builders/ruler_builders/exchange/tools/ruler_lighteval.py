"""RULER in lighteval: `lighteval accelerate ... ruler_vt_4096 --custom-tasks ruler_lighteval.py`.

`ruler.json` beside this file, written by `ruler-data export --for lighteval`, names the data.
"""

import json
import re
from pathlib import Path
from typing import Any

import numpy as np
from lighteval.metrics.metrics_sample import SampleLevelComputation
from lighteval.metrics.utils.metric_utils import SampleLevelMetric
from lighteval.tasks.lighteval_task import LightevalTaskConfig
from lighteval.tasks.requests import Doc, SamplingMethod

RULER = json.loads(Path(__file__).with_name("ruler.json").read_text(encoding="utf-8"))


class Ruler(SampleLevelComputation):  # type: ignore[misc]
    """The share of the gold answers named; for qa, any."""

    def compute(self, doc: Doc, model_response: Any, **_: object) -> float:  # noqa: ANN401
        """Score one answer as upstream does."""
        text = re.sub(r"[\x00-\x1f]", "\n", model_response.text[0].strip()).strip().lower()
        named = [gold.lower() in text for gold in doc.get_golds()]
        config = doc.task_name.partition("|")[0].rpartition(":")[2].removeprefix("ruler_")
        part = RULER["configs"][config]["metric"] == "part"
        return float(any(named)) if part else sum(named) / len(named)


def prompt(row: dict[str, Any], task_name: str) -> Doc:
    """Return a row; the prompt is sent as it is."""
    outputs = list(row["outputs"])
    return Doc(
        task_name=task_name,
        query=row["context"] + row["question"] + row["answer_prefix"],
        choices=outputs,
        gold_index=list(range(len(outputs))),
    )


METRIC = SampleLevelMetric(
    metric_name="ruler",
    higher_is_better=True,
    category=SamplingMethod.GENERATIVE,
    sample_level_fn=Ruler(),
    corpus_level_fn=np.mean,
)
TASKS_TABLE = [
    LightevalTaskConfig(
        name=f"ruler_{config}",
        prompt_function=prompt,
        hf_repo=RULER["data"],
        hf_subset=config,
        hf_revision=RULER["revision"],
        hf_avail_splits=["test"],
        evaluation_splits=["test"],
        generation_size=info["max_new_tokens"],
        stop_sequence=[],
        metrics=[METRIC],
    )
    for config, info in RULER["configs"].items()
]
