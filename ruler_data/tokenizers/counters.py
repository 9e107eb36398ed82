"""Counters turn text into token ids: one is the reference, another is fast.

The reference is the library whose ids models see: Hugging Face `tokenizers`, or Mistral's own.
gigatoken is many times faster. It is used only after a parity check: it must give the reference's
ids on texts of every kind. The texts are prompts of the benchmark, and texts on which tokenizers
are known to differ: runs of white space, scripts without spaces, combining and compatibility
characters (which normalizers rewrite), emoji, digits, contractions, special tokens next to text.
"""

import json
import platform
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from hashlib import sha256
from importlib.metadata import version
from typing import Any, Literal, NamedTuple, Protocol

import numpy as np
import tokenizers

from ruler_data.errors import RulerError, UsageError
from ruler_data.files import cache_dir, write_file
from ruler_data.names import quote
from ruler_data.row import utf8
from ruler_data.version import DATA_VERSION, __version__

CounterName = Literal["auto", "tokenizers", "gigatoken"]

#: A text, or its UTF-8: long texts are built as bytes, so counting them needs no decoding.
Text = str | bytes


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

    def ids(self, text: str) -> list[int]:
        """Return the token ids of a text."""
        return list(self._tokenizer.encode(text, add_special_tokens=False).ids)

    def count(self, texts: Sequence[Text]) -> list[int]:
        """Return the number of tokens of each text."""
        whole = [decoded(text) for text in texts]
        encoded = self._tokenizer.encode_batch_fast(whole, add_special_tokens=False)
        return [len(one) for one in encoded]


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
    """The fast counter. It uses one core, because workers share the machine."""

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
    """A fast counter that leaves texts with a control symbol's name to the reference.

    gigatoken reads the names of SentencePiece's control symbols in a text as those symbols;
    the reference reads them as text.
    """

    def __init__(self, fast: Counter, reference: Counter, names: Sequence[str]) -> None:
        self._fast, self._reference = fast, reference
        self._names = [name.encode() for name in names]
        self.version = fast.version

    def ids(self, text: str) -> list[int]:
        """Return the token ids of a text."""
        return self._for(text).ids(text)

    def count(self, texts: Sequence[Text]) -> list[int]:
        """Return the number of tokens of each text."""
        return [self._for(text).count([text])[0] for text in texts]

    def _for(self, text: Text) -> Counter:
        data = utf8(text)
        return self._reference if any(name in data for name in self._names) else self._fast


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

#: Raise it when the parity check or the conversion of tokenizer files changes.
CHECK_VERSION = 1


class Probes(NamedTuple):
    """Prompts of the benchmark for the parity check.

    Attributes:
        prompts: returns them, as content and answer prefix; called only if the check has to run.
        identity: what decides on the prompts, as part of the key under which a passed check is
            remembered; empty if it must run every time.
    """

    prompts: Callable[[], Iterable[tuple[str, str]]] = tuple
    identity: str = ""


def choose_counter(name: CounterName, use_fast: Callable[[], None]) -> str:
    """Switch to the fast counter if the name allows it and it passes its parity check.

    Args:
        name: `tokenizers` for the reference, `gigatoken` for the fast one, `auto` to choose.
        use_fast: switches to the fast counter; raises UsageError if it cannot be used.

    Returns:
        Why `auto` keeps the reference; otherwise empty.

    Raises:
        UsageError: the fast counter was named and is not installed or not exact.
    """
    if name == "tokenizers":
        return ""
    try:
        use_fast()
    except UsageError as error:
        if name == "gigatoken":
            raise
        return str(error)
    return ""


def check_parity(fast: Counter, reference: Counter, texts: Iterable[str]) -> None:
    """Check that two counters give the same ids on odd texts and on these.

    Raises:
        UsageError: they differ; it quotes the first text on which they do.
    """
    text = first_difference(fast, reference, texts)
    if text is not None:
        msg = f"{fast.version} gives other ids than {reference.version} on {quote(text)}"
        raise UsageError(msg)


def first_difference(fast: Counter, reference: Counter, texts: Iterable[str]) -> str | None:
    """Return the first text on which two counters give other ids, or None."""
    for text in (*FUZZ, *texts):
        if fast.ids(text) != reference.ids(text) or fast.count([text]) != reference.count([text]):
            return text
    batch = [text for text in FUZZ if text]
    return None if fast.count(batch) == reference.count(batch) else batch[0]


def remembered(
    probes: Probes, fast: Counter, reference: Counter, fingerprint: str, check: Callable[[], int]
) -> int:
    """Return the result of a passed parity check: from the user's cache, or by running it.

    The key holds all that decides on the result, so an upgrade of either library or another
    tokenizer runs the check again. A check that fails raises, and is not remembered. A cache that
    is damaged or cannot be written costs time and nothing else.

    Args:
        probes: prompts that the check uses.
        fast: counter to check.
        reference: counter to compare with.
        fingerprint: of the tokenizer's files.
        check: runs the check; returns 0 or 1, which the caller gives a meaning.
    """
    if not probes.identity:
        return check()
    versions = [fast.version, reference.version, f"jinja2 {version('jinja2')}", platform.machine()]
    key = [fingerprint, *versions, __version__, DATA_VERSION, CHECK_VERSION, FUZZ, probes.identity]
    name = sha256(json.dumps(key).encode()).hexdigest()
    path = cache_dir("counters") / f"{name}.json"
    try:
        record = json.loads(path.read_text(encoding="utf-8"))
        if record["key"] == name and record["result"] in (0, 1):
            return int(record["result"])
    except (OSError, ValueError, KeyError, TypeError):
        pass
    result = int(check())
    with suppress(RulerError):
        write_file(path, json.dumps({"key": name, "result": result, "versions": versions}) + "\n")
    return result
