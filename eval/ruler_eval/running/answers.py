"""An answer is a record: what is in it, and when a row is answered.

    {"config":"vt_4096","index":17,"text":"QZKRA, PLMEW.","finish":"stop","prompt_tokens":4061,
     "answer_tokens":9,"seconds":0.41,"model":"org/model-8b","question_digest":"3f2a…", …}

A row whose record breaks the rule of `why_unanswered`, or comes from another model than the run's
(`settle`), is unanswered and is run again, never repaired. `Validity` is what a score rests on: how
many rows were answered, by which model, and what is doubtful in their texts.
"""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from typing import Annotated, Any

from pydantic import Field

from ruler_data import reasoning
from ruler_data.names import counted, quote
from ruler_data.row import Row
from ruler_data.tasks import Task
from ruler_eval.scoring.metrics import CLEANED, clean, score_row

#: A sample of a row: its config, its index, and the number of the sample (0 unless several).
Key = tuple[str, int, int]

#: JSON of other programs holds whole numbers below this one exactly.
LARGEST = 2**53
Count = Annotated[int, Field(ge=0, lt=LARGEST)]
#: A score, a mean of scores or a variance of them.
Share = Annotated[float, Field(ge=0, le=1, allow_inf_nan=False)]

#: Finish reasons of an answer; any other means that neither the model nor its budget ended the
#: text (`content_filter`, `abort`). A function that returns a plain text does not say its own.
FINISHED = ("stop", "length", "unknown")
#: Who may have counted a prompt's tokens.
COUNTERS = ("server", "engine", "nobody")
#: Shares of the answers from which on a score carries a warning.
EMPTY, CUT_OFF, ONE_TEXT = 0.05, 0.05, 0.20


@dataclass(frozen=True)
class Answer:
    """What a model answered to one row, or why there is no answer; one line of a journal.

    What is not known is None.
    """

    config: str  # e.g. `vt_4096`
    index: Count  # of the row
    text: str | None = None  # generated, without the reasoning of protocol `thinking`
    finish: str | None = None  # why the model stopped, `stop` or `length`
    prompt_tokens: Count | None = None  # that the model read
    answer_tokens: Count | None = None  # that it generated, reasoning included
    seconds: float | None = None  # from sending the request to the last token
    error: str | None = None  # why the row is unanswered; None if it is answered
    cached_tokens: Count | None = None  # prompt tokens that a prefix cache held
    sample: Count = 0  # number of the sample, from 0
    reasoning: str | None = None  # what the model thought, apart from `text`; never scored
    model: str | None = None  # that answered, as the reply names it
    system_fingerprint: str | None = None  # of the reply
    question_digest: str | None = None  # of the row (`ruler_data.row.question_digest`)
    calls: Count | None = None  # of the model, if the answer took several
    total_tokens: Count | None = None  # read and generated in all calls
    reasoning_tokens: Count | None = None  # of `answer_tokens`, those that the model thought with
    counted: str | None = None  # who counted `prompt_tokens`: `server`, `engine` or `nobody`
    provider: str | None = None  # that served the model, e.g. behind OpenRouter
    cost: float | None = None  # of the request, in the currency that the server states
    hardware: str | None = None  # that computed it, as the engine names it, e.g. `NVIDIA H200`

    @property
    def key(self) -> Key:
        """The row and the sample that it belongs to."""
        return self.config, self.index, self.sample


def why_unanswered(
    answer: Answer, *, budget: int | None = None, rendered: int | None = None, slack: int = 0
) -> str | None:
    """Return why a record does not answer its row; None if it does.

    Where the row is known, `budget` is the tokens that the answer may take, and `rendered` those of
    the prompt that was sent; a server that renders prompts itself may differ from it by `slack`.
    """
    read, made = answer.prompt_tokens, answer.answer_tokens
    if answer.error is not None:
        return answer.error
    if answer.text is None:
        return "the text is null"
    if answer.finish not in FINISHED:
        return f"finish reason {quote(str(answer.finish))} is not stop or length"
    if made is not None and made < 1:
        return "no token was generated"
    if made is not None and budget is not None and made > budget:
        return f"{made} tokens were generated, the budget is {budget}"
    if read is not None and rendered is not None and abs(read - rendered) > slack:
        cause = (
            "it cuts prompts at its context window; raise it (vLLM: --max-model-len, llama.cpp: "
            "--ctx-size, SGLang: --context-length, Ollama: num_ctx)"
            if read < rendered
            else "it adds tokens of its own, e.g. a second BOS or a system prompt"
        )
        advice = "; or it has another tokenizer: give that one with --tokenizer, or a tolerance"
        reason = f"the server read {read} prompt tokens, {rendered} were rendered here: {cause}"
        return reason + advice * bool(slack)
    return None


def settle(records: Iterable[Answer]) -> dict[Key, Answer]:
    """Return the record of each row that counts, with an error if it is no answer.

    The first answer of the run's model to the row's latest question counts; without one, the last
    record. The run's model is the one that answered most rows, however often; of several the first.
    A record that names none is of any model.

    Args:
        records: in the order of their files and lines.
    """
    answers: dict[Key, dict[str | None, Answer]] = {}  # the first by each model
    settled: dict[Key, Answer] = {}
    for answer in records:
        reason = why_unanswered(answer)
        if reason is None:
            firsts = answers.setdefault(answer.key, {})
            if (
                len({earlier.question_digest for earlier in (*firsts.values(), answer)} - {None})
                > 1
            ):
                firsts.clear()  # they are to an older question of the row
            firsts.setdefault(answer.model, answer)
        if answer.key not in answers:
            settled[answer.key] = replace(answer, text=None, error=reason)
    names = Counter(name for by_model in answers.values() for name in by_model if name is not None)
    model = names.most_common(1)[0][0] if names else None
    for key, by_model in answers.items():
        matching = [answer for name, answer in by_model.items() if name in (None, model)]
        first = next(iter(by_model.values()))
        mismatch = f"answered by {quote(str(first.model))}, the run's model is {quote(str(model))}"
        settled[key] = matching[0] if matching else replace(first, text=None, error=mismatch)
    return settled


def scored_text(answer: Answer, *, opened: bool = False, cleaned: bool = True) -> str:
    """Return what is scored: the text without reasoning, cleaned as upstream does.

    Args:
        answer: with a text.
        opened: whether the prompt itself opened a block of reasoning
            (`ruler_data.reasoning.opens`).
        cleaned: False for a metric that reads text as generated (`scoring.metrics.CLEANED`).
    """
    is_apart = answer.reasoning is not None
    _, text = reasoning.split(answer.text or "", opened=opened and not is_apart)
    return clean(text) if cleaned else text


def score_answer(row: Row, task: Task, answer: Answer, *, opened: bool) -> tuple[str, float]:
    """Return the text of an answer that is scored (`scored_text`), and its official score."""
    text = scored_text(answer, opened=opened, cleaned=task.metric in CLEANED)
    return text, score_row(row, task, text)


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
    spent: int = 0  # empty answers whose tokens all went into reasoning
    #: Answers by who counted their prompts, one of `COUNTERS`.
    counted: dict[str, int] = field(default_factory=dict)
    lost_tokens: int = 0  # read and generated for rows without an answer
    providers: dict[str, int] = field(default_factory=dict)  # answers by the provider that served
    hardware: dict[str, int] = field(default_factory=dict)  # answers by what computed them
    most_common: int = 0  # answers that have the most frequent text
    #: System fingerprints of the replies; several mean that the server changed.
    fingerprints: int = 0
    refused: tuple[str, ...] = ()  # fields that the server refused
    suspect: str = ""  # why the set-up is in doubt (`ruler_eval.scoring.derive.suspicion`)
    partial: bool = False  # whether the user allowed rows without an answer

    @property
    def line(self) -> str:
        """All of it in one line."""
        by = f" by {', '.join(self.models)}" if self.models else ""
        counters = [f"{name} {self.counted[name]:,}" for name in COUNTERS if name in self.counted]
        more = {
            f"{self.spent:,} spent in reasoning": self.spent,
            f"{self.apart:,} with reasoning beside the answer": self.apart,
            f"prompts counted by {', '.join(counters)}": counters,
            f"{self.lost_tokens:,} tokens of rows without an answer": self.lost_tokens,
            f"providers: {_shares(self.providers)}": len(self.providers) > 1,
            f"the server refused {', '.join(self.refused)}": self.refused,
        }
        return (
            f"validity: {self.answered:,} of {counted(self.rows, 'row')} answered{by}; "
            f"{self.empty:,} empty, {self.cut_off:,} cut off without the answer, "
            f"{self.reasoning:,} with reasoning in the answer, "
            f"{self.most_common:,} with the most frequent text"
            + "".join(f"; {text}" for text, holds in more.items() if holds)
        )

    @property
    def errors(self) -> tuple[str, ...]:
        """Why the score must not be used; `score` then exits with 1."""
        missing = 0 if self.partial else self.rows - self.answered
        unanswered = f"{counted(missing, 'row')} of {self.rows:,} unanswered"
        return (*(unanswered,) * bool(missing), *self.refusals)

    @property
    def refusals(self) -> tuple[str, ...]:
        """These, but for rows without an answer: why nothing may be concluded from the answers."""
        n = self.answered
        reasons = {
            f"{len(self.models)} models answered: {_shares(self.models)}": len(self.models) > 1,
            f"reasoning is in the text of {counted(self.reasoning, 'answer')}; "
            "use --protocol thinking": self.reasoning,
            f"reasoning came with {counted(self.apart, 'answer')}; use --protocol thinking": (
                self.apart
            ),
            "every answer is empty": n and self.empty == n,
            "every answer is cut off without the answer": n and self.cut_off == n,
            "every answer is the same text": n > 1 and self.most_common == n,
            self.suspect: self.suspect,
        }
        return tuple(text for text, holds in reasons.items() if holds)

    @property
    def warnings(self) -> tuple[str, ...]:
        """What is doubtful, beside the errors."""
        one_text = self.most_common if self.most_common > 1 else 0
        shares = {
            "empty": (self.empty, EMPTY),
            "cut off without the answer": (self.cut_off, CUT_OFF),
            "the same text": (one_text, ONE_TEXT),
        }
        doubtful = [
            f"{number / self.answered:.0%} of the answers are {flaw}"
            for flaw, (number, limit) in shares.items()
            if 0 < number < self.answered and number >= limit * self.answered
        ]
        versions = f"the server changed in mid-run: {self.fingerprints} system fingerprints"
        providers = f"{len(self.providers)} providers answered: {_shares(self.providers)}"
        more = {versions: self.fingerprints > 1, providers: len(self.providers) > 1}
        return (*doubtful, *(text for text, holds in more.items() if holds))

    @property
    def exit_status(self) -> int:
        """1 if there is an error, else 0."""
        return int(bool(self.errors))

    def __str__(self) -> str:
        return self.line

    def to_record(self) -> dict[str, Any]:
        """Return it as JSON values, with its line, errors and warnings."""
        lines = {"line": self.line, "errors": self.errors, "warnings": self.warnings}
        return {**asdict(self), **lines}


def _shares(counts: Mapping[str, int]) -> str:
    return ", ".join(f"{quote(name)} {number:,}" for name, number in counts.items())


class Tally:
    """Counts answers into their `Validity`; keeps no text."""

    def __init__(
        self,
        protocol: str,
        *,
        opened: bool = False,
        refused: Sequence[str] = (),
        is_run: bool = True,
    ) -> None:
        """Start at nothing; `opened` as in `scored_text`, `refused` as in `Validity`.

        Predictions that are no run have no more than a text.
        """
        self._refused, self._is_run = tuple(refused), is_run
        self._thinking, self._opened = protocol == "thinking", opened
        names = "rows answered empty cut_off reasoning apart spent lost_tokens"
        self._counts = Counter(dict.fromkeys(names.split(), 0))
        self._models, self._providers, self._texts = Counter[str](), Counter[str](), Counter[int]()
        self._counted, self._hardware = Counter[str](), Counter[str]()
        self._fingerprints = set[str]()

    def add(
        self,
        records: Sequence[Answer | None],
        texts: Sequence[str],
        scores: Sequence[float | None],
    ) -> None:
        """Count the records of rows that have one; without a score it is no answer.

        Args:
            records: of a run as `settle` left it, or of another tool.
            texts: that are scored (`scored_text`).
            scores: official, in [0, 1].
        """
        lines = zip(records, texts, scores, strict=True)
        said = [(a, text, score) for a, text, score in lines if a and score is not None]
        answers, counts = [answer for answer, _, _ in said], self._counts
        self._models.update(a.model for a in records if a and a.model is not None)
        self._texts.update(hash(text) for _, text, _ in said)
        self._providers.update(a.provider for a in answers if a.provider)
        self._hardware.update(a.hardware for a in answers if a.hardware)
        self._fingerprints.update(a.system_fingerprint for a in answers if a.system_fingerprint)
        if self._is_run:  # records of earlier versions do not say who counted
            counters = (a.counted or "nobody" * (a.prompt_tokens is None) for a in answers)
            self._counted.update(filter(None, counters))
        counts["rows"] += len(records)
        counts["answered"] += len(said)
        counts["lost_tokens"] += sum(
            (a.prompt_tokens or 0) + (a.answer_tokens or 0)
            for a, score in zip(records, scores, strict=True)
            if a and score is None
        )
        for answer, text, score in said:
            generated, thinks = answer.text or "", answer.reasoning or answer.reasoning_tokens
            if empty := not text.strip():
                counts["empty"] += 1
                counts["spent"] += bool(thinks) and answer.finish == "length"
            if score < 1:
                thought = answer.reasoning or reasoning.split(generated, opened=self._opened)[0]
                counts["cut_off"] += answer.finish == "length" or (empty and bool(thought))
            if reasoning.is_in(text if self._thinking else generated):
                counts["reasoning"] += 1
            if thinks and not self._thinking:
                counts["apart"] += 1

    def validity(self) -> Validity:
        """Return what was counted so far."""
        counts: dict[str, Any] = dict(self._counts)
        return Validity(
            **counts,
            models=dict(self._models.most_common()),
            counted=dict(self._counted.most_common()),
            providers=dict(self._providers.most_common()),
            hardware=dict(self._hardware.most_common()),
            most_common=max(self._texts.values(), default=0),
            fingerprints=len(self._fingerprints),
            refused=self._refused,
        )
