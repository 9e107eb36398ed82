"""Essays as sentences: white space collapsed, then cut by nltk's Punkt, as upstream does.

Where the sentences of the default essays end ships with the package. Those of others are cached by
the hash of text, model and cutter: cutting three million characters takes seconds.
"""

import hashlib
import json
import os
import zipfile
import zlib
from collections.abc import Iterable
from importlib.metadata import version
from importlib.resources import files
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from ruler_data.errors import RulerError
from ruler_data.files import cache_dir, cached_bytes, hash_files, read_text, write_bytes
from ruler_data.network import Unreachable, download

if TYPE_CHECKING:
    from nltk.tokenize.punkt import PunktSentenceTokenizer

#: The English Punkt model of nltk's `punkt_tab`; another model would cut other sentences.
PUNKT = {
    "abbrev_types.txt": "92a3e070f43d9b4c5534758ca40ad7343b04e7e29bfe0c2eb658a39445a4f779",
    "collocations.tab": "8e2da1225e4dd2cc9dba261ee231ccb134859e21b46006e7f472c5ee269af0cf",
    "ortho_context.tab": "4bbcca25ed3d3f06c02402abf8419b9f033b8adc06e7b482eca4e45f81a5dc4c",
    "sent_starters.txt": "f3f8535483e1dba487241b764945168123bca3209a9645e59acd1225dc76edac",
}
#: Most bytes of a file of the model, which is longer than any of them.
LARGEST_PUNKT = 10_000_000
PUNKT_URL = (
    "https://raw.githubusercontent.com/nltk/nltk_data/gh-pages/packages/tokenizers/punkt_tab.zip"
)

#: A text on which versions of the cutter differ: abbreviations, initials, quotes, ellipses.
CANARY = (
    'Dr. J. B. Smith met Mrs. Lee at 5 p.m. on Jan. 3rd. "Is it so?" she asked. He paused... '
    "Then he said no! See fig. 2 (p. 14). It costs $3.50, i.e. less. The U.S. did. 1. One. 2. Two."
)
CANARY_CUT = "f5869f7b714b0f932aa05ea9bc67f44765976b52222fcdf54d5f65fe994db3e8"


#: The default essays with white space collapsed, and the lengths of their sentences (characters)
#: as zlib of 16-bit little-endian numbers.
DEFAULT_WORDS = "50dc238f9c75a909be31819c5ab7a1aee65bb27cd9075f3f3133b793949393d4"
LENGTHS = "essays.lengths"


def cut(text: str, folder: Path | None, allow_download: bool) -> tuple[tuple[str, ...], str]:
    """Return the sentences of a text and, for the manifest, what cut them.

    Args:
        text: the essays.
        folder: the user's sources; its `nltk_data` is searched first.
        allow_download: whether the model may be downloaded if it is not found.

    Raises:
        RulerError: the model is missing, or the installed nltk cuts differently.
    """
    words = " ".join(text.split())
    model = _sha256("".join(PUNKT.values()))
    detail = f"cut by Punkt (punkt_tab sha256 {model[:16]}...)"
    if _sha256(words) == DEFAULT_WORDS:
        data = (files("ruler_builders") / "sources" / LENGTHS).read_bytes()
        return split(words, np.frombuffer(zlib.decompress(data), "<u2").tolist()), detail
    key = _sha256(f"{model}\n{CANARY_CUT}\n{words}")

    def make() -> bytes:
        sentences = _cut(words, punkt_folder(folder, allow_download=allow_download))
        return json.dumps(sentences, ensure_ascii=False).encode()

    sentences = tuple(json.loads(cached_bytes(cache_dir("sentences") / f"{key}.json", make)))
    return sentences, detail


def split(words: str, lengths: Iterable[int]) -> tuple[str, ...]:
    """Return the sentences of a text from their lengths; a space between two belongs to neither.

    >>> split("It is. So be it.[1] Go.", [6, 9, 3, 3])
    ('It is.', 'So be it.', '[1]', 'Go.')
    """
    sentences = list[str]()
    start = 0
    for length in lengths:
        start += words.startswith(" ", start)
        sentences.append(words[start : start + length])
        start += length
    return tuple(sentences)


def punkt_folder(folder: Path | None, *, allow_download: bool) -> Path:
    """Return the folder of the pinned English Punkt model."""
    roots = list[Path]()
    if folder:
        roots.append(folder / "nltk_data")
    roots += [Path(path) for path in os.environ.get("NLTK_DATA", "").split(os.pathsep) if path]
    home = Path("~").expanduser() if os.environ.get("HOME") else cache_dir()
    roots += [home / "nltk_data", cache_dir("nltk_data")]
    models = (root / "tokenizers" / "punkt_tab" / "english" for root in roots)
    model = next(filter(Path.is_dir, models), None)
    if model is None:
        problem = (
            "the sentence model punkt_tab is needed to cut the essays and was not found; put it "
            "under SOURCES/nltk_data, or set NLTK_DATA to a folder that has it"
        )
        if not allow_download:
            raise RulerError(problem)
        try:
            model = download_punkt(cache_dir("nltk_data"))
        except Unreachable as error:
            raise RulerError(problem) from error
    check_punkt(model)
    return model


def download_punkt(root: Path) -> Path:
    """Download the model into a folder of nltk's data, and return where it lies.

    Raises:
        Unreachable: the host does not answer, or downloads are off.
        RulerError: it is not the pinned model; nothing of it is kept.
    """
    archive = download(PUNKT_URL, None, root / "tokenizers")
    try:
        contents = _read_punkt(archive)
    finally:
        archive.unlink()
    model = root / "tokenizers" / "punkt_tab" / "english"
    for name, data in contents.items():
        write_bytes(model / name, data)
    return model


def _read_punkt(archive: Path) -> dict[str, bytes]:
    """Return the files of the model in an archive, each checked before anything is unpacked."""
    contents = dict[str, bytes]()
    for name, expected in PUNKT.items():
        try:
            with zipfile.ZipFile(archive) as members:
                data = members.open(f"punkt_tab/english/{name}").read(LARGEST_PUNKT)
        except (KeyError, zipfile.BadZipFile) as error:
            problem = f"holds no punkt_tab/english/{name} ({type(error).__name__})"
            raise RulerError(PUNKT_URL, problem) from error
        actual = hashlib.sha256(data).hexdigest()
        if actual != expected:
            problem = f"{name}: refused: sha256 expected {expected}, found {actual}"
            raise RulerError(PUNKT_URL, problem)
        contents[name] = data
    return contents


def check_punkt(model: Path) -> None:
    """Check that a folder holds the pinned model.

    Raises:
        RulerError: a file is missing or has other content.
    """
    hashes = hash_files(model, [*PUNKT])
    for name, expected in PUNKT.items():
        if (actual := hashes.get(name, "no such file")) != expected:
            raise RulerError(f"{model / name}: sha256 expected {expected}, found {actual}")


def _cut(words: str, model: Path) -> tuple[str, ...]:
    punkt = punkt_cutter(model)
    actual = _sha256("\n".join(punkt.tokenize(CANARY)))
    if actual != CANARY_CUT:
        raise RulerError(
            f"nltk {version('nltk')} cuts sentences differently from this data version: sha256 "
            f"expected {CANARY_CUT}, found {actual}; pip install nltk==3.10.4"
        )
    return tuple(punkt.tokenize(words))


def punkt_cutter(model: Path) -> "PunktSentenceTokenizer":
    """Return nltk's cutter with the model of a folder.

    The four files are read here, since nltk only opens files in its own data path.
    """
    try:
        from nltk.tabdata import PunktDecoder
        from nltk.tokenize.punkt import PunktSentenceTokenizer
    except ModuleNotFoundError as error:
        raise RulerError(
            "cutting essays needs nltk; pip install -e '.[build]' in the checkout"
        ) from error
    decoder = PunktDecoder()
    punkt = PunktSentenceTokenizer()
    lines = {name: read_text(model / name).splitlines(True) for name in PUNKT}
    punkt._params.collocations = set(decoder.tab2tups(lines["collocations.tab"]))
    punkt._params.sent_starters = decoder.txt2set(lines["sent_starters.txt"])
    punkt._params.abbrev_types = decoder.txt2set(lines["abbrev_types.txt"])
    punkt._params.ortho_context = decoder.tab2intdict(lines["ortho_context.tab"])
    return punkt


def _sha256(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()
