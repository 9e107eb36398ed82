"""What other tools wrote is read back: files that the tools themselves wrote, on these rows.

`tests/predictions` was written by kvpress and lm-evaluation-harness from exports of the build
below, with a model that names the first three names or numbers of the prompt (and nothing about
documents). The expected scores are those that the tools printed.
"""

import csv
import json
import re
import shutil
import sys
from pathlib import Path
from typing import Any

import pytest

import ruler_builders
import ruler_data
import ruler_eval
from ruler_data.errors import RulerError
from ruler_data.layouts import Place, ToolAnswer, records_of_csv
from ruler_eval.scoring.inputs import _config_of, read_predictions

FILES = Path(__file__).parent / "predictions"
#: Means that each tool printed itself; kvpress in percent.
PRINTED = {"niah_multivalue_1024": 0.75, "vt_1024": 0.4, "qa_1_1024": 0.0}


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("read-back") / "data"
    tasks = [name.rpartition("_")[0] for name in PRINTED]
    ruler_builders.build("mistral", sources="sample", tasks=tasks, lengths=[1024], rows=3, out=out)
    return out


def means(place: Path, data: Path) -> dict[str, float]:
    table = ruler_eval.score(place, str(data), model="m", protocol="chat")
    by_cell = table.groupby(["task", "length"], sort=False).official
    assert (by_cell.count() == 3).all()
    return {f"{task}_{length}": round(mean, 9) for (task, length), mean in by_cell.mean().items()}


@pytest.mark.parametrize("tool", ["kvpress", "lm-eval"])
def test_what_a_tool_wrote_scores_as_the_tool_says(tool: str, data: Path) -> None:
    found = means(FILES / tool, data)
    assert found == PRINTED
    if tool == "kvpress":
        printed = json.loads((FILES / tool / "metrics.json").read_text())
        shares = {f"{task}_1024": one["string_match"] / 100 for task, one in printed.items()}
        assert shares == found


def test_a_row_may_have_several_samples_and_none_of_them_twice(data: Path, tmp_path: Path) -> None:
    lines = [
        {"id": f"vt_1024/{row.index}", "prediction": row.outputs[0], "sample": sample}
        for row in ruler_data.load(data, "vt_1024")
        for sample in range(2)
    ]
    path = tmp_path / "answers.jsonl"
    path.write_text("".join(json.dumps(line) + "\n" for line in lines))
    assert len(read_predictions(path, {"vt_1024": 3})) == 6
    with path.open("a") as file:
        file.write(json.dumps(lines[1]) + "\n")
    with pytest.raises(RulerError, match=r"line 7: .*vt_1024/0.* already has a prediction, in "):
        read_predictions(path, {"vt_1024": 3})


def test_kvpress_is_told_by_the_length_of_its_config(data: Path, tmp_path: Path) -> None:
    shutil.copytree(FILES / "kvpress", tmp_path / "run")
    csv = tmp_path / "run" / "predictions.csv"
    csv.write_text(csv.read_text().replace("index,", "other,").replace("config", "setting"))
    csv.write_text(csv.read_text().replace(",index", ",other"))
    assert means(tmp_path / "run", data) == PRINTED


def test_a_carriage_return_in_an_answer_for_kvpress_ends_no_row(data: Path, tmp_path: Path) -> None:
    """As pandas writes it: not quoted, since only a line feed ends its lines."""
    shutil.copytree(FILES / "kvpress", tmp_path / "run")
    path = tmp_path / "run" / "predictions.csv"
    with path.open(encoding="utf-8", newline="") as file:
        records = list(csv.DictReader(file))
    plain = re.sub('[\n",]', " ", records[0]["predicted_answer"])  # needs no quotes
    records[0]["predicted_answer"] = f"{plain} a\rb"
    with path.open("w", encoding="utf-8", newline="") as file:
        writer = csv.DictWriter(file, records[0], lineterminator="\n")
        writer.writeheader()
        writer.writerows(records)
    if sys.version_info < (3, 13):  # later ones quote it
        assert b" a\rb" in path.read_bytes() and b' a\rb"' not in path.read_bytes()
    _, first = next(records_of_csv(path))
    assert first["predicted_answer"].endswith(" a\rb")
    assert means(tmp_path / "run", data) == PRINTED


def test_nemo_skills_output_is_told_by_its_folder(data: Path, tmp_path: Path) -> None:
    rows = rows_of(data, "vt_1024")
    out = tmp_path / "eval-results" / "ruler.llama_1k.vt" / "output.jsonl"
    out.parent.mkdir(parents=True)
    lines = (
        {"index": row["index"], "question": row["context"], "length": row["length"],
         "expected_answer": row["outputs"], "generation": row["outputs"][0], "num_generated": 3}
        for row in rows
    )  # fmt: skip
    out.write_text("".join(json.dumps(line) + "\n" for line in lines))
    assert means(tmp_path, data) == {"vt_1024": 0.2}


def test_an_overwritten_index_gives_way_to_the_line(data: Path, tmp_path: Path) -> None:
    rows = rows_of(data, "niah_multivalue_1024")
    out = tmp_path / "1024" / "pred" / "niah_multivalue.jsonl"
    out.parent.mkdir(parents=True)
    lines = (
        {"index": row["context"].find(row["outputs"][0]), "input": row["context"],
         "outputs": row["outputs"], "pred": " ".join(row["outputs"])}
        for row in rows
    )  # fmt: skip
    out.write_text("".join(json.dumps(line) + "\n" for line in lines))
    assert means(tmp_path, data) == {"niah_multivalue_1024": 1.0}


def test_predictions_on_other_rows_are_refused(data: Path, tmp_path: Path) -> None:
    shutil.copytree(FILES / "kvpress", tmp_path / "run")
    csv = tmp_path / "run" / "predictions.csv"
    first = rows_of(data, "vt_1024")[0]["outputs"][0]
    csv.write_text(csv.read_text().replace(f"'{first}'", "'ABCDE'"))
    with pytest.raises(RulerError, match="the gold answers beside the prediction"):
        means(tmp_path / "run", data)


def test_a_damaged_file_is_one_line(data: Path, tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_bytes(b"predicted_answer\n\xff\n")
    with pytest.raises(RulerError, match=r"a\.csv"):
        means(tmp_path / "a.csv", data)


def rows_of(data: Path, config: str) -> list[dict[str, Any]]:
    return ruler_data.load(data, config).to_records()


def test_a_prediction_is_of_the_config_that_its_names_tell() -> None:
    def of(task: str, length: int | None) -> ToolAnswer:
        return ToolAnswer(Place(Path("a/vt.jsonl"), 3), "plain", task, length, 0, 0, "x")

    configs = ["vt_4096", "vt_8192", "cwe_4096", "own_2"]
    assert _config_of(of("vt", 8192), configs) == "vt_8192"
    assert _config_of(of("fwe", 4096), configs) == "fwe_4096"
    assert _config_of(of("cwe", None), configs) == "cwe_4096"
    assert _config_of(of("own_2", None), configs) == "own_2"
    with pytest.raises(RulerError) as error:
        _config_of(of("vt", None), configs)
    assert str(error.value) == (
        f"{Place(Path('a/vt.jsonl'), 3)}: the file name has no config; name it CONFIG.jsonl, e.g. "
        "vt_4096.jsonl"
    )
