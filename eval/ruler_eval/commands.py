"""The commands `ruler-eval run`, `status` and `repeat`.

Each is a function, whose parameters are the options of the command. Imports of what a function
needs are in its body.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from typer import Argument, Option

from ruler_data.signatures import checked, takes
from ruler_eval.running.config import BaseUrl, EngineOptions, EvalConfig, Model, Tokenizer
from ruler_eval.running.prompts import ProtocolName

if TYPE_CHECKING:
    from ruler_eval.engine_check.check import EngineCheck
    from ruler_eval.engine_check.repetition import Repeat
    from ruler_eval.running.check import Diagnosis
    from ruler_eval.running.status import Run


@dataclass(frozen=True, kw_only=True)
class RunConfig(EvalConfig):
    """The options of `run` and `check`."""

    out: Annotated[
        str | Path | None, Option(help="Folder of the run; not for --check.", metavar="DIR")
    ] = None
    shard: Annotated[str, Option(help="One of N parts, e.g. 0/8.", metavar="I/N")] = "0/1"
    data_parallel: Annotated[int, Option(help="Copies of the model here.", min=1)] = 1
    budget: Annotated[
        float | None,
        Option(help="Stop before it costs more; needs --prices.", min=0),
    ] = None
    budget_tokens: Annotated[
        int | None, Option(help="Stop before it takes more tokens.", min=1)
    ] = None
    progress: bool = True

    def __post_init__(self) -> None:
        """Refuse what one process cannot do, besides."""
        from ruler_data.errors import UsageError
        from ruler_data.names import parse_shard

        super().__post_init__()
        has_budget = self.budget is not None or self.budget_tokens is not None
        _, shards = parse_shard(self.shard)
        if self.budget is not None and self.prices is None:
            raise UsageError("--budget: give --prices, or --budget-tokens")
        if has_budget and (shards > 1 or self.data_parallel > 1):
            raise UsageError("--budget is for one process: no --shard, no --data-parallel")
        if self.generate is not None and self.data_parallel > 1:
            remedy = "give --option function=package.module:name"
            raise UsageError(f"generate: a function runs in one process; {remedy}")


@dataclass(frozen=True, kw_only=True)
class RunCommand(RunConfig):
    """The options of the command `run`."""

    check: Annotated[
        bool,
        Option(help="Load no model: find problems, say what it costs."),
    ] = False


@takes(RunConfig)
def run(
    config: RunConfig,
    **engine_options: Any,  # noqa: ANN401 - any option of an engine
) -> Run:
    """Run a model over the rows; the same call resumes an interrupted run.

    `generate` is a function from a list of `Request`s to one text or `Generation` for each, for
    engine `python` (`running.python`); `model` may then be left out, or be just a name. Without
    `out` the run is in a temporary folder until Python ends. `progress=False` shows no bar. Further
    keyword arguments are options of the engine.

    Raises:
        UsageError: the options cannot be carried out, or `out` holds another run.
        RulerError: the engine failed, or data are damaged.
    """
    return _run(replace(config, options=config.settings | engine_options))


@takes(RunConfig)
def check(
    config: RunConfig,
    **engine_options: Any,  # noqa: ANN401 - any option of an engine
) -> Diagnosis:
    """Look for what would make a run worthless, and say what it costs; no model is loaded.

    It takes what `run` takes.

    Raises:
        UsageError: the options cannot be carried out.
        RulerError: data are damaged.
    """
    return _check(replace(config, options=config.settings | engine_options))


@takes(RunCommand)
def run_or_check(config: RunCommand) -> Run | Diagnosis:
    """Run a model over the rows; the same command resumes an interrupted run.

        ruler-eval run --data dist/llama3 --model org/model --out runs/x

    Raises:
        UsageError: the options cannot be carried out, or `out` holds another run.
        RulerError: the engine failed, or data are damaged.
    """
    from ruler_data.errors import UsageError

    if config.check:
        return _check(config)
    if not config.out:
        raise UsageError("--out is missing: name the folder of the run, e.g. --out runs/x")
    return _run(config)


def _run(config: RunConfig) -> Run:
    from ruler_data.names import parse_shard
    from ruler_data.terminal import out_path
    from ruler_eval.running.run_dir import RunFolder, Shard
    from ruler_eval.running.runner import open_job, run_processes, run_shard
    from ruler_eval.running.spending import Budget
    from ruler_eval.running.status import status

    out = _temporary() if config.out is None else out_path(config.out)
    folder = RunFolder(out).checked()
    job = open_job(config)
    shard = Shard(*parse_shard(config.shard))
    if config.data_parallel > 1:
        run_processes(config, folder, shard, config.data_parallel)
        return status(folder.path)
    budget = Budget(config.budget_tokens, config.budget)
    missing = run_shard(job, folder, shard, budget=budget, bar=config.progress)
    return status(folder.path, missing)


def _check(config: RunConfig) -> Diagnosis:
    from ruler_data.progress import progress
    from ruler_eval.running.check import diagnose

    with progress(None, "examining") as advance:
        return diagnose(config, advance)


def _temporary() -> Path:
    """Return a folder that is removed when Python ends."""
    import atexit
    from shutil import rmtree
    from tempfile import mkdtemp

    folder = Path(mkdtemp(prefix="ruler-run-"))
    atexit.register(rmtree, folder, ignore_errors=True)
    return folder


@checked
def status(run: Annotated[str | Path, Argument(help="Folder of a run.")]) -> Run:
    """Show how far a run is: rows answered, failed and left.

    It does not disturb a run that is under way.

        ruler-eval status runs/x

    Raises:
        UsageError: the folder holds no run.
        RulerError: a file of it is damaged.
    """
    from ruler_eval.running import status as run_status

    return run_status.status(run)


@checked
def repeat(
    run: Annotated[str | Path, Argument(help="Folder of a run.")],
    rows: Annotated[int, Option(help="Rows to generate again, drawn at random.", min=1)] = 40,
    *,
    options: EngineOptions = None,
    base_url: BaseUrl = None,
    generate: Callable[..., Any] | None = None,
) -> Repeat:
    """Generate some rows of a run again in other batches, to see how much it differs from itself.

    Rows are generated one at a time, in another order. The answers are written beside the journal,
    in repeat-*.json.

        ruler-eval repeat runs/x --rows 40 --option enable_prefix_caching=false

    Raises:
        UsageError: the folder holds no run, or no answers.
        RulerError: rows, model or function are not those of the run any more.
    """
    from ruler_eval.engine_check import repetition

    return repetition.repeat(Path(run), rows, options=options, base_url=base_url, generate=generate)


@checked
def check_engine(
    data: Annotated[
        str | Path | None,
        Option(help="Rows of the suite pages [default: built here]."),
    ] = None,
    model: Model = "",
    *,
    length: Annotated[
        int | None, Option(help="Length of the rows [default: 4,096, or two blocks].", min=1)
    ] = None,
    block: Annotated[
        int | None,
        Option(help="Tokens of a block of the cache [default: as hits show].", min=1),
    ] = None,
    protocol: Annotated[ProtocolName, Option(help="How prompts are formatted.")] = "completion",
    tokenizer: Tokenizer = None,
    options: EngineOptions = None,
    base_url: BaseUrl = None,
    generate: Callable[..., Any] | None = None,
) -> EngineCheck:
    """Find faults of an engine that depend on where a prompt ends and on what was cached.

    It asks easy questions that end at every residue of 128 tokens: cold, again, behind a prompt
    that begins alike, in a batch, and in a batch of neighbours that begin alike. A condition counts
    only where it was seen. Exit 0: all tested, nothing found; 1: a fault; 3: not all was tested, or
    too many answers are wrong to tell (docs/howto/check-an-engine.md).

        ruler-eval check-engine --base-url http://127.0.0.1:8000/v1 --model org/m

    Raises:
        UsageError: the rows are not of the suite `pages`, or the engine keeps no cache.
        RulerError: the engine does not answer.
    """
    from ruler_data.errors import UsageError
    from ruler_eval.engine_check.check import check_engine as check_conditions
    from ruler_eval.engine_check.conditions import LINE
    from ruler_eval.running.runner import open_job

    if data is None:
        raise UsageError("name the rows of the suite pages with --data, or a --model to build them")
    config = EvalConfig(
        data,
        model=model,
        protocol=protocol,
        tokenizer=tokenizer,
        lengths=[length] if length else None,
        base_url=base_url,
        generate=generate,
        options=options,
    )
    return check_conditions(open_job(config, LINE), length, block)
