r"""Reasoning is read apart from the answer, and never scored.

    <think>Let me see.</think>It is 5.      reasoning "Let me see.", answer "It is 5."
    <think>Let me see.                      reasoning "Let me see.", no answer: tokens ran out

A template may open the block itself (`opens`); the generated text then has only its end.
"""

#: How models open and close a block of reasoning (Qwen3, DeepSeek-R1 and many; Magistral; gpt-oss).
BLOCKS = (
    ("<think>", "</think>"),
    ("[THINK]", "[/THINK]"),
    ("<|channel|>analysis<|message|>", "<|channel|>final<|message|>"),
)


def split(text: str, *, opened: bool = False) -> tuple[str | None, str]:
    r"""Return reasoning and answer; the reasoning of a text without any is None.

    A block that is never closed has no answer after it: the model ran out of tokens.

    Args:
        text: as generated.
        opened: whether the prompt itself opened the block.

    >>> split("<think>Let me see.</think>\n\nIt is 5.")
    ('Let me see.', 'It is 5.')
    >>> split("Let me see.</think>It is 5.", opened=True)
    ('Let me see.', 'It is 5.')
    >>> split("<think>Let me see.")
    ('Let me see.', '')
    >>> split("Let me see.", opened=True)
    ('Let me see.', '')
    >>> split("It is 5.")
    (None, 'It is 5.')
    """
    for start, end in BLOCKS:
        before, closed, answer = text.rpartition(end)
        if closed:
            return before.strip().removeprefix(start).strip(), answer.lstrip()
        if text.lstrip().startswith(start):
            return text.strip().removeprefix(start).strip(), ""
    return (text.strip(), "") if opened else (None, text)


def is_in(text: str) -> bool:
    """Whether a text opens a block of reasoning, or holds the end of one.

    >>> is_in("<think>Let me see."), is_in("Let me see.</think>5"), is_in("5")
    (True, True, False)
    """
    return split(text)[0] is not None


def opens(frame: str | None) -> bool:
    r"""Whether a prompt template ends inside a block of reasoning; None is an unknown template.

    >>> opens("<|im_start|>assistant\n<think>\n")
    True
    """
    return frame is not None and frame.rstrip().endswith(tuple(start for start, _ in BLOCKS))
