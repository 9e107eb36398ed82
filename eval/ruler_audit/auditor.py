"""One audit: from answers to what agrees, what differs, and what cannot be known.

Rows are rebuilt where their edition, words and tokenizer are known and here, and answers are scored
on them as `ruler-eval score` does. Where rows cannot be rebuilt, the official score needs the gold
answers alone, and those came with the answers.
"""

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from statistics import fmean
from tempfile import TemporaryDirectory
from typing import Any

import pyarrow.compute as pc

from ruler_audit.answers import Group
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
from ruler_data.tasks import TASKS, Qa, Task
from ruler_data.views import html_text
from ruler_eval.running.data import open_dataset
from ruler_eval.scoring.metrics import CLEANED, SCORERS, Scorer, clean
from ruler_eval.scoring.scores import Scores, score_predictions
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
    gold: int | None
    official: float | None
    interval: tuple[float, float] | None
    exact: float | None
    printed: str
    rule: str
    verdict: str
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
        verdicts = {line.verdict for line in self.lines}
        for verdict in (DIFFERS, UNKNOWN):
            if verdict in verdicts:
                return verdict
        return AGREES

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
    words = f", wonderwords {' or '.join(origin.words)}" if origin.words else ""
    built = f"; rebuilt with tokenizer {tokenizer}" if tokenizer else "; not rebuilt"
    return f"{' or '.join(origin.editions)}{words}{built}"


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

    def audit(self, workers: int, advance: Callable[[str, int], None]) -> Audit:
        """Find the rows, rebuild them where that can be done, and score the answers."""
        origin = self._find()
        with TemporaryDirectory(prefix="ruler-audit-") as scratch:
            folder = Path(scratch) / "rows"
            known: dict[str, list[Row]] = {}
            scores = None
            if self._rebuild(origin, folder, workers, advance):
                known = self._rebuilt_rows(folder)
                self._place(known)
                scores = self._score(folder, known)
        conclusion = None
        if scores is not None:
            conclusion = conclude([scores], score="official")
        lines = tuple(self._line(group, known, scores, conclusion) for group in self._groups)
        tokenizer = origin.tokenizers[0] if known else ""
        first = self._groups[0]
        places = {group.place for group in self._groups}
        place = str(first.run)
        if len(places) == 1:
            place = places.pop()
        audit = Audit(place, first.tool, origin, tokenizer, lines)
        if scores is not None:
            labels = scores.table["label"].value_counts().to_pylist()
            counts = {item["values"]: item["counts"] for item in labels if item["values"]}
            audit = replace(
                audit,
                validity=scores.validity_line,
                labels=dict(sorted(counts.items(), key=lambda item: -item[1])),
                scores=scores,
            )
        missing = [f"{', '.join(tasks)}: {error}" for error, tasks in self._missing.items()]
        return replace(audit, unknown=(*self._unknown, *missing))

    # --- Which rows ------------------------------------------------------------------------------

    def _find(self) -> Origin:
        """Find what drew the rows; tokenizers are tried where only they can tell."""
        for group in self._groups:
            self._origins[group.name] = self._finder.origin(group)
        known = agreed([*self._origins.values()])
        if known.editions == (BALANCED,):  # no gold answer depends on the tokenizer
            named = (self._finder.tokenizer,) if self._finder.tokenizer else ()
            return replace(known, tokenizers=named)
        tested = [group for group in self._groups if _depends_on_tokenizer(group)]
        for group in tested:
            origin = self._finder.with_tokenizers(group, self._origins[group.name], known)
            self._origins[group.name] = origin
            if origin.tokenizers and not known.editions:
                known = origin
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

    def _rebuilt_rows(self, folder: Path) -> dict[str, list[Row]]:
        """Return the rows of each group that was rebuilt."""
        rows = {}
        for group in self._groups:
            path = folder / config_file(group.name)
            if path.is_file():
                rows[group.name] = [*read_rows(path)]
        return rows

    def _place(self, known: Mapping[str, Sequence[Row]]) -> None:
        """Number the answers to sampled rows by the rows that they fit."""
        groups = list[Group]()
        for group in self._groups:
            if group.is_sampled and group.name in known:
                group = placed(group, known[group.name])
            groups.append(group)
        self._groups = groups

    # --- Scores ----------------------------------------------------------------------------------

    def _score(self, folder: Path, known: Mapping[str, Sequence[Row]]) -> Scores | None:
        """Return the scores of the groups whose gold answers are those of the rebuilt rows."""
        groups = [
            group
            for group in self._groups
            if group.name in known and _same_gold(group, known[group.name]) == len(group.rows)
        ]
        if not groups:
            return None
        records = [
            {
                "config": group.name,
                "index": answer.index,
                "sample": answer.sample,
                "prediction": answer.text,
            }
            for group in groups
            for answer in group.answers
        ]
        tool = groups[0].tool
        protocol = PROTOCOLS.get(tool, "base")
        scores = score_predictions(records, open_dataset(str(folder)), tool, protocol)
        if any(group.is_sampled for group in groups):  # nobody was asked the other rows
            return replace(scores, table=scores.table.filter(pc.is_valid(scores.table["official"])))
        return scores

    def _line(
        self,
        group: Group,
        known: Mapping[str, Sequence[Row]],
        scores: Scores | None,
        conclusion: Conclusion | None,
    ) -> Line:
        """Return what is said of a group."""
        rows = len(group.rows)
        gold = None
        if group.name in known:
            gold = _same_gold(group, known[group.name])
        official = _mean_of(group)
        exact = None
        interval = None
        if scores is not None and conclusion is not None and gold == rows:
            official, exact = _means(scores, group)
            interval = _interval(conclusion, group)
        printed = group.claim.printed if group.claim else ""
        line = Line(group.name, rows, gold, official, interval, exact, printed, "", AGREES)
        if gold is not None and gold < rows:
            reason = f"the gold answers of {counted(rows - gold, 'row')} are not the rebuilt row's"
            return replace(line, verdict=DIFFERS, reason=reason)
        if official is not None and group.claim and not group.claim.is_met_by(official):
            rule = _rule_of(group)
            if not rule:
                reason = "the answers do not give the printed mean"
                return replace(line, verdict=DIFFERS, reason=reason)
            line = replace(line, rule=rule)
        if gold is None:
            return replace(line, verdict=UNKNOWN, reason=self._origins[group.name].reason)
        return line


def _order(task: str) -> int:
    names = [*TASKS]
    return names.index(task) if task in names else len(names)


def _depends_on_tokenizer(group: Group) -> bool:
    """Whether a tokenizer may be told by the gold answers of a group."""
    task = TASKS.get(group.task)
    if task is None or isinstance(task.params, Qa):
        return False
    return group.length is not None and group.rows[0].outputs is not None


def _same_gold(group: Group, rows: Sequence[Row]) -> int:
    """Return how many rows have the gold answers that came with their answers."""
    return sum(
        answer.index < len(rows) and rows[answer.index].outputs == answer.outputs
        for answer in group.rows
    )


def _means(scores: Scores, group: Group) -> tuple[float | None, float | None]:
    """Return the official and the exact mean of a group."""
    table = scores.to_pandas()
    rows = table[(table["task"] == group.task) & (table["length"] == group.length)]
    exact = rows["exact"].mean() if rows["exact"].notna().any() else None
    return float(rows["official"].mean()), None if exact is None else float(exact)


def _interval(conclusion: Conclusion, group: Group) -> tuple[float, float] | None:
    """Return the interval of the mean of a group, as shares of 1."""
    estimate = conclusion.estimate((group.task, group.length), 0)
    if estimate is None or estimate.low is None or estimate.high is None:
        return None
    return estimate.low / 100, estimate.high / 100


def _mean_of(group: Group) -> float | None:
    """Return the official mean from the gold answers that came with the answers."""
    task = _task_of(group)
    if task is None or any(answer.outputs is None for answer in group.answers):
        return None
    return _mean(group, SCORERS[task.metric], clean if task.metric in CLEANED else str)


def _task_of(group: Group) -> Task | None:
    return all_tasks().get(group.task)


def _mean(group: Group, scorer: Scorer, cleaned: Callable[[str], str]) -> float:
    return fmean(scorer(cleaned(answer.text), answer.outputs or ()) for answer in group.answers)


_CONTROL = re.compile(r"[\x00-\x1f]")


def _rule_of(group: Group) -> str:
    """Return the rule of a tool by which its mean comes out as printed; empty if none does."""
    task = _task_of(group)
    claim = group.claim
    if task is None or claim is None:
        return ""
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
    return rule if claim.is_met_by(mean) else ""


class Audits(tuple[Audit, ...]):
    """The audits of several folders and lengths."""

    def __str__(self) -> str:
        return "\n\n".join(map(str, self))

    def _repr_html_(self) -> str:
        return html_text(self)

    def to_record(self) -> list[dict[str, Any]]:
        """Return the audits as plain values."""
        return [audit.to_record() for audit in self]

    @property
    def verdict(self) -> str:
        """The worst verdict."""
        verdicts = {audit.verdict for audit in self}
        return next((name for name in (DIFFERS, UNKNOWN) if name in verdicts), AGREES)

    @property
    def exit_status(self) -> int:
        """0 agrees, 1 differs, 3 cannot be known."""
        return STATUS[self.verdict]

    @property
    def failure(self) -> str:
        """The verdict in a line, unless everything agrees."""
        lines = [line for audit in self for line in audit.lines]
        names = [line.name for line in lines if line.verdict == self.verdict]
        return "" if self.verdict == AGREES else f"{self.verdict}: {', '.join(names)}"


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
