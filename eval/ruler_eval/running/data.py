"""The rows of a run: chosen from a dataset, and read in the order that engines want.

`ruler_data.dataset` finds the dataset, checks its files against the manifest and reads its rows.
"""

import hashlib
import heapq
import json
from collections.abc import Collection, Generator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, replace
from itertools import islice, pairwise
from pathlib import Path

from ruler_data.dataset import (
    Source,
    damaged,
    open_source,
    read_in_order,
    readable,
)
from ruler_data.errors import UsageError
from ruler_data.manifest import BALANCED, Manifest
from ruler_data.names import config_file, parse_config, quote
from ruler_data.parquet import check_filled, conformed, opened, rows_without_context
from ruler_data.row import Row, question_digest
from ruler_eval.running.answers import Key

#: Rows that are sorted together.
ALIKE = 100
#: Tokens at which the attention of a prefill costs as much as its matrices. A forward pass over n
#: tokens takes 2·P·n operations in the matrices of P parameters, and 2·L·d·n² in causal attention
#: over L layers of d = heads · head size (Kaplan et al. 2020, arXiv 2001.08361, section 2.1,
#: counted for all positions), so this is P / (L·d). That of Llama 3.1 8B, with 6.98e9 parameters in
#: the matrices of its 32 layers of 4,096; models of its kind are close to it.
CROSSOVER = 53_000


@dataclass(frozen=True)
class DataInfo:
    """The frozen rows of a run; what is not explained here is the manifest's."""

    repo: str | None  # on the Hub; None for a local folder, whose path is private
    revision: str | None  # commit on the Hub; None for a folder
    data_version: str
    suite: str
    seed: int  # for a private seed, a one-way hash as a negative number
    sample: bool  # whether the rows are made of the bundled sample corpus
    tokenizer: str  # that lengths are counted in
    tokenizer_fingerprint: str
    digests: dict[str, str]  # content digest of each config of the run
    rows: dict[str, int]  # number of rows of each config, the first ones
    #: sha256 of what else decides on the rows: the hashes of the sources and the reserve.
    inputs: str
    edition: str = BALANCED
    essays: str = ""  # sha256 of the essays among the sources; empty without essays


@dataclass(frozen=True)
class Dataset:
    """The rows of a run; their files are checked once they are fetched."""

    source: Source
    rows: dict[str, int]  # number of rows of each config, the first ones; by name

    @property
    def manifest(self) -> Manifest:
        """The manifest of the whole dataset."""
        return self.source.manifest

    @property
    def info(self) -> DataInfo:
        """What a run records about its rows."""
        manifest = self.manifest
        release = self.source.release
        sources = sorted((source.name, source.sha256) for source in manifest.sources)
        inputs = json.dumps([sources, manifest.tokenizer.extra_reserve])
        return DataInfo(
            repo=release.repo if release else None,
            revision=release.commit if release else None,
            data_version=manifest.data_version,
            suite=manifest.suite,
            seed=_published_seed(manifest),
            sample=manifest.is_sample,
            tokenizer=manifest.tokenizer.name,
            tokenizer_fingerprint=manifest.tokenizer.fingerprint,
            digests={config: manifest.configs[config].digest for config in self.rows},
            rows=dict(self.rows),
            inputs=hashlib.sha256(inputs.encode()).hexdigest(),
            edition=manifest.edition,
            essays=dict(sources).get("essays", ""),
        )

    def choose(
        self,
        rows: int | Mapping[int, int] | None = None,
        tasks: Collection[str] = (),
        lengths: Collection[int] = (),
        configs: Collection[str] = (),
    ) -> "Dataset":
        """Return the same with fewer rows; configs keep the order of the manifest.

        Args:
            rows: the first ones of each config, or of each config of a length; others keep all.
            tasks: whose configs to keep; empty for all.
            lengths: likewise, in tokens.
            configs: names; empty for all.
        """
        places = {name: parse_config(name) for name in self.rows}
        config_lengths = [length for _, length in places.values()]
        firsts = rows if isinstance(rows, Mapping) else dict.fromkeys(config_lengths, rows)
        self.manifest.select(lengths=firsts)  # refuses lengths that it does not have
        for name in configs:
            if name not in self.rows:
                raise UsageError(
                    f"{quote(name)} is not in {self.source}; it has {', '.join(self.rows)}"
                )
        names = [n for n in self.manifest.select(tasks, lengths) if n in (configs or self.rows)]
        if not names:
            raise UsageError(self.source, "no config has these tasks, lengths and names")
        most = {n: min(firsts.get(places[n][1]) or self.rows[n], self.rows[n]) for n in names}
        return replace(self, rows=most)

    def fetch(self) -> "Dataset":
        """Fetch the files of the chosen configs, and check each against the manifest."""
        self.source.fetch(self.rows)
        return self

    def read(self, config: str) -> Generator[Row, None, None]:
        """Yield the chosen rows of a config, in order."""
        return read_in_order(self._file(config), config, self.rows[config])

    def read_alike(self, config: str, indices: Collection[int]) -> Generator[Row, None, None]:
        """Yield some of these rows, `ALIKE` at a time sorted by their text.

        Rows with a common beginning then follow one another, so that a prefix cache that holds only
        the last row saves as much as one without limit.
        """
        with closing(self.read(config)) as rows:
            wanted_rows = (row for row in rows if row.index in indices)
            while batch := list(islice(wanted_rows, ALIKE)):
                yield from sorted(batch, key=lambda row: row.context)

    def sizes(self, config: str) -> list[tuple[int, int]]:
        """Return `length` and `max_new_tokens` of each chosen row, read without its text."""
        columns = ["length", "max_new_tokens"]
        rows = self.rows[config]
        with readable(config), opened(self._file(config)) as file:
            groups = (group.select(columns).to_pydict() for group in file.groups(columns))
            sizes = [pair for group in groups for pair in zip(*group.values(), strict=True)]
        if len(sizes) < rows:
            raise damaged(config, f"it holds only {len(sizes)} rows")
        return sizes[:rows]

    def shares(self, shards: int = 1, samples: int = 1) -> list[list[Key]]:
        """Return what each shard answers: shares of nearly the same work.

        All samples of a row are in one share, for its prefix cache.
        """
        rows = [
            (config, index, length)
            for config in self.rows
            for index, (length, _) in enumerate(self.sizes(config))
        ]
        return [
            [(*rows[place][:2], sample) for place in share for sample in range(samples)]
            for share in assign([length for *_, length in rows], shards)
        ]

    def questions(self, config: str) -> list[str]:
        """Return the question digest of each chosen row."""
        return [*map(question_digest, self.question_rows(config))]

    def question_rows(self, config: str) -> list[Row]:
        """Return the chosen rows of a config without their context; of niah, with the needles.

        Raises:
            RulerError: the file cannot be read, or rows are not where they belong.
        """
        names = ["index", "question", "answer_prefix", "outputs", "max_new_tokens", "length"]
        task, _ = parse_config(config)
        rows = list[Row]()
        if self.manifest.table[task].params.family == "niah":
            names += ["evidence", "haystack"]
        with readable(config), opened(self._file(config)) as file:
            for group in file.groups(names):
                check_filled(group, len(rows))
                table = conformed(group.slice(0, self.rows[config] - len(rows)), names)
                rows += rows_without_context(task, table)
                if len(rows) == self.rows[config]:
                    break
        for place in range(self.rows[config]):
            if place >= len(rows) or rows[place].index != place:
                raise damaged(config, f"row {place} is not in its place")
        return rows

    def contexts(
        self, config: str, indices: Collection[int]
    ) -> Generator[tuple[int, str], None, None]:
        """Yield some rows' index and context, in order; row groups without any are not read."""
        if not indices:
            return
        with readable(config), opened(self._file(config)) as file:
            for number, (start, end) in enumerate(pairwise(file.starts)):
                places = [index for index in range(start, end) if index in indices]
                if places:
                    texts = conformed(file.group(number, ["context"]), ["context"])["context"]
                    for index in places:
                        yield index, str(texts[index - start].as_buffer(), "utf-8")

    def _file(self, config: str) -> Path:
        return self.source.folder / config_file(config)


def open_dataset(where: str, revision: str | None = None) -> Dataset:
    """Return all rows of a folder, or of a Hub repo at a revision; only the manifest is read."""
    source = open_source(where, revision)
    rows = {name: info.rows for name, info in source.manifest.configs.items()}
    if not rows:
        data = f"data {quote(where)}"
        raise UsageError(data, "its manifest names no config")
    return Dataset(source, rows)


def _published_seed(manifest: Manifest) -> int:
    """Return the seed; of a private seed, with which anybody could draw its rows, only a hash."""
    if not manifest.is_private:
        return manifest.seed
    digest = hashlib.sha256(f"private seed {manifest.seed}".encode()).digest()
    return -int.from_bytes(digest[:6])


def cost(tokens: int) -> float:
    """Return the cost of a row, in tokens of a short row.

    >>> cost(53_000)
    106000.0
    """
    return tokens + tokens * tokens / CROSSOVER


def assign(lengths: Sequence[int], shards: int) -> list[list[int]]:
    """Return the places of the rows of each shard, in order; their costs are nearly equal.

    The costliest row goes first, each to the shard with the lowest cost so far (LPT; Graham 1969,
    "Bounds on multiprocessing timing anomalies"), the first among equals. No two shards differ by
    more than the cost of one row.
    """
    loads = [(0.0, shard) for shard in range(shards)]
    places: list[list[int]] = [[] for _ in range(shards)]
    for place in sorted(range(len(lengths)), key=lambda place: (-lengths[place], place)):
        load, shard = loads[0]
        heapq.heapreplace(loads, (load + cost(lengths[place]), shard))
        places[shard].append(place)
    return [sorted(indices) for indices in places]
