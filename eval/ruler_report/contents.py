"""The contents of a report, in reading order: a first screen, then chapters."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, partial
from typing import TYPE_CHECKING

from ruler_data.errors import RulerError
from ruler_data.names import config_name
from ruler_data.progress import track
from ruler_eval.scoring.inputs import Text, Texts
from ruler_eval.scoring.labels import MEANINGS
from ruler_report import pictures, procedures, tables, words
from ruler_report.conclusion import Conclusion
from ruler_report.pictures import Picture
from ruler_report.typesetting import Table

if TYPE_CHECKING:
    pass

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

    @property
    def is_there(self) -> bool:
        """Whether it has anything to show."""
        has_rows = any(table.rows for table in self.tables)
        return bool(self.pictures or has_rows or self.examples or self.text)


@dataclass(frozen=True)
class Chapter:
    """A chapter with its title, the anchor of its link, and its sections; HTML may fold it."""

    title: str
    anchor: str
    sections: Sequence[Section]
    folded: bool


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


@dataclass(frozen=True, eq=False)
class Contents:
    """What a page shows of a conclusion."""

    conclusion: Conclusion
    options: Options

    @cached_property
    def notes(self) -> list[str]:
        """What a reader must know of the runs."""
        notes = words.notes(self.conclusion)
        if self.options.draws and not pictures.can_draw():
            notes.append(pictures.NO_PICTURES)
        return notes

    @cached_property
    def first(self) -> Section:
        """The tables and pictures of the first screen."""
        conclusion = self.conclusion
        if self.options.is_board:
            return Section(tables=[tables.board(conclusion)])
        shown = [tables.scores(conclusion)]
        if self._has_tasks_first:
            shown.append(tables.task_means(conclusion))
        drawn = []
        if self._draws:
            drawn = [picture for picture in self._first_pictures() if picture]
        return Section(pictures=drawn, tables=shown)

    @property
    def _has_tasks_first(self) -> bool:
        """Whether the tasks of the runs stand side by side on the first screen."""
        return 1 < len(self.conclusion.runs) <= tables.SIDE_BY_SIDE

    @property
    def _has_depths_first(self) -> bool:
        """Whether retrieval by depth and length of each run is on the first screen."""
        return len(self.conclusion.runs) <= 2

    def _first_pictures(self) -> Iterator[Picture | None]:
        conclusion = self.conclusion
        yield pictures.lengths_picture(conclusion)
        if not self._has_depths_first:
            yield pictures.depths_picture(conclusion)
            return
        for run in conclusion.order:
            yield pictures.depth_picture(conclusion, run)

    @property
    def _draws(self) -> bool:
        """Whether there are pictures."""
        return self.options.draws and pictures.can_draw()

    @cached_property
    def chapters(self) -> list[Chapter]:
        """The chapters that have anything to show."""
        if self.options.is_board:
            return []
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
        chapters = []
        for title, anchor, make in track(plans, "writing the report"):
            sections = [section for section in make() if section.is_there]
            if sections:
                chapters.append(Chapter(title, anchor, sections, anchor.startswith("run")))
        return chapters

    @cached_property
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

    def _tasks(self) -> Iterator[Section]:
        if len(self.conclusion.runs) > tables.SIDE_BY_SIDE:
            yield Section(tables=[tables.task_means(self.conclusion)])

    def _compared(self) -> Iterator[Section]:
        conclusion = self.conclusion
        for run in conclusion.compared:
            sentence = words.compare_sentence(conclusion, run)
            yield Section(tables=[tables.comparison(conclusion, run)], folded=sentence)
        if len(conclusion.runs) <= FEW:
            yield from map(self._flips, conclusion.compared)

    def _flips(self, run: int) -> Section:
        """Return the rows that flipped between the base and a run, with some texts."""
        conclusion = self.conclusion
        base = conclusion.base
        names = conclusion.names[base], conclusion.names[run]
        flips = conclusion.flips(run)
        is_lost = flips["score"] < flips["score_base"]
        lost = int(is_lost.sum())
        title = (
            f"Rows that flipped: {lost:,} right in {names[0]} alone, {len(flips) - lost:,} right "
            f"in {names[1]} alone"
        )
        shown = flips.groupby(is_lost).head(SHOWN)
        configs = [*map(config_name, shown["task"], shown["length"])]
        texts_of_base = self._texts(base, [*zip(configs, shown["index_base"], strict=True)])
        texts = self._texts(run, [*zip(configs, shown["index"], strict=True)])
        examples = []
        for config, flip in zip(configs, shown.itertuples(), strict=True):
            old = texts_of_base.get((config, flip.index_base))
            new = texts.get((config, flip.index))
            if old and new:
                scores = f"{100 * flip.score_base:.0f} and {100 * flip.score:.0f}"
                row = f"{config}/{flip.index_base}: {scores}"
                examples.append(_example(row, old, {names[0]: old.answer, names[1]: new.answer}))
        if examples:
            return Section(title, examples=examples, folded="Some of them")
        return Section(
            title, text="The texts need the answers and the rows of the runs, which are not here."
        )

    def _losses(self) -> Iterator[Section]:
        kinds = tables.failure_shares(self.conclusion)
        meanings = [f"{row[0]} ({MEANINGS[str(row[0])]})" for row in kinds.rows]
        text = "No answer lost points or named more than the gold answers."
        if meanings:
            text = f"{'; '.join(meanings)}."
        yield Section("How answers failed", tables=[kinds], text=text)

    def _context(self) -> Iterator[Section]:
        conclusion = self.conclusion
        yield Section("What answers cost", tables=[tables.costs(conclusion)])
        yield Section("Effective lengths", tables=[tables.effective_lengths(conclusion)])
        beside = [*procedures.beside_published(conclusion)]
        yield Section(tables=beside, folded="Beside published scores")

    def _run(self, run: int) -> Iterator[Section]:
        conclusion = self.conclusion
        yield Section("Scores", tables=[tables.by_task(conclusion, run)])
        if self._draws and not self._has_depths_first:
            picture = pictures.depth_picture(conclusion, run)
            if picture:
                yield Section("Retrieval by depth and length", pictures=[picture])
        for folded, table in procedures.tables_of(conclusion, run, self.options.procedure):
            yield Section(tables=[table], folded=folded)
        yield Section("How answers failed", tables=[tables.failures(conclusion, run)])
        if len(conclusion.runs) <= FEW:
            yield from self._failures(run)
        yield Section("How it was run", tables=[tables.facts(conclusion.runs[run])])

    def _failures(self, run: int) -> Iterator[Section]:
        """Yield some failed rows of each kind with their texts."""
        lines = self.conclusion.lines(run)
        failed = lines[lines["label"].notna()].groupby("label", sort=False, observed=True)
        first = failed.head(SHOWN)
        rows = [(config_name(line.task, line.length), line) for line in first.itertuples()]
        texts = self._texts(run, [(config, line.index) for config, line in rows])
        for kind, meaning in MEANINGS.items():
            examples = []
            for config, line in rows:
                text = texts.get((config, line.index))
                if line.label == kind and text:
                    title = f"{config}/{line.index}: scored {100 * line.official:.0f}"
                    examples.append(_example(title, text, {"answer": text.answer}))
            yield Section(examples=examples, folded=f"{kind}: {meaning}")

    def _texts(self, run: int, keys: Sequence[tuple[str, int]]) -> dict[tuple[str, int], Text]:
        """Return the texts of rows of a run; none where they are not here."""
        if run not in self._readers:
            self._readers[run] = self._reader_of(run)
        reader = self._readers[run]
        if reader is None:
            return {}
        return reader.of(keys)

    @cached_property
    def _readers(self) -> dict[int, Texts | None]:
        return {}

    def _reader_of(self, run: int) -> Texts | None:
        scores = self.conclusion.runs[run]
        if scores.path is None or scores.claimed:
            return None
        try:
            return Texts(scores.path, self.options.data)
        except (RulerError, OSError):
            return None


def _example(title: str, text: Text, answers: Mapping[str, str]) -> Example:
    short = {name: answer[:LONGEST] for name, answer in answers.items()}
    return Example(title, text.question[-LONGEST:], ", ".join(text.outputs), short)
