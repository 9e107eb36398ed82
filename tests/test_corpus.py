"""The sample corpus: enough of it, readable by machine, every answer determined."""

import re

import pytest

from ruler_builders.sources.essays import cut
from ruler_builders.sources.packaged import packaged_files, sample_corpus
from tests.conftest import SHARED

ESSAYS = packaged_files("essays")


def test_there_are_forty_essays_of_six_hundred_words() -> None:
    words = {path.name: len(path.read_text(encoding="ascii").split()) for path in ESSAYS}
    assert len(words) >= 40
    assert min(words.values()) >= 600


@pytest.mark.skipif(not (SHARED / "sources").is_dir(), reason="the sentence model is not here")
def test_the_essays_are_cut_about_as_punkt_cuts_them() -> None:
    lines = [line for path in ESSAYS for line in path.read_text(encoding="ascii").split("\n")]
    sentences = [line for line in lines if line]
    found, _ = cut(" ".join(sentences), SHARED / "sources", allow_download=False)
    assert len(set(found) & set(sentences)) > 0.97 * len(sentences)


def test_there_are_three_hundred_paragraphs_with_a_question_each() -> None:
    corpus = sample_corpus("squad")
    assert len(corpus.documents) >= 300 and len(set(corpus.documents)) == len(corpus.documents)
    assert len({question.text for question in corpus.questions}) >= 300


def test_the_answer_of_a_question_stands_in_its_paragraph_and_nowhere_else() -> None:
    corpus = sample_corpus("squad")
    for question in corpus.questions:
        answer = re.compile(rf"(?<!\w){re.escape(question.answers[0])}(?!\w)", re.IGNORECASE)
        holding = [n for n, text in enumerate(corpus.documents) if answer.search(text)]
        assert holding == list(question.gold), question.text


def test_two_hop_questions_need_both_of_their_paragraphs() -> None:
    corpus = sample_corpus("hotpotqa")
    assert len(corpus.questions) >= 120
    for question in corpus.questions:
        bridge, goal = (corpus.documents[gold] for gold in question.gold)
        title = goal.split("\n")[0]
        assert title in bridge and title.lower() not in question.text.lower(), question.text
        answer = question.answers[0]
        assert answer in goal and answer not in bridge, question.text
