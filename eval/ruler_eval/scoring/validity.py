"""What a score rests on: who answered how many rows, and what is doubtful in the answers.

    validity: 2,000 of 2,000 rows answered by org/model; 0 empty, 3 cut off without the answer, …

`Validity.line` stands with every score. Nothing may be concluded from a run with a `refusal`.
"""

import re
from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import product
from typing import Any

import pyarrow as pa

from ruler_data import reasoning
from ruler_data.names import config_name, counted, quote
from ruler_data.tasks import Task
from ruler_eval.running.answers import COUNTERS, Answer
from ruler_eval.running.run_dir import RunInfo
from ruler_eval.scoring.table import CellMeans

#: Shares of the answers from which on a score carries a warning.
EMPTY = 0.05
CUT_OFF = 0.05
ONE_TEXT = 0.20
#: Share of the answers with marks of a tokenizer from which on a run is refused; fewer may be names
#: that are written with such a letter.
MARKED = 0.01
#: How byte-level and SentencePiece tokenizers write the space before a word.
MARKS = ("\u0120", "\u2581")


@dataclass(frozen=True)
class Validity:
    """What a score rests on; every score, table and report carries its `line`."""

    rows: int  # to answer; samples, where there are several of each row
    answered: int
    models: dict[str, int] = field(default_factory=dict)  # records by the model that they name
    empty: int = 0  # answers whose scored text is empty
    #: Answers whose tokens ran out, or whose reasoning never ended, before all gold answers.
    cut_off: int = 0
    #: Answers with reasoning in the text that was generated as the answer: of any protocol but
    #: `thinking`, or left over after it was taken out.
    reasoning: int = 0
    apart: int = 0  # answers with reasoning beside them, of any protocol but `thinking`
    #: Answers by who counted their prompts, one of `COUNTERS`.
    counted: dict[str, int] = field(default_factory=dict)
    providers: dict[str, int] = field(default_factory=dict)  # answers by the provider that served
    hardware: dict[str, int] = field(default_factory=dict)  # answers by what computed them
    most_common: int = 0  # answers that have the most frequent text
    marked: int = 0  # answers with `MARKS` that no gold answer has
    #: System fingerprints of the replies; several mean that the server changed.
    fingerprints: int = 0
    refused: tuple[str, ...] = ()  # fields that the server refused
    sampling: str = ""  # what answers showed of the server's own sampling
    another_model: str = ""  # the run's model, where all answers name another one
    suspect: str = ""  # why the set-up is in doubt before the model is
    never_exact: tuple[str, ...] = ()  # tasks that are right officially and never exactly

    @property
    def line(self) -> str:
        """All of it in one line."""
        by = f" by {', '.join(self.models)}" if self.models else ""
        texts = [
            f"validity: {self.answered:,} of {counted(self.rows, 'row')} answered{by}",
            f"{self.empty:,} empty, {self.cut_off:,} cut off without the answer, "
            f"{self.reasoning:,} with reasoning in the answer, "
            f"{self.most_common:,} with the most frequent text",
        ]
        if self.apart:
            texts.append(f"{self.apart:,} with reasoning beside the answer")
        counters = [f"{name} {self.counted[name]:,}" for name in COUNTERS if name in self.counted]
        if counters:
            texts.append(f"prompts counted by {', '.join(counters)}")
        if len(self.providers) > 1:
            texts.append(f"providers: {_shares(self.providers)}")
        if self.refused:
            texts.append(f"the server refused {', '.join(self.refused)}")
        if self.sampling:
            texts.append(f"sampling: {self.sampling}")
        return "; ".join(texts)

    @property
    def unanswered(self) -> str:
        """How many rows have no answer; empty if all have one."""
        missing = self.rows - self.answered
        if not missing:
            return ""
        return f"{counted(missing, 'row')} of {self.rows:,} unanswered"

    @property
    def refusals(self) -> list[str]:
        """Why nothing may be concluded from the answers, but for rows without one."""
        refusals = [*self._refusals_of_models(), *self._refusals_of_texts()]
        if self.suspect:
            refusals.append(self.suspect)
        return refusals

    @property
    def errors(self) -> list[str]:
        """Why `score` exits with 1: rows without an answer, and the refusals."""
        if not self.unanswered:
            return self.refusals
        return [self.unanswered, *self.refusals]

    def _refusals_of_models(self) -> Iterator[str]:
        if len(self.models) > 1:
            yield f"{len(self.models)} models answered: {_shares(self.models)}"
        if self.another_model:
            names = ", ".join(map(quote, self.models))
            yield (
                f"the run is of the model {quote(self.another_model)}, every answer names {names}; "
                "record the model that answers with `run --model-name`"
            )

    def _refusals_of_texts(self) -> Iterator[str]:
        n = self.answered
        if self.reasoning:
            answers = counted(self.reasoning, "answer")
            yield f"reasoning is in the text of {answers}; use --protocol thinking"
        if self.apart:
            answers = counted(self.apart, "answer")
            yield f"reasoning came with {answers}; use --protocol thinking"
        if n and self.empty == n:
            yield "every answer is empty"
        if n and self.cut_off == n:
            yield "every answer is cut off without the answer"
        if n > 1 and self.most_common == n:
            yield "every answer is the same text"
        if self.marked and self.marked >= MARKED * n:
            yield f"suspect harness: {self._marked_answers}; detokenize the answers"

    @property
    def warnings(self) -> list[str]:
        """What is doubtful, beside the errors."""
        return [*self._warnings()]

    def _warnings(self) -> Iterator[str]:
        n = self.answered
        alike = self.most_common if self.most_common > 1 else 0
        flaws = [
            ("empty", self.empty, EMPTY),
            ("cut off without the answer", self.cut_off, CUT_OFF),
            ("the same text", alike, ONE_TEXT),
        ]
        for flaw, number, limit in flaws:
            if limit * n <= number < n and number:
                yield f"{number / n:.0%} of the answers are {flaw}"
        if 0 < self.marked < MARKED * n:
            yield self._marked_answers
        if self.never_exact:
            yield (
                f"right officially and never exactly: {', '.join(self.never_exact)}; the answers "
                "name more than the gold answers"
            )
        if uncounted := self.counted.get("nobody", 0):
            prompts = counted(uncounted, "prompt")
            yield f"nobody counted the tokens of {prompts}; one that was cut is not seen"
        if self.fingerprints > 1:
            yield f"the server changed in mid-run: {self.fingerprints} system fingerprints"
        if len(self.providers) > 1:
            yield f"{len(self.providers)} providers answered: {_shares(self.providers)}"

    @property
    def _marked_answers(self) -> str:
        marks = " or ".join(MARKS)
        return f"{counted(self.marked, 'answer')} with {marks}, the marks of a tokenizer for spaces"


def _shares(counts: Mapping[str, int]) -> str:
    return ", ".join(f"{quote(name)} {number:,}" for name, number in counts.items())


class Tally:
    """Counts answers into their `Validity`; keeps no text."""

    def __init__(self, protocol: str, *, opened: bool = False, is_run: bool = True) -> None:
        """Start at nothing; `opened` as in `scored_text`.

        Predictions that are no run have no more than a text.
        """
        self._is_run = is_run
        self._opened = opened
        self._thinking = protocol == "thinking"
        names = "rows answered empty cut_off reasoning apart marked"
        self._counts = Counter(dict.fromkeys(names.split(), 0))
        self._models = Counter[str]()
        self._providers = Counter[str]()
        self._hardware = Counter[str]()
        self._counted = Counter[str]()
        self._texts = Counter[int]()  # by hash
        self._fingerprints = set[str]()

    def add(self, record: Answer | None) -> None:
        """Count a row to answer, and the record that it has, if any."""
        self._counts["rows"] += 1
        if record is not None and record.model is not None:
            self._models[record.model] += 1

    def add_answer(self, answer: Answer, text: str, score: float, *, marked: bool) -> None:
        """Count an answer.

        Args:
            answer: the record.
            text: that is scored (`scored_text`).
            score: official, in [0, 1].
            marked: whether the text has `MARKS` that no gold answer has.
        """
        counts = self._counts
        counts["answered"] += 1
        counts["marked"] += marked
        self._texts[hash(text)] += 1
        self._count_origin(answer)
        if self._is_run:
            self._count_counter(answer)
        has_reasoning = bool(answer.reasoning or answer.reasoning_tokens)
        is_empty = not text.strip()
        counts["empty"] += is_empty
        if score < 1:
            counts["cut_off"] += self._is_cut_off(answer, is_empty=is_empty)
        if self._thinking:
            counts["reasoning"] += reasoning.is_in(text)
        else:
            counts["reasoning"] += reasoning.is_in(answer.text or "")
            counts["apart"] += has_reasoning

    def _count_origin(self, answer: Answer) -> None:
        if answer.provider:
            self._providers[answer.provider] += 1
        if answer.hardware:
            self._hardware[answer.hardware] += 1
        if answer.system_fingerprint:
            self._fingerprints.add(answer.system_fingerprint)

    def _is_cut_off(self, answer: Answer, *, is_empty: bool) -> bool:
        """Whether the tokens ran out, or there is reasoning and no answer."""
        if answer.finish == "length":
            return True
        if not is_empty:
            return False
        return bool(answer.reasoning or reasoning.split(answer.text or "", opened=self._opened)[0])

    @property
    def models(self) -> list[str]:
        """The models that records name."""
        return [*self._models]

    def _count_counter(self, answer: Answer) -> None:
        counter = answer.counted
        if counter is None and answer.prompt_tokens is None:
            counter = "nobody"
        if counter is not None:
            self._counted[counter] += 1

    def validity(self, **found: Any) -> Validity:  # noqa: ANN401 - any other field of it
        """Return what was counted so far, and what was found beside it."""
        counts: dict[str, Any] = dict(self._counts)
        return Validity(
            **counts,
            models=dict(self._models.most_common()),
            counted=dict(self._counted.most_common()),
            providers=dict(self._providers.most_common()),
            hardware=dict(self._hardware.most_common()),
            most_common=max(self._texts.values(), default=0),
            fingerprints=len(self._fingerprints),
            **found,
        )


def suspicion(
    cells: Sequence[CellMeans], tasks: Mapping[str, Task], floors: Mapping[str, float]
) -> str:
    """Return why the set-up is in doubt before the model is; empty if it is not.

    At the shortest length the mean of no task is above its blind floor, the score of the best
    answer that is written without the context.
    """
    length = min((cell.length for cell in cells), default=0)
    closest: tuple[float, str] | None = None  # the smallest loss against a floor, and its sentence
    for cell in cells:
        floor = floors.get(config_name(cell.task, length))
        mean = getattr(cell, tasks[cell.task].headline)
        if cell.length != length or mean is None or floor is None:
            continue
        if mean > floor:
            return ""
        best = f"{cell.task} with {100 * mean:.1f} (blind floor {100 * floor:.1f})"
        if closest is None or floor - mean < closest[0]:
            closest = floor - mean, best
    if closest is None:
        return ""
    return (
        f"suspect harness: at {length:,} tokens no task is above what answers without the context "
        f"score, the best is {closest[1]}; look at prompts and answers before the model"
    )


def never_exact(table: pa.Table) -> tuple[str, ...]:
    """Return the tasks of which answers are right officially and none exactly."""
    names = ("task", "official", "exact")
    lines = [*zip(*(table[name].to_pylist() for name in names), strict=True)]
    exact = {task for task, _, score in lines if score == 1}
    right = dict.fromkeys(task for task, score, _ in lines if score == 1)
    return tuple(task for task in right if task not in exact)


#: What may follow the name of a model in that of a reply: a snapshot or a file.
_SNAPSHOT = re.compile(r"(?:[-@:.](?:\d[\w.-]*|latest|gguf))?")


def another_model(
    run: RunInfo, models: Collection[str], starts: Sequence[Mapping[str, Any]]
) -> str:
    """Return the run's model if every answer names another one than was recorded and asked for."""
    asked = [str(start["model"]) for start in starts if start.get("model")]
    for name, model in product([run.model, *asked], models):
        if _is_same_model(name, model):
            return ""
    return run.model if models else ""


def _is_same_model(first: str, second: str) -> bool:
    """Whether two names are of a model, the longer of a snapshot or file of it."""
    short, long = sorted((_bare(first), _bare(second)), key=len)
    if not long.startswith(short):
        return False
    return _SNAPSHOT.fullmatch(long.removeprefix(short)) is not None


def _bare(model: str) -> str:
    """Return the name of a model without the folders or organizations before it."""
    return re.split(r"[/\\]", model.rstrip("/\\"))[-1].lower()
