"""A run: frozen rows go in, one journal line for each comes out.

`open_job` goes from the options to an engine that is ready to load, and checks that every prompt
fits; `run_shard` then answers the rows of one shard that have no answer yet. Prompts are rendered
on a thread while the engine computes. An exception of an engine becomes one line for the user and
a file with the traceback.
"""

import json
import os
import re
import signal
import subprocess
import sys
import traceback
from collections import deque
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, contextmanager, nullcontext
from dataclasses import dataclass, replace
from itertools import chain
from pathlib import Path
from threading import Thread
from typing import Any, TypeVar, cast

from pydantic import ValidationError

from ruler_data import memory, terminal
from ruler_data.errors import RulerError, UsageError
from ruler_data.files import create_file, write_file
from ruler_data.names import counted, parse_config
from ruler_data.progress import progress
from ruler_data.reasoning import opens, split
from ruler_data.row import Row
from ruler_data.terminal import warn
from ruler_eval.running import journal
from ruler_eval.running.answers import Answer, Key
from ruler_eval.running.config import EvalConfig
from ruler_eval.running.engine import Engine, Request, Setup, prepare
from ruler_eval.running.inputs import Inputs, open_inputs
from ruler_eval.running.models import trained_window
from ruler_eval.running.run_dir import (
    FAILURE,
    LOG,
    RunFolder,
    RunInfo,
    Shard,
    faults,
    redact,
)
from ruler_eval.running.spending import NO_BUDGET, TRIES, Budget, Ledger, Prices, Spent

#: Prompts rendered before the engine needs them; each may hold a megabyte of ids.
AHEAD = 4

#: Characters of an engine's message that are repeated.
LONGEST = 300


@dataclass(frozen=True)
class RunJob(Inputs):
    """A run, opened and checked."""

    engine: Engine

    @property
    def info(self) -> RunInfo:
        """Everything that decides on the answers; of a server, once its engine is open."""
        prompts = self.prompts
        sampling = {"extra_tokens": prompts.extra_tokens, **self.engine.sampling}
        if self.config.samples > 1:
            sampling["samples"] = self.config.samples
        frame = None
        fingerprint = None
        if not self.engine.renders_prompts:
            frame = prompts.frame(self.tokenizer)
            fingerprint = self.tokenizer.info.fingerprint
        return RunInfo(
            data=self.data.info,
            model=self.model.name,
            model_revision=self.model.revision,
            protocol=prompts.protocol.name,
            engine=self.config.engine,
            engine_info=redact(self.engine.info, distinct=True),
            sampling=redact(sampling, distinct=True),
            no_context=prompts.no_context,
            frame=frame,
            model_tokenizer=fingerprint,
            procedure=self.config.procedure or "",
            seen=self.engine.seen,
        )

    def opened(self, ledger: Ledger) -> "RunJob":
        """Return the run as its server reveals it, ready to generate.

        An engine in this process takes as much memory as its model does.

        Raises:
            UsageError: a prompt is over the window that the server reveals.
        """
        if self.engine.open is None:
            memory.lift()
            return self
        engine = self.engine.open(ledger)
        if engine.window != self.engine.window:
            self.refuse_over_window(self.longest_requests(), engine.window)
        return replace(self, engine=engine)

    def request(self, config: str, row: Row) -> Request:
        """Return a row as a request.

        Raises:
            RulerError: the prompt is not as long as the data says, or over the window.
        """
        ids = self.ids(row)
        for reason in self.length_errors(row, ids, self.engine.window).values():
            place = f"{config}/{row.index}"
            raise RulerError(place, f"{reason}; see `ruler-eval run --check`")
        return Request(config, row, ids, self.room(row))

    def finished(self, answer: Answer) -> Answer:
        """Return an answer with its model, and of protocol `thinking` its reasoning apart.

        A server names its model itself, or nobody knows it.
        """
        if self.config.engine != "openai" and answer.error is None:
            answer = replace(answer, model=answer.model or self.model.name)
        if self.prompts.protocol.name != "thinking" or not answer.text or answer.reasoning:
            return answer
        thought, text = split(answer.text, opened=opens(self.info.frame))
        if thought is None:
            return answer
        return replace(answer, text=text, reasoning=thought)


def open_job(config: EvalConfig, more: int = 0) -> RunJob:
    """Return a run whose prompts all fit; nothing heavy is loaded.

    Args:
        config: rows, model and how it answers.
        more: tokens by which prompts may be longer than the rows say.
    """
    inputs = open_inputs(config)
    if difference := inputs.tokenizer_difference():
        if config.tokenizer is None:
            raise UsageError("tokenizer", difference)
        warn(f"tokenizer: {difference}")
    inputs.use_fast_counter()
    longest = inputs.longest_requests()
    most = max(longest.values()) + more
    engine = prepare(Setup(config, inputs.model, inputs.tokenizer, most))
    inputs.refuse_over_window(longest, engine.window)
    return RunJob(config, inputs.data, inputs.model, inputs.tokenizer, engine)


def run_shard(
    job: RunJob,
    folder: RunFolder,
    shard: Shard,
    *,
    budget: Budget = NO_BUDGET,
    bar: bool = True,
) -> str | None:
    """Answer the rows of a shard that have no answer yet; `bar` shows progress on a terminal.

    Returns:
        How many of the rows have no answer now, and why; None if all have one.
    """
    with folder.hold(shard):
        ledger = Ledger(budget, Prices.read(vars(job.config)), Spent.read(folder.path))
        run = _ShardRun(job.opened(ledger), folder, shard, ledger)
        run.answer(bar=bar)
    return run.shortfall()


@dataclass(frozen=True)
class _ShardRun:
    """The rows of a shard on their way to the engine, and their answers to the journal."""

    job: RunJob
    folder: RunFolder
    shard: Shard
    ledger: Ledger

    def answer(self, *, bar: bool) -> None:
        """Answer the rows that have no answer, each a line of a new journal."""
        run = self.folder.begin(self.job.info, self.shard).short_fingerprint
        name = journal.unique()
        pending = self._resume()
        self.ledger.open(self.folder.path / TRIES.format(self.shard.name, name))
        answers = journal.Lines(self.folder.path / journal.NAME.format(self.shard.name, name, run))
        tokens = sum(parse_config(config)[1] for config, *_ in pending)
        context = progress(tokens, "loading the model") if bar else nullcontext(lambda *_: None)
        with closing(self.ledger), closing(answers), context as advance:
            for answer in self._answers(pending):
                answers.append(journal.to_line(answer))
                self.ledger.add(answer)
                advance(answer.config, 1)

    def shortfall(self) -> str | None:
        """Return how many rows have no answer, and why; None if all have one."""
        records = self.folder.answers()  # as `status` and `score` see them
        unanswered = self._unanswered(records)
        errors = [records[key].error or "another question" for key in unanswered if key in records]
        missing = len(unanswered) - len(errors)
        if not unanswered:
            return None
        where = f"{self.folder.path}: shard {self.shard}"
        if self.ledger.is_reached:
            return f"{where}: {missing} rows were not run: {self.ledger.line}"
        reason = f" ({errors[0]})" if errors else ""
        return (
            f"{where}: {counted(len(errors), 'row')} could not be answered{reason}, {missing} were "
            "not run; run the command again to run only these rows"
        )

    def _resume(self) -> list[Key]:
        """Record the start; return the rows without an answer."""
        notes: list[str] = []
        records = self.folder.answers(notes)
        pending = self._unanswered(records)
        for note in notes[:3]:
            warn(note)
        if failures := sum(key in records for key in pending):
            warn(f"retrying {counted(failures, 'row')} that failed before")
        self.folder.file(FAILURE, self.shard).unlink(missing_ok=True)
        config = self.job.config
        model = self.job.model
        start = {
            "data": str(self.job.data.source.folder.absolute()),
            "window": model.window,
            "trained_window": trained_window(model.config),
            "arguments": {
                **config.to_record(),
                "model": model.source if model.folder and not model.hub_revision else config.model,
                "base_url": None,  # an address is never written
                "options": _without_secrets(config.settings),
            },
        }
        self.folder.log_start(self.job.info, self.shard, start)
        return pending

    def _unanswered(self, records: Mapping[Key, Answer]) -> list[Key]:
        """Return the rows that have no answer, or one to another question."""
        data = self.job.data
        digests = {config: data.questions(config) for config in {config for config, *_ in records}}
        answered = set[Key]()
        for key, answer in records.items():
            is_asked = answer.question_digest == digests[answer.config][answer.index]
            if answer.error is None and is_asked:
                answered.add(key)
        share = data.shares(self.shard.count, self.job.config.samples)[self.shard.index]
        return [key for key in share if key not in answered]

    def _answers(self, pending: Iterable[Key]) -> Iterator[Answer]:
        """Yield the engine's answers."""
        job = self.job
        with closing(prefetch(requests(job, pending), AHEAD)) as rendered:
            ready = _admitted(rendered, self.ledger)
            first = next(ready, None)
            if first is None:  # no model is loaded for nothing
                return
            answers = job.engine.generate(chain([first], ready))
            try:
                with engine_errors(job, self.folder.file(FAILURE, self.shard)):
                    yield from map(job.finished, answers)
            finally:
                getattr(answers, "close", lambda: None)()


def _without_secrets(options: Mapping[str, Any]) -> dict[str, Any]:
    """Return an engine's options without the values of headers, but for a variable's name alone.

    A secret may begin with `$`, or stand after a variable.
    """
    headers = options.get("headers")
    if not isinstance(headers, dict):
        return dict(options)
    shown = dict.fromkeys(headers, "[secret]")
    for name, value in headers.items():
        is_variable = re.fullmatch(r"\$(\w+|\{\w+\})", str(value)) is not None
        if is_variable and os.path.expandvars(value) != value:
            shown[name] = value
    return {**options, "headers": shown}


def requests(job: RunJob, pending: Iterable[Key]) -> Iterator[Request]:
    """Yield rows as requests, config by config, read as they are needed; samples together.

    The longest configs come first, so that no engine ends with one long row while it idles.
    """
    samples: dict[str, dict[int, list[int]]] = {}
    for config, index, sample in sorted(pending, key=lambda key: -parse_config(key[0])[1]):
        samples.setdefault(config, {}).setdefault(index, []).append(sample)
    for config, rows in samples.items():
        for row in job.data.read_alike(config, rows):
            request = job.request(config, row)
            for sample in rows[row.index]:
                yield replace(request, sample=sample)


def _admitted(requests: Iterator[Request], ledger: Ledger) -> Iterator[Request | None]:
    """Yield requests until one might exceed the budget.

    As those on their way cost less than they might, the next one waits for them.
    """
    for request in requests:
        read = len(request.ids)
        while not ledger.fits(read, request.max_tokens):
            if ledger.is_idle:
                ledger.is_reached = True
                return
            yield None
        ledger.send(request.key, read, request.max_tokens)
        yield request


@contextmanager
def engine_errors(job: RunJob, file: Path | None = None) -> Iterator[None]:
    """Turn an exception of the engine into one line; its traceback goes to the file of a run."""
    try:
        yield
    except RulerError:
        raise
    except Exception as error:  # engines are other people's programs and raise anything
        text = str(error).strip()
        if isinstance(error, ValidationError):
            text = faults(error)
        reason = text[:LONGEST].partition("\n")[0]
        problem = f"engine {job.config.engine} failed ({type(error).__name__}: {reason})"
        if file is not None:
            write_file(file, "".join(traceback.format_exception(error)))
            remedy = "answers so far are kept, run it again to resume"
            problem += f"; the traceback is in {file}; {remedy}"
        raise RulerError(problem) from error


T = TypeVar("T")
#: Marks the end of a source.
_END = object()


def prefetch(source: Iterator[T], depth: int) -> Generator[T, None, None]:
    """Yield the items of a source, of which a thread makes up to `depth` ahead.

    What the source raises is raised here, in its place. A reader that stops waits for the item in
    work, because a thread that is inside pyarrow when Python exits aborts the process.
    """
    pool = ThreadPoolExecutor(1, "prompts")
    try:
        ahead = deque(pool.submit(next, source, _END) for _ in range(depth))
        while (item := ahead.popleft().result()) is not _END:
            ahead.append(pool.submit(next, source, _END))
            yield cast(T, item)
    finally:
        pool.shutdown(cancel_futures=True)


#: Seconds that processes have to end by themselves.
GRACE = 60.0
#: What a process does.
WORK = "import ruler_eval; from ruler_eval.running.runner import work; work(ruler_eval.run)"


def devices(groups: int, size: int, visible: str | None) -> list[str]:
    """Return CUDA_VISIBLE_DEVICES of each group; `visible` is this process's, None for all GPUs.

    >>> devices(2, 2, None), devices(2, 1, "5,7")
    (['0,1', '2,3'], ['5', '7'])
    """
    if visible is None:
        names = [str(gpu) for gpu in range(groups * size)]
    else:
        names = [name for name in visible.split(",") if name]
    if len(names) < groups * size:
        raise UsageError(
            f"--data-parallel {groups} of {size} GPUs needs {groups * size}, CUDA_VISIBLE_DEVICES "
            f"names {len(names)}"
        )
    return [",".join(names[group * size : (group + 1) * size]) for group in range(groups)]


def run_processes(config: EvalConfig, folder: RunFolder, shard: Shard, groups: int) -> None:
    """Run a shard in one process per group of GPUs."""
    gpus = devices(groups, config.tensor_parallel, os.environ.get("CUDA_VISIBLE_DEVICES"))
    arguments = {**config.to_record(), "out": str(folder.path)}
    folder.path.mkdir(parents=True, exist_ok=True)
    processes: dict[Shard, subprocess.Popen[bytes]] = {}
    try:
        for number, visible in enumerate(gpus):
            shard_here = Shard(shard.index * groups + number, shard.count * groups)
            arguments["shard"] = str(shard_here)
            processes[shard_here] = _start(arguments, visible, folder.file(LOG, shard_here))
        if terminal.is_terminal():
            terminal.tell(f"{groups} processes; `ruler-eval status {folder.path}` shows their rows")
        for process in processes.values():
            process.wait()
    finally:
        for process in processes.values():
            process.terminate()  # nothing, if it has ended
        for process in processes.values():
            with process:  # its input is closed, and its end awaited
                try:
                    process.wait(GRACE)
                except subprocess.TimeoutExpired:
                    process.kill()
    errors = [
        f"shard {ended}: {_last_error(folder.file(LOG, ended), process.returncode)}"
        for ended, process in processes.items()
        if process.returncode
    ]
    if errors:
        problem = f"{len(errors)} of {groups} shards failed"
        raise RulerError(problem, f"{'; '.join(errors)}; run it again to resume")


def _start(arguments: dict[str, Any], visible: str, log: Path) -> subprocess.Popen[bytes]:
    with create_file(log) as output:
        process = subprocess.Popen(
            [sys.executable, "-c", WORK, "--shard", arguments["shard"]],  # shown by ps
            stdin=subprocess.PIPE,
            stdout=output,
            stderr=output,
            env={**os.environ, "CUDA_VISIBLE_DEVICES": visible},
        )
    assert process.stdin is not None
    process.stdin.write(json.dumps(arguments).encode() + b"\n")
    process.stdin.flush()  # it stays open: a process ends when it is closed
    return process


def _last_error(log: Path, code: int) -> str:
    """Return the line in which a process reported its failure, else where its output is."""
    lines = log.read_text("utf-8", "replace").splitlines()
    for line in reversed(lines):
        if line.startswith("ruler-eval: "):
            return line.removeprefix("ruler-eval: ")
    return f"ended with {code}, see {log}"


def work(run: Callable[..., Any]) -> None:
    """Run the shard whose arguments come on standard input; end when that is closed."""
    arguments = json.loads(sys.stdin.buffer.readline())

    def end_with_parent() -> None:
        os.read(0, 1)
        os.kill(os.getpid(), signal.SIGTERM)

    program = "ruler-eval"
    Thread(target=end_with_parent, daemon=True).start()
    terminal.run(program, lambda: sys.exit(terminal.print_result(program, run(**arguments))))
