"""The commands `ruler-eval report`, `compare` and `publish`.

Each is also a function of `ruler_report`. A run is given as its folder, as the path of its
`scores.parquet`, as a Hub repo of predictions, or as what `load_scores` returned.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, cast

import typer

from ruler_data.signatures import checked

if TYPE_CHECKING:
    from ruler_report.conclusion import ScoreName
    from ruler_report.page import Comparison, Report
    from ruler_report.publication import Publication
    from ruler_report.runs import Run

RUN = "Folder of a run, its scores.parquet, or a Hub repo of predictions."
Data = Annotated[str | None, typer.Option(help="Rows, if they are not where a run read them.")]
Claimed = Annotated[
    bool, typer.Option(help="Rank also runs whose scores cannot be made again here.")
]
Rows = Annotated[int | None, typer.Option(min=1, help="The first rows of each config alone.")]
Tasks = Annotated[str | Collection[str], typer.Option(help="These tasks alone, e.g. vt,qa_1.")]
Lengths = Annotated[
    str | Collection[int | str], typer.Option(help="These lengths alone, e.g. 4096,32k.")
]
Force = Annotated[
    bool, typer.Option(help="Compare even if protocols differ; the output states it.")
]


@checked
def report(
    runs: Annotated[list[str] | Sequence[Run] | Run, typer.Argument(help=RUN)] = (),
    out: Annotated[Path | str, typer.Option(help="Folder to write.")] = Path("report"),
    *,
    board: Annotated[bool, typer.Option(help="For many runs: a first table to sort.")] = False,
    baseline: Annotated[
        str | Run | None,
        typer.Option(help="Run that the others should equal, e.g. with full attention."),
    ] = None,
    pictures: Annotated[
        bool, typer.Option("--pictures/--no-pictures", help="Draw no pictures.")
    ] = True,
    rows: Rows = None,
    tasks: Tasks = "",
    lengths: Lengths = "",
    partial: Annotated[
        bool, typer.Option(help="Show unanswered rows as wrong, without a rank.")
    ] = False,
    force: Force = False,
    data: Data = None,
    name: Annotated[
        list[str] | Sequence[str],
        typer.Option(help="Name to show, e.g. 'snapkv .5=runs/x'; repeatable."),
    ] = (),
    claimed: Claimed = False,
    procedure: Annotated[
        str | None,
        typer.Option(help="Print what differs from this one [default: the run's]."),
    ] = None,
) -> Report:
    """Write a report: one HTML page, Markdown, pictures, and the scores as CSV, JSON and LaTeX.

        ruler-eval report runs/x runs/y --baseline runs/x
        ruler-eval report runs/* --board --out board

    Raises:
        UsageError: there is no such run, or `out` is a file.
        RulerError: the runs cannot be compared, or one has no score.
    """
    from ruler_report import page
    from ruler_report.conclusion import conclude
    from ruler_report.contents import Options
    from ruler_report.runs import Selection, find_runs, listed

    places = listed(runs)
    if baseline is not None:
        places = [baseline, *places]
    folder = page.folder_to_write(out)
    found = find_runs(places, Selection.parse(tasks, lengths, rows), name, data)
    conclusion = conclude(found, partial=partial, claimed=claimed, force=force)
    options = Options(draws=pictures, is_board=board, procedure=procedure, data=data)
    return page.write(conclusion, options, folder)


@checked
def compare(
    first: Annotated[str | Run, typer.Argument(help=RUN)],
    second: Annotated[str | Run, typer.Argument(help=RUN)],
    *,
    margin: Annotated[
        float | None,
        typer.Option(
            help="Test that the first run is not worse by more than these percentage points; exit "
            "status 0 not worse, 1 worse, 3 cannot tell."
        ),
    ] = None,
    score: Annotated[
        str | None,
        typer.Option(help="Score to compare: official or exact [default: the suite's]."),
    ] = None,
    rows: Rows = None,
    tasks: Tasks = "",
    lengths: Lengths = "",
    force: Force = False,
    data: Data = None,
    claimed: Claimed = False,
) -> Comparison:
    """Compare a run with another: differences, first minus second, and what they show.

    With a margin the exit status is that of its test, and 2 if the test could not run.

        ruler-eval compare runs/new runs/old --margin 1

    Raises:
        UsageError: there is no such run or score, or the margin is not positive.
        RulerError: the runs cannot be compared and `force` is false, or their editions differ.
    """
    from ruler_data.errors import RulerError, UsageError
    from ruler_data.names import quote
    from ruler_report.conclusion import conclude
    from ruler_report.margin import check_margin, margin_test
    from ruler_report.page import Comparison
    from ruler_report.runs import Selection, find_run

    if score not in (None, "official", "exact"):
        raise UsageError(f"--score {quote(str(score))}", "not known; known: official, exact")
    if margin is not None:
        check_margin(margin)
    try:
        selection = Selection.parse(tasks, lengths, rows)
        runs = [find_run(run, selection, data) for run in (first, second)]
        conclusion = conclude(
            runs,
            base=1,
            score=cast("ScoreName | None", score),
            claimed=claimed,
            force=force,
        )
    except RulerError as error:
        if margin is not None:
            error.exit_code = UsageError.exit_code  # an exit status of 1 says that it is worse
        raise
    if margin is None:
        return Comparison(conclusion)
    return Comparison(conclusion, margin_test(conclusion, 0, margin))


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

    The card says how many rows are unanswered.

        ruler-eval publish runs/x --repo org/predictions --dry-run

    Raises:
        RulerError: the run is not what its answers say, `score` refuses it, or the Hub does.
    """
    from ruler_data.hub.client import NO_TOKEN, token
    from ruler_report import publication

    files, warnings = publication.compose(Path(run), repo, data)
    if dry_run:
        lines = (*warnings, *publication.plan(files, repo))
        if token():
            return publication.Publication(lines)
        return publication.Publication(lines, notes=(NO_TOKEN,))
    return publication.Publication((*warnings, *publication.push(files, repo, private=private)))
