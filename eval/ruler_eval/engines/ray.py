"""Copies of another engine on a Ray cluster. No other module of the evaluator imports Ray.

Each copy is an actor that holds the model and answers rows as they arrive. This process renders
prompts, hands them out and receives predictions one by one, so the machines share nothing but the
model, and the journal is written here.

A copy that is lost is started again wherever there is room. Its rows are asked again after all
others, fewer of them at once each time: a row that crashes its copy ends up alone there, is
unscored, and takes no other row with it.

Ray Data is not used; docs/decisions/0007-rows-on-ray.md has the reasons and what was tried.
"""

import logging
import os
import socket
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field, replace
from functools import partial
from queue import Empty, Queue
from typing import Any

from ruler_data.errors import RulerError, UsageError
from ruler_data.names import quote
from ruler_data.tokenizers import PromptTokenizer
from ruler_eval.engines.interface import Engine, Request, installed_versions, read_options
from ruler_eval.eval_config import EvalConfig
from ruler_eval.models import Model
from ruler_eval.schema import Prediction
from ruler_eval.sharding import Key

#: Engines that can be copied.
COPIED = ("vllm", "transformers", "oracle")
#: Rows that a copy has at once: more than any engine computes at a time, so that it never waits.
WINDOW = 160
#: Times that a row is handed out before it is unscored, if its copy is lost each time; and the
#: factor by which a copy has fewer rows at once each time: 160, 16, 1.
TRIES, FEWER = 3, 10
#: Copies that may be lost one after the other, with no prediction in between.
LOSSES = 5


@dataclass(frozen=True)
class RayOptions:
    """Options of the engine; all others go to the copies.

    Attributes:
        engine: of each copy.
        copies: of the model; as many as the GPUs of the cluster hold where None.
    """

    engine: str = "vllm"
    copies: int | None = None


def prepare(
    config: EvalConfig, model: Model, _tokenizer: PromptTokenizer | None, longest: int
) -> Engine:
    """Return the engine, not started. A copy loads its own tokenizer with the model.

    Raises:
        UsageError: Ray or the engine of the copies is not installed, or knows no such option.
    """
    from ruler_eval.engines import prepare

    given = config.engine_options
    own: dict[str, Any] = {name: given[name] for name in ("engine", "copies") if name in given}
    options = read_options("ray", RayOptions, own)
    if options.engine not in COPIED:
        msg = f"--option engine={quote(options.engine)}: copies are of vllm or transformers"
        raise UsageError(msg)
    rest = {name: value for name, value in given.items() if name not in own}
    inner = replace(config, engine=options.engine, options=rest)
    engine = prepare(inner, model, None, longest)
    versions = installed_versions("ray", "ray")
    return replace(
        engine,
        generate=partial(_generate, options.copies, inner, model, longest),
        info={**versions, "engine": options.engine, **engine.info},
    )


def _generate(
    copies: int | None,
    config: EvalConfig,
    model: Model,
    longest: int,
    requests: Iterator[Request | None],
) -> Iterator[Prediction]:
    """Yield predictions as copies give them.

    Raises:
        UsageError: there is no cluster at RAY_ADDRESS, or it has too few GPUs.
        RulerError: an engine failed, or copies are lost one after the other.
    """
    ray = _connect()
    try:
        gpus = config.tensor_parallel
        count = _count_copies(ray, copies, gpus)
        uses = gpus if ray.cluster_resources().get("GPU") else 0
        remote = ray.remote(num_gpus=uses, num_cpus=1, max_concurrency=2)(EngineActor)

        def start() -> ActorHandle:
            return ActorHandle(remote.remote(config, model, longest))

        yield from dispatch(ray, count, start, Rows(requests))
    finally:
        ray.shutdown()


def _connect() -> Any:  # noqa: ANN401 - the module ray, imported late
    """Return Ray, connected to the cluster at RAY_ADDRESS, or to one on this machine."""
    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
    import ray

    address = os.environ.get("RAY_ADDRESS")
    try:
        _check_port(address)
        ray.init(
            address=address,
            include_dashboard=False,
            log_to_driver=False,
            logging_level=logging.ERROR,
        )
    except (ValueError, OSError) as error:
        msg = f"RAY_ADDRESS {quote(str(address))}: no Ray cluster answers there; see `ray status`"
        raise UsageError(msg) from error
    return ray


def _check_port(address: str | None) -> None:
    """Check that something listens at an address; Ray itself needs minutes to notice.

    Raises:
        OSError: nothing does.
    """
    host, _, port = (address or "").removeprefix("ray://").rpartition(":")
    if host and port.isdecimal():
        socket.create_connection((host, int(port)), timeout=10).close()


def _count_copies(ray: Any, wanted: int | None, gpus: int) -> int:  # noqa: ANN401
    """Return how many copies to start.

    Raises:
        UsageError: the cluster has fewer GPUs than they need.
    """
    available = int(ray.cluster_resources().get("GPU", 0))
    if available == 0:  # a cluster of CPUs
        return wanted or 1
    if wanted is None:
        wanted = available // gpus
    if wanted < 1 or wanted * gpus > available:
        msg = f"{max(wanted, 1)} copies on {gpus} GPUs each: the cluster has {available} GPUs"
        raise UsageError(msg)
    return wanted


class EngineActor:
    """One copy of an engine, in its own process somewhere on the cluster."""

    def __init__(self, config: EvalConfig, model: Model, longest: int) -> None:
        from ruler_eval.engines import prepare

        self._engine = prepare(config, model, None, longest)
        self._requests: Queue[Request | None] = Queue()
        self._held = 0

    def put(self, request: Request | None) -> None:
        """Take a request; None is the end."""
        self._requests.put(request)

    def serve(self) -> Iterator[Prediction | None]:
        """Yield None, which reports that this copy has started, then predictions until the end."""
        yield None
        for prediction in self._engine.generate(self._incoming()):
            self._held -= 1
            yield prediction

    def _incoming(self) -> Iterator[Request | None]:
        """Yield requests, and None instead of waiting while the engine has others to answer."""
        while True:
            try:
                request = self._requests.get(block=self._held == 0)
            except Empty:
                yield None
                continue
            if request is None:
                return
            self._held += 1
            yield request


@dataclass
class ActorHandle:
    """A copy, as this process sees it.

    Attributes:
        actor: Ray's handle.
        requests: that it has and has not answered.
        ready: whether it has started.
    """

    actor: Any
    requests: dict[Key, Request] = field(default_factory=dict)
    ready: bool = False

    def __post_init__(self) -> None:
        self.stream = self.actor.serve.options(num_returns="streaming").remote()

    def send(self, request: Request) -> None:
        """Send a request to it."""
        self.requests[request.key] = request
        self.actor.put.remote(request)


class Rows:
    """Requests to hand out: new ones first, then those of lost copies."""

    def __init__(self, requests: Iterator[Request | None]) -> None:
        self._new, self._again, self._tries = requests, list[Request](), Counter[Key]()

    def take(self, held: int) -> Request | None:
        """Return the next request for a copy that has so many, or None where there is none."""
        request = next(self._new, None)
        if request is not None or not self._again:
            return request
        self._again.sort(key=self._losses)
        limit = WINDOW // FEWER ** self._losses(self._again[0])
        return self._again.pop(0) if held < limit else None

    def put_back(self, requests: Iterable[Request]) -> Iterator[Prediction]:
        """Keep the requests of a lost copy; yield those that were lost too often as unscored."""
        for request in requests:
            self._tries[request.key] += 1
            if self._losses(request) < TRIES:
                self._again.append(request)
            else:
                reason = f"{TRIES} copies of the model were lost while they had this row"
                yield request.unscored(reason)

    def _losses(self, request: Request) -> int:
        return self._tries[request.key]


def dispatch(
    ray: Any,  # noqa: ANN401 - the module ray
    count: int,
    start: Callable[[], ActorHandle],
    rows: Rows,
) -> Iterator[Prediction]:
    """Yield predictions, and keep each copy supplied with as many rows as it can use.

    Args:
        ray: the module ray.
        count: number of copies.
        start: starts one.
        rows: to hand out.

    Raises:
        RulerError: an engine failed, or copies are lost one after the other.
    """
    copies = [start() for _ in range(count)]
    losses = 0
    while True:
        ready = [copy for copy in copies if copy.ready]
        _supply(ready, rows)
        waiting = {copy.stream: copy for copy in copies if copy.requests or not copy.ready}
        if ready and not any(copy.requests for copy in ready):
            return
        for stream in ray.wait(list(waiting), timeout=1.0, fetch_local=True)[0]:
            copy = waiting[stream]
            try:
                prediction = _next(ray, stream)
            except ray.exceptions.RayActorError as error:
                losses += 1
                if losses > LOSSES:
                    msg = (
                        f"{losses} copies of the model were lost, one after the other; see `ray "
                        "status`, then run the same command again"
                    )
                    raise RulerError(msg) from error
                copies[copies.index(copy)] = start()
                yield from rows.put_back(copy.requests.values())
                continue
            copy.ready = True
            if prediction is not None:
                losses = 0
                del copy.requests[prediction.key]
                yield prediction


def _next(ray: Any, stream: Any) -> Prediction | None:  # noqa: ANN401
    """Return what a copy yields next.

    Raises:
        RulerError: its engine failed.
    """
    try:
        prediction: Prediction | None = ray.get(next(stream))
    except ray.exceptions.RayTaskError as error:
        reason = (str(error.cause or error).strip().splitlines() or [""])[-1]
        msg = f"a copy of the model failed: {type(error.cause).__name__}: {reason}"
        raise RulerError(msg) from error
    return prediction


def _supply(copies: list[ActorHandle], rows: Rows) -> None:
    """Give each row to the copy that has fewest, until all have as many as they can use."""
    if not copies:
        return
    while len((copy := min(copies, key=lambda each: len(each.requests))).requests) < WINDOW:
        request = rows.take(len(copy.requests))
        if request is None:
            return
        copy.send(request)
