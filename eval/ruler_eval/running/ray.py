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
from ruler_data.tokenizers import PromptTokenizer
from ruler_eval.running.answers import Answer, Key
from ruler_eval.running.config import EvalConfig
from ruler_eval.running.engine import Engine, Request, installed_versions, take_options
from ruler_eval.running.engine import prepare as prepare_engine
from ruler_eval.running.models import Model

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


def prepare(
    config: EvalConfig, model: Model, _tokenizer: PromptTokenizer | None, longest: int
) -> Engine:
    """Return the engine, not started. A copy loads its own tokenizer with the model."""
    options, options_left = take_options(RayOptions, config.settings)
    inner = replace(config, engine=options.engine, options=options_left)
    make = partial(prepare_engine, model=model, tokenizer=None, longest=longest)
    engine = make(inner)
    info = {**installed_versions("ray", "ray"), "engine": options.engine, **engine.info}
    return replace(engine, generate=partial(_generate, options, inner, make), info=info)


class EngineActor:
    """One copy of an engine, in its own process somewhere on the cluster."""

    def __init__(self) -> None:
        self._requests: Queue[Request] = Queue()
        self._waiting = 0

    def put(self, request: Request) -> None:
        """Take a request."""
        self._requests.put(request)

    def serve(
        self, make: Callable[[EvalConfig], Engine], config: EvalConfig
    ) -> Iterator[Answer | None]:
        """Yield None, which reports that this copy has started, then answers for ever."""
        engine = make(config)  # not in `__init__`: an actor that cannot be made counts as lost
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


def _generate(
    options: RayOptions,
    config: EvalConfig,
    make: Callable[[EvalConfig], Engine],
    requests: Iterator[Request | None],
) -> Iterator[Answer]:
    ray, settings = connect(), config.settings
    gpus = options.gpus
    if gpus is None:
        size = config.tensor_parallel * int(settings.get("pipeline_parallel_size", 1))
        gpus = 0 if options.engine == "oracle" else size
    try:
        nodes = sorted(int(n["Resources"].get("GPU", 0)) for n in ray.nodes() if n["Alive"])
        spread = gpus > max(nodes) > 0 or settings.get("distributed_executor_backend") == "ray"
        fitting = sum(n // gpus for n in ([sum(nodes)] if spread else nodes)) if gpus else 1
        bundles = [{"CPU": 1, "GPU": 1 if spread else gpus}, *[{"GPU": 1}] * (spread * (gpus - 1))]
        if gpus > 1 and config.engine == "vllm":
            backend = {"distributed_executor_backend": "ray" if spread else "mp"}
            config = replace(config, options={**backend, **settings})

        def start() -> Copy:
            group = ray.util.placement_group(bundles, strategy="PACK")
            place = ray.util.scheduling_strategies.PlacementGroupSchedulingStrategy(
                group, 0, placement_group_capture_child_tasks=True
            )
            # vLLM itself starts a worker on each GPU of the group.
            actor_gpus = 0 if spread else gpus
            about = {"num_cpus": 1, "num_gpus": actor_gpus, "scheduling_strategy": place}
            actor = ray.remote(max_concurrency=2, **about)(EngineActor).remote()
            serve = actor.serve.options(num_returns="streaming")
            return Copy(group, actor, serve.remote(make, config))

        resources = f"{gpus} GPUs{'' if spread else ' on one node'}" if gpus else "1 CPU"
        short = (
            f"with {resources} each; GPUs of its nodes, free or not: {nodes}; ask for less, wait "
        )
        short += "longer (--option wait=900), or use its CPUs (--option gpus=0); see `ray status`"
        copies = [start() for _ in range(options.copies or max(1, fitting))]
        window = max(WINDOW, int(settings.get("max_num_seqs") or 0) + 32)
        yield from dispatch(ray, copies, start, requests, options.wait, short, window)
    finally:
        ray.shutdown()


def dispatch(
    ray: Any,  # noqa: ANN401 - the module
    copies: list[Copy],
    start: Callable[[], Copy],
    requests: Iterator[Request | None],
    wait: float,
    short: str,
    window: int = WINDOW,
) -> Iterator[Answer]:
    """Yield answers, and keep each copy supplied with as many rows as it can use.

    Raises:
        RulerError: there is no room for a copy, an engine failed, or copies are lost one after the
            other.
    """
    again, suspects, losses = list[Request](), set[Key](), 0
    deadline: float | None = time.monotonic() + wait
    while True:
        ready = [copy for copy in copies if copy.ready]
        _supply(ready, requests, again, window)
        if ready and not any(copy.requests for copy in ready):
            return
        if deadline is not None and time.monotonic() > deadline:
            deadline, table = None, ray.util.placement_group_table
            late = [one for one in copies if table(one.group)["state"] != "CREATED"]
            room = f"after {wait:.0f} s the cluster has no room for "
            room += f"{counted(len(late), 'actor')} {short}"
            if len(late) == len(copies):
                raise RulerError(room)
            if late:
                warn(f"{room}; going on with {len(copies) - len(late)}")
        waiting = {copy.stream: copy for copy in copies if copy.requests or not copy.ready}
        for stream in ray.wait(list(waiting), timeout=1.0, fetch_local=True)[0]:
            copy = waiting[stream]
            try:
                answer = ray.get(next(stream))
            except ray.exceptions.RayTaskError as error:
                reason = (str(error.cause or error).strip().splitlines() or [""])[-1]
                message = f"a copy of the model failed: {type(error.cause).__name__}"
                raise RulerError(message, reason) from error
            except ray.exceptions.RayActorError as error:
                losses, deadline = losses + 1, time.monotonic() + wait
                if losses > LOSSES + len(copies):
                    several = f"{losses} copies of the model were lost, one after the other"
                    raise RulerError(several, "see `ray status`, then run it again") from error
                ray.kill(copy.actor)
                ray.util.remove_placement_group(copy.group)
                copies[copies.index(copy)] = start()
                for key, request in copy.requests.items():
                    if key in suspects:  # it was alone
                        losses = 0
                        yield request.failed("2 copies of the model were lost with this row")
                    else:
                        again.append(request)
                suspects.update(copy.requests)
            else:
                copy.ready = True
                if answer is not None:
                    losses = 0
                    del copy.requests[answer.key]
                    yield answer


def _supply(
    ready: list[Copy], new: Iterator[Request | None], again: list[Request], window: int
) -> None:
    """Give rows to the copies that have fewest, until all have as many as they can use."""
    while ready:
        copy = min(ready, key=lambda candidate: len(candidate.requests))
        request = next(new, None) if len(copy.requests) < window else None
        if request is None and again and not copy.requests:
            request = again.pop(0)
        if request is None:
            return
        copy.requests[request.key] = request
        copy.actor.put.remote(request)


def connect(workers: int | None = None) -> Any:  # noqa: ANN401 - the module ray, imported late
    """Return Ray, connected to a cluster; its caller shuts it down.

    The cluster is the one at RAY_ADDRESS, otherwise the one that `ray start` started on this
    machine, otherwise a new one here with `workers` CPUs, or all of them.

    Raises:
        UsageError: Ray is not installed, or the cluster does not answer.
    """
    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
    try:
        import ray
    except ImportError as error:
        msg = "--engine ray needs Ray; pip install -e '.[ray]' in the checkout"
        raise UsageError(msg) from error
    address = os.environ.get("RAY_ADDRESS")
    host, _, port = (address or "").removeprefix("ray://").rpartition(":")
    is_new = address in (None, "local")
    quiet = {"include_dashboard": False, "log_to_driver": False, "logging_level": logging.ERROR}
    start: Callable[..., object] = partial(ray.init, address=address, **quiet)
    try:
        if host and port.isdecimal():  # Ray itself needs minutes to notice that nothing listens
            socket.create_connection((host, int(port)), timeout=10).close()
        try:
            start(num_cpus=workers if is_new else None)
        except ValueError:  # a running cluster has its own number of CPUs
            start()
    except (ValueError, OSError) as error:
        name = f"RAY_ADDRESS {quote(address)}" if address else "the cluster of `ray start`"
        advice = "" if address else ", or start a new one here with RAY_ADDRESS=local"
        raise UsageError(name, f"no Ray cluster answers there; see `ray status`{advice}") from error
    return ray
