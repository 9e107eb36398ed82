"""Editions of upstream: NVIDIA/RULER's data scripts at the commits that published numbers rest on.

What changed between them, as far as it decides on rows:

| | upstream-2024-04 | upstream-2025-01 | upstream-2026-07 |
|---|---|---|---|
| commit | 041a952 | ce84052 | c3f5e3b |
| size of the haystack | steps, until too long | the same | bisection of an estimate |
| vt: lines | joined by spaces | the same | joined by line feeds |
| vt: example | one, for all rows | its names drawn for each row | names and value, 16 noise lines |
| vt: a row that is too long | drawn again at its size | a step smaller | a step smaller |
| cwe: words | wonderwords | the same | english_words.json beyond those |
| cwe: example's answer | no space before it | the same | a space before it |
| fwe: room for the answer | not kept free | the same | kept free |
| essays, qa beyond their end | all of them | the same | repeated |
| answer prefix | ends `input` | the same | a column of its own |

Commits in between give the rows of one of these, or of none.
"""

from dataclasses import dataclass

from ruler_data.errors import UsageError
from ruler_data.manifest import BALANCED


@dataclass(frozen=True)
class Edition:
    """A commit of upstream.

    Attributes:
        bisects: whether it is since 2025-06: the size of a haystack is found by bisection, and the
            answer prefix is a column, not the end of `input`.
        renames: whether the names of vt's example are drawn anew for each row.
        ignores_seed: whether its `prepare.py` does not pass a seed on, so that there is only one.
    """

    name: str
    commit: str
    bisects: bool
    renames: bool
    ignores_seed: bool = False


EDITIONS = {
    edition.name: edition
    for edition in (
        Edition("upstream-2024-04", "041a952", bisects=False, renames=False, ignores_seed=True),
        Edition("upstream-2025-01", "ce84052", bisects=False, renames=True),
        Edition("upstream-2026-07", "c3f5e3b", bisects=True, renames=True),
    )
}

#: Upstream's chat templates (`template.py`), part of the prompts that its scripts write.
TEMPLATES = {
    "base": "{task_template}",
    "meta-chat": "[INST] {task_template} [/INST]",
    "vicuna-chat": (
        "A chat between a curious user and an artificial intelligence assistant. The assistant "
        "gives helpful, detailed, and polite answers to the user's questions. "
        "USER: {task_template} ASSISTANT:"
    ),
    "lwm-chat": "You are a helpful assistant. USER: {task_template} ASSISTANT: ",
    "command-r-chat": (
        "<BOS_TOKEN><|START_OF_TURN_TOKEN|><|USER_TOKEN|>{task_template}<|END_OF_TURN_TOKEN|>"
        "<|START_OF_TURN_TOKEN|><|CHATBOT_TOKEN|>"
    ),
    "chatglm-chat": "[gMASK]sop<|user|> \n {task_template}<|assistant|> \n ",
    "RWKV": (
        "User: hi\n\nAssistant: Hi. I am your assistant and I will provide expert full response in "
        "full details. Please feel free to ask any question and I will always answer it\n\n"
        "User: {task_template}\n\nAssistant:"
    ),
    "Phi3": "<|user|>\n{task_template}<|end|>\n<|assistant|>\n",
    "meta-llama3": (
        "<|begin_of_text|><|start_header_id|>user<|end_header_id|>\n\n{task_template}<|eot_id|>"
        "<|start_header_id|>assistant<|end_header_id|>\n\n"
    ),
    "jamba": (
        "<|startoftext|><|bom|><|system|> <|eom|><|bom|><|user|> {task_template}<|eom|><|bom|>"
        "<|assistant|>"
    ),
    "nemotron5-instruct": (
        "<SPECIAL_10>System\n\n<SPECIAL_11>User\n{task_template}\n<SPECIAL_11>Assistant\n"
    ),
}


def edition_of(name: str) -> Edition:
    """Return the edition of a name."""
    if name not in EDITIONS:
        raise UsageError(
            f"edition {name!r} is not known; known: {', '.join([BALANCED, *EDITIONS])}"
        )
    return EDITIONS[name]


def model_template(name: str) -> str:
    """Return the chat template of a name; a text with {task_template} in it stands for itself."""
    if name.count("{task_template}") == 1:
        return name
    if name not in TEMPLATES:
        raise UsageError(
            f"template {name!r} is not known; known: {', '.join(TEMPLATES)}, or a text with "
            "{task_template} in it"
        )
    return TEMPLATES[name]
