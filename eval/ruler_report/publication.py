"""Publish a run: predictions and results as a dataset, and as a record of Every Eval Ever.

The dataset has a parquet file of predictions for each config; the text of the rows is not in it.
The record of Every Eval Ever (https://github.com/evaleval/every_eval_ever) follows version 0.3.0 of
its `eval.schema.json`, read on 2026-11-25 at commit 9bce4136 (sha256
215f04c9a0d7a13f83c49ccd85f97018f39ad1e49af7a3a561841418e9ee08c9), which accepted the record of a
published run. Means over tasks are in it only if they are scores of RULER.
"""

import io
import json
import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import yaml

from ruler_data.errors import RulerError
from ruler_data.hub.client import check_access
from ruler_data.hub.repo import PushFile, ensure_repo, put_files
from ruler_data.names import check_repo, quote
from ruler_data.version import __version__
from ruler_data.views import template
from ruler_eval.running.answers import Answer, Key
from ruler_eval.running.run_dir import RunFolder
from ruler_eval.scoring.derive import load_scores
from ruler_eval.scoring.results import FILENAME, Scores
from ruler_eval.scoring.results_file import to_json
from ruler_report.contents import build
from ruler_report.runs import notes_of
from ruler_report.summary import Summary, summarize, why_no_score
from ruler_report.typesetting import Printable, markdown_text, render

RECORD = "every_eval_ever.json"


def record_of(results: Scores, summary: Summary, at: str | None, source: str) -> str:
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


#: The Hub, unless HF_ENDPOINT names another.
HUB = "https://huggingface.co"


#: Tables of the report that the card shows; those of published scores have their group's name.
CARD_TABLES = {"headline", "effective", "tasks", "failures"}


CARD_TABLES |= {"published-aligned-3", "published-base-12"}


def compose(run: Path, repo: str, data: str | None = None) -> dict[str, bytes]:
    """Return the files to publish by path; nothing is written yet.

    Raises:
        RulerError: the scores are only claimed, of no model, or what `score` refuses.
    """
    check_repo(repo)
    answers, results = RunFolder(run).answers(), load_scores(run, data)
    validity, is_scored = results.validity, (run / FILENAME).is_file()
    is_allowed = is_scored and validity is not None and validity.partial
    unanswered = [
        f"{name}/{row}"
        for name, config in results.configs.items()
        for row in sorted((*config.failed, *config.missing))
    ]
    for holds, why in (
        (results.claimed, f"{results.claimed}; give --data, the rows of the run"),
        (results.run.engine == "oracle", "its answers are the gold answers, of no model"),
        (
            unanswered and not is_allowed,
            f"{len(unanswered):,} of {results.rows:,} rows are unanswered, the first "
            f"{', '.join(unanswered[:3])}; resume the run, or accept it with `score --partial`",
        ),
        (validity and validity.errors, "; ".join(validity.errors if validity else ())),
    ):
        if holds:
            msg = f"{quote(str(run))}: {why}"
            raise RulerError(msg)
    summary = summarize(results)
    files = dict(prediction_files(results, answers))
    files[FILENAME] = to_json(results)
    files["README.md"] = results_card(results, repo).encode()
    source = f"{os.environ.get('HF_ENDPOINT', HUB)}/datasets/{repo}"
    first = next(RunFolder(run).starts(), {})  # results.json has its digest
    record = record_of(results, summary, first.get("at"), source)
    files[RECORD] = record.encode()
    return files


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
        return 3 if self.notes else 0

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


SCHEMA = pa.schema(
    [
        pa.field("config", pa.string(), nullable=False),
        pa.field("index", pa.int32(), nullable=False),
        pa.field("sample", pa.int32(), nullable=False),
        ("prediction", pa.string()),
        ("finish", pa.string()),
        ("answer_tokens", pa.int32()),
        *((name, pa.float64()) for name in ("score", "exact", "f1")),
        ("failure", pa.string()),
    ]
)


def prediction_files(results: Scores, answers: Mapping[Key, Answer]) -> Iterator[tuple[str, bytes]]:
    """Yield path and bytes of each config's predictions; only one config is in memory.

    There is a record for each sample of each row; scores are means over the samples of a row. Lone
    surrogates become question marks.
    """
    for name, config in results.configs.items():
        failures = {index: kind for kind, rows in config.failures.items() for index in rows}
        records = [
            {
                "config": name,
                "index": index,
                "sample": sample,
                "prediction": answer and answer.text and answer.text.encode("utf-8", "replace"),
                "finish": answer and answer.finish,
                "answer_tokens": config.tokens[index],
                "score": config.scores[index],
                "exact": config.scores_of("exact")[index],
                "f1": config.scores_of("f1")[index],
                "failure": failures.get(index),
            }
            for sample in range(results.run.samples)
            for index in range(config.rows)
            for answer in [answers.get((name, index, sample))]
        ]
        buffer = io.BytesIO()
        table = pa.Table.from_pylist(records, schema=SCHEMA)
        pq.write_table(table, buffer, compression="zstd", write_page_index=True)
        yield f"predictions/{name}.parquet", buffer.getvalue()


def results_card(results: Scores, repo: str) -> str:
    """Return the card of a run's predictions; `repo` is the dataset that holds them."""
    report = build([results], medium=None)
    (facts,) = (table for table in report.tables if table.name == "facts")
    files = [(name, f"predictions/{name}.parquet") for name in results.configs]
    metadata = {
        "pretty_name": "RULER predictions",
        "tags": ["ruler", "long-context", "evaluation", "predictions"],
        "configs": [
            {"config_name": name, "data_files": [{"split": "test", "path": path}]}
            for name, path in files
        ],
    }
    return template("results.md.j2").render(
        front_matter=yaml.safe_dump(metadata, sort_keys=False, allow_unicode=False, width=100),
        model=markdown_text(results.run.model),
        repo=repo,
        validity=markdown_text(results.validity_line),
        notes=[markdown_text(note) for note in report.notes],
        tables=[table.markdown() for table in report.tables if table.name in CARD_TABLES],
        facts=facts.markdown(),
        config=next(iter(results.configs)),
    )
