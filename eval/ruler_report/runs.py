"""The runs of a report or a board: names that users give them, what limits them, who is compared.

What limits a run is a note beside its numbers: rows without a score, prompts or sampling that are
not those of its protocol, a suite or an edition that is not the paper's. Runs can be compared if
protocol and edition of the data agree, whatever the suite and the tokenizer.
"""

import re
import shlex
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import count
from math import isfinite, nan
from pathlib import Path
from typing import Any, get_args

from ruler_data.errors import RulerError, UsageError
from ruler_data.manifest import BALANCED as BALANCED_EDITION
from ruler_data.manifest import IMPORTED
from ruler_data.names import parse_config, quote
from ruler_data.tasks import TASKS
from ruler_eval.running import run_dir
from ruler_eval.running.prompts import PROTOCOLS
from ruler_eval.running.run_dir import RunInfo
from ruler_eval.scoring.derive import load_scores
from ruler_eval.scoring.results import FILENAME, ScoreName, Scores
from ruler_eval.scoring.results_file import Run
from ruler_report.typesetting import shortened, visible

#: The suite of the paper's results.
RULER = "ruler"
#: A prompt without a chat template.
PLAIN = "{content}{answer_prefix}"


def named_scores(
    runs: Sequence[Run], names: Sequence[str], data: str | None, attributes: Sequence[str] = ()
) -> list[Scores]:
    """Return the scores of runs with the names and attributes that the user gives some of them.

    `names` are `NAME=PLACE`; places that are not among the runs follow them. `attributes` are
    `KEY=NUMBER=PLACE`, or `KEY=NUMBER` for all runs.

    Raises:
        RulerError: as `load_scores`; or a run has no score at all.
    """
    by_folder, labels = _places(runs, names)
    numbers: dict[str, dict[str, float]] = {place: {} for place in by_folder}
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
        for place, run in by_folder.items()
    ]
    for run, result in zip(by_folder.values(), results, strict=True):
        if not result.scored:
            name = result.run.model if isinstance(run, Scores) else str(run)
            raise RulerError(
                quote(name, 200), "no row has a score; resume the run, or leave it out"
            )
    return results


def _places(runs: Sequence[Run], names: Sequence[str]) -> tuple[dict[str, Run], dict[str, str]]:
    """Return the distinct runs by their folder, and the names that the user gives them."""
    by_folder: dict[str, Run] = {
        folder_of(run): run for run in runs
    }  # one that is twice there is one
    labels: dict[str, str] = {}
    for entry in names:
        name, _, place = entry.rpartition("=")
        if not (name and place):
            option = f"--name {quote(entry)}"
            raise UsageError(option, "give NAME=RUN, e.g. 'snapkv .5=runs/x'")
        labels[folder_of(place)] = name
        by_folder[folder_of(place)] = place
    return by_folder, labels


def folders_of(runs: Sequence[Run], names: Sequence[str]) -> list[Path]:
    """Return the folders of runs, in the order of `named_scores`; none if one is not a path."""
    by_folder, _ = _places(runs, names)
    return (
        []
        if any(isinstance(run, Scores) for run in by_folder.values())
        else [*map(Path, by_folder)]
    )


def command_of(program: str, runs: Sequence[Run], options: Mapping[str, object]) -> str:
    """Return the command line with these options; empty if a run is not a path.

    >>> command_of("report", ["x"], {"--margin": 0, "--name": ["a b=y"], "-t": "", "-f": False})
    "report x --margin 0 --name 'a b=y'"
    """
    if any(isinstance(run, Scores) for run in runs):
        return ""
    words = [*program.split(), *map(str, runs)]
    for option, value in options.items():
        if value is True:
            words.append(option)
        elif value or (value == 0 and value is not False):
            values = value if isinstance(value, list | tuple) else [value]
            words += [word for item in values for word in (option, str(item))]
    return shlex.join(words)


def folder_of(run: Run) -> str:
    """Return what tells a run from others: its folder, however it is written."""
    if isinstance(run, Scores):
        return f"results {id(run)}"
    path = Path(run)
    return str((path.parent if path.name == FILENAME else path).resolve())


def join(names: Sequence[str]) -> str:
    """Return names as a list in a sentence."""
    return f"{', '.join(names[:-1])} and {names[-1]}" if len(names) > 1 else names[0]


def shortfall(run: Scores) -> Iterator[str]:
    """Yield how many rows have no score, and what that does; nothing if all have one."""
    if run.scored < run.rows:
        text = f"{run.scored:,} of {run.rows:,} rows scored; the others count as wrong"
        open_ones = any(None in config.scores for config in run.configs.values())
        yield text + " in one end of its intervals and as right in the other" * open_ones


def labels_of(runs: Sequence[Scores]) -> list[str]:
    """Return a distinct name for each run: the user's, or its model; what is claimed is marked.

    Where names repeat, the options or the revision that differ follow, or else a number.
    """
    own_names = [
        _quoted(shortened(run.name or run.run.model, 80)) + " without context" * run.run.no_context
        for run in runs
    ]
    alike: dict[str, list[RunInfo]] = {}
    for name, run in zip(own_names, runs, strict=True):
        alike.setdefault(name, []).append(run.run)
    labels: list[str] = []
    for name, run in zip(own_names, runs, strict=True):
        name += _apart(run.run, alike[name])
        mark = " [claimed]" * bool(run.claimed)
        names = (name + f" ({number})" * (number > 1) + mark for number in count(1))
        labels.append(next(label for label in names if label not in labels))
    return labels


def _quoted(name: str) -> str:
    """Return a name in quotes if it could be read as a part of a sentence.

    >>> _quoted("org/model-7B"), _quoted("a; it is better than every other run")
    ('org/model-7B', '"a; it is better than every other run"')
    """
    return name if re.fullmatch(r"[\w./+@:=…-]*", name) else '"{}"'.format(name.replace('"', "'"))


def options_of(run: RunInfo) -> Mapping[str, Any]:
    """Return the options of a run's engine, or the arguments of its function."""
    return run.engine_info.get("arguments") or run.engine_info.get("options") or {}


def _apart(run: RunInfo, runs: Sequence[RunInfo]) -> str:
    """Return in brackets what tells a run from others of its name; empty if that is long."""
    options = {
        key: {str(options_of(run_alike).get(key)) for run_alike in runs} for key in options_of(run)
    }
    differing = [
        f"{key} {options_of(run)[key]}" for key, values in options.items() if len(values) > 1
    ]
    if (
        not differing
        and run.model_revision
        and len({run_alike.model_revision for run_alike in runs}) > 1
    ):
        differing = [f"revision {run.model_revision[:12]}"]
    text = visible(", ".join(differing))
    return f" ({text})" if 0 < len(text) <= 60 else ""


def caveats(run: RunInfo) -> Iterator[str]:
    """Yield in what prompts or answers were not those that the rows and the protocol promise."""
    if run.model_tokenizer not in (None, run.data.tokenizer_fingerprint):
        yield "prompts rendered with other tokenizer files than those that the rows are counted in"
    if run.protocol == "completion" and run.frame == PLAIN:
        yield "the tokenizer has no chat template, so completion is plain text, as in base"
    usual = PROTOCOLS[run.protocol].extra_tokens if run.protocol in PROTOCOLS else 0
    extra = run.sampling.get("extra_tokens", usual)
    if extra != usual:
        yield f"answers could be {extra} tokens longer than the rows say, by the protocol {usual}"
    if run.refused:
        yield f"the server refused {', '.join(run.refused)}; its own values applied"
    if temperature := run.sampling.get("temperature"):
        yield f"answers sampled at temperature {temperature}; the default is greedy"


def attributed(notes: Iterable[tuple[str, str]], runs: int) -> Iterator[str]:
    """Yield each note once, after the runs that it is about; `found` are labels with notes."""
    about: dict[str, list[str]] = {}
    for label, note in notes:
        about.setdefault(note, []).append(label)
    for note, names in about.items():
        whose = "all runs" if len(names) == runs > 2 else join(names)
        yield f"{whose}: {note}"


def notes_of(results: Scores) -> Iterator[str]:
    """Yield what a reader must know before the numbers."""
    yield from (f"incomplete: {text}" for text in shortfall(results))
    yield from caveats_of(results)
    yield from map(visible, results.notes)


def caveats_of(results: Scores) -> Iterator[str]:
    """Yield why the scores are not RULER's, or are imprecise, although every row was answered."""
    run = results.run
    if run.data.sample:
        yield "rows of the small sample corpus; not comparable with RULER scores"
    if run.data.edition == IMPORTED:
        yield "imported rows, which somebody else made; compare only with runs on these rows"
    elif run.data.edition != BALANCED_EDITION:
        yield (
            f"edition {visible(run.data.edition)}: upstream's own rows with their defects; compare "
            "only with runs of this edition"
        )
    if run.no_context:
        yield "run without the context, as a baseline"
    yield from caveats(run)
    missing = set(TASKS) - {parse_config(name)[0] for name in results.configs}
    if run.data.suite != RULER:
        yield f"suite {visible(run.data.suite)}; its means are not comparable with RULER's"
    elif missing:
        yield f"{13 - len(missing)} of 13 tasks; means over tasks are not RULER averages"
    few = min((config.rows for config in results.configs.values()), default=0)
    if few < 100:
        yield f"some configs have only {few} rows; the paper uses 500"


def obstacles(first: Scores, second: Scores, *, paired: bool) -> Iterator[str]:
    """Yield why two runs cannot be compared; nothing if they can."""
    yield from map(visible, run_dir.obstacles(first.run, second.run))
    if paired:
        return
    common = [name for name in first.configs if name in second.configs]
    differ = [name for name in common if first.configs[name].params != second.configs[name].params]
    if differ:
        yield f"no question is shared, and the parameters of {differ[0]} differ"


def check_comparable(
    runs: Sequence[Scores],
    labels: Sequence[str],
    paired: Sequence[bool],
    *,
    remedy: str,
    force: bool = False,
) -> dict[int, tuple[str, ...]]:
    """Return by its place why a run should not be compared with the first, where that is forced.

    `paired` is whether each run shares questions with the first.

    Raises:
        RulerError: runs cannot be compared, and `force` is false or their editions differ.
    """
    forced: dict[int, tuple[str, ...]] = {}
    for place in range(1, len(runs)):
        run = runs[place]
        problems = tuple(obstacles(runs[0], run, paired=paired[place]))
        same_edition = runs[0].run.data.edition == run.run.data.edition
        if problems and not (force and same_edition):
            whose = f"{labels[place]}: " if len(runs) > 2 else ""
            way_out = remedy if same_edition else "run both models on one edition"
            msg = f"{whose}not comparable: {'; '.join(problems)}; {way_out}"
            raise RulerError(msg)
        if problems:
            forced[place] = problems
    return forced


def check_scored(*runs: Scores, score: str | None = None) -> None:
    """Check that runs have a score.

    Raises:
        UsageError: one has none, or there is no score of the name.
    """
    for run, label in zip(runs, labels_of(runs), strict=True):
        if not run.scored:
            raise UsageError(label, "no row has a score; resume the run, or leave it out")
        if score is not None and score not in get_args(ScoreName):
            msg = f"--score {quote(score)}: not known; known: {', '.join(get_args(ScoreName))}"
            raise UsageError(msg)
