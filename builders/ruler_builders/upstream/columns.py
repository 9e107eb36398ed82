"""Upstream's rows in the columns of the dataset.

    context + question + answer_prefix == input + answer_prefix of upstream

Upstream's template is cut behind the haystack. A chat template that is part of its prompt goes with
the context (what it opens with) and with the question (what it closes the user's turn with).
"""

import re
from collections.abc import Iterator, Sequence

import numpy as np

from ruler_builders.upstream import SCRIPTS, replay
from ruler_builders.upstream.sources import UpstreamSources
from ruler_builders.upstream.state import Arguments, UpstreamRow
from ruler_data.row import PackedRow, Span, utf8
from ruler_data.tasks import Cwe, Params, Qa
from ruler_data.tokenizers.protocol import PromptTokenizer, Text

#: Characters of a prompt that show whether it begins with BOS.
STARTS = 100

_NUMBERED = re.compile(r"(?<=[ \n])([0-9]+)\. (.+?)(?= [0-9]+\. |\n)")


def columns(row: UpstreamRow, params: Params) -> tuple[str, str, str, list[Span], Span]:
    """Return context, question and answer prefix of a row, its evidence and its haystack."""
    script = SCRIPTS[type(params)]
    prompt = row.prompt
    prefix = prompt.rfind(script.PREFIX[:10])
    # What follows the haystack; its first word is the same for every question.
    head, tail = script.TEMPLATE.split("{context}")
    mark = tail[: tail.index(" ")]
    end = prompt.rfind(mark, 0, prefix)
    start = end + len(mark) - len(mark.lstrip("\n"))
    context = prompt[:start]
    head = head.rpartition("}")[2]  # behind its last field, all of it is fixed
    haystack = Span(context.rfind(head, 0, end) + len(head), end)
    evidence = sorted(evidence_spans(row.evidence, params, context))
    return context, prompt[start:prefix], prompt[prefix:], evidence, haystack


def packed_rows(
    arguments: Arguments, sources: UpstreamSources, tokenizer: PromptTokenizer
) -> Iterator[PackedRow]:
    """Yield the rows of a config as files hold them.

    `length` is this dataset's, not upstream's: tokens of the prompt as it is sent, BOS and chat
    template included, and room for the answer; it may be above the config's length. A prompt that
    contains a chat template is sent without another one.
    """
    task = arguments.task
    rows = replay(arguments, sources, lambda text: tokenizer.count([text])[0])
    for index, row in enumerate(rows):
        context, question, prefix, evidence, haystack = columns(row, task.params)
        tokens = prompt_tokens(tokenizer, context + question, prefix, arguments.has_template)
        yield PackedRow(
            index=index,
            task=task.name,
            context=context.encode(),
            question=question,
            answer_prefix=prefix,
            outputs=tuple(row.outputs),
            max_new_tokens=task.max_new_tokens,
            length=task.max_new_tokens + tokens,
            evidence=np.array(evidence, dtype=np.int64).reshape(-1, 2),
            haystack=haystack,
        )


def prompt_tokens(
    tokenizer: PromptTokenizer, content: Text, answer_prefix: str, has_template: bool
) -> int:
    """Return the tokens of a prompt as it is sent; one with a chat template gets no other."""
    if not has_template:
        return tokenizer.count_prompt(content, answer_prefix)
    text = str(utf8(content), "utf-8")
    start = text[:STARTS]  # BOS is added unless the text begins with it
    bos = len(tokenizer.prompt_ids(start, "", None)) - tokenizer.count([start])[0]
    return bos + tokenizer.count([text + answer_prefix])[0]


def evidence_spans(texts: Sequence[str], params: Params, context: str) -> Iterator[Span]:
    """Yield where texts that answers rest on stand in a context: needles, words, documents."""
    if isinstance(params, Cwe):
        common = set(texts)
        for match in _NUMBERED.finditer(context, context.rfind("\n1. ")):
            if match[2] in common:
                yield Span(*match.span(2))
        return
    before = ""
    after = ""
    if isinstance(params, Qa):
        before = ":\n"
        after = "\n\n"
    for text in dict.fromkeys(texts):
        place = context.find(before + text + after)
        while place >= 0:
            start = place + len(before)
            yield Span(start, start + len(text))
            place = context.find(before + text + after, start + len(text))
