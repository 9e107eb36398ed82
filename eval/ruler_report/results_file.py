"""The results of a run, `results.json`: the only input of reports and comparisons.

It holds a score for each row, and of the rows' text only a few shortened examples, so it can be
sent and compared without data and predictions. docs/results.md describes its fields;
docs/results.schema.json is generated from these classes.
"""

import json
import math
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from os import PathLike
from pathlib import Path
from typing import Any, Literal

from pydantic import TypeAdapter, ValidationError

from ruler_data.errors import RulerError, UsageError
from ruler_data.files import write_file
from ruler_data.manifest import Floor
from ruler_data.names import parse_config, quote, short_length
from ruler_data.version import __version__
from ruler_data.views import html_table
from ruler_eval.schema import RunInfo

#: Version of the layout of the file.
FORMAT = 1
FILENAME = "results.json"
#: Identifies the schema of the format; nothing is downloaded from it.
SCHEMA_ID = f"urn:ruler-data:results:{FORMAT}"
#: Cells that depth is counted in.
BINS = 10
Param = bool | int | float | str  # of a task
#: A score of a row, by name.
ScoreName = Literal["official", "exact", "f1"]


@dataclass(frozen=True)
class Depth:
    """Evidence by depth: the context is cut into equal cells, from its beginning to its end.

    Attributes:
        pieces: number of pieces of evidence that begin in each cell.
        shown: how many of them the answers show.
        rows: number of rows with evidence in each cell.
    """

    pieces: tuple[int, ...]
    shown: tuple[int, ...]
    rows: tuple[int, ...]


@dataclass(frozen=True)
class ConfigResult:
    """The results of one config.

    Attributes:
        digest: content digest of the rows.
        family: of the task: niah, vt, cwe, fwe, qa or graph.
        category: of the task; reports average over categories.
        metric: `all` (share of the gold answers) or `part` (any of them).
        rows: number of rows, the first ones of the config.
        scores: of each row in order, in [0, 1]; None for an unscored row.
        exact: exact score of each row, likewise; empty in results of versions without it.
        f1: F1 of the set that each answer names, likewise.
        headline: the score that means, intervals and comparisons are of.
        characters: length of each generated text; None for an unscored row.
        tokens: length of each generated text in tokens; None where the engine does not report it.
        truncated: indexes of rows whose answer reached the token limit.
        empty: indexes of rows whose answer is empty.
        failed: indexes of rows with an error instead of an answer.
        missing: indexes of rows with neither.
        failures: by kind of failure, the indexes of the rows that score below 1, or that name
            others beside all gold answers.
        depth: evidence by depth; None where the task has no evidence.
        params: parameters of the task; empty in results of versions that did not record them.
        question_digest: of what the rows ask: equal for all tokenizers and lengths that ask the
            same; empty if the data or the results are of a version that did not record it.
        same_questions_as: the task whose questions it has; None for its own.
        samples: with several samples of each row, the mean headline score of the first samples of
            all rows, of the second ones, and so on. All scores of a row are then means over its
            samples, `truncated` and `empty` name rows with such a sample, `failures` is of the
            first sample that fails, and lengths and depth are those of the first samples.
        floor: what answers score that ignore the question; None in results of older versions.
        questions: the question digest of each row, 16 hexadecimal digits, one after the other;
            empty in results of versions that did not record it.
    """

    digest: str
    family: str
    category: str
    metric: str
    rows: int
    scores: tuple[float | None, ...]
    characters: tuple[int | None, ...]
    tokens: tuple[int | None, ...]
    truncated: tuple[int, ...]
    empty: tuple[int, ...]
    failed: tuple[int, ...]
    missing: tuple[int, ...]
    failures: dict[str, tuple[int, ...]]
    depth: Depth | None
    params: dict[str, Param] = field(default_factory=dict)
    question_digest: str = ""
    same_questions_as: str | None = None
    exact: tuple[float | None, ...] = ()
    f1: tuple[float | None, ...] = ()
    headline: ScoreName = "official"
    samples: tuple[float, ...] = ()
    floor: Floor | None = None
    questions: str = ""

    @property
    def headline_scores(self) -> tuple[float | None, ...]:
        """The scores that reports lead with."""
        return self.scores_of(self.headline)

    def scores_of(self, name: ScoreName) -> tuple[float | None, ...]:
        """Return a score of each row; None for unscored rows, and where the file lacks it."""
        found: tuple[float | None, ...] = getattr(self, "scores" if name == "official" else name)
        return found or (None,) * self.rows

    @property
    def scored(self) -> int:
        """Number of rows with a score."""
        return self.rows - len(self.failed) - len(self.missing)

    @property
    def row_ids(self) -> list[str]:
        """The question digest of each row; none in results of versions without them."""
        return [self.questions[at : at + 16] for at in range(0, len(self.questions), 16)]

    def first(self, rows: int) -> "ConfigResult":
        """Return the first rows, with what statistics need of them."""
        if rows >= self.rows:
            return self
        scores = {name: getattr(self, name)[:rows] for name in ("scores", "exact", "f1")}
        failed, missing = ([i for i in of if i < rows] for of in (self.failed, self.missing))
        return replace(
            self, rows=rows, failed=tuple(failed), missing=tuple(missing), samples=(),
            questions=self.questions[: 16 * rows], **scores,
        )  # fmt: skip

    @property
    def is_complete(self) -> bool:
        """Whether every row has a score."""
        return not (self.failed or self.missing)


@dataclass(frozen=True)
class Example:
    """A row that scores below 1, its texts shortened; `said` is the answer."""

    config: str
    index: int
    failure: str
    score: float
    question: str
    outputs: tuple[str, ...]
    said: str


@dataclass(frozen=True, repr=False)
class Results:
    """The results of a run; they print as the table of scores.

    Attributes:
        run: the description of the run.
        fingerprint: of the run.
        configs: by name.
        examples: of failures.
        notes: for people, e.g. that a torn line was left out.
        predictions: name of the file or folder of the predictions; empty for a run.
        package_version: version of this package that scored.
    """

    run: RunInfo
    fingerprint: str
    configs: dict[str, ConfigResult]
    examples: tuple[Example, ...] = ()
    notes: tuple[str, ...] = ()
    predictions: str = ""
    package_version: str = __version__
    format: int = FORMAT

    @property
    def rows(self) -> int:
        """Number of rows of the run."""
        return sum(config.rows for config in self.configs.values())

    @property
    def scored(self) -> int:
        """Number of rows scored."""
        return sum(config.scored for config in self.configs.values())

    def __repr__(self) -> str:
        done = f"{self.scored:,} of {self.rows:,} rows scored"
        return f"<Results {self.run.model}, {self.run.protocol}: {done}>"

    def __str__(self) -> str:
        return repr(Scores.of(self))

    def _repr_html_(self) -> str:
        return Scores.of(self)._repr_html_()

    def to_records(self) -> list[dict[str, Any]]:
        """Return one record for each config, as `Scores.to_records`."""
        return Scores.of(self).to_records()


@dataclass(frozen=True, repr=False)
class Scores:
    """Official scores; printed as a table of means in percent, tasks by lengths.

    Attributes:
        configs: by config, the score of each row in order, in [0, 1], the mean over its samples;
            None for a row without an answer, or without one of its samples.
        exact: likewise, the exact score and the F1 of each row (`ruler_report.exact`).
        notes: what was left out of the predictions, e.g. a torn line.
    """

    configs: dict[str, tuple[float | None, ...]]
    exact: dict[str, tuple[tuple[float, float] | None, ...]]
    notes: tuple[str, ...] = ()

    @classmethod
    def of(cls, results: Results) -> "Scores":
        """Return the scores of results; exact scores are 0 where the file has none."""
        exact = {
            name: tuple(
                None if score is None else (exact or 0.0, f1 or 0.0)
                for score, exact, f1 in zip(
                    config.scores, config.scores_of("exact"), config.scores_of("f1"), strict=True
                )
            )
            for name, config in results.configs.items()
        }
        scores = {name: config.scores for name, config in results.configs.items()}
        return cls(scores, exact, results.notes)

    @property
    def unscored(self) -> list[str]:
        """The rows without a score, e.g. `vt_4096/17`."""
        return [
            f"{config}/{index}"
            for config, scores in self.configs.items()
            for index, score in enumerate(scores)
            if score is None
        ]

    def to_records(self) -> list[dict[str, Any]]:
        """Return one record for each config, e.g. for `pandas.DataFrame`.

        `score`, `exact` and `f1` are means of the scored rows, in [0, 1]; None if no row is scored.
        """
        records: list[dict[str, Any]] = []
        for config, scores in self.configs.items():
            task, length = parse_config(config)
            known = [score for score in scores if score is not None]
            exact, f1 = zip(*filter(None, self.exact[config]), strict=True) if known else ((), ())
            record = {"config": config, "task": task, "length": length}
            for name, column in {"score": known, "exact": exact, "f1": f1}.items():
                record[name] = sum(column) / len(known) if known else None
            records.append({**record, "rows": len(scores), "scored": len(known)})
        return records

    def __repr__(self) -> str:
        cells = self._cells()
        widths = [max(map(len, column)) for column in zip(*cells, strict=True)]
        lines = [
            "  ".join([name.ljust(widths[0]), *map(str.rjust, values, widths[1:])]).rstrip()
            for name, *values in cells
        ]
        return "\n".join([*lines, *self._coverage()])

    def _repr_html_(self) -> str:
        names, *lines = self._cells()
        return html_table(names, lines) + "".join(self._coverage())

    def _coverage(self) -> list[str]:
        """Return a line on how many rows are scored; none if all are."""
        rows, missing = sum(map(len, self.configs.values())), len(self.unscored)
        return [f"{rows - missing:,} of {rows:,} rows scored"] if missing else []

    def _cells(self) -> list[list[str]]:
        """Return the table: a head, a row for each task, and the mean over tasks."""
        records = self.to_records()
        means = {(record["task"], record["length"]): record["score"] for record in records}
        tasks = list(dict.fromkeys(record["task"] for record in records))
        lengths = sorted({record["length"] for record in records})

        def line(name: str, tasks: Sequence[str]) -> list[str]:
            columns = ([means.get((task, length)) for task in tasks] for length in lengths)
            return [name, *map(_percent, columns)]

        table = [["task", *map(short_length, lengths)], *(line(task, [task]) for task in tasks)]
        return [*table, line(f"mean of {len(tasks)} tasks", tasks)] if len(tasks) > 1 else table


def _percent(scores: list[float | None]) -> str:
    """Return the mean of scores in percent; nothing unless all are known."""
    known = [100 * score for score in scores if score is not None]
    return f"{sum(known) / len(known):.2f}" if len(known) == len(scores) else ""


_RESULTS = TypeAdapter(Results)


def to_json(results: Results, summary: dict[str, Any]) -> str:
    """Return the text of the file; `summary` is for other readers and is not read back."""
    body = {"summary": summary, **_RESULTS.dump_python(results, mode="json")}
    return json.dumps(body, ensure_ascii=True, allow_nan=False, separators=(",", ":")) + "\n"


def write_results(path: Path, results: Results, summary: dict[str, Any]) -> None:
    """Write the file atomically; `summary` as in `to_json`."""
    write_file(path, to_json(results, summary))


#: A run: its folder, the path of its `results.json`, or its results (also as `results` of it).
Run = str | Path | Results | Any


def read_results(run: Run) -> Results:
    """Return the results of a run, read from its file unless they are given.

    Raises:
        UsageError: the file does not exist.
        RulerError: its content is damaged, or of another format.
    """
    run = getattr(run, "results", run)
    if isinstance(run, Results):
        return run
    if not isinstance(run, str | PathLike):
        msg = f"{quote(str(run))}: a run is given as its folder, its {FILENAME} or its results"
        raise UsageError(msg)
    path = Path(run) / FILENAME if Path(run).is_dir() else Path(run)
    if not path.is_file():
        msg = f"{quote(str(path))}: does not exist; create it with `ruler-eval score`"
        raise UsageError(msg)
    try:
        results = _RESULTS.validate_json(path.read_bytes(), extra="ignore")
    except ValidationError as error:
        first = error.errors()[0]
        field = ".".join(map(str, first["loc"])) or "the file"
        msg = f"{path}: not a results file: {field}: {first['msg']}; score the run again"
        raise RulerError(msg) from error
    if problem := _problem(results):
        msg = f"{path}: {problem}; score the run again"
        raise RulerError(msg)
    return results


def _problem(results: Results) -> str | None:
    """Return why results cannot be used; None if they can."""
    if results.format != FORMAT:
        return f"format {results.format}, this version reads {FORMAT}"
    for name, config in results.configs.items():
        if problem := _inconsistency(config):
            return f"{name}: {problem}"
    return None if results.scored else "no row has a score"


def _inconsistency(config: ConfigResult) -> str | None:
    """Return what contradicts the rest of a config's results; None if nothing does."""
    if len(config.questions) not in (0, 16 * config.rows):
        return f"{config.rows} rows, {len(config.questions)} characters of questions"
    if not all(0 <= mean <= 1 for mean in config.samples):
        return "the mean of a sample is not between 0 and 1"
    for column in ("scores", "characters", "tokens", "exact", "f1"):
        count = len(getattr(config, column))
        if count != config.rows and (count or column not in ("exact", "f1")):
            return f"{config.rows} rows, {count} {column}"
    scores = (*config.scores, *config.exact, *config.f1)
    if not all(score is None or 0 <= score <= 1 for score in scores):
        return "a score is not between 0 and 1"
    if config.scored and None not in config.scores and None in config.headline_scores:
        return f"the headline is {config.headline}, and there are no such scores"
    if config.scores.count(None) != len(config.failed) + len(config.missing):
        return "the rows without a score are not the failed and missing ones"
    if not all(isinstance(value, str) or math.isfinite(value) for value in config.params.values()):
        return "a parameter is not a finite number"
    if (depth := config.depth) and {*map(len, (depth.pieces, depth.shown, depth.rows))} != {BINS}:
        return f"depth does not have {BINS} cells"
    return None


def schema(summary: type) -> dict[str, Any]:
    """Return the JSON schema of the file, given the class of its `summary`."""
    body, derived = _RESULTS.json_schema(), TypeAdapter(summary).json_schema(mode="serialization")
    definitions = {**body.pop("$defs"), **derived.pop("$defs")}
    properties = {**body.pop("properties"), "summary": derived}
    head = {"$schema": "https://json-schema.org/draft/2020-12/schema", "$id": SCHEMA_ID}
    return {**head, **body, "properties": properties, "$defs": definitions}
