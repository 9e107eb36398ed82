"""Why a row lost points: the failure modes of the paper's section 5, from the text alone.

A row gets one kind, the first that fits. What an answer names (`ruler_report.exact.Named`) decides
before its wording does. No kind says more than the text shows: `not in the context` is parametric
knowledge or a hallucination, and only a run without context can tell which.
`benchmarks/failures.py` measures how often the kind is right.
"""

import re
from collections.abc import Collection, Iterator

from ruler_data.row import Row
from ruler_data.tasks import Niah, Qa, Ruler2, Task
from ruler_eval.metrics import claim_of
from ruler_report.exact import FUNCTION_WORDS, Named, contains, named_in, plain, short_answer
from ruler_report.exact_ruler2 import is_answered

EMPTY = "empty"
REFUSAL = "refusal"
COPIED = "copied from the example"
VERBATIM = "copied from the context"
FALSE_NONE = "none, though it is there"
NEARBY = "wrong needle, nearby"
WRONG_NEEDLE = "wrong needle"
CUT = "answer cut short"
INCOMPLETE = "incomplete set"
EXTRA = "more than the gold answers"
OTHER_CHAIN = "other variables"
OTHER_NODES = "other nodes"
MISCOUNTED = "miscounted"
PARAMETRIC = "as without context"
ABSENT = "not in the context"
OTHER_DOCUMENT = "from another document"
GOLD_DOCUMENT = "wrong part of the gold document"
WRONG_POLARITY = "wrong yes or no"
WRONG_CHOICE = "wrong choice"
OTHER = "other"

#: The meaning of each kind, in the order in which a report lists them.
MEANINGS: dict[str, str] = {
    EMPTY: "the answer has no letter and no digit, but for the number of a list",
    REFUSAL: "the model declines or says that the answer is not there",
    COPIED: "at least half of what it names is the answer of the in-context example",
    FALSE_NONE: "says that there is no answer, although there is one",
    VERBATIM: "40 characters or more of the context, word for word, that name no answer",
    NEARBY: "the value of another needle, at most five needles from the one asked for",
    WRONG_NEEDLE: "the value of another needle",
    CUT: "the first half or more of a gold answer, but not all of it",
    INCOMPLETE: "some of the gold answers and nothing else of their kind",
    EXTRA: "all gold answers and others: score 100, exact score 0",
    OTHER_CHAIN: "variables that hold another value",
    OTHER_NODES: "nodes that are not among those asked for",
    MISCOUNTED: "words of the context that are not the most frequent; another count",
    PARAMETRIC: "the same answer as the run without context gave",
    ABSENT: "what it names beside gold answers is not in the context",
    OTHER_DOCUMENT: "the answer is in the context, in a document that is not a gold one",
    GOLD_DOCUMENT: "the answer is in a gold document, and is not the one asked for",
    WRONG_POLARITY: "yes where no is right, or the reverse",
    WRONG_CHOICE: "another letter than that of the right choice",
    OTHER: "names nothing of the kind asked for, e.g. repeats the question",
}

_NEEDLE = "special magic"
_NEAR = 5  # needles
_FEW = 3  # words of a refusal that may look like words of a list
_COPY = 40  # characters
_READ = 10_000  # characters of an answer that is read for its wording; few have a tenth of it
_LONG = 8  # characters of a phrase that no other text contains by chance
_LIST_NUMBER = re.compile(r"(?m)^[ ]*\d{1,3}[.)](?=\s|$)")
_WORD = re.compile(r"[^\W_]+(?:[-'\u2019][^\W_]+)*")


def failure_of(row: Row, task: Task, answer: str, score: float, bare: str | None) -> str | None:
    """Return the kind of failure of a row; None if it scores 1 and names no other answer.

    `score` is upstream's. `bare` is the answer of the same model without the context, if known.
    """
    params = task.params
    if isinstance(params, Qa) or (isinstance(params, Ruler2) and is_answered(params)):
        text = answer[:_READ]
        return None if score == 1 else _of_text(row, text, score, bare) or _qa(row, text)
    named, answer = named_in(row, task, answer), answer[:_READ]
    if score == 1:
        return EXTRA if named.others else None
    if isinstance(params, Ruler2) and not named.gold:
        score = 0.0  # a soft match is no gold answer
    match params:
        case Niah(none="possible") if claim_of(row, params, answer) == "none":
            return FALSE_NONE
    if named.others and not (len(named.others) <= _FEW and score == 0 and is_refusal(answer)):
        if bare is not None and score == 0 and _same_words(answer, bare):
            return PARAMETRIC
        return _of_others(row, params.family, named)
    return _of_text(row, answer, score, bare) or _of_rest(row, params, answer, score)


def _of_text(row: Row, answer: str, score: float, bare: str | None) -> str | None:
    """Return the kind of an answer that needs no context to tell."""
    if not re.search(r"[^\W_]", _LIST_NUMBER.sub("", plain(answer))):
        return EMPTY
    if bare is not None and score == 0 and not is_refusal(answer) and _same_words(answer, bare):
        return PARAMETRIC
    said, asked = _words(answer), _words(row.question)
    return OTHER if score == 0 and said <= asked and 2 * len(said) >= len(asked) else None


def _words(text: str) -> set[str]:
    return {word.lower() for word in _WORD.findall(text)}


def _of_others(row: Row, family: str, named: Named) -> str:
    """Return the kind of an answer that names others than gold answers."""
    wrong, every = set(named.others), {*named.gold, *named.others}
    if family == "niah":
        places = [place for value in wrong if (place := row.context.find(value)) >= 0]
        if not places:
            return ABSENT
        if row.context.count(_NEEDLE) <= 4 * _NEAR:  # among a few needles, every one is near
            return WRONG_NEEDLE
        spans = (sorted((place, one.start)) for place in places for one in row.evidence)
        near = any(row.context.count(_NEEDLE, *span) <= _NEAR for span in spans)
        return NEARBY if near else WRONG_NEEDLE
    if family == "ruler2":
        return _of_labelled(row, wrong)
    if row.outputs[0].isdigit():
        return MISCOUNTED
    start = example_end(row.context) if family in EXAMPLE_FAMILIES else 0
    example, text = row.context[:start], row.context[start:]
    shown = {*_WORD.findall(example.rsplit(":", 1)[-1].lower())}
    if _is_half(wrong & shown, every):
        return COPIED
    words = {*re.findall(r"[a-z-]+", text.lower())}
    if family in ("vt", "graph"):
        other = OTHER_CHAIN if family == "vt" else OTHER_NODES
        return ABSENT if wrong.isdisjoint(words) else other
    return MISCOUNTED if _is_half(wrong & words, wrong) else ABSENT


def _of_labelled(row: Row, wrong: set[str]) -> str:
    """Return the kind of an answer that names other labelled texts of RULER v2."""
    if all(len(text) == 1 for text in wrong):
        return WRONG_CHOICE
    is_number = row.outputs[0].isdigit()
    if is_number and not any(number in row.context for number in wrong):
        return ABSENT
    is_document = row.context.startswith("Below are some documents")
    return OTHER_DOCUMENT if is_document else WRONG_NEEDLE


def _of_rest(row: Row, params: object, answer: str, score: float) -> str:
    """Return the kind of an answer that names nothing but gold answers, or nothing."""
    if score > 0:
        return INCOMPLETE
    if _is_copied(row, answer):
        return VERBATIM
    if is_refusal(answer, names=False):
        return REFUSAL
    lower = plain(answer).lower()
    last = re.search(r"[a-z0-9-]+$", lower[-2 * _COPY :])
    if last and any(
        output.lower().startswith(last[0]) and len(output) <= 2 * len(last[0])
        for output in row.outputs
    ):
        return CUT
    if isinstance(params, Niah) and params.value_type != "words":
        asked = row.question.lower()
        parts = re.findall(r"[0-9a-f-]+", _LIST_NUMBER.sub("", lower))
        if any(part not in asked for part in parts if re.search("[0-9]", part)):
            return ABSENT
    return OTHER


def _is_copied(row: Row, answer: str) -> bool:
    return len(answer) >= _COPY and answer[:_COPY] in row.context


_DENIAL = (
    r"(?:(?<![\w-])(?:no|not|cannot|never|nothing|none|neither|nor|nowhere|unable|without"
    r"|lack(?:s|ing|ed)?|fail(?:s|ed)?|impossible|insufficient|missing|absent)(?![\w-])"
    r"|n['\u2019]t\b)"
)
_FINDING = (
    r"\b(?:f[io]u?nds?|locate[ds]?|see[ns]?|saw|identif\w+|determin\w+|mention\w*"
    r"|stat(?:e|es|ed|ing)|specif\w+|provid\w+|contain\w*|includ\w+|list(?:s|ed)|appear\w*|exists?"
    r"|present|given?|gives|know[ns]?|answer\w*|informations?|info|details?|enough|sufficient|clear"
    r"|sure|certain|able|possible|sa(?:y|ys|id)|tells?|told|refer\w*|describ\w+|disclos\w+"
    r"|available|evidence|record\w*|match\w*|help|assist|access|recall|remember|idea|such|occurs?"
    r"|talks?|discuss\w*|address\w*|reveal\w*|support\w*|cover\w*|assign\w*|context|text|passage"
    r"|documents?|defined|show[ns]?|indicat\w+|notice\w*|come across|there)\b"
)
_REFUSAL = re.compile(
    rf"{_DENIAL}[^.!?\n]{{0,70}}{_FINDING}|{_FINDING}[^.!?\n]{{0,70}}{_DENIAL}"
    r"|\bi(?: was|['\u2019]m| am)? (?:unable|cannot|can['\u2019]t|could ?n['\u2019o]t)\b"
    r"|\b(?:sorry|apolog\w+|unfortunately|regret\w*|as an ai|language model|(?:must|to) decline"
    r"|un(?:clear|answerable|available|determined|specified|mentioned|stated|said|known to)"
    r"|beyond my|outside the scope|hard to say|(?:remains?|is|are|was) (?:unknown|silent|mute)"
    r"|omit(?:s|ted)|skip(?:s|ped)|overlook(?:s|ed)|lea?[fv](?:t|es?) (?:\w+ )?out"
    r"|came up empty|blank"
    r"|(?:need|require)s? more|more (?:context|information)|is needed|(?:something|someone) else"
    r"|elsewhere|another (?:text|document|source)|other (?:topics|things)|guess(?:ing)?"
    r"|(?:provide|share|send) (?:me )?(?:the|more|another|it)|nobody knows|dunno|no clue|beats me"
    r"|(?:no|zero) (?:results?|match(?:es)?)|got nothing)\b",
    re.IGNORECASE,
)
_BARE_REFUSAL = re.compile(
    r"(?:(?:the )?answer(?: is|:)?\s*)?(?:nope,? )?(?:none|nothing|nil|null|<?unk>?|n\s?/?\s?a"
    r"|unknown|unsure|undefined|unanswerable|undetermined|unspecified|missing|unavailable|idk|dunno"
    r"|(?:no|not|none|0|zero) ?\w*)",
    re.IGNORECASE,
)


def is_refusal(answer: str, *, names: bool = True) -> bool:
    """Whether an answer declines, or denies that the answer is there.

    In an answer that `names` none, every denial is a refusal.

    >>> is_refusal("I couldn't find it."), is_refusal("N/A"), is_refusal("It was not Ann.")
    (True, True, False)
    """
    text = plain(answer)
    if _BARE_REFUSAL.fullmatch(text.strip(" .,!()[]\"'\n")) or _REFUSAL.search(text):
        return True
    return not names and re.search(_DENIAL, text, re.IGNORECASE) is not None


#: Words with which an answer speaks of the question or of itself.
_META = frozenset(
    {"question", "questions", "text", "texts", "answer", "answers", "read", "reading", "documents",
     "document", "passage", "context", "information", "help", "sure", "okay", "ok", "thank",
     "thanks", "please", "step", "think", "let", "let's", "look", "carefully", "ready", "memorized",
     "memorize", "certainly", "course", "happy", "glad", "great", "good", "interesting"}
)  # fmt: skip
_PERSONS = frozenset({"i", "you", "we", "me", "let", "let's", "i'll", "i'm", "i've"})
_LEADS = frozenset(
    {"according", "based", "answer", "correct", "final", "after", "since", "because", "therefore",
     "however", "explanation", "note", "document", "documents", "sure", "yes", "both", "also",
     "dr", "mr", "mrs", "st", "was", "were", "would", "are", "is", "he", "she", "his", "her",
     "their", "when", "while", "then", "thus", "hence", "where", "one", "found", "says"}
)  # fmt: skip
_NO_NAMES = FUNCTION_WORDS | _LEADS | _META
#: The capital of a sentence that does not begin with a name of several words.
_BEGINS = re.compile(r"(?:^|(?<=[.!?:]\s)|(?<=\n))[A-Z](?=[\w'\u2019]*[ ,.:]+(?:[^A-Z\s]|I\b))")
#: Proper names and numbers.
_NAME = re.compile(
    r"[A-Z][\w'\u2019-]*(?:[ .]+(?:(?:of|the|de|van|von) )?[A-Z][\w'\u2019-]*)*|\d+(?:[.,]\d+)*"
)


def _qa(row: Row, answer: str) -> str:
    text = plain(short_answer(answer)).strip(" .,!\"'\n")
    first = text.lower().partition(" ")[0].strip(".,!;:\n")
    polar = {output.lower() for output in row.outputs}
    if first in ("yes", "no") and polar <= {"yes", "no"}:
        return WRONG_POLARITY
    if _BARE_REFUSAL.fullmatch(text):
        return REFUSAL
    if text and len(text) < 2 * _COPY and _is_in(row.context.lower(), text.lower()):
        return _document(row, [text])
    if _is_copied(row, answer):
        return _document(row, [answer[:_COPY].rpartition(" ")[0]])
    refuses = is_refusal(answer)
    said = _BEGINS.sub(lambda match: match[0].lower(), text) if refuses else text
    names = list(_names(said, row.question.lower()))
    found = _document(row, names) if names else None
    if refuses and found != ABSENT:
        return REFUSAL
    words = _words(text)
    chats = words & _META and (words & _PERSONS or not words - FUNCTION_WORDS - _META)
    if found is None and (chats or not words - FUNCTION_WORDS - _words(row.question)):
        return OTHER
    return found or _document(row, [text])


def _names(text: str, question: str) -> Iterator[str]:
    """Yield the proper names and numbers of an answer that are not in the question."""
    for match in _NAME.finditer(_LIST_NUMBER.sub("", text)):
        words = match[0].split()
        while words and re.split(r"['.\u2019]", words[0].lower())[0] in _NO_NAMES:
            words.pop(0)
        name = " ".join(words).strip(".,")
        if name and not contains(question, name.lower()):
            yield name


def _document(row: Row, names: Collection[str]) -> str:
    """Return where in the context an answer comes from."""
    context = row.context.lower()
    lower = [name.lower() for name in names]
    if not all(_is_in(context, name) for name in lower):
        return ABSENT
    gold = " ".join(context[span.start : span.end] for span in row.evidence)
    return GOLD_DOCUMENT if all(_is_in(gold, name) for name in lower) else OTHER_DOCUMENT


def _is_in(text: str, words: str) -> bool:
    """Whether a text contains words; only short ones must be whole, since answers are cut."""
    return words in text if len(words) >= _LONG else contains(text, words)


#: Families whose contexts open with an in-context example.
EXAMPLE_FAMILIES = ("vt", "cwe")


def example_end(context: str) -> int:
    r"""Return the character at which the in-context example ends; 0 if there is none.

    The instruction, a context's first line, is repeated there. Without an example the whole
    context is searched, so call this for `EXAMPLE_FAMILIES` only.

    >>> example_end("Track it.\nVAR A = 1\nAnswer: A\n\nTrack it.\nVAR B = 2\n")
    31
    """
    instruction = context[: context.find("\n")] if "\n" in context else ""
    return max(0, context.find(instruction, 1)) if instruction else 0


def _is_half(part: set[str], whole: set[str]) -> bool:
    return bool(part) and 2 * len(part) >= len(whole)


def _same_words(answer: str, other: str) -> bool:
    return _WORD.findall(answer.lower()) == _WORD.findall(other.lower())
