"""Progress as bars show it, and values as the options of a command take them."""

from collections.abc import Collection, Iterator, Mapping
from pathlib import Path
from typing import Annotated, Any, Literal

import numpy as np
import pytest
from rich.progress import Progress
from typer import Option

from ruler_data import UsageError, progress
from ruler_data.signatures import _fits, _fitting, _words


@pytest.fixture
def bars(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[Progress]]:
    """The bars that are made."""
    made = list[Progress]()
    plain = progress.progress_bars

    def kept() -> Progress:
        made.append(plain())
        return made[-1]

    monkeypatch.setattr(progress, "progress_bars", kept)
    yield made


def test_a_bar_counts_tokens_and_shows_rows_a_second(
    bars: list[Progress], monkeypatch: pytest.MonkeyPatch
) -> None:
    now = [0.0]
    monkeypatch.setattr("ruler_data.progress.time.monotonic", lambda: now[0])
    with progress.progress(3 * 4096 + 1024) as advance:
        (task,) = bars[0].tasks
        assert (task.description, task.fields["items"]) == ("reading sources", "0 rows")
        now[0] = 4.0
        advance("vt_4096", 2)
        assert (task.description, task.fields) == (
            "vt_4096", {"items": "2 rows", "speed": "0.5 rows/s"}
        )  # fmt: skip
        assert (task.completed, task.total) == (2 * 4096, 3 * 4096 + 1024)
        advance.skip("vt_4096", 1)
        assert (task.completed, task.total, bars[0].finished) == (2 * 4096, 2 * 4096 + 1024, False)
        now[0] = 5.0
        advance("cwe_1024", 1)
        assert (task.description, task.fields["items"]) == ("cwe_1024", "3 rows")
        assert task.fields["speed"] == "0.6 rows/s" and bars[0].finished
    with progress.progress(None) as advance:
        now[0] = 6.0
        advance("vt_4096", 30)
        advance.skip("vt_4096", 1)
        assert bars[1].tasks[0].total is None and bars[1].tasks[0].fields["speed"] == "30 rows/s"


def test_a_download_is_shown_in_megabytes_from_one_on(bars: list[Progress]) -> None:
    with progress.transfer("a", (1 << 20) - 1) as advance:
        advance(5)
    assert bars == []
    for total, shown, completed in (
        (1 << 20, ["0.5/1.0 MB", "1.0/1.0 MB"], 1 << 20), (None, ["0.5 MB", "1.5 MB"], 1_500_000),
    ):  # fmt: skip
        with progress.transfer("a", total) as advance:
            (task,) = bars[-1].tasks
            for size, text in zip((500_000, 1_000_000), shown, strict=True):
                advance(size)
                assert task.fields["items"] == text
            assert (task.completed, task.total, task.description) == (completed, total, "a")


def test_items_are_tracked_one_by_one(bars: list[Progress]) -> None:
    found = []
    for item in progress.track(["a", "b"], "works"):
        (task,) = bars[0].tasks
        found.append((item, task.completed, task.fields["items"]))
    assert found == [("a", 0, ""), ("b", 1, "1/2")]
    assert (task.completed, task.total, task.fields["items"]) == (2, 2, "2/2")


#: A type, values that fit, values that do not, and what it is called.
TYPES: list[tuple[Any, list[object], list[object], str]] = [
    (int, [1, np.int64(2)], [True, 1.0, "1", None], "a whole number"),
    (float, [1, 1.5, np.float32(2)], [True, "1"], "a number"),
    (bool, [True, False], [1, "true"], "True or False"),
    (str, ["a"], [1, None], "a text"),
    (Literal["a", "b"], ["a"], ["c", 1], "one of a, b"),
    (Path, [Path("a")], ["a"], "a path"),
    (int | None, [1, None], ["1"], "a whole number"),
    (str | Collection[int | str], ["a", ["a", 1], ("a",), {1}], [1, [1.5], [None]],
     "a text or a list"),
    (Mapping[str, object], [{}, {"a": 1}], [[], "a"], "a mapping"),
    (list[int], [[1], []], [(1,), ["a"], "a"], "a list"),
    (Any, [1, None], [], ""),
]  # fmt: skip


@pytest.mark.parametrize("number", range(len(TYPES)))
def test_a_value_fits_a_type_as_a_reader_expects(number: int) -> None:
    kind, right, wrong, words = TYPES[number]
    assert all(_fits(value, kind) for value in right)
    assert not any(_fits(value, kind) for value in wrong)
    assert not words or _words(kind) == words


def test_a_number_is_within_its_bounds_and_a_plain_one() -> None:
    bounded = Annotated[int | None, Option(min=2, max=1_000)]
    for value in (2, np.int64(1_000), None):
        found = _fitting("rows", value, bounded)
        assert found == value and type(found) in (int, type(None))
    for wrong, shown in ((1, "1"), (1_001, "1001"), (True, "True"), ("2", "'2'")):
        with pytest.raises(UsageError) as refused:
            _fitting("rows", wrong, bounded)
        assert str(refused.value) == f"rows {shown}: give a whole number from 2 to 1,000"
    least = Annotated[float, Option(min=0)]
    assert type(_fitting("x", np.float64(0.5), least)) is float
    with pytest.raises(UsageError, match=r"^x -0\.1: give a number from 0$"):
        _fitting("x", -0.1, least)
    assert _fitting("out", Path("a"), Annotated[str, Option()]) == "a"
    assert _fitting("out", Path("a"), Annotated[Path | str, Option()]) == Path("a")
