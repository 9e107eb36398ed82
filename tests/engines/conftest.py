"""A tiny model with weights and rows frozen for it; only where the engines are installed."""

import importlib.util
import os
import socket
import subprocess
from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path

import pytest
import requests

from ruler_data import Row
from ruler_data.names import config_file
from ruler_data.parquet import read_rows
from tests import forks
from tests.commands import Done, call, succeeded
from tests.conftest import Cli, made_once, of_all_workers
from tests.running.processes import lines

#: vLLM on a CPU, in one process, with little memory.
ENV = {"VLLM_ENABLE_V1_MULTIPROCESSING": "0", "VLLM_CPU_KVCACHE_SPACE": "1"}
FLOAT = ("--option", "dtype=float32")
CPU = (*FLOAT, "--option", "enforce_eager=true")
ONE = (*CPU, "--option", "distributed_executor_backend=uni")
CONFIGS = ("fwe_512", "fwe_640")
#: Seconds after which something hangs: what takes one minute takes six beside all other tests.
HANG = 900

#: What takes long to import; none of it starts a thread.
PRELOAD = (
    "vllm.entrypoints.openai.api_server", "vllm.v1.engine.core", "vllm.v1.worker.cpu_worker",
    "transformers.models.llama.modeling_llama", "ruler_cli", "tests.engines.weights",
)  # fmt: skip

#: Programs of their own, which import vLLM or what lies with the recipes.
collect_ignore = ["forced.py", "gguf_file.py", "llama_cpp.py"]

Answers = dict[tuple[object, object], dict[str, object]]
Order = Callable[..., Done]


def pytest_ignore_collect() -> bool | None:
    """Leave this folder out where no engine is installed."""
    return True if importlib.util.find_spec("torch") is None else None


@pytest.fixture(scope="session", autouse=True)
def told(isolated: None) -> Iterator[None]:
    """Let vLLM say what it makes of its arguments, and torch begin no more threads than it needs.

    Both read it when they are imported.
    """
    forks.preload(PRELOAD)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("VLLM_LOGGING_LEVEL", "INFO")
        patch.setenv("OMP_NUM_THREADS", "1")
        yield


def start(module: str, *arguments: object, env: dict[str, str] | None = None) -> forks.Process:
    """Start `python -m module` with the variables that vLLM needs here."""
    return forks.Process(module, [*map(str, arguments)], {**os.environ, **ENV, **(env or {})}, None)


def run(module: str, *arguments: object, env: dict[str, str] | None = None) -> Done:
    """Run `python -m module` to its end."""
    process = start(module, *arguments, env=env)
    try:
        process.wait(HANG)
    except subprocess.TimeoutExpired:
        process.kill()
        _, errors = process.communicate()
        pytest.fail(f"{process.args} said nothing more after {HANG} s:\n{errors}")
    finally:
        process.kill()
    output, errors = process.communicate()
    return Done(process.args, process.wait(), output, errors)


def free_port() -> int:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        return int(free.getsockname()[1])


def listens(url: str) -> bool:
    try:
        return requests.get(f"{url}/models", timeout=2).ok
    except requests.RequestException:
        return False


@pytest.fixture(scope="session")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A Llama of 4 layers with random weights; not to be changed."""
    return made_once(
        of_all_workers(tmp_path_factory) / "weights",
        lambda folder: succeeded(run("tests.engines.weights", folder)),
    )


@pytest.fixture(scope="session")
def frozen(tmp_path_factory: pytest.TempPathFactory, cli: Cli, model: Path) -> Path:
    """6 rows of fwe at 512 and at 640 tokens; not to be changed."""
    command = (
        "build", "--tokenizer", model, "--sources", "sample", "--tasks", "fwe", "--lengths",
        "512,640", "--rows", 6,
    )  # fmt: skip
    return made_once(
        of_all_workers(tmp_path_factory) / "short",
        lambda out: succeeded(cli(*command, "--out", out)),
    )


@pytest.fixture(scope="session")
def with_torch(told: None) -> Iterator[ProcessPoolExecutor]:
    """A process that has torch in memory, and does one command after the other."""
    with forks.pool(os.environ) as pool:
        yield pool


@pytest.fixture(scope="session")
def order(model: Path, frozen: Path, with_torch: ProcessPoolExecutor) -> Order:
    """Run the model over the rows with an engine: vLLM and Ray in a process of their own."""

    def order(
        engine: str,
        out: Path,
        *more: object,
        env: dict[str, str] | None = None,
        cwd: Path | None = None,
    ) -> Done:
        command = (
            "run", "--data", frozen, "--model", model, "--engine", engine, "--out", out, *more,
        )  # fmt: skip
        if engine == "openai":
            return call("ruler-eval", *command)
        if engine in ("transformers", "python"):
            return with_torch.submit(call, "ruler-eval", *command, cwd=cwd).result(HANG)
        return run("ruler_cli", *command, env=env)

    return order


@pytest.fixture(scope="session")
def rows(frozen: Path) -> dict[tuple[str, int], Row]:
    """Every row, by its identity."""
    return {(c, row.index): row for c in CONFIGS for row in read_rows(frozen / config_file(c))}


@pytest.fixture(scope="session")
def reference(order: Order, tmp_path_factory: pytest.TempPathFactory) -> Answers:
    """What transformers says: the answers that every other engine must give."""
    folder = of_all_workers(tmp_path_factory) / "reference"
    return answers(made_once(folder, lambda out: succeeded(order("transformers", out, *FLOAT))))


def answers(out: Path) -> Answers:
    """Return the answers of a run by their rows."""
    return {(line["config"], line["index"]): line for line in lines(out)}


def assert_same(found: Answers, reference: Answers) -> None:
    """Compare all that decides on a score: text, how it ended, and the tokens on both sides."""
    assert found.keys() == reference.keys()
    for key, answer in reference.items():
        assert _told(found[key]) == _told(answer), key


def _told(answer: dict[str, object]) -> tuple[object, ...]:
    """Return what must agree.

    Of a character cut off at the end, engines keep part or nothing; llama.cpp, which is asked for
    special tokens, shows the one that ends an answer too.
    """
    names = ("finish", "prompt_tokens", "answer_tokens", "error")
    text = str(answer["text"]).removesuffix("</s>").rstrip("\ufffd")
    return text, *(answer[name] for name in names)
