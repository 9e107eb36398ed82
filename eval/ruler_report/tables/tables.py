"""The tables of a report, as plain text in rows: every form of a report shows the same ones."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from ruler_data.names import parse_config
from ruler_report.failures import MEANINGS
from ruler_report.published import LENGTHS, Published, published
from ruler_report.results import ConfigResult, Results
from ruler_report.stats.effective_length import OVERALL, OWN, ranks
from ruler_report.stats.score_table import AVERAGES, Figure
from ruler_report.stats.summary import Summary
from ruler_report.tables.format import length_words, percent_words, shares_words, span_words

HEADS = {"avg": "Avg.", "wavg_inc": "wAvg. (inc)", "wavg_dec": "wAvg. (dec)"}
#: Where published scores are beside which a run stands, by group.
BESIDE = {"aligned": ("paper-2024-08", "3"), "base": ("paper-2024-04", "12")}


@dataclass(frozen=True)
class Table:
    """A table; the first cell of a row names it, and a row of `marked` is this report's own."""

    name: str
    caption: str
    head: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    marked: tuple[int, ...] = ()


@dataclass(frozen=True)
class Scored:
    """A run with its figures and the name that it goes by in this report."""

    label: str
    results: Results
    summary: Summary


def headline(runs: Sequence[Scored]) -> Table:
    """Return the means over all tasks of every run."""
    lengths = sorted({length for run in runs for length in run.summary.lengths})
    head = ("model", *map(length_words, lengths), *HEADS.values(), "effective", "85 % of own")
    rows = tuple(
        (
            run.label,
            *(_span(run.summary.overall.get(length)) for length in lengths),
            *(_span(run.summary.averages.get(name)) for name in AVERAGES),
            *(_length(run.summary, name) for name in (OVERALL, OWN)),
        )
        for run in runs
    )
    tasks = {len(run.summary.tasks) for run in runs}
    what = " or ".join(str(count) for count in sorted(tasks))
    caption = f"Mean score over {what} tasks by length in tokens, in percent, with 95 % intervals"
    return Table("headline", caption, head, rows)


def effective_lengths(runs: Sequence[Scored]) -> Table:
    """Return the effective lengths of every run, by threshold, with their uncertainty."""
    rows = []
    for run in runs:
        longest = run.summary.lengths[-1]
        for name, effective in run.summary.effective.items():
            what = {OVERALL: "all tasks", OWN: "all tasks, 85 % of its own shortest"}.get(
                name, name
            )
            length = length_words(effective.length, longest)
            shares = shares_words(effective, longest)
            rows.append((run.label, what, f"{effective.threshold:.1f}", length, shares))
    caption = "Effective lengths: the longest at which the mean reaches a threshold, in percent"
    head = ("model", "mean over", "threshold", "length", "in resamples")
    return Table("effective", caption, head, tuple(rows))


def by_task(run: Scored) -> Table:
    """Return the scores of every task and category."""
    summary = run.summary
    head = ("task", *map(length_words, summary.lengths))
    rows = [(task, *spans(cells, summary.lengths)) for task, cells in summary.cells.items()]
    own = len(rows)
    rows += [
        (f"mean: {name}", *spans(cells, summary.lengths))
        for name, cells in summary.categories.items()
    ]
    rows.append((f"mean of {len(summary.tasks)} tasks", *spans(summary.overall, summary.lengths)))
    caption = "Score by task and length, in percent, with 95 % intervals"
    return Table("tasks", caption, head, tuple(rows), tuple(range(own, len(rows))))


def answers(run: Scored) -> Table:
    """Return what the scores alone do not tell: strict scores, cut off, empty and unscored rows."""
    head = ("task", "length", "rows", "score", "strict", "completed only", "cut off", "empty",
            "unscored")  # fmt: skip
    rows = []
    for name, config in run.results.configs.items():
        task, length = parse_config(name)
        score = run.summary.cells.get(task, {}).get(length)
        rows.append((
            task, length_words(length), f"{config.scored:,} of {config.rows:,}",
            f"{score.value:.2f}" if score else "",
            _number(run.summary.strict.get(task, {}).get(length)),
            _number(run.summary.completed.get(task, {}).get(length)),
            _share(len(config.truncated), config), _share(len(config.empty), config),
            f"{config.rows - config.scored:,}",
        ))  # fmt: skip
    caption = (
        "Score, strict score (whole words; yes and no only first; reasoning stripped) and score of "
        "the answers that were not cut off, in percent"
    )
    return Table("answers", caption, head, tuple(rows))


def failures(run: Scored) -> Table:
    """Return how many rows failed in which way, by task and length."""
    found = {kind for config in run.results.configs.values() for kind in config.failures}
    kinds = [kind for kind in MEANINGS if kind in found] + sorted(found - set(MEANINGS))
    rows = [
        (parse_config(name)[0], length_words(parse_config(name)[1]),
         *(str(len(config.failures.get(kind, ())) or "") for kind in kinds))
        for name, config in run.results.configs.items() if config.failures
    ]  # fmt: skip
    caption = "Rows that scored below 100 %, by what the answer shows"
    return Table("failures", caption, ("task", "length", *kinds), tuple(rows))


def spans(cells: dict[int, Figure], lengths: Iterable[int]) -> tuple[str, ...]:
    """Return means with their intervals at these lengths, nothing where there is none."""
    return tuple(_span(cells.get(length)) for length in lengths)


def beside_published(runs: Sequence[Scored]) -> list[Table]:
    """Return tables of runs among published scores, ranked, where a run has the paper's figures."""
    tables = []
    for group, (file, number) in BESIDE.items():
        ours = [run for run in runs if run.summary.group == group
                and OVERALL in run.summary.effective
                and set(run.summary.overall) & set(LENGTHS)]  # fmt: skip
        if ours:
            theirs = [line for line in published(file) if line.table == number and line.ranks]
            tables.append(_beside(group, ours, theirs))
    return tables


def _beside(group: str, ours: Sequence[Scored], theirs: Sequence[Published]) -> Table:
    lines: list[tuple[str, dict[int, float], dict[str, float], int | None]] = [
        (line.model, line.scores, line.averages, line.effective) for line in theirs
    ]
    for run in ours:
        whole = run.summary.lengths == LENGTHS
        averages = {name: figure.value for name, figure in run.summary.averages.items() if whole}
        means = {length: figure.value for length, figure in run.summary.overall.items()}
        effective = run.summary.effective[OVERALL].length
        lines.append((run.label, means, averages, effective))
    lines.sort(key=lambda line: -line[2].get("wavg_inc", -1))
    names = {run.label for run in ours}
    head = ("model", *map(length_words, LENGTHS), *HEADS.values(), "effective")
    rows = tuple(
        (name, *(_number(scores.get(length), 1) for length in LENGTHS),
         *_ranked(averages, [line[2] for line in lines]),
         length_words(effective, max(scores)).replace("none", "<4K"))
        for name, scores, averages, effective in lines
    )  # fmt: skip
    marked = tuple(place for place, line in enumerate(lines) if line[0] in names)
    caption = (
        f"Beside the paper's {group} models (arXiv 2404.06654, on rows of its own: no interval, "
        "no pairing), by wAvg. (inc); ranks in brackets"
    )
    return Table(f"published-{group}", caption, head, rows, marked)


def _ranked(averages: dict[str, float], every: Sequence[dict[str, float]]) -> Iterable[str]:
    for name in AVERAGES:
        if name not in averages:
            yield ""
            continue
        values = [line[name] for line in every if name in line]
        rank = ranks([averages[name], *values])[0]
        yield f"{averages[name]:.1f}" + (f" ({rank})" if name != "avg" else "")


def _length(summary: Summary, name: str) -> str:
    effective = summary.effective.get(name)
    if effective is None:
        return ""
    share = percent_words(effective.shares.get(effective.length or 0, 0.0))
    return f"{length_words(effective.length, summary.lengths[-1])} ({share})"


def _span(figure: Figure | None) -> str:
    return "" if figure is None else span_words(figure)


def _number(value: float | None, digits: int = 2) -> str:
    return "" if value is None else f"{value:.{digits}f}"


def _share(rows: int, config: ConfigResult) -> str:
    return percent_words(rows / config.scored) if rows else ""
