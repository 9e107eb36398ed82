"""Copies of another engine on a Ray cluster. No other module of the evaluator imports Ray.

Each copy is an actor that holds the model and answers rows as they arrive, in a placement group of
its own: GPUs of one node, or of several where vLLM spreads a model over nodes. This process renders
prompts, hands them out, and writes the journal; the machines share nothing but the model.

Copies follow the cluster: one is added where a node joins with room for it, and one that finds no
room any more is given up. A copy that is lost is started again wherever there is room. Its rows are
asked again after all others, each alone: one that crashes its copies takes no other row with it.

Ray Data is not used; docs/decisions/0007-rows-on-ray.md has the reasons and what was tried.
"""

import time
from collections import Counter
from collections.abc import Callable, Collection, Iterator
from dataclasses import dataclass, field, replace
from functools import partial
from queue import Empty, Queue
from typing import Any, Literal

from pydantic import PositiveInt

from ruler_data.errors import RulerError
from ruler_data.names import counted
from ruler_data.ray_cluster import connect
from ruler_data.terminal import warn
from ruler_data.tokenizers import PromptTokenizer
from ruler_eval import engines
from ruler_eval.answers import Answer, Key
from ruler_eval.engines.interface import Engine, Request, installed_versions, take_options
from ruler_eval.eval_config import EvalConfig
from ruler_eval.models import Model

#: Engines whose copies may be spread over nodes.
SPREAD = ("vllm", "oracle")
#: Rows that a copy has at once: more than any engine computes at a time, so that it never waits.
WINDOW = 160
#: Times that a row is handed out before it is unscored, if its copy is lost each time.
TRIES = 3
#: Copies that may be lost with no prediction in between, besides one loss of each.
LOSSES = 5
#: Seconds between looks at the cluster.
LOOK = 2.0


@dataclass(frozen=True)
class RayOptions:
    """Options of the engine; all others go to the copies."""

    engine: Literal["vllm", "transformers", "oracle"] = "vllm"  # of each copy
    copies: PositiveInt | None = None  # of the model; None for as many as the cluster's GPUs hold
    #: Of each copy; by default its tensor-parallel times its pipeline-parallel size, and none for
    #: the oracle. 0 for a cluster of CPUs.
    gpus: int | None = None
    wait: float = 30.0  # seconds for the first copy to find room; more while the cluster scales up


#: Makes the engine of a copy, for its config.
Make = Callable[[EvalConfig], Engine]


def prepare(
    config: EvalConfig, model: Model, _tokenizer: PromptTokenizer | None, longest: int
) -> Engine:
    """Return the engine, not started. A copy loads its own tokenizer with the model."""
    options, rest = take_options(RayOptions, config.engine_options)
    if options.gpus is None:
        size = config.tensor_parallel * int(rest.get("pipeline_parallel_size", 1))
        options = replace(options, gpus=0 if options.engine == "oracle" else size)
    inner = replace(config, engine=options.engine, options=rest)
    make = partial(engines.prepare, model=model, tokenizer=None, longest=longest)
    engine = make(inner)
    info = {**installed_versions("ray", "ray"), "engine": options.engine, **engine.info}
    return replace(engine, generate=partial(_generate, options, inner, make), info=info)


def _generate(
    options: RayOptions, config: EvalConfig, make: Make, requests: Iterator[Request | None]
) -> Iterator[Answer]:
    ray = connect()
    try:
        yield from dispatch(Copies(ray, options, config, make), Rows(requests))
    finally:
        ray.shutdown()


class EngineActor:
    """One copy of an engine, in its own process somewhere on the cluster."""

    def __init__(self) -> None:
        self._requests: Queue[Request] = Queue()
        self._held = 0

    def put(self, request: Request) -> None:
        """Take a request."""
        self._requests.put(request)

    def serve(self, make: Make, config: EvalConfig) -> Iterator[Answer | None]:
        """Yield None, which reports that this copy has started, then predictions for ever."""
        engine = make(config)  # not in `__init__`: an actor that cannot be made counts as lost
        yield None
        for prediction in engine.generate(self._incoming()):
            self._held -= 1
            yield prediction

    def _incoming(self) -> Iterator[Request | None]:
        """Yield requests, and None instead of waiting while the engine has others to answer."""
        while True:
            try:
                request = self._requests.get(block=self._held == 0)
            except Empty:
                yield None
            else:
                self._held += 1
                yield request


@dataclass(eq=False)
class Copy:
    """A copy, as this process sees it."""

    group: Any
    actor: Any
    stream: Any
    asked: float = field(default_factory=time.monotonic)  # when its room was asked for
    requests: dict[Key, Request] = field(default_factory=dict)  # those without an answer
    ready: bool = False


@dataclass
class Copies:
    """The copies of the model, each in a placement group."""

    ray: Any  # the module
    options: RayOptions
    config: EvalConfig
    make: Make

    def __post_init__(self) -> None:
        self.all = list[Copy]()
        self._gpus = self.options.gpus or 0
        self._next_look = self._alone_since = 0.0
        self._told = False

    def follow(self) -> None:
        """Add copies that the cluster has room for, and give up those that have none any more."""
        now = time.monotonic()
        if now < self._next_look:
            return
        self._next_look = now + LOOK
        wanted = self.options.copies or max(1, self._room())
        while len(self.all) < wanted:
            self.all.append(self._start())
        places = self.ray.util.placement_group_table
        waiting = [
            copy for copy in self.all if not copy.ready and places(copy.group)["state"] != "CREATED"
        ]
        placed = len(self.all) - len(waiting)
        for copy in waiting[max(0, wanted - placed) :]:
            self.drop(copy)
        if placed or self._scales_up():
            self._alone_since = now
        late = sum(now - copy.asked > self.options.wait for copy in waiting)
        if late and now - self._alone_since > self.options.wait:
            msg = f"{self._shortage(late)}; see `ray status`"
            raise RulerError(msg)
        if late and placed and self.options.copies and not self._told:
            self._told = True
            warn(f"{self._shortage(late)}; going on with {placed}")

    def drop(self, copy: Copy) -> None:
        """Remove a copy and free its room."""
        self.all.remove(copy)
        self._next_look = 0.0
        self.ray.kill(copy.actor)
        self.ray.util.remove_placement_group(copy.group)

    def _start(self) -> Copy:
        """Ask for room, and for an actor that starts when it is there."""
        util, config, gpus = self.ray.util, self.config, self._gpus
        spread = gpus > 1 and self._spreads()
        bundles: list[dict[str, float]] = [{"CPU": 1, "GPU": 1 if spread else gpus}]
        bundles += [{"GPU": 1}] * (gpus - 1 if spread else 0)
        group = util.placement_group(bundles, strategy="PACK")
        if gpus > 1 and config.engine == "vllm":
            backend = {"distributed_executor_backend": "ray" if spread else "mp"}
            config = replace(config, options={**backend, **config.engine_options})
        remote = self.ray.remote(
            num_cpus=1,
            num_gpus=0 if spread else gpus,  # vLLM starts a worker on each GPU of the group
            max_concurrency=2,
            scheduling_strategy=util.scheduling_strategies.PlacementGroupSchedulingStrategy(
                group, 0, placement_group_capture_child_tasks=True
            ),
        )(EngineActor)
        actor = remote.remote()
        serve = actor.serve.options(num_returns="streaming")
        return Copy(group, actor, serve.remote(self.make, config))

    def _nodes(self) -> list[int]:
        """Return the GPUs of each node that is alive, most first."""
        nodes = (node["Resources"].get("GPU", 0) for node in self.ray.nodes() if node["Alive"])
        return sorted(map(int, nodes), reverse=True)

    def _spreads(self) -> bool:
        """Whether copies are spread over nodes: because an option says so, or none holds one."""
        asked = self.config.engine_options.get("distributed_executor_backend")
        too_small = 0 < max(self._nodes(), default=0) < self._gpus
        return asked == "ray" or (too_small and self.config.engine in SPREAD)

    def _room(self) -> int:
        """Return how many copies the cluster holds."""
        if not self._gpus:
            return 1
        nodes = self._nodes()
        return sum(gpus // self._gpus for gpus in ([sum(nodes)] if self._spreads() else nodes))

    def _scales_up(self) -> bool:
        from ray.autoscaler.v2.sdk import get_cluster_status

        try:
            status = get_cluster_status(self.ray.get_runtime_context().gcs_address)
        except Exception:  # there is no autoscaler, or it reports in another way
            return False
        return bool(status.pending_launches or status.pending_nodes)

    def _shortage(self, copies: int) -> str:
        """Return what was asked for and what the cluster has."""
        what = f"{self._gpus} GPUs{'' if self._spreads() else ' on one node'}"
        return (
            f"after {self.options.wait:.0f} s the cluster has no room for "
            f"{counted(copies, 'actor')} with {what if self._gpus else '1 CPU'} each; GPUs of its "
            f"nodes, free or not: {', '.join(map(str, self._nodes())) or 'none'}; ask for less, "
            "wait longer (--option wait=900), or use its CPUs (--option gpus=0)"
        )


class Rows:
    """Requests to hand out: new ones first, then those of lost copies."""

    def __init__(self, requests: Iterator[Request | None]) -> None:
        self._new, self._again, self._losses = requests, list[Request](), Counter[Key]()

    def take(self, held: int) -> Request | None:
        """Return the next request for a copy that has so many, or None where there is none."""
        request = next(self._new, None)
        alone = request is None and self._again and not held
        return self._again.pop(0) if alone else request

    def put_back(self, requests: Collection[Request]) -> Iterator[Answer]:
        """Keep the requests of a lost copy; yield those that were lost too often as unscored.

        They come next, so that a row that crashes its copies is known before another one is tried.
        """
        self._losses.update(request.key for request in requests)
        self._again[:0] = [each for each in requests if self._losses[each.key] < TRIES]
        for request in requests:
            if self._losses[request.key] >= TRIES:
                reason = f"{TRIES} copies of the model were lost while they had this row"
                yield request.failed(reason)


def dispatch(copies: Copies, rows: Rows) -> Iterator[Answer]:
    """Yield predictions, and keep each copy supplied with as many rows as it can use.

    Raises:
        RulerError: there is no room for a copy, an engine failed, or copies are lost one after the
            other.
    """
    ray, losses = copies.ray, 0
    while True:
        copies.follow()
        ready = [copy for copy in copies.all if copy.ready]
        _supply(ready, rows)
        waiting = {copy.stream: copy for copy in copies.all if copy.requests or not copy.ready}
        if ready and not any(copy.requests for copy in ready):
            return
        for stream in ray.wait(list(waiting), timeout=1.0, fetch_local=True)[0]:
            copy = waiting[stream]
            try:
                prediction = ray.get(next(stream))
            except ray.exceptions.RayActorError as error:
                losses += 1
                if losses > LOSSES + len(copies.all):
                    lost = f"{losses} copies of the model were lost, one after the other"
                    msg = f"{lost}; see `ray status`, then run the same command again"
                    raise RulerError(msg) from error
                copies.drop(copy)
                for unscored in rows.put_back(copy.requests.values()):
                    losses = 0  # it was the row
                    yield unscored
                continue
            except ray.exceptions.RayTaskError as error:
                reason = (str(error.cause or error).strip().splitlines() or [""])[-1]
                msg = f"a copy of the model failed: {type(error.cause).__name__}: {reason}"
                raise RulerError(msg) from error
            copy.ready = True
            if prediction is not None:
                losses = 0
                del copy.requests[prediction.key]
                yield prediction


def _supply(copies: list[Copy], rows: Rows) -> None:
    """Give each row to the copy that has fewest, until all have as many as they can use."""
    while copies:
        copy = min(copies, key=lambda each: len(each.requests))
        request = rows.take(len(copy.requests)) if len(copy.requests) < WINDOW else None
        if request is None:
            return
        copy.requests[request.key] = request
        copy.actor.put.remote(request)
