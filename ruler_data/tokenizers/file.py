"""A `tokenizer.json` as its libraries read it: Hugging Face `tokenizers`, and gigatoken."""

import hashlib
import json
from collections.abc import Mapping, Sequence
from functools import cached_property, lru_cache
from pathlib import Path
from typing import Any

import numpy as np
import tokenizers

from ruler_data.files import read_json
from ruler_data.tokenizers.counters import Counter, Ids, Text, decoded, gigatoken_counter


def opened(path: Path) -> "TokenizerFile":
    """Return a file that is loaded once per process: a command loads it in several places."""
    return _loaded(path.resolve(), path.stat().st_mtime_ns)


@lru_cache(maxsize=2)
def _loaded(path: Path, _changed: int) -> "TokenizerFile":
    return TokenizerFile(path)


class TokenizerFile:
    """A file that is loaded."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._tokenizer = tokenizers.Tokenizer.from_file(str(path))
        self._tokenizer.no_truncation()
        self._tokenizer.no_padding()

    def special_tokens(self) -> tuple[str, ...]:
        """Return the texts of the special tokens."""
        added = self._tokenizer.get_added_tokens_decoder().values()
        return tuple(token.content for token in added if token.special)

    def ids(self, text: Text, special: bool = False) -> list[int]:
        """Return the token ids of a text; `special` adds what the tokenizer adds to every text."""
        # Unlike `encode`, this lets other threads run, so that Ctrl-C ends it.
        (encoding,) = self._tokenizer.encode_batch([decoded(text)], add_special_tokens=special)
        return encoding.ids

    def counts(self, texts: Sequence[Text]) -> list[int]:
        """Return the number of tokens of each text."""
        whole = [decoded(text) for text in texts]
        encoded = self._tokenizer.encode_batch_fast(whole, add_special_tokens=False)
        return [len(encoding) for encoding in encoded]

    def decode(self, ids: Sequence[int] | Ids, skip_special: bool) -> str:
        """Return the text of token ids."""
        numbers = np.asarray(ids).tolist()
        return self._tokenizer.decode(numbers, skip_special_tokens=skip_special)

    def id_of(self, token: str) -> int | None:
        """Return the id of a token's text, or None."""
        return self._tokenizer.token_to_id(token)

    def vocabulary(self) -> str:
        """Return `vocabulary` of the file."""
        return vocabulary(read_json(self._path))

    @cached_property
    def _fast(self) -> Counter:
        return gigatoken_counter(self._path.name, lambda module: module.Tokenizer(self._path))

    def fast_version(self) -> str:
        """Return the version of gigatoken, which now has loaded the file."""
        return self._fast.version

    def fast_ids(self, text: Text) -> Ids:
        """Return what `ids` does, by gigatoken."""
        return self._fast.ids(text)

    def fast_counts(self, texts: Sequence[Text]) -> list[int]:
        """Return what `counts` does, by gigatoken."""
        return [len(self._fast.encode(text)) for text in texts]


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
            merge.split(" ") if isinstance(merge, str) else merge for merge in model["merges"]
        ]
    added = [token for token in body.get("added_tokens") or () if not token.get("special")]
    stages = (body.get("normalizer"), body.get("pre_tokenizer"))
    return digest([*map(_without_offsets, stages), added, model])


def _without_offsets(value: Any) -> Any:  # noqa: ANN401 - JSON
    """Return a part without the setting that moves offsets and changes no token."""
    if isinstance(value, list):
        return [_without_offsets(item) for item in value]
    if isinstance(value, dict):
        return {k: _without_offsets(value) for k, value in value.items() if k != "trim_offsets"}
    return value


def digest(value: object) -> str:
    """Return the sha256 of a value as JSON."""
    text = json.dumps(value, sort_keys=True, ensure_ascii=False, separators=(",", ":"))
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()
