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
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from hashlib import sha256
from pathlib import Path
from statistics import fmean
from typing import Any

from ruler_data.errors import RulerError, UsageError
from ruler_data.files import write_file
from ruler_data.names import counted, quote
from ruler_data.reasoning import opens
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
        """The error if rows had no answer this time."""
        if not self.failed:
            return None
        return f"{counted(self.failed, 'row')} could not be answered again"

    @property
    def exit_status(self) -> int:
        """1 if rows had no answer this time."""
        return int(self.failed > 0)

    def to_record(self) -> dict[str, Any]:
        """Return its figures as JSON values, with 95 % intervals."""
        low, high = interval(self.points / 100, len(self.pairs))
        return {
            "rows": len(self.pairs),
            "failed": self.failed,
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
        low, high = record["changed_interval"]
        least, most = record["points_interval"]
        where = f" with other {', '.join(self.differs)}" if self.differs else ""
        return (
            f"{counted(len(self.pairs), 'row')} generated again{where}: {100 * self.changed:.1f} % "
            f"of the answers changed (95 % interval {100 * low:.1f} to {100 * high:.1f}); a row's "
            f"score moved by {self.points:.2f} points (95 % interval {least:.2f} to {most:.2f}), "
            f"all together by {self.net:+.2f}"
        )


def repeat(
    folder: Path,
    rows: int,
    *,
    options: Iterable[str] | Mapping[str, Any] | None = None,
    base_url: str | None = None,
    generate: Callable[..., Any] | None = None,
) -> Repeat:
    """Generate rows of a run again, some options changed; see `ruler_eval.commands.repeat`."""
    run = RunFolder(folder)
    before = {key: answer for key, answer in run.answers().items() if answer.error is None}
    if not before:
        raise UsageError(folder, "no row of it is answered; run it first")
    config, data = _start(run)
    changes = parse_options(options)
    for name, value in config.settings.items():
        if name not in changes and generate is None and _names_code(name, value):
            remedy = f"if you trust it, name it again: --option {name}={quote(str(value))}"
            raise UsageError(folder, f"its option {name} names code, which is not run; {remedy}")
    differs = [name for name in changes if changes[name] != config.settings.get(name, config)]
    settings = config.settings | changes
    job = open_job(
        replace(config, data=data, options=settings, base_url=base_url, generate=generate)
    )
    if _identity(job.info, settings) != _identity(read_info(folder), settings):
        raise RulerError(folder, "the rows, model or function are not those of the run any more")
    keys = sorted((key for key in before if key[2] == 0), key=_hash)[:rows]
    order = sorted(requests(job, keys), key=lambda request: _hash(request.key))
    again = _answers(job.opened(Ledger()), order, before)
    pairs = _pairs(job, order, before, again)
    result = Repeat(tuple(pairs), len(keys) - len(pairs), tuple(sorted(differs)))
    record = {**result.to_record(), "answers": [asdict(answer) for answer in again.values()]}
    write_file(folder / FILE.format(unique()), json.dumps(record, indent=1) + "\n")
    return result


def _start(run: RunFolder) -> tuple[EvalConfig, str]:
    """Return the options of a run as it was started last, and where its rows were."""
    for start in reversed([*run.starts()]):
        if "arguments" in start:
            return EvalConfig.read(start["arguments"]), start["data"]
    raise UsageError(run.path, "does not record how it was started; resume it once")


def _answers(
    job: RunJob, order: Sequence[Request], before: Mapping[Key, Answer]
) -> dict[Key, Answer]:
    """Return what the engine answers now, without answers of another model than the run's."""
    again = dict[Key, Answer]()
    reason = None
    with engine_errors(job):
        for answer in map(job.finished, job.engine.generate(iter(order))):
            error = answer.error or _another_model(before[answer.key].model, answer.model)
            again[answer.key] = replace(answer, error=error)
            reason = reason or error
    if reason is not None:
        warn(f"not answered again, e.g.: {reason}")
    return again


def _another_model(before: str | None, now: str | None) -> str | None:
    if before is None or now in (None, before):
        return None
    return f"answered by {quote(str(now))}, the run's model is {quote(before)}"


def _pairs(
    job: RunJob,
    order: Sequence[Request],
    before: Mapping[Key, Answer],
    again: Mapping[Key, Answer],
) -> list[Pair]:
    """Return the rows that were answered both times, with their scores."""
    opened = opens(job.info.frame)
    pairs = list[Pair]()
    for request in order:
        answer = again.get(request.key)
        if answer is None or answer.error is not None:
            continue
        row = request.row
        task = job.data.manifest.table[row.task]
        text, score = score_answer(row, task, before[request.key], opened=opened)
        text_now, score_now = score_answer(row, task, answer, opened=opened)
        name = f"{request.config}/{row.index}"
        pairs.append(Pair(name, text != text_now, score, score_now))
    return pairs


def _names_code(name: str, value: object) -> bool:
    """Whether an option makes an engine import something: a module, a path, or a model's own code.

    >>> _names_code("function", "answers:say"), _names_code("dtype", "bfloat16")
    (True, False)
    """
    if isinstance(value, Mapping):
        value = [*value.values()]
    if isinstance(value, list):
        return any(_names_code(name, inner) for inner in value)
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
