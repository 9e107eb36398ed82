"""What decides on the bytes of a config: two builds may share a folder only if all of it agrees."""

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

import pyarrow as pa

from ruler_data.manifest import Manifest, SourceInfo, TokenizerInfo, shown_seed
from ruler_data.names import parse_config
from ruler_data.tasks import TASKS, Task, read_task, task_place
from ruler_data.version import DATA_VERSION


@dataclass(frozen=True)
class Fingerprint:
    """The inputs of a build.

    Attributes:
        values: each input by the name that an error gives it.
        sources: the texts, by name; builds of different tasks use different ones.
        tasks: what is asked, by name; a folder may be built task by task.
    """

    values: dict[str, str | int]
    sources: dict[str, SourceInfo]
    tasks: dict[str, Task]

    @classmethod
    def asked(
        cls, seed: int, rows: int, tokenizer: TokenizerInfo, sources: tuple[SourceInfo, ...],
        suite: str, tasks: dict[str, Task],
    ) -> "Fingerprint":  # fmt: skip
        """Return the inputs of a build that is asked for."""
        versions = DATA_VERSION, pa.__version__
        return cls._of(versions, seed, rows, tokenizer, sources, suite, tasks)

    @classmethod
    def of_manifest(cls, manifest: Manifest) -> "Fingerprint":
        """Return the inputs of a finished build."""
        rows = min((info.rows for info in manifest.configs.values()), default=0)
        tasks = {name: manifest.table[name] for name in map(_task, manifest.configs)}
        return cls._of(
            (manifest.rows_version, manifest.pyarrow), manifest.seed, rows, manifest.tokenizer,
            manifest.sources, manifest.suite, tasks,
        )  # fmt: skip

    @classmethod
    def from_record(cls, record: Mapping[str, Any]) -> "Fingerprint":
        """Return the inputs that `to_record` gave."""
        sources = {name: SourceInfo(**info) for name, info in record["sources"].items()}
        tasks = {name: read_task(task) for name, task in record["tasks"].items()}
        return cls(record["values"], sources, tasks)

    def to_record(self) -> dict[str, Any]:
        """Return the inputs as plain values."""
        return asdict(self)

    @property
    def own_tasks(self) -> dict[str, Task]:
        """The tasks that are none of the thirteen, in the order of tables."""
        names = sorted(self.tasks.keys() - TASKS.keys(), key=task_place)
        return {name: self.tasks[name] for name in names}

    def difference(self, earlier: "Fingerprint") -> str:
        """Return the first input in which an earlier build differs, in words; empty if none."""
        for name, value in self.values.items():
            then = earlier.values.get(name)
            if then != value and name == "seed":
                return f"seed {shown_seed(int(then or 0))}, now {shown_seed(int(value))}"
            if then != value:
                return f"{name} {then}, now {value}"
        for name, source in self.sources.items():
            before = earlier.sources.get(name, source)
            if before.sha256 != source.sha256:
                return f"source {name}: sha256 expected {before.sha256}, found {source.sha256}"
        for name, task in self.tasks.items():
            if earlier.tasks.get(name, task) != task:
                return f"task {name} was another then: {earlier.tasks[name].params}"
        return ""

    def merged(self, earlier: "Fingerprint") -> "Fingerprint":
        """Return these inputs with what only the earlier build used as well."""
        sources, tasks = {**earlier.sources, **self.sources}, {**earlier.tasks, **self.tasks}
        return Fingerprint(self.values, sources, tasks)

    @classmethod
    def _of(
        cls,
        versions: tuple[str, str],
        seed: int,
        rows: int,
        tokenizer: TokenizerInfo,
        sources: tuple[SourceInfo, ...],
        suite: str,
        tasks: dict[str, Task],
    ) -> "Fingerprint":
        values: dict[str, str | int] = {
            "data version": versions[0],
            "suite": suite,
            "seed": seed,
            "rows": rows,
            "tokenizer": tokenizer.name,
            "tokenizer files": tokenizer.fingerprint,
            "template reserve": tokenizer.template_reserve,
            "reserve": tokenizer.extra_reserve,
            "pyarrow": versions[1],
        }
        return cls(values, {source.name: source for source in sources}, tasks)


def _task(config: str) -> str:
    return parse_config(config)[0]
