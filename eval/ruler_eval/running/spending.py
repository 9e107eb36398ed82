"""What a run has read and written, what that costs, and the budget at which it stops.

Every try of a request is a line of one ledger: sent at the most that it may cost, settled by what
the reply says, and kept where there was none. The ledger is a file beside the journal, so that the
next start knows what was paid:

    {"try":17,"row":"vt_4096/3/0","prompt_tokens":4066,"answer_tokens":30}
    {"try":17,"prompt_tokens":4061,"answer_tokens":9,"answered":true}
"""

import json
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from threading import RLock
from typing import Any, BinaryIO

from ruler_data.errors import RulerError
from ruler_data.files import parse_json, read_lines, unwritable
from ruler_eval.running.answers import Answer, Key

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
    def read(cls, folder: Path, records: Iterable[Answer]) -> "Spent":
        """Return what a run cost: by its ledger, else by the records of its journals."""
        spent = cls()
        tries = [*_tries(folder)]
        for line in tries:
            tokens = int(line["prompt_tokens"]), int(line["answer_tokens"])
            counted = bool(line.get("counted", True))
            spent = spent.plus(*tokens, bool(line.get("answered")), line.get("cost"), counted)
        if tries:
            return spent
        for record in records:
            tokens = record.prompt_tokens or 0, record.answer_tokens or 0
            counted = record.answer_tokens is not None
            spent = spent.plus(*tokens, record.error is None, record.cost, counted)
        return spent

    def plus(
        self, read: int, written: int, answered: bool, cost: float | None, counted: bool = True
    ) -> "Spent":
        """Return it with one try more."""
        stated = self.stated
        unstated = self.unstated
        if cost is None:
            unstated = (unstated[0] + read, unstated[1] + written)
        else:
            stated = (stated or 0.0) + cost
        failed = 0 if answered else read + written
        return Spent(
            self.prompt_tokens + read,
            self.answer_tokens + written,
            self.failed_tokens + failed,
            self.is_at_most or (answered and not counted),
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


class OverBudget(RulerError):
    """The budget allows no further try."""


@dataclass
class _Try:
    """A request on its way, and the most that it may cost."""

    number: int
    read: int
    written: int


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
        self._tries: dict[Key, _Try] = {}
        self._count = 0
        self._file: BinaryIO | None = None
        self._path: Path | None = None
        self._unwritten: list[bytes] = []  # until there is a file
        self._lock = RLock()

    def open(self, path: Path) -> None:
        """Write to a new file from now on."""
        with self._lock:
            self._path = path
            try:
                self._file = path.open("xb", buffering=0)
            except OSError as error:
                raise unwritable(path, error) from error
            for line in self._unwritten:
                self._write(line)

    def close(self) -> None:
        """Close the file."""
        if self._file is not None:
            self._file.close()

    @property
    def is_idle(self) -> bool:
        """Whether no try is on its way."""
        return not self._tries

    def fits(self, read: int, written: int) -> bool:
        """Whether a try may go; those on their way count as a whole."""
        with self._lock:
            prompt_tokens = read + sum(line.read for line in self._tries.values())
            answer_tokens = written + sum(line.written for line in self._tries.values())
            total = self.spent.prompt_tokens + self.spent.answer_tokens
            limit = self.budget.tokens
            if limit is not None and total + prompt_tokens + answer_tokens > limit:
                return False
            if self.budget.money is None or self.prices is None:
                return True
            money = self.spent.money(self.prices) or 0.0
            return money + self.prices.of(prompt_tokens, answer_tokens) <= self.budget.money

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
            self._tries[key] = _Try(self._count, read, written)
            row = "/".join(map(str, key))
            tokens = {"prompt_tokens": read, "answer_tokens": written}
            self._log({"try": self._count, "row": row, **tokens})

    @property
    def has_no_limit(self) -> bool:
        """Whether a run may cost anything."""
        return self.budget == NO_BUDGET

    def fail(self, key: Key, cost: tuple[int, int] | None) -> None:
        """Settle a try without an answer; where nobody knows what it cost, it cost the most."""
        self.settle(key, cost, answered=False)

    def add(self, answer: Answer) -> None:
        """Settle the try that an answer is of; what nobody counted was the most."""
        line = self._tries.get(answer.key)
        if line is None:
            return
        read = answer.prompt_tokens
        if read is None:
            read = line.read
        written = answer.answer_tokens
        counted = written is not None
        if written is None:
            written = line.written
        self.settle(answer.key, (read, written), answer.error is None, answer.cost, counted)

    def settle(
        self,
        key: Key,
        cost: tuple[int, int] | None,
        answered: bool,
        money: float | None = None,
        counted: bool = True,
    ) -> None:
        """Replace the most that a try may cost by what it did cost."""
        with self._lock:
            line = self._tries.pop(key, None)
            if line is None:  # nobody counts the requests of a check
                return
            read, written = cost or (line.read, line.written)
            self.spent = self.spent.plus(read, written, answered, money, counted)
            body: dict[str, Any] = {"try": line.number, "prompt_tokens": read}
            body |= {"answer_tokens": written, "answered": answered}
            if not counted:
                body["counted"] = False
            if money is not None:
                body["cost"] = money
            self._log(body)

    def _log(self, body: Mapping[str, Any]) -> None:
        line = json.dumps(body, separators=(",", ":")).encode("ascii") + b"\n"
        if self._file is None:
            self._unwritten.append(line)
        else:
            self._write(line)

    def _write(self, line: bytes) -> None:
        assert self._file is not None and self._path is not None
        try:
            if self._file.write(line) != len(line):
                raise OSError(28, "No space left on device")
        except OSError as error:
            raise unwritable(self._path, error) from error

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
