"""Real engines give the same answers to the same rows, exactly those that were asked."""

from pathlib import Path

from ruler_data import Row
from tests.commands import succeeded
from tests.engines.conftest import CPU, ONE, Answers, Order, answers, assert_same


def test_an_answer_hangs_on_its_input(reference: Answers, rows: dict[tuple[str, int], Row]) -> None:
    assert set(reference) == set(rows)
    assert len({answer["text"] for answer in reference.values()}) == len(rows)
    for key, answer in reference.items():
        row = rows[str(key[0]), int(str(key[1]))]
        assert answer["prompt_tokens"] == row.length - row.max_new_tokens
        message = int(str(answer["answer_tokens"]))
        assert 1 <= message <= row.max_new_tokens
        assert answer["finish"] == "stop" or message == row.max_new_tokens
    assert {answer["finish"] for answer in reference.values()} == {"stop", "length"}


def test_chunks_and_prefixes_say_the_same(order: Order, reference: Answers, tmp_path: Path) -> None:
    small = ("--option", "max_num_batched_tokens=256", "--option", "block_size=32")
    done = order("vllm", tmp_path / "run", *ONE, *small)
    succeeded(done)
    found = answers(tmp_path / "run")
    assert_same(found, reference)
    # What all prompts of fwe begin with, in whole blocks, is computed once.
    cached = sorted(int(str(answer["cached_tokens"] or 0)) for answer in found.values())
    assert cached[0] == 0 and cached[1] >= 32 and not any(tokens % 32 for tokens in cached)


def test_two_ranks_say_the_same(order: Order, reference: Answers, tmp_path: Path) -> None:
    own = {"VLLM_ENABLE_V1_MULTIPROCESSING": "1", "VLLM_CPU_OMP_THREADS_BIND": "0|1"}
    two = ("--tensor-parallel", 2, "--rows", 1, "--option", "gpu_memory_utilization=0.1")
    done = order("vllm", tmp_path / "run", *CPU, *two, env=own)
    succeeded(done)
    assert "tensor_parallel_size=2" in done.stdout + done.stderr
    assert_same(answers(tmp_path / "run"), {key: reference[key] for key in reference if not key[1]})


def test_copies_on_ray_say_the_same(order: Order, reference: Answers, tmp_path: Path) -> None:
    succeeded(order("ray", tmp_path / "run", *ONE, "--option", "gpus=0"))
    assert_same(answers(tmp_path / "run"), reference)
