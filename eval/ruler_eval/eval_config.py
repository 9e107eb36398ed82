"""An order: what a user asks `run` and `doctor` for, opened into a job."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from ruler_data.errors import UsageError
from ruler_data.names import parse_config, quote
from ruler_data.tokenizers import PromptTokenizer, load_tokenizer
from ruler_data.tokenizers.counters import Probes
from ruler_data.tokenizers.registry import find_by_fingerprint
from ruler_eval.data import Dataset, open_dataset
from ruler_eval.engines import EngineConfig, prepare
from ruler_eval.models import Model, open_model, overridden
from ruler_eval.prompts import PROTOCOLS, PromptFormat, bounds, refuse_over
from ruler_eval.run_dir import RunFolder, Shard
from ruler_eval.runner import RunJob

#: Engines whose model need not lie here.
SERVED = {"openai", "oracle"}
#: Tokens of a run from which on loading a fast counter pays.
WORTHWHILE = 5_000_000


@dataclass(frozen=True)
class EvalConfig:
    """What is asked for, as it was written.

    Attributes:
        data: folder or Hub repo of frozen rows.
        revision: tag or commit of the repo.
        configs: that are asked; all where none is named.
        rows: of each config, the first ones; all where None.
        model: folder, Hub id, or a server's name for it.
        model_revision: tag or commit of the model's repo.
        model_name: to record instead of the model's own.
        tokenizer: that renders prompts, where it is not the model's own.
        engine: name of the engine.
        protocol: name of the protocol.
        extra_tokens: tokens that an answer may take beyond the row's own; the protocol's where
            None.
        no_context: whether to leave the context out.
        tensor_parallel: GPUs that share one copy of the model.
        options: of the engine.
        base_url: address of a server.
    """

    data: str
    model: str
    engine: str = "vllm"
    protocol: str = "completion"
    revision: str | None = None
    configs: tuple[str, ...] = ()
    rows: int | None = None
    model_revision: str | None = None
    model_name: str | None = None
    tokenizer: str | None = None
    extra_tokens: int | None = None
    no_context: bool = False
    tensor_parallel: int = 1
    options: Mapping[str, Any] = field(default_factory=dict)
    base_url: str | None = None

    @property
    def asking(self) -> PromptFormat:
        """How rows are put."""
        protocol = PROTOCOLS[self.protocol]
        extra = protocol.extra_tokens if self.extra_tokens is None else self.extra_tokens
        return PromptFormat(protocol, extra, self.no_context)

    def open_data(self) -> Dataset:
        """Return the rows, checked against their manifest."""
        data = open_dataset(self.data, self.revision)
        return data.choose(self.configs, self.rows).fetch()

    def open_model(self) -> Model:
        """Return the model, with what the options override in its config.

        Raises:
            UsageError: there is no such model, or the overrides are none.
        """
        model = open_model(
            self.model,
            served=bool({self.engine, self.options.get("engine")} & SERVED),
            name=self.model_name,
            revision=self.model_revision,
        )
        overrides = self.options.get("hf_overrides", {})
        if not isinstance(overrides, dict):
            msg = f"--option hf_overrides={quote(str(overrides))}: is no JSON object"
            raise UsageError(msg)
        return replace(model, config=overridden(model.config, overrides))

    def open_tokenizer(self, model: Model, data: Dataset) -> PromptTokenizer:
        """Return what renders prompts: as asked for, the model's own, or that of the data.

        Raises:
            UsageError: it is not at hand.
        """
        if self.tokenizer is not None:
            return load_tokenizer(self.tokenizer)
        if model.folder is not None:
            return model.tokenizer()
        spec = find_by_fingerprint(data.manifest.tokenizer)
        if spec is None:
            msg = (
                f"tokenizer {data.manifest.tokenizer.name} is not at hand, and a server's model "
                "says nothing of its own; give its folder or Hub id with --tokenizer"
            )
            raise UsageError(msg)
        return load_tokenizer(spec)


def open_job(order: EvalConfig, out: Path, shard: Shard) -> RunJob:
    """Return a job whose parts fit together; nothing heavy is loaded.

    Raises:
        UsageError: data, model, tokenizer, engine or options cannot be had, or a prompt does
            not fit the window.
    """
    data, model, asking = order.open_data(), order.open_model(), order.asking
    tokenizer = order.open_tokenizer(model, data)
    asking.check(tokenizer)
    _use_fast_counter_if_worthwhile(tokenizer, data, asking)
    bounded = bounds(data, tokenizer, asking)
    setup = EngineConfig(
        model=model,
        tokenizer=tokenizer,
        asking=asking,
        longest=max(bounded.values()),
        tensor_parallel=order.tensor_parallel,
        options=order.options,
        base_url=order.base_url,
    )
    engine = prepare(order.engine, setup)
    refuse_over(data, tokenizer, asking, bounded, engine.window)
    used = None if engine.renders else tokenizer
    return RunJob(data, model, used, asking, engine, order.engine, RunFolder(out), shard)


def _use_fast_counter_if_worthwhile(
    tokenizer: PromptTokenizer, data: Dataset, asking: PromptFormat
) -> None:
    """Render with the fast counter where it is installed and gives the reference's ids.

    The parity check uses one row of each task, at the shortest length. Loading the fast counter
    takes longer than a small run saves.
    """
    lengths = {config: parse_config(config)[1] for config in data.rows}
    if sum(lengths[config] * rows for config, rows in data.rows.items()) < WORTHWHILE:
        return
    shortest: dict[str, str] = {}
    for config in sorted(data.rows, key=lambda one: lengths[one]):
        shortest.setdefault(parse_config(config)[0], config)

    def prompts() -> list[tuple[str, str]]:
        return [asking.parts(next(data.read(config))) for config in shortest.values()]

    digests = sorted(data.manifest.configs[config].digest for config in shortest.values())
    tokenizer.use("auto", Probes(prompts, f"{asking.protocol.name} {asking.no_context} {digests}"))
