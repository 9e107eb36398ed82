"""Answers of known label: what exact scores and labels of failures are measured on.

`labelled_answers.yaml` holds them, those of suites and those that fit any row. Where an entry has
no context, they are answers to rows of the sample corpus, and ⟨…⟩ is what such a row has:

    ⟨g1⟩ ⟨g1:4⟩ ⟨G1⟩      a gold answer, its first characters, in capitals
    ⟨g1,⟩ ⟨g.⟩            a number grouped by commas, the first one by points
    ⟨g-⟩ ⟨g_⟩             the first one without hyphens, with others in their place
    ⟨all⟩ ⟨all,⟩          all gold answers
    ⟨o1⟩ ⟨x1⟩ ⟨e1⟩        another of the context, one that is in no context, one of the example
    ⟨k⟩ ⟨it⟩ ⟨one⟩        the key that is asked for, what is asked for in full and in short
"""

import random
import re
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import yaml

from ruler_data import TASKS, Row
from ruler_data.suites import packaged
from ruler_data.tasks import Niah, Task
from tests.rows import make

FILE = Path(__file__).parent / "labelled_answers.yaml"
RIGHT = "none"
NEEDLE = re.compile(r"special magic \w+ for ([\w-]+) is: ([\w-]+)\.")
ASKED = {
    "vt": ("the variables with that value", "variable"),
    "cwe": ("the most common words", "list"),
    "fwe": ("the three most frequent coded words", "coded text"),
    "qa": ("the answer to the question", "answer"),
}


class Labelled(NamedTuple):
    """An answer to a row with its label; `none` for a right answer that names nothing else."""

    row: Row
    task: Task
    label: str
    answer: str


def labelled_answers() -> Iterator[Labelled]:
    """Yield all answers."""
    body = yaml.safe_load(FILE.read_text("utf-8"))
    tasks = {name: one for suite in packaged().values() for name, one in suite.tasks.items()}
    for number, entry in enumerate(body["answers"]):
        task = tasks[entry["task"]]
        texts = [(label, text) for label, some in entry["answers"].items() for text in some]
        for place, (label, text) in enumerate(texts):
            if "context" in entry:
                gold = tuple(entry["outputs"])
                row = Row(
                    0, task.name, entry["context"], entry["question"], "", gold, 128, 4096, ()
                )
            else:
                row = make("mistral", task.name, (number + place) % 7, 2048)
                text = filled(text, row, task)
            yield Labelled(row, task, label, text)
    for task in TASKS.values():
        row = make("mistral", task.name, 1, 2048)
        more = body["qa"] if task.params.family == "qa" else {}
        for label, text in [
            *((label, text) for label, some in body["everywhere"].items() for text in some),
            *((label, text) for label, some in more.items() for text in some),
            *((RIGHT, text) for text in in_every_form(body, row.outputs, task)),
            *((label, text) for label, values in wrong_values(row, task)
              for text in in_every_form(body, values, task)),
        ]:  # fmt: skip
            yield Labelled(row, task, label, filled(text, row, task))


def in_every_form(body: dict[str, Any], values: Sequence[str], task: Task) -> Iterator[str]:
    """Yield values as answers give them: one alone, several as a list, words with counts."""
    if len(values) == 1 or task.metric == "part":
        yield from (frame.replace("⟨g⟩", values[0]) for frame in body["frames"])
        return
    counted = body["counts"] if task.params.family in ("cwe", "fwe") else []
    for head, item, join, tail in [*body["lists"], *counted]:
        items = (item.format(item=one, n=n) for n, one in enumerate(values, 1))
        yield f"{head}{join.join(items)}{tail}"


def wrong_values(row: Row, task: Task) -> Iterator[tuple[str, list[str]]]:
    """Yield labels with values that earn them."""
    if len(row.outputs) > 2 and task.metric == "all":
        yield "incomplete", [*row.outputs[:-1]]
    if isinstance(task.params, Niah):
        yield "not in the context", ["⟨x1⟩"]
        if row.context.count("special magic") > 10:
            yield "wrong, from the context", ["⟨o1⟩"]
    if task.params.family in ("cwe", "fwe"):
        yield "wrong, from the context", ["⟨o1⟩", "⟨o2⟩", "⟨o3⟩"]


def filled(text: str, row: Row, task: Task) -> str:
    """Return a text with what the row has in its places."""
    rng, gold, family = random.Random(text), row.outputs, task.params.family
    others: list[str] = []
    invented: list[str] = []
    example: list[str] = []
    it, one = ASKED.get(family, ("", ""))
    key = ""
    if isinstance(task.params, Niah):
        kind = task.params.value_type
        key = row.question.partition(" for ")[2].split()[0].strip(",")
        it, one = f"the special magic {kind[:-1]} for {key}", kind[:-1]
        others = [match[2] for match in NEEDLE.finditer(row.context)]
        uuids = ["-".join(f"{rng.getrandbits(4 * n):0{n}x}" for n in (8, 4, 4, 4, 12))
                 for _ in range(4)]  # fmt: skip
        invented = uuids if kind == "uuids" else [str(rng.randrange(10**6, 10**7)) for _ in uuids]
    elif family in ("vt", "cwe"):
        start = row.context.index(row.context[:40], 40)
        example = re.findall(r"[A-Za-z-]+", row.context[:start].rpartition(":")[2])
        pattern = r"VAR ([A-Z]{5})\b" if family == "vt" else r"\d+\. ([a-z]+)(?= )"
        others = re.findall(pattern, row.context[start:])
    elif family == "fwe":
        others = re.findall(r"\b[a-z]{6}\b", row.context.partition("coded words. ")[2])
    others = sorted({*others} - {*gold, *example})
    rng.shuffle(others)

    def value(match: re.Match[str]) -> str:
        name, number, rest = re.fullmatch(r"([a-zA-Z]+)(\d*)(.*)", match[1]).groups()  # type: ignore[union-attr]
        if name in ("k", "it", "one"):
            return {"k": key, "it": it, "one": one}[name]
        if name == "all":
            return "; ".join(f"{int(g):,}" for g in gold) if rest else ", ".join(gold)
        some = {"o": others, "x": invented, "e": example}.get(name, gold)[int(number or 1) - 1]
        if rest.startswith(":"):
            return some[: int(rest[1:])]
        if rest in ("-", "_", "\\_"):
            return some.replace("-", rest.strip("-"))
        some = some.upper() if name == "G" else some
        return f"{int(some):,}".replace(",", rest) if rest else some

    return re.sub(r"⟨(.+?)⟩", value, text)
