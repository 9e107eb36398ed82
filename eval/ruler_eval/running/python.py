"""Any Python function: for KV-cache compression, sparse attention and other inference code.

    def generate(requests, ratio=0.5):          # in mykv.py; a list of up to `batch` requests
        for request in requests:
            yield compressed_model(ratio).answer(request.ids.tolist(), request.max_tokens)

    ruler-eval run ... --engine python --option function=mykv:generate --option ratio=0.25

The function gets a list of `Request`s, which hold the token ids of the prompt, its text and the
frozen row, and returns or yields one result for each, in the same order: the generated text, or a
`Generation`. Other options go to the function as keyword arguments. If it raises, the rows of that
call are unanswered, with the reason, and the next run sends them again.
"""

import inspect
import json
import os
import sys
import time
import traceback
from collections.abc import Callable, Iterable, Iterator, Mapping, Set
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import partial
from hashlib import sha256
from pathlib import Path
from pkgutil import resolve_name
from typing import Any, cast

from pydantic import PositiveInt

from ruler_data.errors import Stopped, UsageError
from ruler_data.files import sha256_file
from ruler_data.names import quote
from ruler_data.terminal import warn
from ruler_eval.running.answers import Answer
from ruler_eval.running.config import plain
from ruler_eval.running.engine import Engine, Request, Setup, take_options
from ruler_eval.running.prompts import PromptFormat


@dataclass(frozen=True)
class Generation:
    """A generated text, and what is known of it; what is not known is None.

    Attributes:
        text: generated, without the prompt. A plain text in place of a `Generation` has an unknown
            finish reason.
        finish_reason: `stop` if the model ended the answer, `length` if it reached `max_tokens`;
            anything else leaves the row unanswered.
        tokens: number of generated tokens.
        reasoning: what the model thought; never scored.
        prompt_tokens: number of tokens that the model read.
        cached_tokens: of the prompt, those that a cache held.
        calls: of a model, if the answer took several (agents, retrieval).
    """

    text: str
    finish_reason: str = "stop"
    tokens: int | None = None
    reasoning: str | None = None
    calls: int | None = None
    prompt_tokens: int | None = None
    cached_tokens: int | None = None


#: What a function may be.
Function = Callable[..., str | Generation | Iterable[str | Generation]]


#: A result that is one, though most of these can be iterated.
ONE = (str, bytes, Mapping, Set, Generation)


@dataclass(frozen=True)
class PythonOptions:
    """Options of the engine; all others are keyword arguments of the function."""

    function: str | None = None  # `package.module:name`
    batch: PositiveInt = 1  # requests per call, at most


def prepare(setup: Setup) -> Engine:
    """Return the engine; the function is imported, not called."""
    config = setup.config
    tokenizer = setup.tokenizer
    assert tokenizer is not None
    options, arguments = take_options(PythonOptions, config.settings)
    if (options.function is None) == (config.generate is None):
        raise UsageError("engine python needs one function: --option function=package.module:name")
    function = config.generate or _load(options.function or "")
    inner: Any = function
    bound: dict[str, Any] = {}
    while isinstance(inner, partial):
        places = {str(place): argument for place, argument in enumerate(inner.args)}
        bound = {**places, **inner.keywords, **bound}
        inner = inner.func
    inner = inspect.unwrap(inner)
    owner = inner if hasattr(inner, "__qualname__") else type(inner)
    name = f"{owner.__module__}:{owner.__qualname__}"
    try:
        with suppress(ValueError):  # some builtins have no signature
            inspect.signature(function).bind([], **arguments)
    except TypeError as error:
        raise UsageError(
            name,
            f"cannot be called with requests and these options: {error}; give what it needs by "
            "--option NAME=VALUE (in Python as a keyword argument, or with functools.partial)",
        ) from error
    info = {
        "function": name,
        "source": _source_hash(inner, name),
        "batch": options.batch,
        "arguments": {**json.loads(_as_json(bound)), **arguments},
    }

    def generate(requests: Iterator[Request | None]) -> Iterator[Answer]:
        for batch in _batches(requests, options.batch):
            rendered = [
                replace(request, prompt=config.prompts.text(tokenizer, request.row))
                for request in batch
            ]
            yield from _predict(partial(function, **arguments), rendered, config.prompts)

    return Engine(generate, info, sampling={}, window=setup.model.window)


def _batches(requests: Iterator[Request | None], size: int) -> Iterator[list[Request]]:
    """Yield up to `size` requests together, fewer where no other is ready."""
    batch = list[Request]()
    for request in requests:
        if request is not None:
            batch.append(request)
        if batch and (request is None or len(batch) == size):
            yield batch
            batch = []
    if batch:
        yield batch


def _predict(function: Function, batch: list[Request], prompts: PromptFormat) -> Iterator[Answer]:
    """Yield the answer to each request, in order, from one call of the function."""
    start = time.monotonic()
    results: list[object] = []
    try:
        # Copies, which a function may change: the records are of what was rendered here.
        copies = [
            replace(request, ids=request.ids.copy(), row=prompts.prompt_row(request.row))
            for request in batch
        ]
        output = function(copies)
        results = [output] if isinstance(output, ONE) else list(output)
        reason = f"the function returned {len(results)} results for {len(batch)} requests"
    except (KeyboardInterrupt, Stopped):
        raise
    except BaseException as error:  # the function is the user's: it raises anything, or exits
        frame = traceback.extract_tb(error.__traceback__)[-1]
        message = str(error).strip().partition("\n")[0][:200]
        reason = f"{type(error).__name__}: {message} ({Path(frame.filename).name}:{frame.lineno})"
    if len(results) != len(batch):
        yield from (request.failed(reason) for request in batch)
        return
    seconds = time.monotonic() - start
    for request, result in zip(batch, results, strict=True):
        yield _answer(request, result, seconds)


def _answer(request: Request, result: object, seconds: float) -> Answer:
    """Return the record of what a function returned for a request."""
    generation = Generation(result, "unknown") if isinstance(result, str) else result
    if not isinstance(generation, Generation) or not isinstance(generation.text, str):
        kind = type(getattr(generation, "text", generation)).__name__
        return request.failed(f"the function returned {kind}, not text or a Generation")
    names = ("reasoning", "calls", "prompt_tokens", "cached_tokens")
    details = {name: plain(getattr(generation, name)) for name in names}
    details["counted"] = "nobody" if generation.prompt_tokens is None else "engine"
    return request.answered(
        generation.text, generation.finish_reason, plain(generation.tokens), seconds, **details
    )


def _source_hash(function: object, name: str) -> str | None:
    """Return the sha256 of the file or notebook cell that holds a function; None without them."""
    holder = function if inspect.isroutine(function) else type(function)
    with suppress(TypeError, OSError):
        return "sha256:" + sha256_file(Path(inspect.getsourcefile(holder) or ""))
    routine: Any = holder if holder is function else type(function).__call__
    with suppress(TypeError, OSError):
        text = "".join(inspect.findsource(routine)[0])
        return "sha256:" + sha256(text.encode()).hexdigest()
    warn(f"{name}: its code cannot be read; if it changes, a resumed run does not notice")
    return None


def _as_json(values: object) -> str:
    """Return values as JSON; of one that JSON has no form for, its type."""
    return json.dumps(values, skipkeys=True, default=lambda value: type(value).__name__)


def _load(spec: str) -> Function:
    """Return the function that a text names; the working directory is searched too."""
    module, _, name = spec.partition(":")
    option = f"--option function={quote(spec)}"
    if not (module and name):
        raise UsageError(option, "write package.module:name")
    if os.getcwd() not in sys.path:  # noqa: PTH109 - entries are texts
        sys.path.insert(0, os.getcwd())  # noqa: PTH109
    try:
        function = resolve_name(spec)
    except Exception as error:  # a module is the user's and raises anything
        reason = f"cannot be imported ({type(error).__name__}: {error})"
        raise UsageError(option, reason) from error
    if not callable(function):
        raise UsageError(option, f"is {type(function).__name__}, not a function")
    return cast(Function, function)
