"""Other tools' records: what each of them says, field by field, and why others are refused."""

import json
from pathlib import Path
from typing import Any

import pytest

from ruler_data import layouts
from ruler_data.errors import RulerError
from ruler_data.layouts import Place, ToolAnswer, length_of_path, parse_answers, read_answers

MESSAGE = [{"type": "message", "content": [{"text": "a"}, "b", {}, {"text": "c"}]}]
REASONING = [{"type": "reasoning", "content": content} for content in ("x", [{"text": "y"}])]
RESPONSE = {"output": [*REASONING, *MESSAGE, {"type": "message"}]}
REQUEST = {"input": [{"content": "system"}, {"content": "p"}]}
#: A record, the path of its file, and what it says: tool, task, length, index, sample, text, gold
#: answers, prompt and reward.
RECORDS: list[tuple[dict[str, Any], str, tuple[object, ...]]] = [
    ({"id": "vt_4096/17", "prediction": "t", "text": "no", "sample": "2"}, "x.jsonl",
     ("plain", "vt", 4096, 17, 2, "t", None, "", None)),
    ({"id": "vt_4096/17", "text": "t"}, "", ("plain", "vt", 4096, 17, 0, "t", None, "", None)),
    ({"config": "vt_4096", "index": 3, "text": "t", "reward": 1}, "",
     ("plain", "vt", 4096, 3, 0, "t", None, "", 1.0)),
    ({"responses_create_params": REQUEST, "outputs": ["o"], "response": RESPONSE, "reward": 0.5,
      "_ng_task_index": 0, "_ng_rollout_index": 4, "subset": "vt_8192"}, "rollouts.jsonl",
     ("NeMo Gym", "vt", 8192, 0, 4, "ac", ("o",), "p", 0.5)),
    ({"responses_create_params": REQUEST, "response": RESPONSE, "reward": "no"}, "8k/r.jsonl",
     ("NeMo Gym", "", 8192, 0, 0, "ac", None, "p", None)),
    ({"responses_create_params": REQUEST, "expected_answer": "o", "response": RESPONSE,
      "task": "mk_niah_easy"}, "",
     ("RULER v2", "mk_niah_easy", None, 0, 0, "ac", ("o",), "p", None)),
    ({"context": "c", "question": "q", "answer_prefix": "a", "answer": ["o"], "index": "5",
      "predicted_answer": "t", "task": "cwe", "data_dir": "4096"}, "",
     ("kvpress", "cwe", 4096, 5, 0, "t", ("o",), "cq", None)),
    ({"question": "q", "answer": ["o"], "index": 5, "predicted_answer": "t", "task": "cwe",
      "config": "vt_2048", "data_dir": 4096}, "",
     ("kvpress", "vt", 4096, 5, 0, "t", ("o",), "q", None)),
    ({"doc": {"context": "c", "question": "q", "answer_prefix": "a", "outputs": ["o"], "index": 6},
      "filtered_resps": [["t", "u"]]}, "samples_ruler_vt_4096_2026-01-02T03-04-05.jsonl",
     ("lm-eval", "vt", 4096, 6, 0, "t", ("o",), "cq", None)),
    ({"doc": {"input": "p", "gen_prefix": "a", "outputs": ["o"], "index": 6, "max_length": 8192},
      "filtered_resps": ["t"]}, "samples_niah_single_1_2026-01-02T03-04-05.jsonl",
     ("lm-eval", "niah_single_1", 8192, 6, 0, "t", ("o",), "p", None)),
    ({"input": "p", "outputs": ["o"], "pred": "t", "index": 7}, "16384/pred/vt.jsonl",
     ("upstream", "vt", 16384, 7, 0, "t", ("o",), "p", None)),
    ({"question": "p", "expected_answer": ["o"], "generation": "t", "index": 8},
     "ruler.x_4k.vt/output-rs0.jsonl", ("NeMo-Skills", "vt", 4096, 8, 0, "t", ("o",), "p", None)),
]  # fmt: skip


@pytest.mark.parametrize("number", range(len(RECORDS)))
def test_a_record_of_each_tool_is_read_field_by_field(number: int) -> None:
    record, name, expected = RECORDS[number]
    where = Place(Path(name) if name else None, 1)
    (answer,) = parse_answers([(where, record)])
    assert answer == ToolAnswer(where, *expected)  # type: ignore[arg-type]


def test_the_length_of_a_record_goes_before_its_names_and_those_before_the_length_given() -> None:
    record = {"input": "p", "outputs": ["o"], "pred": "t", "index": 1}
    of_a_doc = {"doc": {**record, "max_length": 8192}, "filtered_resps": ["t"]}
    named = "16384/samples_ruler_vt_4096_2026-01-02T03-04-05.jsonl"
    for said, path, expected in (
        (of_a_doc, named, 8192),
        (record, "16384/vt_4096.jsonl", 4096),
        (record, "16384/vt.jsonl", 16384),
        (record, "vt.jsonl", 2048),
    ):
        (answer,) = parse_answers([(Place(Path(path), 1), said)], length=2048)
        assert answer.length == expected


@pytest.mark.parametrize(
    ("path", "name", "length"),
    [
        ("8k/vt_4096.jsonl", "", 4096), ("8k/vt.jsonl", "", 8192), ("8k/vt.jsonl", "vt_2048", 2048),
        ("16k/pred/vt.jsonl", "", 16384), ("pred/vt.jsonl", "", None),
        ("16k/a/b/pred/vt.jsonl", "", 16384), ("16k/a/b/c/pred/vt.jsonl", "", None),
    ],
)  # fmt: skip
def test_the_nearest_name_tells_the_length(path: str, name: str, length: int | None) -> None:
    assert length_of_path(Path(path), name) == length


def test_the_place_of_an_answer_and_a_zero_are_told_from_the_number_of_a_row() -> None:
    record = {"input": "one two", "outputs": ["two"], "pred": "t"}
    for index, number, expected in ((4, 3, 2), (3, 3, 3), (0, 9, 0)):
        (answer,) = parse_answers([(Place(Path("vt.jsonl"), number), {**record, "index": index})])
        assert answer.index == expected


@pytest.mark.parametrize(("gold", "subset"), [("outputs", "subset"), ("expected_answer", "task")])
def test_rows_that_a_tool_counts_through_all_tasks_are_counted_within_each(
    gold: str, subset: str
) -> None:
    outputs = ["o"] if gold == "outputs" else "o"
    record = {"responses_create_params": REQUEST, gold: outputs, "response": RESPONSE}
    numbers = [("vt", 7), ("cwe", 2), ("vt", 3), ("cwe", 2), ("vt", 5)]
    records = [
        (Place(None, place), {**record, subset: task, "_ng_task_index": number})
        for place, (task, number) in enumerate(numbers, 1)
    ]
    plain = (Place(None, 6), {"id": "fwe/9", "text": "t"})
    found = [(answer.task, answer.index) for answer in parse_answers([*records, plain])]
    assert found == [("vt", 2), ("cwe", 0), ("vt", 0), ("cwe", 0), ("vt", 1), ("fwe", 9)]


ROW = "is not a row; a row is CONFIG/INDEX, e.g. vt_4096/17"
UPSTREAM = {"input": "p", "outputs": ["o"], "pred": "t", "index": 7}
REFUSED: list[tuple[object, str]] = [
    (["x"], "a mapping expected, found list"),
    ({"input": "p", "outputs": ["o"]},
     "a row without an answer; `ruler-data identify` says whose rows these are"),
    ({"x": 1},
     "no prediction: none of the fields prediction, response.output, predicted_answer, "
     "filtered_resps, pred, generation, text"),
    ({**UPSTREAM, "outputs": [1]}, "field outputs: a list of strings expected, found list"),
    ({**UPSTREAM, "outputs": None}, "field outputs: a list of strings expected, found NoneType"),
    ({"pred": "t", "index": 7}, "field outputs: a list of strings expected, found nothing"),
    ({**UPSTREAM, "index": 1.5}, "field index: int expected, found float"),
    ({**UPSTREAM, "index": "-1"}, "field index: int expected, found str"),
    ({**UPSTREAM, "index": True}, "field index: int expected, found bool"),
    ({"input": "p", "outputs": ["o"], "pred": "t"}, "field index: int expected, found nothing"),
    ({**UPSTREAM, "pred": [[]]}, "field pred: str expected, found list"),
    ({**UPSTREAM, "pred": 5}, "field pred: str expected, found int"),
    ({"text": "t", "index": 1}, "field config: str expected, found nothing"),
    ({"text": "t", "config": "vt", "index": True}, "field index: int expected, found bool"),
    ({"text": "t", "id": 5}, f"id int {ROW}"),
    ({"text": "t", "id": "vt_4096"}, f"id 'vt_4096' {ROW}"),
    ({"text": "t", "id": "vt/1234567890"}, f"id 'vt/1234567890' {ROW}"),
]  # fmt: skip


@pytest.mark.parametrize("number", range(len(REFUSED)))
def test_a_record_that_is_no_answer_is_refused_with_place_and_field(number: int) -> None:
    record, said = REFUSED[number]
    for path, where in ((None, "record 3"), (Path("a/b.jsonl"), "b.jsonl line 3"),
                        (Path("b.csv"), "b.csv row 3")):  # fmt: skip
        with pytest.raises(RulerError) as refused:
            parse_answers([(Place(path, 3), record)])
        assert str(refused.value) == f"{where}: {said}"


HEAD = "index,task,answer,predicted_answer,question\n"


def test_the_settings_beside_a_table_tell_its_length_and_its_lines_the_rest(tmp_path: Path) -> None:
    table = tmp_path / "predictions.csv"
    table.write_text(
        f"{HEAD},vt,\"['a' 'b']\",t,q\n,cwe,['x'],u,q\n,vt,['y'],v,q\n7,vt,['z'],w,q\n"
    )
    (tmp_path / "config.yaml").write_text("model: x\ndata_dir: '4096'\n")
    found = [(a.task, a.length, a.index, a.text, a.outputs) for a in read_answers(table)]
    assert found == [
        ("vt", 4096, 0, "t", ("a", "b")),
        ("cwe", 4096, 0, "u", ("x",)),
        ("vt", 4096, 1, "v", ("y",)),
        ("vt", 4096, 7, "w", ("z",)),
    ]
    (tmp_path / "config.yaml").write_text("model: x\n")
    assert {a.length for a in read_answers(table, 8192)} == {8192}


def test_a_table_that_would_fill_the_memory_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    table = tmp_path / "wide.csv"
    monkeypatch.setattr(layouts, "CSV_HEAD", len(HEAD))
    monkeypatch.setattr(layouts, "CSV_FIELDS", 6)
    said = f"wide.csv: has a head of over {len(HEAD)} bytes, or a line of over 6 fields"
    for text, refused in (
        (HEAD, False),
        (f"x{HEAD}", True),
        (f"{HEAD}1,vt,['a'],t,q\n", False),
        (f"{HEAD},,,,,,\n", True),
    ):
        table.write_text(text)
        if not refused:
            assert len(read_answers(table)) == text.count("\n") - 1
            continue
        with pytest.raises(RulerError) as error:
            read_answers(table)
        assert str(error.value) == said


def test_a_line_that_cannot_be_read_is_named_by_its_number(tmp_path: Path) -> None:
    path = tmp_path / "a.jsonl"
    path.write_text(json.dumps({"id": "vt_4096/1", "text": "t"}) + "\n{\n")
    with pytest.raises(RulerError, match=r"^a\.jsonl line 2: "):
        read_answers(path)
