"""The options of a run or a preflight check."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal, get_args

from ruler_data.errors import UsageError
from ruler_data.names import quote
from ruler_eval.prompts import PROTOCOLS, PromptFormat

#: Engines; each is a module of `ruler_eval.engines` with a function `prepare`.
EngineName = Literal["vllm", "transformers", "openai", "ray", "python", "oracle"]


@dataclass(frozen=True)
class EvalConfig:
    """The options, as the user gave them.

    Attributes:
        data: folder or Hub repo of frozen rows.
        model: folder, Hub id, or a server's name for it; may be left out for engine `python`.
        engine: name of the engine.
        protocol: name of the protocol.
        revision: tag or commit of the data's repo.
        tasks: whose configs to run; all where none is named.
        configs: to run; all where none is named.
        rows: to run of each config, the first ones; all where None.
        model_revision: tag or commit of the model's repo.
        model_name: to record instead of the model's own.
        tokenizer: that renders prompts, where it is not the model's own.
        extra_tokens: tokens that an answer may take beyond the row's own; the protocol's default
            where None.
        no_context: whether to leave the context out.
        tensor_parallel: GPUs that share one copy of the model.
        options: of the engine, by name.
        base_url: address of a server.
        generate: function of engine `python`; None where an option names it.
    """

    data: str
    model: str = ""
    engine: str = "vllm"
    protocol: str = "completion"
    revision: str | None = None
    tasks: tuple[str, ...] = ()
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
    generate: Callable[..., Any] | None = None

    def __post_init__(self) -> None:
        """Check what needs no file.

        Raises:
            UsageError: an unknown engine or protocol, a number that is too small, or no model.
        """
        choices = (
            ("engine", self.engine, get_args(EngineName)),
            ("protocol", self.protocol, PROTOCOLS),
        )
        for name, choice, known in choices:
            if choice not in known:
                msg = f"{name} {quote(choice)}: not known; known: {', '.join(known)}"
                raise UsageError(msg)
        for name, least in (("rows", 1), ("tensor_parallel", 1), ("extra_tokens", 0)):
            value = getattr(self, name)
            if value is not None and value < least:
                msg = f"{name} {value}: must be at least {least}"
                raise UsageError(msg)
        if not self.model and self.engine != "python":
            msg = f"--model is missing: engine {self.engine} needs a folder, a Hub id or a name"
            raise UsageError(msg)

    @property
    def prompts(self) -> PromptFormat:
        """How rows are formatted."""
        protocol = PROTOCOLS[self.protocol]
        extra = protocol.extra_tokens if self.extra_tokens is None else self.extra_tokens
        return PromptFormat(protocol, extra, self.no_context)
