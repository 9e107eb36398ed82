"""The commands `ruler-eval doctor`, `run`, `status` and `repeat`.

Each is a function, whose parameters are the options of the command. Imports of what a function
needs are in its body.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from typer import Argument, Option

from ruler_data.signatures import checked

if TYPE_CHECKING:
    from ruler_eval.pages import PageCheck
    from ruler_eval.preflight import Diagnosis
    from ruler_eval.repetition import Repeat
    from ruler_eval.run_status import Run

Data = Annotated[str | Path, Option(help="Frozen rows: a folder, or a Hub repo.")]
Model = Annotated[
    str | Path,
    Option(
        help="Model: a folder, a Hub id, or a server's name for it. Engine `python` needs none.",
        show_default=False,
    ),
]
EngineOption = Annotated[
    str,
    Option(
        help="vllm, transformers, openai, ray, python, or oracle, which returns the gold answers."
    ),
]
ProtocolOption = Annotated[
    str,
    Option(
        help="How prompts are formatted: completion, base, chat or thinking (docs/protocols.md)."
    ),
]
Revision = Annotated[str | None, Option(help="Tag or commit of the data's repo.")]
Names = str | Iterable[str] | None
Configs = Annotated[Names, Option(help="Configs, comma-separated, e.g. vt_4096 [default: all].")]
Tasks = Annotated[Names, Option(help="Tasks, e.g. vt,cwe [default: all].")]
Numbers = str | Iterable[int] | None
Lengths = Annotated[Numbers, Option(help="Lengths, e.g. 4k,131072 [default: all].")]
Rows = Annotated[
    str | int | Mapping[int, int] | None,
    Option(help="Rows of each config, the first ones, e.g. 40 or 4k:40,8k:20."),
]
TensorParallel = Annotated[int, Option(help="GPUs that share one copy of the model.", min=1)]
Settings = list[str] | Mapping[str, Any] | None
Options = Annotated[Settings, Option("--option", help="NAME=VALUE for the engine; repeatable.")]
ExtraTokens = Annotated[
    int | None,
    Option(
        help="Tokens that an answer may take beyond the row's own [default: 8192 in thinking].",
        min=0,
    ),
]
Samples = Annotated[int, Option(help="Answers to each row; needs a temperature.", min=1)]
Temperature = Annotated[float | None, Option(help="Of sampling [default: 0, greedy].", min=0)]
TopP = Annotated[
    float | None, Option(help="Share of the probability that sampling keeps [default: 1].")
]
PriceIn = Annotated[float | None, Option(help="Of a million prompt tokens, for costs.", min=0)]
PriceOut = Annotated[float | None, Option(help="Of a million answer tokens.", min=0)]
NoContext = Annotated[bool, Option(help="Leave the context out, as a baseline.")]
BaseUrl = Annotated[
    str | None, Option(help="Address of an OpenAI-compatible server, with /v1; selects `openai`.")
]
Tokenizer = Annotated[
    str | Path | None,
    Option(
        help="Tokenizer that renders prompts [default: the model's; where unknown, the data's]."
    ),
]
ModelName = Annotated[str | None, Option(help="Name to record [default: the folder's, or the id].")]
ModelRevision = Annotated[str | None, Option(help="Tag or commit of the model's repo.")]
RunFolderArgument = Annotated[str | Path, Argument(help="Folder of a run.")]


@checked
def doctor(
    data: Data,
    *,
    model: Model = "",
    engine: EngineOption = "vllm",
    protocol: ProtocolOption = "completion",
    revision: Revision = None,
    configs: Configs = None,
    tasks: Tasks = None,
    lengths: Lengths = None,
    rows: Rows = None,
    sample: Annotated[int, Option(help="Rows of each config to examine.", min=1)] = 20,
    everything: Annotated[bool, Option("--all", help="Examine every row.")] = False,
    price_in: PriceIn = None,
    price_out: PriceOut = None,
    tensor_parallel: TensorParallel = 1,
    options: Options = None,
    extra_tokens: ExtraTokens = None,
    samples: Samples = 1,
    temperature: Temperature = None,
    top_p: TopP = None,
    no_context: NoContext = False,
    base_url: BaseUrl = None,
    tokenizer: Tokenizer = None,
    model_revision: ModelRevision = None,
    generate: Callable[..., Any] | None = None,
) -> Diagnosis:
    """Check a run for problems without a GPU; say what it reads, writes, holds and costs.

        ruler-eval doctor --data dist/llama3 --model org/model

        ruler-eval doctor --data dist/llama3 --model m --base-url URL --price-in 2 --price-out 8

    In Python, `generate` is the function of `run`; it is called with one short row.

    Raises:
        UsageError: the options cannot be carried out.
        RulerError: data are damaged.
    """
    arguments = locals()
    from ruler_data.progress import progress
    from ruler_eval.eval_config import EvalConfig
    from ruler_eval.preflight import diagnose

    config = EvalConfig.of(arguments)
    with progress(None, "examining") as advance:
        return diagnose(config, None if everything else sample, advance)


@checked
def run(
    data: Data,
    *,
    out: Annotated[str | Path, Option(help="Folder of the run.", metavar="<path>")],
    model: Model = "",
    procedure: Annotated[
        str | None,
        Option(
            help="Format and sample as a published number was measured (`ruler-data procedures`)."
        ),
    ] = None,
    engine: EngineOption = "vllm",
    protocol: Annotated[
        str | None,
        Option(
            help="How prompts are formatted: completion (default), base, chat or thinking "
            "(docs/protocols.md)."
        ),
    ] = None,
    revision: Revision = None,
    configs: Configs = None,
    tasks: Tasks = None,
    lengths: Lengths = None,
    rows: Rows = None,
    until_decided: Annotated[
        str | None,
        Option(
            help="Run rows in random order until this is decided: effective[=85.6], not-worse[=1] "
            "than --baseline, or within[=1] points."
        ),
    ] = None,
    baseline: Annotated[
        str | Path | None, Option(help="Folder of a run, for --until-decided not-worse.")
    ] = None,
    shard: Annotated[str, Option(help="Run only shard I of N, e.g. 0/8.")] = "0/1",
    tensor_parallel: TensorParallel = 1,
    data_parallel: Annotated[int, Option(help="Copies of the model on this machine.", min=1)] = 1,
    options: Options = None,
    extra_tokens: ExtraTokens = None,
    samples: Samples = 1,
    temperature: Temperature = None,
    top_p: TopP = None,
    no_context: NoContext = False,
    price_in: PriceIn = None,
    price_out: PriceOut = None,
    budget: Annotated[
        float | None, Option(help="Money at which the run stops, by --price-in and --price-out.")
    ] = None,
    budget_tokens: Annotated[
        int | None, Option(help="Tokens, read and written, at which the run stops.", min=1)
    ] = None,
    base_url: BaseUrl = None,
    tokenizer: Tokenizer = None,
    model_name: ModelName = None,
    model_revision: ModelRevision = None,
    generate: Callable[..., Any] | None = None,
    progress: bool = True,
    **engine_options: Any,  # noqa: ANN401 - any option of an engine
) -> Run:
    """Run a model over the rows; the same command resumes an interrupted run.

        ruler-eval run --data dist/llama3 --model org/model --out runs/x --tasks vt,cwe --lengths 4k

        ruler-eval run --data org/ruler --model org/model --out runs/y --until-decided effective
        ruler-eval run --data dist/llama3-nemo-evaluator --procedure nemo-evaluator --out runs/z ...

    In Python, `generate` is a function from a list of `Request`s to one text or `Generation` for
    each, for engine `python` (`ruler_eval.engines.python`); `model` may then be left out, or be
    just a name. `progress=False` shows no bar. Further keyword arguments are options of the engine.

    Raises:
        UsageError: the options cannot be carried out, or `out` holds another run.
        RulerError: the engine failed, or data are damaged.
    """
    arguments = locals()
    from ruler_data.errors import UsageError
    from ruler_data.names import parse_shard
    from ruler_data.terminal import out_path
    from ruler_eval.decide import parse_question
    from ruler_eval.eval_config import EvalConfig, parse_options
    from ruler_eval.run_dir import RunFolder
    from ruler_eval.run_status import status
    from ruler_eval.runner import open_job, run_processes, run_shard
    from ruler_eval.sharding import Shard

    config = EvalConfig.of({**arguments, "options": parse_options(options) | engine_options})
    share, has_question = Shard(*parse_shard(shard)), (until_decided, baseline) != (None, None)
    question = parse_question(until_decided or "", baseline) if has_question else None
    if question and (share.count > 1 or data_parallel > 1 or engine == "ray" or samples > 1):
        only = "one process and one answer to each row"
        msg = f"--until-decided is for {only}: no --shard, --data-parallel, --samples, ray"
        raise UsageError(msg)
    if (budget, budget_tokens) != (None, None) and (share.count > 1 or data_parallel > 1):
        msg = "--budget is for one process: no --shard, no --data-parallel"
        raise UsageError(msg)
    if generate is not None and data_parallel > 1:
        msg = "generate: a function runs in one process; give --option function=package.module:name"
        raise UsageError(msg)
    folder = RunFolder(out_path(out)).checked()
    job = open_job(config)
    if data_parallel == 1:
        return status(folder.path, run_shard(job, folder, share, question, bar=progress))
    run_processes(config, folder, share, data_parallel)
    return status(folder.path)


@checked
def status(run: RunFolderArgument) -> Run:
    """Show how far a run is: rows answered, failed and left, and rows per second.

    A run that is under way is not disturbed.

        ruler-eval status runs/x

    Raises:
        UsageError: the folder holds no run.
        RulerError: a file of it is damaged.
    """
    from ruler_eval import run_status

    return run_status.status(run)


@checked
def repeat(
    run: Annotated[
        str | Path | None, Argument(help="Folder of a run; with --pages it may be left out.")
    ] = None,
    rows: Annotated[int, Option(help="Rows to generate again, drawn at random.", min=1)] = 40,
    *,
    pages: Annotated[
        bool,
        Option(
            help="Find faults of an engine that depend on where a prompt ends and on what was "
            "cached, with rows of the suite pages."
        ),
    ] = False,
    length: Annotated[
        int | None, Option(help="Tokens of the rows for --pages [default: the shortest].", min=1)
    ] = None,
    data: Annotated[
        str | Path | None,
        Option(help="Rows for --pages without a run [default: they are built for the tokenizer]."),
    ] = None,
    model: Model = "",
    protocol: ProtocolOption = "completion",
    tokenizer: Tokenizer = None,
    tensor_parallel: Annotated[
        int | None, Option(help="Another number of GPUs for one copy.", min=1)
    ] = None,
    options: Annotated[
        list[str] | Mapping[str, Any] | None,
        Option("--option", help="NAME=VALUE for the engine, e.g. enable_prefix_caching=false."),
    ] = None,
    base_url: BaseUrl = None,
    generate: Callable[..., Any] | None = None,
) -> Repeat | PageCheck:
    """Generate some rows of a run again in other batches, to see how much it differs from itself.

    The rows come alone and in another order; options may change more. The answers lie beside the
    journal in repeat-*.json. Intervals of `compare` and `gate` hold this noise: rows differ by it.

        ruler-eval repeat runs/x --rows 40 --option enable_prefix_caching=false

    With --pages it asks easy questions that end at every residue of 128 tokens, cold, again, behind
    a prompt that begins alike and in a batch. Exit 0: nothing found, 1: a fault, 3: too few rows or
    too many wrong answers to tell (docs/howto/check-an-engine.md).

        ruler-eval repeat --pages --base-url http://127.0.0.1:8000/v1 --model org/model

    Raises:
        UsageError: the folder holds no run, or no answers.
        RulerError: rows, model or function are not those of the run any more.
    """
    from ruler_data.errors import UsageError
    from ruler_eval import repetition
    from ruler_eval.eval_config import EvalConfig
    from ruler_eval.pages import check_pages
    from ruler_eval.runner import open_job

    changes: dict[str, Any] = {"base_url": base_url, "generate": generate, "options": options}
    if run is not None and (data or model or tokenizer):
        raise UsageError(
            run, "has data, model and tokenizer; leave --data, --model, --tokenizer out"
        )
    if run is not None:
        changes |= {"tensor_parallel": tensor_parallel}
        if pages:
            return repetition.repeat_pages(Path(run), length, **changes)
        return repetition.repeat(Path(run), rows, **changes)
    if not (pages and data):
        msg = "name the folder of a run, or give --pages with --model and --base-url"
        raise UsageError(msg)
    changes |= {"data": data, "model": model, "protocol": protocol, "tokenizer": tokenizer}
    changes |= {"tensor_parallel": tensor_parallel or 1, "lengths": length and [length]}
    return check_pages(open_job(EvalConfig.of(changes)), length)
