"""Pictures of a run: its scores by length and category, and its answers."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial

import numpy as np

from ruler_data.names import parse_config
from ruler_report.failures import MEANINGS
from ruler_report.figures.style import (
    COLOURS,
    GRID,
    INK,
    MARKERS,
    Axes,
    Picture,
    canvas,
    legend_below,
    length_ticks,
    shown_name,
    slug,
)
from ruler_report.format import format_length
from ruler_report.results import ConfigResult
from ruler_report.stats.effective_length import OVERALL, THRESHOLDS
from ruler_report.stats.score_table import Estimate
from ruler_report.stats.summary import ScoredRun

#: Label of the line that is drawn bold.
MEAN = "mean"
#: Kinds of failure in a picture; rarer ones are drawn as one.
SHOWN_KINDS = 7
RARER = "rarer kinds"
Line = Mapping[int, Estimate]


def run_pictures(run: ScoredRun, prefix: str) -> Iterator[Picture]:
    """Yield the pictures of a run's scores: the tasks of each category."""
    configs = run.results.configs.items()
    category_of = {parse_config(name)[0]: config.category for name, config in configs}
    for category, mean in run.summary.categories.items():
        lines: dict[str, Line] = {
            task: cells
            for task, cells in run.summary.cells.items()
            if category_of[task] == category
        }
        if len(lines) > 1:
            lines[MEAN] = mean
        yield curves(f"{prefix}{slug(category)}", category.capitalize(), lines)


def overall_picture(runs: Sequence[ScoredRun]) -> Iterator[Picture]:
    """Yield the means over all tasks of every run, unless no length has all tasks."""
    lines = {run.label: run.summary.overall for run in runs if run.summary.overall}
    if lines:
        groups = {run.summary.group for run in runs if OVERALL in run.summary.effective}
        threshold = THRESHOLDS[groups.pop()][OVERALL] if len(groups) == 1 else None
        yield curves("overall", "Mean score over all tasks", lines, threshold)


def curves(
    name: str, title: str, lines: Mapping[str, Line], threshold: float | None = None
) -> Picture:
    """Draw means over lengths, a line for each name; with intervals if they are few.

    At one length there are no lines to draw: each name gets a dot with its interval instead.
    """
    lengths = sorted({length for line in lines.values() for length in line})
    scores = (
        f"{shown_name(label)} "
        + ", ".join(f"{line[x].value:.1f} at {format_length(x)}" for x in sorted(line))
        for label, line in lines.items()
    )
    alt = f"{title}, in percent: {'; '.join(scores)}."
    height = 3.3 if len(lengths) > 1 else 0.8 + 0.3 * len(lines)
    with canvas(5.2, height) as (axes, finish):
        if len(lengths) > 1:
            _draw_curves(axes, lines, lengths, threshold)
        else:
            _draw_dots(axes, lines, lengths[0], threshold)
        return finish(name, title, alt)


def _draw_curves(
    axes: Axes, lines: Mapping[str, Line], lengths: Sequence[int], threshold: float | None
) -> None:
    for number, (label, line) in enumerate(lines.items()):
        mean, xs = label == MEAN, sorted(line)
        colour = INK if mean else COLOURS[number % len(COLOURS)]
        axes.plot(
            xs,
            [line[x].value for x in xs],
            MARKERS[number % len(MARKERS)] + "-",
            label=shown_name(label),
            color=colour,
            markersize=4.5,
            linewidth=2.2 if mean else 1.5,
        )
        if mean or len(lines) < 4:
            lows, highs = [line[x].low for x in xs], [line[x].high for x in xs]
            axes.fill_between(xs, lows, highs, color=colour, alpha=0.15, linewidth=0)
    if threshold is not None:
        axes.axhline(threshold, color=INK, linewidth=0.9, linestyle=(0, (4, 3)))
        axes.annotate(
            f"{threshold:.1f}",
            (1, threshold),
            (4, -3),
            fontsize=8,
            xycoords=("axes fraction", "data"),
            textcoords="offset points",
        )
    axes.set_xscale("log", base=2)
    length_ticks(axes, lengths, lengths)
    axes.minorticks_off()
    axes.set_ylabel("score in percent")
    axes.set_ylim(-2, 104)
    axes.grid(axis="y")
    legend_below(axes)


def _draw_dots(axes: Axes, lines: Mapping[str, Line], length: int, threshold: float | None) -> None:
    for place, (label, line) in enumerate(lines.items()):
        cell, colour = line[length], INK if label == MEAN else COLOURS[place % len(COLOURS)]
        axes.hlines(place, cell.low, cell.high, color=colour, linewidth=2.5, alpha=0.5)
        axes.plot(cell.value, place, "o", color=colour, markersize=6)
        axes.annotate(
            f"{cell.value:.1f}", (104, place), va="center", fontsize=9, annotation_clip=False
        )
    if threshold is not None:
        axes.axvline(threshold, color=INK, linewidth=0.9, linestyle=(0, (4, 3)))
    axes.set_yticks(range(len(lines)), [shown_name(label) for label in lines])
    axes.set_ylim(len(lines) - 0.5, -0.5)
    axes.set_xlim(-2, 102)
    axes.set_xlabel(f"score in percent at {format_length(length)} tokens")
    axes.grid(axis="x")


def answer_pictures(run: ScoredRun, prefix: str) -> Iterator[Picture]:
    """Yield the pictures of a run's answers: lengths, cut off and empty ones, failures."""
    yield answer_lengths(run, f"{prefix}answers")
    yield cut_off(run, f"{prefix}cut-off")
    if any(config.failures for config in run.results.configs.values()):
        yield failures(run, f"{prefix}failures")


def answer_lengths(run: ScoredRun, name: str) -> Picture:
    """Draw the lengths of answers by task: median, middle half, and middle 90 percent."""
    configs = run.results.configs
    tokens = all(None not in config.tokens or None in config.scores for config in configs.values())
    unit = "tokens" if tokens else "characters"
    lengths: dict[str, list[int]] = {}
    for config_name, config in configs.items():
        column = config.tokens if tokens else config.characters
        known = [length for length in column if length is not None]
        lengths.setdefault(parse_config(config_name)[0], []).extend(known)
    tasks = [task for task in run.summary.tasks if lengths.get(task)]
    with canvas(5.0, 0.8 + 0.27 * len(tasks)) as (axes, finish):
        medians = []
        for place, task in enumerate(tasks):
            p5, p25, p50, p75, p95 = np.quantile(lengths[task], [0.05, 0.25, 0.5, 0.75, 0.95])
            axes.hlines(place, p5, p95, color=COLOURS[0], linewidth=1.2)
            axes.hlines(place, p25, p75, color=COLOURS[0], linewidth=5, alpha=0.6)
            axes.plot(p50, place, "o", color=COLOURS[1], markersize=5)
            medians.append(f"{task} {p50:.0f}")
        axes.set_yticks(range(len(tasks)), tasks)
        axes.invert_yaxis()
        axes.set_xlim(left=0)
        axes.set_xlabel(f"length of the answer in {unit}")
        axes.grid(axis="x")
        alt = f"Median {unit} of an answer: {', '.join(medians)}."
        return finish(name, "Length of answers", alt)


def cut_off(run: ScoredRun, name: str) -> Picture:
    """Draw the shares of answers that were cut off, and of empty ones, by length."""
    lengths = run.summary.lengths
    shares = {
        "cut off": _shares(run, lambda config: len(config.truncated)),
        "empty": _shares(run, lambda config: len(config.empty)),
    }
    with canvas(5.2, 2.6) as (axes, finish):
        for place, (kind, column) in enumerate(shares.items()):
            axes.bar(
                np.arange(len(lengths)) + (place - 0.5) * 0.36,
                column,
                0.34,
                color=COLOURS[place],
                label=kind,
            )
        length_ticks(axes, lengths, range(len(lengths)))
        axes.set_ylabel("answers in percent")
        axes.set_ylim(0, max(1.0, axes.get_ylim()[1]))
        axes.grid(axis="y")
        axes.legend(loc="upper left", fontsize=9)
        return finish(name, "Answers cut off and empty answers", _shares_alt("answers", shares))


def failures(run: ScoredRun, name: str) -> Picture:
    """Draw the share of rows that failed in each way, by length."""
    lengths, shares = run.summary.lengths, _failure_shares(run)
    with canvas(5.2, 3.2) as (axes, finish):
        bottom = np.zeros(len(lengths))
        for place, (kind, column) in enumerate(shares.items()):
            colour = GRID if kind == RARER else COLOURS[place % len(COLOURS)]
            axes.bar(range(len(lengths)), column, 0.7, bottom=bottom, color=colour, label=kind)
            bottom += column
        length_ticks(axes, lengths, range(len(lengths)))
        axes.set_ylabel("rows in percent")
        axes.grid(axis="y")
        legend_below(axes)
        return finish(name, "How rows failed", _shares_alt("rows that failed", shares))


def _shares_alt(what: str, shares: Mapping[str, Sequence[float]]) -> str:
    columns = (
        f"{kind} {', '.join(f'{share:.1f}' for share in column)}" for kind, column in shares.items()
    )
    return f"Percent of {what} by length, shortest first: {'; '.join(columns)}."


def _failure_shares(run: ScoredRun) -> dict[str, list[float]]:
    """Return the share of rows in percent by kind and length; the rarest kinds are added."""
    shares: dict[str, list[float]] = {}
    for kind in {kind for config in run.results.configs.values() for kind in config.failures}:
        shares[kind] = _shares(run, partial(_failed, kind))
    kinds = [kind for kind in MEANINGS if kind in shares] + sorted(shares.keys() - MEANINGS)
    often = sorted(kinds, key=lambda kind: -sum(shares[kind]))
    if len(kinds) > SHOWN_KINDS + 1:  # one kind needs no name for several
        often = often[:SHOWN_KINDS]
    shown = {kind: shares[kind] for kind in kinds if kind in often}
    rest = [shares[kind] for kind in kinds if kind not in often]
    if rest:
        shown[RARER] = [sum(column) for column in zip(*rest, strict=True)]
    return shown


def _failed(kind: str, config: ConfigResult) -> int:
    return len(config.failures.get(kind, ()))


def _shares(run: ScoredRun, count: Callable[[ConfigResult], int]) -> list[float]:
    """Return counted rows in percent of the scored ones, by length."""
    shares = []
    for length in run.summary.lengths:
        configs = [
            config
            for name, config in run.results.configs.items()
            if parse_config(name)[1] == length and config.scored
        ]
        scored = sum(config.scored for config in configs)
        shares.append(100 * sum(map(count, configs)) / scored)
    return shares
