"""What a report says, in the order in which it says it; HTML and Markdown only dress it."""

from collections.abc import Sequence
from dataclasses import dataclass

from ruler_eval.figures.compare import Comparison, compare
from ruler_eval.figures.summary import summarize
from ruler_eval.reports import tables
from ruler_eval.reports.answer_plots import answer_pictures
from ruler_eval.reports.canvas import Picture
from ruler_eval.reports.correlation import (
    correlation_picture,
    correlation_study,
    correlation_table,
)
from ruler_eval.reports.depth_plots import depth_pictures, depth_tables
from ruler_eval.reports.differences import difference_rows
from ruler_eval.reports.plots import overall_picture, run_pictures
from ruler_eval.reports.provenance import facts, labels_of, title_of, warnings_of
from ruler_eval.reports.studies import study_tables
from ruler_eval.reports.study_plots import study_pictures
from ruler_eval.reports.tables import Scored, Table
from ruler_eval.reports.words import difference_words, length_words
from ruler_eval.results import Example, Results


@dataclass(frozen=True)
class Chapter:
    """What a report says of one run.

    Attributes:
        label: the run's name in this report.
        tasks: scores by task, with pictures of them.
        studies: scores by what the suite varies, with pictures of them.
        depths: pictures of evidence by depth.
        grids: scores by depth, where a task stands on a grid of depths.
        answers: what the scores do not tell, with pictures of it.
        failures: how rows failed, with examples.
        facts: how it was run.
    """

    label: str
    tasks: Table
    curves: tuple[Picture, ...]
    studies: tuple[Table, ...]
    study_pictures: tuple[Picture, ...]
    depths: tuple[Picture, ...]
    grids: tuple[Table, ...]
    answers: Table
    answer_pictures: tuple[Picture, ...]
    failures: Table
    examples: tuple[Example, ...]
    facts: Table


@dataclass(frozen=True)
class Report:
    """A report of one or several runs.

    Attributes:
        title: of it.
        warnings: what a reader must know before the figures.
        headline: means over all tasks.
        effective: effective lengths.
        overview: pictures of them.
        correlations: of tasks, where the 18 of the paper's study were run.
        published: the runs beside published scores.
        comparisons: of the first run with each other one.
        chapters: one for each run.
    """

    title: str
    warnings: tuple[str, ...]
    headline: Table
    effective: Table
    overview: tuple[Picture, ...]
    correlations: tuple[Table, ...]
    published: tuple[Table, ...]
    comparisons: tuple[Table, ...]
    chapters: tuple[Chapter, ...]

    @property
    def pictures(self) -> tuple[Picture, ...]:
        """All pictures of it."""
        found = list(self.overview)
        for chapter in self.chapters:
            found += [*chapter.study_pictures, *chapter.curves, *chapter.depths,
                      *chapter.answer_pictures]  # fmt: skip
        return tuple(found)

    @property
    def tables(self) -> tuple[Table, ...]:
        """All tables of it."""
        found = [self.headline, self.effective, *self.correlations, *self.published]
        found += self.comparisons
        for chapter in self.chapters:
            found += [*chapter.studies, chapter.tasks, *chapter.grids, chapter.answers,
                      chapter.failures, chapter.facts]  # fmt: skip
        return tuple(found)


def build(results: Sequence[Results], *, pictures: bool = True, force: bool = False) -> Report:
    """Return the report of runs; with several, each is compared with the first.

    Raises:
        RulerError: runs cannot be compared and it is not forced.
    """
    runs = [Scored(label, one, summarize(one))
            for label, one in zip(labels_of(results), results, strict=True)]  # fmt: skip
    others = [(run, compare(results[0], run.results, force=force)) for run in runs[1:]]
    warnings = [f"{run.label}: {warning}" for run in runs for warning in warnings_of(run.results)]
    warnings += [f"{run.label}: compared although {warning}"
                 for run, comparison in others for warning in comparison.warnings]  # fmt: skip
    study = correlation_study(runs) if pictures else None
    overview = (overall_picture(runs), study and correlation_picture(study)) if pictures else ()
    return Report(
        title=f"{title_of(results)} results: {', '.join(run.label for run in runs)}",
        warnings=tuple(warnings),
        headline=tables.headline(runs),
        effective=tables.effective_lengths(runs),
        overview=tuple(picture for picture in overview if picture),
        correlations=(correlation_table(study),) if study else (),
        published=tuple(tables.beside_published(runs)),
        comparisons=tuple(
            comparison_table(comparison, runs[0].label, run.label, place)
            for place, (run, comparison) in enumerate(others, 2)
        ),
        chapters=tuple(_chapter(run, place, pictures) for place, run in enumerate(runs, 1)),
    )


def comparison_table(comparison: Comparison, first: str, second: str, number: int) -> Table:
    """Return a comparison: differences by task and length, verdicts by task and over all."""
    heads = (length_words(length) for length in comparison.lengths)
    head = ("task", *heads, "mean", "p (Holm)", "better")
    names = {"first": first, "second": second}
    rows = tuple(difference_rows(comparison, difference_words, "all tasks", names))
    caption = (
        f"{second} less {first}, in percent points, on the same {comparison.overall.pairs:,} rows, "
        "with 95 % intervals; * told apart at 5 % by a paired permutation test, after Holm"
    )
    return Table(f"comparison-{number}", caption, head, rows, (len(rows) - 1,))


def _chapter(run: Scored, place: int, pictures: bool) -> Chapter:
    prefix = f"run{place}-"
    order = {name: number for number, name in enumerate(run.results.configs)}
    return Chapter(
        label=run.label,
        tasks=tables.by_task(run),
        curves=tuple(run_pictures(run, prefix)) if pictures else (),
        studies=tuple(study_tables(run)),
        study_pictures=tuple(study_pictures(run, prefix)) if pictures else (),
        depths=tuple(depth_pictures(run, prefix)) if pictures else (),
        grids=tuple(depth_tables(run)),
        answers=tables.answers(run),
        answer_pictures=tuple(answer_pictures(run, prefix)) if pictures else (),
        failures=tables.failures(run),
        examples=tuple(sorted(run.results.examples, key=lambda e: (e.failure, order[e.config]))),
        facts=facts(run.results),
    )
