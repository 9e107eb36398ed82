"""`run --until-decided`: rows in a random order, until `ruler_eval.sequential` has decided.

    effective=85.6    the longest length whose mean is at least 85.6; the longest is asked first
    not-worse=1       at no length more than 1 point below the run --baseline; stops at the first
    within=0.5        the mean of each length within ± 0.5 points

A round is one row of each task of a length. Answers count once their round and all before it are
complete; a row that failed counts as 0 and as 1, whatever hurts. What was found stands in
`decision.json`. A run that stopped has the same description as one over all rows, so that the same
command without the option carries it on.
"""

import json
from collections.abc import Iterator, Mapping
from contextlib import closing
from dataclasses import dataclass, field
from pathlib import Path
from threading import Lock

import numpy as np

from ruler_data.errors import UsageError
from ruler_data.files import write_file
from ruler_data.names import parse_config, quote
from ruler_data.row import Row, question_digest
from ruler_data.tasks import Task
from ruler_eval.answers import Answer, Key, scored_text
from ruler_eval.data import Dataset
from ruler_eval.metrics import CLEANED, score_row
from ruler_eval.reasoning import opens
from ruler_eval.run_dir import DECISION, RunFolder
from ruler_eval.schema import RunInfo, read_info
from ruler_eval.sequential import ALPHA, Floats, Side, interval_of, order_of, side_of

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


def parse_question(text: str, baseline: str | Path | None) -> Question:
    """Return the question of `--until-decided`, e.g. `effective=85.6`, and `--baseline`."""
    kind, _, number = text.partition("=")
    try:
        points = float(number) if number else QUESTIONS[kind]
    except (KeyError, ValueError):
        points = -1.0
    if kind not in QUESTIONS or not 0 < points < 100:
        known = ", ".join(f"{name}={points:g}" for name, points in QUESTIONS.items())
        msg = f"--until-decided {quote(text)}: not a question; give one of {known}"
        raise UsageError(msg)
    if (kind == "not-worse") != (baseline is not None):
        msg = "--baseline is for --until-decided not-worse, which needs it"
        raise UsageError(msg)
    return Question(kind, points, None if baseline is None else Path(baseline))


@dataclass
class Length:
    """What is known of a length; scores of rounds by tasks, and NaN where no answer came yet."""

    length: int
    tasks: dict[str, Task]
    rows: int
    low: Floats
    high: Floats
    side: Side = None
    bounds: tuple[float, float] = (0.0, 1.0)
    rounds: int = 0  # complete
    decided: int | None = None  # rounds after which it was
    orders: dict[str, list[int]] = field(default_factory=dict)

    @property
    def is_over(self) -> bool:
        """Whether it is decided, or has no more rows."""
        return self.decided is not None or self.rounds == self.rows

    def decide(self, question: Question, alpha: float) -> None:
        """Look at the complete rounds, once more than before."""
        whole = ~np.isnan(self.low).any(axis=1)
        rounds = self.rows if whole.all() else int(whole.argmin())
        if self.decided is not None or rounds == self.rounds:
            return
        self.rounds = rounds
        low, high = self.low[:rounds], self.high[:rounds]
        if question.kind == "within":
            self.bounds = interval_of(low, high, self.rows, alpha)
            is_decided = 100 * (self.bounds[1] - self.bounds[0]) <= 2 * question.points
        else:
            share = question.points / 100
            limit = share if question.kind == "effective" else (1 - share) / 2
            if rounds < self.rows:  # with the last row every mean is on one side
                self.side = side_of(low, high, limit, self.rows, alpha)
            is_decided = self.side is not None
        self.decided = rounds if is_decided else None


class Decision:
    """A question that is decided row by row; used by two threads."""

    def __init__(self, question: Question, data: Dataset, info: RunInfo) -> None:
        """Start without answers.

        Raises:
            UsageError: the tasks of a length have different numbers of rows.
        """
        self.question, self._data, self._info = question, data, info
        self._lock = Lock()
        self._asked: dict[Key, tuple[Length, int, int, Row]] = {}
        self.lengths = list(_lengths(data, longest_first=question.kind == "effective"))
        share = 1 if question.kind == "within" else len(self.lengths)
        self.alpha = ALPHA / share
        self._baseline = _answers_by_question(question.baseline) if question.baseline else {}

    @property
    def is_over(self) -> bool:
        """Whether the answer is known, so that no further row is needed."""
        ends = {"effective": "above", "not-worse": "below"}.get(self.question.kind, "")
        return all(one.is_over for one in self.lengths) or any(
            one.side == ends for one in self.lengths
        )

    def rows(
        self, found: Mapping[Key, Answer], held: int | None
    ) -> Iterator[tuple[str, Row] | None]:
        """Yield rows to ask, with their config; None while `held` rounds of them are not answered.

        Args:
            found: answers of the folder, which count without being asked again.
            held: see `HELD`; None for an engine that holds few rows anyway.
        """
        for one in self.lengths:
            for start in range(0, one.rows, BLOCK):
                if self.is_over or one.is_over:
                    break
                yield from self._block(one, range(start, min(start + BLOCK, one.rows)), found, held)

    def _block(
        self, one: Length, rounds: range, found: Mapping[Key, Answer], held: int | None
    ) -> Iterator[tuple[str, Row] | None]:
        rows: dict[tuple[int, int], Row] = {}
        for place, task in enumerate(one.tasks):
            order = one.orders[task]
            wanted = {order[number]: number for number in rounds}
            with closing(self._data.read_alike(f"{task}_{one.length}", wanted)) as some:
                rows |= {(wanted[row.index], place): row for row in some}
        for (number, place), row in sorted(rows.items(), key=lambda one: one[0]):
            config = f"{list(one.tasks)[place]}_{one.length}"
            key = (config, row.index, 0)
            self._asked[key] = one, number, place, row
            answer = found.get(key)
            if answer is not None and answer.error is None:
                self.add(answer)
                continue
            while held and len(self._asked) > held * len(one.tasks):
                yield None
            if self.is_over or one.is_over:
                del self._asked[key]
                return
            yield config, row

    def add(self, answer: Answer) -> None:
        """Count an answer, or a failure, and look whether it decides."""
        with self._lock:
            one, number, place, row = self._asked.pop(answer.key)
            task = list(one.tasks.values())[place]
            score = self._score(answer, row, task)
            low, high = (0.0, 1.0) if score is None else (score, score)
            if self.question.kind == "not-worse":
                base = self._baseline.get((answer.config, question_digest(row)))
                theirs = None if base is None else self._score(base, row, task)
                low = (low - (1.0 if theirs is None else theirs) + 1) / 2
                high = (high - (0.0 if theirs is None else theirs) + 1) / 2
            one.low[number, place], one.high[number, place] = low, high
            one.decide(self.question, self.alpha)

    def _score(self, answer: Answer, row: Row, task: Task) -> float | None:
        if answer.error is not None or answer.text is None:
            return None
        opened, cleaned = opens(self._info.frame), task.metric in CLEANED
        return score_row(row, task, scored_text(answer, opened=opened, cleaned=cleaned))

    def to_record(self) -> dict[str, object]:
        """Return what was found as JSON values."""
        return {
            "question": str(self.question),
            "baseline": self.question.baseline.name if self.question.baseline else None,
            "decided": self.is_over,
            "answer": self.sentence,
            "guarantee": (
                f"at most {100 * ALPHA:g} % of such runs say what all frozen rows contradict"
                + (", of each length" if self.question.kind == "within" else "")
            ),
            "lengths": {str(one.length): self._of_length(one) for one in self.lengths},
        }

    def _of_length(self, one: Length) -> dict[str, object]:
        low, high = one.low[: one.rounds], one.high[: one.rounds]
        bounds = interval_of(low, high, one.rows, self.alpha)
        scale = 100.0 if self.question.kind != "not-worse" else 200.0
        shift = 0.0 if self.question.kind != "not-worse" else -100.0
        return {
            "side": one.side,
            "rows": one.rounds * len(one.tasks),
            "of": one.rows * len(one.tasks),
            "rows_of_a_task": one.rounds,
            "bounds": [round(scale * bound + shift, 2) for bound in bounds],
        }

    @property
    def sentence(self) -> str:
        """The answer in one line, with the rows that it took."""
        points, kind = self.question.points, self.question.kind
        used = sum(one.rounds * len(one.tasks) for one in self.lengths)
        every = sum(one.rows * len(one.tasks) for one in self.lengths)
        after = f", after {used:,} of {every:,} rows"
        by_side = {side: [one.length for one in self.lengths if one.side == side]
                   for side in ("above", "below", None)}  # fmt: skip
        if kind == "within":
            done = [f"{one.length:,}: {100 * one.bounds[0]:.1f} to {100 * one.bounds[1]:.1f}"
                    for one in self.lengths if one.decided is not None]  # fmt: skip
            return f"mean within ± {points:g} at {'; '.join(done) or 'no length yet'}{after}"
        if kind == "not-worse":
            base = self.question.baseline.name if self.question.baseline else ""
            said = "cannot tell whether it is worse than"
            if by_side["below"]:
                said = f"worse at {by_side['below'][0]:,} tokens than"
            elif not by_side[None]:
                said = "not worse at any length than"
            return f"{said} {quote(base)} by {points:g} points{after}"
        longest = max(by_side["above"], default=0)
        unsure = [length for length in by_side[None] if length > longest]
        but = f" (cannot tell at {', '.join(f'{length:,}' for length in unsure)})" if unsure else ""
        found = f"{longest:,}" if longest else "none"
        return f"effective length at {points:g}: {found}{but}{after}"


def _lengths(data: Dataset, *, longest_first: bool) -> Iterator[Length]:
    configs = [parse_config(name) for name in data.rows]
    for length in sorted({length for _, length in configs}, reverse=longest_first):
        tasks = {task: data.manifest.table[task] for task, each in configs if each == length}
        counts = {data.rows[f"{task}_{length}"] for task in tasks}
        if len(counts) > 1:
            have = f"the tasks of length {length} have {min(counts)} to {max(counts)} rows"
            msg = f"--until-decided: {have}; it needs as many of each (--rows)"
            raise UsageError(msg)
        (rows,) = counts
        orders = {task: order_of(task, rows) for task in tasks}
        empty = np.full((rows, len(tasks)), np.nan)
        yield Length(length, tasks, rows, empty, empty.copy(), orders=orders)


def _answers_by_question(run: Path) -> dict[tuple[str, str], Answer]:
    """Return the answers of a run, by config and question digest."""
    info = read_info(run)
    answers = RunFolder(run).answers().values()
    found = {(one.config, one.question_digest or ""): one for one in answers}
    if any(not digest for _, digest in found) or not found:
        what = f"the answers of {info.model} record no questions; run it again"
        msg = f"--baseline {quote(str(run))}: {what}"
        raise UsageError(msg)
    return found


def write_decision(folder: Path, decision: Decision) -> None:
    """Write what was found to the run's folder."""
    text = json.dumps(decision.to_record(), indent=1, ensure_ascii=False)
    write_file(folder / DECISION, text + "\n")
