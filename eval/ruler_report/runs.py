"""The runs of a report: found, named as the user wants, and narrowed to the rows in question.

    places ─► scores, each once ─► the names that the user gives ─► the rows that are asked for

Nothing behind this door sees another row.
"""

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, replace
from os import PathLike
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc

from ruler_data.errors import UsageError
from ruler_data.names import check_repo, parse_lengths, parse_names, quote
from ruler_eval.scoring.loading import load_scores
from ruler_eval.scoring.scores import FILENAME, Scores

#: A folder, a file of scores, a Hub repo of predictions, or scores.
Run = str | Path | Scores


@dataclass(frozen=True)
class Selection:
    """The rows that are asked for; all where nothing is said.

    Attributes:
        tasks: these alone.
        lengths: these alone, in tokens.
        rows: the first ones of each config.
    """

    tasks: Collection[str] = ()
    lengths: Collection[int] = ()
    rows: int | None = None

    @classmethod
    def parse(
        cls,
        tasks: str | Collection[str],
        lengths: str | Collection[int | str],
        rows: int | None,
    ) -> "Selection":
        """Return what is asked for in the options of a command."""
        return cls(parse_names(tasks), parse_lengths(lengths), rows)

    def of(self, run: Scores) -> Scores:
        """Return the scores of these rows of a run.

        Raises:
            UsageError: the run has none of them.
        """
        table = run.table
        if self.tasks:
            names = pc.cast(table["task"], pa.string())
            table = table.filter(pc.is_in(names, pa.array([*self.tasks], pa.string())))
        if self.lengths:
            lengths = pa.array([*self.lengths], pa.int32())
            table = table.filter(pc.is_in(table["length"], lengths))
        if self.rows is not None:
            table = table.filter(pc.less(table["index"], self.rows))
        if table.num_rows or not run.rows:
            return replace(run, table=table)
        raise UsageError(str(self), f"{quote(run.run.model)} has no such config")

    def __str__(self) -> str:
        """Return the options that say so."""
        options = {"tasks": ", ".join(self.tasks), "lengths": ", ".join(map(str, self.lengths))}
        text = ", ".join(f"--{name} {quote(value)}" for name, value in options.items() if value)
        return text or f"--rows {self.rows}"


def find_runs(
    runs: Sequence[Run], selection: Selection, names: Sequence[str], data: str | None
) -> list[Scores]:
    """Return the scores of runs, each once, with the names that the user gives some of them.

    `names` are `NAME=PLACE`; places that are not among the runs follow them.

    Raises:
        UsageError: there is no such run, or a name is not of this form.
    """
    by_folder: dict[str, Run] = {folder_of(run): run for run in runs}
    labels: dict[str, str] = {}
    for entry in names:
        name, _, place = entry.rpartition("=")
        if not (name and place):
            raise UsageError(f"--name {quote(entry)}", "give NAME=RUN, e.g. 'snapkv .5=runs/x'")
        labels[folder_of(place)] = name
        by_folder.setdefault(folder_of(place), place)
    if not by_folder:
        raise UsageError("no runs to report; give at least one")
    found = []
    for folder, run in by_folder.items():
        scores = find_run(run, selection, data)
        found.append(replace(scores, name=labels.get(folder, "")))
    return found


def find_run(run: Run, selection: Selection, data: str | None) -> Scores:
    """Return the scores of a place on this machine, or what a Hub repo of predictions claims."""
    if isinstance(run, str | PathLike) and not Path(run).exists():
        run = _fetched(str(run)) or run
    return selection.of(load_scores(run, data))


def _fetched(place: str) -> Path | None:
    """Return the scores of a Hub repo of predictions; None if the place is no repo."""
    repo, _, revision = place.partition("@")
    try:
        check_repo(repo)
    except UsageError:
        return None
    from ruler_data.hub.download import fetch_file  # loads the Hub's client

    path = fetch_file(repo, FILENAME, revision or "main")
    if path is None:
        raise UsageError(repo, f"holds no {FILENAME}; give a repo that `ruler-eval publish` wrote")
    return path


def folder_of(run: Run) -> str:
    """Return what tells a run from others: its folder, however it is written."""
    if isinstance(run, Scores):
        return f"scores {id(run)}"
    if not isinstance(run, str | PathLike):
        return repr(run)
    path = Path(run)
    folder = path.parent if path.name == FILENAME else path
    return str(folder.resolve())


def listed(runs: Sequence[Run] | Run) -> list[Run]:
    """Return runs as a list; a single one is a list of one."""
    if isinstance(runs, str | PathLike | Scores):
        return [runs]
    if not isinstance(runs, Iterable):
        raise UsageError(f"runs {runs!r:.60}", "give the folder of a run, or a list of them")
    return [*runs]
