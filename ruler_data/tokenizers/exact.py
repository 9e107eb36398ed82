"""Is a faster counter exact? The same ids on texts of every kind are seen, or it is not used.

The texts are those that the benchmark is made of and those on which tokenizers are known to
differ: white space in runs, scripts without spaces, combining and compatibility characters (which
normalizers rewrite), emoji, digits, contractions, special tokens next to text.
"""

from collections.abc import Callable, Collection, Iterable

from ruler_data.errors import UsageError
from ruler_data.names import quote
from ruler_data.tokenizers.counters import Counter, CounterName, PiecewiseCounter, StockCounter

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
