"""Golden digests: rows that were published once must come out again, everywhere.

They change only with the MAJOR data version, by `make regold`. The suite runs on every supported
Python, pyarrow, time zone and locale, so an equal digest here means the same rows there.
"""

import hashlib
import json
import os
import random
from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from ruler_builders.card import card_files
from ruler_builders.pipeline.build_dir import BuildDir
from ruler_builders.pipeline.fit import make_rows
from ruler_builders.rows.row_template import slots
from ruler_builders.rows.segments import Segments, choose
from ruler_builders.rows.tokenized_sources import Passages
from ruler_data import DATA_VERSION, TASKS, UsageError, digest_rows
from ruler_data.suites import packaged
from tests.rows import counted, make, target

GOLDEN = Path(__file__).parent / "golden"
ROWS = 3


def compare(name: str, found: str) -> None:
    """Compare a text with the golden file of a name, or write it when REGOLD is set."""
    path = GOLDEN / name
    if os.environ.get("REGOLD"):
        path.write_text(found, encoding="utf-8")
    assert found == path.read_text(encoding="utf-8"), "make regold only with a new data version"


def digests(
    tokenizer: str, sources: Path | None = None, tasks: Iterable[str] = TASKS, rows: int = ROWS
) -> str:
    """Return the digests of the first rows of every task at 4,096 tokens, as JSON."""
    found = {
        task: digest_rows(make(tokenizer, task, index, sources=sources) for index in range(rows))
        for task in tasks
    }
    return json.dumps({"data_version": DATA_VERSION, "digests": found}, indent=1) + "\n"


@pytest.mark.parametrize("tokenizer", ["mistral", "mistral-v0.2"])
def test_sample_rows_are_those_of_the_data_version(tokenizer: str) -> None:
    compare(f"sample-{tokenizer}.json", digests(tokenizer))


def test_rows_of_suites_are_those_of_the_data_version() -> None:
    own = {task for suite in packaged().values() for task in suite.tasks} - set(TASKS)
    compare("suites-mistral.json", digests("mistral", tasks=sorted(own), rows=1))


#: Lengths at which rows have other examples, words or sources than at 4,096; indices, and tasks.
ELSEWHERE = ((1_536, (0, 7), None), (20_000, (3,), None), (300_000, (1,), TASKS))


def test_rows_of_other_lengths_are_those_of_the_data_version() -> None:
    tasks = {name: task for suite in packaged().values() for name, task in suite.tasks.items()}
    found: dict[str, list[str]] = {}
    for length, indices, names in ELSEWHERE:
        for name in names or sorted(tasks):
            notes: set[str] = set()
            try:
                rows = make_rows(
                    tasks[name], counted("mistral"), indices, target("mistral", length), notes
                )
                digest = digest_rows(row.unpack() for row in rows)
            except UsageError as error:
                digest = str(error)
            found[f"{name}_{length}"] = [digest, *sorted(notes)]
    compare("lengths-mistral.json", json.dumps(found, indent=1) + "\n")


def test_choices_of_segments_are_those_of_the_data_version() -> None:
    """Rows are digests of such choices, and few rows meet the rarer ones."""
    source = random.Random(0)
    found = list[object]()
    for number in range(600):
        longest = source.choice((8, 60, 900))
        size = source.randrange(1, 130)
        costs = np.array([source.randint(1, longest) for _ in range(size)])
        room = source.randrange(-5, int(costs.sum()) + 40)
        labels = None
        if number % 3 == 0:
            labels = np.array([source.randint(1, 3) for _ in range(size)])
        first = source.choice((0, size // 4, size))
        found.append(choose(costs, room, labels, first).tolist())
        starts = sorted({0, *(source.randrange(size) for _ in range(4))})
        lines = Segments.of([str(line) for line in range(size)], costs)
        texts = Passages(lines, np.array(starts), int(costs.sum()))
        begin = source.randrange(len(starts))
        found.append([texts.stretch(room, begin).texts.to_pylist(), texts.run(room, begin).total])
        depths = sorted(source.random() for _ in range(source.randrange(1, 6)))
        found.append(slots(depths, costs.cumsum()))
    digest = hashlib.sha256(json.dumps(found).encode()).hexdigest()
    compare("choices.txt", f"{digest}\n")


@pytest.mark.slow
@pytest.mark.parametrize("tokenizer", ["llama3", "qwen2.5"])
def test_real_rows_are_those_of_the_data_version(tokenizer: str, shared: Path) -> None:
    folder = str(shared / "tokenizers" / tokenizer)
    compare(f"real-{tokenizer}.json", digests(folder, shared / "sources"))


def test_the_card_is_the_golden_one(sample_build: Path) -> None:
    manifest = BuildDir(sample_build).manifest()
    assert manifest
    # Versions of libraries and sizes of files are the machine's, not the data version's.
    still = replace(
        manifest,
        tokenizer=replace(manifest.tokenizer, engine="a tokenizer"),
        configs={name: replace(info, bytes=10_000) for name, info in manifest.configs.items()},
    )
    files = card_files(still, sample_build.joinpath)
    compare("README.md", files["README.md"].decode())
    compare("LICENSES.md", files["LICENSES.md"].decode())
