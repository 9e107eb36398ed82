"""`repeat --pages`: does an engine lose answers where a prompt ends, or by what was cached?

    cold        another beginning than anything before, alone
    self-hit    the same prompt again, alone
    prefix-hit  behind the neighbouring row, which begins alike, alone
    batched     other beginnings, many at once

A new beginning is a line with a number before the text, the same number of tokens in every prompt,
so each residue is still met once; words in it move a prompt to another residue. What a row showed
goes to the test in `ruler_eval.engine_check.residues`.
"""

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import asdict, dataclass, replace
from hashlib import sha256
from itertools import count, islice
from math import inf
from typing import Any

import numpy as np

from ruler_data.dataset import Rows
from ruler_data.errors import RulerError, UsageError
from ruler_data.names import counted, parse_config
from ruler_data.progress import progress
from ruler_data.reasoning import opens
from ruler_data.row import Row
from ruler_data.views import html_text
from ruler_eval.engine_check.residues import (
    CONDITIONS,
    Fault,
    Integers,
    Sheet,
    first_look,
    second_look,
    second_questions,
    smallest,
    suspects,
)
from ruler_eval.running.answers import Answer, Key
from ruler_eval.running.engine import Request
from ruler_eval.running.runner import RunJob, engine_errors, with_engine
from ruler_eval.scoring.metrics import score_answer

#: Rows of a first look, one for each residue of the largest page; a pair of neighbours is asked
#: together.
ROWS = 128
#: Most tokens of the line before a text: its number, and words that move it to any residue.
LINE = 2 * ROWS
#: A pair of rows: a config, and the number of its first row.
Pair = tuple[str, int]
#: Residues of 128 that must be met; prompts of other protocols than `completion` miss a few.
FEWEST_RESIDUES = 120
#: Engines that cannot ask in all conditions: one reads each prompt anew, one loads at each call.
UNCACHED = ("transformers", "ray")
#: Numbers that are tried until a line has as many tokens as the others.
SALTS = 1000
#: Answers at the start that may all fail before the check ends.
FAILURES = 8


@dataclass(frozen=True)
class PageCheck:
    """What a check of one length found."""

    length: int
    rows: int
    residues: int  # of 128 that prompts ended at in the first look
    faults: tuple[Fault, ...]
    smallest: Mapping[str, float | None]  # share of answers whose loss would have been seen
    kinds: Mapping[str, Mapping[str, int]]  # answers by condition: right, wrong, empty, ...
    cached: Mapping[str, float | None]  # mean share of the prompt that was cached, if told
    beginning: int  # tokens of the line before each text that makes a prompt new to a cache

    @property
    def exit_status(self) -> int:
        """0 nothing found, 1 a fault, 3 too few rows or too many wrong answers to tell."""
        if self.faults:
            return 1
        is_seen = self.smallest["one residue of 128"] is not None
        return 0 if is_seen and self.residues >= FEWEST_RESIDUES else 3

    def to_record(self) -> dict[str, Any]:
        """Return it as JSON values."""
        faults = [{**asdict(fault), "sentence": str(fault)} for fault in self.faults]
        return {**asdict(self), "faults": faults, "exit_status": self.exit_status}

    def __str__(self) -> str:
        lines = [f"{fault}" for fault in self.faults] or [self._without_faults()]
        for condition, kinds in self.kinds.items():
            cached = self.cached[condition]
            told = "" if cached is None else f"; {100 * cached:.0f} % of the prompt cached"
            answers = ", ".join(f"{number} {kind}" for kind, number in kinds.items())
            lines.append(f"  {condition}: {answers}{told}")
        lines.append(
            f"  each prompt begins with a line of {self.beginning} tokens, new to any cache"
        )
        return "\n".join(lines)

    def _repr_html_(self) -> str:
        return html_text(self)

    def _without_faults(self) -> str:
        seen = ", ".join(
            f"{'all' if share == 1 else f'{100 * share:.0f} %'} of the answers at {name}"
            for name, share in self.smallest.items()
            if share is not None
        )
        size = f"a loss of {seen} would have been seen" if seen else "no loss would have been seen"
        rows = f"{counted(self.rows, 'row')} of {self.length} tokens, {self.residues} residues"
        if self.exit_status == 0:
            return f"nothing found in {rows}; {size}"
        remedy = "use more rows (256 of a task), shorter ones or a better model"
        return f"cannot tell with {rows}: {size}; {remedy}"


def check_pages(job: RunJob, length: int | None = None) -> PageCheck:
    """Ask the rows of one length in four conditions and test them.

    Raises:
        UsageError: the rows are not of the suite `pages` or do not fit, or the engine has no cache.
        RulerError: the engine does not answer.
    """
    if job.config.engine in UNCACHED:
        problem = (
            "keeps no cache from one prompt to the next; use vllm, or a server with --base-url"
        )
        raise UsageError(job.config.engine, problem)
    table = job.data.manifest.table
    parsed = {name: parse_config(name) for name in job.data.rows}
    lengths = sorted({tokens for task, tokens in parsed.values() if table[task].is_exact})
    if not lengths or (length or lengths[0]) not in lengths:
        advice = f"it has {', '.join(map(str, lengths))}" if lengths else "build --suite pages"
        raise UsageError(job.data.source, f"no rows for every residue of this length; {advice}")
    length = length or lengths[0]
    names = [
        name for name, (task, size) in parsed.items() if table[task].is_exact and size == length
    ]
    pairs = _pairs(job, names)
    first, covered = list[Pair](), set[int]()
    for pair, tokens in pairs.items():
        if not {*(tokens % ROWS).tolist()} <= covered:
            first.append(pair)
            covered |= {*(tokens % ROWS).tolist()}
    rows = 2 * len(first)
    with closing(Asker(job)) as asker:
        with progress(4 * rows * length, "asking for every residue") as advance:
            asker.ask(dict.fromkeys(first, 0), advance)
        sheet = asker.sheet(first)
        faults, suspected = first_look(sheet), suspects(sheet)
        pairs_left = {pair: pairs[pair] for pair in pairs if pair not in {*first}}
        if not faults and suspected and pairs_left:
            more = int((sheet.tokens[:2] - pairs[first[0]])[0])  # than were counted
            others = {pair: tokens + more for pair, tokens in pairs_left.items()}
            again = second_questions(others, suspected, asker.longest(first[0]))
            rows += 2 * len(again)
            with progress(8 * len(again) * length, "a second look at other questions") as advance:
                asker.ask(again, advance)
            faults = second_look(asker.sheet(again), suspected)
    residues = len({*(sheet.tokens % ROWS).tolist()})
    faults_found, sizes = tuple(map(asker.named, faults)), smallest(sheet, fresh=bool(pairs_left))
    return PageCheck(
        length, rows, residues, faults_found, sizes, asker.kinds, asker.cached, asker.beginning
    )


def _pairs(job: RunJob, names: Sequence[str]) -> dict[Pair, Integers]:
    """Return the pairs of neighbouring rows in random order of tasks, with their prompts' tokens.

    `completion` sends what the rows were fitted to; in other protocols the prompts are counted.
    """
    tokens = dict[Pair, Integers]()
    for name in names:
        task, length = parse_config(name)
        table, rows = job.data.manifest.table[task], range(job.data.rows[name])
        most = length - job.data.manifest.tokenizer.extra_reserve - table.max_new_tokens
        counts = [most - table.below(index) for index in rows]
        if job.prompts.protocol.name != "completion" or not job.counts_alike:
            counts = [len(job.ids(row)) for row in job.data.read(name)]
        tokens |= {(name, at): np.array(counts[at : at + 2]) for at in rows[:-1:2]}
    order = sorted(tokens, key=lambda pair: (pair[1], sha256(f"{pair}".encode()).digest()))
    return {pair: tokens[pair] for pair in order}


def _with_line(row: Row, number: int, words: int) -> Row:
    return replace(row, context=f"Page {number}{' a' * words}.\n{row.context}")


class Asker:
    """Asks rows in four conditions, and remembers what they showed."""

    def __init__(self, job: RunJob) -> None:
        opened = with_engine(job)
        self.job, self.salts = opened, count(1)
        self.rows = {name: Rows(job.data.source, name) for name in job.data.rows}
        self.answers: dict[tuple[str, int], dict[str, tuple[Answer, str]]] = {}
        self.tokens: dict[tuple[str, int], int] = {}
        self.opens_reasoning = opens(opened.info.frame)
        self.beginning = 0  # tokens of the line that makes a prompt new
        #: vLLM loads the model at each call of `generate`, so there is one; it gets None to wait.
        self._waves_left: Iterator[Iterable[tuple[Request, str]]] = iter(())
        self._asked = dict[Key, tuple[Request, str]]()
        self._stream = (
            self.job.engine.generate(self._feed()) if job.config.engine == "vllm" else None
        )

    def close(self) -> None:
        """End the engine."""
        getattr(self._stream, "close", lambda: None)()

    def longest(self, pair: Pair) -> float:
        """Return the tokens that a prompt may have; 0 if a word is not one token."""
        row = self.rows[pair[0]][pair[1]]
        plain, moved = (len(self.job.ids(_with_line(row, 0, words))) for words in (0, ROWS))
        window = self.job.engine.window or inf
        return window - self.job.room(row) if moved - plain == ROWS else 0

    def ask(self, pairs: Mapping[Pair, int], advance: Callable[[str, int], None]) -> None:
        """Ask the rows of pairs in all conditions, moved by so many tokens."""
        asked = failed = 0
        for request, condition, reply in self._answers(self._waves(pairs), 8 * len(pairs)):
            answer = self.job.finished(reply)
            row = request.config, request.row.index
            self.answers.setdefault(row, {})[condition] = answer, self._kind(request, answer)
            self.tokens[row] = answer.prompt_tokens or self.tokens.get(row, len(request.ids))
            asked, failed = asked + 1, failed + (answer.error is not None)
            if asked == failed == FAILURES:
                raise RulerError(self.job.model.name, f"answers nothing: {answer.error}")
            advance(request.config, 1)

    def sheet(self, pairs: Iterable[Pair]) -> Sheet:
        """Return what the rows of pairs showed, as the test reads it."""
        rows = [(name, index + twin) for name, index in pairs for twin in (0, 1)]
        shown = [[self.answers[row][condition] for condition in CONDITIONS] for row in rows]
        lost = [[kind != "right" for _, kind in answers] for answers in shown]
        # Only a self-hit has the very prompt of the cold answer.
        changed = [
            [False, answers[1][0].text != answers[0][0].text, False, False] for answers in shown
        ]
        tokens = np.array([self.tokens[row] for row in rows])
        return Sheet(tokens, np.array(lost), np.array(changed))

    def named(self, fault: Fault) -> Fault:
        """Return a fault with the kind of its lost answers, where it is one."""
        if fault.kind != "lost":
            return fault
        kinds = {
            kind
            for row, answers in self.answers.items()
            if fault.place.holds(np.array([self.tokens[row]]))[0]
            for _, kind in answers.values()
            if kind != "right"
        }
        kind = kinds.pop() if len(kinds) == 1 else "lost"
        return replace(fault, kind={"wrong": "lost"}.get(kind, kind))

    @property
    def kinds(self) -> dict[str, dict[str, int]]:
        """Number of answers of each kind, by condition."""
        by_row = self.answers.values()
        return {
            condition: dict(Counter(answers[condition][1] for answers in by_row).most_common())
            for condition in CONDITIONS
        }

    @property
    def cached(self) -> dict[str, float | None]:
        """Mean share of the prompt that a cache held, by condition; None if it is not told."""
        shares: dict[str, float | None] = {}
        for condition in CONDITIONS:
            told = [
                answer.cached_tokens / answer.prompt_tokens
                for answers in self.answers.values()
                for answer, _ in [answers[condition]]
                if answer.cached_tokens is not None and answer.prompt_tokens
            ]
            shares[condition] = float(np.mean(told)) if told else None
        return shares

    def _kind(self, request: Request, answer: Answer) -> str:
        if answer.error is not None:
            return "null" if "null" in answer.error else "unanswered"
        task = self.job.data.manifest.table[request.row.task]
        text, score = score_answer(request.row, task, answer, opened=self.opens_reasoning)
        if score == 1:
            return "right"
        if not text.strip():
            return "empty"
        return "cut off" if answer.finish == "length" else "wrong"

    def _waves(self, pairs: Mapping[Pair, int]) -> Iterator[Iterable[tuple[Request, str]]]:
        """Yield requests with their conditions; a wave begins when the one before has ended."""
        for (config, index), words in pairs.items():
            rows = self.rows[config][index : index + 2]
            for row, twin in (rows, rows[::-1]):
                cold, hit = self._uncached(config, words, row, twin)
                yield [(cold, "cold")]
                yield [(cold, "self-hit")]
                yield [(hit, "prefix-hit")]
        yield (
            (request, "batched")
            for (config, index), words in pairs.items()
            for row in self.rows[config][index : index + 2]
            for request in self._uncached(config, words, row)
        )

    def _uncached(self, config: str, words: int, *rows: Row) -> list[Request]:
        """Return rows as requests with a beginning that no request had before."""
        lengths = [len(self.job.ids(row)) for row in rows]
        for salt in islice(self.salts, SALTS):
            number = int(sha256(f"{salt}".encode()).hexdigest(), 16) % 900_000 + 100_000
            begun = [_with_line(row, number, words) for row in rows]
            requests = [
                Request(config, row, self.job.ids(row), self.job.room(row)) for row in begun
            ]
            more = [
                len(request.ids) - length for request, length in zip(requests, lengths, strict=True)
            ]
            self.beginning = self.beginning or more[0]
            if {*more} == {self.beginning + words}:
                break
        else:
            problem = "no line before its texts has as many tokens in each prompt"
            raise RulerError(config, f"{problem}: the tokenizer cannot be checked by residues")
        for request in requests:
            need = len(request.ids) + request.max_tokens
            if self.job.engine.window is not None and need > self.job.engine.window:
                problem = (
                    f"prompt and answer need {need} tokens, the window is {self.job.engine.window}"
                )
                raise UsageError(config, f"{problem}; take shorter rows with --length")
        return requests

    def _answers(
        self, waves: Iterator[Iterable[tuple[Request, str]]], count: int
    ) -> Iterator[tuple[Request, str, Answer]]:
        """Yield the answers of one wave after the other, so many in all."""
        self._waves_left = waves
        with engine_errors(self.job):
            if self._stream is not None:
                for answer in islice(self._stream, count):
                    yield (*self._asked.pop(answer.key), answer)
                yield from self._lacking()
                return
            for wave in waves:
                self._waves_left = iter([wave])
                for answer in self.job.engine.generate(self._feed()):
                    yield (*self._asked.pop(answer.key), answer)
                yield from self._lacking()

    def _lacking(self) -> Iterator[tuple[Request, str, Answer]]:
        """Yield the requests that the engine did not answer, as failed."""
        for request, condition in self._asked.values():
            yield request, condition, request.failed("the engine yielded no answer")
        self._asked.clear()

    def _feed(self) -> Iterator[Request | None]:
        """Yield the requests of the waves; vLLM gets None until those of a wave are answered."""
        while True:
            for wave in self._waves_left:
                for request, condition in wave:
                    self._asked[request.key] = request, condition
                    yield request
                while self._stream is not None and self._asked:
                    yield None
            if self._stream is None:
                return
            yield None
