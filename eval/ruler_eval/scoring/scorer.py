"""The lines of a table of scores, derived from the rows and the answers of a run.

Config by config, in the order of the rows. A context is read only where a score depends on it: most
right answers need the columns of the question alone.
"""

from collections import Counter
from collections.abc import Mapping, Sequence
from contextlib import closing
from dataclasses import replace
from typing import Any

import pyarrow as pa

from ruler_data.errors import RulerError
from ruler_data.names import counted, parse_config
from ruler_data.progress import track
from ruler_data.reasoning import opens
from ruler_data.row import Row, no_cycles, question_digest
from ruler_data.tasks import Niah, Task
from ruler_eval.running.answers import Answer, Key, why_unanswered
from ruler_eval.running.data import Dataset
from ruler_eval.running.run_dir import RunInfo
from ruler_eval.scoring.exact import exact_scores, exact_without_context
from ruler_eval.scoring.inputs import ImportedPrediction
from ruler_eval.scoring.labels import failure_of
from ruler_eval.scoring.metrics import score_answer
from ruler_eval.scoring.table import NOT_ASKED, PREDICTIONS, Line, to_table
from ruler_eval.scoring.validity import MARKS, Tally

#: Most words in a token, in whatever tokenizer; a text of more was not made by the run.
WORDS = 4
#: Most tokens of the row for which one token of a prompt stands, likewise.
SHORTEST = 4

#: What can be scored of an answer without its context: the text that is scored, the official score,
#: and the exact score with F1; None where these depend on the context.
_Scored = tuple[str, float, tuple[float, float] | None]


class Scorer:
    """Makes the lines of a run; counts its answers on the way."""

    def __init__(self, run: RunInfo, answers: Mapping[Key, Answer], data: Dataset) -> None:
        self.run = run
        self.answers = answers
        self.data = data
        self._is_run = run.engine != PREDICTIONS
        self._opened = opens(run.frame)
        self._extra_tokens = int(run.sampling.get("extra_tokens", 0))
        self.tally = Tally(run.protocol, opened=self._opened, is_run=self._is_run)
        self._reasons = Counter[str]()
        # Lengths of a task often ask the same, and an answer may be the same, too.
        self._digests: dict[tuple[Any, ...], str] = {}
        self._scores: dict[tuple[str | None, ...], _Scored] = {}

    @property
    def notes(self) -> list[str]:
        """Why records of a run do not answer their rows."""
        return [f"{counted(n, 'answer')} not counted: {why}" for why, n in self._reasons.items()]

    @no_cycles()
    def table(self) -> pa.Table:
        """Return the table of scores."""
        self.data.fetch()
        lines = list[Line]()
        for config in track(self.data.rows, "scoring"):
            lines += self._lines_of(config)
        return to_table(lines)

    def _lines_of(self, config: str) -> list[Line]:
        """Return the lines of a config."""
        task_name, length = parse_config(config)
        task = self.data.manifest.table[task_name]
        if _has_claims(task):
            rows = [*self.data.read(config)]
        else:
            rows = self.data.question_rows(config)
        lines: list[list[Line]] = []
        unread = set[int]()
        for row in rows:
            question = self._question_of(row)
            lines_of_row = []
            for sample in range(self.run.samples):
                line = Line(task_name, length, row.index, sample, question)
                record = self.answers.get((config, row.index, sample))
                self._fill(line, config, row, task, record)
                lines_of_row.append(line)
            if self._needs_context(row, task, lines_of_row):
                unread.add(row.index)
            lines.append(lines_of_row)
        with closing(self.data.contexts(config, unread)) as contexts:
            for index, context in contexts:
                row = replace(rows[index], context=context)
                for line in lines[index]:
                    if line.official is not None:
                        _complete(line, row, task)
        return [line for lines_of_row in lines for line in lines_of_row]

    def _question_of(self, row: Row) -> str:
        """Return the digest of a row's question."""
        asked = (row.index, row.question, row.answer_prefix, row.outputs, row.max_new_tokens)
        if asked not in self._digests:
            self._digests[asked] = question_digest(row)
        return self._digests[asked]

    def _fill(self, line: Line, config: str, row: Row, task: Task, record: Answer | None) -> None:
        """Write what is known of a row without its context."""
        is_needle = isinstance(task.params, Niah)
        if is_needle and row.haystack:
            line.depth = depths_of(row)
        self.tally.add(record)
        if record is None:
            line.error = NOT_ASKED
            return
        _check(config, row, record, line.question)
        line.finish = record.finish
        line.prompt_tokens = record.prompt_tokens
        line.answer_tokens = record.answer_tokens
        line.seconds = record.seconds
        line.cost = record.cost
        line.error = self._why_unanswered(row, record)
        if line.error is not None:
            return
        line.text, line.official, exact = self._scored(row, task, record, line.question)
        line.empty = not line.text.strip()
        line.truncated = record.finish == "length"
        if exact is not None:
            line.exact, line.f1 = exact
            if is_needle and line.depth is not None:
                line.shown = [line.official == 1] * len(line.depth)
        marked = not line.text.isascii() and _is_marked(line.text, row.outputs)
        self.tally.add_answer(record, line.text, line.official, marked=marked)

    def _scored(self, row: Row, task: Task, record: Answer, question: str) -> _Scored:
        """Return what can be scored without the context."""
        if _has_claims(task):
            return *score_answer(row, task, record, opened=self._opened), None
        key = task.name, question, record.text, record.reasoning
        if key not in self._scores:
            text, official = score_answer(row, task, record, opened=self._opened)
            exact = None
            if official == 1:
                exact = exact_without_context(row, task, text, official)
            if exact != (1.0, 1.0) and task.params.family != "qa":
                exact = None  # its label depends on the context
            self._scores[key] = text, official, exact
        return self._scores[key]

    @staticmethod
    def _needs_context(row: Row, task: Task, lines: Sequence[Line]) -> bool:
        """Whether exact scores, labels or depths of a row's answers depend on its context."""
        answered = [line for line in lines if line.official is not None]
        if isinstance(task.params, Niah) and not row.haystack:  # it lacks the depths
            return bool(answered)
        return any(line.exact is None for line in answered)

    def _why_unanswered(self, row: Row, record: Answer) -> str | None:
        """Return why a record does not answer its row, beside what `settle` saw."""
        if record.error is not None:
            return record.error
        if record.text is None:
            return "the text is null"
        if not self._is_run:
            return None
        reason = self._why_not_of_run(row, record)
        if reason is not None:
            self._reasons[reason] += 1
        return reason

    def _why_not_of_run(self, row: Row, record: Answer) -> str | None:
        """Return why a record of a run cannot be its answer to the row."""
        budget = row.max_new_tokens + self._extra_tokens
        prompt = row.length - row.max_new_tokens
        if reason := why_unanswered(record, budget=budget):
            return reason
        if record.question_digest is None:
            return "its question is not recorded"
        words = len((record.text or "").split())
        if words > WORDS * budget:
            return f"{words:,} words are more than {budget:,} tokens hold"
        read = record.prompt_tokens
        is_whole_prompt = not self.run.no_context and not record.calls
        if is_whole_prompt and read is not None and read < prompt / SHORTEST:
            return f"{read:,} prompt tokens are not the row's {prompt:,}"
        return None


def _has_claims(task: Task) -> bool:
    """Whether the official score depends on the context, from which a value may be claimed."""
    return isinstance(task.params, Niah) and task.params.none != "no"


def _is_marked(text: str, outputs: Sequence[str]) -> bool:
    """Whether a text has a tokenizer's marks for spaces that no gold answer has."""
    return any(mark in text and not any(mark in output for output in outputs) for mark in MARKS)


def _check(config: str, row: Row, record: Answer, question: str) -> None:
    """Refuse an answer to another question than its row's."""
    if record.question_digest not in (None, question):
        raise RulerError(f"{config}/{row.index}: the answer is to another question than the row's")
    outputs = record.outputs if isinstance(record, ImportedPrediction) else None
    if outputs is not None and {*outputs} != {*row.outputs}:
        raise RulerError(
            f"{config}/{row.index}: the gold answers beside the prediction are "
            f"{ascii(list(outputs))[:80]}, those of the row {ascii(list(row.outputs))[:80]}"
            "; `ruler-eval audit` says which rows they are of"
        )


def _complete(line: Line, row: Row, task: Task) -> None:
    """Write what depends on the context: the exact scores, the label and the evidence."""
    official = line.official or 0.0
    line.exact, line.f1 = exact_scores(row, task, line.text, official)
    line.label = failure_of(row, task, line.text, official)
    if isinstance(task.params, Niah):
        line.depth = depths_of(row)
        line.shown = shown_of(row, line.text, official)


def depths_of(row: Row) -> list[float]:
    """Return for each needle where it begins: 0 at the start of the haystack, 1 at its end."""
    start, end = row.haystack or (0, len(row.context))
    return [(first - start) / max(1, end - start) for first, _ in row.evidence]


def shown_of(row: Row, answer: str, score: float) -> list[bool]:
    """Return for each needle whether the answer names its value.

    Half of a needle, or an earlier value, has no gold answer in it, and is shown if the row scores.
    """
    if score in (0, 1):
        return [score == 1] * len(row.evidence)
    said = answer.lower()
    shown = []
    for first, last in row.evidence:
        needle = row.context[first:last].lower()
        values = [output.lower() for output in row.outputs if output.lower() in needle]
        if values:
            _, first_value = min((needle.find(value), value) for value in values)
            shown.append(first_value in said)
        else:
            shown.append(score > 0)
    return shown
