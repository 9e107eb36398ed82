"""Wrong answers of known cause, made from real rows: what the failure kinds are measured on.

The wordings were written by hand before the patterns of `ruler_report.failures`. Every list has
two halves, by parity of the place: the patterns were written with `half=0`; `half=1` was held out
(benchmarks/results/failures.md says how far). `benchmarks/failures.py` prints how often a kind is
right.

    cause                   answer                                        kind
    "invented value"        "The number is 5530718."                      not in the context
    "part, and invented"    "9976233, 5530718"                            not in the context
"""

import random
import re
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from ruler_data import Row
from ruler_data.tasks import Niah, Task


class Wrong(NamedTuple):
    """A wrong answer; `kinds` are the right ones, of which the first is the most exact."""

    cause: str
    kinds: tuple[str, ...]
    answer: str


#: `{it}` is what is asked for, `{one}` its short name.
REFUSALS = (
    "I couldn't find {it} in the text.",
    "The text does not mention {it}.",
    "There is not enough information to answer.",
    "There is no {one} like that in the passage.",
    "I don't know.",
    "I do not know {it}.",
    "Sorry, but I can't find that.",
    "The provided text doesn't contain {it}.",
    "It isn't mentioned anywhere in the documents.",
    "I was unable to locate {it}.",
    "No such {one} appears in the text.",
    "Based on the text, it is impossible to determine {it}.",
    "The passage says nothing about {it}.",
    "I can't answer that from what I was given.",
    "Unfortunately, {it} could not be found.",
    "This information is not available in the given context.",
    "None of the documents state this.",
    "I'm not able to find {it}.",
    "The answer cannot be determined from the text.",
    "I have no idea.",
    "The context provided does not include {it}.",
    "Not mentioned.",
    "That detail is never given.",
    "Not stated in the text.",
    "I apologize, but I don't see {it} in what you sent.",
    "It's unclear from the passage.",
    "I do not have access to the text you are referring to.",
    "I don't have enough context to say.",
    "As a language model, I cannot recall {it}.",
    "I'm afraid the text gives no {one}.",
    "The question cannot be answered with the information above.",
    "The given text lacks any mention of {it}.",
    "We are not told {it}.",
    "You have not provided any text.",
    "Nothing in the text tells me {it}.",
    "I see no reference to {it}.",
    "The documents don't say.",
    "Could not find it.",
    "There isn't any {one} in the text that matches.",
    "There are no details about {it}.",
    "Insufficient information.",
    "I looked through the whole text and found no {one} of that kind.",
    "My apologies, I am unable to help with that.",
    "I can not provide an answer to this question.",
    "It does not appear to be specified.",
    "The text never specifies {it}.",
    "I am not sure, the text does not say.",
    "It is not possible to tell from the text.",
    "No information was given on {it}.",
    "The text you shared seems to be missing {it}.",
    "I'm sorry, I cannot see {it}.",
    "Hmm, I am not certain; I did not notice {it}.",
    "No mention is made of {it} in the provided text.",
    "Neither document provides {it}.",
    "There doesn't seem to be {it} here.",
    "I failed to find {it}.",
    "The text contains no {one} for this.",
    "I don't see any {one} there.",
    "{it}: not found.",
    "It wasn't given.",
)
#: Only for development.
MORE_REFUSALS = (
    "The passage omits this.", "This question is outside the scope of the documents.",
    "I must decline.", "Cannot say.", "Dunno.", "No clue.", "I haven't found it.",
    "It is nowhere to be found.", "Information about this is absent.", "I can't tell.",
    "Unable to answer", "The text is silent on this.", "Not enough context.",
    "I would need more information.", "More context is needed to answer.", "It's hard to say.",
    "The document only discusses other topics.", "I won't answer this.",
    "We don't have that information.", "I was not given the text.", "Please provide the text.",
    "Could you provide the documents?", "The answer is not here.", "Nope, nothing.",
    "no answer found", "Answer: none", "There are none.", "No variables are assigned this value.",
    "0 variables.", "There is no special magic number for that mentioned in the provided text.",
    "No relevant information", "None were found", "I could not see any.", "Sorry, no.", "I'm sorry",
    "Cannot be determined", "Can't determine.", "information not provided",
    "The special magic number is not in the text.", "the text doesn't say",
    "I do not have this information", "no.", "The variables are not listed.",
    "Nothing was assigned that value.", "It was not revealed.", "I'm unable to process the text.",
    "It remains unknown.", "unknown to me", "The correct answer is unknown.",
    "This isn't something the documents cover.", "No such word appears.", "I didn't find any.",
    "There were no words.", "I am unable to count them.", "I can't count the words.",
    "I lack the information.", "The context doesn't reveal it", "unclear", "Not applicable",
    "NOT FOUND", "<unk>", "I would have to guess.", "Without the text I cannot answer.",
    "The answer isn't in the documents.", "Nobody knows.", "The data does not support an answer.",
    "The documents are about something else.",
)  # fmt: skip
#: Of the half that was held out.
HELD_OUT_REFUSALS = (
    "That's something I wasn't told.", "It would take another document to answer this.",
    "The author leaves this out.", "Search came up empty.", "Zero matches.",
    "There's no way to know.", "I must admit I overlooked it.",
    "Such a thing is absent from the text.", "The source is mute about it.",
    "I regret that I can't say.", "Can you share the text again?", "You'd have to look elsewhere.",
    "It's not in there.", "I draw a blank.", "Nowhere does it say.", "That cannot be inferred.",
    "The text skips this.", "Data not available.", "I got nothing.",
    "The relevant part is not included.", "Undetermined", "Answer not found in context.",
    "I'd only be guessing.", "We can't know from this.", "The request can't be fulfilled.",
    "The material provided is silent about {it}.", "{it}? I never saw it.",
    "I have been given no text.", "No result.", "It was left unsaid.",
)  # fmt: skip
BARE_REFUSALS = ("None.", "N/A", "Unknown.", "Not found", "Unanswerable", "not specified",
                 "Nothing.", "No answer", "No information.", "unknown", "n/a",
                 "(none)")  # fmt: skip
POLITE = (
    "I'm sorry, but after reading the text carefully I wasn't able to find {it}. If you can share "
    "the relevant part again, I'd be glad to look once more.",
    "Thank you for the text. I searched it from beginning to end, however, {it} does not seem to "
    "occur in it. Please check the text and ask me again.",
    "I understand that you want {it}. The text talks about other things and does not give it. Is "
    "there another text?",
    "You asked for {it}.\n\nThere is nothing about this in the text that you provided.",
    "Let me think. The text is long and I have gone through it. I could not identify {it}.",
    "Unfortunately I can't help here: the text that I see ends before it gets to {it}, so I don't "
    "have what is needed to reply.",
)
#: `{}` holds values.
FRAMES = (
    "{}",
    "The answer is {}.",
    "**{}**",
    "I think it is {}, but please check.",
    "According to the text: {}",
    "Sure! Here is what I found: {}",
    "{}.",
    "Answer: {}",
    "\\boxed{{{}}}",
    'It says "{}".',
    "`{}`",
    "After reading the text, I would say {}",
)
LISTS = (
    lambda items: ", ".join(items),
    lambda items: "\n".join(f"{n}. {item}" for n, item in enumerate(items, 1)),
    lambda items: "\n".join(f"- {item}" for item in items),
    lambda items: " ".join(items),
    lambda items: " and ".join([", ".join(items[:-1]), items[-1]]) if items[1:] else items[0],
    lambda items: "\n".join(f"* **{item}**" for item in items),
    lambda items: "; ".join(f"{n}) {item}" for n, item in enumerate(items, 1)),
    lambda items: "[" + ", ".join(f"'{item}'" for item in items) + "]",
)
CHATTER = (
    "Sure! I will read the text and answer your question.",
    "Let me look at this step by step.",
    "Okay, I have memorized it. What would you like to know?",
    "Of course. Please give me a moment to go through the text.",
    "This is a great question!",
    "To answer this question, we need to read the text carefully.",
    "I have read the text. Please ask your question.",
    "Thank you for sharing this text with me.",
)
SILENT = ("", "...", "**", "-", "\\boxed{}", "1.", '""', "```\n```", "____", "\u2026")
LOOPS = ("the the the the the the the the", "and and and and and and", "is is is is is is is",
         "of the of the of the of the")  # fmt: skip
#: Words that no list of the builder has, and that no text here has either.
INVENTED = ("zorbulent", "quaxification", "mirtlewick", "flombard", "snorvelling", "drixotic",
            "ploverage", "wumbling", "kestiform", "yantricle", "brindlesome",
            "ogglethorn")  # fmt: skip
#: Short answers that occur in no document.
INVENTIONS = ("Zanzibar Quillfeather", "the Ottoverian League", "Baron Ploxwick", "47.03 furlongs",
              "Quetzalia Brumm", "Port Mumbleton", "the Snorvell Accord", "31 Febtober 2187",
              "Dr. Wexbert Oonagh", "Lake Trombulon")  # fmt: skip
LONG_INVENTIONS = (
    "The answer is Zanzibar Quillfeather, who is said to have done so in the year 2187 after a "
    "long quarrel with the Ottoverian League.",
    "It was Baron Ploxwick of Port Mumbleton who first proposed it, and the Snorvell Accord was "
    "signed there two years later.",
    "Zanzibar Quillfeather\n\nThis is known from the letters of Baron Ploxwick.",
    "Lake Trombulon.\nExplanation: the lake gave its name to the whole region in 2187.",
    "Based on the documents, the correct answer would be Quetzalia Brumm, since she is the only "
    "person who ever lived in Port Mumbleton.",
    "In my opinion this refers to Dr. Wexbert Oonagh, a Trombulonian painter.",
    "It was not the king but Baron Ploxwick who gave the order.",
    "There was no war; Zanzibar Quillfeather signed the Snorvell Accord without a fight.",
    "Without the help of Quetzalia Brumm nobody would have known it.",
    "The Ottoverian League, which never had more than 31 members in 2187.",
    "because of an embargo on pickled turnips",
    "a purple submarine with nine velvet oars",
)


def wrong_answers(row: Row, task: Task, half: int) -> Iterator[Wrong]:
    """Yield wrong answers to a row, with cause and right kind; one half of the wordings."""
    for wrong in _every_wrong(row, task, half):
        said = wrong.answer.lower()  # a sentence may name a gold answer such as `7` by chance
        if task.metric == "all" or not any(output.lower() in said for output in row.outputs):
            yield wrong


def _every_wrong(row: Row, task: Task, half: int) -> Iterator[Wrong]:
    rng = random.Random(f"{task.name}/{row.index}/{half}")
    it, one = _asked(row, task)

    def some(options: Sequence[str], number: int) -> list[str]:
        mine = options[half::2]
        return rng.sample(list(mine), min(number, len(mine)))

    for text in some([text for text in SILENT if text != "1." or task.metric == "all"], 2):
        yield Wrong("silent", ("empty",), text)
    for text in some(REFUSALS, 6):
        yield Wrong("refusal", ("refusal",), _capital(text.format(it=it, one=one)))
    for text in rng.sample((MORE_REFUSALS, HELD_OUT_REFUSALS)[half], 4):
        yield Wrong("terse refusal", ("refusal",), _capital(text.format(it=it, one=one)))
    for text in some(POLITE, 1):
        yield Wrong("polite refusal", ("refusal",), text.format(it=it, one=one))
    for text in some(BARE_REFUSALS, 2):
        yield Wrong("bare refusal", ("refusal",), text)
    for text in some(CHATTER, 1):
        yield Wrong("chatter", ("other",), text)
    for text in some(LOOPS, 1):
        yield Wrong("loop", ("other",), text)
    yield Wrong("question repeated", ("other",), row.question.rpartition("Question: ")[2])
    family = {"niah": _niah, "vt": _vt, "cwe": _words, "fwe": _words, "qa": _qa}
    yield from family[task.params.family](row, task, half, rng)


def _capital(text: str) -> str:
    return text[:1].upper() + text[1:]


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
    """Puts values into sentences and lists of one half."""

    def __init__(self, half: int, rng: random.Random) -> None:
        self._half, self._rng = half, rng

    def __call__(self, values: Sequence[str]) -> str:
        listed = self._rng.choice(LISTS[self._half :: 2])(list(values))
        if "\n" in listed or len(values) > 1:
            return self._rng.choice(("", "Here they are:\n", "I found these:\n")) + listed
        return self._rng.choice(FRAMES[self._half :: 2]).format(values[0])


def _parts(row: Row, rng: random.Random) -> list[str]:
    """Return some of the gold answers, not all."""
    return rng.sample(row.outputs, rng.randrange(1, len(row.outputs)))


NEEDLE = re.compile(r"special magic \w+ for ([\w-]+) is: ([\w-]+)\.")


def _invented_value(kind: str, row: Row, rng: random.Random) -> str:
    while True:
        value = {
            "numbers": str(rng.randrange(10**6, 10**7)),
            "words": f"{rng.choice(INVENTED)}-{rng.choice(INVENTED)}",
            "uuids": "-".join(f"{rng.getrandbits(4 * n):0{n}x}" for n in (8, 4, 4, 4, 12)),
        }[kind]
        if value not in row.context:
            return value


def _niah(row: Row, task: Task, half: int, rng: random.Random) -> Iterator[Wrong]:
    params = task.params
    assert isinstance(params, Niah)
    say = _Say(half, rng)
    values = [str(match[2]) for match in NEEDLE.finditer(row.context)]
    others = [value for value in values if value not in row.outputs]
    some = rng.sample(others, min(5, len(others)))
    if some:
        yield Wrong("all, and others", ("more than the gold answers",), say([*some, *row.outputs]))
    invented = [_invented_value(params.value_type, row, rng) for _ in range(5)]
    gold = row.outputs[0]
    yield Wrong("invented value", ("not in the context",), say(invented[:1]))
    yield Wrong("invented value", ("not in the context",), say(invented[1:2]))
    yield Wrong("invented values", ("not in the context",), say(invented))
    if params.value_type != "words":
        place = rng.randrange(2, 6)
        swapped = next(digit for digit in "123456789" if digit != gold[place])
        typo = gold[:place] + swapped + gold[place + 1 :]
        if typo not in row.context:
            yield Wrong("one digit wrong", ("not in the context",), say([typo]))
    cut = gold[: rng.randrange((len(gold) + 1) // 2, len(gold) - 1)]
    yield Wrong("cut short", ("answer cut short",), rng.choice(("", "The answer is ")) + cut)
    key = row.question.partition(" for ")[2].split()[0].strip(",")
    if params.value_type != params.key_type:
        yield Wrong("names the key only", ("other",), say([key]))
    if params.haystack in ("essays", "noise"):
        start = row.context.index("\n") + 400
        copy = row.context[start : start + 150]
        if not NEEDLE.search(row.context[start - 80 : start + 230]):
            yield Wrong("context copied", ("copied from the context",), copy)
    if others:
        far, near = _far_and_near(row, values)
        kinds = ("wrong needle",)
        yield Wrong("other needle", kinds, say([far]))
        yield Wrong("other needle", kinds, f"One of the special magic things is: {far}")
        if near:
            yield Wrong("needle nearby", ("wrong needle, nearby",), say([near]))
        if len(others) < 10:
            yield Wrong("all others listed", kinds, say(others))
    if len(row.outputs) > 1:
        parts = _parts(row, rng)
        yield Wrong("part", ("incomplete set",), say(parts))
        yield Wrong("part, repeated", ("incomplete set",), say(parts * 3))
        yield Wrong("part, and invented", ("not in the context",), say([*parts, invented[0]]))
        if others:
            yield Wrong("part, and another", ("wrong needle",), say([*parts, others[0]]))


def _far_and_near(row: Row, values: list[str]) -> tuple[str, str]:
    """Return a value far from the gold one, and one nearby in a haystack of many needles."""
    others = [value for value in values if value not in row.outputs]
    if len(values) < 30:
        return others[0], ""
    place = values.index(row.outputs[0])
    return values[(place + len(values) // 2) % len(values)], values[max(place - 2, 0) or place + 2]


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


def _vt(row: Row, _task: Task, half: int, rng: random.Random) -> Iterator[Wrong]:
    say = _Say(half, rng)
    codes = _codes(5, row, rng)
    number = re.search(r"value (\d+)", row.question)
    assert number
    parts = _parts(row, rng)
    yield Wrong("invented names", ("not in the context",), say(codes))
    yield Wrong("invented name", ("not in the context",), say(codes[:1]))
    yield Wrong("example copied", ("copied from the example",), say(_example(row)))
    yield Wrong("part", ("incomplete set",), say(parts))
    yield Wrong("part", ("incomplete set",), say([f"VAR {part}" for part in parts]))
    yield Wrong("part, lower case", ("incomplete set",), say([part.lower() for part in parts]))
    yield Wrong("part, and invented", ("not in the context",), say([*parts, codes[0]]))
    yield Wrong("names the value only", ("other",), say([number[1]]))
    yield Wrong("all, and invented", ("more than the gold answers",), say([*row.outputs, codes[1]]))
    yield Wrong("cut short", ("answer cut short",), row.outputs[0][:3])
    start = row.context.index("The grass is green", len(row.context) // 2)
    copy = row.context[start : start + 120]
    if "VAR" not in copy:
        yield Wrong("context copied", ("copied from the context",), copy)
    begin = row.context.index(row.context[:40], 40)
    names = set(re.findall(r"VAR ([A-Z]{5})\b", row.context[begin:])) - set(row.outputs)
    if names:
        others = rng.sample(sorted(names), min(5, len(names)))
        yield Wrong("another chain", ("other variables",), say(others))
        yield Wrong("part, and another", ("other variables",), say([*parts, others[0]]))


def _words(row: Row, task: Task, half: int, rng: random.Random) -> Iterator[Wrong]:
    say = _Say(half, rng)
    if task.params.family == "cwe":
        body = row.context[row.context.index(row.context[:40], 40) :]
        words = re.findall(r"\d+\. ([a-z]+)(?= )", body)
        example = _example(row)
        yield Wrong("example copied", ("copied from the example",), say(example))
        yield Wrong("example in part", ("copied from the example",), say(example[:6]))
        invented: Sequence[str] = INVENTED[half::2]
    else:
        words = re.findall(r"\b[a-z]{6}\b", row.context.partition("coded words. ")[2])
        invented = [code.lower() + "q" for code in _codes(3, row, rng)]
    wrong = [word for word in dict.fromkeys(words) if word not in row.outputs]
    wrong = rng.sample(wrong, min(len(row.outputs), len(wrong)))
    parts = _parts(row, rng)
    yield Wrong("part", ("incomplete set",), say(parts))
    yield Wrong("part, repeated", ("incomplete set",), say(parts * 2))
    yield Wrong("rare words", ("miscounted",), say(wrong))
    yield Wrong("rare words in prose", ("miscounted",),
                f"The most common words in the above list are {', '.join(wrong)}.")  # fmt: skip
    yield Wrong("rare words, counted", ("miscounted",),
                "\n".join(f"{n}. {word} ({30 - n} times)"
                          for n, word in enumerate(wrong, 1)))  # fmt: skip
    yield Wrong("part, and rare", ("miscounted",), say([*parts, *wrong[: len(parts)]]))
    yield Wrong("invented words", ("not in the context",), say(invented))
    yield Wrong("part, and invented", ("not in the context",), say([*parts[:2], *invented[:3]]))
    yield Wrong("numbers only", ("other",), "30, 28, 27")
    yield Wrong("all, and rare", ("more than the gold answers",), say([*row.outputs, *wrong]))


def _documents(row: Row) -> tuple[list[str], list[str]]:
    """Return the gold documents and the others."""
    gold = [row.context[span.start : span.end] for span in row.evidence]
    texts = [text.strip() for text in re.split(r"Document \d+:\n", row.context)[1:]]
    others = [text for text in texts if not any(one.strip() in text for one in gold)]
    return gold, others


_NAME = re.compile(r"(?<=[a-z,] )[A-Z][a-z]+(?: [A-Z][a-z]+)+|\b\d{4}\b|\b\d{1,3}(?:,\d{3})+\b")


def _qa(row: Row, _task: Task, half: int, rng: random.Random) -> Iterator[Wrong]:
    say = _Say(half, rng)
    polar = {output.lower() for output in row.outputs} & {"yes", "no"}
    if polar:
        wrong = "no" if polar == {"yes"} else "yes"
        yield Wrong(
            "wrong yes or no", ("wrong yes or no",), rng.choice(["{}", "{}."]).format(wrong)
        )
        return
    for text in rng.sample(INVENTIONS[half::2], 2):
        yield Wrong("invented answer", ("not in the context",), say([text]))
    for text in rng.sample(LONG_INVENTIONS[half::2], 3):
        yield Wrong("long invented answer", ("not in the context",), text)
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
    if inside:
        yield Wrong(
            "gold document", ("wrong part of the gold document",), say([rng.choice(inside)])
        )
    if outside:
        name = rng.choice(outside)
        yield Wrong("other document", ("from another document",), say([name]))
        yield Wrong("other document, two lines", ("from another document",),
                    f"{name}\nThis is what the documents say about it.")  # fmt: skip
        text = next(text for text in others if name in text)
        sentences = [part for part in re.split(r"(?<=\.)\s+", text) if len(part) > 50]
        if sentences:
            copy = rng.choice(sentences)
            if not any(output.lower() in copy.lower() for output in row.outputs):
                yield Wrong("sentence of another document", ("from another document",
                            "copied from the context"), copy)  # fmt: skip
