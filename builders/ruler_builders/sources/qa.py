"""Question answering: SQuAD, HotpotQA, MMLU, and a user's files in the formats of the first two."""

import re
from collections import Counter, defaultdict
from collections.abc import Iterable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from ruler_builders.sources.text_files import check_text, read_text
from ruler_data.errors import RulerError
from ruler_data.files import parse_json
from ruler_data.names import counted, quote


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
    documents = _document_numbers()
    questions = []
    for article in data["data"]:
        paragraphs = [
            (documents[check_text(paragraph["context"], where)], paragraph["qas"])
            for paragraph in article["paragraphs"]
        ]
        numbers = list(dict.fromkeys(number for number, _ in paragraphs))
        for gold, qas in paragraphs:
            near = tuple(number for number in numbers if number != gold)
            for qa in qas:
                if not qa.get("is_impossible"):
                    answers = [answer["text"] for answer in qa["answers"]]
                    questions.append(_question(qa["question"], answers, (gold,), near, where))
    return Corpus(tuple(documents), unambiguous(questions))


def _hotpotqa(data: Any, where: str) -> Corpus:  # noqa: ANN401 - parsed JSON, checked by use
    documents = _document_numbers()
    questions = []
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
        raise ValueError(f"a question or an answer is empty: {text!r}")
    return Question(check_text(text.strip(), where), unique, gold, near)


_FORMATS = {
    "squad": ("SQuAD 2.0", _squad),
    "hotpotqa": ("HotpotQA distractor", _hotpotqa),
}
#: What would stand for the head of another document in a prompt.
_HEAD = re.compile(r"\n\nDocument [0-9]+:\n")


def parse_corpus(source: str, data: Any, where: str) -> Corpus:  # noqa: ANN401 - parsed JSON
    """Return the corpus in data of the format `squad` (2.0) or `hotpotqa` (distractor setting).

    Unanswerable questions are left out. A document of HotpotQA is its title, a line feed and its
    sentences. `where` names the file in errors.

    Raises:
        RulerError: it is not in that format, or rows with one answer cannot be made of it.
    """
    corpus = _parsed(source, data, where)
    for question in corpus.questions:
        about = f"question {quote(question.text)}"
        remedy = "a suite may name it as your own file"
        if source == "hotpotqa" and len(question.gold) != HOPS:
            problem = f"rests on {counted(len(question.gold), 'document')}, not on {HOPS}"
            raise RulerError(where, f"{about} {problem}; {remedy} (docs/howto/extend.md)")
        is_verdict = source == "hotpotqa" and question.answers in (("yes",), ("no",))
        if not is_verdict and (missing := {*question.answers} - {*_in_gold(corpus, question)}):
            problem = f"answer {quote(min(missing))} stands in no document that it rests on"
            raise RulerError(where, f"{about}: {problem}; {remedy}, which leaves such answers out")
    return corpus


#: Documents that a question of HotpotQA rests on.
HOPS = 2


def _parsed(source: str, data: Any, where: str) -> Corpus:  # noqa: ANN401 - parsed JSON
    """Return the corpus in data of one of the formats, whose documents can be told apart."""
    form, parse = _FORMATS[source]
    try:
        corpus = parse(data, where)
    except (KeyError, TypeError, IndexError, AttributeError, ValueError) as error:
        raise RulerError(
            f"{where}: not in {form} format ({type(error).__name__}: {error})"
        ) from error
    if not corpus.questions:
        raise RulerError(f"{where}: no answerable question in it")
    texts: dict[str, str] = {}
    for text in corpus.documents:
        if head := _HEAD.search(f"{text}\n"):
            problem = f"would read as the head of another document: {head[0]!a}; take it out"
            raise RulerError(where, f"paragraph {quote(text)}: {problem}")
        if texts.setdefault(text.rstrip(" "), text) != text:
            problem = "stands there twice, with other spaces at its end; make them equal"
            raise RulerError(where, f"paragraph {quote(text)}: {problem}")
    return corpus


def _in_gold(corpus: Corpus, question: Question) -> tuple[str, ...]:
    """Return the answers that stand in a document that the question rests on."""
    text = "\n".join(corpus.documents[number] for number in question.gold).lower()
    return tuple(answer for answer in question.answers if answer.lower() in text)


def parse_own(data: Any, where: str) -> tuple[Corpus, str]:  # noqa: ANN401 - parsed JSON
    """Return the corpus in a user's file, and its numbers of questions in words.

    A list is in the format of HotpotQA, anything else in that of SQuAD. An answer that stands in no
    gold document cannot be checked: it is left out, and a question without any other.

    Raises:
        RulerError: it is in none of the formats, or no question is left.
    """
    form = "squad"
    if isinstance(data, list):
        form = "hotpotqa"
    corpus = _parsed(form, data, where)
    questions = [
        replace(question, answers=answers)
        for question in corpus.questions
        if (answers := _in_gold(corpus, question))
    ]
    if not questions:
        raise RulerError(f"{where}: no answer stands in a document that it is about")
    left_out = len(corpus.questions) - len(questions)
    detail = f"questions: {len(questions)}; left out, answer in no document: {left_out}"
    return replace(corpus, questions=tuple(questions)), detail


LETTERS = "ABCD"
#: Most characters of a question with its choices: half of MMLU. Upstream takes any, up to 4,858
#: characters, which leaves no room for copies of them in an answer.
LONGEST = 300


@dataclass(frozen=True)
class Choice:
    """A question with its four choices in one line, and the letter of the right one."""

    text: str
    letter: str


@dataclass(frozen=True)
class ChoiceQuestions:
    """Questions that rows query, and questions of the haystack."""

    queries: tuple[Choice, ...]
    haystack: tuple[Choice, ...]


def read_choices(path: Path) -> tuple[ChoiceQuestions, str]:
    """Return the questions of a file, and where its haystack is from.

    Left out are questions that are too long, that occur twice, or that have two equal choices.

    Raises:
        RulerError: a line is not in the format, or there are too few questions.
    """
    questions = list[tuple[str, Choice]]()
    for number, line in enumerate(read_text(path).strip("\n").split("\n"), start=1):
        split, choice, is_distinct = _parsed_choice(line, number, path.name)
        if is_distinct and len(choice.text) <= LONGEST:
            questions.append((split, choice))
    often = Counter(choice.text for _, choice in questions)
    unique: defaultdict[str, list[Choice]] = defaultdict(list)
    for split, choice in questions:
        if often[choice.text] == 1:
            unique[split].append(choice)
    queries = unique["test"]
    haystack = unique["auxiliary_train"]
    detail = "haystack: auxiliary_train"
    if not haystack:
        haystack = queries[1::2] + unique["dev"]
        queries = queries[::2]
        detail = "haystack: questions of test and dev that are not asked for"
    if min(len(queries), len(haystack)) < FEWEST:
        raise RulerError(
            f"{path.name}: {len(queries)} questions to ask for and {len(haystack)} of the haystack "
            f"are too few; at least {FEWEST} of each, of at most {LONGEST} characters"
        )
    return ChoiceQuestions(tuple(queries), tuple(haystack)), detail


def _parsed_choice(line: str, number: int, file: str) -> tuple[str, Choice, bool]:
    """Return the split of a question, the question, and whether all its choices differ."""
    try:
        record = parse_json(line)
        first, second, third, fourth = choices = [str(choice) for choice in record["choices"]]
        letter = LETTERS[record["answer"]]
        raw = f"{record['question']}\nA. {first}\nB. {second}\nC. {third}\nD. {fourth}"
        split = str(record["split"])
    except (KeyError, TypeError, IndexError, ValueError) as error:
        problem = f"not in the format of MMLU ({type(error).__name__}: {error})"
        raise RulerError(f"{file}:{number}: {problem}") from error
    text = re.sub(r"\s+", " ", check_text(raw, file)).strip()
    distinct = {choice.strip().lower() for choice in choices}
    return split, Choice(text, letter), len(distinct) == len(choices)


#: Fewest questions of each kind: a row needs five examples, and four questions for one label.
FEWEST = 20
