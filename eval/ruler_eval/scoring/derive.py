"""Scores are derived from answers and rows; every command, report and board calls this room.

    run.json, answers-*.jsonl, rows  ─►  Scores, kept in results.json
    results.json alone               ─►  Scores that are claimed, and marked so everywhere

    scores = score("runs/x", "dist/llama3")
    print(scores)

    task             4K     8K
    vt            97.20  93.10
    qa_1          81.50  78.00
    mean of 2     89.35  85.55
    validity: 2,000 of 2,000 rows answered by org/model; 0 empty, 3 cut off, …

`results.json` is believed in place of deriving again if it names the same answers, rows and version
of the scorer, and was written on this machine (`ruler_eval.scoring.results_file`).
"""

import os
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from statistics import fmean
from typing import Any

from ruler_data.errors import RulerError, UsageError
from ruler_data.files import sha256_file
from ruler_data.floors import blind_floor
from ruler_data.layouts import files_of_answers
from ruler_data.names import config_name, quote
from ruler_data.progress import track
from ruler_data.row import no_cycles
from ruler_eval.engine_check.repetition import Pair, Repeat, read_repeats
from ruler_eval.running.answers import Answer, Key
from ruler_eval.running.data import Dataset
from ruler_eval.running.prompts import PROTOCOLS
from ruler_eval.running.run_dir import (
    ANSWER_FILES,
    RUN_FILE,
    RunFolder,
    RunInfo,
    read_info,
    redact,
    why_no_run,
)
from ruler_eval.scoring.predictions import read_predictions
from ruler_eval.scoring.results import (
    FILENAME,
    SCORER_VERSION,
    Scores,
)
from ruler_eval.scoring.results_file import (
    Run,
    contradiction,
    kept_results,
    read_results,
    write_results,
)
from ruler_eval.scoring.row_scores import PREDICTIONS, Scorer
from ruler_eval.scoring.run_rows import Data, open_rows, rows_of_run

#: A run or its folder, a file or folder of predictions, `{"vt_4096/0": text}`, or records.
Predictions = str | os.PathLike[str] | Mapping[str, str] | Iterable[Mapping[str, Any]]


def score(
    predictions: Predictions,
    data: Data | None = None,
    *,
    revision: str | None = None,
    model: str = "",
    protocol: str = "",
    partial: bool = False,
) -> Scores:
    """Return the scores of answers, row by row, and what they rest on.

    Those of a run are kept in its `results.json`, and read from there the next time.

    Args:
        predictions: a run or its folder; a file or folder of predictions (docs/scoring.md); texts
            by row, `{"vt_4096/0": "..."}`; or records with `id` (or `config` and `index`) and
            `text` (or `prediction`). Every row of a config that they touch counts.
        data: folder or Hub repo of the rows, or what `ruler_data.load` returned; by default the
            rows of the run.
        revision: commit or tag of the repo; by default that of the run.
        model: of predictions that are not a run: its name, as published.
        protocol: likewise.
        partial: accept rows without an answer; the scores then say n of N.

    Raises:
        UsageError: something is not there, or an option is missing.
        RulerError: something is damaged or incomplete, or the answers are for other rows.
    """
    if not isinstance(predictions, str | os.PathLike | Iterable):
        msg = f"predictions {predictions!r:.60}: give a run, a file, texts by row or records"
        raise UsageError(msg)
    place = Path(predictions) if isinstance(predictions, str | os.PathLike) else None
    is_run = place is not None and (place / RUN_FILE).is_file()
    if (protocol or model) and is_run:
        msg = "--model and --protocol are for predictions; a run has its own"
        raise UsageError(msg)
    if protocol and protocol not in PROTOCOLS:
        msg = f"--protocol {quote(protocol)}: not known; known: {', '.join(PROTOCOLS)}"
        raise UsageError(msg)
    if place is not None and is_run:
        run = read_info(place)
        scores = _score_run(place, run, lambda: rows_of_run(place, run, data, revision))
        if data is not None:
            rows_of_run(place, run, data, revision)  # kept scores are of these rows, too
        is_accepted = partial or _accepted(place / FILENAME, scores)
    else:
        if place is not None:
            check_answers(place)
        records = predictions if place is None else place
        scores = _score_predictions(records, open_rows(data, revision), model, protocol)
        is_accepted = partial
    scores = scores.accepting(partial=is_accepted)
    if scores.unanswered and not (is_accepted and scores.scored):
        raise RulerError("; ".join([scores.shortfall, *scores.notes[:3]]))
    if place is not None and is_run:
        with suppress(RulerError):  # where nothing can be written, scoring again costs time alone
            write_results(place / FILENAME, scores)
    return scores


def check_answers(place: Path) -> None:
    """Raise UsageError if a place is neither a run nor predictions, with what may be meant."""
    is_run = (place / RUN_FILE).is_file()
    is_of_run = (place.parent / RUN_FILE).is_file() and place.is_file()
    is_of_run |= any(place.glob(f"*/{RUN_FILE}"))
    if not is_run and (is_of_run or not files_of_answers(place)):
        raise UsageError(quote(str(place)), why_no_run(place))


def load_scores(run: Run, data: str | None = None) -> Scores:
    """Return the scores of a run for a report: derived where its answers and rows are there.

    Args:
        run: its folder, the path of its `results.json`, or its scores.
        data: folder or Hub repo of the rows, if they are not where the run read them.

    Raises:
        UsageError: there is neither an answer nor a results.json.
        RulerError: something is damaged; or results.json says other than answers and rows do.
    """
    if not isinstance(run, str | os.PathLike):
        return read_results(run)
    place = Path(run)
    folder, file = (place, place / FILENAME) if place.is_dir() else (place.parent, place)
    claim = read_results(file) if file.is_file() else None
    if claim is not None and claim.predictions:
        answers = [path for path in (folder, *folder.iterdir()) if _name(path) == claim.predictions]
        cached = kept_results(file, _hashes(answers[0])) if answers else None
        return cached or claim.claiming("its predictions or its rows are not known here")
    if not (folder / RUN_FILE).is_file():
        return claim or read_results(place)
    if claim is not None and not any(folder.glob(ANSWER_FILES)):
        return claim.claiming("its answers are not beside it")
    info = read_info(folder)

    def rows() -> Dataset:
        try:
            return rows_of_run(folder, info, data)
        except (RulerError, OSError) as error:
            raise RowsNotFoundError(str(error)) from error

    try:
        scores = _score_run(folder, info, rows)
    except RowsNotFoundError as error:
        if claim is None:
            raise (error.__cause__ or error) from None
        return claim.claiming(f"its rows cannot be read: {error}")
    if claim is None:
        with suppress(RulerError):
            write_results(file, scores)
        return scores
    if problem := contradiction(claim, scores):
        msg = f"{file}: {problem} by its answers and rows; score the run again"
        raise RulerError(msg)
    return scores.accepting(partial=_accepted(file, scores))


class RowsNotFoundError(RulerError):
    """The rows of a run cannot be read, or are others; its cause says why."""


def _score_run(folder: Path, info: RunInfo, rows: Callable[[], Dataset]) -> Scores:
    """Return the scores of a run, with what is known of it beside its answers."""
    notes = list[str]()
    if not any(folder.glob(ANSWER_FILES)):
        msg = f"{quote(str(folder))}: has no {ANSWER_FILES}; no row was answered yet"
        raise UsageError(msg)

    hashes = _hashes(folder)
    scores = kept_results(folder / FILENAME, hashes, info.fingerprint)
    if scores is None:
        answers = RunFolder(folder).answers(notes)
        scores = derive(info, answers, rows(), notes)
        scores = replace(scores, files=hashes, window=_window(folder), date=_date(folder))
    return replace(scores, noise=_noise(folder, scores))


def _score_predictions(
    predictions: Any,  # noqa: ANN401 - a path, texts or records
    data: Dataset,
    model: str,
    protocol: str,
) -> Scores:
    answers = read_predictions(predictions, data.rows)
    data = data.choose({config for config, *_ in answers})
    info = RunInfo(data.info, model, None, protocol, PREDICTIONS)
    scores = derive(info, answers, data)
    if not isinstance(predictions, Path):
        return scores
    return replace(scores, predictions=_name(predictions), files=_hashes(predictions))


@no_cycles()
def derive(
    run: RunInfo, answers: Mapping[Key, Answer], data: Dataset, notes: Sequence[str] = ()
) -> Scores:
    """Return the scores of answers for rows."""
    data.fetch()
    scorer = Scorer(run, answers, data)
    configs = {config: scorer.config(config) for config in track(data.rows, "scoring")}
    public = {name: redact(getattr(run, name)) for name in ("engine_info", "sampling", "frame")}
    scores = Scores(
        run=replace(run, **public),
        fingerprint=run.fingerprint,
        configs=configs,
        examples=tuple(scorer.examples),
        notes=(*notes, *scorer.notes),
        validity=scorer.tally.validity(),
        chat_template=data.manifest.chat_template,
        scorer=SCORER_VERSION,
    )
    suspect = "" if run.no_context else suspicion(scores)
    return replace(scores, validity=replace(scorer.tally.validity(), suspect=suspect))


def suspicion(scores: Scores) -> str:
    """Return why the set-up is in doubt before the model is; empty if it is not.

    At the shortest length the mean of no task is above its blind floor, the score of the best
    answer that is written without the context.
    """
    cells = scores.table.cells
    length = min((length for _, length in cells), default=0)
    means: dict[str, tuple[float, float]] = {}
    for task in (task for task, n in cells if n == length):
        config = scores.configs[config_name(task, length)]
        scores_of_task = [score for score in config.headline_scores if score is not None]
        floor = blind_floor_of(scores, task, length)
        if scores_of_task and floor is not None:
            means[task] = fmean(scores_of_task), floor
    if not means or any(mean > floor for mean, floor in means.values()):
        return ""
    task = max(means, key=lambda task: means[task][0] - means[task][1])
    return (
        f"suspect harness: at {length:,} tokens no task is above what answers without the context "
        f"score, the best is {task} with {100 * means[task][0]:.1f} (blind floor "
        f"{100 * means[task][1]:.1f}); look at prompts and answers before the model"
    )


def blind_floor_of(scores: Scores, task: str, length: int) -> float | None:
    """Return the blind floor of a task of a run, in [0, 1]: as recorded, or of the package."""
    recorded = scores.configs[config_name(task, length)].floor
    if recorded:
        return recorded.blind
    return blind_floor(task, length, scores.run.data.suite)


def _accepted(file: Path, scores: Scores) -> bool:
    """Whether the user accepted before that rows of a run are unanswered."""
    with suppress(RulerError):
        validity = read_results(file).validity
        return bool(scores.unanswered and validity and validity.partial)
    return False


def _noise(folder: Path, scores: Scores) -> float:
    """Return the variance of a row's score, from all repetitions together.

    A row that was repeated twice counts twice. Of two answers to a row each has half of the
    variance of their difference, which for scores in [0, 1] is at most the mean change.
    """
    pairs: list[Pair] = []
    for path, again in read_repeats(folder):
        for pair in again.pairs:
            config, _, index = pair.row.rpartition("/")
            official = scores.configs[config].scores if config in scores.configs else ()
            is_row = index.isdecimal() and int(index) < len(official)
            # The score of a row with several samples is their mean.
            if not is_row or (scores.run.samples == 1 and official[int(index)] != pair.before):
                difference = f"the run has no row {quote(pair.row)} with the score {pair.before}"
                raise RulerError(path, f"{difference}; remove it, and repeat again")
        pairs += again.pairs
    return Repeat(tuple(pairs)).points / 200


def _window(folder: Path) -> tuple[int | None, int | None]:
    """Return the declared and the trained window of a run's model, as its last start recorded."""
    last = next(iter([*RunFolder(folder).starts()][::-1]), {})
    declared, trained = (last.get(name) for name in ("window", "trained_window"))
    return (
        declared if isinstance(declared, int) else None,
        trained if isinstance(trained, int) else None,
    )


def _date(folder: Path) -> str:
    """Return the day of the last start; empty where none is recorded."""
    days = [str(start.get("at", ""))[:10] for start in RunFolder(folder).starts()]
    return max((day for day in days if re.fullmatch(r"\d{4}-\d\d-\d\d", day)), default="")


def _hashes(place: Path) -> dict[str, tuple[int, str]]:
    """Return bytes and sha256 of each file that answers are read from, by name."""
    is_run = (place / RUN_FILE).is_file()
    paths = sorted(place.glob(ANSWER_FILES)) if is_run else files_of_answers(place)
    folder = place if place.is_dir() else place.parent
    return {
        path.relative_to(folder).as_posix(): (path.stat().st_size, sha256_file(path))
        for path in paths
        if path.name != FILENAME
    }


def _name(predictions: Path) -> str:
    """Return the name of a file or folder of predictions, as results record it."""
    return str(redact(predictions.resolve().name))
