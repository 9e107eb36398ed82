"""The scores of rows: official, exact, label and evidence of each answer, config by config.

Official scores need the columns of the questions alone; the context is read for rows whose answer
is not plainly right.
"""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, replace
from itertools import chain, repeat
from statistics import fmean
from typing import Any

from ruler_data.errors import RulerError
from ruler_data.manifest import ConfigInfo
from ruler_data.names import counted, parse_config
from ruler_data.reasoning import opens
from ruler_data.row import Row, question_digest
from ruler_data.tasks import Niah, Task
from ruler_eval.running.answers import Answer, Key, why_unanswered
from ruler_eval.running.data import Dataset
from ruler_eval.running.run_dir import RunInfo
from ruler_eval.scoring.columns import Column, Counts
from ruler_eval.scoring.exact import exact_scores, exact_without_context
from ruler_eval.scoring.labels import failure_of
from ruler_eval.scoring.metrics import score_answer
from ruler_eval.scoring.predictions import ImportedPrediction
from ruler_eval.scoring.results import (
    BINS,
    ConfigScores,
    Depth,
    Example,
    cost_of,
    params_of,
)
from ruler_eval.scoring.results_validity import Tally

#: Stands for the engine where predictions are not a run.
PREDICTIONS = "predictions"
#: Most words in a token, and how many tokens of the row one token of the prompt stands for, in
#: whatever tokenizer; beyond these, counts or texts were not made by the run.
WORDS, SHORTEST = 4, 4

#: Example rows of each label of a config.
EXAMPLES = 2

#: Of an answer: the text that is scored, the official score, and the exact score and F1. No scores
#: stand for no answer, and no exact ones where they depend on the context.
_Scored = tuple[str, Any, Any]

#: What an answer shows: for each needle its cell of depth, and whether its value is named.
Evidence = list[tuple[int, bool]]


@dataclass
class _Samples:
    """What is known of the samples of a config's rows, those of a row one after the other.

    A sample without an answer has an empty text and no scores. Where its exact scores are not
    there, they depend on the context.
    """

    number: int  # of each row
    records: list[Answer | None]
    texts: list[str]
    official: list[Any]  # float, or None
    exact: list[Any]  # tuple of two floats, or None

    def __post_init__(self) -> None:
        """See which rows are answered, by all of their samples."""
        ends = range(self.number, len(self.records) + 1, self.number)
        self.places = [slice(end - self.number, end) for end in ends]
        self.answered = [None not in self.official[place] for place in self.places]

    def means(self, column: list[Any]) -> list[Any]:
        """Return the mean of a column by row; None for rows that are not answered."""
        if self.number == 1:
            return column
        rows = zip(self.places, self.answered, strict=True)
        return [fmean(column[place]) if holds else None for place, holds in rows]

    def rows(self, marks: Iterable[object]) -> tuple[int, ...]:
        """Return the answered rows with a sample that is marked."""
        rows = {place // self.number for place, mark in enumerate(marks) if mark}
        return tuple(sorted(row for row in rows if self.answered[row]))


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
        self._asked: tuple[list[Any], list[str]] = [], []
        self._known: dict[tuple[str | None, ...], _Scored] = {}  # of these questions
        self._extra, self._samples = int(run.sampling.get("extra_tokens", 0)), run.samples

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
        rows = [*(self.data.read if _has_claims(task) else self.data.question_rows)(config)]
        questions = self._digests_of(rows)
        samples = self._samples_of(config, task, rows, questions)
        labels, evidence = self._read(config, task, rows, samples)
        scores, examples = samples.means(samples.official), Counter[str]()
        for index, (kind, text) in labels.items():
            examples[kind] += 1
            if examples[kind] <= EXAMPLES:
                self.examples.append(_example(config, rows[index], scores[index], kind, text))
        scored = _config_scores(task, info, samples, labels, _depth(evidence))
        digest = info.question_digest
        return replace(scored, question_digest=digest, questions="".join(questions))

    def _digests_of(self, rows: Sequence[Row]) -> list[str]:
        """Return the question digests of rows; lengths of a task often ask the same."""
        asked = [(row.question, row.answer_prefix, row.outputs, row.max_new_tokens) for row in rows]
        if asked != self._asked[0]:
            self._asked, self._known = (asked, [*map(question_digest, rows)]), {}
        return self._asked[1]

    def _samples_of(
        self, config: str, task: Task, rows: Sequence[Row], questions: Sequence[str]
    ) -> _Samples:
        """Return the answers to rows with what can be scored without their context."""
        numbers = range(self._samples)
        records, texts = list[Answer | None](), list[str]()
        official, exact = list[Any](), list[Any]()
        for row, question in zip(rows, questions, strict=True):
            for number in numbers:
                text, score, pair = "", None, None
                record = self.answers.get((config, row.index, number))
                if record is not None:
                    _check(config, row, record, question)
                    if not self._why_unanswered(row, record) and record.text is not None:
                        text, score, pair = self._scored(row, task, record, question)
                records.append(record)
                texts.append(text)
                official.append(score)
                exact.append(pair)
        self.tally.add(records, texts, official)
        return _Samples(self._samples, records, texts, official, exact)

    def _scored(self, row: Row, task: Task, record: Answer, question: str) -> _Scored:
        """Return what can be scored of an answer; the same one at another length has the same."""
        key = task.name, question, record.text, record.reasoning
        if key in self._known and not _has_claims(task):
            return self._known[key]
        text, score = score_answer(row, task, record, opened=self._opened)
        pair = exact_without_context(row, task, text, score) if score == 1 else None
        if pair != (1.0, 1.0) and task.params.family != "qa":
            pair = None
        self._known[key] = text, score, pair
        return text, score, pair

    def _read(
        self, config: str, task: Task, rows: Sequence[Row], samples: _Samples
    ) -> tuple[dict[int, tuple[str, str]], list[Evidence]]:
        """Read the contexts that scores depend on, and complete the exact scores.

        Returns:
            by row, the label of the first sample that has one, and its text; and what the first
            samples show of the evidence.
        """
        labels, evidence = dict[int, tuple[str, str]](), list[Evidence]()
        is_needle, unread = isinstance(task.params, Niah), set[int]()
        for index, (row, place) in enumerate(zip(rows, samples.places, strict=True)):
            if not samples.answered[index]:
                continue
            if None in samples.exact[place] or (is_needle and not row.haystack):
                unread.add(index)
            elif is_needle:
                text, score = samples.texts[place.start], samples.official[place.start]
                evidence.append([*evidence_of(row, text, score)])
        with closing(self.data.contexts(config, unread)) as contexts:
            for index, context in contexts:
                row, place = replace(rows[index], context=context), samples.places[index]
                scored = [*zip(samples.texts[place], samples.official[place], strict=True)]
                samples.exact[place] = [exact_scores(row, task, *pair) for pair in scored]
                found = ((failure_of(row, task, *pair) or "", pair[0]) for pair in scored)
                label = next((label for label in found if label[0]), None)
                if label:
                    labels[index] = label
                if is_needle:
                    evidence.append([*evidence_of(row, *scored[0])])
        return labels, evidence

    def _why_unanswered(self, row: Row, record: Answer) -> str | None:
        """Return why a record of a run does not answer its row, beside what `settle` saw."""
        if record.error is not None or not self._is_run:
            return record.error
        budget = row.max_new_tokens + self._extra
        reason = why_unanswered(record, budget=budget)
        words, prompt = len((record.text or "").split()), row.length - row.max_new_tokens
        if reason is None and record.question_digest is None:
            reason = "its question is not recorded"
        if reason is None and words > WORDS * budget:
            reason = f"{words:,} words are more than {budget:,} tokens hold"
        read = None if self.run.no_context or record.calls else record.prompt_tokens
        if reason is None and read is not None and read < prompt / SHORTEST:
            reason = f"{read:,} prompt tokens are not the row's {prompt:,}"
        if reason is not None:
            self.reasons[reason] += 1
        return reason


def _has_claims(task: Task) -> bool:
    """Whether the official score depends on the context, from which a value may be claimed."""
    return isinstance(task.params, Niah) and task.params.none != "no"


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
            "; `ruler-eval audit` says which rows they are of"
        )
        raise RulerError(msg)


def _config_scores(
    task: Task,
    info: ConfigInfo,
    samples: _Samples,
    labels: Mapping[int, tuple[str, str]],
    depth: Depth | None,
) -> ConfigScores:
    """Return the scores of a config as columns."""
    number, answered, records = samples.number, samples.answered, samples.records
    exact, f1 = ([pair and pair[side] for pair in samples.exact] for side in (0, 1))
    headline = exact if task.headline == "exact" else samples.official
    scored = [row for row, holds in enumerate(answered) if holds]
    by_sample: list[list[float]] = [
        [headline[row * number + sample] for row in scored] for sample in range(number)
    ]
    first = [records[row * number] if holds else None for row, holds in enumerate(answered)]
    has_record = {place // number for place, record in enumerate(records) if record}
    cost = cost_of(record for row in scored for record in records[samples.places[row]] if record)
    failures: dict[str, list[int]] = {}
    for index, (label, _) in labels.items():
        failures.setdefault(label, []).append(index)
    return ConfigScores(
        digest=info.digest,
        family=task.params.family,
        category=task.category,
        metric=task.metric,
        rows=len(answered),
        scores=Column(samples.means(samples.official)),
        exact=Column(samples.means(exact)),
        f1=Column(samples.means(f1)),
        characters=Counts([len(record.text or "") if record else None for record in first]),
        tokens=Counts([record.answer_tokens if record else None for record in first]),
        truncated=samples.rows(record and record.finish == "length" for record in records),
        empty=samples.rows(not text.strip() for text in samples.texts),
        failed=tuple(sorted(has_record.difference(scored))),
        missing=tuple(row for row in range(len(answered)) if row not in has_record),
        failures={label: tuple(indexes) for label, indexes in sorted(failures.items())},
        depth=depth,
        params=params_of(task),
        floor=info.floor,
        headline=task.headline,
        same_questions_as=task.same_questions_as,
        samples=tuple(map(fmean, by_sample)) if number > 1 and scored else (),
        cost=cost if cost.rows else None,
    )


def _depth(evidence: Sequence[Evidence]) -> Depth | None:
    """Return the pieces of evidence of a config by depth; None if it has none."""
    pieces = Counter(chain.from_iterable(evidence))
    rows = Counter(cell for of_row in evidence for cell in {cell for cell, _ in of_row})
    cells = range(BINS)
    shown = tuple(pieces[cell, True] for cell in cells)
    total = tuple(pieces[cell, False] + shown[cell] for cell in cells)
    return Depth(total, shown, tuple(rows[cell] for cell in cells)) if pieces else None


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
