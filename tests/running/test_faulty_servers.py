"""What a run says of a server at fault, and what it takes for an answer."""

import json
import time
from pathlib import Path

import pytest

import ruler_eval
from ruler_data.tokenizers import PromptTokenizer
from ruler_eval.running.run_dir import obstacles, read_info
from tests.running.conftest import Ask
from tests.running.faulty_servers import (
    CHAT,
    SERVERS,
    STREAM,
    is_row,
    message,
    piece,
    reading,
    saying,
    status,
    streaming,
)
from tests.running.processes import answered, evaluate, lines, refusal
from tests.running.server import Answer, Body, FakeServer, Reply, copies
from tests.running.test_openai_answers import reads_chat

#: A row that is answered.
Answered = Answer()


def test_the_table_has_sixty_kinds() -> None:
    assert len(SERVERS) >= 60


@pytest.mark.slow
@pytest.mark.parametrize("name", SERVERS)
def test_a_server_at_fault_is_named(
    tmp_path: Path, server: FakeServer, ask: Ask, tokenizer: PromptTokenizer, name: str
) -> None:
    faulty = SERVERS[name]
    server.reads = lambda body: (
        reads_chat(tokenizer)(body) if "messages" in body else len(body["prompt"])
    )
    faulty.setup(server, reads_chat(tokenizer))
    limit = ("--option", "timeout=2")
    done = ask("--rows", 2, *faulty.more, *limit, patience=faulty.patience)
    assert faulty.said in " ".join((done.stderr + done.stdout).split()), done
    assert done.returncode == (2 if "the model's window" in faulty.said else faulty.answered < 2)
    assert len(answered(tmp_path)) == faulty.answered, done
    assert len(server.seen) <= 40


def recorded(out: Path) -> Body:
    body: Body = json.loads((out / "run.json").read_text())
    return body


LOST: dict[str, Reply] = {
    "reset": None,
    "HTML": status(200, b"<html>sorry</html>"),
    "empty choices": status(200, b'{"choices": []}'),
    "500": status(500),
    "504": status(504),
}


@pytest.mark.slow
@pytest.mark.parametrize("name", [*LOST, "a cut stream"])
def test_a_budget_holds_whatever_a_server_does_after_it_generated(
    tmp_path: Path, server: FakeServer, ask: Ask, name: str
) -> None:
    if name == "a cut stream":
        streaming(piece("x"))(server, lambda body: 0)
    else:
        server.fault = lambda n, b: LOST[name]
    budget = 14_000
    done = ask("--budget-tokens", budget, *(STREAM if name == "a cut stream" else ()), patience=5)
    assert done.returncode == 1
    tries = sum(len(body["prompt"]) + body["max_tokens"] for body in server.seen)
    assert 0 < tries <= budget
    assert refusal(ask("--budget-tokens", budget), 1)  # what was spent is not forgotten
    tries = sum(len(body["prompt"]) + body["max_tokens"] for body in server.seen)
    assert tries <= budget
    spent = json.loads(evaluate("status", tmp_path, "--json").stdout)["spent"]
    assert spent["prompt_tokens"] + spent["answer_tokens"] >= tries


def test_a_refused_try_costs_nothing_and_usage_of_a_bad_reply_is_what_it_cost(
    tmp_path: Path, server: FakeServer, ask: Ask
) -> None:
    bad = {"choices": [], "usage": {"prompt_tokens": 2018, "completion_tokens": 1}}
    replies = [status(429), status(503), status(200, json.dumps(bad).encode())]
    server.fault = lambda n, b: replies[n - 1] if n <= 3 else status(400)
    refusal(ask("--rows", 1, patience=5), 1)
    spent = json.loads(evaluate("status", tmp_path, "--json").stdout)["spent"]
    assert spent["failed_tokens"] == 2019


def test_tries_of_a_process_that_died_count_as_a_whole(
    tmp_path: Path, server: FakeServer, ask: Ask
) -> None:
    ask("--rows", 3)
    before = json.loads(evaluate("status", tmp_path, "--json").stdout)["spent"]
    (ledger,) = tmp_path.glob("tries-*.jsonl")
    *whole, _last = ledger.read_bytes().splitlines(keepends=True)  # the settling line is lost
    ledger.write_bytes(b"".join(whole) + b'{"try":')
    after = json.loads(evaluate("status", tmp_path, "--json").stdout)["spent"]
    assert after["answer_tokens"] == before["answer_tokens"] + 27  # of 30, 3 were used


def test_an_offset_is_recorded_and_is_another_condition(
    tmp_path: Path, server: FakeServer, ask: Ask, tokenizer: PromptTokenizer
) -> None:
    for offset in (0, 40):
        server.reads = lambda body, more=offset: reads_chat(tokenizer)(body) + more  # type: ignore[misc]
        assert ask(*CHAT, "--rows", 1, out=tmp_path / str(offset)).returncode == 0
        assert recorded(tmp_path / str(offset))["seen"]["offset"] == offset
    runs = [read_info(tmp_path / str(offset)) for offset in (0, 40)]
    (difference,) = obstacles(*runs)
    assert "the tokens of the server's template differ: +0" in difference and "+40" in difference
    assert not [*obstacles(runs[1], runs[1])]


@pytest.mark.slow
@pytest.mark.parametrize(("now", "goes_on"), [(41, True), (38, True), (50, False)])
def test_a_template_may_tell_another_date_when_a_run_goes_on(
    tmp_path: Path, server: FakeServer, ask: Ask, tokenizer: PromptTokenizer, now: int,
    goes_on: bool,
) -> None:  # fmt: skip
    count = reads_chat(tokenizer)
    server.reads = lambda body: count(body) + 40
    server.fault = lambda n, b: status(400) if n > 3 else Answered
    assert ask(*CHAT, "--rows", 6, concurrency=1).returncode == 1
    server.fault = lambda n, b: Answered
    server.reads = lambda body: count(body) + now
    done = ask(*CHAT, "--rows", 6, concurrency=1)
    assert (done.returncode == 0) == goes_on, done
    if not goes_on:
        assert "seen.offset is 40 in the folder and 50 now" in refusal(done)


def test_the_name_of_a_model_does_not_change_its_sampling(
    tmp_path: Path, server: FakeServer, ask: Ask
) -> None:
    server.probed = lambda body: copies(body, repeat_penalty=1.15)
    sent = []
    for owner in ("llamacpp", "a router"):
        server.card = {"id": "m" if owner == "llamacpp" else "renamed", "owned_by": owner}
        done = ask("--rows", 1, out=tmp_path / owner)
        assert "a penalty of the server's own was seen" in done.stderr
        assert "was seen" in recorded(tmp_path / owner)["seen"]["sampling"]
        sent.append({**server.seen[-1], "prompt": None})
    assert sent[0] == sent[1] and sent[0]["repeat_penalty"] == 1.0


def test_a_proof_takes_few_short_requests(server: FakeServer, ask: Ask, tmp_path: Path) -> None:
    assert ask("--rows", 1).returncode == 0
    assert len(server.probes) <= 12
    assert all(body["max_tokens"] <= 24 and not is_row(body) for body in server.probes)
    line = evaluate("status", tmp_path).stdout
    assert "spent: " in line and recorded(tmp_path)["seen"] == {
        "offset": 0, "sampling": "no penalty of the server's own was seen", "window": 4096,
    }  # fmt: skip


def test_whitespace_until_the_budget_is_an_empty_answer_and_no_reasoning(
    frozen: Path, tmp_path: Path, server: FakeServer, ask: Ask, tokenizer: PromptTokenizer
) -> None:
    spaces = {"message": {"content": "\n" * 30}, "finish_reason": "length"}
    saying(spaces, {"completion_tokens": 30})(server, reads_chat(tokenizer))
    assert ask(*CHAT, "--rows", 2).returncode == 0
    assert {line.get("reasoning_tokens") for line in lines(tmp_path)} == {None}
    assert "2 empty" in scored(tmp_path, frozen)


def scored(run: Path, data: Path) -> str:
    done = evaluate("score", run, "--data", data, "--partial")
    return done.stdout + done.stderr


@pytest.mark.parametrize(
    "fields",
    [
        {"content": "x", "thinking": "Hm"},
        {"content": "x", "thinking_blocks": [{"type": "thinking", "thinking": "Hm"}]},
        {"content": [{"type": "thinking", "thinking": "Hm"}, {"type": "text", "text": "x"}]},
    ],
)
def test_thoughts_are_reasoning_wherever_a_message_holds_them(
    tmp_path: Path, server: FakeServer, ask: Ask, tokenizer: PromptTokenizer, fields: Body
) -> None:
    message(**fields)(server, reads_chat(tokenizer))
    thinking = ("--protocol", "thinking", "--extra-tokens", 500, "--option", "api=chat")
    count = reads_chat(tokenizer)
    server.reads = count
    assert ask(*thinking, "--rows", 1).returncode == 0
    assert {(line["text"], line["reasoning"]) for line in lines(tmp_path)} == {("x", "Hm")}


@pytest.mark.slow
def test_fewer_requests_are_under_way_while_a_server_limits_the_rate(
    server: FakeServer, ask: Ask
) -> None:
    under_way: list[int] = [0]
    most: list[int] = [0]

    def fault(number: int, body: Body) -> Reply | object:
        with server.lock:
            under_way[0] += 1
            most[0] = max(most[0], under_way[0]) if number > 8 else 0
            busy = under_way[0] > 2
        time.sleep(0.05)
        with server.lock:
            under_way[0] -= 1
        return status(429, retry_after_ms="50") if busy else Answered

    server.fault = fault  # type: ignore[assignment]
    assert ask("--rows", 20, concurrency=16, patience=5).returncode == 0
    assert len(server.seen) < 60


def test_prompts_that_are_all_read_as_one_number_are_cut_and_their_rows_are_asked_again(
    tmp_path: Path, server: FakeServer, ask: Ask, tokenizer: PromptTokenizer, frozen: Path
) -> None:
    count = reads_chat(tokenizer)
    reading(lambda body, tokens: 1900 if is_row(body) else tokens * 2)(server, count)
    command = (*CHAT, "--rows", 20, "--option", "tolerance=0.2")
    error = refusal(ask(*command), 1)
    assert "as 1900 each: it cuts them at its window" in error
    assert len(answered(tmp_path)) == 8  # as the server's replies said
    status = json.loads(evaluate("status", tmp_path, "--json").stdout)
    assert (status["answered"], status["failed"]) == (0, 8)
    error = refusal(evaluate("score", tmp_path, "--data", frozen), 1)
    assert "0 of 20 rows have an answer (12 missing, 8 failed)" in error

    cut = len(server.seen)
    reading(lambda body, tokens: tokens if is_row(body) else tokens * 2)(server, count)
    assert ask(*command).returncode == 0
    assert len(server.seen) == cut + 20


def test_a_run_in_python_needs_no_folder(frozen: Path) -> None:
    run = ruler_eval.run(frozen, engine="oracle", model="golden", rows=1)
    assert isinstance(run, ruler_eval.Run) and run.complete and run.folder.is_dir()
    assert "--out is missing" in refusal(evaluate("run", "--data", frozen, "--model", "m"))
