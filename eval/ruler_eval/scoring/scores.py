"""The scores of a run: one table, what it rests on, and their file.

    scores = load_scores("runs/x")          # `scoring.loading`
    scores.table                            # a line for each row and sample (`scoring.table`)
    scores.validity.line, scores.validity.refusals, scores.claimed

What is read from a file is a claim: only who has answers and rows can make the table again.
"""

from dataclasses import dataclass, field, fields
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from ruler_data.errors import RulerError
from ruler_data.files import read_bytes, replacing
from ruler_data.names import config_name, quote
from ruler_data.tasks import Task
from ruler_eval.running.run_dir import RunInfo, faults
from ruler_eval.scoring.table import NOT_ASKED, SCHEMA
from ruler_eval.scoring.validity import Validity

if TYPE_CHECKING:
    import pandas as pd
    from pydantic import TypeAdapter

#: Rises on purpose, when the same answers and rows get other scores, labels or counts.
SCORER_VERSION = 5
#: Version of the file.
FORMAT = 1
FILENAME = "scores.parquet"
#: Bytes of a file that are read; one of 39,000 rows has a million.
LARGEST = 1 << 26
#: The key of the description among the file's metadata.
ABOUT = b"ruler-data"
#: The texts that a table keeps once in memory; in the file they are plain strings.
_REPEATED = [field.name for field in SCHEMA if pa.types.is_dictionary(field.type)]


@dataclass(frozen=True, kw_only=True)
class About:
    """What a table of scores is of, and what it rests on: the metadata of its file.

    Attributes:
        run: its description, without secrets and paths.
        fingerprint: of the run.
        answers: sha256 of each file that the answers were read from, by name.
        predictions: name of the file or folder of the answers, where they are not of a run.
        tasks: by name.
        blind_floors: by config, the headline score of the best answer written without the context,
            in [0, 1], where it is known.
        question_digests: by config, of what all of its rows ask.
        chat_template: that the rows contain (editions of upstream); empty for none.
        window: tokens that the model declares to reach, and those that it was trained on; None
            where not known.
        date: day of the run's last start, in UTC; empty where not recorded.
        validity: counts of answers, and what is doubtful in them.
        notes: for people, e.g. that a torn line was left out.
        scorer: `SCORER_VERSION` of the package that scored.
    """

    run: RunInfo
    fingerprint: str
    validity: Validity
    tasks: dict[str, Task]
    answers: dict[str, str] = field(default_factory=dict)
    predictions: str = ""
    blind_floors: dict[str, float] = field(default_factory=dict)
    question_digests: dict[str, str] = field(default_factory=dict)
    chat_template: str = ""
    window: tuple[int | None, int | None] = (None, None)
    date: str = ""
    notes: tuple[str, ...] = ()
    scorer: int = SCORER_VERSION
    format: int = FORMAT


@dataclass(frozen=True, kw_only=True, eq=False)
class Scores(About):
    """The scores of a run.

    Attributes:
        table: with the columns of `scoring.table.SCHEMA`, in the order of configs and rows.
        path: folder of the run, or the file that the scores were read from; None for answers that
            are in no file.
        name: that the user gives the run.
        claimed: why the scores could not be made again from answers and rows; empty where they
            were.
    """

    table: pa.Table = field(repr=False)
    path: Path | None = None
    name: str = ""
    claimed: str = ""

    @property
    def validity_line(self) -> str:
        """What the scores rest on, in one line; of a claim nobody knows it."""
        if self.claimed:
            return f"validity: claimed; {self.claimed}"
        return self.validity.line

    @property
    def shortfall(self) -> str:
        """How many lines lack an answer, and what to do; empty if none does."""
        if not self.validity.unanswered:
            return ""
        lacking = self.table.filter(pc.is_null(self.table["official"]))
        asked = lacking.filter(pc.not_equal(lacking["error"], NOT_ASKED)).num_rows
        first = lacking.slice(0, 3).select(["task", "length", "index"]).to_pylist()
        names = [f"{config_name(row['task'], row['length'])}/{row['index']}" for row in first]
        if lacking.num_rows > len(names):
            names.append(f"and {lacking.num_rows - len(names):,} more")
        return (
            f"{self.answered:,} of {self.rows:,} rows have an answer "
            f"({lacking.num_rows - asked:,} missing, {asked:,} failed): without one "
            f"{', '.join(names)}; resume the run, or score the answers that exist with --partial"
        )

    @property
    def rows(self) -> int:
        """Number of lines."""
        return int(self.table.num_rows)

    @property
    def answered(self) -> int:
        """Number of lines with a score."""
        return self.rows - int(self.table["official"].null_count)

    def to_pandas(self) -> "pd.DataFrame":
        """Return the table as pandas has it."""
        return _plain(self.table).to_pandas()


@cache
def _about() -> "TypeAdapter[About]":
    from pydantic import TypeAdapter

    return TypeAdapter(About)


def write_scores(path: Path, scores: Scores) -> None:
    """Write scores as parquet, atomically; all but the table is the file's metadata."""
    about = _about().dump_json(_about_of(scores))
    table = _plain(scores.table)
    with (
        replacing(path, lambda: f"it needs {table.nbytes:,} bytes; ") as file,
        pq.ParquetWriter(
            file, table.schema, compression="zstd", write_page_checksum=True, store_schema=False
        ) as writer,
    ):
        writer.write_table(table)
        writer.add_key_value_metadata({ABOUT: about})


def _about_of(scores: Scores) -> About:
    return About(**{field.name: getattr(scores, field.name) for field in fields(About)})


def _plain(table: pa.Table) -> pa.Table:
    """Return a table with plain strings, as its file has them."""
    columns = []
    for column in SCHEMA:
        is_repeated = column.name in _REPEATED
        columns.append((column.name, pa.string() if is_repeated else column.type))
    return table.cast(pa.schema(columns))


def read_scores(path: Path) -> Scores:
    """Return the scores that a file holds, as a claim.

    Raises:
        RulerError: it is damaged, or of another format.
    """
    from pydantic import ValidationError

    try:
        body = pa.BufferReader(read_bytes(path, LARGEST))
        file = pq.ParquetFile(body, read_dictionary=_REPEATED, page_checksum_verification=True)
        table = file.read()
        about = _about().validate_json((table.schema.metadata or {})[ABOUT])
        table = table.replace_schema_metadata(None).cast(SCHEMA)
    except ValidationError as error:
        raise RulerError(path, f"not the scores of a run: {faults(error)}") from error
    except (pa.ArrowException, RulerError, OSError, KeyError, ValueError) as error:
        reason = " ".join(str(error).split())[:200]
        raise RulerError(path, f"not the scores of a run: {reason}; score it again") from error
    if about.format != FORMAT:
        reason = f"format {about.format}, this version reads {FORMAT}; score the run again"
        raise RulerError(path, reason)
    if problem := _problem(table, about):
        raise RulerError(path, f"not the scores of a run: {problem}")
    scores = {field.name: getattr(about, field.name) for field in fields(About)}
    return Scores(table=table, path=path, claimed=f"only {FILENAME} was read", **scores)


def _problem(table: pa.Table, about: About) -> str:
    """Return why a table cannot be read as scores; empty if it can."""
    for name in ("task", "length", "index", "sample", "question"):
        if table[name].null_count:
            return f"{name} is null"
    for name in ("official", "exact", "f1"):
        column = table[name]
        extremes = pc.min_max(column).as_py()
        lowest = extremes["min"] or 0.0
        highest = extremes["max"] or 0.0
        is_nan = pc.any(pc.is_nan(column)).as_py()
        if is_nan or lowest < 0 or highest > 1:
            return f"{name} is not in [0, 1]"
        if column.null_count != table["official"].null_count:
            return f"{name} is not there for each answer"
    strangers = {*table["task"].unique().to_pylist()} - {*about.tasks}
    return f"no such task: {quote(min(strangers))}" if strangers else ""
