"""Names of configs, files, repos and shards: how they are built, parsed and checked."""

import re
from collections.abc import Iterable
from difflib import get_close_matches

from ruler_data.errors import UsageError

_SAFE = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,95}")
_SHARD = re.compile(r"([0-9]{1,5})/([0-9]{1,5})")
_CONFIG = re.compile(r"(?P<task>[a-z0-9_]+)_(?P<length>[1-9][0-9]{0,8})")
#: Most rows of a config: row groups for more need a footer that no reader takes from a stranger.
MOST_ROWS = 10_000
#: Tag of a release; other names are branches, which may move.
_NUMBER = r"(?:0|[1-9]\d{0,5})"
_TAG = re.compile(rf"v({_NUMBER}\.{_NUMBER}\.{_NUMBER})", re.ASCII)
_LENGTH = re.compile(r"([1-9][0-9]{0,7})([km]?)", re.IGNORECASE)
#: Tokens of a unit that a length is given in.
UNITS = {"": 1, "k": 1024, "m": 1024**2}


def config_name(task: str, length: int) -> str:
    """Return the name of the config of a task at a length in tokens.

    >>> config_name("vt", 4096)
    'vt_4096'
    """
    return f"{task}_{length}"


def config_file(config: str) -> str:
    """Return the path of a config's file within the folder.

    >>> config_file("vt_4096")
    'vt_4096/test-00000-of-00001.parquet'
    """
    return f"{config}/test-00000-of-00001.parquet"


def near(word: str, names: Iterable[str]) -> str:
    """Return a question for the name that somebody may have meant, or nothing.

    >>> near("VT", ["vt", "cwe"]), near("vt_1k", ["vt_1024"]), near("x", ["vt"])
    ('; did you mean vt', '; did you mean vt_1024', '')
    """
    written = re.sub(r"(?<=_)([0-9]+)k$", lambda match: str(1024 * int(match[1])), word.lower())
    by_lower = {name.lower(): name for name in names}
    matches = get_close_matches(written, by_lower, n=1)
    return f"; did you mean {by_lower[matches[0]]}" if matches else ""


def parse_config(name: str) -> tuple[str, int]:
    """Return the task and the length (tokens) of a config's name.

    >>> parse_config("niah_single_1_131072")
    ('niah_single_1', 131072)

    Raises:
        UsageError: the name is not `{task}_{length}`.
    """
    match = _CONFIG.fullmatch(name)
    if match is None:
        remedy = "a config is named TASK_LENGTH, e.g. vt_4096"
        raise UsageError(f"{quote(name)} is not a config; {remedy}")
    return match["task"], int(match["length"])


def short_length(length: int) -> str:
    """Return a length in tokens as tables and messages show it.

    >>> short_length(131072), short_length(1000)
    ('128K', '1,000')
    """
    if length % 1024 == 0:
        return f"{length // 1024}K"
    return f"{length:,}"


def parse_length(text: str, option: str = "--lengths") -> int:
    """Return a length in tokens; `k` is 1,024 of them and `m` 1,048,576.

    >>> parse_length("4096"), parse_length("128k"), parse_length("1M")
    (4096, 131072, 1048576)

    Raises:
        UsageError: the text is not a length.
    """
    tokens = 0
    if match := _LENGTH.fullmatch(text):
        tokens = int(match[1]) * UNITS[match[2].lower()]
    if not 0 < tokens < 10**8:
        problem = "not a number of tokens from 1 to 99999999, e.g. 4096 or 4k"
        raise UsageError(f"{option} {quote(text)}: {problem}")
    return tokens


def parse_names(names: str | int | Iterable[object] | None, option: str = "") -> tuple[str, ...]:
    """Return names, which may be a comma-separated list; none for `all` of a named option.

    >>> parse_names("vt_4096, cwe_4096"), parse_names(4096), parse_names("all", "--tasks")
    (('vt_4096', 'cwe_4096'), ('4096',), ())

    Raises:
        UsageError: a named option has no names, not even `all`.
    """
    if isinstance(names, str | int):
        names = str(names).split(",")
    stripped = [str(name).strip() for name in names or ()]
    texts = tuple(filter(None, stripped))
    if option and not texts and names is not None:
        raise UsageError(f"{option} is empty; give names, or `all`")
    if option and "all" in texts:
        return ()
    return texts


def parse_lengths(
    lengths: str | int | Iterable[object] | None, option: str = ""
) -> tuple[int, ...]:
    """Return lengths in tokens, e.g. of `4k,131072`; see `parse_names`."""
    return tuple(parse_length(text) for text in parse_names(lengths, option))


def counted(number: int, noun: str) -> str:
    """Return a number with its noun.

    >>> counted(1, "config"), counted(1200, "row")
    ('1 config', '1,200 rows')
    """
    if number == 1:
        return f"1 {noun}"
    return f"{number:,} {noun}s"


def parse_shard(text: str) -> tuple[int, int]:
    """Return which of how many shards `I/N` is.

    >>> parse_shard("0/8")
    (0, 8)

    Raises:
        UsageError: the text is not a shard.
    """
    match = _SHARD.fullmatch(text)
    if match is None or int(match[1]) >= int(match[2]):
        problem = "not a shard; write I/N with I from 0 to N-1, e.g. 0/8"
        raise UsageError(f"--shard {quote(text)}: {problem}")
    return int(match[1]), int(match[2])


def check_name(kind: str, name: str) -> str:
    """Return the name if it is safe as a file name on every system.

    Raises:
        UsageError: it holds a slash, a control character, a leading dash or dot, or is too long.
    """
    if not _SAFE.fullmatch(name) or ".." in name:
        raise UsageError(
            f"{kind} {quote(name)} is not a valid name; use letters, digits, '.', '_' and '-', "
            "at most 96 characters, beginning with a letter or a digit"
        )
    return name


def check_repo(repo: str) -> str:
    """Return a Hub repo's id, `owner/name`, if it is one.

    >>> check_repo("org/ruler-qwen2.5")
    'org/ruler-qwen2.5'

    Raises:
        UsageError: it is not.
    """
    owner, _, name = repo.partition("/")
    if not (owner and name) or name.endswith((".git", ".ipynb", "-", ".")) or "--" in repo:
        remedy = "name one as OWNER/NAME, e.g. org/ruler"
        raise UsageError(f"repo {quote(repo)} is not a repo of the Hub; {remedy}")
    check_name("repo", owner)
    check_name("repo", name)
    return repo


def is_repo(text: str) -> bool:
    """Whether a text may be the id of a Hub repo."""
    try:
        return check_repo(text) == text
    except UsageError:
        return False


def check_revision(revision: str) -> str:
    """Return a revision (tag, branch or commit) if it is safe in an address and as a file name.

    Raises:
        UsageError: it is not.
    """
    for segment in revision.removeprefix("refs/").split("/"):
        check_name("revision", segment)
    return revision


def released_version(revision: str) -> str | None:
    """Return the version of a release's tag, or None for any other revision.

    >>> released_version("v1.0.0")
    '1.0.0'
    """
    match = _TAG.fullmatch(revision)
    return match[1] if match else None


def quote(text: str, limit: int = 60) -> str:
    r"""Return user input made safe to print in an error: escaped, one line, shortened.

    >>> quote("a\nb")
    "'a\\nb'"
    >>> quote("it's long", 5)
    '"it\'s..."'
    """
    escaped = ascii(text)
    if len(escaped) <= limit:
        return escaped
    return f"{escaped[:limit]}...{escaped[0]}"
