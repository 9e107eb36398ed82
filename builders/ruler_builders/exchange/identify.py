"""`ruler-data identify`: which RULER are these rows?

The first rows of each task and length are made again, by every edition with every available
tokenizer, and compared. Three things keep that fast:

- A stored `length` is upstream's count of the prompt, so other tokenizers are excluded.
- The search by steps (until 2025-06) asks of a probe only whether it is too long, so probes far
  shorter than the row are not tokenized.
- Until a tokenizer is known, characters tell niah's steps apart: the edition and the words are then
  known without it.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, replace
from functools import cache
from itertools import islice, product
from os.path import commonprefix
from pathlib import Path

from ruler_builders.exchange.layouts import OtherRow, find_files, read_file
from ruler_builders.pipeline.build_one import ByteCounter
from ruler_builders.pipeline.fit import Target, make_row
from ruler_builders.rows.tokenized_sources import TokenizedSources
from ruler_builders.sources import CATALOGUE, Library
from ruler_builders.upstream import EDITIONS, TEMPLATES, Arguments, UpstreamSources, replay
from ruler_builders.upstream.edition import Edition
from ruler_builders.upstream.sources import WORDS_VERSIONS
from ruler_builders.upstream.state import UpstreamRow
from ruler_data.errors import RulerError
from ruler_data.manifest import BALANCED, read_manifest
from ruler_data.names import config_name, parse_length
from ruler_data.row import Row
from ruler_data.tasks import Cwe, Niah, Ruler2
from ruler_data.tokenizers import PromptTokenizer
from ruler_data.tokenizers.protocol import template_reserve
from ruler_data.tokenizers.registry import available
from ruler_data.version import DEFAULT_SEED

#: Rows of a task and length that are compared.
ROWS = 3
#: Files that are read for them.
FILES = 26
#: Lengths that rows are made for, in tokens, where no name tells.
USUAL = sorted([1024 * 2**n for n in range(11)] + [1000 * 2**n for n in range(2, 11)])
#: Rows of RULER v2 that are not of this project.
UNREPEATABLE = "RULER v2 of NeMo-Skills or a port of it, whose rows nobody can make again"
#: The layout of this project, and rows in it of which the sources here make others.
OWN = "ruler-data"
OTHER = "the sources here make other rows; give --sources DIR with those of the build"
COUNTS_OTHERWISE = "no tokenizer here counts the stored lengths"
#: Characters of a text that is always tokenized; vt's example is that short.
SHORT = 8000

#: The outcome where no edition made any of the rows.
NONE = (
    "no known edition made these rows; upstream's scripts between 2025-05-13 and 2025-07-10 "
    "(c4dc9bc, 56ea4ef) are none of the editions"
)


@dataclass(frozen=True)
class Identity:
    """What made the rows of one task and length.

    Attributes:
        task: of the rows, by their prompts.
        length: of the config, in tokens; None if unknown.
        rows: that were compared.
        layout: of the file.
        edition: `balanced` or an edition of upstream; empty if none made these rows.
        tokenizer: that made them, or several that give the same; empty if no available one did.
        words: version of wonderwords; empty where the task needs none or both give the same.
        template: upstream's chat template in the prompts, or `another`; `base` for none.
        same: number of rows that came out byte for byte.
        nearest: where the first row that is not the same differs; where no row is the same, after
            the closest edition, or why no text was compared.
        untested: unavailable tokenizers, and what else could not be tried.
    """

    task: str
    length: int | None
    rows: int
    layout: str
    edition: str = ""
    tokenizer: str = ""
    words: str = ""
    template: str = "base"
    same: int = 0
    nearest: str = ""
    untested: tuple[str, ...] = ()

    def __str__(self) -> str:
        name = self.task
        if self.length:
            name = config_name(self.task, self.length)
        prompts = ""
        if self.template != "base":
            prompts = f", chat template {self.template}"
        if not self.edition:
            return f"{name}: no known edition{prompts}; {self.nearest}"
        words = ""
        if self.words:
            words = f", wonderwords {self.words}"
        details = [self.nearest]
        if self.same:
            details.insert(0, f"{self.same} of the first {self.rows} rows the same")
        tokenizer = f"tokenizer {self.tokenizer or 'unknown'}"
        about = f"{name}: {self.edition}, {tokenizer}{words}{prompts}"
        return f"{about}: {'; '.join(filter(None, details))}"


class Identities(tuple[Identity, ...]):
    """What made the rows of each task and length."""

    def __str__(self) -> str:
        return "\n".join(map(str, self))

    def to_record(self) -> list[dict[str, object]]:
        """Return the identities as plain values."""
        return [asdict(identity) for identity in self]

    @property
    def notes(self) -> tuple[str, ...]:
        """What could not be tried."""
        return tuple(dict.fromkeys(note for identity in self for note in identity.untested))

    @property
    def failure(self) -> str:
        """The outcome in a line, if no edition made any of the rows."""
        if any(identity.edition for identity in self):
            return ""
        return NONE

    @property
    def exit_status(self) -> int:
        """1: no known edition made any of the rows."""
        return int(bool(self.failure))


def identify(
    data: Path | str,
    revision: str | None = None,
    pattern: str = "**/*",
    length: str | int | None = None,
    seed: int = DEFAULT_SEED,
    tokenizer: str | None = None,
    sources: Path | str | None = None,
) -> Identities:
    """Return which edition, tokenizer, words and template made the rows of each task and length."""
    size = None if length is None else parse_length(str(length), "--length")
    files, _ = find_files(str(data), revision, pattern)
    groups: dict[tuple[str, int | None], list[OtherRow]] = {}
    first_error = ""
    for path in files[:FILES]:
        for row in islice(read_file(path, size), 2000):
            if isinstance(row, str):
                first_error = first_error or row
                continue
            group = groups.setdefault((row.task.name, row.size), [])
            if len(group) < ROWS:
                group.append(row)
            elif sum(map(len, groups.values())) >= ROWS * 13:
                break
    if not groups:
        raise RulerError(first_error) if first_error else RulerError(data, "no rows")
    bench = _Bench(Path(data), seed, tokenizer, sources)
    return Identities(bench.identify(rows) for rows in groups.values())


#: Likeness of the first row that differs, and the identity that was tried.
Try = tuple[float, Identity]


class _Bench:
    """Tokenizers and sources, opened once."""

    def __init__(
        self, data: Path, seed: int, tokenizer: str | None, sources: Path | str | None
    ) -> None:
        self._seed = seed
        absent = Library(sources, network=False).unavailable(CATALOGUE)
        self._library = Library(sources, network=False, samples=absent)
        self._tokenizers, missing = available(tokenizer)
        self._label = ""  # the tokenizer that a manifest names; it may be unavailable
        self._reserve = 0
        self._expected = {tokenizer}  # those that user and manifest name
        with suppress(RulerError):
            info = read_manifest(data).tokenizer
            self._label = f"{info.name} (by its manifest)"
            self._reserve = info.extra_reserve
            self._expected.add(info.name)
        self._missing: list[str] = []
        if missing:
            self._missing.append(f"tokenizers not here: {', '.join(missing)}")

    @cache  # noqa: B019 - lives for one command
    def _sources(self, version: str) -> UpstreamSources:
        return UpstreamSources(self._library.folder, version=version)

    def identify(self, rows: Sequence[OtherRow]) -> Identity:
        """Return what made some rows of one task and length."""
        first = rows[0]
        identity = Identity(
            first.task.name,
            first.size,
            len(rows),
            first.layout,
            template=first.template if first.template in TEMPLATES else "another",
            tokenizer=self._label,
        )
        questions = self._equal_questions(rows)
        if questions:
            return self._balanced(identity, rows, questions)
        if isinstance(first.task.params, Ruler2):
            return replace(identity, nearest=OTHER if first.layout == OWN else UNREPEATABLE)
        if first.layout == OWN:  # its lengths are those of the prompts as they are sent
            rows = [replace(row, length=None) for row in rows]
        notes = list(self._missing)
        best = _best(self._tried(identity, rows, notes))
        untested = tuple(dict.fromkeys(notes))
        if not best or not best[0].same:
            nearest = _nearest(first, best[0] if best else None)
            return replace(identity, untested=untested, nearest=nearest)
        return replace(self._joined(best), untested=untested)

    def _tried(self, base: Identity, rows: Sequence[OtherRow], notes: list[str]) -> list[Try]:
        """Return what was tried; once all rows came out, only other tokenizers are tried."""
        tries: list[Try] = []
        full: Identity | None = None
        for alike, attempt in self._tries(base, rows, notes):
            if full and (attempt.edition, attempt.words) != (full.edition, full.words):
                break
            tries.append((alike, attempt))
            if full is None and attempt.same == len(rows):
                full = attempt
        return tries

    def _joined(self, equal: Sequence[Identity]) -> Identity:
        """Return the first of equally good identities, with the tokenizers of all of them."""
        best = equal[0]
        edition = best.edition
        if edition == "upstream-2025-01" and best.task != "vt":
            edition += " (and upstream-2024-04)"
        names = dict.fromkeys(
            candidate.tokenizer
            for candidate in equal
            if (candidate.edition, candidate.words) == (best.edition, best.words)
        )
        return replace(best, edition=edition, tokenizer=self._label or " or ".join(names))

    def _equal_questions(self, rows: Sequence[OtherRow]) -> int:
        """Return how many questions the balanced edition draws too, which needs no tokenizer."""
        sources = TokenizedSources(self._seed, self._library, ByteCounter())
        equal = 0
        for place, row in enumerate(rows):
            with suppress(RulerError):
                made_again = make_row(row.task, sources, _index(row, place), Target(16384, 0))
                equal += (made_again.outputs, made_again.question) == (row.outputs, row.question)
        return equal

    def _balanced(self, base: Identity, rows: Sequence[OtherRow], questions: int) -> Identity:
        """Return which tokenizer makes the text of rows of the balanced edition."""
        tries: list[Try] = []
        for size, (name, tokenizer) in product(_lengths(rows), self._tokenizers.items()):
            fits = (_has_length(tokenizer, row, size - self._reserve) for row in rows)
            if name not in self._expected and not any(fits):
                continue
            sources = TokenizedSources(self._seed, self._library, tokenizer)
            target = Target(size, template_reserve(tokenizer), self._reserve)
            rows_made = (
                make_row(row.task, sources, _index(row, place), target).unpack()
                for place, row in enumerate(rows)
            )
            candidate = replace(base, edition=BALANCED, tokenizer=name)
            tries.append(_compare(candidate, rows, rows_made))
            if tries[-1][1].same == len(rows):
                break
        if not tries:
            same = f"questions and answers of the first {questions} rows the same"
            untested = (*self._missing, COUNTS_OTHERWISE)
            nearest = f"{same}; text not compared"
            return replace(base, edition=BALANCED, nearest=nearest, untested=untested)
        best = _best(tries)[0]
        if best.same:
            return best
        return replace(best, edition="", nearest=_nearest(rows[0], best))

    def _tries(self, base: Identity, rows: Sequence[OtherRow], notes: list[str]) -> Iterator[Try]:
        """Yield what each edition makes, with the tokenizers that count the stored lengths."""
        task = rows[0].task
        template = TEMPLATES.get(rows[0].template, rows[0].template)
        versions = [""]
        if "words" in task.sources or isinstance(task.params, Cwe):
            versions = [*WORDS_VERSIONS.values()]
        editions = [*EDITIONS.values()]
        if task.name != "vt":
            editions.remove(EDITIONS["upstream-2024-04"])  # as upstream-2025-01
        tokenizers = self._counting(rows)
        if not tokenizers:
            notes.append(COUNTS_OTHERWISE)
        for length, edition, words in product(_lengths(rows), editions, versions):
            arguments = Arguments(edition, task, length, len(rows), self._seed, template)
            for name, count in _counters(tokenizers, edition, rows).items():
                candidate = replace(
                    base, edition=edition.name, tokenizer=name, words=words, length=length
                )
                try:
                    yield _compare(candidate, rows, replay(arguments, self._sources(words), count))
                except (RulerError, KeyError) as error:  # of braces in a template
                    notes.append(f"{edition.name}: {error}")
                    yield 0, candidate

    def _counting(self, rows: Sequence[OtherRow]) -> dict[str, PromptTokenizer]:
        """Return the tokenizers that count most of the stored lengths."""
        counts = {name: _counts(tokenizer, rows) for name, tokenizer in self._tokenizers.items()}
        most = max(counts.values(), default=0)
        if most == 0:
            return {}
        return {name: self._tokenizers[name] for name in counts if counts[name] == most}


def _best(tries: Sequence[Try]) -> list[Identity]:
    """Return those with the most equal rows; on a tie, the most alike in the first other row."""
    most = max(((identity.same, alike) for alike, identity in tries), default=None)
    return [identity for alike, identity in tries if (identity.same, alike) == most]


def _compare(
    base: Identity, rows: Sequence[OtherRow], rows_made: Iterable[UpstreamRow | Row]
) -> Try:
    """Return a try with the number of rows that are the same, and where the first other differs."""
    alike = 0.0
    same = 0
    differs = ""
    for place, (row, again) in enumerate(zip(rows, rows_made, strict=False)):
        text = again.prompt
        outputs = tuple(again.outputs)
        length = row.length if base.tokenizer and row.length is not None else again.length
        if (text, outputs, again.length) == (row.prompt, row.outputs, length):
            same += 1
        elif not differs:
            shared = len(commonprefix([text, row.prompt]))  # noqa: RUF071 - of characters
            differs = f"row {place}: its answers are {again.outputs!s:.60}"
            if outputs == row.outputs:
                differs = f"row {place}: same answers, the prompt differs from character {shared:,}"
            alike = shared / max(len(row.prompt), 1) + (outputs == row.outputs)
    return alike, replace(base, same=same, nearest=differs)


def _index(row: OtherRow, place: int) -> int:
    if row.index is None:
        return place
    return row.index


def _has_length(tokenizer: PromptTokenizer, row: OtherRow, limit: int) -> bool:
    """Whether a formatted prompt has the stored length, or without one is near the limit."""
    tokens = tokenizer.count_prompt(row.context + row.question, row.answer_prefix)
    length = tokens + row.task.max_new_tokens
    if row.length is not None:
        return length == row.length
    return 0.9 * limit < length <= limit


def _counts(tokenizer: PromptTokenizer, rows: Sequence[OtherRow]) -> int:
    """Return how many stored lengths are a tokenizer's; vt's may count its example twice."""
    slack = 500 if rows[0].task.name == "vt" else 0
    counts = tokenizer.count([row.prompt for row in rows])
    return sum(
        row.length is None
        or -max(slack, 1) <= row.length - count - row.task.max_new_tokens <= slack
        for row, count in zip(rows, counts, strict=True)
    )


def _lengths(rows: Sequence[OtherRow]) -> list[int]:
    """Return the lengths that rows may have been made for, in tokens."""
    if rows[0].size:
        return [rows[0].size]
    longest = max(row.length or 0 for row in rows) or len(rows[0].prompt) // 5
    return [length for length in USUAL if longest <= length <= 1.6 * longest][:2]


def _counter(
    tokenizer: PromptTokenizer, edition: Edition, rows: Sequence[OtherRow]
) -> Callable[[str], int]:
    """Return an exact counter that leaves out probes that cannot be too long."""
    least = 0 if edition.bisects else 0.85 * min(len(row.prompt) for row in rows)
    return lambda text: 0 if SHORT < len(text) < least else tokenizer.count([text])[0]


def _counters(
    tokenizers: Mapping[str, PromptTokenizer], edition: Edition, rows: Sequence[OtherRow]
) -> dict[str, Callable[[str], int]]:
    """Return a counter for each tokenizer; without any, one that tells niah's steps apart."""
    if not tokenizers and not edition.bisects and isinstance(rows[0].task.params, Niah):
        return {"": _by_characters(rows)}
    return {name: _counter(tokenizer, edition, rows) for name, tokenizer in tokenizers.items()}


def _by_characters(rows: Sequence[OtherRow]) -> Callable[[str], int]:
    """Return a counter for which a text is too long if it is longer than the rows."""
    longest = max(len(row.prompt) for row in rows) + 150
    return lambda text: 0 if len(text) <= longest else 10**9


def _nearest(row: OtherRow, best: Identity | None) -> str:
    """Describe what is closest to rows that no edition made."""
    if "assgined" in row.prompt:
        return "vt spells `assgined`, as upstream did until 2025-05"
    if best is None:
        return "no edition could be tried"
    with_what = f" with {best.tokenizer}" if best.tokenizer else ""
    return f"nearest is {best.edition}{with_what}: {best.nearest or 'no row came out'}"
