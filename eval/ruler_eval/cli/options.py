"""Options that `run` and `doctor` share."""

from collections.abc import Mapping
from dataclasses import fields
from typing import Annotated, Any

import typer

from ruler_eval.engines.interface import parse_options
from ruler_eval.eval_config import EngineName, EvalConfig
from ruler_eval.prompts import ProtocolName

Data = Annotated[str, typer.Option("--data", help="Frozen rows: a folder, or a Hub repo.")]
Revision = Annotated[
    str | None, typer.Option("--revision", help="Tag or commit of the data's repo.")
]
Configs = Annotated[
    str, typer.Option("--configs", help="Configs, comma-separated, e.g. vt_4096 [default: all].")
]
Rows = Annotated[
    int | None,
    typer.Option("--rows", min=1, help="Rows of each config, the first ones [default: all]."),
]
ModelSpec = Annotated[
    str,
    typer.Option(
        "--model",
        help="Model: a folder, a Hub id, or a server's name for it. Engine `python` needs none.",
        show_default=False,
    ),
]
ModelName = Annotated[
    str | None,
    typer.Option("--model-name", help="Name to record [default: the folder's, or the id]."),
]
ModelRevision = Annotated[
    str | None, typer.Option("--model-revision", help="Tag or commit of the model's repo.")
]
TokenizerOption = Annotated[
    str | None,
    typer.Option("--tokenizer", help="Tokenizer that renders prompts [default: the model's own]."),
]
EngineOption = Annotated[
    EngineName,
    typer.Option("--engine", help="What answers; `oracle` gives the gold answers, as a test."),
]
ProtocolOption = Annotated[
    ProtocolName, typer.Option("--protocol", help="How prompts are formatted; see docs/eval.md.")
]
ExtraTokens = Annotated[
    int | None,
    typer.Option(
        "--extra-tokens",
        min=0,
        help="Tokens that an answer may take beyond the row's own [default: 8192 in thinking].",
    ),
]
NoContext = Annotated[
    bool, typer.Option("--no-context", help="Leave the context out, as a baseline.")
]
TensorParallel = Annotated[
    int, typer.Option("--tensor-parallel", min=1, help="GPUs that share one copy of the model.")
]
Options = Annotated[
    list[str] | None, typer.Option("--option", help="NAME=VALUE for the engine; repeatable.")
]
BaseUrl = Annotated[
    str | None, typer.Option("--base-url", help="Address of an OpenAI-compatible server, with /v1.")
]
ShardOption = Annotated[
    str, typer.Option("--shard", help="Answer share I of N of the rows, written I/N from 0/N.")
]
JsonFlag = Annotated[bool, typer.Option("--json", help="Print figures as JSON on standard output.")]


def eval_config(parameters: Mapping[str, Any]) -> EvalConfig:
    """Return the options as one object.

    Args:
        parameters: of the command, by name; those that an `EvalConfig` does not have are ignored.

    Raises:
        UsageError: an option is not NAME=VALUE, or has an impossible value.
    """
    names = {field.name for field in fields(EvalConfig)}
    shared = {name: value for name, value in parameters.items() if name in names}
    configs = tuple(name.strip() for name in parameters["configs"].split(",") if name.strip())
    options = parse_options(parameters["option"] or ())
    return EvalConfig(**{**shared, "configs": configs, "options": options})
