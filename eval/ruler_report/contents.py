"""The content of a report, in reading order: a verdict, then chapters of pictures and tables."""

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from ruler_data.names import counted
from ruler_data.progress import track
from ruler_eval.scoring.results import Example, Scores
from ruler_report import pictures, procedures, tables
from ruler_report.baseline import Retention, retained, retention, retention_table
from ruler_report.comparison import Comparison, Flips, cost_table, flips
from ruler_report.drawing import NO_PICTURES, Drawing, Medium, Picture, can_draw, render
from ruler_report.effective_length import OVERALL, THRESHOLDS
from ruler_report.frame import AVERAGES, Name
from ruler_report.lineup import SPELLED, Lineup, format_ranks, lineup
from ruler_report.means import FIRST, SECOND, Estimate, Point
from ruler_report.pictures import against, retrieval_by_depth
from ruler_report.runs import RULER, attributed, join, notes_of
from ruler_report.summary import ScoredRun, summarize
from ruler_report.typesetting import Printable, Table, format_length, visible


@dataclass(frozen=True)
class Section:
    """A part of a chapter; without a title it continues the section before.

    `folded` is the line under which HTML hides the tables, and `pictures` are the drawings, drawn.
    """

    title: str = ""
    drawings: Iterable[Drawing | None] = ()
    tables: Sequence[Table] = ()
    text: str = ""
    folded: str = ""
    examples: Sequence[Example] = ()
    flips: Flips | None = None
    pictures: Sequence[Picture] = ()


@dataclass(frozen=True)
class Chapter:
    """A chapter with its title, the anchor of its link, and its sections; HTML may fold it."""

    title: str
    anchor: str
    sections: tuple[Section, ...]
    folded: bool = False


@dataclass(frozen=True, repr=False)
class Report(Printable):
    """A report of one or several runs; it prints as its verdict and its headline table.

    Attributes:
        verdict: what the runs show, in words.
        runs: with their summaries and labels, the best first.
        chapters: an overview, the comparisons, and one of each run.
        notes: what a reader must know before the numbers.
        validity: a line for each run: what its scores rest on.
        about: protocol, edition, data version, tokenizer, day and hardware, in one line.
        command: that makes the report again; empty if a program made it.
        file: the page that was written.
    """

    title: str
    verdict: tuple[str, ...]
    runs: tuple[ScoredRun, ...]
    chapters: tuple[Chapter, ...]
    notes: tuple[str, ...] = ()
    validity: tuple[str, ...] = ()
    about: str = ""
    command: str = ""
    file: Path | None = None

    def display_parts(self) -> list[Table | str]:
        """Return the verdict, the means of all runs, the comparisons, and the file."""
        tables = [
            table for table in self.tables if table.name.startswith(("headline", "comparison"))
        ]
        counts = (counted(len(self.pictures), "picture"), counted(len(self.tables), "table"))
        return [
            *self.verdict,
            *tables,
            *self.validity,
            *([f"{self.file}: {', '.join(counts)}"] * bool(self.file)),
        ]

    def to_record(self) -> dict[str, Any]:
        """Return the verdict, the means and where the page is, as plain values."""
        lines = {"verdict": self.verdict, "validity": self.validity, "notes": self.notes}
        return {**lines, "scores": self.to_records(), "file": str(self.file or "")}

    def to_records(self) -> list[dict[str, Any]]:
        """Return a flat record for each mean score; `task` is None in the mean over all tasks.

        `pandas.DataFrame(report.to_records())` is a table of all of them.
        """
        return [
            {"model": run.label, "task": task, "length": length, **vars(estimate)}
            for run in self.runs
            for task, cells in [*run.summary.cells.items(), (None, run.summary.overall)]
            for length, estimate in cells.items()
        ]

    @property
    def sections(self) -> list[Section]:
        """All sections of all chapters."""
        return [section for chapter in self.chapters for section in chapter.sections]

    @property
    def pictures(self) -> list[Picture]:
        """All pictures, in reading order."""
        return [picture for section in self.sections for picture in section.pictures]

    @property
    def tables(self) -> list[Table]:
        """All tables, in reading order."""
        return [table for section in self.sections for table in section.tables]


def build(
    results: Sequence[Scores],
    *,
    baseline: Scores | None = None,
    medium: Medium | None = "page",
    option: str = "",
    rows: int | None = None,
    tasks: Collection[str] = (),
    lengths: Collection[int] = (),
    force: bool = False,
    claimed: bool = False,
    procedure: str | None = None,
    places: Sequence[Path] = (),
    data: str | None = None,
    command: str = "",
) -> Report:
    """Return the report of runs; with several, each is compared with the first, or the baseline.

    `option` is what scores are drawn against. `medium` is what pictures are for; without it there
    are none. `rows`, `tasks` and `lengths` narrow the frame; `claimed` runs are ranked only if the
    user says so. `places` are the folders of the runs and the baseline: of their flipped rows the
    texts are read there.
    """
    known = [*results, *([baseline] if baseline else [])]
    folders = {id(run): place for run, place in zip(known, places, strict=False)}
    if baseline:  # the same run may be there with a name
        same = (result for result in results if replace(result, name="", attributes={}) == baseline)
        baseline = next(same, baseline)
        results = [baseline, *(result for result in results if result != baseline)]
    field = lineup(results, rows=rows, tasks=tasks, lengths=lengths, force=force, claimed=claimed)
    runs = [
        ScoredRun(label, result, summarize(field, place))
        for place, (label, result) in enumerate(zip(field.labels, field.runs, strict=True))
    ]
    base, ordered = runs[0], [runs[place] for place in field.order]
    ranks = [format_ranks(field.ranks.get(place)) for place in field.order]
    best = {name: field.best(name) for name in field.means.columns if name[0] in (None, *AVERAGES)}
    comparisons = {comparison.labels[1]: comparison for comparison in field.comparisons.values()}
    standing = [*field.standing(), *field.against()]
    ratios = {run: retention(field, 0, run) for run in field.order if baseline and run}
    verdict = [f"{field.line}.", *standing, *retained(field, ratios)]
    verdict += [*(_alone(base) if len(runs) == 1 else ()), *_reach(ordered)]
    drawn_medium = medium if can_draw() else None
    overview = _overview(field, ordered, ranks, best, base if baseline else None, option)
    chapters = [("At a glance", "glance", False, overview)]
    if comparisons:
        sections = _compared(field, ordered, comparisons, ratios)
        chapters.append((f"Compared with {base.label}", "compared", False, sections))
        if len(runs) <= SPELLED + 1:
            flipped = _flipped(runs, [folders.get(id(run.results)) for run in runs], data)
            chapters.append(("Rows that flipped", "flipped", False, flipped))
    chapters.append(("Where scores are lost", "lost", False, _losses(ordered)))
    chapters += [
        (run.label, f"run{place}", True, _sections(run, procedure))
        for place, run in enumerate(ordered, 1)
    ]
    suites = sorted({result.run.data.suite for result in results})
    name = "RULER" if suites == [RULER] else f"Suite {', '.join(map(visible, suites))}"
    few = len(runs) <= SPELLED
    models = ", ".join(run.label for run in ordered) if few else f"{len(runs)} runs"
    return Report(
        title=f"{name} results: {models}",
        verdict=tuple(verdict),
        runs=tuple(ordered),
        notes=(
            *_notes(field, comparisons),
            *([NO_PICTURES] if medium and not drawn_medium else []),
        ),
        validity=tuple(
            attributed([(run.label, run.results.validity_line) for run in ordered], len(runs))
        ),
        about=_about(field.runs),
        command=command,
        chapters=tuple(
            Chapter(title, anchor, tuple(_drawn_sections(sections, drawn_medium)), folded)
            for title, anchor, folded, sections in track(chapters, "writing the report")
        ),
    )


def _about(runs: Sequence[Scores]) -> str:
    """Return protocol, edition, data, tokenizer, day and hardware of runs, each value once."""
    days = sorted({run.date for run in runs if run.date})
    facts = {
        "protocol": [run.run.protocol for run in runs],
        "edition": [run.run.data.edition for run in runs],
        "data version": [run.run.data.data_version for run in runs],
        "tokenizer": [run.run.data.tokenizer for run in runs],
        "run on": [" to ".join(dict.fromkeys((days[0], days[-1])))] if days else [],
        "hardware": [name for run in runs if run.validity for name in run.validity.hardware],
    }
    return "; ".join(
        f"{name} {' and '.join(map(visible, dict.fromkeys(values)))}"
        for name, values in facts.items()
        if values
    )


def _alone(run: ScoredRun) -> Iterator[str]:
    summary = run.summary
    means = _known(summary.overall)
    if not (summary.mean and means):
        return
    first, last = min(means), max(means)
    falls = ", ".join(f"{means[x].value:.1f} at {format_length(x)}" for x in (first, last))
    yield f"{run.label} has a mean of {summary.mean}{f': {falls}' if first != last else ''}."
    if len(summary.by_task) > 1:
        task, _ = min(_known(summary.by_task).items(), key=lambda item: item[1].value)
        yield f"Lowest task: {task}, {summary.by_task[task]}."


def _reach(runs: Sequence[ScoredRun]) -> Iterator[str]:
    """Yield the effective lengths of the runs."""
    runs_by_text: dict[str, list[str]] = {}
    for run in runs:
        if text := run.summary.headline_reach:
            if declared := run.results.window[0]:
                text += f" of {format_length(declared)} declared"
            runs_by_text.setdefault(text, []).append(run.label)
    if runs_by_text and len(runs) <= 2 * SPELLED:
        texts = (f"{length} ({join(runs_there)})" for length, runs_there in runs_by_text.items())
        yield f"Effective length: {', '.join(texts)}."


def _notes(field: Lineup, comparisons: Mapping[str, Comparison]) -> Iterator[str]:
    """Return what to know of the runs, those without a rank first, and of how they compare."""
    base = field.labels[0]
    notes = [*field.why_unranked]
    notes += [
        (label, note)
        for label, run in zip(field.labels, field.runs, strict=True)
        for note in notes_of(run)
    ]
    for label, comparison in comparisons.items():
        notes += [(label, f"compared with {base} although {why}") for why in comparison.warnings]
        if comparison.basis != "paired: the same rows":
            notes.append((label, f"compared with {base}, {comparison.basis}"))
    return attributed(notes, len(field.runs))


def _drawn_sections(sections: Iterable[Section], medium: Medium | None) -> Iterator[Section]:
    """Yield sections with their pictures, unless `medium` is None, and without what is empty."""
    for section in sections:
        drawings = [drawing for drawing in section.drawings if drawing] if medium else []
        pictures = tuple(render(drawing, medium) for drawing in drawings if medium)
        tables = tuple(table for table in section.tables if table.rows)
        is_there = pictures or tables or section.examples or section.flips
        if is_there or (section.text and section.tables):
            yield replace(section, drawings=(), pictures=pictures, tables=tables)


def _overview(
    field: Lineup,
    runs: Sequence[ScoredRun],
    ranks: Sequence[str],
    best: tables.Best,
    baseline: ScoredRun | None,
    option: str,
) -> Iterator[Section]:
    yield Section(tables=[tables.headline(runs, ranks, best), tables.task_means(runs)])
    labels = [run.label for run in runs]
    if option:
        yield Section(drawings=[against(field, runs, option, baseline)])
    groups = {run.summary.group for run in runs if OVERALL in run.summary.effective}
    threshold = THRESHOLDS[groups.pop()][OVERALL] if len(groups) == 1 else None
    names = list(dict.fromkeys(task for run in runs for task in run.summary.tasks))
    by_length = pictures.lengths_picture(
        labels,
        [_known(run.summary.overall) for run in runs],
        {task: [_known(run.summary.cells.get(task, {})) for run in runs] for task in names},
        threshold,
    )
    by_task = pictures.tasks_picture(
        labels, {task: [_known(run.summary.by_task).get(task) for run in runs] for task in names}
    )
    yield Section("Tasks by length", [by_length])
    yield Section("Tasks", [by_task])
    costs = cost_table({run.label: run.results for run in runs})
    yield Section("How models answered, and at what cost", (), [costs], folded="Numbers")
    yield Section(tables=[tables.effective_lengths(runs)], folded="Effective lengths")
    yield Section(tables=list(tables.beside_published(runs)), folded="Beside published scores")


def _known(cells: Mapping[Any, Estimate]) -> dict[Any, Point]:
    return {key: cell.point for key, cell in cells.items() if cell.known}


def _compared(
    field: Lineup,
    runs: Sequence[ScoredRun],
    comparisons: Mapping[str, Comparison],
    ratios: Mapping[int, Mapping[Name, Retention]],
) -> Iterator[Section]:
    base = field.labels[0]
    compared = [run for run in runs if run.label != base]
    yield Section(drawings=[_differences(base, [run.label for run in compared], comparisons)])
    if ratios:
        retention_tables = [
            retention_table(f"retention-{place}", field, run, ratios[run])
            for place, run in enumerate(ratios, 2)
        ]
        yield Section(f"Retention of {base}", tables=retention_tables)
    for place, name in enumerate((run.label for run in compared), 2):
        comparison = comparisons[name]
        table = comparison.table(f"comparison-{place}", (base, name))
        yield Section(tables=[table], folded=comparison.conclusion)


def _flipped(
    runs: Sequence[ScoredRun], places: Sequence[Path | None], data: str | None
) -> Iterator[Section]:
    """Yield the rows of each run that flipped against the first; of runs in folders alone."""
    base, first = runs[0], places[0]
    for run, place in zip(runs[1:], places[1:], strict=True):
        if first and place:
            pair = (base.results, run.results)
            changed = flips((base.label, run.label), pair, (first, place), data)
            yield Section(changed.title, flips=changed)


def _differences(
    base: str, labels: Sequence[str], comparisons: Mapping[str, Comparison]
) -> Drawing | None:
    """Return the picture of the differences, over the tasks and lengths of any comparison."""
    tables = [comparisons[label] for label in labels]
    tasks = list(dict.fromkeys(task for table in tables for task in table.tasks))
    lengths = sorted({length for table in tables for length in table.lengths})
    keys = [[(task, length) for length in (*lengths, None)] for task in (*tasks, None)]
    values, stars = np.full((2, len(tables), len(tasks) + 1, len(lengths) + 1), np.nan)
    for place, table in enumerate(tables):
        for y, row in enumerate(keys):
            for x, key in enumerate(row):
                gap = table.differences.get(key)
                if gap and gap.points:
                    values[place, y, x] = gap.value
                    stars[place, y, x] = gap.verdict in (FIRST, SECOND)
    return pictures.differences_picture(base, labels, tasks, lengths, values, stars == 1)


def _losses(runs: Sequence[ScoredRun]) -> Iterator[Section]:
    """Yield where runs lose points: depth, and kinds of failure."""
    lengths = sorted({length for run in runs for length in run.summary.lengths})
    grids = [retrieval_by_depth(run.results, lengths) for run in runs]
    depth = pictures.depth_picture([run.label for run in runs], lengths, grids)
    yield Section("Retrieval by depth", [depth])
    failures = tables.failure_shares(runs)
    text = "" if failures.rows else "No row lost points or named more than the gold answers."
    yield Section("How rows failed", tables=[failures], text=text)


def _sections(run: ScoredRun, procedure: str | None) -> Iterator[Section]:
    published = [*procedures.sections(run, procedure)]
    yield Section("Tasks", tables=[tables.by_task(run)])
    for folded, table in published:
        yield Section(tables=[table], folded=folded)
    yield Section("What the suite varies", tables=[*tables.varied(run), *tables.claims(run)])
    yield Section("Answers", tables=[tables.answers(run)])
    order = {name: number for number, name in enumerate(run.results.configs)}
    yield Section(
        "How rows failed",
        tables=[tables.failures(run)],
        examples=sorted(run.results.examples, key=lambda e: (e.failure, order[e.config])),
    )
    yield Section("How it was run", tables=[tables.facts(run.results)])
