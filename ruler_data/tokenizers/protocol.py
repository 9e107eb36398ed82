"""What a tokenizer must do for us: count text, and count a prompt as the model sees it."""

from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Protocol

from ruler_data.manifest import TokenizerInfo
from ruler_data.tokenizers.counters import CounterName, Probes, Text

#: Nothing told to the chat template besides the turn.
PLAIN: Mapping[str, object] = MappingProxyType({})
#: A parity check on odd texts alone.
NO_PROBES = Probes()


class Measure(Protocol):
    """What rows are fitted with: the tokens of texts and of prompts."""

    def count(self, texts: Sequence[str]) -> list[int]:
        """Return the number of tokens of each text, nothing added."""
        ...

    def count_prompt(self, content: Text, answer_prefix: str) -> int:
        """Return the tokens of a prompt of the `completion` protocol.

        That is the chat template with its BOS and default system prompt around one user turn of
        `content`, opened for an answer that begins with `answer_prefix`; without a template,
        BOS and the plain text. A long content is best given in UTF-8.
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
        """What is read as a special token wherever a text spells it; empty if nothing is."""
        ...

    def recount_prompt(self, content: str, answer_prefix: str) -> int:
        """Return the same as `count_prompt`, counted by the reference library."""
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
    """A tokenizer that also renders prompts to ids, for those who send them to models."""

    def prompt_ids(
        self, content: str, answer_prefix: str, variables: Mapping[str, object] | None = PLAIN
    ) -> list[int]:
        """Return the token ids of a prompt, with exactly one BOS where the model has one.

        Args:
            content: of the user's turn.
            answer_prefix: what opens the answer.
            variables: what the chat template is told besides the turn, e.g. `enable_thinking`;
                None for the plain text, without a template.
        """
        ...

    def render(
        self, content: str, answer_prefix: str, variables: Mapping[str, object] | None = PLAIN
    ) -> str:
        """Return the text that `prompt_ids` are the ids of, for people to read."""
        ...

    def decode(self, ids: Sequence[int], *, special: bool = True) -> str:
        """Return the text of token ids, special tokens written out or left out."""
        ...

    @property
    def has_template(self) -> bool:
        """Whether the model has a chat template."""
        ...

    @property
    def opens_turn(self) -> bool:
        """Whether the chat template opens the model's turn when it is asked to."""
        ...

    @property
    def bos_id(self) -> int | None:
        """Id of the token that texts of the model may begin with, or None."""
        ...

    @property
    def wants_bos(self) -> bool:
        """Whether every prompt must begin with it."""
        ...


def template_reserve(tokenizer: Measure) -> int:
    """Return the tokens that the chat template, BOS included, adds around one user turn."""
    probe = "Question: How long is this?"
    return tokenizer.count_prompt(probe, "") - tokenizer.count([probe])[0]
