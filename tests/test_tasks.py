"""The table of tasks: all that a suite says of them, and which parameters go together."""

import json
from dataclasses import asdict

import pytest

from ruler_data.suites import packaged
from ruler_data.tasks import Cwe, Fwe, Graph, Niah, Params, Qa
from tests.test_golden import compare

DOMAINS = Niah("domains", domains=("legal", "code"))
COUNT = Cwe(ask="count", example=False)

#: Parameters that do not go together, and why; then the nearest ones that do.
PAIRS: list[tuple[Params, str, Params]] = [
    (Niah("noise", queries=2), "queries: 2 keys are queried and there are 1",
     Niah("noise", keys=2, queries=2)),
    (Niah("noise", depths=1), "depths: a grid has at least two depths", Niah("noise", depths=2)),
    (Niah("noise", depths=2, keys=2), "depths: a grid needs one needle per row",
     Niah("noise", keys=2)),
    (Niah("noise", depths=2, values=2), "depths: a grid needs one needle per row",
     Niah("noise", depths=0, values=2)),
    (Niah("noise", none="true", values=2), "none: a missing key needs one query and one value",
     Niah("noise", none="possible", values=2)),
    (Niah("noise", none="true", keys=2, queries=2),
     "none: a missing key needs one query and one value", Niah("noise", none="true", keys=2)),
    (Niah("noise", residues=128), "residues: needs a haystack of domains, and no grid of depths",
     Niah("domains", domains=("legal",), residues=128)),
    (Niah("domains", domains=("legal",), residues=2, depths=2),
     "residues: needs a haystack of domains, and no grid of depths",
     Niah("domains", domains=("legal",), depths=2)),
    (Niah("needles", wording="json"),
     "wording: a json needle would stand out in a haystack of needles",
     Niah("essays", wording="json")),
    (Niah("domains"), "haystack: `domains` needs the key `domains`", DOMAINS),
    (Niah("essays", domains=("legal",)),
     "domains: only for a haystack of domains, and this one is of essays", Niah("essays")),
    (Niah("domains", domains=("a", "b", "a")), "domains: one occurs twice", DOMAINS),
    (Niah("noise", ordinal=True),
     "ordinal: needs 2 to 16 values of a key, and there are 1",
     Niah("noise", ordinal=True, values=2)),
    (Niah("noise", ordinal=True, values=17),
     "ordinal: needs 2 to 16 values of a key, and there are 17",
     Niah("noise", ordinal=True, values=16)),
    (Niah("noise", ordinal=True, values=2, keys=2, queries=2),
     "ordinal: the question is about one value, which is there",
     Niah("noise", ordinal=True, values=2, keys=2)),
    (Niah("noise", ordinal=True, values=2, none="possible"),
     "ordinal: the question is about one value, which is there",
     Niah("noise", values=2, none="possible")),
    (Niah("noise", ordinal=True, values=2, wording="split"),
     "ordinal: a needle in two places has no place among others",
     Niah("noise", values=2, wording="split")),
    (Niah("noise", wording="associated", keys=49),
     "wording: associated needs one query, and at most 48 keys",
     Niah("noise", wording="associated", keys=48)),
    (Niah("noise", wording="associated", keys=2, queries=2),
     "wording: associated needs one query, and at most 48 keys",
     Niah("noise", wording="plain", keys=2, queries=2)),
    *(
        (Niah("noise", wording="associated", **more),
         "wording: associated needs keys of words, without `lookalikes` and `none`",
         Niah("noise", **more))
        for more in ({"key_type": "uuids"}, {"lookalikes": 1}, {"none": "true"})
    ),
    (Cwe(common_repeats=3), "other_repeats: 3 is not below 3", Cwe(common_repeats=4)),
    (Cwe(ask="count"), "ask: a question about a count has no example; add `example: false`",
     COUNT),
    (Cwe(ask="count", example=False, common=10, common_repeats=12),
     "common: 10 words have no different counts from so small a range",
     Cwe(ask="count", example=False, common=10, common_repeats=13)),
    (Cwe(vocabulary=10), "vocabulary: 10 words are too few for 10 common ones",
     Cwe(vocabulary=11)),
    (Fwe(vocabulary=6, top=5), "vocabulary: 6 words are too few to ask for 5",
     Fwe(vocabulary=7, top=5)),
    (Qa("../a.json"), "source: '../a.json' is neither squad, hotpotqa nor a name like mine.json",
     Qa("a.json")),
    (Graph("parents", steps=2), "steps: parents are one step away", Graph("parents")),
    (Graph("within"), "steps: needs 2 or more for `ask: within`", Graph("within", steps=2)),
    (Graph("within", steps=6), "steps: 126 nodes are in the answer, and at most 64 may be",
     Graph("within", steps=5)),
]  # fmt: skip


@pytest.mark.parametrize("number", range(len(PAIRS)))
def test_parameters_that_do_not_go_together_are_named_and_their_neighbours_are_not(
    number: int,
) -> None:
    wrong, why, right = PAIRS[number]
    assert (wrong.impossible, right.impossible) == (why, "")


def test_only_needles_with_a_word_draw_on_the_words() -> None:
    for params, sources in (
        (Niah("noise", key_type="numbers"), ()), (Niah("noise"), ("words",)),
        (Niah("noise", key_type="numbers", value_type="words"), ("words",)),
        (Niah("noise", key_type="numbers", wording="split"), ("words",)),  # its alias is one
        (Niah("noise", wording="associated"), ("associations",)),
    ):  # fmt: skip
        assert params.sources == sources


def test_all_that_the_suites_of_the_package_say_of_their_tasks_is_golden() -> None:
    lines = list[str]()
    for suite in packaged().values():
        lines.append(f"{suite.name}: {suite.about} {suite.lengths} {suite.rows} rows")
        for name, task in suite.tasks.items():
            more = (task.metric, task.category, task.sources, task.fills, task.below(129))
            lines.append(f"{suite.name}: {name}: {json.dumps([*more, asdict(task)])}")
    compare("suites.txt", "\n".join(lines) + "\n")
