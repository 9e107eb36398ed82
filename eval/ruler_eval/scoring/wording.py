"""How an answer is read: its plain text, and words, numbers and names in any of their forms."""

import re
import tomllib
import unicodedata
from collections.abc import Iterator
from functools import cache, lru_cache
from importlib.resources import files
from typing import NamedTuple

from ruler_data import reasoning

#: Words by language that lists, leads and failures are read by.
WORDING = tomllib.loads(files("ruler_eval.scoring").joinpath("wording.toml").read_text("utf-8"))
#: Words that speak of the question, the text, the answer or the speaker.
SPEECH = frozenset(f"{WORDING['speech']} {WORDING['meta']}".split())
#: These, and words for no, none and unknown: no answer has them alone.
FILLER = SPEECH.union(WORDING["no"].split())


def any_of(*texts: str) -> str:
    """Return a pattern of the words of some texts."""
    return f"(?:{'|'.join(re.escape(word) for text in texts for word in text.split())})"


#: What speaks of the text or its reader.
META = re.compile(
    rf"\b{any_of(WORDING['meta'])}\b|{any_of(WORDING['meta_unspaced'])}", re.IGNORECASE
)


@lru_cache(maxsize=1)
def lower(context: str) -> str:
    """Return the context of a row in lower case, with plain apostrophes."""
    return context.lower().replace("\u2019", "'")


#: Scripts that put no space between words: kana, Han, Hangul, Thai.
_UNSPACED = r"[\u0e00-\u0e7f\u3041-\u30fa\u3400-\u9fff\uac00-\ud7a3]"
_MARKS = dict.fromkeys((*range(0x2010, 0x2016), 0x2212), "-") | {0x2018: "'", 0x2019: "'"}
_RULE = r"[ \t]*(?:\|[ \t]*)?:?-+:?[ \t]*(?:\|[ \t]*:?-+:?[ \t]*)*(?:\|[ \t]*)?"
#: What is no text of an answer, and what stands in its place, in this order.
_STRUCTURE = tuple((re.compile(pattern), by) for pattern, by in (
    (rf"(?m)^[^|\n]*\|.*\n(?={_RULE}$)|^{_RULE}$", "\n"),  # the head of a table, and rules
    (r'"[^"\n]{0,60}"[ \t]*:(?=\s*(?:["\[{](?!\d)|null))', "\n"),  # keys of JSON
    (r"(?m)^[ \t]*```(?:\w*(?=[ \t]*(?:$|[\[{])))?", "\n"),
    (r"(?m)^#+ (.*)$", r"\1:"),
    (r"<[/|]?[A-Za-z][^<>\n]{0,40}>|\\(?:begin|end)\{\w+\}|\\item\b", "\n"),
    (r"\{,\}", ","),
    (r"\\[,;:! ]|\\[A-Za-z]+|[*_`~{}$\\#]", " "),
))  # fmt: skip
#: What each of these begins with or needs: most answers of one line have nothing of it.
_MARKED = re.compile(r'(?m)[|"`#<\\{}*_~$]|^[ \t]*:?-+:?[ \t]*$')


@lru_cache(maxsize=4)  # an answer is looked at several times
def plain(answer: str) -> str:
    r"""Return the text of an answer: without reasoning, Markdown, LaTeX, keys of JSON, heads.

    >>> plain(r"**\boxed{QZKRA}**").strip(), plain('{"answer": "QZKRA"}').strip()
    ('QZKRA', '"QZKRA"')
    """
    text = reasoning.split(answer)[1]
    if not text.isascii():
        text = unicodedata.normalize("NFKC", text).translate(_MARKS)
        text = re.sub(r"\d", lambda digit: str(unicodedata.digit(digit[0])), text)
        text = re.sub(rf"(?<=[!-~])(?={_UNSPACED})|(?<={_UNSPACED})(?=[!-~])", " ", text)
    if _MARKED.search(text):
        for pattern, replacement in _STRUCTURE:
            text = pattern.sub(replacement, text)
    return text.rstrip()


_SEGMENT = re.compile(r"([\n\r,;.:!?()\[\]\"\u201c-\u201f\u00ab\u00bb\u300c\u300d|/\u2026<>=\u2022"
                      r"\u00b7\u30fb\u3001\u3002]|\s-\s)")  # fmt: skip
WORD = re.compile(r"[^\W\d_]+(?:[-'\u2019][^\W\d_]+)*")


class Segment(NamedTuple):
    """What stands between two marks of punctuation."""

    words: list[str]
    is_label: bool  # or an exclamation or a question
    has_digit: bool


def segments(text: str) -> Iterator[Segment]:
    """Yield the parts of a text between marks of punctuation."""
    pieces = _SEGMENT.split(text)  # texts and marks in turns
    texts = pieces[::2]
    marks = [*pieces[1::2], ""]
    following = [*texts[1:], ""]
    for piece, mark, after in zip(texts, marks, following, strict=True):
        is_label = mark in ("!", "?")
        if mark in (":", "="):
            is_label = re.match(r"\s*\d", after) is None
        yield Segment(WORD.findall(piece), is_label, re.search(r"\d", piece) is not None)


def normalized(text: str) -> str:
    """Return a text as SQuAD compares it: lower case, without punctuation and articles.

    >>> normalized("The U.S.  Army!"), normalized("an apple a day")
    ('us army', 'apple day')
    """
    kept = [char for char in text.lower() if not _is_punctuation(char)]
    return " ".join(_ARTICLE.sub(" ", "".join(kept)).split())


_ARTICLE = re.compile(r"\b(?:a|an|the)\b")


@cache
def _is_punctuation(char: str) -> bool:
    return char in "$+<=>^`|~" or unicodedata.category(char).startswith("P")


def contains(text: str, words: str) -> bool:
    """Whether a text contains words, with no letter, digit or hyphenated word joined to them.

    >>> contains("-cat", "cat"), contains("cat-food", "cat"), contains("cat.", "cat")
    (True, False, True)
    """
    start = text.find(words)
    while start >= 0:  # `find`, since a pattern for each word would cost more than its search
        end = start + len(words)
        is_joined = re.search(r"\w-?\Z", text[max(0, start - 2) : start])
        if not is_joined and not re.match(r"-?\w", text[end : end + 2]):
            return True
        start = text.find(words, start + 1)
    return False


def words_of(text: str) -> list[str]:
    """Return the words and numbers of a text, in lower case."""
    return re.findall(r"[^\W_]+(?:[-'\u2019][^\W_]+)*", text.lower())


_NO = rf"(?:\b{any_of(WORDING['no'])}\b(?!-)|n['\u2019]t\b)"
_ANY_NO = re.compile(rf"(?i){_NO}")
_FIND = rf"\b{any_of(WORDING['find'])}"
_DENIAL = re.compile(
    rf"(?i){_NO}[^.!?\n]{{0,70}}{_FIND}|\b{any_of(WORDING['sorry'])}\b|"
    rf"\b{any_of(*WORDING['denial_words'].values())}\b(?!-)|{any_of(*WORDING['denials'].values())}"
)


def denies(text: str, *, names: bool = True) -> bool:
    """Whether a plain text declines, or denies that the answer is there.

    Of a text that `names` nothing and has few sentences, any negation decides.

    >>> denies("I couldn't find it."), denies("Norway"), denies("It was not Ann.")
    (True, False, False)
    """
    if _DENIAL.search(text):
        return True
    if names or len(re.findall(r"[^.!?\n]*\w[^.!?\n]*", text)) >= 3:
        return False
    return _ANY_NO.search(text) is not None
