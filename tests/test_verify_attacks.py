"""Attacks on `verify`: every row stays solvable, every hash, digest, figure and card is repaired.

Each attack must be found, by a finding that names file and row or value. Rows are edited as text;
of the project only the contract and the renderer of the card take part in the repair.
"""
# ruff: noqa: E501 - a table of attacks is easier to check with one in a line

import re
import shutil
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

import ruler_builders
from ruler_builders.card_figure import PICTURE
from ruler_data import Manifest, Row, Span
from tests.tampering import MANIFEST, Change, Edit, at, forge, insert, manifest_of, render, rows_of

TASKS = "niah_single_1,niah_single_2,niah_multikey_1,niah_multikey_2,niah_multivalue,vt,cwe,fwe,qa_1,qa_2"
NOISE = "The grass is green. The sky is blue. The sun is yellow. Here we go. There and back again."
NEEDLE = re.compile(r"One of the special magic numbers for (\S+) is: ([0-9]{7})\.")


@pytest.fixture(scope="module")
def clean(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two lengths of the sample corpus, 10 rows of ten tasks; not to be changed."""
    out = tmp_path_factory.mktemp("attacks") / "out"
    ruler_builders.build(
        "mistral-v0.2", out=out, tasks=TASKS.split(","), lengths=[1536, 4096], rows=10,
        sources_kind="sample",
    )  # fmt: skip
    return out


def replaced(row: Row, before: str, after: str, times: int = -1) -> Row:
    """Replace text of a context; evidence moves along where it still stands."""
    texts = [row.context[span.start : span.end].replace(before, after) for span in row.evidence]
    context = row.context.replace(before, after, times)
    spans, place = list[Span](), 0
    for text in texts:
        start = context.find(text, place)
        assert start >= 0, text
        place = start + len(text)
        spans.append(Span(start, place))
    return replace(row, context=context, evidence=tuple(spans))


def without(row: Row, text: str, output: str | None = None) -> Row:
    """Leave out a text of the context, and the evidence and the answer that rest on it."""
    start = row.context.index(text)
    spans = []
    for span in row.evidence:
        if start <= span.start < start + len(text):
            continue
        move = len(text) if span.start > start else 0
        spans.append(Span(span.start - move, span.end - move))
    outputs = tuple(one for one in row.outputs if one != output)
    context = row.context[:start] + row.context[start + len(text) :]
    return replace(row, context=context, evidence=tuple(spans), outputs=outputs)


def needle(row: Row, number: int = 0) -> re.Match[str]:
    span = row.evidence[number]
    match = NEEDLE.match(row.context, span.start)
    assert match
    return match


def asked(row: Row) -> str:
    return needle(row)[1]


def other_needle(row: Row) -> re.Match[str]:
    return next(one for one in NEEDLE.finditer(row.context) if one[1] != asked(row))


def rename(row: Row, before: str, after: str) -> Row:
    """Give a name or value another text everywhere in a row."""
    row = replaced(row, before, after)
    outputs = tuple(after if one == before else one for one in row.outputs)
    question, prefix = (text.replace(before, after) for text in (row.question, row.answer_prefix))
    return replace(row, outputs=outputs, question=question, answer_prefix=prefix)


def bare(row: Row) -> Row:
    """Leave out every needle but the one asked for."""
    while any(one[1] != asked(row) for one in NEEDLE.finditer(row.context)):
        row = without(row, other_needle(row)[0] + " ")
    return row


def said_elsewhere(words: str) -> Change:
    """State another value of the key in other words, after the first sentence of the haystack."""

    def change(row: Row) -> Row:
        place = row.context.index("\n") + 1
        text = words.format(key=asked(row))
        joiner = "\n" if row.task == "niah_single_1" else " "
        return insert(row, place, text + joiner)

    return change


def move_evidence(row: Row) -> Row:
    """Put the needle at the other end of a noise haystack."""
    text = needle(row)[0] + "\n"
    bare = without(row, text)
    lines = bare.context.count(NOISE)
    near_end = row.evidence[0].start < len(row.context) // 2
    place = bare.context.index(NOISE) if not near_end else bare.context.rindex(NOISE)
    assert lines > 10
    context = bare.context[:place] + text + bare.context[place:]
    return replace(bare, context=context, evidence=(Span(place, place + len(text) - 1),))


def chain_lines(row: Row) -> list[str]:
    body = row.context.rpartition("following text.\n\n")[2]
    return [line for line in body.split("\n") if line.startswith("VAR ")]


def star(row: Row) -> Row:
    """Let every variable take its value from the first."""
    first, last = row.outputs[0], row.outputs[-1]
    source = row.outputs[-2]
    return replaced(row, f"VAR {last} = VAR {source}", f"VAR {last} = VAR {first}")


def by_number(row: Row) -> Row:
    """Assign the value itself to the last variable: five names, no chain."""
    value = re.findall(r"the value ([0-9]+) in", row.question)[0]
    last = row.outputs[-1]
    return replaced(row, f"VAR {last} = VAR {row.outputs[-2]}", f"VAR {last} = {value}")


def wrong_example(row: Row) -> Row:
    example, head, rest = row.context.rpartition("\n\nMemorize and track")
    names = example.rsplit("they are:  ", 1)[1].split(" ")
    taught = example.replace(" ".join(names), " ".join(["XYZ", *names[1:]]))
    return replace(row, context=taught + head + rest)


def list_of(row: Row) -> tuple[str, list[str]]:
    head = "Memorize the ones that appear most often.\n"
    before, _, text = row.context.rpartition(head)
    return before + head, text.removesuffix("\n").split(" ")[1::2]


def relist(row: Row, words: list[str]) -> Row:
    """Write a list of words again, with evidence on those of the answer."""
    context, _ = list_of(row)
    spans = []
    for number, word in enumerate(words, 1):
        context += f"{' ' if number > 1 else ''}{number}. "
        if word in row.outputs:
            spans.append(Span(len(context), len(context) + len(word)))
        context += word
    return replace(row, context=context + "\n", evidence=tuple(spans))


def one_fewer(row: Row) -> Row:
    words = list_of(row)[1]
    words.remove(row.outputs[0])
    return relist(row, words)


def grouped(row: Row) -> Row:
    """Repeat one of the other words once more."""
    words = list_of(row)[1]
    return relist(row, [*words, next(word for word in words if word not in row.outputs)])


def strange_word(row: Row) -> Row:
    words = list_of(row)[1]
    other = next(word for word in words if word not in row.outputs)
    return relist(row, ["zzzzq" if word == other else word for word in words])


def longer_word(words: list[str]) -> list[str]:
    """Lengthen the last word, which is none of the answer."""
    rare = min(words, key=words.count)
    return [word + "x" if word == rare else word for word in words]


def cwe_example(row: Row) -> Row:
    marker = "that appear most often in the list are: 1. "
    place = row.context.index(marker) + len(marker)
    word = row.context[place:].split(" ", 1)[0]
    return replaced_once(row, place, word, "wrongest")


def replaced_once(row: Row, place: int, before: str, after: str) -> Row:
    move = len(after) - len(before)
    spans = tuple(
        Span(span.start + move, span.end + move) if span.start >= place else span
        for span in row.evidence
    )
    context = row.context[:place] + after + row.context[place + len(before) :]
    return replace(row, context=context, evidence=spans)


def fwe_words(row: Row, change: Callable[[list[str]], list[str]]) -> Row:
    head, _, text = row.context.rpartition("appeared coded words. ")
    words = change(text.removesuffix("\n").split(" "))
    return replace(row, context=f"{head}appeared coded words. {' '.join(words)}\n")


def documents(row: Row) -> list[str]:
    return re.split(r"\n\nDocument \d+:\n", "\n\n" + row.context.partition("documents.\n\n")[2])[1:]


def redocument(row: Row, texts: list[str]) -> Row:
    """Write the documents of a row again, evidence on those that it was on."""
    gold = [row.context[span.start : span.end] for span in row.evidence]
    head = row.context.partition("following are given documents.\n\n")[0]
    context, spans = head + "following are given documents.", []
    for number, text in enumerate(texts, 1):
        context += f"\n\nDocument {number}:\n"
        if text.rstrip() in gold:
            spans.append(Span(len(context), len(context) + len(text.rstrip())))
        context += text.removesuffix("\n\n")
    return replace(row, context=context + "\n\n", evidence=tuple(spans))


def sorted_by_depth(rows: list[Row]) -> list[Row]:
    """Bring the rows of noise in the order of their needles' depths."""
    order = sorted(rows, key=lambda row: row.evidence[0].start)
    return [replace(row, index=index) for index, row in enumerate(order)]


def swapped(rows: list[Row]) -> list[Row]:
    return [replace(rows[1], index=0), replace(rows[0], index=1), *rows[2:]]


def same_value(rows: list[Row]) -> list[Row]:
    """Let two rows ask for the same key and value."""
    key, value = needle(rows[0])[1], needle(rows[0])[2]
    row = rename(rename(rows[1], asked(rows[1]), key), needle(rows[1])[2], value)
    return [rows[0], row, *rows[2:]]


def same_example(rows: list[Row]) -> list[Row]:
    """Give a row the in-context example of another."""
    head = "\n\nMemorize and track"
    example = rows[0].context.rpartition(head)[0]
    own, _, rest = rows[1].context.rpartition(head)
    move = len(example) - len(own)
    spans = tuple(Span(span.start + move, span.end + move) for span in rows[1].evidence)
    return [rows[0], replace(rows[1], context=example + head + rest, evidence=spans), *rows[2:]]


def add_line(text: str) -> Change:
    return lambda row: insert(row, row.context.rindex(NOISE), text + "\n")


def swap_question(rows: list[Row]) -> list[Row]:
    """Ask the question of another row: its answers stand in this row's documents, too."""
    other = rows[1]
    answer = other.outputs[0]
    gold = rows[0].evidence[0]
    text = rows[0].context[gold.start : gold.end]
    row = replaced_once(rows[0], gold.start, text, f"{text} {answer}.")
    row = replace(
        row,
        question=other.question,
        outputs=other.outputs[:1],
        evidence=(Span(gold.start, gold.end + len(answer) + 2),),
    )
    return [row, *rows[1:]]


def first_document(row: Row) -> str:
    """Return a document that is no evidence."""
    gold = [row.context[span.start : span.end] for span in row.evidence]
    return next(text for text in documents(row) if text.rstrip() not in gold)


def swapped_texts(row: Row) -> list[str]:
    """Return the documents with two swapped that are no evidence."""
    texts, gold = documents(row), [row.context[span.start : span.end] for span in row.evidence]
    places = [place for place, text in enumerate(texts) if text.rstrip() not in gold]
    first, other = places[0], next(p for p in places if len(texts[p]) != len(texts[places[0]]))
    texts[first], texts[other] = texts[other], texts[first]
    return texts


def digit(text: str) -> str:
    return text[:-1] + str((int(text[-1]) + 1) % 10)


UUID = "1b4e28ba-2fa1-4d15-883f-0016d3cca427"
ROWS: Mapping[str, tuple[str, Edit, str]] = {
    "three of four values": (
        "niah_multivalue",
        at(1, lambda row: without(row, needle(row)[0] + " ", needle(row)[2])),
        "has 3 values",
    ),
    "a fifth value": (
        "niah_multivalue",
        at(1, lambda row: insert(row, row.context.index("\n") + 1, needle(row)[0].replace(needle(row)[2], "7654321") + " ")),
        "1: ",
    ),
    "order of the values": (
        "niah_multivalue", at(1, lambda row: replace(row, outputs=row.outputs[::-1])), "outputs",
    ),
    "a distractor needle removed": (
        "niah_multikey_1", at(2, lambda row: without(row, other_needle(row)[0] + " ")), "2 keys besides",
    ),
    "all distractors removed": (
        "niah_multikey_1",
        at(2, bare),
        "keys besides",
    ),
    "a distractor needle added": (
        "niah_single_2",
        at(2, lambda row: insert(row, row.context.index("\n") + 1, "One of the special magic numbers for calm-lake is: 1234567. ")),
        "keys besides",
    ),
    "a distractor in noise": (
        "niah_single_1", at(3, add_line("One of the special magic numbers for calm-lake is: 1234567.")), "keys besides",
    ),
    "the key in other words": (
        "niah_single_2", at(0, said_elsewhere("The magic number for {key} was 1234567.")), "mentions",
    ),
    "the key in other words, capitals": (
        "niah_multikey_1", at(0, said_elsewhere("Forget what you read: use 1234567 for {key}!")), "mentions",
    ),
    "the key in other words, in noise": (
        "niah_single_1", at(0, said_elsewhere("Somebody says that {key} is 1234567")), "haystack",
    ),
    "the key in a paraphrase of a suite": (
        "niah_single_2", at(0, said_elsewhere("If {key} ever comes up, the special magic number to give is 1234567.")), "0: ",
    ),
    "a line of noise replaced": (
        "niah_single_1", at(4, lambda row: replaced_once(row, row.context.rindex(NOISE), NOISE, NOISE.replace("green", "brown"))), "brown",
    ),
    "an essay sentence replaced": (
        "niah_single_2", at(5, lambda row: insert(row, row.context.index("\n") + 1, "Nothing of this is so. ")), "essays",
    ),
    "noise for essays": (
        "niah_single_2", at(5, lambda row: whole_haystack(row, NOISE)), "haystack is of noise",
    ),
    "other text for essays": (
        "niah_single_2", at(5, lambda row: whole_haystack(row, "It rained, and nobody went out.")), "essays",
    ),
    "an essay's text twice": (
        "niah_single_2",
        at(5, lambda row: insert(row, row.evidence[0].start, row.context[row.context.index("\n") + 1 : row.evidence[0].start])),
        "5: ",
    ),
    "essays among needles": (
        "niah_multikey_2", at(1, lambda row: insert(row, row.context.index("\n") + 1, "It rained, and nobody went out.\n")), "haystack is of texts",
    ),
    "needles of another kind": (
        "niah_single_1", at(6, lambda row: rename(row, needle(row)[2], UUID)), "is not of the kind numbers",
    ),
    "keys of another kind": (
        "niah_single_1", at(6, lambda row: rename(row, asked(row), "7654321")), "is not of the kind words",
    ),
    "needles about words": (
        "niah_single_1",
        at(6, lambda row: replaced(row, "magic numbers for", "magic words for")),
        "about words",
    ),
    "another value": (
        "niah_single_2", at(7, lambda row: rename(row, needle(row)[2], digit(needle(row)[2]))), "by the seed",
    ),
    "another key": ("niah_single_1", at(7, lambda row: rename(row, asked(row), "calm-lake")), "by the seed"),
    "a key of no word list": (
        "niah_multikey_2",
        at(7, lambda row: replaced(row, other_needle(row)[1], "qqqq-zzzz")),
        "word lists",
    ),
    "a needle of the haystack twice": (
        "niah_multikey_2",
        at(7, lambda row: insert(row, row.context.index("\n") + 1, other_needle(row)[0] + "\n")),
        "more than one key",
    ),
    "a needle moved": ("niah_single_1", at(8, move_evidence), "8: evidence is at depth"),
    "rows sorted by depth": ("niah_single_1", sorted_by_depth, "by the seed"),
    "two rows swapped": ("niah_single_2", swapped, "by the seed"),
    "keys and values reused": ("niah_single_2", same_value, "1: question"),
    "the wording of the question": (
        "niah_single_2", at(1, lambda row: replace(row, question=row.question.replace("What is", "Which is"))), "question",
    ),
    "the wording of the prefix": (
        "vt", at(1, lambda row: replace(row, answer_prefix=row.answer_prefix.replace(" Answer", " The answer"))), "answer_prefix",
    ),
    "the instruction after the example": (
        "vt", at(1, lambda row: replaced_last(row, "Memorize and track", "Memorise and track")), "1: ",
    ),
    "the instruction": (
        "niah_single_1", at(1, lambda row: replaced(row, "Make sure to memorize", "Be sure to memorize")), "context begins",
    ),
    "the budget": ("niah_single_1", at(1, lambda row: replace(row, max_new_tokens=129)), "max_new_tokens is 129"),
    "a star": ("vt", at(2, star), "does not follow the last variable"),
    "a value for a variable": ("vt", at(2, by_number), "2: "),
    "a sixth variable": (
        "vt",
        at(2, lambda row: replace(add_line(f"VAR QQQQQ = VAR {row.outputs[-1]} ")(row), outputs=(*row.outputs, "QQQQQ"))),
        "2: ",
    ),
    "a second chain": ("vt", at(2, add_line("VAR QQQQQ = 10203")), "chains of"),
    "order of the names": ("vt", at(2, lambda row: replace(row, outputs=row.outputs[::-1])), "outputs"),
    "a name of four letters": ("vt", at(2, lambda row: rename(row, row.outputs[-1], "QQQQ")), "2: "),
    "another name": ("vt", at(2, lambda row: rename(row, row.outputs[-1], "QQQQQ")), "by the seed"),
    "an example that teaches the wrong answer": ("vt", at(3, wrong_example), "the example's answer"),
    "an example of another row": ("vt", same_example, "1: beginning of the context"),
    "noise of vt": ("vt", at(3, add_line("Nothing of this is so.")), "no noise"),
    "29 instead of 30": ("cwe", at(1, one_fewer), "stands there 29 times"),
    "a word four times": ("cwe", at(1, grouped), "stands there 4 times"),
    "a word of no list": (
        "cwe",
        at(1, strange_word),
        "1: ",
    ),
    "an example of cwe that is wrong": ("cwe", at(2, cwe_example), "example's answer"),
    "the list in order": ("cwe", at(2, lambda row: relist(row, sorted(list_of(row)[1]))), "side by side"),
    "order of the common words": ("cwe", at(2, lambda row: replace(row, outputs=row.outputs[::-1])), "outputs"),
    "counts without a zeta": (
        "fwe", at(1, lambda row: fwe_words(row, lambda words: [*words, *[row.outputs[0]] * 9])), "1: ",
    ),
    "a coded word of seven letters": (
        "fwe", at(1, lambda row: fwe_words(row, longer_word)), "coded word of six letters",
    ),
    "order of the ranks": ("fwe", at(1, lambda row: replace(row, outputs=row.outputs[::-1])), "ranks 2 to 4"),
    "other coded words": (
        "fwe",
        at(1, lambda row: replace(fwe_words(row, lambda words: ["qqqqqq" if word == row.outputs[0] else word for word in words]), outputs=("qqqqqq", *row.outputs[1:]))),
        "by the seed",
    ),
    "answers of another question": ("qa_1", swap_question, "by the seed"),
    "evidence on another document": (
        "qa_1",
        at(2, lambda row: evidence_on(row, first_document(row))),
        "2: ",
    ),
    "evidence on another document of two": (
        "qa_2", at(2, lambda row: evidence_on(row, first_document(row))), "2: ",
    ),
    "another document": (
        "qa_1",
        at(3, lambda row: redocument(row, [text if text != first_document(row) else "A text of nobody.\n\n" for text in documents(row)])),
        "is not in squad",
    ),
    "a document twice": (
        "qa_1", at(3, lambda row: redocument(row, [*documents(row), first_document(row)])), "exhausted",
    ),
    "two documents swapped": (
        "qa_1", at(3, lambda row: redocument(row, swapped_texts(row))), "not in the order of the seed",
    ),
    "two documents of two swapped": (
        "qa_2", at(3, lambda row: redocument(row, swapped_texts(row))), "not in the order of the seed",
    ),
    "an answer of other case": (
        "qa_1", at(4, lambda row: replace(row, outputs=(row.outputs[0].upper(),))), "by the seed",
    ),
    "another question about the same answer": (
        "qa_2", at(4, lambda row: replace(row, question=row.question + "?")), "question",
    ),
}  # fmt: skip


def evidence_on(row: Row, text: str) -> Row:
    """Name another document as the evidence, with the answer put into it."""
    answer = row.outputs[0]
    row = redocument(
        row, [f"{one.rstrip()} {answer}.\n\n" if one == text else one for one in documents(row)]
    )
    start = row.context.index(f"{text.rstrip()} {answer}.")
    span = Span(start, start + len(f"{text.rstrip()} {answer}."))
    return replace(row, evidence=tuple(sorted([span, *row.evidence[1:]])))


def whole_haystack(row: Row, sentence: str) -> Row:
    """Replace everything around the needle by one sentence, repeated."""
    text, head = needle(row)[0], row.context[: row.context.index("\n") + 1]
    before, after = (
        " ".join([sentence] * (size // len(sentence)))
        for size in (row.evidence[0].start - len(head), len(row.context) - row.evidence[0].end)
    )
    joiner = "\n" if sentence == NOISE else " "
    parts = [one.replace(f" {sentence}", joiner + sentence) for one in (before, text, after) if one]
    context = head + joiner.join(parts) + "\n"
    start = context.index(text)
    return replace(row, context=context, evidence=(Span(start, start + len(text)),))


def replaced_last(row: Row, before: str, after: str) -> Row:
    place = row.context.rindex(before)
    return replaced_once(row, place, before, after)


@pytest.fixture
def copy(clean: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(clean, tmp_path / "copy"))


def findings(folder: Path, **options: Any) -> tuple[str, ...]:  # noqa: ANN401 - of `verify`
    return ruler_builders.verify(folder, **options).findings


def test_the_clean_folder_is_clean_and_says_what_was_proved(clean: Path) -> None:
    report = ruler_builders.verify(clean)
    assert report.findings == () and report.untested == ()
    assert any("those of the seed (20 of 20 configs)" in line for line in report.proved)


@pytest.mark.slow  # together: each is an audit
@pytest.mark.parametrize("attack", ROWS)
def test_rows_that_stay_solvable_are_found(attack: str, copy: Path) -> None:
    task, edit, words = ROWS[attack]
    forge(copy, f"{task}_4096", edit)
    assert rows_of(copy, f"{task}_4096") != []
    found = ruler_builders.verify(copy, tasks=[task]).findings
    assert found and all(re.match(rf"{task}_4096(/\d+)?: ", line) for line in found), found
    assert any(words in line for line in found), found


def test_a_question_of_one_length_alone_is_found_without_the_seed(
    copy: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    forge(copy, "vt_4096", swapped)
    monkeypatch.setattr("ruler_builders.audit.source_check.Available.library", lambda *_: None)
    assert "vt_4096/0: asks another question than vt_1536/0" in findings(copy, tasks=["vt"])


def of_source(name: str, **changes: Any) -> Callable[[Manifest], Manifest]:  # noqa: ANN401
    return lambda manifest: replace(
        manifest,
        sources=tuple(
            replace(one, **changes) if one.name == name else one for one in manifest.sources
        ),
    )


def of_config(**changes: Any) -> Callable[[Manifest], Manifest]:  # noqa: ANN401
    def change(manifest: Manifest) -> Manifest:
        configs = {
            **manifest.configs,
            "qa_1_4096": replace(manifest.configs["qa_1_4096"], **changes),
        }
        return replace(manifest, configs=configs)

    return change


def of_tokenizer(**changes: Any) -> Callable[[Manifest], Manifest]:  # noqa: ANN401
    return lambda manifest: replace(manifest, tokenizer=replace(manifest.tokenizer, **changes))


def of(**changes: Any) -> Callable[[Manifest], Manifest]:  # noqa: ANN401
    return lambda manifest: replace(manifest, **changes)


MANIFESTS: Mapping[str, tuple[Callable[[Manifest], Manifest], str]] = {
    "seed": (of(seed=7), "by the seed"),
    "data version": (of(data_version="1.4.0"), "data_version is 1.4.0"),
    "rows version": (of(rows_version="1.4.0"), "rows_version is 1.4.0"),
    "package version": (of(package_version="9.0.0"), "package_version is 9.0.0"),
    "pyarrow": (of(pyarrow="1.0.0"), "pyarrow is 1.0.0"),
    "suite": (of(suite="sweep_hops"), "suite sweep_hops has no task"),
    "licence": (of_source("squad", licence="MIT"), "licence expected 'CC0-1.0'"),
    "address": (of_source("squad", url="https://example.org/"), "url expected"),
    "credit": (of_source("essays", attribution="nobody"), "attribution expected"),
    "title": (of_source("words", title="Words"), "title expected"),
    "hash of a source": (of_source("essays", sha256="0" * 64), "sha256 expected"),
    "kind of a source": (of_source("squad", kind="real"), "squad"),
    "detail of a source": (of_source("essays", detail="two sentences a line"), "detail expected"),
    "id of the tokenizer": (of_tokenizer(hub_id="org/other"), "'org/other'"),
    "revision of the tokenizer": (of_tokenizer(revision="abc"), "'abc'"),
    "engine": (of_tokenizer(engine="abacus 1.0"), "engine 'abacus 1.0'"),
    "reserve": (of_tokenizer(extra_reserve=100), "length"),
    "a note on what ran out": (
        of_config(exhausted=("squad documents repeat within a row",)), "qa_1_4096: exhausted expected",
    ),
    "result of the audit": (of_config(audit={"duplicates": "none"}), "qa_1_4096: audit expected"),
    "question digest": (of_config(question_digest="sha256:" + "0" * 64), "question_digest expected"),
}  # fmt: skip


@pytest.mark.parametrize("attack", MANIFESTS)
def test_a_manifest_that_was_edited_with_its_card_is_found(attack: str, copy: Path) -> None:
    change, words = MANIFESTS[attack]
    (copy / MANIFEST).write_text(change(manifest_of(copy)).to_json(), encoding="utf-8")
    render(copy)
    found = findings(copy, tasks=["niah_single_1", "qa_1"])
    assert any(words in line for line in found), found


TEXTS: Mapping[str, tuple[str, str, str]] = {
    "body of the card": ("README.md", "Prompts match", "Prompts roughly match"),
    "an example of the card": ("README.md", "Make sure to memorize it", "Forget it"),
    "a figure of the card": ("README.md", "0.99", "0.98"),
    "header of the card": ("README.md", "benchmark", "leaderboard"),
    "licence in the header": ("README.md", "license:\n- apache-2.0", "license:\n- mit"),
    "licences": ("LICENSES.md", "CC0-1.0", "MIT"),
    "address in the licences": ("LICENSES.md", "| Address |", "| Home |"),
    "registration": ("eval.yaml", "split: test", "split: train"),
    "name of the registration": ("eval.yaml", "name: RULER", "name: ruler"),
}


@pytest.mark.parametrize("attack", TEXTS)
def test_a_text_that_was_edited_is_found(attack: str, copy: Path) -> None:
    name, before, after = TEXTS[attack]
    text = (copy / name).read_text()
    assert before in text
    (copy / name).write_text(text.replace(before, after, 1))
    manifest = manifest_of(copy)
    texts = {one: (copy / one).read_bytes() for one in manifest.files}
    (copy / MANIFEST).write_text(manifest.with_files(texts).to_json(), encoding="utf-8")
    found = findings(copy, tasks=["niah_single_1"])
    assert any(re.match(rf"{name}: line \d+: expected ", line) for line in found), found


def test_a_picture_that_is_not_of_these_rows_is_found(copy: Path) -> None:
    path, manifest = copy / PICTURE, manifest_of(copy)
    path.write_bytes(path.read_bytes() + b"\0")
    files = {one: (copy / one).read_bytes() for one in manifest.files}
    (copy / MANIFEST).write_text(manifest.with_files(files).to_json(), encoding="utf-8")
    assert f"{PICTURE}: is not the picture of these rows" in findings(copy, tasks=["niah_single_1"])


def test_the_attacks_are_many() -> None:
    assert len(ROWS) >= 40 and len(MANIFESTS) + len(TEXTS) >= 15
