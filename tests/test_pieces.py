"""Long texts are tokenized in pieces where that changes no id, and whole where it might."""

from collections.abc import Sequence
from pathlib import Path
from string import ascii_letters, ascii_lowercase

import pytest
import tokenizers
from hypothesis import example, given, settings
from hypothesis import strategies as st
from tokenizers import models, normalizers, pre_tokenizers, trainers

from ruler_builders.pipeline.build_context import probes
from ruler_data.tokenizers import load_tokenizer
from ruler_data.tokenizers.counters import (
    PIECE,
    PiecewiseCounter,
    StockCounter,
    Text,
    in_pieces,
)
from tests.conftest import SHARED

NAMES = ["llama3", "qwen2.5"]
PROMPTS = [content + prefix for content, prefix in probes()]
PROSE = "The grass is green. The sky is blue, and so is the sea. Here we go. There and back. " * 99


def real(name: str) -> StockCounter:
    path = SHARED / "tokenizers" / name / "tokenizer.json"
    return StockCounter(tokenizers.Tokenizer.from_file(str(path)))


STOCK = {name: real(name) for name in NAMES} if SHARED.is_dir() else {}

#: Characters that a space may be cut off from, and those before which.
ENDS, BEGINNINGS = {*ascii_lowercase, ".", ","}, {*ascii_letters}


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
@example(text="one two, three. Four 5 six Seven EIGHT Nine", piece=1)
def test_a_piece_ends_at_the_first_seam_that_leaves_it_long_enough(text: str, piece: int) -> None:
    expected = [""]
    for at, character in enumerate(text):
        before, after = text[max(at - 1, 0) : at], text[at + 1 : at + 2]
        is_seam = character == " " and before in ENDS and after in BEGINNINGS
        if is_seam and len(expected[-1]) >= piece:
            expected.append("")
        expected[-1] += character
    recorder = Recorder()
    PiecewiseCounter(recorder, piece).count([text])
    assert recorder.seen == expected
    assert PiecewiseCounter(recorder, piece).ids(text) == [len(one) for one in expected]


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
    assert joining.minds_seams and not apart.minds_seams
    for texts in ([PROSE], ["Not one token of these words joins two."]):
        assert in_pieces(joining, texts) is joining
    assert isinstance(in_pieces(apart, [PROSE]), PiecewiseCounter)


def test_a_tokenizer_that_adds_to_the_beginning_of_a_text_reads_whole_texts() -> None:
    tokenizer = small(words=True)
    tokenizer.normalizer = normalizers.Prepend("\n")
    counter = StockCounter(tokenizer)
    assert not counter.minds_seams and in_pieces(counter, [PROSE]) is counter


def test_a_tokenizer_that_sees_a_seam_differently_in_one_text_reads_whole_texts() -> None:
    tokenizer = small(words=True)
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence(
        [
            pre_tokenizers.Split(tokenizers.Regex(r"grass\s"), "isolated"),
            pre_tokenizers.ByteLevel(add_prefix_space=False),
        ]
    )
    counter = StockCounter(tokenizer)
    assert isinstance(in_pieces(counter, ["Here we go."]), PiecewiseCounter)
    assert in_pieces(counter, ["Here we go. " * 99 + "Now the grass is green."]) is counter


@pytest.mark.parametrize("added", ["covid7", "7Answer.", " the7", "7Q. ", "7e.g. Q7"])
def test_a_tokenizer_with_an_added_token_that_may_stand_at_a_seam_reads_whole_texts(
    added: str,
) -> None:
    tokenizer = small(words=True)
    tokenizer.add_special_tokens(["<s>", "<|end_of_text|>", "[INST]"])
    assert isinstance(in_pieces(StockCounter(tokenizer), [PROSE]), PiecewiseCounter)
    tokenizer.add_tokens([added])
    counter = StockCounter(tokenizer)
    assert in_pieces(counter, [PROSE]) is counter


def test_a_token_that_ends_in_the_space_of_a_seam_is_seen_in_the_vocabulary() -> None:
    letters = sorted({*PROSE, "▁", "z"} - {" "})
    vocabulary = {letter: number for number, letter in enumerate([*letters, "zz", "zz▁"])}
    tokenizer = tokenizers.Tokenizer(models.BPE(vocabulary, [("z", "z"), ("zz", "▁")]))
    tokenizer.normalizer = normalizers.Replace(" ", "▁")
    counter = StockCounter(tokenizer)
    pieces = PiecewiseCounter(counter, piece=1)
    assert pieces.ids(PROSE) == counter.ids(PROSE)
    assert pieces.ids("a jazz band") != counter.ids("a jazz band")
    assert in_pieces(counter, [PROSE]) is counter


@pytest.mark.parametrize("prefix", ["", "\n"])
def test_a_build_counts_in_pieces_only_where_it_may_and_recounts_whole_texts(
    prefix: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    tokenizer = small(words=True)
    if prefix:
        tokenizer.normalizer = normalizers.Prepend(prefix)
    tokenizer.save(str(tmp_path / "tokenizer.json"))
    loaded = load_tokenizer(str(tmp_path))
    assert loaded.use("tokenizers", probes()) == ""
    seen: list[int] = []
    count = StockCounter.count

    def recorded(self: StockCounter, texts: Sequence[Text]) -> list[int]:
        seen.append(len(texts))
        return count(self, texts)

    monkeypatch.setattr(StockCounter, "count", recorded)
    assert loaded.count_prompt(PROSE.strip(), "") == loaded.recount_prompt(PROSE.strip(), "")
    assert seen == [1 if prefix else 1 + len(PROSE) // PIECE, 1]


def test_a_tokenizer_that_was_not_tried_on_any_text_reads_whole_texts() -> None:
    counter = StockCounter(small(words=True))
    assert in_pieces(counter, []) is counter
