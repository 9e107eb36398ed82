"""`results.json`: what a person or a CI job wants to know of a table of scores.

    {"mean": {"official": 0.683, "exact": 0.551, "low": 0.669, "high": 0.698, "tasks": 13},
     "means": [{"task": "vt", "length": 4096, "official": 0.91, "exact": 0.9, "rows": 500, …}, …],
     "validity": "validity: 6,500 of 6,500 rows answered by …", "refusals": [], "warnings": [], …}

It is written and never read back; docs/results.schema.json describes it. The scores themselves are
`scores.parquet`.
"""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from statistics import fmean
from typing import Any

from ruler_data.version import __version__
from ruler_eval.scoring.scores import SCORER_VERSION, Scores
from ruler_eval.scoring.table import CellMeans, means

#: The file beside `scores.parquet`.
FILENAME = "results.json"
#: Identifies the schema; nothing is downloaded from it.
SCHEMA_ID = "urn:ruler-data:results:1"


@dataclass(frozen=True)
class Mean:
    """The mean over tasks and lengths, each of the same weight, in [0, 1].

    `low` and `high` are the ends of the 95 % interval of the score that the tasks lead with; None
    where there is none.
    """

    official: float
    exact: float
    tasks: int
    low: float | None = None
    high: float | None = None


@dataclass(frozen=True)
class Summary:
    """The content of `results.json`.

    Attributes:
        model: as the run records it; likewise `model_revision`, `protocol` and `engine`.
        data: what the run records of its rows: repo, revision, versions, suite, seed, edition and
            tokenizer.
        fingerprint: of the run.
        mean: None where a task or a length has no answer.
        means: of tasks and lengths, in the order of the rows.
        validity: what the scores rest on, in one line.
        refusals: why `ruler-eval score` exits with 1; none where it exits with 0.
        warnings: what is doubtful beside that.
        notes: e.g. that a torn line of a journal was ignored.
        claimed: why the scores were not made from answers and rows; empty where they were.
        package_version: of the package that scored; `scorer` rises where the same answers get other
            scores or labels.
    """

    model: str
    model_revision: str | None
    protocol: str
    engine: str
    data: Mapping[str, Any]
    fingerprint: str
    mean: Mean | None
    means: Sequence[CellMeans]
    validity: str
    refusals: Sequence[str]
    warnings: Sequence[str]
    notes: Sequence[str] = ()
    claimed: str = ""
    scorer: int = SCORER_VERSION
    package_version: str = __version__

    def to_record(self) -> dict[str, Any]:
        """Return it as JSON values."""
        return asdict(self)


#: What a summary has of the rows; their digests stand in `scores.parquet`.
OF_DATA = (
    "repo",
    "revision",
    "data_version",
    "suite",
    "seed",
    "sample",
    "edition",
    "tokenizer",
    "tokenizer_fingerprint",
)


def summary_of(scores: Scores, interval: tuple[float, float] | None = None) -> Summary:
    """Return the summary of scores; `interval` is that of the mean, in [0, 1]."""
    run = scores.run
    cells = means(scores.table)
    return Summary(
        model=run.model,
        model_revision=run.model_revision,
        protocol=run.protocol,
        engine=run.engine,
        data={name: getattr(run.data, name) for name in OF_DATA},
        fingerprint=scores.fingerprint,
        mean=mean_of(cells, interval),
        means=cells,
        validity=scores.validity_line,
        refusals=scores.validity.errors,
        warnings=scores.validity.warnings,
        notes=scores.notes,
        claimed=scores.claimed,
        scorer=scores.scorer,
    )


def mean_of(cells: Sequence[CellMeans], interval: tuple[float, float] | None = None) -> Mean | None:
    """Return the mean over tasks and lengths; None if one has no answer."""
    official = [cell.official for cell in cells if cell.official is not None]
    exact = [cell.exact for cell in cells if cell.exact is not None]
    if not cells or len(official) < len(cells):
        return None
    low, high = interval or (None, None)
    tasks = len({cell.task for cell in cells})
    return Mean(fmean(official), fmean(exact), tasks, low, high)


def schema() -> dict[str, Any]:
    """Return the JSON schema of the file."""
    from pydantic import TypeAdapter

    head = {"$schema": "https://json-schema.org/draft/2020-12/schema", "$id": SCHEMA_ID}
    return {**head, **TypeAdapter(Summary).json_schema(mode="serialization")}
