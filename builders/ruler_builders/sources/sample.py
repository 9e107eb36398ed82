"""The sample corpus: small original texts in the package, so that all tasks build offline."""

from collections.abc import Iterator
from importlib.resources import files
from pathlib import Path

from ruler_builders.sources.catalogue import packaged_info
from ruler_builders.sources.qa import Corpus, Question
from ruler_builders.sources.text_files import read_json, read_text
from ruler_data.manifest import SourceInfo

#: Folder of the corpus; its files ship in the wheel.
FOLDER = Path(str(files("ruler_builders") / "sample"))


def sample_essays() -> tuple[str, ...]:
    """Return the sentences of the sample essays; the files hold one per line."""
    lines = (line for path in _files("essays") for line in read_text(path).split("\n"))
    return tuple(line for line in lines if line)


def sample_squad() -> Corpus:
    """Return the single-hop questions; documents are paragraphs, near ones are of one article."""
    documents: list[str] = []
    questions: list[Question] = []
    for article in _articles():
        numbers = range(len(documents), len(documents) + len(article["paragraphs"]))
        for number, paragraph in zip(numbers, article["paragraphs"], strict=True):
            documents.append(paragraph["text"])
            near = tuple(other for other in numbers if other != number)
            questions.append(
                Question(paragraph["question"], (paragraph["answer"],), (number,), near)
            )
    return Corpus(tuple(documents), tuple(questions))


def sample_hotpotqa() -> Corpus:
    """Return the two-hop questions; a document is `title`, line feed, paragraph."""
    documents: list[str] = []
    questions: list[Question] = []
    for article in _articles():
        numbers = {
            paragraph["title"]: len(documents) + i
            for i, paragraph in enumerate(article["paragraphs"])
        }
        documents += [f"{p['title']}\n{p['text']}" for p in article["paragraphs"]]
        for item in article["two_hop"]:
            gold = tuple(numbers[title] for title in item["titles"])
            near = tuple(number for number in numbers.values() if number not in gold)
            questions.append(Question(item["question"], (item["answer"],), gold, near))
    return Corpus(tuple(documents), tuple(questions))


def sample_info(name: str) -> SourceInfo:
    """Return the entry of a sample source for the manifest."""
    about, folder, detail = {
        "essays": ("essays", "essays", "one sentence a line"),
        "squad": ("paragraphs and questions", "articles", "fictional facts"),
        "hotpotqa": ("two-hop questions", "articles", "fictional facts"),
    }[name]
    title = f"Sample {about} of this package"
    return packaged_info(name, title, _files(folder), detail, "sample")


def _files(kind: str) -> list[Path]:
    return sorted((FOLDER / kind).iterdir())


def _articles() -> Iterator[dict]:  # type: ignore[type-arg]  # our own files, tested
    return (read_json(path) for path in _files("articles"))
