"""When a row is answered, which record counts, and what a score says of the answers under it."""

from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ruler_eval.running.answers import Answer, read_whole, settle, why_unanswered
from ruler_eval.scoring.metrics import scored_text
from ruler_eval.scoring.validity import Tally, Validity

GOOD = Answer(
    "vt_4096", 0, "QZKRA.", "stop", 4000, 5, 0.1, model="org/a", counted="engine", hardware="cpu"
)


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({}, None),
        ({"finish": "length"}, None),
        ({"text": ""}, None),
        ({"answer_tokens": None, "prompt_tokens": None}, None),
        ({"text": None}, "the text is null"),
        ({"finish": "content_filter"}, "finish reason 'content_filter' is not stop or length"),
        ({"finish": None}, "finish reason 'None' is not stop or length"),
        ({"text": "", "answer_tokens": 0}, "no token was generated"),
        ({"answer_tokens": 31}, "31 tokens were generated, the budget is 30"),
        ({"prompt_tokens": 3000}, "the server read 3000 prompt tokens, 4000 were rendered here"),
        ({"prompt_tokens": 4001}, "it adds tokens of its own"),
        ({"error": "status 500"}, "status 500"),
    ],
)
def test_a_whole_record_alone_is_an_answer(changes: dict[str, Any], reason: str | None) -> None:
    found = why_unanswered(replace(GOOD, **changes), budget=30, rendered=4000)
    assert found is None if reason is None else reason in (found or "")


def of(index: int, model: str | None = "org/a", text: str | None = "yes") -> Answer:
    error = None if text is not None else "status 500"
    return Answer("vt_4096", index, text, "stop", 9, 1, 0.1, error, model=model)


def settled(*records: Answer) -> dict[int, Answer]:
    return {index: one for (_, index, _), one in settle(records).items()}


def test_the_first_answer_of_the_runs_model_counts_and_another_models_is_asked_again() -> None:
    found = settled(of(0), of(1, "org/b"), of(2), of(0, text="later"), of(3, text=None), of(4))
    assert found[0] == of(0) and found[3].error == "status 500"
    assert found[1].error == "answered by 'org/b', the run's model is 'org/a'"
    assert found[1].text is None
    again = settled(of(0), of(1, "org/b"), of(2), of(3, text=None), of(1), of(3), of(5, None))
    assert (again[1], again[3], again[5]) == (of(1), of(3), of(5, None))
    old, new = (replace(of(0, text=name), question_digest=name) for name in ("old", "new"))
    assert settled(old, new, replace(new, text="later"))[0] == new  # of its latest question


def test_a_model_that_answers_the_same_rows_again_and_again_does_not_become_the_runs() -> None:
    found = settled(of(0), of(1), *[of(2, "org/b")] * 5)
    assert (found[0], found[1]) == (of(0), of(1)) and "org/b" in (found[2].error or "")
    assert settled(of(1, "org/b"), of(0))[1] == of(1, "org/b")


@given(st.lists(st.tuples(st.integers(0, 5), st.sampled_from(["a", "b", None, "error"]))))
def test_every_row_with_a_record_is_settled_once(rows: list[tuple[int, str | None]]) -> None:
    records = [of(n, text=None) if name == "error" else of(n, name) for n, name in rows]
    found = settled(*records)
    assert found.keys() == {n for n, _ in rows}
    names = [one.model for one in found.values() if one.error is None and one.model]
    assert len(set(names)) <= 1
    for n, one in found.items():
        mine = [record for record in records if record.index == n]
        could = [record.model in (None, *names[:1]) for record in mine if record.error is None]
        assert (one.error is None) == any(could)


def prompts(*counts: tuple[int, int], config: str = "vt_4096") -> list[Answer]:
    """Return answers to prompts, by the tokens that were rendered and read."""
    return [
        replace(GOOD, config=config, index=n, rendered_tokens=rendered, prompt_tokens=read)
        for n, (rendered, read) in enumerate(counts)
    ]


def unread(records: list[Answer]) -> int:
    return sum(record.error is not None for record in read_whole(records))


def test_many_prompts_that_were_read_as_one_number_of_tokens_were_read_by_nobody_whole() -> None:
    cut = prompts(*[(4000 + n % 5, 3000) for n in range(8)])
    assert unread(cut) == 8
    assert "4000 to 4004 tokens as 3000 each" in (read_whole(cut)[0].error or "")
    assert all(answer.error for answer in settle(read_whole(cut)).values())
    shorter = prompts(*[(2000 + n, 2000 + n) for n in range(90)], config="vt_2048")
    assert unread([*cut, *shorter]) == 8  # what the window holds was read whole


def test_equal_counts_may_be_chance() -> None:
    assert unread(prompts(*[(4000 + n % 5, 3000) for n in range(7)])) == 0  # few
    assert unread(prompts(*[(4000 + n % 3, 3000) for n in range(80)])) == 0  # few lengths
    whole = prompts(*[(4000 + n % 5, 4400 + n % 2) for n in range(80)])
    assert unread(whole) == 0  # half of the config
    by_engine = [replace(answer, rendered_tokens=None) for answer in whole]
    assert unread([replace(answer, prompt_tokens=3000) for answer in by_engine]) == 0


def counted(tally: Tally, *answers: Answer | None, opened: bool = False) -> Validity:
    """Count answers as if all were wrong."""
    for answer in answers:
        tally.add(answer)
        if answer is not None and answer.text is not None:
            text = scored_text(answer, opened=opened)
            tally.add_answer(answer, text, 0.0, marked="\u0120" in text)
    return tally.validity()


def tallied(*answers: Answer | None) -> Validity:
    return counted(Tally("completion"), *answers)


MANY = [replace(GOOD, index=n, text=f"word {n}") for n in range(40)]


def test_a_valid_score_has_a_line_and_neither_errors_nor_warnings() -> None:
    found = tallied(*MANY)
    assert found.line == (
        "validity: 40 of 40 rows answered by org/a; 0 empty, 0 cut off without the answer, 0 with "
        "reasoning in the answer, 1 with the most frequent text; prompts counted by engine 40"
    )
    assert found.hardware == {"cpu": 40}
    assert (found.errors, found.warnings) == ([], [])


@pytest.mark.parametrize(
    ("answers", "error"),
    [
        ([*MANY, None], "1 row of 41 unanswered"),
        ([*MANY, replace(GOOD, text=None, error="status 500")], "1 row of 41 unanswered"),
        ([*MANY, replace(GOOD, model="org/b")], "2 models answered: 'org/a' 40, 'org/b' 1"),
        ([*MANY, replace(GOOD, text="<think>QZKRA")], "reasoning is in the text of 1 answer"),
        ([replace(one, text=" ") for one in MANY], "every answer is empty"),
        ([replace(one, finish="length") for one in MANY], "every answer is cut off"),
        ([replace(one, text="!!!!") for one in MANY], "every answer is the same text"),
    ],
)
def test_what_makes_a_score_worthless_is_an_error(answers: list[Answer], error: str) -> None:
    found = tallied(*answers)
    assert any(error in one for one in found.errors), found


def test_unanswered_rows_are_an_error_and_no_refusal_two_models_are_both() -> None:
    unfinished = tallied(*MANY, None)
    assert (unfinished.refusals, unfinished.errors) == ([], ["1 row of 41 unanswered"])
    of_two = tallied(*MANY, None, replace(GOOD, model="b"))
    assert len(of_two.refusals) == 1 and len(of_two.errors) == 2


def test_a_letter_that_looks_like_a_mark_is_a_warning_and_many_are_refused() -> None:
    marked = [replace(one, text=f"\u0120gantija {one.index}") for one in MANY]
    few = [*MANY, *(replace(one, index=one.index + 40 * n) for n in range(1, 5) for one in MANY)]
    found = tallied(marked[0], *few)
    assert found.refusals == [] and "1 answer with \u0120" in " ".join(found.warnings)
    assert "suspect harness: 40 answers with" in " ".join(tallied(*marked).refusals)


@pytest.mark.parametrize(
    ("changes", "first", "warned"),
    [({"text": ""}, 2, "empty"), ({"finish": "length"}, 2, "cut off"), ({"text": "!!"}, 8, "same")],
)
def test_doubtful_answers_are_warned_of(changes: dict[str, Any], first: int, warned: str) -> None:
    def found(number: int) -> Validity:
        worse = [replace(one, **changes) for one in MANY[:number]]
        return tallied(*worse, *MANY[number:])

    assert found(first - 1).warnings == [] and found(first).errors == []
    assert any(warned in one for one in found(first).warnings)


def test_a_server_that_changed_in_mid_run_is_told() -> None:
    several = [replace(one, system_fingerprint=f"fp_{one.index % 2}") for one in MANY]
    found = tallied(*several)
    assert found.warnings == ["the server changed in mid-run: 2 system fingerprints"]
    assert found.errors == []


def test_reasoning_is_never_scored_and_one_that_never_ends_is_cut_off() -> None:
    generated = ["so QZKRA</think>PLMEW", "Okay. <think>QZKRA", "QZKRA, I think"]
    apart = replace(GOOD, text="PLMEW", reasoning="QZKRA")
    answers = [*(replace(GOOD, text=text) for text in generated), apart, replace(apart, text="")]
    texts = [scored_text(answer, opened=True) for answer in answers]
    assert texts == ["PLMEW", "", "", "PLMEW", ""]
    found = counted(Tally("thinking", opened=True), *answers, opened=True)
    assert found.cut_off == 3 and found.reasoning == 0 and found.empty == 3
    assert tallied(replace(GOOD, text="<think>QZKRA</think>PLMEW")).reasoning == 1


def test_a_run_without_any_answer_has_a_validity_line() -> None:
    assert "0 of 1 row answered" in tallied(None).line


ALL_COUNTS = Validity(
    rows=1_300, answered=1_000, models={"org/a": 900, "org/b": 100}, empty=50, cut_off=51,
    reasoning=2, apart=3, counted={"nobody": 1, "server": 999},
    providers={"fast": 600, "cheap": 400}, hardware={"cpu": 1_000}, most_common=200, marked=9,
    fingerprints=2, refused=("top_k", "min_p"), sampling="penalties seen", another_model="c",
    suspect="suspect harness: noise", never_exact=("vt", "cwe"),
)  # fmt: skip


def test_all_that_is_counted_stands_in_the_line_the_errors_or_the_warnings() -> None:
    assert ALL_COUNTS.line == (
        "validity: 1,000 of 1,300 rows answered by org/a, org/b; 50 empty, 51 cut off without the "
        "answer, 2 with reasoning in the answer, 200 with the most frequent text; 3 with reasoning "
        "beside the answer; prompts counted by server 999, nobody 1; providers: 'fast' 600, "
        "'cheap' 400; the server refused top_k, min_p; sampling: penalties seen"
    )
    assert ALL_COUNTS.errors == [
        "300 rows of 1,300 unanswered",
        "2 models answered: 'org/a' 900, 'org/b' 100",
        "the run is of the model 'c', every answer names 'org/a', 'org/b'; record the model that "
        "answers with `run --model-name`",
        "reasoning is in the text of 2 answers; use --protocol thinking",
        "reasoning came with 3 answers; use --protocol thinking",
        "suspect harness: noise",
    ]
    assert ALL_COUNTS.warnings == [
        "5% of the answers are empty",
        "5% of the answers are cut off without the answer",
        "20% of the answers are the same text",
        "9 answers with \u0120 or \u2581, the marks of a tokenizer for spaces",
        "right officially and never exactly: vt, cwe; the answers name more than the gold answers",
        "nobody counted the tokens of 1 prompt; one that was cut is not seen",
        "the server changed in mid-run: 2 system fingerprints",
        "2 providers answered: 'fast' 600, 'cheap' 400",
    ]


@pytest.mark.parametrize(
    ("changes", "errors", "warnings"),
    [
        ({"empty": 49, "cut_off": 49, "most_common": 199}, 0, 0),
        ({"empty": 1_000}, 1, 0),
        ({"cut_off": 1_000}, 1, 0),
        ({"most_common": 1_000}, 1, 0),
        ({"marked": 10}, 1, 0),
        ({"fingerprints": 1, "providers": {"one": 1_000}}, 0, 0),
        ({"answered": 1, "most_common": 1, "rows": 1}, 0, 0),
        ({"answered": 0, "rows": 0}, 0, 0),
        ({"answered": 0}, 1, 0),
    ],
)
def test_an_error_is_no_warning_and_begins_at_its_share(
    changes: dict[str, Any], errors: int, warnings: int
) -> None:
    found = replace(Validity(rows=1_000, answered=1_000), **changes)
    assert (len(found.errors), len(found.warnings)) == (errors, warnings), found


@given(st.lists(st.integers(0, 2**16), min_size=1, max_size=12))
def test_a_tally_counts_each_answer_by_all_that_it_says(seeds: list[int]) -> None:
    """The oracle counts with one sentence for each number."""
    answers = [
        replace(
            GOOD,
            index=place,
            text=("", "word", f"<think>{seed}", "\u0120x")[seed % 4],
            finish=("stop", "length")[seed >> 2 & 1],
            reasoning=(None, "Hm.")[seed >> 3 & 1],
            provider=(None, "p", "q")[seed % 3],
            system_fingerprint=(None, "x", "y")[seed % 3],
            hardware=(None, "cpu")[seed >> 4 & 1],
            counted=(None, "server")[seed >> 5 & 1],
            prompt_tokens=(None, 4000)[seed >> 6 & 1],
            model=(None, "a", "b")[seed % 3],
        )
        for place, seed in enumerate(seeds)
    ]
    tally = Tally("completion")
    for answer in answers:
        tally.add(answer)
        score = 1.0 if answer.finish == "length" and answer.provider == "p" else 0.0
        marked = answer.text == "\u0120x"
        tally.add_answer(answer, "" if answer.text == "" else "text", score, marked=marked)
    found = tally.validity(sampling="seen")
    empty = [answer for answer in answers if not answer.text]
    wrong = [a for a in answers if not (a.finish == "length" and a.provider == "p")]
    assert found.rows == found.answered == len(answers) and found.sampling == "seen"
    assert found.empty == len(empty)
    assert found.cut_off == sum(
        a.finish == "length" or (not a.text and bool(a.reasoning)) for a in wrong
    )
    assert found.apart == sum(bool(a.reasoning) for a in answers)
    assert found.reasoning == sum("<think>" in (a.text or "") for a in answers)
    assert found.marked == sum(a.text == "\u0120x" for a in answers)
    assert found.most_common == max(len(empty), len(answers) - len(empty))
    for name in ("model", "provider", "hardware"):
        values = [getattr(a, name) for a in answers if getattr(a, name)]
        numbers = getattr(found, {"model": "models", "provider": "providers"}.get(name, name))
        assert numbers == {value: values.count(value) for value in values}
    assert found.fingerprints == len({a.system_fingerprint for a in answers} - {None})
    uncounted = sum(a.counted is None and a.prompt_tokens is None for a in answers)
    assert found.counted.get("nobody", 0) == uncounted
    assert found.counted.get("server", 0) == sum(a.counted == "server" for a in answers)
    unread = Tally("completion", is_run=False)
    unread.add_answer(answers[0], "text", 0.0, marked=False)
    assert not unread.validity().counted
