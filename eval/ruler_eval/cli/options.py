"""Options that `run` and `doctor` share, and how their text is read."""

from collections.abc import Mapping
from dataclasses import fields
from typing import Annotated, Any, Literal, Optional

import typer

from ruler_eval.engines.interface import parse
from ruler_eval.eval_config import EvalConfig
from ruler_eval.prompts import ProtocolName

Text = Optional[str]  # noqa: UP045 - typer reads it at run time
Number = Optional[int]  # noqa: UP045
Names = Optional[list[str]]  # noqa: UP045

Data = Annotated[str, typer.Option("--data", help="Frozen rows: a folder, or a Hub repo.")]
Revision = Annotated[Text, typer.Option("--revision", help="Tag or commit of the data's repo.")]
Configs = Annotated[
    str, typer.Option("--configs", help="Configs, comma-separated, e.g. vt_4096 [default: all].")
]
Rows = Annotated[
    Number,
    typer.Option("--rows", min=1, help="Rows of each config, the first ones [default: all]."),
]
ModelSpec = Annotated[
    str, typer.Option("--model", help="Model: a folder, a Hub id, or a server's name for it.")
]
ModelName = Annotated[
    Text, typer.Option("--model-name", help="Name to record [default: the folder's, or the id].")
]
ModelRevision = Annotated[
    Text, typer.Option("--model-revision", help="Tag or commit of the model's repo.")
]
TokenizerOption = Annotated[
    Text, typer.Option("--tokenizer", help="What renders prompts [default: the model's own].")
]
EngineName = Annotated[
    Literal["vllm", "transformers", "openai", "ray", "oracle"],
    typer.Option("--engine", help="What answers; `oracle` says the golden answers, as a test."),
]
ProtocolOption = Annotated[
    ProtocolName, typer.Option("--protocol", help="How rows are put; see docs/eval.md.")
]
ExtraTokens = Annotated[
    Number,
    typer.Option(
        "--extra-tokens", min=0,
        help="Tokens that an answer may take beyond the row's own [default: 8192 in thinking].",
    ),
]  # fmt: skip
NoContext = Annotated[
    bool, typer.Option("--no-context", help="Leave the context out, as a baseline.")
]
TensorParallel = Annotated[
    int, typer.Option("--tensor-parallel", min=1, help="GPUs that share one copy of the model.")
]
Options = Annotated[
    Names, typer.Option("--option", help="NAME=VALUE for the engine; may be given again.")
]
BaseUrl = Annotated[
    Text, typer.Option("--base-url", help="Address of an OpenAI-compatible server, with /v1.")
]
ShardOption = Annotated[
    str, typer.Option("--shard", help="Answer share I of N of the rows, written I/N from 0/N.")
]
JsonFlag = Annotated[bool, typer.Option("--json", help="Print figures as JSON on standard output.")]


def order(given: Mapping[str, Any]) -> EvalConfig:
    """Return what `run` or `doctor` was asked for.

    Args:
        given: parameters of the command by name: those of an `EvalConfig`, with options and
            configs as they were written, and others, which are not its business.

    Raises:
        UsageError: an option is not NAME=VALUE.
    """
    taken = {field.name: given[field.name] for field in fields(EvalConfig) if field.name in given}
    written = {"configs": names(given["configs"]), "options": parse(given["option"] or ())}
    return EvalConfig(**{**taken, **written})


def names(text: str) -> tuple[str, ...]:
    """Return names that were written with commas between.

    >>> names("vt_4096, cwe_4096")
    ('vt_4096', 'cwe_4096')
    """
    return tuple(part.strip() for part in text.split(",") if part.strip())
