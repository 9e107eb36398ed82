"""Answers of known label, made from real rows: what exact scores and failure kinds are measured on.

Forms and wordings are the tables of `tests.realistic`. `benchmarks/failures.py` prints how often a
kind is right.

    cause                   answer                                        kind
    "right"                 "| # | Answer |\n|---|---|\n| 1 | QZKRA |"    None
    "invented value"        "The number is 5530718."                      not in the context
    "part, and invented"    "9976233, 5530718"                            not in the context
"""

import random
import re
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from ruler_data import Row
from ruler_data.tasks import Niah, Task
from tests.realistic import (
    BARE_REFUSALS,
    COUNTS,
    FOREIGN_REFUSALS,
    FRAMES,
    INVENTIONS,
    LISTS,
    LONG_INVENTIONS,
    LOOPS,
    NO_ANSWERS,
    OTHER_FORMS,
    REFUSALS,
    SILENT,
)

EMPTY = "empty"
REFUSAL = "refusal"
FORM = "right, in another form"
INCOMPLETE = "incomplete"
EXTRA = "more than the gold answers"
COPIED = "copied from the example"
CONTEXT = "wrong, from the context"
ABSENT = "not in the context"
OTHER = "no answer"


class Labelled(NamedTuple):
    """An answer; `kinds` are its right labels, of which the first is the best; None: no failure."""

    cause: str
    kinds: tuple[str | None, ...]
    answer: str


def labelled_answers(row: Row, task: Task, half: int) -> Iterator[Labelled]:
    """Yield answers to a row, with cause and right kind; one half of the wordings."""
    for one in _every_answer(row, task, half):
        said = one.answer.lower()  # a sentence may name a gold answer such as `7` by chance
        named = any(output.lower() in said for output in row.outputs)
        if task.metric == "all" or one.cause.startswith("right") or not named:
            yield one


def _every_answer(row: Row, task: Task, half: int) -> Iterator[Labelled]:
    rng = random.Random(f"{task.name}/{row.index}/{half}")
    it, one = _asked(row, task)

    def some(options: Sequence[str], number: int) -> list[str]:
        mine = options[half::2]
        return rng.sample(list(mine), min(number, len(mine)))

    for text in some([text for text in SILENT if text != "1." or task.metric == "all"], 2):
        yield Labelled("silent", (EMPTY,), text)
    for text in some(REFUSALS, 6):
        yield Labelled("refusal", (REFUSAL,), text.format(it=it, one=one))
    for text in some(BARE_REFUSALS, 2):
        yield Labelled("bare refusal", (REFUSAL,), text)
    for text in some(FOREIGN_REFUSALS, 8):
        yield Labelled("foreign refusal", (REFUSAL,), text)
    for text in some(NO_ANSWERS, 4):
        yield Labelled("chatter, plan or code", (OTHER,), text)
    for text in some(LOOPS, 1):
        yield Labelled("loop", (OTHER,), text)
    yield Labelled("question repeated", (OTHER,), row.question.rpartition("Question: ")[2])
    family = {"niah": _niah, "vt": _vt, "cwe": _words, "fwe": _words, "qa": _qa}
    yield from family[task.params.family](row, task, half, rng)


def _asked(row: Row, task: Task) -> tuple[str, str]:
    """Return what a row asks for, in full and in short."""
    if isinstance(task.params, Niah):
        match = re.search(r"special magic (\w+?)s? for ((?:[\w-]+(?:, and |, )?)+)", row.question)
        assert match
        return f"the special magic {match[1]} for {match[2].split(', ')[0]}", match[1]
    return {
        "vt": ("the variables with that value", "variable"),
        "cwe": ("the most common words", "list"),
        "fwe": ("the three most frequent coded words", "coded text"),
        "qa": ("the answer to the question", "answer"),
    }[task.params.family]


class _Say:
    """Writes values in the forms of one half."""

    def __init__(self, half: int, rng: random.Random) -> None:
        self._half, self._rng = half, rng

    def __call__(self, values: Sequence[str]) -> str:
        if len(values) > 1:
            return self._rng.choice(LISTS[self._half :: 2])(list(values))
        return self._rng.choice(FRAMES[self._half :: 2]).format(values[0])

    def all_forms(self, values: Sequence[str]) -> Iterator[str]:
        if len(values) > 1:
            yield from (form(list(values)) for form in LISTS[self._half :: 2])
        else:
            yield from (frame.format(values[0]) for frame in FRAMES[self._half :: 2])


def _right(row: Row, half: int, rng: random.Random, kind: str) -> Iterator[Labelled]:
    """Yield right answers, which have no kind, and right ones in forms that upstream misses."""
    say = _Say(half, rng)
    yield from (Labelled("right", (None,), text) for text in say.all_forms(row.outputs))
    for form in OTHER_FORMS[kind][half::2] if kind else ():
        yield Labelled("another form", (FORM,), say([form(output) for output in row.outputs]))


def _parts(row: Row, rng: random.Random) -> list[str]:
    """Return some of the gold answers, not all."""
    return rng.sample(row.outputs, rng.randrange(1, len(row.outputs)))


NEEDLE = re.compile(r"special magic \w+ for ([\w-]+) is: ([\w-]+)\.")
#: Words that no list of the builder has, and that no text here has either.
INVENTED = ("zorbulent", "quaxification", "mirtlewick", "flombard", "snorvelling", "drixotic",
            "ploverage", "wumbling", "kestiform", "yantricle", "brindlesome",
            "ogglethorn")  # fmt: skip


def _invented_value(kind: str, row: Row, rng: random.Random) -> str:
    while True:
        value = {
            "numbers": str(rng.randrange(10**6, 10**7)),
            "words": f"{rng.choice(INVENTED)}-{rng.choice(INVENTED)}",
            "uuids": "-".join(f"{rng.getrandbits(4 * n):0{n}x}" for n in (8, 4, 4, 4, 12)),
        }[kind]
        if value not in row.context:
            return value


def _niah(row: Row, task: Task, half: int, rng: random.Random) -> Iterator[Labelled]:
    params = task.params
    assert isinstance(params, Niah)
    say = _Say(half, rng)
    yield from _right(row, half, rng, params.value_type)
    values = [str(match[2]) for match in NEEDLE.finditer(row.context)]
    others = [value for value in values if value not in row.outputs]
    if others:
        some = rng.sample(others, min(5, len(others)))
        yield Labelled("all, and others", (EXTRA,), say([*some, *row.outputs]))
    invented = [_invented_value(params.value_type, row, rng) for _ in range(5)]
    gold = row.outputs[0]
    yield Labelled("invented value", (ABSENT,), say(invented[:1]))
    yield Labelled("invented value", (ABSENT,), say(invented[1:2]))
    yield Labelled("invented values", (ABSENT,), say(invented))
    if params.value_type == "numbers":
        yield Labelled("invented value, grouped", (ABSENT,), say([f"{int(invented[2]):,}"]))
    if params.value_type != "words":
        place = rng.randrange(2, 6)
        swapped = next(digit for digit in "123456789" if digit != gold[place])
        typo = gold[:place] + swapped + gold[place + 1 :]
        if typo not in row.context:
            yield Labelled("one digit wrong", (ABSENT,), say([typo]))
    cut = gold[: rng.randrange((len(gold) + 1) // 2, len(gold) - 1)]
    yield Labelled("cut short", (INCOMPLETE,), rng.choice(("", "The answer is ")) + cut)
    key = row.question.partition(" for ")[2].split()[0].strip(",")
    if params.value_type != params.key_type:
        yield Labelled("names the key only", (OTHER,), say([key]))
    if params.haystack in ("essays", "noise"):
        start = row.context.index("\n") + 400
        copy = row.context[start : start + 150]
        if not NEEDLE.search(row.context[start - 80 : start + 230]):
            yield Labelled("context copied", (OTHER,), copy)
    if others:
        yield Labelled("other needle", (CONTEXT,), say(others[:1]))
        yield Labelled("other needle", (CONTEXT,), say(others[-1:]))
        yield Labelled("other needle", (CONTEXT,), f"One of the special things is: {others[0]}")
        yield Labelled("all others listed", (CONTEXT,), say(others[:9]))
    if others and params.value_type == "numbers":
        yield Labelled("other needle, grouped", (CONTEXT,), say([f"{int(others[0]):,}"]))
    if len(row.outputs) > 1:
        parts = _parts(row, rng)
        yield Labelled("part", (INCOMPLETE,), say(parts))
        yield Labelled("part, repeated", (INCOMPLETE,), say(parts * 3))
        yield Labelled("part, and invented", (ABSENT,), say([*parts, invented[0]]))
        if others:
            yield Labelled("part, and another", (CONTEXT,), say([*parts, others[0]]))


def _codes(number: int, row: Row, rng: random.Random) -> list[str]:
    found: list[str] = []
    while len(found) < number:
        code = "".join(rng.choices("ABCDEFGHIJKLMNOPQRSTUVWXYZ", k=5))
        if code not in row.context:
            found.append(code)
    return found


def _example(row: Row) -> list[str]:
    """Return the answer of the in-context example."""
    text = row.context[: row.context.index(row.context[:40], 40)].rpartition(":")[2]
    return re.findall(r"[A-Za-z-]+", text)


def _vt(row: Row, _task: Task, half: int, rng: random.Random) -> Iterator[Labelled]:
    say = _Say(half, rng)
    yield from _right(row, half, rng, "names")
    codes = _codes(5, row, rng)
    number = re.search(r"value (\d+)", row.question)
    assert number
    parts = _parts(row, rng)
    yield Labelled("invented names", (ABSENT,), say(codes))
    yield Labelled("invented name", (ABSENT,), say(codes[:1]))
    yield Labelled("example copied", (COPIED,), say(_example(row)))
    yield Labelled("part", (INCOMPLETE,), say(parts))
    yield Labelled("part", (INCOMPLETE,), say([f"VAR {part}" for part in parts]))
    yield Labelled("part, lower case", (INCOMPLETE,), say([part.lower() for part in parts]))
    yield Labelled("part, and invented", (ABSENT,), say([*parts, codes[0]]))
    yield Labelled("names the value only", (OTHER,), say([number[1]]))
    yield Labelled("all, and invented", (EXTRA,), say([*row.outputs, codes[1]]))
    yield Labelled("cut short", (INCOMPLETE,), row.outputs[0][:3])
    start = row.context.index("The grass is green", len(row.context) // 2)
    copy = row.context[start : start + 120]
    if "VAR" not in copy:
        yield Labelled("context copied", (OTHER,), copy)
    begin = row.context.index(row.context[:40], 40)
    names = set(re.findall(r"VAR ([A-Z]{5})\b", row.context[begin:])) - set(row.outputs)
    if names:
        others = rng.sample(sorted(names), min(5, len(names)))
        yield Labelled("another chain", (CONTEXT,), say(others))
        yield Labelled("part, and another", (CONTEXT,), say([*parts, others[0]]))


def _words(row: Row, task: Task, half: int, rng: random.Random) -> Iterator[Labelled]:
    say = _Say(half, rng)
    yield from _right(row, half, rng, "")
    yield from (Labelled("right, counted", (None,), form(list(row.outputs)))
                for form in COUNTS[half::2])  # fmt: skip
    if task.params.family == "cwe":
        body = row.context[row.context.index(row.context[:40], 40) :]
        words = re.findall(r"\d+\. ([a-z]+)(?= )", body)
        example = _example(row)
        yield Labelled("example copied", (COPIED,), say(example))
        yield Labelled("example in part", (COPIED,), say(example[:6]))
        invented: Sequence[str] = INVENTED[half::2]
    else:
        words = re.findall(r"\b[a-z]{6}\b", row.context.partition("coded words. ")[2])
        invented = [code.lower() + "q" for code in _codes(3, row, rng)]
    wrong = [word for word in dict.fromkeys(words) if word not in row.outputs]
    wrong = rng.sample(wrong, min(len(row.outputs), len(wrong)))
    parts = _parts(row, rng)
    yield Labelled("part", (INCOMPLETE,), say(parts))
    yield Labelled("part, counted", (INCOMPLETE,), rng.choice(COUNTS[half::2])(parts))
    yield Labelled("part, repeated", (INCOMPLETE,), say(parts * 2))
    yield Labelled("rare words", (CONTEXT,), say(wrong))
    yield Labelled("rare words in prose", (CONTEXT,),
                   f"The most common words in the above list are {', '.join(wrong)}.")  # fmt: skip
    yield Labelled("rare words, counted", (CONTEXT,), rng.choice(COUNTS[half::2])(wrong))
    yield Labelled("part, and rare", (CONTEXT,), say([*parts, *wrong[: len(parts)]]))
    yield Labelled("invented words", (ABSENT,), say(invented))
    yield Labelled("invented words, counted", (ABSENT,), rng.choice(COUNTS[half::2])([*invented]))
    yield Labelled("part, and invented", (ABSENT,), say([*parts[:2], *invented[:3]]))
    yield Labelled("numbers only", (OTHER,), "30, 28, 27")
    yield Labelled("all, and rare", (EXTRA,), say([*row.outputs, *wrong]))


def _documents(row: Row) -> tuple[list[str], list[str]]:
    """Return the gold documents and the others."""
    gold = [row.context[span.start : span.end] for span in row.evidence]
    texts = [text.strip() for text in re.split(r"Document \d+:\n", row.context)[1:]]
    others = [text for text in texts if not any(one.strip() in text for one in gold)]
    return gold, others


_NAME = re.compile(r"(?<=[a-z,] )[A-Z][a-z]+(?: [A-Z][a-z]+)+|\b\d{4}\b|\b\d{1,3}(?:,\d{3})+\b")


def _qa(row: Row, _task: Task, half: int, rng: random.Random) -> Iterator[Labelled]:
    say = _Say(half, rng)
    for text in say.all_forms(row.outputs[:1]):
        yield Labelled("right", (None,), text)
    polar = {output.lower() for output in row.outputs} & {"yes", "no"}
    if polar:
        wrong = "no" if polar == {"yes"} else "yes"
        yield Labelled("wrong yes or no", (CONTEXT,), rng.choice(["{}", "{}."]).format(wrong))
        return
    for text in rng.sample(INVENTIONS[half::2], 4):
        yield Labelled("invented answer", (ABSENT,), say([text]))
    for text in rng.sample(LONG_INVENTIONS[half::2], 3):
        yield Labelled("long invented answer", (ABSENT,), text)
    gold, others = _documents(row)
    asked = row.question.lower()

    def usable(name: str) -> bool:
        low = name.lower()
        return low not in asked and not any(
            output.lower() in low or low in output.lower() for output in row.outputs
        )

    inside = [name for text in gold for name in _NAME.findall(text) if usable(name)]
    outside = [name for text in others for name in _NAME.findall(text)
               if usable(name) and not any(name in one for one in gold)]  # fmt: skip
    for name in rng.sample(inside, min(2, len(inside))):
        yield Labelled("gold document", (CONTEXT,), say([name]))
    for name in rng.sample(outside, min(3, len(outside))):
        yield Labelled("other document", (CONTEXT,), say([name]))
        yield Labelled("other document, two lines", (CONTEXT,),
                       f"{name}\nThis is what the documents say about it.")  # fmt: skip
        yield Labelled("refusal that names", (REFUSAL,),
                       f"The documents mention {name}, but they do not say this.")  # fmt: skip
        text = next(text for text in others if name in text)
        sentences = [part for part in re.split(r"(?<=\.)\s+", text) if len(part) > 50]
        if sentences:
            copy = rng.choice(sentences)
            if not any(output.lower() in copy.lower() for output in row.outputs):
                yield Labelled("sentence of another document", (CONTEXT,), copy)
