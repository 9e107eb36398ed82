"""`run --until-decided`: rows in a random order, until `ruler_eval.running.sequential` has decided.

    effective=85.6    the longest length whose mean is at least 85.6; the longest comes first
    not-worse=1       no mean, by length or by category, more than 1 point below the run --baseline;
                      as `ruler-eval gate` asks; stops at the first that is
    within=0.5        the mean of each length within ± 0.5 points

A round is one row of each task of a length; for not-worse the lengths take turns, and a question's
scores at all lengths are one of its category. Answers count once their round and all before it are
complete; a row that failed counts as 0 in the lower bound and as 1 in the upper. A start records
its question; `decision_of` derives the decision from the answers, until all rows are answered. A
run that stopped has the same description as one over all rows, so that the same command without the
option carries it on.
"""

from collections.abc import Callable, Iterator, Mapping
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from threading import Lock
from typing import Any

import numpy as np

from ruler_data.errors import RulerError, UsageError
from ruler_data.names import counted, parse_config, quote
from ruler_data.reasoning import opens
from ruler_data.row import Row, question_digest
from ruler_data.tasks import TASKS
from ruler_eval.running.answers import Answer, Key, score_answer
from ruler_eval.running.data import Dataset
from ruler_eval.running.run_dir import RunFolder, RunInfo, obstacles, read_info
from ruler_eval.running.sequential import ALPHA, Floats, Side, interval_of, order_of, side_of
from ruler_eval.scoring.run_rows import rows_of_run

#: Rounds that are read from the files together, and those that an engine may hold at once.
BLOCK, HELD = 10, 2
#: The questions, with the number that stands for none: Llama-2-7B's score at 4,096 tokens (RULER,
#: arXiv 2404.06654, Table 3).
QUESTIONS = {"effective": 85.6, "not-worse": 1.0, "within": 1.0}


@dataclass(frozen=True)
class Question:
    """What a run is to decide; `points` are percentage points, `baseline` the folder of a run."""

    kind: str
    points: float
    baseline: Path | None = None

    def __str__(self) -> str:
        return f"{self.kind}={self.points:g}"

    def to_record(self) -> dict[str, str]:
        """Return what a start records of it."""
        baseline = {"baseline": str(self.baseline.absolute())} if self.baseline else {}
        return {"until_decided": str(self), **baseline}


def parse_question(text: str, baseline: str | Path | None) -> Question:
    """Return the question of `--until-decided`, e.g. `effective=85.6`, and `--baseline`."""
    kind, _, number = text.partition("=")
    if (kind == "not-worse") != (baseline is not None):
        msg = "--baseline is for --until-decided not-worse, which needs it"
        raise UsageError(msg)
    try:
        points = float(number) if number else QUESTIONS[kind]
    except (KeyError, ValueError):
        points = -1.0
    if kind not in QUESTIONS or not 0 < points < 100:
        choices = ", ".join(f"{name}={points:g}" for name, points in QUESTIONS.items())
        msg = f"--until-decided {quote(text)}: not a question; give one of {choices}"
        raise UsageError(msg)
    return Question(kind, points, None if baseline is None else Path(baseline))


class Mean:
    """What is known of a mean: of a length, or of a category over all lengths."""

    def __init__(self, name: int | str, tasks: list[str], rows: int, alpha: float) -> None:
        """Start without answers to the rows of each task; `alpha` is the chance of each side."""
        self.name, self.tasks, self.rows, self.alpha = name, tasks, rows, alpha
        #: Low and high scores of rounds by tasks; NaN without an answer.
        self.scores = np.full((2, rows, len(tasks)), np.nan)
        self.rounds = 0  # complete
        self.side: Side = None
        self.is_decided = False

    @property
    def is_over(self) -> bool:
        """Whether it is decided, or has no more rows."""
        return self.is_decided or self.rounds == self.rows

    @property
    def bounds(self) -> tuple[float, float]:
        """Bounds of the mean of all rows, in [0, 1]; each is wrong with a chance of `alpha`."""
        low, high = self.scores[:, : self.rounds]
        return interval_of(low, high, self.rows, 2 * self.alpha)

    def decide(self, question: Question) -> None:
        """Look at the complete rounds, once more than before."""
        incomplete = np.isnan(self.scores[0]).any(axis=1)
        rounds = int(incomplete.argmax()) if incomplete.any() else self.rows
        if self.is_decided or rounds == self.rounds:
            return
        self.rounds, share = rounds, question.points / 100
        if question.kind == "within":
            low, high = self.bounds
            self.is_decided = high - low <= 2 * share
            return
        limit = share if question.kind == "effective" else (1 - share) / 2
        # Not worse is said only if every mean is above, so that none of them is corrected.
        above = self.alpha if question.kind == "effective" else ALPHA
        if rounds < self.rows:
            low_scores, high_scores = self.scores[:, :rounds]
            self.side = side_of(low_scores, high_scores, limit, self.rows, self.alpha, above)
        else:
            low, high = self.bounds
            self.side = "above" if low >= limit else "below" if high < limit else None
        self.is_decided = self.side is not None


class Decision:
    """A question that is decided row by row; used by two threads."""

    def __init__(self, question: Question, data: Dataset, info: RunInfo) -> None:
        """Start without answers.

        Raises:
            UsageError: the tasks of a length have different numbers of rows, or the baseline cannot
                be compared.
        """
        self.question, self._data, self._info = question, data, info
        self._lock = Lock()
        self._sent: dict[Key, tuple[Mean, int, int, Row]] = {}
        self._baseline = _baseline(question.baseline, info) if question.baseline else {}
        configs = [parse_config(name) for name in data.rows]
        lengths = sorted({length for _, length in configs}, reverse=question.kind == "effective")
        table = data.manifest.table
        tasks_asked = [task for task in dict.fromkeys(task for task, _ in configs)
                 if all((task, length) in configs for length in lengths)]  # fmt: skip
        self._is_gate = question.kind == "not-worse"
        categories = (
            dict.fromkeys(table[task].category for task in tasks_asked) if self._is_gate else {}
        )
        tests = len(lengths) + len(categories)
        alpha = ALPHA / 2 if question.kind == "within" else ALPHA / tests
        self.lengths: list[Mean] = []
        for length in lengths:
            tasks = [task for task, config_length in configs if config_length == length]
            counts = sorted({data.rows[f"{task}_{length}"] for task in tasks})
            if self._is_gate and self.lengths:
                counts = sorted({*counts, self.lengths[0].rows})
            if len(counts) > 1:
                have = f"the tasks of length {length} have {counts[0]} to {counts[-1]} rows"
                msg = f"--until-decided: {have}; it needs as many of each (--rows)"
                raise UsageError(msg)
            self.lengths.append(Mean(length, tasks, counts[0], alpha))
        rows = self.lengths[0].rows
        self.categories = [
            Mean(name, [task for task in tasks_asked if table[task].category == name], rows, alpha)
            for name in categories
        ]

    @property
    def _means(self) -> list[Mean]:
        return [*self.lengths, *self.categories]

    @property
    def is_over(self) -> bool:
        """Whether the answer is known, so that no further row is needed."""
        end = {"effective": "above", "not-worse": "below"}.get(self.question.kind, "")
        return any(mean.side == end for mean in self._means) or all(
            mean.is_over for mean in self._means
        )

    def rows(
        self, answers: Mapping[Key, Answer], held: int | None
    ) -> Iterator[tuple[str, Row] | None]:
        """Yield rows to send, with their config; None while `held` rounds of them are unanswered.

        Args:
            answers: the rows that are answered, which count without being generated again.
            held: see `HELD`; None for an engine that holds few rows anyway.
        """
        for mean, number, place, row in self._in_turn():
            if self.is_over or (mean.is_over and not self._is_gate):
                continue
            config = f"{mean.tasks[place]}_{mean.name}"
            key = (config, row.index, 0)
            answer = answers.get(key)
            while held and answer is None and len(self._sent) >= held * len(mean.tasks):
                yield None
            if self.is_over or (mean.is_over and not self._is_gate):
                continue
            self._sent[key] = mean, number, place, row
            if answer is not None:
                self.add(answer)
            else:
                yield config, row

    def _in_turn(self) -> Iterator[tuple[Mean, int, int, Row]]:
        """Yield rows length by length; for not-worse the blocks of all lengths in turn."""
        if not self._is_gate:
            for mean in self.lengths:
                yield from ((mean, *at) for at in self._in_order(mean))
            return
        for start in range(0, self.lengths[0].rows, BLOCK):
            for mean in self.lengths:
                if not self.is_over:
                    yield from ((mean, *at) for at in self._in_order(mean, start, start + BLOCK))

    def _in_order(
        self, mean: Mean, begin: int = 0, end: int | None = None
    ) -> Iterator[tuple[int, int, Row]]:
        """Yield the number of the round, the place of the task, and the row."""
        for start in range(begin, mean.rows if end is None else end, BLOCK):
            if mean.is_over and not self._is_gate:
                return
            rows: dict[tuple[int, int], Row] = {}
            for place, task in enumerate(mean.tasks):
                order = order_of(task, mean.rows)[start : start + BLOCK]
                rounds = {index: number for number, index in enumerate(order, start)}
                with closing(self._data.read_alike(f"{task}_{mean.name}", rounds)) as stream:
                    rows |= {(rounds[row.index], place): row for row in stream}
            yield from ((*at, rows[at]) for at in sorted(rows))

    def add(self, answer: Answer) -> None:
        """Count an answer, or a failure, and look whether it decides."""
        with self._lock:
            mean, number, place, row = self._sent.pop(answer.key)
            mean.scores[:, number, place] = self._bounds(answer, row)
            mean.decide(self.question)
            task = mean.tasks[place]
            for category in self.categories:
                if task in category.tasks:
                    category.scores[:, number, category.tasks.index(task)] = self._of(task)[
                        :, number
                    ]
                    category.decide(self.question)

    def _of(self, task: str) -> Floats:
        """Return the scores of a task's questions: the means over all lengths."""
        columns = [mean.scores[:, :, mean.tasks.index(task)] for mean in self.lengths]
        return np.asarray(np.mean(columns, axis=0))

    def replay(self, answers: Mapping[Key, Answer]) -> None:
        """Count all answers that there are."""
        for mean in self.lengths:
            for place, task in enumerate(mean.tasks):
                config = f"{task}_{mean.name}"
                rounds = {index: number for number, index in enumerate(order_of(task, mean.rows))
                          if (config, index, 0) in answers}  # fmt: skip
                with closing(self._data.read(config)) as rows:
                    for row in rows if rounds else ():
                        if row.index in rounds:
                            bounds = self._bounds(answers[config, row.index, 0], row)
                            mean.scores[:, rounds[row.index], place] = bounds
            mean.decide(self.question)
        for category in self.categories:
            columns = [self._of(task) for task in category.tasks]
            category.scores = np.stack(columns, axis=-1)
            category.decide(self.question)

    def _bounds(self, answer: Answer, row: Row) -> tuple[float, float]:
        """Return what is averaged of a row, in [0, 1]: its least and its largest."""
        low, high = self._score(answer, row)
        if self.question.kind == "not-worse":
            least, most = self._score(
                self._baseline.get((answer.config, question_digest(row))), row
            )
            low, high = (low - most + 1) / 2, (high - least + 1) / 2
        return low, high

    def _score(self, answer: Answer | None, row: Row) -> tuple[float, float]:
        """Return the score of an answer; without one all that it could be, 0 to 1."""
        if answer is None or answer.error is not None or answer.text is None:
            return 0.0, 1.0
        if answer.question_digest not in (None, question_digest(row)):
            return 0.0, 1.0
        task, opened = self._data.manifest.table[row.task], opens(self._info.frame)
        return (score_answer(row, task, answer, opened=opened)[1],) * 2

    def to_record(self) -> dict[str, object]:
        """Return the decision as JSON values."""
        kind, baseline = self.question.kind, self.question.baseline
        scale, shift = (200, -100) if kind == "not-worse" else (100, 0)
        of_each = ", of each length" if kind == "within" else ""
        share = f"at most {100 * ALPHA:g} % of such runs"
        return {
            "question": str(self.question),
            "baseline": baseline.name if baseline else None,
            "decided": self.is_over,
            "answer": self.sentence,
            "guarantee": f"{share} say what all frozen rows contradict{of_each}",
            "lengths": {
                str(mean.name): {
                    "side": mean.side,
                    "rows": mean.rounds * len(mean.tasks),
                    "of": mean.rows * len(mean.tasks),
                    "rows_of_a_task": mean.rounds,
                    "bounds": [round(scale * bound + shift, 2) for bound in mean.bounds],
                }
                for mean in self.lengths
            },
            "categories": {
                str(mean.name): {
                    "side": mean.side,
                    "bounds": [round(scale * bound + shift, 2) for bound in mean.bounds],
                }
                for mean in self.categories
            },
        }

    @property
    def sentence(self) -> str:
        """The answer in one line, with the rows that it took."""
        points, kind = self.question.points, self.question.kind
        used = sum(mean.rounds * len(mean.tasks) for mean in self.lengths)
        planned = sum(mean.rows * len(mean.tasks) for mean in self.lengths)
        above, below, unsure = (
            [int(mean.name) for mean in self.lengths if mean.side == side]
            for side in ("above", "below", None)
        )
        if kind == "within":
            done = "; ".join(
                f"{mean.name:,}: {100 * mean.bounds[0]:.1f} to {100 * mean.bounds[1]:.1f}"
                for mean in self.lengths
                if mean.is_decided
            )
            finding = f"mean within ± {points:g} at {done or 'no length yet'}"
        elif kind == "not-worse":
            places = [f"at {length:,} tokens" for length in below]
            places += [f"in {mean.name}" for mean in self.categories if mean.side == "below"]
            unsure += [0 for mean in self.categories if mean.side is None]
            finding = "not worse at any length or in any category than"
            finding = "cannot tell whether it is worse than" if unsure else finding
            finding = f"worse {places[0]} than" if places else finding
            base = self.question.baseline.name if self.question.baseline else ""
            finding = f"{finding} {quote(base)} by {points:g} points"
        else:
            longest = max(above, default=0)
            lengths = ", ".join(f"{length:,}" for length in unsure if length > longest)
            but = f" (cannot tell at {lengths})" if lengths else ""
            tasks = {task for mean in self.lengths for task in mean.tasks}
            of_tasks = "" if tasks == {*TASKS} else f" of the mean of these {len(tasks)} tasks"
            end = f"{longest:,}" if longest else "none"
            finding = f"effective length{of_tasks} at {points:g}: {end}{but}"
        return f"{finding}, after {used:,} of {planned:,} rows"


def decision_of(
    folder: Path, rows_of: Callable[[Path, RunInfo], Dataset] = rows_of_run
) -> dict[str, Any] | None:
    """Return what the answers of a run decide, of the question that it was last started with.

    None without a question, and once all rows are answered: then their scores decide.
    """
    run = RunFolder(folder)
    start = next((begun for begun in reversed([*run.starts()]) if "until_decided" in begun), None)
    if start is None:
        return None
    info, answers = read_info(folder), run.answers()
    if sum(record.error is None for record in answers.values()) >= sum(info.data.rows.values()):
        return None
    text = str(start["until_decided"])
    try:
        question = parse_question(text, str(start["baseline"]) if "baseline" in start else None)
        decision = Decision(question, rows_of(folder, info).fetch(), info)
        decision.replay(answers)
    except (RulerError, OSError) as error:
        answer = f"{quote(text)}: what the answers decide cannot be told ({error})"
        return {"question": text, "decided": False, "answer": answer, "guarantee": ""}
    return decision.to_record()


def _baseline(folder: Path, info: RunInfo) -> dict[tuple[str, str], Answer]:
    """Return the answers of a baseline, by config and question digest.

    Raises:
        UsageError: it cannot be compared, or lacks a task of a length.
    """
    answers = [answer for answer in RunFolder(folder).answers().values() if answer.error is None]
    base = read_info(folder)
    why = [*obstacles(base, info)]
    if base.data.seed != info.data.seed:
        why.append("the seeds differ, so that no question is shared")
    rows_of = {answer.config: base.data.rows.get(answer.config, 0) for answer in answers}
    if lacking := [name for name, rows in info.data.rows.items() if rows_of.get(name, 0) < rows]:
        more = f" and {counted(len(lacking) - 1, 'more config')}" * (len(lacking) > 1)
        why.append(f"it lacks rows of {lacking[0]}{more}; resume it, or run fewer (--rows)")
    if not all(answer.question_digest for answer in answers):
        why.append("its answers record no questions; run it again")
    if why:
        option = f"--baseline {quote(str(folder))}"
        raise UsageError(option, f"cannot be compared: {'; '.join(why)}")
    return {(answer.config, answer.question_digest or ""): answer for answer in answers}
