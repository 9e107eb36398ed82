"""Other people's answers, grouped by task and length, with the numbers that came with them.

kvpress     predictions.csv       metrics.json beside it, in percent
upstream    4096/pred/vt.jsonl    summary*.csv beside it, in percent
lm-eval     samples_ruler_*.jsonl results_*.json beside it, shares of 1
NeMo Gym    rollouts.jsonl        the reward of each record
"""

import csv
import json
from collections.abc import Iterable, Sequence
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
    """

    folder: Path
    tool: str
    task: str
    length: int | None
    answers: tuple[ToolAnswer, ...] = field(repr=False)
    claim: Claim | None = None

    @property
    def name(self) -> str:
        """Name of the config, or of the task where its length is unknown."""
        task = self.task or "unknown task"
        return config_name(task, self.length) if self.length else task

    @property
    def place(self) -> str:
        """The file or folder of the answers."""
        files = {answer.where.path for answer in self.answers}
        return str(files.pop() if len(files) == 1 else self.folder)

    @cached_property
    def rows(self) -> tuple[ToolAnswer, ...]:
        """The first answer to each row, in the order of rows."""
        return tuple({answer.index: answer for answer in reversed(self.answers)}.values())[::-1]


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
        found = False
        for path in files_of_answers(place):
            for answer in read_answers(path, length):
                task = answer.task or task_of_answer(answer.prompt, answer.outputs or ())
                key = (path.parent, answer.tool, task, answer.length)
                answers.setdefault(key, []).append(answer)
                found = True
        if not found:
            raise UsageError(quote(str(place)), "has no predictions in a known layout")
    groups = []
    for (folder, tool, task, size), members in answers.items():
        members.sort(key=lambda answer: (answer.index, answer.sample))
        claim = _claim(folder, tool, task, size, members)
        groups.append(Group(folder, tool, task, size, tuple(members), claim))
    return groups


def _claim(
    folder: Path, tool: str, task: str, length: int | None, answers: Sequence[ToolAnswer]
) -> Claim | None:
    if tool == "kvpress":
        return _of_kvpress(folder, task)
    if tool == "lm-eval":
        return _of_harness(folder, task, length)
    if tool == "upstream":
        return _of_upstream(folder, task)
    rewards = [answer.reward for answer in answers]
    known = [reward for reward in rewards if reward is not None]
    return Claim(f"{fmean(known):.6f}", 1) if known and len(known) == len(rewards) else None


def _of_kvpress(folder: Path, task: str) -> Claim | None:
    metrics = _json(folder / "metrics.json")
    value = metrics.get(task, {}).get("string_match") if isinstance(metrics, dict) else None
    return Claim(f"{value:.2f}", 100) if isinstance(value, int | float) else None


def _of_harness(folder: Path, task: str, length: int | None) -> Claim | None:
    """Return the mean of the newest results beside the samples."""
    for path in sorted(folder.glob("results_*.json"), reverse=True):
        body = _json(path)
        results = body.get("results", {}) if isinstance(body, dict) else {}
        for name, metrics in results.items():
            if task_of_name(name) not in (task, f"{task}_{length}"):
                continue
            for key in (f"{length},none", "ruler,none"):
                if isinstance(value := metrics.get(key), int | float) and value >= 0:
                    return Claim(f"{value:.6f}", 1)
    return None


def _of_upstream(folder: Path, task: str) -> Claim | None:
    """Return a score of upstream's summary, a table of two lines: tasks and scores."""
    for path in sorted(folder.glob("summary*.csv")):
        lines = list(csv.reader(read_text(path).splitlines()))
        scores = dict(zip(lines[0], lines[1], strict=False)) if len(lines) > 1 else {}
        if task in scores:
            return Claim(scores[task], 100)
    return None


def _json(path: Path) -> Any:  # noqa: ANN401 - parsed JSON
    if not path.is_file():
        return None
    try:
        return read_json(path)
    except (json.JSONDecodeError, UnicodeDecodeError) as error:
        raise RulerError(path, f"not JSON ({type(error).__name__})") from error
