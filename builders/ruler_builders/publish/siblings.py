"""Repos for several tokenizers, and the index that lists them."""

from collections.abc import Callable, Collection, Sequence
from pathlib import Path
from typing import NamedTuple

from ruler_data.errors import UsageError
from ruler_data.hub.repo import PushFile, head, put_files
from ruler_data.index import FILENAME as INDEX
from ruler_data.index import Index, Sibling, read_index, releases_of
from ruler_data.manifest import TokenizerInfo
from ruler_data.names import check_name, check_repo, parse_names
from ruler_data.tokenizers.registry import ALIASES

#: Where `build` makes the folder of a tokenizer, and `publish` looks for it.
BUILDS = Path("dist")


class SiblingBuild(NamedTuple):
    """One dataset of a release: its tokenizer, its repo, and the folder that is published."""

    tokenizer: str
    repo: str
    folder: Path


def sibling_builds(first: str, tokenizers: str) -> list[SiblingBuild]:
    """Return the datasets of a release, that of the repo `first` first.

    Raises:
        UsageError: a name is not valid, or two are of one tokenizer.
    """
    specs = parse_names(tokenizers)
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


def label(info: TokenizerInfo) -> str:
    """Return how a card names a sibling: its tokenizer, and the tokens that it keeps free."""
    return _label(info.name, info.extra_reserve)


def _label(tokenizer: str, reserve: int) -> str:
    if not reserve:
        return tokenizer
    return f"{tokenizer}, {reserve:,} tokens kept free"


def listed_repos(index: str, released: Collection[str]) -> dict[str, str]:
    """Return the repos that a repo lists, each with the name of its tokenizer.

    A release calls it before anything is sent, since it changes the index last.

    Raises:
        RulerError: it is not among those to be released, and has neither an index nor a release.
    """
    if not index:
        return {}
    entries: Index | None = None
    if index not in released:
        entries = releases_of(index)
    elif head(index):
        entries = read_index(index)
    siblings = (entries or Index()).siblings
    return {sibling.repo: _label(sibling.tokenizer, sibling.reserve) for sibling in siblings}


def put_index(repo: str, siblings: Sequence[Sibling], tell: Callable[[str], None]) -> None:
    """List releases in a repo's index; what others list meanwhile, and its own release, is kept."""
    names = ", ".join(f"{sibling.repo} {sibling.tag}" for sibling in siblings)

    def files(commit: str) -> list[PushFile]:
        index = releases_of(repo, commit).with_siblings(siblings)
        return [PushFile.of_bytes(INDEX, index.to_json().encode())]

    commit, sent = put_files(repo, files, f"Index: {names}")
    if sent:
        tell(f"{repo}: {INDEX} updated, commit {commit}")
    else:
        tell(f"{repo}: {INDEX} is up to date")
