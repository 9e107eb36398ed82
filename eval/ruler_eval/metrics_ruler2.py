r"""The scores of RULER v2, as NVIDIA-NeMo/Skills computes them; each takes the text as generated.

    answer                                          gold answers       metric       score
    "Question 7: which gas do plants take in?"      Which gas ... in?  soft_all     1.0
    "Which gas does a plant take in?"               Which gas ... in?  soft_all     0.67
    "I choose \boxed{C}."                           C                  letter       1.0

A gold answer is matched softly: 1 if the answer contains it, otherwise one minus the word error
rate, at least 0; case is ignored. (`nemo_skills/evaluation/evaluator/ruler.py`, `mcq.py` and
`math_grader.py` at afab1e37; other commits, and the port in NVIDIA-NeMo/Gym, differ where
docs/ruler2.md says so.)
"""

import re
from collections.abc import Sequence

_DOCUMENT = re.compile(r"Document \d+:(?:.*\n)+?\n")
_FINAL = re.compile(r"The final answer is (.+)$")
_CAPITAL = re.compile(r"\b[A-Z]\b")
_LABELLED = re.compile(r"Answer[*_]{0,2}\s*:[\s*_]{0,2}\s*([A-Z])(?![a-zA-Z0-9])", re.IGNORECASE)
_BOX = "\\boxed"
#: Letters that stand for A to D in Arabic, Bengali and full-width text.
_LATIN = str.maketrans(
    {
        letter: f" {latin}"
        for letters in ("أبجد", "অবডঢ", "ＡＢＣＤ")  # noqa: RUF001 - these are meant
        for letter, latin in zip(letters, "ABCD", strict=True)
    }
)


def soft_match(answer: str, output: str) -> float:
    """Return how well an answer matches one gold answer, in [0, 1].

    >>> soft_match("the capital is Paris", "paris"), soft_match("a b x d", "a b c d")
    (1.0, 0.75)
    """
    from rapidfuzz.distance import Levenshtein

    text, gold = answer.lower(), output.lower()
    if gold in text:
        return 1.0
    words = gold.split()
    # 1 - e / n and not (n - e) / n, which can differ in the last bit.
    return max(0.0, 1 - Levenshtein.distance(text.split(), words) / len(words)) if words else 0.0


def soft_all(answer: str, outputs: Sequence[str]) -> float:
    """Return the mean of the soft matches of all gold answers."""
    return sum(soft_match(answer, output) for output in outputs) / len(outputs)


def soft_last(answer: str, outputs: Sequence[str]) -> float:
    r"""Return the mean of the soft matches with the last paragraph of the answer.

    >>> soft_last("one\n\ntwo", ["one"])
    0.0
    """
    return soft_all(answer.split("\n\n")[-1], outputs)


def soft_part(answer: str, outputs: Sequence[str]) -> float:
    r"""Return the best of the soft matches, without the documents that the answer copies.

    >>> soft_part("Document 12:\nParis\n\nLyon", ["Paris"])
    0.0
    """
    remainder = _DOCUMENT.sub("", answer)
    return max(soft_match(remainder, output) for output in outputs)


def letter(answer: str, outputs: Sequence[str]) -> float:
    """Return 1 if the letter that the answer chooses is the gold one, else 0."""
    return float(chosen_letter(answer) == outputs[0])


def chosen_letter(answer: str) -> str | None:
    r"""Return the letter that an answer chooses; None if it chooses none.

    `The final answer is` at the end of the text comes first, then the last box, then `Answer:`.

    >>> chosen_letter(r"\boxed{\text{C}}"), chosen_letter("**Answer:** b"), chosen_letter("B")
    ('C', 'B', None)
    """
    final = _FINAL.findall(answer)
    choice = ((final[-1].strip() if final else "") or _boxed(answer)).translate(_LATIN).strip()
    if len(choice) == 1:
        return choice.upper()
    letters: list[str] = _CAPITAL.findall(choice) or _LABELLED.findall(answer)
    return letters[-1].upper() if letters else None


def _boxed(text: str) -> str:
    r"""Return what the last `\boxed=` or box holds; empty without one, or if it is not closed."""
    if (start := text.rfind(f"{_BOX}=")) >= 0:
        line = text[start + len(_BOX) + 1 :].splitlines()[:1]  # upstream raises if nothing follows
        return "".join(line).strip().rstrip(".\\")
    start = text.rfind(_BOX) + len(_BOX)
    if start < len(_BOX) or not text.startswith("{", start):
        return ""
    depth = 0
    for place in range(start, len(text)):
        depth += (text[place] == "{") - (text[place] == "}")
        if not depth:
            return text[start + 1 : place]
    return ""
