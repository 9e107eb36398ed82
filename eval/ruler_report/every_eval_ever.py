"""A run as a record of Every Eval Ever (https://github.com/evaleval/every_eval_ever).

The record follows version 0.3.0 of its `eval.schema.json`, read on 2026-11-25 at commit 9bce4136
(sha256 215f04c9a0d7a13f83c49ccd85f97018f39ad1e49af7a3a561841418e9ee08c9), which accepted the record
of a published run. It is made of the same derived results as every other output.
"""

import json
from datetime import datetime
from typing import Any

from ruler_data.version import __version__
from ruler_report.results_file import Results
from ruler_report.stats.scores import Estimate
from ruler_report.stats.summary import Summary

SCHEMA_VERSION = "0.3.0"
FILE = "every_eval_ever.json"


def record(results: Results, summary: Summary, at: str | None, source: str) -> str:
    """Return the record as JSON.

    Args:
        results: of the run.
        summary: of the results.
        at: when the run last started, in ISO 8601; None if it is not known.
        source: address of the dataset of predictions.
    """
    run, data = results.run, results.run.data
    begun = str(int(datetime.fromisoformat(at).timestamp())) if at else "0"
    cells = {
        f"ruler/{task}_{length}": cell
        for task, by_length in summary.cells.items()
        for length, cell in by_length.items()
    }
    means = {f"ruler/mean_{length}": cell for length, cell in summary.overall.items()}
    engine = {"name": run.engine, "version": str(run.engine_info.get("version", "unknown"))}
    served = run.engine == "openai"
    body: dict[str, Any] = {
        "schema_version": SCHEMA_VERSION,
        "evaluation_id": f"ruler/{run.model}/{begun}",
        "evaluation_timestamp": begun,
        "retrieved_timestamp": begun,
        "source_metadata": {
            "source_name": "RULER predictions and scores",
            "source_type": "evaluation_run",
            "source_organization_name": source.rpartition("/datasets/")[2].partition("/")[0],
            "source_organization_url": source,
            "evaluator_relationship": "other",
        },
        "eval_library": {"name": "ruler-data", "version": __version__},
        "model_info": {
            "name": run.model,
            "id": run.model,
            "inference_engine": engine,
            "additional_details": {
                "deployment_type": "unknown" if served else "self_deployed",
                "model_availability": "unknown" if served else "open_weights",
                "revision": run.model_revision or "unknown",
            },
        },
        "evaluation_results": [
            _result(name, cell, results) for name, cell in {**means, **cells}.items()
        ],
    }
    body["evaluation_results"][0]["generation_config"] = {
        "additional_details": {
            "protocol": run.protocol,
            "edition": data.edition,
            "data_version": data.data_version,
            "lengths_counted_in": data.tokenizer,
            "validity": results.validity_line,
        }
    }
    return json.dumps(body, indent=1) + "\n"


def _result(name: str, cell: Estimate, results: Results) -> dict[str, Any]:
    data = results.run.data
    where: dict[str, Any] = {"dataset_name": "RULER", "source_type": "other"}
    if data.repo:
        where |= {"source_type": "hf_dataset", "hf_repo": data.repo, "hf_split": "test"}
        where["samples_number"] = cell.asked
    return {
        "evaluation_name": name,
        "source_data": where,
        "metric_config": {
            "evaluation_description": "mean score in percent of the rows that were answered",
            "lower_is_better": False,
            "score_type": "continuous",
            "min_score": 0,
            "max_score": 100,
        },
        "score_details": {
            "score": round(cell.value, 4),
            "details": {"rows_answered": str(cell.scored), "rows_asked": str(cell.asked)},
            "uncertainty": {
                "confidence_interval": {
                    "lower": round(cell.low, 4),
                    "upper": round(cell.high, 4),
                    "confidence_level": 0.95,
                    "method": "exact binomial at the effective number of rows",
                },
                "num_samples": cell.scored,
            },
        },
    }
