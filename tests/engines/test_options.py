"""What is asked of an engine reaches it, and changes what it should change."""

import json
from pathlib import Path

import pytest

from ruler_data import Row
from tests.commands import Done, succeeded
from tests.engines.conftest import FLOAT, ONE, Answers, Order, answers, assert_same
from tests.running.processes import evaluate, lines

#: YaRN as model cards tell it: the window itself is left as it was.
YARN = {"rope_type": "yarn", "factor": 2.0, "original_max_position_embeddings": 512}
OVERRIDES = json.dumps({"rope_parameters": {**YARN, "rope_theta": 10000.0}})
SHORT = ("--tasks", "fwe", "--lengths", "512")
LONG = ("--tasks", "fwe", "--lengths", "640")
STRETCHED = (*LONG, "--rows", 3, "--option", f"hf_overrides={OVERRIDES}")


def last_words(done: Done) -> str:
    """Return the line in which a command says why it refuses, among those of vLLM."""
    assert done.returncode == 2, done.stderr
    return [line for line in done.stderr.splitlines() if line.startswith("ruler-eval: ")][-1]


def test_an_argument_that_the_installed_vllm_lacks_is_refused(order: Order, tmp_path: Path) -> None:
    message = last_words(order("vllm", tmp_path / "run", "--option", "enforce_eagre=true"))
    assert "did you mean enforce_eager" in message
    assert not (tmp_path / "run").exists()


def test_vllm_takes_what_it_is_given_and_our_defaults_for_the_rest(
    order: Order, rows: dict[tuple[str, int], Row], tmp_path: Path
) -> None:
    longest = max(row.length for row in rows.values())
    given = ("--option", "enforce_eager=true", "--option", "distributed_executor_backend=uni")
    dummy = ("--option", "load_format=dummy", "--rows", 1)
    done = order("vllm", tmp_path / "run", *given, *dummy)
    succeeded(done)
    (reported,) = [
        line for line in (done.stdout + done.stderr).splitlines() if "with config:" in line
    ]
    for taken in (
        "dtype=torch.bfloat16", "load_format=dummy", "tensor_parallel_size=1",
        "enable_prefix_caching=True", "enable_chunked_prefill=True", "enforce_eager=True",
        f"max_seq_len={longest},",
    ):  # fmt: skip
        assert taken in reported, reported
    assert len(answers(tmp_path / "run")) == 2


@pytest.fixture(scope="module")
def short(model: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The same model with a window of 512 tokens."""
    folder = tmp_path_factory.mktemp("models") / "short"
    folder.mkdir()
    for path in model.iterdir():
        (folder / path.name).write_bytes(path.read_bytes())
    config = json.loads((model / "config.json").read_text())
    (folder / "config.json").write_text(json.dumps({**config, "max_position_embeddings": 512}))
    return folder


def test_yarn_stretches_the_window_and_changes_the_answers_alike_in_both_engines(
    order: Order, short: Path, reference: Answers, tmp_path: Path
) -> None:
    of_short = ("--model", short)
    succeeded(order("transformers", tmp_path / "ours", *FLOAT, *of_short, *STRETCHED))
    succeeded(order("vllm", tmp_path / "run", *ONE, *of_short, *STRETCHED))
    found = answers(tmp_path / "run")
    assert_same(found, answers(tmp_path / "ours"))
    assert len(found) == 3
    assert all(found[key]["text"] != reference[key]["text"] for key in found)


def test_without_yarn_the_window_is_the_configs_and_the_check_says_the_same(
    order: Order, short: Path, frozen: Path, tmp_path: Path
) -> None:
    message = last_words(order("vllm", tmp_path / "run", "--model", short, *LONG))
    assert "the model's window is 512" in message
    command = ("run", "--check", "--data", frozen, "--model", short)
    found = evaluate(*command, *LONG, "--json")
    assert found.returncode == 1 and "the model's window is 512" in found.stdout
    found = evaluate(*command, *STRETCHED, "--json")
    assert found.returncode == 0 and json.loads(found.stdout)["errors"] == 0


def test_a_value_that_vllm_refuses_is_named(order: Order, tmp_path: Path) -> None:
    done = order("vllm", tmp_path / "run", *ONE[2:], "--option", "dtype=float99")
    message = [line for line in done.stderr.splitlines() if line.startswith("ruler-eval: ")]
    assert done.returncode == 1 and "dtype" in message[-1] and "failure-0-of-1.txt" in message[-1]


@pytest.mark.parametrize("engine", ["vllm", "transformers"])
def test_samples_differ_and_are_the_same_again(order: Order, tmp_path: Path, engine: str) -> None:
    sampled = ("--samples", 2, "--temperature", 1.0, "--rows", 2, *SHORT)
    given = ONE if engine == "vllm" else FLOAT
    for name in ("first", "second"):
        succeeded(order(engine, tmp_path / name, *given, *sampled))
    first, second = (
        {(line["index"], line.get("sample", 0)): line["text"] for line in lines(tmp_path / name)}
        for name in ("first", "second")
    )
    assert len(set(first.values())) == 4 and first == second
