"""Plan a release: what the repo holds, what to send, and under which version."""

import re
from collections.abc import Collection, Iterable, Mapping
from dataclasses import KW_ONLY, dataclass, replace
from pathlib import Path
from typing import Annotated

from ruler_builders.card import card_faults
from ruler_builders.pipeline.build_config import WorkersOption
from ruler_builders.publish.merge import Built, Dataset, compose
from ruler_builders.publish.version_rules import Change, Version, change
from ruler_data.errors import RulerError, UsageError
from ruler_data.hub import Release, changed, head, missing, open_release, tags, tree
from ruler_data.manifest import FILENAME
from ruler_data.names import quote
from ruler_data.options import Option

#: Files that a repo may hold before its first release; the Hub or a person creates them.
NEW = (".gitattributes", "README.md", ".gitignore", "LICENSE")
#: Path of a config's file; one that no manifest names is left from an unfinished release.
CONFIG_FILE = re.compile(r"[a-z0-9_]+_[1-9][0-9]*/test-00000-of-00001\.parquet")


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
    tokenizer: Annotated[
        str | None,
        Option("Folder or Hub id of the tokenizer, if it cannot be found from the manifest."),
    ] = None
    workers: WorkersOption = 1

    def __post_init__(self) -> None:
        """Check the version.

        Raises:
            UsageError: it is not MAJOR.MINOR.PATCH.
        """
        _ = self.requested

    @property
    def requested(self) -> Version | None:
        """The version to release; None for the next one that fits the changes."""
        return Version.parse(self.version) if self.version else None


@dataclass(frozen=True)
class Plan:
    """What a release will do.

    Attributes:
        version: of the release.
        dataset: contents of the release.
        creates: whether the repo has to be created.
        since: version of the previous release, if there is one.
        change: kind of change since then.
        why: the first difference of that kind.
        send: paths that the repo does not hold with these bytes.
        published: commit of the release if it exists already.
        replaced: paths that others changed since the previous release and this one replaces.
        manifest_then: git hash of the manifest at the head when this was planned.
    """

    version: Version
    dataset: Dataset
    creates: bool
    since: Version | None
    change: Change
    why: str
    send: tuple[str, ...]
    published: str | None
    replaced: tuple[str, ...] = ()
    manifest_then: str | None = None


def make_plan(config: PublishConfig, built: Built) -> Plan:
    """Read the repo and plan the release; nothing is written.

    Raises:
        UsageError: the version does not fit the changes, or the repo holds something else.
    """
    commit = head(config.repo)
    tagged = {} if commit is None else _versions(config.repo)
    held = {} if commit is None else tree(config.repo, commit)
    base = _base(config, tagged)
    if base is None and commit is not None:
        _refuse_other_data(config.repo, commit, held, built)
    version, kind, why = _version(config, built, base)
    dataset = compose(built, base, version, config.repo)
    card = next(file for file in dataset.files if file.path == "README.md")
    if faults := list(card_faults(card.read().decode(), dataset.manifest)):
        msg = f"the card is not valid, so the Hub would refuse it: {'; '.join(faults)}"
        raise RulerError(msg)
    send = tuple(file.path for file in missing(dataset.files, held))
    edited = changed(tree(config.repo, base.commit), held) if base else []
    return Plan(
        version=version,
        dataset=dataset,
        creates=commit is None,
        since=Version.parse(base.manifest.data_version) if base else None,
        change=kind,
        why=why,
        send=send,
        published=base.commit if base and kind is Change.NONE else None,
        replaced=tuple(path for path in edited if path in send),
        manifest_then=held[FILENAME].blob_id if FILENAME in held else None,
    )


def leftovers(dataset: Dataset, held: Iterable[str]) -> list[str]:
    """Return the files of configs that an unfinished release has left."""
    paths = {file.path for file in dataset.files}
    return [path for path in held if CONFIG_FILE.fullmatch(path) and path not in paths]


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
        msg = (
            f"{config.repo}: tag {version.tag} is on commit {base.commit}, whose manifest says "
            f"{base.manifest.data_version}; it was changed after publication: repair that first"
        )
        raise RulerError(msg)
    return replace(base, revision=version.tag)


def _version(
    config: PublishConfig, built: Built, base: Release | None
) -> tuple[Version, Change, str]:
    """Return the version of the release, the kind of change, and the first difference.

    Raises:
        UsageError: the requested version does not fit the changes.
    """
    if base is None:
        return config.requested or Version.parse(built.manifest.data_version), Change.MINOR, "new"
    before = Version.parse(base.manifest.data_version)
    kind, why = change(base.manifest, compose(built, base, before, config.repo).manifest)
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


def _refuse_other_data(repo: str, commit: str, held: Collection[str], built: Built) -> None:
    """Refuse a repo that holds other data, or an unfinished release of another tokenizer.

    Raises:
        UsageError: it does.
    """
    if FILENAME in held:
        other = open_release(repo, commit).manifest.tokenizer
        if not other.counts_like(built.manifest.tokenizer):
            msg = (
                f"{repo} holds an unfinished release for the tokenizer {other.name}; a repo holds "
                "one tokenizer: publish into another repo"
            )
            raise UsageError(msg)
        return
    strangers = sorted(path for path in held if path not in NEW)
    if strangers:
        msg = (
            f"{repo} holds {quote(strangers[0])} and no release of ruler-data; publish into a new "
            "repo"
        )
        raise UsageError(msg)
