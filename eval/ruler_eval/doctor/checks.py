"""Examine a run without loading the model: each finding names the rows, the fault and a remedy."""

from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from itertools import islice
from typing import Any, Literal

from ruler_data.errors import UsageError
from ruler_data.names import counted, quote
from ruler_data.row import Row
from ruler_eval.doctor.estimate import BATCH, GPUS, USABLE, Estimate, estimate, shape_of
from ruler_eval.engines import Engine, Request, prepare
from ruler_eval.engines.interface import NotInstalled
from ruler_eval.eval_config import EvalConfig
from ruler_eval.inputs import Inputs, open_inputs
from ruler_eval.metrics import opens_reasoning
from ruler_eval.models import text_part
from ruler_eval.prompts import PROTOCOLS
from ruler_eval.sharding import items_of

Level = Literal["error", "warning", "note"]
#: Seconds that an examined server may take to be up, if no option says otherwise.
PATIENCE = 10
#: Tokens that an examined server is asked for.
ASKED = 4


@dataclass(frozen=True)
class Finding:
    """Something to know before a run.

    Attributes:
        level: `error` where the run would be worthless, `warning` where answers may suffer,
            `note` otherwise.
        about: the config and row, or what else it is about.
        message: what is wrong, and what to do.
    """

    level: Level
    about: str
    message: str

    def __str__(self) -> str:
        return f"{self.level}: {self.about}: {self.message}"


def diagnose(
    config: EvalConfig, sample: int | None, gpu: str | None, progress: Callable[[str, int], None]
) -> tuple[list[Finding], int, Estimate | None]:
    """Return what was found, the number of rows examined, and the cost of the run on a GPU.

    The cost is None where the model's config does not say enough.

    Args:
        config: the options of the run.
        sample: rows of each config to render, evenly spread; all where None.
        gpu: its name; None for an estimate without times.
        progress: called with each config when its rows are examined, and their number.
    """
    if gpu is not None and gpu not in GPUS:
        option = f"--gpu {quote(gpu)}"
        raise UsageError(option, f"not known; known: {', '.join(GPUS)}")
    if config.engine == "openai":
        config = replace(config, options={"patience": PATIENCE, **config.engine_options})
    inputs = open_inputs(config)
    findings = [*_examine_model(inputs), *_examine_engine(inputs)]
    inputs.use_fast_counter()  # as a run does
    cost = _estimate(inputs, gpu)
    if cost is None and inputs.model.config:
        message = "none: the model's config.json is of a kind that is not supported"
        findings.append(Finding("note", "estimate", message))
    if cost is not None and cost.fits is False:
        message = (
            f"weights of {cost.weight_bytes / 1e9:.1f} GB and keys and values of the longest row, "
            f"{cost.kv_bytes_longest / 1e9:.1f} GB, do not fit on {config.tensor_parallel} {gpu}; "
            "use more with --tensor-parallel"
        )
        findings.append(Finding("error", "memory", message))
    rows, examined = _examine_rows(inputs, sample, progress)
    return [*findings, *rows], examined, cost


def _examine_model(inputs: Inputs) -> Iterator[Finding]:
    """Yield what is wrong with the tokenizer and the template for this data and protocol."""
    tokenizer, prompts = inputs.tokenizer, inputs.prompts
    data, name = inputs.data.manifest.tokenizer, prompts.protocol.name
    if not inputs.counts_alike:
        config = next(iter(inputs.data.rows))
        row = next(inputs.data.read(config))
        length = len(prompts.ids(tokenizer, row)) + row.max_new_tokens
        message = (
            f"{tokenizer.info.name} ({tokenizer.info.fingerprint[:16]}) is not that of the data, "
            f"{data.name} ({data.fingerprint[:16]}): {config}/0 has {length} tokens, the data says "
            f"{row.length}; use rows for this tokenizer (`ruler-data find`, or `ruler-data build "
            "--tokenizer`), or name it with --tokenizer if you want these rows all the same"
        )
        level: Level = "error" if inputs.config.tokenizer is None else "warning"
        yield Finding(level, "tokenizer", message)
    if prompts.protocol.variables is None:
        return
    if not tokenizer.has_template:
        message = "the model has none: prompts are plain text, as in protocol base"
        yield Finding("note", "template", message)
        return
    if not tokenizer.opens_turn:
        message = (
            "it has no generation prompt: the model would continue as the user; use a template "
            "that supports add_generation_prompt"
        )
        yield Finding("error", "template", message)
    chat, thinking = (
        replace(prompts, protocol=PROTOCOLS[each]).frame(tokenizer) for each in ("chat", "thinking")
    )
    if name == "thinking" and chat == thinking and not opens_reasoning(thinking):
        message = (
            "it ignores enable_thinking and opens no block of reasoning: unless the model reasons "
            "by itself, this is protocol chat with more room"
        )
        yield Finding("warning", "template", message)
    if name != "thinking" and opens_reasoning(chat):
        message = "it opens a block of reasoning, which would be scored; use --protocol thinking"
        yield Finding("warning", "template", message)


def _examine_engine(inputs: Inputs) -> Iterator[Finding]:
    """Yield whether the window and the options are known, and what a server does."""
    config = inputs.config
    if config.engine != "openai" and inputs.model.window is None:
        yield Finding("warning", "window", "not known: the model's config does not say")
    longest = max(inputs.longest_requests().values())
    try:
        engine = prepare(config, inputs.model, inputs.tokenizer, longest)
    except NotInstalled as error:
        yield Finding("note", "options", f"not checked: {error}")
        return
    if engine.opened is not None:
        yield from _examine_server(inputs, engine.opened())  # what it refuses it tells itself


def _examine_server(inputs: Inputs, engine: Engine) -> Iterator[Finding]:
    """Yield what a server does with the longest row; this takes one prefill of it."""
    longest = max(items_of(inputs.data), key=lambda item: (item.tokens, item.config, item.index))
    name = f"{longest.config}/{longest.index}"
    row = next(iter(inputs.data.read_alike(longest.config, {longest.index})))
    ids = inputs.prompts.ids(inputs.tokenizer, row)
    need = len(ids) + inputs.prompts.max_tokens(row.max_new_tokens)
    if engine.window is None:
        yield Finding("note", "server", "does not list its window (max_model_len)")
    elif engine.window < need:
        message = (
            f"its window is {engine.window} tokens, {name} needs {need}; start it with a longer "
            "one, or leave the config out"
        )
        yield Finding("error", "server", message)
        return
    if "min_tokens" in inputs.config.sampling and "min_tokens" not in engine.sampling:
        yield Finding("warning", "server", "refuses min_tokens: an answer may be empty")
    (said,) = engine.generate(iter([Request(longest.config, row, ids, ASKED)]))
    if said.error is not None:
        yield Finding("error", name, said.error)
    elif said.prompt_tokens is None:
        yield Finding("warning", "server", "does not report how many tokens of a prompt it read")
    else:
        more = said.prompt_tokens - len(ids)
        by = f"; its template differs from the one here by {more:+} tokens" if more else ""
        read = f"read {said.prompt_tokens} tokens of {name}, {len(ids)} were rendered here"
        yield Finding("warning" if more else "note", "server", read + by)


def _examine_rows(
    inputs: Inputs, sample: int | None, progress: Callable[[str, int], None]
) -> tuple[list[Finding], int]:
    """Return one finding for each fault that rows have, and the number of rows examined."""
    worst: dict[str, tuple[int, Finding]] = {}
    rows: dict[str, Counter[str]] = defaultdict(Counter)
    examined = 0
    for config, count in inputs.data.rows.items():
        step = 1 if sample is None else max(1, count // sample)
        for row in islice(inputs.data.read(config), 0, None, step):
            examined += 1
            for fault, level, excess, message in _faults(inputs, row):
                rows[fault][config] += 1
                if fault not in worst or excess > worst[fault][0]:
                    worst[fault] = excess, Finding(level, f"{config}/{row.index}", message)
        progress(config, count)
    return [
        replace(finding, message=f"{finding.message} ({_where(rows[fault])}, {examined} examined)")
        for fault, (_, finding) in worst.items()
    ], examined


def _where(rows: Mapping[str, int]) -> str:
    """Return how many rows of which configs.

    >>> _where({"vt_4096": 20, "cwe_4096": 1})
    '21 rows of vt_4096, cwe_4096'
    """
    names = list(rows)
    more = f" and {len(names) - 3} other configs" if len(names) > 3 else ""
    return f"{counted(sum(rows.values()), 'row')} of {', '.join(names[:3])}{more}"


def _faults(inputs: Inputs, row: Row) -> Iterator[tuple[str, Level, int, str]]:
    """Yield the faults of a row: name, level, excess (the row with most is shown), message."""
    prompts, tokenizer, window = inputs.prompts, inputs.tokenizer, inputs.model.window
    ids, room = prompts.ids(tokenizer, row), prompts.max_tokens(row.max_new_tokens)
    length, need = len(ids) + row.max_new_tokens, len(ids) + room
    if prompts.is_counted and inputs.counts_alike and length != row.length:
        message = (
            f"prompt and answer are {length} tokens, the data says {row.length}; verify the data"
        )
        yield "length", "error", abs(length - row.length), message
    if window is not None and need > window:
        message = (
            f"prompt and answer need {need} tokens, the window is {window}; leave the config out, "
            "or extend the window, e.g. with YaRN"
        )
        yield "window", "error", need, message
    bos = next((place for place, each in enumerate(ids) if each != tokenizer.bos_id), len(ids))
    if tokenizer.wants_bos and bos != 1:
        begins = f"{bos} BOS tokens" if bos else "no BOS"
        message = f"the prompt begins with {begins}, the model expects one; fix its chat template"
        yield "bos", "error", 0, message
    task = inputs.data.manifest.table.get(row.task)
    if task is not None and task.metric == "part":
        return  # what a question of qa asks for may be implied
    text = tokenizer.decode(ids).lower()
    lost = [output for output in row.outputs if output.lower() not in text]
    if lost and not prompts.no_context:
        message = f"gold answer {lost[0]!r} is not in the prompt as sent; verify the data"
        yield "gold", "error", 0, message
    lines = (f"\n{number}. {output}" for number, output in enumerate(row.outputs, 1))
    listed = tokenizer.count(["".join(lines)])[0]
    if listed > room and len(row.outputs) > 1:
        message = (
            f"gold answers as a numbered list take up to {listed} tokens, the protocol gives "
            f"{room}: a model that numbers its answers is cut off; --extra-tokens "
            f"{listed - room + 8} avoids this, but the results are not comparable with the default "
            "budget"
        )
        yield "room", "warning", listed - room, message


def _estimate(inputs: Inputs, gpu: str | None) -> Estimate | None:
    config, prompts = inputs.config, inputs.prompts
    options: dict[str, Any] = config.engine_options
    shape = shape_of(text_part(inputs.model.config), inputs.model.weight_bytes, options)
    if shape is None:
        return None
    rows = [
        (length + prompts.extra_tokens, prompts.max_tokens(max_new_tokens))
        for name in inputs.data.rows
        for length, max_new_tokens in inputs.data.sizes(name)
    ]
    batches = {"transformers": 1, "python": options.get("batch", 1)}
    return estimate(
        shape,
        rows,
        GPUS[gpu] if gpu else None,
        config.tensor_parallel,
        config.samples,
        batches.get(config.engine, BATCH),
        options.get("gpu_memory_utilization", USABLE),
    )
