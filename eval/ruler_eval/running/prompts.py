"""Protocols: named ways to format a row as a prompt. Runs of two protocols are never compared.

    completion   chat template around context and question; the answer prefix opens the model's
                 turn (RULER's own)
    base         no template: context, question and answer prefix as plain text
    chat         chat template around context and question; the model opens its answer itself
    thinking     as `chat`, with room for a block of reasoning, which is not scored

Prompts are rendered to token ids with exactly one BOS and sent as ids, because most servers put a
second BOS before text.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Literal

from ruler_data.errors import UsageError

if TYPE_CHECKING:
    from ruler_data.row import Row
    from ruler_data.tokenizers import PromptTokenizer
    from ruler_data.tokenizers.protocol import Ids

ProtocolName = Literal["completion", "base", "chat", "thinking"]


@dataclass(frozen=True)
class Protocol:
    """One way to format a row."""

    name: ProtocolName  # as runs record it
    prefix: bool  # whether the answer prefix opens the answer
    #: For the template; None for no template. Hybrid models (Qwen3) reason unless `enable_thinking`
    #: is false.
    variables: Mapping[str, object] | None
    extra_tokens: int = 0  # that an answer may take beyond the row's own, by default


PROTOCOLS: dict[str, Protocol] = {
    protocol.name: protocol
    for protocol in (
        Protocol("completion", prefix=True, variables={}),
        Protocol("base", prefix=True, variables=None),
        Protocol("chat", prefix=False, variables={"enable_thinking": False}),
        Protocol("thinking", False, {"enable_thinking": True}, extra_tokens=8192),
    )
}


@dataclass(frozen=True)
class PromptFormat:
    """How one run formats rows."""

    protocol: Protocol
    extra_tokens: int  # that an answer may take beyond the row's own
    no_context: bool = False  # a baseline of what a model knows or guesses without the context
    prefix_in_turn: bool = False  # the answer prefix ends the user's message, as some harnesses do

    def parts(self, row: Row) -> tuple[str, str]:
        """Return the user's turn, and the text that opens the answer."""
        row = self.prompt_row(row)
        return row.context + row.question, row.answer_prefix

    def prompt_row(self, row: Row) -> Row:
        """Return a row without the parts that its prompt leaves out."""
        if self.no_context:
            row = replace(row, context="", evidence=(), haystack=None)
        if self.protocol.prefix:
            return row
        question = row.question
        if self.prefix_in_turn:
            question += row.answer_prefix
        return replace(row, question=question, answer_prefix="")

    def ids(self, tokenizer: PromptTokenizer, row: Row) -> Ids:
        """Return the token ids of a row's prompt."""
        return tokenizer.prompt_ids(*self.parts(row), self.protocol.variables)

    def text(self, tokenizer: PromptTokenizer, row: Row) -> str:
        """Return a row's prompt as text; a BOS that the tokenizer adds itself is not in it."""
        return tokenizer.render(*self.parts(row), self.protocol.variables)

    def frame(self, tokenizer: PromptTokenizer) -> str:
        """Return the prompt with placeholders for its two parts."""
        content = "{content}"
        opening = "{answer_prefix}"
        if not self.protocol.prefix:
            if self.prefix_in_turn:
                content += opening
            opening = ""
        return tokenizer.render(content, opening, self.protocol.variables)

    def refuse(self, tokenizer: PromptTokenizer) -> None:
        """Refuse a template that the protocol cannot use.

        Raises:
            UsageError: the model has none, and the protocol needs one; or it opens a block of
                reasoning, which every protocol but `thinking` would score; or prompts do not have
                exactly one BOS.
        """
        option = f"--protocol {self.protocol.name}"
        name = tokenizer.info.name
        if not tokenizer.has_template and not self.protocol.prefix:
            raise UsageError(option, f"tokenizer {name} has no chat template; use --protocol base")
        tokenizer.check_bos(self.protocol.variables)
        if self.protocol.variables is None or self.protocol.name == "thinking":
            return
        from ruler_data import reasoning

        if reasoning.opens(tokenizer.render("{content}", "", self.protocol.variables)):
            reason = (
                f"the chat template of {name} opens a block of reasoning, which would be scored"
            )
            raise UsageError(option, f"{reason}; use --protocol thinking")
