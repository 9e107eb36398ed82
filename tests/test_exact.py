"""The exact score: written out by hand for every family, and what must hold for any row."""

import json
import random
import re
from dataclasses import replace
from pathlib import Path
from time import process_time
from typing import Literal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ruler_builders.pipeline.fit import make_row
from ruler_data import TASKS, Row
from ruler_data.row import Span
from ruler_data.suites import packaged
from ruler_data.tasks import Niah, Task
from ruler_eval.scoring.exact import exact_scores, exact_without_context
from ruler_eval.scoring.labels import MEANINGS, failure_of
from ruler_eval.scoring.loading import load_scores
from ruler_eval.scoring.metrics import clean, score_row
from ruler_eval.scoring.scorer import depths_of, shown_of
from ruler_eval.scoring.wording import denies, lower, segments
from tests.commands import succeeded
from tests.labelled_answers import RIGHT, labelled_answers
from tests.rows import counted, make, target
from tests.running.processes import evaluate
from tests.runs import golden, refused, reported, scored_run

ALL = {name: task for suite in packaged().values() for name, task in suite.tasks.items()}


def written(context: str, question: str, *outputs: str) -> Row:
    return Row(0, "by_hand", context, question, "", outputs, 128, 4096, ())


def needles(kind: str, asked: str, pairs: dict[str, str], *outputs: str) -> Row:
    lines = (
        f"One of the special magic {kind} for {key} is: {value}." for key, value in pairs.items()
    )
    question = f"What are all the special magic {kind} for {asked} mentioned in the provided text?"
    return written("A well-known text.\n" + "\n".join(lines), question, *outputs)


U1, U2 = "683f0991-c101-414b-a42e-fb493dccbbc6", "0a1b2c3d-0000-4000-8000-0123456789ab"
K1 = "11112222-3333-4444-8555-666677778888"
EXAMPLE = "Track it.\nVAR COM = 95205\nQuestion: x Answer: they are: COM PQR\n\nTrack it.\n"
ROWS: dict[str, tuple[Task, Row]] = {
    "number": (TASKS["niah_single_1"], needles(
        "numbers", "dull-moon", {"dull-moon": "1234567", "full-moon": "7654321"}, "1234567")),
    "numbers": (TASKS["niah_multiquery"], needles(
        "numbers", "dull-moon, and 9090909", {"dull-moon": "1234567", "9090909": "2345678",
                                              "x-y": "7654321"}, "1234567", "2345678")),
    "words": (ALL["niah_w_w"], needles(
        "words", "dull-moon", {"dull-moon": "odd-hat", "full-moon": "big-cat"}, "odd-hat")),
    "uuid": (TASKS["niah_multikey_3"], needles("uuids", K1, {K1: U1, "k": U2}, U1)),
    "there": (ALL["niah_there"], needles(
        "numbers", "dull-moon", {"dull-moon": "1234567"}, "1234567")),
    "absent": (ALL["niah_not_there"], needles(
        "numbers", "dull-moon", {"full-moon": "7654321"}, "none")),
    "vt": (ALL["vt_chains_2"], written(
        f"{EXAMPLE}VAR QZKRA = 48213\nThe sky is blue.\nVAR PLMEW = VAR QZKRA\nVAR UVWXY = 11111\n",
        "Question: Find all variables that are assigned the value 48213 in the text above.",
        "QZKRA", "PLMEW")),
    "cwe": (TASKS["cwe"], written(
        "Below is a list. 1. kettle 2. wise 3. lantern 4. kettle 5. lantern 6. word 7. top\n",
        "Question: What are the 10 most common words in the above list?", "kettle", "lantern")),
    "fwe": (TASKS["fwe"], written(
        "Find the coded words. qwerty ... asdfgh ... zxcvbn ... qwerty uiopas\n",
        "Question: What are the three most frequently appeared words?", "qwerty", "asdfgh")),
    "qa": (TASKS["qa_1"], written("Document 1:\nParis is in France.", "Question: Where?",
                                  "the city of Paris", "Paris")),
    "yes": (TASKS["qa_2"], written("Document 1:\nBoth are.", "Question: Are both?", "yes")),
}  # fmt: skip

#: Family, answer, exact score, F1.
TABLE: list[tuple[str, str, float, float]] = [
    ("number", "\\boxed{1234567}", 1, 1),
    ("number", "```json\n1234567\n```", 1, 1),
    ("number", "| 1234567 |\n|---|", 1, 1),
    ("number", "| 7654321 |\n|---|\n| 1234567 |", 1, 1),
    ("number", "1234567 or 5555555", 0, 2 / 3),
    ("number", "1234567, 76543", 1, 1),  # the beginning of a needle, where the answer ends
    ("number", "1234567, 76543.", 0, 2 / 3),  # a number that is complete
    ("number", "1234567, at position 10,234 of 25,000 (line 12345)", 1, 1),
    ("number", "1234567, 10000000, 10000000, 10000000,", 0, 2 / 3),  # more items of a list
    ("number", "<think>1234567? 7654321?</think>1234567", 1, 1),
    ("number", "1,234,567", 0, 1),  # read, but not as upstream reads it
    ("numbers", "dull-moon: 1234567, 9090909: 2345678", 1, 1),  # a number of the question
    ("numbers", "1234567, 7654321", 0, 2 / 4),
    ("words", "The well-known word, step-by-step: odd-hat", 1, 1),
    ("words", "odd-hat, big-c", 1, 1),
    ("words", "odd-hat-stand", 0, 0),
    ("uuid", f"The uuid for {K1} is `{U1}`.", 1, 1),
    ("uuid", f"{U1}, {U2[:20]}", 1, 1),
    ("uuid", U1[:-1], 0, 0),
    ("there", "1234567", 1, 1),
    ("there", "none, or 1234567", 0, 2 / 3),
    ("absent", "None.", 1, 1),
    ("absent", "none, or 7654321", 0, 2 / 3),
    ("vt", "1. VAR QZKRA\n2. VAR PLMEW", 1, 1),
    ("vt", "The variables with the value 48213 are **QZKRA** and **PLMEW**.", 1, 1),
    ("vt", "FINAL ANSWER: QZKRA, PLMEW", 1, 1),
    ("vt", "QZKRA, PLMEW, UVW", 1, 1),
    ("vt", "QZKRA, PLMEW, uvwxy", 0, 4 / 5),
    ("vt", "QZKRA, PLMEW, ABCDE", 0, 4 / 5),
    ("vt", "QZKRA, PLMEW, COM", 0, 4 / 5),  # a name of the example
    ("vt", "\\QZKRA\n\\PLMEW", 1, 1),
    ("vt", "```QZKRA PLMEW```", 1, 1),
    ("cwe", "The top words that appear most often in the list are kettle and lantern.", 1, 1),
    ("cwe", "Absolutely, here are the words: kettle, lantern (roughly)", 1, 1),
    ("cwe", "kettle, lantern, zebra", 0, 4 / 5),
    ("cwe", "1. kettle 2. lantern 3. wi", 1, 1),
    ("cwe", '```json ["kettle", "lantern"]```', 1, 1),
    ("cwe", "1. kettle: appears 30 times\n2. lantern: appears 28 times\nWord: count", 1, 1),
    ("cwe", "1. kettle: appears 30 times\n2. lantern: appears 28 times\n3. wise: rare", 0, 4 / 5),
    ("cwe", "kettle! lantern! wise!", 0, 4 / 5),
    ("cwe", "Wise! kettle, lantern", 1, 1),
    ("cwe", "1. kettle is said often\n2. lantern is said often\n3. top is rarely said", 0, 4 / 5),
    ("cwe", "kettle lantern " + "of the wise " * 20, 0, 4 / 5),
    ("fwe", "qwerty (first), asdfgh (second); excluding the dots", 1, 1),
    ("fwe", '{"qwerty": "many", "asdfgh": "many"}', 1, 1),
    ("fwe", "qwerty asdfgh qqqqqq", 0, 4 / 5),  # without separators
    ("fwe", "|qwerty|asdfgh|\n|---|---|", 1, 1),
    ("fwe", "qwerty and asdfgh, while zxcvbn comes next", 0, 4 / 5),
    ("qa", "Answer: Paris", 1, 1),
    ("qa", "The final answer is \\boxed{\\text{Paris}}.", 1, 1),
    ("qa", "Paris, the city of light", 0, 6 / 7),
    ("qa", "", 0, 0),
    ("yes", "Yes.", 1, 1),
    ("yes", "yes and no", 0, 0),
]


@pytest.mark.parametrize(("kind", "said", "exact", "f1"), TABLE)
def test_exact_score_and_f1_are_by_hand(kind: str, said: str, exact: float, f1: float) -> None:
    task, row = ROWS[kind]
    answer = clean(said)
    found = exact_scores(row, task, answer, score_row(row, task, answer))
    assert found[0] == exact
    assert found[1] == pytest.approx(f1)


def row_of(name: str) -> Row:
    return make("mistral", name, 0)


def other_of_its_kind(row: Row, task: Task) -> str:
    """Return an answer of the kind of the gold ones that no row has."""
    params = task.params
    if isinstance(params, Niah):
        values = {"numbers": "9999991", "words": "zorbulent-wumbling", "uuids": U2}
        return values[params.value_type]
    first = row.outputs[0]
    if first.isdigit():
        return "9999"
    name = "Q" * len(first)
    return {"vt": name, "graph": name, "cwe": "zorbulent", "fwe": "qqqqqq", "qa": "Zanzibar"}[
        params.family
    ]


@pytest.mark.parametrize("name", [name for name in ALL if name not in packaged()["ruler2"].tasks])
def test_gold_answers_are_exact_and_one_more_is_not(name: str) -> None:
    task, row = ALL[name], row_of(name)
    gold = list(row.outputs[:1] if task.metric == "part" else row.outputs)

    def scores(answers: list[str]) -> tuple[float, float]:
        said = ", ".join(answers)
        return exact_scores(row, task, said, score_row(row, task, said))

    assert scores(gold) == (1.0, 1.0)
    exact, f1 = scores([*gold, other_of_its_kind(row, task)])
    assert exact == 0 and 0 < f1 < 1
    assert scores([]) == (0.0, 0.0)


@pytest.mark.parametrize("name", ["niah_multiquery", "vt", "cwe", "fwe", "qa_1", "niah_w_w"])
@given(data=st.data())
def test_the_exact_score_is_never_above_recall(name: str, data: st.DataObject) -> None:
    task, row = ALL[name], row_of(name)
    marks = ("VAR", "1.", "**", "<think>", "Ünïcödé", "\\")
    words = [*row.outputs, *row.context.split()[-40:], *marks]
    chosen = data.draw(st.lists(st.sampled_from(words), max_size=15))
    said = clean(data.draw(st.sampled_from([" ", ", ", "\n", "-", ""])).join(chosen))
    score = score_row(row, task, said)
    exact, f1 = exact_scores(row, task, said, score)
    assert exact in (0, 1) and 0 <= f1 <= 1 and exact <= score
    assert exact == 0 or f1 == 1
    assert exact_without_context(replace(row, context=""), task, said, score) in (None, (exact, f1))


@given(seed=st.integers(0, 10**6))
def test_order_and_repetition_do_not_matter(seed: int) -> None:
    rng = random.Random(seed)
    for name in ("niah_multiquery", "vt", "cwe", "fwe"):
        row = row_of(name)
        said = ", ".join(rng.choices(row.outputs, k=3) + rng.sample(row.outputs, len(row.outputs)))
        assert exact_scores(row, ALL[name], said, 1.0) == (1.0, 1.0)


CONFIGS = ("niah_multikey_1_4096", "vt_4096", "niah_multiquery_4096")


def listing(_config: str, row: Row) -> str:
    """List every candidate of the context: variables, numbers."""
    candidates = re.findall(r"VAR ([A-Z]+)|\b(\d{7})\b", row.context)
    return ", ".join(name or number for name, number in candidates)


@pytest.fixture(scope="module")
def runs(sample_build: Path, tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    folder = tmp_path_factory.mktemp("exact")
    right = scored_run(folder / "golden", sample_build, golden, CONFIGS)
    return right, scored_run(folder / "listing", sample_build, listing, CONFIGS)


def test_a_listing_scores_100_and_is_never_exact(runs: tuple[Path, Path]) -> None:
    right, listed = (load_scores(run).to_pandas() for run in runs)
    assert {*right["exact"]} == {*right["f1"]} == {1.0} and right["label"].isna().all()
    for task in ("niah_multikey_1", "vt"):  # of niah_multiquery all needles are asked for
        lines = listed[listed["task"] == task]
        assert {*lines["official"]} == {1.0} and {*lines["exact"]} == {0.0}
        assert lines["f1"].between(0, 1, inclusive="neither").all()
        assert {*lines["label"]} == {"more than the gold answers"}


def test_report_and_compare_show_it(runs: tuple[Path, Path], tmp_path: Path) -> None:
    page = reported(tmp_path / "out", runs[1])
    assert "| vt | 100 \\(0\\) |" in page.replace("(", "\\(").replace(")", "\\)")
    assert "more than the gold answers" in page
    done = evaluate("compare", *runs, "--score", "exact", "--json")
    gap = json.loads(done.stdout)["differences"][0]["gaps"][0]
    assert gap["value"] == pytest.approx(200 / 3)
    said = refused(evaluate("compare", *runs, "--score", "best"), code=2)
    assert "--score 'best': not known; known: official, exact" in said


def test_score_says_it(runs: tuple[Path, Path], sample_build: Path) -> None:
    done = succeeded(evaluate("score", runs[1], "--data", sample_build))
    assert re.search(r"mean of \d tasks 100\.0 \[.*\]; exact \d\d\.\d", done.stdout)
    assert "right officially and never exactly: " in done.stderr


def row(task: str) -> Row:
    return make("mistral", task, 3)


def test_labels_and_exact_scores_are_right_on_answers_of_known_label() -> None:
    wrong, labels = [], set()
    every = list(labelled_answers())
    for one, task, label, text in every:
        said = clean(text)
        score = score_row(one, task, said)
        exact, _ = exact_scores(one, task, said, score)
        assert exact <= score
        found = failure_of(one, task, said, score) or RIGHT
        labels.add(found)
        if found != label or (label == RIGHT and exact < 1 and task.metric == "all"):
            wrong.append(f"{task.name}: {found}, not {label}, exact {exact}: {text}")
    assert labels == {RIGHT, *MEANINGS} and len(every) > 2500
    assert len(wrong) <= 0.02 * len(every), "\n".join(wrong)


def test_what_stands_before_a_colon_or_an_equals_sign_is_a_label_but_before_a_number() -> None:
    found = {tuple(one.words): one.is_label for one in segments("Answer: red. A = 5. B: 6, c!")}
    assert found == {("Answer",): True, ("red",): False, ("A",): False, (): False, ("B",): False,
                     ("c",): True}  # fmt: skip


def test_a_context_is_read_as_an_answer_is() -> None:
    assert lower("It\u2019s ME") == "it's me"


@pytest.mark.parametrize("wording", ["paraphrased", "split"])
def test_needles_of_other_wordings_are_needles(wording: Literal["paraphrased", "split"]) -> None:
    params = Niah("essays", keys=4, wording=wording)
    task = replace(TASKS["niah_multikey_1"], name="niah_other", params=params)
    made = make_row(task, counted("mistral"), 3, target("mistral", 4096)).unpack()
    values = set(re.findall(r"\b\d{7}\b", made.context)) - set(made.outputs)
    assert len(values) == 3
    (label,) = {failure_of(made, task, value, 0.0) for value in values}
    assert label == "wrong, from the context"


@pytest.mark.parametrize(
    ("said", "label"),
    [
        ("It was on 18 May 1756.", None),
        ("18 May 1756 or 1666", None),  # no year of the context
        ("May 18", "incomplete"),
        ("1763", "wrong, from the context"),
        ("1815", "not in the context"),
        ("I could not find the year of that war.", "refusal"),
    ],
)
def test_a_date_is_read_in_every_form(said: str, label: str | None) -> None:
    text = "Document 1:\nWar was declared on 18 May 1756 in London. It ended in 1763."
    asked = "Question: When was the war declared?"
    one = Row(0, "qa_1", text, asked, " Answer:", ("18 May 1756",), 32, 4096, ())
    score = score_row(one, TASKS["qa_1"], said)
    assert failure_of(one, TASKS["qa_1"], said, score) == label


FORM, PART = "right, in another form", "incomplete"
CONTEXT, ABSENT = "wrong, from the context", "not in the context"


@pytest.mark.parametrize(
    ("gold", "said", "label"),
    [
        ("super-regional website", "superregional web site", FORM),
        ("twelve", "12", FORM),
        ("£42,090", "$42,090", FORM),
        ("Sandra Miju Oh", "Sandra Oh", FORM),
        ("The European Court of Justice", "The Court of Justice", PART),
        ("Mary Stanley", "Mary Plowden", CONTEXT),  # of a question that names Stanley
        ("Mary Stanley", "Mary", FORM),
        ("Bob Seger", "Robert C Seger", "not in the context"),
        ("A", "Norway", "not in the context"),  # an article, of which no word is left
    ],
)
def test_names_and_numbers_are_known_in_other_forms(gold: str, said: str, label: str) -> None:
    text, asked = "Document 1:\nMary Plowden.", "Question: Which daughter of Edward Stanley?"
    one = Row(0, "qa_1", text, asked, "", (gold,), 32, 4096, ())
    assert failure_of(one, TASKS["qa_1"], said, 0.0) == label


@pytest.mark.parametrize(
    ("said", "label"),
    [("12345", "incomplete"), ("It is 1234.", "incomplete"), ("It is 123", "no answer")],
)
def test_the_beginning_of_a_gold_answer_is_a_part_of_it(said: str, label: str) -> None:
    text = "The number for a is: 1234567. The number for b is: 7654321."
    one = Row(0, "niah_single_1", text, "", "", ("1234567",), 32, 4096, ())
    assert failure_of(one, TASKS["niah_single_1"], said, 0.0) == label


@pytest.mark.parametrize(("said", "label"), [("It is 654321.", CONTEXT), ("It is 654322.", ABSENT)])
def test_a_piece_of_another_number_is_from_the_context(said: str, label: str) -> None:
    assert failure_of(ROWS["number"][1], TASKS["niah_single_1"], said, 0.0) == label


@pytest.mark.parametrize(
    ("said", "label"),
    [("big-cat", CONTEXT), ("fat-cat", ABSENT), ("big-fat", ABSENT)],
)
def test_a_word_is_from_the_context_if_it_stands_there_and_not_as_a_part_of_a_longer_one(
    said: str, label: str
) -> None:
    pairs = {"dull-moon": "odd-hat", "full-moon": "big-cat", "new-moon": "big-fat-cat"}
    row = needles("words", "dull-moon", pairs, "odd-hat")
    assert failure_of(row, ALL["niah_w_w"], said, 0.0) == label


@pytest.mark.parametrize(
    "text",
    ["x" + "\n" * 20_000 + "x", ". " * 10_000, "let me " + " " * 20_000,
     "x\n" + " " * 100_000 + "!", "|" * 100_000, "1" * 100_000],
)  # fmt: skip
@pytest.mark.parametrize("task", ["niah_single_1", "cwe", "qa_1"])
def test_an_endless_answer_is_read_in_little_time(task: str, text: str) -> None:
    start = process_time()
    failure_of(row(task), TASKS[task], text, 0.0)
    exact_scores(row(task), TASKS[task], text, 0.0)
    assert process_time() - start < 3


@pytest.mark.parametrize("longer", ["{}8", "4{}", "{}{}"])
def test_a_longer_value_around_the_gold_one_is_more_than_the_gold_answers(longer: str) -> None:
    one, task = row("niah_single_1"), TASKS["niah_single_1"]
    said = longer.format(*one.outputs * 2)
    assert score_row(one, task, said) == 1 and exact_scores(one, task, said, 1.0)[0] == 0
    assert failure_of(one, task, said, 1.0) == "more than the gold answers"


@pytest.mark.parametrize("named", range(5))
def test_a_needle_is_shown_where_its_value_is_named(named: int) -> None:
    one = row("niah_multivalue")
    shown = shown_of(one, " ".join(one.outputs[:named]), named / 4)
    assert sum(shown) == named and len(shown) == len(one.evidence)
    assert all(0 <= depth < 1 for depth in depths_of(one))


def test_half_of_a_needle_and_an_earlier_value_are_shown_where_a_row_scores_at_all() -> None:
    text = "a: 1234567. b: seven. c: 7654321 was 1234567."
    spans = (Span(0, 11), Span(12, 21), Span(22, 45))
    needle = replace(written(text, "?", "1234567", "7654321"), evidence=spans)
    assert shown_of(needle, "It is 1234567", 0.5) == [True, True, False]
    assert shown_of(needle, "It is 7654321", 0.5) == [False, True, True]
    assert shown_of(needle, "anything", 1.0) == [True] * 3
    words = replace(written("a: Odd-Hat. b: x", "?", "odd-HAT", "y"), evidence=spans[:1])
    assert shown_of(words, "An ODD-hat", 0.5) == [True] != shown_of(words, "odd", 0.5)
    assert shown_of(needle, "1234567", 0.0) == [False] * 3


def test_a_needle_of_an_imported_row_stands_at_its_share_of_the_context() -> None:
    one = replace(written("0123456789" * 10, "?", "x"), evidence=(Span(25, 30), Span(99, 100)))
    assert depths_of(one) == [0.25, 0.99]
    assert depths_of(replace(one, haystack=Span(20, 40))) == [0.25, 79 / 20]


@pytest.mark.parametrize(
    ("said", "denied", "without_names"),
    [
        ("I couldn't find it.", True, True),
        ("Sorry, the text does not mention a number.", True, True),
        ("Norway", False, False),
        ("It was not Ann.", False, True),
        ("NO", False, True),
        ("It isn\u2019t Ann.", False, True),
        ("no-one", False, False),
        ("Not Ann. Not Bob. Not Carl.", False, False),  # many sentences, which tell something
        ("Ann", False, False),
    ],
)
def test_a_text_denies_that_the_answer_is_there(
    said: str, denied: bool, without_names: bool
) -> None:
    assert (denies(said), denies(said, names=False)) == (denied, without_names)
