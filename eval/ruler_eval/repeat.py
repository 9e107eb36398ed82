"""The noise floor of a run: some rows asked again in other company, and what changed.

Engines compute a row together with others, so its last bits depend on the batch, on the order, on
what a prefix cache holds and on the number of GPUs; now and then another token wins. A difference
between two runs that is smaller than what one run differs from itself says nothing.

    runs/x/repeat-20261125T101502Z-9f3c.json      one repetition, apart from the journal

The 95 % intervals hold for any mean of values in [0, 1] (Chernoff's bound: a true mean m is
rejected if n * KL(mean, m) > log(2 / 0.05), where KL is the divergence of two coins).
"""

import json
import math
import secrets
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import asdict, dataclass, replace
from hashlib import sha256
from itertools import chain, zip_longest
from pathlib import Path
from statistics import fmean
from typing import Any

from ruler_data.errors import RulerError, UsageError
from ruler_data.files import write_file
from ruler_data.names import counted, parse_config
from ruler_data.row import Row
from ruler_eval.answers import Answer, Key, thought_and_text
from ruler_eval.eval_config import EvalConfig
from ruler_eval.inputs import Choice
from ruler_eval.journal import TIME
from ruler_eval.metrics import CLEANED, score_row
from ruler_eval.reasoning import opens
from ruler_eval.run_dir import RunFolder
from ruler_eval.runner import RunJob, open_job, requests
from ruler_eval.schema import RunInfo, read_info
from ruler_eval.sharding import Item

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
    before: float
    after: float


@dataclass(frozen=True)
class Repeat:
    """What changed when rows of a run were asked again.

    Attributes:
        pairs: the rows that were answered both times.
        failed: rows without an answer this time.
        differs: what of the run was changed on purpose, e.g. `enable_prefix_caching`.
    """

    pairs: tuple[Pair, ...]
    failed: int = 0
    differs: tuple[str, ...] = ()

    @property
    def rows(self) -> int:
        """Number of rows that were compared."""
        return len(self.pairs)

    @property
    def changed(self) -> float:
        """Share of the answers whose text changed."""
        return fmean(pair.changed for pair in self.pairs) if self.pairs else 0.0

    @property
    def changed_interval(self) -> Interval:
        """95 % interval of `changed`."""
        return interval(self.changed, self.rows)

    @property
    def points(self) -> float:
        """Mean change of a row's score, up or down, in percentage points."""
        return 100 * self._moved

    @property
    def points_interval(self) -> Interval:
        """95 % interval of `points`."""
        low, high = interval(self._moved, self.rows)
        return 100 * low, 100 * high

    @property
    def _moved(self) -> float:
        return fmean(abs(pair.after - pair.before) for pair in self.pairs) if self.pairs else 0.0

    @property
    def net(self) -> float:
        """Mean of the scores after minus before, in percentage points."""
        return 100 * fmean(pair.after - pair.before for pair in self.pairs) if self.pairs else 0.0

    @property
    def failure(self) -> str | None:
        """What to say if rows had no answer this time."""
        return f"{counted(self.failed, 'row')} could not be answered again" if self.failed else None

    @property
    def exit_status(self) -> int:
        """1 if rows had no answer this time."""
        return int(self.failed > 0)

    def __str__(self) -> str:
        low, high = (100 * end for end in self.changed_interval)
        least, most = self.points_interval
        where = f" with other {', '.join(self.differs)}" if self.differs else ""
        return (
            f"{counted(self.rows, 'row')} asked again{where}: {100 * self.changed:.1f} % of the "
            f"answers changed (95 % interval {low:.1f} to {high:.1f}); a row's score moved by "
            f"{self.points:.2f} points (95 % interval {least:.2f} to {most:.2f}), "
            f"all together by {self.net:+.2f}"
        )

    def to_record(self) -> dict[str, Any]:
        """Return its figures as JSON values."""
        names = ("rows", "failed", "differs", "changed", "changed_interval")
        record = {name: getattr(self, name) for name in (*names, "points", "points_interval")}
        return {**record, "net": self.net, "pairs": [asdict(pair) for pair in self.pairs]}


def read_repeat(run: str | Path) -> Repeat | None:
    """Return the newest repetition of a run; None if there is none.

    Raises:
        RulerError: its file is damaged.
    """
    newest = max(Path(run).glob(FILES), default=None)
    if newest is None:
        return None
    try:
        body = json.loads(newest.read_text(encoding="utf-8"))
        pairs = tuple(Pair(**pair) for pair in body["pairs"])
        return Repeat(pairs, int(body["failed"]), tuple(body["differs"]))
    except (ValueError, KeyError, TypeError) as error:
        reason = f"not a repetition ({type(error).__name__}); remove it, and repeat again"
        raise RulerError(newest, reason) from error


def repeat(
    folder: Path,
    rows: int,
    *,
    base_url: str | None = None,
    generate: Callable[..., Any] | None = None,
    tensor_parallel: int | None = None,
    options: Mapping[str, Any] | None = None,
) -> Repeat:
    """Ask rows of a run again; see `ruler_eval.commands.repeat`."""
    info, run = read_info(folder), RunFolder(folder)
    start = next((one for one in reversed([*run.starts()]) if "choice" in one), None)
    if start is None:
        raise UsageError(folder, "does not record how it was started; resume it once")
    choice = Choice(**{**start["choice"], "data": start["data"]})
    config = EvalConfig(**start["config"], base_url=base_url, generate=generate)
    given: dict[str, Any] = {"tensor_parallel": tensor_parallel} if tensor_parallel else {}
    config = replace(config, options={**config.options, **(options or {})}, **given)
    job = open_job(choice, config)
    if job.data.info.digests != info.data.digests or job.model.revision != info.model_revision:
        raise RulerError(folder, "the rows or the model are not those of the run any more")
    before = {key: one for key, one in run.answers().items() if one.error is None}
    chosen = _chosen(before, rows)
    asked = sorted(requests(job, chosen), key=lambda one: _hash(one.key))
    if not asked:
        raise UsageError(folder, "no row of it is answered; run it first")
    if job.engine.open is not None:
        job.engine.open()
    again = {one.key: job.reasoning_apart(one) for one in job.engine.generate(iter(asked))}
    pairs = [
        _pair(job, info, request.row, before[request.key], again[request.key])
        for request in asked
        if request.key in again and again[request.key].error is None
    ]
    differs = tuple(sorted({*given, *(options or {})}))
    found = Repeat(tuple(pairs), len(asked) - len(pairs), differs)
    unique = f"{time.strftime(TIME, time.gmtime())}-{secrets.token_hex(4)}"
    answers = [asdict(one) for one in again.values()]
    record = {**found.to_record(), "answers": answers}
    write_file(folder / FILES.replace("*", unique), json.dumps(record, indent=1) + "\n")
    return found


def _chosen(keys: Iterable[Key], rows: int) -> list[Item]:
    """Return rows, by turns of each config, in an order by hash; no sample but the first."""
    by_config: dict[str, list[Key]] = {}
    for key in sorted(keys, key=_hash):
        if key[2] == 0:
            by_config.setdefault(key[0], []).append(key)
    turns = chain.from_iterable(zip_longest(*(by_config[name] for name in sorted(by_config))))
    return [Item(config, index, 0) for config, index, _ in [key for key in turns if key][:rows]]


def _hash(key: Key) -> bytes:
    return sha256("/".join(("repeat", *map(str, key))).encode()).digest()


def _pair(job: RunJob, info: RunInfo, row: Row, first: Answer, second: Answer) -> Pair:
    task = job.data.manifest.table[parse_config(first.config)[0]]
    texts = [
        thought_and_text(one, opened=opens(info.frame), cleaned=task.metric in CLEANED)[1]
        for one in (first, second)
    ]
    before, after = (score_row(row, task, text) for text in texts)
    return Pair(f"{first.config}/{first.index}", texts[0] != texts[1], before, after)
