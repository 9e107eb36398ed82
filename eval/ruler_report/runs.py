"""The runs of a report or a board, with the names and numbers that the user gives them."""

import re
import shlex
from collections.abc import Mapping, Sequence
from dataclasses import replace
from math import isfinite, nan
from pathlib import Path

from ruler_data.errors import RulerError, UsageError
from ruler_data.names import quote
from ruler_eval.scores import FILENAME, Run, Scores
from ruler_eval.scoring import load_scores


def named_scores(
    runs: Sequence[Run], names: Sequence[str], data: str | None, attributes: Sequence[str] = ()
) -> list[Scores]:
    """Return the scores of runs with the names and attributes that the user gives some of them.

    `names` are `NAME=PLACE`; places that are not among the runs follow them. `attributes` are
    `KEY=NUMBER=PLACE`, or `KEY=NUMBER` for all runs.

    Raises:
        RulerError: as `load_scores`; or a run has no score at all.
    """
    every, labels = _places(runs, names)
    numbers: dict[str, dict[str, float]] = {place: {} for place in every}
    for entry in attributes:
        option = f"--attr {quote(entry)}"
        match = re.fullmatch(r"([^=]+)=([^=]+)(?:=(.+))?", entry)
        try:
            number = float(match[2]) if match else nan
        except ValueError:
            number = nan
        if match is None or not isfinite(number):
            raise UsageError(option, "give KEY=NUMBER=RUN, e.g. train_length=8192=runs/x")
        if match[3] and folder_of(match[3]) not in numbers:
            raise UsageError(option, f"{quote(match[3])} is not one of the runs")
        for place in [folder_of(match[3])] if match[3] else numbers:
            numbers[place][match[1]] = number
    results = [
        replace(load_scores(run, data), name=labels.get(place, ""), attributes=numbers[place])
        for place, run in every.items()
    ]
    for run, one in zip(every.values(), results, strict=True):
        if not one.scored:
            name = one.run.model if isinstance(run, Scores) else str(run)
            raise RulerError(
                quote(name, 200), "no row has a score; resume the run, or leave it out"
            )
    return results


def _places(runs: Sequence[Run], names: Sequence[str]) -> tuple[dict[str, Run], dict[str, str]]:
    """Return the distinct runs by their folder, and the names that the user gives them."""
    every: dict[str, Run] = {folder_of(run): run for run in runs}  # one that is twice there is one
    labels: dict[str, str] = {}
    for entry in names:
        name, _, place = entry.rpartition("=")
        if not (name and place):
            option = f"--name {quote(entry)}"
            raise UsageError(option, "give NAME=RUN, e.g. 'snapkv .5=runs/x'")
        labels[folder_of(place)] = name
        every[folder_of(place)] = place
    return every, labels


def folders_of(runs: Sequence[Run], names: Sequence[str]) -> list[Path]:
    """Return the folders of runs, in the order of `named_scores`; none if one is not a path."""
    every, _ = _places(runs, names)
    return [] if any(isinstance(run, Scores) for run in every.values()) else [*map(Path, every)]


def command_of(program: str, runs: Sequence[Run], options: Mapping[str, object]) -> str:
    """Return the command line with these options; empty if a run is not a path.

    >>> command_of("ruler-eval report", ["x"], {"--rows": 20, "--name": ["a b=y"], "--tasks": ""})
    "ruler-eval report x --rows 20 --name 'a b=y'"
    """
    if any(isinstance(run, Scores) for run in runs):
        return ""
    words = [*program.split(), *map(str, runs)]
    for option, value in options.items():
        if value is True:
            words.append(option)
        elif value or value == 0:
            values = value if isinstance(value, list | tuple) else [value]
            words += [word for each in values for word in (option, str(each))]
    return shlex.join(words)


def folder_of(run: Run) -> str:
    """Return what tells a run from others: its folder, however it is written."""
    if isinstance(run, Scores):
        return f"results {id(run)}"
    path = Path(run)
    return str((path.parent if path.name == FILENAME else path).resolve())
