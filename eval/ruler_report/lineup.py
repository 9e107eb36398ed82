"""Runs on one frame: who is ranked, who stands where, in words.

    ruler_report.frame, ruler_report.means ─► Lineup ─► ranks, sentences, Comparison of two runs

A run that `score` refuses, that is only claimed, or whose essays are others than those of most runs
has no rank. Nothing here computes a mean: all is read from the array.
"""

from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from hashlib import sha256
from itertools import product

from ruler_data.errors import RulerError, UsageError
from ruler_data.names import counted, quote
from ruler_eval.scoring.results import ScoreName, Scores, refused
from ruler_eval.scoring.results_file import Run, read_results
from ruler_report.comparison import Comparison, cost_of, cost_table
from ruler_report.frame import (
    AVERAGES,
    BALANCED,
    Cell,
    Floats,
    Frame,
    Name,
    columns_of,
    frame_of,
)
from ruler_report.means import CANNOT_TELL, FEWEST, FIRST, SECOND, UNCORRECTED, Means
from ruler_report.resampling import resample, resample_together
from ruler_report.runs import (
    caveats,
    check_comparable,
    check_scored,
    join,
    labels_of,
    shortfall,
)
from ruler_report.typesetting import format_length, visible

#: Comparisons that are stated one by one; more are only counted.
SPELLED = 4


Ranks = tuple[int, int] | None


@dataclass(frozen=True)
class Lineup:
    """Runs on one frame.

    Attributes:
        labels: names of the runs, all different.
        means: of the headline scores, or of the score that was asked for.
        exact: means of the exact scores over all cells and by category; None where a run has none.
        unranked: why a run has no rank, by its place.
        forced: why runs should not be compared, by their place; only if that was forced.
        score: that was asked for; None for that which reports lead with.
        chosen: the rows that were asked for, in words.
    """

    runs: tuple[Scores, ...]
    labels: tuple[str, ...]
    frame: Frame
    means: Means
    exact: Means | None
    unranked: Mapping[int, str]
    forced: Mapping[int, tuple[str, ...]]
    score: ScoreName | None = None
    chosen: str = ""

    @property
    def line(self) -> str:
        """The frame in words."""
        cells = self.frame.cells
        if not cells:
            return "frame: no task at a length is in all runs; no ranks, no differences"
        sizes = sorted({len(line[cell].places) for line in self.frame.lines for cell in cells})
        rows = " to ".join(dict.fromkeys(f"{size:,}" for size in (sizes[0], sizes[-1])))
        tasks, at_lengths = {task for task, _ in cells}, sorted({length for _, length in cells})
        lengths = self.frame.lengths
        text = (
            f"frame: {counted(len(tasks), 'task')} at {', '.join(map(format_length, at_lengths))}, "
            f"{rows} {'row' if sizes == [1] else 'rows'} of each{self.chosen}"
        )
        if len(tasks) * len(at_lengths) > len(cells):
            over = f"{', '.join(self.frame.tasks)} at {', '.join(map(format_length, lengths))}"
            text += f" ({len(cells)} combinations of them; means are over {over})"
        for cells_outside, runs in self.others.items():
            text += f"; not in it: {cells_outside} ({', '.join(runs)})"
        essays = {run.run.data.essays for run in self.runs} - {""}
        return text + "; the runs have other essays" * (len(essays) > 1)

    @property
    def others(self) -> dict[str, list[str]]:
        """The configs that are not in the frame, by the runs that have them."""
        by_cells: dict[str, list[str]] = {}
        for label, line in zip(self.labels, self.frame.lines, strict=True):
            names = [f"{task}_{n}" for task, n in line if (task, n) not in self.frame.cells]
            if names:
                more = f" and {counted(len(names) - 3, 'more config')}" * (len(names) > 3)
                by_cells.setdefault(", ".join(names[:3]) + more, []).append(label)
        return by_cells

    @cached_property
    def ranks(self) -> dict[int, tuple[int, int]]:
        """The best and worst rank of each run that has one, by its place."""
        return self.means.ranks([run for run in range(len(self.runs)) if run not in self.unranked])

    @cached_property
    def order(self) -> list[int]:
        """The runs: those with a rank first, the best first."""
        if (None, None) not in self.means.columns:
            return [*range(len(self.runs))]
        return sorted(self.means.order(), key=lambda run: run not in self.ranks)

    @property
    def why_unranked(self) -> Iterator[tuple[str, str]]:
        """The labels of runs that have no rank although others could, with the reason."""
        if len(self.runs) > 1:
            for run, why in self.unranked.items():
                yield self.labels[run], f"no rank: {why}"

    def over_cells(self, run: int) -> tuple[Means, int]:
        """Return the means of a run over all its cells, which the frame may lack, and its place."""
        if self.frame.tasks and {*self.frame.lines[run]} == {*self.frame.cells}:
            return self.means, run
        scores, kinds = _scores_of(self.runs[run], self.score), kinds_of([self.runs[run]])
        frame = self.frame.alone(run)
        columns = columns_of(frame, *kinds)
        return resample(frame, [scores], columns), 0

    def best(self, name: Name) -> set[str]:
        """Return the ranked runs that none is shown to be better than in a column; {} if all."""
        ranks = self.means.ranks([*self.ranks], name)
        labels = {self.labels[run] for run, (rank, _) in ranks.items() if rank == 1}
        return labels if len(labels) < len(ranks) else set()

    def against(self) -> Iterator[str]:
        """Yield how the other runs compare with the first: each, or in groups if many."""
        rivals = [run for run in self.order if run in self.comparisons]
        if len(rivals) <= SPELLED:
            for comparison in map(self.comparisons.__getitem__, rivals):
                yield f"{comparison.conclusion}."
                if comparison.contradiction:
                    yield f"{comparison.labels[1]}: {comparison.contradiction}."
            return
        verdicts = {run: self.comparisons[run].overall.verdict for run in rivals}
        words = {
            SECOND: "Better than",
            FIRST: "Worse than",
            CANNOT_TELL: "Not told apart from",
            UNCORRECTED: "Not shown to differ, after the correction, from",
        }
        for verdict, opening in words.items():
            labels = [self.labels[run] for run in rivals if verdicts[run] == verdict]
            if labels:
                yield f"{opening} {self.labels[0]}: {join(labels)}."

    def standing(self) -> Iterator[str]:
        """Yield which run is the best, and what the array shows of it."""
        if len(self.runs) < 2:
            return
        if not self.ranks:
            yield f"No run is ranked: {self._why_no_ranks()}."
            return
        best, *behind = [run for run in self.order if run in self.ranks]
        groups: dict[str, list[str]] = {}
        for run in behind:
            verdict = self.means.gap((None, None), best, run).verdict
            groups.setdefault(verdict, []).append(self.labels[run])
        words = {
            CANNOT_TELL: "it cannot be told apart from {}",
            UNCORRECTED: "it is not shown to be better than {} after the correction",
            FIRST: "it is better than {}",
        }
        sentences = [text.format(join(groups[key])) for key, text in words.items() if key in groups]
        of_ranked = "ranked " * (len(self.ranks) < len(self.runs))
        if groups.keys() == {FIRST}:
            sentences = [f"it is better than every other {of_ranked}run"]
        place = self.means.place[None, None]
        lowest = self.means.lowest[place]
        ties = [run for run in behind if lowest[run] == lowest[best]]
        mean = self.means.estimate((None, None), best)
        if (self.means.scored < self.means.asked)[place].any():
            value = f"{lowest[best]:.1f} with unanswered rows counted as wrong"
        else:
            value = str(mean)
        verb = f"has the highest {of_ranked}mean"
        if ties:
            verb = f"shares the highest {of_ranked}mean with {join([self.labels[r] for r in ties])}"
        yield f"{self.labels[best]} {verb}, {value}; {'; '.join(sentences)}."

    def _why_no_ranks(self) -> str:
        ranked = len(self.runs) - len(self.unranked)
        if not self.frame.tasks:
            return "no task at a length is in all runs"
        if ranked < 2:
            return "; ".join(f"{label}: {why}" for label, why in self.why_unranked)
        return f"a task has fewer than {FEWEST} rows"

    def _answered(self, name: Name, first: int, second: int) -> tuple[int, int]:
        """Return how many rows of a mean two runs answered."""
        scored = self.means.scored[self.means.place[name]]
        return int(scored[first]), int(scored[second])

    @cached_property
    def comparisons(self) -> dict[int, Comparison]:
        """The comparison of each other run with the first, by its place; minus the first."""
        places = range(1, len(self.runs) if self.frame.tasks else 1)
        return {place: self._comparison(place) for place in places}

    def _comparison(self, second: int) -> Comparison:
        first, runs = 0, (self.runs[0], self.runs[second])
        exact = None
        if self.exact is not None and (None, None) in self.exact.columns:
            exact = self.exact.gap((None, None), first, second)
        same = self.means.identities[first] == self.means.identities[second]
        notes = [f"{self.labels[first]} and {self.labels[second]} are the same run"] * same
        notes += [
            f"forced: {why}" for place in (first, second) for why in self.forced.get(place, ())
        ]
        notes += [
            f"{self.labels[place]}: {note}"
            for place in (first, second)
            for note in (*shortfall(self.runs[place]), *caveats(self.runs[place].run))
        ]
        names = [name for name in self.means.columns if name[0] not in (*AVERAGES, BALANCED)]
        compared = {*product(self.frame.tasks, self.frame.lengths)}
        lines = (self.frame.lines[first], self.frame.lines[second])
        left_out = {
            f"{task}_{n}" for line in lines for task, n in line if (task, n) not in compared
        }
        paired = self.frame.share_questions(first, second)
        return Comparison(
            runs=(runs[0].run, runs[1].run),
            labels=(self.labels[first], self.labels[second]),
            frame=self.line,
            lengths=self.frame.lengths,
            tasks=self.frame.tasks,
            differences={name: self.means.gap(name, first, second) for name in names},
            rows={name: self._answered(name, first, second) for name in names},
            categories=tuple(dict.fromkeys(kinds_of(self.runs)[0].values())),
            paired=paired,
            basis=_basis(*runs, paired=paired),
            left_out=tuple(sorted(left_out)),
            warnings=self.forced.get(second, self.forced.get(first, ())),
            notes=tuple(notes),
            validity=tuple(
                f"{self.labels[place]}: {self.runs[place].validity_line}"
                for place in (first, second)
            ),
            exact=exact,
            claimed=any(run.claimed for run in runs),
            costs=(cost_of(_only(runs[0], self.frame)), cost_of(_only(runs[1], self.frame))),
        )


def lineup(
    runs: Sequence[Scores],
    *,
    rows: int | None = None,
    tasks: Collection[str] = (),
    lengths: Collection[int] = (),
    baseline: int | None = None,
    score: ScoreName | None = None,
    cells: bool = True,
    force: bool = False,
    claimed: bool = False,
    remedy: str = "--force compares anyway",
) -> Lineup:
    """Return runs on their frame.

    Args:
        runs: their scores.
        rows: the first ones of each config alone.
        tasks: these alone.
        lengths: these alone, in tokens.
        baseline: the place of a run whose rows all others are to answer.
        score: by default that which reports lead with.
        cells: whether tasks and cells are shown, or only the means over tasks.
        force: compare runs although protocols differ.
        claimed: rank also runs of which only results.json is known.
        remedy: what a refusal advises.

    Raises:
        RulerError: runs cannot be compared.
        UsageError: no run has such a task or length, or such a score.
    """
    kinds = kinds_of(runs)
    asked = [{cell: config.question_ids for cell, config in run.cells.items()} for run in runs]
    frame = frame_of(asked, rows=rows, tasks=tasks, lengths=lengths, baseline=baseline)
    if not any(frame.lines):
        names = [("tasks", ", ".join(tasks)), ("lengths", ", ".join(map(str, lengths)))]
        options = ", ".join(f"--{name} {quote(text)}" for name, text in names if text)
        raise UsageError(options or "runs", "no run has such a config")
    columns, few = (columns_of(frame, *kinds, cells=shown) for shown in (cells, False))
    paired = [frame.share_questions(0, place) for place in range(len(runs))]
    labels = labels_of(runs)
    forced = check_comparable(runs, labels, paired, remedy=remedy, force=force)
    has_exact = len(runs) > 1 and score != "exact"
    scores = [([_scores_of(run, score) for run in runs], columns)]
    scores += [([_scores_of(run, "exact") for run in runs], few)] * has_exact
    identities = [_identity(run) for run in runs]
    unranked = dict(_unranked(runs, claimed=claimed))
    means, *exact = resample_together(frame, scores, identities)
    chosen = f", the first {rows}" * bool(rows)
    return Lineup(
        tuple(runs), tuple(labels), frame, means, next(iter(exact), None), unranked, forced, score,
        chosen,
    )  # fmt: skip


def compare(
    first: Run,
    second: Run,
    *,
    rows: int | None = None,
    tasks: Collection[str] = (),
    lengths: Collection[int] = (),
    force: bool = False,
    score: ScoreName | None = None,
) -> Comparison:
    """Compare two runs, second minus first; see the command."""
    runs = [read_results(first), read_results(second)]
    check_scored(*runs, score=score)
    pair = lineup(runs, rows=rows, tasks=tasks, lengths=lengths, force=force, score=score)
    if not pair.frame.tasks:
        msg = "nothing to compare: no task at a length is in both runs; report them one at a time"
        raise RulerError(msg)
    shown = (_only(run, pair.frame) for run in runs)
    cost = cost_table(dict(zip(pair.labels, shown, strict=True)))
    return replace(pair.comparisons[1], cost=cost)


def _only(run: Scores, frame: Frame) -> Scores:
    """Return the configs of a run that means are over, all rows of them."""
    names = {f"{task}_{length}" for task in frame.tasks for length in frame.lengths}
    return replace(run, configs={n: config for n, config in run.configs.items() if n in names})


def _unranked(runs: Sequence[Scores], *, claimed: bool) -> Iterator[tuple[int, str]]:
    """Yield the places of runs that have no rank, and why."""
    essays = Counter(run.run.data.essays for run in runs if run.run.data.essays)
    usual = max(essays, key=lambda name: essays[name], default="")
    for place, run in enumerate(runs):
        reasons = refused(run)
        if reasons:
            yield place, f"`score` refuses it ({visible('; '.join(reasons))})"
        elif run.claimed and not claimed:
            yield place, "only its results.json is known; --claimed ranks it"
        elif run.run.data.essays not in ("", usual):
            yield place, "its rows have other essays than most"


def kinds_of(runs: Sequence[Scores]) -> tuple[dict[str, str], dict[str, object]]:
    """Return the category of each task, and whether its needle may be absent, or is."""
    configs = {task: config for run in runs for (task, _), config in run.cells.items()}
    return (
        {task: config.category for task, config in configs.items()},
        {task: config.params.get("none") for task, config in configs.items()},
    )


def _scores_of(run: Scores, name: ScoreName | None) -> dict[Cell, Floats]:
    """Return a score of each row of a run by cell; NaN for no answer."""
    return {
        cell: config.scores_of(name or config.headline).small for cell, config in run.cells.items()
    }


def _identity(run: Scores) -> object:
    """Return what tells a run from others: results of the same answers to all rows are one run."""
    if run.scored < run.rows:
        return object()
    digest = sha256()
    for config in run.configs.values():
        for column in (config.scores.array, config.exact.array, config.question_ids):
            digest.update(column.tobytes())
    return run.fingerprint, digest.digest()


def format_ranks(ranks: Ranks) -> str:
    """Return an interval of ranks.

    >>> format_ranks((1, 1)), format_ranks((2, 4)), format_ranks(None)
    ('1', '2-4', '')
    """
    if ranks is None:
        return ""
    low, high = ranks
    return f"{low}" if low == high else f"{low}-{high}"


def _basis(first: Scores, second: Scores, *, paired: bool) -> str:
    """Return how two runs are compared, in one line."""
    data_first, data_second = first.run.data, second.run.data
    if not paired:
        seeds = "; the seeds differ" if data_first.seed != data_second.seed else ""
        return f"unpaired: no question is shared{seeds}"
    names = first.configs.keys() & second.configs.keys()
    shared_configs = [(first.configs[name], second.configs[name]) for name in names]
    other_rows = [(a, b) for a, b in shared_configs if a.digest != b.digest]
    same = not other_rows
    text = "paired: the same rows" if same else "paired: the same questions"
    if not same and data_first.tokenizer != data_second.tokenizer:
        tokenizers = " and ".join(visible(data.tokenizer) for data in (data_first, data_second))
        text += f", haystacks cut to each run's tokens ({tokenizers})"
    alike = any(a.question_digest == b.question_digest for a, b in other_rows)
    if alike and data_first.inputs != data_second.inputs:
        text += "; the sources or reserves of the rows may differ"
    return text
