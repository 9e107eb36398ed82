"""Recover the parameters of each prompt, and compare them with those of its task.

A row can be solvable and still not be the task's: with three of four values, with one hop fewer,
with words repeated 29 times. Here the haystack is taken apart and everything in it is counted. This
shares nothing with the generators.
"""

import math
import re
from collections import Counter
from collections.abc import Callable, Collection, Generator, Iterable, Iterator, Sequence
from dataclasses import replace
from functools import cache
from itertools import chain

import numpy as np

from ruler_builders import prompts
from ruler_builders.checks import prompt_parser
from ruler_builders.checks.prompt_parser import (
    VALUE,
    Needle,
    WordList,
    needle_sentences,
    queried_keys,
    question_of,
    word_list,
)
from ruler_builders.checks.solvers import documents, solve
from ruler_builders.prompts import NOISE, PromptTemplate
from ruler_builders.sources.packaged import associations
from ruler_data.row import Row
from ruler_data.tasks import Cwe, Fwe, Graph, Niah, Qa, Ruler2, Task, Vt
from tests.proof import ruler2

MAGIC = "special magic"


def between(text: str, found: Iterable[Needle]) -> list[str]:
    """Return the pieces of a text between needles."""
    spans = sorted(span for needle in found for span in needle.spans)
    starts, ends = [0, *(end for _, end in spans)], [*(start for start, _ in spans), len(text)]
    return [text[start:end] for start, end in zip(starts, ends, strict=True)]


def lines_between(pieces: Iterable[str], head: str) -> list[str]:
    """Return the lines of the pieces between needles, without those of the instruction."""
    lines = [
        line for piece in pieces if len(piece) > 1 for line in piece.split("\n") if line.strip()
    ]
    return lines[sum(bool(line.strip()) for line in head.split("\n")) :]


def example_and_list(context: str, head: str) -> tuple[str, str]:
    """Return the in-context example, empty without one, and the text that the question is about.

    `head` is the instruction, which stands again after the example.
    """
    parts = context.split(head)
    return parts[1] if len(parts) == 3 else "", parts[-1]


def template_of(task: Task, row: Row) -> PromptTemplate:
    """Return the fixed text of a row's prompt, with what its question is about."""
    match task.params:
        case Graph():
            node = re.search(r"[A-Z]{5}", question_of(row))
            return prompts.graph(task.params, node[0] if node else "NODE")
        case Ruler2():
            return ruler2.template(task.params, row)
        case _:
            return prompt_parser.template_of(task, row)


def frame_findings(task: Task, row: Row) -> Iterator[str]:
    """Yield where a row departs from the fixed text of its task."""
    frame = template_of(task, row)
    if not row.context.startswith(frame.head):
        yield f"context begins with {row.context[:40]!r}, not with the task's instruction"
    if not row.context.endswith(frame.tail):
        yield f"context ends with {row.context[-20:]!r}, not with {frame.tail!r}"
    if row.question != frame.question:
        yield f"question is {row.question[:120]!r}, the task's is {frame.question[:120]!r}"
    if row.answer_prefix != frame.prefix:
        yield f"answer_prefix is {row.answer_prefix[:120]!r}, the task's is {frame.prefix[:120]!r}"


def parameter_findings(task: Task, length: int, row: Row) -> Iterator[str]:
    """Yield where a row's prompt is not of its task; `length` is the config's, in tokens."""
    yield from _FAMILIES[type(task.params)](task, task.params, length, row)


def _niah(task: Task, params: Niah, length: int, row: Row) -> Iterator[str]:
    head = template_of(task, row).head
    found = needle_sentences(row.context)
    yield from _haystack_findings(params, head, between(row.context, found))
    asked = queried_keys(row)
    if len(asked) != params.queries or len(set(asked)) != len(asked):
        yield f"the question is about {len(asked)} keys ({', '.join(asked)}), not {params.queries}"
    values: dict[str, tuple[str, ...]] = {}
    for needle in found:
        values[needle.key] = (*values.get(needle.key, ()), needle.value)
    yield from _sentence_findings(params, row.context, found)
    parts = [*values, *(needle.value for needle in found)]
    if len(set(parts)) != len(parts):
        yield f"{Counter(parts).most_common(1)[0][0]!r} is more than one key or value"
    if params.wording == "associated":  # the question names no key, and the solver finds it
        asked = [key for key, several in values.items() if {*row.outputs} & {*several}]
    yield from _count_findings(params, values, asked)
    golden = [value for key in asked for value in sorted(values.get(key, ()))]
    size = params.values
    groups = (sorted(row.outputs[at : at + size]) for at in range(0, len(row.outputs), size))
    given = [value for group in groups for value in group]
    if not (params.none == "true" or params.ordinal) and given != golden:
        yield f"outputs {list(row.outputs)} are not the values of the keys in their order: {golden}"
    if params.haystack != "needles" and params.wording != "associated":
        yield from _mention_findings(params, row, head, found, asked)


def _haystack_findings(params: Niah, head: str, pieces: Sequence[str]) -> Iterator[str]:
    """Compare what is not needle with the haystack of the task; texts need their sources."""
    expected = "texts" if params.haystack in ("essays", "domains") else params.haystack
    others = lines_between(pieces, head)
    text = [line for line in others if line != NOISE]
    kind = "texts" if text else "noise" if others else "needles"
    if kind != expected and others:  # without others it is empty, or its needles are counted
        example = (text or others)[0][:60]
        yield f"the haystack is of {kind}, the task's of {expected}, e.g. {example!r}"


def _sentence_findings(params: Niah, text: str, found: Sequence[Needle]) -> Iterator[str]:
    """Check the wording of needles, and the kinds of their keys and values."""
    singular = params.value_type.removesuffix("s")
    expected = params.value_type if params.wording in ("plain", "json", "assignment") else singular
    key_form = _form(params.key_type)
    if params.wording == "associated":
        key_form = "|".join(map(re.escape, chain.from_iterable(associations().values())))
    value_form = _form(params.value_type)
    for needle in found:
        sentence = text[slice(*needle.spans[0])]
        if needle.kind not in ("", expected, singular):
            yield f"the needle {sentence!r} is about {needle.kind}, not {expected}"
        if not re.fullmatch(key_form, needle.key):
            yield f"{needle.key!r} in the needle {sentence!r} is not of the kind {params.key_type}"
        if not re.fullmatch(value_form, needle.value):
            kind = params.value_type
            yield f"{needle.value!r} in the needle {sentence!r} is not of the kind {kind}"
        if needle.wording != params.wording:
            yield f"the needle {sentence!r} is {needle.wording}, the task's are {params.wording}"


def _form(kind: str) -> str:
    """Return the form of a key or value."""
    return {
        "numbers": "[1-9][0-9]{6}",
        "words": "[a-z]+(?:-[a-z]+)+",
        "uuids": "[0-9a-f]{8}-[0-9a-f]{4}-4[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}",
    }[kind]


def _count_findings(
    params: Niah, values: dict[str, tuple[str, ...]], asked: Sequence[str]
) -> Iterator[str]:
    """Compare the numbers of keys, of values of each key and of look-alikes."""
    for key in asked if params.none != "true" else ():
        if len(values.get(key, ())) != params.values:
            yield f"{key} has {len(values.get(key, ()))} values, the task's keys {params.values}"
    if params.none == "true" and (hidden := [key for key in asked if key in values]):
        yield f"{hidden[0]} has a needle, and the task's question has no answer"
    if params.haystack == "needles":
        return
    others = {key: found for key, found in values.items() if key not in asked}
    if params.lookalikes:
        halves = Counter(half for key in {*values, *asked} for half in _halves(key))
        alone = [key for key in values if not any(halves[half] > 1 for half in _halves(key))]
        if alone:
            yield f"{alone[0]} shares no half with another key, and the task has look-alikes"
    expected = params.keys + params.lookalikes - (params.queries if params.none != "true" else 0)
    if len(others) != expected:
        yield f"{len(others)} keys besides those asked for, the task has {expected}"
    wrong = sum(len(found) != params.values for found in others.values())
    if wrong:
        yield f"keys with other than {params.values} values: {wrong}"


def _halves(key: str) -> tuple[tuple[int, str], tuple[int, str]]:
    """Return the halves of a key: its first word and the rest, or its first and last characters."""
    is_words = re.fullmatch("[a-z-]+", key) is not None
    cut = key.find("-") if is_words else len(key) // 2 - 4 * (len(key) == 36)
    return (0, key[:cut]), (1, key[cut:])


def _mention_findings(
    params: Niah, row: Row, head: str, found: Sequence[Needle], asked: Sequence[str]
) -> Iterator[str]:
    """Check that nothing else in the haystack mentions what is asked for, in any wording."""
    body = row.context.removeprefix(head)
    # Of ASCII letters, like keys and values: ten times faster.
    lowered = body.encode("ascii", "replace").lower()
    expected = Counter(needle.key for needle in found)
    golden = [] if params.none == "true" else row.outputs
    for part, times in [(key, expected[key]) for key in asked] + [(value, 1) for value in golden]:
        if lowered.count(part.encode()) != times:
            form = rf"(?<![\w-]){re.escape(part)}(?![\w-])"
            often = len(re.findall(form, body.encode().lower().decode()))
            if often != times:
                yield f"the haystack mentions {part!r} {often} times, its needles {times} times"
    about = sum(row.context.count(MAGIC, *span) for needle in found for span in needle.spans)
    if (often := lowered.count(MAGIC.encode())) != about:
        yield f"{often} sentences are about something special magic, {about} of them are needles"


def _vt(task: Task, params: Vt, length: int, row: Row) -> Iterator[str]:
    head = template_of(task, row).head
    example, body = example_and_list(row.context, head)
    lines = body.removesuffix("\n").split("\n")
    chains = yield from _chains(params, lines)
    hops = sorted(len(names) - 1 for names in chains.values())
    if hops != [params.hops] * params.chains:
        yield f"chains of {hops} hops, the task has {[params.hops] * params.chains}"
    asked = VALUE.search(row.question)
    names = chains.get(asked[1], ()) if asked else ()
    if tuple(names) != row.outputs:
        yield f"outputs {list(row.outputs)} are not the chain in its order: {list(names)}"
    text, _, rest = example.rpartition("\nQuestion: ")
    question = f"Question: {rest.partition(' Answer: ')[0]}"
    taught = rest.rpartition(": ")[2].split()
    small = replace(row, context=f"{head}{text}\n", question=question, outputs=tuple(taught))
    answers = solve(task, small).answers if example else frozenset[str]()
    yield from _example_findings(task, row, taught, answers)


def _example_findings(
    task: Task, row: Row, taught: Sequence[str], answers: Collection[str]
) -> Iterator[str]:
    """Check that there is an in-context example if the task has one, and that its answer holds."""
    if not getattr(task.params, "example", False):
        if taught or not row.context.startswith(template_of(task, row).head):
            yield "an example, in a task without one"
        return
    if not taught or {*taught} != {*answers}:
        yield f"the example's answer is {' '.join(taught)[-60:]!r}, which it does not support"
    if not {*taught}.isdisjoint(row.outputs):
        yield "the example has a part of the answer"


def _chains(params: Vt, lines: Sequence[str]) -> Generator[str, None, dict[str, list[str]]]:
    """Follow the chains of assignments; return the names of each by its value, in order."""
    name = "([A-Z]{5})"
    form = re.compile(rf"VAR {name} = (?:([0-9]{{5}})|VAR {name} )")
    others = [line for line in lines if line != NOISE]
    if strange := [line for line in others if not form.fullmatch(line)]:
        yield f"the haystack holds {strange[0][:60]!r}, which is no noise and no assignment"
    chains: dict[str, list[str]] = {}
    ends: dict[str, str] = {}  # value of the last variable of each chain
    waiting = [*filter(None, map(form.fullmatch, others))]
    while waiting:
        left: list[re.Match[str]] = []
        for match in waiting:
            name, number, source = match.groups()
            value = number or ends.pop(source, "")
            if number in chains:
                yield f"two chains have the value {number}"
            if value:
                chains.setdefault(value, []).append(name)
                ends[name] = value
            else:
                left.append(match)
        if len(left) == len(waiting) or params.order == "rising":
            for match in left:
                yield f"{match[1]} does not follow the last variable of a chain: {match[3]}"
            break
        waiting = left
    return chains


def counts_of(words: WordList) -> Counter[str]:
    """Return how often each different word occurs, in the order of first occurrence."""
    pairs = zip(words.words.to_pylist(), words.often.tolist(), strict=True)
    return Counter(dict(pairs))


def _cwe(task: Task, params: Cwe, length: int, row: Row) -> Iterator[str]:
    head = template_of(task, row).head
    example, body = example_and_list(row.context, head)
    words = word_list(body.strip())
    common, counts = params.common, sorted(counts_of(words).values(), reverse=True)
    yield from _order_findings(words)
    if params.ask == "count":
        least, most = params.other_repeats, params.common_repeats
        often = [count for count in counts if count > least]
        if counts[-1] < least or counts[0] > most or not len({*often}) == len(often) == common:
            yield (
                f"counts of common words are {often}, the task has {common} different ones from "
                f"{least + 1} to {most}, and {least} of all others"
            )
    else:
        repeats = (params.common_repeats, params.other_repeats)
        if length < 4096 and repeats == (30, 3):
            repeats = (6, 1)
        yield from _repeat_findings(counts, common, *repeats)
        for word in row.outputs:
            if any(word in other for other in row.outputs if other != word):
                yield f"the answer {word!r} is part of another answer"
    text, _, rest = example.rpartition(f"\n{row.question}{row.answer_prefix} ")
    answers = {word for word, _ in Counter(text.split(" ")[1::2]).most_common(common)}
    yield from _example_findings(task, row, rest.split()[1::2], answers)


def _order_findings(words: WordList) -> Iterator[str]:
    """Check that equal words stand side by side no more often than in random order."""
    beside = int((words.places[1:] == words.places[:-1]).sum())  # equal words side by side
    mean = sum(count * (count - 1) for count in counts_of(words).values()) / max(
        len(words.places), 1
    )
    if beside > mean + 8 * math.sqrt(mean) + 8:
        yield f"equal words stand side by side {beside} times, {mean:.0f} in random order"


def _repeat_findings(counts: Sequence[int], common: int, often: int, seldom: int) -> Iterator[str]:
    """Compare how often words stand in a list, the most frequent first."""
    for number, count in enumerate(counts):
        if count != (wanted := often if number < common else seldom):
            yield (
                f"word {number + 1} of the list by frequency stands there {count} times, "
                f"the task has {wanted}"
            )
            return


def _fwe(task: Task, params: Fwe, length: int, row: Row) -> Iterator[str]:
    body = example_and_list(row.context, template_of(task, row).head)[1]
    text = word_list(body.strip())
    ranked = counts_of(text).most_common()
    words = [word for word, _ in ranked]
    if words[:1] != ["..."]:
        yield "the most frequent word is not the noise '...'"
    strange = next((word for word in words[1:] if not re.fullmatch("[a-z]{6}", word)), None)
    if strange is not None:
        yield f"{strange!r} is no coded word of six letters"
    if words[1 : params.top + 1] != list(row.outputs):
        yield f"outputs {list(row.outputs)} are not ranks 2 to {params.top + 1} in their order"
    # floor(N / k^alpha zeta) = count holds for N in an interval; one N must be in all of them.
    counts = np.array([count for _, count in ranked])
    shares = np.arange(1, len(counts) + 1) ** params.alpha * _zeta(params.alpha)
    least, most = (counts * shares).max(), ((counts + 1) * shares).min()
    if least >= most * (1 + 1e-9):
        rank = int((counts * shares).argmax()) + 1
        yield f"the word of rank {rank} appears {counts[rank - 1]} times, not as alpha says"
    size = len(counts)
    if least / ((size + 1) ** params.alpha * _zeta(params.alpha)) >= 1 + 1e-9 and not (
        (length - row.max_new_tokens) * 0.5 // 50 <= size
    ):
        yield f"the text has {size} different words, fewer than alpha says"
    yield from _order_findings(text)


@cache
def _zeta(alpha: float) -> float:
    """Return Riemann's zeta: the sum to 100,000, and its tail by the trapezoidal rule."""
    last = 100_000
    head = math.fsum(k**-alpha for k in range(1, last))
    return float(head + last ** (1 - alpha) / (alpha - 1) + last**-alpha / 2)


def _qa(task: Task, params: Qa, length: int, row: Row) -> Iterator[str]:
    if params.documents == "none":
        return
    texts = documents(row.context)[1]
    if params.source == "hotpotqa" and (bare := [text for text in texts if "\n" not in text]):
        yield f"a document has no title: {bare[0][:60]!r}"


def _graph(task: Task, params: Graph, length: int, row: Row) -> Iterator[str]:
    body = row.context.removeprefix(template_of(task, row).head).removesuffix("\n")
    edges = [line.split(" -> ") for line in body.split("\n")]
    for what, place in (("out of", 0), ("into", -1)):
        counts = Counter(edge[place] for edge in edges)
        if strange := [node for node in counts if not re.fullmatch("[A-Z]{5}", node)]:
            yield f"{strange[0][:60]!r} is no node of five letters"
        node, most = counts.most_common(1)[0]
        missing = params.degree * len(counts) - counts.total()
        # A list is full in the middle of a node, and a few edges could not be matched.
        if most > params.degree or missing > 4 * params.degree:
            yield (
                f"up to {most} edges {what} a node ({node!r}) and {missing} missing, "
                f"the task has {params.degree}"
            )
    if len(row.outputs) != params.answers:
        yield f"{len(row.outputs)} nodes in the answer, the task has {params.answers}"


def _ruler2(task: Task, params: Ruler2, length: int, row: Row) -> Iterator[str]:
    yield from ruler2.parameter_findings(params, row)


_FAMILIES: dict[type, Callable[..., Iterator[str]]] = {
    Niah: _niah,
    Vt: _vt,
    Cwe: _cwe,
    Fwe: _fwe,
    Qa: _qa,
    Graph: _graph,
    Ruler2: _ruler2,
}
