"""Byte-level vocabularies given by ranks, as tiktoken, Tekken and Llama have them.

Such a vocabulary gives each token a rank: of all neighbouring pieces that form a token, the pair
with the lowest rank is merged first. `tokenizer.json` lists merges instead: here, for each token in
order of rank, all pairs of shorter tokens that form it. transformers converts Llama's files in this
way, so the vocabulary and the merges are those of the file on the Hub.
"""

import base64
import json
from collections.abc import Iterator, Mapping
from typing import Any


def read_ranks(data: bytes) -> dict[bytes, int]:
    """Return the rank of each token in a file in tiktoken's format.

    Raises:
        ValueError: it has another format.
    """
    pairs = (line.split() for line in data.splitlines() if line)
    return {base64.b64decode(token, validate=True): int(rank) for token, rank in pairs}


def tokenizer_json(
    ranks: Mapping[bytes, int],
    pattern: str,
    special: Mapping[str, int],
    *,
    first: int = 0,
    begin: bool = True,
) -> bytes:
    """Return the `tokenizer.json` that gives the ids of a vocabulary.

    Args:
        ranks: of the tokens, in rising order.
        pattern: regular expression that splits text before merging.
        special: id of each special token; the first one is BOS.
        first: id of rank 0.
        begin: whether BOS is put before every text.
    """
    byte_level = {
        "type": "ByteLevel",
        "add_prefix_space": False,
        "trim_offsets": True,
        "use_regex": False,
    }
    split = {
        "type": "Split",
        "pattern": {"Regex": pattern},
        "behavior": "Isolated",
        "invert": False,
    }
    flags = dict.fromkeys(("single_word", "lstrip", "rstrip", "normalized"), False)
    body: dict[str, Any] = {
        "version": "1.0",
        "added_tokens": [
            {"id": number, "content": text, **flags, "special": True}
            for text, number in special.items()
        ],
        "normalizer": None,
        "pre_tokenizer": {"type": "Sequence", "pretokenizers": [split, byte_level]},
        "post_processor": _begin_with(*next(iter(special.items()))) if special and begin else None,
        "decoder": byte_level,
        "model": {
            "type": "BPE",
            "ignore_merges": True,
            "vocab": {_letters(token): first + rank for token, rank in ranks.items()},
            "merges": [[_letters(left), _letters(right)] for left, right in _merges(ranks)],
        },
    }
    return json.dumps(body, ensure_ascii=False).encode()


def _begin_with(bos: str, number: int) -> dict[str, Any]:
    """Return the post-processor that puts BOS before a text."""
    token = {"SpecialToken": {"id": bos, "type_id": 0}}
    sequence = [token, {"Sequence": {"id": "A", "type_id": 0}}]
    return {
        "type": "TemplateProcessing",
        "single": sequence,
        "pair": [*sequence, {"Sequence": {"id": "B", "type_id": 0}}],
        "special_tokens": {bos: {"id": bos, "ids": [number], "tokens": [bos]}},
    }


def _merges(ranks: Mapping[bytes, int]) -> Iterator[tuple[bytes, bytes]]:
    """Yield the pairs that form each token, by rank of the token, then of the pair."""
    for token in ranks:
        splits = ((token[:at], token[at:]) for at in range(1, len(token)))
        pairs = [pair for pair in splits if pair[0] in ranks and pair[1] in ranks]
        yield from sorted(pairs, key=lambda pair: (ranks[pair[0]], ranks[pair[1]]))


def _letters(token: bytes) -> str:
    return "".join([_LETTERS[byte] for byte in token])


_SHOWN = {*range(33, 127), *range(161, 173), *range(174, 256)}
_HIDDEN = [byte for byte in range(256) if byte not in _SHOWN]
#: The letter of each byte in byte-level vocabularies (the table of GPT-2).
_LETTERS = [chr(n if n in _SHOWN else 256 + _HIDDEN.index(n)) for n in range(256)]
