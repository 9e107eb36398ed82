"""Orders: what to build, cut into jobs of one config each."""

from dataclasses import dataclass
from pathlib import Path

from ruler_builders.pipeline.build_context import RowConfig
from ruler_builders.pipeline.build_dir import WHOLE
from ruler_data.manifest import ConfigInfo
from ruler_data.names import config_name
from ruler_data.suites import RULER, Suite
from ruler_data.tasks import Task


@dataclass(frozen=True)
class BuildConfig:
    """What to build.

    Attributes:
        recipe: what decides on the rows.
        tasks: names, in the order of the suite.
        lengths: in tokens, rising.
        rows: of each config.
        out: the folder.
        workers: processes.
        force: replace a build of other inputs.
        shard: which of how many shares of the configs to build; None for all, and the manifest.
        suite: that the tasks are of.
    """

    recipe: RowConfig
    tasks: tuple[str, ...]
    lengths: tuple[int, ...]
    rows: int
    out: Path
    workers: int = 1
    force: bool = False
    shard: tuple[int, int] | None = None
    suite: Suite = RULER

    @property
    def share(self) -> str:
        """What is locked in the folder while this order is at work."""
        return "shard-{}-of-{}".format(*self.shard) if self.shard else WHOLE

    @property
    def configs(self) -> dict[str, tuple[Task, int]]:
        """The configs to build, by name."""
        return {
            config_name(name, length): (self.suite.tasks[name], length)
            for length in self.lengths
            for name in self.tasks
        }


@dataclass(frozen=True)
class BuildJob:
    """One config for a worker, and the hashes of the sources that it must be made of."""

    order: BuildConfig
    config: str
    sources: dict[str, str]

    @property
    def task(self) -> Task:
        """The config's task."""
        return self.order.configs[self.config][0]

    @property
    def length(self) -> int:
        """The config's length in tokens."""
        return self.order.configs[self.config][1]


@dataclass(frozen=True)
class BuiltConfig:
    """A config of the finished folder; `seconds` is None where it was there before."""

    config: str
    info: ConfigInfo
    seconds: float | None


def configs_of_shard(order: BuildConfig) -> list[str]:
    """Return the configs that an order builds: all, or those dealt to its shard.

    Configs are dealt by tokens, the largest first, each to the shard that has least.
    """
    if order.shard is None:
        return list(order.configs)
    index, shards = order.shard
    loads = [0] * shards
    dealt: list[list[str]] = [[] for _ in range(shards)]
    for name, (_, length) in sorted(order.configs.items(), key=lambda item: -item[1][1]):
        least = loads.index(min(loads))
        loads[least] += length
        dealt[least].append(name)
    return dealt[index]
