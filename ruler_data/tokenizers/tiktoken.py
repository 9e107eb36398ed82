"""OpenAI's encodings, with tiktoken. Prompts are plain text: the chat format is not public."""

import hashlib
import os
from collections.abc import Mapping, Sequence
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING

from ruler_data.errors import RulerError, UsageError
from ruler_data.files import cache_dir
from ruler_data.manifest import TokenizerInfo
from ruler_data.network import download
from ruler_data.tokenizers.counters import Counter, CounterName, Probes, decoded
from ruler_data.tokenizers.protocol import NO_PROBES, PLAIN, Fast, PromptTokenizer

if TYPE_CHECKING:
    import tiktoken

#: Files of mergeable ranks and their sha256, which tiktoken itself checks.
RANKS = {
    "o200k_base": (
        "https://openaipublic.blob.core.windows.net/encodings/o200k_base.tiktoken",
        "446a9538cb6c348e3516120d7c08b09f57c36495e2acfffe59a5bf8b0cfb1a2d",
    )
}


class TiktokenTokenizer(PromptTokenizer):
    """Counts with tiktoken, the reference and the only counter; no template and no BOS."""

    def __init__(self, encoding: str, name: str, *, allow_download: bool) -> None:
        """Load an encoding from tiktoken's cache, or download it.

        Raises:
            UsageError: it is not in the cache and cannot be downloaded.
        """
        self._encoding = _load(encoding, name, allow_download)
        package = f"tiktoken {version('tiktoken')}"
        files = {f"{encoding}.tiktoken": RANKS[encoding][1]}
        super().__init__(TokenizerInfo(name, None, package, files, 0, 0, engine=package))

    @property
    def _reference(self) -> Counter:
        return Counter(
            self._info.engine, lambda text: self._encoding.encode_ordinary(decoded(text))
        )

    def prompt_ids(
        self, content: str, answer_prefix: str, variables: Mapping[str, object] | None = PLAIN
    ) -> list[int]:
        """Return the token ids of the plain text of a prompt."""
        return self._encoding.encode_ordinary(content + answer_prefix)

    def render(
        self, content: str, answer_prefix: str, variables: Mapping[str, object] | None = PLAIN
    ) -> str:
        """Return the plain text of a prompt."""
        return content + answer_prefix

    def decode(self, ids: Sequence[int], *, special: bool = True) -> str:
        """Return the text of token ids; plain prompts have no special tokens."""
        return self._encoding.decode(list(ids))

    def use(self, counter: CounterName, probes: Probes = NO_PROBES) -> str:
        """Keep tiktoken, without a word for `auto`."""
        return "" if counter == "auto" else super().use(counter)

    def _checked_fast(self, probes: Probes) -> Fast:
        msg = "counter gigatoken does not read tiktoken's encodings"
        raise UsageError(msg)


def _load(encoding: str, name: str, allow_download: bool) -> "tiktoken.Encoding":
    """Return an encoding; its file is downloaded here, as tiktoken's download has no time limit."""
    import tiktoken

    url, sha256 = RANKS[encoding]
    # tiktoken's default cache is a folder in /tmp that any user can write to.
    cache = Path(os.environ.setdefault("TIKTOKEN_CACHE_DIR", str(cache_dir("tiktoken"))))
    file = hashlib.sha1(url.encode()).hexdigest()  # its name in tiktoken's cache
    try:
        if not (cache / file).is_file():
            if not allow_download:
                msg = "it is not in tiktoken's cache, and downloads are off"
                raise RulerError(msg)
            download(url, sha256, cache, name=file)
        return tiktoken.get_encoding(encoding)
    except (RulerError, OSError, ValueError) as error:
        msg = f"tokenizer {name}: {error}; offline, set TIKTOKEN_CACHE_DIR to a folder that has it"
        raise UsageError(msg) from error
