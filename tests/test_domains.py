"""Domains: texts cut into lines and passages, and haystacks that are stretches of them."""

import random
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from ruler_builders.rows.segments import SLACK, Segments
from ruler_builders.rows.tokenized_sources import Passages, mixed
from ruler_builders.sources.domains import BUNDLED, LONGEST, WIDTH, cut
from ruler_builders.sources.packaged import bundled_domain
from tests.rows import counted, rows_of

TOKENIZERS = ("mistral", pytest.param("mistral-v0.2", marks=pytest.mark.slow))


@given(st.text(alphabet="ab \t\n\r,.", max_size=400))
def test_cutting_a_text_loses_only_white_space_and_breaks_no_short_line(text: str) -> None:
    domain = cut([text])
    assert "".join("".join(domain.lines).split()) == "".join(text.split())
    kept = [line.rstrip() for line in text.split("\n") if line.strip()]
    if all(len(line) <= WIDTH for line in kept):
        assert [line.rstrip("\n") for line in domain.lines] == kept
    assert all(len(line.rstrip("\n")) <= WIDTH and line.strip() for line in domain.lines)


@given(st.lists(st.sampled_from(["a" * 300, "  b" * 50, "", "", "c" * 5000]), max_size=40))
def test_passages_begin_behind_blank_lines_and_do_not_grow_without_end(texts: list[str]) -> None:
    domain = cut(["\n".join(texts)])
    assume(domain.lines)
    assert domain.starts[0] == 0 and list(domain.starts) == sorted(set(domain.starts))
    ends = [*domain.starts[1:], len(domain.lines)]
    for start, end in zip(domain.starts, ends, strict=True):
        assert sum(len(line) + 1 for line in domain.lines[start : end - 1]) < LONGEST


@pytest.mark.parametrize("tokenizer", TOKENIZERS)
@pytest.mark.parametrize("name", BUNDLED)
def test_costs_of_lines_add_up_to_the_tokens_of_their_text(tokenizer: str, name: str) -> None:
    made = counted(tokenizer)
    lines = made.domain(name).lines
    source = random.Random(name)
    for _ in range(10):
        start = source.randrange(len(lines) - 60)
        part = lines.pick(range(start, start + source.randrange(1, 60)))
        text = "\n".join(part.texts.to_pylist()) + "\n"
        following = lines.texts[start + len(part)].as_py()
        empty, found = made.tokenizer.count([f"a\n{following}", f"a\n{text}{following}"])
        assert found - empty == int(part.costs.sum())


@given(
    costs=st.lists(st.integers(1, 60), min_size=1, max_size=30),
    room=st.integers(-5, 2000),
    data=st.data(),
)
def test_a_stretch_is_of_neighbours(costs: list[int], room: int, data: st.DataObject) -> None:
    starts = sorted({0, *data.draw(st.lists(st.integers(0, len(costs) - 1), max_size=5))})
    first = data.draw(st.integers(0, len(starts) - 1))
    lines = Segments.of([str(number) for number in range(len(costs))], np.array(costs))
    found = Passages(lines, np.array(starts), sum(costs)).stretch(room, first)
    numbers = [int(text) for text in found.texts.to_pylist()]
    assert all((a + 1) % len(costs) == b for a, b in pairwise(numbers))
    free = max(room, 0) - int(found.costs.sum())
    following = costs[(numbers[-1] + 1) % len(costs)] if numbers else max(costs)
    assert 0 <= free < following or (free == 0 and not numbers)
    ends = {sum((costs * 80)[start : start + n]) for start in starts for n in range(60)}
    if any(0 <= max(room, 0) - end <= SLACK for end in ends):
        assert free <= SLACK


@pytest.mark.parametrize("name", BUNDLED)
def test_a_haystack_of_a_domain_has_the_needle_on_a_line_of_its_own(name: str) -> None:
    text = "\n".join(bundled_domain(name).lines) + "\n"
    for row in rows_of(f"niah_domain_{name}", length=2048):
        [span] = row.evidence
        assert row.context[span.start - 1] == "\n" and row.context[span.end] == "\n"
        body = row.context[row.context.index("\n") + 1 : span.start]
        body += row.context[span.end + 1 :]
        assert body in text * 2
    assert len({row.context[200:400] for row in rows_of(f"niah_domain_{name}", length=2048)}) > 1


def test_a_mixed_haystack_takes_turns_between_all_domains() -> None:
    owners = {
        line.strip("\n"): name
        for name in BUNDLED
        for line in bundled_domain(name).lines
        if len(line) > 30
    }
    for row in rows_of("niah_domain_mixed", length=8192):
        found = [owners[line] for line in row.context.split("\n") if line in owners]
        assert {name for name in BUNDLED if found.count(name) > 3} == set(BUNDLED)


@given(st.integers(1, 6), st.integers(1, 6), st.integers(0, 99))
def test_domains_in_turns_leave_out_no_passage(first: int, second: int, seed: int) -> None:
    domains = []
    for letter, count in (("a", first), ("b", second)):
        texts = [f"{letter}{number}" for number in range(count)]
        lines = Segments.of(texts, np.ones(count, dtype=np.int64))
        domains.append(Passages(lines, np.arange(count), count))
    passages = mixed(domains, random.Random(seed))
    texts = passages.lines.texts.to_pylist()
    assert passages.fresh == len({*texts[: passages.fresh]}) == 2 * min(first, second)
    assert len(texts) == 2 * max(first, second)
    assert {*texts[::2]} == {f"a{number}" for number in range(first)}
    assert {*texts[1::2]} == {f"b{number}" for number in range(second)}
