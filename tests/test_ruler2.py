"""The suite `ruler2`: prompts of upstream, answers found by hand, scores computed twice."""

import hashlib
import json
import re
from dataclasses import replace
from itertools import product
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

import ruler_builders
import ruler_data
from ruler_builders import prompts as prompts
from ruler_builders.exchange.identify import Identities
from ruler_builders.exchange.imports import Imported, import_rows
from ruler_builders.pipeline.fit import make_rows
from ruler_builders.sources import Library
from ruler_builders.sources.qa import read_choices
from ruler_builders.tasks.ruler2 import _holding, _repeated
from ruler_data import Row
from ruler_data.errors import RulerError, UsageError
from ruler_data.suites import packaged
from ruler_data.tasks import Ruler2
from ruler_eval.running.oracle import gold_text
from ruler_eval.scoring.exact import exact_scores
from ruler_eval.scoring.metrics import (
    SCORERS,
    chosen_letter,
    soft_all,
    soft_last,
    soft_match,
    soft_part,
)
from tests.rows import counted, counter, make, rows_of, target

SUITE = packaged()["ruler2"].tasks
SOLVED = ("mk_niah_medium", "mk_niah_hard")
#: What rows of upstream's own generators drew from the sample corpus, and sha256 of their prompts
#: (benchmarks/ruler2.py --freeze).
FROZEN = json.loads(Path("tests/golden/ruler2-prompts.json").read_text(encoding="utf-8"))
WORDS = st.lists(st.sampled_from(["Paris", "is", "the", "İstanbul", "x.", "ß"]), max_size=8)


def params_of(name: str) -> Ruler2:
    params = SUITE[name].params
    assert isinstance(params, Ruler2)
    return params


def texts_of(row: Row) -> list[tuple[str, str]]:
    """Label and text of all texts of the haystack, read line by line or by empty lines."""
    if row.context.startswith(("A special", "Some special")):
        lines = row.context.splitlines()[1:]
        return [(one.split(" ")[7], one.split(" ")[9].rstrip(".")) for one in lines]
    _, *pieces = row.context.removesuffix("\n\n").split("\n\n")
    found = list[tuple[str, str]]()
    for piece in pieces:
        label = re.match(r"(?:Question|Document) (\d{7}):[ \n]", piece)
        if label:
            found.append((label[1], piece[label.end() :]))
        else:  # a document with an empty line in it
            found[-1] = found[-1][0], f"{found[-1][1]}\n\n{piece}"
    return found


def prompt_of(name: str) -> str:
    """The prompt of frozen parts, by our prompts alone."""
    drawn, params = FROZEN[name], params_of(name)
    examples = [prompts.Example(*one) for one in drawn["examples"]]
    frame = prompts.ruler2(params, drawn["query"], drawn["place"], examples)
    basic = params.level == "basic" and params.kind != "qa"
    label = prompts.DOCUMENT if params.kind == "qa" else prompts.KEY if basic else prompts.QUESTION
    end = prompts.PERIOD if basic else prompts.EMPTY_LINE
    texts = "".join(f"{label.format(one)}{text}{end}" for one, text in drawn["texts"])
    return f"{frame.head}{texts}{frame.tail}{frame.question}{frame.prefix}"


@pytest.mark.parametrize("name", SUITE)
def test_a_prompt_is_upstreams_to_the_character(name: str) -> None:
    assert hashlib.sha256(prompt_of(name).encode()).hexdigest() == FROZEN[name]["sha256"]


@pytest.mark.parametrize("name", SOLVED)
def test_five_questions_of_the_context_are_solved_as_examples(name: str) -> None:
    library = Library(kind="sample").choices[0]
    letters = {one.text: one.letter for one in (*library.queries, *library.haystack)}
    for row in rows_of(name, rows=3):
        texts = dict(texts_of(row))
        solved = re.findall(r"Question (\d{7}) from [^\n]+\n(.*?)Solution: \\boxed\{(.)\}",
                            row.question, re.DOTALL)  # fmt: skip
        assert len(solved) == 5
        for number, copied, letter in solved:
            assert letters[texts[number]] == letter
            assert copied in ("", f"Question {number}: {texts[number]}\n")


@pytest.mark.parametrize("name", SUITE)
def test_rows_are_full_and_have_room_for_a_copy_of_all_that_is_asked_for(name: str) -> None:
    count = counter("mistral").count
    for row in rows_of(name):
        assert 0.99 * 4096 <= row.length <= 4096
        gold = [row.context[span.start : span.end] for span in row.evidence]
        copied = gold if name in ("mk_niah_medium", "mv_niah_medium", "qa_medium") else []
        if params_of(name).level != "basic" and not name.startswith("qa") and name not in SOLVED:
            copied += gold[: len(row.outputs)]
        wanted = "\n\n".join([*copied, *row.outputs])
        assert count([wanted])[0] <= row.max_new_tokens


@pytest.mark.parametrize("name", ["qa_medium", "qa_hard"])
def test_no_document_but_the_gold_ones_holds_an_answer(name: str, shared: Path) -> None:
    for index in (5, 16, 17):  # other documents of the source hold their answers
        row = make("mistral", name, index, 4096, shared / "sources")
        gold = {row.context[span.start : span.end] for span in row.evidence}
        others = [text for _, text in texts_of(row) if not any(text in one for one in gold)]
        assert len(others) > 10
        for output in {*row.outputs} - {"yes", "no"}:
            assert not any(output.lower() in text.lower() for text in others)


def edits(said: list[str], wanted: list[str]) -> int:
    """The Levenshtein distance of words, by the book."""
    row = list(range(len(wanted) + 1))
    for at, word in enumerate(said, 1):
        last, row[0] = row[0], at
        for to, other in enumerate(wanted, 1):
            last, row[to] = row[to], min(row[to] + 1, row[to - 1] + 1, last + (word != other))
    return row[-1]


@given(said=WORDS, wanted=WORDS.filter(bool), more=WORDS.filter(bool))
def test_soft_scores_are_one_minus_wer(said: list[str], wanted: list[str], more: list[str]) -> None:
    def by_hand(answer: str, output: str) -> float:
        low, gold = answer.lower(), output.lower()
        return float(gold in low) or max(
            0, 1 - edits(low.split(), gold.split()) / len(gold.split())
        )

    answer, outputs = "\t".join(said), [" ".join(wanted), " ".join(more)]
    scores = [by_hand(answer, output) for output in outputs]
    assert [soft_match(answer, output) for output in outputs] == scores
    assert soft_all(answer, outputs) == sum(scores) / 2
    assert soft_part(answer, outputs) == max(scores)
    assert soft_last(f"{' '.join(more)}\n\n{answer}", outputs) == sum(scores) / 2


#: Computed by NVIDIA-NeMo/Gym at 07d6b0d07, resources_servers/ruler2/app.py.
SCORED = [
    ("soft_all", "a b x d", ("a b c d",), 0.75),
    ("soft_all", "Question 7: one two", ("one two", "three"), 0.5),
    ("soft_part", "Document 12:\nParis\n\nLyon", ("Paris",), 0.0),
    ("soft_part", "Document 12:\nParis\n\nIt is Paris", ("Paris", "x"), 1.0),
    ("soft_last", "one two\n\nthree", ("one two",), 0.0),
    ("soft_last", "one two\n\n", ("one two",), 0.0),
    ("soft_last", "three\n\none two", ("one two",), 1.0),
    ("letter", "\\boxed{\\text{C}}", ("C",), 1.0),
    ("letter", "\\boxed{A} or \\boxed{B}", ("B",), 1.0),
    ("letter", "\\boxed{ c }", ("C",), 1.0),
    ("letter", "**Answer:** b", ("B",), 1.0),
    ("letter", "The final answer is (D)", ("D",), 1.0),
    ("letter", "\\boxed{أ}", ("A",), 1.0),
    ("letter", "\\boxed {A}", ("A",), 0.0),
    ("letter", "\\boxed{A", ("A",), 0.0),
    ("letter", "A", ("A",), 0.0),
]


@pytest.mark.parametrize(("metric", "answer", "outputs", "score"), SCORED)
def test_scores_are_upstreams(
    metric: str, answer: str, outputs: tuple[str, ...], score: float
) -> None:
    assert SCORERS[metric](answer, outputs) == score  # type: ignore[index]


def test_a_final_answer_counts_at_the_end_of_the_text_as_in_nemo_skills() -> None:
    assert chosen_letter("The final answer is C\nbut \\boxed{B}") == "B"  # the port reads C
    assert chosen_letter("\\boxed{B}\nThe final answer is C") == "C"  # before 1079: B
    assert chosen_letter("\\boxed=B.\nThe final answer is  ") == "B"  # the port reads nothing


@pytest.mark.parametrize(
    "answer", ["\\boxed{A or B}", "Answer: A. No, answer: B", "The final answer is (A), no, (B)"]
)
def test_of_several_letters_the_last_counts(answer: str) -> None:
    assert chosen_letter(answer) == "B"


def test_a_text_that_holds_an_answer_in_other_letters_is_no_distractor() -> None:
    sources = counted("mistral")
    places = _holding(sources, ("hospital",)).nonzero()[0].tolist()
    assert places and _holding(sources, ("HOSPITAL",)).nonzero()[0].tolist() == places
    assert not _holding(sources, ("yes", "no")).any()


@pytest.mark.parametrize("name", SUITE)
def test_the_oracle_boxes_its_answer_where_the_text_before_the_haystack_asks_for_it(
    name: str,
) -> None:
    row = replace(rows_of(name)[0], question="Please solve it.")  # examples in it have boxes too
    text = ", ".join(row.outputs)
    assert gold_text(row) == (f"\\boxed{{{text}}}" if name in SOLVED else text)


@pytest.mark.parametrize("name", SUITE)
def test_gold_answers_are_exact_and_another_text_of_the_haystack_is_not(name: str) -> None:
    row, task = rows_of(name)[0], SUITE[name]
    assert exact_scores(row, task, gold_text(row), 1.0) == (1.0, 1.0)
    texts = [text for label, text in texts_of(row)]
    if name in SOLVED:
        answer = f"\\boxed{{{'ABCD'.replace(row.outputs[0], '')[0]}}}"
    elif row.outputs[0].isdigit() and params_of(name).kind == "qa":
        answer = next(label for label, _ in texts_of(row) if label not in row.outputs)
    else:
        answer = next(text for text in texts if not any(one in text for one in row.outputs))
    assert exact_scores(row, task, answer, 0.2)[0] == 0


@pytest.mark.parametrize(
    ("name", "exact", "f1"), [("qa_basic", 1, 1), ("qa_easy", 1, 1), ("mk_niah_basic", 0, 2 / 3)]
)
def test_one_gold_answer_is_exact_where_any_of_them_is_enough(
    name: str, exact: float, f1: float
) -> None:
    gold = ("1234567", "7654321")
    row = Row(0, name, "Document 1234567:\nParis", "Which?", "", gold, 32, 4096, ())
    assert exact_scores(row, SUITE[name], "1234567", 1.0) == (exact, f1)


def written(tmp_path: Path, *rows: dict[str, object]) -> Path:
    path = tmp_path / "mmlu.jsonl"
    path.write_text("".join(json.dumps(row, ensure_ascii=False) + "\n" for row in rows))
    return path


def choice(split: str, number: int, **changes: object) -> dict[str, object]:
    choices = [f"{number} {letter}" for letter in "wxyz"]
    row = {"split": split, "question": f"Is\u2028it {number}?", "choices": choices, "answer": 1}
    return {**row, **changes}


def test_the_haystack_is_of_the_training_split_where_there_is_one(tmp_path: Path) -> None:
    tests = [choice("test", number) for number in range(40)]
    found, _ = read_choices(written(tmp_path, *tests))
    assert (len(found.queries), len(found.haystack)) == (20, 20)
    assert (
        found.queries[1].text == "Is it 2? A. 2 w B. 2 x C. 2 y D. 2 z"
        and found.queries[1].letter == "B"
    )
    train = [choice("auxiliary_train", 100 + number) for number in range(20)]
    odd = [
        choice("test", 50, question="x" * (300 - 32)),
        choice("test", 52, question="x" * (301 - 32)),
        choice("test", 51, choices=["a", "b", "A ", "c"]),
        choice("test", 39),
    ]
    found, detail = read_choices(written(tmp_path, *tests, *odd, *train))
    assert (len(found.queries), len(found.haystack)) == (40, 20) and "auxiliary_train" in detail
    assert len(found.queries[-1].text) == 300


@pytest.mark.parametrize(
    ("row", "message"),
    [
        ({"split": "test"}, "mmlu.jsonl:1: not in the format of MMLU (KeyError: 'choices')"),
        (choice("test", 1, answer=4), "mmlu.jsonl:1: not in the format of MMLU (IndexError"),
        (choice("test", 1, choices=["a"]), "mmlu.jsonl:1: not in the format of MMLU (ValueError"),
        (choice("test", 1), "are too few; at least 20 of each"),
    ],
)
def test_what_is_not_mmlu_is_refused(tmp_path: Path, row: dict[str, object], message: str) -> None:
    with pytest.raises(RulerError, match=re.escape(message)):
        read_choices(written(tmp_path, row))


def test_rows_of_upstream_are_named_and_imported(tmp_path: Path) -> None:
    given = tmp_path / "rows-4096.jsonl"
    with given.open("w", encoding="utf-8") as file:
        for name, drawn in FROZEN.items():
            query, texts = drawn["query"], drawn["texts"]
            gold = [text for label, text in texts if label == query]
            numbers = [label for label, text in texts if text == query]
            answers = "C" if name in SOLVED else gold or numbers or texts[0][:1]
            record = {"question": prompt_of(name), "expected_answer": answers}
            file.write(json.dumps(record) + "\n")
    found = ruler_builders.identify(given, tokenizer="mistral")
    assert isinstance(found, Identities)
    assert {one.task for one in found} == {*SUITE} and found.failure
    assert all("RULER v2 of NeMo-Skills" in one.nearest for one in found)
    ruler_builders.identify(given, tokenizer="mistral", out=tmp_path / "rows")
    row = next(iter(ruler_data.load(tmp_path / "rows", "mv_niah_easy_4096")))
    assert row.prompt == prompt_of("mv_niah_easy") and len(row.evidence) == len(row.outputs)


@pytest.fixture(scope="module")
def theirs(tmp_path_factory: pytest.TempPathFactory) -> Imported:
    """Two rows of a config, whose answers stand in one text and in three, and one of another."""
    folder = tmp_path_factory.mktemp("theirs")
    drawn = (("qa_medium", "knitted silk"), ("qa_medium", "hospital"), ("mk_niah_basic", "1"))
    records = [{"question": prompt_of(name), "expected_answer": answer} for name, answer in drawn]
    given = folder / "rows-4096.jsonl"
    given.write_text("".join(f"{json.dumps(one)}\n" for one in records), encoding="utf-8")
    return import_rows(given, tokenizer="mistral", out=folder / "out")


def test_an_answer_that_several_texts_show_has_no_evidence(theirs: Imported) -> None:
    one, several = ruler_data.load(theirs.folder, "qa_medium_4096")
    (span,) = one.evidence
    assert one.context[span.start : span.end].startswith("Document 3484601:\nFeather Ward\n")
    assert several.evidence == ()
    defect = theirs.defects["qa_medium_4096"]["no text shows the answer, or several do"]
    assert defect == "1 of 2 rows"


def test_imported_configs_of_unequal_rows_are_no_finding(theirs: Imported) -> None:
    assert [info.rows for info in theirs.manifest.configs.values()] == [1, 2]
    verdict = ruler_builders.verify(theirs.folder)
    assert (verdict.findings, verdict.exit_status) == ((), 3)


BUILT = {"mk_niah_basic": "soft_all", "mk_niah_medium": "letter", "qa_easy": "soft_part"}


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("ruler2") / "own"
    ruler_builders.build(
        "mistral", suite="ruler2", tasks=[*BUILT], lengths="4k", rows=2, out=out, sources="sample"
    )
    return out


def test_rows_of_this_suite_are_identified(built: Path) -> None:
    found = ruler_builders.identify(built, tokenizer="mistral")
    assert isinstance(found, Identities)
    assert [(one.task, one.edition, one.same) for one in found] == [
        (name, "balanced", 2) for name in BUILT
    ]


def test_a_tool_that_scores_otherwise_gets_no_rows(built: Path, tmp_path: Path) -> None:
    for tool, (task, metric) in product(("kvpress", "lm-eval"), BUILT.items()):
        said = f"--for {tool}: .*{task} has {metric}, of RULER v2; use"
        with pytest.raises(UsageError, match=said):
            ruler_builders.export(built, tool=tool, tasks=task, out=tmp_path / "out")  # type: ignore[arg-type]
    assert not any(tmp_path.iterdir())
    out = ruler_builders.export(built, tool="jsonl", out=tmp_path / "out")
    about = json.loads((out / "ruler.json").read_text(encoding="utf-8"))["configs"]
    assert [one["metric"] for one in about.values()] == [*BUILT.values()]


def test_a_row_of_several_questions_repeats_them_as_often_as_it_has_them() -> None:
    queries = len(Library(kind="sample").choices[0].queries)
    said = f"mmlu has questions for {queries // 4} rows: rows from {queries // 4} on repeat them"
    for index, notes in ((queries // 4 - 1, set()), (queries // 4, {said})):
        exhausted = set[str]()
        made = make_rows(
            SUITE["mv_niah_easy"], counted("mistral"), [index], target("mistral", 2048), exhausted
        )
        assert next(made) and exhausted == notes


def test_questions_are_said_to_repeat_from_the_first_row_that_repeats_one() -> None:
    assert _repeated("squad", 40, index=39) == ""
    assert _repeated("squad", 40, index=40) == (
        "squad has questions for 40 rows: rows from 40 on repeat them"
    )
