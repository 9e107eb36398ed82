"""Small models made on the spot: a tokenizer of 2,000 tokens, chat templates, a config."""

import json
from functools import cache
from pathlib import Path

import tokenizers
from tokenizers import decoders, models, pre_tokenizers, processors, trainers

ESSAYS = Path(__file__).parents[2] / "builders" / "ruler_builders" / "sample" / "essays"

#: Chat templates in the manner of well-known models, written small for these tests.
LLAMA = (
    "{{ bos_token }}{% for m in messages %}<|start|>{{ m.role }}<|end|>\n\n{{ m.content | trim }}"
    "<|eot|>{% endfor %}{% if add_generation_prompt %}<|start|>assistant<|end|>\n\n{% endif %}"
)
QWEN3 = (
    "{% for m in messages %}<|im_start|>{{ m.role }}\n{{ m.content }}<|im_end|>\n{% endfor %}"
    "{% if add_generation_prompt %}<|im_start|>assistant\n"
    "{% if enable_thinking is defined and enable_thinking is false %}<think>\n\n</think>\n\n"
    "{% endif %}{% endif %}"
)
MISTRAL = (
    "{{ bos_token }}{% for m in messages %}"
    "{% if m.role == 'user' %}[INST] {{ m.content }} [/INST]{% endif %}{% endfor %}"
)
GEMMA = (
    "{{ bos_token }}{% if messages[0].role == 'system' %}"
    "{{ raise_exception('System role not supported') }}{% endif %}"
    "{% for m in messages %}<start_of_turn>{{ m.role }}\n{{ m.content | trim }}<end_of_turn>\n"
    "{% endfor %}{% if add_generation_prompt %}<start_of_turn>model\n{% endif %}"
)
#: A template that opens the block of reasoning itself, as DeepSeek-R1's does.
REASONER = QWEN3.replace("assistant\n", "assistant\n<think>\n", 1)

SPECIAL = (
    "<s>", "</s>", "<|start|>", "<|end|>", "<|eot|>", "<|im_start|>", "<|im_end|>", "[INST]",
    "[/INST]", "<start_of_turn>", "<end_of_turn>",
)  # fmt: skip


@cache
def _trained() -> str:
    """Return a tokenizer trained on the sample essays, as JSON."""
    made = tokenizers.Tokenizer(models.BPE())
    made.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    made.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=2000, special_tokens=list(SPECIAL), show_progress=False,
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
    )  # fmt: skip
    made.train_from_iterator((path.read_text() for path in sorted(ESSAYS.glob("*.txt"))), trainer)
    return made.to_str()


def make_tokenizer(
    folder: Path, template: str | None = LLAMA, *, bos: str | None = "<s>", adds_bos: bool = True
) -> Path:
    """Write a tokenizer trained on the sample essays.

    Args:
        folder: to write to.
        template: chat template.
        bos: text of the BOS that the config names.
        adds_bos: whether the tokenizer itself puts `<s>` before every text.
    """
    made = tokenizers.Tokenizer.from_str(_trained())
    if adds_bos:
        made.post_processor = processors.TemplateProcessing(
            single="<s> $A", special_tokens=[("<s>", made.token_to_id("<s>"))]
        )
    folder.mkdir(parents=True, exist_ok=True)
    made.save(str(folder / "tokenizer.json"))
    config = {
        "tokenizer_class": "PreTrainedTokenizerFast", "bos_token": bos, "eos_token": "</s>",
        "chat_template": template,
    }  # fmt: skip
    known = {key: value for key, value in config.items() if value is not None}
    (folder / "tokenizer_config.json").write_text(json.dumps(known))
    return folder


def config(window: int = 4096, **changes: object) -> dict[str, object]:
    """Return the config of a Llama of 4 layers."""
    return {
        "architectures": ["LlamaForCausalLM"], "model_type": "llama", "vocab_size": 2000,
        "hidden_size": 128, "intermediate_size": 256, "num_hidden_layers": 4,
        "num_attention_heads": 4, "num_key_value_heads": 2, "head_dim": 32,
        "max_position_embeddings": window, "rms_norm_eps": 1e-5, "hidden_act": "silu",
        "rope_theta": 10000.0, "tie_word_embeddings": False, "torch_dtype": "float32",
        "bos_token_id": 0, "eos_token_id": 1, **changes,
    }  # fmt: skip


def make_model(folder: Path, window: int = 4096, **changes: object) -> Path:
    """Write a tokenizer and a config, without weights: what is read before a model is loaded."""
    make_tokenizer(folder)
    (folder / "config.json").write_text(json.dumps(config(window, **changes)))
    return folder
