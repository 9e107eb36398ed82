"""What a run has read and written, what that costs, and the budget at which it stops.

Every line of the journals counts: rows that failed and rows that were asked twice were paid too.
"""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from ruler_eval.running.answers import Answer, Key
from ruler_eval.running.engine import Request

#: Of an amount of money, since prices name no currency.
UNIT = "unit of --price-in"


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
        """Return the prices of a command's options; None where they do not say both."""
        price_in, price_out = options.get("price_in"), options.get("price_out")
        return None if price_in is None or price_out is None else cls(price_in, price_out)


@dataclass(frozen=True)
class Spent:
    """Tokens of all requests, and the money that the server says they cost."""

    prompt_tokens: int = 0
    answer_tokens: int = 0
    failed_tokens: int = 0  # of both, those of rows without an answer
    stated: float | None = None  # in the server's currency; None where it states nothing

    @classmethod
    def of(cls, records: Iterable[Answer]) -> "Spent":
        """Return what the records of a run cost."""
        spent = cls()
        for record in records:
            spent = spent.plus(record)
        return spent

    def plus(self, record: Answer) -> "Spent":
        """Return it with one record more."""
        read, written = record.prompt_tokens or 0, record.answer_tokens or 0
        stated = self.stated if record.cost is None else (self.stated or 0.0) + record.cost
        return Spent(
            self.prompt_tokens + read,
            self.answer_tokens + written,
            self.failed_tokens + (read + written) * (record.error is not None),
            stated,
        )

    def money(self, prices: Prices | None) -> float | None:
        """Return what it cost: what the server states, or by prices; None if neither is known."""
        if self.stated is not None or prices is None:
            return self.stated
        return prices.of(self.prompt_tokens, self.answer_tokens)

    def line(self, prices: Prices | None) -> str:
        """Return all of it in one line."""
        failed = f", {self.failed_tokens:,} of them for rows without an answer"
        money = self.money(prices)
        unit = UNIT if self.stated is None else "as the server states"
        return (
            f"spent: {self.prompt_tokens:,} prompt tokens, {self.answer_tokens:,} answer tokens"
            + failed * bool(self.failed_tokens)
            + (f"; {money:,.2f} ({unit})" if money is not None else "")
        )


@dataclass(frozen=True)
class Budget:
    """What a run may cost; None for no limit."""

    tokens: int | None = None
    money: float | None = None


NO_BUDGET = Budget()


@dataclass
class Ledger:
    """Lets requests through as long as they cannot exceed the budget."""

    budget: Budget
    prices: Prices | None
    spent: Spent
    is_reached: bool = False
    _open: dict[Key, Request] = field(default_factory=dict)  # requests without an answer

    def admit(self, requests: Iterator[Request | None]) -> Iterator[Request | None]:
        """Yield requests until one might exceed the budget; those under way count as a whole.

        As they cost less than they might, the next one waits for them.
        """
        for request in requests:
            if request is not None:
                self._open[request.key] = request
                while self._is_over():
                    if len(self._open) == 1:
                        self.is_reached = True
                        return
                    yield None
            yield request

    def _is_over(self) -> bool:
        read = sum(len(request.ids) for request in self._open.values())
        written = sum(request.max_tokens for request in self._open.values())
        total = self.spent.prompt_tokens + self.spent.answer_tokens + read + written
        if self.budget.tokens is not None and total > self.budget.tokens:
            return True
        if self.budget.money is None or self.prices is None:
            return False
        return (self.spent.money(self.prices) or 0.0) + self.prices.of(
            read, written
        ) > self.budget.money

    def add(self, answer: Answer) -> None:
        """Count an answer; where nobody counted its tokens, as many as the request could cost."""
        request = self._open.pop(answer.key, None)
        if request is not None and answer.error is None:
            read, written = answer.prompt_tokens, answer.answer_tokens
            answer = replace(
                answer,
                prompt_tokens=len(request.ids) if read is None else read,
                answer_tokens=request.max_tokens if written is None else written,
            )
        self.spent = self.spent.plus(answer)

    @property
    def line(self) -> str:
        """Why the run stopped, and what to do."""
        limit = (
            f"{self.budget.tokens:,} tokens"
            if self.budget.tokens is not None
            else f"{self.budget.money:,.2f}"
        )
        option = "--budget-tokens" if self.budget.tokens is not None else "--budget"
        return f"the budget of {limit} allows no further row ({self.spent.line(self.prices)}); " + (
            f"raise {option} and run the command again"
        )
