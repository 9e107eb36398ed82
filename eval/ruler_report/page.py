"""What a report and a comparison print and write: page, Markdown, pictures, CSV, JSON, LaTeX."""

import base64
import hashlib
import json
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from ruler_data.errors import UsageError
from ruler_data.files import refuse_links, write_bytes, write_file
from ruler_data.manifest import FILENAME as MANIFEST
from ruler_data.names import counted, quote
from ruler_eval.running.run_dir import RUN_FILE
from ruler_report import words
from ruler_report.columns import MEAN, Name
from ruler_report.conclusion import Conclusion
from ruler_report.contents import Contents, Options
from ruler_report.effective_length import EffectiveLength
from ruler_report.margin import MarginTest
from ruler_report.means import Gap
from ruler_report.tables import comparison
from ruler_report.typesetting import (
    TEMPLATES,
    Printable,
    Table,
    name_of,
    render,
    spreadsheet,
)

#: What a folder holds, by a file in it.
HOLDS = {MANIFEST: "a dataset", RUN_FILE: "a run"}


@dataclass(frozen=True, repr=False)
class Report(Printable):
    """A report of one or several runs; it prints as its first sentence and its first table.

    Attributes:
        contents: what its page shows.
        file: the page that was written; None before.
    """

    contents: Contents
    file: Path | None = None

    @property
    def conclusion(self) -> Conclusion:
        """What it is printed from."""
        return self.contents.conclusion

    @property
    def notes(self) -> tuple[str, ...]:  # type: ignore[override]
        """What a reader must know before the numbers."""
        return (*words.warnings(self.conclusion), *self.contents.notes)

    @property
    def exit_status(self) -> int:
        """1 if `score` refuses a run."""
        return int(bool(self.conclusion.refused))

    @property
    def failure(self) -> str:
        """Which run `score` refuses; empty if none."""
        names = [self.conclusion.names[run] for run in self.conclusion.refused]
        if names:
            return f"`score` refuses {', '.join(names)}; see the warnings"
        return ""

    def display_parts(self) -> list[Table | str]:
        """Return the first sentence, the first table, what scores rest on, and the file."""
        conclusion = self.conclusion
        lines: list[Table | str] = [words.headline(conclusion), self.contents.first.tables[0]]
        lines += words.further(conclusion)
        lines += [words.frame_line(conclusion), *words.validity_lines(conclusion)]
        if self.file:
            pictures = counted(len(self.contents.pictures), "picture")
            tables = counted(len(self.contents.tables), "table")
            lines.append(f"{self.file}: {pictures}, {tables}")
        return lines

    def to_record(self) -> dict[str, Any]:
        """Return the conclusion as plain values, as in `report.json`."""
        record = record_of(self.conclusion, compares=not self.contents.options.is_board)
        return record | {"file": str(self.file or "")}


@dataclass(frozen=True, repr=False)
class Comparison(Printable):
    """A run compared with another; it prints as its sentence and the table of differences.

    Attributes:
        conclusion: of the two; the second is the base.
        margin: the test that the first is not worse; None where none was asked for.
    """

    conclusion: Conclusion
    margin: MarginTest | None = None

    @property
    def notes(self) -> tuple[str, ...]:  # type: ignore[override]
        """What a reader must know before the numbers."""
        return (*words.warnings(self.conclusion), *words.notes(self.conclusion))

    @property
    def exit_status(self) -> int:
        """That of the margin; else 3 where a run has no rank, so that nothing can be told."""
        if self.margin:
            return self.margin.exit_status
        if self.conclusion.compared:
            return 0
        return 3

    @property
    def gap(self) -> Gap | None:
        """The first run's mean minus the second's."""
        return self.conclusion.gap(MEAN, 0)

    def display_parts(self) -> list[Table | str]:
        """Return the sentence, the differences, and what the scores rest on."""
        conclusion = self.conclusion
        lines: list[Table | str] = []
        if self.margin:
            lines.append(self.margin.sentence(*conclusion.names))
        if conclusion.compared:
            lines.append(words.compare_sentence(conclusion, 0))
            lines.append(comparison(conclusion, 0))
            lines.append(words.basis_of(conclusion, 0))
        elif not self.margin:
            reasons = "; ".join(f"{name}: {why}" for name, why in words.unranked(conclusion))
            lines.append(
                f"cannot tell: {reasons or 'no task at a length is complete in both runs'}"
            )
        return [*lines, words.frame_line(conclusion), *words.validity_lines(conclusion)]

    def to_record(self) -> dict[str, Any]:
        """Return the conclusion as plain values, as `ruler-eval compare --json` prints it."""
        record = record_of(self.conclusion)
        if self.margin:
            record["margin"] = self.margin.to_record()
        return record


def record_of(conclusion: Conclusion, *, compares: bool = True) -> dict[str, Any]:
    """Return a conclusion as plain values; without `compares` no differences of cells."""
    differences = []
    if compares:
        differences = [_differences(conclusion, run) for run in conclusion.compared]
    return {
        "headline": words.headline(conclusion),
        "further": words.further(conclusion),
        "warnings": words.warnings(conclusion),
        "notes": words.notes(conclusion),
        "frame": {
            "line": words.frame_line(conclusion),
            "rows": {f"{task}_{n}": rows for (task, n), rows in conclusion.frame.rows.items()},
        },
        "base": conclusion.names[conclusion.base],
        "scores": {"first": conclusion.score_name, "beside": conclusion.beside_name},
        "runs": [_run_record(conclusion, run) for run in conclusion.order],
        "differences": differences,
    }


def _run_record(conclusion: Conclusion, run: int) -> dict[str, Any]:
    """Return what is concluded of a run."""
    scores = conclusion.runs[run]
    return {
        "name": conclusion.names[run],
        "model": scores.run.model,
        "rank": conclusion.ranks.get(run),
        "unranked": conclusion.frame.unranked.get(run, ""),
        "refusals": list(scores.validity.refusals),
        "claimed": scores.claimed,
        "validity": scores.validity_line,
        "answered": scores.answered,
        "rows": scores.rows,
        **_record_of_reach(conclusion.effective(run)),
        "means": [_mean_record(conclusion, name, run) for name in conclusion.columns],
    }


def _record_of_reach(effective: EffectiveLength | None) -> dict[str, Any]:
    """Return an effective length, and what else is not excluded."""
    if effective is None:
        return {"effective": None, "effective_possible": (), "threshold": None}
    return {
        "effective": effective.length,
        "effective_possible": effective.possible,
        "threshold": effective.threshold,
    }


def _record_of_name(name: Name) -> dict[str, Any]:
    """Return the name of a mean, with its task or category and its length."""
    task, length = name
    return {"name": name_of(name), "task": task, "length": length}


def _mean_record(conclusion: Conclusion, name: Name, run: int) -> dict[str, Any]:
    record = _record_of_name(name)
    record |= {"score": None, "low": None, "high": None}
    estimate = conclusion.estimate(name, run)
    if estimate:
        record |= {"score": estimate.value, "low": estimate.low, "high": estimate.high}
    record["beside"] = conclusion.value_beside(name, run)
    record["n"] = sum(conclusion.number(cell, run) for cell in conclusion.columns[name].cells)
    return record


def _differences(conclusion: Conclusion, run: int) -> dict[str, Any]:
    """Return the differences of a run from the base."""
    gaps = []
    for name in conclusion.columns:
        gap = conclusion.gap(name, run)
        if gap is not None:
            gaps.append(_record_of_name(name) | asdict(gap))
    return {
        "run": conclusion.names[run],
        "verdict": conclusion.verdict(run, conclusion.base),
        "paired": conclusion.is_paired(run),
        "basis": words.basis_of(conclusion, run),
        "gaps": gaps,
    }


def html_page(contents: Contents) -> str:
    """Return the report as one self-contained page; no script runs but that which sorts a board."""
    script = ""
    policy = ""
    if contents.options.is_board:
        script = (TEMPLATES / "board.js").read_text(encoding="utf-8").strip()
        digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
        policy = f"script-src 'sha256-{digest}'; "
    return render(
        "report.html.j2",
        page=contents,
        words=words,
        conclusion=contents.conclusion,
        style=(TEMPLATES / "report.css").read_text(encoding="utf-8").strip(),
        script=script,
        policy=policy,
    )


def folder_to_write(out: str | Path) -> Path:
    """Return a folder for a report; what holds other work is refused."""
    folder = Path(out)
    option = f"--out {quote(str(folder))}"
    if folder.exists() and not folder.is_dir():
        raise UsageError(option, "a file; give a folder")
    for name, work in HOLDS.items():
        if (folder / name).exists():
            raise UsageError(option, f"holds {work}; give another folder")
    refuse_links(folder)
    return folder


def write(conclusion: Conclusion, options: Options, folder: Path) -> Report:
    """Write the files of a report, and return it."""
    contents = Contents(conclusion, options)
    page = folder / "index.html"
    report = Report(contents, page)
    for picture in contents.pictures:
        write_bytes(folder / "figures" / f"{picture.name}.png", picture.png)
        write_bytes(folder / "figures" / f"{picture.name}.pdf", picture.pdf)
    write_file(folder / "report.csv", csv_text(conclusion))
    record = record_of(conclusion, compares=not options.is_board)
    write_file(folder / "report.json", f"{json.dumps(record, indent=1, allow_nan=False)}\n")
    write_file(folder / "report.tex", contents.first.tables[0].latex())
    markdown = render("report.md.j2", page=contents, words=words, conclusion=conclusion)
    write_file(folder / "report.md", markdown)
    write_file(page, html_page(contents))
    return report


#: Columns of `report.csv`; scores are in percent.
COLUMNS = (
    "run", "model", "protocol", "edition", "tokenizer", "rank", "unranked", "claimed", "category",
    "task", "length", "score", "low", "high", "n", "exact",
)  # fmt: skip


def csv_text(conclusion: Conclusion) -> str:
    """Return the scores as CSV, a row for each run, task and length; no number has a unit."""
    import pandas as pd

    lines = []
    for run in conclusion.order:
        about = _about(conclusion, run)
        for cell in conclusion.frame.cells:
            mean = _mean_record(conclusion, cell, run)
            mean["category"] = spreadsheet(conclusion.category_of[cell[0]])
            mean["task"] = spreadsheet(cell[0])
            mean["exact"] = mean["beside"]
            if conclusion.score_name == "exact":
                mean["exact"] = mean["score"]
            lines.append(about | mean)
    table: str = pd.DataFrame(lines, columns=[*COLUMNS]).to_csv(index=False, float_format="%.4f")
    return table


def _about(conclusion: Conclusion, run: int) -> dict[str, str]:
    """Return the cells that are the same in all lines of a run."""
    info = conclusion.runs[run].run
    about = {
        "run": conclusion.names[run],
        "model": info.model,
        "protocol": info.protocol,
        "edition": info.data.edition,
        "tokenizer": info.data.tokenizer,
        "rank": words.format_ranks(conclusion.ranks.get(run)),
        "unranked": conclusion.frame.unranked.get(run, ""),
        "claimed": conclusion.runs[run].claimed,
    }
    return {name: spreadsheet(text) for name, text in about.items()}
