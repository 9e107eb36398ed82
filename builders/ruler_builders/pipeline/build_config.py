"""What to build: the options of a build, and the configs that follow from them."""

from collections.abc import Collection
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Literal

from ruler_builders.sources.library import Kind
from ruler_builders.sources.user_texts import find_user_texts
from ruler_data.errors import UsageError
from ruler_data.manifest import BALANCED
from ruler_data.names import check_name, config_name, parse_config, quote
from ruler_data.sharding import assign
from ruler_data.suites import RULER, Suite, load_suite, with_own_domains
from ruler_data.tasks import Task
from ruler_data.tokenizers.counters import CounterName

#: Longest row, in tokens. cwe and needle haystacks draw from six million compound words; a longer
#: row could use them all up and would search for unused ones without end.
LONGEST = 16_777_216


@dataclass(frozen=True, kw_only=True)
class BuildConfig:
    """The options of a build.

    Attributes:
        tokenizer: registry name, folder or Hub id.
        out: the folder to build.
        suite: tasks, lengths and rows to build (`choose_suite`).
        seed: of all draws; None for the default, or for a private seed where `fresh` is set.
        fresh: draw a private seed and keep it in the folder.
        sources: folder with real sources; None for `RULER_SOURCES`, the cache or a download.
        sources_kind: `real`, `sample`, or `auto` for real sources where they are available.
        strict_sources: refuse sources that are not the pinned ones.
        haystack: folder with the user's own texts, or None.
        reserve: tokens of each prompt to keep free beyond the chat template.
        counter: library that counts tokens; it changes the time and not the rows.
        edition: `balanced`, or an edition of upstream.
        template: upstream's chat template to put into its prompts, by name, or `base` for none.
        workers: number of processes.
        engine: `local` for this machine, `ray` for a Ray cluster.
        shard: (i, n) to build share i of n and leave out the manifest; None for everything.
        force: replace a build of other inputs.
    """

    tokenizer: str
    out: Path
    suite: Suite = field(default=RULER, hash=False)  # holds a dict; names and options suffice
    seed: int | None = None
    fresh: bool = False
    sources: Path | None = None
    sources_kind: Kind = "auto"
    strict_sources: bool = False
    haystack: Path | None = None
    reserve: int = 0
    counter: CounterName = "auto"
    edition: str = BALANCED
    template: str = "base"
    workers: int = 1
    engine: Literal["local", "ray"] = "local"
    shard: tuple[int, int] | None = None
    force: bool = False

    @property
    def configs(self) -> dict[str, tuple[Task, int]]:
        """Every config of the suite by name: its task and its length in tokens."""
        return {
            config_name(name, length): (task, length)
            for length in self.suite.lengths
            for name, task in self.suite.tasks.items()
        }

    @property
    def shard_configs(self) -> list[str]:
        """The configs of this shard, or all. They are assigned by tokens."""
        names = list(self.configs)
        if self.shard is None:
            return names
        index, shards = self.shard
        lengths = [length for _, length in self.configs.values()]
        return [names[place] for place in assign(lengths, shards)[index]]

    @property
    def tokens(self) -> int:
        """Tokens of all rows of all configs."""
        return self.suite.rows * sum(length for _, length in self.configs.values())


def choose_suite(
    spec: str,
    *,
    tasks: Collection[str] | None = None,
    lengths: Collection[int] | None = None,
    rows: int | None = None,
    haystack: Path | None = None,
) -> Suite:
    """Return a suite narrowed to what is to be built.

    Args:
        spec: name of a suite, or a YAML file.
        tasks: names, in any order; None for all.
        lengths: in tokens; None for those of the suite, or 4,096 where it names none.
        rows: of each config; None for the number of the suite.
        haystack: folder with the user's own texts, which add tasks to a suite of domains.

    Raises:
        UsageError: the suite, a task, a length or the folder does not exist or cannot be used.
    """
    suite = load_suite(spec)
    if haystack is not None:
        suite = with_own_domains(suite, tuple(find_user_texts(haystack).domains))
    for name in tasks or ():
        if name not in suite.tasks:
            msg = f"--tasks {quote(name)}: no such task; known: {', '.join(suite.tasks)}"
            raise UsageError(msg)
    chosen = tuple(sorted({*(lengths or suite.lengths or (4096,))}))
    for length in chosen:
        parse_config(config_name("vt", length))
    if chosen[-1] > LONGEST:
        msg = (
            f"--lengths {chosen[-1]}: more than {LONGEST} tokens, up to which there are enough "
            "words for cwe and for haystacks of needles; use a shorter length"
        )
        raise UsageError(msg)
    if rows is not None and rows < 1:
        msg = f"--rows {rows}: must be 1 or more"
        raise UsageError(msg)
    return replace(
        suite,
        tasks={n: task for n, task in suite.tasks.items() if tasks is None or n in tasks},
        lengths=chosen,
        rows=suite.rows if rows is None else rows,
    )


def default_folder(
    tokenizer: str, suite: Suite, *, fresh: bool = False, edition: str = BALANCED
) -> Path:
    """Return the folder of a build that names none: `dist/TOKENIZER[-SUITE][-EDITION][-fresh]`.

    Raises:
        UsageError: the tokenizer is not a name that a folder may have.
    """
    name = check_name("tokenizer", Path(tokenizer).resolve().name if tokenizer else "")
    if suite.name != RULER.name:
        name += f"-{suite.name}"
    if edition != BALANCED:
        name += f"-{check_name('edition', edition)}"
    return Path("dist") / (f"{name}-fresh" if fresh else name)
