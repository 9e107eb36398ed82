"""The commands `ruler-eval score`, `report`, `compare`, `gate`, `leaderboard` and `publish`.

Each is also a function of `ruler_report` (`score` is `results`). A run is given as its folder, as
the path of its `results.json`, or as what `results` or `read_results` returned.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, cast

import typer

from ruler_data.signatures import checked

if TYPE_CHECKING:
    from ruler_eval.scoring.results import ScoreName, Scores
    from ruler_eval.scoring.results_file import Run
    from ruler_report.baseline import Gate
    from ruler_report.board import Board
    from ruler_report.comparison import Comparison
    from ruler_report.contents import Report
    from ruler_report.drawing import Medium
    from ruler_report.publication import Publication
    from ruler_report.summary import ScoredRun

RUN = "Folder of a run, or its results.json."
Data = Annotated[
    str | None, typer.Option(help="Rows of runs, if they are not where the run read them.")
]
Names = Annotated[
    list[str] | Sequence[str],
    typer.Option(help="A name to show for a run: 'snapkv .5=runs/x'; repeatable."),
]
Claimed = Annotated[bool, typer.Option(help="Rank also runs of which only results.json is known.")]
Rows = Annotated[int | None, typer.Option(min=1, help="The first rows of each config alone.")]
Tasks = Annotated[str | Collection[str], typer.Option(help="These tasks alone, e.g. vt,qa_1.")]
Lengths = Annotated[
    str | Collection[int | str], typer.Option(help="These lengths alone, e.g. 4096,32k.")
]
Force = Annotated[
    bool, typer.Option(help="Compare even if protocols differ; the output states it.")
]


@checked
def results(
    run: Annotated[
        Path | str, typer.Argument(help="Folder of a run, or file or folder of predictions.")
    ],
    data: Annotated[
        str | None,
        typer.Option(help="Folder or Hub repo of the rows [default: those of the run]."),
    ] = None,
    revision: Annotated[str | None, typer.Option(help="Commit or tag of the Hub repo.")] = None,
    *,
    partial: Annotated[
        bool, typer.Option(help="Score an incomplete run; reports then say n of N.")
    ] = False,
    model: Annotated[
        str, typer.Option(help="For predictions: name of the model, as published.")
    ] = "",
    protocol: Annotated[
        str, typer.Option(help="For predictions: completion, base, chat or thinking.")
    ] = "",
    out: Annotated[
        Path | str | None,
        typer.Option(help="File to write [default: results.json beside the answers]."),
    ] = None,
) -> ScoredRun:
    """Score answers against the frozen rows, and write results.json.

        ruler-eval score runs/x
        ruler-eval score answers.jsonl --data dist/llama3 --model org/model --protocol chat

    Raises:
        UsageError: something is missing or contradictory.
        RulerError: the answers are damaged or for other rows, or the run is incomplete and
            `partial` is false.
    """
    from ruler_data.errors import UsageError
    from ruler_data.names import quote
    from ruler_eval.running.run_dir import RUN_FILE
    from ruler_eval.scoring.derive import check_answers, score
    from ruler_report import page

    if not isinstance(run, str | PathLike):
        msg = f"{quote(str(run))}: give the folder of a run, or a file or folder of predictions"
        raise UsageError(msg)
    place = Path(run)
    target = page.file_to_write(out, place)
    check_answers(place)
    if not (place / RUN_FILE).is_file() and not (model and protocol):
        msg = "--model and --protocol are required for a predictions file"
        raise UsageError(msg)
    scores = score(place, data, revision=revision, model=model, protocol=protocol, partial=partial)
    return page.score(scores, target, is_asked=out is not None)


@checked
def report(
    runs: Annotated[list[Path] | Sequence[Run] | Run, typer.Argument(help=RUN)] = (),
    out: Annotated[Path | str, typer.Option(help="Folder to write.")] = Path("report"),
    *,
    baseline: Annotated[
        Path | Run | None,
        typer.Option(
            help="Run that the others should equal, e.g. with full attention: how much of its "
            "scores they retain."
        ),
    ] = None,
    form: Annotated[
        str,
        typer.Option(
            "--format",
            help="html, or latex: report.tex with booktabs, pictures as PDF, as wide as a column.",
        ),
    ] = "html",
    pictures: Annotated[
        bool, typer.Option("--pictures/--no-pictures", help="Draw pictures (extra `report`).")
    ] = True,
    against: Annotated[
        str,
        typer.Option(
            help="Draw scores against a number: an option in which runs differ, e.g. "
            "compression_ratio; step; a name given with --attr; a parameter of the tasks."
        ),
    ] = "",
    rows: Rows = None,
    tasks: Tasks = "",
    lengths: Lengths = "",
    force: Force = False,
    data: Data = None,
    name: Names = (),
    attr: Annotated[
        list[str] | Sequence[str],
        typer.Option(
            help="A number that a model has, for --against: train_length=8192=runs/x, or "
            "train_length=8192 for all runs; repeatable."
        ),
    ] = (),
    claimed: Claimed = False,
    procedure: Annotated[
        str | None,
        typer.Option(
            help="Print what differs from a published number's procedure [default: the run's]."
        ),
    ] = None,
) -> Report:
    """Write a report: one HTML page, Markdown, pictures, scores as CSV, and results.json.

        ruler-eval report runs/x runs/y --baseline runs/x
        ruler-eval report runs/x runs/y --format latex --out paper

    Raises:
        UsageError: there is no such run or format, it is not scored, or `out` is a file.
        RulerError: the runs cannot be compared.
    """
    from ruler_data.errors import UsageError
    from ruler_data.names import parse_lengths, parse_names, quote
    from ruler_eval.scoring.results import Scores
    from ruler_report import page
    from ruler_report.contents import build
    from ruler_report.runs import command_of, folders_of, named_scores

    if not isinstance(runs, str | PathLike | Scores | Iterable):
        msg = f"runs {runs!r:.60}: give the folder of a run, or a list of them"
        raise UsageError(msg)
    runs = [runs] if isinstance(runs, str | PathLike | Scores) else [*runs]
    if not (runs or name):
        msg = "no runs to report; give at least one"
        raise UsageError(msg)
    if form not in ("html", "latex"):
        msg = f"--format {quote(form)}: not known; known: html, latex"
        raise UsageError(msg)
    derived = named_scores(runs, name, data, attr)
    base = None if baseline is None else named_scores([baseline], [], data)[0]
    places = folders_of(runs, name)
    if places and baseline is not None:
        places += folders_of([baseline], [])
    command = command_of("ruler-eval report", runs, {
        "--baseline": baseline, "--against": against, "--rows": rows, "--tasks": tasks,
        "--lengths": lengths, "--force": force, "--data": data, "--name": [*name],
        "--attr": [*attr], "--claimed": claimed, "--procedure": procedure,
    })  # fmt: skip
    folder = page.folder_to_write(out, "a report")
    medium: Medium = "paper" if form == "latex" else "page"
    content = build(
        derived,
        baseline=base,
        medium=medium if pictures else None,
        option=against,
        rows=rows,
        tasks=parse_names(tasks),
        lengths=parse_lengths(lengths),
        force=force,
        claimed=claimed,
        procedure=procedure,
        places=places,
        data=data,
        command=command,
    )
    return page.report(content, derived, folder, form)


@checked
def compare(
    first: Annotated[Path | Run, typer.Argument(help=RUN)],
    second: Annotated[Path | Run, typer.Argument(help=RUN)],
    *,
    score: Annotated[
        str | None,
        typer.Option(help="Score to compare: official, exact or f1 [default: the suite's]."),
    ] = None,
    rows: Rows = None,
    tasks: Tasks = "",
    lengths: Lengths = "",
    force: Force = False,
    data: Data = None,
) -> Comparison:
    """Compare two runs: differences with intervals, and what they show.

    Of two runs on rows of two seeds it says whether a model scores higher on the public ones.

        ruler-eval compare runs/x runs/y

    Raises:
        UsageError: there is no such run or score, or it is not scored.
        RulerError: the runs cannot be compared and `force` is false, their editions differ, or
            they share no task.
    """
    from ruler_data.names import parse_lengths, parse_names
    from ruler_eval.scoring.derive import load_scores
    from ruler_report import lineup as pairs

    return pairs.compare(
        load_scores(first, data),
        load_scores(second, data),
        rows=rows,
        tasks=parse_names(tasks),
        lengths=parse_lengths(lengths),
        force=force,
        score=cast("ScoreName | None", score),
    )


@checked
def gate(
    new: Annotated[Path | Run, typer.Argument(metavar="RUN", help=RUN)],
    baseline: Annotated[Path | Run, typer.Option(help="Run that it must not fall behind.")],
    *,
    margin: Annotated[
        float,
        typer.Option(help="Percentage points that it may lose, overall, by length and category."),
    ] = 1.0,
    rows: Rows = None,
    tasks: Tasks = "",
    lengths: Lengths = "",
    data: Data = None,
    claimed: Annotated[
        bool, typer.Option(help="Believe also a run of which only results.json is known.")
    ] = False,
) -> Gate:
    """Test that a run is not worse than a baseline, on the baseline's rows.

    The exit status is 0 for not worse, 1 for worse, 3 for cannot tell, 2 if the test could not run.
    For "not worse", rows that the run lacks count as wrong; for "worse", as right.

        ruler-eval gate runs/new --baseline runs/old --margin 1

    Raises:
        UsageError: there is no such run, it is not scored, or the margin is not positive.
        RulerError: the runs cannot be compared.
    """
    from ruler_data.errors import RulerError, UsageError
    from ruler_data.names import parse_lengths, parse_names
    from ruler_eval.scoring.derive import load_scores
    from ruler_report import baseline as stats

    try:
        base = load_scores(baseline, data)
        return stats.gate(
            load_scores(new, data),
            base,
            margin=margin,
            rows=rows,
            tasks=parse_names(tasks),
            lengths=parse_lengths(lengths),
            claimed=claimed,
        )
    except RulerError as error:
        error.exit_code = UsageError.exit_code  # an exit status of 1 says that the run is worse
        raise
    except OSError as error:
        raise UsageError(error.filename or "system", error.strerror or error) from error


@checked
def leaderboard(
    runs: Annotated[
        list[str] | Sequence[Run],
        typer.Argument(help="Runs, their results.json, or Hub repos of predictions."),
    ] = (),
    out: Annotated[Path | str, typer.Option(help="Folder to write.")] = Path("leaderboard"),
    *,
    threshold: Annotated[
        float | None,
        typer.Option(
            min=0.0,
            max=100.0,
            help="Score that an effective length reaches [default: the paper's, 85.6 or 79.4].",
        ),
    ] = None,
    rows: Rows = None,
    tasks: Tasks = "",
    lengths: Lengths = "",
    data: Data = None,
    name: Names = (),
    claimed: Claimed = False,
) -> Board:
    """Rank any number of runs: one page with a table to sort, and leaderboard.json.

        ruler-eval leaderboard runs/x runs/y org/predictions --out board

    Raises:
        UsageError: there is no such run.
        RulerError: runs cannot be compared, or the Hub is not available.
    """
    from ruler_data.errors import UsageError
    from ruler_data.names import parse_lengths, parse_names
    from ruler_report import board, page

    folder = page.folder_to_write(out, "a leaderboard")
    if not (runs or name):
        msg = "no runs to rank; give at least one"
        raise UsageError(msg)
    ranked = board.build(
        board.derive_all(runs, name, data),
        threshold,
        rows=rows,
        tasks=parse_names(tasks),
        lengths=parse_lengths(lengths),
        claimed=claimed,
    )
    return board.write(ranked, folder)


@checked
def publish(
    run: Annotated[Path | str, typer.Argument(help="Folder of a run.")],
    repo: Annotated[str, typer.Option(help="Dataset repo for predictions, e.g. org/preds.")],
    *,
    private: Annotated[bool, typer.Option(help="Make a new dataset repo private.")] = False,
    dry_run: Annotated[
        bool, typer.Option(help="Print what would be written; write nothing.")
    ] = False,
    data: Data = None,
) -> Publication:
    """Publish predictions and scores as a dataset.

        ruler-eval publish runs/x --repo org/predictions --dry-run

    Raises:
        RulerError: the run is not what its answers say, `score` refuses it, or the Hub does.
    """
    from ruler_data.hub.client import NO_TOKEN, token
    from ruler_report import publication

    files = publication.compose(Path(run), repo, data)
    if dry_run:
        notes = () if token() else (NO_TOKEN,)
        return publication.Publication(tuple(publication.plan(files, repo)), notes)
    return publication.Publication(tuple(publication.push(files, repo, private=private)))


def read_results(run: Run) -> Scores:
    """Return the results of a run, read from its `results.json`.

    Raises:
        UsageError: the file does not exist.
        RulerError: its content is damaged, or of another format.
    """
    from ruler_eval.scoring import results_file

    return results_file.read_results(run)
