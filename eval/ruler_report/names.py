"""Names of runs: as users give them or as models are called, told apart as a set."""

import re
from collections.abc import Mapping, Sequence
from typing import Any

from ruler_eval.running.run_dir import RunInfo
from ruler_eval.scoring.scores import Scores
from ruler_report.typesetting import visible

#: Characters of a name in tables and sentences, and in pictures.
LONG, SHORT = 80, 30
#: Behind the name of a run whose scores cannot be made again here.
CLAIMED = " [claimed]"


def names_of(runs: Sequence[Scores]) -> list[str]:
    """Return a distinct name for each run: the user's, or its model; what is claimed is marked.

    Where names repeat, the fewest options that tell them apart follow, or the revision, or else a
    number. A text that could be read as a part of a sentence is in quotes.
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
        name + CLAIMED if run.claimed else name
        for name, run in zip(numbered(names), runs, strict=True)
    ]


def shortened(names: Sequence[str], most: int) -> list[str]:
    """Return names of at most so many characters, told apart wherever the names differ.

    The middle of a long name is left out; where that makes names alike, what differs stays. That a
    run is claimed stays, too.

    >>> shortened(["org/model-kvcache-snapkv-0.25", "vt"], 16)
    ['org/mod…pkv-0.25', 'vt']
    >>> shortened(["Qwen-Coder-0.5B-Instruct-Q4", "Qwen-Coder-1.5B-Instruct-Q4"], 16)
    ['…en-Coder-0.5B-…', '…en-Coder-1.5B-…']
    """
    if any(name.endswith(CLAIMED) for name in names):
        most -= len(CLAIMED)
    stems = [name.removesuffix(CLAIMED) for name in names]
    short_of = {stem: _without_middle(stem, most) for stem in stems}
    for text in {*short_of.values()}:
        alike = [stem for stem, short in short_of.items() if short == text]
        if len(alike) > 1:
            start = _first_difference(alike)
            for stem in alike:
                short_of[stem] = _window(stem, start, most)
    distinct = [*dict.fromkeys(names)]
    marked = []
    for name in distinct:
        stem = name.removesuffix(CLAIMED)
        marked.append(short_of[stem] + name.removeprefix(stem))
    told_apart = dict(zip(distinct, numbered(marked), strict=True))
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
    options = options_of(run)
    differing: list[str] = []
    for key in _telling_options(alike):
        if key in options:
            # A text says what it is, and whose number follows.
            says_enough = differing or isinstance(options[key], str)
            differing.append(str(options[key]) if says_enough else f"{key} {options[key]}")
    revisions = {info.model_revision for info in alike}
    if not differing and run.model_revision and len(revisions) > 1:
        differing.append(f"revision {run.model_revision[:12]}")
    text = visible(", ".join(differing))
    if 0 < len(text) <= 60:
        return f" ({text})"
    return ""


def _telling_options(runs: Sequence[RunInfo]) -> list[str]:
    """Return the fewest options that tell runs apart, those with the shortest values."""
    keys = dict.fromkeys(key for run in runs for key in options_of(run))
    values = {key: [str(options_of(run).get(key)) for run in runs] for key in keys}
    chosen: list[str] = []
    told_apart = 1
    for key in sorted(keys, key=lambda key: max(map(len, values[key]))):
        columns = [values[option] for option in (*chosen, key)]
        number = len({*zip(*columns, strict=True)})
        if number > told_apart:
            chosen.append(key)
            told_apart = number
    return [key for key in keys if key in chosen]


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
    window = name[first : first + most]
    if first:
        window = f"…{window[1:]}"
    if first + most < len(name):
        window = f"{window[:-1]}…"
    return window
