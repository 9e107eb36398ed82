"""How an answer is read: its plain text, and words, numbers and names in any of their forms."""

import re
import tomllib
import unicodedata
from collections.abc import Collection, Iterator
from decimal import Decimal
from functools import lru_cache
from importlib.resources import files

from ruler_data import reasoning

#: Words by language that lists, leads and failures are read by.
WORDING = tomllib.loads(files("ruler_eval").joinpath("wording.toml").read_text("utf-8"))
#: Words that speak of the question, the text, the answer or the speaker.
SPEECH = frozenset(f"{WORDING['speech']} {WORDING['meta']}".split())
#: These, and words for no, none and unknown: no answer has them alone.
FILLER = SPEECH.union(WORDING["no"].split())
#: The number of an item.
LIST_NUMBER = re.compile(r"(?m)^[ ]*\d{1,3}[.)](?=\s|$)")


def any_of(*texts: str) -> str:
    """Return a pattern of the words of some texts."""
    return f"(?:{'|'.join(re.escape(word) for text in texts for word in text.split())})"


#: What speaks of the text or its reader.
META = re.compile(
    rf"\b{any_of(WORDING['meta'])}\b|{any_of(WORDING['meta_unspaced'])}", re.IGNORECASE
)
#: Notes behind an answer, and numbers of documents and steps.
ASIDES = re.compile(rf"(?i)(?<=\w) \([^()]*\)|\b{any_of(WORDING['meta'])} \d+(?:\W+(?:\w+ )?\d+)*")
#: A last sentence that says what the answer will do.
PLAN = re.compile(
    rf"(?i)(?:^|[.!?:\n]\s*){any_of(WORDING['plan']).replace('_', ' ')}\b(?! know)[^.!?\n]*\W*\Z"
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


@lru_cache(maxsize=4)  # an answer is looked at several times
def plain(answer: str) -> str:
    r"""Return the text of an answer: without reasoning, Markdown, LaTeX, keys of JSON, heads.

    >>> plain(r"**\boxed{QZKRA}**").strip(), plain('{"answer": "QZKRA"}').strip()
    ('QZKRA', '"QZKRA"')
    """
    text = unicodedata.normalize("NFKC", reasoning.split(answer)[1]).translate(_MARKS)
    if not text.isascii():
        text = re.sub(r"\d", lambda digit: str(unicodedata.digit(digit[0])), text)
        text = re.sub(rf"(?<=[!-~])(?={_UNSPACED})|(?<={_UNSPACED})(?=[!-~])", " ", text)
    for pattern, by in _STRUCTURE:
        text = pattern.sub(by, text)
    text = text.rstrip()
    return text.rstrip(". ") if text.endswith("...") else text


_SEGMENT = re.compile(r"([\n\r,;.:!?()\[\]\"\u201c-\u201f\u00ab\u00bb\u300c\u300d|/\u2026<>=\u2022"
                      r"\u00b7\u30fb\u3001\u3002]|\s-\s)")  # fmt: skip
WORD = re.compile(r"[^\W\d_]+(?:[-'\u2019][^\W\d_]+)*")


def segments(text: str) -> Iterator[tuple[list[str], bool, bool]]:
    """Yield the words of each part; whether it is a label or an exclamation; if it has digits."""
    parts = [*_SEGMENT.split(text), "", ""]
    for part, end, after in zip(parts[::2], parts[1::2], parts[2::2], strict=False):
        label = end in ("!", "?") or (end in (":", "=") and not re.match(r"\s*\d", after))
        yield WORD.findall(part), label, re.search(r"\d", part) is not None


def normalized(text: str) -> str:
    """Return a text as SQuAD compares it: lower case, without punctuation and articles.

    >>> normalized("The U.S.  Army!")
    'us army'
    """
    keep = (c for c in text.lower() if unicodedata.category(c)[0] != "P" and c not in "$+<=>^`|~")
    return " ".join(re.sub(r"\b(?:a|an|the)\b", " ", "".join(keep)).split())


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


_LETTER = re.compile(r".*(?:LETTER|SYLLABLE) (?:SMALL )?(?=\w+$)|.* .*")
_SOUNDS = str.maketrans("cqzßvw", "kkssff", "aeiouyjh")


@lru_cache(maxsize=4096)
def _sound(word: str) -> str:
    """Return the consonants of a word of any alphabet, which a translated name keeps.

    >>> _sound("strassburg"), _sound("strasbourg"), _sound("коллинз"), _sound("collins")
    ('strsbrg', 'strsbrg', 'klns', 'klns')
    """
    word = re.sub(r"(.)\1", r"\1", word)
    letters = (c if c < "\u0250" else _LETTER.sub("", unicodedata.name(c, "")) for c in word)
    return "".join(letters).lower().translate(_SOUNDS)


def alike(word: str, other: str) -> bool:
    """Whether words differ in their ending or vowels alone, or one is short for the other.

    >>> alike("voices", "voice"), alike("prof", "professor"), alike("austria", "australia")
    (True, True, False)
    """
    if other.isalpha() and len(sound := _sound(other)) > 2 and sound == _sound(word):
        return True
    short, long = sorted((len(word), len(other)))
    same = next((n for n in range(short) if word[n] != other[n]), short)
    is_short = same == short and (short > 2 or other == word[0])
    return word == other or (other.isalpha() and (is_short or same >= max(4, long - 3)))


_MONTHS = {word: str(n) for n, month in enumerate(WORDING["months"], 1) for word in month.split()}


def folded(text: str) -> list[str]:
    """Return the words that SQuAD compares, also without accents, and numbers as digits."""
    plain = unicodedata.normalize("NFKD", in_digits(re.sub("[-/]", " ", text)))
    plain = "".join(c for c in plain if unicodedata.category(c) not in ("Mn", "Sc"))
    plain = re.sub(r"(?<=\d)[., ](?=(?:\d{3})+(?!\d))", "", plain)
    plain = re.sub(r"(\d)(?:st|nd|rd|th)\b|\b(?:on|of|in|to|and)\b|\b0+(?=\d)", r"\1", plain)
    return [_MONTHS.get(word, word) for word in normalized(plain).split()]


_SCALES = {"hundred": 100, "thousand": 1000, "million": 10**6, "billion": 10**9}
_NUMBERS = {word: 10 * number for number, word in enumerate(WORDING["tens"].split(), 2)}
for _list in (WORDING["numbers"], WORDING["ordinals"]):
    _NUMBERS |= {word: number for number, word in enumerate(_list.split())}
_HAN = "\u3007\u4e00\u4e8c\u4e09\u56db\u4e94\u516d\u4e03\u516b\u4e5d"
_POWER = re.compile(
    r"(?i)(?<!\d)(\d+[.,]\d+)(?: (million|billion)|(?:e| ?[x\u00d7]? ?10 ?\^) ?\+?(\d+))\b"
)
_ROMAN = {word: str(number) for number, word in enumerate(WORDING["roman"].split(), 2)}
_AND = rf"(?:(?:[ -]| and |(?<=nd|on), ){any_of(*_NUMBERS, *_SCALES)})"
_COUNT = re.compile(rf"(?i)(?<![\d.,])\b(?:\d+{_AND}|{any_of(*_NUMBERS)}){_AND}*\b")


def in_digits(text: str) -> str:
    """Return a text with Roman numerals, and numbers in English words, as digits.

    >>> in_digits("nineteen seventy-three, one hundred and five, 5 million, 007, Henry VIII")
    '1973, 105, 5000000, 007, Henry 8'
    >>> in_digits("two two three"), in_digits("100 million")
    ('223', '100000000')
    """

    def digits(match: re.Match[str]) -> str:
        numbers = [
            _SCALES.get(word) or int(_NUMBERS.get(word, word))
            for word in re.findall(r"\w+", match[0].lower().replace(" and ", " "))
        ]
        if max(numbers) < 10:
            return "".join(map(str, numbers))
        total = part = 0
        for number in numbers:
            if number >= 1000 and part and number in _SCALES.values():
                total, part = total + part * number, 0
            elif number == 100 and part:
                part *= 100
            else:
                part = part * (100 if min(part, number) > 9 and part < 100 else 1) + number
        return str(total + part)

    def whole(match: re.Match[str]) -> str:
        scale = _SCALES[match[2].lower()] if match[2] else 10 ** min(int(match[3]), 20)
        return f"{Decimal(match[1].replace(',', '.')) * scale:.0f}"

    text = re.sub(r"\b[IVX]{2,}\b", lambda match: _ROMAN.get(match[0], match[0]), text)
    text = _POWER.sub(whole, text)
    text = re.sub(f"[{_HAN}]{{2,}}", lambda run: "".join(str(_HAN.index(c)) for c in run[0]), text)
    return _COUNT.sub(digits, text)


#: The capital of a sentence that does not begin with a name of several words.
_BEGINS = re.compile(r"(?:^|(?<=[.!?:]\s)|(?<=\n))[A-Z](?=[\w'\u2019]*[ ,.:!]+(?:[^A-Z\s]|I\b))")
#: Proper names and numbers; a number of one or two digits is in any text, so with a word.
NAME = re.compile(
    r"[A-Z][\w'-]*(?:[ .]+(?:(?:of|the|de|van|von) )?(?:[A-Z][\w'-]*|\d{1,2}(?![\d.,]*\d)))*"
    r"|\b\d{1,2} [a-z]+|[a-z]+ \d{1,2}(?!\S)|\d+(?:[.,]\d+)*"
)


def names(text: str, known: Collection[str]) -> Iterator[str]:
    """Yield the proper names and numbers of an answer that are not in the question."""
    text = _BEGINS.sub(lambda capital: capital[0].lower(), text)
    for match in NAME.findall(LIST_NUMBER.sub("", text)):
        words = match.lower().split()
        while words and re.split(r"\W", words[0])[0] in FILLER:
            del words[0]
        name = " ".join(words).strip(".,")
        if not all(any(alike(word, one) for one in known) for word in folded(name)):
            yield name


def spells(text: str, gold: str) -> bool:
    """Whether a text spells a gold answer with other separators: 1,234,567 or q z k r a."""
    text, letters = in_digits(text), re.sub(r"\W", "", gold)
    if len(gold) < 5 or letters not in re.sub(r"[\W_]", "", text):  # most; no pattern for each
        return False
    spaced = r"[\W_]{0,3}".join(letters)
    return re.search(rf"(?<![^\W_]){spaced}(?![^\W_])", text) is not None


_NO = rf"(?:\b{any_of(WORDING['no'])}\b(?!-)|n['\u2019]t\b)"
_ANY_NO = re.compile(rf"(?i){_NO}")
_FIND = rf"\b{any_of(WORDING['find'])}"
_DENIAL = re.compile(
    rf"(?i){_NO}[^.!?\n]{{0,70}}{_FIND}|{_FIND}[^.!?,\n]{{0,40}}{_NO}|\b{any_of(WORDING['sorry'])}\b|"
    rf"\b{any_of(*WORDING['denial_words'].values())}\b(?!-)|{any_of(*WORDING['denials'].values())}"
)


def denies(text: str, *, names: bool = True) -> bool:
    """Whether a plain text declines, or denies that the answer is there.

    Of a text that `names` nothing and has few sentences, any negation decides.

    >>> denies("I couldn't find it."), denies("Norway"), denies("It was not Ann.")
    (True, False, False)
    """
    few = not names and len(re.findall(r"[^.!?\n]*\w[^.!?\n]*", text)) < 3
    return bool(_DENIAL.search(text) or (few and _ANY_NO.search(text)))
