"""The identity of a tokenizer: one sha256 of what decides on the tokens of the benchmark's prompts.

Files that give the same tokens differ in bytes: merges are strings or pairs, a fine-tuned model is
saved again, a package has only the ranks. So the identity covers the parsed vocabulary, and the
token ids of prompts rendered by the chat template. Special tokens that no prompt holds (reserved
ones, padding) are left out: rows never spell one.
"""

import hashlib
import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from ruler_data.errors import UsageError
from ruler_data.files import cache_dir, kept

#: User turns whose prompts are part of the identity; a template may strip a turn.
TURNS = ("Which of these?\n\n1. this\n2. that\nQuestion: Which?", "\n The first. \n")
PREFIX = " Answer: The first is"


def identity(path: Path, sha256: str, prompt_ids: Callable[[str, str], list[int]]) -> str:
    """Return the identity of a tokenizer.

    Args:
        path: of its `tokenizer.json`.
        sha256: of that file.
        prompt_ids: returns the token ids of a prompt, from user turn and answer prefix.
    """
    prompts: list[object] = []
    for turn in TURNS:
        try:
            prompts.append(prompt_ids(turn, PREFIX))
        except UsageError:  # the template refuses a user turn
            prompts.append(None)
    # Parsing takes a second.
    digest = kept(
        cache_dir("vocabularies") / f"{sha256}-2",
        lambda: vocabulary(json.loads(path.read_bytes())).encode(),
    )
    return _digest([digest.decode(), prompts])


def vocabulary(body: Mapping[str, Any]) -> str:
    """Return a sha256 of what decides on the tokens of plain text in a `tokenizer.json`.

    >>> ids = {"a": 0, "b": 1, "ab": 2}
    >>> pairs = {"type": "BPE", "dropout": None, "vocab": ids, "merges": [["a", "b"]]}
    >>> vocabulary({"model": pairs}) == vocabulary({"model": {"vocab": ids, "merges": ["a b"]}})
    True
    """
    model = {name: value for name, value in body["model"].items() if value not in (None, False)}
    if "merges" in model:
        model["type"] = "BPE"  # files of old versions do not name it
        model["merges"] = [
            one.split(" ") if isinstance(one, str) else one for one in model["merges"]
        ]
    added = [one for one in body.get("added_tokens") or () if not one.get("special")]
    parts = (body.get("normalizer"), body.get("pre_tokenizer"))
    return _digest([*map(_without_offsets, parts), added, model])


def _without_offsets(part: Any) -> Any:  # noqa: ANN401 - JSON
    """Return a part without the setting that moves offsets and changes no token."""
    if isinstance(part, list):
        return [_without_offsets(one) for one in part]
    if isinstance(part, dict):
        return {k: _without_offsets(value) for k, value in part.items() if k != "trim_offsets"}
    return part


def _digest(value: object) -> str:
    text = json.dumps(value, sort_keys=True, ensure_ascii=False, separators=(",", ":"))
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()
