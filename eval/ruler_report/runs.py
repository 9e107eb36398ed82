"""The runs of a report: found, named, narrowed; what limits them, and which can be compared.

What limits a run is a note beside its numbers: prompts or sampling that are not those of its
protocol, a suite or an edition that is not the paper's. Runs can be compared if protocol, edition
and MAJOR version of the data agree, whatever the suite and the tokenizer.
"""

import re
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import replace
from math import isfinite
from os import PathLike
from pathlib import Path

from ruler_data.errors import RulerError, UsageError
from ruler_data.manifest import BALANCED, IMPORTED
from ruler_data.names import check_repo, parse_lengths, parse_names, quote
from ruler_data.tasks import TASKS
from ruler_eval.running import run_dir
from ruler_eval.running.prompts import PROTOCOLS
from ruler_eval.running.run_dir import RunInfo
from ruler_eval.scoring.scores import FILENAME, Scores, load_scores
from ruler_report.frame import RowsOfRun, narrowed
from ruler_report.typesetting import visible

#: The suite of the paper's results.
RULER = "ruler"
#: A prompt without a chat template.
PLAIN = "{content}{answer_prefix}"
#: Rows of a config below which a note says how many there are.
PLENTY = 100
#: A folder, a file of scores, a Hub repo of predictions, or scores.
Run = str | Path | Scores


def load_runs(runs: Sequence[Run], names: Sequence[str], data: str | None) -> list[Scores]:
    """Return the scores of runs with the names that the user gives some of them.

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
    return [
        replace(load_run(run, data), name=labels.get(folder, ""))
        for folder, run in by_folder.items()
    ]


def load_run(run: Run, data: str | None) -> Scores:
    """Return the scores of a place on this machine, or what a Hub repo of predictions claims."""
    if isinstance(run, Scores):
        return run
    if not isinstance(run, str | PathLike):
        raise UsageError(f"run {run!r:.60}", f"give the folder of a run, or its {FILENAME}")
    if Path(run).exists():
        return load_scores(run, data)
    repo, _, revision = str(run).partition("@")
    try:
        check_repo(repo)
    except UsageError:
        return load_scores(run, data)
    from ruler_data.hub.download import fetch_file  # loads the Hub's client

    path = fetch_file(repo, FILENAME, revision or "main")
    if path is None:
        raise UsageError(repo, f"holds no {FILENAME}; give a repo that `ruler-eval publish` wrote")
    return load_scores(path)


def folder_of(run: Run) -> str:
    """Return what tells a run from others: its folder, however it is written."""
    if isinstance(run, Scores):
        return f"scores {id(run)}"
    if not isinstance(run, str | PathLike):
        return repr(run)
    path = Path(run)
    folder = path.parent if path.name == FILENAME else path
    return str(folder.resolve())


def runs_of(runs: Sequence[Run] | Run) -> list[Run]:
    """Return runs as a list; one is a list of one."""
    if isinstance(runs, str | PathLike | Scores):
        return [runs]
    if not isinstance(runs, Iterable):
        raise UsageError(f"runs {runs!r:.60}", "give the folder of a run, or a list of them")
    return [*runs]


def narrow_all(
    runs: Sequence[Scores],
    tasks: str | Collection[str],
    lengths: str | Collection[int | str],
    rows: int | None,
) -> tuple[list[Scores], str]:
    """Return runs with the rows that are asked for alone, and what was asked for in words."""
    names = parse_names(tasks)
    numbers = parse_lengths(lengths)
    narrowed = [narrow(run, names, numbers, rows) for run in runs]
    return narrowed, f"the first {rows}" if rows else ""


def narrow(
    run: Scores, tasks: Collection[str], lengths: Collection[int], rows: int | None
) -> Scores:
    """Return the scores of the rows that are asked for; nothing else sees a run.

    Raises:
        UsageError: the run has none of them.
    """
    if not tasks and not lengths and rows is None:
        return run
    table = narrowed(run.table, tasks=tasks, lengths=lengths, rows=rows)
    if not table.num_rows:
        options = [("tasks", ", ".join(tasks)), ("lengths", ", ".join(map(str, lengths)))]
        text = ", ".join(f"--{name} {quote(value)}" for name, value in options if value)
        raise UsageError(text or f"--rows {rows}", f"{quote(run.run.model)} has no such config")
    return replace(run, table=table)


def attributes_of(runs: Sequence[Scores], entries: Sequence[str]) -> list[dict[str, float]]:
    """Return the numbers that the user gives each run: `KEY=NUMBER=RUN`, or `KEY=NUMBER` for all.

    Raises:
        UsageError: an entry is not of this form, or names none of the runs.
    """
    attributes: list[dict[str, float]] = [{} for _ in runs]
    folders = [None if run.path is None else folder_of(run.path) for run in runs]
    for entry in entries:
        key, number, place = _attribute(entry)
        places = [*range(len(runs))]
        if place:
            places = [run for run in places if folders[run] == folder_of(place)]
        if not places:
            raise UsageError(f"--attr {quote(entry)}", f"{quote(place)} is not one of the runs")
        for run in places:
            attributes[run][key] = number
    return attributes


def _attribute(entry: str) -> tuple[str, float, str]:
    """Return key, number and run of an attribute; the run is empty for all."""
    match = re.fullmatch(r"([^=]+)=([^=]+)(?:=(.+))?", entry)
    number = _number(match[2]) if match else None
    if match is None or number is None:
        reason = "give KEY=NUMBER=RUN, e.g. train_length=8192=runs/x"
        raise UsageError(f"--attr {quote(entry)}", reason)
    return match[1], number, match[3] or ""


def _number(text: str) -> float | None:
    try:
        number = float(text)
    except ValueError:
        return None
    if isfinite(number):
        return number
    return None


def barred(runs: Sequence[Scores], *, claimed: bool) -> dict[int, str]:
    """Return why runs have no rank whatever rows they have, by their place."""
    essays = Counter(run.run.data.essays for run in runs if run.run.data.essays)
    usual = max(essays, key=lambda name: (essays[name], name), default="")
    reasons = {}
    for place, run in enumerate(runs):
        if run.validity.refusals:
            reasons[place] = f"`score` refuses it: {visible('; '.join(run.validity.refusals))}"
        elif run.claimed and not claimed:
            reasons[place] = f"claimed: {visible(run.claimed)}; --claimed ranks it"
        elif run.run.data.essays not in ("", usual):
            reasons[place] = "its rows have other essays than most"
    return reasons


def notes_of(run: Scores, rows: RowsOfRun) -> Iterator[str]:
    """Yield what a reader must know of a run and its rows beside its numbers."""
    yield from caveats_of(run, rows)
    yield from map(visible, run.validity.warnings)
    yield from map(visible, run.notes)


def caveats_of(run: Scores, rows: RowsOfRun) -> Iterator[str]:
    """Yield why the scores are not RULER's, or are imprecise, although every row was answered."""
    data = run.run.data
    if data.sample:
        yield "rows of the small sample corpus; not comparable with RULER scores"
    if data.edition == IMPORTED:
        yield "imported rows, which somebody else made; compare only with runs on these rows"
    elif data.edition != BALANCED:
        yield (
            f"edition {visible(data.edition)}: upstream's own rows with their defects; compare "
            "only with runs of this edition"
        )
    if run.run.no_context:
        yield "run without the context, as a baseline"
    yield from caveats(run.run)
    tasks = {task for task, _ in rows}
    if data.suite != RULER:
        yield f"suite {visible(data.suite)}; its means are not comparable with RULER's"
    elif tasks < {*TASKS}:
        yield f"{len(tasks)} of 13 tasks; means over tasks are not RULER averages"
    yield from _few_rows(rows)


def _few_rows(rows: RowsOfRun) -> Iterator[str]:
    """Yield how many rows the smallest config has, if they are few."""
    fewest = min((cell.planned for cell in rows.values()), default=PLENTY)
    if fewest == 1:
        yield "some configs have one row alone, so there is no interval; the paper uses 500"
    elif fewest < PLENTY:
        yield f"some configs have only {fewest} rows; the paper uses 500"


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
    temperature = run.sampling.get("temperature")
    if temperature:
        yield f"answers sampled at temperature {temperature}; the default is greedy"


def check_comparable(
    runs: Sequence[Scores], names: Sequence[str], rows: Sequence[RowsOfRun], *, force: bool
) -> dict[int, tuple[str, ...]]:
    """Return by its place why a run should not be compared with the first, where that is forced.

    Raises:
        RulerError: runs cannot be compared, and `force` is false or their editions differ.
    """
    forced: dict[int, tuple[str, ...]] = {}
    for place in range(1, len(runs)):
        problems = [visible(text) for text in run_dir.obstacles(runs[0].run, runs[place].run)]
        differing = _other_task(runs[0], runs[place])
        if differing and not share_questions(rows[0], rows[place]):
            problems.append(f"no question is shared, and the parameters of {differing} differ")
        same_edition = runs[0].run.data.edition == runs[place].run.data.edition
        if problems and not (force and same_edition):
            whose = f"{names[place]}: " if len(runs) > 2 else ""
            remedy = "--force compares anyway"
            if not same_edition:
                remedy = "run both models on one edition"
            raise RulerError(f"{whose}not comparable: {'; '.join(problems)}; {remedy}")
        if problems:
            forced[place] = tuple(problems)
    return forced


def _other_task(first: Scores, second: Scores) -> str:
    """Return a task that two runs have with other parameters; empty if there is none."""
    for name, task in first.tasks.items():
        if name in second.tasks and second.tasks[name].params != task.params:
            return name
    return ""


def share_questions(first: RowsOfRun, second: RowsOfRun) -> bool:
    """Whether two runs were asked a common question, and so are paired."""
    for cell, rows in first.items():
        if cell in second and {*rows.questions.tolist()} & {*second[cell].questions.tolist()}:
            return True
    return False
