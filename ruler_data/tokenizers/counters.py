"""Counters: what turns text into token ids. One is the reference, the other is fast.

The reference is the library whose ids models see: Hugging Face `tokenizers`, or Mistral's own.
gigatoken gives the same ids many times faster, and is used only where it was seen to (`exact.py`).

Is a faster counter exact? The same ids on texts of every kind are seen, or it is not used.

The texts are those that the benchmark is made of and those on which tokenizers are known to
differ: white space in runs, scripts without spaces, combining and compatibility characters (which
normalizers rewrite), emoji, digits, contractions, special tokens next to text.
"""

import re
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from importlib.metadata import version
from itertools import chain
from typing import Any, Literal, Protocol

import numpy as np
import tokenizers

from ruler_data.errors import UsageError
from ruler_data.names import quote
from ruler_data.row import utf8

CounterName = Literal["auto", "tokenizers", "gigatoken"]

#: A text, or its UTF-8: long texts are built so, and are not decoded only to be counted.
Text = str | bytes

#: Where a text may be cut, the space going with what follows it, and characters of a piece, at
#: least. What is known of a piece then stays in the processor's caches.
SEAM, PIECE = re.compile(r"(?<=[a-z.,]) (?=[A-Za-z])"), 1024
#: What a token has in it, in any of the ways to write a space, that may stand on both sides of one.
ACROSS = re.compile(r"[a-z.,][ Ġ▁]")
#: An added token that may stand at one. What is between two of those is a text of its own to a
#: tokenizer, which may trim it.
BESIDE = re.compile(r"\A ?[A-Za-z]|[a-z.,]\Z")


class Counter(Protocol):
    """Token ids of texts, special tokens in the text recognized and none added."""

    @property
    def version(self) -> str:
        """Library and version, for the manifest."""
        ...

    def ids(self, text: str) -> list[int]:
        """Return the token ids of a text."""
        ...

    def count(self, texts: Sequence[Text]) -> list[int]:
        """Return the number of tokens of each text."""
        ...


class StockCounter:
    """The reference: Hugging Face `tokenizers`."""

    def __init__(self, tokenizer: tokenizers.Tokenizer) -> None:
        self._tokenizer = tokenizer
        self.version = f"tokenizers {version('tokenizers')}"

    @property
    def special_tokens(self) -> tuple[str, ...]:
        """What is read as a special token wherever a text spells it."""
        added = self._tokenizer.get_added_tokens_decoder().values()
        return tuple(token.content for token in added if token.special)

    @property
    def minds_seams(self) -> bool:
        """Whether a token may stand across a seam, or an added one beside it."""
        added = self._tokenizer.get_added_tokens_decoder().values()
        across = ACROSS.search("\n".join(self._tokenizer.get_vocab()))
        return across is not None or any(BESIDE.search(token.content) for token in added)

    def ids(self, text: str) -> list[int]:
        """Return the token ids of a text."""
        return list(self._tokenizer.encode(text, add_special_tokens=False).ids)

    def count(self, texts: Sequence[Text]) -> list[int]:
        """Return the number of tokens of each text."""
        whole = [decoded(text) for text in texts]
        encoded = self._tokenizer.encode_batch_fast(whole, add_special_tokens=False)
        return [len(one) for one in encoded]


class PiecewiseCounter:
    """The reference, long texts in pieces, which it counts faster than whole ones.

    Only for those tokenizers that give the same ids so (`exact.py`).
    """

    def __init__(self, reference: Counter, piece: int = PIECE) -> None:
        self._reference, self._piece = reference, piece
        self.version = reference.version

    def ids(self, text: str) -> list[int]:
        """Return the token ids of a text."""
        return list(chain.from_iterable(map(self._reference.ids, self._cut(text))))

    def count(self, texts: Sequence[Text]) -> list[int]:
        """Return the number of tokens of each text."""
        return [sum(self._reference.count([*self._cut(decoded(text))])) for text in texts]

    def _cut(self, text: str) -> Iterator[str]:
        start = 0
        while seam := SEAM.search(text, start + self._piece):
            yield text[start : seam.start()]
            start = seam.start()
        yield text[start:]


class VendorCounter:
    """The reference for Mistral's own files: the `mistral-common` library."""

    def __init__(self, encode: Callable[..., list[int]]) -> None:
        self._encode = encode
        self.version = f"mistral-common {version('mistral-common')}"

    def ids(self, text: str) -> list[int]:
        """Return the token ids of a text."""
        return list(self._encode(text, bos=False, eos=False))

    def count(self, texts: Sequence[Text]) -> list[int]:
        """Return the number of tokens of each text."""
        return [len(self._encode(decoded(text), bos=False, eos=False)) for text in texts]


class GigatokenCounter:
    """The fast one. On one core, since workers share the machine."""

    def __init__(self, name: str, load: Callable[[Any], Any]) -> None:
        """Load a tokenizer with a constructor of the module `gigatoken`, which is the argument.

        Raises:
            UsageError: gigatoken is not installed or does not know this kind of tokenizer.
        """
        try:
            import gigatoken
        except ImportError as error:
            msg = "counter gigatoken is not installed; pip install 'ruler-data[build]'"
            raise UsageError(msg) from error
        try:
            self._tokenizer = load(gigatoken)
        except Exception as error:  # it raises bare exceptions for what it does not support
            msg = f"counter gigatoken cannot load {name}: {error}"
            raise UsageError(msg) from error
        self.version = f"gigatoken {version('gigatoken')}"

    def ids(self, text: str) -> list[int]:
        """Return the token ids of a text."""
        ids: list[int] = np.asarray(self._tokenizer.encode(text)).tolist()
        return ids

    def count(self, texts: Sequence[Text]) -> list[int]:
        """Return the number of tokens of each text."""
        return [len(self._tokenizer.encode(text)) for text in texts]


class GuardedCounter:
    """A fast counter for all texts but those that hold a mark, which the reference counts.

    gigatoken reads the names of SentencePiece's control symbols in a text as those symbols,
    the reference as text.
    """

    def __init__(self, fast: Counter, reference: Counter, marks: Sequence[str]) -> None:
        self._fast, self._reference = fast, reference
        self._marks = [mark.encode() for mark in marks]
        self.version = fast.version

    def ids(self, text: str) -> list[int]:
        """Return the token ids of a text."""
        return self._for(text).ids(text)

    def count(self, texts: Sequence[Text]) -> list[int]:
        """Return the number of tokens of each text."""
        return [self._for(text).count([text])[0] for text in texts]

    def _for(self, text: Text) -> Counter:
        known = utf8(text)
        return self._reference if any(mark in known for mark in self._marks) else self._fast


def decoded(text: Text) -> str:
    """Return a text that may be in UTF-8."""
    return text if isinstance(text, str) else text.decode()


FUZZ = (
    "",
    " ",
    "\n\n \n\t\t  \r\n x",
    "a" * 300 + " " * 70 + "!" * 70,
    "It's what they'd've said: DON'T, I'LL, we're. 'tis",
    "1 22 333 4444 55555 666666 7777777 3.14159 1,000,000 0x1F",
    "naïve café résumé Ångström ﬁne ½ Ⅷ e\u0301 n\u0303 \u212b \ufb01",
    "日本語のテキストと中文字符，没有空格。한국어 텍스트",
    "Привет, мир! γειά σου שלום مرحبا ไทย",
    "👩‍👩‍👧‍👦 🇪🇺 👍🏽 \U0001f9ff",
    "\u200b\u00a0\u3000\u2028x\u0085y\ufeffz",
    "def f(x):\n    return {'a': [1, 2], \"b\": x**2}  # comment\n\n\n",
    "<|begin_of_text|>x<|eot_id|> <|im_start|>user\ny<|im_end|>\n<s>[INST] z [/INST]</s>",
    "Question: \tWhat?\u00a0 Answer: ",
)

#: Characters of a text that are cut at every seam to see that its ids stay the same.
TRIED = 8192


def choose_counter(
    name: CounterName, load: Callable[[], Counter], reference: Counter, texts: Iterable[str]
) -> tuple[Counter, str]:
    """Return the counter that a name stands for, and why `auto` is not the fast one.

    Raises:
        UsageError: the fast one was named and is not installed or not exact.
    """
    if name == "tokenizers":
        return reference, ""
    try:
        fast = load()
        text = first_difference(fast, reference, texts)
        if text is None:
            return fast, ""
        msg = f"{fast.version} gives other ids than {reference.version} on {quote(text)}"
        raise UsageError(msg)
    except UsageError as error:
        if name == "gigatoken":
            raise
        return reference, str(error)


def in_pieces(reference: StockCounter, texts: Collection[str]) -> Counter:
    """Return the reference for pieces of long texts, or as it is where that may not be exact.

    No token of the vocabulary may stand on both sides of a seam, and neither normalizer nor
    pre-tokenizer may do another thing at the ends of a text than within it. The first is looked up.
    To see the second, the beginnings of the texts, of which there must be some, are cut at every
    seam; what hangs on more than the letters beside a seam is left to the recount of every build.
    """
    if not texts or reference.minds_seams:
        return reference
    everywhere = PiecewiseCounter(reference, piece=1)
    exact = first_difference(everywhere, reference, [text[:TRIED] for text in texts]) is None
    return PiecewiseCounter(reference) if exact else reference


def first_difference(fast: Counter, reference: Counter, texts: Iterable[str]) -> str | None:
    """Return the first text on which two counters give other ids, or None."""
    for text in (*FUZZ, *texts):
        if fast.ids(text) != reference.ids(text) or fast.count([text]) != reference.count([text]):
            return text
    batch = [text for text in FUZZ if text]
    return None if fast.count(batch) == reference.count(batch) else batch[0]
