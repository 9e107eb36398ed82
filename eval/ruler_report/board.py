"""The first table of `report --board`: any number of runs, sortable by each column."""

import base64
import hashlib
from dataclasses import dataclass

from markupsafe import Markup

from ruler_report.columns import MEAN, Name
from ruler_report.conclusion import Conclusion, Ranks
from ruler_report.effective_length import EffectiveLength
from ruler_report.typesetting import TEMPLATES, format_length, format_number, render, visible
from ruler_report.words import format_ranks


@dataclass(frozen=True)
class BoardCell:
    """A cell: its text, the number that it sorts by, a shade, and another score beside it."""

    text: str
    sorts: float | None
    level: float | None = None
    beside: str = ""


@dataclass(frozen=True)
class Entry:
    """A run on a board."""

    name: str
    unranked: str
    validity: str
    cells: tuple[BoardCell, ...]


def html(conclusion: Conclusion) -> Markup:
    """Return the board of a conclusion as HTML."""
    names: list[Name] = [(None, length) for length in conclusion.frame.lengths]
    names += [(category, None) for category in conclusion.categories]
    declares = any(run.window[0] for run in conclusion.runs)
    heads = ["run", "rank", "mean", conclusion.beside_name, "effective"]
    if declares:
        heads.append("declared")
    heads += [task or format_length(length) for task, length in names]
    caption = (
        f"Mean {conclusion.score_name} score in percent, beside it the {conclusion.beside_name} "
        "score; a click on a head sorts"
    )
    entries = [_entry(conclusion, run, names, declares=declares) for run in conclusion.order]
    return Markup(render("board.html.j2", caption=caption, heads=heads, entries=entries))


def _entry(conclusion: Conclusion, run: int, names: list[Name], *, declares: bool) -> Entry:
    """Return a line of the board; `declares`: some run declares its window."""
    beside = conclusion.value_beside(MEAN, run)
    mean = conclusion.value(MEAN, run)
    cells = [
        _rank_cell(conclusion.ranks.get(run)),
        BoardCell(str(conclusion.estimate(MEAN, run) or ""), mean),
        BoardCell(format_number(beside, 1), beside),
        _reach_cell(conclusion.effective(run)),
    ]
    if declares:
        cells.append(_window_cell(conclusion.runs[run].window[0]))
    cells += [_mean_cell(conclusion, run, name) for name in names]
    return Entry(
        conclusion.names[run],
        conclusion.frame.unranked.get(run, ""),
        visible(conclusion.runs[run].validity_line),
        tuple(cells),
    )


def _rank_cell(ranks: Ranks | None) -> BoardCell:
    if ranks is None:
        return BoardCell("", None)
    return BoardCell(format_ranks(ranks), float(ranks[0]))


def _reach_cell(effective: EffectiveLength | None) -> BoardCell:
    if effective is None:
        return BoardCell("", None)
    return BoardCell(str(effective), float(effective.length or 0))


def _window_cell(declared: int | None) -> BoardCell:
    if not declared:
        return BoardCell("", None)
    return BoardCell(format_length(declared), declared)


def _mean_cell(conclusion: Conclusion, run: int, name: Name) -> BoardCell:
    value = conclusion.value(name, run)
    beside = conclusion.value_beside(name, run)
    return BoardCell(format_number(value, 1), value, value, format_number(beside, 1))


def script() -> str:
    """Return the script that sorts a board."""
    return (TEMPLATES / "board.js").read_text(encoding="utf-8").strip()


def policy(text: str) -> str:
    """Return what lets one script run on a page."""
    digest = base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()
    return f"script-src 'sha256-{digest}'; "
