"""Llama's tokenizers without the Hub, which gates them: from Meta's package `llama-models`.

The package holds the ranks; its code, which is not run, has the pattern and the special tokens. The
chat templates here are for one user turn, and render what those of the models render for it.
"""

from typing import NamedTuple

from ruler_data.tokenizers.package import Member, Wheel

WHEEL = Wheel(
    "llama-models", "0.3.0", "7f77f78ff13fca09f70d76a376aff6414cd901623fb9d57e69c2f8367a73032f"
)


class Llama(NamedTuple):
    """A vocabulary and a chat template.

    Attributes:
        member: file of ranks.
        pattern: regular expression that splits text before merging.
        special: special tokens, in order, which follow the ranks; BOS is the first.
        template: Jinja template of one user turn.
    """

    member: Member
    pattern: str
    special: tuple[str, ...]
    template: str


def _reserved(count: int, first: int = 0, kind: str = "") -> tuple[str, ...]:
    return tuple(f"<|{kind}reserved_special_token_{n}|>" for n in range(first, first + count))


_BEGIN = ("<|begin_of_text|>", "<|end_of_text|>")
_HEADER = ("<|start_header_id|>", "<|end_header_id|>")

#: As in the tokenizers of Llama 3 on the Hub; Meta's package names two of 3.1's otherwise.
_SPECIAL_3_0 = (
    *_BEGIN, *_reserved(4), *_HEADER, *_reserved(1, 4), "<|eot_id|>", *_reserved(246, 5),
)  # fmt: skip
_SPECIAL_3_1 = (
    *_BEGIN, *_reserved(2), "<|finetune_right_pad_id|>", *_reserved(1, 2), *_HEADER, "<|eom_id|>",
    "<|eot_id|>", "<|python_tag|>", *_reserved(245, 3),
)  # fmt: skip
_SPECIAL_4 = (
    *_BEGIN, "<|fim_prefix|>", "<|fim_middle|>", "<|fim_suffix|>",
    "<|header_start|>", "<|header_end|>", "<|eom|>", "<|eot|>", "<|step|>",
    *_reserved(6, 0, "text_post_train_"), "<|python_start|>", "<|python_end|>",
    "<|finetune_right_pad|>", *_reserved(61, 8, "text_post_train_"),
    "<|image_start|>", "<|image_end|>", *_reserved(2, 0, "vision_"), "<|tile_x_separator|>",
    "<|tile_y_separator|>", *_reserved(4, 2, "vision_"), "<|image|>", *_reserved(1, 6, "vision_"),
    "<|patch|>", *_reserved(1041, 7, "vision_"),
    *_reserved(8, 0, "reasoning_"), "<|reasoning_thinking_start|>", "<|reasoning_thinking_end|>",
    *_reserved(904),
)  # fmt: skip

_PATTERN_3 = (
    r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*"
    r"|\s*[\r\n]+|\s+(?!\S)|\s+"
)
#: Llama 4 splits as OpenAI's o200k_base does.
_PATTERN_4 = (
    r"[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+"
    r"(?i:'s|'t|'re|'ve|'m|'ll|'d)?"
    r"|[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*"
    r"(?i:'s|'t|'re|'ve|'m|'ll|'d)?"
    r"|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+"
)

_TURN_3 = (
    "<|start_header_id|>user<|end_header_id|>\n\n{{ messages[0]['content'] | trim }}<|eot_id|>"
    "{% if add_generation_prompt %}<|start_header_id|>assistant<|end_header_id|>\n\n{% endif %}"
)
#: From 3.1 on a system turn with dates comes first; in 3.2 with today's, which is fixed here.
_SYSTEM_3_1 = (
    "<|start_header_id|>system<|end_header_id|>\n\nCutting Knowledge Date: December 2023\n"
    "Today Date: {{ strftime_now('%d %b %Y') }}\n\n<|eot_id|>"
)
_TURN_4 = (
    "<|header_start|>user<|header_end|>\n\n{{ messages[0]['content'] }}<|eot|>"
    "{% if add_generation_prompt %}<|header_start|>assistant<|header_end|>\n\n{% endif %}"
)

_RANKS_3 = Member(
    WHEEL,
    "llama_models/llama3/tokenizer.model",
    2_183_982,
    "82e9d31979e92ab929cd544440f129d9ecd797b69e327f80f17e1c50d5551b55",
)
_RANKS_4 = Member(
    WHEEL,
    "llama_models/llama4/tokenizer.model",
    3_622_230,
    "d0bdbaf59b0762c8c807617e2d8ea51420eb1b1de266df2495be755c8e0ed6ed",
)

#: By registry name.
LLAMA = {
    "llama3.0": Llama(_RANKS_3, _PATTERN_3, _SPECIAL_3_0, "{{ bos_token }}" + _TURN_3),
    "llama3": Llama(_RANKS_3, _PATTERN_3, _SPECIAL_3_1, "{{ bos_token }}" + _SYSTEM_3_1 + _TURN_3),
    "llama4": Llama(_RANKS_4, _PATTERN_4, _SPECIAL_4, "{{ bos_token }}" + _TURN_4),
}
