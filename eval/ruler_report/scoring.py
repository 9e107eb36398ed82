"""Score a run for its report: official and strict scores, failures, and evidence by depth.

Rows and predictions are paired one at a time (`ruler_report.predictions.pair_rows`). Nothing that
identifies a machine goes into the results: no path, address or secret, and no text longer than
an example needs.
"""

import re
from collections import Counter
from collections.abc import Iterator
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from statistics import fmean
from typing import Any

from ruler_data.errors import RulerError, UsageError
from ruler_data.manifest import ConfigInfo
from ruler_data.names import parse_config, quote
from ruler_data.row import Row, RowDigest
from ruler_data.tasks import Task
from ruler_data.terminal import track
from ruler_eval.data import Dataset
from ruler_eval.metrics import score_row
from ruler_eval.schema import Prediction, RunInfo
from ruler_report.exact import STRICT, exact_scores
from ruler_report.failures import EXAMPLE_FAMILIES, example_end, failure_of
from ruler_report.predictions import Predictions, answer_of, pair_rows, read_run
from ruler_report.results import BINS, ConfigResult, Depth, Example, Param, Results

#: Example rows of each kind of failure of a config.
EXAMPLES = 2


def results_of(
    run: RunInfo, predictions: Predictions, rows: Dataset, bare: Predictions | None, name: str
) -> Results:
    """Return the results of predictions for rows.

    `bare` are those of the same model without the context, to classify failures. `name` is that of
    the file or folder of the predictions; empty for a run.
    """
    configs: dict[str, ConfigResult] = {}
    examples: list[Example] = []
    for config in track(rows.rows, "scoring"):
        configs[config], some = _score_config(config, run, rows, predictions, bare)
        examples += some
    return Results(
        run=replace(
            run,
            engine_info=redact(run.engine_info),
            sampling=redact(run.sampling),
            frame=redact(run.frame),
        ),
        fingerprint=run.fingerprint,
        configs=configs,
        examples=tuple(examples),
        notes=predictions.notes,
        predictions=name,
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
    shared = bare.data.digests.keys() & run.data.digests
    differing = [
        name for name in sorted(shared) if bare.data.digests[name] != run.data.digests[name]
    ]
    if differing or bare.model != run.model:
        what = f"other rows of {differing[0]}" if differing else f"another model, {bare.model}"
        msg = f"--no-context {quote(str(folder))}: that run was of {what}"
        raise RulerError(msg)
    return predictions


@dataclass(frozen=True)
class _Scored:
    """One scored row.

    Attributes:
        evidence: for each cell of depth, the pieces of evidence that begin there.
        shown: for each cell, how many of them the answer shows.
        failure: kind of failure; None if there is none.
    """

    index: int
    score: float
    strict: float
    exact: float
    f1: float
    characters: int
    tokens: int | None
    truncated: bool
    empty: bool
    evidence: list[int]
    shown: list[int]
    failure: str | None


def _score_config(
    config: str, run: RunInfo, data: Dataset, predictions: Predictions, bare: Predictions | None
) -> tuple[ConfigResult, list[Example]]:
    task, info = data.manifest.table[parse_config(config)[0]], data.manifest.configs[config]
    questions = RowDigest() if not info.question_digest and data.rows[config] == info.rows else None
    rows: list[_Scored | None] = []
    failed: list[int] = []
    missing: list[int] = []
    examples: list[Example] = []
    counts: Counter[str] = Counter()
    count = data.rows[config]
    others = bare.of(config, count) if bare else iter([None] * count)
    pairs = pair_rows(data, predictions, config, run.samples)
    sums = [0.0] * run.samples
    for (row, several), other in zip(pairs, others, strict=True):
        if questions:  # data of a version that did not record the digest
            questions.add(row)
        answers = [
            (answer, prediction)
            for prediction in several
            if prediction and (answer := answer_of(run, prediction)) is not None
        ]
        if len(answers) < len(several):
            (failed if any(several) else missing).append(row.index)
            rows.append(None)
            continue
        samples = [_analyze(row, task, *pair, answer_of(run, other)) for pair in answers]
        name = "score" if task.headline == "official" else task.headline
        sums = [n + getattr(each, name) for n, each in zip(sums, samples, strict=True)]
        scored = _merged(samples)
        rows.append(scored)
        if scored.failure and counts[scored.failure] < EXAMPLES:
            counts[scored.failure] += 1
            first = next(place for place, each in enumerate(samples) if each.failure)
            said = answers[first][0]
            examples.append(_example(config, row, scored.failure, scored.score, said))
    if questions:
        info = replace(info, question_digest=questions.question_hexdigest())
    result = _config_result(task, info, rows, failed, missing)
    if run.samples > 1 and result.scored:
        result = replace(result, samples=tuple(total / result.scored for total in sums))
    return result, examples


def _merged(samples: list[_Scored]) -> _Scored:
    """Return one scored row for all its samples; `ConfigResult.samples` says how."""
    return replace(
        samples[0],
        score=fmean(each.score for each in samples),
        strict=fmean(each.strict for each in samples),
        exact=fmean(each.exact for each in samples),
        f1=fmean(each.f1 for each in samples),
        truncated=any(each.truncated for each in samples),
        empty=any(each.empty for each in samples),
        failure=next((each.failure for each in samples if each.failure), None),
    )


def _analyze(
    row: Row, task: Task, answer: str, prediction: Prediction, bare: str | None
) -> _Scored:
    score = score_row(row, task, answer)
    exact, f1 = exact_scores(row, task, answer, score)
    evidence, shown = [0] * BINS, [0] * BINS
    for cell, is_shown in evidence_of(row, task, answer, score):
        evidence[cell] += 1
        shown[cell] += is_shown
    return _Scored(
        index=row.index,
        score=score,
        strict=score_row(row, task, answer, STRICT),
        exact=exact,
        f1=f1,
        characters=len(prediction.text or ""),
        tokens=prediction.answer_tokens,
        truncated=prediction.finish == "length",
        empty=not answer,
        evidence=evidence,
        shown=shown,
        failure=failure_of(row, task, answer, score, bare),
    )


def _config_result(
    task: Task, info: ConfigInfo, rows: list[_Scored | None], failed: list[int], missing: list[int]
) -> ConfigResult:
    scored = [row for row in rows if row]
    failures: dict[str, list[int]] = {}
    for row in scored:
        if row.failure:
            failures.setdefault(row.failure, []).append(row.index)
    depth = Depth(
        tuple(sum(row.evidence[cell] for row in scored) for cell in range(BINS)),
        tuple(sum(row.shown[cell] for row in scored) for cell in range(BINS)),
        tuple(sum(row.evidence[cell] > 0 for row in scored) for cell in range(BINS)),
    )
    return ConfigResult(
        digest=info.digest,
        question_digest=info.question_digest,
        family=task.params.family,
        category=task.category,
        metric=task.metric,
        rows=len(rows),
        scores=tuple(row.score if row else None for row in rows),
        strict=tuple(row.strict if row else None for row in rows),
        characters=tuple(row.characters if row else None for row in rows),
        tokens=tuple(row.tokens if row else None for row in rows),
        truncated=tuple(row.index for row in scored if row.truncated),
        empty=tuple(row.index for row in scored if row.empty),
        failed=tuple(failed),
        missing=tuple(missing),
        failures={kind: tuple(indexes) for kind, indexes in sorted(failures.items())},
        depth=depth if any(depth.pieces) else None,
        params=params_of(task),
        floor=info.floor,
        exact=tuple(row.exact if row else None for row in rows),
        f1=tuple(row.f1 if row else None for row in rows),
        headline=task.headline,
        same_questions_as=task.same_questions_as,
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
    A piece is shown if the answer names the gold answer in it (for vt, the variable that the line
    assigns). Documents are shown if the row scores, as are pieces without an answer.
    """
    answer = answer.lower()
    named = {output.lower(): output.lower() in answer for output in row.outputs}
    start = example_end(row.context) if task.params.family in EXAMPLE_FAMILIES else 0
    room = max(1, len(row.context) - start)
    for span in row.evidence:
        cell = min(BINS - 1, max(0, span.start - start) * BINS // room)
        if task.metric == "part":
            yield cell, score > 0
        else:
            yield cell, _is_shown(row.context[span.start : span.end].lower(), named, score)


def _is_shown(text: str, named: dict[str, bool], score: float) -> bool:
    """Whether the first gold answer in a piece of evidence is named; all in lower case.

    A piece without one (an earlier value, half of a needle, a counted word) is shown if the row
    scores.
    """
    if text in named:  # a common word is a whole piece
        return named[text]
    places = [(text.find(output), output) for output in named]
    inside = [(place, output) for place, output in places if place >= 0]
    return named[min(inside)[1]] if inside else score > 0


def _example(config: str, row: Row, failure: str, score: float, answer: str) -> Example:
    outputs = tuple(shorten(output, 80) for output in row.outputs[:10])
    question, said = shorten(row.question, 400), shorten(answer, 600)
    return Example(config, row.index, failure, score, question, outputs, said)


_SECRET = re.compile(r"\b(?:hf_|sk-|ghp_|glpat-)[A-Za-z0-9_-]{8,}|(?i:bearer\s+)\S+")
_ADDRESS = re.compile(r"\b[a-z][a-z0-9+.-]*://\S+", re.IGNORECASE)
_PATH = re.compile(r"(?<![\w.])(?:~|[A-Za-z]:)?[/\\](?:[^\s/\\]+[/\\])+([^\s/\\]*)")


def redact(value: Any) -> Any:  # noqa: ANN401 - any JSON value
    """Return a JSON value without secrets, addresses and the folders of paths.

    >>> redact({"model": "/home/ann/llama", "url": "http://gpu7:8000/v1", "dtype": "bfloat16"})
    {'model': 'llama', 'url': '[address]', 'dtype': 'bfloat16'}
    """
    if isinstance(value, dict):
        return {str(key): redact(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [redact(item) for item in value]
    if not isinstance(value, str):
        return value
    text = _ADDRESS.sub("[address]", _SECRET.sub("[secret]", value))
    return _PATH.sub(r"\1", text)


def shorten(text: str, limit: int) -> str:
    """Return a text as valid Unicode of at most `limit` characters, its middle left out.

    >>> shorten("abcdefghij", 7)
    'abc…hij'
    """
    if len(text) > limit:
        half = (limit - 1) // 2
        text = f"{text[:half]}…{text[-half:]}"
    return text.encode("utf-8", "replace").decode("utf-8")
