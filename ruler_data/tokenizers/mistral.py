"""Mistral's tokenizers, which the package `mistral-common` includes: Tekken and SentencePiece.

The fast counter reads `tokenizer.json`, so `convert` writes a Tekken file in that format.
"""

import base64
import hashlib
from collections.abc import Mapping, Sequence
from functools import cached_property, lru_cache, partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from ruler_data.errors import UsageError
from ruler_data.files import (
    JSON_BYTES,
    TEXT_BYTES,
    cache_dir,
    cached_bytes,
    hash_files,
    open_file,
    parse_json,
    read_bytes,
)
from ruler_data.manifest import TokenizerInfo
from ruler_data.row import utf8
from ruler_data.tokenizers.protocol import (
    PLAIN,
    Counter,
    Fast,
    Ids,
    Probes,
    PromptTokenizer,
    Text,
    check_parity,
    decoded,
    gigatoken_counter,
    installed,
)
from ruler_data.tokenizers.tiktoken import tokenizer_json

if TYPE_CHECKING:
    from mistral_common.tokens.tokenizers.mistral import MistralTokenizer


class Frame(NamedTuple):
    """How one version of Mistral's chat template wraps one user turn.

    It has `specials` control tokens, including BOS; the text `before` and `after` the turn is
    tokenized with it.
    """

    specials: int
    before: str
    after: str


#: `<s>[INST] ... [/INST]` with brackets as text, and with brackets as control tokens.
FRAMES = (Frame(1, "[INST] ", " [/INST]"), Frame(3, "", ""))

#: Control symbols that a SentencePiece model names. gigatoken reads these names in a text as the
#: symbols, and the reference reads them as text, so it counts the texts that have one.
CONTROLS = (b"<s>", b"</s>", b"<unk>")


class MistralCommonTokenizer(PromptTokenizer):
    """A tokenizer that counts and renders exactly as Mistral's own library does.

    The library recognizes no special token in text. `[/INST]` ends the user's turn and opens the
    model's.
    """

    has_template = True

    def __init__(self, path: Path, name: str) -> None:
        """Name a tokenizer file; it is loaded at first use, because Tekken takes a second."""
        open_file(path, TEXT_BYTES, f"tokenizer {name}: {path.name}").close()
        self._path = path
        package = installed("mistral-common", "mistral", name)
        files = hash_files(path.parent, [path.name])
        super().__init__(TokenizerInfo(name, None, package, files, 0, 0, engine=package))

    @cached_property
    def _tokenizer(self) -> "MistralTokenizer[Any, Any, Any, Any, Any]":
        return _loaded(self._path, self._path.stat().st_mtime_ns)

    @cached_property
    def _plain(self) -> Any:  # noqa: ANN401 - one of several classes of the library
        return self._tokenizer.instruct_tokenizer.tokenizer

    @cached_property
    def _reference(self) -> Counter:
        return Counter(
            self._info.engine, lambda text: self._plain.encode(decoded(text), bos=False, eos=False)
        )

    @property
    def bos_id(self) -> int:
        """Id of the BOS token."""
        return int(self._plain.bos_id)

    def prompt_ids(
        self, content: str, answer_prefix: str, variables: Mapping[str, object] | None = PLAIN
    ) -> Ids:
        """Return the token ids of a prompt; the library's template has no variables.

        The answer prefix is encoded as text after the user turn, because the library's messages
        with `prefix=True` would drop the space at the end of the prefix of vt.
        """
        if variables is None:
            ids = self._plain.encode(content + answer_prefix, bos=True, eos=False)
            return np.array(ids, dtype=np.uint32)
        turn = np.array(self._turn(content), dtype=np.uint32)
        return np.concatenate([turn, self._reference.ids(answer_prefix)])

    def render(
        self, content: str, answer_prefix: str, variables: Mapping[str, object] | None = PLAIN
    ) -> str:
        """Return the text of a prompt as the library decodes it."""
        if variables is None:
            return content + answer_prefix
        return self.decode(self._turn(content)) + answer_prefix

    def decode(self, ids: Sequence[int] | Ids, *, special: bool = True) -> str:
        """Return the text of token ids, with or without special tokens."""
        from mistral_common.tokens.tokenizers.base import SpecialTokenPolicy

        policy = SpecialTokenPolicy.KEEP if special else SpecialTokenPolicy.IGNORE
        return str(self._plain.decode(np.asarray(ids).tolist(), special_token_policy=policy))

    def _turn(self, content: str) -> list[int]:
        from mistral_common.protocol.instruct.messages import UserMessage
        from mistral_common.protocol.instruct.request import ChatCompletionRequest

        request: ChatCompletionRequest[Any] = ChatCompletionRequest(
            messages=[UserMessage(content=content)]
        )
        return list(self._tokenizer.encode_chat_completion(request).tokens)

    def _checked_fast(self, probes: Probes) -> Fast:
        name = self._path.name
        reference = self._reference
        fast = whole = _fast(self._path, self._path.stat().st_mtime_ns)
        if not name.endswith(".json"):

            def encode(text: Text) -> Any:  # noqa: ANN401 - a list or an array
                is_named = any(name in utf8(text) for name in CONTROLS)
                return (reference if is_named else whole).encode(text)

            fast = Counter(whole.version, encode)

        def check() -> int:
            """Check the ids, and return which of the frames gives the library's counts."""
            prompts = [("Which?", " That:"), *probes()]
            counts = [self.recount_prompt(*prompt) for prompt in prompts]
            for number, frame in enumerate(FRAMES):
                if [self._framed(reference, frame, *prompt) for prompt in prompts] == counts:
                    texts = (text for prompt in prompts for text in prompt)
                    check_parity(fast, reference, texts)
                    return number
            raise UsageError(f"the chat template of {name} is not one that the fast counter has")

        frame = FRAMES[check()]
        return Fast(fast, partial(self._framed, fast, frame))

    @staticmethod
    def _framed(counter: Counter, frame: Frame, content: Text, answer_prefix: str) -> int:
        turn = b"".join(map(utf8, (frame.before, content, frame.after)))
        tokens = frame.specials + counter.count([turn])[0]
        if answer_prefix:
            tokens += counter.count([answer_prefix.encode()])[0]
        return tokens


@lru_cache(maxsize=2)
def _loaded(path: Path, _changed: int) -> "MistralTokenizer[Any, Any, Any, Any, Any]":
    """Load a file once per process: a command loads its tokenizer in several places."""
    from mistral_common.tokens.tokenizers.mistral import MistralTokenizer

    tokenizer: MistralTokenizer[Any, Any, Any, Any, Any] = MistralTokenizer.from_file(str(path))
    # Before its version 1.13 the library decodes each turn anew, for a text that is not used here.
    tokenizer.instruct_tokenizer.decode = lambda *_, **__: ""  # type: ignore[method-assign]
    return tokenizer


@lru_cache(maxsize=2)
def _fast(path: Path, _changed: int) -> Counter:
    """Load a file for the fast counter, once per process as well."""
    if path.name.endswith(".json"):
        return gigatoken_counter(path.name, lambda g: g.Tokenizer.from_json(converted(path)))
    return gigatoken_counter(path.name, lambda g: g.Tokenizer.from_sentencepiece(path))


def packaged(filename: str, name: str) -> MistralCommonTokenizer:
    """Return a tokenizer that the installed `mistral-common` includes.

    Raises:
        UsageError: it is not installed, or its version does not include the file.
    """
    package = installed("mistral-common", "mistral", name)
    import mistral_common

    path = Path(mistral_common.__file__).parent / "data" / filename
    if not path.exists():
        raise UsageError(f"tokenizer {name}: {package} has no {filename}")
    return MistralCommonTokenizer(path, name)


def converted(path: Path) -> bytes:
    """Return a Tekken file as `tokenizer.json`, from the cache if possible."""
    data = read_bytes(path, JSON_BYTES)
    place = cache_dir("tekken") / f"{hashlib.sha256(data).hexdigest()}-3"
    return cached_bytes(place, lambda: convert(data))


def convert(data: bytes) -> bytes:
    """Return the `tokenizer.json` that gives the ids of a Tekken file."""
    tekken = parse_json(data)
    config = tekken["config"]
    specials = config["default_num_special_tokens"]
    entries = tekken["vocab"][: config["default_vocab_size"] - specials]
    ranks = {base64.b64decode(entry["token_bytes"]): entry["rank"] for entry in entries}
    return tokenizer_json(ranks, config["pattern"], {}, first=specials)
