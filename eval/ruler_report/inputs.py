"""Find what a score needs: the run or the predictions of others, and the rows they answer."""

from dataclasses import dataclass, replace
from pathlib import Path

from ruler_data.errors import RulerError, UsageError
from ruler_data.names import quote
from ruler_eval.data import Dataset, open_dataset
from ruler_eval.schema import RUN_FILE, DataInfo, RunInfo
from ruler_report.predictions import Answers, read_predictions, read_run
from ruler_report.scoring import Sheet

PROTOCOLS = ("completion", "base", "chat", "thinking")


@dataclass(frozen=True)
class Asked:
    """What the user asked to score.

    Attributes:
        place: folder of a run, or file or folder of predictions.
        data: folder or Hub repo of the rows; None for the run's own.
        revision: of the repo; None for the run's own.
        no_context: folder of a run without context; None for none.
        model: whose predictions they are; of a run it is known.
        protocol: that they were made by; likewise.
    """

    place: Path
    data: str | None
    revision: str | None
    no_context: Path | None
    model: str
    protocol: str


def load_sheet(asked: Asked) -> Sheet:
    """Open the answers and the rows, and check that they belong together.

    Raises:
        UsageError: something is not there, or more must be said.
        RulerError: something is damaged, or the rows are not those that were asked.
    """
    if (asked.place / RUN_FILE).is_file():
        run, answers = read_run(asked.place)
        if asked.model or asked.protocol:
            says = f"{quote(run.model)}, {run.protocol}"
            msg = f"--model and --protocol are for predictions; this run says: {says}"
            raise UsageError(msg)
        data = _asked_of(_data_of(asked, run), run.data)
    else:
        data, answers = _predictions(asked, _data_of(asked, None))
        run = RunInfo(data.info, asked.model, None, asked.protocol, "predictions")
    return Sheet(run, answers, data.fetch(), _without(asked.no_context, run))


def _data_of(asked: Asked, run: RunInfo | None) -> Dataset:
    """Open the rows: at the commit that was run, unless another place or revision is named."""
    theirs = run.data if run else None
    place = asked.data or (theirs.repo if theirs else None)
    if place is None:
        msg = (
            f"{quote(str(asked.place))}: answers to rows of a folder; say which with --data FOLDER"
        )
        raise UsageError(msg)
    noted = theirs.revision if theirs and place == theirs.repo else None
    return open_dataset(place, asked.revision or noted)


def _asked_of(data: Dataset, asked: DataInfo) -> Dataset:
    """Return the very rows that a run was asked.

    Raises:
        RulerError: a digest differs, or rows are missing.
    """
    for config, count in asked.rows.items():
        info, digest = data.manifest.configs.get(config), asked.digests.get(config)
        if info is None or info.digest != digest:
            found = info.digest if info else "no such config"
            msg = (
                f"{config}: the run was asked rows {digest}, the data has {found}; "
                "give --data the dataset that was run"
            )
            raise RulerError(msg)
        if count > info.rows:
            msg = f"{config}: the run asked {count} rows, the data has {info.rows}"
            raise RulerError(msg)
    return replace(data, rows=asked.rows)


def _predictions(asked: Asked, data: Dataset) -> tuple[Dataset, Answers]:
    """Read predictions of others; the configs that they touch count as asked, whole."""
    if not asked.place.exists():
        msg = f"{quote(str(asked.place))}: no such run, file or folder"
        raise UsageError(msg)
    if not (asked.model and asked.protocol):
        msg = "predictions do not say whose they are: give --model and --protocol"
        raise UsageError(msg)
    answers = read_predictions(asked.place, data.rows)
    return data.choose({config for config, _ in answers.places}), answers


def _without(folder: Path | None, run: RunInfo) -> Answers | None:
    """Return the answers without context, if they are to the same rows.

    Raises:
        UsageError: the run had its context.
        RulerError: it was asked other rows.
    """
    if folder is None:
        return None
    bare, answers = read_run(folder)
    if not bare.no_context:
        msg = f"--no-context {quote(str(folder))}: that run was given the context"
        raise UsageError(msg)
    differing = [config for config, digest in bare.data.digests.items()
                 if run.data.digests.get(config, digest) != digest]  # fmt: skip
    if differing or bare.model != run.model:
        what = f"other rows of {differing[0]}" if differing else f"another model, {bare.model}"
        msg = f"--no-context {quote(str(folder))}: that run was of {what}"
        raise RulerError(msg)
    return answers
