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

Official scores need the columns of the questions alone; the context is read for rows whose answer
is not plainly right. `results.json` is believed in place of deriving again if it names the same
answers, rows and version of the scorer, and was written on this machine (`ruler_eval.scores`).
"""

import os
import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import closing, suppress
from dataclasses import replace
from itertools import repeat
from pathlib import Path
from statistics import fmean
from typing import Any, NamedTuple

from ruler_data.errors import RulerError, UsageError
from ruler_data.files import sha256_file
from ruler_data.floors import blind_floor
from ruler_data.manifest import ConfigInfo
from ruler_data.names import config_name, counted, parse_config, quote
from ruler_data.reasoning import opens
from ruler_data.row import Row, RowDigest, question_digest
from ruler_data.tasks import Niah, Task
from ruler_data.terminal import track
from ruler_eval.answers import Answer, Key, Tally, scored_text, why_unanswered
from ruler_eval.data import Dataset
from ruler_eval.decide import decision_of
from ruler_eval.exact import exact_scores, exact_without_context
from ruler_eval.labels import failure_of
from ruler_eval.metrics import CLEANED, score_row
from ruler_eval.predictions import ImportedPrediction, files_of, read_predictions
from ruler_eval.prompts import PROTOCOLS
from ruler_eval.redact import redact
from ruler_eval.repetition import Pair, Repeat, read_repeats
from ruler_eval.run_dir import ANSWER_FILES, RUN_FILE, RunFolder, RunInfo, read_info
from ruler_eval.run_rows import Data, open_rows, rows_of_run
from ruler_eval.scores import (
    BINS,
    FILENAME,
    SCORER_VERSION,
    ConfigScores,
    Cost,
    Depth,
    Example,
    Run,
    Scores,
    contradiction,
    kept_results,
    params_of,
    read_results,
    write_results,
)

#: A run or its folder, a file or folder of predictions, `{"vt_4096/0": text}`, or records.
Predictions = str | os.PathLike[str] | Mapping[str, str] | Iterable[Mapping[str, Any]]
#: Stands for the engine where predictions are not a run.
PREDICTIONS = "predictions"
#: Most words in a token, and how many tokens of the row one token of the prompt stands for, in
#: whatever tokenizer; beyond these, counts or texts were not made by the run.
WORDS, SHORTEST = 4, 4
#: Example rows of each label of a config.
EXAMPLES = 2


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
        kept = kept_results(file, _hashes(answers[0])) if answers else None
        return kept or claim.claiming("its predictions or its rows are not known here")
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
    decision = decision_of(folder, lambda *_: rows())
    said = [] if decision is None else [f"{decision['answer']}; {decision['guarantee']}"]
    notes = [*dict.fromkeys((*scores.notes, *said))]
    return replace(scores, notes=tuple(notes), noise=_noise(folder, scores))


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


def derive(
    run: RunInfo, answers: Mapping[Key, Answer], data: Dataset, notes: Sequence[str] = ()
) -> Scores:
    """Return the scores of answers for rows."""
    data.fetch()
    scorer = _Scorer(run, answers, data)
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
        config, suite = scores.configs[config_name(task, length)], scores.run.data.suite
        known = [score for score in config.headline_scores if score is not None]
        floor = config.floor.blind if config.floor else None
        floor = blind_floor(task, length, suite) if floor is None else floor
        if known and floor is not None:
            means[task] = fmean(known), floor
    if not means or any(mean > floor for mean, floor in means.values()):
        return ""
    task = max(means, key=lambda task: means[task][0] - means[task][1])
    return (
        f"suspect harness: at {length:,} tokens no task is above what answers without the context "
        f"score, the best is {task} with {100 * means[task][0]:.1f} (blind floor "
        f"{100 * means[task][1]:.1f}); look at prompts and answers before the model"
    )


class _Line(NamedTuple):
    """What is known of a row: its digest, and if all samples are answered, its scores."""

    question: str
    records: Sequence[Answer | None]
    texts: Sequence[str] = ()
    official: Sequence[float] = ()
    exact: Sequence[tuple[float, float]] = ()
    label: tuple[str, str] | None = None  # of the first sample that has one, and its text
    evidence: Mapping[tuple[int, bool], int] = {}
    is_read: bool = True  # whether nothing more depends on the context

    @property
    def pairs(self) -> list[tuple[str, float]]:
        """The texts with their official scores."""
        return [*zip(self.texts, self.official, strict=True)]

    @property
    def score(self) -> float | None:
        return fmean(self.official) if self.official else None


class _Scorer:
    """Scores config by config; counts the answers, and keeps examples and notes."""

    def __init__(self, run: RunInfo, answers: Mapping[Key, Answer], data: Dataset) -> None:
        self.run, self.answers, self.data = run, answers, data
        is_run = run.engine != PREDICTIONS
        self.tally = Tally(
            run.protocol, opened=opens(run.frame), refused=run.refused, is_run=is_run
        )
        self.examples: list[Example] = []
        self.reasons: Counter[str] = Counter()
        self._is_run = is_run
        self._extra = int(run.sampling.get("extra_tokens", 0))
        self._has_digests = any(answer.question_digest for answer in answers.values())

    @property
    def notes(self) -> list[str]:
        """Why records of a run do not answer their rows."""
        return [f"{counted(n, 'answer')} not counted: {why}" for why, n in self.reasons.items()]

    def config(self, config: str) -> ConfigScores:
        """Return the scores of a config."""
        task, info = (
            self.data.manifest.table[parse_config(config)[0]],
            self.data.manifest.configs[config],
        )
        has_claims = isinstance(task.params, Niah) and task.params.none != "no"
        # Whether an answer claims a value depends on the context.
        read = self.data.read if has_claims else self.data.question_rows
        rows = [*read(config)]
        lines = [self._line(config, row, task) for row in rows]
        unread = {row.index for row, line in zip(rows, lines, strict=True) if not line.is_read}
        with closing(self.data.read_some(config, unread)) as whole:
            for row in whole:
                lines[row.index] = _read(row, task, lines[row.index])
        examples = Counter[str]()
        for row, line in zip(rows, lines, strict=True):
            kind, text = line.label or ("", "")
            if kind and examples[kind] < EXAMPLES:
                examples[kind] += 1
                self.examples.append(_example(config, row, line.score or 0.0, kind, text))
        digest = info.question_digest
        if not digest and len(rows) == info.rows:  # data of a version that did not record it
            of_rows = RowDigest()
            for row in rows:
                of_rows.add(row)
            digest = of_rows.question_hexdigest()
        return _config_scores(task, info, digest, lines)

    def _line(self, config: str, row: Row, task: Task) -> _Line:
        question = question_digest(row)
        records = [
            self.answers.get((config, row.index, sample)) for sample in range(self.run.samples)
        ]
        for record in records:
            _check(config, row, record, question)
        texts, official = list[str](), list[float]()
        for record in records:
            reason = record and self._why_unanswered(row, record)
            is_answer = record is not None and record.text is not None and not reason
            text = score = None
            if record is not None and is_answer:
                text = scored_text(
                    record, opened=opens(self.run.frame), cleaned=task.metric in CLEANED
                )
                score = score_row(row, task, text)
                texts.append(text)
                official.append(score)
            self.tally.add(record, text, score)
        if len(texts) < len(records):
            return _Line(question, records)
        line = _Line(question, records, texts, official, is_read=False)
        exact = [exact_without_context(row, task, *pair) for pair in line.pairs]
        is_needle = isinstance(task.params, Niah)
        if {*exact} != {(1.0, 1.0)} or (is_needle and not row.haystack):
            return line
        evidence = Counter(evidence_of(row, *line.pairs[0]) if is_needle else ())
        return line._replace(exact=[(1.0, 1.0)] * len(exact), evidence=evidence, is_read=True)

    def _why_unanswered(self, row: Row, record: Answer) -> str | None:
        """Return why a record of a run does not answer its row, beside what `settle` saw."""
        if record.error is not None or not self._is_run:
            return record.error
        budget = row.max_new_tokens + self._extra
        reason = why_unanswered(record, budget=budget)
        words, prompt = len((record.text or "").split()), row.length - row.max_new_tokens
        if reason is None and self._has_digests and record.question_digest is None:
            reason = "its question is not recorded"
        if reason is None and words > WORDS * budget:
            reason = f"{words:,} words are more than {budget:,} tokens hold"
        read = None if self.run.no_context or record.calls else record.prompt_tokens
        if reason is None and read is not None and read < prompt / SHORTEST:
            reason = f"{read:,} prompt tokens are not the row's {prompt:,}"
        if reason is not None:
            self.reasons[reason] += 1
        return reason


def _read(row: Row, task: Task, line: _Line) -> _Line:
    """Return a line with what its texts name of the context."""
    labels = ((failure_of(row, task, text, score) or "", text) for text, score in line.pairs)
    return line._replace(
        exact=[exact_scores(row, task, *pair) for pair in line.pairs],
        label=next((label for label in labels if label[0]), None),
        evidence=Counter(evidence_of(row, *line.pairs[0]) if isinstance(task.params, Niah) else ()),
        is_read=True,
    )


def _check(config: str, row: Row, record: Answer | None, question: str) -> None:
    """Refuse an answer to another question than its row's."""
    if record is None:
        return
    if record.question_digest not in (None, question):
        msg = f"{config}/{row.index}: the answer is to another question than the row's"
        raise RulerError(msg)
    outputs = record.outputs if isinstance(record, ImportedPrediction) else None
    if outputs is not None and {*outputs} != {*row.outputs}:
        msg = (
            f"{config}/{row.index}: the gold answers beside the prediction are "
            f"{ascii(list(outputs))[:80]}, those of the row {ascii(list(row.outputs))[:80]}"
            "; score predictions on the data that they were made on"
        )
        raise RulerError(msg)


def _config_scores(
    task: Task, info: ConfigInfo, question_digest: str, lines: Sequence[_Line]
) -> ConfigScores:
    """Return the scores of a config as columns."""
    answered = [bool(line.official) for line in lines]
    first = [line.records[0] if has else None for line, has in zip(lines, answered, strict=True)]
    labels: dict[str, list[int]] = {}
    for index, line in enumerate(lines):
        if line.label:
            labels.setdefault(line.label[0], []).append(index)
    by_sample: Sequence[Sequence[float]] = [line.official for line in lines if line.official]
    if task.headline == "exact":
        by_sample = [[exact for exact, _ in line.exact] for line in lines if line.official]
    means = tuple(map(fmean, zip(*by_sample, strict=True)))
    cost = Cost()
    for line in lines:
        for record in line.records if line.official else ():
            cost = cost.plus(record) if record else cost

    def rows(holds: Callable[[_Line], object]) -> tuple[int, ...]:
        return tuple(index for index, line in enumerate(lines) if holds(line))

    return ConfigScores(
        digest=info.digest,
        question_digest=question_digest,
        family=task.params.family,
        category=task.category,
        metric=task.metric,
        rows=len(lines),
        scores=tuple(line.score for line in lines),
        exact=tuple(fmean(e for e, _ in line.exact) if line.exact else None for line in lines),
        f1=tuple(fmean(f1 for _, f1 in line.exact) if line.exact else None for line in lines),
        characters=tuple(len(record.text or "") if record else None for record in first),
        tokens=tuple(record.answer_tokens if record else None for record in first),
        truncated=rows(
            lambda line: line.official and any(a and a.finish == "length" for a in line.records)
        ),
        empty=rows(lambda line: line.official and not all(text.strip() for text in line.texts)),
        failed=rows(lambda line: not line.official and any(line.records)),
        missing=rows(lambda line: not any(line.records)),
        failures={label: tuple(indexes) for label, indexes in sorted(labels.items())},
        depth=_depth([line.evidence for line in lines if line.evidence]),
        params=params_of(task),
        floor=info.floor,
        headline=task.headline,
        same_questions_as=task.same_questions_as,
        samples=means if len(means) > 1 else (),
        questions="".join(line.question for line in lines),
        cost=cost if cost.rows else None,
    )


def _depth(evidence: Sequence[Mapping[tuple[int, bool], int]]) -> Depth | None:
    """Return the pieces of evidence of a config by depth; None if it has none."""
    pieces, rows = Counter[tuple[int, bool]](), Counter[int]()
    for of_row in evidence:
        pieces.update(of_row)
        rows.update({cell for cell, _ in of_row})
    cells = range(BINS)
    shown = tuple(pieces[cell, True] for cell in cells)
    every = tuple(pieces[cell, False] + shown[cell] for cell in cells)
    return Depth(every, shown, tuple(rows[cell] for cell in cells)) if evidence else None


def evidence_of(row: Row, answer: str, score: float) -> Iterator[tuple[int, bool]]:
    """Yield for each needle its cell of depth, and whether the answer shows its value.

    The haystack is cut into `BINS` cells of equally many characters. Half of a needle, or an
    earlier value, has no gold answer in it, and is shown if the row scores.
    """
    start, end = row.haystack or (0, len(row.context))
    cells = [(first - start) * BINS // max(1, end - start) for first, _ in row.evidence]
    if score in (0, 1):
        yield from zip(cells, repeat(score == 1))
        return
    said = {output.lower(): output.lower() in answer.lower() for output in row.outputs}
    for cell, (first, last) in zip(cells, row.evidence, strict=True):
        text = row.context[first:last].lower()
        inside = [(text.find(output), output) for output in said if output in text]
        yield cell, said[min(inside)[1]] if inside else score > 0


def _example(config: str, row: Row, score: float, label: str, text: str) -> Example:
    outputs = tuple(_shortened(output, 80) for output in row.outputs[:10])
    texts = _shortened(row.question, 400), outputs, _shortened(text, 600)
    return Example(config, row.index, label, score, *texts)


def _shortened(text: str, limit: int) -> str:
    """Return a text as valid Unicode of at most `limit` characters, its middle left out.

    >>> _shortened("abcdefghij", 7)
    'abc…hij'
    """
    if len(text) > limit:
        half = (limit - 1) // 2
        text = f"{text[:half]}…{text[-half:]}"
    return text.encode("utf-8", "replace").decode("utf-8")


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
    paths = sorted(place.glob(ANSWER_FILES)) if is_run else files_of(place)
    folder = place if place.is_dir() else place.parent
    return {
        path.relative_to(folder).as_posix(): (path.stat().st_size, sha256_file(path))
        for path in paths
        if path.name != FILENAME
    }


def _name(predictions: Path) -> str:
    """Return the name of a file or folder of predictions, as results record it."""
    return str(redact(predictions.resolve().name))
