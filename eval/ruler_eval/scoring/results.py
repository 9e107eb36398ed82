"""The scores of a run, row by row: what every report and comparison reads.

    scores.table.questions, scores.table.official, scores.table.answered     # a line for each row

`results.json` is their file (`ruler_eval.scoring.results_file`).
"""

import hashlib
import sys
from collections.abc import Iterable
from dataclasses import asdict, dataclass, field, replace
from functools import cached_property, lru_cache
from html import escape
from itertools import accumulate
from typing import TYPE_CHECKING, Annotated, Any, Literal, get_args

import numpy as np
import numpy.typing as npt
from pydantic import AfterValidator

from ruler_data.manifest import Floor
from ruler_data.names import parse_config, short_length
from ruler_data.tasks import Task
from ruler_data.version import __version__
from ruler_eval.running.answers import Answer, Share
from ruler_eval.running.run_dir import RunInfo
from ruler_eval.scoring.columns import Column, Counts, Floats
from ruler_eval.scoring.results_validity import Validity

if TYPE_CHECKING:
    import pandas as pd


#: Version of the layout of the file.
FORMAT = 1

#: Rises on purpose, when the same answers and rows get other scores, labels or counts.
SCORER_VERSION = 4

FILENAME = "results.json"

#: Cells that depth is counted in.
BINS = 10

Param = bool | int | float | str  # of a task

#: A score of a row, by name.
ScoreName = Literal["official", "exact", "f1"]

Ints = npt.NDArray[np.int64]

Bools = npt.NDArray[np.bool_]


@dataclass(frozen=True, eq=False)
class RowTable:
    """A line for each row that a run was to answer, answered or not.

    Attributes:
        cells: where the lines of each task and length stand; within one they are in the order of
            the rows.
        index: of the row in its config.
        questions: digest of the question, 64 bits, equal wherever the same is asked. Scores that
            record none have digests of their own, of the config's questions and the index.
        answered: whether the row has a score.
        official: score in [0, 1]; NaN without an answer. `exact` and `f1` likewise, and NaN where
            a version did not record them.
        headline: the score that the task leads with.
        truncated: whether the answer reached its limit of tokens.
        empty: whether the answer is empty.
    """

    cells: dict[tuple[str, int], slice]
    index: Ints
    questions: npt.NDArray[np.uint64]
    answered: Bools
    official: Floats
    exact: Floats
    f1: Floats
    headline: Floats
    truncated: Bools
    empty: Bools


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
class Cost:
    """What answers cost, by their records.

    Attributes:
        rows: number of answers whose records say so.
        calls: of the model.
        tokens: read and generated, in all calls.
        seconds: from request to last token, summed; requests may have run at the same time.
    """

    rows: int = 0
    calls: int = 0
    tokens: int = 0
    seconds: float = 0.0


def cost_of(answers: Iterable[Answer]) -> Cost:
    """Return what answers cost; those whose records do not say it are left out."""
    rows = calls = tokens = 0
    seconds = 0.0
    for answer in answers:
        total = answer.total_tokens
        if total is None and None not in (answer.prompt_tokens, answer.answer_tokens):
            total = (answer.prompt_tokens or 0) + (answer.answer_tokens or 0)
        if total is not None and answer.seconds is not None:
            rows, calls, tokens = rows + 1, calls + (answer.calls or 1), tokens + total
            seconds = round(seconds + answer.seconds, 4)
    return Cost(rows, calls, tokens, seconds)


@dataclass(frozen=True)
class ConfigScores:
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
        cost: of the answers; None in results of versions that did not record it.
    """

    digest: str
    family: str
    category: str
    metric: str
    rows: int
    scores: Column
    characters: Counts
    tokens: Counts
    truncated: tuple[int, ...]
    empty: tuple[int, ...]
    failed: tuple[int, ...]
    missing: tuple[int, ...]
    failures: dict[str, tuple[int, ...]]
    depth: Depth | None
    params: dict[str, Param] = field(default_factory=dict)
    question_digest: str = ""
    same_questions_as: str | None = None
    exact: Column = field(default_factory=Column)
    f1: Column = field(default_factory=Column)
    headline: ScoreName = "official"
    samples: tuple[Share, ...] = ()
    floor: Floor | None = None
    questions: Annotated[str, AfterValidator(sys.intern)] = ""  # those of lengths are one text
    cost: Cost | None = None

    @property
    def headline_scores(self) -> Column:
        """The scores that reports lead with."""
        return self.scores_of(self.headline)

    def scores_of(self, name: ScoreName) -> Column:
        """Return a score of each row; None for unscored rows, and where the file lacks it."""
        scores: Column = getattr(self, "scores" if name == "official" else name)
        return scores if len(scores) else Column(np.full(self.rows, np.nan))

    @property
    def scored(self) -> int:
        """Number of rows with a score."""
        return self.rows - len(self.failed) - len(self.missing)

    @property
    def question_ids(self) -> npt.NDArray[np.uint64]:
        """The question digest of each row, as a number."""
        if self.questions:
            return _numbers(self.questions)
        return _digests_by_index(self.question_digest or self.digest, self.rows)

    @property
    def row_ids(self) -> list[str]:
        """The question digest of each row; none in results of versions without them."""
        return [self.questions[at : at + 16] for at in range(0, len(self.questions), 16)]


@lru_cache(maxsize=128)  # lengths of a task have the same
def _numbers(digests: str) -> npt.NDArray[np.uint64]:
    return np.frombuffer(bytes.fromhex(digests), dtype=">u8").astype(np.uint64)


@lru_cache(maxsize=128)  # of the configs of a suite: runs without digests have the same
def _digests_by_index(name: str, rows: int) -> npt.NDArray[np.uint64]:
    texts = (f"{name}/{index}".encode() for index in range(rows))
    digests = b"".join(hashlib.sha256(text).digest()[:8] for text in texts)
    return np.frombuffer(digests, dtype=">u8").astype(np.uint64)


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
class Scores:
    """The results of a run; they print as the table of scores.

    Attributes:
        run: the description of the run.
        fingerprint: of the run.
        configs: by name.
        examples: of failures.
        notes: for people, e.g. that a torn line was left out.
        predictions: name of the file or folder of the predictions; empty for a run.
        validity: what the scores rest on; None in results of versions without it.
        chat_template: that the rows contain (editions of upstream); empty for none.
        window: tokens that the model declares to reach, and those that it was trained on; None
            where not known.
        date: day of the run's last start, in UTC; empty where not recorded.
        noise: variance of a row's score from one repetition of the run to the next
            (`ruler-eval repeat`), in [0, 1]; 0 where none was made.
        files: bytes and sha256 of each file that the answers were read from, by name.
        claimed: why the scores could not be made again from answers and rows; empty where they
            were. What a file says of it is not read.
        name: that the user gives the run.
        attributes: of its model, numbers that the user gives (`--attr`), by name.
        package_version: version of this package that scored.
        scorer: `SCORER_VERSION` of the package that scored; 0 in results of versions without it.
    """

    run: RunInfo
    fingerprint: str
    configs: dict[str, ConfigScores]
    examples: tuple[Example, ...] = ()
    notes: tuple[str, ...] = ()
    predictions: str = ""
    validity: Validity | None = None
    chat_template: str = ""
    window: tuple[int | None, int | None] = (None, None)
    date: str = ""
    noise: Share = 0.0
    files: dict[str, tuple[int, str]] = field(default_factory=dict)
    claimed: str = ""
    name: str = ""
    attributes: dict[str, float] = field(default_factory=dict)
    package_version: str = __version__
    scorer: int = 0
    format: int = FORMAT

    @property
    def trained_length(self) -> float | None:
        """Tokens that the model was trained on: the attribute `train_length`, or as recorded."""
        return self.attributes.get("train_length", self.window[1])

    @cached_property
    def cells(self) -> dict[tuple[str, int], ConfigScores]:
        """The configs by task and length."""
        return {parse_config(name): config for name, config in self.configs.items()}

    @cached_property
    def table(self) -> RowTable:
        """The scores as columns."""
        configs = [*self.configs.values()]
        ends = [*accumulate(config.rows for config in configs)]
        places = [slice(end - config.rows, end) for end, config in zip(ends, configs, strict=True)]

        def scores(name: ScoreName) -> Floats:
            columns = [config.scores_of(name).array for config in configs]
            return np.concatenate([*columns, np.empty(0)])

        def marks(name: str) -> Bools:
            column = np.zeros(self.rows, dtype=np.bool_)
            for end, config in zip(ends, configs, strict=True):
                column[[end - config.rows + row for row in getattr(config, name)]] = True
            return column

        by_name = {name: scores(name) for name in get_args(ScoreName)}
        names = [config.headline for config in configs]
        columns = [by_name[name][place] for name, place in zip(names, places, strict=True)]
        is_official = {*names} == {"official"}  # as of all tasks but a few: no array of its own
        return RowTable(
            cells=dict(zip(self.cells, places, strict=True)),
            index=np.concatenate([np.arange(config.rows) for config in configs]),
            questions=np.concatenate([config.question_ids for config in configs]),
            answered=~(marks("failed") | marks("missing")),
            headline=by_name["official"] if is_official else np.concatenate(columns),
            truncated=marks("truncated"),
            empty=marks("empty"),
            **by_name,
        )

    @property
    def rows(self) -> int:
        """Number of rows of the run."""
        return sum(config.rows for config in self.configs.values())

    @property
    def scored(self) -> int:
        """Number of rows scored."""
        return sum(config.scored for config in self.configs.values())

    @property
    def validity_line(self) -> str:
        """What the scores rest on, in one line."""
        if self.claimed:
            return f"validity: claimed; {self.claimed}"
        if self.validity is None:
            return "validity: not recorded by the version that scored; score the run again"
        return self.validity.line

    @property
    def unanswered(self) -> list[str]:
        """The rows without a score, e.g. `vt_4096/17`."""
        return [
            f"{name}/{row}"
            for name, config in self.configs.items()
            for row in sorted((*config.failed, *config.missing))
        ]

    @property
    def shortfall(self) -> str:
        """How many rows lack an answer, and what to do."""
        missing = sum(len(config.missing) for config in self.configs.values())
        rows = self.unanswered
        more = f" and {len(rows) - 3:,} more" if len(rows) > 3 else ""
        return (
            f"{self.scored:,} of {self.rows:,} rows have an answer ({missing:,} missing, "
            f"{len(rows) - missing:,} failed): without one {', '.join(rows[:3])}{more}; resume the "
            "run, or score the answers that exist with --partial"
        )

    @property
    def exit_status(self) -> int:
        """1 if the answers cannot carry a score (`Validity.errors`)."""
        return self.validity.exit_status if self.validity else 0

    def accepting(self, *, partial: bool) -> "Scores":
        """Return the same; `partial` is whether the user accepts rows without an answer."""
        return replace(self, validity=self.validity and replace(self.validity, partial=partial))

    def claiming(self, why: str) -> "Scores":
        """Return the same as a claim, and why it is one."""
        return replace(self, claimed=why)

    def means(self) -> "pd.DataFrame":
        """Return the official means in percent, tasks by lengths, and the means of all tasks."""
        import pandas as pd

        frame = pd.DataFrame(self.to_records())
        tasks, lengths = frame["task"].unique(), sorted(frame["length"].unique())
        means = frame.pivot(index="task", columns="length", values="score").astype(float)
        means = 100 * means.reindex(index=tasks, columns=lengths)
        if len(tasks) > 1:
            means.loc[f"mean of {len(tasks)}"] = means.mean()
        means.columns = pd.Index([short_length(length) for length in lengths], name="task")
        return means.rename_axis(None)

    def __repr__(self) -> str:
        means = self.means().to_string(float_format="{:.2f}".format, na_rep="")
        return "\n".join([means, *self._lines])

    def _repr_html_(self) -> str:
        means = self.means().to_html(float_format="{:.2f}".format, na_rep="")
        return str(means) + "".join(f"<p>{escape(line)}</p>" for line in self._lines)

    @property
    def _lines(self) -> tuple[str, ...]:
        doubts = (*self.validity.errors, *self.validity.warnings) if self.validity else ()
        return self.validity_line, *doubts, *self.notes

    def to_record(self) -> dict[str, Any]:
        """Return the means and the validity as JSON values."""
        validity = self.validity.to_record() if self.validity else None
        return {"configs": self.to_records(), "validity": validity}

    def to_records(self) -> list[dict[str, Any]]:
        """Return one record for each config, e.g. for `pandas.DataFrame`.

        `score`, `exact` and `f1` are means of the scored rows, in [0, 1]; None without one.
        """
        records: list[dict[str, Any]] = []
        for name, config in self.configs.items():
            task, length = parse_config(name)
            means = {}
            for column, score in zip(("score", "exact", "f1"), get_args(ScoreName), strict=True):
                numbers = [number for number in config.scores_of(score) if number is not None]
                means[column] = sum(numbers) / len(numbers) if numbers else None
            record = {"config": name, "task": task, "length": length, **means}
            records.append({**record, "rows": config.rows, "answered": config.scored})
        return records


def refused(scores: Scores) -> list[str]:
    """Return why nobody may conclude from a run: it then has no rank, and a gate cannot tell.

    Rows without an answer are not among the reasons: they count as 0 and as 1.
    """
    return [*scores.validity.refusals] if scores.validity else []


def params_of(task: Task) -> dict[str, Param]:
    """Return the parameters of a task as plain JSON values, without its family."""
    return {
        name: ", ".join(value) if isinstance(value, tuple) else value
        for name, value in asdict(task.params).items()
        if name != "family" and value is not None
    }
