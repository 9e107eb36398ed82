"""The card of a folder or a release, or as `publish` would write it into a repo."""

from dataclasses import replace
from pathlib import Path

from ruler_builders.card import CARD_BYTES, Address, card_files
from ruler_builders.publish.release import CONSENTS, Release
from ruler_data.dataset import open_source
from ruler_data.errors import RulerError, UsageError
from ruler_data.files import read_bytes
from ruler_data.hub.client import HubDown
from ruler_data.names import check_repo
from ruler_data.terminal import warn


def shown_card(data: str, config: str, revision: str | None, repo: str, *, card: bool) -> str:
    """Return a card, without its last line feed.

    Raises:
        UsageError: the options contradict each other.
        RulerError: there is no card.
    """
    if config or not card:
        option = config or "--repo"
        raise UsageError(f"{option}: --card shows the card of a dataset")
    source = open_source(data, revision)
    if repo and source.release:
        raise UsageError("--repo is for a folder; a release has its card")
    if repo:
        return _as_published(source.folder, check_repo(repo))
    if source.release:
        source.release.fetch((), ["README.md"])
    elif not (source.folder / "README.md").is_file():
        raise RulerError(source.folder, "has no README.md; the same build command writes it again")
    text = read_bytes(source.folder / "README.md", CARD_BYTES, "README.md")
    return text.decode(errors="replace").removesuffix("\n")


def _as_published(folder: Path, repo: str) -> str:
    """Return the card that `publish` would write; without the Hub, that of a first release."""
    release = Release(folder, repo, version=None, allowed=tuple(CONSENTS))
    try:
        release.find_repo()
        release.plan(check=False)
    except HubDown as error:
        manifest = replace(release.built, data_version=str(release.version))
        address = Address(repo, release.version.tag)
        text = card_files(manifest, folder.joinpath, address)["README.md"].decode()
        warn(f"{error}; this is the card of a first release")
    else:
        text = release.card
    return text.removesuffix("\n")
