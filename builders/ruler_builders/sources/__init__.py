"""Sources: the texts of haystacks, questions and words, located, checked and parsed."""

from ruler_builders.sources.catalogue import CATALOGUE, SourceSpec
from ruler_builders.sources.library import Library
from ruler_builders.sources.mmlu import Choice, ChoiceQuestions
from ruler_builders.sources.qa import Corpus, Question
from ruler_builders.sources.words import WordList

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
