"""Which edition, words and tokenizer drew the rows of answers, from their gold answers alone.

niah, vt     editions until 2025-06 without a tokenizer (`guess`), later ones with it
qa           every edition of upstream asks the questions in the same order
cwe, fwe     with the tokenizer of the rows
balanced     questions and gold answers are the same for every tokenizer
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import cache
from itertools import product
from pathlib import Path

from ruler_audit.answers import Group
from ruler_audit.guess import GuessingState, NotTheseAnswersError
from ruler_builders.exchange.layouts import all_tasks
from ruler_builders.pipeline.build_one import ByteCounter
from ruler_builders.pipeline.fit import Target, make_row
from ruler_builders.rows.tokenized_sources import TokenizedSources
from ruler_builders.sources import Library
from ruler_builders.upstream import (
    EDITIONS,
    SCRIPTS,
    Arguments,
    UpstreamRow,
    UpstreamSources,
    edition_of,
    replay,
)
from ruler_builders.upstream.sources import WORDS_VERSIONS
from ruler_data.errors import RulerError
from ruler_data.manifest import BALANCED
from ruler_data.row import Row
from ruler_data.tasks import TASKS, Cwe, Fwe, Qa, Task, Vt
from ruler_data.tokenizers import PromptTokenizer
from ruler_data.tokenizers.registry import available

#: Rows whose gold answers are compared with what an edition draws.
ROWS = 8
#: Rows of a task that others publish, of which some sampled.
PUBLISHED_ROWS = 500
#: Sampled rows that the first rows of an edition hold on average; with none of them it is another.
EXPECTED = 12
#: Characters of the shortest prompt that is taken for a whole one.
WHOLE_PROMPT = 2000
#: Characters of the question at its end, which tools word for themselves.
QUESTION = 400
#: Probes of the search for the size of vt's example, the usual number first.
EXAMPLE_PROBES: tuple[int, ...] = (3, 4, 2, 5)
#: Versions of wonderwords.
WORDS = tuple(WORDS_VERSIONS.values())
#: Lengths of configs that are tried where no name tells one, in tokens.
USUAL = (4096, 8192, 16384, 32768, 65536, 131072)


@dataclass(frozen=True)
class Origin:
    """What may have drawn the rows of a group.

    Attributes:
        editions: that draw its gold answers; empty if none is known to.
        words: versions of wonderwords that do; empty where the task needs none.
        tokenizers: of the registry that do; empty where none was needed, or none here does.
        reason: why nothing is known.
    """

    editions: tuple[str, ...] = ()
    words: tuple[str, ...] = ()
    tokenizers: tuple[str, ...] = ()
    reason: str = ""


class Finder:
    """Sources and tokenizers, opened once."""

    def __init__(
        self, seed: int, tokenizer: str | None = None, sources: Path | str | None = None
    ) -> None:
        self.seed = seed
        self.tokenizer = tokenizer
        self.library = Library(sources, "real", network=False)
        self._tokenizers, self.missing = available(tokenizer)

    @cache  # noqa: B019 - lives for one command
    def sources(self, words: str) -> UpstreamSources:
        """Return the sources of upstream with a version of wonderwords."""
        return UpstreamSources(self.library.folder, version=words)

    def check_sources(self, task: Task, origin: Origin) -> None:
        """Read the sources of a task.

        Raises:
            RulerError: one is not here.
        """
        if not origin.editions or origin.editions[0] == BALANCED:
            for name in task.sources:
                self.library.info(name)
            return
        words = ""
        if origin.words:
            words = origin.words[-1]
        self.sources(words).infos(task, edition_of(origin.editions[0]))

    def origin(self, group: Group) -> Origin:
        """Return what draws the gold answers of a group without a tokenizer."""
        task = TASKS.get(group.task)
        if task is None:
            return Origin(reason=_why_no_task(group.task))
        if any(answer.outputs is None for answer in group.rows):
            return Origin(reason="its records hold no gold answers")
        try:
            if isinstance(task.params, Qa) and group.is_sampled:
                return self._by_question(group, task.params.source)
            if group.is_sampled:
                reason = "its rows were sampled, and only the tokenizer of the rows tells them"
                return Origin(reason=reason)
            if self._is_balanced(group):
                return Origin((BALANCED,))
            if isinstance(task.params, Qa):
                return self._by_order(group, task.params.source)
            if isinstance(task.params, Cwe | Fwe):
                reason = "its gold answers depend on the tokenizer of the rows"
                return Origin(reason=reason)
            return self._guessed(group)
        except RulerError as error:
            return Origin(reason=str(error))

    def _is_balanced(self, group: Group) -> bool:
        """Whether the first rows ask what the default edition draws."""
        sources = TokenizedSources(self.seed, self.library, ByteCounter())
        rows = group.rows[:ROWS]
        for answer in rows:
            row = make_row(TASKS[group.task], sources, answer.index, Target(16384, 0))
            if row.outputs != answer.outputs or not _asks(answer.prompt, row.question):
                return False
        return True

    def _by_order(self, group: Group, source: str) -> Origin:
        questions = self.sources("").corpus(source)[1]
        for answer in group.rows[:ROWS]:
            within = answer.index < len(questions)
            if not within or tuple(questions[answer.index].outputs) != answer.outputs:
                reason = "its gold answers are not those of upstream's questions in order"
                return Origin(reason=reason)
        return Origin(tuple(EDITIONS))

    def _by_question(self, group: Group, source: str) -> Origin:
        """Return the editions if every sampled question is of upstream's first ones."""
        questions = self.sources("").corpus(source)[1][:PUBLISHED_ROWS]
        gold = {tuple(question.outputs) for question in questions}
        if any(answer.outputs not in gold for answer in group.rows[:ROWS]):
            reason = f"its gold answers are not of upstream's first {PUBLISHED_ROWS} questions"
            return Origin(reason=reason)
        return Origin(tuple(EDITIONS))

    def _guessed(self, group: Group) -> Origin:
        """Return the editions and words that make the gold answers at some size."""
        drawing: list[tuple[str, str]] = []
        versions: tuple[str, ...] = WORDS
        if isinstance(TASKS[group.task].params, Vt):
            versions = ("",)
        steps = [edition.name for edition in EDITIONS.values() if not edition.bisects]
        for edition, words in product(steps, versions):
            if self._guess(group, edition, words):
                drawing.append((edition, words))
        if not drawing:
            return Origin(
                reason="no edition until 2025-06 draws its gold answers, and later ones depend on "
                "the tokenizer of the rows",
            )
        drawn_by, words_drawn = zip(*drawing, strict=True)
        return Origin(_unique(drawn_by), _unique(words_drawn))

    def _guess(self, group: Group, edition: str, words: str) -> bool:
        rows = group.rows[:ROWS]
        if [answer.index for answer in rows] != [*range(len(rows))]:
            return False
        task = TASKS[group.task]
        answers = [answer.outputs or () for answer in rows]
        length = group.length or USUAL[-1]
        arguments = Arguments(edition_of(edition), task, length, len(rows), self.seed)
        probes = EXAMPLE_PROBES
        if not isinstance(task.params, Vt):
            probes = EXAMPLE_PROBES[:1]
        for number, redraws in product(probes, (False, True)):
            state = GuessingState(arguments, answers, number, redraws_first=redraws)
            with suppress(NotTheseAnswersError):
                made = SCRIPTS[type(task.params)].replay(state, self.sources(words))
                if _are_alike(group, made):
                    return True
        return False

    def with_tokenizers(self, group: Group, origin: Origin, shown: Origin) -> Origin:
        """Return what draws the gold answers of a group with the tokenizers that are here.

        `shown` is what the other groups of the run show.
        """
        if group.length is None or group.task not in TASKS:
            return origin
        task = TASKS[group.task]
        editions = origin.editions or shown.editions or tuple(EDITIONS)
        versions: tuple[str, ...] = ("",)
        if isinstance(task.params, Cwe) or "words" in task.sources:
            versions = origin.words or shown.words or WORDS
        drawing: list[tuple[str, str, str]] = []
        for edition, words, name in product(editions, versions, self._tokenizers):
            if edition != BALANCED and self._draws(group, edition, words, name):
                drawing.append((edition, words, name))
        if not drawing:
            return origin
        drawn_by, words_drawn, names = zip(*drawing, strict=True)
        return Origin(_unique(drawn_by), _unique(words_drawn), _unique(names))

    def _draws(self, group: Group, edition: str, words: str, tokenizer: str) -> bool:
        """Whether an edition draws the gold answers of a group with words and a tokenizer."""
        assert group.length is not None
        rows = min(ROWS, len(group.rows))
        is_alike = _are_alike
        if group.is_sampled:
            rows = PUBLISHED_ROWS
            is_alike = _are_among
        task = TASKS[group.task]
        arguments = Arguments(edition_of(edition), task, group.length, rows, self.seed)
        with suppress(RulerError):
            count = _counter(self._tokenizers[tokenizer])
            made = replay(arguments, self.sources(words), count)
            return is_alike(group, _told(group, made))
        return False

    def length_of(self, groups: Sequence[Group]) -> int | None:
        """Return the length of configs whose names tell none; None if nothing shows it.

        A whole prompt has its tokens. Where records have questions alone, lengths are tried until
        an edition draws the gold answers.
        """
        for group in groups:
            task = TASKS.get(group.task)
            if task is None or isinstance(task.params, Qa) or group.rows[0].outputs is None:
                continue
            if len(group.rows[0].prompt) > WHOLE_PROMPT:
                lengths = self._lengths_of_prompts(group, task)
            else:
                lengths = list(USUAL)
            for length in lengths:
                sized = replace(group, length=length)
                if self._is_balanced(sized) and self.tokenizer and len(lengths) == 1:
                    return length
                if self.with_tokenizers(sized, Origin(), Origin()).tokenizers:
                    return length
        return None

    def _lengths_of_prompts(self, group: Group, task: Task) -> list[int]:
        """Return the shortest usual length that holds the prompts, by each tokenizer."""
        prompts = [answer.prompt for answer in group.rows[:ROWS]]
        lengths = set[int]()
        for tokenizer in self._tokenizers.values():
            need = max(tokenizer.count(prompts)) + task.max_new_tokens
            holding = [length for length in USUAL if length >= need]
            lengths.update(holding[:1])
        return sorted(lengths)


def _unique(names: Iterable[str]) -> tuple[str, ...]:
    """Return each name once, without empty ones, in the order of the first."""
    return tuple(dict.fromkeys(filter(None, names)))


def _why_no_task(name: str) -> str:
    if name in all_tasks():
        return "rows of RULER v2 that others drew cannot be made again"
    return "none of the 13 tasks, by its name and its prompt"


def _counter(tokenizer: PromptTokenizer) -> Callable[[str], int]:
    return lambda text: tokenizer.count([text])[0]


def _are_alike(group: Group, made: Iterator[UpstreamRow]) -> bool:
    """Whether the first rows that were made have the gold answers, and ask what was asked.

    Fewer than half of them may be edited. All rows of a script are drawn from one stream, so those
    of another size or tokenizer differ from some row on to the end: the last rows tell.
    """
    same = list[bool]()
    for answer, row in zip(group.rows[:ROWS], made, strict=False):
        is_gold = tuple(row.outputs) == answer.outputs
        same.append(is_gold and _asks(answer.prompt, row.prompt))
    return 2 * sum(same) > len(same) and any(same[-2:])


def _are_among(group: Group, made: Iterator[UpstreamRow]) -> bool:
    """Whether rows that were made are among those that were sampled."""
    prompts = {answer.outputs: answer.prompt for answer in group.rows}
    hits = 0
    for number, row in enumerate(made, 1):
        prompt = prompts.get(tuple(row.outputs))
        if prompt is not None and _asks(prompt, row.prompt):
            hits += 1
        if hits == min(ROWS, len(group.rows)):
            return True
        if hits == 0 and number * group.fraction > EXPECTED:
            return False
    return False


def placed(group: Group, rows: Sequence[Row]) -> Group:
    """Return a sampled group whose answers have the numbers of the rows that they are to.

    An answer that none of the rows fits, or several do, gets a number beyond all rows.
    """
    places: dict[tuple[str, ...], list[Row]] = {}
    for row in rows:
        places.setdefault(tuple(row.outputs), []).append(row)
    answers = []
    for answer in group.answers:
        fitting = [
            row.index
            for row in places.get(answer.outputs or (), ())
            if _asks(answer.prompt, row.prompt)
        ]
        index = len(rows) + answer.index
        if len(fitting) == 1:
            index = fitting[0]
        answers.append(replace(answer, index=index))
    answers.sort(key=lambda answer: answer.index)
    return replace(group, answers=tuple(answers))


def _asks(prompt: str, row: str) -> bool:
    """Whether what a record has of its prompt ends as the row does, or may do so."""
    question = _last_question(prompt)
    return not question or question in row


def _told(group: Group, made: Iterator[UpstreamRow]) -> Iterator[UpstreamRow]:
    """Yield rows until one has another text than the whole prompt that a record has of it."""
    prompts = {answer.index: answer.prompt for answer in group.rows}
    for row in made:
        prompt = prompts.get(row.index, "")
        if len(prompt) > WHOLE_PROMPT and not group.is_sampled:
            text = " ".join(row.prompt.split())[:-QUESTION]
            if text not in " ".join(prompt.split()):
                return
        yield row


def _last_question(prompt: str) -> str:
    """Return the last line of a prompt: the question, where a record has nothing else."""
    line = prompt.strip().rpartition("\n")[2]
    return line.strip()[-200:]


def agreed(origins: Sequence[Origin]) -> Origin:
    """Return what all groups of a run have in common, of those that show something."""
    return Origin(
        _common([origin.editions for origin in origins]),
        _common([origin.words for origin in origins]),
        _common([origin.tokenizers for origin in origins]),
    )


def _common(groups: Sequence[tuple[str, ...]]) -> tuple[str, ...]:
    """Return the names that are in each group that has any."""
    named = [names for names in groups if names]
    if not named:
        return ()
    return tuple(name for name in named[0] if all(name in names for names in named))
