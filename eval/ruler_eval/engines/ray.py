"""Copies of another engine on a Ray cluster; the one module of the evaluator that knows Ray.

Each copy is an actor that holds the model and answers rows as they come; this process renders
prompts, hands them out and gets answers back one by one, so the machines share nothing but the
model, and the journal is written here. Rows that a lost machine had go to the others.

Ray Data is not used; docs/decisions/0007-rows-on-ray.md says why, with what was tried.

Copies of an engine in processes elsewhere: what they are, and how rows are handed to them.

A copy that is lost is begun anew, wherever there is room. Its rows are asked again when all others
have been handed out, each time fewer of them together: a row that ends the process of whatever
computes it is found to be alone with that, and is unscored, and no other row is.

Only `ray.py` calls this; Ray itself is handed in.
"""

import logging
import os
import socket
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field, replace
from queue import Empty, Queue
from typing import Any

from ruler_data.errors import RulerError, UsageError
from ruler_data.names import quote
from ruler_eval.engines.interface import Engine, EngineConfig, Request, installed, take
from ruler_eval.schema import Prediction
from ruler_eval.sharding import Key


@dataclass(frozen=True)
class RayOptions:
    """What the engine can be told; all other options go to the copies.

    Attributes:
        engine: that each copy is.
        copies: of the model; as many as the cluster's GPUs hold where None.
    """

    engine: str = "vllm"
    copies: int | None = None


@dataclass(frozen=True)
class RayEngine:
    """Copies of an engine."""

    setup: EngineConfig
    options: RayOptions
    inner: Engine
    versions: dict[str, str]
    renders: bool = False

    @property
    def info(self) -> dict[str, Any]:
        """What each copy is."""
        return {**self.versions, "engine": self.options.engine, **self.inner.info}

    @property
    def sampling(self) -> dict[str, Any]:
        """What is asked of each copy."""
        return self.inner.sampling

    @property
    def window(self) -> int | None:
        """Tokens that each copy takes."""
        return self.inner.window

    def answer(self, asks: Iterator[Request | None]) -> Iterator[Prediction]:
        """Yield answers as copies give them.

        Raises:
            UsageError: there is no cluster at RAY_ADDRESS, or it has too few GPUs.
            RulerError: an engine failed, or copies are lost one after the other.
        """
        ray = _connect()
        try:
            gpus = self.setup.tensor_parallel
            count = _copies(ray, self.options.copies, gpus)
            uses = gpus if ray.cluster_resources().get("GPU") else 0
            remote = ray.remote(num_gpus=uses, num_cpus=1, max_concurrency=2)(EngineActor)
            # Its tokenizer each copy finds with the model; ours does not travel.
            setup = replace(self.setup, tokenizer=None)

            def begin() -> ActorHandle:
                return ActorHandle(remote.remote(self.options.engine, setup))

            yield from dispatch(ray, count, begin, Rows(asks))
        finally:
            ray.shutdown()


def _connect() -> Any:  # noqa: ANN401 - Ray itself, imported late
    """Return Ray, connected to the cluster at RAY_ADDRESS, or to one on this machine."""
    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
    import ray

    address = os.environ.get("RAY_ADDRESS")
    try:
        _knock(address)
        ray.init(
            address=address, include_dashboard=False, log_to_driver=False,
            logging_level=logging.ERROR,
        )  # fmt: skip
    except (ValueError, OSError) as error:
        msg = f"RAY_ADDRESS {quote(str(address))}: no Ray cluster answers there; see `ray status`"
        raise UsageError(msg) from error
    return ray


def _knock(address: str | None) -> None:
    """See that something listens at an address; Ray itself takes minutes to find out.

    Raises:
        OSError: nothing does.
    """
    host, _, port = (address or "").removeprefix("ray://").rpartition(":")
    if host and port.isdecimal():
        socket.create_connection((host, int(port)), timeout=10).close()


def _copies(ray: Any, asked: int | None, gpus: int) -> int:  # noqa: ANN401
    """Return how many copies to make.

    Raises:
        UsageError: the cluster has fewer GPUs than that takes.
    """
    there = int(ray.cluster_resources().get("GPU", 0))
    if there == 0:  # a cluster of CPUs
        return asked or 1
    if asked is None:
        asked = there // gpus
    if asked < 1 or asked * gpus > there:
        msg = f"{max(asked, 1)} copies on {gpus} GPUs each: the cluster has {there} GPUs"
        raise UsageError(msg)
    return asked


def prepare(setup: EngineConfig) -> RayEngine:
    """Return the engine, not started.

    Raises:
        UsageError: Ray or the engine of the copies is not installed, or knows no such option.
    """
    from ruler_eval.engines import ENGINES, prepare

    own = {name: setup.options[name] for name in ("engine", "copies") if name in setup.options}
    options = take("ray", RayOptions, own)
    if options.engine not in ENGINES or options.engine in ("ray", "openai"):
        msg = f"--option engine={quote(options.engine)}: copies are of vllm or transformers"
        raise UsageError(msg)
    rest = {name: value for name, value in setup.options.items() if name not in own}
    inner = replace(setup, options=rest)
    return RayEngine(inner, options, prepare(options.engine, inner), installed("ray", "ray"))


#: Rows that a copy has at once: more than any engine computes at a time, so that none waits.
WINDOW = 160
#: Times that a row is handed out before it is given up, where the copy is lost each time; and how
#: many times fewer rows a copy has at once each time: 160, 16, 1.
TRIES, FEWER = 3, 10
#: Copies that may be lost, one after the other, with no answer between.
LOSSES = 5


class EngineActor:
    """One copy of an engine, in a process of its own somewhere on the cluster."""

    def __init__(self, engine: str, setup: EngineConfig) -> None:
        from ruler_eval.engines import prepare

        self._engine = prepare(engine, setup)
        self._asks: Queue[Request | None] = Queue()
        self._held = 0

    def put(self, ask: Request | None) -> None:
        """Take a row; None is the end."""
        self._asks.put(ask)

    def serve(self) -> Iterator[Prediction | None]:
        """Yield None, which says that this copy is here, then answers until the end."""
        yield None
        for answer in self._engine.answer(self._incoming()):
            self._held -= 1
            yield answer

    def _incoming(self) -> Iterator[Request | None]:
        """Yield rows, and None rather than wait while the engine has others to answer."""
        while True:
            try:
                ask = self._asks.get(block=self._held == 0)
            except Empty:
                yield None
                continue
            if ask is None:
                return
            self._held += 1
            yield ask


@dataclass
class ActorHandle:
    """A copy as seen from here: whether it is there, its answers to come, and what it was given."""

    actor: Any
    asks: dict[Key, Request] = field(default_factory=dict)
    there: bool = False

    def __post_init__(self) -> None:
        self.answers = self.actor.serve.options(num_returns="streaming").remote()

    def give(self, ask: Request) -> None:
        """Hand a row over."""
        self.asks[ask.config, ask.row.index] = ask
        self.actor.put.remote(ask)


class Rows:
    """Rows still to hand out: new ones, then those that lost copies had."""

    def __init__(self, asks: Iterator[Request | None]) -> None:
        self._new, self._again, self._tries = asks, list[Request](), Counter[Key]()

    def take(self, held: int) -> Request | None:
        """Return the next row for a copy that has so many, or None where there is none."""
        ask = next(self._new, None)
        if ask is not None or not self._again:
            return ask
        self._again.sort(key=self._lost)
        return self._again.pop(0) if held < WINDOW // FEWER ** self._lost(self._again[0]) else None

    def take_back(self, asks: Iterable[Request]) -> Iterator[Prediction]:
        """Keep rows to hand them out again; yield those that were lost too often as unscored."""
        for ask in asks:
            self._tries[ask.config, ask.row.index] += 1
            if self._lost(ask) < TRIES:
                self._again.append(ask)
            else:
                yield ask.unscored(f"{TRIES} copies of the model were lost while they had this row")

    def _lost(self, ask: Request) -> int:
        return self._tries[ask.config, ask.row.index]


def dispatch(
    ray: Any,  # noqa: ANN401 - Ray itself
    count: int,
    begin: Callable[[], ActorHandle],
    rows: Rows,
) -> Iterator[Prediction]:
    """Yield answers while each copy has as many rows as it can use.

    Args:
        ray: Ray itself.
        count: of copies.
        begin: begins one.
        rows: to hand out.

    Raises:
        RulerError: an engine failed, or copies are lost one after the other.
    """
    copies = [begin() for _ in range(count)]
    losses = 0
    while True:
        there = [copy for copy in copies if copy.there]
        _fill(there, rows)
        waited = {copy.answers: copy for copy in copies if copy.asks or not copy.there}
        if there and not any(copy.asks for copy in there):
            return
        for ready in ray.wait(list(waited), timeout=1.0, fetch_local=True)[0]:
            copy = waited[ready]
            try:
                answer = _next(ray, ready)
            except ray.exceptions.RayActorError as error:
                losses += 1
                if losses > LOSSES:
                    msg = (
                        f"{losses} copies of the model were lost, one after the other; see `ray "
                        "status`, then run the same command again"
                    )
                    raise RulerError(msg) from error
                copies[copies.index(copy)] = begin()
                yield from rows.take_back(copy.asks.values())
                continue
            copy.there = True
            if answer is not None:
                losses = 0
                del copy.asks[answer.config, answer.index]
                yield answer


def _next(ray: Any, stream: Any) -> Prediction | None:  # noqa: ANN401
    """Return what a copy yields next.

    Raises:
        RulerError: its engine failed.
    """
    try:
        answer: Prediction | None = ray.get(next(stream))
    except ray.exceptions.RayTaskError as error:
        said = (str(error.cause or error).strip().splitlines() or [""])[-1]
        msg = f"a copy of the model failed: {type(error.cause).__name__}: {said}"
        raise RulerError(msg) from error
    return answer


def _fill(copies: list[ActorHandle], rows: Rows) -> None:
    """Give each row to the copy that has fewest, until all have as many as they can use."""
    if not copies:
        return
    while len((copy := min(copies, key=lambda one: len(one.asks))).asks) < WINDOW:
        ask = rows.take(len(copy.asks))
        if ask is None:
            return
        copy.give(ask)
