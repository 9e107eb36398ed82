"""Engine `python` and the Python API: any function answers, with all that every run has."""

import json
import linecache
import re
import sys
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from io import StringIO
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import ruler_eval
from ruler_data import Row, UsageError
from ruler_data.names import counted
from ruler_data.tokenizers import PromptTokenizer
from ruler_eval import Generation, Request
from ruler_eval.running.data import open_dataset
from tests.commands import succeeded
from tests.running.processes import all_keys, evaluate, keys, lines, ran, refusal


def gold(requests: Sequence[Request]) -> list[str]:
    return [", ".join(request.row.outputs) for request in requests]


def run(data: Path, out: Path, **options: Any) -> ruler_eval.Run:  # noqa: ANN401
    return ran(data, out=out, **options)


def test_a_function_answers_every_row_without_a_model(frozen: Path, tmp_path: Path) -> None:
    done = run(frozen, tmp_path, generate=gold)
    assert (done.complete, done.answered, done.rows) == (True, 40, 40)
    assert keys(tmp_path) == all_keys(frozen)
    assert {(line["finish"], line["counted"]) for line in lines(tmp_path)} == {
        ("unknown", "nobody")
    }
    assert "prompt tokens, at most " in succeeded(evaluate("status", tmp_path)).stdout
    info = json.loads((tmp_path / "run.json").read_text())
    assert (info["engine"], info["model"]) == ("python", "python")
    assert info["engine_info"]["function"] == "tests.running.test_python:gold"
    assert info["engine_info"]["source"].startswith("sha256:")
    assert info["frame"].startswith("<s><|start|>user")


def test_a_request_has_ids_text_and_the_parts_of_the_row(
    frozen: Path, tmp_path: Path, tokenizer: PromptTokenizer
) -> None:
    seen: list[Request] = []

    def look(requests: Sequence[Request]) -> Iterator[str]:
        seen.extend(requests)
        return iter(gold(requests))

    run(frozen, tmp_path, generate=look, tasks="vt", rows=5, batch=2)
    assert len(seen) == 5
    for request in seen:
        row: Row = request.row
        assert request.config == "vt_2048" and request.max_tokens == row.max_new_tokens
        assert len(request.ids) + request.max_tokens == row.length
        assert tokenizer.decode(request.ids) == request.prompt
        assert request.prompt.endswith(row.question + "<|eot|><|start|>assistant<|end|>\n\n"
                                       + row.answer_prefix)  # fmt: skip


def test_what_an_answer_cost_and_what_was_thought_is_recorded(frozen: Path, tmp_path: Path) -> None:
    def agent(requests: Sequence[Request]) -> Generation:
        return Generation("A", "length", 30, reasoning="B?", calls=3)

    run = ran(frozen, generate=agent, out=tmp_path, tasks="vt", rows=2)
    (config,) = run.configs
    assert (config.cut_off, config.answer_tokens) == (2, 60)
    assert "prompt tokens, 60 answer tokens" in succeeded(evaluate("status", tmp_path)).stdout
    (kept,) = {(line["text"], line["reasoning"], line["calls"]) for line in lines(tmp_path)}
    assert kept == ("A", "B?", 3)


def consuming(requests: list[Request]) -> Iterator[str]:
    while requests:
        request = requests.pop(0)
        request.ids[:] = 1
        yield ", ".join(request.row.outputs)


def test_a_function_may_consume_and_change_what_it_is_given(frozen: Path, tmp_path: Path) -> None:
    done = run(frozen, tmp_path, generate=consuming, tasks="vt", rows=5, batch=2)
    assert done.complete
    tokens = [line["prompt_tokens"] for line in lines(tmp_path)]
    run(frozen, tmp_path / "gold", generate=gold, tasks="vt", rows=5)
    assert tokens == [line["prompt_tokens"] for line in lines(tmp_path / "gold")]


def test_rows_that_a_budget_admits_are_not_kept_for_a_full_batch(
    frozen: Path, tmp_path: Path
) -> None:
    sizes: list[int] = []

    def look(requests: Sequence[Request]) -> list[str]:
        sizes.append(len(requests))
        return gold(requests)

    # Two rows of up to 2,048 tokens; another might take more than the budget.
    limited = {"batch": 5, "budget_tokens": 5000}
    done = run(frozen, tmp_path, generate=look, tasks="vt", rows=5, **limited)
    assert (sizes, done.answered, done.left) == ([2], 2, 3)
    assert "the budget of 5,000 tokens allows no further row" in (done.failure or "")


def broken(requests: Sequence[Request]) -> list[str]:
    if any(request.row.index == 3 for request in requests):
        msg = "no room\nfor keys"
        raise MemoryError(msg)
    return gold(requests)


FAULTS = {
    "raises": (broken, r"MemoryError: no room \(test_python.py:"),
    "too many": (lambda _: ["a", "b"], "returned 2 results for 1 requests"),
    "none": (lambda _: [None], "returned NoneType, not text"),
    "aborts": (lambda _: [Generation("x", "abort")], "finish reason 'abort'"),
    "a mapping": (lambda _: {"text": "x"}, "returned dict, not text or a Generation"),
    "exits": (lambda _: sys.exit(0), "SystemExit: 0"),
    "another finish": (lambda _: [Generation("x", 5)], "'5' is reported as finish"),  # type: ignore[arg-type]
    "no number": (lambda _: [Generation("x", calls=True)], "'True' is reported as calls"),
    "less than none": (lambda _: [Generation("x", calls=-5)], "'-5' is reported as calls"),
    "too long": (lambda _: [Generation("x", calls=10**5000)], "'0x.*' is reported as calls"),
    "no text": (lambda _: [Generation("x", reasoning={})], "'{}' is reported as reasoning"),  # type: ignore[arg-type]
}


@pytest.mark.parametrize("fault", FAULTS)
def test_a_function_that_fails_has_its_reason(frozen: Path, tmp_path: Path, fault: str) -> None:
    function, reason = FAULTS[fault]
    done = run(frozen, tmp_path, generate=function, tasks="vt", rows=4)
    assert not done.complete and set(done.failed) >= {"vt_2048/3"}
    with pytest.raises(AssertionError, match=reason):
        raise AssertionError(done.failed["vt_2048/3"])
    assert f"{counted(len(done.failed), 'row')} could not be answered" in (done.failure or "")
    assert ", e.g. vt_2048/" in repr(done) and done.exit_status == 1
    wrong = [record for record in done.to_records() if record["error"] is not None]
    assert len(wrong) == len(done.failed)


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder of a user, whose modules no other test finds."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [*sys.path])
    monkeypatch.setattr(sys, "dont_write_bytecode", True)
    return tmp_path


def test_the_command_imports_the_function_and_passes_its_options(frozen: Path, here: Path) -> None:
    (here / "mykv.py").write_text(
        "def generate(requests, times=1):\n"
        "    for request in requests:\n"
        "        yield ' '.join(request.row.outputs * times)\n"
    )
    few = ("--engine", "python", "--rows", 2, "--out", "run", "--option")
    arguments = ("run", "--data", frozen, *few)
    twice = ("function=mykv:generate", "--option", "times=2", "--option", "batch=4")
    succeeded(evaluate(*arguments, *twice))
    assert all(str(line["text"]).count(" ") in (5, 9) for line in lines(here / "run"))
    info = json.loads((here / "run" / "run.json").read_text())["engine_info"]
    assert (info["function"], info["arguments"]) == ("mykv:generate", {"times": 2})
    assert info["batch"] == 4
    message = refusal(evaluate(*arguments, "function=mykv:generate", "--option", "sizes=2"))
    assert "mykv:generate: cannot be called with requests and these options" in message
    assert "'nowhere:f': cannot be imported" in refusal(evaluate(*arguments, "function=nowhere:f"))
    assert "write package.module:name" in refusal(evaluate(*arguments, "function=mykv"))
    assert "needs one function" in refusal(evaluate(*arguments, "batch=2"))


def test_with_json_what_a_function_prints_is_on_standard_error(frozen: Path, here: Path) -> None:
    module = here / "loudkv.py"
    module.write_text("def generate(requests):\n    print('hello')\n    return ['a']\n")
    options = ("--engine", "python", "--option", "function=loudkv:generate", "--rows", 1)
    done = evaluate("run", "--data", frozen, *options, "--out", "run", "--json")
    assert json.loads(done.stdout)["answered"] == 2 and "hello" in done.stderr


def test_a_function_that_failed_is_run_again(frozen: Path, here: Path) -> None:
    module = here / "badkv.py"
    module.write_text("def generate(requests):\n    raise ValueError('boom')\n")
    command = (
        "run", "--data", frozen, "--engine", "python", "--rows", 1, "--out", "run", "--option",
        "function=badkv:generate",
    )  # fmt: skip
    done = evaluate(*command)
    assert "2 rows could not be answered (ValueError: boom (badkv.py:2))" in refusal(done, 1)
    module.write_text("def generate(requests):\n    return ['mended' for _ in requests]\n")
    del sys.modules["badkv"]
    assert evaluate(*command).returncode == 0
    assert [line["text"] for line in lines(here / "run") if not line["error"]] == ["mended"] * 2
    module.write_text("def generate(requests):\n    return ['other' for _ in requests]\n")
    del sys.modules["badkv"]
    assert "holds another run" in refusal(evaluate(*command))


def kept(requests: Sequence[Request], share: float, model: object) -> list[str]:
    return gold(requests)


def test_what_a_partial_gives_a_function_is_part_of_the_run(frozen: Path, tmp_path: Path) -> None:
    half = partial(kept, share=0.5, model=object())
    assert run(frozen, tmp_path, generate=half, tasks="vt", rows=1).complete
    info = json.loads((tmp_path / "run.json").read_text())["engine_info"]
    assert info["arguments"] == {"share": 0.5, "model": "object"}
    less = partial(kept, share=0.25)
    less.__name__ = "less"  # type: ignore[attr-defined]  # so that Python keeps it inside the other
    for other in (partial(kept, share=0.25, model=object()), partial(less, model=object())):
        with pytest.raises(UsageError, match=r"--option share is 0\.5"):
            run(frozen, tmp_path, generate=other, tasks="vt", rows=1)
    with pytest.raises(UsageError, match="missing a required argument: 'share'; give what it"):
        run(frozen, tmp_path / "other", generate=kept, rows=1)


def told(requests: Sequence[Request], path: str = "", ratio: object = 0.5) -> list[str]:
    return [f"{path} {ratio}"] * len(requests)


@pytest.mark.parametrize(
    ("first", "second"),
    [
        ({"path": "meta-llama/Llama-3.1-8B"}, {"path": "unsloth/Llama-3.1-8B"}),
        ({"path": "/home/me/ckpt/1000/hf"}, {"path": "/home/me/ckpt/2000/hf"}),
        ({"path": "hf_secretkey123"}, {"path": "hf_secretkey124"}),
        ({"path": "x" * 300 + " English"}, {"path": "x" * 300 + " German"}),
        ({"ratio": "False"}, {"ratio": False}),
        ({}, {"ratio": None}),
        ({"ratio": {}}, {"ratio": {"a": None}}),
        ({"ratio": {"a.b": 1}}, {"ratio": {"a": {"b": 1}}}),
    ],
)
def test_a_run_with_another_option_never_takes_the_answers_of_the_first(
    frozen: Path, tmp_path: Path, first: dict[str, Any], second: dict[str, Any]
) -> None:
    for _ in range(2):
        run(frozen, tmp_path, generate=told, tasks="vt", rows=1, **first)
    with pytest.raises(UsageError, match=r"--option \w+ is (.*) in .* and (?!\1)"):
        run(frozen, tmp_path, generate=told, tasks="vt", rows=1, **second)


def test_nested_options_may_be_written_in_another_order(frozen: Path, tmp_path: Path) -> None:
    for ratio in ({"a": 1, "b": [{"c": 2, "d": 3}]}, {"b": [{"d": 3, "c": 2}], "a": 1}):
        run(frozen, tmp_path, generate=told, tasks="vt", rows=1, ratio=ratio)


def cell(folder: Path, number: int, source: str) -> Any:  # noqa: ANN401 - a function
    """Define `generate` in a cell of a notebook, whose text IPython keeps in `linecache`."""
    name = f"{folder}/{number}.py"
    linecache.cache[name] = len(source), None, source.splitlines(keepends=True), name
    names: dict[str, Any] = {"__name__": "__main__"}
    exec(compile(source, name, "exec"), names)
    return names["generate"]


def test_a_function_that_changed_in_its_cell_is_another_run(frozen: Path, tmp_path: Path) -> None:
    source = "SAID = 'TEXT'\ndef generate(requests):\n    return [SAID] * len(requests)\n"

    def again(number: int, text: str) -> ruler_eval.Run:
        generate = cell(tmp_path, number, source.replace("TEXT", text))
        return run(frozen, tmp_path, generate=generate, tasks="vt", rows=1)

    assert again(1, "a").complete and again(2, "a").complete
    with pytest.raises(UsageError, match=r"engine_info\.source is 'sha256:"):
        again(3, "b")


def test_a_function_whose_code_cannot_be_read_is_told(
    frozen: Path, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    run(frozen, tmp_path, generate=len, tasks="vt", rows=1)
    assert "builtins:len: its code cannot be read" in capfd.readouterr().err


@pytest.mark.parametrize("protocol", ["completion", "chat"])
@pytest.mark.parametrize("no_context", [True, False])
def test_a_function_sees_of_a_row_only_what_its_prompt_has(
    frozen: Path, tmp_path: Path, protocol: str, no_context: bool
) -> None:
    seen: list[Request] = []

    def look(requests: Sequence[Request]) -> list[str]:
        seen.extend(requests)
        return gold(requests)

    done = run(
        frozen, tmp_path, generate=look, protocol=protocol, no_context=no_context, tasks="vt"
    )
    for request in seen:
        row = request.row
        assert bool(row.context) is bool(row.evidence) is not no_context
        assert bool(row.answer_prefix) is (protocol == "completion")
        assert request.prompt.count("VAR") == row.prompt.count("VAR")
    digests = {record["question_digest"] for record in done.to_records()}
    assert digests == set(open_dataset(str(frozen)).questions("vt_2048"))


def test_values_of_python_and_numpy_are_options_and_figures(frozen: Path, tmp_path: Path) -> None:
    seen: list[object] = []

    def look(requests: Sequence[Request], **options: object) -> list[Generation]:
        seen.append(options)
        return [Generation("a", tokens=np.int64(3), calls=np.int32(2))]  # type: ignore[arg-type]

    given = {"path": Path("a/b"), "n": np.int64(1), "x": (np.float32(0.5), Path("c")), "on": True}
    done = run(frozen, tmp_path, generate=look, tasks="vt", rows=1, **given)
    assert done.to_records()[0]["answer_tokens"] == 3 and done.to_records()[0]["calls"] == 2
    assert seen == [{"path": "a/b", "n": 1, "x": [0.5, "c"], "on": True}]
    texts = ["compress=False", "on=true", "path=None", "ratio=.5", "n=5.", "x=FALSE"]
    run(frozen, tmp_path / "texts", generate=look, tasks="vt", rows=1, options=texts)
    assert seen[1] == {
        "compress": False, "on": True, "path": None, "ratio": 0.5, "n": 5.0, "x": "FALSE",
    }  # fmt: skip


def test_a_run_is_described_without_paths_addresses_and_keys(frozen: Path, tmp_path: Path) -> None:
    paths = (
        "/home/ann me/ckpt/x", "../ann/ckpt/x", "~ann/ckpt/x", "a=~ann/ckpt/x", "C:\\ann\\ckpt\\x"
    )  # fmt: skip
    keys = {"url": "http://h/v1", "key": "hf_secretkey1", "git": "github_pat_11ABCDEFG0123456789"}
    secrets = {"path": "/home/me/ckpt/hf", "ratio": {"paths": paths, **keys}}
    run(frozen, tmp_path, generate=told, tasks="vt", rows=1, **secrets)
    text = (tmp_path / "run.json").read_text()
    hidden = ("/home", "ann", "ckpt", "http", "hf_secret", "github_pat")
    assert not any(each in text for each in hidden)
    arguments = json.loads(text)["engine_info"]["arguments"]
    assert re.fullmatch(r"hf#[0-9a-f]{16}", arguments["path"])
    assert arguments["ratio"]["url"].startswith("[address]#")


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"engine": "gpt"}, "engine 'gpt': give one of vllm, transformers, openai"),
        (
            {"protocol": "chatty", "generate": gold},
            "protocol 'chatty': give one of completion, base",
        ),
        ({"tasks": "cwe", "generate": gold}, "'cwe' is not in"),
        ({"lengths": "4k", "generate": gold}, "'4096' is not in"),
        ({"lengths": "4x", "generate": gold}, "'4x': not a number of tokens"),
        ({"generate": gold, "batch": 0}, "batch='0': Input should be greater than 0"),
        ({"generate": gold, "rows": "1024:3,5"}, "rows '1024:3,5': write a number"),
        ({"generate": gold, "rows": {1024: 0}}, "rows '1024:0': write a number from 1"),
        (
            {"generate": gold, "x": {1}},
            r"option x='\{1\}': has no form in JSON \(Object of type se",
        ),
        ({"generate": gold, "x": np.bool_(True)}, rf"option x='{np.bool_(True)!r}': has no form"),
        ({"generate": gold, "x": "\ud800"}, r"option x=.*: has no form in JSON .*surrogates"),
        ({"engine": "oracle"}, "model is missing"),
        ({"generate": gold, "engine": "oracle", "model": "m"}, "oracle calls no function; leave"),
        ({"generate": gold, "data_parallel": 2}, "a function runs in one process; give --option"),
        (
            {"engine": "openai", "model": "m", "budget_tokens": 9, "data_parallel": 2},
            "--budget is for one process",
        ),
        (
            {"engine": "openai", "model": "m", "budget_tokens": 9, "shard": "0/2"},
            "--budget is for one process",
        ),
        ({"generate": gold, "tasks": []}, "--tasks is empty; give names, or `all`"),
        ({"generate": gold, "lengths": []}, "--lengths is empty"),
        ({"generate": gold, "temperature": 0.5}, "python samples by itself"),
        ({"engine": "openai", "model": "m", "samples": 2}, "greedy answers are all the same"),
        ({"engine": "openai", "model": "m", "top_p": 0.9}, r"top_p 0\.9: needs a temperature"),
    ],
)
def test_what_cannot_be_run_is_refused(
    frozen: Path, tmp_path: Path, options: dict[str, Any], message: str
) -> None:
    with pytest.raises(UsageError, match=message):
        run(frozen, tmp_path / "out", **options)
    assert not (tmp_path / "out").exists()


def test_an_address_that_is_none_is_named_without_its_user_and_key(
    frozen: Path, tmp_path: Path
) -> None:
    address = "ftp://me:secret-5@gateway.lab/v1"
    with pytest.raises(UsageError, match=r"-url 'gateway\.lab/v1': not an address") as refused:
        run(frozen, tmp_path / "out", engine="openai", model="m", base_url=address)
    assert "secret-5" not in str(refused.value)


def test_rows_that_the_gold_answers_are_to_leave_out_are_told_by_their_index(
    frozen: Path, tmp_path: Path
) -> None:
    done = run(frozen, tmp_path / "out", engine="oracle", model="gold", fail=0, rows=2)
    assert {*done.failed} == {"vt_2048/0", "fwe_2048/0"}


def test_a_check_knows_options_in_either_form(frozen: Path, tiny: Path) -> None:
    for more in ({"nosuch": 1}, {"options": {"nosuch": 1}}):
        with pytest.raises(UsageError, match="engine oracle has no such option"):
            ruler_eval.check(frozen, engine="oracle", model=str(tiny), **more)


def test_a_run_without_a_folder_leaves_none_when_python_ends(
    frozen: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    at_end = list[Callable[[], object]]()

    def register(function: Callable[..., object], *more: object, **named: object) -> None:
        at_end.append(partial(function, *more, **named))

    monkeypatch.setattr("atexit.register", register)
    done = ruler_eval.run(frozen, generate=gold, rows=1, progress=False)
    assert done.folder.is_dir()
    for function in at_end:
        function()
    assert not done.folder.exists()


@pytest.mark.parametrize("closed", [True, False])
def test_a_run_needs_no_standard_error(
    frozen: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, closed: bool
) -> None:
    stream = StringIO()
    stream.close()
    monkeypatch.setattr(sys, "stderr", stream if closed else None)
    assert run(frozen, tmp_path, generate=gold, tasks="vt", rows=1).complete
