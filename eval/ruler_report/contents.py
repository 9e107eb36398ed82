"""The contents of a report, in reading order: a first screen, then chapters."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING

from ruler_data.errors import RulerError
from ruler_data.names import config_name
from ruler_data.progress import track
from ruler_eval.scoring.labels import MEANINGS
from ruler_eval.scoring.run_rows import texts_of_run
from ruler_report import pictures, procedures, tables, words
from ruler_report.conclusion import Conclusion
from ruler_report.drawing import NO_PICTURES, Drawing, Picture, can_draw, render
from ruler_report.typesetting import Table

if TYPE_CHECKING:
    import pandas as pd

#: Rows that are shown of each kind, and characters of a text.
SHOWN, LONGEST = 3, 300
#: Runs of which texts are read.
FEW = words.SPELLED + 1


@dataclass(frozen=True)
class Example:
    """A row with what runs answered, its texts shortened.

    Attributes:
        title: the row and its scores.
        answers: texts by the name of the run.
    """

    title: str
    question: str
    outputs: str
    answers: Mapping[str, str]


@dataclass(frozen=True)
class Section:
    """A part of a chapter; without a title it continues the section before.

    Attributes:
        folded: the line under which HTML hides the tables and examples.
    """

    title: str = ""
    pictures: Sequence[Picture] = ()
    tables: Sequence[Table] = ()
    text: str = ""
    folded: str = ""
    examples: Sequence[Example] = ()


@dataclass(frozen=True)
class Chapter:
    """A chapter with its title, the anchor of its link, and its sections; HTML may fold it."""

    title: str
    anchor: str
    sections: tuple[Section, ...]
    folded: bool = False


@dataclass(frozen=True)
class Options:
    """What a report shows beside its conclusion.

    Attributes:
        draws: whether there are pictures.
        is_board: whether there is a table to sort alone, for any number of runs.
        procedure: name of the procedure whose ledger is printed; None for the run's.
        data: where the rows of the runs are; None for where the runs read them.
    """

    draws: bool = True
    is_board: bool = False
    procedure: str | None = None
    data: str | None = None


@dataclass(frozen=True)
class Contents:
    """What a page shows.

    Attributes:
        title: of the page.
        warnings: runs that `score` refuses, and others without a rank.
        headline: the first sentence; `further` are those after it.
        first: the tables and pictures of the first screen.
        chapters: below it.
    """

    title: str
    warnings: Sequence[str]
    headline: str
    further: Sequence[str]
    first: Section
    chapters: Sequence[Chapter]
    frame: str
    validity: Sequence[str]
    notes: Sequence[str]
    about: str

    @property
    def sections(self) -> list[Section]:
        """All sections, in reading order."""
        sections = [self.first]
        for chapter in self.chapters:
            sections += chapter.sections
        return sections

    @property
    def pictures(self) -> list[Picture]:
        """All pictures, in reading order."""
        return [picture for section in self.sections for picture in section.pictures]

    @property
    def tables(self) -> list[Table]:
        """All tables, in reading order."""
        return [table for section in self.sections for table in section.tables]


def contents_of(conclusion: Conclusion, options: Options) -> Contents:
    """Return what a page shows of a conclusion."""
    return _Builder(conclusion, options).contents()


@dataclass
class _Builder:
    """Makes the contents of a page."""

    conclusion: Conclusion
    options: Options
    texts: dict[int, "_Texts"] = field(default_factory=dict)

    def contents(self) -> Contents:
        """Return all of it."""
        conclusion = self.conclusion
        notes = words.notes(conclusion)
        if self.options.draws and not can_draw():
            notes.append(NO_PICTURES)
        chapters: list[Chapter] = []
        if not self.options.is_board:
            chapters += self._chapters()
        return Contents(
            title=words.title(conclusion),
            warnings=words.warnings(conclusion),
            headline=words.headline(conclusion),
            further=words.further(conclusion),
            first=self._first(),
            chapters=chapters,
            frame=words.frame_line(conclusion),
            validity=words.validity_lines(conclusion),
            notes=notes,
            about=words.about(conclusion),
        )

    def _chapters(self) -> Iterator[Chapter]:
        """Yield the chapters that have anything to show."""
        conclusion = self.conclusion
        base = conclusion.names[conclusion.base]
        plans: list[tuple[str, str, Callable[[], Iterator[Section]]]] = [
            ("Tasks", "tasks", self._tasks),
            (f"Compared with {base}", "compared", self._compared),
            ("Where scores are lost", "lost", self._losses),
            ("Cost, effective lengths, published scores", "context", self._context),
        ]
        plans += [
            (conclusion.names[run], f"run{run + 1}", partial(self._run, run))
            for run in conclusion.order
        ]
        for title, anchor, make in track(plans, "writing the report"):
            sections = tuple(section for section in make() if _is_there(section))
            if sections:
                yield Chapter(title, anchor, sections, folded=anchor.startswith("run"))

    def _drawn(self, drawings: Iterable[Drawing | None]) -> tuple[Picture, ...]:
        """Return the pictures of drawings that are there."""
        if not (self.options.draws and can_draw()):
            return ()
        return tuple(render(drawing) for drawing in drawings if drawing)

    def _first(self) -> Section:
        """Return the tables and pictures of the first screen."""
        conclusion = self.conclusion
        if self.options.is_board:
            return Section(tables=[tables.scores(conclusion)])
        depth = pictures.depth_picture(conclusion)
        if len(conclusion.runs) > 2:
            depth = pictures.depth_by_run(conclusion)
        drawn = self._drawn([pictures.lengths_picture(conclusion), depth])
        shown = [tables.scores(conclusion)]
        if self._has_tasks_first:
            shown.append(tables.task_means(conclusion))
        return Section(pictures=drawn, tables=shown)

    @property
    def _has_tasks_first(self) -> bool:
        """Whether the tasks of the runs stand side by side on the first screen."""
        return 1 < len(self.conclusion.runs) <= tables.SIDE_BY_SIDE

    def _tasks(self) -> Iterator[Section]:
        conclusion = self.conclusion
        if len(conclusion.runs) > tables.SIDE_BY_SIDE:
            yield Section("Each task", tables=[tables.task_means(conclusion)])
        drawing = pictures.tasks_picture(conclusion)
        yield Section("Each task by length", pictures=self._drawn([drawing]))

    def _compared(self) -> Iterator[Section]:
        conclusion = self.conclusion
        drawing = pictures.differences_picture(conclusion)
        yield Section(pictures=self._drawn([drawing]))
        for run in conclusion.compared:
            sentence = words.compare_sentence(conclusion, run)
            yield Section(tables=[tables.comparison(conclusion, run)], folded=sentence)
        if len(conclusion.runs) <= FEW:
            yield from map(self._flips, conclusion.compared)

    def _flips(self, run: int) -> Section:
        """Return the rows that flipped between the base and a run, with some texts."""
        conclusion = self.conclusion
        base = conclusion.base
        lost, won = conclusion.flip_counts(run)
        names = conclusion.names[base], conclusion.names[run]
        title = (
            f"Rows that flipped: {lost:,} right in {names[0]} alone, {won:,} right in {names[1]} "
            "alone"
        )
        examples = []
        for flip in self._shown_flips(run):
            config = config_name(flip.task, flip.length)
            old = self._texts_of(base).get((config, flip.index_base))
            new = self._texts_of(run).get((config, flip.index))
            if old and new:
                scores = f"{100 * flip.score_base:.0f} and {100 * flip.score:.0f}"
                row = f"{config}/{flip.index_base}: {scores}"
                examples.append(_example(row, old, {names[0]: old[2], names[1]: new[2]}))
        if examples:
            return Section(title, examples=examples, folded="Some of them")
        return Section(
            title, text="The texts need the answers and the rows of the runs, which are not here."
        )

    def _shown_flips(self, run: int) -> list["pd.core.frame.Pandas"]:
        """Return the first rows that only the base has right, and that only the run has right."""
        flipped = self.conclusion.flips(run)
        is_lost = flipped["score"] < flipped["score_base"]
        lost = flipped[is_lost].head(SHOWN)
        won = flipped[~is_lost].head(SHOWN)
        return [*lost.itertuples(), *won.itertuples()]

    def _losses(self) -> Iterator[Section]:
        conclusion = self.conclusion
        if len(conclusion.runs) > 2:
            drawing = pictures.depth_picture(conclusion)
            yield Section("Retrieval by depth and length", pictures=self._drawn([drawing]))
        title = "How answers failed"
        kinds = tables.failure_shares(conclusion)
        if kinds.rows:
            meanings = [f"{row[0]} ({MEANINGS[str(row[0])]})" for row in kinds.rows]
            yield Section(title, tables=[kinds], text=f"{'; '.join(meanings)}.")
        else:
            text = "No answer lost points or named more than the gold answers."
            yield Section(title, text=text)

    def _context(self) -> Iterator[Section]:
        conclusion = self.conclusion
        yield Section("What answers cost", tables=[tables.costs(conclusion)])
        yield Section("Effective lengths", tables=[tables.effective_lengths(conclusion)])
        beside = [*tables.beside_published(conclusion)]
        yield Section(tables=beside, folded="Beside published scores")

    def _run(self, run: int) -> Iterator[Section]:
        conclusion = self.conclusion
        yield Section("Scores", tables=[tables.by_task(conclusion, run)])
        for folded, table in procedures.tables_of(conclusion, run, self.options.procedure):
            yield Section(tables=[table], folded=folded)
        yield Section("How answers failed", tables=[tables.failures(conclusion, run)])
        for kind, examples in self._failures(run):
            yield Section(examples=examples, folded=f"{kind}: {MEANINGS.get(kind, '')}")
        yield Section("How it was run", tables=[tables.facts(conclusion.runs[run])])

    def _failures(self, run: int) -> Iterator[tuple[str, list[Example]]]:
        """Yield some failed rows of each kind with their texts."""
        if len(self.conclusion.runs) > FEW:
            return
        failed = _failed(self.conclusion.lines(run))
        for kind, lines in failed.items():
            examples = []
            for line in lines:
                text = self._texts_of(run).get((config_name(line.task, line.length), line.index))
                if text:
                    row = f"{config_name(line.task, line.length)}/{line.index}"
                    title = f"{row}: scored {100 * line.official:.0f}"
                    examples.append(_example(title, text, {"answer": text[2]}))
            if examples:
                yield kind, examples

    def _texts_of(self, run: int) -> "_Texts":
        """Return the texts of the rows of a run that a page shows; none where they are not here."""
        if run not in self.texts:
            self.texts[run] = self._read_texts(run)
        return self.texts[run]

    def _read_texts(self, run: int) -> "_Texts":
        scores = self.conclusion.runs[run]
        if scores.path is None or scores.claimed:
            return {}
        keys = {
            (config_name(line.task, line.length), int(line.index))
            for lines in _failed(self.conclusion.lines(run)).values()
            for line in lines
        }
        for rival in self.conclusion.compared:
            for flip in self._shown_flips(rival):
                config = config_name(flip.task, flip.length)
                if run == self.conclusion.base:
                    keys.add((config, int(flip.index_base)))
                elif run == rival:
                    keys.add((config, int(flip.index)))
        try:
            return texts_of_run(scores.path, keys, self.options.data)
        except (RulerError, OSError):
            return {}


#: Question, gold answers and answer, by config and index.
_Texts = dict[tuple[str, int], tuple[str, tuple[str, ...], str]]


def _failed(lines: "pd.DataFrame") -> dict[str, list["pd.core.frame.Pandas"]]:
    """Return the first failed lines of each kind."""
    failed = lines[lines["label"].notna()]
    kinds = {}
    for kind in MEANINGS:
        of_kind = failed[failed["label"] == kind].head(SHOWN)
        if len(of_kind):
            kinds[kind] = [*of_kind[["task", "length", "index", "official"]].itertuples()]
    return kinds


def _example(
    title: str, text: tuple[str, tuple[str, ...], str], answers: Mapping[str, str]
) -> Example:
    question, outputs, _ = text
    short = {name: answer[:LONGEST] for name, answer in answers.items()}
    return Example(title, question[-LONGEST:], ", ".join(outputs), short)


def _is_there(section: Section) -> bool:
    """Whether a section has anything to show."""
    has_rows = any(table.rows for table in section.tables)
    return bool(section.pictures or has_rows or section.examples or section.text)
