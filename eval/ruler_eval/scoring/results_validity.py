"""Validity as `results.json` has it; goes with `ruler_eval.scoring.results`."""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

from ruler_data import reasoning
from ruler_data.names import counted, quote
from ruler_eval.running.answers import COUNTERS, Answer

EMPTY, CUT_OFF, ONE_TEXT = 0.05, 0.05, 0.20


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
        if self._is_run:  # predictions do not say who counted
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
