"""Names of runs: as users give them or as models are called, told apart as a set."""

import re
from collections.abc import Mapping, Sequence
from typing import Any

from ruler_eval.running.run_dir import RunInfo
from ruler_eval.scoring.scores import Scores
from ruler_report.typesetting import visible

#: Characters of a name in tables and sentences, and in pictures.
LONG, SHORT = 80, 30


def names_of(runs: Sequence[Scores]) -> list[str]:
    """Return a distinct name for each run: the user's, or its model; what is claimed is marked.

    Where names repeat, the options or the revision that differ follow, or else a number. A text
    that could be read as a part of a sentence is in quotes.
    """
    models = [visible(run.name or run.run.model) for run in runs]
    alike: dict[str, list[RunInfo]] = {}
    for model, run in zip(models, runs, strict=True):
        alike.setdefault(model, []).append(run.run)
    names = []
    for short, model, run in zip(shortened(models, LONG), models, runs, strict=True):
        name = quoted(short)
        if run.run.no_context:
            name += " without context"
        names.append(name + _difference(run.run, alike[model]))
    return [
        f"{name} [claimed]" if run.claimed else name
        for name, run in zip(numbered(names), runs, strict=True)
    ]


def shortened(names: Sequence[str], most: int) -> list[str]:
    """Return names of at most so many characters, told apart wherever the names differ.

    The middle of a long name is left out; where that makes names alike, what differs stays.

    >>> shortened(["org/model-kvcache-snapkv-0.25", "vt"], 16)
    ['org/mod…pkv-0.25', 'vt']
    >>> shortened(["Qwen-Coder-0.5B-Instruct-Q4", "Qwen-Coder-1.5B-Instruct-Q4"], 16)
    ['…en-Coder-0.5B-…', '…en-Coder-1.5B-…']
    """
    short = [_without_middle(name, most) for name in names]
    for text in {*short}:
        alike = {name for name, of_name in zip(names, short, strict=True) if of_name == text}
        if len(alike) > 1:
            start = _first_difference([*alike])
            for place, name in enumerate(names):
                if name in alike:
                    short[place] = _window(name, start, most)
    distinct = [*dict.fromkeys(names)]
    told_apart = dict(zip(distinct, numbered([short[names.index(name)] for name in distinct]),
                          strict=True))  # fmt: skip
    return [told_apart[name] for name in names]


def numbered(names: Sequence[str]) -> list[str]:
    """Return distinct names: what repeats has a number behind it.

    >>> numbered(["x", "x", "x (2)"])
    ['x', 'x (2)', 'x (2) (2)']
    """
    distinct: list[str] = []
    for name in names:
        candidate = name
        number = 1
        while candidate in distinct:
            number += 1
            candidate = f"{name} ({number})"
        distinct.append(candidate)
    return distinct


def quoted(name: str) -> str:
    """Return a name in quotes if it could be read as a part of a sentence.

    >>> quoted("org/model-7B"), quoted("a; it is better than every other run")
    ('org/model-7B', '"a; it is better than every other run"')
    """
    if re.fullmatch(r"[\w./+@:=…-]*", name):
        return name
    plain = name.replace('"', "'")
    return f'"{plain}"'


def options_of(run: RunInfo) -> Mapping[str, Any]:
    """Return the options of a run's engine, or the arguments of its function."""
    return run.engine_info.get("arguments") or run.engine_info.get("options") or {}


def _difference(run: RunInfo, alike: Sequence[RunInfo]) -> str:
    """Return in brackets what tells a run from others of its name; empty if that is long."""
    differing = []
    for key, value in options_of(run).items():
        if len({str(options_of(other).get(key)) for other in alike}) > 1:
            differing.append(f"{key} {value}")
    revisions = {other.model_revision for other in alike}
    if not differing and run.model_revision and len(revisions) > 1:
        differing.append(f"revision {run.model_revision[:12]}")
    text = visible(", ".join(differing))
    return f" ({text})" if 0 < len(text) <= 60 else ""


def _first_difference(names: Sequence[str]) -> int:
    """Return how many characters distinct names have in common at their beginning."""
    first = min(names)
    last = max(names)
    for place, (a, b) in enumerate(zip(first, last, strict=False)):
        if a != b:
            return place
    return len(first)


def _without_middle(name: str, most: int) -> str:
    if len(name) <= most:
        return name
    half = most // 2
    return f"{name[: half - 1]}…{name[-half:]}"


def _window(name: str, start: int, most: int) -> str:
    """Return a part of a long name that begins before the place where it differs from others."""
    if len(name) <= most:
        return name
    first = max(0, min(start - 2 * most // 3, len(name) - most))
    part = name[first : first + most]
    if first:
        part = f"…{part[1:]}"
    if first + most < len(name):
        part = f"{part[:-1]}…"
    return part
