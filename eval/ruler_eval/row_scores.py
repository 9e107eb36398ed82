"""The scores of rows: official, exact, label and evidence of each answer, config by config.

Official scores need the columns of the questions alone; the context is read for rows whose answer
is not plainly right.
"""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import closing
from itertools import chain, repeat
from statistics import fmean
from typing import NamedTuple

from ruler_data.errors import RulerError
from ruler_data.manifest import ConfigInfo
from ruler_data.names import counted, parse_config
from ruler_data.reasoning import opens
from ruler_data.row import Row, RowDigest, question_digest
from ruler_data.tasks import Niah, Task
from ruler_eval.answers import Answer, Key, Tally, score_answer, why_unanswered
from ruler_eval.data import Dataset
from ruler_eval.exact import exact_scores, exact_without_context
from ruler_eval.labels import failure_of
from ruler_eval.predictions import ImportedPrediction
from ruler_eval.run_dir import RunInfo
from ruler_eval.scores import (
    BINS,
    Column,
    ConfigScores,
    Counts,
    Depth,
    Example,
    cost_of,
    params_of,
)

#: Stands for the engine where predictions are not a run.
PREDICTIONS = "predictions"
#: Most words in a token, and how many tokens of the row one token of the prompt stands for, in
#: whatever tokenizer; beyond these, counts or texts were not made by the run.
WORDS, SHORTEST = 4, 4

#: Example rows of each label of a config.
EXAMPLES = 2


class _Line(NamedTuple):
    """What is known of a row: its digest, and if all samples are answered, its scores.

    Where the exact scores are not there, they depend on the context.
    """

    question: str
    records: Sequence[Answer | None]
    texts: Sequence[str] = ()
    official: Sequence[float] = ()
    exact: Sequence[tuple[float, float]] = ()
    label: tuple[str, str] | None = None  # of the first sample that has one, and its text
    evidence: Sequence[tuple[int, bool]] = ()

    @property
    def scored(self) -> Iterator[tuple[str, float]]:
        """The texts with their official scores."""
        return zip(self.texts, self.official, strict=True)


class Scorer:
    """Scores config by config; counts the answers, and keeps examples and notes."""

    def __init__(self, run: RunInfo, answers: Mapping[Key, Answer], data: Dataset) -> None:
        self.run, self.answers, self.data = run, answers, data
        is_run = run.engine != PREDICTIONS
        self._opened = opens(run.frame)
        self.tally = Tally(run.protocol, opened=self._opened, refused=run.refused, is_run=is_run)
        self.examples: list[Example] = []
        self.reasons: Counter[str] = Counter()
        self._is_run = is_run
        self._extra, self._samples = int(run.sampling.get("extra_tokens", 0)), run.samples
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
        unread = {n for n, line in enumerate(lines) if line.official and not line.exact}
        with closing(self.data.read_some(config, unread)) as whole:
            for row in whole:
                lines[row.index] = _read(row, task, lines[row.index])
        examples = Counter[str]()
        for row, line in zip(rows, lines, strict=True):
            kind, text = line.label or ("", "")
            if kind and examples[kind] < EXAMPLES:
                examples[kind] += 1
                self.examples.append(_example(config, row, fmean(line.official), kind, text))
        digest = info.question_digest
        if not digest and len(rows) == info.rows:  # data of a version that did not record it
            of_rows = RowDigest()
            for row in rows:
                of_rows.add(row)
            digest = of_rows.question_hexdigest()
        return _config_scores(task, info, digest, lines)

    def _line(self, config: str, row: Row, task: Task) -> _Line:
        question = question_digest(row)
        samples = range(self._samples)
        records = [self.answers.get((config, row.index, sample)) for sample in samples]
        is_needle, is_open = isinstance(task.params, Niah), task.params.family == "qa"
        texts, official, exact = list[str](), list[float](), list[tuple[float, float]]()
        for record in records:
            text = score = None
            if record is not None:
                _check(config, row, record, question)
                if not self._why_unanswered(row, record) and record.text is not None:
                    text, score = score_answer(row, task, record, opened=self._opened)
                    texts.append(text)
                    official.append(score)
                    pair = exact_without_context(row, task, text, score)
                    if pair == (1.0, 1.0) or (pair and is_open and score == 1):
                        exact.append(pair)
            self.tally.add(record, text, score)
        if len(texts) < len(records):
            return _Line(question, records)
        if len(exact) < len(records) or (is_needle and not row.haystack):
            return _Line(question, records, texts, official)
        evidence = [*evidence_of(row, texts[0], official[0])] if is_needle else ()
        return _Line(question, records, texts, official, exact, None, evidence)

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
    labels = ((failure_of(row, task, text, score) or "", text) for text, score in line.scored)
    is_needle = isinstance(task.params, Niah)
    return line._replace(
        exact=[exact_scores(row, task, *pair) for pair in line.scored],
        label=next((label for label in labels if label[0]), None),
        evidence=[*evidence_of(row, *next(line.scored))] if is_needle else (),
    )


def _check(config: str, row: Row, record: Answer, question: str) -> None:
    """Refuse an answer to another question than its row's."""
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
    answered = [line if line.official else None for line in lines]
    scored = [*filter(None, answered)]
    labels: dict[str, list[int]] = {}
    for index, line in enumerate(lines):
        if line.label:
            labels.setdefault(line.label[0], []).append(index)
    by_sample: Sequence[Sequence[float]] = [line.official for line in scored]
    if task.headline == "exact":
        by_sample = [[exact for exact, _ in line.exact] for line in scored]
    means = tuple(map(fmean, zip(*by_sample, strict=True)))
    first = [line.records[0] if line else None for line in answered]
    cost = cost_of(record for line in scored for record in line.records if record)

    def rows(holds: Iterable[object]) -> tuple[int, ...]:
        return tuple(index for index, marked in enumerate(holds) if marked)

    return ConfigScores(
        digest=info.digest,
        question_digest=question_digest,
        family=task.params.family,
        category=task.category,
        metric=task.metric,
        rows=len(lines),
        scores=Column([_mean(line.official) if line else None for line in answered]),
        exact=Column([_mean([e for e, _ in line.exact]) if line else None for line in answered]),
        f1=Column([_mean([f1 for _, f1 in line.exact]) if line else None for line in answered]),
        characters=Counts([len(record.text or "") if record else None for record in first]),
        tokens=Counts([record.answer_tokens if record else None for record in first]),
        truncated=rows(
            line and any(a and a.finish == "length" for a in line.records) for line in answered
        ),
        empty=rows(line and not all(map(str.strip, line.texts)) for line in answered),
        failed=rows(not line.official and any(line.records) for line in lines),
        missing=rows(not any(line.records) for line in lines),
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


def _mean(numbers: Sequence[float]) -> float:
    return numbers[0] if len(numbers) == 1 else fmean(numbers)


def _depth(evidence: Sequence[Sequence[tuple[int, bool]]]) -> Depth | None:
    """Return the pieces of evidence of a config by depth; None if it has none."""
    pieces = Counter(chain.from_iterable(evidence))
    rows = Counter(cell for of_row in evidence for cell in {cell for cell, _ in of_row})
    cells = range(BINS)
    shown = tuple(pieces[cell, True] for cell in cells)
    total = tuple(pieces[cell, False] + shown[cell] for cell in cells)
    return Depth(total, shown, tuple(rows[cell] for cell in cells)) if evidence else None


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
