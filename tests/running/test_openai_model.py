"""The same model all along: after an outage, at the end, and when a run resumes."""

import json
from pathlib import Path
from threading import Thread
from typing import Any

import pytest

from tests.builds import until
from tests.commands import finish
from tests.running.processes import evaluate, keys, lines, refusal, started, whole_lines
from tests.running.server import Body, FakeServer, Say, hang, well
from tests.running.test_openai import KEYS, assert_golden, order


def test_another_model_on_resume_is_refused_naming_what_differs(
    frozen: Path, tmp_path: Path, golden: Say
) -> None:
    with FakeServer(golden, lambda n, b: well(n, b) if n <= 6 else (400, {}, b"no")) as server:
        asked = (*order(frozen, server.url, tmp_path)[:-4], "--option", "concurrency=1")
        assert evaluate(*asked).returncode == 1
        before = (tmp_path / "answers-0-of-1.jsonl").read_bytes()
        server.fault, server.voice = well, "Here is"
        said = refusal(evaluate(*asked))
        assert "another model than when the run began: the answer to" in said
        server.voice, server.card["root"] = "It was", "/models/other"
        assert "engine_info.server.root is missing in the folder and 'other' now" in refusal(
            evaluate(*asked)
        )
        assert len(server.seen) <= 9 and before.count(b'"error":null') == 6
        del server.card["root"]
        done = evaluate(*asked)
        assert done.returncode == 0, done.stderr
    assert_golden(frozen, tmp_path)
    starts = [json.loads(line) for line in (tmp_path / "starts.jsonl").read_text().splitlines()]
    assert len(starts) == 2 and starts[0]["probe"] == starts[1]["probe"]
    assert starts[0]["concurrency"] == 1


@pytest.mark.slow
@pytest.mark.parametrize(
    ("change", "read"),
    [("voice", None), ("voice", 1), ("max_model_len", None), ("fingerprint", None)],
)
def test_a_server_that_comes_back_with_another_model_ends_the_run(
    frozen: Path, tmp_path: Path, golden: Say, change: str, read: int | None
) -> None:
    known: dict[str, Any] = {"fingerprint": "vllm-0.32.0-5764c805", "max_model_len": 4096}
    changed = {"fingerprint": "vllm-0.33.0-5764c805", "voice": "Here is", "max_model_len": 8192}
    first = FakeServer(golden, lambda n, b: hang(60) if n > 4 else well(n, b), **known)
    slow = order(frozen, first.url, tmp_path, "--option", "timeout=1")
    with started(*slow) as process:
        until(lambda: whole_lines(tmp_path) >= 4 and len(first.seen) >= 7, process)
        first.close()
        now = known | {change: changed[change]}
        other = FakeServer(lambda body: "wrong", port=first.port, **now)
        if read is not None:  # it counts other tokens, so none of its answers is accepted
            other.reads = lambda body: read
        with other:
            done = finish(process)
    said = refusal(done, 1)
    assert "holds another model than at the start" in said
    assert {"voice": "the answer to", "fingerprint": "'vllm-0.32.0' and is 'vllm-0.33.0'"}.get(
        change, "max_model_len was '4096' and is '8192'"
    ) in said
    assert "wrong" not in {line["text"] for line in lines(tmp_path)}
    known["fingerprint"] = "vllm-0.32.0-dp2-0123abcd"  # of other scheduling options
    with FakeServer(golden, port=first.port, **known):
        done = evaluate(*slow)
    assert done.returncode == 0, done.stderr
    assert_golden(frozen, tmp_path)


def test_a_model_swapped_without_an_outage_is_found_at_the_end_and_its_answers_set_aside(
    frozen: Path, tmp_path: Path, golden: Say
) -> None:
    with FakeServer(golden) as server:

        def swap(number: int, body: Body) -> object:
            if number == 7:
                server.say, server.voice = lambda body: "wrong", "Here is"
            return well(number, body)

        server.fault = swap  # type: ignore[assignment]
        asked = order(frozen, server.url, tmp_path)
        said = refusal(evaluate(*asked), 1)
        assert "12 answers since then are now in doubtful-0-of-1.jsonl" in said
        assert not lines(tmp_path)
        aside = (tmp_path / "doubtful-0-of-1.jsonl").read_text().splitlines()
        assert sum(json.loads(line)["text"] == "wrong" for line in aside) == 6
        server.say, server.voice, server.fault = golden, "It was", well
        assert evaluate(*asked).returncode == 0
    assert keys(tmp_path) == KEYS
    assert_golden(frozen, tmp_path)


def test_one_short_prompt_may_differ_and_what_is_not_stable_is_not_compared(
    frozen: Path, tmp_path: Path, golden: Say
) -> None:
    with FakeServer(golden) as server:
        once, calls = server.reads, []

        def noisy(body: Body) -> int | None:
            calls.append(body)
            server.voice = f"Voice {len(calls)}"
            return once(body)

        server.reads = noisy
        done = evaluate(*order(frozen, server.url, tmp_path))
    assert done.returncode == 0, done.stderr
    assert done.stderr.count("no stable answers to short prompts") == 1


def test_the_model_of_a_start_without_answers_is_not_that_of_the_run(
    frozen: Path, tmp_path: Path, golden: Say
) -> None:
    with FakeServer(golden, lambda n, b: (400, {}, b"no")) as server:
        asked = order(frozen, server.url, tmp_path)
        assert evaluate(*asked).returncode == 1
        server.voice, server.fault = (
            "Here is",
            lambda n, b: (400, {}, b"no") if n > 14 else well(n, b),
        )
        assert evaluate(*asked).returncode == 1
        server.fault = well
        assert evaluate(*asked).returncode == 0
    assert_golden(frozen, tmp_path)


def test_a_server_that_is_gone_at_the_end_costs_no_answer(
    frozen: Path, tmp_path: Path, golden: Say
) -> None:
    server = FakeServer(golden)

    def leave() -> None:
        until(lambda: server.answered == 12)  # those asked last are still on their way
        server.close()

    def last(number: int, body: Body) -> object:
        if number == 12:
            server.refuses = {"prompt"}  # keeps to itself from now on
            Thread(target=leave).start()
        return well(number, body)

    server.fault = last  # type: ignore[assignment]
    asked = (*order(frozen, server.url, tmp_path)[:-2], "--option", "patience=1")
    done = evaluate(*asked)
    assert done.returncode == 0, done.stderr
    assert "short prompts could not be asked again" in done.stderr or "not known" in done.stderr
    assert_golden(frozen, tmp_path)


def test_a_key_that_is_refused_is_reported_before_any_row_is_asked(
    frozen: Path, tmp_path: Path, golden: Say
) -> None:
    with FakeServer(golden) as server:
        server.denies = True
        said = refusal(evaluate(*order(frozen, server.url, tmp_path)), 1)
        assert "status 401: 'no such key'" in said and not server.seen
    assert not (tmp_path / "run.json").exists()


def test_threads_share_connections_that_stay_open(
    frozen: Path, tmp_path: Path, golden: Say
) -> None:
    with FakeServer(golden) as server:
        done = evaluate(*order(frozen, server.url, tmp_path))
    assert done.returncode == 0, done.stderr
    requests = len(server.seen) + len(server.probes)
    assert requests == 12 + 3 * 4 and len(server.connections) <= 3  # one for each thread
