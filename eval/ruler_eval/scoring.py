"""Official scores of answers, and what they rest on.

    scores = score("runs/x", "dist/llama3")
    print(scores)

    task             4K     8K
    vt            97.20  93.10
    qa_1          81.50  78.00
    mean of 2     89.35  85.55
    validity: 2,000 of 2,000 rows answered by org/model; 0 empty, 3 cut off, …

Statistics, exact scores and predictions of other tools are in `ruler_report`.
"""

import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, replace
from html import escape
from pathlib import Path
from statistics import fmean
from typing import TYPE_CHECKING, Any, NamedTuple

from ruler_data.dataset import Dataset as LoadedDataset
from ruler_data.dataset import Rows
from ruler_data.errors import RulerError, UsageError
from ruler_data.manifest import FILENAME
from ruler_data.names import is_repo, parse_config, quote, short_length
from ruler_data.reasoning import opens
from ruler_data.row import Row, question_digest
from ruler_data.untrusted.text import parse_json, read_lines
from ruler_eval.answers import Answer, Key, Tally, Validity
from ruler_eval.data import Dataset, open_dataset
from ruler_eval.metrics import CLEANED, score_row
from ruler_eval.prompts import PROTOCOLS
from ruler_eval.run_dir import RUN_FILE, RunFolder, RunInfo, read_info

if TYPE_CHECKING:
    import pandas as pd

#: A folder, a Hub repo, or what `ruler_data.load` or `open_dataset` returned.
Data = str | os.PathLike[str] | LoadedDataset | Rows | Dataset
#: A run or its folder, a .jsonl file of records, `{"vt_4096/0": text}`, or records.
Predictions = str | os.PathLike[str] | Mapping[str, str] | Iterable[Mapping[str, Any]]
#: Stands for the engine where predictions are not a run.
PREDICTIONS = "predictions"


@dataclass(frozen=True, repr=False)
class Scores:
    """Official scores; printed as a table of means in percent, tasks by lengths.

    Attributes:
        configs: by config, the score of each row in order, in [0, 1], the mean over its samples;
            None for a row without an answer, or without one of its samples.
        validity: what they rest on.
        notes: what was left out, e.g. a torn line.
    """

    configs: dict[str, tuple[float | None, ...]]
    validity: Validity
    notes: tuple[str, ...] = ()

    @property
    def unanswered(self) -> list[str]:
        """The rows without a score, e.g. `vt_4096/17`."""
        return [
            f"{config}/{index}"
            for config, scores in self.configs.items()
            for index, score in enumerate(scores)
            if score is None
        ]

    @property
    def exit_status(self) -> int:
        """As that of `validity`."""
        return self.validity.exit_status

    def to_records(self) -> list[dict[str, Any]]:
        """Return one record for each config, e.g. for `pandas.DataFrame`.

        `score` is the mean of the rows with an answer, in [0, 1]; None if there is none.
        """
        records = []
        for config, scores in self.configs.items():
            task, length = parse_config(config)
            known = [score for score in scores if score is not None]
            mean = fmean(known) if known else None
            of = {"config": config, "task": task, "length": length, "score": mean}
            records.append({**of, "rows": len(scores), "answered": len(known)})
        return records

    def to_record(self) -> dict[str, Any]:
        """Return the scores and their validity as JSON values."""
        return {"configs": self.to_records(), "validity": self.validity.to_record()}

    def table(self) -> "pd.DataFrame":
        """Return the means in percent, tasks by lengths, and the means of all tasks."""
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
        table = self.table().to_string(float_format="{:.2f}".format, na_rep="")
        return "\n".join([table, *self._lines])

    def _repr_html_(self) -> str:
        table = self.table().to_html(float_format="{:.2f}".format, na_rep="")
        return str(table) + "".join(f"<p>{escape(line)}</p>" for line in self._lines)

    @property
    def _lines(self) -> tuple[str, ...]:
        return self.validity.line, *self.validity.errors, *self.validity.warnings


def score(
    predictions: Predictions,
    data: Data | None = None,
    *,
    revision: str | None = None,
    protocol: str = "",
    partial: bool = False,
) -> Scores:
    """Return the official scores of answers, and what they rest on.

    Args:
        predictions: a run or its folder; a .jsonl file of records; texts by row,
            `{"vt_4096/0": "..."}`; or records with `id` (or `config` and `index`) and `text` (or
            `prediction`). Every row of a config that they touch counts.
        data: folder or Hub repo of the rows, or what `ruler_data.load` returned; by default the
            rows of the run.
        revision: commit or tag of the repo; by default that of the run.
        protocol: of predictions that are not a run.
        partial: score what is there if rows have no answer; the scores then say n of N.

    Raises:
        UsageError: something is not there, or an option is missing.
        RulerError: something is damaged or incomplete, or the answers are for other rows.
    """
    torn: list[str] = []
    if not isinstance(predictions, str | os.PathLike | Iterable):
        msg = f"predictions {predictions!r:.60}: give a run, a file, texts by row or records"
        raise UsageError(msg)
    place = Path(predictions) if isinstance(predictions, str | os.PathLike) else None
    is_run = place is not None and (place / RUN_FILE).is_file()
    if protocol and (is_run or protocol not in PROTOCOLS):
        known = f"predictions, and one of {', '.join(PROTOCOLS)}; a run has its own"
        msg = f"--protocol {quote(protocol)}: is for {known}"
        raise UsageError(msg)
    if place is not None and is_run:
        run = read_info(place)
        answers, rows = RunFolder(place).answers(torn), rows_of_run(place, run, data, revision)
    else:
        rows = open_rows(data, revision)
        records = _records(place) if place is not None else predictions
        answers = _read_records(records, rows)  # type: ignore[arg-type]
        rows = rows.choose({config for config, *_ in answers}).fetch()
        run = RunInfo(rows.info, "", None, protocol, PREDICTIONS)
    tally, configs = Tally(run.protocol, opened=opens(run.frame), refused=run.refused), {}
    for config in rows.rows:
        with closing(rows.read(config)) as read:
            pairs = (
                (row, [answers.get((config, row.index, n)) for n in range(run.samples)])
                for row in read
            )
            scored = score_rows(run, rows, config, pairs, tally)
            configs[config] = tuple(one.score for one in scored)
    scores = Scores(configs, tally.validity(partial=partial), tuple(torn))
    missing, every = scores.unanswered, sum(rows.rows.values())
    if missing and (not partial or len(missing) == every):
        more = f" and {len(missing) - 3:,} more" if len(missing) > 3 else ""
        msg = (
            f"{every - len(missing):,} of {every:,} rows have an answer; missing: "
            f"{', '.join(missing[:3])}{more}; generate them, or pass partial=True"
        )
        raise RulerError(msg)
    return scores


class ScoredRow(NamedTuple):
    """A row, its question digest, the records of its samples, and their official scores.

    `records` has one for each sample, None for a sample without one; `answers` the text that is
    scored and the record of each answered sample, `scores` its score in [0, 1].
    """

    row: Row
    question: str
    records: Sequence[Answer | None]
    answers: list[tuple[str, Answer]]
    scores: list[float]

    @property
    def score(self) -> float | None:
        """The mean over the samples; None if one of them is unanswered."""
        return fmean(self.scores) if len(self.scores) == len(self.records) else None


def score_rows(
    run: RunInfo,
    data: Dataset,
    config: str,
    pairs: Iterable[tuple[Row, Sequence[Answer | None]]],
    tally: Tally,
) -> Iterator[ScoredRow]:
    """Yield the scored rows of a config; this loop is behind every score and every report.

    Args:
        run: whose answers they are.
        data: that the config is of.
        config: e.g. `vt_4096`.
        pairs: each row with the records of its samples, None for a sample without one.
        tally: where the records are counted.

    Raises:
        RulerError: an answer is to another question than its row's.
    """
    task = data.manifest.table[parse_config(config)[0]]
    extra = None if run.engine == PREDICTIONS else int(run.sampling.get("extra_tokens", 0))
    for row, records in pairs:
        question = question_digest(row)
        if any(one and one.question_digest not in (None, question) for one in records):
            msg = f"{config}/{row.index}: the answer is to another question than the row's"
            raise RulerError(msg)
        budget = None if extra is None else row.max_new_tokens + extra
        texts = [tally.add(one, budget, cleaned=task.metric in CLEANED) for one in records]
        answers = [(t, one) for t, one in zip(texts, records, strict=True) if one and t is not None]
        scores = [score_row(row, task, text) for text, _ in answers]
        yield ScoredRow(row, question, records, answers, scores)


def rows_of_run(
    folder: Path, run: RunInfo, data: Data | None = None, revision: str | None = None
) -> Dataset:
    """Return the rows of a run, fetched; their digests must be those that it recorded.

    They are looked for in `data`; by default where the run read them.
    """
    # A repo without a revision may be the one whose index led the run to another repo.
    is_repo_name = isinstance(data, str) and not Path(data).is_dir() and is_repo(data)
    is_redirected = revision is None and run.data.repo and is_repo_name
    starts = reversed([*RunFolder(folder).starts()])
    folders = (str(start["data"]) for start in starts if "data" in start)
    here = next((path for path in folders if Path(path, FILENAME).is_file()), None)
    source = run.data.repo if is_redirected else data or run.data.repo or here
    commit = run.data.revision if source == run.data.repo else None
    dataset = open_rows(source, revision or commit)
    for config, digest in run.data.digests.items():
        info = dataset.manifest.configs.get(config)
        if info is None or info.digest != digest:
            there = info.digest if info else "no such config"
            difference = f"the run used rows {digest}, the data has {there}"
            raise RulerError(config, f"{difference}; give --data the dataset of the run")
    return replace(dataset, rows=run.data.rows).fetch()


def open_rows(data: Data | None, revision: str | None = None) -> Dataset:
    """Return the rows that `data` names, not fetched."""
    if data is None:
        msg = "--data is missing: give the folder or Hub repo of the rows"
        raise UsageError(msg)
    if isinstance(data, Dataset):
        return data
    if isinstance(data, Rows):
        return Dataset(data.source, {data.config: len(data)})
    if isinstance(data, LoadedDataset):
        return Dataset(data.source, {name: data.manifest.configs[name].rows for name in data})
    return open_dataset(str(data), revision)


def _records(path: Path) -> Iterator[Mapping[str, Any]]:
    """Yield the records of a .jsonl file."""
    if path.suffix != ".jsonl" or not path.is_file():
        what = "neither a run nor a .jsonl file"
        raise UsageError(quote(str(path)), f"{what}; `ruler_report.results` reads other formats")
    for number, line in enumerate(read_lines(path), 1):
        try:
            if line.strip():
                yield parse_json(line)
        except ValueError as error:
            where = f"{path.name} line {number}"
            raise RulerError(where, f"not JSON: {error}") from error


def _read_records(
    records: Mapping[str, str] | Iterable[Mapping[str, Any]], data: Dataset
) -> dict[Key, Answer]:
    """Return the answers of `{"vt_4096/0": text}`, or of records."""
    if isinstance(records, Mapping):
        records = ({"id": row, "text": text} for row, text in records.items())
    answers: dict[Key, Answer] = {}
    for number, record in enumerate(records, 1):
        where = f"record {number}"
        if not isinstance(record, Mapping):
            raise RulerError(where, "not an object")
        text = record.get("text", record.get("prediction"))
        row = str(record.get("id", f"{record.get('config')}/{record.get('index')}"))
        config, _, index = row.rpartition("/")
        if not (index.isdecimal() and int(index) < data.rows.get(config, 0)):
            form = "a row is `id`, e.g. vt_4096/17, or `config` and `index`"
            raise RulerError(where, f"{quote(row)} is not a row of {data.source}; {form}")
        if not isinstance(text, str):
            problem = f"{quote(row)} needs a `text` (or `prediction`), found {text!r:.40}"
            raise RulerError(where, problem)
        answer = Answer(config, int(index), text)
        if answers.setdefault(answer.key, answer) is not answer:
            raise RulerError(where, f"{quote(row)} already has a prediction")
    if not answers:
        msg = "no predictions: give a run, a file, texts by row or records"
        raise RulerError(msg)
    return answers
