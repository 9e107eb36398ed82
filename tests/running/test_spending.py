"""What a run has spent: each try counts once, at its worst until its reply, and is kept."""

import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ruler_eval.running.answers import Answer
from ruler_eval.running.spending import TRIES, Budget, Ledger, OverBudget, Prices, Spent

PRICES = Prices(2.0, 8.0)


def key(place: int) -> tuple[str, int, int]:
    return "vt_4096", place, 0


#: Tokens sent at most, how the try ends, tokens that the reply counts, and the cost that it states.
TRY = st.tuples(
    st.integers(1, 900),
    st.integers(1, 90),
    st.sampled_from(["answered", "failed", "lost", "on its way"]),
    st.none() | st.integers(0, 900),
    st.none() | st.integers(0, 90),
    st.none() | st.floats(0, 9),
)
Try = tuple[int, int, str, int | None, int | None, float | None]


@given(tries=st.lists(TRY, max_size=9))
def test_a_ledger_is_the_sum_of_its_tries_and_so_is_its_file(
    tries: list[Try], tmp_path_factory: pytest.TempPathFactory
) -> None:
    """The oracle adds each try up by hand: at its worst, until it is settled."""
    folder = tmp_path_factory.mktemp("run")
    ledger = Ledger()
    read = written = failed = open_tokens = 0
    stated: list[float] = []
    unstated = [0, 0]
    is_at_most = False
    for place, (most_read, most_written, end, said_read, said_written, cost) in enumerate(tries):
        if place == len(tries) // 2:
            ledger.open(folder / TRIES.format("0-of-1", "made"))
        ledger.send(key(place), most_read, most_written)
        took_read = most_read if said_read is None else said_read
        took_written = most_written if said_written is None else said_written
        if end == "answered":
            ledger.add(Answer("vt_4096", place, "x", "stop", said_read, said_written, cost=cost))
            is_at_most |= said_written is None
        elif end == "failed" and said_read is not None and said_written is not None:
            ledger.fail(key(place), (said_read, said_written))
            cost = None
            failed += took_read + took_written
        elif end == "on its way":
            open_tokens += most_read + most_written
            failed += most_read + most_written  # once the process is gone
            took_read, took_written, cost = most_read, most_written, None
        else:
            ledger.fail(key(place), None)
            took_read, took_written, cost = most_read, most_written, None
            failed += took_read + took_written
        read += took_read
        written += took_written
        if cost is None:
            unstated[0] += took_read
            unstated[1] += took_written
        else:
            stated.append(cost)
    found = ledger.spent
    assert found.prompt_tokens + found.answer_tokens == read + written - open_tokens
    assert found.failed_tokens == failed - open_tokens
    assert ledger.is_idle == (open_tokens == 0)
    ledger.close()
    if not tries:
        return
    again = Spent.read(folder)
    assert (again.prompt_tokens, again.answer_tokens) == (read, written)
    assert (again.failed_tokens, again.is_at_most) == (failed, is_at_most)
    assert again.unstated == tuple(unstated)
    assert again.money(None) == (pytest.approx(sum(stated)) if stated else None)
    by_price = (2.0 * unstated[0] + 8.0 * unstated[1]) / 1e6
    assert again.money(PRICES) == pytest.approx(sum(stated) + by_price)


@pytest.mark.parametrize(
    ("budget", "prices", "more", "is_let_go"),
    [
        (Budget(), None, 10**9, True),
        (Budget(tokens=130), None, 10, True),
        (Budget(tokens=129), None, 10, False),
        (Budget(money=0.5), None, 10**6, True),  # nobody knows what it costs
        (Budget(money=0.0005), PRICES, 10, True),
        (Budget(money=0.00049), PRICES, 10, False),
        (Budget(tokens=129, money=9.0), PRICES, 10, False),
    ],
)
def test_a_try_goes_only_where_the_budget_holds_whatever_happens(
    budget: Budget, prices: Prices | None, more: int, is_let_go: bool
) -> None:
    """Spent: 40 and 20; on its way: 40 and 10; to be sent: 10 and `more`."""
    ledger = Ledger(budget, prices, Spent(40, 20, unstated=(40, 20)))
    ledger.send(key(0), 40, 10)
    assert ledger.fits(10, more) is is_let_go
    if is_let_go:
        ledger.send(key(1), 10, more)
        assert not ledger.is_reached
    else:
        with pytest.raises(OverBudget):
            ledger.send(key(1), 10, more)
        assert ledger.is_reached and ledger.has_no_limit is False


def test_what_a_reply_did_not_take_is_free_again() -> None:
    ledger = Ledger(Budget(tokens=100))
    ledger.send(key(0), 80, 20)
    assert not ledger.fits(1, 0)
    ledger.fail(key(0), (0, 0))
    assert ledger.fits(80, 20) and ledger.spent == Spent()
    ledger.fail(key(7), (50, 50))  # nobody sent it: the request of a check
    assert ledger.spent == Spent()


@pytest.mark.parametrize(
    ("spent", "prices", "line"),
    [
        (Spent(12_345, 678, unstated=(12_345, 678)), None,
         "spent: 12,345 prompt tokens, 678 answer tokens"),
        (Spent(12_345, 678, 1_000, is_at_most=True), None,
         "spent: 12,345 prompt tokens, at most 678 answer tokens, 1,000 of them at most for tries "
         "without an answer"),
        (Spent(10**9, 10**6, unstated=(10**9, 10**6)), PRICES,
         "spent: 1,000,000,000 prompt tokens, 1,000,000 answer tokens; 2,008.00 (unit of "
         "--prices)"),
        (Spent(5, 6, stated=1.5), None,
         "spent: 5 prompt tokens, 6 answer tokens; 1.50 (as the server states)"),
        (Spent(5, 6, stated=1.5, unstated=(10**6, 0)), PRICES,
         "spent: 5 prompt tokens, 6 answer tokens; 3.50 (as the server states)"),
    ],
)  # fmt: skip
def test_what_was_spent_is_a_line(spent: Spent, prices: Prices | None, line: str) -> None:
    assert spent.line(prices) == line


def test_a_budget_that_ends_a_run_says_what_to_raise() -> None:
    spent = Spent(5, 6)
    said = "spent: 5 prompt tokens, 6 answer tokens"
    assert Ledger(Budget(tokens=1_200), None, spent).line == (
        f"the budget of 1,200 tokens allows no further row ({said}); raise --budget-tokens and run "
        "the command again"
    )
    assert Ledger(Budget(money=1_200.5), None, spent).line == (
        f"the budget of 1,200.50 allows no further row ({said}); raise --budget and run the "
        "command again"
    )


def test_lines_that_a_crash_cut_or_that_no_ledger_wrote_count_nothing(tmp_path: Path) -> None:
    sent = {"try": 1, "row": "vt_4096/0/0", "prompt_tokens": 5, "answer_tokens": 3}
    lines = [json.dumps(sent), '{"try": 2, "prompt', '{"row": 1}', "[]", '{"try": 3}']
    for name in ("0-of-2", "1-of-2"):
        (tmp_path / TRIES.format(name, "made")).write_text("\n".join(lines) + "\n")
    assert Spent.read(tmp_path) == Spent(10, 6, 16, unstated=(10, 6))
    assert Spent.read(tmp_path / "none") == Spent()


def test_prices_are_read_from_the_options_of_a_start() -> None:
    assert Prices.read({"prices": [2.0, 8.0]}) == PRICES and Prices.read({}) is None
