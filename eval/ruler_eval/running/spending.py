"""What a run has read and written, what that costs, and the budget at which it stops.

Every try of a request is a line of one ledger: sent at the most that it may cost, settled by what
the reply says, and kept where there was none. The ledger is a file beside the journal, so that the
next start knows what was paid:

    {"try":17,"row":"vt_4096/3/0","prompt_tokens":4066,"answer_tokens":30}
    {"try":17,"prompt_tokens":4061,"answer_tokens":9,"answered":true}
"""

import json
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from threading import RLock
from typing import Any

from ruler_data.errors import RulerError
from ruler_data.files import parse_json, read_lines
from ruler_eval.running.answers import Answer, Key
from ruler_eval.running.journal import Lines

#: Of an amount of money, since prices name no currency.
UNIT = "unit of --prices"
#: The file of a process: its shard, and the unique name of its journal.
TRIES = "tries-{}.{}.jsonl"
#: The row of the short requests that prove a server.
PROOF = ("the proof of the server", 0, 0)


@dataclass(frozen=True)
class Prices:
    """Of a million tokens, in one currency."""

    prompt: float
    answer: float

    def of(self, prompt_tokens: int, answer_tokens: int) -> float:
        """Return the price of so many tokens.

        >>> Prices(2.0, 8.0).of(1_000_000, 500_000)
        6.0
        """
        return (self.prompt * prompt_tokens + self.answer * answer_tokens) / 1e6

    @classmethod
    def read(cls, options: Mapping[str, Any]) -> "Prices | None":
        """Return the prices of a command's options, as they were recorded; None without."""
        prices = options.get("prices")
        if prices is None:
            return None
        return cls(*prices)


@dataclass(frozen=True)
class Spent:
    """Tokens of all tries, and the money that the server says they cost."""

    prompt_tokens: int = 0
    answer_tokens: int = 0
    failed_tokens: int = 0  # of both, those of tries without an answer
    is_at_most: bool = False  # nobody counted some answers, which count as their limit
    stated: float | None = None  # in the server's currency; None where it states nothing
    #: Prompt and answer tokens of tries for which the server states no amount.
    unstated: tuple[int, int] = (0, 0)

    @classmethod
    def read(cls, folder: Path) -> "Spent":
        """Return what the tries of all ledgers of a run cost."""
        spent = cls()
        for line in _tries(folder):
            with suppress(TypeError, KeyError):  # a line that no ledger wrote
                spent = spent.plus(line)
        return spent

    def plus(self, line: Mapping[str, Any]) -> "Spent":
        """Return it with one try more, as the ledger has it."""
        read = line["prompt_tokens"]
        written = line["answer_tokens"]
        is_answered = line.get("answered", False)
        cost = line.get("cost")
        stated = self.stated
        unstated = self.unstated
        if cost is None:
            unstated = (unstated[0] + read, unstated[1] + written)
        else:
            stated = (stated or 0.0) + cost
        return Spent(
            self.prompt_tokens + read,
            self.answer_tokens + written,
            self.failed_tokens + (0 if is_answered else read + written),
            self.is_at_most or (is_answered and not line.get("counted", True)),
            stated,
            unstated,
        )

    def money(self, prices: Prices | None) -> float | None:
        """Return what it cost: as the server states, else by prices; None if neither is known."""
        if prices is None:
            return self.stated
        return (self.stated or 0.0) + prices.of(*self.unstated)

    def line(self, prices: Prices | None) -> str:
        """Return all of it in one line."""
        most = "at most " if self.is_at_most else ""
        written = f"{most}{self.answer_tokens:,} answer tokens"
        line = f"spent: {self.prompt_tokens:,} prompt tokens, {written}"
        if self.failed_tokens:
            line += f", {self.failed_tokens:,} of them at most for tries without an answer"
        money = self.money(prices)
        if money is not None:
            unit = UNIT if self.stated is None else "as the server states"
            line += f"; {money:,.2f} ({unit})"
        return line


def _tries(folder: Path) -> Iterator[dict[str, Any]]:
    """Yield the tries of all ledgers of a run, as they were settled, or as they were sent."""
    for path in sorted(folder.glob(TRIES.format("*", "*"))):
        tries: dict[int, dict[str, Any]] = {}
        for line in read_lines(path):
            with suppress(ValueError, TypeError, KeyError):  # a crash may have cut a line
                body = dict(parse_json(line))
                tries[body["try"]] = tries.get(body["try"], {}) | body
        yield from tries.values()


@dataclass(frozen=True)
class Budget:
    """What a run may cost; None for no limit."""

    tokens: int | None = None
    money: float | None = None


NO_BUDGET = Budget()
#: Tokens read and written of a try that nobody counts.
UNCOUNTED = (None, None)


class OverBudget(RulerError):
    """The budget allows no further try."""


class Ledger:
    """Counts every try, and lets none go that may exceed the budget."""

    def __init__(
        self, budget: Budget = NO_BUDGET, prices: Prices | None = None, spent: Spent | None = None
    ) -> None:
        """Go on from what was spent before."""
        self.budget = budget
        self.prices = prices
        self.spent = spent or Spent()
        self.is_reached = False
        self._tries: dict[Key, dict[str, Any]] = {}  # on their way
        self._count = 0
        self._lines: list[bytes] | Lines = []  # in a file, once there is one
        self._lock = RLock()

    def open(self, path: Path) -> None:
        """Write to a new file from now on."""
        with self._lock:
            file = Lines(path)
            assert isinstance(self._lines, list)
            for line in self._lines:
                file.append(line)
            self._lines = file

    @property
    def is_idle(self) -> bool:
        """Whether no try is on its way."""
        return not self._tries

    @property
    def has_no_limit(self) -> bool:
        """Whether a run may cost anything."""
        return self.budget == NO_BUDGET

    def fits(self, read: int, written: int) -> bool:
        """Whether a try may go; those on their way count as a whole."""
        if self.has_no_limit:
            return True
        with self._lock:
            most = self.spent.plus({"prompt_tokens": read, "answer_tokens": written})
            for line in self._tries.values():
                most = most.plus(line)
        tokens = self.budget.tokens
        if tokens is not None and most.prompt_tokens + most.answer_tokens > tokens:
            return False
        money = most.money(self.prices)
        return self.budget.money is None or money is None or money <= self.budget.money

    def send(self, key: Key, read: int, written: int) -> None:
        """Count a try of a row at the most that it may cost.

        Raises:
            OverBudget: it might exceed the budget.
        """
        with self._lock:
            if not self.fits(read, written):
                self.is_reached = True
                raise OverBudget(self.line)
            self._count += 1
            tokens = {"prompt_tokens": read, "answer_tokens": written}
            self._tries[key] = {"try": self._count, "row": "/".join(map(str, key)), **tokens}
            self._log(self._tries[key])

    def add(self, answer: Answer) -> None:
        """Settle the try that an answer is of."""
        is_answered = answer.error is None
        tokens = answer.prompt_tokens, answer.answer_tokens
        self.settle(answer.key, tokens, is_answered=is_answered, cost=answer.cost)

    def fail(self, key: Key, tokens: tuple[int, int] | None) -> None:
        """Settle a try without an answer; where nobody knows what it took, it took the most."""
        self.settle(key, tokens or UNCOUNTED, is_answered=False)

    def settle(
        self,
        key: Key,
        tokens: tuple[int | None, int | None],
        *,
        is_answered: bool,
        cost: float | None = None,
    ) -> None:
        """Replace the most that a try may take by what it did take; what nobody counts stays."""
        with self._lock:
            sent = self._tries.pop(key, None)
            if sent is None:  # nobody counts the requests of a check
                return
            read, written = tokens
            line: dict[str, Any] = {"try": sent["try"], "prompt_tokens": read}
            line |= {"answer_tokens": written, "answered": is_answered}
            if read is None:
                line["prompt_tokens"] = sent["prompt_tokens"]
            if written is None:
                line["answer_tokens"] = sent["answer_tokens"]
                line["counted"] = False
            if cost is not None:
                line["cost"] = cost
            self.spent = self.spent.plus(line)
            self._log(line)

    def _log(self, line: Mapping[str, Any]) -> None:
        self._lines.append(json.dumps(line, separators=(",", ":")).encode("ascii") + b"\n")

    def close(self) -> None:
        """Close the file."""
        if isinstance(self._lines, Lines):
            self._lines.close()

    @property
    def line(self) -> str:
        """Why the run stopped, and what to do."""
        limit = f"{self.budget.money or 0:,.2f}"
        option = "--budget"
        if self.budget.tokens is not None:
            limit = f"{self.budget.tokens:,} tokens"
            option = "--budget-tokens"
        return (
            f"the budget of {limit} allows no further row ({self.spent.line(self.prices)}); "
            f"raise {option} and run the command again"
        )
