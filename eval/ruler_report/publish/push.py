"""Publish a run: its predictions and results as a dataset, then the scores on the model's page.

The dataset has a parquet file of predictions for each config; the text of the rows is not in it.
"""

import io
import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from ruler_data.errors import RulerError
from ruler_data.hub.download import open_release
from ruler_data.hub.repo import PushFile, ensure_repo, put_files
from ruler_data.names import check_repo, quote
from ruler_eval.predictions import Predictions, read_run
from ruler_report.publish.entries import entries, file_name, kind_of, results_card, to_yaml
from ruler_report.results import FILENAME, ConfigResult, Results, read_results, to_json
from ruler_report.stats.summary import summarize

#: The Hub, unless HF_ENDPOINT names another.
HUB = "https://huggingface.co"


@dataclass(frozen=True)
class PushConfig:
    """What to publish, and where.

    Attributes:
        run: folder of a scored run.
        repo: id of the dataset for its predictions.
        model_repo: id of the model whose page will show the scores; empty for none.
        private: whether to create the dataset as private.
    """

    run: Path
    repo: str
    model_repo: str
    private: bool


@dataclass(frozen=True)
class Bundle:
    """The files to publish.

    Attributes:
        files: of the dataset, by path.
        entries: text of the file for the model's repo; empty for none.
        entries_file: its path.
    """

    files: dict[str, bytes]
    entries: str
    entries_file: str


def compose(config: PushConfig) -> Bundle:
    """Return everything to publish; nothing is written yet.

    Raises:
        UsageError: a name is not a repo id, or there is no scored run.
        RulerError: the results do not match the answers, or are not a RULER score.
    """
    for name in filter(None, (config.repo, config.model_repo)):
        check_repo(name)
    results, answers = _load(config.run)
    summary = summarize(results)
    files = dict(prediction_files(results, answers))
    files[FILENAME] = to_json(results, summary.to_record()).encode()
    files["README.md"] = results_card(results, config.repo).encode()
    if not config.model_repo:
        return Bundle(files, "", "")
    source = f"{os.environ.get('HF_ENDPOINT', HUB)}/datasets/{config.repo}"
    text = to_yaml(entries(results, summary, _published_configs(results), source))
    return Bundle(files, text, file_name(str(results.run.data.repo), kind_of(results)))


def push(config: PushConfig, bundle: Bundle) -> Iterator[str]:
    """Publish, and yield a line for each commit; publishing again changes nothing.

    Raises:
        RulerError: the Hub refuses, or cannot be reached.
    """
    ensure_repo(config.repo, private=config.private)
    files = [PushFile.of_bytes(path, data) for path, data in bundle.files.items()]
    commit, sent = put_files(config.repo, files, "Predictions and scores on RULER")
    yield f"{config.repo}: {len(sent)} of {len(files)} files sent, commit {commit}"
    if bundle.entries:
        entry = PushFile.of_bytes(bundle.entries_file, bundle.entries.encode())
        commit, sent = put_files(config.model_repo, [entry], "Scores on RULER", kind="model")
        done = "sent" if sent else "unchanged"
        yield f"{config.model_repo}: {bundle.entries_file} {done}, commit {commit}"


def _load(folder: Path) -> tuple[Results, Predictions]:
    run, answers = read_run(folder)
    results = read_results(folder)
    if results.fingerprint != run.fingerprint:
        msg = f"{quote(str(folder))}: {FILENAME} is of another run; score this one again"
        raise RulerError(msg)
    answered = sum(config.scored + len(config.failed) for config in results.configs.values())
    if answered != len({key[:2] for key in answers.entries}):  # rows, of all samples
        msg = f"{quote(str(folder))}: answers were added after {FILENAME}; score it again"
        raise RulerError(msg)
    return results, answers


def _published_configs(results: Results) -> list[str]:
    """Return all configs of the dataset; an error unless the scored ones are in it, unchanged."""
    data = results.run.data
    if data.repo is None or data.revision is None:
        return list(results.configs)
    manifest = open_release(data.repo, data.revision).manifest
    for name, config in results.configs.items():
        info = manifest.configs.get(name)
        if info is None or (info.digest, info.rows) != (config.digest, config.rows):
            msg = f"{data.repo} at {data.revision}: {name} does not have exactly the scored rows"
            raise RulerError(msg)
    return list(manifest.configs)


SCHEMA = pa.schema(
    [
        pa.field("config", pa.string(), nullable=False),
        pa.field("index", pa.int32(), nullable=False),
        pa.field("sample", pa.int32(), nullable=False),
        pa.field("prediction", pa.string()),
        pa.field("finish", pa.string()),
        pa.field("answer_tokens", pa.int32()),
        pa.field("score", pa.float64()),
        pa.field("strict", pa.float64()),
        pa.field("exact", pa.float64()),
        pa.field("f1", pa.float64()),
        pa.field("failure", pa.string()),
    ]
)


def prediction_files(results: Results, answers: Predictions) -> Iterator[tuple[str, bytes]]:
    """Yield path and bytes of each config's predictions; only one config is in memory."""
    for name, config in results.configs.items():
        table = pa.Table.from_pylist(
            _records(name, config, answers, results.run.samples), schema=SCHEMA
        )
        buffer = io.BytesIO()
        pq.write_table(table, buffer, compression="zstd", write_page_index=True)
        yield f"predictions/{name}.parquet", buffer.getvalue()


def _records(
    name: str, config: ConfigResult, answers: Predictions, samples: int
) -> list[dict[str, object]]:
    """Return a record for each sample of each row; scores are means over the samples of a row."""
    failures = {index: kind for kind, rows in config.failures.items() for index in rows}
    return [
        {
            "config": name,
            "index": index,
            "sample": sample,
            "prediction": _valid_utf8(answer.text) if answer else None,
            "finish": answer.finish if answer else None,
            "answer_tokens": config.tokens[index],
            "score": config.scores[index],
            "strict": config.strict[index],
            "exact": config.scores_of("exact")[index],
            "f1": config.scores_of("f1")[index],
            "failure": failures.get(index),
        }
        for sample in range(samples)
        for index, answer in enumerate(answers.of(name, config.rows, sample))
    ]


def _valid_utf8(text: str | None) -> str | None:
    """Return a text with its lone surrogates replaced by question marks."""
    return None if text is None else text.encode("utf-8", "replace").decode("utf-8")
