"""Scores made from answers and rows, or found where they were made before.

    run.json, answers-*.jsonl, rows  ─►  Scores, kept in the user's cache
    scores.parquet alone             ─►  Scores that are claimed, and marked so everywhere

The table is derived from answers and rows. One that was derived on this machine before is read from
the user's cache, by the digests of answers and rows and the version of the scorer.
"""

import hashlib
import json
import os
import re
from collections.abc import Collection, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ruler_data.errors import RulerError, UsageError
from ruler_data.files import cache_dir, sha256_file
from ruler_data.floors import blind_floor
from ruler_data.layouts import files_of_answers
from ruler_data.manifest import FILENAME as MANIFEST
from ruler_data.names import parse_config, quote
from ruler_data.version import __version__
from ruler_eval.running.answers import Answer, Key
from ruler_eval.running.data import Dataset
from ruler_eval.running.prompts import PROTOCOLS
from ruler_eval.running.run_dir import (
    A_DATASET,
    ANSWER_FILES,
    RUN_FILE,
    STARTS,
    RunFolder,
    RunInfo,
    read_info,
    redact,
    why_no_run,
)
from ruler_eval.scoring.inputs import (
    Data,
    Predictions,
    open_rows,
    read_predictions,
    rows_of_run,
)
from ruler_eval.scoring.scores import (
    FILENAME,
    FORMAT,
    SCORER_VERSION,
    Scores,
    read_scores,
    write_scores,
)
from ruler_eval.scoring.table import PREDICTIONS, means
from ruler_eval.scoring.validity import another_model, never_exact, suspicion

if TYPE_CHECKING:
    import pandas as pd

#: A run or its folder, the path of its `scores.parquet`, or its scores.
Run = str | os.PathLike[str] | Scores


def load_scores(run: Run, data: Data | None = None, revision: str | None = None) -> Scores:
    """Return the scores of a run: derived where its answers and rows are, else claimed.

    Args:
        run: its folder, the path of its `scores.parquet`, or its scores.
        data: folder or Hub repo of the rows, if they are not where the run read them.
        revision: commit or tag of the repo; by default that of the run.

    Raises:
        UsageError: there is neither an answer nor a table of scores.
        RulerError: something is damaged, or rows and answers are not of one run.
    """
    if isinstance(run, Scores):
        return run
    if not isinstance(run, str | os.PathLike):
        raise UsageError(
            f"{quote(str(run))}: a run is given as its folder, its {FILENAME} or its scores"
        )
    place = Path(run)
    folder = place
    file = place / FILENAME
    if not place.is_dir():
        folder = place.parent
        file = place
    is_run = (folder / RUN_FILE).is_file() and file.name == FILENAME
    if is_run and any(folder.glob(ANSWER_FILES)):
        return _load_run(folder, file, data, revision)
    if not file.is_file():
        raise UsageError(quote(str(run)), _why_no_scores(place))
    claim = read_scores(file)
    if claim.predictions:
        return _load_predictions(folder, claim, data, revision)
    return replace(claim, claimed="its answers are not beside it")


def _why_no_scores(place: Path) -> str:
    """Return why there are no scores at a place, and what to give instead."""
    folder = place if place.is_dir() else place.parent
    if (folder / MANIFEST).exists():
        return A_DATASET
    if (folder / RUN_FILE).is_file():
        return f"has no {ANSWER_FILES}; no row was answered yet"
    return why_no_run(place)


def _load_run(folder: Path, file: Path, data: Data | None, revision: str | None) -> Scores:
    """Return the scores of a run; a claim where its rows cannot be read, and its table is there."""
    if data is not None:
        return score_run(folder, data, revision)
    if cached := _cached_run(folder):
        return cached
    try:
        data = rows_of_run(folder, read_info(folder)).fetch()
    except (RulerError, OSError) as error:
        if not file.is_file():
            raise
        claim = read_scores(file)
        return replace(claim, path=folder, claimed=f"its rows cannot be read: {error}")
    return score_run(folder, data)


def _load_predictions(
    folder: Path, claim: Scores, data: Data | None, revision: str | None
) -> Scores:
    """Return the scores of predictions that are no run, where they and their rows are known."""
    places = [path for path in (folder, *folder.iterdir()) if _name(path) == claim.predictions]
    if places and data is not None:
        rows = open_rows(data, revision)
        return score_predictions(places[0], rows, claim.run.model, claim.run.protocol)
    if places:
        cached = _cached(_key(claim.run, _digests(files_of_answers(places[0]))))
        if cached is not None:
            return replace(cached, path=folder)
    return replace(claim, claimed="its predictions or its rows are not known here; give --data")


def score_run(
    folder: Path,
    data: Data | None = None,
    revision: str | None = None,
    tasks: Collection[str] = (),
) -> Scores:
    """Return the scores of a run from its answers and rows, or as they were derived before.

    Of some tasks alone they are always derived anew.

    Raises:
        RulerError: its rows are not there, or are others; or its answers are damaged.
    """
    info = read_info(folder)
    cached = None if tasks else _cached_run(folder)
    if cached and data is None:
        return cached
    rows = rows_of_run(folder, info, data, revision)  # refuses other rows, also where cached
    if cached:
        return cached
    chosen = rows.choose(tasks=tasks)
    if tasks:
        info = replace(info, data=chosen.info)
    key = _key_of_run(folder)  # of the files before they are read: a run may be under way
    answers = _digests(_answer_files(folder))
    notes = list[str]()
    run = RunFolder(folder)
    scores = derive(info, run.answers(notes), chosen, notes=notes, starts=[*run.starts()])
    scores = replace(scores, answers=answers, path=folder)
    if not tasks:
        _keep(key, scores)
    return scores


def keep(folder: Path, scores: Scores) -> None:
    """Keep the scores of a run in the user's cache, as if they had been derived here."""
    _keep(_key_of_run(folder), scores)


def _answer_files(folder: Path) -> list[Path]:
    """Return the journals of a run."""
    paths = sorted(folder.glob(ANSWER_FILES))
    if not paths:
        raise UsageError(quote(str(folder)), _why_no_scores(folder))
    return paths


def _key_of_run(folder: Path) -> str:
    """Return what the scores of a run are kept by."""
    described = [path for path in (folder / RUN_FILE, folder / STARTS) if path.exists()]
    return _key(read_info(folder), _digests([*described, *_answer_files(folder)]))


def _cached_run(folder: Path) -> Scores | None:
    """Return the scores of a run that were derived here before; None if there are none."""
    cached = _cached(_key_of_run(folder))
    return cached and replace(cached, path=folder)


def score_predictions(
    predictions: Predictions,
    data: Dataset,
    model: str,
    protocol: str,
    tasks: Collection[str] = (),
) -> Scores:
    """Return the scores of predictions for rows; every row of a config that they touch counts."""
    answers = read_predictions(predictions, data.rows)
    data = data.choose(configs={config for config, *_ in answers}, tasks=tasks)
    info = RunInfo(data.info, model, None, protocol, PREDICTIONS)
    scores = derive(info, answers, data)
    if not isinstance(predictions, Path):
        return scores
    folder = predictions if predictions.is_dir() else predictions.parent
    digests = _digests(files_of_answers(predictions))
    scores = replace(scores, predictions=_name(predictions), answers=digests, path=folder)
    _keep(_key(info, digests), scores)
    return scores


def derive(
    run: RunInfo,
    answers: Mapping[Key, Answer],
    data: Dataset,
    *,
    notes: Sequence[str] = (),
    starts: Sequence[Mapping[str, Any]] = (),
) -> Scores:
    """Return the scores of answers for rows.

    Args:
        run: that the answers are of.
        answers: by row and sample.
        data: the rows.
        notes: of what was ignored when the answers were read.
        starts: of the run, the newest last.
    """
    from ruler_eval.scoring.scorer import Scorer  # not where scores are cached

    scorer = Scorer(run, answers, data)
    table = scorer.table()
    manifest = data.manifest
    tasks = {task: manifest.table[task] for task, _ in map(parse_config, data.rows)}
    floors = _blind_floors(data)
    suspect = ""
    if not run.no_context:
        suspect = suspicion(means(table), tasks, floors)
    validity = scorer.tally.validity(
        refused=run.refused,
        sampling=run.sampling_seen,
        another_model=another_model(run, scorer.tally.models, starts),
        suspect=suspect,
        never_exact=never_exact(table),
    )
    public = {name: redact(getattr(run, name)) for name in ("engine_info", "sampling", "frame")}
    last: Mapping[str, Any] = {}
    if starts:
        last = starts[-1]
    return Scores(
        table=table,
        run=replace(run, **public),
        fingerprint=run.fingerprint,
        validity=validity,
        tasks=tasks,
        blind_floors=floors,
        question_digests={name: manifest.configs[name].question_digest for name in data.rows},
        chat_template=manifest.chat_template,
        window=(_tokens(last.get("window")), _tokens(last.get("trained_window"))),
        date=_last_day(starts),
        notes=(*notes, *scorer.notes),
    )


def _blind_floors(data: Dataset) -> dict[str, float]:
    """Return the blind floor of each config: as recorded, or of the package."""
    floors: dict[str, float] = {}
    for config in data.rows:
        recorded = data.manifest.configs[config].floor
        floor = None
        if recorded is not None:
            floor = recorded.blind
        if floor is None:
            task, length = parse_config(config)
            floor = blind_floor(task, length, data.manifest.suite)
        if floor is not None:
            floors[config] = floor
    return floors


def _tokens(value: object) -> int | None:
    return value if isinstance(value, int) else None


def _last_day(starts: Sequence[Mapping[str, Any]]) -> str:
    """Return the day of the last start; empty where none is recorded."""
    days = [""]
    for start in starts:
        day = str(start.get("at", ""))[:10]
        if re.fullmatch(r"\d{4}-\d\d-\d\d", day):
            days.append(day)
    return max(days)


def _digests(paths: Sequence[Path]) -> dict[str, str]:
    """Return the sha256 of files, by name."""
    return {path.name: sha256_file(path) for path in paths}


def _name(predictions: Path) -> str:
    """Return the name of a file or folder of predictions, as scores record it."""
    return str(redact(predictions.resolve().name))


def _key(run: RunInfo, digests: Mapping[str, str]) -> str:
    """Return what the table of a run is kept by: its description has the digests of the rows."""
    body = [SCORER_VERSION, FORMAT, __version__, asdict(run), digests]
    text = json.dumps(body, sort_keys=True, default=str)
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()


def _cached_file(key: str) -> Path:
    return cache_dir("scores") / f"{key}.parquet"


def _cached(key: str) -> Scores | None:
    """Return the scores that were derived here before; None if there are none."""
    path = _cached_file(key)
    with suppress(RulerError, OSError):
        if path.is_file():
            return replace(read_scores(path), claimed="", path=None)
    return None


def _keep(key: str, scores: Scores) -> None:
    """Keep scores in the user's cache; without one, deriving them again costs time alone."""
    with suppress(RulerError):
        write_scores(_cached_file(key), scores)


def score(
    predictions: Run | Predictions,
    data: Data | None = None,
    *,
    revision: str | None = None,
    model: str = "",
    protocol: str = "",
    tasks: Collection[str] = (),
    partial: bool = False,
) -> "pd.DataFrame":
    """Return the table of scores of answers, as pandas: a line for each row and sample.

        table = ruler_eval.score({"vt_4096/0": "QZKRA, PLMEW", ...}, "dist/llama3")
        table.groupby(["task", "length"])[["official", "exact"]].mean()

    `table.attrs` has the validity line, and the refusals and warnings of `ruler-eval score`.

    Args:
        predictions: a run or its folder; a file or folder of predictions (docs/scoring.md); texts
            by row, `{"vt_4096/0": "..."}`; records with `id` (or `config` and `index`) and `text`
            (or `prediction`), or a DataFrame of them. Every row of a config that they touch counts.
        data: folder or Hub repo of the rows, or what `ruler_data.load` returned; by default the
            rows of the run.
        revision: commit or tag of the repo; by default that of the run.
        model: of predictions that are not a run: its name, as published.
        protocol: likewise.
        tasks: these alone.
        partial: accept rows without an answer; their scores are missing.

    Raises:
        UsageError: something is not there, or an option is missing.
        RulerError: something is damaged or incomplete, or the answers are for other rows.
    """
    scores = scores_of(
        predictions, data, revision=revision, model=model, protocol=protocol, tasks=tasks
    )
    if scores.validity.unanswered and not partial:
        raise RulerError("; ".join([scores.shortfall, *scores.notes[:3]]))
    table = scores.to_pandas()
    table.attrs = {
        "validity": scores.validity_line,
        "refusals": scores.validity.errors,
        "warnings": scores.validity.warnings,
    }
    return table


def scores_of(
    predictions: Run | Predictions,
    data: Data | None = None,
    *,
    revision: str | None = None,
    model: str = "",
    protocol: str = "",
    tasks: Collection[str] = (),
) -> Scores:
    """Return the scores of answers, made from them and the rows; see `score`."""
    if isinstance(predictions, Scores):
        return predictions
    if protocol and protocol not in PROTOCOLS:
        protocols = ", ".join(PROTOCOLS)
        raise UsageError(f"--protocol {quote(protocol)}: not known; known: {protocols}")
    if not isinstance(predictions, str | os.PathLike):
        records = _records(predictions)
        return score_predictions(records, open_rows(data, revision), model, protocol, tasks)
    place = Path(predictions)
    check_answers(place)
    if not (place / RUN_FILE).is_file():
        return score_predictions(place, open_rows(data, revision), model, protocol, tasks)
    if protocol or model:
        raise UsageError("--model and --protocol are for predictions; a run has its own")
    return score_run(place, data, revision, tasks)


def check_answers(place: Path) -> None:
    """Raise UsageError if a place is neither a run nor predictions, with what may be meant."""
    if (place / RUN_FILE).is_file():
        return
    is_file_of_run = place.is_file() and (place.parent / RUN_FILE).is_file()
    holds_runs = any(place.glob(f"*/{RUN_FILE}"))
    if is_file_of_run or holds_runs or not files_of_answers(place):
        raise UsageError(quote(str(place)), why_no_run(place))


def _records(predictions: Any) -> Predictions:  # noqa: ANN401 - whatever a user passes
    """Return predictions that are not in a file; the lines of a DataFrame are records."""
    if hasattr(predictions, "to_dict") and hasattr(predictions, "columns"):
        records: list[Mapping[str, Any]] = predictions.to_dict("records")
        return records
    if not isinstance(predictions, Iterable):
        raise UsageError(
            f"predictions {predictions!r:.60}: give a run, a file, texts by row or records"
        )
    return predictions
