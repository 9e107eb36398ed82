"""Put a run's results on the Hub: first what proves the scores, then the scores.

The predictions of a run as parquet files, one for each config; the rows are not in them.
"""

import io
import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from ruler_data.errors import RulerError
from ruler_data.hub import PushFile, ensure_repo, open_release, put_files
from ruler_data.names import check_repo, quote
from ruler_eval.predictions import Predictions, read_run
from ruler_report.publish.entries import entries, file_name, results_card, to_yaml
from ruler_report.results import FILENAME, ConfigResult, Results, read_results, to_json
from ruler_report.stats.summary import summarize

#: Where pages of the Hub are; a Hub elsewhere is named as the client is told.
HUB = "https://huggingface.co"


@dataclass(frozen=True)
class PushConfig:
    """What to publish where.

    Attributes:
        run: folder of a scored run.
        repo: dataset for its predictions.
        model_repo: model whose page shows the scores; empty for none.
        private: whether a new dataset is private.
    """

    run: Path
    repo: str
    model_repo: str
    private: bool


@dataclass(frozen=True)
class Bundle:
    """What is published.

    Attributes:
        files: of the dataset, by path.
        entries: text of the file in the model's repo; empty for none.
        entries_file: its path.
    """

    files: dict[str, bytes]
    entries: str
    entries_file: str


def compose(order: PushConfig) -> Bundle:
    """Return everything that is to be published; nothing is written yet.

    Raises:
        UsageError: a name is none, or there is no scored run.
        RulerError: the results are not of these answers, or no score for a model's page.
    """
    for name in filter(None, (order.repo, order.model_repo)):
        check_repo(name)
    results, answers = _load(order.run)
    summary = summarize(results)
    files = dict(prediction_files(results, answers))
    files[FILENAME] = to_json(results, summary.to_record()).encode()
    files["README.md"] = results_card(results, order.repo).encode()
    if not order.model_repo:
        return Bundle(files, "", "")
    source = f"{os.environ.get('HF_ENDPOINT', HUB)}/datasets/{order.repo}"
    configs = _published_configs(results)
    found = entries(results, summary, configs, source)
    return Bundle(files, to_yaml(found), file_name(str(results.run.data.repo)))


def push(order: PushConfig, bundle: Bundle) -> Iterator[str]:
    """Publish, and yield what was done; doing it again changes nothing.

    Raises:
        RulerError: the Hub refuses, or cannot be reached.
    """
    ensure_repo(order.repo, private=order.private)
    files = [PushFile.of_bytes(path, data) for path, data in bundle.files.items()]
    commit, sent = put_files(order.repo, files, "Predictions and scores on RULER")
    yield f"{order.repo}: {len(sent)} of {len(files)} files sent, commit {commit}"
    if bundle.entries:
        entry = PushFile.of_bytes(bundle.entries_file, bundle.entries.encode())
        commit, sent = put_files(order.model_repo, [entry], "Scores on RULER", kind="model")
        done = "sent" if sent else "there already"
        yield f"{order.model_repo}: {bundle.entries_file} {done}, commit {commit}"


def _load(folder: Path) -> tuple[Results, Predictions]:
    run, answers = read_run(folder)
    results = read_results(folder)
    if results.fingerprint != run.fingerprint:
        msg = f"{quote(str(folder))}: {FILENAME} is of another run; score this one again"
        raise RulerError(msg)
    answered = sum(config.scored for config in results.configs.values())
    if answered + sum(len(c.failed) for c in results.configs.values()) != len(answers.entries):
        msg = f"{quote(str(folder))}: answers came in after {FILENAME} was written; score it again"
        raise RulerError(msg)
    return results, answers


def _published_configs(results: Results) -> list[str]:
    """Return the configs of the dataset that was run, and check that they are those scored."""
    data = results.run.data
    if data.repo is None or data.revision is None:
        return list(results.configs)
    manifest = open_release(data.repo, data.revision).manifest
    for name, config in results.configs.items():
        found = manifest.configs.get(name)
        if found is None or (found.digest, found.rows) != (config.digest, config.rows):
            msg = f"{data.repo} at {data.revision}: {name} is not the rows that were scored, whole"
            raise RulerError(msg)
    return list(manifest.configs)


SCHEMA = pa.schema(
    [
        pa.field("config", pa.string(), nullable=False),
        pa.field("index", pa.int32(), nullable=False),
        pa.field("prediction", pa.string()),
        pa.field("finish", pa.string()),
        pa.field("answer_tokens", pa.int32()),
        pa.field("score", pa.float64()),
        pa.field("strict", pa.float64()),
        pa.field("failure", pa.string()),
    ]
)


def prediction_files(results: Results, answers: Predictions) -> Iterator[tuple[str, bytes]]:
    """Yield the path and the bytes of each config's predictions, a config in memory at a time."""
    for name, config in results.configs.items():
        table = pa.Table.from_pylist(_records(name, config, answers), schema=SCHEMA)
        buffer = io.BytesIO()
        pq.write_table(table, buffer, compression="zstd", write_page_index=True)
        yield f"predictions/{name}.parquet", buffer.getvalue()


def _records(name: str, config: ConfigResult, answers: Predictions) -> list[dict[str, object]]:
    failures = {index: kind for kind, rows in config.failures.items() for index in rows}
    return [
        {
            "config": name,
            "index": index,
            "prediction": _whole(answer.text) if answer else None,
            "finish": answer.finish if answer else None,
            "answer_tokens": config.tokens[index],
            "score": config.scores[index],
            "strict": config.strict[index],
            "failure": failures.get(index),
        }
        for index, answer in enumerate(answers.of(name, config.rows))
    ]


def _whole(text: str | None) -> str | None:
    """Return a text as UTF-8 can hold it: lone surrogates become question marks."""
    return None if text is None else text.encode("utf-8", "replace").decode("utf-8")
