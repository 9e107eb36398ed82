"""Parts of an audit that need no rows: printed means, what tools say beside answers, and words.

Whole audits, which draw rows again, are in `test_audit.py`.
"""

import json
from collections.abc import Callable
from dataclasses import replace
from decimal import ROUND_DOWN, ROUND_UP, Decimal
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import ruler_audit
from ruler_audit import answers, auditor, editions
from ruler_audit.answers import Claim, Group, read_groups
from ruler_audit.auditor import AGREES, DIFFERS, UNKNOWN, Audit, Audits, Line
from ruler_audit.editions import Origin, agreed, placed
from ruler_builders.upstream import Arguments, UpstreamRow, UpstreamSources, edition_of, replay
from ruler_data import Row, RulerError, UsageError
from ruler_data.layouts import Place, ToolAnswer
from ruler_data.tasks import TASKS
from ruler_data.tokenizers import load_tokenizer


@given(st.integers(0, 10**6), st.integers(1, 10**6), st.integers(0, 6), st.sampled_from([1, 100]))
def test_a_mean_meets_what_was_printed_if_it_rounds_to_it(
    right: int, more: int, digits: int, scale: int
) -> None:
    """Whoever printed a half rounded it up or down; nobody went further."""
    mean = right / (right + more)
    unit = Decimal(1).scaleb(-digits)
    exact = Decimal(right * scale) / Decimal(right + more)
    printed = {exact.quantize(unit, rounding) for rounding in (ROUND_DOWN, ROUND_UP)}
    for number in printed | {exact.quantize(unit) + 2 * unit, exact.quantize(unit) - 2 * unit}:
        distance = abs(number - exact)
        if abs(distance - unit / 2) > unit * Decimal("1e-5"):  # else the float decides
            met = Claim(f"{number:f}", scale).is_met_by(mean)
            assert met is (distance < unit / 2), (number, exact)


def write(folder: Path, name: str, text: str) -> Path:
    path = folder / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    return path


def upstream(folder: Path, *tasks: str) -> None:
    for task in tasks:
        record = {"index": 0, "pred": "x", "outputs": ["x"], "input": "q"}
        write(folder, f"{task}.jsonl", json.dumps(record) + "\n")


def claims(*places: Path) -> dict[str, Claim | None]:
    return {group.task: group.claim for group in read_groups(places, 4096)}


def test_upstreams_summary_is_a_table_of_tasks_and_scores(tmp_path: Path) -> None:
    upstream(tmp_path, "vt", "cwe", "fwe")
    write(tmp_path, "summary-a.csv", "Tasks\n")
    write(tmp_path, "summary.csv", "Tasks,vt,cwe\nScore,91.25,7.0\nNulls,0/1,0/1\n")
    found = claims(tmp_path)
    assert found == {"vt": Claim("91.25", 100), "cwe": Claim("7.0", 100), "fwe": None}


def test_kvpress_prints_two_digits_in_percent(tmp_path: Path) -> None:
    head = "context,question,answer_prefix,answer,task,max_new_tokens,predicted_answer\n"
    lines = "c,q,p,\"['x']\",vt,30,x\nc,q,p,\"['x']\",cwe,120,y\nc,q,p,\"['x']\",fwe,50,y\n"
    write(tmp_path, "predictions.csv", head + lines)
    metrics = {"vt": {"string_match": 97.5}, "cwe": {"string_match": None}}
    write(tmp_path, "metrics.json", json.dumps(metrics))
    assert claims(tmp_path) == {"vt": Claim("97.50", 100), "cwe": None, "fwe": None}
    for text, fraction in (
        ("fraction: 0.25\n", 0.25), ("a: 1\nfraction: 1 \n", 1.0), ("no_fraction: 0.5\n", 1.0),
        ("", 1.0),
    ):  # fmt: skip
        write(tmp_path, "config.yaml", text)
        (first, *_) = read_groups([tmp_path], 4096)
        assert first.fraction == fraction and first.is_sampled is (fraction < 1)


def test_rewards_of_all_records_are_a_mean_and_some_are_none(tmp_path: Path) -> None:
    records = [{"id": f"vt_4096/{n}", "prediction": "x"} for n in range(2)]
    write(tmp_path, "a.jsonl", "".join(json.dumps(record) + "\n" for record in records))
    (group,) = read_groups([tmp_path])
    assert group.claim is None and group.name == "vt_4096" and group.tool
    rewarded = [replace(answer, reward=reward) for answer, reward in
                zip(group.answers, (1.0, 0.5), strict=True)]  # fmt: skip
    from ruler_audit.answers import _claim

    assert _claim(tmp_path, "NeMo Gym", "vt", 4096, rewarded) == Claim("0.750000", 1)
    half = [rewarded[0], replace(rewarded[1], reward=None)]
    assert _claim(tmp_path, "NeMo Gym", "vt", 4096, half) is None


def test_the_harness_and_skills_have_their_means_in_files_beside_or_above(tmp_path: Path) -> None:
    from ruler_audit.answers import _claim

    older = {"results": {"ruler_vt": {"4096,none": 0.5}}}
    newer = {"results": {"ruler_vt": {"4096,none": 0.75, "8192,none": -1},
                         "ruler_cwe": {"ruler,none": 0.25}}}  # fmt: skip
    write(tmp_path, "results_2025.json", json.dumps(older))
    write(tmp_path, "results_2026.json", json.dumps(newer))
    assert _claim(tmp_path, "lm-eval", "vt", 4096, []) == Claim("0.750000", 1)
    assert _claim(tmp_path, "lm-eval", "vt", 8192, []) is None  # -1 says that nothing was asked
    assert _claim(tmp_path, "lm-eval", "cwe", 8192, []) == Claim("0.250000", 1)
    folder = tmp_path / "skills" / "ruler.a.vt"
    write(folder, "output-rs0.jsonl", "")
    metrics = {"ruler.a.vt": {"pass@1": {"accuracy": 12.5}, "pass@1[avg-of-2]": {"accuracy": 25}}}
    write(folder.parent, "metrics.json", json.dumps(metrics))
    assert _claim(folder, "NeMo-Skills", "vt", 4096, []) == Claim("12.5000", 100)
    write(folder, "output-rs1.jsonl", "")
    assert _claim(folder, "NeMo-Skills", "vt", 4096, []) == Claim("25.0000", 100)
    write(folder.parent, "metrics.json", "torn {")
    with pytest.raises(RulerError, match="not JSON"):
        _claim(folder, "NeMo-Skills", "vt", 4096, [])
    write(folder.parent, "metrics.json", "[]")
    assert _claim(folder, "NeMo-Skills", "vt", 4096, []) is None


def test_places_without_answers_are_refused(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="no such file or folder"):
        read_groups([tmp_path / "none"])
    with pytest.raises(UsageError, match="has no predictions in a known layout"):
        read_groups([tmp_path])


def answer(
    index: int, *outputs: str, prompt: str = "", text: str = "", sample: int = 0
) -> ToolAnswer:
    return ToolAnswer(Place(Path("a.jsonl"), 1), "plain", "vt", 4096, index, sample, text,
                      outputs or None, prompt)  # fmt: skip


def group(*answers: ToolAnswer, fraction: float = 1.0, **more: object) -> Group:
    fields = {"folder": Path("runs/a"), "tool": "plain", "task": "vt", "length": 4096, **more}
    return Group(**fields, answers=answers, fraction=fraction)  # type: ignore[arg-type]


def test_a_group_has_the_first_answer_to_each_row_and_its_place() -> None:
    one = group(answer(0, "a"), answer(0, "b", sample=1), answer(2, "c"))
    assert [first.outputs for first in one.rows] == [("a",), ("c",)]
    assert (one.name, one.place, one.run) == ("vt_4096", "a.jsonl", Path("runs/a"))
    other = replace(answer(1), where=Place(Path("b.jsonl"), 1))
    assert group(answer(0), other, length=None, task="").name == "unknown task"
    assert group(answer(0), other).place == "runs/a"
    assert group(answer(0), tool="NeMo-Skills").run == Path("runs")


def made(*outputs: str, prompt: str = "text\nwhat?") -> UpstreamRow:
    return UpstreamRow(0, prompt, [*outputs], 100, "", [])


def test_fewer_than_half_of_the_first_rows_may_be_edited_but_not_both_last() -> None:
    rows = [made(str(n)) for n in range(8)]
    for edited, is_alike in (((), True), ((0, 1, 2), True), ((0, 1, 2, 3), False), ((6,), True),
                             ((6, 7), False)):  # fmt: skip
        answers = [answer(n, "x" if n in edited else str(n), prompt="what?") for n in range(8)]
        assert editions._are_alike(group(*answers), iter(rows)) is is_alike, edited
    other = [answer(n, str(n), prompt="what else?") for n in range(8)]
    assert not editions._are_alike(group(*other), iter(rows))
    assert editions._are_alike(group(answer(0, "0")), iter(rows))


def test_rows_are_rebuilt_as_the_options_say(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(editions, "Finder", lambda *arguments: arguments)
    monkeypatch.setattr(answers, "read_groups", lambda places, size: [size])
    monkeypatch.setattr(auditor, "audit_groups", lambda *arguments: arguments)
    options: dict[str, Any] = {
        "seed": 7,
        "tokenizer": "mistral",
        "sources": "texts",
        "workers": 3,
        "length": "4k",
    }
    found: object = ruler_audit.audit(tmp_path / "a.jsonl", **options)
    assert found == ([4096], (7, "mistral", "texts"), 3)


def test_sampled_rows_are_found_among_those_that_an_edition_draws() -> None:
    rows = [made(str(n)) for n in range(100)]
    sampled = group(*[answer(n, str(7 * n), prompt="what?") for n in range(9)], fraction=0.1)
    assert editions._are_among(sampled, iter(rows))
    assert not editions._are_among(sampled, iter(rows[:40]))  # six of eight
    few = group(answer(0, "3", prompt="what?"), fraction=0.1)
    assert editions._are_among(few, iter(rows))
    strange = group(answer(0, "y"), fraction=0.1)
    drawn = iter([made(str(n)) for n in range(1000)])
    assert not editions._are_among(strange, drawn)
    assert next(drawn).outputs == ["121"]  # it gave up after twelve on average


def test_a_sampled_answer_gets_the_number_of_the_one_row_that_fits() -> None:
    texts = (("a", "x?"), ("b", "y?"), ("b", "z?"), ("c", "w?"), ("c", "w?"))
    rows = [Row(n, "vt", "text\n", asked, "", (gold,), 30, 100, ())
            for n, (gold, asked) in enumerate(texts)]  # fmt: skip
    found = placed(
        group(answer(0, "b", prompt="z?"), answer(1, "a"), answer(2, "c", prompt="w?"),
              answer(3, "d"), fraction=0.5),
        rows,
    )  # fmt: skip
    assert [(one.index, (one.outputs or ("",))[0]) for one in found.answers] == [
        (1 - 1, "a"), (2, "b"), (5 + 2, "c"), (5 + 3, "d")
    ]  # fmt: skip


def test_what_groups_have_in_common_is_what_each_that_shows_anything_has() -> None:
    origins = [Origin(("a", "b", "c"), ("2",), ()), Origin(("c", "b"), (), ("t",)), Origin()]
    assert agreed(origins) == Origin(("b", "c"), ("2",), ("t",))
    assert agreed([Origin(("a",)), Origin(("b",))]) == agreed([]) == Origin()


LINE = Line("vt_4096", 500, 500, 0.9125, (0.89, 0.93), 0.75, "91.25")
PAGE = Audit(
    "runs/a", "kvpress", Origin(("upstream-2024-04", "upstream-2025-01"), ("2.2.0",)), "llama3",
    (LINE,
     Line("cwe_4096", 20, None, 0.5, verdict=UNKNOWN, reason="depends on the tokenizer"),
     Line("qa_1_4096", 7, 6, None, printed="50.00", rule="a rule", verdict=DIFFERS, reason="no")),
    "validity: all", {"incomplete": 1200, "empty": 3}, ("the length",),
)  # fmt: skip


@pytest.mark.parametrize(
    ("task", "reason"),
    [
        ("mk_niah_hard", "rows of RULER v2 that others drew cannot be made again"),
        ("mk_niah_harder", "none of the 13 tasks, by its name and its prompt"),
    ],
)
def test_a_task_of_ruler2_is_told_from_one_that_nobody_knows(task: str, reason: str) -> None:
    assert editions.Finder(42).origin(group(answer(0, "a"), task=task)) == Origin(reason=reason)


def drawn_by(edition: str, length: int, count: Callable[[str], int], task: str = "vt") -> Group:
    """Return the answers to rows of a task as an edition draws them with a tokenizer."""
    arguments = Arguments(edition_of(edition), TASKS[task], length, 8)
    rows = replay(arguments, UpstreamSources(None), count)
    return group(*[answer(row.index, *row.outputs) for row in rows], task=task, length=length)


def test_rows_that_were_too_long_and_drawn_again_at_their_size_tell_their_edition() -> None:
    def count(text: str) -> int:  # the rows 4 and 7 have too many Q in their names at first
        return len(text.split()) + 5 * text.count("Q")

    found = editions.Finder(42, "mistral").origin(drawn_by("upstream-2024-04", 1820, count))
    assert found == Origin(("upstream-2024-04",))


def test_rows_whose_haystack_was_fitted_to_the_token_tell_their_edition() -> None:
    # A probe of 10 lines has 286 tokens to the one, and the search ends a step above: at 15 lines
    # every row is too long, and is drawn again.
    rows = drawn_by("upstream-2024-04", 286, lambda text: len(text.split()), "niah_multikey_2")
    found = editions.Finder(42, "mistral").origin(rows)
    assert found.editions == ("upstream-2024-04", "upstream-2025-01")


def test_a_tokenizer_that_draws_all_tasks_but_one_is_that_of_the_rows() -> None:
    mistral = load_tokenizer("mistral-v0.2")
    vt = drawn_by("upstream-2024-04", 1024, lambda text: mistral.count([text])[0])
    edited = group(*[answer(n, "1112223") for n in range(8)], task="niah_single_1", length=1024)
    found = auditor.Auditor([vt, edited], editions.Finder(42, "mistral-v0.2"))._find()
    assert found == Origin(("upstream-2024-04",), (), ("mistral-v0.2",))


def test_an_audit_is_said_to_the_letter() -> None:
    assert str(PAGE).splitlines() == [
        "runs/a: kvpress, 527 rows",
        "rows: upstream-2024-04 or upstream-2025-01, wonderwords 2.2.0; rebuilt with tokenizer "
        "llama3",
        "                       rows   score  95 % interval  printed   exact",
        "vt_4096                 500   91.25   [89.0, 93.0]    91.25   75.00  agrees",
        "cwe_4096                 20   50.00              -        -       -  cannot be known",
        "    depends on the tokenizer",
        "qa_1_4096                 7       -              -    50.00       -  differs",
        "    a rule",
        "    no",
        "wrong answers: incomplete 1,200, empty 3",
        "validity: all",
        "cannot be known: the length",
    ]
    bare = replace(PAGE, origin=Origin(), lines=(LINE,), validity="", labels={}, unknown=())
    assert str(bare).splitlines()[1] == "rows: of no edition that could be told"
    assert len(str(bare).splitlines()) == 4
    not_rebuilt = replace(bare, origin=Origin(("balanced",)), tokenizer="")
    assert str(not_rebuilt).splitlines()[1] == "rows: balanced; not rebuilt"


def test_the_worst_verdict_is_that_of_all_and_has_its_status() -> None:
    agrees = replace(PAGE, lines=(LINE,))
    unknown = replace(PAGE, lines=PAGE.lines[:2])
    for audits, verdict, status, failure in (
        (Audits([agrees, agrees]), AGREES, 0, ""),
        (Audits([agrees, unknown]), UNKNOWN, 3, "cannot be known: cwe_4096"),
        (Audits([unknown, PAGE]), DIFFERS, 1, "differs: qa_1_4096"),
        (Audits([PAGE, PAGE]), DIFFERS, 1, "differs: qa_1_4096, qa_1_4096"),
    ):
        assert (audits.verdict, audits.exit_status, audits.failure) == (verdict, status, failure)
    (record,) = Audits([PAGE]).to_record()
    assert record["verdict"] == DIFFERS and "scores" not in record
    assert record["origin"]["words"] == ("2.2.0",) and record["labels"]["empty"] == 3
    assert record["lines"][0]["interval"] == (0.89, 0.93)
    assert str(Audits([agrees, agrees])) == f"{agrees}\n\n{agrees}"


def test_a_mean_that_a_tools_own_rule_gives_is_named_with_the_rule() -> None:
    torn = group(answer(0, "12345", text="12\t345"), answer(1, "6", text="6"), tool="kvpress")
    said = "kvpress removes control characters, where upstream puts line feeds"
    assert auditor._rule_of(torn, Claim("100.00", 100)) == said
    assert auditor._rule_of(torn, Claim("50.00", 100)) == ""
    assert auditor._mean_of(torn) == 0.5
    of_qa = [answer(0, "a", "b", text="a"), answer(1, "c", text="c")]
    harness = group(*of_qa, tool="lm-eval", task="qa_1")
    assert auditor._mean_of(harness) == 1.0
    said = "lm-eval scores qa by the share of the gold answers named"
    assert auditor._rule_of(harness, Claim("0.750000", 1)) == said
    lines = group(answer(0, "a b", text="a\x01b"), answer(1, "c", text="c"), tool="NeMo Gym")
    assert auditor._rule_of(lines, Claim("0.5", 1)) == (
        "NeMo Gym leaves control characters in answers"
    )
    assert auditor._mean_of(group(answer(0))) is None  # no gold answers came with it
    assert auditor._mean_of(group(answer(0, "a"), task="x")) is None
