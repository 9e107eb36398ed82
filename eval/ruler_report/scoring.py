"""Score a run: its answers beside the frozen rows, both read in order, none held.

Where in the context the evidence of a row stands, and which of it the answer shows.

spans of a vt row:    VAR QZKRA = 48213    VAR PLMEW = VAR QZKRA    ...
its depths:           0.12                 0.47                     ...
"QZKRA, TUVXO":       shown                not shown                ...

What leaves the machine: no path, address or secret, and no text longer than it must be.
"""

import re
from collections.abc import Iterator
from contextlib import closing
from dataclasses import dataclass, field, replace
from itertools import islice
from typing import Any

from ruler_data.errors import RulerError
from ruler_data.row import Row
from ruler_eval.data import Dataset
from ruler_eval.metrics import SCORERS, clean, opens_reasoning, without_reasoning
from ruler_eval.schema import Prediction, RunInfo
from ruler_report.failures import WITH_EXAMPLE, asked_from, failure_of
from ruler_report.predictions import Answers, Line
from ruler_report.results import BINS, ConfigResult, Depth, Example, Results
from ruler_report.task_info import Kind, kind_of
from ruler_report.unanswerable import weighed

#: Example rows of each kind of failure of a config.
EXAMPLES = 2


@dataclass(frozen=True)
class Sheet:
    """What is scored.

    Attributes:
        run: what was asked.
        answers: what came.
        data: the rows.
        without: what the same model said without the context, for telling failures apart.
    """

    run: RunInfo
    answers: Answers
    data: Dataset
    without: Answers | None = None


def score(sheet: Sheet) -> Results:
    """Score every row that was asked.

    Raises:
        RulerError: the data cannot be read, or an answer is to another row.
    """
    configs: dict[str, ConfigResult] = {}
    examples: list[Example] = []
    for config in sheet.run.data.rows:
        tally = _score_config(sheet, config)
        configs[config] = tally.result()
        examples += tally.examples
    return Results(
        run=replace(
            sheet.run,
            engine_info=redact(sheet.run.engine_info),
            sampling=redact(sheet.run.sampling),
            frame=redact(sheet.run.frame),
        ),
        fingerprint=sheet.run.fingerprint,
        configs=configs,
        examples=tuple(examples),
        notes=sheet.answers.notes,
    )


@dataclass
class _Tally:
    """A config so far; see ConfigResult."""

    digest: str
    kind: Kind
    scores: list[float | None] = field(default_factory=list)
    strict: list[float | None] = field(default_factory=list)
    characters: list[int | None] = field(default_factory=list)
    tokens: list[int | None] = field(default_factory=list)
    truncated: list[int] = field(default_factory=list)
    empty: list[int] = field(default_factory=list)
    failed: list[int] = field(default_factory=list)
    missing: list[int] = field(default_factory=list)
    failures: dict[str, list[int]] = field(default_factory=dict)
    pieces: list[int] = field(default_factory=lambda: [0] * BINS)
    shown: list[int] = field(default_factory=lambda: [0] * BINS)
    rows: list[int] = field(default_factory=lambda: [0] * BINS)
    examples: list[Example] = field(default_factory=list)

    def unscored(self, index: int, answer: Prediction | None) -> None:
        """Take in a row without an answer: it has no score, not a score of zero."""
        (self.missing if answer is None else self.failed).append(index)
        for column in (self.scores, self.strict):
            column.append(None)
        for counts in (self.characters, self.tokens):
            counts.append(None)

    def answered(self, row: Row, answer: Prediction, said: str, without: str | None) -> None:
        """Take in a row with its answer and what of it is scored."""
        loose, strictly = SCORERS[self.kind.metric]
        value = weighed(row, self.kind, said, loose(said, row.outputs))
        self.scores.append(value)
        self.strict.append(weighed(row, self.kind, said, strictly(said, row.outputs)))
        self.characters.append(len(answer.text or ""))
        self.tokens.append(answer.answer_tokens)
        if answer.finish == "length":
            self.truncated.append(row.index)
        if not said:
            self.empty.append(row.index)
        self._depth(row, said, value)
        if value < 1:
            self._failure(row, said, value, without)

    def result(self) -> ConfigResult:
        """Return the config's result."""
        depth = Depth(tuple(self.pieces), tuple(self.shown), tuple(self.rows))
        return ConfigResult(
            digest=self.digest,
            family=self.kind.family,
            category=self.kind.category,
            metric=self.kind.metric,
            rows=len(self.scores),
            scores=tuple(self.scores),
            strict=tuple(self.strict),
            characters=tuple(self.characters),
            tokens=tuple(self.tokens),
            truncated=tuple(self.truncated),
            empty=tuple(self.empty),
            failed=tuple(self.failed),
            missing=tuple(self.missing),
            failures={name: tuple(rows) for name, rows in sorted(self.failures.items())},
            depth=depth if any(self.pieces) else None,
            params=self.kind.params,
        )

    def _depth(self, row: Row, said: str, value: float) -> None:
        cells = set()
        for cell, shown in evidence_of(row, self.kind, said, value):
            self.pieces[cell] += 1
            self.shown[cell] += shown
            cells.add(cell)
        for cell in cells:
            self.rows[cell] += 1

    def _failure(self, row: Row, said: str, value: float, without: str | None) -> None:
        name = failure_of(row, self.kind, said, value, without)
        rows = self.failures.setdefault(name, [])
        rows.append(row.index)
        if len(rows) <= EXAMPLES:
            config = f"{self.kind.task}_{self.kind.length}"
            outputs = tuple(shorten(output, 80) for output in row.outputs[:10])
            self.examples.append(
                Example(config, row.index, name, value, shorten(row.question, 400), outputs,
                        shorten(said, 600))
            )  # fmt: skip


def _score_config(sheet: Sheet, config: str) -> _Tally:
    asked = sheet.run.data.rows[config]
    manifest = sheet.data.manifest
    tally = _Tally(manifest.configs[config].digest, kind_of(config, manifest.table))
    bare = sheet.without.of(config, asked) if sheet.without else iter([None] * asked)
    with closing(sheet.data.read(config)) as rows:
        for row, line, other in _beside(rows, sheet.answers.of(config, asked), bare, asked):
            if line is None or line.answer.text is None:
                tally.unscored(row.index, line.answer if line else None)
                continue
            _check_outputs(config, row, line)
            without = _said(sheet.run, other.answer) if other else None
            tally.answered(row, line.answer, _said(sheet.run, line.answer) or "", without)
    return tally


def _beside(
    rows: Iterator[Row], lines: Iterator[Line | None], bare: Iterator[Line | None], asked: int
) -> Iterator[tuple[Row, Line | None, Line | None]]:
    return zip(islice(rows, asked), lines, bare, strict=True)


def _said(run: RunInfo, answer: Prediction) -> str | None:
    """Return what of an answer is scored; None where there is none."""
    if answer.text is None:
        return None
    if run.protocol != "thinking":
        return clean(answer.text)
    return clean(without_reasoning(answer.text, opened=opens_reasoning(run.frame)))


def _check_outputs(config: str, row: Row, line: Line) -> None:
    if line.outputs is not None and set(line.outputs) != set(row.outputs):
        msg = (
            f"{config} row {row.index}: the prediction is to a row whose golden answers are "
            f"{ascii(list(line.outputs))[:80]}, this one's are {ascii(list(row.outputs))[:80]}; "
            "score predictions on the data that they were made on"
        )
        raise RulerError(msg)


def evidence_of(row: Row, kind: Kind, said: str, score: float) -> Iterator[tuple[int, bool]]:
    """Yield for each piece of evidence its cell (0 to BINS - 1) and whether the answer shows it.

    Cells are equally many characters of the context, from its beginning (behind an in-context
    example) to its end.

    A piece is shown if the golden answer that it holds is named; for vt that is the variable
    that a line assigns. Documents are shown if the row scores.

    Args:
        row: with its evidence.
        kind: of its config.
        said: the prediction, as it is scored.
        score: of the row.
    """
    said = said.lower()
    named = {output.lower(): output.lower() in said for output in row.outputs}
    start = asked_from(row.context) if kind.family in WITH_EXAMPLE else 0
    room = max(1, len(row.context) - start)
    for span in row.evidence:
        cell = min(BINS - 1, max(0, span.start - start) * BINS // room)
        if kind.metric == "part":
            yield cell, score > 0
        else:
            yield cell, _shown(row.context[span.start : span.end].lower(), named)


def _shown(text: str, named: dict[str, bool]) -> bool:
    if text in named:  # a common word
        return named[text]
    places = [(text.find(output), output) for output in named]
    held = [(place, output) for place, output in places if place >= 0]
    return bool(held) and named[min(held)[1]]


_SECRET = re.compile(r"\b(?:hf_|sk-|ghp_|glpat-)[A-Za-z0-9_-]{8,}|(?i:bearer\s+)\S+")
_ADDRESS = re.compile(r"\b[a-z][a-z0-9+.-]*://\S+", re.IGNORECASE)
_PATH = re.compile(r"(?<![\w.])(?:~|[A-Za-z]:)?[/\\](?:[^\s/\\]+[/\\])+([^\s/\\]*)")


def redact(value: Any) -> Any:  # noqa: ANN401 - any JSON value
    """Return a JSON value without secrets, addresses and the folders of paths.

    >>> scrub({"model": "/home/ann/llama", "url": "http://gpu7:8000/v1", "dtype": "bfloat16"})
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
