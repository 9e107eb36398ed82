"""Mistral's tokenizers, which the `mistral-common` package ships: Tekken and SentencePiece.

Tekken files as `tokenizer.json`, the format that fast counters read.

A Tekken file ranks tokens, as tiktoken's do: of all neighbouring pieces that are a token
together, those of the lowest rank are joined first. `tokenizer.json` lists the joins instead: each
token is the join of the two pieces that are left of it when only lower ranks may be joined.
"""

import base64
import hashlib
import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ruler_data.errors import RulerError, UsageError
from ruler_data.files import cache_dir, hash_files, write_bytes
from ruler_data.manifest import TokenizerInfo
from ruler_data.row import utf8
from ruler_data.tokenizers.counters import (
    Counter,
    CounterName,
    GigatokenCounter,
    GuardedCounter,
    Probes,
    Text,
    VendorCounter,
    check_parity,
    choose_counter,
    decoded,
    remembered,
)
from ruler_data.tokenizers.protocol import NO_PROBES, PLAIN

if TYPE_CHECKING:
    from mistral_common.tokens.tokenizers.base import Tokenized
    from mistral_common.tokens.tokenizers.mistral import MistralTokenizer


@dataclass(frozen=True)
class Frame:
    """How a generation of Mistral's templates wraps one user turn.

    Attributes:
        specials: control tokens, BOS included.
        before: text before the turn, tokenized with it.
        after: text behind it, likewise.
    """

    specials: int
    before: str
    after: str


#: `<s>[INST] ... [/INST]` with brackets as text, and with brackets as control tokens.
FRAMES = (Frame(1, "[INST] ", " [/INST]"), Frame(3, "", ""))

#: Control symbols that a SentencePiece model names.
CONTROLS = ("<s>", "</s>", "<unk>")


class MistralCommonTokenizer:
    """Counts as Mistral's own library does; the template is that library's, token for token."""

    def __init__(self, path: Path, name: str) -> None:
        """Prepare a tokenizer file; it is loaded when first used (Tekken takes a second)."""
        self._path, self._name = path, name
        self._fast: Counter | None = None
        self._frame: Frame | None = None

    @cached_property
    def _tokenizer(self) -> "MistralTokenizer[Any, Any, Any, Any, Any]":
        return _loaded(self._path, self._path.stat().st_mtime_ns)

    @cached_property
    def _reference(self) -> VendorCounter:
        return VendorCounter(self._tokenizer.instruct_tokenizer.tokenizer.encode)

    @property
    def info(self) -> TokenizerInfo:
        """Name, origin and hashes, for the manifest."""
        package = f"mistral-common {version('mistral-common')}"
        return TokenizerInfo(
            name=self._name,
            hub_id=None,
            revision=package,
            files=self._files,
            template_reserve=0,
            extra_reserve=0,
            engine=self._fast.version if self._fast else package,
        )

    @cached_property
    def _files(self) -> dict[str, str]:
        return hash_files(self._path.parent, [self._path.name])

    def count(self, texts: Sequence[str]) -> list[int]:
        """Return the number of tokens of each text, nothing added."""
        return (self._fast or self._reference).count(texts)

    def count_prompt(self, content: Text, answer_prefix: str) -> int:
        """Return the tokens of a prompt of the `completion` protocol."""
        if self._fast is None or self._frame is None:
            return self.recount_prompt(decoded(content), answer_prefix)
        return self._framed(self._fast, self._frame, content, answer_prefix)

    def recount_prompt(self, content: str, answer_prefix: str) -> int:
        """Return the same, counted by the vendor's library.

        The answer prefix is counted as text that follows the user turn; the library's own
        `prefix=True` messages would drop the space at the end of vt's.
        """
        return len(self.prompt_ids(content, answer_prefix))

    special_tokens: tuple[str, ...] = ()  # the library reads text as text
    has_template = True
    wants_bos = True
    opens_turn = True  # [/INST] ends the user's turn and opens the model's

    @property
    def bos_id(self) -> int:
        """Id of the token that texts begin with."""
        return self._tokenizer.instruct_tokenizer.tokenizer.bos_id

    def prompt_ids(
        self, content: str, answer_prefix: str, variables: Mapping[str, object] | None = PLAIN
    ) -> list[int]:
        """Return the token ids of a prompt; the library's format takes no variables."""
        encode = self._tokenizer.instruct_tokenizer.tokenizer.encode
        if variables is None:
            return encode(content + answer_prefix, bos=True, eos=False)
        prefix = encode(answer_prefix, bos=False, eos=False) if answer_prefix else []
        return self._turn(content).tokens + prefix

    def render(
        self, content: str, answer_prefix: str, variables: Mapping[str, object] | None = PLAIN
    ) -> str:
        """Return the text of a prompt as the library shows it."""
        turn = content if variables is None else self.decode(self._turn(content).tokens)
        return turn + answer_prefix

    def decode(self, ids: Sequence[int], *, special: bool = True) -> str:
        """Return the text of token ids, special tokens written out or left out."""
        from mistral_common.tokens.tokenizers.base import SpecialTokenPolicy

        policy = SpecialTokenPolicy.KEEP if special else SpecialTokenPolicy.IGNORE
        plain = self._tokenizer.instruct_tokenizer.tokenizer
        return plain.decode(list(ids), special_token_policy=policy)

    def _turn(self, content: str) -> "Tokenized":
        from mistral_common.protocol.instruct.messages import UserMessage
        from mistral_common.protocol.instruct.request import ChatCompletionRequest

        request: ChatCompletionRequest[Any] = ChatCompletionRequest(
            messages=[UserMessage(content=content)]
        )
        turn: Tokenized = self._tokenizer.encode_chat_completion(request)
        return turn

    def use(self, counter: CounterName, probes: Probes = NO_PROBES) -> str:
        """Count with another counter from here on; see `Tokenizer.use`."""
        self._fast = self._frame = None
        return choose_counter(counter, lambda: self._use_fast(probes))

    def _use_fast(self, probes: Probes) -> None:
        fast = self._load_fast()

        def check() -> int:
            """Check the ids, and return which of the frames gives the library's counts."""
            prompts = [("Which?", " That:"), *probes.prompts()]
            fits = [self._fits(frame, prompts) for frame in FRAMES]
            if not any(fits):
                msg = f"the chat template of {self._path.name} is not one that the fast counter has"
                raise UsageError(msg)
            texts = (part for content, prefix in prompts for part in (content, prefix))
            check_parity(fast, self._reference, texts)
            return fits.index(True)

        frame = FRAMES[remembered(probes, fast, self._reference, self.info.fingerprint, check)]
        self._fast, self._frame = fast, frame

    def _load_fast(self) -> Counter:
        name = self._path.name
        if name.endswith(".json"):
            return GigatokenCounter(name, lambda g: g.Tokenizer.from_json(converted(self._path)))
        fast = GigatokenCounter(name, lambda g: g.Tokenizer.from_sentencepiece(self._path))
        return GuardedCounter(fast, self._reference, CONTROLS)

    def _fits(self, frame: Frame, prompts: Iterable[tuple[str, str]]) -> bool:
        """Whether a frame gives the vendor's counts."""
        return all(
            self._framed(self._reference, frame, *prompt) == self.recount_prompt(*prompt)
            for prompt in prompts
        )

    @staticmethod
    def _framed(counter: Counter, frame: Frame, content: Text, answer_prefix: str) -> int:
        turn = b"".join(map(utf8, (frame.before, content, frame.after)))
        texts = [turn, *([answer_prefix.encode()] if answer_prefix else [])]
        return frame.specials + sum(counter.count([text])[0] for text in texts)


@lru_cache(maxsize=2)
def _loaded(path: Path, _changed: int) -> "MistralTokenizer[Any, Any, Any, Any, Any]":
    """Load a file once a process: a command asks for its tokenizer in several places."""
    from mistral_common.tokens.tokenizers.mistral import MistralTokenizer

    return MistralTokenizer.from_file(str(path))


def packaged(filename: str, name: str) -> MistralCommonTokenizer:
    """Return a tokenizer that the installed `mistral-common` ships.

    Raises:
        UsageError: the package is not installed, or its version ships another file.
    """
    try:
        package = version("mistral-common")
    except PackageNotFoundError as error:
        msg = f"tokenizer {name} needs mistral-common; pip install ruler-data again"
        raise UsageError(msg) from error
    import mistral_common

    path = Path(mistral_common.__file__).parent / "data" / filename
    if not path.exists():
        msg = f"tokenizer {name}: mistral-common {package} ships no {filename}"
        raise UsageError(msg)
    return MistralCommonTokenizer(path, name)


def converted(path: Path) -> bytes:
    """Return a Tekken file as `tokenizer.json`, from the cache if it was converted before."""
    data = path.read_bytes()
    kept = cache_dir("tekken") / f"{hashlib.sha256(data).hexdigest()}-1.json"
    if kept.is_file():
        return kept.read_bytes()
    found = convert(data)
    try:
        write_bytes(kept, found)
    except RulerError:
        return found  # a cache that cannot be written costs time and nothing else
    return found


def convert(data: bytes) -> bytes:
    """Return the `tokenizer.json` that gives the ids of a Tekken file."""
    tekken = json.loads(data)
    config = tekken["config"]
    specials = config["default_num_special_tokens"]
    kept = tekken["vocab"][: config["default_vocab_size"] - specials]
    ranks = {base64.b64decode(entry["token_bytes"]): entry["rank"] for entry in kept}
    split = {
        "type": "Split", "pattern": {"Regex": config["pattern"]}, "behavior": "Isolated",
        "invert": False,
    }  # fmt: skip
    as_letters = {
        "type": "ByteLevel", "add_prefix_space": False, "trim_offsets": True, "use_regex": False,
    }  # fmt: skip
    body: dict[str, Any] = {
        "version": "1.0",
        "added_tokens": [],
        "normalizer": None,
        "pre_tokenizer": {"type": "Sequence", "pretokenizers": [split, as_letters]},
        "post_processor": None,
        "decoder": as_letters,
        "model": {
            "type": "BPE",
            "ignore_merges": True,
            "vocab": {_letters(token): rank + specials for token, rank in ranks.items()},
            "merges": [[_letters(left), _letters(right)] for left, right in _joins(ranks)],
        },
    }
    return json.dumps(body, ensure_ascii=False).encode()


def _joins(ranks: Mapping[bytes, int]) -> Iterator[tuple[bytes, bytes]]:
    """Yield the two pieces that each token is joined of, in order of rank."""
    for token, rank in ranks.items():
        pieces = [token[i : i + 1] for i in range(len(token))]
        while len(pieces) > 2:
            joined = [ranks.get(pieces[i] + pieces[i + 1], rank) for i in range(len(pieces) - 1)]
            lowest = min(joined)
            if lowest >= rank:
                break  # no join leads to this token: only a text that is it alone gives it
            at = joined.index(lowest)
            pieces[at : at + 2] = [pieces[at] + pieces[at + 1]]
        if len(pieces) == 2:
            yield pieces[0], pieces[1]


def _letters(token: bytes) -> str:
    return "".join([_LETTERS[byte] for byte in token])


def _byte_letters() -> list[str]:
    """Return the letter that stands for each byte in byte-level vocabularies (GPT-2's table)."""
    shown = {*range(33, 127), *range(161, 173), *range(174, 256)}
    hidden = (code for code in range(256, 512))
    return [chr(byte) if byte in shown else chr(next(hidden)) for byte in range(256)]


_LETTERS = _byte_letters()
