"""Editions of upstream: what can be seen without upstream's own scripts."""

import json
from hashlib import sha256
from itertools import product
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ruler_builders.sources.essays import punkt_cutter, punkt_folder
from ruler_builders.upstream import (
    EDITIONS,
    Arguments,
    UpstreamSources,
    edition_of,
    model_template,
    replay,
)
from ruler_builders.upstream.columns import columns
from ruler_builders.upstream.sources import EssaySentences, NeedleWords, Question
from ruler_builders.upstream.state import Draft, State, UpstreamRow
from ruler_data import TASKS
from ruler_data.errors import RulerError, UsageError
from ruler_data.tasks import Cwe, Fwe, Niah, Qa, Vt
from tests.rows import counter
from tests.test_golden import compare

if TYPE_CHECKING:
    from nltk.tokenize.punkt import PunktSentenceTokenizer

pytestmark = pytest.mark.slow

#: What stands before the haystack.
HEADS = {
    Niah: " afterwards.\n",
    Vt: " in the following text.\n\n",
    Cwe: " that appear most often.\n",
    Fwe: " most frequently appeared coded words. ",
    Qa: "The following are given documents.\n\n",
}
#: Tasks that read no texts.
FREE = ("niah_single_1", "niah_multikey_2", "niah_multikey_3", "vt", "cwe", "fwe")


def rows(
    edition: str,
    task: str,
    length: int,
    number: int,
    tokenizer: str = "mistral-v0.2",
    sources: UpstreamSources | None = None,
    template: str = "base",
) -> list[UpstreamRow]:
    """Replay the first rows of a config."""
    arguments = Arguments(
        edition_of(edition), TASKS[task], length, number, template=model_template(template)
    )
    sources = sources or UpstreamSources(None)
    return list(replay(arguments, sources, lambda text: counter(tokenizer).count([text])[0]))


def digest(made: list[UpstreamRow]) -> str:
    """Return a digest of all that upstream writes."""
    texts = [json.dumps([row.index, row.input, row.outputs, row.length, row.answer_prefix])
             for row in made]  # fmt: skip
    return sha256("\n".join(texts).encode()).hexdigest()


def test_rows_that_need_no_texts_are_upstreams() -> None:
    found = {
        f"{edition} {task} {template}": digest(rows(edition, task, 4096, 2, template=template))
        for edition, task, template in product(EDITIONS, FREE, ("base", "meta-chat"))
    }
    compare("upstream-mistral-v0.2.json", json.dumps(found, indent=1) + "\n")


@pytest.fixture(scope="module")
def real(shared: Path) -> UpstreamSources:
    """The real texts, which are read and cut once."""
    return UpstreamSources(shared / "sources")


@pytest.mark.slow
@pytest.mark.parametrize("tokenizer", ["llama3", "qwen2.5"])
def test_real_rows_are_upstreams(tokenizer: str, shared: Path, real: UpstreamSources) -> None:
    folder = str(shared / "tokenizers" / tokenizer)
    found = {
        f"{edition} {task}": digest(rows(edition, task, 4096, 2, folder, real))
        for edition, task in product(EDITIONS, TASKS)
    }
    compare(f"upstream-{tokenizer}.json", json.dumps(found, indent=1) + "\n")


@pytest.mark.parametrize("edition", EDITIONS)
@pytest.mark.parametrize("template", ["base", "meta-llama3"])
def test_columns_are_upstreams_text_and_evidence_is_found(
    edition: str, template: str, llama3: str, real: UpstreamSources
) -> None:
    for name, task in TASKS.items():
        for row in rows(edition, name, 4096, 2, llama3, real, template):
            context, question, prefix, evidence, haystack = columns(row, task.params)
            assert context + question + prefix == row.input + row.answer_prefix
            assert question.startswith(("What ", "Question: ", "Answer the question "))
            texts = [context[span.start : span.end] for span in evidence]
            assert evidence == sorted(evidence)
            head, text = HEADS[type(task.params)], context[slice(*haystack)]
            assert context.endswith(head, 0, haystack.start) and head not in text
            assert context[haystack.end :].strip("\n") == "" and text[0] != "\n"
            assert len(evidence) >= {"fwe": 0, "cwe": 300, "vt": 5}.get(name, 1)
            if name == "cwe":
                assert {texts.count(word) for word in row.outputs} == {30}
            elif name != "qa_2":
                assert all(any(out in text for text in texts) for out in row.outputs if evidence)


@given(data=st.data())
@settings(max_examples=30)
def test_words_of_needles_are_those_of_the_sorted_list(data: st.DataObject) -> None:
    word = st.text("ab-", min_size=1, max_size=4)
    nouns = data.draw(st.lists(word, min_size=1, max_size=6))
    adjectives = data.draw(st.lists(word, min_size=1, max_size=6))
    expected = sorted({f"{adjective}-{noun}" for adjective in adjectives for noun in nouns})
    assert list(NeedleWords(nouns, adjectives)) == expected


@pytest.fixture(scope="session")
def cutter(shared: Path) -> "PunktSentenceTokenizer":
    return punkt_cutter(punkt_folder(shared / "sources", allow_download=False))


@pytest.fixture(scope="session")
def essays(shared: Path) -> str:
    return str(json.loads((shared / "sources" / "PaulGrahamEssays.json").read_text())["text"])


@pytest.mark.parametrize("words", [0, 1, 500, 3210, 27345])
def test_first_words_have_the_sentences_that_punkt_gives(
    words: int, essays: str, real: UpstreamSources, cutter: "PunktSentenceTokenizer"
) -> None:
    for size in (words, words + 1, words + 2, words + 3):
        expected = cutter.tokenize(" ".join(essays.split()[:size]))
        assert real.essays.first(size, repeat=False) == expected


@given(
    text=st.text("aB. \"')", min_size=1, max_size=60).filter(str.strip), words=st.integers(0, 90)
)
@settings(max_examples=100)
def test_repeated_text_is_repeated(text: str, words: int, cutter: "PunktSentenceTokenizer") -> None:
    once = " ".join(text.replace(".", ". ").split())
    listed = once.split(" ")
    found = EssaySentences(once, cutter.tokenize).first(words, repeat=True)
    repeats = words // len(listed) + 1
    assert found == cutter.tokenize(" ".join((listed * repeats)[:words]))


def test_a_row_that_upstream_never_finishes_is_named(llama3: str) -> None:
    with pytest.raises(RulerError, match=r"niah_single_3_512/0: upstream does not finish this row"):
        rows("upstream-2026-07", "niah_single_3", 512, 1, llama3, _FewWords())
    with pytest.raises(RulerError, match=r"qa_1_4096/2: .*: there are 2 questions"):
        rows("upstream-2025-01", "qa_1", 4096, 3, llama3, _FewDocuments())
    with pytest.raises(UsageError, match="fwe_90"):
        rows("upstream-2026-07", "fwe", 90, 1)


class _FewWords(UpstreamSources):
    """Essays of one long sentence."""

    def __init__(self) -> None:
        super().__init__(None)
        self.essays = EssaySentences("word " * 1000, lambda text: [text.rstrip()])


class _FewDocuments(UpstreamSources):
    """Twelve documents and two questions."""

    def __init__(self) -> None:
        super().__init__(None)

    def corpus(self, name: str) -> tuple[list[str], list[Question]]:  # type: ignore[override]
        documents = [f"Document of {name} {number}." for number in range(12)]
        return documents, [
            Question(f"Which {n}?", ["it"], [n], [n + 1, n + 2], []) for n in range(2)
        ]


def test_steps_end_above_a_probe_of_exactly_the_limit_and_below_one_that_is_longer() -> None:
    """As a script says it: `while total < limit` grows, and only `total > limit` steps back."""
    task = TASKS["niah_single_1"]
    sizes = {}
    for limit in (4095, 4096, 4097):
        arguments = Arguments(edition_of("upstream-2025-01"), task, limit, 1)
        state = State(arguments, lambda text: len(text) - task.max_new_tokens)
        sizes[limit] = state.size(
            lambda size: Draft("x" * size, [], []), step=256, answers=lambda outputs: ""
        )
    assert sizes == {4095: 4096 - 256, 4096: 4096 + 256, 4097: 4096}
