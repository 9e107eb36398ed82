"""`ruler-eval mend`: what is wrong with the folder of a run, and what can be mended."""

from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import typer

from ruler_data.errors import RulerError, UsageError
from ruler_data.files import write_bytes
from ruler_data.names import quote
from ruler_data.terminal import say
from ruler_eval import journal
from ruler_eval.predictions import read_info
from ruler_eval.run_dir import RunFolder
from ruler_eval.schema import Prediction, RunInfo
from ruler_eval.sharding import Key, Shard


@dataclass(frozen=True)
class Line:
    """A line of a journal; `prediction` is None if it is not one."""

    shard: Shard
    number: int
    data: bytes
    prediction: Prediction | None

    def __str__(self) -> str:
        return f"answers-{self.shard.name}.jsonl:{self.number}"


@dataclass(frozen=True)
class Findings:
    """What is wrong with a run.

    Attributes:
        drop: lines to remove.
        mended: what removing them mends, one text each.
        open: what is left for the user.
    """

    drop: list[Line]
    mended: list[str]
    open: list[str]


def mend(
    place: Annotated[Path, typer.Argument(help="Folder of a run.")],
    ask_again: Annotated[
        bool,
        typer.Option(
            "--ask-again", help="Remove rows with different answers, so that a run asks them again."
        ),
    ] = False,
) -> None:
    """Find and mend damage in the folder of a run; a copy is kept."""
    folder = RunFolder(place)
    if not folder.journals():
        msg = f"{quote(str(place))}: holds no answers of a run; give the folder of a run"
        raise UsageError(msg)
    with folder.hold_all():
        lines = [line for shard in folder.journals() for line in _lines(folder, shard)]
        found = examine(lines, ask_again=ask_again)
        try:
            found.open.extend(_strangers(lines, read_info(place)))
        except RulerError as error:
            found.open.append(f"{error}; copy run.json of a run with the same options here")
        if found.drop:
            copy = _rewrite(folder, lines, found.drop)
            found.mended.append(f"the journals as they were are in {copy}")
    for text in (*found.mended, *found.open):
        say(text)
    if found.open:
        msg = f"{place}: {len(found.open)} findings are left"
        raise RulerError(msg)
    answered = sum(bool(line.prediction and not line.prediction.error) for line in lines)
    dropped = sum(bool(line.prediction and not line.prediction.error) for line in found.drop)
    say(f"{place}: in order, {answered - dropped} answers")


def examine(lines: list[Line], *, ask_again: bool) -> Findings:
    """Return what is wrong with the lines of all journals of a run.

    Of a row that was answered several times the first answer is kept, if all are the same text.
    """
    found = Findings([], [], [])
    last = {line.shard: line.number for line in lines if line.prediction}
    rows: dict[Key, list[Line]] = {}
    for line in lines:
        if line.prediction:
            rows.setdefault(line.prediction.key, []).append(line)
        elif line.number > last.get(line.shard, 0):
            found.drop.append(line)
            found.mended.append(f"{line}: incomplete end, {len(line.data)} bytes removed")
        else:
            found.open.append(f"{line}: not a line of a journal; remove it, or correct it")
    counts: Counter[str] = Counter()
    for key, several in rows.items():
        if len(several) == 1:
            continue
        row = f"{key[0]}/{key[1]}" + (f" sample {key[2]}" if key[2] else "")
        answers = [line for line in several if line.prediction and not line.prediction.error]
        texts = {(line.prediction.text, line.prediction.finish) for line in answers}  # type: ignore[union-attr]
        if len(texts) <= 1:
            kept = (answers or several)[0]
            found.drop.extend(line for line in several if line is not kept)
            counts["answered twice with the same text, the first is kept"] += 1
        elif ask_again:
            found.drop.extend(several)
            counts["with different answers, all removed: run again to ask them"] += 1
        else:
            told = "; ".join(f"{line}: {quote(str(line.prediction.text))}" for line in answers)  # type: ignore[union-attr]
            found.open.append(
                f"{row}: different answers: {told}; remove all lines but one, or all by --ask-again"
            )
    found.mended.extend(f"{count} rows {what}" for what, count in counts.items())
    return found


def _lines(folder: RunFolder, shard: Shard) -> list[Line]:
    lines = []
    with folder.journal(shard).open("rb") as file:
        for number, data in enumerate(file, 1):
            try:
                prediction = journal.parse(data, "")
            except RulerError:
                prediction = None
            lines.append(Line(shard, number, data, prediction))
    return lines


def _strangers(lines: list[Line], run: RunInfo) -> list[str]:
    """Return the rows that are not of the run."""
    return [
        f"{line}: {line.prediction.config}/{line.prediction.index} is not a row of this run; "
        "move the line to the run that it is from"
        for line in lines
        if line.prediction
        and not (
            0 <= line.prediction.index < run.data.rows.get(line.prediction.config, 0)
            and 0 <= line.prediction.sample < run.samples
        )
    ]


def _rewrite(folder: RunFolder, lines: list[Line], drop: list[Line]) -> Path:
    """Write journals without some lines; return the folder with those that were there."""
    number = 1
    while (copy := folder.path / f"before-mend-{number}").exists():
        number += 1
    dropped = {id(line) for line in drop}
    shards = {line.shard for line in drop}
    for shard in sorted(shards):
        path = folder.journal(shard)
        write_bytes(copy / path.name, path.read_bytes())
    for shard in sorted(shards):
        kept = (line.data for line in lines if line.shard == shard and id(line) not in dropped)
        write_bytes(folder.journal(shard), b"".join(kept))
    return copy
