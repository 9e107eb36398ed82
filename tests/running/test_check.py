"""`ruler-eval run --check`: each fault that would spoil a run is found without loading anything."""

import json
import re
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import ruler_builders
from ruler_data import UsageError
from ruler_data.names import config_file
from ruler_data.parquet import read_rows
from ruler_data.tokenizers import PromptTokenizer
from tests.commands import succeeded
from tests.running import tiny
from tests.running.processes import evaluate, refusal
from tests.running.server import FakeServer
from tests.tampering import copy_of, edit_table, table_of


def examine(data: Path, model: Path, *more: object) -> dict[str, Any]:
    command = ("--data", data, "--model", model, "--engine", "oracle", "--json", *more)
    done = evaluate("run", "--check", *command)
    assert done.returncode in (0, 1), done.stderr
    found: dict[str, Any] = json.loads(done.stdout)
    assert (done.returncode == 1) == (found["errors"] > 0)
    return found


def errors(found: dict[str, Any]) -> list[str]:
    wrong = (one for one in found["findings"] if one["level"] == "error")
    return [f"{one['about']}: {one['message']}" for one in wrong]


def test_rows_are_as_long_as_they_say(frozen: Path, tiny: Path) -> None:
    found = examine(frozen, tiny)
    assert found["rows"] == 40 and found["findings"] == []


@pytest.mark.parametrize("more", [1, -1])
def test_rows_that_are_longer_or_shorter_than_they_say_are_an_error(
    more: int, frozen: Path, tiny: Path, tmp_path: Path
) -> None:
    copy = copy_of(frozen, tmp_path)
    table = table_of(copy, "vt_2048")
    lengths = [length + more for length in table["length"].to_pylist()]
    place = table.schema.get_field_index("length")
    edit_table(copy, "vt_2048", table.set_column(place, "length", pa.array(lengths, pa.int32())))
    (error,) = errors(examine(copy, tiny))
    made, said = re.findall(r"answer are (\d+) tokens, the data says (\d+), counted with", error)[0]
    assert int(said) == int(made) + more and "20 rows like it" in error


def with_template(folder: Path, template: str | None, **changes: object) -> Path:
    """Write a model whose template and tokenizer's config are other than the data's."""
    tiny.make_model(folder)
    path = folder / "tokenizer_config.json"
    body = {**json.loads(path.read_text()), "chat_template": template, **changes}
    path.write_text(json.dumps({name: value for name, value in body.items() if value is not None}))
    return folder


@pytest.mark.parametrize(
    ("template", "output"),
    [
        (tiny.LLAMA.split("{% if add_generation_prompt %}")[0], "it has no generation prompt"),
        (tiny.LLAMA.replace("m.content | trim", "m.content[-200:]"), "is not that of the data"),
    ],
)
def test_a_broken_template_is_found(
    frozen: Path, tmp_path: Path, template: str, output: str
) -> None:
    found = examine(frozen, with_template(tmp_path / "broken", template))
    assert any(output in error for error in errors(found)), found["findings"]


TWO_BOS = "<s>" + tiny.LLAMA
UNNAMED = tiny.LLAMA.replace("{{ bos_token }}", "<s>")


@pytest.mark.parametrize(("template", "bos"), [(TWO_BOS, "<s>"), (UNNAMED, None)])
def test_a_template_with_two_bos_is_refused(
    frozen: Path, tmp_path: Path, template: str, bos: str | None
) -> None:
    model = with_template(tmp_path / "broken", template, bos_token=bos)
    for command in (("run", "--check"), ("run", "--out", tmp_path / "out")):
        done = evaluate(*command, "--data", frozen, "--model", model, "--engine", "oracle")
        assert "a prompt begins with 2 BOS tokens, the model expects one" in refusal(done)


def test_a_build_with_two_bos_is_refused(tmp_path: Path) -> None:
    model = with_template(tmp_path / "broken", TWO_BOS)
    with pytest.raises(UsageError, match="begins with 2 BOS tokens, the model expects one"):
        ruler_builders.build(str(model), lengths="2k", tasks="vt", rows=1, out=tmp_path / "d")
    assert not (tmp_path / "d").exists()


def test_a_missing_bos_is_refused(frozen: Path, tmp_path: Path) -> None:
    tiny.make_tokenizer(tmp_path / "m", tiny.QWEN3, adds_bos=False)
    path = tmp_path / "m" / "tokenizer_config.json"
    path.write_text(json.dumps({**json.loads(path.read_text()), "add_bos_token": True}))
    (tmp_path / "m" / "config.json").write_text(json.dumps(tiny.config()))
    done = evaluate("run", "--check", "--data", frozen, "--model", tmp_path / "m")
    assert "begins with no BOS" in refusal(done)


def test_another_tokenizer_must_be_asked_for(frozen: Path, tmp_path: Path) -> None:
    model = with_template(tmp_path / "other", tiny.QWEN3)
    found = examine(frozen, model)
    (message,) = errors(found)
    assert message.startswith("tokenizer: other (") and "not that of the data, tiny" in message
    assert "vt_2048/0 has" in message and "the data says 20" in message
    assert len(found["findings"]) == 1
    run = ("run", "--data", frozen, "--model", model, "--engine", "oracle", "--rows", 1, "--out")
    assert message in refusal(evaluate(*run, tmp_path / "run"))
    done = succeeded(evaluate(*run, tmp_path / "run", "--tokenizer", model))
    assert f"warning: {message}" in done.stderr
    command = examine(frozen, model, "--tokenizer", model)
    assert not errors(command) and command["findings"][0]["about"] == "tokenizer"


def test_prompts_over_the_window_are_one_finding(frozen: Path, tmp_path: Path) -> None:
    found = examine(frozen, tiny.make_model(tmp_path / "tiny", window=2000))
    (message,) = errors(found)
    assert "the model's window is 2000" in message
    assert "40 rows like it, 40 examined" in message


def test_yarn_given_as_an_option_extends_the_window(frozen: Path, tmp_path: Path) -> None:
    model = tiny.make_model(tmp_path / "tiny", window=1024)
    rope = {
        "rope_type": "yarn", "factor": 4.0, "original_max_position_embeddings": 1024,
        "rope_theta": 10000.0,
    }  # fmt: skip
    option = f"hf_overrides={json.dumps({'rope_parameters': rope})}"
    assert errors(examine(frozen, model))
    assert not errors(examine(frozen, model, "--engine", "vllm", "--option", option))


def test_the_cost_is_what_the_rows_say(frozen: Path, tiny: Path, tmp_path: Path) -> None:
    prices = ("--prices", "2,8")
    cost = examine(frozen, tiny, *prices)["cost"]
    rows = [
        row for task in ("vt", "fwe") for row in read_rows(frozen / config_file(f"{task}_2048"))
    ]
    read = sum(row.length - row.max_new_tokens for row in rows)
    written = sum(row.max_new_tokens for row in rows)
    assert cost["lengths"] == {"2048": {"prompt_tokens": read, "answer_tokens": written}}
    assert cost["money"] == pytest.approx((2 * read + 8 * written) / 1e6)
    of_a_token = 2 * 2 * 4 * 2 * 32  # keys and values in bf16, of 4 layers with 2 heads of 32
    assert cost["cache_bytes"] == of_a_token * max(row.length for row in rows)
    assert cost["weight_bytes"] is None
    done = evaluate("run", "--check", "--data", frozen, "--model", tiny, *prices)
    assert f"2K: reads {read:,} tokens, writes at most {written:,} tokens, costs at" in done.stdout
    assert "options: not checked: engine vllm is not installed" in done.stdout
    twice = examine(frozen, tiny, "--samples", 2, "--temperature", 1)["cost"]
    assert twice["answer_tokens"] == 2 * written
    more = examine(frozen, tiny, "--protocol", "thinking", "--extra-tokens", 7)["cost"]
    assert more["answer_tokens"] == written + 7 * len(rows)
    less = examine(frozen, tiny, "--no-context")["cost"]
    assert less["prompt_tokens"] < read / 10
    model = tiny_model(tmp_path)
    assert examine(frozen, model)["cost"]["weight_bytes"] == 65_248_815_744
    done = evaluate("run", "--check", "--data", frozen, "--model", model)
    assert "weights: 65.25 GB\n" in done.stdout
    wrong = ("--engine", "oracle", "--option", "sekonds=1")
    error = refusal(evaluate("run", "--check", "--data", frozen, "--model", tiny, *wrong))
    assert "did you mean seconds" in error


def tiny_model(folder: Path) -> Path:
    """Return a model whose index says how large its weights are."""
    model = tiny.make_model(folder / "tiny")
    index = {"metadata": {"total_size": 65_248_815_744}}
    (model / "model.safetensors.index.json").write_text(json.dumps(index))
    return model


def examined(frozen: Path, server: FakeServer, *more: object) -> list[str]:
    done = evaluate(
        "run",
        "--check",
        "--data",
        frozen,
        "--model",
        "m",
        "--base-url",
        server.url,
        "--json",
        *more,
    )
    return [
        f"{one['level']}: {one['about']}: {one['message']}"
        for one in json.loads(done.stdout)["findings"]
        if one["about"] == "server" or one["level"] == "error"
    ]


def test_a_server_is_asked_the_longest_row(frozen: Path, tokenizer: PromptTokenizer) -> None:
    with FakeServer(lambda body: "x") as server:
        (note,) = examined(frozen, server)
        assert note.startswith("note: server: read 20") and "were rendered here" in note
        assert len(server.seen) == 1 and len(server.seen[0]["prompt"]) >= 1900
        server.refuses = {"min_tokens"}
        done = evaluate(
            "run", "--check", "--data", frozen, "--model", "m", "--base-url", server.url
        )
        assert "refuses min_tokens; it is left out" in done.stderr
        server.refuses = set()
        server.reads = lambda body: min(1024, len(body["prompt"]))
        (error,) = [one for one in examined(frozen, server) if one.startswith("error")]
        assert "the server read 1024 prompt tokens" in error and "raise it" in error
        server.card["max_model_len"] = 1500
        command = len(server.seen)
        assert "its window is 1500 tokens" in examined(frozen, server)[0]
        assert len(server.seen) == command
        del server.card["max_model_len"]
        server.reads = lambda body: (
            tokenizer.count([body["messages"][0]["content"]])[0] + 40 if "messages" in body else 9
        )
        chat = ("--protocol", "chat", "--option", "api=chat")
        (template,) = examined(frozen, server, *chat)
        assert "its template differs from the one here by +" in template


def test_an_engine_that_cannot_be_imported_is_one_line(
    frozen: Path, tiny: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    about = tmp_path / "vllm-0.32.0.dist-info" / "METADATA"
    module = tmp_path / "vllm" / "__init__.py"
    for path, text in (
        (about, "Metadata-Version: 2.1\nName: vllm\nVersion: 0.32.0\n"),
        (module, "raise RuntimeError('operator torchvision::nms does not exist')\n"),
    ):
        path.parent.mkdir()
        path.write_text(text)
    monkeypatch.syspath_prepend(tmp_path)
    why = "engine vllm is installed but cannot be imported ('RuntimeError: operator torchvision"
    here = ("--data", frozen, "--model", tiny)
    assert why in refusal(evaluate("run", *here, "--out", tmp_path / "run"))
    assert f"note: options: not checked: {why}" in evaluate("run", "--check", *here).stdout
