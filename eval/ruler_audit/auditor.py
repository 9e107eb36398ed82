"""One audit: from answers to what agrees, what differs, and what cannot be known.

Rows are rebuilt where their edition, words and tokenizer are known and here, and answers are scored
on them as `ruler-eval score` does. Where rows cannot be rebuilt, the official score needs the gold
answers alone, and those came with the answers.
"""

import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from statistics import fmean
from tempfile import TemporaryDirectory
from typing import Any

import pyarrow.compute as pc

from ruler_audit.answers import Claim, Group
from ruler_audit.editions import PUBLISHED_ROWS, Finder, Origin, agreed, placed
from ruler_builders.exchange.layouts import all_tasks
from ruler_builders.pipeline.build import build_folder
from ruler_builders.pipeline.plan import BuildPlan, select_suite
from ruler_data.errors import RulerError
from ruler_data.manifest import BALANCED
from ruler_data.names import config_file, counted
from ruler_data.parquet import read_rows
from ruler_data.progress import progress
from ruler_data.row import Row
from ruler_data.tasks import TASKS, Qa
from ruler_eval.running.data import open_dataset
from ruler_eval.scoring.loading import score_predictions
from ruler_eval.scoring.metrics import CLEANED, SCORERS, Scorer, clean
from ruler_eval.scoring.scores import Scores
from ruler_eval.scoring.table import CellMeans, means
from ruler_report.conclusion import Conclusion, conclude

AGREES = "agrees"
DIFFERS = "differs"
UNKNOWN = "cannot be known"
#: The exit status of each verdict.
STATUS = {AGREES: 0, DIFFERS: 1, UNKNOWN: 3}
#: Tasks whose gold answers depend on each token of a row.
TELLING = ("cwe", "fwe")
#: How a tool sends RULER's rows, where it is not asked otherwise.
PROTOCOLS = {"kvpress": "completion", "NeMo Gym": "chat", "RULER v2": "chat"}


@dataclass(frozen=True)
class Line:
    """What is said of the answers to one task and length.

    Attributes:
        name: of the config, or of the task where its length is unknown.
        rows: that were answered.
        gold: rows whose gold answers are those of the rebuilt row; None if none was rebuilt.
        official: mean in [0, 1]; None where it cannot be scored.
        interval: of 95 %, low and high, as reports have it; None where rows were not rebuilt, or
            there is one row.
        exact: likewise; None where rows were not rebuilt.
        printed: the mean that came with the answers; empty if none did.
        rule: of the tool, by which the mean came out as printed; empty where none was needed.
        verdict: one of `STATUS`.
        reason: of the verdict.
    """

    name: str
    rows: int
    gold: int | None = None
    official: float | None = None
    interval: tuple[float, float] | None = None
    exact: float | None = None
    printed: str = ""
    rule: str = ""
    verdict: str = AGREES
    reason: str = ""


@dataclass(frozen=True)
class Audit:
    """What answers of others are of, and which numbers follow from them.

    Attributes:
        place: file or folder of the answers.
        tool: that wrote them.
        origin: what drew their rows.
        tokenizer: that the rows were rebuilt with; empty if they were not.
        lines: one for each task and length.
        validity: line of the scores; empty where rows were not rebuilt.
        labels: wrong answers by label; empty where rows were not rebuilt.
        unknown: what cannot be known here, and what would tell it.
        scores: the table; None where rows were not rebuilt.
    """

    place: str
    tool: str
    origin: Origin
    tokenizer: str
    lines: tuple[Line, ...]
    validity: str = ""
    labels: Mapping[str, int] = field(default_factory=dict)
    unknown: tuple[str, ...] = ()
    scores: Scores | None = field(default=None, repr=False, compare=False)

    @property
    def verdict(self) -> str:
        """The verdict of all lines: the worst of them."""
        return _worst(line.verdict for line in self.lines)

    def to_record(self) -> dict[str, Any]:
        """Return all of it but the table as plain values."""
        record = {name: value for name, value in vars(self).items() if name != "scores"}
        record["origin"] = asdict(self.origin)
        record["lines"] = [asdict(line) for line in self.lines]
        return {**record, "verdict": self.verdict}

    def __str__(self) -> str:
        return "\n".join(self._said())

    def _said(self) -> Iterator[str]:
        rows = sum(line.rows for line in self.lines)
        yield f"{self.place}: {self.tool}, {counted(rows, 'row')}"
        yield f"rows: {_origin_text(self.origin, self.tokenizer)}"
        yield f"{'':22}{'rows':>5}{'score':>8}{'95 % interval':>15}{'printed':>9}{'exact':>8}"
        for line in self.lines:
            numbers = f"{line.rows:>5}{_percent(line.official):>8}{_range(line.interval):>15}"
            numbers += f"{line.printed or '-':>9}{_percent(line.exact):>8}"
            yield f"{line.name:<22}{numbers}  {line.verdict}"
            for note in (line.rule, line.reason):
                if note:
                    yield f"    {note}"
        if self.labels:
            named = ", ".join(f"{label} {number:,}" for label, number in self.labels.items())
            yield f"wrong answers: {named}"
        if self.validity:
            yield self.validity
        for note in self.unknown:
            yield f"cannot be known: {note}"


def _worst(verdicts: Iterable[str]) -> str:
    found = {*verdicts}
    for verdict in (DIFFERS, UNKNOWN):
        if verdict in found:
            return verdict
    return AGREES


def _percent(share: float | None) -> str:
    if share is None:
        return "-"
    return f"{100 * share:.2f}"


def _range(interval: tuple[float, float] | None) -> str:
    if interval is None:
        return "-"
    low, high = interval
    return f"[{100 * low:.1f}, {100 * high:.1f}]"


def _origin_text(origin: Origin, tokenizer: str) -> str:
    if not origin.editions:
        return "of no edition that could be told"
    text = " or ".join(origin.editions)
    if origin.words:
        text += f", wonderwords {' or '.join(origin.words)}"
    if tokenizer:
        return f"{text}; rebuilt with tokenizer {tokenizer}"
    return f"{text}; not rebuilt"


class Auditor:
    """Audits the answers of one length in a folder.

    Args:
        groups: of one length in the folder, by task.
        finder: with sources and tokenizers.
    """

    def __init__(self, groups: Sequence[Group], finder: Finder) -> None:
        self._groups = sorted(groups, key=lambda group: _order(group.task))
        self._length = groups[0].length
        self._finder = finder
        self._origins: dict[str, Origin] = {}
        self._unknown: list[str] = []
        self._missing: dict[str, list[str]] = {}  # tasks by the source that is not here
        self._rebuilt: dict[str, list[Row]] = {}
        self._scores: Scores | None = None
        self._conclusion: Conclusion | None = None
        self._means: dict[tuple[str, int], CellMeans] = {}

    def audit(self, workers: int, advance: Callable[[str, int], None]) -> Audit:
        """Find the rows, rebuild them where that can be done, and score the answers."""
        origin = self._find()
        with TemporaryDirectory(prefix="ruler-audit-") as scratch:
            folder = Path(scratch) / "rows"
            if self._rebuild(origin, folder, workers, advance):
                self._read_rebuilt(folder)
                self._score(folder)
        missing = [f"{', '.join(tasks)}: {error}" for error, tasks in self._missing.items()]
        labels = Counter[str]()
        if self._scores is not None:
            labels.update(filter(None, self._scores.table["label"].to_pylist()))
        return Audit(
            _place_of(self._groups),
            self._groups[0].tool,
            origin,
            origin.tokenizers[0] if self._rebuilt else "",
            tuple(map(self._line, self._groups)),
            validity=self._scores.validity_line if self._scores else "",
            labels=dict(labels.most_common()),
            unknown=(*self._unknown, *missing),
            scores=self._scores,
        )

    # --- Which rows ------------------------------------------------------------------------------

    def _find(self) -> Origin:
        """Find what drew the rows; tokenizers are tried where only they can tell."""
        for group in self._groups:
            self._origins[group.name] = self._finder.origin(group)
        shown = agreed([*self._origins.values()])
        if shown.editions == (BALANCED,):  # no gold answer depends on the tokenizer
            return replace(shown, tokenizers=tuple(filter(None, [self._finder.tokenizer])))
        tested = [group for group in self._groups if _depends_on_tokenizer(group)]
        for group in tested:
            origin = self._finder.with_tokenizers(group, self._origins[group.name], shown)
            self._origins[group.name] = origin
            if origin.tokenizers and not shown.editions:
                shown = origin
        names = self._tokenizers(tested)
        return replace(agreed([*self._origins.values()]), tokenizers=names)

    def _tokenizers(self, tested: Sequence[Group]) -> tuple[str, ...]:
        """Return the tokenizers that draw the gold answers of enough tasks.

        A task may hold edited answers. A tokenizer that is like that of the rows draws some tasks,
        but never cwe or fwe, whose gold answers depend on each token.
        """
        tasks: dict[str, list[str]] = {}
        for group in tested:
            for name in self._origins[group.name].tokenizers:
                tasks.setdefault(name, []).append(group.task)
        best = max(map(len, tasks.values()), default=0)
        names = []
        for name, drawn in tasks.items():
            tells = bool({*TELLING} & {*drawn}) and 2 * len(drawn) >= len(tested)
            is_enough = tells or len(drawn) >= len(tested) - 1
            if len(drawn) == best and is_enough:
                names.append(name)
        return tuple(names)

    def _rebuild(
        self, origin: Origin, folder: Path, workers: int, advance: Callable[[str, int], None]
    ) -> bool:
        """Build the rows of all groups whose origin is known; False if it cannot be done here."""
        groups = [group for group in self._groups if self._is_at_hand(group, origin)]
        reason = self._why_not_rebuilt(origin, groups)
        if reason:
            self._unknown.append(reason)
            return False
        assert self._length is not None
        rows = 1 + max(answer.index for group in groups for answer in group.rows)
        if any(group.is_sampled for group in groups):
            rows = max(rows, PUBLISHED_ROWS)
        plan = BuildPlan(
            origin.tokenizers[0],
            select_suite("ruler", [group.task for group in groups], [self._length], rows, None),
            folder,
            self._finder.seed,
            sources=self._finder.library.folder,
            sources_kind="real",
            edition=origin.editions[0],
            network=False,
            words=origin.words[-1] if origin.words else "",
        )
        try:
            build_folder(plan, workers=workers, force=False, progress=advance, warn=lambda _: None)
        except RulerError as error:
            self._unknown.append(f"the rows could not be rebuilt: {error}")
            return False
        return True

    def _is_at_hand(self, group: Group, origin: Origin) -> bool:
        """Whether the edition of a group is known and its sources are here; else say why not."""
        if group.task not in TASKS or group.rows[0].outputs is None or not origin.editions:
            return False
        try:
            self._finder.check_sources(TASKS[group.task], origin)
        except RulerError as error:
            self._missing.setdefault(str(error), []).append(group.task)
            return False
        return True

    def _why_not_rebuilt(self, origin: Origin, groups: Sequence[Group]) -> str:
        """Return why rows cannot be rebuilt here, and what would tell; empty if they can."""
        if not groups:
            return "the rows: no gold answers show their edition, or their sources are not here"
        if not origin.editions:
            return "the rows: tasks show different editions"
        if self._length is None:
            return "the length of the rows: no name tells it; give --length"
        if not origin.tokenizers:
            return (
                "the text of the rows: their tokenizer is not known, or not here; give --tokenizer "
                f"(not here: {', '.join(self._finder.missing) or 'none'})"
            )
        return ""

    def _read_rebuilt(self, folder: Path) -> None:
        """Read the rows that were rebuilt; answers to sampled rows get the numbers of those."""
        for place, group in enumerate(self._groups):
            path = folder / config_file(group.name)
            if not path.is_file():
                continue
            rows = [*read_rows(path)]
            self._rebuilt[group.name] = rows
            if group.is_sampled:
                self._groups[place] = placed(group, rows)

    # --- Scores ----------------------------------------------------------------------------------

    def _score(self, folder: Path) -> None:
        """Score the groups whose gold answers are those of the rebuilt rows."""
        groups = [group for group in self._groups if self._same_gold(group) == len(group.rows)]
        if not groups:
            return
        records = []
        for group in groups:
            for answer in group.answers:
                row = {"config": group.name, "index": answer.index, "sample": answer.sample}
                records.append({**row, "prediction": answer.text})
        tool = groups[0].tool
        protocol = PROTOCOLS.get(tool, "base")
        scores = score_predictions(records, open_dataset(str(folder)), tool, protocol)
        if any(group.is_sampled for group in groups):  # nobody was asked the other rows
            table = scores.table.filter(pc.is_valid(scores.table["official"]))
            scores = replace(scores, table=table)
        self._scores = scores
        self._means = {(cell.task, cell.length): cell for cell in means(scores.table)}
        self._conclusion = conclude([scores], score="official")

    def _same_gold(self, group: Group) -> int | None:
        """Return how many rows have the gold answers of the rebuilt ones; None without those."""
        rows = self._rebuilt.get(group.name)
        if rows is None:
            return None
        equal = 0
        for answer in group.rows:
            if answer.index < len(rows) and rows[answer.index].outputs == answer.outputs:
                equal += 1
        return equal

    def _line(self, group: Group) -> Line:
        """Return what is said of a group."""
        line = Line(group.name, len(group.rows), self._same_gold(group), _mean_of(group))
        cell = self._means.get((group.task, group.length or 0))
        if cell is not None and line.gold == line.rows:
            interval = self._interval(group)
            line = replace(line, official=cell.official, exact=cell.exact, interval=interval)
        if group.claim is not None:
            line = replace(line, printed=group.claim.printed)
        if line.gold is not None and line.gold < line.rows:
            wrong = counted(line.rows - line.gold, "row")
            reason = f"the gold answers of {wrong} are not the rebuilt row's"
            return replace(line, verdict=DIFFERS, reason=reason)
        if group.claim and line.official is not None and not group.claim.is_met_by(line.official):
            line = replace(line, rule=_rule_of(group, group.claim))
            if not line.rule:
                reason = "the answers do not give the printed mean"
                return replace(line, verdict=DIFFERS, reason=reason)
        if line.gold is None:
            return replace(line, verdict=UNKNOWN, reason=self._origins[group.name].reason)
        return line

    def _interval(self, group: Group) -> tuple[float, float] | None:
        """Return the interval of the mean of a group, as shares of 1."""
        assert self._conclusion is not None
        estimate = self._conclusion.estimate((group.task, group.length), 0)
        if estimate is None or estimate.low is None or estimate.high is None:
            return None
        return estimate.low / 100, estimate.high / 100


def _place_of(groups: Sequence[Group]) -> str:
    """Return the file of all groups, or the folder of their run."""
    places = {group.place for group in groups}
    if len(places) > 1:
        return str(groups[0].run)
    return places.pop()


def _order(task: str) -> int:
    names = [*TASKS, task]
    return names.index(task)


def _depends_on_tokenizer(group: Group) -> bool:
    """Whether a tokenizer may be told by the gold answers of a group."""
    task = TASKS.get(group.task)
    if task is None or isinstance(task.params, Qa):
        return False
    return group.length is not None and group.rows[0].outputs is not None


def _mean_of(group: Group) -> float | None:
    """Return the official mean from the gold answers that came with the answers."""
    task = all_tasks().get(group.task)
    if task is None or any(answer.outputs is None for answer in group.answers):
        return None
    return _mean(group, SCORERS[task.metric], clean if task.metric in CLEANED else str)


def _mean(group: Group, scorer: Scorer, cleaned: Callable[[str], str]) -> float:
    return fmean(scorer(cleaned(answer.text), answer.outputs or ()) for answer in group.answers)


_CONTROL = re.compile(r"[\x00-\x1f]")


def _rule_of(group: Group, claim: Claim) -> str:
    """Return the rule of a tool by which its mean comes out as printed; empty if none does."""
    task = all_tasks()[group.task]
    scorer = SCORERS[task.metric]
    if group.tool == "kvpress":
        mean = _mean(group, scorer, lambda text: _CONTROL.sub("", text.strip()).strip())
        rule = "kvpress removes control characters, where upstream puts line feeds"
    elif group.tool == "lm-eval" and task.metric == "part":
        mean = _mean(group, SCORERS["all"], clean)
        rule = "lm-eval scores qa by the share of the gold answers named"
    else:
        mean = _mean(group, scorer, str.strip)
        rule = f"{group.tool} leaves control characters in answers"
    if claim.is_met_by(mean):
        return rule
    return ""


class Audits(tuple[Audit, ...]):
    """The audits of several folders and lengths."""

    def __str__(self) -> str:
        return "\n\n".join(map(str, self))

    def to_record(self) -> list[dict[str, Any]]:
        """Return the audits as plain values."""
        return [audit.to_record() for audit in self]

    @property
    def verdict(self) -> str:
        """The worst verdict of all audits."""
        return _worst(audit.verdict for audit in self)

    @property
    def exit_status(self) -> int:
        """0 agrees, 1 differs, 3 cannot be known."""
        return STATUS[self.verdict]

    @property
    def failure(self) -> str:
        """The verdict in a line, unless everything agrees."""
        lines = [line for audit in self for line in audit.lines]
        names = [line.name for line in lines if line.verdict == self.verdict]
        if self.verdict == AGREES:
            return ""
        return f"{self.verdict}: {', '.join(names)}"


def audit_groups(groups: Sequence[Group], finder: Finder, workers: int) -> Audits:
    """Return the audit of each folder and length."""
    runs: dict[tuple[Path, int | None], list[Group]] = {}
    for group in groups:
        runs.setdefault((group.run, group.length), []).append(group)
    audits = []
    with progress(None, "auditing") as advance:
        for members in runs.values():
            if members[0].length is None:
                length = finder.length_of(members)
                members = [replace(group, length=length) for group in members]
            audits.append(Auditor(members, finder).audit(workers, advance))
    return Audits(audits)
