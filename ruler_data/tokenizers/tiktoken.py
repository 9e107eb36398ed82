"""OpenAI's encodings, with tiktoken. Prompts are plain text: the chat format is not public."""

import base64
import hashlib
import json
import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from ruler_data.errors import RulerError, UsageError
from ruler_data.files import cache_dir
from ruler_data.manifest import TokenizerInfo
from ruler_data.network import download
from ruler_data.tokenizers.protocol import (
    NO_PROBES,
    PLAIN,
    Counter,
    CounterName,
    Fast,
    Ids,
    Probes,
    PromptTokenizer,
    decoded,
    installed,
)

if TYPE_CHECKING:
    import tiktoken


@dataclass(frozen=True)
class Encoding:
    """The file of an encoding's mergeable ranks, and its sha256, which tiktoken itself checks."""

    url: str
    sha256: str


class TiktokenTokenizer(PromptTokenizer):
    """Counts with tiktoken, the reference and the only counter; no template and no BOS."""

    def __init__(self, source: str, name: str, file: Encoding, *, allow_download: bool) -> None:
        """Load the encoding `source` from tiktoken's cache, or download it.

        Raises:
            UsageError: it is not in the cache and cannot be downloaded.
        """
        package = installed("tiktoken", "tiktoken", name)
        self._encoding = _load(source, name, file, allow_download)
        files = {f"{source}.tiktoken": file.sha256}
        super().__init__(TokenizerInfo(name, None, package, files, 0, 0, engine=package))

    @property
    def _reference(self) -> Counter:
        return Counter(
            self._info.engine, lambda text: self._encoding.encode_ordinary(decoded(text))
        )

    def prompt_ids(
        self, content: str, answer_prefix: str, variables: Mapping[str, object] | None = PLAIN
    ) -> Ids:
        """Return the token ids of the plain text of a prompt."""
        return np.array(self._encoding.encode_ordinary(content + answer_prefix), dtype=np.uint32)

    def render(
        self, content: str, answer_prefix: str, variables: Mapping[str, object] | None = PLAIN
    ) -> str:
        """Return the plain text of a prompt."""
        return content + answer_prefix

    def decode(self, ids: Sequence[int] | Ids, *, special: bool = True) -> str:
        """Return the text of token ids; plain prompts have no special tokens."""
        return self._encoding.decode(np.asarray(ids).tolist())

    def use(self, counter: CounterName, probes: Probes = NO_PROBES) -> str:
        """Keep tiktoken, without a word for `auto`."""
        return "" if counter == "auto" else super().use(counter)

    def _checked_fast(self, probes: Probes) -> Fast:
        raise UsageError("counter gigatoken does not read tiktoken's encodings")


def _load(source: str, name: str, encoding: Encoding, allow_download: bool) -> "tiktoken.Encoding":
    """Return an encoding; its file is downloaded here, as tiktoken's download has no time limit."""
    import tiktoken

    # tiktoken's default cache is a folder in /tmp that any user can write to.
    cache = Path(os.environ.setdefault("TIKTOKEN_CACHE_DIR", str(cache_dir("tiktoken"))))
    file = hashlib.sha1(encoding.url.encode()).hexdigest()  # its name in tiktoken's cache
    try:
        if not (cache / file).is_file():
            if not allow_download:
                raise RulerError("it is not in tiktoken's cache, and downloads are off")
            download(encoding.url, encoding.sha256, cache, name=file)
        return tiktoken.get_encoding(source)
    except (RulerError, OSError, ValueError) as error:
        remedy = "set TIKTOKEN_CACHE_DIR to a folder that has it"
        if source == "o200k_base":
            remedy += ": litellm/litellm_core_utils/tokenizers of the package litellm"
        raise UsageError(f"tokenizer {name}: {error}; offline, {remedy}") from error


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
    vocabulary = {_letters(token): first + rank for token, rank in ranks.items()}
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
            "vocab": vocabulary,
            "merges": [*_merges(vocabulary)],
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


def _merges(ranks: Mapping[str, int]) -> Iterator[tuple[str, str]]:
    """Yield the pairs that form each token, by rank of the token, then of the pair."""
    for token in ranks:
        splits = ((token[:at], token[at:]) for at in range(1, len(token)))
        pairs = [pair for pair in splits if pair[0] in ranks and pair[1] in ranks]
        yield from sorted(pairs, key=lambda pair: (ranks[pair[0]], ranks[pair[1]]))


def _letters(token: bytes) -> str:
    return token.decode("latin-1").translate(_LETTERS)


_SHOWN = {*range(33, 127), *range(161, 173), *range(174, 256)}
_HIDDEN = [byte for byte in range(256) if byte not in _SHOWN]
#: The letter of each byte in byte-level vocabularies that is not its own (the table of GPT-2).
_LETTERS = {byte: 256 + place for place, byte in enumerate(_HIDDEN)}
