r"""Reasoning is read apart from the answer, and never scored.

    <think>Let me see.</think>It is 5.      reasoning "Let me see.", answer "It is 5."
    <think>Let me see.                      reasoning "Let me see.", no answer: tokens ran out

A template may open the block itself (`opens`); the generated text then has only its end. Servers
with a reasoning parser return both apart (`Answer.reasoning`).
"""

import re
from functools import lru_cache

#: How models open and close a block of reasoning; the answer follows the end. As in the templates
#: and in vLLM's reasoning parsers of 2026-11.
BLOCKS = (
    ("<think>", "</think>"),  # DeepSeek, Qwen, GLM, Nemotron, MiniMax, OLMo, Kimi K2 and many
    ("[THINK]", "[/THINK]"),  # Magistral
    ("<|channel|>analysis<|message|>", "<|channel|>final<|message|>"),  # gpt-oss (harmony)
    ("<|channel>thought", "<channel|>"),  # Gemma 4
    ("<seed:think>", "</seed:think>"),  # Seed-OSS
    ("<|START_THINKING|>", "<|END_THINKING|>"),  # Command A
    ("<|open|>think<|sep|>", "<|close|>think<|sep|>"),  # Kimi K3
    ("<longcat_think>", "</longcat_think>"),  # LongCat
    ("<|inner_prefix|>", "<|inner_suffix|>"),  # Apertus
    ("\u25c1think\u25b7", "\u25c1/think\u25b7"),  # Kimi-VL
)
#: What is left of gpt-oss's marks without special tokens: analysisLet me see.assistantfinal5
_DROPPED = ("analysis", "assistantfinal")
_MARK = re.compile(
    "|".join(re.escape(mark) for block in BLOCKS for mark in block)
    + rf"|\A{_DROPPED[0]}(?=[A-Z])|{_DROPPED[1]}"
)


@lru_cache(maxsize=4)  # an answer is looked at several times
def split(text: str, *, opened: bool = False) -> tuple[str | None, str]:
    r"""Return reasoning and answer; the reasoning of a text without any is None.

    A text with a block that is never closed has no answer, whatever precedes the block: the model
    ran out of tokens.

    Args:
        text: as generated.
        opened: whether the prompt itself opened the block.

    >>> split("<think>Let me see.</think>\n\nIt is 5.")
    ('Let me see.', 'It is 5.')
    >>> split("Let me see.</think>It is 5.", opened=True)
    ('Let me see.', 'It is 5.')
    >>> split("<think>Let me see."), split("Okay. <think>Let me see.")
    (('Let me see.', ''), ('Okay. <think>Let me see.', ''))
    >>> split("Let me see.", opened=True)
    ('Let me see.', '')
    >>> split("It is 5."), split("analysisLet me see.assistantfinalIt is 5.")
    ((None, 'It is 5.'), ('Let me see.', 'It is 5.'))
    """
    if not is_in(text):
        if opened:
            return text.strip(), ""
        return None, text
    marks = _last(text)
    final = max(marks, key=lambda mark: marks[mark])
    end = marks[final]
    if _is_open(marks):
        end = len(text)
    thought = text[:end].removesuffix(final).strip()
    if first := _MARK.match(thought):
        thought = thought[first.end() :].strip()
    return thought, text[end:].lstrip()


def _last(text: str) -> dict[str, int]:
    """Return the marks of a text, and where each of them ends last."""
    return {mark[0]: mark.end() for mark in _MARK.finditer(text)}


def _is_open(marks: dict[str, int]) -> bool:
    """Whether a block begins after the last end of its kind."""
    return any(marks.get(start, 0) > marks.get(end, 0) for start, end in (*BLOCKS, _DROPPED))


def is_in(text: str) -> bool:
    """Whether a text holds the beginning or the end of a block of reasoning.

    >>> is_in("<think>Let me see."), is_in("Let me see.</think>5"), is_in("5")
    (True, True, False)
    """
    return _MARK.search(text) is not None


def opens(frame: str | None) -> bool:
    r"""Whether a prompt template ends inside a block of reasoning; None is an unknown template.

    >>> opens("<|im_start|>assistant\n<think>\n"), opens("<think>Let me think. {answer_prefix}")
    (True, True)
    >>> opens("<|im_start|>assistant\n<think>\n\n</think>\n\n{answer_prefix}")
    False
    >>> opens("Think between [THINK] and [/THINK], or [THINK] alone. {content}[/INST]")
    False
    """
    return frame is not None and _is_open(_last(frame.rpartition("{content}")[2]))
