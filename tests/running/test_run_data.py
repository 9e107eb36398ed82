"""What a run is asked over: only rows that the manifest proves, only prompts that fit."""

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from ruler_data.names import config_file
from ruler_eval.running.config import EvalConfig
from ruler_eval.running.inputs import SLACK, open_inputs
from tests.commands import succeeded
from tests.hub import Hub
from tests.publishing import Publisher
from tests.running.processes import evaluate, lines, order, refusal
from tests.running.tiny import make_model


@pytest.fixture
def copy(frozen: Path, tmp_path: Path) -> Path:
    shutil.copytree(frozen, tmp_path / "copy")
    return tmp_path / "copy"


def test_damaged_rows_are_refused(copy: Path, tmp_path: Path) -> None:
    path = copy / config_file("vt_2048")
    data = bytearray(path.read_bytes())
    data[len(data) // 2] ^= 1
    path.write_bytes(data)
    message = refusal(evaluate(*order(copy, tmp_path / "out")), 1)
    assert "vt_2048/test-00000-of-00001.parquet: refused: sha256 expected" in message
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize(
    ("more", "message"),
    [
        (("--lengths", "4k"), "4096"),
        (("--revision", "v1.0.0"), "is a folder and has no revisions"),
        (("--option", "sedonds=1"), "did you mean seconds"),
        (("--protocol", "completoin"), "'completoin' is not one of 'completion'"),
        (("--option", "seconds=x"), "--option seconds='x': Input should be a valid number"),
        (("--option", "seconds=" + "[" * 100_000), "Input should be a valid number"),
        (("--option", "seconds"), "write NAME=VALUE"),
        (("--model-name", "../../etc"), "is not a valid name"),
        (("--model", "/none"), "--model '/none': no such folder; if it is a server's name, add"),
        (("--base-url", "http://127.0.0.1:1/v1"), "--base-url is for engine openai; leave it or"),
        (("--rows", "2k:2,2048:3"), "rows '2k:2,2048:3': names a length twice"),
        (("--tokenizer", "nowhere/at-all"), "tokenizer"),
    ],
)
def test_what_cannot_be_done_as_asked_is_refused_in_one_line(
    frozen: Path, tmp_path: Path, more: tuple[str, ...], message: str
) -> None:
    assert message in refusal(evaluate(*order(frozen, tmp_path / "out", *more)))
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize(
    ("more", "message"),
    [
        (("--data", "dist/nowhere"), "no such folder; and as a Hub repo: dist/nowhere at main"),
        (("--data", "./nowhere"), "no such folder; not a Hub repo either"),
        (("--data", "tests"), "holds no finished build"),
        (("--rows", "8k:2"), "'8192' is not in"),
        (("--out", "/dev/null"), "cannot be written: Not a directory"),
        (("--shard", "3/3"), "not a shard"),
    ],
)
def test_what_is_mistyped_is_refused_before_the_model_is_opened(
    frozen: Path, tmp_path: Path, more: tuple[str, ...], message: str
) -> None:
    command = order(frozen, tmp_path / "out", "--engine", "transformers", "--model", "./none")
    assert message in refusal(evaluate(*command, *more))


def test_rows_need_their_length_and_in_a_chat_template_a_few_tokens_more(
    frozen: Path, tiny: Path
) -> None:
    def longest(**options: Any) -> dict[str, int]:  # noqa: ANN401 - options of a run
        config = EvalConfig(frozen, model=str(tiny), engine="oracle", **options)
        return open_inputs(config).longest_requests()

    exact = longest()
    assert all(2040 < tokens <= 2048 for tokens in exact.values())
    for options, more in (({}, 0), ({"protocol": "chat"}, SLACK)):
        found = longest(extra_tokens=9, **options)
        assert found == {name: tokens + 9 + more for name, tokens in exact.items()}


def test_a_row_may_fill_the_window_of_the_model(frozen: Path, tiny: Path) -> None:
    inputs = open_inputs(EvalConfig(frozen, model=str(tiny), engine="oracle"))
    row = next(inputs.data.read("vt_2048"))
    ids = inputs.ids(row)
    need = len(ids) + row.max_new_tokens
    assert inputs.length_errors(row, ids, need) == inputs.length_errors(row, ids, None) == {}
    (said,) = inputs.length_errors(row, ids, need - 1).values()
    assert f"need {need} tokens, the model's window is {need - 1}" in said


def test_the_tokenizer_that_an_option_names_goes_before_that_of_the_model(
    frozen: Path, tiny: Path
) -> None:
    for named, expected in ("mistral-v0.2", "mistral-v0.2"), (None, "tiny"):
        config = EvalConfig(frozen, model=str(tiny), engine="oracle", tokenizer=named)
        assert open_inputs(config).tokenizer.info.name == expected


def test_a_model_that_is_not_at_hand_is_refused(frozen: Path, tmp_path: Path) -> None:
    command = order(frozen, tmp_path / "out", "--engine", "transformers")
    message = refusal(evaluate(*command, "--model", "org/none"))
    assert message.startswith("ruler-eval: --model 'org/none': ")
    assert "downloads are off; offline, give a folder" in message
    assert "no such folder, and not a Hub id" in refusal(evaluate(*command, "--model", "./none"))


def test_a_folder_is_recorded_under_the_name_that_is_given_for_it(
    frozen: Path, tiny: Path, tmp_path: Path
) -> None:
    for more, name in (("--model-name", "org/mine"), "org/mine"), ((), tiny.name):
        out = tmp_path / str(len(more))
        succeeded(evaluate(*order(frozen, out, "--model", tiny, "--rows", 1, *more)))
        assert json.loads((out / "run.json").read_text())["model"] == name


def test_json_nested_too_deeply_is_refused(frozen: Path, tmp_path: Path) -> None:
    model, out = make_model(tmp_path / "model"), tmp_path / "out"
    (model / "config.json").write_text("[" * 100_000)
    message = refusal(evaluate(*order(frozen, out, "--model", model)))
    assert "config.json cannot be read: it is nested too deeply" in message
    out.mkdir()
    (out / "run.json").write_text("[" * 100_000)
    assert "run.json: not a run: " in refusal(evaluate(*order(frozen, out)), 1)


def test_a_run_does_not_mix_its_files_into_a_dataset(copy: Path) -> None:
    assert "holds a dataset; give the run its own folder" in refusal(evaluate(*order(copy, copy)))
    assert not list(copy.glob("*run*")) and not list(copy.glob("*answers*"))


def test_a_prompt_over_the_window_is_found_first(frozen: Path, tmp_path: Path) -> None:
    model = make_model(tmp_path / "short", window=2000)
    message = refusal(evaluate(*order(frozen, tmp_path / "out", "--model", model)))
    longest = json.loads((frozen / "manifest.json").read_text())["configs"]["vt_2048"]["length_max"]
    assert longest > 2000 and "the model's window is 2000" in message and "vt_2048/0" in message
    assert not (tmp_path / "out").exists()


@pytest.mark.slow
def test_a_release_is_run_at_its_commit_and_offline_no_other_is_taken_for_it(
    publisher: Publisher, hub: Hub, repo: str, builds: Callable[..., Path], tmp_path: Path
) -> None:
    for seed, version in ((42, "1.0.0"), (43, "2.0.0")):
        assert publisher(builds(seed=seed), repo, version).code == 0
    env = {**hub.env(), "HF_TOKEN": "", "HF_HOME": str(tmp_path / "hf"), "RULER_OFFLINE": "0"}
    command = order(Path(repo), tmp_path / "out", "--tasks", "vt", "--lengths", "1k", "--rows", 2)
    succeeded(evaluate(*command, "--revision", "v1.0.0", env=env))
    run = json.loads((tmp_path / "out" / "run.json").read_text())["data"]
    assert (run["repo"], run["revision"]) == (repo, hub.repos[repo].tags["v1.0.0"])
    assert [line["index"] for line in lines(tmp_path / "out")] == [0, 1]
    off = {**env, "RULER_OFFLINE": "1", "HF_HUB_OFFLINE": "1"}
    succeeded(evaluate(*command, "--revision", "v1.0.0", env=off))
    assert "downloads are off" in refusal(evaluate(*command, "--revision", "v2.0.0", env=off), 1)
    message = refusal(evaluate(*command, "--revision", "v2.0.0", env=env))
    assert "data.revision is" in message and hub.repos[repo].tags["v1.0.0"][:20] in message
    assert "give --tokenizer" in refusal(evaluate(*command, env=env))


def test_a_run_is_scored_on_the_rows_that_it_read_wherever_it_is_scored(
    copy: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(copy.parent)
    assert evaluate(*order(Path(copy.name), tmp_path / "run")).returncode == 0
    monkeypatch.chdir("/")
    with (tmp_path / "run" / "starts.jsonl").open("a") as starts:  # by another machine, and torn
        starts.write('{"first": false, "data": "/elsewhere/data"}\n[3]\n7\n{"data": "/el')
    succeeded(evaluate("score", tmp_path / "run"))
    copy.rename(tmp_path / "moved")
    succeeded(evaluate("score", tmp_path / "run"))  # what this machine found, of the same answers
    (tmp_path / "run" / "results.json").unlink()
    (tmp_path / "run" / "scores.parquet").unlink()
    monkeypatch.setenv("RULER_CACHE", str(tmp_path / "cache"))  # of a machine that scored nothing
    message = refusal(evaluate("score", tmp_path / "run"))
    assert "--data is missing: give the folder or Hub repo of the rows" in message
    succeeded(evaluate("score", tmp_path / "run", "--data", tmp_path / "moved"))
