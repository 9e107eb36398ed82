"""The scores of runs, their rows aligned by question; and their means with intervals.

Rows are the same if task, length and the digest of the question are. So a subset stands beside the
whole, `mini` beside `ruler`, and one tokenizer beside another.

A row that a run has and did not answer counts as 0 in the lower bound of its mean, and as 1
in the upper one (Horowitz, Manski, JASA 95 (2000)).
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import product

import numpy as np
import numpy.typing as npt

from ruler_data.names import parse_config
from ruler_report.results_file import ConfigResult, Results
from ruler_report.stats.effective_length import mean_percent
from ruler_report.stats.intervals import Floats, Mean, mean_of

Bools = npt.NDArray[np.bool_]
Ints = npt.NDArray[np.int64]
#: By task, questions by lengths.
Masks = Mapping[str, Bools]
Configs = dict[tuple[str, int], ConfigResult]
Groups = Sequence[Sequence[str]]
#: Task and length; None for the mean over all of them.
Key = tuple[str | None, int | None]


@dataclass(frozen=True)
class Estimate:
    """A mean score in percent with its 95 % interval; `scored` of the `asked` rows are in it.

    If no row is, or a config of it has none that is, `scored` is 0 and only the bounds are known.

    >>> print(Estimate(81.25, 79.04, 83.2, 6500, 6500), Estimate(50.0, 0.0, 100.0, 0, 500))
    81.2 [79.0, 83.2] [0.0, 100.0]
    """

    value: float
    low: float
    high: float
    scored: int
    asked: int

    @property
    def known(self) -> bool:
        """Whether there is a value, and not the bounds alone."""
        return self.scored > 0 or self.value == 0

    def __str__(self) -> str:
        return f"{self.value:.1f} " * self.known + f"[{self.low:.1f}, {self.high:.1f}]"


class ScoreStack:
    """The scores of runs.

    Attributes:
        configs: of each run by task and length, all that it has.
        lengths: of all runs, increasing; `tasks` likewise.
        low: by task, runs by questions by lengths, in [0, 1]. Unanswered rows are 0, rows that a
            run does not have NaN; in `high` unanswered rows are 1.
        complete: whether every row is answered.
        same: which runs have the same answers, runs by runs.
        alike: the runs in groups that have the same rows.
    """

    def __init__(self, results: Sequence[Results], *, apart: bool = False) -> None:
        """Align the rows of runs; `apart` pairs none, although digests may be equal."""
        self.apart = apart
        self.configs = [configs_of(one) for one in results]
        self.lengths = sorted({length for configs in self.configs for _, length in configs})
        self.tasks = list(dict.fromkeys(task for configs in self.configs for task, _ in configs))
        self.base_tasks = {
            task: config.same_questions_as or task
            for configs in self.configs
            for (task, _), config in configs.items()
        }
        self.noise = np.array([one.noise for one in results])
        self.same = np.eye(len(results), dtype=bool)
        if not apart:
            self.same = np.array([[have_same_answers(a, b) for b in results] for a in results])
        places, questions = _places(self.configs)
        shape = (len(results), questions, len(self.lengths))
        self.low = {task: np.full(shape, np.nan) for task in self.tasks}
        for run, configs in enumerate(self.configs):
            for (task, length), config in configs.items():
                scores = np.array(config.headline_scores, dtype=np.float64)
                where = places[run][task, length]
                column = self.lengths.index(length)
                self.low[task][run, where, column] = np.nan_to_num(scores, nan=-1.0)
        self.answered = {task: matrix >= 0 for task, matrix in self.low.items()}
        self.complete = not any((matrix < 0).any() for matrix in self.low.values())
        self.high = self.low
        if not self.complete:
            self.high = {task: np.where(x < 0, 1.0, x) for task, x in self.low.items()}
            self.low = {task: np.where(x < 0, 0.0, x) for task, x in self.low.items()}
        self._means, self._lowest = (
            [{key: mean(config) for key, config in configs.items()} for configs in self.configs]
            for mean in (_mean_of_answered, _mean_of_all)
        )
        groups: dict[object, list[int]] = {}
        for run in range(len(results)):
            rows = b"".join(mask.tobytes() for mask in self.rows_of(run).values())
            groups.setdefault(run if apart else rows, []).append(run)
        self.alike = [np.array(group) for group in groups.values()]

    def rows_of(self, run: int) -> Masks:
        """Return which rows a run has, by task, questions by lengths."""
        return {task: ~np.isnan(matrix[run]) for task, matrix in self.low.items()}

    def shared_rows(self, first: int, second: int) -> int:
        """Return the number of rows that both runs have."""
        if self.apart and first != second:
            return 0
        rows, others = self.rows_of(first), self.rows_of(second)
        return sum(int((rows[task] & others[task]).sum()) for task in self.tasks)

    def paired(self, first: int, second: int) -> bool:
        """Whether two runs share a question."""
        return self.shared_rows(first, second) > 0

    def estimates(self, groups: Groups, lengths: Mapping[int, float]) -> list[Estimate | None]:
        """Return each run's mean over lengths, with weights, of the mean over groups of tasks.

        The value is of the answered rows; the interval reaches from the lower end of the lower
        bound to the upper end of the upper one. None for a run that lacks a part.
        """
        estimates: list[Estimate | None] = [None] * len(self.configs)
        for runs in self.alike:
            ends = self.bounds(runs, runs, groups, lengths)
            if ends is None:
                continue
            _, _, low, high = ends
            lows, highs = low.interval()[0], high.interval()[1]
            for place, run in enumerate(map(int, runs)):
                cells = [
                    self.configs[run][t, n] for group in groups for t in group for n in lengths
                ]
                estimates[run] = Estimate(
                    _weighted(self._means[run], groups, lengths),
                    100 * float(lows[place]),
                    100 * float(highs[place]),
                    sum(cell.scored for cell in cells) * all(cell.scored for cell in cells),
                    sum(cell.rows for cell in cells),
                )
        return estimates

    def lowest(self, tasks: Sequence[str], lengths: Mapping[int, float]) -> list[float | None]:
        """Return each run's mean in percent, unanswered rows counted as wrong; None as above."""
        return [
            _weighted(known, (tasks,), lengths)
            if all(cell in known for cell in product(tasks, lengths))
            else None
            for known in self._lowest
        ]

    def bounds(
        self, firsts: Ints, seconds: Ints, groups: Groups, lengths: Mapping[int, float]
    ) -> tuple[Mean, Mean, Mean, Mean] | None:
        """Return the lower and upper bounds of a mean of runs, over the rows that are compared.

        Those of the first runs, then those of the second; the same object twice where all rows are
        answered. None if a config has no such row. The runs of a side have the same rows.
        """
        columns = [self.lengths.index(length) for length in lengths]
        tasks = [task for group in groups for task in group]
        masks = self.masks(int(firsts[0]), int(seconds[0]), tasks, columns)
        if masks is None:
            return None
        column = np.array([*lengths.values()])
        shares = {task: column / len(groups) / len(group) for group in groups for task in group}

        def mean(scores: Mapping[str, Floats], runs: Ints, mask: Masks) -> Mean:
            compared = {
                task: np.where(rows, scores[task][runs][..., columns], np.nan)
                for task, rows in mask.items()
            }
            return mean_of(compared, shares, self.base_tasks)

        means: list[Mean] = []
        for runs, mask in zip((firsts, seconds), masks, strict=True):
            if means and runs is firsts and mask is masks[0]:
                return means[0], means[1], means[0], means[1]
            low = mean(self.low, runs, mask)
            means += [low, low if self.complete else mean(self.high, runs, mask)]
        return means[0], means[1], means[2], means[3]

    def masks(
        self, first: int, second: int, tasks: Sequence[str], columns: Sequence[int]
    ) -> tuple[Masks, Masks] | None:
        """Return the rows of two runs that are compared; None if a config has none.

        If the runs share a question, the same object twice.
        """
        rows = self.rows_of(first), self.rows_of(second)
        sides = [{task: one[task][:, columns] for task in tasks} for one in rows]
        if self.paired(first, second):
            both = {task: sides[0][task] & sides[1][task] for task in tasks}
            sides = [both, both]
        has_all = all(side[task].any(axis=0).all() for side in sides for task in tasks)
        return (sides[0], sides[1]) if has_all else None

    def shared(self) -> tuple[tuple[str, ...], tuple[int, ...]]:
        """Return the lengths of which all runs have a task, and the tasks that all have at each.

        Paired runs have a config if they share a row of it.
        """
        has_rows = np.zeros((len(self.tasks), len(self.lengths)), dtype=bool)
        for place, task in enumerate(self.tasks):
            cells = [~np.isnan(self.low[task][group[0]]) for group in self.alike]
            has_rows[place] = np.all([cell.any(axis=0) for cell in cells], axis=0)
            for one, other in product(range(len(cells)), repeat=2):
                if self.paired(self.alike[one][0], self.alike[other][0]):
                    has_rows[place] &= (cells[one] & cells[other]).any(axis=0)
        columns = np.flatnonzero(has_rows.any(axis=0))
        if not len(columns):
            return (), ()
        tasks = tuple(t for t, has in zip(self.tasks, has_rows, strict=True) if has[columns].all())
        return tasks, tuple(self.lengths[column] for column in columns)


def configs_of(results: Results) -> Configs:
    """Return the configs of a run, by task and length."""
    return {parse_config(name): config for name, config in results.configs.items()}


def have_same_answers(one: Results, other: Results) -> bool:
    """Whether two results are of the same answers, to all rows."""
    alike = one is other or (one.fingerprint == other.fingerprint and one.configs == other.configs)
    return alike and one.scored == one.rows


def _mean_of_answered(config: ConfigResult) -> float:
    """Return the mean of the answered rows, in percent; without any the middle of the bounds."""
    known = [score for score in config.headline_scores if score is not None]
    return mean_percent(known) if known else 50.0


def _mean_of_all(config: ConfigResult) -> float:
    """Return the mean of all rows, in percent; those without an answer score 0."""
    return mean_percent([score or 0.0 for score in config.headline_scores])


def _weighted(
    known: Mapping[tuple[str, int], float], groups: Groups, lengths: Mapping[int, float]
) -> float:
    """Return a mean of cells, added up in upstream's order of operations."""
    values = []
    for length in lengths:
        means = [sum(known[task, length] for task in group) / len(group) for group in groups]
        values.append(sum(means) / len(means))
    return float(np.array(values) @ np.array([*lengths.values()]))


def _places(runs: Sequence[Configs]) -> tuple[list[dict[tuple[str, int], Ints]], int]:
    """Return where each row of each run's configs stands among the questions, and their number.

    A question stands at its index; other questions of the same index follow in blocks. So a
    question has one place at all lengths, and in all tasks with the same questions.
    """
    every = [config for configs in runs for config in configs.values()]
    recorded: dict[str, str] = {}
    for config in every:
        for digest in filter(None, (config.digest, config.question_digest)):
            recorded[digest] = max(recorded.get(digest, ""), config.questions, key=len)
    block = max((config.rows for config in every), default=0)
    versions: dict[tuple[str, int], list[dict[str, int]]] = {}
    known: dict[tuple[object, ...], Ints] = {}

    def places_of(key: tuple[str, int], config: ConfigResult) -> Ints:
        rows, digest = config.rows, config.question_digest or config.digest
        questions = config.questions or recorded[digest]
        name = (key, questions or digest, rows)
        if name not in known:
            indexes = versions.setdefault(key, [])
            indexes += [{} for _ in range(rows - len(indexes))]
            ids = [questions[16 * row : 16 * (row + 1)] or name[1] for row in range(rows)]
            which = [at.setdefault(one, len(at)) for at, one in zip(indexes, ids, strict=False)]
            known[name] = np.arange(rows) + block * np.array(which, dtype=np.int64)
        return known[name]

    places = [{key: places_of(key, one) for key, one in configs.items()} for configs in runs]
    most = max((int(where.max()) for where in known.values() if len(where)), default=0)
    return places, block * (most // block + 1) if block else 0
