"""What to build: the options of a build, and the configs that follow from them."""

from collections.abc import Callable, Collection
from dataclasses import KW_ONLY, dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import Annotated, Literal

from ruler_builders.pipeline.pool import Progress
from ruler_builders.sources.library import Kind
from ruler_builders.sources.user_texts import find_user_texts
from ruler_data.errors import UsageError
from ruler_data.manifest import BALANCED
from ruler_data.names import check_name, config_name, parse_config, parse_length, parse_shard, quote
from ruler_data.options import Option
from ruler_data.sharding import assign
from ruler_data.suites import RULER, Suite, load_suite, with_own_domains
from ruler_data.tasks import Task
from ruler_data.terminal import warn as print_warning
from ruler_data.tokenizers.counters import CounterName

#: Longest row, in tokens. cwe and needle haystacks draw from six million compound words; a longer
#: row could use them all up and would search for unused ones without end.
LONGEST = 16_777_216

#: Options of a build that `verify` has, too.
SourcesOption = Annotated[
    Path | str | None, Option("Folder with real sources (default: RULER_SOURCES).", "--sources")
]
HaystackOption = Annotated[
    Path | str | None, Option("Folder of your own texts, for suites of domains.")
]
WorkersOption = Annotated[int, Option("Number of processes.", min=1, max=1024)]
CounterOption = Annotated[
    CounterName,
    Option("Library that counts tokens; auto uses the fast one if its counts are exact."),
]
ProgressOption = Annotated[
    Progress,
    Option("Called with the name of a config and the rows that are finished.", command=False),
]


def silent(*_: object) -> None:
    """Show neither progress nor warnings."""


@dataclass(frozen=True)
class BuildConfig:
    """The options of a build."""

    tokenizer: Annotated[
        str, Option("Registry name, folder or Hub id; see `ruler-data tokenizers`.")
    ] = "mistral"
    _: KW_ONLY
    suite: Annotated[
        str | Suite, Option("Set of tasks: a name (`ruler-data suites`) or a YAML file.")
    ] = field(default="ruler", hash=False)
    lengths: Annotated[
        str | Collection[int] | None,
        Option("Lengths in tokens, e.g. 4096 or 4k,128k (default: the suite's, or 4096)."),
    ] = field(default=None, hash=False)
    tasks: Annotated[str | Collection[str] | None, Option("Tasks, comma-separated, or `all`.")] = (
        field(default="all", hash=False)
    )
    rows: Annotated[
        int | None,
        Option("Rows of each config (default: the suite's; 500 of ruler).", min=1, max=1_000_000),
    ] = None
    seed: Annotated[
        int | None, Option("Seed of all draws (default: 42, that of published data).", min=0)
    ] = None
    fresh: Annotated[bool, Option("Use a new private seed, stored in the folder.")] = False
    sources: SourcesOption = None
    haystack: HaystackOption = None
    sources_kind: Annotated[
        Kind, Option("Use real sources, the sample, or real ones where available.")
    ] = "auto"
    strict_sources: Annotated[bool, Option("Refuse sources that are not the pinned ones.")] = False
    out: Annotated[
        Path | str | None, Option("Folder to build (default: dist/TOKENIZER[-SUITE]).")
    ] = None
    edition: Annotated[
        str,
        Option(
            "`balanced`, or upstream's own rows, byte for byte: upstream-2026-07, "
            "upstream-2025-01 or upstream-2024-04."
        ),
    ] = BALANCED
    template: Annotated[
        str, Option("Chat template of upstream in its prompts, e.g. meta-llama3.")
    ] = "base"
    workers: WorkersOption = 1
    reserve: Annotated[int, Option("Tokens to keep free, e.g. for reasoning.", min=0)] = 0
    engine: Annotated[
        Literal["local", "ray"],
        Option("Where to build: this machine, or a Ray cluster (RAY_ADDRESS)."),
    ] = "local"
    counter: CounterOption = "auto"
    shard: Annotated[
        str,
        Option(
            "Build only shard I of N (I from 0 to N-1), e.g. 0/8 in a job array; the same "
            "command without it completes the folder."
        ),
    ] = ""
    force: Annotated[bool, Option("Replace a build of other inputs.")] = False
    progress: ProgressOption = field(default=silent, compare=False)
    warn: Annotated[
        Callable[[str], None],
        Option("Called with each warning; by default it is printed.", command=False),
    ] = field(default=print_warning, compare=False)

    @cached_property
    def selection(self) -> Suite:
        """The suite, narrowed to the tasks, lengths and rows to build.

        Raises:
            UsageError: the suite, a task, a length or the folder of texts cannot be used.
        """
        suite = self.suite
        if isinstance(suite, str):
            suite = load_suite(suite)
            if self.haystack is not None:
                suite = with_own_domains(suite, tuple(find_user_texts(self.haystack).domains))
        tasks, lengths = parse_tasks(self.tasks), parse_lengths(self.lengths)
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
        if self.rows is not None and self.rows < 1:
            msg = f"--rows {self.rows}: must be 1 or more"
            raise UsageError(msg)
        return replace(
            suite,
            tasks={n: task for n, task in suite.tasks.items() if tasks is None or n in tasks},
            lengths=chosen,
            rows=suite.rows if self.rows is None else self.rows,
        )

    @property
    def folder(self) -> Path:
        """The folder to build; by default `dist/TOKENIZER[-SUITE][-EDITION][-fresh]`.

        Raises:
            UsageError: the tokenizer is not a name that a folder may have.
        """
        if self.out is not None:
            return Path(self.out)
        tokenizer = Path(self.tokenizer).resolve().name if self.tokenizer else ""
        name = check_name("tokenizer", tokenizer)
        if self.selection.name != RULER.name:
            name += f"-{self.selection.name}"
        if self.edition != BALANCED:
            name += f"-{check_name('edition', self.edition)}"
        return Path("dist") / (f"{name}-fresh" if self.fresh else name)

    @property
    def share(self) -> tuple[int, int] | None:
        """(i, n) to build share i of n and leave out the manifest; None for everything."""
        return parse_shard(self.shard) if self.shard else None

    @cached_property
    def configs(self) -> dict[str, tuple[Task, int]]:
        """Every config of the suite by name: its task and its length in tokens."""
        return {
            config_name(name, length): (task, length)
            for length in self.selection.lengths
            for name, task in self.selection.tasks.items()
        }

    @property
    def shard_configs(self) -> list[str]:
        """The configs of this shard, or all. They are assigned by tokens."""
        names = list(self.configs)
        if self.share is None:
            return names
        index, shards = self.share
        lengths = [length for _, length in self.configs.values()]
        return [names[place] for place in assign(lengths, shards)[index]]

    @property
    def tokens(self) -> int:
        """Tokens of all rows of all configs."""
        return self.selection.rows * sum(length for _, length in self.configs.values())


def parse_tasks(tasks: str | Collection[str] | None) -> Collection[str] | None:
    """Return the names of tasks, which may be a comma-separated list; None for `all`."""
    if not isinstance(tasks, str):
        return tasks
    names = _listed(tasks, "task")
    return None if "all" in names else names


def parse_lengths(lengths: str | Collection[int] | None) -> Collection[int] | None:
    """Return lengths (tokens), which may be a comma-separated list; None for `all`."""
    if not isinstance(lengths, str):
        return lengths
    parts = _listed(lengths, "length")
    return None if parts == ["all"] else tuple(sorted({parse_length(part) for part in parts}))


def _listed(text: str, what: str) -> list[str]:
    parts = [part.strip() for part in text.split(",") if part.strip()]
    if not parts:
        msg = f"--{what}s names no {what}"
        raise UsageError(msg)
    return parts
