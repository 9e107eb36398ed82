"""Rows against what they were made of: the seed, the sources and the tokenizer, if available.

With tokenizer and sources every row is built again and compared byte for byte. Without the
tokenizer, its question, answers, example and depths are drawn again and its texts are compared with
the sources. Without the texts of its haystack, the question is still drawn again.
"""

from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from itertools import count
from pathlib import Path

import numpy as np

from ruler_builders.audit.file_checks import entry_findings
from ruler_builders.checks.depth_uniformity import drift, row_depths
from ruler_builders.checks.prompt_parser import (
    example_and_list,
    lines_between,
    needle_sentences,
    template_of,
)
from ruler_builders.checks.solvers import documents
from ruler_builders.pipeline.build_context import PROBES, ByteCounter
from ruler_builders.pipeline.fit import Target, make_rows
from ruler_builders.rows.tokenized_sources import TokenizedSources
from ruler_builders.sources import CATALOGUE, Library, Question
from ruler_builders.sources.domains import PREFIX
from ruler_builders.sources.essays import ROUGHLY
from ruler_builders.sources.library import Kind
from ruler_builders.tasks import draw
from ruler_builders.tasks.cwe import RAN_OUT
from ruler_builders.tasks.niah import REPEAT
from ruler_builders.tasks.qa import distractors, documents_repeat, in_order, repeated
from ruler_data.errors import RulerError
from ruler_data.manifest import BALANCED, Manifest
from ruler_data.names import parse_config
from ruler_data.row import PackedRow, Row, serialize
from ruler_data.tasks import Cwe, Niah, Qa, Task
from ruler_data.tokenizers import PromptTokenizer, load_tokenizer
from ruler_data.tokenizers.counters import CounterName
from ruler_data.version import DATA_VERSION

#: Sentences among which a row may leave out some, at the end of its haystack.
LOOSE_END = 200
#: Documents of other articles that a row may have although near ones are left out for their size.
STRAY_DOCUMENTS = 4


@dataclass(frozen=True)
class Available:
    """The sources that an audit can read.

    Attributes:
        folder: of the real sources; None for the user's cache.
        kinds: of the manifest's sources, by name.
        missing: why a source cannot be compared, by name.
        is_current: whether this version draws rows of the manifest's MAJOR version.
    """

    folder: str | None
    haystack: str | None
    kinds: Mapping[str, str]
    missing: Mapping[str, str]
    is_current: bool = True

    def has(self, names: Collection[str]) -> bool:
        """Whether all of these sources can be read."""
        return all(name in self.kinds and name not in self.missing for name in names)

    def library(self, task: Task) -> Library:
        """Return the sources of a task."""
        kinds = {self.kinds.get(name) for name in task.sources if name in CATALOGUE}
        return _library("sample" in kinds, self.folder, self.haystack)


def is_text(source: str) -> bool:
    """Whether a source is text of haystacks: what a row asks does not depend on it."""
    return source == "essays" or source.startswith(PREFIX)


@lru_cache(maxsize=2)
def _library(is_sample: bool, folder: str | None, haystack: str | None) -> Library:
    kind: Kind = "sample" if is_sample else "real"
    return Library(folder, kind, haystack=haystack, network=False, rough=True)


@lru_cache(maxsize=1)
def open_tokenizer(spec: str, counter: CounterName) -> PromptTokenizer:
    """Load a tokenizer, once in a process, with the fast counter if that is exact."""
    tokenizer = load_tokenizer(spec)
    tokenizer.use(counter, PROBES)
    return tokenizer


@lru_cache(maxsize=2)
def _counted(seed: int, library: Library, spec: str, counter: CounterName) -> TokenizedSources:
    return TokenizedSources(seed, library, open_tokenizer(spec, counter) if spec else ByteCounter())


def find_sources(
    manifest: Manifest, folder: Path | str | None, haystack: Path | str | None
) -> tuple[Available, list[str]]:
    """Return the available sources, and where their texts are not those of the manifest."""
    paths = (str(folder) if folder else None, str(haystack) if haystack else None)
    if manifest.edition != BALANCED:  # rows of editions are replayed from sources of their own
        return Available(*paths, {}, {}), []
    if manifest.rows_version.split(".")[0] != DATA_VERSION.split(".")[0]:
        return Available(*paths, {}, {}, is_current=False), []
    findings, missing = list[str](), dict[str, str]()
    for info in manifest.sources:
        library = _library(info.kind == "sample", *paths)
        try:
            found = library.info(info.name)
        except (RulerError, KeyError) as error:
            missing[info.name] = str(error)
            continue
        is_public = info.kind == "real" and info.name in CATALOGUE
        if found.sha256 != info.sha256 and is_public and not library.folder:
            missing[info.name] = f"here is another copy of it, sha256 {found.sha256}"
            continue
        detail = info.detail if found.detail == ROUGHLY else found.detail
        expected = replace(info, sha256=found.sha256, detail=detail)
        if expected != info:
            missing[info.name] = "the manifest names another one"
        findings += entry_findings(info, expected)
    kinds = {info.name: info.kind for info in manifest.sources}
    return Available(*paths, kinds, missing), findings


class RowCheck:
    """Compares the rows of one config with what the seed draws from the sources.

    Those of `indices` (rising) are built again; without a `tokenizer`, texts are compared instead.
    """

    def __init__(
        self,
        manifest: Manifest,
        config: str,
        sources: Available,
        tokenizer: str,
        counter: CounterName,
        indices: Sequence[int],
    ) -> None:
        name, self._length = parse_config(config)
        self._task = task = manifest.table[name]
        reserves = manifest.tokenizer.template_reserve, manifest.tokenizer.extra_reserve
        self._target = Target(self._length, *reserves)
        texts = [*filter(is_text, task.sources)]
        #: Whether questions can be drawn again, and whether texts can be compared.
        self.draws = sources.is_current and sources.has({*task.sources} - {*texts})
        self.has_texts = self.draws and sources.has(texts)
        self._library = library = sources.library(task)
        is_rough = "essays" in texts and self.has_texts and library.is_rough
        self.builds = bool(tokenizer and self.has_texts and not is_rough)
        self._sources = _counted(manifest.seed, library, tokenizer if self.builds else "", counter)
        self._indices = frozenset(indices if self.builds else ())
        #: Number of rows that were built again, and notes on sources that run out.
        self.built = 0
        self.exhausted: set[str] = set()
        again = sorted(self._indices)
        self._made = make_rows(task, self._sources, again, self._target, self.exhausted)
        if isinstance(task.params, Qa) and self.draws:
            corpus, _ = library.corpus(task.params.source)
            self.exhausted.update(repeated(corpus, task.params, manifest.configs[config].rows))

    def row(self, packed: PackedRow, row: Row) -> Iterator[str]:
        """Yield where a row, given in both forms, is not what the seed draws from the sources."""
        if packed.index in self._indices:
            made = next(self._made, None)
            if made is None:
                yield "is one row too many"
                return
            self.built += 1
            if serialize(packed) != serialize(made):
                yield f"differs from the row built again: {_difference(row, made.unpack())}"
        elif self.draws and packed.index >= 0:
            yield from self._drawn(row)

    def missing(self) -> Iterator[int]:
        """Yield the rows to build again that the file does not have."""
        yield from (made.index for made in self._made)

    def _drawn(self, row: Row) -> Iterator[str]:
        budget = self._target.budget(self._task)
        drawn = draw(self._task, self._sources, row.index, self._length, budget)
        values: dict[str, tuple[object, object]] = {
            "question": (row.question, drawn.prompt.question),
            "answer_prefix": (row.answer_prefix, drawn.prompt.prefix),
            "outputs": (row.outputs, drawn.outputs),
            "beginning of the context": (row.context[: len(drawn.prompt.head)], drawn.prompt.head),
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
            head = template_of(self._task, row).head
            listed = {*example_and_list(row.context, head)[1].split()[1::2]}
            if listed.difference(self._library.words[0].singles):
                self.exhausted.add(RAN_OUT)
                yield from self._compounds(listed)

    def _depths(self, row: Row, drawn: tuple[float, ...]) -> Iterator[str]:
        """Compare depths, which a needle misses by a few segments and a document by the longest."""
        depths, grain, places = row_depths(self._task, row)
        tolerance = 2 * max(grain, len(drawn) / max(places, 1)) + 2 * drift(self._task)
        if isinstance(self._task.params, Qa) and depths:
            tolerance += max(map(len, documents(row.context)[1])) / len(row.context)
        if len(depths) > len(drawn):  # repeated gold documents, of which one is at each depth
            depths = [min(depths, key=lambda one: abs(one - wanted)) for wanted in drawn]
        for depth, wanted in zip(depths, drawn, strict=False):
            if abs(depth - wanted) > tolerance:
                yield f"evidence is at depth {depth:.3f}, at {wanted:.3f} by the seed"

    def _haystack(self, params: Niah, row: Row) -> Iterator[str]:
        needles, pieces = needle_sentences(row.context)
        others = lines_between(pieces, template_of(self._task, row).head)
        text = " ".join(piece.strip(" ") for piece in others)
        if params.haystack == "essays" and self.has_texts:
            yield from self._essays(text)
        elif params.haystack == "domains" and self.has_texts:
            yield from self._domains(params.domains, others)
        for kind, parts in (
            (params.key_type, {*needles.keys}),
            (params.value_type, {*needles.values}),
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
        listed = documents(row.context)[1]
        shown = {*listed}
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
        if len(shown) < len(listed):
            self.exhausted.add(documents_repeat(params))
        elif not strange:
            place = self._sources.seed, self._task.same_questions_as or self._task.name, row.index
            others = [numbers[text] for text in listed if text not in held]
            known = distractors(*place, question, len(texts))
            if others != in_order(*place, known[np.isin(known, others)]).tolist():
                yield "the documents are not in the order of the seed"


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


def _difference(found: Row, wanted: Row) -> str:
    """Return the first column in which two rows differ, and its values."""
    for (name, here), there in zip(
        found.to_record().items(), wanted.to_record().values(), strict=True
    ):
        if here != there:
            return f"{name} {_differing(here, there)} by the seed"
    return "in its bytes"


def _differing(found: object, wanted: object) -> str:
    """Return both values from where they differ."""
    if not (isinstance(found, str) and isinstance(wanted, str)):
        return f"is {found!r}, {wanted!r}"
    pairs = enumerate(zip(found, wanted, strict=False))
    at = next((place for place, (a, b) in pairs if a != b), min(len(found), len(wanted)))
    at = max(at - 20, 0)
    return f"has {found[at : at + 60]!r}, {wanted[at : at + 60]!r}"
