"""A run beside published numbers: what differs, item by item, and what the number was.

The ledger compares what a run records with its procedure (`ruler_data.procedures`). Published
scores of the run's model stand beside its own, with how far chance alone may part the two. The CSV
files in `published/` are the tables; its SOURCES.md says where they come from.
"""

import csv
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from math import sqrt
from pathlib import Path
from statistics import fmean

from ruler_data.errors import UsageError
from ruler_data.names import counted, parse_config, quote
from ruler_data.procedures import Procedure, find_procedure
from ruler_data.tasks import TASKS
from ruler_eval.running.run_dir import RunInfo
from ruler_report.conclusion import Conclusion, group_of
from ruler_report.typesetting import Table, format_length, format_number

FOLDER = Path(__file__).parent / "published"

LENGTHS = (4096, 8192, 16384, 32768, 65536, 131072)

#: The last version of the paper, which runs are shown beside, and the edition that its scores were
#: most likely measured on, by its date.
PAPER, MEASURED_ON = "paper-2024-08", "upstream-2024-04"

#: Its tables of the mean over all tasks, by whose models they have.
OVERALL = {"aligned": "3", "base": "12"}


@dataclass(frozen=True)
class Published:
    """One printed line; scores in percent, blank cells are absent or None.

    Attributes:
        table: number of the paper's table, or `leaderboard`.
        model: as printed; upstream marks with `*` scores that the authors of the model report.
        effective: length in tokens; 0 for `<4K`.
        scores: by length in tokens.
    """

    table: str
    group: str
    model: str
    effective: int | None
    scores: Mapping[int, float]

    @property
    def average(self) -> float | None:
        """The mean over the paper's lengths; None where one is missing."""
        if {*self.scores} != {*LENGTHS}:
            return None
        return fmean(self.scores.values())

    @property
    def cells(self) -> tuple[str, ...]:
        """Its cells in a table."""
        scores = [format_number(self.scores.get(length), 1) for length in LENGTHS]
        effective = format_length(self.effective, max(self.scores)).replace("none", "<4K")
        return self.model, *scores, format_number(self.average, 1), effective


@cache
def published(name: str) -> tuple[Published, ...]:
    """Return the lines of a CSV file here.

    >>> published("paper-2024-04")[1].model
    'GPT-4'
    """
    with (FOLDER / f"{name}.csv").open(encoding="utf-8", newline="") as file:
        return tuple(map(_line, csv.DictReader(file)))


def _line(line: dict[str, str]) -> Published:
    effective = line["effective"].lstrip(">").replace("<4096", "0")
    return Published(
        table=line["table"],
        group=line["group"],
        model=line["model"],
        effective=int(effective) if effective else None,
        scores={length: float(line[str(length)]) for length in LENGTHS if line[str(length)]},
    )


def beside_published(conclusion: Conclusion) -> Iterator[Table]:
    """Yield tables of published scores with the runs that can be compared with them."""
    if {*conclusion.frame.lengths}.isdisjoint(LENGTHS):
        return
    for group, number in OVERALL.items():
        runs = [
            run
            for run in conclusion.order
            if group_of(conclusion.runs[run]) == group and conclusion.paper_length(run)
        ]
        if runs:
            yield _beside_paper(conclusion, runs, group, number)


def _beside_paper(conclusion: Conclusion, runs: Sequence[int], group: str, number: str) -> Table:
    """Return a table of the paper with some runs in it."""
    data = [conclusion.runs[run].run.data for run in runs]
    where = "on rows of this edition with other questions"
    behind_names = ""
    if {(info.edition, info.sample) for info in data} != {(MEASURED_ON, False)}:
        where = "on other rows"
        behind_names = f", {where}"
    lines_of_runs = [_run_as_line(conclusion, run, group, behind_names) for run in runs]
    printed = [line for line in published(PAPER) if (line.table, line.group) == (number, group)]
    lines = [line for line in printed if line.average is not None] + lines_of_runs
    lines.sort(key=lambda line: -(line.average or 0.0))
    caption = (
        f"13 tasks, beside the paper's {group} models (Table {number} of arXiv 2404.06654v3, most "
        f"likely measured on {MEASURED_ON}), sorted by the average; the runs are {where}, so they "
        "are not paired with these and have no intervals"
    )
    head = ("model", *map(format_length, LENGTHS), "average", "effective")
    marked = tuple(place for place, line in enumerate(lines) if line in lines_of_runs)
    return Table(f"published-{group}", caption, head, tuple(line.cells for line in lines), marked)


def _run_as_line(conclusion: Conclusion, run: int, group: str, behind_name: str) -> Published:
    """Return a run as a line of a table of the paper."""
    scores = {}
    for length in LENGTHS:
        value = conclusion.value((None, length), run)
        if value is not None:
            scores[length] = value
    reach = conclusion.paper_length(run)
    effective = reach.length if reach else None
    return Published("", group, f"{conclusion.names[run]}{behind_name}", effective, scores)


#: Normal quantile of a 95 % interval.
Z = 1.96

#: Rows of a task at a length that the paper's and the README's scores rest on.
ROWS = 500

#: Item, in the source, in the run.
Entry = tuple[str, str, str]


def procedure_of(run: RunInfo, name: str | None) -> Procedure | None:
    """Return the procedure that a run recorded, or the one that is named for it.

    Raises:
        UsageError: the run recorded another one.
    """
    if name and run.procedure and name != run.procedure:
        reason = f"the run was made by procedure {run.procedure}; leave it out"
        raise UsageError(f"--procedure {quote(name)}", reason)
    if name or run.procedure:
        return find_procedure(name or run.procedure)
    return None


def ledger(run: RunInfo, procedure: Procedure) -> list[Entry]:
    """Return every item in which a run is not as the source, the run's own options first."""
    entries = []
    for item, theirs, ours in [*_rows(run, procedure), *_sampling(run, procedure)]:
        if theirs is not None and theirs != ours:
            entries.append((item, str(theirs), str(ours)))
    entries += _prompt(run, procedure)
    entries += [(item.item, item.theirs, item.ours) for item in procedure.differs]
    return entries + [("not said by the source", text, "") for text in procedure.open]


#: Item, in the source (None where it says nothing), in the run.
_Option = tuple[str, object, object]


def _rows(run: RunInfo, procedure: Procedure) -> Iterator[_Option]:
    """Yield the options of the rows."""
    tasks = {parse_config(name)[0] for name in run.data.rows}
    fewest = min(run.data.rows.values())
    most = max(run.data.rows.values())
    yield "edition", procedure.edition, run.data.edition
    yield "suite", procedure.suite, run.data.suite
    yield "tasks", len(TASKS) if procedure.suite == "ruler" else None, len(tasks)
    yield "rows of a task", procedure.rows, fewest if fewest == most else f"{fewest} to {most}"


def _sampling(run: RunInfo, procedure: Procedure) -> Iterator[_Option]:
    """Yield the options of sampling and budget."""
    sampling = run.sampling
    unset = "the engine's own"
    yield "temperature", procedure.temperature, sampling.get("temperature", unset)
    yield "top_p", procedure.top_p, sampling.get("top_p", unset)
    extra_tokens = sampling.get("extra_tokens", 0)
    yield "tokens beyond the budget", procedure.extra_tokens or 0, extra_tokens
    yield "tokens at least", 0, sampling.get("min_tokens", 0)


def _prompt(run: RunInfo, procedure: Procedure) -> Iterator[Entry]:
    """Yield in what lengths, protocol and source texts differ."""
    lengths = {parse_config(name)[1] for name in run.data.rows}
    if lengths - {*procedure.lengths}:
        theirs = ", ".join(f"{length:,}" for length in procedure.lengths)
        ours = ", ".join(f"{length:,}" for length in sorted(lengths))
        yield "length in tokens", theirs, ours
    if run.protocol not in procedure.protocols:
        yield "protocol", " or ".join(procedure.protocols), run.protocol
    if procedure.prefix == "turn" and run.protocol == "chat" and not run.procedure:
        yield "answer prefix", "ends the user's message", "left out"
    if run.data.sample:
        yield "source texts", "essays, SQuAD, HotpotQA", "the sample corpus"
    for name in run.refused:
        yield "a field that the server refused", name, "left out"


def ledger_table(conclusion: Conclusion, run: int, procedure: Procedure) -> Table:
    """Return the ledger of a run."""
    title = f"Ledger of {conclusion.names[run]}: what differs from procedure {procedure.name}"
    caption = f"{title} ({procedure.about}), and what its sources leave open"
    head = ("item", "in the source", "in the run")
    return Table("ledger", caption, head, tuple(ledger(conclusion.runs[run].run, procedure)))


def expected_scores(conclusion: Conclusion, run: int, procedure: Procedure | None) -> Table:
    """Return published means of the run's model, and how far chance alone may part both."""
    rows = []
    rows_there = procedure.rows if procedure else ROWS
    model_of_run = conclusion.runs[run].run.model
    for source, model, scores in _published(procedure):
        if procedure is None and not _is_same_model(model, model_of_run):
            continue
        for length, score in scores.items():
            mean = conclusion.value((None, length), run)
            if mean is not None:
                chance = _chance(conclusion, run, length, score, rows_there)
                cells = (format_number(score, 1), format_number(mean, 1), f"± {chance:.1f}")
                rows.append((model, format_length(length), *cells, source))
    where = "of this model, on upstream's rows or by its authors"
    if procedure:
        where = f"by procedure {procedure.name}"
    caption = (
        f"What to expect of {conclusion.names[run]}: published means {where}, in percent, and how "
        "far two measurements of one model on different questions may differ by chance (95 %); "
        "what the ledger names is not in it"
    )
    head = ("model", "length", "published", "here", "by chance", "source")
    return Table("expected", caption, head, tuple(rows))


def _chance(conclusion: Conclusion, run: int, length: int, score: float, rows_there: int) -> float:
    """Return how far chance may part a published mean and a run's, in percentage points."""
    tasks = conclusion.frame.tasks
    count = rows_there * len(tasks)
    count_here = sum(conclusion.number((task, length), run) for task in tasks)
    share = score / 100
    return 100 * Z * sqrt(share * (1 - share) * (1 / count + 1 / count_here))


#: Source, model, and scores by length in tokens.
Model = tuple[str, str, Mapping[int, float]]


def _published(procedure: Procedure | None) -> Iterator[Model]:
    """Yield the models that were published with a procedure, or with none that is named."""
    if procedure is None:
        yield from _models_of(PAPER)
        yield from _models_of("leaderboard")
        yield from _models_by("unnamed")
    elif procedure.published == "procedures":
        yield from _models_by(procedure.name)
    elif procedure.published:
        yield from _models_of(procedure.published)


def _models_of(file: str) -> Iterator[Model]:
    """Yield the aligned models of a file of published scores."""
    for line in published(file):
        if line.table in ("3", "leaderboard") and line.group == "aligned":
            yield file, line.model, line.scores


def _models_by(procedure: str) -> Iterator[Model]:
    """Yield the models whose scores were published with a procedure."""
    models: dict[tuple[str, str], dict[int, float]] = {}
    with (FOLDER / "procedures.csv").open(encoding="utf-8", newline="") as file:
        for cells in csv.DictReader(file):
            if cells["procedure"] == procedure:
                scores = models.setdefault((cells["source"], cells["model"]), {})
                scores[int(cells["length"])] = float(cells["score"])
    for (source, model), scores in models.items():
        yield source, model, scores


def _is_same_model(printed: str, name: str) -> bool:
    """Whether a printed name, such as `Llama3.1 (8B)`, is that of a Hub id or folder."""
    plain = [re.sub("[^a-z0-9]", "", text.lower()) for text in (printed, name)]
    return len(plain[0]) > 3 and plain[0] in plain[1]


def tables_of(conclusion: Conclusion, run: int, name: str | None) -> Iterator[tuple[str, Table]]:
    """Yield the tables of a run with the line under which each folds."""
    procedure = procedure_of(conclusion.runs[run].run, name)
    if procedure is not None:
        table = ledger_table(conclusion, run, procedure)
        yield f"Ledger of procedure {procedure.name}: {counted(len(table.rows), 'item')}", table
    yield "What should this set-up give?", expected_scores(conclusion, run, procedure)
