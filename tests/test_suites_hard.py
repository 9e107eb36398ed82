"""The suite `hard`: answers found by hand, and a run from end to end."""

import re
from collections import Counter, defaultdict
from itertools import combinations
from pathlib import Path

import pytest

from ruler_builders.sources.packaged import associations
from ruler_data.parquet import read_rows
from ruler_data.suites import packaged
from ruler_data.tasks import Cwe, Graph
from tests.conftest import Cli
from tests.rows import make, rows_of
from tests.running.processes import evaluate, order

HARD = packaged()["hard"].tasks
NEEDLE = re.compile(r"One of the special magic numbers for (\S+) is: (\d{7})\.")
ORDER = "first second third fourth fifth sixth seventh eighth ninth tenth eleventh twelfth "
ORDER += "thirteenth fourteenth fifteenth sixteenth"


def of(prefix: str) -> list[str]:
    return [name for name in HARD if name.startswith(prefix)]


def test_every_kind_of_question_has_three_rungs_of_free_texts_and_an_exact_headline() -> None:
    kinds = Counter("_".join(name.split("_")[:2]) for name in HARD if "graph" not in name)
    assert set(kinds.values()) == {3} and len(kinds) == 7 and len(HARD) == 24
    assert {task.headline for task in HARD.values()} == {"exact"}
    assert {source for task in HARD.values() for source in task.sources} == {
        "words", "associations",
        *(f"domain_{name}" for name in ("prose", "code", "legal", "technical", "tables")),
    }  # fmt: skip


@pytest.mark.parametrize("task", HARD)
def test_other_lengths_and_tokenizers_ask_the_same(task: str) -> None:
    first, *others = (
        make("mistral", task, 3), make("mistral-v0.2", task, 3), make("mistral", task, 3, 8192)
    )  # fmt: skip
    for other in others:
        assert (first.question, first.answer_prefix, first.outputs) == (
            other.question, other.answer_prefix, other.outputs
        )  # fmt: skip
        assert len(first.evidence) == len(other.evidence)


@pytest.mark.parametrize("task", of("vt"))
def test_scrambled_chains_are_of_one_length_and_followed_by_hand(task: str) -> None:
    hops, disorder = int(task.rpartition("_")[2]), 0
    for row in rows_of(task):
        text = row.context.rpartition("in no particular order.\n\n")[2]
        lines = re.findall(r"^VAR (\w+) = (?:VAR )?(\w+) ?$", text, re.MULTILINE)
        source = dict(lines)
        assert len(source) == len(lines) == 8 * (hops + 1)
        chains = defaultdict(set)
        for name in source:
            value = name
            while value in source:
                value = source[value]
            chains[value].add(name)
        assert {len(chain) for chain in chains.values()} == {hops + 1}
        value = re.search("[0-9]{5}", row.question)
        assert value and chains[value[0]] == set(row.outputs)
        place = {name: number for number, (name, _) in enumerate(lines)}
        disorder += sum(place[a] < place[b] for a, b in lines if b in place)
        assert "chain(s) of variable assignment hidden" in row.context
    assert 0.4 < disorder / (6 * 8 * hops) < 0.6


@pytest.mark.parametrize("task", of("niah_lookalikes"))
def test_lookalike_keys_are_a_grid_of_words_and_their_values_a_grid_of_digits(task: str) -> None:
    size = int(task.rpartition("_")[2])
    for row in rows_of(task):
        known = dict(NEEDLE.findall(row.context))
        asked = re.findall(r"[a-z]+-[a-z-]+", row.question)
        assert row.outputs == tuple(known[key] for key in asked) and len(asked) == 4
        firsts, lasts = (Counter(key.partition("-")[part] for key in known) for part in (0, 2))
        assert len(known) == size == len(firsts) * len(lasts)
        for half in (slice(0, 3), slice(3, 7)):
            assert len(set(Counter(value[half] for value in known.values()).values())) == 1


@pytest.mark.parametrize("task", of("niah_ordinal"))
def test_the_value_asked_for_is_the_one_at_its_place_and_places_vary(task: str) -> None:
    places = set()
    for row in rows_of(task, 24):
        found = re.fullmatch(
            r"What is the (\w+) special magic number for (\S+) mentioned in the provided text\?",
            row.question,
        )
        assert found and row.answer_prefix == (
            f" The {found[1]} special magic number for {found[2]} mentioned in the provided text is"
        )
        values = [value for key, value in NEEDLE.findall(row.context) if key == found[2]]
        assert len(values) == int(task.rpartition("_")[2])
        assert row.outputs == (values[ORDER.split().index(found[1])],)
        places.add(found[1])
    assert len(places) >= 4


@pytest.mark.parametrize("task", of("niah_associated"))
def test_a_described_thing_shares_no_word_with_the_question(task: str) -> None:
    for row in rows_of(task):
        [span] = row.evidence
        needle = set(re.findall("[a-z]+", row.context[span.start : span.end].lower()))
        asked = set(re.findall("[a-z]+", row.question.lower()))
        assert needle & asked <= {"the"}
        description = re.search("for the (.+) mentioned", row.question)
        assert description and any(
            thing.lower() in needle for thing in associations()[description[1]]
        )


def test_no_thing_fits_two_descriptions_or_contains_one_of_their_words() -> None:
    known = associations()
    assert len(known) == 48 and all(len(set(things)) == 3 for things in known.values())
    assert all(not set(a) & set(b) for a, b in combinations(known.values(), 2))
    for description, things in known.items():
        words = {word for word in description.split() if len(word) > 3}
        assert not any(word in thing.lower() for word in words for thing in things)


@pytest.mark.parametrize("task", of("graph"))
def test_nodes_are_found_by_hand_and_every_node_has_as_many_edges(task: str) -> None:
    params = HARD[task].params
    assert isinstance(params, Graph)
    for row in rows_of(task):
        edges = re.findall(r"^([A-Z]{5}) -> ([A-Z]{5})$", row.context, re.MULTILINE)
        assert len(set(edges)) == len(edges) == row.context.count(" -> ") - 1
        node = re.search("[A-Z]{5}", row.question)
        assert node
        if params.ask == "parents":
            found = {a for a, b in edges if b == node[0]}
        else:
            found = {node[0]}
            for _ in range(params.steps):
                found |= {b for a, b in edges if a in found}
            found -= {node[0]}
        assert found == set(row.outputs) and len(found) == len(row.outputs) == params.answers
        for side in zip(*edges, strict=True):
            counts = Counter(side)
            assert max(counts.values()) == params.degree
            assert (
                sum(params.degree - counts[name] for name in {*sum(edges, ())}) <= 2 * params.degree
            )
            assert all(counts[name] >= params.degree - 1 for name in row.outputs)


@pytest.mark.parametrize("task", [*of("cwe_ratio"), *of("fwe")])
def test_frequent_words_are_told_from_the_next_without_a_tie(task: str) -> None:
    for row in rows_of(task):
        text = row.context.rpartition("appear most often.\n")[2]
        pattern = r"[0-9]+\. ([a-z-]+)" if "cwe" in task else r"\b[a-z]{6}\b"
        text = text.rpartition("coded words. ")[2]
        ranked = Counter(re.findall(pattern, text)).most_common(11)
        assert {word for word, _ in ranked[:10]} == set(row.outputs)
        assert ranked[9][1] > ranked[10][1]
        if "cwe" in task:
            assert [count for _, count in ranked] == [int(task.split("_")[2])] * 10 + [3]


@pytest.mark.parametrize("task", of("cwe_count"))
def test_a_counted_word_has_a_count_of_its_own_among_others(task: str) -> None:
    most, params = int(task.rpartition("_")[2]), HARD[task].params
    assert isinstance(params, Cwe)
    for row in rows_of(task, 12):
        word = re.search('"(.+)"', row.question)
        counts = Counter(re.findall(r"[0-9]+\. ([a-z-]+)", row.context))
        assert word and row.outputs == (str(counts[word[1]]),)
        assert 4 <= counts[word[1]] <= most and len(row.evidence) == counts[word[1]]
        often = [count for count in counts.values() if count > 3]
        assert len(often) == len(set(often)) == params.common >= 12


@pytest.mark.slow
def test_the_suite_is_built_verified_run_resumed_and_scored(tmp_path: Path, cli: Cli) -> None:
    folder, out = tmp_path / "data", tmp_path / "run"
    options = ("--suite", "hard", "--lengths", 4096, "--rows", 3, "--out", folder)
    built = cli("build", "--tokenizer", "mistral-v0.2", *options)
    assert built.returncode == 0, built.stderr
    assert "SAMPLE" not in built.stdout  # nothing of it is a source that may be missing
    assert cli("verify", folder).returncode == 0
    for config in folder.glob("*_4096/*.parquet"):
        assert len(list(read_rows(config))) == 3
    broken = evaluate(*order(folder, out, "--option", "fail=1"))
    assert broken.returncode != 0
    done = evaluate(*order(folder, out))
    assert done.returncode == 0, done.stderr
    scored = evaluate("score", out, "--data", folder, "--json")
    assert scored.returncode == 0, scored.stderr
    assert '"value": 100.0' in scored.stdout
