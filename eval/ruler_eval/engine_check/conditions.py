"""Ask rows of the suite `pages` in five conditions, and record what was seen in each.

    cold        another beginning than anything before, alone
    self-hit    the same prompt again, alone
    prefix-hit  behind a request that has the first part of its text, alone
    batched     other beginnings, many at once
    shared      many at once, each together with a request that has the first part of its text

The part is 60 to 90 % of the text, so that prompts of two blocks of a cache share one. What a
request answers that has a part alone is not looked at.

A new beginning is a line with a number before the text. It has the same number of tokens in every
prompt, so each residue is still met once; words in it move a prompt to another residue.
"""

import math
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from hashlib import sha256
from itertools import count, islice
from statistics import fmean

import numpy as np

from ruler_data.dataset import Rows
from ruler_data.errors import RulerError, UsageError
from ruler_data.reasoning import opens
from ruler_data.row import Row
from ruler_eval.engine_check.verdict import CONDITIONS, Fault, Sheet
from ruler_eval.running.answers import Answer, Key
from ruler_eval.running.engine import Request
from ruler_eval.running.runner import RunJob, engine_errors
from ruler_eval.running.spending import Ledger
from ruler_eval.scoring.metrics import score_answer

#: A pair of neighbouring rows: a config, and the number of the first row.
Pair = tuple[str, int]
#: A row: a config and its number.
Place = tuple[str, int]
#: Most words that move a prompt to another residue: one less than residues are told apart.
MOST_WORDS = 128
#: Most tokens of the line before a text: its number, and the words.
LINE = 2 * MOST_WORDS
#: Numbers that are tried until a line has as many tokens as the others.
SALTS = 1000
#: Answers at the start that may all fail before the check ends.
FAILURES = 8
#: Share of a prompt up to which a cache may hold a cold one: the chat template's beginning.
COLD_SHARE = 0.1
#: Part of a cold prompt's time that a hit may take at most, where nobody reports cached tokens.
FASTER = 0.8
#: Share of the rows in which a condition must be seen. Requests of one step may share nothing where
#: the engine puts them into two.
NEEDED = {"cold": 0.9, "self-hit": 0.9, "prefix-hit": 0.9, "batched": 0.0, "shared": 0.5}
#: A request with the first part of another's text.
PART = "part"
#: How much of the text it has, at least and at most.
SHORTEST_PART = 0.6
LONGEST_PART = 0.9
#: Its number among the samples of a row, so that both may be computed at once.
PART_SAMPLE = 1


@dataclass(frozen=True)
class Seen:
    """In how many answers a condition was seen, and by what.

    Attributes:
        rows: whose answers showed the condition.
        of: rows that were asked.
        by: `cached tokens` that the engine reports, `time to the first token` of a stream, `time`
            of the answer, or `requests at once`.
        cached: mean share of the prompt that a cache held; None if nobody reports it.
        together: most requests that the engine held at once.
    """

    rows: int
    of: int
    by: str
    cached: float | None
    together: int

    def is_met(self, condition: str) -> bool:
        """Whether the condition was seen often enough to count as tested."""
        if condition in ("batched", "shared") and self.together < 2:
            return False
        return self.of > 0 and self.rows >= NEEDED[condition] * self.of

    def __str__(self) -> str:
        text = f"seen in {self.rows} of {self.of} by {self.by}"
        if self.cached is not None:
            text += f"; {100 * self.cached:.0f} % of the prompt cached"
        return text


@dataclass(frozen=True)
class Shown:
    """What a row showed in one condition.

    Attributes:
        answer: its record.
        kind: `right`, `wrong`, `empty`, `cut off`, `null` or `unanswered`.
        tokens: of the prompt, as the engine counted them, or else as they were sent.
    """

    answer: Answer
    kind: str
    tokens: int

    @property
    def cached(self) -> float | None:
        """Share of the prompt that a cache held; None if the engine does not report it."""
        if self.answer.cached_tokens is None:
            return None
        return self.answer.cached_tokens / self.tokens


#: A request with its condition.
Asked = tuple[Request, str]


class Asker:
    """Asks rows in five conditions, and remembers what they showed."""

    def __init__(self, job: RunJob) -> None:
        self.job = job = job.opened(Ledger())
        self.rows = {name: Rows(job.data.source, name) for name in job.data.rows}
        self.shown: dict[Place, dict[str, Shown]] = {}
        self.tokens: dict[Place, int] = {}
        self.together = Counter[str]()
        self.beginning = 0  # tokens of the line that makes a prompt new
        self._salts = count(1)
        self._lengths: dict[Place, int] = {}
        self._opens_reasoning = opens(job.info.frame)
        #: vLLM loads the model at each call of `generate`, so there is one; it gets None to wait.
        self._waves: Iterator[Iterable[Asked]] = iter(())
        self._pending = dict[Key, Asked]()
        self._stream: Iterator[Answer] | None = None
        if job.config.engine == "vllm":
            self._stream = job.engine.generate(self._feed())

    def close(self) -> None:
        """End the engine."""
        close = getattr(self._stream, "close", None)
        if close is not None:
            close()

    def longest(self, pair: Pair) -> float:
        """Return the tokens that a prompt may have; 0 if a word is not one token."""
        row = self.rows[pair[0]][pair[1]]
        plain = len(self.job.ids(_with_line(row, 0, 0)))
        moved = len(self.job.ids(_with_line(row, 0, MOST_WORDS)))
        if moved - plain != MOST_WORDS:
            return 0
        window = self.job.engine.window or math.inf
        return window - self.job.room(row)

    def ask(self, pairs: Mapping[Pair, int], advance: Callable[[str, int], None]) -> None:
        """Ask the rows of pairs in all conditions, moved by so many tokens."""
        number = 2 * (len(CONDITIONS) + 2) * len(pairs)  # two parts of each row
        answered = 0
        failed = 0
        for request, condition, reply in self._answers(self._waves_of(pairs), number):
            answer = self.job.finished(reply)
            if condition == PART:
                continue
            answered += 1
            place = request.config, request.row.index
            tokens = answer.prompt_tokens or len(request.ids)
            shown = Shown(answer, self._kind(request, answer), tokens)
            self.shown.setdefault(place, {})[condition] = shown
            self.tokens[place] = tokens
            failed += answer.error is not None
            if answered == failed == FAILURES:
                raise RulerError(self.job.model.name, f"answers nothing: {answer.error}")
            advance(request.config, 1)

    def sheet(self, pairs: Iterable[Pair]) -> Sheet:
        """Return what the rows of pairs showed, as the test reads it."""
        places = [(name, index + twin) for name, index in pairs for twin in (0, 1)]
        lost = list[list[bool]]()
        changed = list[list[bool]]()
        for place in places:
            shown = self.shown[place]
            lost.append([shown[condition].kind != "right" for condition in CONDITIONS])
            # Only a self-hit has the very prompt of the cold answer.
            is_changed = shown["self-hit"].answer.text != shown["cold"].answer.text
            changed.append([is_changed and condition == "self-hit" for condition in CONDITIONS])
        tokens = np.array([self.tokens[place] for place in places])
        return Sheet(tokens, np.array(lost), np.array(changed))

    def named(self, fault: Fault) -> Fault:
        """Return a fault with the kind of its lost answers, where it is one."""
        if fault.kind != "lost":
            return fault
        kinds = set[str]()
        for place, shown in self.shown.items():
            if fault.place.holds(np.array([self.tokens[place]]))[0]:
                kinds |= {answer.kind for answer in shown.values()}
        kinds -= {"right"}
        if len(kinds) != 1 or kinds == {"wrong"}:
            return fault
        return replace(fault, kind=kinds.pop())

    @property
    def kinds(self) -> dict[str, dict[str, int]]:
        """Number of answers of each kind, by condition."""
        kinds = dict[str, dict[str, int]]()
        for condition in CONDITIONS:
            counts = Counter(shown[condition].kind for shown in self.shown.values())
            kinds[condition] = dict(counts.most_common())
        return kinds

    @property
    def block(self) -> int | None:
        """Tokens of a block of the cache: what all numbers of cached tokens are multiples of."""
        cached = [
            shown[condition].answer.cached_tokens or 0
            for shown in self.shown.values()
            for condition in ("self-hit", "prefix-hit", "shared")
        ]
        return math.gcd(*cached) or None

    def seen(self, condition: str) -> Seen:
        """Return in how many answers a condition was seen.

        A hit is one by the tokens that the engine says it had cached, or, where it says nothing, by
        the time to the first token or to the whole answer, against a cold one (`shared`: against
        `batched`).
        """
        answers = [shown[condition] for shown in self.shown.values()]
        shares = [answer.cached for answer in answers if answer.cached is not None]
        cached = fmean(shares) if shares else None
        rows = len(answers)
        if condition == "batched":
            by = "requests at once"
        elif shares:
            by = "cached tokens"
            rows = sum(share > 0 for share in shares)
            if condition == "cold":
                rows = sum(share <= COLD_SHARE for share in shares)
        elif condition == "cold":  # nothing before it begins alike
            by = "its beginning"
        else:
            by, rows = self._faster(condition)
        return Seen(rows, len(answers), by, cached, self.together[condition])

    def _faster(self, condition: str) -> tuple[str, int]:
        """Return a kind of time, and the rows that took clearly less of it than without a hit."""
        by = "time to the first token"
        times = self._times(condition, "first_seconds")
        if not times:  # answers are not streamed
            by = "time"
            times = self._times(condition, "seconds")
        if condition == "shared":  # the time of a row in a batch is mostly that of others
            hits = sum(hit for hit, _ in times)
            is_faster = hits <= FASTER * sum(plain for _, plain in times)
            return by, len(times) if is_faster else 0
        return by, sum(hit <= FASTER * plain for hit, plain in times)

    def _times(self, condition: str, name: str) -> list[tuple[float, float]]:
        """Return a time of each row in a condition, and the one without a hit."""
        against = "batched" if condition == "shared" else "cold"
        times = []
        for shown in self.shown.values():
            hit = getattr(shown[condition].answer, name)
            plain = getattr(shown[against].answer, name)
            if hit is not None and plain is not None:
                times.append((hit, plain))
        return times

    def _kind(self, request: Request, answer: Answer) -> str:
        if answer.error is not None and "null" in answer.error:
            return "null"
        if answer.error is not None:
            return "unanswered"
        task = self.job.data.manifest.table[request.row.task]
        text, score = score_answer(request.row, task, answer, opened=self._opens_reasoning)
        if score == 1:
            return "right"
        if not text.strip():
            return "empty"
        return "cut off" if answer.finish == "length" else "wrong"

    def _waves_of(self, pairs: Mapping[Pair, int]) -> Iterator[Iterable[Asked]]:
        """Yield requests with their conditions; a wave begins when the one before has ended."""
        for config, row, words in self._rows_of(pairs):
            cold = self._new(config, words, row)
            yield [(cold, "cold")]
            yield [(cold, "self-hit")]
            hit = self._new(config, words, row)
            yield [(self._part_of(hit), PART)]
            yield [(hit, "prefix-hit")]
        yield self._batched(pairs)
        yield self._shared(pairs)

    def _rows_of(self, pairs: Mapping[Pair, int]) -> Iterator[tuple[str, Row, int]]:
        """Yield the rows of pairs, each with its config and the words that move it."""
        for (config, index), words in pairs.items():
            for row in self.rows[config][index : index + 2]:
                yield config, row, words

    def _batched(self, pairs: Mapping[Pair, int]) -> Iterator[Asked]:
        for config, row, words in self._rows_of(pairs):
            yield self._new(config, words, row), "batched"

    def _shared(self, pairs: Mapping[Pair, int]) -> Iterator[Asked]:
        for config, row, words in self._rows_of(pairs):
            request = self._new(config, words, row)
            yield self._part_of(request), PART
            yield request, "shared"

    def _part_of(self, request: Request) -> Request:
        """Return a request that begins as another one, with a part of its text."""
        context = request.row.context
        digest = sha256(context[:LINE].encode()).digest()
        share = SHORTEST_PART + (LONGEST_PART - SHORTEST_PART) * digest[0] / 255
        row = replace(request.row, context=context[: int(share * len(context))])
        ids = self.job.ids(row)
        return Request(request.config, row, ids, request.max_tokens, sample=PART_SAMPLE)

    def _new(self, config: str, words: int, row: Row) -> Request:
        """Return a row as a request with a beginning that no request had before."""
        length = self._length(config, row)
        for salt in islice(self._salts, SALTS):
            number = int(sha256(f"{salt}".encode()).hexdigest(), 16) % 900_000 + 100_000
            line = _with_line(row, number, words)
            request = Request(config, line, self.job.ids(line), self.job.room(line))
            added = len(request.ids) - length - words
            self.beginning = self.beginning or added
            if added == self.beginning:
                window = self.job.engine.window
                errors = self.job.length_errors(line, request.ids, window)
                if reason := errors.get("window"):
                    raise UsageError(config, reason)
                return request
        raise RulerError(
            config,
            "no line before its texts has as many tokens in each prompt: the tokenizer cannot be "
            "checked by residues",
        )

    def _length(self, config: str, row: Row) -> int:
        """Return the tokens of a row's prompt without a line before it."""
        place = config, row.index
        if place not in self._lengths:
            self._lengths[place] = len(self.job.ids(row))
        return self._lengths[place]

    def _answers(
        self, waves: Iterator[Iterable[Asked]], number: int
    ) -> Iterator[tuple[Request, str, Answer]]:
        """Yield the answers of one wave after the other, so many in all."""
        self._waves = waves
        with engine_errors(self.job):
            if self._stream is not None:
                yield from map(self._settled, islice(self._stream, number))
                yield from self._lacking()
                return
            for wave in waves:
                self._waves = iter([wave])
                yield from map(self._settled, self.job.engine.generate(self._feed()))
                yield from self._lacking()

    def _settled(self, answer: Answer) -> tuple[Request, str, Answer]:
        request, condition = self._pending.pop(answer.key)
        return request, condition, answer

    def _lacking(self) -> Iterator[tuple[Request, str, Answer]]:
        """Yield the requests that the engine did not answer, as failed."""
        for request, condition in self._pending.values():
            yield request, condition, request.failed("the engine yielded no answer")
        self._pending.clear()

    def _feed(self) -> Iterator[Request | None]:
        """Yield the requests of the waves; vLLM gets None until those of a wave are answered."""
        while True:
            for wave in self._waves:
                for request, condition in wave:
                    self._pending[request.key] = request, condition
                    held = max(self.together[condition], len(self._pending))
                    self.together[condition] = held
                    yield request
                while self._stream is not None and self._pending:
                    yield None
            if self._stream is None:
                return
            yield None


def _with_line(row: Row, number: int, words: int) -> Row:
    """Return a row whose text begins with a line of a number and so many words."""
    return replace(row, context=f"Page {number}{' a' * words}.\n{row.context}")
