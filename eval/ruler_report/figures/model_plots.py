"""The pictures of a report, each with what it shows in words.

Pictures of what answers look like, beside what they score.
"""

from collections.abc import Iterator
from typing import Any

import numpy as np

from ruler_data.names import parse_config
from ruler_report.failures import MEANINGS, OTHER
from ruler_report.figures.style import COLOURS, GRID, INK, MARKERS, Picture, canvas, shown_name
from ruler_report.results import ConfigResult
from ruler_report.stats.effective_length import OVERALL, THRESHOLDS
from ruler_report.stats.score_table import Figure
from ruler_report.tables.format import length_words
from ruler_report.tables.tables import Scored

#: The line that a picture of a category draws bold.
MEAN = "mean"


def curves(
    name: str, title: str, lines: dict[str, dict[int, Figure]], threshold: float | None = None
) -> Picture:
    """Draw means over lengths, a line for each name, with intervals while few lines overlap.

    At one length there is no line to draw: every name gets a row of its own, with its interval.
    """
    lengths = sorted({length for line in lines.values() for length in line})
    if len(lengths) == 1:
        return dots(name, title, lines, threshold)
    with canvas(5.2, 3.3) as (axes, finish):
        for number, (label, line) in enumerate(lines.items()):
            mean = label == MEAN
            _curve(axes, label, line, number, bold=mean, band=mean or len(lines) < 4)
        if threshold is not None:
            axes.axhline(threshold, color=INK, linewidth=0.9, linestyle=(0, (4, 3)))
            place = {"xycoords": ("axes fraction", "data"), "textcoords": "offset points"}
            axes.annotate(f"{threshold:.1f}", (1, threshold), (4, -3), fontsize=8, **place)
        axes.set_xscale("log", base=2)
        axes.set_xticks(lengths, [length_words(length) for length in lengths])
        axes.minorticks_off()
        axes.set_xlabel("length in tokens")
        axes.set_ylabel("score in percent")
        axes.set_ylim(-2, 104)
        axes.grid(axis="y")
        axes.legend(loc="upper center", bbox_to_anchor=(0.5, -0.2), ncols=2, fontsize=9)
        return finish(name, title, _curves_alt(title, lines))


def dots(
    name: str, title: str, lines: dict[str, dict[int, Figure]], threshold: float | None
) -> Picture:
    """Draw means at one length, a row for each name, with their intervals."""
    (length,) = {length for line in lines.values() for length in line}
    with canvas(5.2, 0.8 + 0.3 * len(lines)) as (axes, finish):
        for place, (label, line) in enumerate(lines.items()):
            cell, colour = line[length], INK if label == MEAN else COLOURS[place % len(COLOURS)]
            axes.hlines(place, cell.low, cell.high, color=colour, linewidth=2.5, alpha=0.5)
            axes.plot(cell.value, place, "o", color=colour, markersize=6)
            axes.annotate(f"{cell.value:.1f}", (104, place), va="center", fontsize=9,
                          annotation_clip=False)  # fmt: skip
        if threshold is not None:
            axes.axvline(threshold, color=INK, linewidth=0.9, linestyle=(0, (4, 3)))
        axes.set_yticks(range(len(lines)), [shown_name(label) for label in lines])
        axes.set_ylim(len(lines) - 0.5, -0.5)
        axes.set_xlim(-2, 102)
        axes.set_xlabel(f"score in percent at {length_words(length)} tokens")
        axes.grid(axis="x")
        return finish(name, title, _curves_alt(title, lines))


def _curve(
    axes: Any,  # noqa: ANN401 - matplotlib is imported only where a picture is drawn
    label: str,
    line: dict[int, Figure],
    place: int,
    *,
    bold: bool,
    band: bool,
) -> None:
    xs = sorted(line)
    colour = INK if bold else COLOURS[place % len(COLOURS)]
    style = {"color": colour, "markersize": 4.5, "linewidth": 2.2 if bold else 1.5}
    marker = MARKERS[place % len(MARKERS)] + "-"
    axes.plot(xs, [line[x].value for x in xs], marker, label=shown_name(label), **style)
    if band:
        lows, highs = [line[x].low for x in xs], [line[x].high for x in xs]
        axes.fill_between(xs, lows, highs, color=colour, alpha=0.15, linewidth=0)


def _curves_alt(title: str, lines: dict[str, dict[int, Figure]]) -> str:
    said = []
    for label, line in lines.items():
        scores = ", ".join(f"{line[x].value:.1f} at {length_words(x)}" for x in sorted(line))
        said.append(f"{shown_name(label)} {scores}")
    return f"{title}, in percent: {'; '.join(said)}."


def run_pictures(run: Scored, prefix: str) -> Iterator[Picture]:
    """Yield the pictures of a run's scores: tasks by category."""
    summary = run.summary
    for category in summary.categories:
        tasks = [task for task in summary.tasks if category in _categories(run, task)]
        lines = {task: summary.cells[task] for task in tasks}
        if len(tasks) > 1:
            lines[MEAN] = summary.categories[category]
        yield curves(f"{prefix}{slug(category)}", category.capitalize(), lines)


def overall_picture(runs: list[Scored]) -> Picture | None:
    """Return the means over all tasks of every run; None where no length has all tasks."""
    lines = {run.label: run.summary.overall for run in runs if run.summary.overall}
    if not lines:
        return None
    groups = {run.summary.group for run in runs if OVERALL in run.summary.effective}
    threshold = THRESHOLDS[groups.pop()][OVERALL] if len(groups) == 1 else None
    return curves("overall", "Mean score over all tasks", lines, threshold)


def _categories(run: Scored, task: str) -> set[str]:
    configs = run.results.configs.items()
    return {config.category for name, config in configs if parse_config(name)[0] == task}


def slug(text: str) -> str:
    """Return a text as part of a file's name."""
    return text.replace(" ", "-").replace("_", "-")


#: Kinds of failure that a picture tells apart; the rarer ones are drawn as one.
SHOWN = 7


def answer_pictures(run: Scored, prefix: str) -> Iterator[Picture]:
    """Yield the pictures of a run's answers: their length, those cut off, and how rows failed."""
    yield answer_lengths(run, f"{prefix}answers")
    yield cut_off(run, f"{prefix}cut-off")
    if any(config.failures for config in run.results.configs.values()):
        yield failures(run, f"{prefix}failures")


def answer_lengths(run: Scored, name: str) -> Picture:
    """Draw how long answers are, by task: median, middle half, and middle 90 percent."""
    spoken: dict[str, list[int]] = {}
    tokens = all(None not in config.tokens or None in config.scores
                 for config in run.results.configs.values())  # fmt: skip
    for config_name, config in run.results.configs.items():
        column = config.tokens if tokens else config.characters
        spoken.setdefault(parse_config(config_name)[0], []).extend(
            n for n in column if n is not None
        )
    tasks = [task for task in run.summary.tasks if spoken.get(task)]
    unit = "tokens" if tokens else "characters"
    with canvas(5.0, 0.8 + 0.27 * len(tasks)) as (axes, finish):
        said = []
        for place, task in enumerate(tasks):
            p5, p25, p50, p75, p95 = np.quantile(spoken[task], [0.05, 0.25, 0.5, 0.75, 0.95])
            axes.hlines(place, p5, p95, color=COLOURS[0], linewidth=1.2)
            axes.hlines(place, p25, p75, color=COLOURS[0], linewidth=5, alpha=0.6)
            axes.plot(p50, place, "o", color=COLOURS[1], markersize=5)
            said.append(f"{task} {p50:.0f}")
        axes.set_yticks(range(len(tasks)), tasks)
        axes.invert_yaxis()
        axes.set_xlim(left=0)
        axes.set_xlabel(f"length of the answer in {unit}")
        axes.grid(axis="x")
        return finish(name, "Length of answers", f"Median {unit} of an answer: {', '.join(said)}.")


def cut_off(run: Scored, name: str) -> Picture:
    """Draw the share of answers that were cut off, and of empty ones, by length."""
    lengths = run.summary.lengths
    with canvas(5.2, 2.6) as (axes, finish):
        said = []
        for place, (label, field) in enumerate((("cut off", "truncated"), ("empty", "empty"))):
            shares = [_share_at(run, length, field) for length in lengths]
            offset = (place - 0.5) * 0.36
            axes.bar(np.arange(len(lengths)) + offset, shares, 0.34, color=COLOURS[place],
                     label=label)  # fmt: skip
            said.append(f"{label} {', '.join(f'{share:.1f}' for share in shares)}")
        axes.set_xticks(range(len(lengths)), [length_words(length) for length in lengths])
        axes.set_xlabel("length in tokens")
        axes.set_ylabel("answers in percent")
        axes.set_ylim(0, max(1.0, axes.get_ylim()[1]))
        axes.grid(axis="y")
        axes.legend(loc="upper left", fontsize=9)
        alt = f"Percent of answers by length, shortest first: {'; '.join(said)}."
        return finish(name, "Answers cut off and empty answers", alt)


def failures(run: Scored, name: str) -> Picture:
    """Draw the share of rows that failed in each way, by length."""
    lengths = run.summary.lengths
    shares = _failure_shares(run)
    with canvas(5.2, 3.2) as (axes, finish):
        bottom = np.zeros(len(lengths))
        for place, (kind, column) in enumerate(shares.items()):
            colour = GRID if kind == OTHER else COLOURS[place % len(COLOURS)]
            axes.bar(range(len(lengths)), column, 0.7, bottom=bottom, color=colour, label=kind)
            bottom += column
        axes.set_xticks(range(len(lengths)), [length_words(length) for length in lengths])
        axes.set_xlabel("length in tokens")
        axes.set_ylabel("rows in percent")
        axes.grid(axis="y")
        axes.legend(loc="upper center", bbox_to_anchor=(0.5, -0.2), ncols=2, fontsize=9)
        said = (f"{kind} {', '.join(f'{share:.1f}' for share in column)}"
                for kind, column in shares.items())  # fmt: skip
        alt = f"Percent of rows that failed, by length, shortest first: {'; '.join(said)}."
        return finish(name, "How rows failed", alt)


def _failure_shares(run: Scored) -> dict[str, list[float]]:
    """Return the share of rows in percent by kind and length; rare kinds count as others."""
    counts: dict[str, list[float]] = {}
    for place, length in enumerate(run.summary.lengths):
        configs = _at(run, length)
        scored = sum(config.scored for config in configs)
        for config in configs:
            for kind, rows in config.failures.items():
                column = counts.setdefault(kind, [0.0] * len(run.summary.lengths))
                column[place] += 100 * len(rows) / scored
    often = sorted(set(counts) & set(MEANINGS) - {OTHER}, key=lambda kind: -sum(counts[kind]))[
        :SHOWN
    ]
    shares = {kind: counts[kind] for kind in MEANINGS if kind in often}
    rest = [column for kind, column in counts.items() if kind not in often]
    return {
        **shares,
        **({OTHER: [sum(column) for column in zip(*rest, strict=True)]} if rest else {}),
    }


def _share_at(run: Scored, length: int, field: str) -> float:
    configs = _at(run, length)
    scored = sum(config.scored for config in configs)
    return 100 * sum(len(getattr(config, field)) for config in configs) / scored


def _at(run: Scored, length: int) -> list[ConfigResult]:
    return [config for name, config in run.results.configs.items()
            if parse_config(name)[1] == length and config.scored]  # fmt: skip
