"""Rows made in process, for tests that need many of them and no files."""

from functools import cache
from pathlib import Path

from ruler_builders.pipeline.fit import Target, make_row
from ruler_builders.rows.tokenized_sources import TokenizedSources
from ruler_builders.sources import Library
from ruler_data import Row
from ruler_data.suites import packaged
from ruler_data.tokenizers import PromptTokenizer, load_tokenizer
from ruler_data.tokenizers.protocol import template_reserve


@cache
def counter(tokenizer: str) -> PromptTokenizer:
    """Load a tokenizer with the fast counter."""
    loaded = load_tokenizer(tokenizer)
    loaded.use("auto")  # which counter it is decides on no byte (test_counters)
    return loaded


@cache
def counted(tokenizer: str, sources: Path | None = None, seed: int = 42) -> TokenizedSources:
    """Sources counted in a tokenizer; the sample corpus where no folder is given."""
    library = Library(sources, "real" if sources else "sample")
    return TokenizedSources(seed, library, counter(tokenizer))


def target(tokenizer: str, length: int) -> Target:
    """What rows of this length are fitted to."""
    return Target(length, template_reserve(counted(tokenizer).tokenizer))


def make(
    tokenizer: str, task: str, index: int, length: int = 4096, sources: Path | None = None
) -> Row:
    """Return one row of one of the thirteen, or of a suite of the package; it is made once."""
    return _made(tokenizer, task, index, length, sources)


@cache
def _made(tokenizer: str, task: str, index: int, length: int, sources: Path | None) -> Row:
    found = next(suite.tasks[task] for suite in packaged().values() if task in suite.tasks)
    made = make_row(found, counted(tokenizer, sources), index, target(tokenizer, length))
    return made.unpack()


def rows_of(task: str, rows: int = 6, length: int = 4096) -> list[Row]:
    """Return the first rows of a task, in Mistral's tokens."""
    return [make("mistral", task, index, length) for index in range(rows)]
