"""RULER's metric for lm-evaluation-harness: the share of the gold answers named; for qa, any."""

import json
import re
from pathlib import Path
from typing import Any

CONFIGS = json.loads(Path(__file__).with_name("ruler.json").read_text(encoding="utf-8"))["configs"]
#: Tasks whose metric is `part`.
PART = {name.rpartition("_")[0] for name, info in CONFIGS.items() if info["metric"] == "part"}


def process_results(doc: dict[str, Any], results: list[str]) -> dict[str, float]:
    """Score one answer as upstream does."""
    text = re.sub(r"[\x00-\x1f]", "\n", results[0].strip()).strip().lower()
    matches = [gold.lower() in text for gold in doc["outputs"]]
    return {"ruler": float(any(matches)) if doc["task"] in PART else sum(matches) / len(matches)}
