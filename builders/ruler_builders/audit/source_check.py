"""Rows against what they were made of: the seed, and the sources that are available.

Every question is drawn again from the seed, with its answers, its example and the depths of its
needles; the haystack's texts must be those of the source. A rebuilt row (`--rebuild`) proves more,
each byte, and costs as much as the build.
"""

from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass, replace
from functools import lru_cache
from itertools import count
from pathlib import Path

from ruler_builders.checks.depth_uniformity import drift, row_depths
from ruler_builders.checks.prompt_parser import example_and_list, needle_sentences, template_of
from ruler_builders.checks.solvers import documents
from ruler_builders.pipeline.build_context import ByteCounter
from ruler_builders.pipeline.fit import Target
from ruler_builders.rows.tokenized_sources import TokenizedSources
from ruler_builders.sources import CATALOGUE, Library, Question
from ruler_builders.tasks import draw
from ruler_builders.tasks.cwe import RAN_OUT
from ruler_builders.tasks.niah import REPEAT
from ruler_data.errors import RulerError
from ruler_data.manifest import FILENAME, Manifest, SourceInfo
from ruler_data.names import quote
from ruler_data.row import Row
from ruler_data.tasks import Cwe, Niah, Qa, Task

#: Sentences among which a row may leave out some, at the end of its haystack.
LOOSE_END = 200
#: Documents of other articles that a row may have although near ones are left out for their size.
STRAY_DOCUMENTS = 4


@dataclass(frozen=True)
class Available:
    """The sources that an audit can read.

    Attributes:
        folder: of the real sources; None for the user's cache.
        haystack: of the user's own texts, or None.
        kinds: of the manifest's sources, by name.
        missing: why a source cannot be compared, by name.
    """

    folder: str | None
    haystack: str | None
    kinds: Mapping[str, str]
    missing: Mapping[str, str]

    def library(self, task: Task) -> Library | None:
        """Return the sources of a task; None if one is missing."""
        if any(name in self.missing or name not in self.kinds for name in task.sources):
            return None
        kinds = {self.kinds[name] for name in task.sources if name in CATALOGUE}
        return _library("sample" in kinds, self.folder, self.haystack)


@lru_cache(maxsize=2)
def _library(is_sample: bool, folder: str | None, haystack: str | None) -> Library:
    return Library(folder, "sample" if is_sample else "real", haystack=haystack, network=False)


def find_sources(
    manifest: Manifest, folder: Path | str | None, haystack: Path | str | None
) -> tuple[Available, list[str]]:
    """Return the sources that are available, and where the manifest differs from them.

    Raises:
        UsageError: a folder does not exist.
    """
    paths = (str(folder) if folder else None, str(haystack) if haystack else None)
    findings, missing = list[str](), dict[str, str]()
    for info in manifest.sources:
        library = _library(info.kind == "sample", *paths)
        is_pinned_down = info.kind == "sample" or info.name not in CATALOGUE
        try:
            found = library.info(info.name)
        except (RulerError, KeyError) as error:
            missing[info.name] = str(error)
            found = _catalogued(info)
        if found.sha256 != info.sha256 and not (is_pinned_down or library.folder):
            missing[info.name] = f"here is another copy of it, sha256 {found.sha256}"
            found = _catalogued(info)
        if found != info:
            missing.setdefault(info.name, "the manifest names another one")
        findings += [
            f"{FILENAME}: source {info.name}: {name} expected {quote(str(wanted))}, "
            f"found {quote(str(asdict(info)[name]))}"
            for name, wanted in asdict(found).items()
            if asdict(info)[name] != wanted
        ]
    kinds = {info.name: info.kind for info in manifest.sources}
    return Available(*paths, kinds, missing), findings


def _catalogued(info: SourceInfo) -> SourceInfo:
    """Return the entry of a source that is not available, as far as its name decides it."""
    if info.kind == "own":
        title = f"Texts of whoever built this: {info.name.removeprefix('domain_')}"
        who = "unknown to ruler-data; ask whoever built this"
        return replace(info, title=title, url="", licence="unknown", attribution=who, pinned=False)
    spec = CATALOGUE.get(info.name)
    if spec is None:
        return info
    detail = info.detail if info.name == "essays" else ""
    return replace(
        info, title=spec.title, url=spec.url, licence=spec.licence,
        attribution=spec.attribution, detail=detail, kind="real",
    )  # fmt: skip


class SourceCheck:
    """Compares the rows of one config with the seed and the sources."""

    def __init__(self, manifest: Manifest, task: Task, length: int, library: Library) -> None:
        self._task, self._length, self._library = task, length, library
        tokenizer = manifest.tokenizer
        target = Target(length, tokenizer.template_reserve, tokenizer.extra_reserve)
        self._budget = target.budget(task)
        self._sources = TokenizedSources(manifest.seed, library, ByteCounter())
        #: Which sources run out in a row, and what is done.
        self.exhausted: set[str] = set()

    def row(self, row: Row) -> Iterator[str]:
        """Yield where a row is not what the seed draws from the sources."""
        if row.index < 0:
            return
        drawn = draw(self._task, self._sources, row.index, self._length, self._budget)
        values: dict[str, tuple[object, object]] = {
            "question": (row.question, drawn.question),
            "answer_prefix": (row.answer_prefix, drawn.answer_prefix),
            "outputs": (row.outputs, drawn.outputs),
            "beginning of the context": (row.context[: len(drawn.head)], drawn.head),
        }
        for name, (found, wanted) in values.items():
            if found != wanted:
                yield f"{name} {_differing(found, wanted)} by the seed"
                return
        yield from self._depths(row, drawn.depths)
        params = self._task.params
        if isinstance(params, Niah):
            yield from self._haystack(params, row)
        elif isinstance(params, Qa) and self._task.fills:
            yield from self._documents(params, row)
        elif isinstance(params, Cwe):
            head = template_of(self._task, row).head.removesuffix("1. ")
            listed = {*example_and_list(row.context, head)[1].split()[1::2]}
            if listed.difference(self._library.words[0].singles):
                self.exhausted.add(RAN_OUT)
                yield from self._compounds(listed)

    def _depths(self, row: Row, drawn: tuple[float, ...]) -> Iterator[str]:
        """Compare depths, which a needle misses by a few segments and a document by the longest."""
        depths, grain, places = row_depths(self._task, row)
        tolerance = 2 * max(grain, len(drawn) / max(places, 1)) + 2 * drift(self._task)
        if isinstance(self._task.params, Qa) and depths:
            tolerance += max(map(len, documents(row)[1])) / len(row.context)
        if len(depths) > len(drawn):  # repeated gold documents, of which one is at each depth
            depths = [min(depths, key=lambda one: abs(one - wanted)) for wanted in drawn]
        for depth, wanted in zip(depths, drawn, strict=False):
            if abs(depth - wanted) > tolerance:
                yield f"evidence is at depth {depth:.3f}, at {wanted:.3f} by the seed"

    def _haystack(self, params: Niah, row: Row) -> Iterator[str]:
        needles, others = needle_sentences(row.context)
        head = template_of(self._task, row).head
        others = others[sum(bool(line.strip()) for line in head.split("\n")) :]
        text = " ".join(piece.strip(" ") for piece in others)
        if params.haystack == "essays":
            yield from self._essays(text)
        elif params.haystack == "domains":
            yield from self._domains(params.domains, others)
        for kind, parts in (
            (params.key_type, {needle.key for needle in needles}),
            (params.value_type, {needle.value for needle in needles}),
        ):
            is_thing = params.wording == "associated" and kind == params.key_type
            if kind == "words" and not is_thing and params.value_length is None:
                yield from self._compounds(parts)

    def _essays(self, text: str) -> Iterator[str]:
        """Check that a text is the essays from their beginning; the end may leave out sentences."""
        sentences, _ = self._library.essays
        place, first_gap = 0, None
        for number in count():
            sentence = sentences[number % len(sentences)]
            end = place + len(sentence)
            if text.startswith(sentence, place) and text[end : end + 1] in (" ", ""):
                place = end + 1
            elif first_gap is None:
                first_gap = number, place
            if place >= len(text):
                break
            if first_gap is not None and number - first_gap[0] > LOOSE_END:
                yield f"the haystack is not that of the essays from {text[first_gap[1] :][:60]!r}"
                return
        if place > sum(map(len, sentences)) + len(sentences):
            self.exhausted.add(f"essays {REPEAT}")

    def _domains(self, names: tuple[str, ...], lines: list[str]) -> Iterator[str]:
        known = _lines(self._library, names)
        if strange := next((line for line in lines if line not in known), None):
            yield f"the haystack holds {strange[:60]!r}, which is not in {', '.join(names)}"
        if len(names) == 1 and len(lines) > known.total():
            self.exhausted.add(f"texts of a domain {REPEAT}")

    def _compounds(self, parts: set[str]) -> Iterator[str]:
        adjectives, nouns = _words(self._library)
        for part in sorted(parts):
            first, _, second = part.partition("-")
            if first not in adjectives or second not in nouns:
                yield f"{part!r} is not of the word lists"
                return

    def _documents(self, params: Qa, row: Row) -> Iterator[str]:
        """Check that all documents are of the source, the gold ones those of the question."""
        texts, numbers, questions = _corpus(self._library, params.source)
        shown = {*documents(row)[1]}
        if strange := min(shown - numbers.keys(), default=None):
            yield f"document {strange[:60]!r} is not in {params.source}"
        asked = row.question.rpartition("\n\nQuestion: ")[2]
        question = questions.get(asked)
        if question is None:
            yield f"question {asked[:60]!r} is not in {params.source}"
            return
        held = {row.context[span.start : span.end] for span in row.evidence}
        if held != {texts[number] for number in question.gold}:
            yield f"evidence is on other documents than {params.source} has for the question"
        near = {texts[number] for number in question.near}
        far, absent = len(shown - near - held), len(near - shown)
        if min(far, absent) > STRAY_DOCUMENTS:
            yield f"{absent} near documents are missing, and {far} others are there"


@lru_cache(maxsize=8)
def _lines(library: Library, names: tuple[str, ...]) -> Counter[str]:
    texts = (text for name in names for text in library.domain(name)[0].lines)
    return Counter(line for text in texts for line in text.split("\n") if line.strip())


@lru_cache(maxsize=2)
def _words(library: Library) -> tuple[set[str], set[str]]:
    words = library.words[0]
    return set(words.adjectives), set(words.nouns)


@lru_cache(maxsize=4)
def _corpus(library: Library, source: str) -> tuple[list[str], dict[str, int], dict[str, Question]]:
    """Return the documents, their numbers, and the questions by their text."""
    corpus, _ = library.corpus(source)
    texts = [text.rstrip(" ") for text in corpus.documents]
    numbers = {text: number for number, text in enumerate(texts)}
    return texts, numbers, {question.text: question for question in corpus.questions}


def _differing(found: object, wanted: object) -> str:
    """Return both values from where they differ."""
    if not (isinstance(found, str) and isinstance(wanted, str)):
        return f"is {found!r}, {wanted!r}"
    pairs = enumerate(zip(found, wanted, strict=False))
    at = next((place for place, (a, b) in pairs if a != b), min(len(found), len(wanted)))
    at = max(at - 20, 0)
    return f"has {found[at : at + 60]!r}, {wanted[at : at + 60]!r}"
