"""Score predictions: official and exact scores, failures, and evidence by depth.

Rows and predictions are paired one at a time (`ruler_report.predictions.pair_rows`). Nothing that
identifies a machine goes into the results: no path, address or secret, and no text longer than
an example needs.
"""

import re
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from itertools import repeat
from pathlib import Path
from statistics import fmean
from typing import Any

from ruler_data.errors import RulerError, UsageError
from ruler_data.manifest import ConfigInfo
from ruler_data.names import parse_config, quote
from ruler_data.row import Row, RowDigest
from ruler_data.tasks import Task
from ruler_data.terminal import track
from ruler_eval.answers import Tally
from ruler_eval.data import Dataset
from ruler_eval.reasoning import opens
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
    the file or folder of the predictions; empty for a run. `partial`: the user accepts that rows
    have no answer.
    """
    configs: dict[str, ConfigResult] = {}
    examples: list[Example] = []
    tally = Tally(run.protocol, opened=opens(run.frame))
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


@dataclass(frozen=True)
class _Scored:
    """A row of `ConfigResult`; as it stands here, one that is neither answered nor failed.

    `evidence` has the cell of depth of each piece, and whether the answer shows it; `samples` is
    the headline score of each sample.
    """

    scores: float | None = None
    exact: float | None = None
    f1: float | None = None
    characters: int | None = None
    tokens: int | None = None
    truncated: bool = False
    empty: bool = False
    failed: bool = False
    missing: bool = False
    failure: str | None = None
    evidence: tuple[tuple[int, bool], ...] = ()
    samples: tuple[float, ...] = ()


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
    scored: list[_Scored] = []
    examples: list[Example] = []
    questions: list[str] = []
    cost = Cost()
    others = bare.of(config, count) if bare else repeat(None, count)
    pairs = pair_rows(data, predictions, config, run.samples)
    for one, other in zip(score_rows(run, data, config, pairs, tally), others, strict=True):
        questions.append(one.question)
        if whole:  # data of a version that did not record the digest
            whole.add(one.row)
        for _, answer in one.answers:
            cost = cost.plus(answer)
        if one.score is None:
            scored.append(_Scored(failed=any(one.records), missing=not any(one.records)))
            continue
        found, text = _score_row(one, task, answer_of(run, other, task))
        scored.append(found)
        kind, row = found.failure, one.row
        if kind and sum(example.failure == kind for example in examples) < EXAMPLES:
            outputs = tuple(shorten(output, 80) for output in row.outputs[:10])
            texts_shown = (shorten(row.question, 400), outputs, shorten(text, 600))
            examples.append(Example(config, row.index, kind, found.scores or 0.0, *texts_shown))
    if whole:
        info = replace(info, question_digest=whole.question_hexdigest())
    result = replace(_config_result(task, info, scored), questions="".join(questions))
    return replace(result, cost=cost if cost.rows else None), examples


def _score_row(one: ScoredRow, task: Task, bare: str | None) -> tuple[_Scored, str]:
    """Return a row of which every sample is answered, and the text that failed."""
    row, official = one.row, one.scores
    texts, records = zip(*one.answers, strict=True)
    pairs = list(zip(texts, official, strict=True))
    exact, f1 = zip(*(exact_scores(row, task, *pair) for pair in pairs), strict=True)
    kinds = ((failure_of(row, task, *pair, bare), pair[0]) for pair in pairs)
    failure, text = next((found for found in kinds if found[0]), (None, ""))
    found = _Scored(
        scores=one.score,
        exact=fmean(exact),
        f1=fmean(f1),
        characters=len(records[0].text or ""),
        tokens=records[0].answer_tokens,
        truncated=any(answer.finish == "length" for answer in records),
        empty=not all(text.strip() for text in texts),
        failure=failure,
        evidence=tuple(evidence_of(row, task, *pairs[0])),
        samples=tuple({"official": official, "exact": exact, "f1": f1}[task.headline]),
    )
    return found, text


def _config_result(task: Task, info: ConfigInfo, rows: Sequence[_Scored]) -> ConfigResult:
    def where(name: str) -> tuple[int, ...]:
        return tuple(index for index, row in enumerate(rows) if getattr(row, name))

    failures: dict[str, list[int]] = {}
    for index in where("failure"):
        failures.setdefault(str(rows[index].failure), []).append(index)
    pieces, shown, with_evidence = ([0] * BINS for _ in range(3))
    for row in rows:
        for cell, is_shown in row.evidence:
            pieces[cell] += 1
            shown[cell] += is_shown
        for cell in {cell for cell, _ in row.evidence}:
            with_evidence[cell] += 1
    depth = Depth(tuple(pieces), tuple(shown), tuple(with_evidence))
    samples = [row.samples for row in rows if row.samples]
    means = tuple(map(fmean, zip(*samples, strict=True)))
    columns: dict[str, Any] = {
        name: tuple(getattr(row, name) for row in rows)
        for name in ("scores", "exact", "f1", "characters", "tokens")
    }
    places: dict[str, Any] = {n: where(n) for n in ("truncated", "empty", "failed", "missing")}
    return ConfigResult(
        digest=info.digest,
        question_digest=info.question_digest,
        family=task.params.family,
        category=task.category,
        metric=task.metric,
        rows=len(rows),
        **columns,
        **places,
        failures={kind: tuple(indexes) for kind, indexes in sorted(failures.items())},
        depth=depth if any(pieces) else None,
        params=params_of(task),
        floor=info.floor,
        headline=task.headline,
        same_questions_as=task.same_questions_as,
        samples=means if len(means) > 1 else (),
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
    start = example_end(row, task)
    room = max(1, len(row.context) - start)
    any_of = task.metric == "part"
    for first, last in row.evidence:
        cell = min(BINS - 1, max(0, first - start) * BINS // room)
        yield (
            cell,
            (score > 0 if any_of else _is_shown(row.context[first:last].lower(), named, score)),
        )


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
