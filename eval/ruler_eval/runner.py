"""A run: frozen rows go in, one journal line for each comes out.

`open_job` goes from the options to an engine that is ready to load, and checks that every prompt
fits; `run_shard` then answers the rows of one shard that have no answer yet. Prompts are rendered
on a thread while the engine computes. An exception of an engine becomes one line for the user and
a file with the traceback.
"""

import time
import traceback
from collections import deque
from collections.abc import Callable, Generator, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TypeVar, cast

from pydantic import ValidationError

from ruler_data.errors import RulerError
from ruler_data.files import write_file
from ruler_data.names import counted
from ruler_data.options import others_to, takes_options
from ruler_data.terminal import progress_bars, raise_if_interrupted, warn
from ruler_eval import journal
from ruler_eval.answers import Answer
from ruler_eval.engines import Engine, Request, prepare
from ruler_eval.engines.interface import published_options
from ruler_eval.eval_config import EvalConfig, RunConfig
from ruler_eval.inputs import Inputs, open_inputs
from ruler_eval.reasoning import opens, split
from ruler_eval.run_dir import FAILURE, RunFolder
from ruler_eval.run_status import Outcome, Run, summarize
from ruler_eval.schema import FREE, RunInfo, faults
from ruler_eval.sharding import Item, Shard, cost, shares_of

#: Prompts rendered before the engine asks for them; each may hold a megabyte of ids.
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

    def reasoning_apart(self, answer: Answer) -> Answer:
        """Return an answer of protocol `thinking` with its reasoning beside its text."""
        if self.prompts.protocol.name != "thinking" or not answer.text or answer.reasoning:
            return answer
        thought, text = split(answer.text, opened=opens(self.info.frame))
        return answer if thought is None else replace(answer, text=text, reasoning=thought)


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


@others_to("options")
@takes_options(RunConfig)
def run(config: RunConfig) -> Run:
    """Answer frozen rows, one journal line for each; a run that was interrupted resumes.

    Further keyword arguments are options of the engine, e.g. `dtype="float16"`; for `generate`
    also `batch`, and its keyword arguments. With `generate`, `model` may be left out, or be just a
    name to record; prompts are then rendered with the tokenizer of the data.

    Raises:
        UsageError: the options cannot be carried out, or `out` holds another run.
        RulerError: the engine failed, or data are damaged.
    """
    folder, share = config.folder.checked(), config.share
    job = open_job(config)
    outcome = run_shard(job, folder, share)
    return summarize(folder, job.info, outcome)


def run_shard(job: RunJob, folder: RunFolder, shard: Shard) -> Outcome:
    """Answer the rows of a shard that have no answer yet; progress is shown on a terminal."""
    with folder.hold(shard):
        if job.engine.open is not None:
            job.engine.open()
        folder.begin(job.info, shard)
        pending = _resume(job, folder, shard)
        errors: list[str | None] = []  # of each row that was asked
        answers = journal.Journal(folder.path, shard.name)
        with closing(answers), bar(pending) as progress:
            for prediction in _predict(job, pending, folder.file(FAILURE, shard)):
                answers.add(prediction)
                progress(prediction)
                errors.append(prediction.error)
    reasons = [error for error in errors if error is not None]
    missing = len(pending) - len(errors)
    return Outcome(errors.count(None), len(reasons), missing, *reasons[:1])


def _resume(job: RunJob, folder: RunFolder, shard: Shard) -> list[Item]:
    """Return the rows of a shard that is held without an answer."""
    torn: list[str] = []
    found = folder.answers(torn)
    for note in torn[:3]:
        warn(note)
    answered = {key for key, each in found.items() if each.error is None}
    if len(found) > len(answered):
        warn(f"retrying {counted(len(found) - len(answered), 'row')} that failed before")
    folder.file(FAILURE, shard).unlink(missing_ok=True)
    share = shares_of(job.data, shard.count, job.config.samples)[shard.index]
    pending = [item for item in share if item.key not in answered]
    options = published_options(job.config.engine_options)
    start = {
        "data": str(job.data.source.folder.absolute()),
        **{name: value for name, value in options.items() if name in FREE},
    }
    folder.log_start(job.info, shard, start)
    return pending


def requests(job: RunJob, pending: Sequence[Item]) -> Iterator[Request]:
    """Yield rows as requests, config by config, read as they are needed; samples together."""
    wanted: dict[str, dict[int, list[int]]] = {}
    for item in pending:
        wanted.setdefault(item.config, {}).setdefault(item.index, []).append(item.sample)
    for config, rows in wanted.items():
        for row in job.data.read_alike(config, rows):
            ids = job.ids(row)
            for reason in job.misfits(row, ids, job.engine.window).values():
                name = f"{config}/{row.index}"
                raise RulerError(name, f"{reason}; see `ruler-eval doctor`")
            for sample in rows[row.index]:
                yield Request(config, row, ids, job.room(row), sample=sample)


def _predict(job: RunJob, pending: list[Item], failure: Path) -> Iterator[Answer]:
    """Yield the engine's predictions; an exception of it becomes one line, and a file."""
    if not pending:
        return
    with closing(prefetch(requests(job, pending), AHEAD)) as ready:
        predictions = job.engine.generate(ready)
        try:
            yield from map(job.reasoning_apart, predictions)
        except RulerError:
            raise
        except Exception as error:  # engines are other people's programs and raise anything
            write_file(failure, "".join(traceback.format_exception(error)))
            text = faults(error) if isinstance(error, ValidationError) else str(error).strip()
            reason = text[:LONGEST].partition("\n")[0]
            msg = (
                f"engine {job.config.engine} failed ({type(error).__name__}: {reason}); the "
                f"traceback is in {failure}; answers so far are kept, run it again to resume"
            )
            raise RulerError(msg) from error
        finally:
            getattr(predictions, "close", lambda: None)()


@contextmanager
def bar(pending: Sequence[Item]) -> Iterator[Callable[[Answer], None]]:
    """Yield a function that advances a bar by a prediction.

    The bar moves by the cost of rows, so that short rows promise nothing about long ones.
    """
    if not pending:
        yield lambda _: None
        return
    tokens = {item.key: item.tokens for item in pending}
    done = prefilled = 0
    started = time.monotonic()
    with progress_bars() as bars:
        total, first = sum(map(cost, tokens.values())), f"0/{len(pending)} rows"
        task = bars.add_task("waiting for the first answer", total=total, items=first, speed="")

        def advance(prediction: Answer) -> None:
            nonlocal done, prefilled
            raise_if_interrupted()
            length, seconds = tokens.get(prediction.key, 0), time.monotonic() - started
            done += 1
            prefilled += prediction.prompt_tokens or length
            bars.update(
                task,
                advance=cost(length),
                description="all configs",
                items=f"{done}/{len(pending)} rows",
                speed=f"{done / seconds:.1f} rows/s, {prefilled / seconds:,.0f} tokens/s",
            )

        yield advance


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
