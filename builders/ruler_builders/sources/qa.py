"""Question answering sources: SQuAD, HotpotQA and users' files in their formats."""

from collections import Counter, defaultdict
from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Any

from ruler_builders.sources.text_files import check_text
from ruler_data.errors import RulerError


@dataclass(frozen=True)
class Question:
    """A question; numbers are those of documents.

    Attributes:
        text: the question, stripped (some of SQuAD have white space around them; a chat template
            that strips it would change the counted prompt).
        answers: gold answers, each once.
        gold: documents that the answer rests on.
        near: the most distracting documents: of the same article, or chosen by HotpotQA.
    """

    text: str
    answers: tuple[str, ...]
    gold: tuple[int, ...]
    near: tuple[int, ...]


@dataclass(frozen=True)
class Corpus:
    """Documents and the questions that they answer."""

    documents: tuple[str, ...]
    questions: tuple[Question, ...]


def unambiguous(questions: Iterable[Question]) -> tuple[Question, ...]:
    """Leave out questions whose text occurs more than once, for different documents."""
    questions = tuple(questions)
    counts = Counter(question.text for question in questions)
    return tuple(question for question in questions if counts[question.text] == 1)


def _document_numbers() -> defaultdict[str, int]:
    """Return a mapping that numbers documents in order of appearance, each once."""
    numbers: defaultdict[str, int] = defaultdict(lambda: len(numbers))
    return numbers


def _squad(data: Any, where: str) -> Corpus:  # noqa: ANN401 - parsed JSON, checked by use
    documents, questions = _document_numbers(), []
    for article in data["data"]:
        paragraphs = [
            (documents[check_text(paragraph["context"], where)], paragraph["qas"])
            for paragraph in article["paragraphs"]
        ]
        numbers = list(dict.fromkeys(number for number, _ in paragraphs))
        for gold, qas in paragraphs:
            near = tuple(number for number in numbers if number != gold)
            questions += [
                _question(qa["question"], [a["text"] for a in qa["answers"]], (gold,), near, where)
                for qa in qas
                if not qa.get("is_impossible")
            ]
    return Corpus(tuple(documents), unambiguous(questions))


def _hotpotqa(data: Any, where: str) -> Corpus:  # noqa: ANN401 - parsed JSON, checked by use
    documents, questions = _document_numbers(), []
    for item in data:
        by_title = {
            title: documents[check_text(f"{title}\n{''.join(sentences)}", where)]
            for title, sentences in item["context"]
        }
        gold = tuple(dict.fromkeys(by_title[title] for title, _ in item["supporting_facts"]))
        near = tuple(number for number in by_title.values() if number not in gold)
        questions.append(_question(item["question"], [item["answer"]], gold, near, where))
    return Corpus(tuple(documents), unambiguous(questions))


def _question(
    text: str,
    answers: list[str],
    gold: tuple[int, ...],
    near: tuple[int, ...],
    where: str,
) -> Question:
    unique = tuple(dict.fromkeys(check_text(answer, where) for answer in answers))
    if not text.strip() or not unique or not all(answer.strip() for answer in unique):
        msg = f"a question or an answer is empty: {text!r}"
        raise ValueError(msg)
    return Question(check_text(text.strip(), where), unique, gold, near)


_FORMATS = {"squad": ("SQuAD 2.0", _squad), "hotpotqa": ("HotpotQA distractor", _hotpotqa)}


def parse_corpus(source: str, data: Any, where: str) -> Corpus:  # noqa: ANN401 - parsed JSON
    """Return the corpus in data of the format `squad` (2.0) or `hotpotqa` (distractor setting).

    Unanswerable questions are left out. A document of HotpotQA is its title, a line feed and its
    sentences. `where` names the file in errors.

    Raises:
        RulerError: it is not in that format, or has no question.
    """
    form, parse = _FORMATS[source]
    try:
        corpus = parse(data, where)
    except (KeyError, TypeError, IndexError, AttributeError, ValueError) as error:
        msg = f"{where}: not in {form} format ({type(error).__name__}: {error})"
        raise RulerError(msg) from error
    if not corpus.questions:
        msg = f"{where}: no answerable question in it"
        raise RulerError(msg)
    return corpus


def parse_own(data: Any, where: str) -> tuple[Corpus, str]:  # noqa: ANN401 - parsed JSON
    """Return the corpus in a user's file, and its numbers of questions in words.

    A list is in the format of HotpotQA, anything else in that of SQuAD. An answer that stands in
    no gold document cannot be checked: it is left out, and a question without any other as well.

    Raises:
        RulerError: it is in neither format, or no question is left.
    """
    corpus = parse_corpus("hotpotqa" if isinstance(data, list) else "squad", data, where)
    questions = []
    for question in corpus.questions:
        text = "\n".join(corpus.documents[number] for number in question.gold).lower()
        if answers := tuple(answer for answer in question.answers if answer.lower() in text):
            questions.append(replace(question, answers=answers))
    if not questions:
        msg = f"{where}: no answer stands in a document that it is about"
        raise RulerError(msg)
    left_out = len(corpus.questions) - len(questions)
    detail = f"questions: {len(questions)}; left out, answer in no document: {left_out}"
    return replace(corpus, questions=tuple(questions)), detail
