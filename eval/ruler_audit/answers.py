"""Other people's answers, grouped by task and length, with the numbers that came with them.

kvpress     predictions.csv       metrics.json beside it, in percent
upstream    4096/pred/vt.jsonl    summary*.csv beside it, in percent
lm-eval     samples_ruler_*.jsonl results_*.json beside it, shares of 1
NeMo Gym    rollouts.jsonl        the reward of each record
NeMo-Skills ruler.x.vt/output.jsonl   metrics.json above it, in percent
"""

import csv
import json
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from statistics import fmean
from typing import Any, NamedTuple

from ruler_builders.exchange.layouts import task_of_answer
from ruler_data.errors import RulerError, UsageError
from ruler_data.files import read_json, read_text
from ruler_data.layouts import ToolAnswer, files_of_answers, read_answers, task_of_name
from ruler_data.names import config_name, quote


class Claim(NamedTuple):
    """A mean that came with answers: as it was printed, and what 1 is on its scale."""

    printed: str
    scale: int

    @property
    def digits(self) -> int:
        """Digits behind the point."""
        return len(self.printed.partition(".")[2])

    def is_met_by(self, mean: float) -> bool:
        """Whether a mean, a share of 1, rounds to what was printed."""
        half = 0.5 / float(10**self.digits)
        return abs(mean * self.scale - float(self.printed)) <= half * (1 + 1e-9) + 1e-12


@dataclass(frozen=True)
class Group:
    """The answers to the rows of one task and length in one folder.

    Attributes:
        folder: that the files lie in.
        tool: that wrote them.
        length: of the config in tokens; None if no name tells.
        answers: in the order of rows and samples.
        claim: the mean that came with them; None if none did.
        fraction: of the rows that were asked, in random order and without their numbers, so that
            only gold answers and questions tell which row is which; 1 where rows have numbers.
    """

    folder: Path
    tool: str
    task: str
    length: int | None
    answers: tuple[ToolAnswer, ...] = field(repr=False)
    claim: Claim | None = None
    fraction: float = 1.0

    @property
    def name(self) -> str:
        """Name of the config, or of the task where its length is unknown."""
        task = self.task or "unknown task"
        if self.length is None:
            return task
        return config_name(task, self.length)

    @property
    def place(self) -> str:
        """The file or folder of the answers."""
        files = {answer.where.path for answer in self.answers}
        if len(files) > 1:
            return str(self.folder)
        return str(files.pop())

    @property
    def run(self) -> Path:
        """The folder of the run: NeMo-Skills has a folder below it for each task."""
        if self.tool == "NeMo-Skills":
            return self.folder.parent
        return self.folder

    @property
    def is_sampled(self) -> bool:
        """Whether the places of its rows are unknown."""
        return self.fraction < 1

    @cached_property
    def rows(self) -> tuple[ToolAnswer, ...]:
        """The first answer to each row, in the order of rows."""
        firsts: dict[int, ToolAnswer] = {}
        for answer in self.answers:
            firsts.setdefault(answer.index, answer)
        return tuple(firsts.values())


def read_groups(places: Iterable[Path | str], length: int | None = None) -> list[Group]:
    """Return the answers in files and folders, by folder, task and length.

    Raises:
        UsageError: there are none.
        RulerError: a file cannot be read.
    """
    answers: dict[tuple[Path, str, str, int | None], list[ToolAnswer]] = {}
    for place in map(Path, places):
        if not place.exists():
            raise UsageError(quote(str(place)), "no such file or folder")
        has_answers = False
        for path in files_of_answers(place):
            for answer in read_answers(path, length):
                task = answer.task or task_of_answer(answer.prompt, answer.outputs or ())
                key = (path.parent, answer.tool, task, answer.length)
                answers.setdefault(key, []).append(answer)
                has_answers = True
        if not has_answers:
            raise UsageError(quote(str(place)), "has no predictions in a known layout")
    groups = []
    for (folder, tool, task, size), members in answers.items():
        members.sort(key=lambda answer: (answer.index, answer.sample))
        claim = _claim(folder, tool, task, size, members)
        fraction = _fraction(folder) if tool == "kvpress" else 1.0
        groups.append(Group(folder, tool, task, size, tuple(members), claim, fraction))
    return groups


def _fraction(folder: Path) -> float:
    """Return the share of the rows that kvpress sampled, as its settings name it."""
    path = folder / "config.yaml"
    if not path.is_file():
        return 1.0
    match = re.search(r"^fraction: *([0-9]+(?:[.][0-9]+)?) *$", read_text(path), re.MULTILINE)
    if match is None:
        return 1.0
    return float(match[1])


def _claim(
    folder: Path, tool: str, task: str, length: int | None, answers: Sequence[ToolAnswer]
) -> Claim | None:
    if tool == "kvpress":
        return _of_kvpress(folder, task)
    if tool == "lm-eval":
        return _of_harness(folder, task, length)
    if tool == "upstream":
        return _of_upstream(folder, task)
    if tool == "NeMo-Skills":
        return _of_skills(folder)
    rewards = []
    for answer in answers:
        if answer.reward is None:
            return None
        rewards.append(answer.reward)
    return Claim(f"{fmean(rewards):.6f}", 1)


def _of_kvpress(folder: Path, task: str) -> Claim | None:
    metrics = _object(folder / "metrics.json")
    value = _inner(metrics, task).get("string_match")
    if not isinstance(value, int | float):
        return None
    return Claim(f"{value:.2f}", 100)


def _of_harness(folder: Path, task: str, length: int | None) -> Claim | None:
    """Return the mean of the newest results beside the samples."""
    for path in sorted(folder.glob("results_*.json"), reverse=True):
        results = _inner(_object(path), "results")
        for name in results:
            if task_of_name(name) not in (task, f"{task}_{length}"):
                continue
            metrics = _inner(results, name)
            for key in (f"{length},none", "ruler,none"):
                value = metrics.get(key)
                if isinstance(value, int | float) and value >= 0:
                    return Claim(f"{value:.6f}", 1)
    return None


def _of_upstream(folder: Path, task: str) -> Claim | None:
    """Return a score of upstream's summary, a table of two lines: tasks and scores."""
    for path in sorted(folder.glob("summary*.csv")):
        lines = list(csv.reader(read_text(path).splitlines()))
        if len(lines) < 2:
            continue
        scores = dict(zip(lines[0], lines[1], strict=False))
        if task in scores:
            return Claim(scores[task], 100)
    return None


def _of_skills(folder: Path) -> Claim | None:
    """Return the accuracy of a benchmark, named as its folder, from the file above the folders.

    Several answers to a row (`output-rs0.jsonl`, ...) have the mean over all of them.
    """
    answers = len([*folder.glob("output*.jsonl")])
    mode = f"pass@1[avg-of-{answers}]" if answers > 1 else "pass@1"
    for parent in (folder.parent, folder.parent.parent):
        metrics = _inner(_object(parent / "metrics.json"), folder.name)
        value = _inner(metrics, mode).get("accuracy")
        if isinstance(value, int | float):
            return Claim(f"{value:.4f}", 100)
    return None


def _inner(record: Mapping[str, Any], name: str) -> Mapping[str, Any]:
    """Return the object under a name; an empty one if there is none."""
    inner = record.get(name)
    if not isinstance(inner, dict):
        return {}
    return inner


def _object(path: Path) -> Mapping[str, Any]:
    """Return the object of a JSON file; an empty one if there is no file, or no object in it."""
    if not path.is_file():
        return {}
    try:
        content = read_json(path)
    except (json.JSONDecodeError, UnicodeDecodeError) as error:
        raise RulerError(path, f"not JSON ({type(error).__name__})") from error
    if not isinstance(content, dict):
        return {}
    return content
