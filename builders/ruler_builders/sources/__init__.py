"""Sources: the texts of haystacks, questions and words, located, checked and parsed."""

from ruler_builders.sources.catalogue import CATALOGUE, SourceSpec
from ruler_builders.sources.library import Library
from ruler_builders.sources.packaged import WordList
from ruler_builders.sources.qa import Choice, ChoiceQuestions, Corpus, Question

__all__ = [
    "CATALOGUE",
    "Choice",
    "ChoiceQuestions",
    "Corpus",
    "Library",
    "Question",
    "SourceSpec",
    "WordList",
]
