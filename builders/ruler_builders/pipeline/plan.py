"""The plan of a build: its options, resolved to what decides the rows and where they go."""

from collections.abc import Collection, Iterator
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path

from ruler_builders.sources.catalogue import CATALOGUE, EssaysName
from ruler_builders.sources.domains import find_user_texts
from ruler_builders.sources.library import Kind, Library, SourceChoice
from ruler_builders.upstream import Edition, edition_of, model_template
from ruler_data.errors import UsageError
from ruler_data.manifest import BALANCED
from ruler_data.names import (
    check_name,
    config_name,
    near,
    parse_config,
    parse_lengths,
    parse_names,
    quote,
)
from ruler_data.suites import RULER, Suite, load_suite, with_own_domains
from ruler_data.tasks import TASKS, Task
from ruler_data.tokenizers.protocol import CounterName
from ruler_data.version import DEFAULT_SEED

#: Longest row, in tokens. cwe and needle haystacks draw from six million compound words; a longer
#: row could use them all up and would search for unused ones without end.
LONGEST = 16_777_216
#: Seeds from this one on are refused by numpy, from which editions of upstream draw.
LARGEST_SEED = 2**32


@dataclass(frozen=True)
class BuildPlan:
    """What decides the rows of a build, and its folder; worker processes receive it.

    Attributes:
        suite: narrowed to the tasks, lengths and rows to build.
        samples: sources that are taken from the sample, whatever `sources_kind` is.
        lacking: why the real ones of them are not available, if that is the cause.
        network: whether sources may be downloaded.
        essays: which of the pinned essays.
        words: version of wonderwords, for editions of upstream; empty for that which is here.
    """

    tokenizer: str
    suite: Suite = field(hash=False)
    folder: Path
    seed: int
    sources: Path | str | None = None
    haystack: Path | str | None = None
    sources_kind: Kind = "auto"
    strict_sources: bool = False
    edition: str = BALANCED
    template: str = "base"
    reserve: int = 0
    counter: CounterName = "auto"
    samples: frozenset[str] = frozenset()
    lacking: str = ""
    network: bool = True
    essays: EssaysName = "nvidia"
    words: str = ""

    @cached_property
    def configs(self) -> dict[str, tuple[Task, int]]:
        """Every config by name: its task and its length in tokens."""
        return {
            config_name(name, length): (task, length)
            for length in self.suite.lengths
            for name, task in self.suite.tasks.items()
        }

    @property
    def tokens(self) -> int:
        """Tokens of all rows of all configs."""
        return self.suite.rows * sum(length for _, length in self.configs.values())


def select_suite(
    suite: str | Path | Suite,
    tasks: str | Collection[str] | None,
    lengths: str | Collection[int | str] | None,
    rows: int | None,
    haystack: Path | str | None,
) -> Suite:
    """Return a suite, narrowed to the tasks, lengths and rows to build.

    Raises:
        UsageError: the suite, a task, a length or the folder of texts cannot be used.
    """
    if isinstance(suite, str | Path):
        suite = load_suite(str(suite))
        if haystack is not None:
            suite = with_own_domains(suite, tuple(find_user_texts(haystack).domains))
    names = parse_names(tasks, "--tasks") or tuple(suite.tasks)
    for name in names:
        if name not in suite.tasks:
            hint = near(name, suite.tasks)
            raise UsageError(
                f"--tasks {quote(name)}: no such task{hint}; known: {', '.join(suite.tasks)}"
            )
    sizes = parse_lengths(lengths, "--lengths") or suite.lengths or RULER.lengths
    for length in sizes:
        parse_config(config_name("vt", length))
    if max(sizes) > LONGEST:
        raise UsageError(
            f"--lengths {max(sizes)}: more than {LONGEST} tokens, up to which there are enough "
            "words for cwe and for haystacks of needles; use a shorter length"
        )
    return replace(
        suite,
        tasks={n: task for n, task in suite.tasks.items() if n in names},
        lengths=tuple(sorted({*sizes})),
        rows=suite.rows if rows is None else rows,
    )


def default_folder(
    tokenizer: str, suite: str, edition: str, *, fresh: bool, sample: bool = False
) -> Path:
    """Return `dist/TOKENIZER[-SUITE][-EDITION][-fresh][-sample]`.

    Raises:
        UsageError: the tokenizer is not a name that a folder may have.
    """
    name = check_name("tokenizer", Path(tokenizer).resolve().name if tokenizer else "")
    if suite != RULER.name:
        name += f"-{suite}"
    if edition != BALANCED:
        name += f"-{check_name('edition', edition)}"
    if fresh:
        name += "-fresh"
    if sample:
        name += "-sample"
    return Path("dist") / name


def sampled_sources(suite: Suite, choice: SourceChoice) -> dict[str, str]:
    """Return the sources of a suite whose sample is to be taken, and why the real one is not.

    Real sources that can be had are downloaded. No reason: the sample was asked for.
    """
    used = {source for task in suite.tasks.values() for source in task.sources}
    names = sorted(used & CATALOGUE.keys())
    if choice.kind == "sample":
        return dict.fromkeys(names, "")
    if choice.kind == "real":
        return {}
    return Library(choice.folder).unavailable(names)


def check_options(plan: BuildPlan, *, fresh: bool) -> None:
    """Refuse options that exclude each other or that an edition of upstream does not have."""
    if plan.edition == BALANCED:
        if plan.template != "base":
            raise UsageError(
                "--template: only for --edition upstream-...; balanced prompts contain none"
            )
        return
    edition = edition_of(plan.edition)
    model_template(plan.template)
    if option := next(_conflicts(plan, edition, fresh=fresh), None):
        raise UsageError(f"{option}: not possible with --edition {edition.name}; leave it out")


def _conflicts(plan: BuildPlan, edition: Edition, *, fresh: bool) -> Iterator[str]:
    """Yield the options that an edition of upstream does not have."""
    for name in plan.suite.tasks:
        if name not in TASKS:
            yield f"--tasks {name}"
    if fresh:
        yield "--fresh"
    if plan.haystack is not None:
        yield "--haystack"
    if plan.sources_kind == "sample":
        yield "--sources sample"
    if plan.reserve and not edition.bisects:
        yield f"--reserve {plan.reserve}"
    if plan.seed >= LARGEST_SEED or (edition.ignores_seed and plan.seed != DEFAULT_SEED):
        yield f"--seed {plan.seed}"
