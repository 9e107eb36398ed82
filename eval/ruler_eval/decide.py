"""`run --until-decided`: rows in a random order, until `ruler_eval.sequential` has decided.

    effective=85.6    the longest length whose mean is at least 85.6; the longest comes first
    not-worse=1       at no length more than 1 point below the run --baseline; stops at the first
    within=0.5        the mean of each length within ± 0.5 points

A round is one row of each task of a length. Answers count once their round and all before it are
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
from ruler_eval.answers import Answer, Key, score_answer
from ruler_eval.data import Dataset
from ruler_eval.run_dir import RunFolder, RunInfo, obstacles, read_info
from ruler_eval.run_rows import rows_of_run
from ruler_eval.sequential import ALPHA, Side, interval_of, order_of, side_of

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
        known = ", ".join(f"{name}={points:g}" for name, points in QUESTIONS.items())
        msg = f"--until-decided {quote(text)}: not a question; give one of {known}"
        raise UsageError(msg)
    return Question(kind, points, None if baseline is None else Path(baseline))


class Length:
    """What is known of a length."""

    def __init__(self, length: int, tasks: list[str], rows: int, alpha: float) -> None:
        """Start without answers to the rows of each task; `alpha` is the chance of each side."""
        self.length, self.tasks, self.rows, self.alpha = length, tasks, rows, alpha
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
        if rounds < self.rows:
            low_scores, high_scores = self.scores[:, :rounds]
            self.side = side_of(low_scores, high_scores, limit, self.rows, self.alpha)
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
        self._sent: dict[Key, tuple[Length, int, int, Row]] = {}
        self._baseline = _baseline(question.baseline, info) if question.baseline else {}
        configs = [parse_config(name) for name in data.rows]
        lengths = sorted({length for _, length in configs}, reverse=question.kind == "effective")
        alpha = ALPHA / 2 if question.kind == "within" else ALPHA / len(lengths)
        self.lengths = []
        for length in lengths:
            tasks = [task for task, each in configs if each == length]
            counts = sorted({data.rows[f"{task}_{length}"] for task in tasks})
            if len(counts) > 1:
                have = f"the tasks of length {length} have {counts[0]} to {counts[-1]} rows"
                msg = f"--until-decided: {have}; it needs as many of each (--rows)"
                raise UsageError(msg)
            self.lengths.append(Length(length, tasks, counts[0], alpha))

    @property
    def is_over(self) -> bool:
        """Whether the answer is known, so that no further row is needed."""
        end = {"effective": "above", "not-worse": "below"}.get(self.question.kind, "")
        return any(one.side == end for one in self.lengths) or all(
            one.is_over for one in self.lengths
        )

    def rows(
        self, answers: Mapping[Key, Answer], held: int | None
    ) -> Iterator[tuple[str, Row] | None]:
        """Yield rows to send, with their config; None while `held` rounds of them are unanswered.

        Args:
            answers: the rows that are answered, which count without being generated again.
            held: see `HELD`; None for an engine that holds few rows anyway.
        """
        for one in self.lengths:
            for number, place, row in self._in_order(one):
                config = f"{one.tasks[place]}_{one.length}"
                key = (config, row.index, 0)
                answer = answers.get(key)
                while held and answer is None and len(self._sent) >= held * len(one.tasks):
                    yield None
                if self.is_over or one.is_over:
                    break
                self._sent[key] = one, number, place, row
                if answer is not None:
                    self.add(answer)
                else:
                    yield config, row

    def _in_order(self, one: Length) -> Iterator[tuple[int, int, Row]]:
        """Yield the number of the round, the place of the task, and the row."""
        for start in range(0, one.rows, BLOCK):
            rows: dict[tuple[int, int], Row] = {}
            for place, task in enumerate(one.tasks):
                order = order_of(task, one.rows)[start : start + BLOCK]
                rounds = {index: number for number, index in enumerate(order, start)}
                with closing(self._data.read_alike(f"{task}_{one.length}", rounds)) as some:
                    rows |= {(rounds[row.index], place): row for row in some}
            yield from ((*at, rows[at]) for at in sorted(rows))

    def add(self, answer: Answer) -> None:
        """Count an answer, or a failure, and look whether it decides."""
        with self._lock:
            one, number, place, row = self._sent.pop(answer.key)
            one.scores[:, number, place] = self._bounds(answer, row)
            one.decide(self.question)

    def replay(self, answers: Mapping[Key, Answer]) -> None:
        """Count all answers that there are."""
        for one in self.lengths:
            for place, task in enumerate(one.tasks):
                config = f"{task}_{one.length}"
                rounds = {index: number for number, index in enumerate(order_of(task, one.rows))
                          if (config, index, 0) in answers}  # fmt: skip
                with closing(self._data.read(config)) as rows:
                    for row in rows if rounds else ():
                        if row.index in rounds:
                            bounds = self._bounds(answers[config, row.index, 0], row)
                            one.scores[:, rounds[row.index], place] = bounds
            one.decide(self.question)

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
                str(one.length): {
                    "side": one.side,
                    "rows": one.rounds * len(one.tasks),
                    "of": one.rows * len(one.tasks),
                    "rows_of_a_task": one.rounds,
                    "bounds": [round(scale * bound + shift, 2) for bound in one.bounds],
                }
                for one in self.lengths
            },
        }

    @property
    def sentence(self) -> str:
        """The answer in one line, with the rows that it took."""
        points, kind = self.question.points, self.question.kind
        used = sum(one.rounds * len(one.tasks) for one in self.lengths)
        every = sum(one.rows * len(one.tasks) for one in self.lengths)
        above, below, unsure = (
            [one.length for one in self.lengths if one.side == side]
            for side in ("above", "below", None)
        )
        if kind == "within":
            done = "; ".join(
                f"{one.length:,}: {100 * one.bounds[0]:.1f} to {100 * one.bounds[1]:.1f}"
                for one in self.lengths
                if one.is_decided
            )
            finding = f"mean within ± {points:g} at {done or 'no length yet'}"
        elif kind == "not-worse":
            finding = (
                "cannot tell whether it is worse than" if unsure else "not worse at any length than"
            )
            finding = f"worse at {below[0]:,} tokens than" if below else finding
            base = self.question.baseline.name if self.question.baseline else ""
            finding = f"{finding} {quote(base)} by {points:g} points"
        else:
            longest = max(above, default=0)
            lengths = ", ".join(f"{length:,}" for length in unsure if length > longest)
            but = f" (cannot tell at {lengths})" if lengths else ""
            tasks = {task for one in self.lengths for task in one.tasks}
            what = "" if tasks == {*TASKS} else f" of the mean of these {len(tasks)} tasks"
            end = f"{longest:,}" if longest else "none"
            finding = f"effective length{what} at {points:g}: {end}{but}"
        return f"{finding}, after {used:,} of {every:,} rows"


def decision_of(
    folder: Path, rows_of: Callable[[Path, RunInfo], Dataset] = rows_of_run
) -> dict[str, Any] | None:
    """Return what the answers of a run decide, of the question that it was last started with.

    None without a question, and once all rows are answered: then their scores decide.
    """
    run = RunFolder(folder)
    start = next((one for one in reversed([*run.starts()]) if "until_decided" in one), None)
    if start is None:
        return None
    info, answers = read_info(folder), run.answers()
    if sum(one.error is None for one in answers.values()) >= sum(info.data.rows.values()):
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
    answers = [one for one in RunFolder(folder).answers().values() if one.error is None]
    base = read_info(folder)
    why = [*obstacles(base, info)]
    if base.data.seed != info.data.seed:
        why.append("the seeds differ, so that no question is shared")
    known = {one.config: base.data.rows.get(one.config, 0) for one in answers}
    if lacking := [name for name, rows in info.data.rows.items() if known.get(name, 0) < rows]:
        more = f" and {counted(len(lacking) - 1, 'more config')}" * (len(lacking) > 1)
        why.append(f"it lacks rows of {lacking[0]}{more}; resume it, or run fewer (--rows)")
    if not all(one.question_digest for one in answers):
        why.append("its answers record no questions; run it again")
    if why:
        option = f"--baseline {quote(str(folder))}"
        raise UsageError(option, f"cannot be compared: {'; '.join(why)}")
    return {(one.config, one.question_digest or ""): one for one in answers}
