"""What a report says, in the order in which it says it; HTML and Markdown only dress it.

How a run was made, and what its reader must know before the figures.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from ruler_data.names import parse_config
from ruler_data.tasks import TASKS
from ruler_report.figures.correlation import (
    correlation_picture,
    correlation_study,
    correlation_table,
)
from ruler_report.figures.depth_plots import depth_pictures, depth_tables
from ruler_report.figures.model_plots import answer_pictures, overall_picture, run_pictures
from ruler_report.figures.style import Picture
from ruler_report.figures.sweep_plots import study_pictures, study_tables
from ruler_report.results import Example, Results
from ruler_report.stats.comparison import Comparison, compare
from ruler_report.stats.effective_length import RULER, stated_error
from ruler_report.stats.summary import summarize
from ruler_report.tables import tables
from ruler_report.tables.escape import visible
from ruler_report.tables.format import difference_rows, difference_words, length_words
from ruler_report.tables.tables import Scored, Table


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


def facts(results: Results) -> Table:
    """Return what decided on the scores of a run."""
    run, data = results.run, results.run.data
    lines = {
        "model": run.model,
        "model revision": run.model_revision or "not known",
        "protocol": run.protocol + (", without context" if run.no_context else ""),
        "engine": run.engine,
        **{f"engine: {name}": value for name, value in sorted(run.engine_info.items())},
        **{f"sampling: {name}": value for name, value in sorted(run.sampling.items())},
        "data": data.repo or "a folder",
        "data revision": data.revision or "none",
        "data version": data.data_version + (", sample corpus" if data.sample else ""),
        "suite and seed": f"{data.suite}, {data.seed if data.seed >= 0 else 'a private seed'}",
        "lengths counted in": f"{data.tokenizer} ({data.tokenizer_fingerprint[:16]})",
        "rows": f"{results.scored:,} of {results.rows:,} scored, in {len(results.configs)} configs",
        "run": results.fingerprint,
        "scored with": f"ruler-data {results.package_version}",
    }
    rows = tuple((name, _plain(value)) for name, value in lines.items())
    return Table("facts", "What decided on these scores", ("what", "value"), rows)


def labels_of(results: Sequence[Results]) -> list[str]:
    """Return names that tell the runs apart: models, numbered where one comes again."""
    labels: list[str] = []
    for one in results:
        name = visible(one.run.model)[:80] + (" without context" if one.run.no_context else "")
        again = sum(label == name or label.startswith(f"{name} (") for label in labels)
        labels.append(f"{name} ({again + 1})" if again else name)
    return labels


def title_of(results: Sequence[Results]) -> str:
    """Return what the runs are of: RULER, or suites that are not to be taken for it."""
    suites = sorted({one.run.data.suite for one in results})
    return "RULER" if suites == [RULER] else f"Suite {', '.join(map(visible, suites))}"


def warnings_of(results: Results) -> Iterator[str]:
    """Yield what a reader must know before the figures."""
    if results.scored < results.rows:
        share = f"{results.scored:,} of {results.rows:,}"
        yield f"incomplete: {share} rows scored; the rest take no part in any mean"
    yield from caveats_of(results)
    yield from map(visible, results.notes)


def caveats_of(results: Results) -> Iterator[str]:
    """Yield why the figures are not RULER's, or say little, though every row was answered."""
    run = results.run
    if run.data.sample:
        yield "asked rows of the small sample corpus; not comparable with RULER scores"
    if run.no_context:
        yield "asked without the context, as a baseline"
    missing = set(TASKS) - {parse_config(name)[0] for name in results.configs}
    error = stated_error(results)
    if error is not None:
        yield (
            f"suite {visible(run.data.suite)}: 95 times in 100 its mean of the 13 tasks is within "
            f"{error:g} points of that of RULER's 500 rows; for other figures nothing is stated"
        )
    elif run.data.suite != RULER:
        yield f"suite {visible(run.data.suite)}; its means are its own, not RULER's"
    elif missing:
        yield f"{13 - len(missing)} of 13 tasks; means over tasks are not RULER averages"
    few = min((config.rows for config in results.configs.values()), default=0)
    if few < 100:
        yield f"as few as {few} rows of a config; the paper has 500"


def _plain(value: Any) -> str:  # noqa: ANN401 - any JSON value
    if isinstance(value, dict):
        return ", ".join(f"{key}={_plain(item)}" for key, item in sorted(value.items()))
    if isinstance(value, list | tuple):
        return ", ".join(map(_plain, value))
    return visible(str(value))[:200]
