"""What a repo holds, what is to be sent there, and under which version."""

import re
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path

from ruler_builders.card import card_faults
from ruler_builders.publish.merge import Built, Dataset, compose
from ruler_builders.publish.version_rules import Change, Version, change
from ruler_data.errors import RulerError, UsageError
from ruler_data.hub import Release, changed, head, missing, open_release, tags, tree
from ruler_data.manifest import FILENAME
from ruler_data.names import quote

#: What a repo may hold before its first release: what the Hub or a person puts into a new one.
NEW = (".gitattributes", "README.md", ".gitignore", "LICENSE")
#: The file of a config; one that no manifest names is of a release that was never finished.
CONFIG_FILE = re.compile(r"[a-z0-9_]+_[1-9][0-9]*/test-00000-of-00001\.parquet")


@dataclass(frozen=True)
class PublishConfig:
    """What to publish.

    Attributes:
        folder: of the build.
        repo: id of the dataset on the Hub.
        version: number of the release; None for the next that is true.
        private: whether a new repo is private.
        allowed: what may be published only with consent (`publish.consent`), by option.
        dry_run: only look.
        tokenizer: where it is, if it is not found by the manifest.
        workers: processes that verify.
    """

    folder: Path
    repo: str
    version: Version | None = None
    private: bool = False
    allowed: frozenset[str] = frozenset()
    dry_run: bool = False
    tokenizer: str | None = None
    workers: int = 1


@dataclass(frozen=True)
class Plan:
    """What is to be done.

    Attributes:
        version: of the release.
        dataset: that it holds.
        creates: whether the repo is to be created.
        since: the release before, if there is one.
        change: what becomes of it.
        why: where that is seen first.
        send: paths that the repo does not hold with these bytes.
        published: commit of the release if it is there already.
        replaced: paths that somebody else changed since the release before, and this one replaces.
        manifest_then: git's hash of the manifest at the head when this was planned.
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


def make_plan(order: PublishConfig, built: Built) -> Plan:
    """Look at the repo and decide; nothing is written.

    Raises:
        UsageError: the version does not say what changes, or the repo is of something else.
    """
    commit = head(order.repo)
    tagged = {} if commit is None else _versions(order.repo)
    held = {} if commit is None else tree(order.repo, commit)
    base = _base(order, tagged)
    if base is None and commit is not None:
        _refuse_other_data(order.repo, commit, held, built)
    version, kind, why = _version(order, built, base)
    dataset = compose(built, base, version, order.repo)
    card = next(file for file in dataset.files if file.path == "README.md")
    if faults := list(card_faults(card.read().decode(), dataset.manifest)):
        msg = f"the card is not valid, so the Hub would refuse it: {'; '.join(faults)}"
        raise RulerError(msg)
    send = tuple(file.path for file in missing(dataset.files, held))
    edited = changed(tree(order.repo, base.commit), held) if base else []
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
    """Return the files of configs that a release was to have which was never finished."""
    ours = {file.path for file in dataset.files}
    return [path for path in held if CONFIG_FILE.fullmatch(path) and path not in ours]


def _versions(repo: str) -> dict[Version, str]:
    """Return the releases of a repo with their commits."""
    found = {Version.of_tag(tag): commit for tag, commit in tags(repo).items()}
    return {version: commit for version, commit in found.items() if version is not None}


def _base(order: PublishConfig, tagged: Mapping[Version, str]) -> Release | None:
    """Return the release to go on from: the one that is asked for, or else the latest."""
    if not tagged:
        return None
    asked = order.version if order.version in tagged else None
    version = asked or max(tagged)
    base = open_release(order.repo, tagged[version])
    if base.manifest.data_version != str(version):
        msg = (
            f"{order.repo}: tag {version.tag} is on commit {base.commit}, whose manifest says "
            f"{base.manifest.data_version}; somebody changed it: mend that first"
        )
        raise RulerError(msg)
    return replace(base, revision=version.tag)


def _version(
    order: PublishConfig, built: Built, base: Release | None
) -> tuple[Version, Change, str]:
    """Return the version of the release, and what it changes.

    Raises:
        UsageError: the version asked for says something else.
    """
    if base is None:
        return order.version or Version.parse(built.manifest.data_version), Change.MINOR, "new"
    before = Version.parse(base.manifest.data_version)
    kind, why = change(base.manifest, compose(built, base, before, order.repo).manifest)
    fitting = before.after(kind)
    version = order.version or fitting
    if version.says(before) is not kind:
        said = f"since {before.tag}: {kind.about}{f' ({why})' if why else ''}"
        if version == before:
            said = (
                f"{version.tag} is published with other content, and a tag is never moved; {said}"
            )
        elif version < before:
            said = f"{before.tag} is published already; {said}"
        remedy = f"this is {fitting}" if kind else f"there is nothing to release after {before}"
        msg = f"version {version}: {said}; {remedy}"
        raise UsageError(msg)
    return version, kind, why


def _refuse_other_data(repo: str, commit: str, held: Collection[str], built: Built) -> None:
    """Refuse a repo that holds other data, or an unfinished release of another tokenizer.

    Raises:
        UsageError: it does.
    """
    if FILENAME in held:
        theirs = open_release(repo, commit).manifest.tokenizer
        if theirs.fingerprint != built.manifest.tokenizer.fingerprint:
            msg = (
                f"{repo} holds an unfinished release for the tokenizer {theirs.name}; a repo holds "
                "one tokenizer: publish into another repo"
            )
            raise UsageError(msg)
        return
    other = sorted(path for path in held if path not in NEW)
    if other:
        msg = (
            f"{repo} holds {quote(other[0])} and no release of ruler-data; publish into a new repo"
        )
        raise UsageError(msg)
