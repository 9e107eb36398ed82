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
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass, replace
from hashlib import sha256
from pathlib import Path
from statistics import fmean
from typing import Any

from pydantic import ValidationError

from ruler_data.errors import RulerError, UsageError
from ruler_data.files import read_bytes, write_file
from ruler_data.manifest import reader_of
from ruler_data.names import counted, quote
from ruler_data.reasoning import opens
from ruler_data.row import Row
from ruler_data.terminal import warn
from ruler_data.views import html_text
from ruler_eval.running.answers import Answer, Key, Share
from ruler_eval.running.config import EvalConfig, parse_options
from ruler_eval.running.journal import unique
from ruler_eval.running.run_dir import RunFolder, RunInfo, faults, read_info
from ruler_eval.running.runner import RunJob, engine_errors, open_job, requests
from ruler_eval.running.spending import Ledger
from ruler_eval.scoring.metrics import score_answer

FILES = "repeat-*.json"
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
            near, far = (near, middle) if is_rejected(middle) else (middle, far)
        return near

    return edge(0.0), edge(1.0)


@dataclass(frozen=True)
class Pair:
    """A row that was answered twice: whether its text changed, and its score before and after."""

    row: str  # e.g. `vt_4096/17`
    changed: bool
    before: Share
    after: Share


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
        return fmean(pair.changed for pair in self.pairs) if self.pairs else 0.0

    @property
    def points(self) -> float:
        """Mean change of a row's score, up or down, in percentage points."""
        moves = [abs(pair.after - pair.before) for pair in self.pairs]
        return 100 * fmean(moves) if moves else 0.0

    @property
    def net(self) -> float:
        """Mean of the scores after minus before, in percentage points."""
        return 100 * fmean(pair.after - pair.before for pair in self.pairs) if self.pairs else 0.0

    @property
    def failure(self) -> str | None:
        """The error if rows had no answer this time, or an empty one."""
        null = f" ({self.null} null)" * bool(self.null)
        errors = [f"{counted(self.failed, 'row')} could not be answered again{null}"] * bool(
            self.failed
        )
        errors += [f"{counted(self.empty, 'answer')} became empty"] * bool(self.empty)
        return "; ".join(errors) or None

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

    def _repr_html_(self) -> str:
        return html_text(self)

    def __str__(self) -> str:
        record = self.to_record()
        low, high = (100 * end for end in record["changed_interval"])
        least, most = record["points_interval"]
        where = f" with other {', '.join(self.differs)}" if self.differs else ""
        kinds = f", {self.empty} became empty" * bool(self.empty)
        kinds += f", {self.cut_off} were cut off" * bool(self.cut_off)
        return (
            f"{counted(len(self.pairs), 'row')} generated again{where}: {100 * self.changed:.1f} % "
            f"of the answers changed (95 % interval {low:.1f} to {high:.1f}){kinds}; a "
            f"row's score moved by {self.points:.2f} points (95 % interval {least:.2f} to "
            f"{most:.2f}), all together by {self.net:+.2f}"
        )


def read_repeats(run: str | Path) -> Iterator[tuple[Path, Repeat]]:
    """Yield the repetitions of a run with their files, the newest last.

    Raises:
        RulerError: a file is damaged.
    """
    for path in sorted(Path(run).glob(FILES)):
        try:
            again: Repeat = reader_of(Repeat).validate_json(read_bytes(path), extra="ignore")
        except ValidationError as error:
            reason = f"not a repetition ({faults(error)}); remove it, and repeat again"
            raise RulerError(path, reason) from error
        yield path, again


def repeat(
    folder: Path,
    rows: int,
    **changes: Any,  # noqa: ANN401 - options of the run
) -> Repeat:
    """Generate rows of a run again, some options changed; see `ruler_eval.commands.repeat`."""
    before = {
        key: answer for key, answer in RunFolder(folder).answers().items() if answer.error is None
    }
    if not before:
        raise UsageError(folder, "no row of it is answered; run it first")
    info = read_info(folder)
    job = _reopen(folder, info, changes)
    keys = sorted((key for key in before if key[2] == 0), key=_hash)[:rows]
    order = sorted(requests(job, keys), key=lambda request: _hash(request.key))
    job = job.opened(Ledger())
    again = dict[Key, Answer]()
    with engine_errors(job):
        answers = [*map(job.finished, job.engine.generate(iter(order)))]
    for answer in answers:
        models = before[answer.key].model, answer.model
        if answer.error is None and None not in models and len({*models}) > 1:
            was, now = map(quote, map(str, models))
            answer = replace(answer, error=f"answered by {now}, the run's model is {was}")
        again[answer.key] = answer
    if failure := next(
        (answer.error for answer in again.values() if answer.error is not None), None
    ):
        warn(f"not answered again, e.g.: {failure}")
    pairs = [
        _pair(job, info, request.row, before[request.key], again[request.key])
        for request in order
        if request.key in again and again[request.key].error is None
    ]
    recorded, given = _start(folder)[0].settings, parse_options(changes.get("options"))
    differs = {name for name in given if given[name] != recorded.get(name, recorded)}
    twice = [(before[key], again[key]) for key in again]
    result = Repeat(
        tuple(pairs),
        len(order) - len(pairs),
        empty=sum(_is_empty(now) and not _is_empty(was) for was, now in twice),
        cut_off=sum((was.finish, now.finish) == ("stop", "length") for was, now in twice),
        null=sum(now.error is not None and "null" in now.error for _, now in twice),
        differs=tuple(sorted(differs)),
    )
    record = {**result.to_record(), "answers": [asdict(answer) for answer in again.values()]}
    write_file(folder / FILES.replace("*", unique()), json.dumps(record, indent=1) + "\n")
    return result


def _start(folder: Path) -> tuple[EvalConfig, str]:
    """Return the options of a run as it was started last, and where its rows were."""
    starts = reversed([*RunFolder(folder).starts()])
    start = next((start for start in starts if "arguments" in start), None)
    if start is None:
        raise UsageError(folder, "does not record how it was started; resume it once")
    return EvalConfig.read(start["arguments"]), start["data"]


def _reopen(folder: Path, info: RunInfo, changes: Mapping[str, Any]) -> RunJob:
    """Return a run as it was started last, with some arguments changed."""
    (config, data), options = _start(folder), parse_options(changes.get("options"))
    for name, value in config.settings.items():
        is_new = name in options or changes.get("generate") is not None
        if not is_new and _names_code(name, value):
            remedy = f"if you trust it, name it again: --option {name}={quote(str(value))}"
            raise UsageError(folder, f"its option {name} names code, which is not run; {remedy}")
    options = config.settings | options
    job = open_job(replace(config, **{**changes, "data": data, "options": options}))
    ids = _identity(job.info, options), _identity(info, options)
    if ids[0] != ids[1]:
        raise RulerError(folder, "the rows, model or function are not those of the run any more")
    return job


def _is_empty(answer: Answer) -> bool:
    return answer.error is None and not (answer.text or "").strip()


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


def _pair(job: RunJob, info: RunInfo, row: Row, *answers: Answer) -> Pair:
    task, opened = job.data.manifest.table[row.task], opens(info.frame)
    (first, before), (second, after) = (
        score_answer(row, task, answer, opened=opened) for answer in answers
    )
    return Pair(f"{answers[0].config}/{row.index}", first != second, before, after)
