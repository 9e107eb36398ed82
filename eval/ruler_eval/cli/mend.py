"""`ruler-eval mend`: what is wrong with the folder of a run, and what can be mended."""

from pathlib import Path
from typing import Annotated, NamedTuple

import typer

from ruler_data.errors import RulerError, UsageError
from ruler_data.files import write_bytes
from ruler_data.names import quote
from ruler_data.terminal import say
from ruler_eval import journal
from ruler_eval.run_dir import RunFolder
from ruler_eval.schema import Prediction, RunInfo, read_info
from ruler_eval.sharding import Key


class Line(NamedTuple):
    """A line of a journal; `prediction` is None if it is not one."""

    path: Path
    number: int
    data: bytes
    prediction: Prediction | None

    @property
    def where(self) -> str:
        """File and number, for messages."""
        return f"{self.path.name}:{self.number}"

    @property
    def answer(self) -> tuple[str | None, str | None] | None:
        """Text and finish reason, if the row is answered."""
        found = self.prediction
        return (found.text, found.finish) if found and found.error is None else None


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
        lines = [line for shard in folder.journals() for line in _read(folder.journal(shard))]
        drop, mended, left = examine(lines, ask_again=ask_again)
        try:
            left += _strangers(lines, read_info(place))
        except RulerError as error:
            left.append(f"{error}; copy run.json of a run with the same options here")
        if drop:
            copy = _rewrite(folder, lines, drop)
            mended.append(f"the journals as they were are in {copy}")
    for text in (*mended, *left):
        say(text)
    if left:
        msg = f"{place}: {len(left)} findings are left"
        raise RulerError(msg)
    answers = sum(line.answer is not None for line in lines if line.where not in drop)
    say(f"{place}: in order, {answers} answers")


def examine(lines: list[Line], *, ask_again: bool) -> tuple[set[str], list[str], list[str]]:
    """Return the lines of journals to drop, what this mends, and what is left for the user.

    Of a row that was answered several times the first answer is kept, if all are the same text.
    """
    drop, mended, left = set[str](), list[str](), list[str]()
    last = {line.path: line.number for line in lines if line.prediction}
    rows: dict[Key, list[Line]] = {}
    for line in lines:
        if line.prediction:
            rows.setdefault(line.prediction.key, []).append(line)
        elif line.number > last.get(line.path, 0):
            drop.add(line.where)
            mended.append(f"{line.where}: incomplete end, {len(line.data)} bytes removed")
        else:
            left.append(f"{line.where}: not a line of a journal; remove it, or correct it")
    same = different = 0
    for (config, index, sample), several in rows.items():
        answers = {line.where: line.answer for line in several if line.answer}
        distinct = len(set(answers.values()))
        if len(several) > 1 and distinct <= 1:
            kept = next(iter(answers), several[0].where)
            drop |= {line.where for line in several} - {kept}
            same += 1
        elif distinct > 1 and ask_again:
            drop |= {line.where for line in several}
            different += 1
        elif distinct > 1:
            texts = "; ".join(
                f"{where}: {quote(str(text))}" for where, (text, _) in answers.items()
            )
            row = f"{config}/{index}" + (f" sample {sample}" if sample else "")
            left.append(
                f"{row}: different answers: {texts}; remove all lines but one, or all by "
                "--ask-again"
            )
    if same:
        mended.append(f"{same} rows answered twice with the same text, the first is kept")
    if different:
        mended.append(f"{different} rows with different answers removed: run again to ask them")
    return drop, mended, left


def _read(path: Path) -> list[Line]:
    lines = []
    with path.open("rb") as file:
        for number, data in enumerate(file, 1):
            try:
                prediction = journal.parse(data, "")
            except RulerError:
                prediction = None
            lines.append(Line(path, number, data, prediction))
    return lines


def _strangers(lines: list[Line], run: RunInfo) -> list[str]:
    """Return the rows that are not of the run."""
    known = {(config, index) for config, rows in run.data.rows.items() for index in range(rows)}
    return [
        f"{line.where}: {each.config}/{each.index} is not a row of this run; move the line to the "
        "run that it is from"
        for line in lines
        if (each := line.prediction)
        and not (each.key[:2] in known and 0 <= each.sample < run.samples)
    ]


def _rewrite(folder: RunFolder, lines: list[Line], drop: set[str]) -> Path:
    """Write journals without some lines; return the folder with those that were there."""
    number = 1
    while (copy := folder.path / f"before-mend-{number}").exists():
        number += 1
    changed = {line.path: list[bytes]() for line in lines if line.where in drop}
    for path in changed:
        write_bytes(copy / path.name, path.read_bytes())
    for line in lines:
        if line.path in changed and line.where not in drop:
            changed[line.path].append(line.data)
    for path, kept in changed.items():
        write_bytes(path, b"".join(kept))
    return copy
