"""Publish one folder, or several tokenizers as sibling repos; the index that lists them."""

from collections.abc import Collection, Sequence
from pathlib import Path
from typing import NamedTuple

from ruler_builders.publish.release import UNCHECKED, Release, Tell, check_token
from ruler_builders.publish.version import Version
from ruler_data.errors import UsageError
from ruler_data.hub.client import check_access, is_reachable
from ruler_data.hub.repo import PushFile, head, put_files
from ruler_data.index import FILENAME as INDEX
from ruler_data.index import Index, Sibling, read_index, releases_of
from ruler_data.names import check_name, check_repo
from ruler_data.network import offline
from ruler_data.tokenizers.registry import ALIASES

#: Where `build` makes the folder of a tokenizer, and `publish` looks for it.
BUILDS = Path("dist")


class Releases(tuple[Release, ...]):
    """What was published for several tokenizers, or would be."""

    def __str__(self) -> str:
        return "\n".join(map(str, self))

    def to_record(self) -> list[dict[str, object]]:
        """Return what was done for each as plain values."""
        return [release.to_record() for release in self]

    @property
    def notes(self) -> tuple[str, ...]:
        """What could not be checked."""
        return tuple(note for release in self for note in release.notes)

    @property
    def exit_status(self) -> int:
        """3: nothing wrong was found, but not all could be checked."""
        return max(release.exit_status for release in self)


def publish(
    releases: Sequence[Release],
    tell: Tell,
    *,
    index: str = "",
    dry_run: bool = False,
) -> Releases:
    """Take releases through their steps together, and list them in an index.

    Args:
        releases: one, or those of several tokenizers; then a repo whose rows do not change keeps
            its version.
        tell: called with a line about each step.
        index: repo whose `index.json` lists them; by default each repo's own, if it has one.
        dry_run: whether to write nothing.

    Raises:
        UsageError: it cannot be done with these options; nothing was written.
        RulerError: a fault of a folder or the Hub; the same command continues.
    """
    if not dry_run:
        check_access()
    elif offline() or not is_reachable():
        return _proved_alone(releases)
    unasked = check_token([release.repo for release in releases], tell)
    _plan(releases, index)
    if not dry_run:
        _tell_plans(releases, unasked, tell)
    for release in releases:
        release.prove()
    lists = _lists(releases, index)
    for release in releases:
        if dry_run:
            release.unasked = unasked
        else:
            release.publish()
    for repo, listed in lists.items():
        put_index(repo, listed, tell, dry_run=dry_run)
    return Releases(releases)


def _proved_alone(releases: Sequence[Release]) -> Releases:
    """Return releases as a dry run without the Hub leaves them."""
    for release in releases:
        release.prove()
        release.unasked = UNCHECKED
    return Releases(releases)


def _tell_plans(releases: Sequence[Release], unasked: str, tell: Tell) -> None:
    """Tell what will be done; a dry run prints it as its outcome."""
    if unasked:
        tell(f"note: {unasked}")
    for release in releases:
        for line in release.lines():
            tell(line)


def _lists(releases: Sequence[Release], index: str) -> dict[str, Sequence[Release]]:
    """Return the repos whose index lists releases, with those releases."""
    if index:
        return {index: releases}
    lists = dict[str, Sequence[Release]]()
    for release in releases:
        if not release.creates and read_index(release.repo):
            lists[release.repo] = [release]
    return lists


def _plan(releases: Sequence[Release], index: str) -> None:
    """Plan releases, each with the others and those of the index on its card."""
    for release in releases:
        release.find_repo()
    siblings = dict[str, str]()
    if index:
        siblings = listed_repos(index, {release.repo for release in releases})
    if len(releases) > 1:
        for release in releases:
            info = release.built.tokenizer
            siblings[release.repo] = label(info.name, info.extra_reserve)
    for release in releases:
        release.siblings = siblings
        release.keeps_unchanged = len(releases) > 1
        release.plan()


def _sibling(release: Release) -> Sibling:
    """Return the entry of a release in an index."""
    commit = release.commit or release.published or ""
    return Sibling.of(release.repo, release.version.tag, commit, release.manifest)


class SiblingBuild(NamedTuple):
    """One dataset of a release: its tokenizer, its repo, and the folder that is published."""

    tokenizer: str
    repo: str
    folder: Path


def sibling_builds(first: str, version: str, tokenizers: str) -> list[SiblingBuild]:
    """Return the datasets of a release, that of the repo `first` first.

    Raises:
        UsageError: the options cannot be released.
    """
    if version:
        Version.parse(version)
    check_repo(first)
    specs = [spec.strip() for spec in tokenizers.split(",") if spec.strip()]
    names = [check_name("tokenizer", Path(spec).name) for spec in specs]
    if not names or len({ALIASES.get(name, name) for name in names}) < len(names):
        same = ", ".join(f"{alias} is {canonical}" for alias, canonical in ALIASES.items())
        remedy = f"name each tokenizer once, comma-separated ({same})"
        raise UsageError(f"--tokenizers {tokenizers}", remedy)
    builds = list[SiblingBuild]()
    for spec, name in zip(specs, names, strict=True):
        repo = first
        if name != names[0]:
            repo = f"{first}-{name}"
        builds.append(SiblingBuild(spec, check_repo(repo), BUILDS / name))
    return builds


def label(tokenizer: str, reserve: int) -> str:
    """Return how a card names a sibling: its tokenizer, and the tokens that it keeps free."""
    if not reserve:
        return tokenizer
    return f"{tokenizer}, {reserve:,} tokens kept free"


def listed_repos(index: str, released: Collection[str]) -> dict[str, str]:
    """Return the repos that a repo lists, each with the name of its tokenizer.

    A release calls it before anything is sent, since it changes the index last.

    Raises:
        RulerError: it is not among those to be released, and has neither an index nor a release.
    """
    entry: Index | None = Index()
    if index not in released:
        entry = releases_of(index)
    elif head(index):
        entry = read_index(index)
    siblings = (entry or Index()).siblings
    return {sibling.repo: label(sibling.tokenizer, sibling.reserve) for sibling in siblings}


def put_index(repo: str, releases: Sequence[Release], tell: Tell, *, dry_run: bool) -> None:
    """List releases in a repo's index; what others list meanwhile, and its own release, is kept."""
    siblings = [_sibling(release) for release in releases]
    names = ", ".join(f"{sibling.repo} {sibling.tag}" for sibling in siblings)
    if dry_run:
        tell(f"{repo}: {INDEX} would list {names}")
        return

    def files(commit: str) -> list[PushFile]:
        index = releases_of(repo, commit).with_siblings(siblings)
        return [PushFile.of_bytes(INDEX, index.to_json().encode())]

    commit, sent = put_files(repo, files, f"Index: {names}")
    if sent:
        tell(f"{repo}: {INDEX} updated, commit {commit}")
    else:
        tell(f"{repo}: {INDEX} is up to date")
