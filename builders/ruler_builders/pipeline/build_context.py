"""What a worker needs to make rows, described in plain values and opened where it is used."""

import os
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from pathlib import Path

from ruler_builders.pipeline.fit import Target, make_row
from ruler_builders.rows.tokenized_sources import TokenizedSources
from ruler_builders.sources import Library
from ruler_builders.sources.library import Kind
from ruler_data.manifest import SourceInfo, TokenizerInfo
from ruler_data.row import utf8
from ruler_data.tasks import TASKS, Task
from ruler_data.tokenizers import Tokenizer, load_tokenizer
from ruler_data.tokenizers.counters import CounterName, Probes, Text
from ruler_data.tokenizers.protocol import template_reserve

#: Bytes of the prompts on which a counter shows that it is exact.
PROBE_LENGTH = 8192


@dataclass(frozen=True)
class RowConfig:
    """All that decides on rows, besides task, length and index.

    Attributes:
        tokenizer: registry name, folder or Hub id.
        seed: of all draws.
        sources: folder with real sources, or None.
        kind: which sources to take: auto, real or sample.
        strict: refuse sources that are not pinned.
        extra_reserve: tokens of each prompt to keep free.
        counter: what counts tokens; it decides on the time and not on the rows.
        haystack: folder of the user's own texts, or None.
    """

    tokenizer: str
    seed: int
    sources: Path | None
    kind: Kind
    strict: bool
    extra_reserve: int
    counter: CounterName = "auto"
    haystack: Path | None = None

    def library(self, warn: Callable[[str], None] = lambda _: None) -> Library:
        """Return the sources that it names.

        Raises:
            UsageError: a folder is not there, or cannot be what it should.
        """
        return Library(
            self.sources, self.kind, strict=self.strict, warn=warn, haystack=self.haystack
        )


@dataclass(frozen=True)
class BuildContext:
    """An opened recipe: tokenizer and materials in memory."""

    recipe: RowConfig
    tokenizer: Tokenizer
    sources: TokenizedSources
    template_reserve: int

    def target(self, length: int) -> Target:
        """Return what the rows of a config of this length are fitted to."""
        return Target(length, self.template_reserve, self.recipe.extra_reserve)

    @property
    def tokenizer_info(self) -> TokenizerInfo:
        """The tokenizer as the manifest names it, with what was measured of it."""
        return replace(
            self.tokenizer.info,
            template_reserve=self.template_reserve,
            extra_reserve=self.recipe.extra_reserve,
        )

    def source_infos(self, tasks: tuple[Task, ...]) -> tuple[SourceInfo, ...]:
        """Return the sources that tasks use, loading each."""
        names = dict.fromkeys(name for task in tasks for name in task.sources)
        return tuple(self.sources.library.info(name) for name in names)


def open_context(recipe: RowConfig, library: Library) -> BuildContext:
    """Open a recipe with a library of sources, its counter seen to be exact.

    Raises:
        UsageError: the tokenizer cannot be had, or the counter named is not exact.
    """
    tokenizer = load_tokenizer(recipe.tokenizer)
    reserve = template_reserve(tokenizer)
    tokenizer.use(recipe.counter, PROBES)
    return BuildContext(
        recipe, tokenizer, TokenizedSources(recipe.seed, library, tokenizer), reserve
    )


@lru_cache(maxsize=1)
def worker_context(recipe: RowConfig) -> BuildContext:
    """Open a recipe in a worker, once; whatever had to be downloaded, the parent has got."""
    os.environ["RULER_OFFLINE"] = "1"
    os.environ["HF_HUB_OFFLINE"] = "1"
    return open_context(recipe, replace(recipe, strict=False).library())


class _Bytes:
    """Bytes for tokens: a probe is sized without the tokenizer, and is the same for each."""

    def count(self, texts: Sequence[str]) -> list[int]:
        return [len(utf8(text)) for text in texts]

    def count_prompt(self, content: Text, answer_prefix: str) -> int:
        return len(utf8(content)) + len(utf8(answer_prefix))


def probes() -> Iterator[tuple[str, str]]:
    """Yield a prompt of every task, made of the sample corpus."""
    sample = TokenizedSources(0, Library(kind="sample"), _Bytes())
    for task in TASKS.values():
        row = make_row(task, sample, 0, Target(PROBE_LENGTH, 0)).row.unpack()
        yield row.context + row.question, row.answer_prefix


#: Raise the number when `probes` yields other prompts.
PROBES = Probes(probes, "sample 1")
