"""What a run folder says of itself: how far it is, what failed, what was ignored, what it cost."""

import json
import os
from collections.abc import Callable
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import pytest

from ruler_data.errors import UsageError
from ruler_eval.running import journal
from ruler_eval.running.answers import Answer
from ruler_eval.running.run_dir import (
    FREE,
    RUN_FILE,
    STARTS,
    RunFolder,
    RunInfo,
    Shard,
    obstacles,
    redact,
    why_no_run,
)
from ruler_eval.running.spending import TRIES
from ruler_eval.running.status import status
from tests.results import results_of
from tests.running.processes import evaluate

INFO = results_of({"vt_4096": [1.0] * 3, "cwe_4096": [1.0] * 2, "fwe_4096": [1.0]}).run
TWICE = replace(INFO, sampling={"samples": 2, "temperature": 0.5})
BUSY = "status 500: busy"


def answer(config: str, index: int, sample: int = 0, **more: Any) -> Answer:  # noqa: ANN401
    fields = {"text": "x", "finish": "stop", "prompt_tokens": 4000, "answer_tokens": 20,
              "seconds": 1.25, "sample": sample, "hardware": "cpu", **more}  # fmt: skip
    return Answer(config, index, **fields)


def failed(config: str, index: int, sample: int = 0, reason: str = BUSY) -> Answer:
    return Answer(config, index, error=reason, sample=sample)


def write(folder: Path, info: RunInfo, name: str, *records: Answer, more: bytes = b"") -> None:
    """Write the journal of a shard, and the run's description."""
    folder.mkdir(exist_ok=True)
    (folder / RUN_FILE).write_text(json.dumps({"fingerprint": info.fingerprint, **asdict(info)}))
    path = folder / journal.NAME.format(name, "made", info.short_fingerprint)
    path.write_bytes(b"".join(map(journal.to_line, records)) + more)


@pytest.fixture
def half(tmp_path: Path) -> Path:
    """A run of two shards and two samples, half done, with all that may lie in its folder."""
    folder = tmp_path / "half"
    write(folder, TWICE, "0-of-2",
          answer("vt_4096", 0), answer("vt_4096", 0, 1, finish="length", cached_tokens=9),
          failed("vt_4096", 1), answer("vt_4096", 1, seconds=None),
          failed("vt_4096", 2), failed("vt_4096", 2, 1, "status 503"),
          answer("vt_4096", 3), answer("qa_1_4096", 0))  # fmt: skip
    write(folder, TWICE, "1-of-2",
          answer("cwe_4096", 0, prompt_tokens=None, answer_tokens=None, hardware=None),
          answer("cwe_4096", 1, hardware="gpu"), failed("cwe_4096", 1),
          more=b'{"config": "vt_40\n[1]\n')  # fmt: skip
    (folder / "answers-0-of-1.made.0123456789abcdef.jsonl").write_bytes(
        journal.to_line(answer("vt_4096", 0)) + journal.to_line(failed("vt_4096", 1)) + b"torn\n"
    )
    sent = {"try": 1, "row": "vt_4096/0/0", "prompt_tokens": 9000, "answer_tokens": 300}
    (folder / TRIES.format("0-of-2", "made")).write_text(json.dumps(sent) + "\n")
    start = {"shard": "0/2", "arguments": {"prices": [2.0, 8.0]}}
    lines = [{"shard": "0/2", "arguments": {"prices": [1.0, 1.0]}}, start]
    (folder / STARTS).write_text("".join(json.dumps(line) + "\n" for line in lines) + '{"to')
    return folder


def test_a_run_that_is_half_done_says_how_far_it_is_to_the_letter(
    half: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(half.parent)
    done = evaluate("status", "half", env={"COLUMNS": "80"})
    run = TWICE.short_fingerprint
    assert done.returncode == 0
    lines = [line.rstrip() for line in done.stdout.splitlines()]
    assert lines == [
        "                                                prompt      cached       answer",
        "config   rows answered failed left cut off      tokens      tokens       tokens",
        "vt_4096     6        3      2    1       1      12,000           9           60",
        "cwe_4096    4        2      0    2       0       4,000           -           20",
        "fwe_4096    2        0      0    2       0           -           -            -",
        "half: 5 of 12 samples answered, 2 failed, 5 left; on 'cpu', 'gpu'",
        "1 row failed: 'status 500: busy'",
        "1 row failed: 'status 503'",
        "spent: 9,000 prompt tokens, 300 answer tokens, 9,300 of them at most for tries "
        "without an answer; 0.02 (unit of --prices)",
        "answers-0-of-1.made.0123456789abcdef.jsonl line 3: torn or not a line of a "
        "journal; ignored",
        f"answers-1-of-2.made.{run}.jsonl: 2 lines torn or not of a journal; ignored",
        "answers-0-of-1.made.0123456789abcdef.jsonl: 1 answer of another run; ignored",
        f"answers-0-of-2.made.{run}.jsonl: 2 answers of another run; ignored",
    ]


def test_the_figures_of_a_run_are_counted_by_hand(half: Path) -> None:
    run = status(half)
    record = run.to_record()
    assert (record["complete"], record["rows"], record["answered"]) == (False, 12, 5)
    assert (record["failed"], record["left"], record["is_running"]) == (2, 5, False)
    assert record["hardware"] == {"cpu": 3, "gpu": 1}
    assert run.failed == {"vt_4096/2/0": BUSY, "vt_4096/2/1": "status 503"}
    vt, cwe, fwe = record["configs"]
    assert vt == {
        "config": "vt_4096", "rows": 6, "answered": 3, "failed": 2, "left": 1, "cut_off": 1,
        "prompt_tokens": 12_000, "cached_tokens": 9, "answer_tokens": 60,
    }  # fmt: skip
    assert (cwe["answered"], cwe["prompt_tokens"], cwe["left"], cwe["failed"]) == (2, 4000, 2, 0)
    assert (fwe["left"], fwe["prompt_tokens"], fwe["answered"]) == (2, None, 0)
    assert record["spent"]["money"] == pytest.approx((2 * 9000 + 8 * 300) / 1e6)
    assert len(run.to_records()) == 7
    assert "e.g. vt_4096/2/0: status 500: busy>" in repr(run) and os.fspath(run) == str(half)


def test_a_whole_run_is_complete_and_says_no_more(tmp_path: Path) -> None:
    rows = [
        answer(name, index) for name, number in INFO.data.rows.items() for index in range(number)
    ]
    write(tmp_path / "run", INFO, "0-of-1", *rows)
    run = status(tmp_path / "run")
    assert run.complete and run.exit_status == 0 and not run.failed and not run.notes
    assert run.coverage == f"{tmp_path / 'run'}: 6 of 6 rows answered; on 'cpu'"
    assert status(tmp_path / "run", "why").exit_status == 1


@pytest.mark.parametrize(
    ("first", "second", "known"), [(None, None, None), (0, None, 0), (None, 0, 0), (0, 7, 7)]
)
def test_a_cache_that_held_nothing_has_0_tokens_and_not_unknown_ones(
    first: int | None, second: int | None, known: int | None, tmp_path: Path
) -> None:
    rows = [answer("vt_4096", n, cached_tokens=held) for n, held in enumerate((first, second))]
    write(tmp_path / "run", INFO, "0-of-1", *rows)
    assert status(tmp_path / "run").configs[0].cached_tokens == known


def test_a_run_is_told_to_run_while_a_process_holds_a_shard(tmp_path: Path) -> None:
    write(tmp_path / "run", INFO, "0-of-2", answer("vt_4096", 0))
    folder = RunFolder(tmp_path / "run")
    assert not status(folder.path).is_running
    with folder.hold(Shard(0, 2)), folder.hold(Shard(1, 2)):
        assert folder.running() == {Shard(0, 2), Shard(1, 2)}
        assert status(folder.path).coverage.endswith("on 'cpu'; running")


OBSTACLES: list[tuple[Callable[[RunInfo], RunInfo], str]] = [
    (lambda run: replace(run, data=replace(run.data, edition="x")),
     "the editions differ: balanced and x"),
    (lambda run: replace(run, protocol="base"), "the protocols differ: completion and base"),
    (lambda run: replace(run, no_context=True), "the contexts differ: given and left out"),
    (lambda run: replace(run, data=replace(run.data, sample=True)),
     "the source texts differ: real ones and the sample corpus"),
    (lambda run: replace(run, seen={"offset": -3}),
     "the tokens of the server's template differ: +0 to those rendered here and -3 to those "
     "rendered here"),
    (lambda run: replace(run, seen={"sampling": "x"}), ""),  # the offset is not known
    (lambda run: replace(run, model="another", engine="openai"), ""),
]  # fmt: skip


@pytest.mark.parametrize(("change", "why"), OBSTACLES)
def test_two_runs_are_not_compared_where_more_than_the_model_differs(
    change: Callable[[RunInfo], RunInfo], why: str
) -> None:
    assert [*obstacles(INFO, change(INFO))] == ([why] if why else [])


def test_a_place_that_is_no_run_is_named_with_what_to_give(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert why_no_run(tmp_path / "none") == "there is no such run"
    assert why_no_run(tmp_path) == f"has no {RUN_FILE}; give the output folder of a run"
    write(tmp_path / "b", INFO, "0-of-1")
    write(tmp_path / "a", INFO, "0-of-1")
    monkeypatch.chdir(tmp_path)
    assert why_no_run(Path()) == "a folder of runs; give one of them, e.g. 'a'"


def test_a_folder_takes_its_own_run_again_and_no_other(tmp_path: Path) -> None:
    write(tmp_path / "run", INFO, "0-of-1", answer("vt_4096", 0))
    folder = RunFolder(tmp_path / "run")
    folder.begin(INFO, Shard(0, 1))
    folder.begin(replace(INFO, seen={"sampling": "x", "offset": 2}), Shard(0, 1))
    options = {**INFO.engine_info, "options": {"max_model_len": 9}}
    other = replace(INFO, model="org/b", no_context=True, frame="x", engine_info=options)
    with pytest.raises(UsageError) as error:
        folder.begin(other, Shard(0, 1))
    assert str(error.value).endswith(
        "holds another run: model is 'org/model-7b' in the folder and 'org/b' now; no_context "
        "is False in the folder and True now; --option max_model_len is missing in the folder and "
        "9 now; give the options that it was started with, or another --out"
    )
    assert json.loads((tmp_path / "run" / RUN_FILE).read_text())["model"] == INFO.model


def test_a_run_without_answers_gives_its_folder_to_another(tmp_path: Path) -> None:
    write(tmp_path / "run", INFO, "0-of-1", failed("vt_4096", 0))
    RunFolder(tmp_path / "run").begin(replace(INFO, model="org/b"), Shard(0, 1))
    assert json.loads((tmp_path / "run" / RUN_FILE).read_text())["model"] == "org/b"


def test_a_folder_of_answers_that_nobody_describes_is_no_place_for_a_run(tmp_path: Path) -> None:
    write(tmp_path / "run", INFO, "0-of-1", answer("vt_4096", 0))
    (tmp_path / "run" / RUN_FILE).unlink()
    with pytest.raises(UsageError, match=rf"holds answers-.* but no {RUN_FILE}; name a new folder"):
        RunFolder(tmp_path / "run").begin(INFO, Shard(0, 1))


def test_a_run_without_answers_keeps_its_folder_while_another_shard_runs(tmp_path: Path) -> None:
    write(tmp_path / "run", INFO, "0-of-1", failed("vt_4096", 0))
    folder = RunFolder(tmp_path / "run")
    with folder.hold(Shard(1, 2)):
        with pytest.raises(UsageError, match="holds another run: model is"):
            folder.begin(replace(INFO, model="org/b"), Shard(0, 2))
        folder.begin(replace(INFO, model="org/b"), Shard(1, 2))


@pytest.mark.parametrize(
    ("before", "now", "is_alike"),
    [(5, 7, True), (5, 3, True), (5, 8, False), (None, 8, True), (0, -3, False)],
)
def test_a_templates_date_may_change_its_offset_by_two_tokens(
    before: int | None, now: int, is_alike: bool, tmp_path: Path
) -> None:
    write(tmp_path / "run", replace(INFO, seen={"offset": before}), "0-of-1", answer("vt_4096", 0))
    folder = RunFolder(tmp_path / "run")
    later = replace(INFO, seen={"offset": now})
    if not is_alike:
        with pytest.raises(UsageError, match=r"seen\.offset is"):
            folder.begin(later, Shard(0, 1))
        return
    folder.begin(later, Shard(0, 1))


@pytest.mark.parametrize(
    ("value", "public"),
    [
        ("hf_abcdefgh12345", "[secret]"),
        ("use Bearer abc.def now", "use [secret] now"),
        ("https://user:key@gpu7:8000/v1?x=1 is it", "[address] is it"),
        ("/home/ann/my models/llama", "llama"),
        ("see ~/x/llama and ./y/qwen.", "see llama and qwen."),
        ("C:\\models\\llama", "llama"),
        ("org/llama", "org/llama"),
        ({"a": ["/b/c", 3, None, True]}, {"a": ["c", 3, None, True]}),
        (("sk-12345678", 1.5), ["[secret]", 1.5]),
    ],
)
def test_secrets_addresses_and_folders_are_not_recorded(value: object, public: object) -> None:
    assert redact(value) == public
    if isinstance(value, str):
        distinct = redact(value, distinct=True)
        assert distinct.startswith(str(public)) and (distinct == public) == (value == public)
        assert redact(value + "x", distinct=True) != distinct


def test_no_option_that_may_change_between_starts_decides_on_answers() -> None:
    """Widening this set mixes answers of two settings in one run; narrowing it ends a resume."""
    assert len(FREE) == 28
    assert {"gpu_memory_utilization", "max_num_seqs", "concurrency", "timeout", "gpus"} <= FREE
    assert FREE.isdisjoint({"dtype", "quantization", "max_model_len", "kv_cache_dtype", "seed",
                            "enable_prefix_caching", "hf_overrides", "api", "body"})  # fmt: skip
