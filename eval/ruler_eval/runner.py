"""A run: frozen rows go in, one journal line for each comes out.

`open_job` goes from the options to an engine that is ready to load, and checks that every prompt
fits; `run_shard` then answers the rows of one shard that have no answer yet. Prompts are rendered
on a thread while the engine computes. An exception of an engine becomes one line for the user and
a file with the traceback.
"""

import traceback
from collections import deque
from collections.abc import Generator, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import TypeVar, cast

from pydantic import ValidationError

from ruler_data.errors import RulerError, UsageError
from ruler_data.files import write_file
from ruler_data.names import counted
from ruler_data.row import Row
from ruler_data.terminal import warn
from ruler_eval.engines import Engine, Request, prepare
from ruler_eval.engines.interface import ModelChanged
from ruler_eval.eval_config import EvalConfig
from ruler_eval.inputs import Inputs, open_inputs
from ruler_eval.journal import Journal
from ruler_eval.progress import bar
from ruler_eval.run_dir import FAILURE, JOURNAL, RunFolder
from ruler_eval.schema import Prediction, RunInfo, faults
from ruler_eval.sharding import Item, Shard, cost, shares_of

#: Prompts rendered before the engine asks for them; each may hold a megabyte of ids.
AHEAD = 4

#: Characters of an engine's message that are repeated.
LONGEST = 300


@dataclass(frozen=True)
class RunJob(Inputs):
    """A run, opened and checked."""

    engine: Engine

    @cached_property
    def info(self) -> RunInfo:
        """Everything that decides on the answers."""
        prompts, samples = self.prompts, self.config.samples
        tokenizer = None if self.engine.renders_prompts else self.tokenizer
        sampling = {"extra_tokens": prompts.extra_tokens, **self.engine.sampling}
        return RunInfo(
            data=self.data.info,
            model=self.model.name,
            model_revision=self.model.revision,
            protocol=prompts.protocol.name,
            engine=self.config.engine,
            engine_info=self.engine.info,
            sampling=sampling | ({"samples": samples} if samples > 1 else {}),
            no_context=prompts.no_context,
            frame=prompts.frame(tokenizer) if tokenizer else None,
            model_tokenizer=tokenizer.info.fingerprint if tokenizer else None,
        )

    def opened(self) -> "RunJob":
        """Return the same with what only requests to a server show."""
        return replace(self, engine=self.engine.opened()) if self.engine.opened else self


def open_job(config: EvalConfig) -> RunJob:
    """Return a run whose prompts all fit; nothing heavy is loaded."""
    inputs = open_inputs(config)
    inputs.use_fast_counter()
    longest = inputs.longest_requests()
    engine = prepare(config, inputs.model, inputs.tokenizer, max(longest.values()))
    inputs.refuse_over_window(longest, engine.window)
    if not (engine.renders_prompts or inputs.counts_alike):
        warn(
            f"tokenizer {inputs.tokenizer.info.name} is not the one that the data's lengths are "
            f"counted in ({inputs.data.manifest.tokenizer.name}); `ruler-eval doctor` compares them"
        )
    return RunJob(config, inputs.data, inputs.model, inputs.tokenizer, engine)


@dataclass(frozen=True)
class Outcome:
    """What one call of `run_shard` did; `missing` rows were not asked."""

    answered: int = 0
    unscored: int = 0
    missing: int = 0
    first_error: str | None = None


def run_shard(job: RunJob, folder: RunFolder, shard: Shard) -> Outcome:
    """Answer the rows of a shard that have no answer yet; progress is shown on a terminal."""
    if job.engine.opened is None:  # else the server is asked first, once the shard is held
        folder.begin(job.info)
    with folder.hold(shard):
        job = job.opened()
        folder.begin(job.info, shard)  # another run may have replaced it before the shard was held
        pending = _resume(job, folder, shard)
        done = unscored = 0
        first_error = None
        journal = Journal(folder.file(JOURNAL, shard))
        with closing(journal), bar(pending) as progress:
            try:
                for prediction in _predict(job, pending, folder.file(FAILURE, shard)):
                    journal.add(prediction)
                    progress(prediction)
                    done += prediction.error is None
                    unscored += prediction.error is not None
                    first_error = first_error or prediction.error
            except ModelChanged as error:
                if not error.doubtful:
                    raise
                aside = folder.path / f"doubtful-{shard.name}.jsonl"
                journal.set_aside(error.doubtful, aside)
                msg = f"{error}; {error.doubtful} answers since then are now in {aside.name}"
                raise RulerError(msg) from error
    return Outcome(done, unscored, len(pending) - done - unscored, first_error)


def _resume(job: RunJob, folder: RunFolder, shard: Shard) -> list[Item]:
    """Mend the journal of a shard that is held; return the rows without an answer."""
    mended = folder.mend(shard)
    if mended.cut:
        warn(
            f"the last line of the journal was incomplete ({mended.cut} bytes removed); its row "
            "will be run again"
        )
    if mended.unscored:
        warn(f"retrying {counted(mended.unscored, 'row')} that failed before")
    answered = folder.answered()
    blank = not answered and not folder.others_run(shard)
    if found := job.engine.differences({} if blank else folder.first_start(job.info)):
        msg = (
            f"{folder.path}: the server holds another model than when the run began: "
            f"{'; '.join(found[:3])}; serve the first model again, or give another --out"
        )
        raise UsageError(msg)
    folder.file(FAILURE, shard).unlink(missing_ok=True)
    share = shares_of(job.data, shard.count, job.config.samples)[shard.index]
    pending = [item for item in share if item.key not in answered]
    start = {
        "first": blank,
        "kept": mended.kept,
        "pending": len(pending),
        "cost": round(sum(cost(item.tokens) for item in pending)),
        "data": str(job.data.source.folder.absolute()),
    }
    folder.log_start(job.info, shard, {**start, **job.engine.start})
    return pending


def requests(job: RunJob, pending: Sequence[Item]) -> Iterator[Request]:
    """Yield rows as requests, config by config, read as they are needed; samples together."""
    wanted: dict[str, dict[int, list[int]]] = {}
    for item in pending:
        wanted.setdefault(item.config, {}).setdefault(item.index, []).append(item.sample)
    for config, rows in wanted.items():
        for row in job.data.read_alike(config, rows):
            request = _request(job, config, row)
            for sample in rows[row.index]:
                yield replace(request, sample=sample)


def _request(job: RunJob, config: str, row: Row) -> Request:
    prompts, window = job.prompts, job.engine.window
    ids = prompts.ids(job.tokenizer, row)
    max_tokens = prompts.max_tokens(row.max_new_tokens)
    if window is not None and len(ids) + max_tokens > window:
        msg = (
            f"{config}/{row.index}: a prompt of {len(ids)} tokens and {max_tokens} for the answer "
            f"are over the window of {window}; see `ruler-eval doctor`"
        )
        raise RulerError(msg)
    if prompts.is_counted and job.counts_alike:
        length = len(ids) + row.max_new_tokens
        if length != row.length:
            msg = (
                f"{config}/{row.index}: prompt and answer are {length} tokens, the data says "
                f"{row.length}, counted with the same tokenizer; see `ruler-eval doctor`"
            )
            raise RulerError(msg)
    return Request(config, row, ids, max_tokens)


def _predict(job: RunJob, pending: list[Item], failure: Path) -> Iterator[Prediction]:
    """Yield the engine's predictions; an exception of it becomes one line, and a file."""
    if not pending:
        return
    with closing(prefetch(requests(job, pending), AHEAD)) as ready:
        predictions = job.engine.generate(ready)
        try:
            yield from predictions
        except RulerError:
            raise
        except Exception as error:  # engines are other people's programs and raise anything
            write_file(failure, "".join(traceback.format_exception(error)))
            msg = (
                f"engine {job.config.engine} failed ({type(error).__name__}: "
                f"{gist(error)}); the traceback is in {failure}; answers so far are kept, run it "
                "again to resume"
            )
            raise RulerError(msg) from error
        finally:
            getattr(predictions, "close", lambda: None)()


def gist(error: Exception) -> str:
    r"""Return the line of an error that says what is wrong.

    >>> gist(ValueError("no GPU\nsee the log"))
    'no GPU'
    """
    text = faults(error) if isinstance(error, ValidationError) else str(error).strip()
    return text.partition("\n")[0][:LONGEST]


T = TypeVar("T")


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


#: Marks the end of a source.
_END = object()
