"""The interface of tokenizers: count texts, and count prompts as the model sees them."""

from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Protocol

from ruler_data.manifest import TokenizerInfo
from ruler_data.tokenizers.counters import CounterName, Probes, Text

#: No variables for the chat template.
PLAIN: Mapping[str, object] = MappingProxyType({})
#: A parity check on odd texts alone.
NO_PROBES = Probes()


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


class Tokenizer(Measure, Protocol):
    """A tokenizer with its chat template."""

    @property
    def info(self) -> TokenizerInfo:
        """Name, origin and hashes, for the manifest."""
        ...

    @property
    def special_tokens(self) -> tuple[str, ...]:
        """Special tokens that are recognized in plain text; empty if there are none."""
        ...

    def recount_prompt(self, content: str, answer_prefix: str) -> int:
        """Return the same as `count_prompt`, always counted by the reference library."""
        ...

    def use(self, counter: CounterName, probes: Probes = NO_PROBES) -> str:
        """Count with another counter from here on, if it gives the reference's ids.

        Args:
            counter: `auto` takes the fast one if it is exact, `tokenizers` the reference.
            probes: prompts for the parity check; not made for the reference, nor where the check
                is known to have passed.

        Returns:
            Why `auto` keeps the reference; otherwise empty.

        Raises:
            UsageError: the counter named is not installed or not exact.
        """
        ...


class PromptTokenizer(Tokenizer, Protocol):
    """A tokenizer that also renders prompts to token ids, to send them to models."""

    def prompt_ids(
        self, content: str, answer_prefix: str, variables: Mapping[str, object] | None = PLAIN
    ) -> list[int]:
        """Return the token ids of a prompt, with exactly one BOS where the model has one.

        Args:
            content: of the user's turn.
            answer_prefix: beginning of the answer.
            variables: for the chat template, e.g. `enable_thinking`; None for the plain text,
                without a template.
        """
        ...

    def render(
        self, content: str, answer_prefix: str, variables: Mapping[str, object] | None = PLAIN
    ) -> str:
        """Return the text of `prompt_ids`, for people to read."""
        ...

    def decode(self, ids: Sequence[int], *, special: bool = True) -> str:
        """Return the text of token ids, with or without special tokens."""
        ...

    @property
    def has_template(self) -> bool:
        """Whether the model has a chat template."""
        ...

    @property
    def opens_turn(self) -> bool:
        """Whether the chat template has a generation prompt, which opens the model's turn."""
        ...

    @property
    def bos_id(self) -> int | None:
        """Id of the BOS token, or None."""
        ...

    @property
    def wants_bos(self) -> bool:
        """Whether every prompt must begin with BOS."""
        ...


def template_reserve(tokenizer: Measure) -> int:
    """Return the number of tokens that the chat template, with BOS, adds to one user turn."""
    probe = "Question: How long is this?"
    return tokenizer.count_prompt(probe, "") - tokenizer.count([probe])[0]
