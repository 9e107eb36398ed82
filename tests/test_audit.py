"""Audits of other people's answers: their rows are found, and their numbers follow or do not."""

import json
from collections.abc import Iterator, Sequence
from functools import cache
from pathlib import Path
from statistics import stdev
from typing import Any

import pandas as pd
import pytest

import ruler_audit
from ruler_audit.answers import Group
from ruler_audit.editions import _are_alike, placed
from ruler_builders.upstream import Arguments, UpstreamRow, UpstreamSources, edition_of, replay
from ruler_data.layouts import Place, ToolAnswer, read_answers
from ruler_data.row import Row
from ruler_data.tasks import TASKS
from tests.commands import run as program
from tests.rows import counter

pytestmark = pytest.mark.slow

TOKENIZER, LENGTH, ROWS = "mistral-v0.2", 4096, 8
OLD, NEW = "upstream-2024-04", "upstream-2026-07"
QUESTIONS = {"niah": "What is the special", "vt": "Question: Find", "cwe": "Question: What are"}


@cache
def rows_of(edition: str, task: str, words: str) -> Sequence[UpstreamRow]:
    arguments = Arguments(edition_of(edition), TASKS[task], LENGTH, ROWS)
    sources = UpstreamSources(None, version=words)
    return [*replay(arguments, sources, lambda text: counter(TOKENIZER).count([text])[0])]


def answer_to(row: UpstreamRow) -> str:
    """Name the first half of what is asked for, and something else."""
    half = row.outputs[: -(-len(row.outputs) // 2)]
    return f" {', '.join(half)} or QQQQQ." if row.index % 3 else " I do not know."


def score(row: UpstreamRow) -> float:
    said = answer_to(row).lower()
    return sum(output.lower() in said for output in row.outputs) / len(row.outputs)


def write_kvpress(
    folder: Path, tasks: Sequence[str], edition: str = OLD, words: str = "2.2.0"
) -> Path:
    """Write answers as kvpress's `evaluate.py` does: columns of the dataset but the context."""
    folder.mkdir(parents=True)
    records, metrics = [], {}
    for task in tasks:
        rows = rows_of(edition, task, words)
        metrics[task] = {"string_match": round(100 * sum(map(score, rows)) / len(rows), 2)}
        for row in rows:
            start = row.prompt.rindex(QUESTIONS[task.partition("_")[0]])
            records.append({"task": task, "max_new_tokens": 30, "answer": pd.array(row.outputs),
                            "predicted_answer": answer_to(row), "question": row.prompt[start:],
                            "answer_prefix": "", "compression_ratio": 0.5})  # fmt: skip
    frame = pd.DataFrame(records)
    frame["answer"] = [f"[{' '.join(map(repr, value))}]" for value in frame["answer"]]
    frame.to_csv(folder / "predictions.csv", index=False)
    (folder / "metrics.json").write_text(json.dumps(metrics))
    (folder / "config.yaml").write_text(f"dataset: ruler\ndata_dir: {LENGTH}\n")
    return folder


def audit(place: Path, **options: Any) -> Any:  # noqa: ANN401 - the audits
    return ruler_audit.audit(place, **{"tokenizer": TOKENIZER, **options})


KVPRESS = ["niah_single_1", "niah_multikey_2", "vt", "cwe"]


@pytest.fixture(scope="module")
def kvpress(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_kvpress(tmp_path_factory.mktemp("audit") / "run", KVPRESS)


def test_edition_and_words_are_found_and_the_printed_means_follow(kvpress: Path) -> None:
    done = program("ruler-eval", "audit", kvpress, "--tokenizer", TOKENIZER)
    assert done.returncode == 0 and not done.stderr, done.stderr
    assert f"upstream-2024-04, wonderwords 2.2.0; rebuilt with tokenizer {TOKENIZER}" in done.stdout
    for task in KVPRESS:
        assert f"{task}_{LENGTH}" in done.stdout
    assert done.stdout.count("  agrees\n") == 4 and "validity: 32 of 32 rows" in done.stdout
    (record,) = json.loads(
        program("ruler-eval", "audit", kvpress, "--tokenizer", TOKENIZER, "--json").stdout
    )
    assert all(line["gold"] == ROWS and line["exact"] is not None for line in record["lines"])
    for line in record["lines"]:  # half as wide to twice as wide as by the scores' deviation
        low, high = line["interval"]
        scores = [score(row) for row in rows_of(OLD, line["name"].rpartition("_")[0], "2.2.0")]
        assert low < line["official"] < high
        assert 1 < (high - low) / (stdev(scores) / ROWS**0.5) < 8
        assert f"[{100 * low:.1f}, {100 * high:.1f}]" in done.stdout


def test_an_edited_gold_answer_or_mean_differs(kvpress: Path, tmp_path: Path) -> None:
    for name in ("gold", "mean"):
        folder = tmp_path / name
        folder.mkdir()
        for path in kvpress.iterdir():
            (folder / path.name).write_text(path.read_text())
    gold = rows_of(OLD, "vt", "2.2.0")[6].outputs[0]
    path = tmp_path / "gold" / "predictions.csv"
    path.write_text(path.read_text().replace(f"'{gold}'", "'ABCDE'"))
    audits = audit(tmp_path / "gold")
    assert audits.exit_status == 1 and audits.failure == f"differs: vt_{LENGTH}"
    assert "the gold answers of 1 row are not the rebuilt row's" in str(audits)
    path = tmp_path / "mean" / "metrics.json"
    metrics = json.loads(path.read_text())
    metrics["cwe"]["string_match"] += 0.01  # the last digit that is printed
    path.write_text(json.dumps(metrics))
    beside = tmp_path / "mean" / "beside"  # answers without gold ones, of which nothing is known
    beside.mkdir()
    (beside / "answers.jsonl").write_text('{"id": "fwe_4096/0", "prediction": "x"}\n')
    assert audit(beside).exit_status == 3
    audits = audit(tmp_path / "mean")
    assert audits.exit_status == 1 and audits.failure == f"differs: cwe_{LENGTH}"


def test_two_edited_tasks_differ(kvpress: Path, tmp_path: Path) -> None:
    """Gold answers of all rows of one task and of the first rows of another are edited."""
    frame = pd.read_csv(kvpress / "predictions.csv", dtype=str)
    for task, edited in (("niah_single_1", range(ROWS)), ("vt", (0, 2))):
        places = frame.index[frame["task"] == task]
        for index in edited:
            frame.loc[places[index], "answer"] = "['1112223']"
    for name in ("config.yaml", "metrics.json"):
        (tmp_path / name).write_text((kvpress / name).read_text())
    frame.to_csv(tmp_path / "predictions.csv", index=False)
    audits = audit(tmp_path)
    assert audits.exit_status == 1, str(audits)
    assert audits.failure == f"differs: niah_single_1_{LENGTH}, vt_{LENGTH}"
    gold = {line.name: line.gold for line in audits[0].lines}
    assert gold[f"niah_single_1_{LENGTH}"] == 0 and gold[f"vt_{LENGTH}"] == ROWS - 2


def test_sampled_rows_are_told_by_their_gold_answers(kvpress: Path, tmp_path: Path) -> None:
    """Of kvpress's runs with a fraction the rows are in random order, and have no numbers."""
    frame = pd.read_csv(kvpress / "predictions.csv", dtype=str)
    tasks = frame[frame["task"].isin(["niah_multikey_2", "cwe"])]
    sampled = tasks.sample(frac=0.7, random_state=3)
    sampled.to_csv(tmp_path / "predictions.csv", index=False)
    (tmp_path / "config.yaml").write_text(f"data_dir: '{LENGTH}'\nfraction: 0.7\n")
    (found,) = audits = audit(tmp_path)
    assert audits.exit_status == 0, str(audits)
    assert OLD in found.origin.editions and found.scores is not None
    table = found.scores.to_pandas()
    means = table.groupby("task")["official"].mean()
    for task, rows in sampled.groupby("task"):
        numbers = sorted(rows.index - min(tasks.index[tasks["task"] == task]))
        answered = table[(table["task"] == task) & table["official"].notna()]
        assert answered["index"].tolist() == numbers
        expected = [score(rows_of(OLD, task, "2.2.0")[number]) for number in numbers]
        assert means[task] == pytest.approx(sum(expected) / len(expected))
    (without,) = audits = audit(tmp_path, tokenizer="mistral")
    assert audits.exit_status == 3 and "its rows were sampled" in without.lines[0].reason


def test_a_length_that_no_name_tells_is_found(kvpress: Path, tmp_path: Path) -> None:
    """By gold answers where a record has its question alone, and by its prompt's tokens."""
    frame = pd.read_csv(kvpress / "predictions.csv", dtype=str)
    frame[frame["task"] == "niah_multikey_2"].to_csv(tmp_path / "predictions.csv", index=False)
    (found,) = audits = audit(tmp_path)
    assert audits.exit_status == 0 and found.lines[0].name == f"niah_multikey_2_{LENGTH}"
    path = tmp_path / "whole" / "cwe.jsonl"
    path.parent.mkdir()
    path.write_text("".join(json.dumps(line) + "\n" for line in lines_of("upstream", "cwe")))
    (found,) = audits = audit(path)
    assert audits.exit_status == 0 and found.lines[0].name == f"cwe_{LENGTH}"
    (found,) = audits = audit(path, tokenizer="mistral")
    assert audits.exit_status == 3 and found.lines[0].name == "cwe" and found.unknown


def test_without_the_tokenizer_edition_and_words_are_known_and_cwe_is_not(kvpress: Path) -> None:
    (found,) = audits = audit(kvpress, tokenizer="mistral")
    assert audits.exit_status == 3 and not found.tokenizer
    assert found.origin.editions == (OLD,) and found.origin.words == ("2.2.0",)
    reasons = {line.name: line.reason for line in found.lines}
    assert reasons[f"cwe_{LENGTH}"] == "its gold answers depend on the tokenizer of the rows"
    assert not reasons[f"vt_{LENGTH}"] and "give --tokenizer" in found.unknown[0]
    # The printed means follow from the gold answers that came with them all the same.
    assert all(line.official is not None for line in found.lines)


def test_a_later_edition_needs_the_tokenizer(tmp_path: Path) -> None:
    folder = write_kvpress(tmp_path / "run", ["niah_single_1", "vt"], NEW, "3.0.1")
    (found,) = audits = audit(folder)
    assert audits.exit_status == 0 and found.origin.editions == (NEW,)
    (found,) = audits = audit(folder, tokenizer="mistral")
    assert audits.exit_status == 3 and not found.origin.editions


def test_a_rule_that_a_tool_documents_explains_its_mean(tmp_path: Path) -> None:
    """kvpress takes control characters out, so a number torn by a tab counts."""
    folder = write_kvpress(tmp_path / "run", ["niah_single_1"])
    frame = pd.read_csv(folder / "predictions.csv", dtype=str)
    gold = rows_of(OLD, "niah_single_1", "2.2.0")[0].outputs[0]
    frame.loc[0, "predicted_answer"] = f"{gold[:3]}\t{gold[3:]}"
    frame.to_csv(folder / "predictions.csv", index=False)
    metrics = json.loads((folder / "metrics.json").read_text())
    metrics["niah_single_1"]["string_match"] += 12.5
    (folder / "metrics.json").write_text(json.dumps(metrics))
    (found,) = audits = audit(folder)
    assert audits.exit_status == 0 and "control characters" in found.lines[0].rule


def lines_of(tool: str, task: str) -> Iterator[dict[str, Any]]:
    """Yield records as a tool writes them."""
    for row in rows_of(OLD, task, "2.2.0"):
        start = row.prompt.rindex(QUESTIONS[task.partition("_")[0]])
        message = {"role": "user", "content": row.prompt[:start] + row.prompt[start:]}
        text = answer_to(row)
        if tool == "upstream":
            yield {"index": row.index, "pred": text, "input": row.prompt, "outputs": row.outputs}
        elif tool == "lm-eval":
            doc = {"index": row.index, "input": row.prompt, "outputs": row.outputs,
                   "max_length": LENGTH, "gen_prefix": ""}  # fmt: skip
            yield {"doc_id": row.index, "doc": doc, "filtered_resps": [text]}
        elif tool == "NeMo Gym":
            part = {"type": "output_text", "text": text}
            yield {"responses_create_params": {"input": [message]}, "outputs": row.outputs,
                   "length": row.length, "subset": task, "_ng_task_index": row.index,
                   "_ng_rollout_index": 0, "reward": score(row), "response": {"output": [
                       {"type": "reasoning", "summary": [{"text": "no", "type": "summary_text"}]},
                       {"type": "message", "content": [part]}]}}  # fmt: skip
        else:
            yield {"index": row.index, "question": row.prompt, "generation": text,
                   "expected_answer": row.outputs, "length": row.length}  # fmt: skip


FILES = {
    "upstream": "4096/pred/{}.jsonl",
    "lm-eval": "samples_ruler_{}_2026-01-01T00-00-00.0.jsonl",
    "NeMo Gym": "rollouts-{}.jsonl",
    "NeMo-Skills": "ruler.mistral_4096.{}/output.jsonl",
}


@pytest.mark.parametrize("tool", FILES)
def test_answers_of_every_tool_are_audited(tool: str, tmp_path: Path) -> None:
    means = {}
    for task in ("vt", "niah_multikey_2"):
        path = tmp_path / FILES[tool].format(task)
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("".join(json.dumps(line) + "\n" for line in lines_of(tool, task)))
        rows = rows_of(OLD, task, "2.2.0")
        means[task] = sum(map(score, rows)) / len(rows)
    if tool == "upstream":
        table = [["Tasks", *means], ["Score", *(f"{100 * mean:.2f}" for mean in means.values())]]
        text = "".join(",".join(line) + "\n" for line in table)
        (tmp_path / "4096" / "pred" / "summary.csv").write_text(text)
    if tool == "lm-eval":
        results = {f"ruler_{task}": {f"{LENGTH},none": mean} for task, mean in means.items()}
        (tmp_path / "results_2026.json").write_text(json.dumps({"results": results}))
    if tool == "NeMo-Skills":
        metrics = {
            f"ruler.mistral_4096.{task}": {"pass@1": {"num_entries": ROWS, "accuracy": 100 * mean}}
            for task, mean in means.items()
        }
        (tmp_path / "metrics.json").write_text(json.dumps(metrics))
    audits = audit(tmp_path, length="4k")
    assert audits.exit_status == 0, str(audits)
    lines = [line for found in audits for line in found.lines]
    assert {found.tool for found in audits} == {tool} and len(lines) == 2
    for line in lines:
        assert line.official == pytest.approx(means[line.name.removesuffix(f"_{LENGTH}")])
        assert line.printed


def test_nothing_to_audit_is_said(tmp_path: Path) -> None:
    done = program("ruler-eval", "audit", tmp_path / "none")
    assert done.returncode == 2 and "no such file or folder" in done.stderr
    done = program("ruler-eval", "audit", tmp_path)
    assert done.returncode == 2 and "no predictions in a known layout" in done.stderr
    (tmp_path / "rows_4096.jsonl").write_text('{"input": "?", "outputs": ["a"]}\n')
    done = program("ruler-eval", "audit", tmp_path)
    assert done.returncode == 1 and "`ruler-data identify`" in done.stderr


def told(golds: str, prompts: Sequence[str]) -> Group:
    """Return a group of a gold answer, a letter, and a prompt for each row."""
    answers = [
        ToolAnswer(Place(None, n + 1), "kvpress", "vt", LENGTH, n, 0, "", (gold,), prompt)
        for n, (gold, prompt) in enumerate(zip(golds, prompts, strict=True))
    ]
    return Group(Path(), "kvpress", "vt", LENGTH, tuple(answers))


@pytest.mark.parametrize(
    ("golds", "are_alike"),
    [("abcdefgh", True), ("abxdefgh", True), ("abcdefgx", True), ("abcdefxx", False)],
)
def test_rows_that_differ_up_to_the_end_are_of_another_stream(golds: str, are_alike: bool) -> None:
    made = [UpstreamRow(n, "?", [gold], LENGTH, "", []) for n, gold in enumerate("abcdefgh")]
    assert _are_alike(told(golds, [""] * 8), iter(made)) is are_alike


def test_a_sampled_answer_that_two_rows_fit_is_placed_at_none() -> None:
    rows = [Row(n, "vt", "", f"{n}?", "", (gold,), 30, 9, ()) for n, gold in enumerate("aab")]
    found = placed(told("aba", ["", "", "1?"]), rows).answers
    assert [(answer.index, answer.where.number) for answer in found] == [(1, 3), (2, 2), (3, 1)]


def test_samples_of_gym_are_answers_to_one_row(tmp_path: Path) -> None:
    records = [*lines_of("NeMo Gym", "vt")]
    again = [{**record, "_ng_rollout_index": 1} for record in records]
    path = tmp_path / "rollouts_4096.jsonl"
    path.write_text("".join(json.dumps(record) + "\n" for record in [*again, *records]))
    answers = read_answers(path)
    assert sorted((answer.index, answer.sample) for answer in answers) == [
        (index, sample) for index in range(ROWS) for sample in (0, 1)
    ]
