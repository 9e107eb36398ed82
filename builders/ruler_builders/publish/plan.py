"""What a release holds, and what it changes in its repo."""

import re
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import partial
from itertools import islice
from pathlib import Path
from typing import Any

from ruler_builders.card import OPEN_LICENCES, Address, card_files
from ruler_builders.pipeline.build import compared_inputs
from ruler_builders.publish.version import Change, Version, change
from ruler_data.errors import UsageError
from ruler_data.hub.download import Snapshot, open_release
from ruler_data.hub.repo import PushFile, Tree, missing
from ruler_data.index import FILENAME as INDEX
from ruler_data.manifest import FILENAME, ConfigInfo, Manifest
from ruler_data.names import counted, parse_config, parse_names, quote
from ruler_data.parquet import read_packed
from ruler_data.row import digest_rows
from ruler_data.tasks import config_place, task_place
from ruler_data.version import __version__

#: What the Hub adds, and the index, which is written after the release.
KEPT = (".gitattributes", INDEX)
#: Files that the Hub or a person may put into a repo before its first release.
TEXTS = re.compile(r"LICENSE|\.git(attributes|ignore)|[^/]+\.(md|txt)")
#: Path of a config's file.
CONFIG_FILE = re.compile(r"[a-z0-9_]+_[1-9][0-9]*/test-00000-of-00001\.parquet")


#: What `--allow` consents to: reasons not to publish.
CONSENTS = {
    "sample": "holds rows of the sample corpus, whose scores are not RULER's; build with the real "
    "sources",
    "unpinned": "is built from copies of sources that are not the pinned ones, so rows differ from "
    "other people's; build with the pinned sources (`ruler-data list sources`)",
    "own-texts": "holds texts of your own (build --haystack), whose licence is unknown and which "
    "everybody could read; build without them",
    "private-seed": "is built from a private seed (build --fresh), which would become public, and "
    "models could be trained on its rows; build with the public seed",
    "fewer-rows": "configs have at most {rows} rows, and {repo} holds {before}",
    "unproved": "{note}",
}


def parse_consents(allow: str | Collection[str]) -> tuple[str, ...]:
    """Return the consents of `--allow`, comma-separated or one by one.

    Raises:
        UsageError: there is no such consent.
    """
    names = parse_names(allow)
    for name in names:
        if name not in CONSENTS:
            known = ", ".join(CONSENTS)
            raise UsageError(f"--allow {quote(name)}: no such consent; known: {known}")
    return names


@dataclass(frozen=True)
class Dataset:
    """The configs of a folder, with those of the release that it extends.

    Attributes:
        repo: on the Hub.
        folder: of a build.
        built: its manifest.
        base: the release before it; None for a first one.
    """

    repo: str
    folder: Path
    built: Manifest
    base: Snapshot | None

    def manifest_before(self, commit: str, remote: Collection[str]) -> Manifest | None:
        """Return the manifest that the repo holds, of a release or an unfinished one, if any.

        Args:
            commit: the repo's newest.
            remote: its files.

        Raises:
            UsageError: the repo holds something else, or what cannot be extended by this folder.
        """
        if self.base:
            self._check_inputs(self.base.manifest, f"{self.repo} at {self.base.revision}")
            return self.base.manifest
        if FILENAME in remote:
            manifest = open_release(self.repo, commit).manifest
            self._check_tokenizer(manifest, f"{self.repo}, an unfinished release,")
            return manifest
        for path in sorted(remote):
            if not TEXTS.fullmatch(path):
                problem = f"{self.repo} holds {quote(path)} and no release of ruler-data"
                raise UsageError(f"{problem}; publish into a new repo")
        return None

    def _check_tokenizer(self, before: Manifest, where: str) -> None:
        """Refuse a repo of another tokenizer."""
        if before.tokenizer.counts_like(self.built.tokenizer):
            return
        names = f"the tokenizer {before.tokenizer.name}, this folder {self.built.tokenizer.name}"
        raise UsageError(
            f"{where} holds {names} (other files); a repo holds one tokenizer, since loading a "
            "config downloads all of its splits: publish into another repo"
        )

    def _check_inputs(self, before: Manifest, where: str) -> None:
        """Refuse to mix configs of other tokenizers or other inputs."""
        self._check_tokenizer(before, where)
        kept = [name for name in before.configs if name not in self.built.configs]
        if not kept:
            return
        used = {source for name in kept for source in before.table[parse_config(name)[0]].sources}
        sources = tuple(source for source in before.sources if source.name in used)
        inputs = [*compared_inputs(replace(before, sources=sources), self.built)]
        major = Version.parse(before.data_version).major
        major_now = Version.parse(self.built.data_version).major
        if major < major_now:  # a release may have a higher one, e.g. after another seed
            inputs.insert(0, ("rows of MAJOR data version", major, major_now))
        for name, value, value_now in inputs:
            if value != value_now:
                raise UsageError(
                    f"{where} was built with {name} {value}, this folder with {value_now}; build "
                    f"all of its configs again (this folder has no {kept[0]}), or publish into "
                    "another repo"
                )

    def compose(
        self, version: Version, siblings: Mapping[str, str]
    ) -> tuple[Manifest, tuple[PushFile, ...]]:
        """Return the manifest and all files of a version, the manifest last.

        A config that was built again replaces the published one; none is removed.
        """
        built = self.built
        before = replace(built, siblings={})
        if self.base:
            before = self.base.manifest
        configs = before.configs | built.configs
        tasks = before.tasks | built.tasks
        sources = {source.name: source for source in (*before.sources, *built.sources)}
        manifest = replace(
            built,
            data_version=str(version),
            package_version=__version__,
            sources=tuple(sources[name] for name in sorted(sources)),
            configs={name: configs[name] for name in sorted(configs, key=config_place)},
            files={},
            tasks={name: tasks[name] for name in sorted(tasks, key=task_place)},
            siblings={**before.siblings, **siblings},
        )
        beside = card_files(manifest, self._locate, Address(self.repo, version.tag))
        manifest = manifest.with_files(beside)
        files = list[PushFile]()
        for info in manifest.configs.values():
            source = partial(self._locate, info.file)
            files.append(PushFile(info.file, info.bytes, info.sha256, source))
        for name, data in {**beside, FILENAME: manifest.to_json().encode()}.items():
            files.append(PushFile.of_bytes(name, data))
        return manifest, tuple(files)

    def _locate(self, file: str) -> Path:
        """Return the path of a config's file, downloaded if only the release has it."""
        config = file.partition("/")[0]
        if self.base and config not in self.built.configs:
            return self.base.fetch([config]) / file
        return self.folder / file

    def change(self) -> tuple[Change, str]:
        """Return how it changes what was published, and the first difference."""
        if self.base is None:
            return Change.MINOR, "new"
        before = self.base.manifest
        now, _ = self.compose(Version.parse(before.data_version), {})
        return change(before, now, self._digest_of_first)

    def _digest_of_first(self, info: ConfigInfo, rows: int) -> str:
        """Return the digest of the first rows of a config of the folder."""
        return digest_rows(islice(read_packed(self.folder / info.file), rows))


@dataclass(frozen=True)
class Plan:
    """What a release changes in its repo.

    Attributes:
        base: the release that it extends; None for a first one.
        why: its first difference from that.
        before: files of the commit of `base`, or of an unfinished release.
        remote: files of the repo's newest commit.
    """

    repo: str
    private: bool
    base: Snapshot | None
    version: Version
    change: Change
    why: str
    manifest: Manifest
    files: tuple[PushFile, ...]
    before: Tree
    remote: Tree

    @property
    def published(self) -> str | None:
        """The commit that holds all of it already, if there is one."""
        if self.base and self.change is Change.NONE:
            return self.base.commit
        return None

    @property
    def to_send(self) -> tuple[str, ...]:
        """The files that the repo lacks."""
        return tuple(file.path for file in missing(self.files, self.remote))

    @property
    def removed(self) -> list[str]:
        """The files of the repo that are no part of the release."""
        return self.strays(self.remote)

    def strays(self, remote: Tree) -> list[str]:
        """Return the files of a commit that are no part of the release."""
        paths = {*(file.path for file in self.files), *KEPT}
        return sorted(remote.keys() - paths)

    @property
    def replaced(self) -> list[str]:
        """The files to send that somebody else changed since the release before."""
        return [path for path in self.to_send if self.before.get(path) != self.remote.get(path)]

    @property
    def card(self) -> str:
        """The card that is published."""
        (card,) = (file.read() for file in self.files if file.path == "README.md")
        return card.decode()

    @property
    def since(self) -> Version | None:
        """Version of the release before, if there is one."""
        if self.base is None:
            return None
        return Version.parse(self.base.manifest.data_version)

    def lines(self) -> Iterator[str]:
        """Yield the plan as text: what changes in each config, and notes."""
        visibility = "private" if self.private else "public"
        since = self.since.tag if self.since else "no release"
        yield f"{self.repo} ({visibility}): {since} -> {self.version.tag}"
        configs = self.base.manifest.configs if self.base else {}
        unchanged = 0
        for name, info in self.manifest.configs.items():
            before = configs.get(name)
            if before == info:
                unchanged += 1
            elif before is None:
                yield f"  {name}: new, {counted(info.rows, 'row')}, {info.bytes:,} bytes"
            else:
                kind = "other bytes" if before.digest == info.digest else "other rows"
                rows = f"{before.rows:,} -> {info.rows:,} rows"
                yield f"  {name}: {kind}, {rows}, {before.bytes:,} -> {info.bytes:,} bytes"
        if unchanged:
            yield f"  {counted(unchanged, 'config')} unchanged"
        yield from self._notes()

    def _notes(self) -> Iterator[str]:
        """Yield what is replaced or removed on the Hub."""
        if self.replaced:
            when = f" since {self.since}" if self.since else ""
            note = f"changed on the Hub{when}: {', '.join(self.replaced)}"
            yield f"note: {note}; replaced by this release; the history keeps the old content"
        removed = [path for path in self.removed if not CONFIG_FILE.fullmatch(path)]
        if removed:
            note = f"no part of a release: {', '.join(map(quote, removed))}"
            yield f"note: {note}; removed by this release, kept by the history"

    def __str__(self) -> str:
        about = f"{self.version.tag}: {counted(len(self.manifest.configs), 'config')}"
        if self.since:
            about += f", since {self.since.tag}: {self.change.about} ({self.why})"
        return about

    def to_record(self) -> dict[str, Any]:
        """Return the plan as plain values."""
        return {
            "version": str(self.version),
            "tag": self.version.tag,
            "since": str(self.since) if self.since else None,
            "change": self.change.name,
            "why": self.why,
            "published_before": self.published is not None,
            "to_send": list(self.to_send),
            "removed": self.removed,
        }


def source_notes(built: Manifest) -> Iterator[str]:
    """Yield what sources ask of a publisher: copies that are not pinned, and closed licences."""
    for source in built.sources:
        if source.kind == "real" and not source.pinned:
            yield f"unpinned: {source.title}: sha256 {source.sha256} is not the pinned one"
    yield from closed_licences(built)


def closed_licences(built: Manifest) -> Iterator[str]:
    """Yield a line for each licence that is not open: the publisher is responsible."""
    for source in built.sources:
        if source.licence not in OPEN_LICENCES:
            about = f"{source.title}: {source.licence}"
            duty = "publishing these texts is your responsibility (docs/howto/publish-rows.md)"
            yield f"licence: {about}; {duty}"
