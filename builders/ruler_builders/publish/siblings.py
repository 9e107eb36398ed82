"""The datasets of several tokenizers as sibling repos, and the index that lists them."""

from collections.abc import Callable, Collection, Sequence
from pathlib import Path
from typing import NamedTuple

from ruler_builders.publish.plan import Version
from ruler_data.errors import UsageError
from ruler_data.hub.repo import PushFile, head, put_files
from ruler_data.index import FILENAME as INDEX
from ruler_data.index import Index, Sibling, read_index, releases_of
from ruler_data.names import check_name, check_repo, parse_lengths
from ruler_data.suites import RULER, load_suite
from ruler_data.tokenizers.registry import ALIASES


class SiblingBuild(NamedTuple):
    """One dataset of a release: what it is built from, and where it goes (tokens; see `build`)."""

    tokenizer: str
    repo: str
    folder: Path
    lengths: Collection[int]
    reserve: int


def sibling_builds(
    first: str,
    version: str,
    tokenizers: str,
    out: Path,
    lengths: str | Collection[int | str] | None = None,
    suite: str = RULER.name,
    reserve: int = 0,
) -> list[SiblingBuild]:
    """Return the datasets of a release, that of the repo `first` first.

    With a reserve there are two for each tokenizer; in the second a length that is not above the
    reserve has no room for a prompt, so it is left out.

    Raises:
        UsageError: the options cannot be released.
    """
    Version.parse(version)
    owner, _, name = check_repo(first).partition("/")
    specs = [spec.strip() for spec in tokenizers.split(",") if spec.strip()]
    names = [check_name("tokenizer", Path(spec).name) for spec in specs]
    if not names or len({ALIASES.get(spelling, spelling) for spelling in names}) < len(names):
        same = ", ".join(f"{alias} is {canonical}" for alias, canonical in ALIASES.items())
        msg = f"name each tokenizer once, comma-separated ({same})"
        raise UsageError("--tokenizers " + tokenizers, msg)
    sizes = parse_lengths(lengths, "--lengths") or load_suite(suite).lengths or RULER.lengths
    longest_first = sorted({*sizes})
    fitting = [length for length in longest_first if length > reserve]
    if not fitting:
        msg = f"no length is longer: {', '.join(map(str, longest_first))}"
        raise UsageError("--reserve " + str(reserve), msg)
    kinds = [(0, "", longest_first)]
    if reserve:
        kinds.append((reserve, f"-{reserve_name(reserve)}", fitting))
    return [
        SiblingBuild(spec, check_repo(f"{owner}/{base}{end}"), out / f"{folder}{end}", subset, room)
        for room, end, subset in kinds
        for spec, folder, base in zip(
            specs, names, [name, *(f"{name}-{suffix}" for suffix in names[1:])], strict=True
        )
    ]


def reserve_name(reserve: int) -> str:
    """Return the part of a repo's name that gives its reserve (tokens).

    >>> reserve_name(16384), reserve_name(1000)
    ('r16k', 'r1000')
    """
    return f"r{reserve // 1024}k" if reserve % 1024 == 0 else f"r{reserve}"


def label(tokenizer: str, reserve: int) -> str:
    """Return how a card names a sibling: its tokenizer, and the tokens that it keeps free."""
    return f"{tokenizer}, {reserve:,} tokens kept free" if reserve else tokenizer


def listed_repos(index: str, released: Collection[str]) -> dict[str, str]:
    """Return the repos that a repo lists, each with the name of its tokenizer.

    A release calls it before anything is sent, since it changes the index last.

    Raises:
        RulerError: it is not among those to be released, and has neither an index nor a release.
    """
    if index in released:
        entry = read_index(index) if head(index) else None
    else:
        entry = releases_of(index)
    return {
        sibling.repo: label(sibling.tokenizer, sibling.reserve)
        for sibling in (entry or Index()).siblings
    }


def put_index(
    repo: str, siblings: Sequence[Sibling], tell: Callable[[str], None], *, dry_run: bool
) -> None:
    """List releases in a repo's index; what others list meanwhile, and its own release, is kept."""
    names = ", ".join(f"{sibling.repo} {sibling.tag}" for sibling in siblings)
    if dry_run:
        tell(f"{repo}: {INDEX} would list {names}")
        return

    def files(commit: str) -> list[PushFile]:
        index = releases_of(repo, commit).with_siblings(siblings)
        return [PushFile.of_bytes(INDEX, index.to_json().encode())]

    commit, sent = put_files(repo, files, f"Index: {names}")
    tell(f"{repo}: {INDEX} {'updated, commit ' + commit if sent else 'is up to date'}")
