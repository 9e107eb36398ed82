"""A run as a record of Every Eval Ever (https://github.com/evaleval/every_eval_ever).

The record follows version 0.3.0 of its `eval.schema.json`, read on 2026-11-25 at commit 9bce4136
(sha256 215f04c9a0d7a13f83c49ccd85f97018f39ad1e49af7a3a561841418e9ee08c9), which accepted the record
of a published run. It is made of the same derived results as every other output; means over tasks
are in it only if they are scores of RULER.
"""

import json
from datetime import datetime

from ruler_data.version import __version__
from ruler_report.format import render
from ruler_report.pages.report import notes_of
from ruler_report.results_file import Results
from ruler_report.summary import Summary, why_no_score

FILE = "every_eval_ever.json"


def record(results: Results, summary: Summary, at: str | None, source: str) -> str:
    """Return the record as JSON.

    Args:
        results: of the run.
        summary: of the results.
        at: when the run first started, in ISO 8601; None if it is not known.
        source: address of the dataset of predictions.
    """
    means = {} if why_no_score(results, summary) else {"mean": summary.overall}
    cells = {
        f"ruler/{name}_{length}": cell
        for name, by_length in [*means.items(), *summary.cells.items()]
        for length, cell in by_length.items()
        if cell.scored
    }
    text = render(
        "every_eval_ever.json.j2",
        run=results.run,
        validity=results.validity_line,
        notes="; ".join(notes_of(results)),
        cells=cells,
        begun=int(datetime.fromisoformat(at).timestamp()) if at else 0,
        source=source,
        owner=source.rpartition("/datasets/")[2].partition("/")[0],
        version=__version__,
    )
    return json.dumps(json.loads(text), indent=1) + "\n"
