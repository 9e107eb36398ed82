"""One row in, one number out, in [0, 1].

    prediction                       outputs               recall   strict_recall
    "They are QZKRA and plmew."      QZKRA PLMEW           1.0      1.0
    "They are QZKRAB."               QZKRA                 1.0      0.0

`recall` and `any_of` are upstream's `string_match_all` and `string_match_part` for one row
(NVIDIA/RULER, scripts/eval/synthetic/constants.py at c3f5e3b); `clean` is its
`postprocess_pred`. The strict scores stand beside them, never instead.

Reasoning: the block before an answer that scores do not read.
"""

import re
from collections.abc import Callable, Sequence

from ruler_data.tasks import Metric

Scorer = Callable[[str, Sequence[str]], float]

_CONTROL = re.compile(r"[\x00-\x1f]")
_WORD = re.compile(r"[^\W_]+")


def clean(prediction: str) -> str:
    r"""Return a prediction as upstream scores it: control characters as line ends, stripped.

    >>> clean(" a\tb\x00 ")
    'a\nb'
    """
    return _CONTROL.sub("\n", prediction.strip()).strip()


def recall(prediction: str, outputs: Sequence[str]) -> float:
    """Return the share of the golden answers that the prediction names (niah, vt, cwe, fwe).

    Case is ignored, order and repetition do not matter, an empty prediction scores 0.

    >>> recall("They are QZKRA and plmew.", ["QZKRA", "PLMEW", "TUVXO", "ABCDE"])
    0.5
    """
    said = prediction.lower()
    return sum(output.lower() in said for output in outputs) / len(outputs)


def any_of(prediction: str, outputs: Sequence[str]) -> float:
    """Return 1 if the prediction names any golden answer, else 0 (qa).

    >>> any_of("In Paris, France.", ["paris", "the city of Paris"])
    1.0
    """
    said = prediction.lower()
    return float(any(output.lower() in said for output in outputs))


def strict_recall(prediction: str, outputs: Sequence[str]) -> float:
    """Return the share of the golden answers that stand in the prediction as whole words.

    >>> strict_recall("QZKRAB, plmew", ["QZKRA", "PLMEW"])
    0.5
    """
    said = without_reasoning(prediction)
    return sum(stands_in(said, output) for output in outputs) / len(outputs)


def strict_any_of(prediction: str, outputs: Sequence[str]) -> float:
    """Return 1 if any golden answer stands in the prediction as whole words, else 0.

    `yes` and `no` count only as the first word: both occur in almost any refusal.

    >>> strict_any_of("I do not know of any.", ["no"]), strict_any_of("No, she was not.", ["no"])
    (0.0, 1.0)
    """
    said = without_reasoning(prediction)
    first = _WORD.search(said)
    opening = first[0].lower() if first else ""
    return float(
        any(
            opening == output.lower()
            if output.lower() in ("yes", "no")
            else stands_in(said, output)
            for output in outputs
        )
    )


def stands_in(said: str, output: str) -> bool:
    """Whether an answer stands in a text with no letter, digit or hyphenated word joined to it.

    >>> stands_in("-cat", "cat"), stands_in("cat-food", "cat"), stands_in("CAT.", "cat")
    (True, False, True)
    """
    return stands_whole(said.lower(), output.lower())


def stands_whole(said: str, output: str) -> bool:
    """Whether a text stands in another as whole words, in this very case."""
    start = said.find(output)
    while start >= 0:
        end = start + len(output)
        if not (
            _is_joined(said[max(0, start - 2) : start][::-1]) or _is_joined(said[end : end + 2])
        ):
            return True
        start = said.find(output, start + 1)
    return False


def _is_joined(beside: str) -> bool:
    """Whether what stands beside a word, read away from it, makes it part of a longer one."""
    letter = beside[1:] if beside.startswith("-") else beside[:1]
    return letter.isalnum() or letter == "_"


#: The score and the strict score of a metric.
SCORERS: dict[Metric, tuple[Scorer, Scorer]] = {
    "all": (recall, strict_recall),
    "part": (any_of, strict_any_of),
}


#: How models open and close a block of reasoning (Qwen3, DeepSeek-R1 and many; Magistral; gpt-oss).
BLOCKS = (
    ("<think>", "</think>"),
    ("[THINK]", "[/THINK]"),
    ("<|channel|>analysis<|message|>", "<|channel|>final<|message|>"),
)


def without_reasoning(text: str, *, opened: bool = False) -> str:
    r"""Return what follows the reasoning.

    A block that is never closed has no answer behind it: the room ran out first.

    Args:
        text: what the model said.
        opened: whether the prompt itself opened the block (`opens_reasoning`).

    >>> without_reasoning("<think>Let me see.</think>\n\nIt is 5.")
    'It is 5.'
    >>> without_reasoning("Let me see.</think>It is 5.", opened=True)
    'It is 5.'
    >>> without_reasoning("<think>Let me see.")
    ''
    >>> without_reasoning("Let me see.", opened=True)
    ''
    >>> without_reasoning("It is 5.")
    'It is 5.'
    """
    for start, end in BLOCKS:
        if end in text:
            return text.rpartition(end)[2].lstrip()
        if text.lstrip().startswith(start):
            return ""
    return "" if opened else text


def opens_reasoning(frame: str | None) -> bool:
    r"""Whether a prompt ends inside a block of reasoning, given what it looks like.

    >>> opens_reasoning("<|im_start|>assistant\n<think>\n")
    True
    """
    return frame is not None and frame.rstrip().endswith(tuple(start for start, _ in BLOCKS))
