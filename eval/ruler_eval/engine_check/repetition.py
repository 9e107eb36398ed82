"""The noise floor of a run: some rows generated again in other batches, and what changed.

Engines compute a row together with others, so its last bits depend on the batch, on the order, on
what a prefix cache holds and on the number of GPUs; now and then another token wins. A difference
between two runs that is smaller than what one run differs from itself says nothing.

    runs/x/repeat-20261125T101502Z-9f3c.json      one repetition, apart from the journal

The 95 % intervals hold for any mean of values in [0, 1] (Chernoff's bound: a true mean m is
rejected if n * KL(mean, m) > log(2 / 0.05), where KL is the divergence of two coins).
"""

import json
import math
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from hashlib import sha256
from pathlib import Path
from statistics import fmean
from typing import Any

from ruler_data.errors import RulerError, UsageError
from ruler_data.files import write_file
from ruler_data.names import counted, quote
from ruler_data.reasoning import opens
from ruler_data.row import Row
from ruler_data.terminal import warn
from ruler_eval.running.answers import Answer, Key
from ruler_eval.running.config import EvalConfig, parse_options
from ruler_eval.running.engine import Request
from ruler_eval.running.journal import unique
from ruler_eval.running.run_dir import RunFolder, RunInfo, read_info
from ruler_eval.running.runner import RunJob, engine_errors, open_job, requests
from ruler_eval.running.spending import Ledger
from ruler_eval.scoring.metrics import score_answer

FILE = "repeat-{}.json"
#: Chance that an interval misses the true value, at most.
ALPHA = 0.05

Interval = tuple[float, float]


def interval(mean: float, number: int) -> Interval:
    """Return a 95 % interval for the true mean of values in [0, 1].

    >>> [round(end, 3) for end in interval(0.05, 40)]
    [0.003, 0.198]
    >>> [round(end, 3) for end in interval(0.0, 40)]
    [0.0, 0.088]
    """

    def is_rejected(true: float) -> bool:
        terms = ((mean, true), (1 - mean, 1 - true))
        distance = sum(p * math.log(p / q) if q else math.inf for p, q in terms if p)
        return number * distance > math.log(2 / ALPHA)

    def edge(far: float) -> float:
        near = mean  # never rejected; bisected to the last that is not
        for _ in range(50):
            middle = (near + far) / 2
            if is_rejected(middle):
                far = middle
            else:
                near = middle
        return near

    return edge(0.0), edge(1.0)


def _mean(values: Sequence[float]) -> float:
    return fmean(values) if values else 0.0


@dataclass(frozen=True)
class Pair:
    """A row that was answered twice: whether its text changed, and its score before and after."""

    row: str  # e.g. `vt_4096/17`
    changed: bool
    before: float
    after: float


@dataclass(frozen=True)
class Repeat:
    """What changed when rows of a run were generated again."""

    pairs: tuple[Pair, ...]  # the rows that were answered both times
    failed: int = 0  # rows without an answer this time
    empty: int = 0  # answers that became empty
    cut_off: int = 0  # answers that ended by themselves before, and now at the budget
    null: int = 0  # of `failed`, those whose text was null
    differs: tuple[str, ...] = ()  # what was changed on purpose, e.g. `enable_prefix_caching`

    @property
    def changed(self) -> float:
        """Share of the answers whose text changed."""
        return _mean([pair.changed for pair in self.pairs])

    @property
    def points(self) -> float:
        """Mean change of a row's score, up or down, in percentage points."""
        return 100 * _mean([abs(pair.after - pair.before) for pair in self.pairs])

    @property
    def net(self) -> float:
        """Mean of the scores after minus before, in percentage points."""
        return 100 * _mean([pair.after - pair.before for pair in self.pairs])

    @property
    def failure(self) -> str | None:
        """The error if rows had no answer this time, or an empty one."""
        problems = []
        if self.failed:
            null = f" ({self.null} null)" if self.null else ""
            problems.append(f"{counted(self.failed, 'row')} could not be answered again{null}")
        if self.empty:
            problems.append(f"{counted(self.empty, 'answer')} became empty")
        return "; ".join(problems) or None

    @property
    def exit_status(self) -> int:
        """1 if rows had no answer this time, or an empty one."""
        return int(self.failed + self.empty > 0)

    def to_record(self) -> dict[str, Any]:
        """Return its figures as JSON values, with 95 % intervals."""
        low, high = interval(self.points / 100, len(self.pairs))
        return {
            "rows": len(self.pairs),
            "failed": self.failed,
            "empty": self.empty,
            "cut_off": self.cut_off,
            "null": self.null,
            "differs": self.differs,
            "changed": self.changed,
            "changed_interval": interval(self.changed, len(self.pairs)),
            "points": self.points,
            "points_interval": (100 * low, 100 * high),
            "net": self.net,
            "pairs": [asdict(pair) for pair in self.pairs],
        }

    def __str__(self) -> str:
        record = self.to_record()
        low, high = (100 * end for end in record["changed_interval"])
        least, most = record["points_interval"]
        where = f" with other {', '.join(self.differs)}" if self.differs else ""
        kinds = ""
        if self.empty:
            kinds += f", {self.empty} became empty"
        if self.cut_off:
            kinds += f", {self.cut_off} were cut off"
        return (
            f"{counted(len(self.pairs), 'row')} generated again{where}: {100 * self.changed:.1f} % "
            f"of the answers changed (95 % interval {low:.1f} to {high:.1f}){kinds}; a "
            f"row's score moved by {self.points:.2f} points (95 % interval {least:.2f} to "
            f"{most:.2f}), all together by {self.net:+.2f}"
        )


def repeat(
    folder: Path,
    rows: int,
    **changes: Any,  # noqa: ANN401 - options of the run
) -> Repeat:
    """Generate rows of a run again, some options changed; see `ruler_eval.commands.repeat`."""
    run = RunFolder(folder)
    before = {key: answer for key, answer in run.answers().items() if answer.error is None}
    if not before:
        raise UsageError(folder, "no row of it is answered; run it first")
    info = read_info(folder)
    job = _reopen(folder, info, changes)
    keys = sorted((key for key in before if key[2] == 0), key=_hash)[:rows]
    order = sorted(requests(job, keys), key=lambda request: _hash(request.key))
    again = _answers(job.opened(Ledger()), order, before)
    result = _compared(job, info, order, before, again)
    result = replace(result, differs=_changed_options(folder, changes))
    record = {**result.to_record(), "answers": [asdict(answer) for answer in again.values()]}
    write_file(folder / FILE.format(unique()), json.dumps(record, indent=1) + "\n")
    return result


def _answers(
    job: RunJob, order: Sequence[Request], before: Mapping[Key, Answer]
) -> dict[Key, Answer]:
    """Return what the engine answers now; of another model than before, an error."""
    again = dict[Key, Answer]()
    failure = None
    with engine_errors(job):
        for answer in map(job.finished, job.engine.generate(iter(order))):
            error = answer.error or _another_model(before[answer.key].model, answer.model)
            again[answer.key] = replace(answer, error=error)
            failure = failure or error
    if failure is not None:
        warn(f"not answered again, e.g.: {failure}")
    return again


def _another_model(before: str | None, now: str | None) -> str | None:
    """Return why an answer does not count: another model than the run's gave it."""
    if before is None or now is None or before == now:
        return None
    return f"answered by {quote(now)}, the run's model is {quote(before)}"


def _compared(
    job: RunJob,
    info: RunInfo,
    order: Sequence[Request],
    before: Mapping[Key, Answer],
    again: Mapping[Key, Answer],
) -> Repeat:
    """Return what changed from the run's answers."""
    pairs = list[Pair]()
    counts = Counter[str]()
    for request in order:
        was = before[request.key]
        now = again.get(request.key)
        if now is None or now.error is not None:
            counts["failed"] += 1
            counts["null"] += now is not None and "null" in (now.error or "")
            continue
        pairs.append(_pair(job, info, request.row, was, now))
        counts["empty"] += _is_empty(now) and not _is_empty(was)
        counts["cut_off"] += (was.finish, now.finish) == ("stop", "length")
    return Repeat(
        tuple(pairs), counts["failed"], counts["empty"], counts["cut_off"], counts["null"]
    )


def _changed_options(folder: Path, changes: Mapping[str, Any]) -> tuple[str, ...]:
    """Return the options of the engine that are other than the run's."""
    recorded = _start(folder)[0].settings
    options = parse_options(changes.get("options"))
    changed = [name for name in options if options[name] != recorded.get(name, recorded)]
    return tuple(sorted(changed))


def _start(folder: Path) -> tuple[EvalConfig, str]:
    """Return the options of a run as it was started last, and where its rows were."""
    for start in reversed([*RunFolder(folder).starts()]):
        if "arguments" in start:
            return EvalConfig.read(start["arguments"]), start["data"]
    raise UsageError(folder, "does not record how it was started; resume it once")


def _reopen(folder: Path, info: RunInfo, changes: Mapping[str, Any]) -> RunJob:
    """Return a run as it was started last, with some arguments changed."""
    config, data = _start(folder)
    options = parse_options(changes.get("options"))
    for name, value in config.settings.items():
        is_new = name in options or changes.get("generate") is not None
        if not is_new and _names_code(name, value):
            remedy = f"if you trust it, name it again: --option {name}={quote(str(value))}"
            raise UsageError(folder, f"its option {name} names code, which is not run; {remedy}")
    options = config.settings | options
    job = open_job(replace(config, **{**changes, "data": data, "options": options}))
    if _identity(job.info, options) != _identity(info, options):
        raise RulerError(folder, "the rows, model or function are not those of the run any more")
    return job


def _is_empty(answer: Answer) -> bool:
    return not (answer.text or "").strip()


def _names_code(name: str, value: object) -> bool:
    """Whether an option makes an engine import something: a module, a path, or a model's own code.

    >>> _names_code("function", "answers:say"), _names_code("dtype", "bfloat16")
    (True, False)
    """
    if isinstance(value, Mapping | list):
        values = value.values() if isinstance(value, Mapping) else value
        return any(_names_code(name, inner) for inner in values)
    is_name = isinstance(value, str) and any(mark in value for mark in ".:/")
    return is_name or (name == "trust_remote_code" and bool(value))


def _identity(run: RunInfo, options: Mapping[str, Any]) -> tuple[object, ...]:
    """Return rows, model and function, with its arguments besides the options."""
    recorded = run.engine_info.get("arguments", {})
    function = [run.engine_info.get(name) for name in ("function", "source")]
    bound = {name: recorded[name] for name in recorded.keys() - options.keys()}
    return run.data.digests, run.model_revision, function, bound


def _hash(key: Key) -> bytes:
    return sha256("/".join(("repeat", *map(str, key))).encode()).digest()


def _pair(job: RunJob, info: RunInfo, row: Row, was: Answer, now: Answer) -> Pair:
    task = job.data.manifest.table[row.task]
    opened = opens(info.frame)
    text_before, before = score_answer(row, task, was, opened=opened)
    text_after, after = score_answer(row, task, now, opened=opened)
    return Pair(f"{was.config}/{row.index}", text_before != text_after, before, after)
