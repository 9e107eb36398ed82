"""Counters turn text into token ids: one is the reference, another is fast.

The reference is the library whose ids models see: Hugging Face `tokenizers`, or Mistral's own.
gigatoken is many times faster. It is used only after a parity check: it must give the reference's
ids on texts of every kind. The texts are prompts of the benchmark, and texts on which tokenizers
are known to differ: runs of white space, scripts without spaces, combining and compatibility
characters (which normalizers rewrite), emoji, digits, contractions, special tokens next to text.
"""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from importlib.metadata import version
from typing import Any, Literal, TypeAlias

import numpy as np
from numpy.typing import NDArray

from ruler_data.errors import UsageError
from ruler_data.names import quote

CounterName = Literal["auto", "tokenizers", "gigatoken"]

#: A text, or its UTF-8: long texts are built as bytes, so counting them needs no decoding.
Text = str | bytes
#: Token ids; a list of a hundred thousand numbers would take milliseconds to make.
Ids: TypeAlias = NDArray[np.uint32]


@dataclass(frozen=True)
class Counter:
    """Token ids of texts, special tokens in the text recognized and none added.

    Attributes:
        version: library and version, for the manifest.
        encode: returns the ids of a text.
        count_batch: counts many texts faster than one by one; None if there is no such way.
    """

    version: str
    encode: Callable[[Text], Any]
    count_batch: Callable[[Sequence[Text]], list[int]] | None = None

    def ids(self, text: Text) -> Ids:
        """Return the token ids of a text."""
        return np.asarray(self.encode(text), dtype=np.uint32)

    def count(self, texts: Sequence[Text]) -> list[int]:
        """Return the number of tokens of each text."""
        if self.count_batch:
            return self.count_batch(texts)
        return [len(self.encode(text)) for text in texts]


def gigatoken_counter(name: str, load: Callable[[Any], Any]) -> Counter:
    """Return the fast counter. It uses one core, because workers share the machine.

    Args:
        name: of the tokenizer's file, for messages.
        load: returns the tokenizer, by a constructor of the module `gigatoken`, its argument.

    Raises:
        UsageError: gigatoken is not installed or does not know this kind of tokenizer.
    """
    try:
        import gigatoken
    except ImportError as error:
        raise UsageError(
            "counter gigatoken is not installed; pip install -e '.[build]' in the checkout"
        ) from error
    try:
        tokenizer = load(gigatoken)
    except Exception as error:  # it raises bare exceptions for what it does not support
        raise UsageError(f"counter gigatoken cannot load {name}: {error}") from error
    return Counter(f"gigatoken {version('gigatoken')}", tokenizer.encode)


def decoded(text: Text) -> str:
    """Return a text that may be given in UTF-8."""
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

#: Tokens from which loading and checking the fast counter takes less time than it saves.
WORTHWHILE = 3_000_000

#: Returns prompts of the benchmark for the parity check, as content and answer prefix.
Probes = Callable[[], Iterable[tuple[str, str]]]


def check_parity(fast: Counter, reference: Counter, texts: Iterable[str]) -> None:
    """Check that two counters give the same ids on odd texts and on these.

    Raises:
        UsageError: they differ; it quotes the first text on which they do.
    """

    def differ(text: str) -> bool:
        counts = [counter.count([text]) for counter in (fast, reference)]
        is_same = np.array_equal(fast.ids(text), reference.ids(text))
        return not is_same or counts[0] != counts[1]

    mismatch = next(filter(differ, (*FUZZ, *texts)), None)
    batch = [text for text in FUZZ if text]
    if mismatch is None and fast.count(batch) != reference.count(batch):
        mismatch = batch[0]
    if mismatch is not None:
        raise UsageError(
            f"{fast.version} gives other ids than {reference.version} on {quote(mismatch)}"
        )
