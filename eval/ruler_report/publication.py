"""Publish a run: predictions and scores as a dataset.

The dataset has a parquet file of predictions for each config; the text of the rows is not in it.
"""

import io
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import yaml

from ruler_data.card_templates import template
from ruler_data.errors import RulerError
from ruler_data.hub.client import check_access
from ruler_data.hub.repo import PushFile, ensure_repo, put_files
from ruler_data.names import check_repo, config_name, quote
from ruler_eval.running.answers import Answer, Key
from ruler_eval.running.run_dir import RunFolder
from ruler_eval.scoring.loading import load_scores
from ruler_eval.scoring.scores import FILENAME, Scores, write_scores
from ruler_report import procedures, tables, words
from ruler_report.conclusion import conclude
from ruler_report.typesetting import Printable, markdown_text

#: Columns of a table of scores that stand beside each prediction.
BESIDE = ("finish", "answer_tokens", "official", "exact", "f1", "label")


def compose(run: Path, repo: str, data: str | None = None) -> tuple[dict[str, bytes], list[str]]:
    """Return the files to publish by path, and what a reader must know; nothing is written yet.

    A run with unanswered rows can be published: the card says so, and no report ranks it over them.

    Raises:
        RulerError: the scores are only claimed, of no model, or what `score` refuses.
    """
    check_repo(repo)
    scores = load_scores(run, data)
    reason = _why_not(scores)
    if reason:
        raise RulerError(quote(str(run)), reason)
    files = dict(prediction_files(scores, RunFolder(run).answers()))
    with TemporaryDirectory() as folder:
        path = Path(folder) / FILENAME
        write_scores(path, scores)
        files[FILENAME] = path.read_bytes()
    files["README.md"] = results_card(scores, repo).encode()
    unanswered = scores.validity.unanswered
    warnings = [f"{repo}: incomplete, {unanswered}"] if unanswered else []
    return files, warnings


def _why_not(scores: Scores) -> str:
    """Return why scores cannot be published; empty if they can."""
    if scores.claimed:
        return f"{scores.claimed}; give --data, the rows of the run"
    if scores.run.engine == "oracle":
        return "its answers are the gold answers, of no model"
    if not scores.answered:
        return "no row is answered"
    return "; ".join(scores.validity.refusals)


@dataclass(frozen=True, repr=False)
class Publication(Printable):
    """What was published, or would be; it prints as a line for each file or commit.

    `notes` say what a dry run could not check.
    """

    lines: tuple[str, ...]
    notes: tuple[str, ...] = ()

    @property
    def exit_status(self) -> int:
        """3: nothing wrong was found, but not all could be checked."""
        if self.notes:
            return 3
        return 0

    def display_parts(self) -> tuple[str, ...]:
        """Return the lines."""
        return self.lines

    def to_record(self) -> dict[str, Any]:
        """Return the lines as a plain value."""
        return {"lines": list(self.lines), "notes": list(self.notes)}


def plan(files: Mapping[str, bytes], repo: str) -> Iterator[str]:
    """Yield a line for each file that would be written; nothing is."""
    yield from (f"{repo}: {path}, {len(data):,} bytes" for path, data in files.items())


def push(files: Mapping[str, bytes], repo: str, *, private: bool = False) -> Iterator[str]:
    """Publish, and yield a line for the commit; publishing again changes nothing."""
    check_access()
    ensure_repo(repo, private=private)
    pushed = [PushFile.of_bytes(path, data) for path, data in files.items()]
    commit, sent = put_files(repo, pushed, "Predictions and scores on RULER")
    yield f"{repo}: {len(sent)} of {len(pushed)} files sent, commit {commit}"


def prediction_files(scores: Scores, answers: Mapping[Key, Answer]) -> Iterator[tuple[str, bytes]]:
    """Yield path and bytes of each config's predictions; there is a line for each sample of a row.

    Lone surrogates become question marks.
    """
    table = scores.table.set_column(0, "task", pc.cast(scores.table["task"], pa.string()))
    cells = table.group_by(["task", "length"], use_threads=False).aggregate([])
    for cell in cells.to_pylist():
        is_in_cell = pc.and_(
            pc.equal(table["task"], cell["task"]), pc.equal(table["length"], cell["length"])
        )
        lines = table.filter(is_in_cell)
        config = config_name(cell["task"], cell["length"])
        places = zip(lines["index"].to_pylist(), lines["sample"].to_pylist(), strict=True)
        texts = [_text(answers.get((config, *place))) for place in places]
        columns = {
            "index": lines["index"],
            "sample": lines["sample"],
            "prediction": pa.array(texts, pa.string()),
        }
        for name in BESIDE:
            column = lines[name]
            if pa.types.is_dictionary(column.type):
                column = pc.cast(column, pa.string())
            columns[name] = column
        buffer = io.BytesIO()
        pq.write_table(pa.table(columns), buffer, compression="zstd", write_page_index=True)
        yield f"predictions/{config}.parquet", buffer.getvalue()


def _text(answer: Answer | None) -> str | None:
    """Return the text of an answer as valid Unicode."""
    if answer is None or answer.text is None:
        return None
    return answer.text.encode("utf-8", "replace").decode()


def results_card(scores: Scores, repo: str) -> str:
    """Return the card of a run's predictions; `repo` is the dataset that holds them."""
    conclusion = conclude([scores])
    cells = scores.table.group_by(["task", "length"], use_threads=False).aggregate([])
    configs = [config_name(str(cell["task"]), cell["length"]) for cell in cells.to_pylist()]
    metadata = {
        "pretty_name": "RULER predictions",
        "tags": ["ruler", "long-context", "evaluation", "predictions"],
        "configs": [
            {
                "config_name": config,
                "data_files": [{"split": "test", "path": f"predictions/{config}.parquet"}],
            }
            for config in configs
        ],
    }
    shown = [tables.scores(conclusion), tables.by_task(conclusion, 0)]
    shown += [tables.effective_lengths(conclusion), tables.failures(conclusion, 0)]
    shown += procedures.beside_published(conclusion)
    return template("results.md.j2").render(
        front_matter=yaml.safe_dump(metadata, sort_keys=False, allow_unicode=False, width=100),
        model=markdown_text(scores.run.model),
        repo=repo,
        headline=markdown_text(words.headline(conclusion)),
        validity=markdown_text(scores.validity_line),
        notes=[markdown_text(note) for note in words.notes(conclusion)],
        tables=[table.markdown() for table in shown if table.rows],
        facts=tables.facts(scores).markdown(),
        config=configs[0],
    )
