"""The builds of `ruler-data release`: a folder and a repo for each tokenizer, and for a reserve."""

from collections.abc import Collection
from dataclasses import dataclass
from pathlib import Path

from ruler_builders.pipeline.plan import parse_lengths
from ruler_builders.publish.version_rules import Version
from ruler_data.errors import UsageError
from ruler_data.names import check_name, check_repo
from ruler_data.suites import RULER, load_suite
from ruler_data.tokenizers.registry import ALIASES


@dataclass(frozen=True)
class SiblingBuild:
    """One dataset of a release: what it is built from, and where it goes.

    Attributes:
        tokenizer: registry name, folder or Hub id.
        repo: on the Hub.
        folder: of the build.
        lengths: in tokens.
        reserve: tokens that its rows keep free beside the answer.
    """

    tokenizer: str
    repo: str
    folder: Path
    lengths: Collection[int]
    reserve: int = 0


def sibling_builds(
    first: str,
    version: str,
    tokenizers: str,
    out: Path,
    lengths: str | Collection[int] | None = None,
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
    if not names or len({ALIASES.get(one, one) for one in names}) < len(names):
        same = ", ".join(f"{alias} is {one}" for alias, one in ALIASES.items())
        msg = f"name each tokenizer once, comma-separated ({same})"
        raise UsageError("--tokenizers " + tokenizers, msg)
    chosen = sorted(parse_lengths(lengths) or load_suite(suite).lengths or RULER.lengths)
    fitting = [length for length in chosen if length > reserve]
    if not fitting:
        msg = f"no length is longer: {', '.join(map(str, chosen))}"
        raise UsageError("--reserve " + str(reserve), msg)
    kinds = [(0, "", chosen)]
    if reserve:
        kinds.append((reserve, f"-{reserve_name(reserve)}", fitting))
    return [
        SiblingBuild(spec, check_repo(f"{owner}/{base}{end}"), out / f"{folder}{end}", some, kept)
        for kept, end, some in kinds
        for spec, folder, base in zip(
            specs, names, [name, *(f"{name}-{one}" for one in names[1:])], strict=True
        )
    ]


def reserve_name(reserve: int) -> str:
    """Return how a repo's name tells its reserve (in tokens).

    >>> reserve_name(16384), reserve_name(1000)
    ('r16k', 'r1000')
    """
    return f"r{reserve // 1024}k" if reserve % 1024 == 0 else f"r{reserve}"
