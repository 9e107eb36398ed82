"""The commands `ruler-eval score`, `report`, `compare`, `gate`, `leaderboard` and `publish`."""

import json
from pathlib import Path
from typing import Annotated, cast

import typer

from ruler_data.errors import UsageError
from ruler_data.names import counted
from ruler_data.terminal import named_path, out, say, warn
from ruler_eval.prompts import PROTOCOLS
from ruler_report.results import FILENAME, ScoreName

AsJson = Annotated[bool, typer.Option("--json", help="Print JSON.")]
Force = Annotated[
    bool,
    typer.Option(
        "--force", help="Compare even if suites or protocols differ; the output states it."
    ),
]
Folder = Annotated[
    Path, typer.Option("--out", parser=named_path, metavar="<path>", help="Folder to write.")
]


def score(
    place: Annotated[
        Path, typer.Argument(help="Folder of a run, or file or folder of predictions.")
    ],
    data: Annotated[
        str | None,
        typer.Option(help="Folder or Hub repo of the rows [default: those of the run]."),
    ] = None,
    revision: Annotated[
        str | None,
        typer.Option(help="Commit or tag of the Hub repo."),
    ] = None,
    partial: Annotated[
        bool, typer.Option("--partial", help="Score an incomplete run; reports then say n of N.")
    ] = False,
    no_context: Annotated[
        Path | None,
        typer.Option(help="Run of the same model without context, to classify failures."),
    ] = None,
    model: Annotated[
        str, typer.Option(help="For predictions: name of the model, as published.")
    ] = "",
    protocol: Annotated[
        str, typer.Option(help=f"For predictions: one of {', '.join(PROTOCOLS)}.")
    ] = "",
    to: Annotated[
        Path | None,
        typer.Option("--out", help=f"File to write [default: {FILENAME} beside the answers]."),
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Score answers against the frozen rows, and write results.json."""
    from ruler_report import write
    from ruler_report.pages.report import caveats_of
    from ruler_report.stats.summary import summarize

    results = write.score(
        place,
        data,
        revision,
        no_context=no_context,
        model=model,
        protocol=protocol,
        partial=partial,
        out=to,
    )
    shortfall = [write.shortfall(results)] if results.scored < results.rows else []
    for note in (*results.notes, *shortfall, *caveats_of(results)):
        warn(note)
    summary = summarize(results)
    if as_json:
        out.print_json(json.dumps(summary.to_record()))
    else:
        out.print(summary, crop=False)
        target = to or (place if place.is_dir() else place.parent) / FILENAME
        say(f"{target}: {results.scored:,} of {results.rows:,} rows scored")


def report(
    places: Annotated[
        list[Path], typer.Argument(help="Folders of scored runs, or their results.json.")
    ],
    to: Folder = Path("report"),
    baseline: Annotated[
        Path | None,
        typer.Option(
            help="Run that the others should equal, e.g. with full attention: how much of its "
            "scores they retain."
        ),
    ] = None,
    kind: Annotated[
        str,
        typer.Option(
            "--format",
            help="html, or latex: report.tex with booktabs, PDF and SVG as wide as a column.",
        ),
    ] = "html",
    pictures: Annotated[
        bool, typer.Option("--pictures/--no-pictures", help="Draw pictures (extra `report`).")
    ] = True,
    force: Force = False,
) -> None:
    """Write a report: one HTML page, Markdown, pictures, scores as CSV, and results.json."""
    from ruler_report import write

    form = cast("write.Format", kind)
    made = write.report(places, to, baseline=baseline, form=form, pictures=pictures, force=force)
    models = ", ".join(run.label for run in made.runs)
    counts = f"{counted(len(made.pictures), 'picture')}, {counted(len(made.tables), 'table')}"
    say(f"{to}/{'report.tex' if kind == 'latex' else 'index.html'}: {models}; {counts}")


def compare(
    first: Annotated[Path, typer.Argument(help="Folder of a scored run, or its results.json.")],
    second: Annotated[Path, typer.Argument(help="Folder of another, or its results.json.")],
    contamination: Annotated[
        bool,
        typer.Option(
            "--contamination",
            help="Test whether the model scores higher on public rows (first) than on rows of "
            "another seed (second).",
        ),
    ] = False,
    margin: Annotated[
        float | None,
        typer.Option(
            min=0.1,
            max=100.0,
            help="Smallest gap that matters with --contamination, in percentage points "
            "[default: 2].",
        ),
    ] = None,
    score: Annotated[
        str | None,
        typer.Option(
            help="Score to compare: official, strict, exact or f1 [default: the suite's headline]."
        ),
    ] = None,
    force: Force = False,
    as_json: AsJson = False,
) -> None:
    """Compare two runs: differences with intervals, p-values, verdicts."""
    from ruler_report.stats import comparison as paired
    from ruler_report.stats import contamination as unpaired

    if contamination and score:
        msg = "--score: not with --contamination, which compares the suite's headline"
        raise UsageError(msg)
    if contamination:
        gap = unpaired.MARGIN if margin is None else margin
        comparison = unpaired.contamination(first, second, margin=gap, force=force)
    elif margin is not None:
        msg = "--margin: needs --contamination; a comparison of two models has no margin"
        raise UsageError(msg)
    else:
        comparison = paired.compare(
            first, second, force=force, score=cast("ScoreName | None", score)
        )
    for note in comparison.notes:
        warn(note)
    if as_json:
        out.print_json(json.dumps(comparison.to_dict()))
    else:
        out.print(comparison, crop=False)


def gate(
    new: Annotated[Path, typer.Argument(help="Folder of a scored run, or its results.json.")],
    baseline: Annotated[Path, typer.Option(help="Run that it must not fall behind.")],
    margin: Annotated[
        float, typer.Option(help="Percentage points that it may lose, overall and by category.")
    ] = 1.0,
    as_json: AsJson = False,
) -> None:
    """Test that a run is not inferior to a baseline: one line; exit status 1 if not shown."""
    from ruler_report.stats.baseline import gate as test

    found = test(new, baseline, margin=margin)
    for note in found.comparison.notes:
        warn(note)
    if as_json:
        out.print_json(json.dumps(found.to_dict()))
    else:
        say(str(found))
    raise typer.Exit(code=0 if found.passed else 1)


def leaderboard(
    places: Annotated[
        list[str],
        typer.Argument(help="Scored runs, their results.json, or Hub repos of predictions."),
    ],
    to: Folder = Path("leaderboard"),
    weights: Annotated[
        str, typer.Option(help="Weights of lengths, e.g. 4096=3,32768=1 [default: all equal].")
    ] = "",
    threshold: Annotated[
        float | None,
        typer.Option(
            min=0.0,
            max=100.0,
            help="Score that an effective length reaches [default: the paper's, 85.6 or 79.4].",
        ),
    ] = None,
) -> None:
    """Rank any number of runs: one page to sort and filter, and leaderboard.json."""
    from ruler_report.board import leaderboard as write

    board = write(places, to, weights=weights, threshold=threshold)
    for note in board.notes:
        warn(note)
    say(f"{to}/index.html: {counted(len(board.entries), 'run')}")


def publish(
    run: Annotated[Path, typer.Argument(help="Folder of a run, scored with `ruler-eval score`.")],
    repo: Annotated[str, typer.Option(help="Dataset repo for predictions, e.g. org/preds.")],
    model_repo: Annotated[
        str, typer.Option(help="Model repo whose page will show the scores.")
    ] = "",
    private: Annotated[bool, typer.Option(help="Make a new dataset repo private.")] = False,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Print what would be written; write nothing.")
    ] = False,
) -> None:
    """Publish predictions as a dataset, and scores on the model's page."""
    from ruler_report.publish import compose, push

    bundle = compose(run, repo, model_repo)
    if dry_run:
        for path, data in bundle.files.items():
            say(f"{repo}: {path}, {len(data):,} bytes")
        for line in bundle.entries.splitlines():
            say(f"{model_repo}: {line}")
        return
    for line in push(bundle, repo, model_repo, private=private):
        say(line)
