"""`ruler-eval mend`: what is wrong with the folder of a run, and what can be mended."""

from itertools import count
from pathlib import Path
from typing import Annotated

import typer

from ruler_data.errors import RulerError, UsageError
from ruler_data.files import write_bytes
from ruler_data.names import counted, quote
from ruler_data.terminal import say
from ruler_eval import journal
from ruler_eval.journal import Line
from ruler_eval.run_dir import JOURNAL, RunFolder
from ruler_eval.schema import Key, Prediction, read_info


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
        where = quote(str(place))
        raise UsageError(where, "holds no answers of a run; give the folder of a run")
    with folder.hold_all():
        paths = [folder.file(JOURNAL, shard) for shard in folder.journals()]
        lines = [line for path in paths for line in journal.lines(path)]
        drop, mended, left = _examine(lines, ask_again=ask_again)
        left += _strangers(lines, place)
        if drop:
            mended.append(f"the journals as they were are in {_rewrite(place, lines, drop)}")
    for text in (*mended, *left):
        say(text)
    if left:
        raise RulerError(place, f"left: {counted(len(left), 'finding')}")
    answers = sum(_answer(line) is not None for line in lines if line.where not in drop)
    say(f"{place}: in order, {answers} answers")


def _answer(line: Line) -> tuple[str | None, str | None] | None:
    """Return text and finish reason of a line, if its row is answered."""
    each = line.found
    if isinstance(each, RulerError) or each.error is not None:
        return None
    return each.text, each.finish


def _examine(lines: list[Line], *, ask_again: bool) -> tuple[set[str], list[str], list[str]]:
    """Return the lines of journals to drop, what this mends, and what is left for the user.

    Of a row that was answered several times the first answer is kept, if all are the same text.
    """
    drop, mended, left = set[str](), list[str](), list[str]()
    last = {line.path: line.end for line in lines if isinstance(line.found, Prediction)}
    rows: dict[Key, list[Line]] = {}
    for line in lines:
        if isinstance(line.found, Prediction):
            rows.setdefault(line.found.key, []).append(line)
        elif line.end > last.get(line.path, 0):
            drop.add(line.where)
            mended.append(f"{line.where}: incomplete end, {len(line.data)} bytes removed")
        else:
            left.append(f"{line.where}: not a line of a journal; remove it, or correct it")
    same = different = 0
    for (config, index, sample), several in rows.items():
        answers = {line.where: answer for line in several if (answer := _answer(line))}
        if len(set(answers.values())) > 1 and ask_again:
            drop |= {line.where for line in several}
            different += 1
        elif len(set(answers.values())) > 1:
            row = f"{config}/{index}" + (f" sample {sample}" if sample else "")
            texts = [f"{where}: {quote(str(text))}" for where, (text, _) in answers.items()]
            remedy = "remove all lines but one, or all by --ask-again"
            left.append(f"{row}: different answers: {'; '.join(texts)}; {remedy}")
        elif len(several) > 1:
            drop |= {line.where for line in several} - {next(iter(answers), several[0].where)}
            same += 1
    if same:
        mended.append(f"{same} rows answered twice with the same text, the first is kept")
    if different:
        mended.append(f"{different} rows with different answers removed: run again to ask them")
    return drop, mended, left


def _strangers(lines: list[Line], place: Path) -> list[str]:
    """Return the rows that are not of the run, or why that is not known."""
    try:
        run = read_info(place)
    except RulerError as error:
        return [f"{error}; copy run.json of a run with the same options here"]
    return [
        f"{line.where}: {each.config}/{each.index} is not a row of this run; move the line to the "
        "run that it is from"
        for line in lines
        if isinstance(each := line.found, Prediction)
        if not 0 <= each.index < run.data.rows.get(each.config, 0)
        or not 0 <= each.sample < run.samples
    ]


def _rewrite(run: Path, lines: list[Line], drop: set[str]) -> Path:
    """Write journals without some lines; return the folder with those that were there."""
    copies = (run / f"before-mend-{number}" for number in count(1))
    copy = next(path for path in copies if not path.exists())
    for path in dict.fromkeys(line.path for line in lines if line.where in drop):
        write_bytes(copy / path.name, path.read_bytes())
        kept = [line.data for line in lines if line.path == path and line.where not in drop]
        write_bytes(path, b"".join(kept))
    return copy
