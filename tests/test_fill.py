"""How full rows are: what a build refuses is what whoever verifies it would refuse."""

from pathlib import Path

import pytest

from ruler_builders.checks.solvers import fill_finding
from ruler_data.tasks import TASKS, Qa, task_of
from tests.builds import run
from tests.commands import one_line
from tests.conftest import Cli

#: Lines of 160 characters and 600 tokens and more: no haystack of them ends close to 4,096.
GLYPHS = "\N{ALCHEMICAL SYMBOL FOR AIR}\N{ALCHEMICAL SYMBOL FOR FIRE}" * 80 + "\n"
ORDER = (
    "--suite", "domains", "--tokenizer", "mistral", "--sources-kind", "sample",
    "--tasks", "niah_domain_glyphs", "--rows", 2,
)  # fmt: skip


@pytest.fixture(scope="module")
def glyphs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("texts")
    (folder / "glyphs").mkdir()
    (folder / "glyphs" / "signs.txt").write_text(GLYPHS * 9, encoding="utf-8")
    return folder


def test_texts_too_coarse_to_fill_a_row_are_refused_when_they_are_built(
    glyphs: Path, tmp_path: Path, cli: Cli
) -> None:
    order = (*ORDER, "--haystack", glyphs)
    said = one_line(run(*order, "--lengths", 4096, "--out", tmp_path / "a"), 1)
    assert "niah_domain_glyphs_4096/" in said and "at least 4056 are needed" in said
    assert "use a greater length, or texts with more and shorter lines" in said
    assert not list(tmp_path.glob("a/*/*.parquet")) and not (tmp_path / "a/manifest.json").exists()
    # What is shorter promises no fill, and what keeps room free promises none of that room.
    short = run(*order, "--lengths", 2048, "--out", tmp_path / "b")
    kept = run(*order, "--lengths", 4096, "--reserve", 1, "--out", tmp_path / "c")
    for done, folder in ((short, "b"), (kept, "c")):
        assert done.returncode == 0, done.stderr
        assert cli("verify", tmp_path / folder, "--haystack", glyphs).returncode == 0


@pytest.mark.parametrize(
    ("length", "reserve", "lengths", "row"),
    [
        (4096, 0, [4056, 4096], None),
        (4096, 0, [4056, 4055], 1),
        (4095, 0, [1], None),
        (5000, 904, [4056], None),
        (5000, 905, [1], None),
        (100_000, 0, [99_000, 98_999, 98_998], 2),
        (4096, 0, [], None),
    ],
)
def test_a_row_fills_99_percent_of_the_room_that_it_has_from_4096_tokens_on(
    length: int, reserve: int, lengths: list[int], row: int | None
) -> None:
    found = fill_finding(TASKS["vt"], length, reserve, lengths)
    assert (found and found[0]) == row
    alone = task_of("qa_alone", Qa("squad", "none"), "x")
    assert fill_finding(alone, length, reserve, lengths) is None
