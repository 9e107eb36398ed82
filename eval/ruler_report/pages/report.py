"""The content of a report, in reading order: chapters of sections of pictures and tables."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

from ruler_data.manifest import BALANCED, IMPORTED
from ruler_data.names import parse_config
from ruler_data.tasks import TASKS
from ruler_data.terminal import track
from ruler_report.figures.heatmaps import correlation_picture, depth_picture
from ruler_report.figures.model_plots import answer_pictures, overall_picture, run_pictures
from ruler_report.figures.style import Picture
from ruler_report.figures.sweep_plots import study_pictures
from ruler_report.format import visible
from ruler_report.pages import tables
from ruler_report.results import Example, Results
from ruler_report.stats.comparability import SAME_ROWS
from ruler_report.stats.comparison import compare_all, labels_of
from ruler_report.stats.correlation import correlation_study
from ruler_report.stats.depth import depth_tables
from ruler_report.stats.effective_length import RULER
from ruler_report.stats.summary import ScoredRun, stated_error, summarize
from ruler_report.table import Shown, Table

DEPTH_TEXT = """\
Percent of the evidence that answers show, by its depth in the context; n is the number of rows \
with evidence at that depth. Tasks on a grid of depths show the score at each depth. The evidence \
of cwe is every occurrence of a common word. fwe has no evidence, nor have questions whose needle \
or documents a suite leaves out."""


@dataclass(frozen=True)
class Section:
    """A part of a chapter.

    Attributes:
        title: empty if it continues the section before.
        pictures: shown before the tables.
        tables: those without rows are left out.
        text: an introduction.
        folded: the line under which HTML hides the tables until it is clicked; empty for none.
        tall: whether the pictures are narrow and tall.
        examples: rows that lost points.
    """

    title: str = ""
    pictures: Iterable[Picture] = ()
    tables: Sequence[Table] = ()
    text: str = ""
    folded: str = ""
    tall: bool = False
    examples: Sequence[Example] = ()


@dataclass(frozen=True)
class Chapter:
    """A chapter with its title, the anchor of its link, and its sections."""

    title: str
    anchor: str
    sections: tuple[Section, ...]


@dataclass(frozen=True, repr=False)
class Report(Shown):
    """A report of one or several runs; it prints as its headline table.

    Attributes:
        title: of the report.
        runs: with their summaries and labels.
        chapters: an overview, the comparisons, and one of each run.
        notes: what a reader must know before the numbers.
    """

    title: str
    runs: tuple[ScoredRun, ...]
    chapters: tuple[Chapter, ...]
    notes: tuple[str, ...] = ()

    def shown(self) -> list[Table]:
        """Return the means of all runs, and the comparisons."""
        return [table for table in self.tables if table.name.startswith(("headline", "comparison"))]

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


def build(results: Sequence[Results], *, pictures: bool = True, force: bool = False) -> Report:
    """Return the report of runs; with several, each is compared with the first.

    Raises:
        RulerError: the runs cannot be compared and `force` is false.
        UsageError: pictures are wanted and matplotlib is not installed.
    """
    labels = labels_of([one.run for one in results])
    runs = [
        ScoredRun(label, one, summarize(one)) for label, one in zip(labels, results, strict=True)
    ]
    notes = [f"{run.label}: {note}" for run in runs for note in notes_of(run.results)]
    compared = []
    comparisons = compare_all([(results[0], one) for one in results[1:]], force=force)
    for place, (run, comparison) in enumerate(zip(runs[1:], comparisons, strict=True), 2):
        compared.append(comparison.table(f"comparison-{place}", (labels[0], run.label)))
        notes += [f"{run.label}: compared although {why}" for why in comparison.warnings]
        if comparison.basis != SAME_ROWS:
            notes.append(f"{labels[0]} and {run.label}: {comparison.basis}")
    chapters = [("At a glance", "glance", _overview(runs, pictures))]
    if compared:
        chapters.append(("Comparison", "compared", iter([Section(tables=compared)])))
    chapters += [
        (run.label, f"run{place}", _sections(run, f"run{place}-"))
        for place, run in enumerate(runs, 1)
    ]
    suites = sorted({one.run.data.suite for one in results})
    name = "RULER" if suites == [RULER] else f"Suite {', '.join(map(visible, suites))}"
    return Report(
        title=f"{name} results: {', '.join(labels)}",
        runs=tuple(runs),
        notes=tuple(notes),
        chapters=tuple(
            Chapter(title, anchor, tuple(_finished(section, pictures) for section in sections))
            for title, anchor, sections in track(chapters, "writing the report")
        ),
    )


def _finished(section: Section, pictures: bool) -> Section:
    """Return a section with its pictures drawn, if they are wanted, and without empty tables."""
    return replace(
        section,
        pictures=tuple(section.pictures) if pictures else (),
        tables=tuple(table for table in section.tables if table.rows),
    )


def _overview(runs: Sequence[ScoredRun], pictures: bool) -> Iterator[Section]:
    yield Section(tables=[tables.headline(runs)])
    yield Section(pictures=overall_picture(runs), tables=[tables.effective_lengths(runs)])
    study = correlation_study(runs) if pictures else None
    if study:
        yield Section(
            pictures=[correlation_picture(study)],
            tables=[tables.correlations(study)],
            folded="Correlations between tasks",
        )
    for table in tables.beside_published(runs):
        yield Section(tables=[table], folded="Beside published scores")


def _sections(run: ScoredRun, prefix: str) -> Iterator[Section]:
    """Yield the sections of one run; the names of its pictures begin with the prefix."""
    studies = [tables.study(run, study) for study in run.summary.studies]
    if studies:
        yield Section(
            "What the suite varies",
            study_pictures(run, prefix),
            [tables.spread(run), *studies, *tables.claims(run)],
        )
    yield Section(
        "Tasks", run_pictures(run, prefix), [tables.by_task(run), run.summary.exact_table()]
    )
    depths = depth_tables(run)
    if depths:
        yield Section(
            "Evidence by depth",
            (depth_picture(table, prefix) for table in depths),
            [tables.depth_grid(table) for table in depths if table.grid],
            text=DEPTH_TEXT,
            tall=True,
        )
    yield Section("Floors", tables=[tables.floors(run)], folded="By task and length")
    yield Section(
        "Answers", answer_pictures(run, prefix), [tables.answers(run)], folded="By task and length"
    )
    order = {name: number for number, name in enumerate(run.results.configs)}
    failures = tables.failures(run)
    yield Section(
        "How rows failed",
        tables=[failures],
        text="" if failures.rows else "No row lost points or named more than the gold answers.",
        folded="By task and length",
        examples=sorted(run.results.examples, key=lambda e: (e.failure, order[e.config])),
    )
    yield Section("How it was run", tables=[tables.facts(run.results)])


def notes_of(results: Results) -> Iterator[str]:
    """Yield what a reader must know before the numbers."""
    if results.scored < results.rows:
        share = f"{results.scored:,} of {results.rows:,}"
        yield f"incomplete: {share} rows scored; the other rows are not in the means"
    yield from caveats_of(results)
    yield from map(visible, results.notes)


def caveats_of(results: Results) -> Iterator[str]:
    """Yield why the scores are not RULER's, or are imprecise, although every row was answered."""
    run = results.run
    if run.data.sample:
        yield "rows of the small sample corpus; not comparable with RULER scores"
    if run.data.edition == IMPORTED:
        yield "imported rows, which somebody else made; compare only with runs on these rows"
    elif run.data.edition != BALANCED:
        yield (
            f"edition {visible(run.data.edition)}: upstream's own rows with their defects; compare "
            "only with runs of this edition"
        )
    if run.no_context:
        yield "run without the context, as a baseline"
    missing = set(TASKS) - {parse_config(name)[0] for name in results.configs}
    error = stated_error(results)
    if error is not None:
        yield (
            f"suite {visible(run.data.suite)}: in 95 of 100 runs its mean of the 13 tasks is "
            f"within {error:g} points of that of RULER's 500 rows; no error is stated for other "
            "numbers"
        )
    elif run.data.suite != RULER:
        yield f"suite {visible(run.data.suite)}; its means are not comparable with RULER's"
    elif missing:
        yield f"{13 - len(missing)} of 13 tasks; means over tasks are not RULER averages"
    few = min((config.rows for config in results.configs.values()), default=0)
    if few < 100:
        yield f"some configs have only {few} rows; the paper uses 500"
