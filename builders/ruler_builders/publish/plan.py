"""Plan a release: what the repo holds, what to send, and under which version."""

from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import islice
from pathlib import Path

from ruler_builders.publish.merge import Dataset, compose
from ruler_builders.publish.version_rules import Change, Version, change
from ruler_data.errors import RulerError, UsageError
from ruler_data.hub.download import Release, open_release
from ruler_data.hub.repo import changed, head, missing, tags, tree
from ruler_data.manifest import FILENAME, ConfigInfo, Manifest
from ruler_data.names import counted, quote
from ruler_data.parquet import read_packed
from ruler_data.row import digest_rows

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
        allowed: options that were given against a refusal, e.g. `allow_fewer_rows`.
        siblings: repos for other tokenizers, with their names, for the card.
        keeps_unchanged: whether a repo that holds these rows already keeps its version.
    """

    repo: str
    folder: Path
    built: Manifest
    version: Version | None = None
    allowed: Collection[str] = ()
    siblings: Mapping[str, str] = field(default_factory=dict)
    keeps_unchanged: bool = False


@dataclass(frozen=True)
class Plan:
    """What a release will do.

    Attributes:
        creates: whether the repo has to be created.
        before: manifest of the previous release, if there is one.
        change: kind of change since then; `why` is its first difference.
        send: paths that the repo does not hold with these bytes.
        new: paths that the previous release does not hold with these bytes.
        refusals: why it is not carried out, each with the option that overrules it.
        published: commit of the release if it exists already.
        replaced: paths that others changed since the previous release and this one replaces.
        manifest_then: git hash of the manifest at the head when this was planned.
    """

    version: Version
    dataset: Dataset
    creates: bool
    before: Manifest | None
    change: Change
    why: str
    send: tuple[str, ...]
    new: frozenset[str]
    refusals: tuple[str, ...]
    published: str | None
    replaced: tuple[str, ...] = ()
    manifest_then: str | None = None

    @property
    def since(self) -> Version | None:
        """Version of the previous release, if there is one."""
        return Version.parse(self.before.data_version) if self.before else None

    def configs(self) -> list[tuple[str, ConfigInfo | None, ConfigInfo]]:
        """Return each config with its entry in the previous release, if any, and in this one."""
        old = self.before.configs if self.before else {}
        return [(name, old.get(name), now) for name, now in self.dataset.manifest.configs.items()]

    def lines(self, repo: str) -> Iterator[str]:
        """Return the plan as text: what changes in each config, the sum of all, and notes."""
        if self.published is None:
            yield from self._table(repo)
        if self.replaced and self.published is None:
            edited = f"changed on the Hub since {self.since}: {', '.join(self.replaced)}"
            yield f"note: {edited}; this release replaces it; the history keeps the old content"

    def _table(self, repo: str) -> Iterator[str]:
        width = max(map(len, self.dataset.manifest.configs))
        yield f"{repo}: {self.since.tag if self.since else 'no release'} -> {self.version.tag}"
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


def _arrow(rows: int, rows_now: int, size: int, size_now: int) -> str:
    return f"{rows:>8,} -> {rows_now:>7,} {size:>13,} -> {size_now:>12,}"


def make_plan(target: Target) -> Plan:
    """Read the repo and plan the release; nothing is written.

    Raises:
        UsageError: the version does not fit the changes, or the repo holds something else.
    """
    repo = target.repo
    commit = head(repo)
    tagged = {} if commit is None else _versions(repo)
    held = {} if commit is None else tree(repo, commit)
    base = _base(target, tagged)
    before = base.manifest if base else None
    if base is None and commit is not None:
        before = _unfinished(repo, commit, held, target.built)
    version, kind, why = _version(target, base)
    siblings = target.siblings if kind else {}  # alone they are no reason to release
    dataset = compose(target.folder, target.built, base, version, repo, siblings)
    send = tuple(file.path for file in missing(dataset.files, held))
    released = tree(repo, base.commit) if base else {}
    edited = changed(released, held)
    return Plan(
        version=version,
        dataset=dataset,
        creates=commit is None,
        before=base.manifest if base else None,
        change=kind,
        why=why,
        send=send,
        new=frozenset(file.path for file in missing(dataset.files, released)),
        refusals=tuple(_refusals(target, dataset.manifest, before, kind, why)),
        published=base.commit if base and kind is Change.NONE else None,
        replaced=tuple(path for path in edited if path in send),
        manifest_then=held[FILENAME].blob_id if FILENAME in held else None,
    )


def _refusals(
    target: Target, now: Manifest, before: Manifest | None, kind: Change, why: str
) -> Iterator[str]:
    """Say why a release may be an accident, and the option that consents to it."""
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
        other = [f"{name} {info.rows}" for name, info in now.configs.items() if info.rows != usual]
        yield (
            f"configs have unequal numbers of rows: most {usual}, {_some(other)}; "
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
    found = {Version.of_tag(tag): commit for tag, commit in tags(repo).items()}
    return {version: commit for version, commit in found.items() if version is not None}


def _base(target: Target, tagged: Mapping[Version, str]) -> Release | None:
    """Return the release to extend: the one of the requested version, or else the latest."""
    if not tagged:
        return None
    named = target.version in tagged and not target.keeps_unchanged
    version = target.version if named and target.version else max(tagged)
    base = open_release(target.repo, tagged[version])
    if base.manifest.data_version != str(version):
        says = base.manifest.data_version
        found = f"tag {version.tag} is on commit {base.commit}, whose manifest says {says}"
        remedy = "it was changed after publication: repair that first"
        raise RulerError(target.repo, f"{found}; {remedy}")
    return replace(base, revision=version.tag)


def _version(target: Target, base: Release | None) -> tuple[Version, Change, str]:
    """Return the version of the release, the kind of change, and the first difference."""
    built, folder = target.built, target.folder
    if base is None:
        return target.version or Version.parse(built.data_version), Change.MINOR, "new"
    before = Version.parse(base.manifest.data_version)
    kind, why = change(
        base.manifest,
        compose(folder, built, base, before, target.repo).manifest,
        lambda info, rows: digest_rows(islice(read_packed(folder / info.file), rows)),
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


def _unfinished(repo: str, commit: str, held: Collection[str], built: Manifest) -> Manifest | None:
    """Return the manifest of an unfinished release, if the repo holds one and nothing else."""
    if FILENAME in held:
        manifest = open_release(repo, commit).manifest
        other = manifest.tokenizer
        if not other.counts_like(built.tokenizer):
            msg = (
                f"{repo} holds an unfinished release for the tokenizer {other.name}; a repo holds "
                "one tokenizer: publish into another repo"
            )
            raise UsageError(msg)
        return manifest
    strangers = sorted(path for path in held if path not in NEW)
    if strangers:
        msg = (
            f"{repo} holds {quote(strangers[0])} and no release of ruler-data; publish into a new "
            "repo"
        )
        raise UsageError(msg)
    return None
