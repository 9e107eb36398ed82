"""Plan a release: the published and the built configs as one dataset, and its version."""

from collections import Counter
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import IntEnum
from functools import partial
from itertools import islice
from pathlib import Path
from typing import NamedTuple

from ruler_builders.card import OPEN_LICENCES, Address, card_files
from ruler_builders.pipeline.build import compared_inputs
from ruler_data.errors import RulerError, UsageError
from ruler_data.floors import floor as packaged_floor
from ruler_data.hub.download import Release, open_release
from ruler_data.hub.repo import PushFile, changed, head, missing, tags, tree
from ruler_data.manifest import BALANCED, FILENAME, ConfigInfo, Manifest, SourceInfo
from ruler_data.names import counted, parse_config, quote, released_version
from ruler_data.parquet import read_packed
from ruler_data.row import digest_rows
from ruler_data.tasks import config_place, task_place
from ruler_data.version import __version__


class Change(IntEnum):
    """How a release changes what was published before, in rising order."""

    NONE = 0
    PATCH = 1  # same rows, other bytes
    MINOR = 2  # rows only added
    MAJOR = 3  # rows changed

    @property
    def about(self) -> str:
        """The change in words."""
        words = ("nothing changes", "other bytes of the same rows", "rows are only added")
        return (*words, "rows change")[self]


class Version(NamedTuple):
    """A version number.

    >>> Version.parse("1.4.2").after(Change.MINOR)
    Version(major=1, minor=5, patch=0)
    """

    major: int
    minor: int
    patch: int

    def __str__(self) -> str:
        return f"{self.major}.{self.minor}.{self.patch}"

    @property
    def tag(self) -> str:
        """The name of its tag."""
        return f"v{self}"

    @classmethod
    def parse(cls, text: str) -> "Version":
        """Read a version."""
        version = cls.of_tag(f"v{text}")
        if version is None:
            msg = f"version {quote(text)}: write MAJOR.MINOR.PATCH, e.g. 1.0.0"
            raise UsageError(msg)
        return version

    @classmethod
    def of_tag(cls, tag: str) -> "Version | None":
        """Return the version that a tag names, or None for any other tag."""
        text = released_version(tag)
        return cls(*map(int, text.split("."))) if text else None

    def after(self, change: Change) -> "Version":
        """Return the next version after a change."""
        if change is Change.NONE:
            return self
        place = Change.MAJOR - change
        return Version._make([*self[:place], self[place] + 1, 0, 0][:3])

    def says(self, before: "Version") -> Change | None:
        """Return the change that this version states since another; None if it is not later.

        Numbers may be skipped, so that repos of several tokenizers can share a version.

        >>> Version(1, 3, 0).says(Version(1, 0, 4)), Version(1, 3, 1).says(Version(1, 0, 4))
        (<Change.MINOR: 2>, None)
        """
        if self <= before:
            return Change.NONE if self == before else None
        place = next(place for place in range(3) if self[place] != before[place])
        return None if any(self[place + 1 :]) else Change(Change.MAJOR - place)


def change(
    before: Manifest, after: Manifest, digest_of_first: Callable[[ConfigInfo, int], str]
) -> tuple[Change, str]:
    """Return the change between two manifests of one version number, and its first difference.

    `after` has all configs of `before`. `digest_of_first` returns the digest of so many rows of one
    of its configs, its first ones: a config to whose rows others are added keeps those that it had.
    """
    added = [name for name in after.configs if name not in before.configs]
    for name, info in before.configs.items():
        now = after.configs[name]
        if now.rows > info.rows and digest_of_first(now, info.rows) == info.digest:
            added.append(f"{name} ({info.rows} rows, now {now.rows})")
        elif (now.digest, now.rows) != (info.digest, info.rows):
            return Change.MAJOR, f"other rows in {name}"
    if added:
        return Change.MINOR, f"new: {', '.join(added)}"
    configs, files = before.configs.items(), after.files.items()
    edits = [
        *(f"other bytes of {name}" for name, info in configs if after.configs[name] != info),
        *(f"other {file}" for file, entry in files if before.files.get(file) != entry),
        *(["other facts in the manifest"] if after != before else []),
    ]
    return (Change.PATCH, edits[0]) if edits else (Change.NONE, "")


#: Files that a repo may hold before its first release; the Hub or a person creates them.
NEW = (".gitattributes", "README.md", ".gitignore", "LICENSE")


@dataclass(frozen=True)
class Target:
    """What is to be released, and where.

    Attributes:
        repo: on the Hub.
        folder: of a build.
        built: its manifest.
        version: to release; None for the next one that fits the changes.
        allowed: options that overrule a refusal, e.g. `allow_fewer_rows`.
        siblings: repos for other tokenizers, with their names, for the card.
        keeps_unchanged: whether a repo that holds these rows already keeps its version.
        private: whether the repo has to be private.
    """

    repo: str
    folder: Path
    built: Manifest
    version: Version | None = None
    allowed: Collection[str] = ()
    siblings: Mapping[str, str] = field(default_factory=dict)
    keeps_unchanged: bool = False
    private: bool = False


@dataclass(frozen=True)
class Plan:
    """What a release will do.

    Attributes:
        target: what is released, and where.
        creates: whether the repo has to be created.
        before: manifest of the previous release, if there is one.
        change: kind of change since then; `why` is its first difference.
        send: paths that the repo does not hold with these bytes.
        published: commit of the release if it exists already.
        replaced: paths that others wrote since the previous release and this one replaces.
        private: whether the repo is private, or will be.
        manifest_then: git hash of the manifest at the head when this was planned.
    """

    target: Target
    version: Version
    manifest: Manifest
    files: tuple[PushFile, ...]
    creates: bool
    before: Manifest | None
    change: Change
    why: str
    send: tuple[str, ...]
    published: str | None
    replaced: tuple[str, ...] = ()
    private: bool = False
    manifest_then: str | None = None

    @property
    def since(self) -> Version | None:
        """Version of the previous release, if there is one."""
        return Version.parse(self.before.data_version) if self.before else None

    def configs(self) -> list[tuple[str, ConfigInfo | None, ConfigInfo]]:
        """Return each config with its entry in the previous release, if any, and in this one."""
        old = self.before.configs if self.before else {}
        return [(name, old.get(name), now) for name, now in self.manifest.configs.items()]

    def lines(self) -> Iterator[str]:
        """Return the plan as text: what changes in each config, the sum, notes and licences."""
        if self.published is not None:
            return
        repo = self.target.repo
        width = max(map(len, self.manifest.configs))
        visibility = "private" if self.private else "public"
        since = self.since.tag if self.since else "no release"
        yield f"{repo} ({visibility}): {since} -> {self.version.tag}"
        yield f"  {'config':<{width}} {'rows':>19} {'bytes':>29}"
        same, sums = 0, [0, 0, 0, 0]
        for name, old, now in self.configs():
            figures = [old.rows if old else 0, now.rows, old.bytes if old else 0, now.bytes]
            sums = [*map(sum, zip(sums, figures, strict=True))]
            if old and (old.digest, old.sha256) == (now.digest, now.sha256):
                same += 1
                continue
            rewritten = old is not None and old.digest == now.digest
            kind = "new" if old is None else "other bytes" if rewritten else "other rows"
            yield f"  {name:<{width}} {_arrow(*figures)}  {kind}"
        if same:
            yield f"  {counted(same, 'config')} unchanged"
        yield f"  {'all':<{width}} {_arrow(*sums)}  {counted(len(self.configs()), 'config')}"
        if self.replaced:
            when = f" since {self.since}" if self.since else ""
            note = f"changed on the Hub{when}: {', '.join(self.replaced)}"
            yield f"note: {note}; this release replaces it; the history keeps the old content"
        yield from unpinned_sources(self.target.built)
        yield from closed_licences(self.target.built)


def unpinned_sources(built: Manifest) -> Iterator[str]:
    """Yield a line for each copy of a source that is not the pinned one."""
    for source in built.sources:
        if source.kind == "real" and not source.pinned:
            yield f"unpinned: {source.title}: sha256 {source.sha256} is not the pinned one"


def closed_licences(built: Manifest) -> Iterator[str]:
    """Yield a line for each licence that is not open: the publisher is responsible."""
    for source in built.sources:
        if source.licence not in OPEN_LICENCES:
            about = f"{source.title}: {source.licence}"
            yield f"licence: {about}; publishing these texts is your responsibility (docs/hub.md)"


def _arrow(rows: int, rows_now: int, size: int, size_now: int) -> str:
    return f"{rows:>8,} -> {rows_now:>7,} {size:>13,} -> {size_now:>12,}"


def make_plan(target: Target) -> Plan:
    """Read the repo and plan the release; nothing is written.

    Raises:
        UsageError: the version does not fit the changes, the repo holds something else, or the
            release may be an accident.
    """
    repo = target.repo
    commit = None if (info := head(repo)) is None else str(info.sha)
    if info and target.private and not info.private:
        msg = "is public, and --private is for new repos; make it private on the Hub first"
        raise UsageError(repo, msg)
    commits = {} if commit is None else _versions(repo)
    remote = {} if commit is None else tree(repo, commit)
    base = _base(target, commits)
    before = base.manifest if base else None
    if base is None and commit is not None:
        before = _unfinished(repo, commit, remote, target.built)
    version, kind, why = _version(target, base)
    siblings = target.siblings if kind else {}  # a change of siblings alone is no release
    manifest, files = compose(target, base, version, siblings)
    send = tuple(file.path for file in missing(files, remote))
    released = tree(repo, base.commit) if base else {}
    # Before a first release, all files are other people's, unless a release was left unfinished.
    differing = changed(released, remote) if base or FILENAME in remote else list(remote)
    for reason in _refusals(target, manifest, before, kind, why):
        raise UsageError(repo, reason)
    return Plan(
        target=target,
        version=version,
        manifest=manifest,
        files=files,
        creates=commit is None,
        before=base.manifest if base else None,
        change=kind,
        why=why,
        send=send,
        published=base.commit if base and kind is Change.NONE else None,
        replaced=tuple(path for path in differing if path in send),
        private=bool(info.private) if info else target.private,
        manifest_then=remote[FILENAME].blob_id if FILENAME in remote else None,
    )


def _refusals(
    target: Target, now: Manifest, before: Manifest | None, kind: Change, why: str
) -> Iterator[str]:
    """Yield why a release may be an accident, and the option that allows it."""
    old = before.configs if before else {}
    fewer = [
        f"{name} from {old[name].rows} to {info.rows}"
        for name, info in now.configs.items()
        if name in old and info.rows < old[name].rows
    ]
    if fewer and "allow_fewer_rows" not in target.allowed:
        yield f"fewer rows than {target.repo} holds: {_some(fewer)}; give --allow-fewer-rows"
    counts = Counter(info.rows for info in now.configs.values())
    if len(counts) > 1 and "allow_unequal_rows" not in target.allowed:
        usual = counts.most_common(1)[0][0]
        unusual = [
            f"{name} {info.rows}" for name, info in now.configs.items() if info.rows != usual
        ]
        yield (
            f"configs have unequal numbers of rows: most {usual}, {_some(unusual)}; "
            "give --allow-unequal-rows"
        )
    if kind is Change.MAJOR and target.version is None:
        remedy = f"name the new version: --version {now.data_version}"
        yield f"published rows change ({why}): {remedy}"


def _some(texts: Sequence[str], most: int = 3) -> str:
    more = f" and {len(texts) - most} more" if len(texts) > most else ""
    return ", ".join(texts[:most]) + more


def _versions(repo: str) -> dict[Version, str]:
    """Return the releases of a repo with their commits."""
    versions = {Version.of_tag(tag): commit for tag, commit in tags(repo).items()}
    return {version: commit for version, commit in versions.items() if version is not None}


def _base(target: Target, commits: Mapping[Version, str]) -> Release | None:
    """Return the release to extend: the one of the requested version, or else the latest."""
    if not commits:
        return None
    is_named = target.version in commits and not target.keeps_unchanged
    version = target.version if is_named and target.version else max(commits)
    base = open_release(target.repo, commits[version])
    if base.manifest.data_version != str(version):
        actual_version = base.manifest.data_version
        problem = (
            f"tag {version.tag} is on commit {base.commit}, whose manifest says {actual_version}"
        )
        remedy = "it was changed after publication: repair that first"
        raise RulerError(target.repo, f"{problem}; {remedy}")
    return replace(base, revision=version.tag)


def _version(target: Target, base: Release | None) -> tuple[Version, Change, str]:
    """Return the version of the release, the kind of change, and the first difference."""
    if base is None:
        return target.version or Version.parse(target.built.data_version), Change.MINOR, "new"
    before = Version.parse(base.manifest.data_version)
    kind, why = change(
        base.manifest,
        compose(target, base, before, {})[0],
        lambda info, rows: digest_rows(islice(read_packed(target.folder / info.file), rows)),
    )
    fitting = before.after(kind)
    keeps = kind is Change.NONE and target.keeps_unchanged
    version = fitting if keeps else target.version or fitting
    if version.says(before) is not kind:
        reason = f"since {before.tag}: {kind.about}{f' ({why})' if why else ''}"
        if version == before:
            reason = (
                f"{version.tag} is published with other content, and a tag is never moved; {reason}"
            )
        elif version < before:
            reason = f"{before.tag} is published already; {reason}"
        remedy = f"this is {fitting}" if kind else f"there is nothing to release after {before}"
        msg = f"version {version}: {reason}; {remedy}"
        raise UsageError(msg)
    return version, kind, why


def _unfinished(repo: str, commit: str, remote: Collection[str], new: Manifest) -> Manifest | None:
    """Return the manifest of an unfinished release, if the repo holds one and nothing else."""
    if FILENAME in remote:
        manifest = open_release(repo, commit).manifest
        _check_tokenizer(f"{repo}, an unfinished release,", manifest, new)
        return manifest
    for path in sorted(path for path in remote if path not in NEW):
        msg = f"{repo} holds {quote(path)} and no release of ruler-data; publish into a new repo"
        raise UsageError(msg)
    return None


def compose(
    target: Target, base: Release | None, version: Version, siblings: Mapping[str, str]
) -> tuple[Manifest, tuple[PushFile, ...]]:
    """Return the dataset with all configs that were published before or are built in a folder.

    A config that was built again replaces the published one; none is removed. `siblings` are added
    to those that the published manifest names.

    Returns:
        the manifest, and all files, the manifest last.

    Raises:
        UsageError: the two cannot be one dataset.
    """
    built = target.built
    before = base.manifest if base else replace(built, siblings={})
    unchanged = {name: info for name, info in before.configs.items() if name not in built.configs}
    if base is not None:
        _check_same_inputs(built, base, list(unchanged))
    if before.package_version != __version__:  # which had other floors, or none
        unchanged = {name: _as_now(before, name, info) for name, info in unchanged.items()}
    configs, tasks = built.configs | unchanged, before.tasks | built.tasks
    sources = _sources(before) | _sources(built)
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

    def locate(file: str) -> Path:
        config = file.split("/")[0]
        return base.fetch([config]) / file if base and config in unchanged else target.folder / file

    beside = card_files(manifest, locate, Address(target.repo, version.tag))
    rows = (
        PushFile(info.file, info.bytes, info.sha256, partial(locate, info.file))
        for info in manifest.configs.values()
    )
    return seal(manifest, [*rows, *(PushFile.of_bytes(*item) for item in beside.items())])


def seal(manifest: Manifest, files: Collection[PushFile]) -> tuple[Manifest, tuple[PushFile, ...]]:
    """Return a manifest with the hashes of the files beside the rows, and all files with it."""
    manifest = manifest.with_files(
        {file.path: file.read() for file in files if "/" not in file.path}
    )
    return manifest, (*files, PushFile.of_bytes(FILENAME, manifest.to_json().encode()))


def _as_now(manifest: Manifest, name: str, info: ConfigInfo) -> ConfigInfo:
    """Return an older version's entry of a config as this version writes it."""
    floor = packaged_floor(*parse_config(name), manifest.suite) or info.floor
    audit = {} if manifest.edition == BALANCED else info.audit
    return replace(info, audit=audit, floor=floor)


def _check_tokenizer(where: str, old: Manifest, new: Manifest) -> None:
    if not old.tokenizer.counts_like(new.tokenizer):
        msg = (
            f"{where} holds the tokenizer {old.tokenizer.name}, this folder {new.tokenizer.name} "
            "(other files); a repo holds one tokenizer, since loading a config downloads all of "
            "its splits: publish into another repo"
        )
        raise UsageError(msg)


def _check_same_inputs(new: Manifest, base: Release, names: list[str]) -> None:
    """Refuse to mix configs of other tokenizers or other inputs."""
    old, where = base.manifest, f"{base.repo} at {base.revision}"
    _check_tokenizer(where, old, new)
    used = {source for name in names for source in old.table[parse_config(name)[0]].sources}
    old = replace(old, sources=tuple(source for source in old.sources if source.name in used))
    for difference, before, now in (*_newer_rows(old, new), *compared_inputs(old, new)):
        if names and before != now:
            msg = (
                f"{where} was built with {difference} {before}, this folder with {now}; build "
                f"all of its configs again (this folder has no {names[0]}), or publish into "
                f"another repo"
            )
            raise UsageError(msg)


def _newer_rows(old: Manifest, new: Manifest) -> Iterator[tuple[str, int, int]]:
    """Yield the MAJOR data versions if a build has a higher one than a release: other draws.

    A release may have a higher one than its rows were drawn with, e.g. after another seed.
    """
    released = Version.parse(old.data_version).major
    built = Version.parse(new.data_version).major
    if released < built:
        yield "rows of MAJOR data version", released, built


def _sources(manifest: Manifest) -> dict[str, SourceInfo]:
    return {source.name: source for source in manifest.sources}
