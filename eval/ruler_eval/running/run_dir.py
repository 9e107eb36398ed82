"""The folder of a run: its description, the journals of its shards, and their locks.

runs/x/run.json                 everything that decides on the answers, and its fingerprint
runs/x/starts.jsonl             one line for each start: what may differ, and all its options
runs/x/answers-0-of-8.*.jsonl   the journals of one shard, one for each process that ran it; their
                                names end in the run's fingerprint
runs/x/tries-0-of-8.*.jsonl     what each try of a request cost (`running.spending`)
runs/x/.answers-0-of-8.lock     held while that shard runs; the kernel frees it if it dies
runs/x/failure-0-of-8.txt       traceback of the engine, if it failed
runs/x/shard-0-of-8.log         output of the shard's process (--data-parallel)
"""

import hashlib
import json
import re
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from filelock import FileLock, Timeout
from pydantic import ValidationError

from ruler_data.errors import RulerError, UsageError
from ruler_data.files import (
    append_file,
    parse_json,
    read_bytes,
    read_lines,
    try_writing,
    unwritable,
    write_file,
)
from ruler_data.manifest import FILENAME, reader_of
from ruler_data.names import counted, quote
from ruler_data.version import __version__
from ruler_eval.running import journal
from ruler_eval.running.answers import Answer, Key, read_whole, settle
from ruler_eval.running.data import DataInfo

#: Version of the layout of a run's files.
FORMAT = 1
#: The description of a run.
RUN_FILE = "run.json"
#: The records of its starts.
STARTS = "starts.jsonl"
#: Why a folder with a manifest is no run.
A_DATASET = "a dataset, not a run; run a model on it first: `ruler-eval run --data DIR`"
#: Largest description of a run that is read.
RUN_BYTES = 16_000_000
ANSWER_FILES = "answers-*.jsonl"
#: Seconds for `running` of another process, e.g. of `status`, which holds a shard for an instant.
GLANCE = 5.0
#: Tokens by which the date in a server's template may change its length.
DATE = 2
#: The files of a shard: what failed, what its process printed, and its lock.
FAILURE = "failure-{}.txt"
LOG = "shard-{}.log"
LOCK = ".answers-{}.lock"
_LOCKED = re.compile(r"\.answers-([0-9]+)-of-([0-9]+)\.lock")

#: Options of engines that do not decide on answers. They may change from one start of a run to the
#: next, and `starts.jsonl` records them; all others are part of a run's identity. (vLLM computes a
#: row together with others that wait, so its last bits differ from run to run anyway.)
FREE = {
    # Memory of the GPU.
    "gpu_memory_utilization", "kv_cache_memory_bytes", "num_gpu_blocks_override", "swap_space",
    "cpu_offload_gb", "block_size",
    # Rows and tokens at once, and their order.
    "max_num_seqs", "max_num_batched_tokens", "max_num_partial_prefills", "scheduling_policy",
    "max_long_partial_prefills", "long_prefill_token_threshold", "async_scheduling",
    # How weights are loaded and processes started, and logging.
    "max_parallel_loading_workers", "safetensors_load_strategy", "distributed_executor_backend",
    "download_dir", "disable_log_stats", "use_tqdm_on_load",
    # Ray: copies of the model and their places.
    "copies", "gpus", "wait",
    # A server: requests at once, when to give up, and which answers are accepted.
    "concurrency", "patience", "timeout", "tolerance", "stream", "headers",
}  # fmt: skip


@dataclass(frozen=True)
class RunInfo:
    """Everything that decides on the answers of a run."""

    data: DataInfo
    model: str  # name or Hub id, as the user may publish it; never a path
    model_revision: str | None  # commit, or sha256 over samples of the weights, where one is known
    protocol: str
    engine: str
    engine_info: dict[str, Any] = field(default_factory=dict)  # versions, dtype, options
    sampling: dict[str, Any] = field(default_factory=dict)  # besides the rows' own `max_new_tokens`
    no_context: bool = False  # whether the context was left out, as a baseline
    #: The prompt with `{content}` for the user's turn and `{answer_prefix}` for the text that opens
    #: the answer; it shows default system prompts. None where the server renders prompts.
    frame: str | None = None
    model_tokenizer: str | None = None  # fingerprint of the one that rendered the prompts; likewise
    format: int = FORMAT
    procedure: str = ""  # whose published numbers it repeats; see `ruler_data.procedures`
    #: What was seen of a server before it got a row (`running.calibration`); {} of other engines.
    seen: dict[str, Any] = field(default_factory=dict)

    @property
    def samples(self) -> int:
        """Number of answers to each row."""
        return int(self.sampling.get("samples", 1))

    def has(self, key: Key) -> bool:
        """Whether a sample of a row is one that the run is to answer."""
        config, index, sample = key
        return index < self.data.rows.get(config, 0) and sample < self.samples

    @property
    def refused(self) -> tuple[str, ...]:
        """Fields that the server refused, so that its own values applied."""
        return tuple(self.engine_info.get("refused", ()))

    @property
    def offset(self) -> int | None:
        """Tokens that the server read beyond what was rendered here; None where not tested."""
        return self.seen.get("offset", None if self.seen else 0)

    @property
    def sampling_seen(self) -> str:
        """What answers showed of the server's own sampling; empty for other engines."""
        return str(self.seen.get("sampling", ""))

    @property
    def short_fingerprint(self) -> str:
        """As in the names of its journals."""
        return self.fingerprint.partition(":")[2][:16]

    @property
    def fingerprint(self) -> str:
        """One sha256 over all of it. Answers of different fingerprints are never mixed.

        What is empty is left out, so that a field that a later version adds changes no fingerprint.
        """
        body = asdict(self)
        body["data"] = _without_empty(body["data"])
        text = json.dumps(
            _without_empty(body), sort_keys=True, ensure_ascii=False, separators=(",", ":")
        )
        return "sha256:" + hashlib.sha256(text.encode()).hexdigest()


def _without_empty(body: Mapping[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in body.items() if value not in (None, "", {})}


#: What must be the same in two runs that are compared, in the words of a refusal; None where a run
#: does not know it.
COMPARABLE: dict[str, Callable[[RunInfo], object]] = {
    "editions": lambda run: run.data.edition,
    "protocols": lambda run: run.protocol,
    "contexts": lambda run: "left out" if run.no_context else "given",
    "source texts": lambda run: "the sample corpus" if run.data.sample else "real ones",
    "tokens of the server's template": lambda run: (
        None if run.offset is None else f"{run.offset:+} to those rendered here"
    ),
}


def obstacles(first: RunInfo, second: RunInfo) -> Iterator[str]:
    """Yield what differs between two runs, so that they cannot be compared."""
    for aspect, value in COMPARABLE.items():
        value_first = value(first)
        value_second = value(second)
        is_known = value_first is not None and value_second is not None
        if is_known and value_first != value_second:
            yield f"the {aspect} differ: {value_first} and {value_second}"


def why_no_run(place: Path) -> str:
    """Return why a place is no run, and what to give instead."""
    runs = sorted(path.parent for path in place.glob(f"*/{RUN_FILE}"))
    if not place.exists():
        return "there is no such run"
    if (place / FILENAME).exists():
        return A_DATASET
    if runs:
        return f"a folder of runs; give one of them, e.g. {quote(str(runs[0]))}"
    return f"has no {RUN_FILE}; give the output folder of a run"


def read_info(folder: Path) -> RunInfo:
    """Return the description of a run.

    Raises:
        UsageError: the folder holds no run.
        RulerError: it is damaged.
    """
    path = folder / RUN_FILE
    if not path.is_file():
        raise UsageError(quote(str(folder)), why_no_run(folder))
    try:
        body = read_bytes(path, RUN_BYTES)
        run: RunInfo = reader_of(RunInfo).validate_json(body, strict=True, extra="ignore")
    except ValidationError as error:
        reason = f"not a run: {faults(error)}; run it again into a new folder"
        raise RulerError(path, reason) from error
    recorded = json.loads(body).get("fingerprint", run.fingerprint)
    if recorded != run.fingerprint:
        difference = f"its fingerprint is {recorded}, that of its content {run.fingerprint}"
        raise RulerError(path, f"edited after it was written: {difference}")
    return run


def faults(error: ValidationError) -> str:
    """Return what pydantic found wrong, in one line, e.g. `seed: Field required`."""
    texts = []
    for detail in error.errors()[:3]:
        place = ".".join(map(str, detail["loc"]))
        texts.append(f"{place}: {detail['msg']}" if place else detail["msg"])
    return "; ".join(texts)


@dataclass(frozen=True, order=True)
class Shard:
    """Share `index` (from 0) of `count` of a run's rows."""

    index: int = 0
    count: int = 1

    @property
    def name(self) -> str:
        """As in file names."""
        return f"{self.index}-of-{self.count}"

    def __str__(self) -> str:
        return f"{self.index}/{self.count}"


@dataclass(frozen=True)
class RunFolder:
    """The folder of a run."""

    path: Path

    def file(self, name: str, shard: Shard) -> Path:
        """Return the path of a file of a shard, e.g. its `LOCK`."""
        return self.path / name.format(shard.name)

    def checked(self) -> "RunFolder":
        """Return the same if it can take a run; this leaves no trace."""
        with self._writing():
            try_writing(self.path)
        return self

    def begin(self, info: RunInfo, held: Shard) -> RunInfo:
        """Write the description of the run, or check that the folder has the same one; return that.

        That of a run without answers is replaced, unless a shard other than `held` runs.
        """
        path = self.path / RUN_FILE
        with self._writing(), self._lock():
            if path.exists():
                begun = read_info(self.path)
                differing = _differences(asdict(begun), asdict(info))
                if not differing:
                    return begun
                answered = any(answer.error is None for answer in self.answers().values())
                if answered or self.running() - {held}:
                    problem = f"holds another run: {'; '.join(differing[:3])}"
                    remedy = "give the options that it was started with, or another --out"
                    raise UsageError(self.path, f"{problem}; {remedy}")
            elif stray := next(self.path.glob(ANSWER_FILES), None):
                reason = f"holds {stray.name} but no {RUN_FILE}; name a new folder"
                raise UsageError(self.path, reason)
            body = {"fingerprint": info.fingerprint, **asdict(info)}
            write_file(path, json.dumps(body, indent=1) + "\n")
        return info

    @contextmanager
    def _writing(self) -> Iterator[None]:
        where = f"--out {quote(str(self.path), 200)}"
        try:
            if (self.path / FILENAME).exists():
                raise UsageError(where, "holds a dataset; give the run its own folder")
            yield
        except OSError as error:
            reason = f"cannot be written: {error.strerror or error}; choose another folder"
            raise UsageError(where, reason) from error

    def _lock(self, name: str = ".run.lock", wait: float = -1) -> FileLock:
        self.path.mkdir(parents=True, exist_ok=True)
        return FileLock(self.path / name, timeout=wait)

    @contextmanager
    def hold(self, shard: Shard) -> Iterator[None]:
        """Hold a shard, so that no other process answers its rows; nor shards of another count."""
        with self._writing(), self._lock():
            shards = {held for held in self.running() if held.count != shard.count}
            lock = self._lock(LOCK.format(shard.name), GLANCE)
            try:
                if not shards:
                    lock.acquire()
            except Timeout:
                shards = {shard}
            if shards:
                reason = f"shard {min(shards)} is running; wait for it, or stop it"
                raise RulerError(self.path, reason)
        try:
            yield
        finally:
            lock.release()

    def running(self) -> set[Shard]:
        """Return the shards that a process runs, on this machine or one that shares its locks.

        A lock that cannot be opened, e.g. on a read-only disk, counts as free.
        """
        shards = set()
        for path in self.path.glob(LOCK.format("*")):
            match = _LOCKED.fullmatch(path.name)
            if match is None:
                continue
            try:
                with FileLock(path, timeout=0):
                    pass
            except Timeout:
                shards.add(Shard(int(match[1]), int(match[2])))
            except OSError:
                continue
        return shards

    def log_start(self, info: RunInfo, shard: Shard, start: Mapping[str, Any]) -> None:
        """Append what may differ between the starts of a run to `starts.jsonl`."""
        at = datetime.now(UTC).isoformat(timespec="seconds")
        run = {"at": at, "shard": str(shard), "version": __version__}
        line = json.dumps({**run, "fingerprint": info.fingerprint, **start}) + "\n"
        path = self.path / STARTS
        try:
            with append_file(path) as file:
                file.write(line.encode())
        except OSError as error:
            raise unwritable(path, error) from error

    def starts(self) -> Iterator[dict[str, Any]]:
        """Yield the records of all starts, the newest last."""
        with suppress(OSError):
            for line in read_lines(self.path / STARTS):
                with suppress(ValueError, TypeError):  # a crash may have cut a line
                    yield dict(parse_json(line))

    def answers(self, torn: list[str] | None = None) -> dict[Key, Answer]:
        """Return the record of each row: the first answer of the run's model, else the last error.

        Records are taken in the order of their files and lines. Answers in journals of another run,
        and to rows that the run has not, do not count.

        Args:
            torn: where to add a note of each line or file that is ignored.
        """
        info = read_info(self.path)
        notes = [] if torn is None else torn
        foreign = Counter[str]()
        records = list[Answer]()
        for path in sorted(self.path.glob(ANSWER_FILES)):
            ignored = list[str]()
            of_run = list[Answer]()
            is_own = journal.run_of(path) == info.short_fingerprint
            for record in journal.read(path, ignored):
                if is_own and info.has(record.key):
                    of_run.append(record)
                elif record.error is None:
                    foreign[path.name] += 1
            records += read_whole(of_run)
            if len(ignored) > 1:
                count = counted(len(ignored), "line")
                ignored = [f"{path.name}: {count} torn or not of a journal; ignored"]
            notes += ignored
        for name, number in foreign.items():
            notes.append(f"{name}: {counted(number, 'answer')} of another run; ignored")
        return settle(records)


def _differences(recorded: dict[str, Any], requested: dict[str, Any]) -> list[str]:
    """Return what differs between two descriptions, one line for each part; rows and model first.

    >>> _differences({"model": "a", "protocol": "base"}, {"model": "b", "protocol": "base"})
    ["model is 'a' in the folder and 'b' now"]
    """
    before = dict(_leaves(redact(recorded, distinct=True)))
    now = dict(_leaves(redact(requested, distinct=True)))
    lines: dict[str, str] = {}
    for name in sorted(before | now, key=lambda name: not name.startswith(("data.", "model"))):
        old = ascii(before[name]) if name in before else "missing"
        new = ascii(now[name]) if name in now else "missing"
        if old != new and not _is_free(name, before.get(name), now.get(name)):
            shown = _AS_OPTION.sub("--option ", name)
            difference = f"{shown} is {old} in the folder and {new} now"
            lines.setdefault(name.partition(".")[0], difference)
    return list(lines.values())


def _is_free(name: str, before: object, now: object) -> bool:
    """Whether a value of a description may change from one start to the next.

    What is seen of a server is seen again at each start; a template may tell the date.
    """
    if name == "seen.offset" and isinstance(before, int) and isinstance(now, int):
        return abs(before - now) <= DATE
    return name == "fingerprint" or name.startswith("seen.")


#: Where an engine's options stand in a description.
_AS_OPTION = re.compile(r"^engine_info\.(arguments|options)\.")


def _leaves(value: dict[str, Any], prefix: str = "") -> Iterator[tuple[str, Any]]:
    """Yield the name of each value in a description, e.g. `data.seed`, and the value.

    A function's argument is one value, also {} or None, which elsewhere stands for a field that is
    missing.
    """
    for name, inner in dict(value).items():
        is_argument = prefix == "engine_info.arguments."
        if isinstance(inner, dict) and not is_argument:
            yield from _leaves(inner, f"{prefix}{name}.")
        elif inner is not None or is_argument:
            yield prefix + name, json.loads(json.dumps(inner, sort_keys=True))


_SECRET = re.compile(
    r"\b(?:hf_|sk-|gh[a-z]_|github_pat_|glpat-)[A-Za-z0-9_-]{8,}|(?i:bearer\s+)\S+"
)
_ADDRESS = re.compile(r"\b[a-z][a-z0-9+.-]*://\S+", re.IGNORECASE)
#: The folders of a text that is a path, spaces included, or of paths in a text.
_FOLDERS = re.compile(
    r"\A(?:~|\.{0,2}[/\\]|[A-Za-z]:)(?s:.*)[/\\]"
    r"|(?<![\w.])(?:~[^\s/\\]*|\.{1,2}|[A-Za-z]:)?[/\\](?:[^\s/\\]+[/\\])+"
)


def redact(value: Any, *, distinct: bool = False) -> Any:  # noqa: ANN401 - any JSON value
    """Return a JSON value without secrets, addresses and the folders of paths.

    With `distinct`, a text that loses something ends in a hash of the whole.

    >>> redact({"model": "/home/ann/llama", "url": "http://gpu7:8000/v1", "dtype": "bfloat16"})
    {'model': 'llama', 'url': '[address]', 'dtype': 'bfloat16'}
    >>> redact(["/home/ann/llama", "org/llama"], distinct=True)
    ['llama#473538d928910c9d', 'org/llama']
    """
    if isinstance(value, dict):
        return {str(key): redact(item, distinct=distinct) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [redact(item, distinct=distinct) for item in value]
    if not isinstance(value, str):
        return value
    text = _FOLDERS.sub("", _ADDRESS.sub("[address]", _SECRET.sub("[secret]", value)))
    if distinct and text != value:
        whole = hashlib.sha256(value.encode("utf-8", "surrogatepass")).hexdigest()
        text += f"#{whole[:16]}"
    return text
