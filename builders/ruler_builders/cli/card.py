"""`ruler-data card`: print the card of a folder, check it or write it again."""

from dataclasses import replace
from typing import Annotated

from ruler_data.errors import RulerError, UsageError
from ruler_data.names import check_repo
from ruler_data.options import Option, command
from ruler_data.terminal import out, say


@command()
def card(
    data: Annotated[str, Option("Folder of a build, or a repo with --revision.", argument=True)],
    revision: Annotated[str | None, Option("Tag or commit of a release on the Hub.")] = None,
    check: Annotated[bool, Option("Check that it is valid and up to date.")] = False,
    write: Annotated[bool, Option("Rewrite the card and the generated files next to it.")] = False,
    repo: Annotated[str, Option("Print it as for this repo on the Hub.")] = "",
    version: Annotated[str, Option("Version of that release.")] = "1.0.0",
) -> None:
    """Print the card of a folder, check it, or write it again."""
    from ruler_builders.card import Address, card_faults, card_files
    from ruler_builders.pipeline.build_dir import BuildDir, locked
    from ruler_builders.publish.version_rules import Version
    from ruler_data.dataset import open_source

    if write and (check or repo):
        msg = "--write cannot be combined with --check or --repo; `publish` writes a repo's card"
        raise UsageError(msg)
    released = Version.parse(version)
    address = Address(check_repo(repo), released.tag) if repo else None
    source = open_source(data, revision)
    folder, manifest = source.folder, source.manifest
    if source.release:
        if write or check or repo:
            msg = "--write, --check and --repo are for a folder; `verify` checks a release"
            raise UsageError(msg)
        path = source.release.fetch((), ["README.md"]) / "README.md"
        out.print(path.read_text(encoding="utf-8", errors="replace"), soft_wrap=True, end="")
        return
    build = BuildDir(folder)
    if build.intact(manifest.configs) != manifest.configs:
        msg = f"{folder}: its rows are not those of its manifest; verify it"
        raise RulerError(msg)
    shown = replace(manifest, data_version=str(released)) if repo else manifest
    texts = card_files(shown, folder.joinpath, address)
    if write:
        with locked(build):
            build.seal(manifest, texts)
        say(f"{folder}: wrote {', '.join(texts)} and the manifest")
    elif check:
        faults = list(card_faults(texts["README.md"].decode(), manifest))
        for name, text in texts.items():
            path = folder / name
            if not path.is_file() or path.read_bytes() != text:
                faults.append(f"{name} is out of date")
        if faults:
            msg = f"{folder}: {'; '.join(faults)}; `ruler-data card {folder} --write` repairs it"
            raise RulerError(msg)
        say(f"{folder}: the card is valid and up to date")
    else:
        out.print(texts["README.md"].decode(), soft_wrap=True, end="")
