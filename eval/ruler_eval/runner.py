"""A run: frozen rows go in, one journal line for each comes out.

Work ahead: prompts are rendered on a thread of their own while the engine computes.

What an engine's own failure becomes: one line that says what is wrong, and a file with the rest.

Engines are other people's programs, and fail in any way.
"""

import traceback
from collections.abc import Callable, Generator, Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from queue import Empty, Full, Queue
from threading import Event, Thread
from typing import TypeVar

from pydantic import ValidationError

from ruler_data.errors import RulerError
from ruler_data.files import write_file
from ruler_data.row import Row
from ruler_data.tokenizers import PromptTokenizer
from ruler_eval.data import Dataset
from ruler_eval.engines import Engine, Request
from ruler_eval.journal import Journal, Mended
from ruler_eval.models import Model
from ruler_eval.prompts import PromptFormat, counts_alike
from ruler_eval.run_dir import RunFolder, Shard
from ruler_eval.schema import Prediction, RunInfo
from ruler_eval.sharding import Item, assign, items_of

#: Prompts rendered before the engine asks for them; each may hold a megabyte of ids.
AHEAD = 4

#: Called with each answer as it is written.
Progress = Callable[[Prediction], None]


@dataclass(frozen=True)
class RunJob:
    """All that a run is made of, opened and checked.

    Attributes:
        data: the rows.
        model: the model.
        tokenizer: that renders prompts; None where the server does.
        asking: how rows are put.
        engine: that answers; its name.
        name: of the engine.
        out: folder of the run.
        shard: whose rows are answered here.
    """

    data: Dataset
    model: Model
    tokenizer: PromptTokenizer | None
    asking: PromptFormat
    engine: Engine
    name: str
    out: RunFolder
    shard: Shard

    @property
    def failure(self) -> Path:
        """The file that says where the engine failed, for whoever has to mend it."""
        return self.out.path / f"failure-{self.shard.name}.txt"

    @property
    def info(self) -> RunInfo:
        """What decides on the answers."""
        tokenizer = self.tokenizer
        return RunInfo(
            data=self.data.info,
            model=self.model.name,
            model_revision=self.model.revision,
            protocol=self.asking.protocol.name,
            engine=self.name,
            engine_info=self.engine.info,
            sampling={"extra_tokens": self.asking.extra_tokens, **self.engine.sampling},
            no_context=self.asking.no_context,
            frame=self.asking.frame(tokenizer) if tokenizer else None,
            model_tokenizer=tokenizer.info.fingerprint if tokenizer else None,
        )


@dataclass(frozen=True)
class Outcome:
    """What a shard has done now.

    Attributes:
        answered: rows that were answered.
        unscored: rows that could not be answered.
        missing: rows that were not asked any more.
        first_error: of the first unscored row.
    """

    answered: int
    unscored: int
    missing: int
    first_error: str | None


def run_shard(job: RunJob, begun: Callable[[list[Item], Mended], Progress]) -> Outcome:
    """Answer what a shard has not answered yet.

    Args:
        job: the run.
        begun: called with the rows still to answer and what was mended; gives what is then
            called with each answer.

    Raises:
        UsageError: the folder holds another run.
        RulerError: the shard is running elsewhere, or the engine failed.
    """
    job.out.begin(job.info)
    with job.out.shard(job.shard) as (path, mended):
        job.out.begin(job.info)  # nobody took the folder over before we held the shard
        job.failure.unlink(missing_ok=True)
        answered = job.out.answered()
        mine = assign(items_of(job.data), job.shard.count)[job.shard.index]
        todo = [item for item in mine if item.key not in answered]
        progress = begun(todo, mended)
        counts = {True: 0, False: 0}
        first_error = None
        with Journal(path) as journal:
            for answer in _answers(job, todo) if todo else ():
                journal.add(answer)
                progress(answer)
                counts[answer.error is None] += 1
                first_error = first_error or answer.error
        done, unscored = counts[True], counts[False]
        return Outcome(done, unscored, len(todo) - done - unscored, first_error)


def requests(job: RunJob, todo: Sequence[Item]) -> Iterator[Request]:
    """Yield rows as the engine gets them, config by config, read as they are needed.

    Raises:
        RulerError: a prompt does not fit the window.
    """
    wanted: dict[str, set[int]] = {}
    for item in todo:
        wanted.setdefault(item.config, set()).add(item.index)
    for config, indices in wanted.items():
        for row in job.data.read_alike(config, indices):
            yield _ask(job, config, row)


def _ask(job: RunJob, config: str, row: Row) -> Request:
    """Return a row as the engine gets it, if its prompt is what it must be.

    Raises:
        RulerError: it does not fit the window, or has not the length that the data says.
    """
    window, tokenizer = job.engine.window, job.tokenizer
    ids = job.asking.ids(tokenizer, row) if tokenizer else []
    max_tokens = job.asking.max_tokens(row.max_new_tokens)
    if window is not None and len(ids) + max_tokens > window:
        msg = (
            f"{config}/{row.index}: a prompt of {len(ids)} tokens and {max_tokens} for the answer "
            f"are over the window of {window}; see `ruler-eval doctor`"
        )
        raise RulerError(msg)
    is_checked = (
        tokenizer is not None and job.asking.is_counted and counts_alike(job.data, tokenizer)
    )
    if is_checked and len(ids) + row.max_new_tokens != row.length:
        msg = (
            f"{config}/{row.index}: prompt and answer are {len(ids) + row.max_new_tokens} tokens, "
            f"the data says {row.length}, counted in the same tokenizer; see `ruler-eval doctor`"
        )
        raise RulerError(msg)
    return Request(config, row, ids, max_tokens)


def _answers(job: RunJob, todo: list[Item]) -> Iterator[Prediction]:
    """Yield the engine's answers; whatever it raises becomes one line, and a file beside it."""
    with closing(prefetch(requests(job, todo), AHEAD)) as prompts:
        answers = job.engine.answer(prompts)
        try:
            yield from answers
        except RulerError:
            raise
        except Exception as error:  # engines are other people's programs, and fail in any way
            raise engine_error(job.name, job.failure, error) from error
        finally:
            getattr(answers, "close", lambda: None)()


T = TypeVar("T")

#: Seconds between looks at whether anyone still wants what is being made.
_LOOK = 0.1
#: Seconds that an item which nobody wants any more may take to be made.
_END = 10


def prefetch(source: Iterator[T], depth: int) -> Generator[T, None, None]:
    """Yield what a source gives, at most `depth` items of which are waiting.

    What the source raises is raised here, in its place.
    """
    made: Queue[tuple[bool, T | BaseException | None]] = Queue(depth)
    unwanted, ended = Event(), Event()

    def put(item: tuple[bool, T | BaseException | None]) -> bool:
        while not unwanted.is_set():
            try:
                made.put(item, timeout=_LOOK)
            except Full:
                continue
            return True
        return False

    def work() -> None:
        try:
            for item in source:
                if not put((True, item)):
                    return
            put((False, None))
        except BaseException as error:
            put((False, error))
        finally:
            ended.set()

    try:
        Thread(target=work, daemon=True, name="prompts").start()  # a signal may come meanwhile
        while True:
            more, item = made.get()
            if more:
                yield item  # type: ignore[misc]
            elif isinstance(item, BaseException):
                raise item
            else:
                return
    finally:
        unwanted.set()
        while True:
            try:
                made.get_nowait()
            except Empty:
                break
        # Python ends a thread that outlives it, and pyarrow, if the thread is in it, the process.
        ended.wait(_END)


#: Characters of what an engine says that are repeated.
LONGEST = 300


def engine_error(engine: str, where: Path, error: Exception) -> RulerError:
    """Write where an engine failed to a file, and return what to tell the user."""
    write_file(where, "".join(traceback.format_exception(error)))
    return RulerError(
        f"engine {engine} failed ({type(error).__name__}: {gist(error)}); {where} says where; "
        "what was answered is kept, run it again to go on"
    )


def gist(error: Exception) -> str:
    r"""Return the line of an error that says what is wrong.

    >>> gist(ValueError("no GPU\nsee the log"))
    'no GPU'
    """
    if isinstance(error, ValidationError):  # an argument of vLLM's; the first line counts them
        first = error.errors()[0]
        return ": ".join([*map(str, first["loc"]), first["msg"]])[:LONGEST]
    return (str(error).strip().splitlines() or [""])[0][:LONGEST]
