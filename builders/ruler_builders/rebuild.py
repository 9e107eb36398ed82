"""`verify`: make a folder again from the inputs that its manifest records, and compare listings.

    manifest -> plan -> the same build in a scratch folder -> listing of (path, bytes, hash)
                        the folder, or a commit on the Hub -> listing of (path, bytes, hash)

Each path that is not the same in both is a finding; only then is it said in which row, column,
field or line. What cannot be made here is named with its remedy: no sources, no tokenizer, another
pyarrow, another version of this package. Values of the manifest that decide no byte are printed as
stated by the folder.
"""

import json
from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import AbstractContextManager
from dataclasses import asdict, dataclass, field, replace
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pyarrow as pa
from rich.console import Group
from rich.text import Text

from ruler_builders.card import Address, address_of, card_files
from ruler_builders.listing import (
    check_columns,
    differences,
    folder_listing,
    hub_listing,
    line_difference,
    lists,
    pyarrow_of,
    row_differences,
    unequal_values,
)
from ruler_builders.pipeline.build import empty_manifest, in_order
from ruler_builders.pipeline.build_one import BuildContext, build_one, open_context, worker_context
from ruler_builders.pipeline.plan import BuildPlan
from ruler_builders.pipeline.pool import Progress, processes, run_jobs
from ruler_builders.recorded import (
    expected_tokenizer,
    input_findings,
    plan_of,
    stated_of_tokenizer,
    tasks_of,
)
from ruler_data.dataset import Source, open_source
from ruler_data.errors import BudgetError, RulerError, UsageError
from ruler_data.files import read_bytes
from ruler_data.hub.client import HubDown
from ruler_data.hub.download import fetch_file
from ruler_data.hub.repo import Entry, PushFile, head
from ruler_data.index import FILENAME as INDEX
from ruler_data.manifest import (
    FILENAME,
    ConfigInfo,
    Manifest,
)
from ruler_data.names import (
    counted,
    parse_config,
    parse_lengths,
    parse_names,
    quote,
    released_version,
)
from ruler_data.network import offline
from ruler_data.parquet import UNREADABLE
from ruler_data.progress import progress as progress_bar
from ruler_data.suites import packaged_suite
from ruler_data.tasks import config_place
from ruler_data.terminal import visible_line
from ruler_data.tokenizers.registry import find_by_fingerprint
from ruler_data.version import __version__

#: Files beside the rows that a build writes.
CARD = "README.md"
LICENCES = "LICENSES.md"


@dataclass(frozen=True, repr=False)
class Verdict:
    """The result of `verify`.

    Attributes:
        where: the folder, or the release and its commit.
        findings: what is wrong, each with file, row and value.
        unproved: why a config or file could not be made and compared here, by its name.
        stated: values that the folder states and on which no byte of its rows depends.
        configs: number of configs that were compared.
        rows: number of rows in them.
        made: number of rows that were made again.
    """

    where: str
    findings: tuple[str, ...] = ()
    unproved: Mapping[str, str] = field(default_factory=dict)
    stated: tuple[str, ...] = ()
    configs: int = 0
    rows: int = 0
    made: int = 0

    @property
    def exit_status(self) -> int:
        """0: equal; 1: a finding; 3: equal as far as it could be made here."""
        if self.findings:
            return 1
        if self.unproved:
            return 3
        return 0

    @property
    def failure(self) -> str:
        """Why the status is not 0, in a line."""
        if self.findings:
            return f"{self.where}: verification failed: {counted(len(self.findings), 'finding')}"
        if self.unproved:
            return f"{self.where}: nothing wrong found, but not all proved"
        return ""

    @property
    def notes(self) -> tuple[str, ...]:
        """What could not be proved, and why."""
        by_reason: dict[str, list[str]] = {}
        for name, why in self.unproved.items():
            by_reason.setdefault(why, []).append(name)
        return tuple(f"not proved: {', '.join(names)}: {why}" for why, names in by_reason.items())

    def to_record(self) -> dict[str, object]:
        """Return the verdict as plain values."""
        return {"exit_status": self.exit_status, **asdict(self)}

    def __rich__(self) -> Group:
        lines = list(self.findings)
        if not lines:
            lines = [f"stated by the folder: {value}" for value in self.stated]
            lines.append(repr(self)[1:-1])
        texts = (Text(visible_line(line), no_wrap=True, overflow="ignore") for line in lines)
        return Group(*texts)

    def __repr__(self) -> str:
        result = {0: "proved", 1: counted(len(self.findings), "finding"), 3: "not all proved"}
        checked = f"{counted(self.configs, 'config')}, {counted(self.rows, 'row')}"
        return f"<{self.where}: {result[self.exit_status]}; {checked}, {self.made:,} made again>"


def verify(
    data: Path | str,
    *,
    revision: str | None = None,
    tasks: str | Collection[str] | None = None,
    lengths: str | Collection[int | str] | None = None,
    rows: int | None = None,
    tokenizer: str | None = None,
    sources: Path | str | None = None,
    haystack: Path | str | None = None,
    workers: int = 1,
    show: Callable[[int], AbstractContextManager[Progress]] = progress_bar,
) -> Verdict:
    """Make a folder or release again and compare it; see `ruler_data verify`.

    `show` returns what reports progress over so many tokens.
    """
    selection = parse_names(tasks, "--tasks"), parse_lengths(lengths, "--lengths")
    try:
        source = open_source(data, revision)
        names = source.manifest.select(*selection)
        findings = tuple(dict.fromkeys(input_findings(source.manifest)))
        if findings:  # nothing can be made from such inputs
            return Verdict(str(source), findings)
        with TemporaryDirectory(prefix="ruler-data-") as scratch:
            spec = tokenizer or find_by_fingerprint(source.manifest.tokenizer)
            plan = plan_of(source.manifest, Path(scratch), spec or "", sources, haystack)
            rebuild = Rebuild(source, plan, names, rows)
            rebuild.make(workers, show)
            rebuild.compare()
            return rebuild.verdict()
    except HubDown as error:  # nothing was found wrong
        raise UsageError(*error.args) from error


def remake(
    plan: BuildPlan, job: tuple[str, int], progress: Progress, context: BuildContext | None = None
) -> tuple[str, ConfigInfo | RulerError]:
    """Make so many rows of a config, and return its entry, or why it cannot be made."""
    name, rows = job
    context = context or worker_context(replace(plan, folder=Path()))
    plan = replace(plan, suite=replace(plan.suite, rows=rows))
    try:
        return name, build_one(plan, context, name, progress)[1]
    except RulerError as error:
        return name, error


def _written_by(version: str) -> str:
    return f"written by version {version} of ruler-data: pip install 'ruler-data=={version}'"


class Rebuild:
    """A folder or a release, what a build makes of its inputs, and the comparison of the two.

    Args:
        source: the folder or release.
        plan: of the same build in a scratch folder.
        names: configs to make.
        rows: of each config to make; None for all.
    """

    def __init__(
        self, source: Source, plan: BuildPlan, names: Collection[str], rows: int | None
    ) -> None:
        self.source = source
        self.plan = plan
        self.names = names
        self.manifest = source.manifest
        self.folder = source.folder
        self.is_current = self.manifest.package_version == __version__
        self.context: BuildContext | None = None
        if plan.tokenizer:
            self.context = open_context(plan)
        #: Entries of the configs that were made.
        self.made = dict[str, ConfigInfo]()
        #: What the manifest must state of configs.
        self.entries = dict(self.manifest.configs)
        #: Why a config or file cannot be made or compared here.
        self.unproved = dict[str, str]()
        #: What is wrong with rows and their files.
        self.findings = list[str]()
        self.listing = self._listing()
        self.address = self._address()
        if self._is_listed():
            del self.listing[INDEX]
        self.obstacles = self._obstacles()
        #: Number of rows to make of each config that is there.
        self.rows = dict[str, int]()
        for name, info in self.manifest.configs.items():
            if name not in names:
                self.unproved[name] = "left out by --tasks or --lengths"
            elif why := self.obstacles.get(parse_config(name)[0]):
                self.unproved[name] = why
            elif self._is_file(info.file):
                self.rows[name] = info.rows
                if rows is not None and rows < info.rows:
                    self.rows[name] = rows
                    self.unproved[name] = f"made again were {rows} rows of each config (--rows)"

    def _listing(self) -> dict[str, Entry]:
        """Return the listing of what is there."""
        release = self.source.release
        if release is None:
            return folder_listing(self.folder)
        if offline():
            raise HubDown("downloads are off, so the listing of the commit is not known")
        listing = hub_listing(release.repo, release.commit)
        for name in (CARD, LICENCES, INDEX):
            if name in listing:
                fetch_file(release.repo, name, release.commit, listing[name].bytes)
        return listing

    def _address(self) -> Address | None:
        """Return the address that the card must name; that of a folder, and of code, is stated."""
        release = self.source.release
        stated = address_of(self.folder)
        if release is None:
            return stated
        tag = release.revision
        if not released_version(tag):
            tag = f"v{self.manifest.data_version}"
        if stated is None:
            return Address(release.repo, tag, "")
        if stated.repo != release.repo:
            info = head(stated.repo)
            if info is None or info.id != release.repo:  # not renamed since
                return Address(release.repo, tag, stated.code)
        return Address(stated.repo, tag, stated.code)

    def _is_listed(self) -> bool:
        """Whether an index lies there that names this repo, as it is called now or was before."""
        repos = set[str]()
        if self.address:
            repos.add(self.address.repo)
        if self.source.release:
            repos.add(self.source.release.repo)
        return self._is_file(INDEX) and lists(self.folder / INDEX, repos)

    def _obstacles(self) -> dict[str, str]:
        """Return why rows cannot be made here, by task."""
        manifest = self.manifest
        why = ""
        if manifest.is_imported:
            why = "somebody else made these rows (`ruler-data import`)"
        elif self.context is None:
            tokenizer = f"tokenizer {quote(manifest.tokenizer.name)} with the files of the manifest"
            why = f"{tokenizer} is not available; give --tokenizer FOLDER"
        elif manifest.package_version.split(".")[0] != __version__.split(".")[0]:
            why = f"its rows are {_written_by(manifest.package_version)}"
        if why or self.context is None:
            return dict.fromkeys(tasks_of(manifest), why)
        obstacles = dict[str, str]()
        hashes = {source.name: source.sha256 for source in manifest.sources}
        for name, task in self.plan.suite.tasks.items():
            try:
                infos = self.context.source_infos(task, manifest.edition)
            except (RulerError, KeyError) as error:
                obstacles[name] = str(error)
                continue
            for info in infos:
                sha256 = hashes.get(info.name, info.sha256)
                if sha256 != info.sha256:
                    here = f"the source {info.name} here has sha256 {info.sha256}"
                    obstacles[name] = f"{here}, not {sha256}; give --sources DIR with that"
        return obstacles

    def make(self, workers: int, show: Callable[[int], AbstractContextManager[Progress]]) -> None:
        """Make the configs, the longest first, on several workers."""
        jobs = [(name, rows) for name, rows in self.rows.items() if rows]
        jobs.sort(key=lambda job: -parse_config(job[0])[1])
        lengths = [parse_config(name)[1] for name, _ in jobs]
        tokens = sum(rows * parse_config(name)[1] for name, rows in jobs)
        count = processes(workers, tokens, max(lengths, default=0))
        work = partial(remake, self.plan)
        in_process = partial(work, context=self.context)
        with show(tokens) as progress:
            results = run_jobs(work, jobs, count, progress, in_process)
            for name, result in results:
                if isinstance(result, BudgetError):
                    self.findings.append(f"{name}: cannot be made: {result}")
                elif isinstance(result, RulerError):
                    self.unproved[name] = str(result)
                else:
                    self.made[name] = result

    def compare(self) -> None:
        """Compare each file with the one that was made; where they differ, its rows."""
        for name, made in self.made.items():
            info = self.manifest.configs[name]
            is_whole = made.rows == info.rows
            if is_whole:
                self.entries[name] = made
            if is_whole and self.listing[info.file].is_same(self._file(name)):
                continue
            self._fetch(name)
            try:
                findings = self._row_differences(name, None if is_whole else made.rows)
                if not findings:
                    findings = self._other_bytes(name, made)
            except UNREADABLE as error:
                reason = str(error).strip().partition("\n")[0] or type(error).__name__
                findings = [f"{info.file}: cannot be read: {reason}"]
            self.findings += findings

    def _is_file(self, path: str) -> bool:
        """Whether a file is there, and not a link or device."""
        return path in self.listing and not self.listing[path].kind

    def _fetch(self, name: str) -> None:
        """Download the file of a config of a release, whatever it is."""
        release = self.source.release
        info = self.manifest.configs[name]
        if release is None:
            return
        if self.listing[info.file].sha256 == info.sha256:
            release.fetch([name])
        else:
            size = self.listing[info.file].bytes
            fetch_file(release.repo, info.file, release.commit, size)

    def _row_differences(self, name: str, rows: int | None) -> list[str]:
        """Return how rows of a file differ from those made: all, or the first `rows`."""
        file = self.manifest.configs[name].file
        path = self.folder / file
        check_columns(path)
        return [*row_differences(name, path, self.plan.folder / file, rows)]

    def _other_bytes(self, name: str, made: ConfigInfo) -> list[str]:
        """Return what is wrong with a file of the right rows, or note why it is not proved."""
        info = self.manifest.configs[name]
        if made.rows < info.rows:
            return []
        self.entries[name] = replace(made, bytes=info.bytes, sha256=info.sha256)
        writer = pyarrow_of(self.folder / info.file)
        if not self.is_current:
            self.unproved[name] = f"the file was {_written_by(self.manifest.package_version)}"
        elif writer not in ("", pa.__version__):
            why = f"its rows are equal; its file is of pyarrow {writer}, and here is"
            self.unproved[name] = f"{why} {pa.__version__}: pip install 'pyarrow=={writer}'"
        else:
            return [f"{info.file}: holds its rows, but not in the bytes that pyarrow writes"]
        return []

    def verdict(self) -> Verdict:
        """Compare the listings, and say in what they differ."""
        findings = [*self.findings, *self._unequal_rows(), *self._differences()]
        where = str(self.source)
        if self.source.release:
            where += f" (commit {self.source.release.commit})"
        if findings:
            self.unproved.clear()
        return Verdict(
            where,
            tuple(dict.fromkeys(findings)),
            self.unproved,
            tuple(self._stated()),
            len(self.names),
            sum(self.manifest.configs[name].rows for name in self.names),
            sum(self.rows[name] for name in self.made),
        )

    def _unequal_rows(self) -> Iterator[str]:
        """Yield configs with fewer rows than others: a build gives all of them the same number."""
        if self.manifest.is_imported:
            return
        most = max(info.rows for info in self.manifest.configs.values())
        for name, info in self.manifest.configs.items():
            if info.rows < most:
                yield f"{name}: {counted(info.rows, 'row')}, and other configs have {most}"

    def _differences(self) -> Iterator[str]:
        """Yield each path that is not the same in both listings, and then in what."""
        expected = self._expected()
        beside = dict[str, bytes]()
        try:
            beside = self._beside(expected)
        except (RulerError, *UNREADABLE) as error:
            yield f"{CARD}: cannot be made again: {error}"
        if beside:
            expected = expected.with_files(beside)
        text = expected.to_json().encode()
        if not self.is_current:  # other versions may write more, and in another notation
            yield from self._field_differences(self.manifest.to_json().encode(), text)
            text = read_bytes(self.folder / FILENAME)
        texts = {**beside, FILENAME: text}
        for path, difference in differences(self.listing, self._made_files(texts)):
            yield f"{path}: {difference}"
            if path in texts and self._is_file(path):
                yield from self._text_differences(path, texts[path])

    def _made_files(self, texts: Mapping[str, bytes]) -> dict[str, PushFile]:
        """Return the files that were made; those that cannot be made, as the manifest states."""
        files = dict[str, PushFile]()
        if CARD not in texts:
            for name, entry in self.manifest.files.items():
                source = partial(Path, self.folder, name)
                files[name] = PushFile(name, entry.bytes, entry.sha256, source)
        for name, data in texts.items():
            files[name] = PushFile.of_bytes(name, data)
        for name, info in self.manifest.configs.items():
            if name in self.names or info.file in self.listing:
                files[info.file] = self._file(name)
        return files

    def _text_differences(self, path: str, expected: bytes) -> Iterator[str]:
        """Yield in which fields or line a text is not the one that was made."""
        data = read_bytes(self.folder / path)
        fields = list[str]()
        if path == FILENAME:
            fields = [*self._field_differences(data, expected)]
        yield from fields or [f"{path}: {line_difference(data, expected)}"]

    def _file(self, name: str) -> PushFile:
        """Return a config's file as it was made, or as the manifest states it."""
        info = self.manifest.configs[name]
        made = self.made.get(name)
        folder = self.plan.folder
        if made is None or name in self.unproved:
            made = info
            folder = self.folder
        source = partial(Path, folder, info.file)
        return PushFile(info.file, made.bytes, made.sha256, source)

    def _beside(self, expected: Manifest) -> dict[str, bytes]:
        """Return card and licences; none if they cannot be made here, which is noted."""

        def locate(file: str) -> Path:
            path = self.plan.folder / file
            if path.is_file():
                return path
            return self.folder / file

        has_all = all(locate(info.file).is_file() for info in expected.configs.values())
        if self.is_current and has_all:
            return card_files(expected, locate, self.address)
        why = "it needs the first rows of all configs, and not all are here"
        if not self.is_current:
            why = f"the file was {_written_by(self.manifest.package_version)}"
        self.unproved |= dict.fromkeys(self.manifest.files, why)
        return {}

    def _field_differences(self, data: bytes, expected: bytes) -> Iterator[str]:
        """Yield the fields in which two manifests differ, but those of configs that are named."""
        named = {finding.partition("/")[0] for finding in self.findings}
        for place, value, value_expected in unequal_values(json.loads(data), json.loads(expected)):
            if place[0] == "digest" or (place[0] == "configs" and place[1] in named):
                continue
            words = f"expected {quote(str(value_expected), 90)}, found {quote(str(value), 90)}"
            yield f"{FILENAME}: {'.'.join(place)} {words}"

    def _expected(self) -> Manifest:
        """Return the manifest that a build writes; what decides no byte is copied."""
        manifest = self.manifest
        changes: dict[str, Any] = {
            "files": manifest.files,
            "tasks": in_order(self.plan.suite.tasks),
            "configs": {name: self._entry(name) for name in sorted(self.entries, key=config_place)},
        }
        if self.unproved:
            changes["pyarrow"] = manifest.pyarrow
        if not self.is_current:
            changes["data_version"] = manifest.data_version
            changes["package_version"] = manifest.package_version
        if self.address:
            changes["data_version"] = self.address.revision.removeprefix("v")
            changes["siblings"] = manifest.siblings
        if self.context is None:
            return replace(manifest, **changes)
        tasks = dict(self.plan.suite.tasks)
        for name in self.obstacles:
            del tasks[name]
        plan = replace(self.plan, suite=replace(self.plan.suite, tasks=tasks))
        made = empty_manifest(plan, self.context)
        changes["tokenizer"] = expected_tokenizer(manifest.tokenizer, made.tokenizer)
        sources = {source.name: source for source in made.sources}
        if self.obstacles:  # of other tasks as recorded
            sources = {source.name: source for source in manifest.sources} | sources
        changes["sources"] = tuple(sources[name] for name in sorted(sources))
        return replace(made, **changes)

    def _entry(self, name: str) -> ConfigInfo:
        """Return what the manifest must state of a config; other versions measure otherwise."""
        if self.is_current:
            return self.entries[name]
        info = self.manifest.configs[name]
        return replace(self.entries[name], audit=info.audit, floor=info.floor)

    def _stated(self) -> Iterator[str]:
        """Yield the values that the folder states and on which no byte of its rows depends."""
        manifest = self.manifest
        address = self.address
        tokenizer = manifest.tokenizer
        if self.context is not None:
            tokenizer = self.context.tokenizer_info
        yield from stated_of_tokenizer(manifest.tokenizer, tokenizer)
        yield f"suite: {manifest.suite}"
        if not packaged_suite(manifest.suite):
            for name, task in manifest.tasks.items():
                yield f"tasks.{name}.about: {task.about}"
        if address:
            yield f"card: of {address.repo} at {address.revision}"
            yield f"card: code at {address.code or 'no address'}"
            if manifest.siblings:
                yield f"siblings: {', '.join(manifest.siblings)}"
