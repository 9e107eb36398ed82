"""`ruler-data card`: print the card of a folder or a release."""

from dataclasses import replace
from typing import Annotated

from ruler_data.errors import RulerError, UsageError
from ruler_data.names import check_repo
from ruler_data.options import Option, command
from ruler_data.terminal import out


@command()
def card(
    data: Annotated[str, Option("Folder of a build, or a repo with --revision.", argument=True)],
    revision: Annotated[str | None, Option("Tag or commit of a release on the Hub.")] = None,
    repo: Annotated[str, Option("Print it as for this repo on the Hub.")] = "",
    version: Annotated[str, Option("Version of that release.")] = "1.0.0",
) -> None:
    """Print the card of a folder or a release, or as it will be in a repo."""
    from ruler_builders.card import Address, card_files
    from ruler_builders.pipeline.build_dir import BuildDir
    from ruler_builders.publish.version_rules import Version
    from ruler_data.dataset import open_source

    released = Version.parse(version)
    address = Address(check_repo(repo), released.tag) if repo else None
    source = open_source(data, revision)
    folder, manifest = source.folder, source.manifest
    if address is None:
        if source.release:
            source.release.fetch((), ["README.md"])
        text = (folder / "README.md").read_text(encoding="utf-8", errors="replace")
    elif source.release:
        msg = "--repo is for a folder; a release has its card"
        raise UsageError(msg)
    elif BuildDir(folder).intact(manifest.configs) != manifest.configs:
        raise RulerError(folder, "its rows are not those of its manifest; verify it")
    else:
        shown = replace(manifest, data_version=str(released))
        text = card_files(shown, folder.joinpath, address)["README.md"].decode()
    out.print(text, soft_wrap=True, end="")
