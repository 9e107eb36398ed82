"""Copies of another engine on a Ray cluster. No other module of the evaluator imports Ray.

Each copy is an actor in a placement group of its own: GPUs of one node, or of several where vLLM
spreads a model over nodes. This process renders prompts, dispatches them and writes the journal. A
copy that finds no room waits for it, so nodes may join. A lost copy is replaced. Its rows are sent
again after all others, each alone, so that a row that crashes its copies takes no other with it.
"""

import logging
import os
import socket
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from functools import partial
from queue import Empty, Queue
from typing import Any, Literal

from pydantic import PositiveInt

from ruler_data.errors import RulerError, UsageError
from ruler_data.names import counted, quote
from ruler_data.terminal import warn
from ruler_eval.running.answers import Answer, Key
from ruler_eval.running.config import EvalConfig
from ruler_eval.running.engine import Engine, Request, Setup, installed_versions, take_options
from ruler_eval.running.engine import prepare as prepare_engine

#: Rows that a copy has at once: more than an engine computes by default, so that it never waits.
WINDOW = 160
#: Copies that may be lost with no row answered in between, besides one loss of each.
LOSSES = 5


@dataclass(frozen=True)
class RayOptions:
    """Options of the engine; all others go to the copies."""

    engine: Literal["vllm", "transformers", "oracle"] = "vllm"  # of each copy
    copies: PositiveInt | None = None  # of the model; None for as many as the cluster's GPUs hold
    gpus: int | None = None  # of each copy; None for those that its engine needs
    wait: float = 30.0  # seconds for a copy to find room


def prepare(setup: Setup) -> Engine:
    """Return the engine, not started. A copy loads its own tokenizer with the model."""
    options, options_left = take_options(RayOptions, setup.config.settings)
    config = replace(setup.config, engine=options.engine, options=options_left)
    setup = replace(setup, config=config, tokenizer=None)
    engine = prepare_engine(setup)
    info = {**installed_versions("ray", "ray"), "engine": options.engine, **engine.info}
    return replace(engine, generate=partial(_generate, options, setup), info=info)


class EngineActor:
    """One copy of an engine, in its own process somewhere on the cluster."""

    def __init__(self) -> None:
        self._requests: Queue[Request] = Queue()
        self._waiting = 0

    def put(self, request: Request) -> None:
        """Take a request."""
        self._requests.put(request)

    def serve(self, setup: Setup) -> Iterator[Answer | None]:
        """Yield None, which reports that this copy has started, then answers for ever."""
        # Not in `__init__`: an actor that cannot be made counts as lost.
        engine = prepare_engine(setup)
        yield None
        for answer in engine.generate(self._incoming()):
            self._waiting -= 1
            yield answer

    def _incoming(self) -> Iterator[Request | None]:
        """Yield requests, and None instead of waiting while the engine has others to answer."""
        while True:
            try:
                request = self._requests.get(block=self._waiting == 0)
            except Empty:
                yield None
            else:
                self._waiting += 1
                yield request


@dataclass(eq=False)
class Copy:
    """A copy, as this process sees it."""

    group: Any
    actor: Any
    stream: Any
    requests: dict[Key, Request] = field(default_factory=dict)  # those without an answer
    ready: bool = False


@dataclass(frozen=True)
class Room:
    """What each copy takes of the cluster."""

    gpus: int
    is_spread: bool  # over nodes
    nodes: list[int]  # GPUs of the nodes that are alive

    @property
    def bundles(self) -> list[dict[str, int]]:
        """The resources of a copy, each on one node."""
        if not self.is_spread:
            return [{"CPU": 1, "GPU": self.gpus}]
        return [{"CPU": 1, "GPU": 1}, *[{"GPU": 1}] * (self.gpus - 1)]

    @property
    def copies(self) -> int:
        """Number of copies that the GPUs of the cluster hold, at least one."""
        if not self.gpus:
            return 1
        if self.is_spread:
            return max(1, sum(self.nodes) // self.gpus)
        return max(1, sum(gpus // self.gpus for gpus in self.nodes))

    def __str__(self) -> str:
        if not self.gpus:
            return "1 CPU"
        if self.is_spread:
            return f"{self.gpus} GPUs"
        return f"{self.gpus} GPUs on one node"


def _room(ray: Any, options: RayOptions, config: EvalConfig) -> Room:  # noqa: ANN401 - the module
    settings = config.settings
    gpus = options.gpus
    if gpus is None:
        gpus = config.tensor_parallel * int(settings.get("pipeline_parallel_size", 1))
        if options.engine == "oracle":
            gpus = 0
    nodes = sorted(int(node["Resources"].get("GPU", 0)) for node in ray.nodes() if node["Alive"])
    is_spread = gpus > max(nodes) > 0 or settings.get("distributed_executor_backend") == "ray"
    return Room(gpus, is_spread, nodes)


def _generate(
    options: RayOptions, setup: Setup, requests: Iterator[Request | None]
) -> Iterator[Answer]:
    ray = connect()
    config = setup.config
    try:
        room = _room(ray, options, config)
        settings = config.settings
        if room.gpus > 1 and config.engine == "vllm":
            backend = "ray" if room.is_spread else "mp"
            settings = {"distributed_executor_backend": backend, **settings}
            setup = replace(setup, config=replace(config, options=settings))
        window = max(WINDOW, int(settings.get("max_num_seqs") or 0) + 32)
        dispatcher = Dispatcher(ray, room, options.wait, window, partial(_serve, setup))
        yield from dispatcher.answers(options.copies or room.copies, requests)
    finally:
        ray.shutdown()


def _serve(setup: Setup, actor: Any) -> Any:  # noqa: ANN401 - of Ray
    return actor.serve.options(num_returns="streaming").remote(setup)


@dataclass(eq=False)
class Dispatcher:
    """Keeps copies supplied with rows, and replaces those that are lost."""

    ray: Any  # the module
    room: Room
    wait: float  # seconds for a copy to find room
    window: int  # rows that a copy has at once
    serve: Callable[[Any], Any]  # returns the stream of an actor's answers
    copies: list[Copy] = field(default_factory=list)
    again: list[Request] = field(default_factory=list)  # rows of lost copies
    suspects: set[Key] = field(default_factory=set)  # rows with which a copy was lost
    losses: int = 0  # of copies, since the last answer
    deadline: float | None = None  # when room is looked at

    def answers(self, copies: int, requests: Iterator[Request | None]) -> Iterator[Answer]:
        """Start copies, and yield their answers.

        Raises:
            RulerError: there is no room for a copy, an engine failed, or copies are lost one after
                the other.
        """
        self.copies = [self._started() for _ in range(copies)]
        self.deadline = time.monotonic() + self.wait
        while True:
            ready = [copy for copy in self.copies if copy.ready]
            self._supply(ready, requests)
            if ready and not any(copy.requests for copy in ready):
                return
            self._look_for_room()
            waiting = {copy.stream: copy for copy in self.copies if copy.requests or not copy.ready}
            for stream in self.ray.wait(list(waiting), timeout=1.0, fetch_local=True)[0]:
                yield from self._next_answer(waiting[stream])

    def _started(self) -> Copy:
        ray = self.ray
        group = ray.util.placement_group(self.room.bundles, strategy="PACK")
        place = ray.util.scheduling_strategies.PlacementGroupSchedulingStrategy(
            group, 0, placement_group_capture_child_tasks=True
        )
        # vLLM itself starts a worker on each GPU of a group that is spread.
        gpus = 0 if self.room.is_spread else self.room.gpus
        remote = ray.remote(max_concurrency=2, num_cpus=1, num_gpus=gpus, scheduling_strategy=place)
        actor = remote(EngineActor).remote()
        return Copy(group, actor, self.serve(actor))

    def _supply(self, ready: list[Copy], new: Iterator[Request | None]) -> None:
        """Give rows to the copies that have fewest, until all have as many as they can use."""
        while ready:
            copy = min(ready, key=lambda candidate: len(candidate.requests))
            request = next(new, None) if len(copy.requests) < self.window else None
            if request is None and self.again and not copy.requests:
                request = self.again.pop(0)
            if request is None:
                return
            copy.requests[request.key] = request
            copy.actor.put.remote(request)

    def _look_for_room(self) -> None:
        """Tell of copies that found no room in time.

        Raises:
            RulerError: none did.
        """
        if self.deadline is None or time.monotonic() <= self.deadline:
            return
        self.deadline = None
        table = self.ray.util.placement_group_table
        late = [copy for copy in self.copies if table(copy.group)["state"] != "CREATED"]
        if not late:
            return
        problem = (
            f"after {self.wait:.0f} s the cluster has no room for {counted(len(late), 'actor')} "
            f"with {self.room} each; GPUs of its nodes, free or not: {self.room.nodes}; ask for "
            "less, wait longer (--option wait=900), or use its CPUs (--option gpus=0); see "
            "`ray status`"
        )
        if len(late) == len(self.copies):
            raise RulerError(problem)
        warn(f"{problem}; going on with {len(self.copies) - len(late)}")

    def _next_answer(self, copy: Copy) -> Iterator[Answer]:
        """Yield the next answer of a copy, or what its loss ends."""
        try:
            answer = self.ray.get(next(copy.stream))
        except self.ray.exceptions.RayTaskError as error:
            reason = (str(error.cause or error).strip().splitlines() or [""])[-1]
            message = f"a copy of the model failed: {type(error.cause).__name__}"
            raise RulerError(message, reason) from error
        except self.ray.exceptions.RayActorError as error:
            self.losses += 1
            if self.losses > LOSSES + len(self.copies):
                several = f"{self.losses} copies of the model were lost, one after the other"
                raise RulerError(several, "see `ray status`, then run it again") from error
            yield from self._replace(copy)
            return
        copy.ready = True
        if answer is not None:
            self.losses = 0
            del copy.requests[answer.key]
            yield answer

    def _replace(self, copy: Copy) -> Iterator[Answer]:
        """Start another copy for a lost one; yield the row that ended it, if it was alone."""
        self.deadline = time.monotonic() + self.wait
        self.ray.kill(copy.actor)
        self.ray.util.remove_placement_group(copy.group)
        self.copies[self.copies.index(copy)] = self._started()
        for key, request in copy.requests.items():
            if key in self.suspects:  # it was alone
                self.losses = 0
                yield request.failed("2 copies of the model were lost with this row")
            else:
                self.again.append(request)
        self.suspects.update(copy.requests)


def connect() -> Any:  # noqa: ANN401 - the module ray, imported late
    """Return Ray, connected to a cluster; its caller shuts it down.

    The cluster is the one at RAY_ADDRESS, otherwise the one that `ray start` started on this
    machine, otherwise a new one here.

    Raises:
        UsageError: Ray is not installed, or the cluster does not answer.
    """
    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
    try:
        import ray
    except ImportError as error:
        raise UsageError(
            "--engine ray needs Ray; pip install -e '.[ray]' in the checkout"
        ) from error
    address = os.environ.get("RAY_ADDRESS")
    host, _, port = (address or "").removeprefix("ray://").rpartition(":")
    try:
        if host and port.isdecimal():  # Ray itself needs minutes to notice that nothing listens
            socket.create_connection((host, int(port)), timeout=10).close()
        ray.init(
            address=address,
            include_dashboard=False,
            log_to_driver=False,
            logging_level=logging.ERROR,
        )
    except (ValueError, OSError) as error:
        name = "the cluster of `ray start`"
        advice = ", or start a new one here with RAY_ADDRESS=local"
        if address:
            name = f"RAY_ADDRESS {quote(address)}"
            advice = ""
        raise UsageError(name, f"no Ray cluster answers there; see `ray status`{advice}") from error
    return ray
