"""The results of a run: everything that reports and comparisons are made of, in one file.

`results.json` holds a score for each row and no text of the rows but a few shortened examples, so
it can be kept, sent and compared where data and predictions are not. docs/results.md describes
its fields; `results.schema.json` beside it is written from these classes.
"""

import json
import math
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from pydantic import TypeAdapter, ValidationError

from ruler_data.errors import RulerError, UsageError
from ruler_data.files import write_file
from ruler_data.names import quote
from ruler_data.version import __version__
from ruler_eval.schema import RunInfo

#: Version of the layout of the file.
FORMAT = 1
FILENAME = "results.json"
#: Cells that depth is counted in.
BINS = 10
Param = bool | int | float | str  # of a task


@dataclass(frozen=True)
class Depth:
    """Evidence by depth: the context cut into equal cells, from its beginning to its end.

    Attributes:
        pieces: pieces of evidence that begin in each cell.
        shown: how many of them the answers show.
        rows: rows that have any there.
    """

    pieces: tuple[int, ...]
    shown: tuple[int, ...]
    rows: tuple[int, ...]


@dataclass(frozen=True)
class ConfigResult:
    """One config; lists of rows are of indexes, all else has an entry for each row in order.

    Attributes:
        digest: content digest of the config's rows.
        family: of its task: niah, vt, cwe, fwe or qa.
        category: of its task, over which reports average.
        metric: `all` (share of the golden answers) or `part` (any of them).
        rows: rows asked, the first ones.
        scores: in [0, 1]; None where the row is unscored.
        strict: likewise, strictly.
        characters: length of the answer as it was said.
        tokens: likewise in tokens; None where the engine does not say.
        truncated: rows whose answer ended because it was too long.
        empty: rows that were answered with nothing.
        failed: rows that have an error instead of an answer.
        missing: rows that have neither.
        failures: kind of failure of each row that scores below 1, as lists of rows.
        depth: None where the task has no evidence.
        params: of its task; empty in results of versions that did not note them.
    """

    digest: str
    family: str
    category: str
    metric: str
    rows: int
    scores: tuple[float | None, ...]
    strict: tuple[float | None, ...]
    characters: tuple[int | None, ...]
    tokens: tuple[int | None, ...]
    truncated: tuple[int, ...]
    empty: tuple[int, ...]
    failed: tuple[int, ...]
    missing: tuple[int, ...]
    failures: dict[str, tuple[int, ...]]
    depth: Depth | None
    params: dict[str, Param] = field(default_factory=dict)

    @property
    def scored(self) -> int:
        """Number of rows with a score."""
        return self.rows - len(self.failed) - len(self.missing)


@dataclass(frozen=True)
class Example:
    """A row that lost points, shortened."""

    config: str
    index: int
    failure: str
    score: float
    question: str
    outputs: tuple[str, ...]
    said: str


@dataclass(frozen=True)
class Results:
    """What a run scored.

    Attributes:
        run: what decided on the answers.
        fingerprint: of the run.
        configs: by name.
        examples: of failures.
        notes: what a reader must know, e.g. that rows are missing.
        package_version: of the scorer.
    """

    run: RunInfo
    fingerprint: str
    configs: dict[str, ConfigResult]
    examples: tuple[Example, ...] = ()
    notes: tuple[str, ...] = ()
    package_version: str = __version__
    format: int = FORMAT

    @property
    def rows(self) -> int:
        """Number of rows asked."""
        return sum(config.rows for config in self.configs.values())

    @property
    def scored(self) -> int:
        """Number of rows scored."""
        return sum(config.scored for config in self.configs.values())


_RESULTS = TypeAdapter(Results)


def to_json(results: Results, summary: dict[str, Any]) -> str:
    """Return the file; `summary` is for readers without this package, and is not read back."""
    body = {"summary": summary, **asdict(results)}
    return json.dumps(body, ensure_ascii=True, allow_nan=False, separators=(",", ":")) + "\n"


def write_results(path: Path, results: Results, summary: dict[str, Any]) -> None:
    """Write the file; it is the old one or the new one, never half."""
    write_file(path, to_json(results, summary))


def read_results(path: Path) -> Results:
    """Read `results.json`, or the one in a folder.

    Raises:
        UsageError: there is none.
        RulerError: it is not one, or is of another format.
    """
    path = path / FILENAME if path.is_dir() else path
    if not path.is_file():
        msg = f"{quote(str(path))}: no results; make them with `ruler-eval score`"
        raise UsageError(msg)
    try:
        results = _RESULTS.validate_json(path.read_bytes(), extra="ignore")
    except ValidationError as error:
        first = error.errors()[0]
        place = ".".join(map(str, first["loc"])) or "the file"
        msg = f"{path}: no results: {place}: {first['msg']}; score the run again"
        raise RulerError(msg) from error
    if results.format != FORMAT:
        msg = f"{path}: format {results.format}, this version reads {FORMAT}; score the run again"
        raise RulerError(msg)
    for name, config in results.configs.items():
        if wrong := _wrong(config):
            msg = f"{path}: {name}: {wrong}; score the run again"
            raise RulerError(msg)
    if not results.scored:
        msg = f"{path}: no row has a score; score the run again"
        raise RulerError(msg)
    return results


def _wrong(config: ConfigResult) -> str | None:
    """Return what does not fit in a config's result; None where everything does."""
    for column in ("scores", "strict", "characters", "tokens"):
        found = len(getattr(config, column))
        if found != config.rows:
            return f"{config.rows} rows, {found} {column}"
    if not all(score is None or 0 <= score <= 1 for score in (*config.scores, *config.strict)):
        return "a score is not between 0 and 1"
    if config.scores.count(None) != len(config.failed) + len(config.missing):
        return "rows without a score are not those that failed or are missing"
    if not all(isinstance(value, str) or math.isfinite(value) for value in config.params.values()):
        return "a parameter is no finite number"
    if (depth := config.depth) and {*map(len, (depth.pieces, depth.shown, depth.rows))} != {BINS}:
        return f"depth has not {BINS} cells"
    return None


def schema() -> dict[str, Any]:
    """Return the JSON schema of the file."""
    return _RESULTS.json_schema()
