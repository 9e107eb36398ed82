"""Run a model over frozen rows from Python; the command `ruler-eval run` is a layer over it."""

from dataclasses import asdict, dataclass, fields
from html import escape
from pathlib import Path
from typing import Any

from ruler_data.dataset import html_table
from ruler_data.options import others_to, takes_options
from ruler_eval.eval_config import RunConfig
from ruler_eval.run_dir import RunFolder
from ruler_eval.run_status import ConfigSummary, row_name, tally
from ruler_eval.runner import Outcome, RunJob, open_job, run_shard
from ruler_eval.sharding import Shard


@dataclass(frozen=True)
class Run:
    """A run, complete or not; it shows as a table in a notebook.

    Attributes:
        folder: with its description and journals.
        configs: what it has of each config, over all shards.
        unscored: why rows have no answer, by row, e.g. `vt_4096/17`.
        outcome: what the call that returned this did.
        samples: answers to each row.
    """

    folder: Path
    configs: tuple[ConfigSummary, ...]
    unscored: dict[str, str]
    outcome: Outcome
    samples: int = 1

    @property
    def rows(self) -> int:
        """Number of rows."""
        return sum(config.rows for config in self.configs)

    @property
    def answered(self) -> int:
        """Number of rows with an answer."""
        return sum(config.answered for config in self.configs)

    @property
    def complete(self) -> bool:
        """Whether every row has an answer."""
        return self.answered == self.rows

    def to_records(self) -> list[dict[str, Any]]:
        """Return one dict per row that has a prediction, e.g. for `pandas.DataFrame`."""
        return [asdict(prediction) for prediction in RunFolder(self.folder).predictions()]

    def table(self) -> list[list[str]]:
        """Return the configs as a table: names of columns, then a line for each."""
        names = [field.name.replace("_", " ") for field in fields(ConfigSummary)]
        return [names, *(list(map(_shown, asdict(config).values())) for config in self.configs)]

    @property
    def coverage(self) -> str:
        """How much of it is answered, in words."""
        what = "rows" if self.samples == 1 else "samples"
        return f"{self.folder}: {self.answered:,} of {self.rows:,} {what} answered"

    def __fspath__(self) -> str:
        """Return the path of the folder, so that `ruler_eval.score` takes a run as it is."""
        return str(self.folder)

    def __repr__(self) -> str:
        text = self.coverage
        if self.unscored:
            row, reason = next(iter(self.unscored.items()))
            text += f"; {len(self.unscored)} unscored, e.g. {row}: {reason}"
        return f"<Run {text}>"

    def _repr_html_(self) -> str:
        names, *lines = self.table()
        return f"<p>{escape(repr(self).strip('<>'))}</p>{html_table(names, lines)}"


def _shown(value: str | float | None) -> str:
    if value is None or isinstance(value, str):
        return value or "unknown"
    return f"{value:,}" if isinstance(value, int) else f"{value:,.1f}"


@others_to("options")
@takes_options(RunConfig)
def run(config: RunConfig) -> Run:
    """Answer frozen rows, one journal line for each; a run that was interrupted resumes.

    Further keyword arguments are options of the engine, e.g. `dtype="float16"`; for `generate`
    also `batch`, and its keyword arguments. With `generate`, `model` may be left out, or be just a
    name to record; prompts are then rendered with the tokenizer of the data.

    Raises:
        UsageError: the options cannot be carried out, or `out` holds another run.
        RulerError: the engine failed, or data are damaged.
    """
    folder, share = RunFolder(config.folder).checked(), config.share
    return run_job(open_job(config), folder, share)


def run_job(job: RunJob, folder: RunFolder, shard: Shard) -> Run:
    """Run a shard, with a progress bar on standard error."""
    return summarize(job, folder, run_shard(job, folder, shard))


def summarize(job: RunJob, folder: RunFolder, outcome: Outcome) -> Run:
    """Return what all shards of a run have so far."""
    found = list(folder.predictions())
    unscored = {
        row_name(each.key, job.info.samples): each.error for each in found if each.error is not None
    }
    return Run(folder.path, tally(job.info, found), unscored, outcome, job.info.samples)
