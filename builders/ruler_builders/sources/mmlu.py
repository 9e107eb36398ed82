r"""MMLU: questions of multiple choice, as RULER v2 hides them.

    {"split": "test", "question": "...", "choices": ["...", 3 more], "answer": 1}

One JSON object a line; the columns are those of the dataset cais/mmlu with the split added. Rows
query questions of the split `test`. The haystack is of `auxiliary_train`, as in NeMo-Skills;
without that split it is of `dev` and of every second question of `test`, which no row queries.
"""

import json
import re
from collections import Counter
from dataclasses import dataclass
from pathlib import Path

from ruler_builders.sources.text_files import check_text, read_text
from ruler_data.errors import RulerError

LETTERS = "ABCD"
#: Most characters of a question with its choices: half of MMLU. Upstream takes any, up to 4,858
#: characters, which leaves no room for copies of them in an answer.
LONGEST = 300


@dataclass(frozen=True)
class Choice:
    """A question with its four choices in one line, and the letter of the right one."""

    text: str
    letter: str


@dataclass(frozen=True)
class ChoiceQuestions:
    """Questions that rows query, and questions of the haystack."""

    queries: tuple[Choice, ...]
    haystack: tuple[Choice, ...]


def read_choices(path: Path) -> tuple[ChoiceQuestions, str]:
    """Return the questions of a file, and where its haystack is from.

    Left out are questions that are too long, that occur twice, or that have two equal choices.

    Raises:
        RulerError: a line is not in the format, or there are too few questions.
    """
    by_split: dict[str, list[Choice]] = {}
    for number, line in enumerate(read_text(path).strip("\n").split("\n"), start=1):
        try:
            record = json.loads(line)
            first, second, third, fourth = choices = [str(choice) for choice in record["choices"]]
            letter = LETTERS[record["answer"]]
            raw = f"{record['question']}\nA. {first}\nB. {second}\nC. {third}\nD. {fourth}"
            split = str(record["split"])
        except (KeyError, TypeError, IndexError, ValueError) as error:
            problem = f"not in the format of MMLU ({type(error).__name__}: {error})"
            msg = f"{path.name}:{number}: {problem}"
            raise RulerError(msg) from error
        text = re.sub(r"\s+", " ", check_text(raw, path.name)).strip()
        distinct = {choice.strip().lower() for choice in choices}
        if len(text) <= LONGEST and len(distinct) == len(choices):
            by_split.setdefault(split, []).append(Choice(text, letter))
    often = Counter(choice.text for choices in by_split.values() for choice in choices)
    unique = {
        split: [choice for choice in choices if often[choice.text] == 1]
        for split, choices in by_split.items()
    }
    queries, haystack = unique.get("test", []), unique.get("auxiliary_train", [])
    detail = "haystack: auxiliary_train"
    if not haystack:
        queries, haystack = queries[::2], queries[1::2] + unique.get("dev", [])
        detail = "haystack: questions of test and dev that are not asked for"
    if min(len(queries), len(haystack)) < FEWEST:
        msg = (
            f"{path.name}: {len(queries)} questions to ask for and {len(haystack)} of the haystack"
        )
        msg += f" are too few; at least {FEWEST} of each, of at most {LONGEST} characters"
        raise RulerError(msg)
    return ChoiceQuestions(tuple(queries), tuple(haystack)), detail


#: Fewest questions of each kind: a row needs five examples, and four questions for one label.
FEWEST = 20
