"""The openai engine against a server that refuses, stalls, talks nonsense, dies and comes back."""

import json
import threading
from contextlib import suppress
from pathlib import Path
from socketserver import BaseRequestHandler, ThreadingTCPServer

import pytest

from ruler_data.errors import RulerError
from ruler_data.names import config_file
from ruler_data.parquet import read_rows
from ruler_data.tokenizers import PromptTokenizer
from ruler_data.tokenizers.registry import load_folder
from ruler_eval.running.answers import Answer
from ruler_eval.running.openai import Watch
from tests.builds import until
from tests.commands import finish, succeeded
from tests.running.conftest import Ask, asked_of
from tests.running.processes import answered, evaluate, lines, refusal, started, whole_lines
from tests.running.server import Body, FakeServer, Fault, Reply, Say, hang, well
from tests.serving import serving

KEYS = [("vt_2048", index) for index in range(12)]


def assert_golden(data: Path, out: Path) -> None:
    rows = {row.index: row for row in read_rows(data / config_file("vt_2048"))}
    assert sorted((line["config"], line["index"]) for line in answered(out)) == KEYS
    for line in answered(out):
        row = rows[int(str(line["index"]))]
        assert line["text"] == ", ".join(row.outputs)
        assert line["prompt_tokens"] == row.length - row.max_new_tokens


def test_each_row_gets_its_own_answer(frozen: Path, tmp_path: Path, server: FakeServer) -> None:
    key = {"OPENAI_API_KEY": "sk-secret-9"}
    done = succeeded(evaluate(*asked_of(frozen, server.url, tmp_path), env=key))
    assert_golden(frozen, tmp_path)
    assert len(server.connections) <= 4  # one for each of three threads, and one for the window
    for body in server.seen:
        assert (body["max_tokens"], body["min_tokens"], body["temperature"]) == (30, 1, 0.0)
    assert {head["Authorization"] for head in server.headers} == {"Bearer sk-secret-9"}
    written = "".join(path.read_text() for path in tmp_path.rglob("*") if path.is_file())
    assert "sk-secret-9" not in done.stdout + done.stderr + written
    assert str(server.port) not in written


@pytest.mark.slow
def test_a_served_model_gets_ids_of_its_own_tokenizer_and_a_mere_name_those_of_the_data(
    frozen: Path, tmp_path: Path, shared: Path, tokenizer: PromptTokenizer
) -> None:
    row = next(iter(read_rows(frozen / config_file("vt_2048"))))
    env = {"RULER_TOKENIZERS": str(shared / "tokenizers")}
    qwen = load_folder(shared / "tokenizers" / "qwen2.5", "qwen2.5")
    for model, own in (("Qwen/Qwen2.5-7B-Instruct", qwen), ("m", tokenizer)):
        with FakeServer(lambda body: "x") as server:
            server.card = {"id": model, "max_model_len": 8192}
            here = ("--data", frozen, "--model", model, "--base-url", server.url, "--rows", 1)
            out: list[str | Path] = ["--tasks", "vt", "--out", tmp_path / own.info.name]
            if own is not tokenizer:  # refused before a row is paid, unless its tokenizer is named
                assert "tokenizer: qwen2.5 " in refusal(evaluate("run", *here, *out, env=env))
                assert not server.seen
                out += ["--tokenizer", "qwen2.5"]
            done = succeeded(evaluate("run", *here, *out, env=env))
            assert [body["prompt"] for body in server.seen] == [
                own.prompt_ids(row.context + row.question, row.answer_prefix).tolist()
            ]
            check = evaluate("run", "--check", *here, env=env)
        guessed = f"rendered with tiny (the data's): the tokenizer of {model} is not known here"
        assert (guessed in done.stderr) == (guessed in check.stderr) == (own is tokenizer)
        assert ("warning: tokenizer: qwen2.5" in done.stderr) == (own is not tokenizer)
        assert ("error: tokenizer: qwen2.5" in check.stdout) == (own is not tokenizer)
        assert ("`ruler-data find`" in check.stdout) == bool(check.returncode)


def status(code: int, data: bytes = b"no", **headers: str) -> Reply:
    return code, {name.replace("_", "-"): value for name, value in headers.items()}, data


FAULTS: dict[str, Fault] = {
    name: lambda n, b, reply=reply: well(n, b) if n % 4 else reply  # type: ignore[misc]
    for name, reply in {
        "429 with Retry-After": status(429, Retry_After="0.05"),
        "429 in ms": status(429, retry_after_ms="40"),
        "429 with a reset": status(
            429,
            x_ratelimit_remaining_requests="0",
            x_ratelimit_reset_requests="40ms",
        ),
        "500": status(500),
        "520": status(520),
        "529": status(529, Retry_After="0"),
        "HTML": status(200, b"<html>sorry</html>"),
        "an error": status(200, b'{"error": {"message": "Provider is busy", "code": 502}}'),
        "null": status(200, b"null"),
        "dropped": None,
    }.items()
}


@pytest.mark.parametrize("fault", FAULTS)
def test_a_fault_that_passes_costs_another_try_and_no_row(
    frozen: Path, tmp_path: Path, server: FakeServer, ask: Ask, fault: str
) -> None:
    server.fault = FAULTS[fault]
    succeeded(ask())
    assert_golden(frozen, tmp_path)
    assert len(server.seen) > 12


@pytest.mark.parametrize("after", ["0", "Wed, 21 Oct 2015 07:28:00 GMT"])
def test_a_server_that_asks_for_no_pause_gets_one(server: FakeServer, ask: Ask, after: str) -> None:
    server.fault = lambda n, b: status(429, Retry_After=after)
    assert "status 429" in refusal(ask("--rows", 2, patience=2), 1)
    assert 2 < len(server.seen) <= 2 * 2 / 0.25


def test_rows_that_fail_between_answered_ones_end_no_run_and_those_after_another_do() -> None:
    watch = Watch("server", concurrency=2)
    good = Answer("vt_4096", 0, "x", "stop", prompt_tokens=4000)
    bad = Answer("vt_4096", 1, error="no")
    for answer in (good, bad, bad, bad) * 5:
        watch.see(answer)
        watch.stop_if_hopeless(answer, is_final=False)
    with pytest.raises(RulerError, match="4 rows failed, one after the other: no"):
        watch.see(bad)
        watch.stop_if_hopeless(bad, is_final=False)


def test_a_header_is_sent_with_a_secret_of_the_environment(
    ask: Ask, server: FakeServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("GATEWAY_KEY", "gate-secret-7")
    headers = json.dumps({"X-Gateway": "Key $GATEWAY_KEY"})
    done = succeeded(ask("--option", f"headers={headers}", "--rows", 1))
    assert {head["X-Gateway"] for head in server.headers} == {"Key gate-secret-7"}
    written = "".join(path.read_text() for path in tmp_path.rglob("*") if path.is_file())
    assert "gate-secret-7" not in done.stdout + done.stderr + written


@pytest.mark.parametrize("drip", [b"", b"H", b"HTTP/1.1 200 OK\r\nContent-Length: 9999\r\n\r\n"])
def test_a_first_reply_without_end_ends_the_run(frozen: Path, tmp_path: Path, drip: bytes) -> None:
    class Dripping(BaseRequestHandler):
        def handle(self) -> None:
            with suppress(OSError):  # whoever asked has gone
                while not over.wait(0.1):
                    self.request.sendall(drip)

    over = threading.Event()
    with serving(ThreadingTCPServer(("127.0.0.1", 0), Dripping), over.set) as server:
        url = f"http://127.0.0.1:{server.server_address[1]}/v1"
        error = refusal(evaluate(*asked_of(frozen, url, tmp_path, patience=1)), 1)
    assert "the server does not answer within 1 s; start the server, or correct --base-url" in error


def test_a_model_that_the_server_has_not_is_told_with_the_nearest_that_it_has(
    ask: Ask, server: FakeServer
) -> None:
    server.listed = [{"id": name} for name in ("whisper", "m-large", "m-small", "q", "xm")]
    server.rule = lambda body: status(404, b"The model does not exist.")
    error = refusal(ask("--rows", 1), 1)
    assert "it serves 'xm', 'm-small', 'm-large': " in error and "correct --model" in error, error
    assert "whisper" not in error and "token ids" not in error, error


def test_a_server_that_hangs_is_reported(frozen: Path, tmp_path: Path, server: FakeServer) -> None:
    here = ("--data", frozen, "--model", "m", "--option", "patience=1", "--base-url", server.url)
    server.names = lambda body: {"model": hang(30)}
    for command in (("run", "--out", tmp_path), ("run", "--check")):
        error = refusal(evaluate(*command, *here), 1)
        assert "does not answer within 1 s, to a short prompt" in error and "patience" in error


LASTING: dict[str, tuple[Fault, str]] = {
    "400": (lambda n, b: status(400, b"prompt too long\nreally"), "status 400: 'prompt too long"),
    "500": (lambda n, b: status(500, b"\x1b[31mboom"), r"status 500: '\x1b[31mboom'"),
    "hangs": (lambda n, b: hang(30), "the server does not answer within 2 s"),
    "no choices": (lambda n, b: status(200, b'{"choices": []}'), "holds no answer"),
    "no text": (lambda n, b: status(200, b'{"choices": [{"text": 7}]}'), "is int, not text"),
}


@pytest.mark.slow
@pytest.mark.parametrize("fault", LASTING)
def test_a_row_that_always_fails_is_unscored_and_only_it_is_asked_again(
    frozen: Path, tmp_path: Path, server: FakeServer, ask: Ask, tokenizer: PromptTokenizer,
    fault: str,
) -> None:  # fmt: skip
    row = next(row for row in read_rows(frozen / config_file("vt_2048")) if row.index == 5)
    poison = tokenizer.prompt_ids(row.context + row.question, row.answer_prefix).tolist()
    broken, reason = LASTING[fault]

    def only(number: int, body: Body) -> Reply | object:
        return broken(number, body) if body["prompt"] == poison else well(number, body)

    server.fault = only  # type: ignore[assignment]
    done = ask("--option", "timeout=2", patience=1)
    assert "1 row could not be answered" in refusal(done, 1)
    (failed,) = (line for line in lines(tmp_path) if line["error"])
    assert failed["index"] == 5 and reason in str(failed["error"]), failed
    before, server.fault = len(server.seen), well
    succeeded(ask("--option", "timeout=2", patience=1))
    assert [body["prompt"] for body in server.seen[before:]] == [poison]
    assert_golden(frozen, tmp_path)


@pytest.mark.slow
def test_a_server_that_comes_back_costs_nothing(frozen: Path, tmp_path: Path, golden: Say) -> None:
    first = FakeServer(golden, lambda n, b: hang(60) if n > 4 else well(n, b))
    with started(*asked_of(frozen, first.url, tmp_path, "--option", "timeout=1")) as process:
        until(lambda: whole_lines(tmp_path) >= 4, process)
        first.close()
        with FakeServer(golden, port=first.port):
            succeeded(finish(process))
    assert_golden(frozen, tmp_path)


def test_a_server_that_is_gone_ends_the_run(frozen: Path, tmp_path: Path, golden: Say) -> None:
    server = FakeServer(golden)
    server.close()
    command = asked_of(frozen, server.url, tmp_path)[:-2]  # the patience is that of rows: 300 s
    message = refusal(evaluate(*command), 1)
    assert "the server does not answer (ConnectError)" in message and "start the server" in message
    assert not tmp_path.joinpath("run.json").exists()
    with FakeServer(golden, port=server.port):
        succeeded(evaluate(*command))
    assert_golden(frozen, tmp_path)


#: What an API is sent beside prompt and model, in which field the prompt is, and the options.
BODIES = [
    ("completion", "completions", "prompt", {}),
    ("base", "text", "prompt", {}),
    ("chat", "chat", "messages", {"chat_template_kwargs": {"enable_thinking": False}}),
    ("completion", "completions", "prompt", {"stream": True,
                                             "stream_options": {"include_usage": True}}),
]  # fmt: skip


@pytest.mark.parametrize(("protocol", "api", "field", "more"), BODIES)
def test_a_request_has_these_fields_and_no_other(
    server: FakeServer, ask: Ask, protocol: str, api: str, field: str, more: Body
) -> None:
    server.say = lambda body: "x"
    server.reads = lambda body: None
    options = ["--protocol", protocol, "--option", f"api={api}", "--option", "tolerance=1"]
    if "stream" in more:
        options += ["--option", "stream=true"]
    ask(*options)
    neutral = {
        "temperature": 0.0, "top_p": 1.0, "top_k": -1, "min_p": 0.0, "presence_penalty": 0.0,
        "frequency_penalty": 0.0, "repetition_penalty": 1.0, "repeat_penalty": 1.0, "rep_pen": 1.0,
        "no_repeat_ngram_size": 0, "dry_multiplier": 0.0, "xtc_probability": 0.0, "typical_p": 1.0,
        "mirostat": 0, "min_tokens": 1, "skip_special_tokens": False,
    }  # fmt: skip
    rows = [body for body in server.seen if body["max_tokens"] == 30]  # the others are calibration
    assert len(rows) == 12
    for body in rows:
        prompt = body.pop(field)
        assert body == {"model": "m", "max_tokens": 30, **neutral, **more}
        if api == "chat":
            ((role, content),) = [(turn["role"], turn["content"]) for turn in prompt]
            assert role == "user" and content.endswith("in the text above.")
        else:
            assert isinstance(prompt, str if api == "text" else list)


def test_samples_have_a_seed_each_and_a_user_s_fields_go_before_the_neutral_ones(
    server: FakeServer, ask: Ask
) -> None:
    server.say = lambda body: "x"
    sampled = ("--samples", 2, "--temperature", 0.6, "--top-p", 0.9, "--option",
               'body={"top_k": 40, "min_p": null, "user": "me"}')  # fmt: skip
    ask(*sampled)
    bodies = server.seen[-24:]
    for body in bodies:
        assert (body["temperature"], body["top_p"], body["top_k"]) == (0.6, 0.9, 40)
        assert body["user"] == "me" and "min_p" not in body
    assert len({body["seed"] for body in bodies}) == 24
