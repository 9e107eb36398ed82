"""What servers say: other prompts, hostile text, chat, and what cannot be sent at all."""

import json
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import pytest

import ruler_eval
from ruler_data.names import config_file
from ruler_data.parquet import read_rows
from ruler_data.tokenizers import PromptTokenizer
from ruler_data.tokenizers.registry import load_folder
from ruler_eval.scoring.loading import scores_of
from ruler_eval.scoring.table import means
from tests.commands import succeeded
from tests.running import tiny
from tests.running.conftest import Ask
from tests.running.processes import answered, evaluate, keys, lines, refusal
from tests.running.server import Body, FakeServer, Reply, well
from tests.running.test_openai import status

CHAT = ("--protocol", "chat", "--option", "api=chat")


def reads_chat(tokenizer: PromptTokenizer, limit: int = 10_000) -> Callable[[Body], int]:
    """Count what a server reads that renders the turn itself and cuts it at a limit."""
    no = {"enable_thinking": False}
    return lambda body: min(
        limit, len(tokenizer.prompt_ids(str(body["messages"][0]["content"]), "", no))
    )


def recorded(out: Path) -> Body:
    body: Body = json.loads((out / "run.json").read_text())
    return body


@pytest.mark.parametrize("window", [1024, 1850])
def test_a_chat_server_that_cuts_prompts_answers_no_row_and_the_remedy_is_named(
    tmp_path: Path, server: FakeServer, ask: Ask, tokenizer: PromptTokenizer, window: int
) -> None:
    server.reads = reads_chat(tokenizer, window)
    error = refusal(ask(*CHAT), 1)
    assert f"the server read {window} prompt tokens" in error and "num_ctx" in error
    assert all(line["text"] is None for line in lines(tmp_path))
    server.reads = reads_chat(tokenizer)
    succeeded(ask(*CHAT))
    assert len(answered(tmp_path)) == 12


def test_other_counts_are_allowed(server: FakeServer, ask: Ask, tokenizer: PromptTokenizer) -> None:
    count = reads_chat(tokenizer)
    server.reads = lambda body: int(1.1 * count(body))
    assert "give that one with --tokenizer" in refusal(ask(*CHAT), 1)
    succeeded(ask(*CHAT, "--option", "tolerance=0.15"))


def test_text_is_counted_too(
    tmp_path: Path, server: FakeServer, ask: Ask, tokenizer: PromptTokenizer
) -> None:
    server.say, text = lambda body: "x", ("--protocol", "base", "--option", "api=text")
    server.reads = lambda body: tokenizer.count([str(body["prompt"])])[0]  # without the BOS
    succeeded(ask(*text))
    server.reads = lambda body: 1000
    assert "the server read 1000 prompt tokens" in refusal(ask(*text, out=tmp_path / "cut"), 1)


def test_a_server_that_counts_nothing_is_reported_once_and_recorded(
    frozen: Path, tmp_path: Path, server: FakeServer, ask: Ask
) -> None:
    server.reads = lambda body: None
    succeeded(ask())
    assert {(line["prompt_tokens"], line["counted"]) for line in lines(tmp_path)} == {
        (None, "nobody")
    }
    validity = scores_of(tmp_path, frozen).validity
    assert validity and "; prompts counted by nobody 12" in validity.line
    assert not validity.hardware and "; on " not in ruler_eval.status(tmp_path).coverage


def test_a_cache_over_the_prompt_is_no_cache(tmp_path: Path, server: FakeServer, ask: Ask) -> None:
    cached = {"prompt_tokens_details": {"cached_tokens": 10**9}}
    server.names = lambda body: {"usage": {"prompt_tokens": len(body["prompt"]), **cached}}
    succeeded(ask())
    assert {line["cached_tokens"] for line in answered(tmp_path)} == {None}


def test_fields_that_a_server_refuses_are_left_out_and_recorded(
    frozen: Path, tmp_path: Path, server: FakeServer, ask: Ask
) -> None:
    server.refuses = {"min_tokens", "max_tokens"}
    effort = ("--option", 'body={"reasoning_effort": "low"}')
    assert succeeded(ask(*effort)).stderr.count("refuses min_tokens") == 1
    assert all(body["max_completion_tokens"] == 30 for body in server.seen)
    assert all(body["reasoning_effort"] == "low" for body in server.seen)
    run = recorded(tmp_path)
    assert (run["sampling"]["reasoning_effort"], run["sampling"]["top_p"]) == ("low", 1.0)
    assert "min_tokens" not in run["sampling"]
    assert run["engine_info"]["limit"] == "max_completion_tokens"
    assert run["engine_info"]["refused"] == ["min_tokens"]
    scores = scores_of(tmp_path, frozen)
    assert "; the server refused min_tokens" in scores.validity_line


TWICE = ("--rows", 1, "--samples", 2, "--temperature", 0.6)


def test_a_busy_server_refuses_no_field(server: FakeServer, ask: Ask) -> None:
    server.refuses, server.is_busy = {"min_tokens"}, lambda body: "seed" in body
    done = ask(*TWICE, patience=1)
    assert "status 503: 'busy'" in refusal(done, 1) and "refuses seed" not in done.stderr
    server.is_busy = lambda body: False
    succeeded(ask(*TWICE, patience=1))
    assert len({body["seed"] for body in server.seen}) == 2


def test_each_sample_has_its_own_seed(tmp_path: Path, server: FakeServer, ask: Ask) -> None:
    sampled = ("--temperature", 0.6, "--top-p", 0.9, "--samples")
    assert "36 of 36 samples answered" in succeeded(ask(*sampled, 3)).stdout
    seeds = {(json.dumps(body["prompt"]), body["seed"]) for body in server.seen}
    assert len(server.seen) == len(seeds) == 36
    assert {(body["temperature"], body["top_p"]) for body in server.seen} == {(0.6, 0.9)}
    (journal,) = tmp_path.glob("answers-0-of-1.*.jsonl")
    journal.write_bytes(b"".join(journal.read_bytes().splitlines(keepends=True)[:20]))
    succeeded(ask(*sampled, 3))
    assert len(server.seen) == 36 + 16
    samples = Counter((line["index"], line.get("sample", 0)) for line in lines(tmp_path))
    assert samples == Counter((index, sample) for index in range(12) for sample in range(3))
    assert len(keys(tmp_path)) == 36
    assert "sampling.samples is 3 in the folder and 4 now" in refusal(ask(*sampled, 4))


def test_a_temperature_applies_to_the_only_sample_of_a_row(
    tmp_path: Path, server: FakeServer, ask: Ask
) -> None:
    succeeded(ask("--rows", 1, "--temperature", 0.6))
    assert [body["temperature"] for body in server.seen] == [0.6]
    assert "seed" in server.seen[0]
    assert recorded(tmp_path)["sampling"]["temperature"] == 0.6


NO_ANSWERS: dict[str, tuple[Body, Body, str]] = {
    "another prompt": ({"text": "x"}, {"prompt_tokens": 7}, "the server read 7 prompt tokens"),
    "a tool": ({"text": None, "finish_reason": "tool_calls"}, {}, "the text is null"),
    "an abort": ({"text": "x", "finish_reason": "abort"}, {}, "finish reason 'abort' is not stop"),
    "a count that is text": ({"text": "x"}, {"completion_tokens": "9"}, "'9' is reported as"),
    "a count that is text beside a cache": (
        {"text": "x"},
        {"prompt_tokens": "9", "prompt_tokens_details": {"cached_tokens": 3}},
        "'9' is reported as prompt_tokens",
    ),
    "a count with a fraction": ({"text": "x"}, {"prompt_tokens": 9.5}, "'9.5' is reported as"),
}


@pytest.mark.parametrize("name", NO_ANSWERS)
def test_no_whole_record_no_answer(tmp_path: Path, server: FakeServer, ask: Ask, name: str) -> None:
    choice, usage, reason = NO_ANSWERS[name]

    def say(_number: int, body: Body) -> Reply:
        counts = {"prompt_tokens": len(body["prompt"]), "completion_tokens": 1, **usage}
        reply = {"choices": [{"finish_reason": "stop", **choice}], "usage": counts}
        return status(200, json.dumps(reply).encode())

    server.fault = say
    assert reason in refusal(ask("--rows", 2), 1)
    assert all(reason in str(line["error"]) for line in lines(tmp_path))


def test_a_pause_beyond_the_patience_is_reported(server: FakeServer, ask: Ask) -> None:
    server.fault = lambda n, b: status(429, Retry_After="600")
    error = refusal(ask("--rows", 2), 1)
    assert "status 429: 'no'; it asks to wait 600 s, the patience is 20 s" in error


def test_rows_of_another_model_are_unanswered(tmp_path: Path, server: FakeServer, ask: Ask) -> None:
    server.names = lambda body: {
        "model": "small" if len(server.seen) % 3 == 0 else "m",
        "system_fingerprint": f"fp-{len(server.seen)}",
    }
    error = refusal(ask(concurrency=1), 1)
    assert "answered by 'small', the run's model is 'm'" in error
    assert len({line["system_fingerprint"] for line in lines(tmp_path)}) == 12
    server.names = lambda body: {"model": "m"}
    succeeded(ask(concurrency=1))
    assert len(server.seen) == 12 + 4


def test_one_model_answers_all_rows_of_a_run(server: FakeServer, ask: Ask) -> None:
    server.fault = lambda n, b: well(n, b) if n <= 4 else status(400)
    assert "2 rows failed, one after the other" in refusal(ask(concurrency=1), 1)
    server.fault, server.names = well, lambda body: {"model": "other"}
    error = refusal(ask(concurrency=1), 1)  # 8 rows, so that the run is now of that model
    assert "4 rows could not be answered (answered by 'm', the run's model is 'oth" in error
    succeeded(ask(concurrency=1))
    assert len(server.seen) == 6 + 8 + 4


def test_chat_sends_the_turn_and_records_that_the_server_renders(
    tmp_path: Path, server: FakeServer, ask: Ask, tokenizer: PromptTokenizer
) -> None:
    server.reads = reads_chat(tokenizer)
    succeeded(ask(*CHAT, "--option", 'body={"min_tokens":null}'))
    assert all("min_tokens" not in body for body in server.seen)
    assert Counter(len(body["messages"]) for body in server.seen) == {1: 12}
    run, kwargs = recorded(tmp_path), {"enable_thinking": False}
    assert run["frame"] is None and run["model_tokenizer"] is None
    assert all(body["chat_template_kwargs"] == kwargs for body in server.seen)
    assert run["sampling"]["chat_template_kwargs"] == kwargs


@pytest.mark.parametrize("name", ["reasoning", "reasoning_content"])
@pytest.mark.parametrize(
    ("protocol", "api"), [("thinking", "chat"), ("thinking", "completions"), ("chat", "chat")]
)
def test_reasoning_that_comes_apart_stays_apart(
    frozen: Path, tmp_path: Path, server: FakeServer, ask: Ask, tokenizer: PromptTokenizer,
    name: str, api: str, protocol: str,
) -> None:  # fmt: skip
    server.say = lambda body: "I do not know."
    server.reads = reads_chat(tokenizer) if api == "chat" else server.reads
    rows = read_rows(frozen / config_file("vt_2048"))
    gold = " ".join(output for row in rows for output in row.outputs)
    server.message = {"reasoning": {"effort": "low"}, name: gold}  # what is no text hides none
    succeeded(ask("--protocol", protocol, "--extra-tokens", 500, "--option", f"api={api}"))
    assert {body.get("skip_special_tokens") for body in server.seen} == {False}
    assert {line["text"] for line in lines(tmp_path)} == {"I do not know."}
    assert {line["reasoning"] for line in lines(tmp_path)} == {server.message[name]}
    scores = scores_of(tmp_path, frozen)
    assert [cell.official for cell in means(scores.table)] == [0]
    told = "reasoning came with 12 answers; use --protocol thinking"
    assert (told in scores.validity.errors) == (protocol != "thinking")


def test_a_model_that_was_cut_off_while_it_thought_has_answered_nothing(
    tmp_path: Path, server: FakeServer, ask: Ask, tokenizer: PromptTokenizer
) -> None:
    server.reads = reads_chat(tokenizer)
    server.message = {
        "content": None, "reasoning_content": "Let me see", "finish_reason": "length",
    }  # fmt: skip
    thinking = ("--protocol", "thinking", "--extra-tokens", 500)
    succeeded(ask(*thinking, "--option", "api=chat"))
    assert {(line["text"], line["reasoning"]) for line in lines(tmp_path)} == {("", "Let me see")}


def test_a_server_is_told_whether_to_think_and_one_that_does_not_listen_is_found(
    tmp_path: Path, server: FakeServer, ask: Ask
) -> None:
    # Its template closes the reasoning unless it is told to think.
    hybrid = tiny.make_tokenizer(tmp_path / "hybrid", tiny.QWEN3, adds_bos=False, bos=None)
    read, sent = load_folder(hybrid, "hybrid"), []

    def listens(body: Body) -> int:
        content = str(body["messages"][0]["content"])
        return len(read.prompt_ids(content, "", body.get("chat_template_kwargs", {})))

    def deaf(body: Body) -> int:
        return listens({**body, "chat_template_kwargs": {}})

    server.say = lambda body: "x"
    chat = ("--extra-tokens", 500, "--option", "api=chat", "--tokenizer", hybrid, "--protocol")
    for number, (count, protocol) in enumerate(
        [(listens, "thinking"), (listens, "chat"), (deaf, "chat")]
    ):
        server.reads, out = count, tmp_path / str(number)
        done = succeeded(ask(*chat, protocol, "--rows", 1, out=out))
        reported = "its template differs from the one here by -" in done.stderr
        assert reported == (count is deaf) == (recorded(out)["seen"]["offset"] < 0)
        sent.append(server.seen[-1])
    server.refuses = {"chat_template_kwargs"}
    done = ask(*chat, "chat", out=tmp_path / "r")
    assert "refuses chat_template_kwargs; it is left out" in done.stderr
    assert sent[0]["chat_template_kwargs"] == {"enable_thinking": True}
    assert sent[1]["chat_template_kwargs"] == {"enable_thinking": False}


def test_a_refused_key_is_reported_first(tmp_path: Path, server: FakeServer, ask: Ask) -> None:
    server.denies = True
    assert (
        "status 401: 'no such key'; set OPENAI_API_KEY to" in refusal(ask(), 1) and not server.seen
    )
    assert not (tmp_path / "run.json").exists()


def test_a_server_without_an_address_is_refused(frozen: Path, tmp_path: Path) -> None:
    nowhere = ("run", "--data", frozen, "--model", "m", "--engine", "openai", "--out", tmp_path)
    assert "--base-url is missing" in refusal(evaluate(*nowhere))


@pytest.mark.parametrize(
    ("more", "error"),
    [
        (("--option", "api=chat"), "cannot send protocol completion"),
        (("--option", "api=text"), "cannot send protocol completion"),
        (("--option", "api=telepathy"), "Input should be 'completions', 'text' or 'chat'"),
        (("--base-url", "file:///etc/passwd"), "not an address"),
        (("--extra-tokens", "3000"), "the model's window is 4096"),
    ],
)
def test_what_a_server_cannot_be_sent_is_refused(
    server: FakeServer, ask: Ask, more: tuple[str, ...], error: str
) -> None:
    assert error in refusal(ask(*more)) and not server.seen


def test_a_server_that_changes_its_model_or_counts_nothing_says_so_once(
    tmp_path: Path, server: FakeServer, ask: Ask
) -> None:
    server.reads = lambda body: None
    server.names = lambda body: {"model": "m-2" if len(server.seen) > 9 else "m-1"}
    done = ask(concurrency=1)
    place = f"127.0.0.1:{server.port}"
    told = [line for line in done.stderr.splitlines() if line.startswith("warning: ")]
    models = (
        "answers came from 'm-1', and now from 'm-2': a run is of one model, all others' rows are "
        "unanswered; stop, and name one version with --model (an alias moves to newer ones)"
    )
    nobody = "counts no prompt tokens; nobody knows whether it reads them all"
    for text in (models, nobody):
        (line,) = [line for line in told if line.endswith(text)]
        assert place in line
    unanswered = [line for line in lines(tmp_path) if line["error"]]
    assert not unanswered and len(answered(tmp_path)) == 12  # what counts is settled later
