"""Long texts are tokenized in pieces where that changes no id, and whole where it might."""

from collections.abc import Sequence
from pathlib import Path

import pytest
import tokenizers
from hypothesis import given, settings
from hypothesis import strategies as st
from tokenizers import models, normalizers, pre_tokenizers, trainers

from ruler_builders.workshop import probes
from ruler_data.tokenizers.counters import (
    PIECE,
    PiecewiseCounter,
    StockCounter,
    Text,
    decoded,
)
from ruler_data.tokenizers.exact import in_pieces
from tests.conftest import SHARED

NAMES = ["llama3", "qwen2.5"]
PROMPTS = [content + prefix for content, prefix in probes()]
PROSE = "The grass is green. The sky is blue, and so is the sea. Here we go. There and back. " * 99


def real(name: str) -> StockCounter:
    path = SHARED / "tokenizers" / name / "tokenizer.json"
    return StockCounter(tokenizers.Tokenizer.from_file(str(path)))


STOCK = {name: real(name) for name in NAMES} if SHARED.is_dir() else {}


class Recorder:
    """A counter that keeps what it is asked to count."""

    version = "recorder"

    def __init__(self) -> None:
        self.seen: list[Text] = []

    def ids(self, text: str) -> list[int]:
        return [len(text)]

    def count(self, texts: Sequence[Text]) -> list[int]:
        self.seen += texts
        return [0] * len(texts)


#: Words, signs and white space in any order: seams, and what nearly is one.
TEXTS = st.lists(
    st.sampled_from([*"aZé7.,'\n\t\u0301\u00a0", " ", "  ", " the", "of", "'s", "<|eot_id|>", "ﬁ"])
).map("".join)


@pytest.mark.skipif(not STOCK, reason="real tokenizers are not here")
@pytest.mark.parametrize("name", NAMES)
@given(text=TEXTS | st.text(max_size=80))
@settings(max_examples=200, deadline=None)
def test_a_text_cut_at_all_its_seams_has_the_ids_of_the_whole(name: str, text: str) -> None:
    pieces = PiecewiseCounter(STOCK[name], piece=1)
    assert pieces.ids(text) == STOCK[name].ids(text)
    assert pieces.count([text, text.encode()]) == STOCK[name].count([text]) * 2


@given(text=TEXTS, piece=st.integers(1, 9))
def test_pieces_are_the_text_and_begin_with_the_space_before_a_word(text: str, piece: int) -> None:
    recorder = Recorder()
    PiecewiseCounter(recorder, piece).count([text])
    pieces = [decoded(one) for one in recorder.seen]
    assert "".join(pieces) == text
    assert all(len(one) >= piece for one in pieces[:-1])
    assert all(one[0] == " " and one[1].isascii() and one[1].isalpha() for one in pieces[1:])


@pytest.mark.parametrize("name", NAMES)
def test_real_tokenizers_read_long_texts_in_pieces_and_count_the_same(
    name: str, shared: Path
) -> None:
    counter = in_pieces(STOCK[name], PROMPTS)
    assert isinstance(counter, PiecewiseCounter) and counter.version == STOCK[name].version
    texts = [*PROMPTS, PROSE, "x " * PIECE, " " * 3 * PIECE, ""]
    assert counter.count(texts) == STOCK[name].count(texts)
    assert counter.ids(PROSE) == STOCK[name].ids(PROSE)


def small(*, words: bool) -> tokenizers.Tokenizer:
    """Return a tokenizer learned from prose, with or without pre-tokens that end at words."""
    tokenizer = tokenizers.Tokenizer(models.BPE())
    if words:
        tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    alphabet = pre_tokenizers.ByteLevel.alphabet()
    trainer = trainers.BpeTrainer(vocab_size=600, initial_alphabet=alphabet, show_progress=False)
    tokenizer.train_from_iterator([PROSE], trainer)
    return tokenizer


def test_a_tokenizer_whose_tokens_join_words_reads_whole_texts() -> None:
    joining, apart = StockCounter(small(words=False)), StockCounter(small(words=True))
    assert joining.joins_words and not apart.joins_words
    assert in_pieces(joining, [PROSE]) is joining
    assert isinstance(in_pieces(apart, [PROSE]), PiecewiseCounter)


def test_a_tokenizer_that_adds_to_the_beginning_of_a_text_reads_whole_texts() -> None:
    tokenizer = small(words=True)
    tokenizer.normalizer = normalizers.Prepend("\n")
    counter = StockCounter(tokenizer)
    assert not counter.joins_words and in_pieces(counter, [PROSE]) is counter


def test_a_tokenizer_that_was_not_tried_on_any_text_reads_whole_texts() -> None:
    counter = StockCounter(small(words=True))
    assert in_pieces(counter, []) is counter
