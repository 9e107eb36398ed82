"""Protocols: named ways to put a row to a model. Results of two protocols are never compared.

    completion   chat template around context and question; the answer prefix opens the model's
                 turn (RULER's own)
    base         no template: context, question and answer prefix as plain text
    chat         chat template around context and question; the model opens its answer itself
    thinking     as `chat`, with room for a block of reasoning, which scores do not read

Prompts are rendered to token ids here, with exactly one BOS, and sent as ids: text that went
through a template would get a second BOS from most servers.

Does every prompt fit the window? Settled before an engine loads, and never by truncation.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from itertools import islice
from typing import Literal

from ruler_data.errors import UsageError
from ruler_data.row import Row
from ruler_data.tokenizers import PromptTokenizer
from ruler_eval.data import Dataset

ProtocolName = Literal["completion", "base", "chat", "thinking"]

#: Tokens that a block of reasoning may take, where nothing else is said.
THINKING_TOKENS = 8192


@dataclass(frozen=True)
class Protocol:
    """One way to put a row.

    Attributes:
        name: as runs record it.
        template: whether the chat template goes round the user's turn.
        prefix: whether the answer prefix opens the answer.
        variables: what the template is told besides, where it listens: hybrid models (Qwen3)
            reason unless they are told not to.
        extra_tokens: tokens that an answer may take beyond the row's own, by default.
    """

    name: ProtocolName
    template: bool
    prefix: bool
    variables: Mapping[str, object] = field(default_factory=dict)
    extra_tokens: int = 0


PROTOCOLS: dict[str, Protocol] = {
    protocol.name: protocol
    for protocol in (
        Protocol("completion", template=True, prefix=True),
        Protocol("base", template=False, prefix=True),
        Protocol("chat", template=True, prefix=False, variables={"enable_thinking": False}),
        Protocol(
            "thinking", template=True, prefix=False, variables={"enable_thinking": True},
            extra_tokens=THINKING_TOKENS,
        ),
    )
}  # fmt: skip


@dataclass(frozen=True)
class PromptFormat:
    """How rows are put in one run.

    Attributes:
        protocol: the protocol.
        extra_tokens: tokens that an answer may take beyond the row's own.
        no_context: whether the context is left out, as a baseline of what a model knows or
            guesses without it.
    """

    protocol: Protocol
    extra_tokens: int
    no_context: bool = False

    @property
    def is_counted(self) -> bool:
        """Whether prompts are those that the data's lengths were counted of."""
        return self.protocol.name == "completion" and not self.no_context

    def max_tokens(self, max_new_tokens: int) -> int:
        """Return the tokens that an answer may take, given the row's own."""
        return max_new_tokens + self.extra_tokens

    def parts(self, row: Row) -> tuple[str, str]:
        """Return the user's turn and what opens the answer."""
        content = row.question if self.no_context else row.context + row.question
        return content, row.answer_prefix if self.protocol.prefix else ""

    def ids(self, tokenizer: PromptTokenizer, row: Row) -> list[int]:
        """Return the token ids of a row's prompt.

        Raises:
            UsageError: the protocol needs a chat template, and the model has none.
        """
        self.check(tokenizer)
        return tokenizer.prompt_ids(*self.parts(row), self._variables)

    def frame(self, tokenizer: PromptTokenizer) -> str:
        """Return what a prompt looks like, with names for its two parts.

        Raises:
            UsageError: the protocol needs a chat template, and the model has none.
        """
        self.check(tokenizer)
        prefix = "{answer_prefix}" if self.protocol.prefix else ""
        return tokenizer.render("{content}", prefix, self._variables)

    def check(self, tokenizer: PromptTokenizer) -> None:
        """Refuse a model without a chat template where the protocol is nothing without one."""
        if self.protocol.name in ("chat", "thinking") and not tokenizer.has_template:
            msg = (
                f"--protocol {self.protocol.name}: tokenizer {tokenizer.info.name} has no chat "
                "template; use --protocol base"
            )
            raise UsageError(msg)

    @property
    def _variables(self) -> Mapping[str, object] | None:
        return self.protocol.variables if self.protocol.template else None


#: Tokens by which a prompt may be longer than its frozen length says where the protocol is not
#: `completion`: tokens join differently at its seams, and a template may add an empty block of
#: reasoning.
SEAM = 16

#: Rows of a config that are counted to bound the others, where the frozen lengths are those of
#: another tokenizer, and by how much others may be longer: rows of a config are fitted to one
#: length, so their counts in any tokenizer lie close together.
PROBES, MARGIN = 8, 1.05


def counts_alike(data: Dataset, tokenizer: PromptTokenizer | None) -> bool:
    """Whether the lengths of the data were counted in this very tokenizer."""
    return tokenizer is None or tokenizer.info.files == data.manifest.tokenizer.files


def bounds(
    data: Dataset, tokenizer: PromptTokenizer | None, asking: PromptFormat
) -> dict[str, int]:
    """Return, for each config, tokens that no row needs more of, prompt and answer together.

    `completion` needs a row's frozen length exactly, if it is of the same tokenizer.
    """
    if counts_alike(data, tokenizer):
        more = asking.extra_tokens + (0 if asking.protocol.name == "completion" else SEAM)
        return {config: data.manifest.configs[config].length_max + more for config in data.rows}
    probed = {
        config: islice(needs(data, tokenizer, asking, config), PROBES) for config in data.rows
    }
    return {config: int(max(tokens) * MARGIN) for config, tokens in probed.items()}


def needs(
    data: Dataset, tokenizer: PromptTokenizer | None, asking: PromptFormat, config: str
) -> Iterator[int]:
    """Yield the tokens that each row of a config needs, by rendering its prompt."""
    for row in data.read(config):
        prompt = len(asking.ids(tokenizer, row)) if tokenizer else row.length - row.max_new_tokens
        yield prompt + asking.max_tokens(row.max_new_tokens)


def refuse_over(
    data: Dataset,
    tokenizer: PromptTokenizer | None,
    asking: PromptFormat,
    bounded: dict[str, int],
    window: int | None,
) -> None:
    """Refuse a run with prompts over the window; counts rows only where no bound settles it.

    Raises:
        UsageError: naming the first such row, what it needs and what the window is.
    """
    for config, tokens in bounded.items():
        if window is None or tokens <= window:
            continue
        for index, need in enumerate(needs(data, tokenizer, asking, config)):
            if need > window:
                msg = (
                    f"{config}/{index}: prompt and answer need {need} tokens, the model's window "
                    f"is {window}; leave {config} out with --configs, or extend the window, e.g. "
                    "with YaRN (docs/eval.md)"
                )
                raise UsageError(msg)
