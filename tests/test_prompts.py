"""Prompts: upstream's to the character, the drawn parts aside.

The texts below were compared with upstream's own output (NVIDIA/RULER c3f5e3b); they are written
out once more, apart from the code that makes prompts.
"""

import re
from collections import Counter
from itertools import product
from typing import Any

import pytest

from ruler_builders import prompts
from ruler_builders.prompts import PromptTemplate
from ruler_data.tasks import Cwe, Fwe, Graph, Niah, Qa, Vt
from tests.rows import make
from tests.test_golden import compare

NOISE = "The grass is green. The sky is blue. The sun is yellow. Here we go. There and back again."
# task -> kind of values, keys asked, values of each; what the haystack holds, `tests/proof` counts
NIAH = {
    "niah_single_1": ("numbers", 1, 1),
    "niah_single_2": ("numbers", 1, 1),
    "niah_single_3": ("uuids", 1, 1),
    "niah_multikey_1": ("numbers", 1, 1),
    "niah_multikey_2": ("numbers", 1, 1),
    "niah_multikey_3": ("uuids", 1, 1),
    "niah_multivalue": ("numbers", 1, 4),
    "niah_multiquery": ("numbers", 4, 1),
}
VT_HEAD = "Memorize and track the chain(s) of variable assignment hidden in the following text.\n\n"
CWE_HEAD = (
    "Below is a numbered list of words. In these words, some appear more often than others. "
    "Memorize the ones that appear most often.\n"
)
CWE_TAIL = (
    "\nQuestion: What are the 10 most common words in the above list?"
    " Answer: The top 10 words that appear most often in the list are:"
)


def between(text: str, head: str, tail: str) -> str:
    """Return what stands between a head and a tail, which must be there to the character."""
    assert text.startswith(head), text[: len(head) + 20]
    assert text.endswith(tail), text[-len(tail) - 20 :]
    return text[len(head) : len(text) - len(tail)]


@pytest.mark.parametrize("task", NIAH)
@pytest.mark.parametrize("index", range(4))
def test_niah_prompts_are_upstreams(task: str, index: int) -> None:
    values, queries, each = NIAH[task]
    row = make("mistral", task, index)
    asked = re.search(r" for (.*) mentioned in the provided text\?", row.question)
    assert asked
    query = asked[1]
    if queries * each == 1:
        one = values.removesuffix("s")
        head = (
            f"A special magic {one} is hidden within the following text. Make sure to memorize "
            f"it. I will quiz you about the {one} afterwards.\n"
        )
        tail = (
            f"\nWhat is the special magic {one} for {query} mentioned in the provided text?"
            f" The special magic {one} for {query} mentioned in the provided text is"
        )
    else:
        head = (
            f"Some special magic {values} are hidden within the following text. Make sure to "
            f"memorize it. I will quiz you about the {values} afterwards.\n"
        )
        tail = (
            f"\nWhat are all the special magic {values} for {query} mentioned in the provided text?"
            f" The special magic {values} for {query} mentioned in the provided text are"
        )
    body = between(row.prompt, head, tail)
    names = query.split(", ")
    if queries > 1:
        assert names[-1].startswith("and ")
        names[-1] = names[-1].removeprefix("and ")
    assert len(names) == queries
    for name in names:
        assert body.count(f"One of the special magic {values} for {name} is: ") == each


def test_the_haystacks_are_upstreams() -> None:
    noise = make("mistral", "niah_single_1", 0).context.split("\n")[1:-1]
    assert Counter(line == NOISE for line in noise)[False] == 1
    lines = make("mistral", "niah_multikey_2", 0).context.split("\n")[1:-1]
    assert all(
        re.fullmatch(r"One of the special magic numbers for \S+ is: \d{7}\.", x) for x in lines
    )
    essays = make("mistral", "niah_single_2", 0).context.split("\n")
    assert len(essays) == 3, "instruction, essays joined by spaces, nothing"


@pytest.mark.parametrize("index", range(6))
def test_vt_prompts_are_upstreams(index: int) -> None:
    row = make("mistral", "vt", index)
    example, _, rest = row.prompt.rpartition(VT_HEAD)
    small = between(example, VT_HEAD, "\n\n")
    for text, letters, answer in ((small, 3, True), (rest, 5, False)):
        value = re.findall(r"^VAR [A-Z]+ = ([0-9]{5})$", text, re.MULTILINE)
        assert len(value) == 1
        body, question, said = text.partition(
            f"\nQuestion: Find all variables that are assigned the value {value[0]} in the text "
            "above. Answer: According to the chain(s) of variable assignment in the text above, 5 "
            f"variables are assigned the value {value[0]}, they are: "
        )
        assert question
        names = re.findall(rf"^VAR ([A-Z]{{{letters}}}) = ", body, re.MULTILINE)
        assert said == (" " + " ".join(names) if answer else "")
        assert body.count(NOISE) == 16 or not answer
        assert len(names) == 5 and (answer or row.outputs == tuple(names))


@pytest.mark.parametrize(
    ("length", "sizes"), [(2048, (20, 3, 1, 6, 1)), (4096, (40, 10, 3, 30, 3))]
)
def test_cwe_prompts_are_upstreams(length: int, sizes: tuple[int, ...]) -> None:
    words, example_common, example_other, common, other = sizes
    row = make("mistral", "cwe", 1, length)
    example, _, rest = row.prompt.rpartition(CWE_HEAD)
    small, _, answer = between(example, CWE_HEAD, "\n").partition(CWE_TAIL)
    counts = Counter(numbered(small))
    assert len(counts) == words
    best = [word for word in counts if counts[word] == example_common]
    assert sorted(numbered(answer.removeprefix(" "))) == sorted(best) and len(best) == 10
    assert set(counts.values()) == {example_common, example_other}
    listed = Counter(numbered(between(rest, "", CWE_TAIL)))
    assert {word for word in listed if listed[word] == common} == set(row.outputs)
    assert set(listed.values()) == {common, other}
    assert not set(row.outputs) & set(counts), "the example gives nothing away"


def numbered(text: str) -> list[str]:
    """Return the words of `1. word 2. word`, which must be numbered without gaps."""
    words = re.split(r"(?:^| )\d+\. ", text)[1:]
    assert text == " ".join(f"{number}. {word}" for number, word in enumerate(words, 1))
    return words


def test_fwe_prompts_are_upstreams() -> None:
    row = make("mistral", "fwe", 2)
    body = between(
        row.prompt,
        "Read the following coded text and track the frequency of each coded word. Find the three "
        "most frequently appeared coded words. ",
        "\nQuestion: Do not provide any explanation. Please ignore the dots '....'. What are the "
        "three most frequently appeared words in the above coded text? Answer: According to the "
        "coded text above, the three most frequently appeared words are:",
    )
    assert {*re.findall(r"\S+", body)} == {*body.split(" ")}  # one space between words
    assert row.evidence == ()


@pytest.mark.parametrize("task", ["qa_1", "qa_2"])
def test_qa_prompts_are_upstreams(task: str) -> None:
    instruction = (
        "Answer the question based on the given documents. "
        "Only give me the answer and do not output any other words.\n\n"
    )
    row = make("mistral", task, 0)
    head = instruction + "The following are given documents.\n\n"
    question = row.question.removeprefix(instruction + "Question: ")
    body = between(row.prompt, head, f"\n\n{instruction}Question: {question} Answer:")
    documents = re.split(r"(?:^|\n\n)Document \d+:\n", body)[1:]
    parts = [f"Document {number}:\n{text}" for number, text in enumerate(documents, 1)]
    assert body == "\n\n".join(parts)
    assert question == question.strip() and question.endswith("?")
    golds = [row.context[span.start : span.end] for span in row.evidence]
    assert all(documents.count(gold) == 1 for gold in golds)
    assert len(golds) == (1 if task == "qa_1" else 2)
    assert any(row.outputs[0] in gold for gold in golds)


def test_prompts_of_all_parameters_are_golden() -> None:
    """Those of RULER are upstream's; a suite of a user may ask in any of the other ways."""
    forms = list[tuple[object, PromptTemplate]]()
    for instruction, place, several, none in product(
        ("upstream", "short", "long"), ("after", "before", "around"), (1, 2), ("no", "possible")
    ):
        given: dict[str, Any] = {
            "instruction": instruction, "question_at": place, "values": several, "none": none,
            "value_type": "uuids" if several == 1 else "words",
        }  # fmt: skip
        params = Niah("noise", **given)
        forms.append((params, prompts.niah(params, "a, and b")))
    for niah in (
        Niah("noise", values=3, ordinal=True), Niah("noise", wording="associated", keys=2),
        Niah("noise", values=3, ordinal=True, instruction="long"),
    ):  # fmt: skip
        forms.append((niah, prompts.niah(niah, "a", "third" if niah.ordinal else "")))
    forms += [(vt, prompts.vt(vt, "12345", 5)) for vt in (Vt(), Vt(order="scrambled"))]
    cwes = (Cwe(), Cwe(common=7), Cwe(ask="count", example=False))
    forms += [(cwe, prompts.cwe(cwe, "kettle")) for cwe in cwes]
    forms += [(fwe, prompts.fwe(fwe)) for fwe in (Fwe(), Fwe(top=10))]
    forms += [(qa, prompts.qa(qa, "who?")) for qa in (Qa("squad"), Qa("squad", "none"))]
    forms += [(graph, prompts.graph(graph, "ABCDE"))
              for graph in (Graph("parents"), Graph("within", steps=3))]  # fmt: skip
    compare("prompts.txt", "\n\n".join(f"{params}\n{form}" for params, form in forms) + "\n")
