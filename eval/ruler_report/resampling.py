"""The resampling: draws of every mean over the rows of a frame, for all runs at once.

    scores of runs by cell, columns ─► resample ─► Means

What draws mean, and why they are as they are: `means.py`.
"""

import hashlib
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import accumulate

import numpy as np

from ruler_report.frame import Cell, Column, Digests, Floats, Frame, Ints, Name
from ruler_report.means import DRAWS, Draws, Means, mean_percent

#: Questions whose weights are in memory at once.
BLOCK = 2048


def weights_of(questions: Digests) -> Draws:
    """Return the weight of each question in each draw: exponential, a function of its digest."""
    drawn = np.empty((len(questions), DRAWS), dtype=np.float32)
    for weights, digest in zip(drawn, questions.tolist(), strict=True):
        generator = np.random.Generator(np.random.PCG64(digest))
        generator.standard_exponential(dtype=np.float32, out=weights)
    return drawn


def resample(
    frame: Frame,
    scores: Sequence[Mapping[Cell, Floats]],
    columns: Mapping[Name, Column],
    identities: Sequence[Hashable] = (),
) -> Means:
    """Return the means of runs.

    Args:
        frame: the rows in question.
        scores: of each run by cell, in [0, 1], in the order of its rows; NaN for no answer.
        columns: the means in question.
        identities: equal for a run that is there twice; by default all are different.
    """
    return resample_together(frame, [(scores, columns)], identities)[0]


#: Scores of each run by cell, and the means in question.
_Kind = tuple[Sequence[Mapping[Cell, Floats]], Mapping[Name, Column]]


def resample_together(
    frame: Frame, kinds: Sequence[_Kind], identities: Sequence[Hashable] = ()
) -> list[Means]:
    """Return the means of runs for several kinds of scores of the same answers; see `resample`."""
    count = len(frame.lines)
    every = {name: column for _, columns in kinds for name, column in columns.items()}
    lines = {
        cell: {
            run: _Line(
                rows[cell].questions,
                [_taken(scores[run].get(cell), rows[cell].places) for scores, _ in kinds],
            )
            for run, rows in enumerate(frame.lines)
            if cell in rows
        }
        for cell in {cell: None for column in every.values() for cell in column.shares}
    }
    fills = (0.0, 1.0) if any(x.lacks for cell in lines.values() for x in cell.values()) else (0.0,)
    sizes = [(len(fills), len(columns), count) for _, columns in kinds]
    draws = [np.zeros((*size, DRAWS), dtype=np.float32) for size in sizes]
    moments = [np.zeros((2, *size[1:], count)) for size in sizes]
    inverse = np.zeros((len(every), count))
    for family in _families(lines):
        shares = np.array([[c.shares.get(cell, 0.0) for cell in family] for c in every.values()])
        inverse += _inverse(family, shares, count)
        share_of = dict(zip(every, shares, strict=True))
        cells = [*zip(family.values(), _cell_draws(family, fills), strict=True)]
        size = min(len(line.questions) for having in family.values() for line in having.values())
        for kind, (_, columns) in enumerate(kinds):
            for place, name in enumerate(columns):
                if share_of[name].any():
                    share_of_run = np.zeros((len(fills), count, DRAWS), dtype=np.float32)
                    for share, (having, means) in zip(share_of[name], cells, strict=True):
                        if share:
                            share_of_run[:, [*having]] += np.float32(share) * means[kind]
                    draws[kind][:, place] += share_of_run
                    # Where nothing varies, every task counts alike.
                    least = 1e-4 * share_of[name].sum() ** 2 / size
                    spread = _spread(share_of_run) + least
                    moments[kind][:, place] += spread, spread**2 / max(size - 1, 1)
    place_of = {name: place for place, name in enumerate(every)}
    return [
        _means_of(
            lines, kind, columns, draws[kind], moments[kind],
            inverse[[place_of[name] for name in columns], :] if columns else inverse[:0],
            identities or range(count),
        )
        for kind, (_, columns) in enumerate(kinds)
    ]  # fmt: skip


def _means_of(
    lines: "_Lines",
    kind: int,
    columns: Mapping[Name, Column],
    draws: Draws,
    moments: Floats,
    inverse: Floats,
    identities: Sequence[Hashable],
) -> Means:
    """Return the means of a kind of scores with what was added up over their cells."""
    count = len(identities)
    values, lowest, highest, scored, asked = _values(lines, kind, columns, count)
    draws[:, asked == 0] = np.nan
    cells = {cell for column in columns.values() for cell in column.shares}
    sizes = [
        [len(lines[cell][run].questions) for cell in cells if run in lines[cell]]
        for run in range(count)
    ]
    variance, squares, low = *moments, draws[0]
    return Means(
        columns, values, lowest, highest, low, low if len(draws) == 1 else draws[1],
        np.divide(1, inverse, out=np.full_like(inverse, np.nan), where=asked > 0), scored, asked,
        np.array([min(size, default=0) for size in sizes]),
        np.divide(variance**2, squares, out=np.ones_like(squares), where=squares > 0),
        identities,
    )  # fmt: skip


@dataclass(frozen=True)
class _Line:
    """What a run answered of a cell, by kind of score; NaN for no answer."""

    questions: Digests
    scores: Sequence[Floats]

    @cached_property
    def lacks(self) -> bool:
        return any(bool(np.isnan(scores).any()) for scores in self.scores)

    def filled(self, fill: float, kind: int) -> Floats:
        scores = np.asarray(self.scores[kind], dtype=np.float64)
        return np.nan_to_num(scores, nan=fill) if self.lacks else scores

    @cached_property
    def key(self) -> bytes:
        return hashlib.sha256(self.questions.tobytes()).digest()


#: Cells by the runs that have them.
_Lines = dict[Cell, dict[int, _Line]]


def _taken(scores: Floats | None, places: Ints) -> Floats:
    """Return the scores at places; NaN where there is none."""
    if scores is not None and np.array_equal(places, np.arange(len(scores))):
        return scores
    padded_scores = np.append([] if scores is None else scores, np.nan)
    return np.asarray(padded_scores[np.where(places < 0, -1, places)])


def _families(lines: _Lines) -> list[_Lines]:
    """Return the cells in groups; those of a group share questions, and so weights."""
    families: list[tuple[Digests, _Lines]] = []
    for cell, having in lines.items():
        distinct = {line.key: line.questions for line in having.values()}
        questions = np.concatenate([*distinct.values(), np.zeros(0, dtype=np.uint64)])
        family: _Lines = {cell: having}
        apart = []
        for members in families:
            if np.isin(questions, members[0]).any():
                questions = np.union1d(questions, members[0])
                family = members[1] | family
            else:
                apart.append(members)
        families = [*apart, (questions, family)]
    return [family for _, family in families]


def _inverse(family: _Lines, shares: Floats, count: int) -> Floats:
    """Return the sum of the squared shares of questions, columns by runs."""
    sums, norms = np.zeros((len(shares), count)), dict[tuple[bytes, ...], Floats]()
    for run in range(count):
        lines = [having.get(run) for having in family.values()]
        key = tuple(line.key if line else b"" for line in lines)
        if key not in norms:
            no_questions = np.zeros(0, dtype=np.uint64)
            asked = {  # lengths of a task often ask the same
                name: line.questions if line else no_questions
                for name, line in zip(key, lines, strict=True)
            }
            by_set = shares @ np.array([[name == of_cell for name in asked] for of_cell in key])
            questions = np.unique(np.concatenate([*asked.values()]))
            membership = np.array(
                [np.isin(questions, digests) / max(len(digests), 1) for digests in asked.values()]
            )
            norms[key] = ((by_set @ membership) ** 2).sum(axis=1)
        sums[:, run] = norms[key]
    return sums


def _spread(draws: Draws) -> Floats:
    """Return the variances of differences of draws, first by second runs."""
    centred = draws - draws.mean(axis=2, keepdims=True)
    a, b = centred[-1], centred[0]  # the same memory for one fill: half of the product is enough
    return np.asarray((a**2).mean(axis=1)[:, None] + (b**2).mean(axis=1) - 2 * (a @ b.T) / DRAWS)


def _cell_draws(family: _Lines, fills: Sequence[float]) -> list[Draws]:
    """Return the draws of the mean of each cell: kinds of scores by fills by runs by draws."""
    distinct = {line.key: line.questions for having in family.values() for line in having.values()}
    asked = np.concatenate([*distinct.values()])
    _, first = np.unique(asked, return_index=True)
    questions = asked[np.sort(first)]  # in the order of runs, so that a block is of few of them
    sorter = np.argsort(questions)
    places = {
        key: sorter[np.searchsorted(questions, wanted_questions, sorter=sorter)]
        for key, wanted_questions in distinct.items()
    }
    # Rows of the matrix: scores of each line and fill, and ones for each set of questions. Its
    # product with the weights gives the sums of scores and of weights. Each kind of scores has its
    # own product: in a joint one, BLAS may round a sum otherwise when a kind is added.
    lines = [line for having in family.values() for line in having.values()]
    kinds = range(len(lines[0].scores))
    ones = [(key, np.ones(len(some))) for key, some in distinct.items()]
    scores = [
        [*((line.key, line.filled(fill, kind)) for line in lines for fill in fills), *ones]
        for kind in kinds
    ]
    sums = np.zeros((len(kinds), len(scores[0]), DRAWS), dtype=np.float32)
    for start in range(0, len(questions), BLOCK):
        weights = weights_of(questions[start : start + BLOCK])
        inside = {key: (at >= start) & (at < start + BLOCK) for key, at in places.items()}
        using = [row for row, (key, _) in enumerate(scores[0]) if inside[key].any()]
        for kind in kinds:
            matrix = np.zeros((len(using), len(weights)), dtype=np.float32)
            chosen = (scores[kind][row] for row in using)
            for values, (key, of_line) in zip(matrix, chosen, strict=True):
                values[places[key][inside[key]] - start] = of_line[inside[key]]
            sums[kind, using] += matrix @ weights
    totals = dict(zip(distinct, sums[0, -len(distinct) :], strict=True))
    draws = sums[:, : -len(distinct)].reshape(len(kinds), len(lines), len(fills), DRAWS)
    for place, line in enumerate(lines):
        n = len(line.questions)
        spread = np.float32(np.sqrt((n + 1) / (n - 1)) if n > 1 else np.nan)
        filled = [[[line.filled(fill, kind).mean()] for fill in fills] for kind in kinds]
        means = np.array(filled, dtype=np.float32)
        draws[:, place] = means + (draws[:, place] / totals[line.key] - means) * spread
    ends = [*accumulate(map(len, family.values()))]
    return [of_cell.swapaxes(1, 2) for of_cell in np.split(draws, ends[:-1], axis=1)]


def _values(
    lines: _Lines, kind: int, columns: Mapping[Name, Column], count: int
) -> tuple[Floats, Floats, Floats, Ints, Ints]:
    """Return the means of answered rows, of all with 0 and with 1, and the numbers of rows."""
    values, lowest, highest = np.full((3, len(columns), count), np.nan)
    scored, asked = np.zeros((2, len(columns), count), dtype=np.int64)
    for run in range(count):
        scores_of_cell = {
            cell: having[run].scores[kind] for cell, having in lines.items() if run in having
        }
        answered = {
            cell: scores[~np.isnan(scores)].tolist() for cell, scores in scores_of_cell.items()
        }
        means = {
            cell: mean_percent(scores) if scores else np.nan for cell, scores in answered.items()
        }
        least = {
            cell: sum(scores) / len(scores_of_cell[cell]) * 100 for cell, scores in answered.items()
        }
        most = {
            cell: least[cell] + 100 * (1 - len(scores) / len(scores_of_cell[cell]))
            for cell, scores in answered.items()
        }
        for place, column in enumerate(columns.values()):
            if all(cell in scores_of_cell for cell in column.shares):
                at = place, run
                values[at], lowest[at], highest[at] = map(column.value, (means, least, most))
                scored[at] = sum(len(answered[cell]) for cell in column.shares)
                asked[at] = sum(len(scores_of_cell[cell]) for cell in column.shares)
    return values, lowest, highest, scored, asked
