"""A run: frozen rows go in, one journal line for each comes out.

`open_job` goes from the options to an engine that is ready to load, and checks that every prompt
fits; `run_shard` then answers the rows of one shard that have no answer yet. Prompts are rendered
on a thread while the engine computes. An exception of an engine becomes one line for the user and
a file with the traceback.
"""

import json
import time
import traceback
from collections import deque
from collections.abc import Callable, Generator, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, contextmanager
from dataclasses import dataclass, fields, replace
from itertools import chain
from pathlib import Path
from typing import Any, TypeVar, cast

from pydantic import ValidationError

from ruler_data.errors import RulerError
from ruler_data.files import write_file
from ruler_data.names import counted, parse_config
from ruler_data.row import Row
from ruler_data.terminal import progress_bars, raise_if_interrupted, warn
from ruler_eval import journal
from ruler_eval.answers import Answer
from ruler_eval.decide import HELD, Decision, Question, write_decision
from ruler_eval.engines import Engine, Request, prepare
from ruler_eval.engines.interface import published_options
from ruler_eval.eval_config import EvalConfig
from ruler_eval.inputs import Choice, Inputs, open_inputs
from ruler_eval.models import trained_window
from ruler_eval.reasoning import opens, split
from ruler_eval.run_dir import FAILURE, RunFolder
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


def open_job(choice: Choice, config: EvalConfig) -> RunJob:
    """Return a run whose prompts all fit; nothing heavy is loaded."""
    inputs = open_inputs(choice, config)
    inputs.use_fast_counter()
    longest = inputs.longest_requests()
    engine = prepare(config, inputs.model, inputs.tokenizer, max(longest.values()))
    inputs.refuse_over_window(longest, engine.window)
    if not (engine.renders_prompts or inputs.counts_alike):
        warn(
            f"tokenizer {inputs.tokenizer.info.name} is not the one that the data's lengths are "
            f"counted in ({inputs.data.manifest.tokenizer.name}); `ruler-eval doctor` compares them"
        )
    return RunJob(choice, config, inputs.data, inputs.model, inputs.tokenizer, engine)


def run_shard(
    job: RunJob, folder: RunFolder, shard: Shard, question: Question | None = None
) -> str | None:
    """Answer the rows of a shard that have no answer yet; progress is shown on a terminal.

    Args:
        job: the run.
        folder: of the run.
        shard: to answer.
        question: ask rows only until it is decided.

    Returns:
        How many of them have none now, and why; None if all have one.
    """
    with folder.hold(shard):
        if job.engine.open is not None:
            job.engine.open()
        folder.begin(job.info, shard)
        pending = _resume(job, folder, shard)
        wanted: Iterator[Request | None] | None = requests(job, pending) if pending else None
        decision: Decision | None = None
        if question is not None:
            decision = Decision(question, job.data, job.info)
            held = HELD if job.config.engine == "vllm" else None
            wanted = _undecided(job, decision.rows(folder.answers(), held))
        answers = journal.Journal(folder.path, shard.name)
        with closing(answers), bar(pending) as progress:
            for answer in _predict(job, wanted, folder.file(FAILURE, shard)):
                answers.add(answer)
                progress(answer)
                if decision is not None:
                    decision.add(answer)
        if decision is not None:
            write_decision(folder.path, decision)
    found = folder.answers() if pending else {}
    records = [found.get(item.key) for item in pending]
    failed = [one.error for one in records if one is not None and one.error is not None]
    missing = records.count(None) if decision is None else 0
    if not failed and not missing:
        return None
    return (
        f"{folder.path}: shard {shard}: {counted(len(failed), 'row')} could not be answered "
        f"({next(iter(failed), None)}), {missing} were not run; run the command again to run only "
        "these rows"
    )


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
        "window": job.model.window,
        "trained_window": trained_window(job.model.config),
        **{name: value for name, value in options.items() if name in FREE},
        **_arguments(job),
    }
    folder.log_start(job.info, shard, start)
    return pending


def _arguments(job: RunJob) -> dict[str, Any]:
    """Return what `repeat` starts the same model with; never an address or a function."""
    choice, config = vars(job.choice), vars(job.config)
    model = job.model.source if job.model.folder and not job.model.hub_revision else choice["model"]
    kept = {name: config[name] for name in (one.name for one in fields(job.config))}
    del kept["generate"], kept["base_url"]
    return json.loads(  # type: ignore[no-any-return]
        json.dumps({"choice": {**choice, "model": model}, "config": kept}, default=str)
    )


def requests(job: RunJob, pending: Sequence[Item]) -> Iterator[Request]:
    """Yield rows as requests, config by config, read as they are needed; samples together.

    The longest configs come first, so that no engine ends with one long row while it idles.
    """
    wanted: dict[str, dict[int, list[int]]] = {}
    for item in sorted(pending, key=lambda item: -parse_config(item.config)[1]):
        wanted.setdefault(item.config, {}).setdefault(item.index, []).append(item.sample)
    for config, rows in wanted.items():
        for row in job.data.read_alike(config, rows):
            ids = job.ids(row)
            for reason in job.misfits(row, ids, job.engine.window).values():
                name = f"{config}/{row.index}"
                raise RulerError(name, f"{reason}; see `ruler-eval doctor`")
            for sample in rows[row.index]:
                yield Request(config, row, ids, job.room(row), sample=sample)


def _undecided(
    job: RunJob, rows: Iterator[tuple[str, Row] | None]
) -> Iterator[Request | None] | None:
    """Return rows as requests; None if there is none, so that no model is loaded."""
    first = next(rows, None)
    if first is None:
        return None
    return (
        None if each is None else Request(*each, job.ids(each[1]), job.room(each[1]))
        for each in chain([first], rows)
    )


def _predict(
    job: RunJob, wanted: Iterator[Request | None] | None, failure: Path
) -> Iterator[Answer]:
    """Yield the engine's predictions; an exception of it becomes one line, and a file."""
    if wanted is None:
        return
    with closing(prefetch(wanted, AHEAD)) as ready:
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
