"""Plan a release: what the repo holds, what to send, and under which version."""

from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import KW_ONLY, dataclass, replace
from itertools import islice
from pathlib import Path
from typing import Annotated

from ruler_builders.pipeline.build_config import WorkersOption
from ruler_builders.publish.merge import Dataset, compose
from ruler_builders.publish.version_rules import Change, Version, change
from ruler_data.errors import RulerError, UsageError
from ruler_data.hub.download import Release, open_release
from ruler_data.hub.repo import changed, head, missing, tags, tree
from ruler_data.manifest import FILENAME, ConfigInfo, Manifest
from ruler_data.names import check_repo, quote
from ruler_data.options import Option
from ruler_data.parquet import read_packed
from ruler_data.row import digest_rows

#: Files that a repo may hold before its first release; the Hub or a person creates them.
NEW = (".gitattributes", "README.md", ".gitignore", "LICENSE")

FewerRowsOption = Annotated[bool, Option("Replace configs by ones with fewer rows.")]
UnequalRowsOption = Annotated[bool, Option("Publish configs with unequal numbers of rows.")]


@dataclass(frozen=True)
class PublishConfig:
    """The options of a release."""

    folder: Annotated[Path, Option("Folder of a build.", argument=True)]
    repo: Annotated[str, Option("Dataset repo on the Hub, OWNER/NAME.")]
    version: Annotated[
        str, Option("MAJOR.MINOR.PATCH; by default the next one that fits the changes.")
    ] = ""
    _: KW_ONLY
    dry_run: Annotated[bool, Option("Verify, and report what would be published.")] = False
    private: Annotated[bool, Option("Create the repo as private.")] = False
    allow_sample: Annotated[bool, Option("Publish rows of the sample corpus.")] = False
    allow_own_texts: Annotated[bool, Option("Publish your own texts (`build --haystack`).")] = False
    allow_private_seed: Annotated[
        bool, Option("Publish rows of `build --fresh`, and the seed.")
    ] = False
    allow_fewer_rows: FewerRowsOption = False
    allow_unequal_rows: UnequalRowsOption = False
    tokenizer: Annotated[
        str | None,
        Option("Folder or Hub id of the tokenizer, if it cannot be found from the manifest."),
    ] = None
    workers: WorkersOption = 1
    siblings: Annotated[
        Mapping[str, str] | None,
        Option("Repos for other tokenizers, with their names, for the card.", command=False),
    ] = None

    def __post_init__(self) -> None:
        _ = self.requested, check_repo(self.repo)

    @property
    def requested(self) -> Version | None:
        """The version to release; None for the next one that fits the changes."""
        return Version.parse(self.version) if self.version else None


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


def make_plan(config: PublishConfig, built: Manifest) -> Plan:
    """Read the repo and plan the release; nothing is written.

    Raises:
        UsageError: the version does not fit the changes, or the repo holds something else.
    """
    commit = head(config.repo)
    tagged = {} if commit is None else _versions(config.repo)
    held = {} if commit is None else tree(config.repo, commit)
    base = _base(config, tagged)
    before = base.manifest if base else None
    if base is None and commit is not None:
        before = _unfinished(config.repo, commit, held, built)
    version, kind, why = _version(config, built, base)
    siblings = config.siblings if kind else None  # alone they are no reason to release
    dataset = compose(config.folder, built, base, version, config.repo, siblings)
    send = tuple(file.path for file in missing(dataset.files, held))
    released = tree(config.repo, base.commit) if base else {}
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
        refusals=tuple(_refusals(config, dataset.manifest, before, kind, why)),
        published=base.commit if base and kind is Change.NONE else None,
        replaced=tuple(path for path in edited if path in send),
        manifest_then=held[FILENAME].blob_id if FILENAME in held else None,
    )


def _refusals(
    config: PublishConfig, now: Manifest, before: Manifest | None, kind: Change, why: str
) -> Iterator[str]:
    """Say why a release may be an accident, and the option that consents to it."""
    old = before.configs if before else {}
    fewer = [
        f"{name} from {old[name].rows} to {info.rows}"
        for name, info in now.configs.items()
        if name in old and info.rows < old[name].rows
    ]
    if fewer and not config.allow_fewer_rows:
        yield f"fewer rows than {config.repo} holds: {_some(fewer)}; give --allow-fewer-rows"
    counts = Counter(info.rows for info in now.configs.values())
    if len(counts) > 1 and not config.allow_unequal_rows:
        usual = counts.most_common(1)[0][0]
        other = [f"{name} {info.rows}" for name, info in now.configs.items() if info.rows != usual]
        yield (
            f"configs have unequal numbers of rows: most {usual}, {_some(other)}; "
            "give --allow-unequal-rows"
        )
    if kind is Change.MAJOR and config.requested is None:
        remedy = f"name the new version: --version {now.data_version}"
        yield f"published rows change ({why}): {remedy}"


def _some(texts: Sequence[str], most: int = 3) -> str:
    more = f" and {len(texts) - most} more" if len(texts) > most else ""
    return ", ".join(texts[:most]) + more


def _versions(repo: str) -> dict[Version, str]:
    """Return the releases of a repo with their commits."""
    found = {Version.of_tag(tag): commit for tag, commit in tags(repo).items()}
    return {version: commit for version, commit in found.items() if version is not None}


def _base(config: PublishConfig, tagged: Mapping[Version, str]) -> Release | None:
    """Return the release to extend: the one of the requested version, or else the latest."""
    if not tagged:
        return None
    requested = config.requested if config.requested in tagged else None
    version = requested or max(tagged)
    base = open_release(config.repo, tagged[version])
    if base.manifest.data_version != str(version):
        says = base.manifest.data_version
        found = f"tag {version.tag} is on commit {base.commit}, whose manifest says {says}"
        remedy = "it was changed after publication: repair that first"
        raise RulerError(config.repo, f"{found}; {remedy}")
    return replace(base, revision=version.tag)


def _version(
    config: PublishConfig, built: Manifest, base: Release | None
) -> tuple[Version, Change, str]:
    """Return the version of the release, the kind of change, and the first difference."""
    if base is None:
        return config.requested or Version.parse(built.data_version), Change.MINOR, "new"
    before = Version.parse(base.manifest.data_version)
    kind, why = change(
        base.manifest,
        compose(config.folder, built, base, before, config.repo).manifest,
        lambda info, rows: digest_rows(islice(read_packed(config.folder / info.file), rows)),
    )
    fitting = before.after(kind)
    version = config.requested or fitting
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
