"""The texts and words that upstream's scripts read, as they read them.

Upstream's own files are needed, not the project's: PaulGrahamEssays.json as its download script
writes it (unsorted until 2024-08, in whatever order the file system gave), squad.json,
hotpotqa.json, english_words.json, and all lines of wonderwords' lists, phrases included.
"""

import re
from bisect import bisect_left, bisect_right, insort
from collections.abc import Callable, Iterable, Sequence
from functools import cache, cached_property
from itertools import accumulate
from pathlib import Path
from typing import Any, NamedTuple

from ruler_builders.sources.catalogue import CATALOGUE, ENGLISH, WORDS, spec_of
from ruler_builders.sources.essays import cut, punkt_folder
from ruler_builders.sources.library import local_files, pinned_files
from ruler_builders.sources.packaged import wonderwords_assets
from ruler_builders.sources.text_files import read_json, sha256_of
from ruler_builders.upstream.edition import Edition
from ruler_data.errors import RulerError
from ruler_data.files import cache_dir, write_file
from ruler_data.manifest import Manifest, SourceInfo
from ruler_data.network import Unreachable
from ruler_data.tasks import Task

#: Versions of wonderwords by the sha256 of their three lists.
WORDS_VERSIONS = {
    "7cb0434d95b629830cae9580a4db4bd2d4f93ec9abe53dbf8fd2aa55ee2246a9": "2.2.0",
    "6e9b05d3159f929a3dcd47cde1018df30df0670ad04584377ffad516390551c0": "3.0.1",
}
#: Nouns of wonderwords 2.2.0 that 3.0.1 lacks; all other lines of the two are the same.
DROPPED_NOUNS = ("abortion", "brocolli", "idiot", "pray")
ENGLISH_SHA256 = "affcd6d45fdf3cc843d585c99c97ad615094e760e6c4756b654bab6c73bc2eca"


def read_lines(path: Path) -> list[str]:
    """Return the words of one of wonderwords' lists, in its order."""
    return [line.rstrip() for line in path.read_text(encoding="utf-8").split("\n")[:-1]]


def words_of(manifest: Manifest) -> str:
    """Return the version of wonderwords that a folder was drawn with; empty if it names none."""
    for source in manifest.sources:
        if source.name == "words":
            return WORDS_VERSIONS.get(source.sha256, "")
    return ""


def lists_of_version(files: Sequence[Path], version: str) -> list[Path]:
    """Return the lists of a version of wonderwords, made from those of the other version.

    The lists of nouns differ by four lines, so either version is enough for both.

    Raises:
        RulerError: the lists are of neither version.
    """
    if WORDS_VERSIONS.get(sha256_of(files)) == version:
        return [*files]
    nouns, *lists = files
    lines = [noun for noun in nouns.read_text(encoding="utf-8").split("\n") if noun]
    lines = [noun for noun in lines if noun not in DROPPED_NOUNS]
    if version == "2.2.0":
        for noun in DROPPED_NOUNS:
            insort(lines, noun)
    folder = cache_dir("sources", f"wonderwords-{version}")
    write_file(folder / nouns.name, "".join(f"{noun}\n" for noun in lines))
    for path in lists:
        write_file(folder / path.name, path.read_text(encoding="utf-8"))
    made = [folder / path.name for path in files]
    if WORDS_VERSIONS.get(sha256_of(made)) != version:
        raise RulerError(
            f"the words of wonderwords {version} cannot be made from the lists in {nouns.parent}; "
            f"pip install wonderwords==3.0.1, or give --sources DIR with those of {version} in "
            "DIR/wonderwords"
        )
    return made


class NeedleWords(Sequence[str]):
    """All `adjective-noun`, each once, sorted: millions, each made when it is accessed.

    Adjectives that begin alike up to a hyphen (`all`, `all-around`) give words that mix when they
    are sorted; those are made and sorted together.

    >>> list(NeedleWords(["cat", "ant"], ["big", "big-eyed"]))
    ['big-ant', 'big-cat', 'big-eyed-ant', 'big-eyed-cat']
    """

    def __init__(self, nouns: Iterable[str], adjectives: Iterable[str]) -> None:
        self._nouns = sorted(set(nouns))
        groups: list[list[str]] = []
        for start in sorted({f"{adjective}-" for adjective in adjectives}):
            if groups and start.startswith(groups[-1][0]):
                groups[-1].append(start)
            else:
                groups.append([start])
        #: What is put before each of the words of a group, and those.
        self._groups = [
            (group[0], self._nouns)
            if len(group) == 1
            else ("", sorted({start + noun for start in group for noun in self._nouns}))
            for group in groups
        ]
        self._ends = list(accumulate(len(words) for _, words in self._groups))

    def __len__(self) -> int:
        return self._ends[-1]

    def __getitem__(self, place: Any) -> Any:  # noqa: ANN401 - no slices
        if not 0 <= place < len(self):
            raise IndexError(place)
        group = bisect_right(self._ends, place)
        start, words = self._groups[group]
        return start + words[place - self._ends[group]]


class EssaySentences:
    """The sentences of the first words of the essays.

    Upstream cuts the words of each probe and of each row into sentences anew. Punkt decides on a
    boundary by the two words beside it, so the first words have the sentences of the whole text,
    the last one cut short. Here the text is cut once, by a function that returns its sentences.
    """

    def __init__(self, text: str, cut: Callable[[str], Sequence[str]]) -> None:
        words = re.sub(r"\s+", " ", text).split(" ")
        self._text = " ".join(words)
        self._cut = cut
        #: Characters of the first n words, joined by spaces.
        self._word_ends = [
            end - 1 for end in accumulate((1 + len(word) for word in words), initial=0)
        ]

    def __len__(self) -> int:
        return len(self._word_ends) - 1

    def first(self, words: int, *, repeat: bool) -> list[str]:
        """Return the sentences of the first words; `repeat` begins again at the end."""
        if not repeat:
            words = min(words, len(self))
        times, remainder = divmod(words, len(self))
        end = times * (len(self._text) + 1) - 1
        if remainder:
            end += 1 + self._word_ends[remainder]
        sentences, starts = self._sentences(times + bool(remainder))
        count = bisect_left(starts, end)
        complete = list(sentences[:count])
        if complete:
            complete[-1] = complete[-1][: end - starts[count - 1]]
        return complete

    @cache  # noqa: B019 - sources live as long as their build
    def _sentences(self, times: int) -> tuple[Sequence[str], list[int]]:
        """Return the sentences of the text, repeated so often, and where each begins."""
        text = " ".join([self._text] * times)
        starts = list[int]()
        end = 0
        sentences = self._cut(text)
        for sentence in sentences:
            starts.append(text.index(sentence, end))
            end = starts[-1] + len(sentence)
        return sentences, starts


class Question(NamedTuple):
    """A question, its answers, and documents.

    Attributes:
        own: numbers of the documents that always stand in its rows.
        near: numbers of those that come next.
        gold: texts of the documents that the answer rests on.
    """

    query: str
    outputs: list[str]
    own: list[int]
    near: list[int]
    gold: list[str]


def read_squad(data: Any) -> tuple[list[str], list[Question]]:  # noqa: ANN401 - parsed JSON
    """Return documents and answerable questions of SQuAD; repeated answers are kept."""
    documents = sorted({p["context"] for article in data["data"] for p in article["paragraphs"]})
    numbers = {text: number for number, text in enumerate(documents)}
    questions = []
    for article in data["data"]:
        article_numbers = [numbers[p["context"]] for p in article["paragraphs"]]
        for paragraph in article["paragraphs"]:
            text = paragraph["context"]
            place = [numbers[text]]
            near = [number for number in article_numbers if number not in place]
            questions += [
                Question(qa["question"], [a["text"] for a in qa["answers"]], place, near, [text])
                for qa in paragraph["qas"]
                if not qa["is_impossible"]
            ]
    return documents, questions


def read_hotpotqa(data: Any) -> tuple[list[str], list[Question]]:  # noqa: ANN401 - parsed JSON
    """Return documents and questions of HotpotQA; all documents of a question are its own."""
    texts = [
        [f"{title}\n{''.join(sentences)}" for title, sentences in item["context"]] for item in data
    ]
    documents = sorted({text for texts_of_item in texts for text in texts_of_item})
    numbers = {text: number for number, text in enumerate(documents)}
    questions = []
    for item, paragraphs in zip(data, texts, strict=True):
        titles = {title for title, _ in item["supporting_facts"]}
        gold = [
            text
            for text, document in zip(paragraphs, item["context"], strict=True)
            if document[0] in titles
        ]
        numbered = [numbers[text] for text in paragraphs]
        questions.append(Question(item["question"], [item["answer"]], numbered, [], gold))
    return documents, questions


def upstream_info(name: str, sha256: str) -> SourceInfo:
    """Return the entry of a source for the manifest of an edition."""
    if name == "words":
        version = WORDS_VERSIONS.get(sha256, "of an unknown version")
        detail = f"wonderwords {version}, all lines"
        return WORDS.info(sha256, detail, pinned=sha256 in WORDS_VERSIONS)
    if name == "english_words":
        detail = "for lists that wonderwords is too short for"
        return ENGLISH.info(sha256, detail, pinned=sha256 == ENGLISH_SHA256)
    spec = spec_of(name, sha256)
    return spec.info(sha256, "as upstream reads it", pinned=sha256 in spec.pinned)


class UpstreamSources:
    """The files of a sources folder and of wonderwords, each read when it is first needed.

    Args:
        folder: with PaulGrahamEssays*.json, squad*.json or dev-v2.0*.json, hotpot*.json, for long
            cwe english_words.json, and `wonderwords` for lists of another version than installed.
        words: wonderwords' `assets` folder; None for that of the installed package.
        version: of wonderwords, made of the lists of another one; empty for that of the lists.
        network: whether what the folder lacks may be downloaded.
    """

    def __init__(
        self,
        folder: Path | None,
        words: Path | None = None,
        version: str = "",
        *,
        network: bool = False,
    ) -> None:
        self._folder = folder
        self._assets = words
        self._version = version
        self._network = network

    @cached_property
    def essays(self) -> EssaySentences:
        """The essays."""
        file = self._file("essays")
        body = read_json(file)
        if not isinstance(body, dict) or not isinstance(text := body.get("text"), str):
            raise RulerError(file, "not upstream's file of essays; it has no text")
        return EssaySentences(text, lambda words: cut(words, self._folder, True)[0])

    @cached_property
    def _lists(self) -> tuple[list[str], ...]:
        return tuple(map(read_lines, self._word_files))

    @cached_property
    def needle_words(self) -> NeedleWords:
        """What niah's keys are chosen from."""
        nouns, adjectives, _ = self._lists
        return NeedleWords(nouns, adjectives)

    @cached_property
    def single_words(self) -> list[str]:
        """What cwe's words are chosen from: each once, sorted."""
        return sorted({word for words in self._lists for word in words})

    @cached_property
    def english_words(self) -> list[str] | None:
        """What cwe's words are chosen from beyond those; None where the file is missing."""
        if self._english_file is None:
            return None
        return list(read_json(self._english_file).values())

    @property
    def _english_file(self) -> Path | None:
        if self._folder and (path := self._folder / "english_words.json").is_file():
            return path
        return None

    @cached_property
    def _word_files(self) -> list[Path]:
        """Wonderwords' lists: as given, of `wonderwords` in the sources, or as installed."""
        folder = self._assets
        if folder is None and self._folder and (self._folder / "wonderwords").is_dir():
            folder = self._folder / "wonderwords"
        folder = folder or wonderwords_assets()
        lists = [folder / f"{kind}list.txt" for kind in ("noun", "adjective", "verb")]
        if self._version:
            return lists_of_version(lists, self._version)
        return lists

    @cache  # noqa: B019 - sources live as long as their build
    def corpus(self, name: str) -> tuple[list[str], list[Question]]:
        """Documents and questions of `squad` or `hotpotqa`."""
        file = self._file(name)
        try:
            content = read_json(file)
            if name == "squad":
                return read_squad(content)
            return read_hotpotqa(content)
        except (KeyError, TypeError, ValueError) as error:
            problem = f"not a file of {name} ({type(error).__name__}: {error})"
            raise RulerError(file, problem) from error

    def infos(self, task: Task, edition: Edition) -> list[SourceInfo]:
        """Return what the manifest says of the sources of a task."""
        names = list(task.sources)
        if task.name == "cwe" and edition.bisects and self._english_file:
            names.append("english_words")
        return [self._info(name) for name in names]

    @cache  # noqa: B019 - sources live as long as their build
    def _info(self, name: str) -> SourceInfo:
        if name == "words":
            return upstream_info(name, sha256_of(self._word_files))
        if name == "essays":
            punkt_folder(self._folder, allow_download=True)  # before workers, which have no network
        file = self._english_file if name == "english_words" else self._file(name)
        assert file is not None  # `infos` has seen it
        return upstream_info(name, sha256_of([file]))

    def _file(self, name: str) -> Path:
        spec = CATALOGUE[name]
        files = []
        if self._folder:
            files = local_files(self._folder, spec)
        where = f"source {name} ({spec.title})"
        file = spec.local[0]
        try:
            files = files or pinned_files(spec, network=self._network)
        except Unreachable as error:
            raise RulerError(where, f"{error}; give --sources DIR with it ({file})") from error
        if len(files) != 1 or files[0].suffix != ".json":
            raise RulerError(where, f"upstream reads one file, {file}; give --sources DIR with it")
        return files[0]
