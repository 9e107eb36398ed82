"""Which edition, words and tokenizer drew the rows of answers, from their gold answers alone.

niah, vt     editions until 2025-06 without a tokenizer (`guess`), later ones with it
qa           every edition of upstream asks the questions in the same order
cwe, fwe     with the tokenizer of the rows
balanced     questions and gold answers are the same for every tokenizer
"""

from collections.abc import Callable, Iterator, Sequence
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
from ruler_data.errors import RulerError, UsageError
from ruler_data.manifest import BALANCED
from ruler_data.tasks import TASKS, Cwe, Fwe, Qa, Task, Vt
from ruler_data.tokenizers import PromptTokenizer, load_tokenizer
from ruler_data.tokenizers.registry import REGISTRY

#: Rows whose gold answers are compared with what an edition draws.
ROWS = 5
#: Probes of the search for the size of vt's example, the usual number first.
EXAMPLE_PROBES = (3, 4, 2, 5)
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
        length: of the config in tokens, as named or found; None if unknown.
        reason: why nothing is known.
    """

    editions: tuple[str, ...] = ()
    words: tuple[str, ...] = ()
    tokenizers: tuple[str, ...] = ()
    length: int | None = None
    reason: str = ""


class Finder:
    """Sources and tokenizers, opened once."""

    def __init__(
        self, seed: int, tokenizer: str | None = None, sources: Path | str | None = None
    ) -> None:
        self.seed = seed
        self.tokenizer = tokenizer
        self.library = Library(sources, "real", network=False)
        self.missing: list[str] = []
        self._tokenizers: dict[str, PromptTokenizer] = {}
        for name in [tokenizer] if tokenizer else REGISTRY:
            try:
                self._tokenizers[name] = load_tokenizer(name, allow_download=bool(tokenizer))
            except (UsageError, RulerError):
                if tokenizer:
                    raise
                self.missing.append(name)

    @cache  # noqa: B019 - lives for one command
    def sources(self, words: str) -> UpstreamSources:
        """Return the sources of upstream with a version of wonderwords."""
        return UpstreamSources(self.library.folder, version=words)

    def check_sources(self, task: Task, origin: Origin) -> None:
        """Read the sources of a task.

        Raises:
            RulerError: one is not here.
        """
        edition = origin.editions[0] if origin.editions else BALANCED
        if edition == BALANCED:
            for name in task.sources:
                self.library.info(name)
            return
        words = origin.words[-1] if origin.words else ""
        self.sources(words).infos(task, edition_of(edition))

    def origin(self, group: Group) -> Origin:
        """Return what draws the gold answers of a group without a tokenizer."""
        task = TASKS.get(group.task)
        if task is None:
            return Origin(reason=_why_no_task(group.task))
        if any(answer.outputs is None for answer in group.rows):
            return Origin(reason="its records hold no gold answers")
        try:
            if self._is_balanced(group):
                return Origin((BALANCED,), length=group.length)
            if isinstance(task.params, Qa):
                return self._by_order(group, task.params.source)
            if isinstance(task.params, Cwe | Fwe):
                reason = "its gold answers depend on the tokenizer of the rows"
                return Origin(length=group.length, reason=reason)
            return self._guessed(group)
        except RulerError as error:
            return Origin(length=group.length, reason=str(error))

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
                return Origin(
                    length=group.length,
                    reason="its gold answers are not those of upstream's questions in order",
                )
        return Origin(tuple(EDITIONS), length=group.length)

    def _guessed(self, group: Group) -> Origin:
        """Return the editions and words that make the gold answers at some size."""
        found: list[tuple[str, str, int]] = []
        is_vt = isinstance(TASKS[group.task].params, Vt)
        steps = [edition.name for edition in EDITIONS.values() if not edition.bisects]
        for edition, words in product(steps, ("",) if is_vt else WORDS):
            if self._guess(group, edition, words):
                found.append((edition, words, group.length or 0))
        if not found:
            return Origin(
                length=group.length,
                reason="no edition until 2025-06 draws its gold answers, and later ones depend on "
                "the tokenizer of the rows",
            )
        return Origin(
            tuple(dict.fromkeys(edition for edition, *_ in found)),
            tuple(dict.fromkeys(words for _, words, _ in found if words)),
            length=group.length,
        )

    def _guess(self, group: Group, edition: str, words: str) -> bool:
        rows = group.rows[:ROWS]
        if [answer.index for answer in rows] != [*range(len(rows))]:
            return False
        task = TASKS[group.task]
        answers = [answer.outputs or () for answer in rows]
        length = group.length or USUAL[-1]
        arguments = Arguments(edition_of(edition), task, length, len(rows), self.seed)
        probes = EXAMPLE_PROBES if isinstance(task.params, Vt) else EXAMPLE_PROBES[:1]
        for number, redraws in product(probes, (False, True)):
            state = GuessingState(arguments, answers, number, redraws_first=redraws)
            with suppress(NotTheseAnswersError):
                made = SCRIPTS[type(task.params)].replay(state, self.sources(words))
                if _are_alike(group, made):
                    return True
        return False

    def with_tokenizers(self, group: Group, origin: Origin, known: Origin) -> Origin:
        """Return what draws the gold answers of a group with the tokenizers that are here.

        `known` is what the other groups of the run show.
        """
        if group.length is None or group.task not in TASKS:
            return origin
        editions = origin.editions or known.editions or tuple(EDITIONS)
        task = TASKS[group.task]
        draws_words = isinstance(task.params, Cwe) or "words" in task.sources
        versions = origin.words or known.words or WORDS
        found: list[tuple[str, str, str]] = []
        for edition, words, name in product(
            editions, versions if draws_words else ("",), self._tokenizers
        ):
            if edition == BALANCED:
                continue
            count = _counter(self._tokenizers[name])
            rows = min(ROWS, len(group.rows))
            arguments = Arguments(edition_of(edition), task, group.length, rows, self.seed)
            with suppress(RulerError):
                if _are_alike(group, replay(arguments, self.sources(words), count)):
                    found.append((edition, words, name))
        if not found:
            return origin
        return replace(
            origin,
            editions=tuple(dict.fromkeys(edition for edition, *_ in found)),
            words=tuple(dict.fromkeys(words for _, words, _ in found if words)),
            tokenizers=tuple(dict.fromkeys(name for *_, name in found)),
            reason="",
        )


def _why_no_task(name: str) -> str:
    if name in all_tasks():
        return "rows of RULER v2 that others drew cannot be made again"
    return "none of the 13 tasks, by its name and its prompt"


def _counter(tokenizer: PromptTokenizer) -> Callable[[str], int]:
    return lambda text: tokenizer.count([text])[0]


def _are_alike(group: Group, made: Iterator[UpstreamRow]) -> bool:
    """Whether the first rows that were made have the gold answers, and ask what was asked."""
    for answer, row in zip(group.rows[:ROWS], made, strict=False):
        if tuple(row.outputs) != answer.outputs or not _asks(answer.prompt, row.prompt):
            return False
    return True


def _asks(prompt: str, row: str) -> bool:
    """Whether what a record has of its prompt ends as the row does, or may do so."""
    question = _last_question(prompt)
    return not question or question in row


def _last_question(prompt: str) -> str:
    """Return the last line of a prompt: the question, where a record has nothing else."""
    lines = prompt.strip().splitlines()
    return lines[-1].strip()[-200:] if lines else ""


def agreed(origins: Sequence[Origin]) -> Origin:
    """Return what all groups of a run have in common, of those that show something."""
    editions: list[str] = []
    words: list[str] = []
    tokenizers: list[str] = []
    for attribute, common in (
        ("editions", editions),
        ("words", words),
        ("tokenizers", tokenizers),
    ):
        shown = [getattr(origin, attribute) for origin in origins if getattr(origin, attribute)]
        if shown:
            common += [name for name in shown[0] if all(name in names for names in shown)]
    return Origin(tuple(editions), tuple(words), tuple(tokenizers))
