"""Score predictions: official and exact scores, failures, and evidence by depth.

Rows and predictions are paired one at a time (`ruler_report.predictions.pair_rows`). Nothing that
identifies a machine goes into the results: no path, address or secret, and no text longer than
an example needs.
"""

from collections import Counter
from collections.abc import Iterator
from dataclasses import asdict, replace
from itertools import repeat
from pathlib import Path
from statistics import fmean
from typing import Any

from ruler_data.errors import RulerError, UsageError
from ruler_data.manifest import ConfigInfo
from ruler_data.names import parse_config, quote
from ruler_data.reasoning import opens
from ruler_data.row import Row, RowDigest
from ruler_data.tasks import Task
from ruler_data.terminal import track
from ruler_eval.answers import Tally
from ruler_eval.data import Dataset
from ruler_eval.redact import redact
from ruler_eval.run_dir import RunInfo
from ruler_eval.scoring import ScoredRow, score_rows
from ruler_report.exact import exact_scores
from ruler_report.failures import example_end, failure_of
from ruler_report.predictions import Predictions, answer_of, pair_rows, read_run
from ruler_report.results_file import BINS, ConfigResult, Cost, Depth, Example, Param, Results

#: Example rows of each kind of failure of a config.
EXAMPLES = 2


def results_of(
    run: RunInfo,
    predictions: Predictions,
    data: Dataset,
    bare: Predictions | None = None,
    name: str = "",
    *,
    partial: bool = False,
) -> Results:
    """Return the results of predictions for rows.

    `bare` are those of the same model without the context, to classify failures. `name` is that of
    the file or folder of the predictions; empty for a run. `partial`: the user allows rows
    without an answer.
    """
    configs: dict[str, ConfigResult] = {}
    examples: list[Example] = []
    tally = Tally(run.protocol, opened=opens(run.frame), refused=run.refused)
    for config in track(data.rows, "scoring"):
        configs[config], some = _score_config(config, run, data, predictions, bare, tally)
        examples += some
    public = {name: redact(getattr(run, name)) for name in ("engine_info", "sampling", "frame")}
    return Results(
        run=replace(run, **public),
        fingerprint=run.fingerprint,
        configs=configs,
        examples=tuple(examples),
        notes=predictions.notes,
        predictions=name,
        validity=tally.validity(partial=partial),
        chat_template=data.manifest.chat_template,
    )


def name_of(predictions: Path) -> str:
    """Return the name of a file or folder of predictions, as results record it."""
    return str(redact(predictions.resolve().name))


def read_bare(folder: Path, run: RunInfo) -> Predictions:
    """Return the predictions without context, if they are for the same model and rows."""
    bare, predictions = read_run(folder)
    if not bare.no_context:
        msg = (
            f"--no-context {quote(str(folder))}: that run was made with the context; use one of "
            "`ruler-eval run --no-context`"
        )
        raise UsageError(msg)
    digests = bare.data.digests
    differing = [
        name for name, digest in run.data.digests.items() if digests.get(name, digest) != digest
    ]
    if differing or bare.model != run.model:
        what = f"other rows of {min(differing)}" if differing else f"another model, {bare.model}"
        msg = f"--no-context {quote(str(folder))}: that run was of {what}"
        raise RulerError(msg)
    return predictions


def _score_config(
    config: str,
    run: RunInfo,
    data: Dataset,
    predictions: Predictions,
    bare: Predictions | None,
    tally: Tally,
) -> tuple[ConfigResult, list[Example]]:
    """Return the results of a config, and the first rows of each kind of failure."""
    task, info = data.manifest.table[parse_config(config)[0]], data.manifest.configs[config]
    count = data.rows[config]
    whole = RowDigest() if not info.question_digest and count == info.rows else None
    table: list[dict[str, Any]] = []
    examples: list[Example] = []
    cost = Cost()
    others = bare.of(config, count) if bare else repeat(None, count)
    pairs = pair_rows(data, predictions, config, run.samples)
    for one, other in zip(score_rows(run, data, config, pairs, tally), others, strict=True):
        if whole:  # data of a version that did not record the digest
            whole.add(one.row)
        for _, answer in one.answers:
            cost = cost.plus(answer)
        if one.score is None:
            values: dict[str, Any] = {"failed": any(one.records), "missing": not any(one.records)}
        else:
            values = _score_row(one, task, answer_of(run, other, task))
        table.append({"questions": one.question, **values})
        kind, text = values.get("failure") or (None, "")
        if kind and sum(example.failure == kind for example in examples) < EXAMPLES:
            outputs = tuple(shorten(output, 80) for output in one.row.outputs[:10])
            texts = shorten(one.row.question, 400), outputs, shorten(text, 600)
            examples.append(Example(config, one.row.index, kind, one.score or 0.0, *texts))
    questions = whole.question_hexdigest() if whole else info.question_digest
    return _config_result(task, info, questions, table, cost if cost.rows else None), examples


def _score_row(one: ScoredRow, task: Task, bare: str | None) -> dict[str, Any]:
    """Return the values of a row with all samples answered, by column of its config.

    `failure` is the kind and the text of the first sample that fails; `evidence` has for each piece
    its cell of depth, and whether the answer shows it; `samples` are headline scores.
    """
    texts, records = zip(*one.answers, strict=True)
    pairs = list(zip(texts, one.scores, strict=True))
    exact, f1 = zip(*(exact_scores(one.row, task, *pair) for pair in pairs), strict=True)
    kinds = ((failure_of(one.row, task, *pair, bare), pair[0]) for pair in pairs)
    return {
        "scores": one.score,
        "exact": fmean(exact),
        "f1": fmean(f1),
        "characters": len(records[0].text or ""),
        "tokens": records[0].answer_tokens,
        "truncated": any(answer.finish == "length" for answer in records),
        "empty": not all(text.strip() for text in texts),
        "failure": next((kind for kind in kinds if kind[0]), None),
        "evidence": Counter(evidence_of(one.row, task, *pairs[0])),
        "samples": {"official": one.scores, "exact": exact, "f1": f1}[task.headline],
    }


def _config_result(
    task: Task, info: ConfigInfo, questions: str, table: list[dict[str, Any]], cost: Cost | None
) -> ConfigResult:
    columns: dict[str, Any] = {
        name: tuple(row.get(name) for row in table)
        for name in ("scores", "exact", "f1", "characters", "tokens")
    }
    places: dict[str, Any] = {
        name: tuple(index for index, row in enumerate(table) if row.get(name))
        for name in ("truncated", "empty", "failed", "missing")
    }
    failures: dict[str, list[int]] = {}
    for index, row in enumerate(table):
        if failure := row.get("failure"):
            failures.setdefault(failure[0], []).append(index)
    evidence = [row["evidence"] for row in table if row.get("evidence")]
    every, rows = Counter[tuple[int, bool]](), Counter[int]()
    for pieces in evidence:
        every.update(pieces)
        rows.update({cell for cell, _ in pieces})
    hits = [every[cell, True] for cell in range(BINS)]
    depth = Depth(
        pieces=tuple(every[cell, False] + hits[cell] for cell in range(BINS)),
        shown=tuple(hits),
        rows=tuple(rows[cell] for cell in range(BINS)),
    )
    samples = zip(*(row["samples"] for row in table if "samples" in row), strict=True)
    means = tuple(map(fmean, samples))
    return ConfigResult(
        digest=info.digest,
        question_digest=questions,
        family=task.params.family,
        category=task.category,
        metric=task.metric,
        rows=len(table),
        **columns,
        **places,
        failures={kind: tuple(indexes) for kind, indexes in sorted(failures.items())},
        depth=depth if evidence else None,
        params=params_of(task),
        floor=info.floor,
        headline=task.headline,
        same_questions_as=task.same_questions_as,
        samples=means if len(means) > 1 else (),
        questions="".join(row["questions"] for row in table),
        cost=cost,
    )


def params_of(task: Task) -> dict[str, Param]:
    """Return the parameters of a task as plain JSON values, without its family."""
    return {
        name: ", ".join(value) if isinstance(value, tuple) else value
        for name, value in asdict(task.params).items()
        if name != "family" and value is not None
    }


def evidence_of(row: Row, task: Task, answer: str, score: float) -> Iterator[tuple[int, bool]]:
    """Yield for each piece of evidence its cell of depth and whether the answer shows it.

        spans of a vt row:    VAR QZKRA = 48213    VAR PLMEW = VAR QZKRA    ...
        cell of 10:           1                    4                        ...
        "QZKRA, TUVXO":       shown                not shown                ...

    The context, after its in-context example, is cut into `BINS` cells of equally many characters.
    A piece is shown if the answer names the first gold answer in it (for vt, the variable that the
    line assigns). Documents are shown if the row scores, as are pieces without a gold answer (an
    earlier value, half of a needle); if it scores 1, all are, and none if a recall is 0.
    """
    start = example_end(row, task)
    room = max(1, len(row.context) - start)
    cells = [(first - start) * BINS // room for first, _ in row.evidence]
    if task.metric == "part" or score == 1 or (task.metric == "all" and score == 0):
        yield from zip(cells, repeat(score > 0))
        return
    answer = answer.lower()
    in_answer = {output.lower(): output.lower() in answer for output in row.outputs}
    by_text = dict(in_answer)  # a common word is a whole piece
    for cell, (first, last) in zip(cells, row.evidence, strict=True):
        text = row.context[first:last].lower()
        if text not in by_text:
            inside = [(text.find(output), output) for output in in_answer if output in text]
            by_text[text] = in_answer[min(inside)[1]] if inside else score > 0
        yield cell, by_text[text]


def shorten(text: str, limit: int) -> str:
    """Return a text as valid Unicode of at most `limit` characters, its middle left out.

    >>> shorten("abcdefghij", 7)
    'abc…hij'
    """
    if len(text) > limit:
        half = (limit - 1) // 2
        text = f"{text[:half]}…{text[-half:]}"
    return text.encode("utf-8", "replace").decode("utf-8")
