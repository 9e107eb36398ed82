"""The openai engine against the dialects of APIs and servers, as each of them refuses and counts.

The words of each refusal are those of the API, which no test can reach: a fake server says them.
"""

import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from ruler_data.tokenizers import PromptTokenizer
from ruler_eval.scoring.loading import scores_of
from tests.commands import succeeded
from tests.running.conftest import Ask
from tests.running.processes import evaluate, lines, refusal
from tests.running.server import Body, FakeServer, Reply, well
from tests.running.test_openai import status
from tests.running.test_openai_answers import CHAT, reads_chat, recorded

#: Fields of OpenAI's own API, of those that are sent.
OPENAI = {"temperature", "top_p", "presence_penalty", "frequency_penalty", "seed"}
SENT = {
    "temperature", "top_p", "top_k", "min_p", "repetition_penalty", "presence_penalty",
    "frequency_penalty", "min_tokens", "skip_special_tokens", "repeat_penalty", "rep_pen",
    "no_repeat_ngram_size", "dry_multiplier", "xtc_probability", "typical_p", "mirostat",
}  # fmt: skip
TEMPLATE = "chat_template_kwargs"


def told(number: int, message: str, **more: object) -> Reply:
    return status(number, json.dumps({"error": {"message": message, **more}}).encode())


def unknown(known: set[str], say: Callable[[list[str]], Reply]) -> Callable[[Body], Reply]:
    """Return a rule that refuses what is not known."""
    always = {"model", "messages", "prompt", "stream", "stream_options", "max_tokens"}

    def rule(body: Body) -> Reply:
        foreign = [name for name in body if name not in known | always]
        return say(foreign) if foreign else None

    return rule


def openai(body: Body) -> Reply:
    foreign = sorted(body.keys() - OPENAI - {"model", "messages", "prompt", "max_tokens"})
    names = ", ".join(foreign)
    return told(400, f"Unrecognized request arguments supplied: {names}") if foreign else None


def gpt5(body: Body) -> Reply:
    if "max_tokens" in body:
        message = (
            "Unsupported parameter: 'max_tokens' is not supported with this model. "
            "Use 'max_completion_tokens' instead."
        )
        return told(400, message, param="max_tokens", code="unsupported_parameter")
    own = {"max_completion_tokens", "reasoning_effort"}
    if reply := openai({name: 1 for name in body if name not in own}):
        return reply
    for name in ("temperature", "top_p", "presence_penalty", "frequency_penalty"):
        if name in body:
            message = f"Unsupported value: '{name}' does not support {body[name]} with this model."
            return told(400, message, param=name, code="unsupported_value")
    if body["max_completion_tokens"] < 16:
        return told(400, "integer below minimum value. Expected a value >= 16", param="max_tokens")
    return None


def anthropic(body: Body) -> Reply:
    if {"temperature", "top_p"} <= body.keys():
        message = "`temperature` and `top_p` cannot both be specified for this model."
        return told(400, message, type="invalid_request_error")
    return None


def gemini(body: Body) -> Reply:
    known = OPENAI | {"model", "messages", "max_tokens", "stream", "stream_options"}
    foreign = [name for name in body if name not in known]
    message = f'Invalid JSON payload received. Unknown name "{(foreign or [""])[0]}": no field.'
    error = [{"error": {"code": 400, "message": message, "status": "INVALID_ARGUMENT"}}]
    return status(400, json.dumps(error).encode()) if foreign else None


def litellm(names: list[str]) -> Reply:
    message = (
        f"litellm.UnsupportedParamsError: azure does not support parameters: {names}, for "
        "model=m. To drop these, set `litellm.drop_params=True`"
    )
    return told(400, message, param=None, code="400")


def pydantic(names: list[str]) -> Reply:
    fault = {"type": "extra_forbidden", "loc": ["body", names[0]], "msg": "not permitted"}
    return status(422, json.dumps({"detail": [fault]}).encode())


def streams_only(body: Body) -> Reply:
    if not body.get("stream"):
        return told(400, "Streaming is required: set stream to true for this model.")
    return None


class Dialect(NamedTuple):
    """What an API takes."""

    rule: Callable[[Body], Reply]
    refused: set[str]
    more: tuple[object, ...] = ()
    limit: str = "max_tokens"


FOREIGN = {*SENT - OPENAI, TEMPLATE}
DIALECTS = {
    "vLLM, SGLang, Ollama": Dialect(lambda body: None, set()),
    "OpenAI, completions": Dialect(openai, SENT - OPENAI, ("--protocol", "completion")),
    "OpenAI, chat": Dialect(openai, FOREIGN, CHAT),
    "gpt-5": Dialect(
        gpt5, {*SENT, TEMPLATE}, CHAT, "max_completion_tokens",
    ),
    "Anthropic": Dialect(anthropic, {"top_p"}, CHAT),
    "Gemini": Dialect(gemini, FOREIGN, CHAT),
    "LiteLLM, Azure": Dialect(unknown(OPENAI, litellm), FOREIGN, CHAT),
    "forbids others": Dialect(unknown(OPENAI | {"min_p"}, pydantic), FOREIGN - {"min_p"}, CHAT),
    "streams only": Dialect(streams_only, set()),
}  # fmt: skip


@pytest.mark.parametrize("name", DIALECTS)
def test_what_an_api_refuses_is_left_out_recorded_and_no_row_is_lost(
    frozen: Path, tmp_path: Path, server: FakeServer, ask: Ask, tokenizer: PromptTokenizer,
    name: str,
) -> None:  # fmt: skip
    rule, refused, more, limit = DIALECTS[name]
    server.rule = rule
    server.reads = reads_chat(tokenizer) if more == CHAT else server.reads
    done = succeeded(ask(*more))
    assert set(recorded(tmp_path)["engine_info"].get("refused", ())) == refused, done.stderr
    assert len(server.seen) == 12 and all(limit in body for body in server.seen)
    validity = scores_of(tmp_path, frozen).validity
    assert ("the server refused" in validity.line) == bool(refused)
    told = re.findall(r"refuses ([a-z_, ]+);", done.stderr)
    assert {name for names in told for name in names.split(", ")} == refused


@pytest.mark.parametrize("field", ["temperature", "top_p", "user"])
def test_a_field_that_the_user_gave_is_never_left_out(
    server: FakeServer, ask: Ask, field: str
) -> None:
    words = f"{field} is not for you"
    server.rule = lambda body: told(400, words, param=field) if field in body else None
    given = ("--temperature", 0.6, "--top-p", 0.9, "--option", 'body={"user": "me"}')
    error = refusal(ask("--rows", 1, "--samples", 2, *given), 1)
    assert words in error and not server.seen


def test_a_server_without_token_ids_is_told_in_its_own_words(server: FakeServer, ask: Ask) -> None:
    message = "json: cannot unmarshal array into Go struct field CompletionRequest.prompt"
    server.rule = lambda body: told(400, message)
    error = refusal(ask(), 1)
    assert message in error and "--option api=chat" in error and not server.seen


USED = {"prompt_tokens": 0, "completion_tokens": 30}
THOUGHT = {**USED, "completion_tokens_details": {"reasoning_tokens": 30}}
EVENTS: dict[str, Reply | Body] = {
    "empty": {"content": "", "usage": THOUGHT},
    "null": {"content": None, "usage": THOUGHT},
    "no content": {"usage": USED},
    "counted in the total alone": {"content": "", "usage": {**USED, "completion_tokens": 0}},
    "a refusal": told(
        400,
        "Could not finish the message because max_tokens or model output limit was reached. "
        "Please try again with higher max_tokens.",
    ),
}


@pytest.mark.parametrize("name", EVENTS)
def test_a_budget_that_was_spent_in_reasoning_is_one_event_however_it_is_told(
    frozen: Path, tmp_path: Path, server: FakeServer, ask: Ask, tokenizer: PromptTokenizer,
    name: str,
) -> None:  # fmt: skip
    event, read = EVENTS[name], reads_chat(tokenizer)

    def say(_number: int, body: Body) -> Reply:
        if not isinstance(event, dict):
            return event
        message: Body = {"role": "assistant", **event}
        usage = {**message.pop("usage"), "prompt_tokens": read(body)}
        usage["total_tokens"] = int(usage["prompt_tokens"]) + 30
        reply = {"choices": [{"message": message, "finish_reason": "length"}], "usage": usage}
        return status(200, json.dumps(reply).encode())

    server.fault = say
    succeeded(ask(*CHAT, "--rows", 3))
    answers = lines(tmp_path)
    assert {(line["text"], line["finish"], line["error"]) for line in answers} == {
        ("", "length", None)
    }
    assert {line["reasoning_tokens"] for line in answers} == {30}
    validity = scores_of(tmp_path, frozen).validity
    assert (validity.empty, validity.cut_off) == (3, 3)
    assert any("use --protocol thinking" in error for error in validity.errors)
    succeeded(ask(*CHAT, "--rows", 3))
    assert len(server.seen) == 3  # no row is paid again


def test_null_text_with_stop_is_no_answer_though_the_reasoning_holds_it(
    tmp_path: Path, server: FakeServer, ask: Ask, tokenizer: PromptTokenizer
) -> None:
    server.reads = reads_chat(tokenizer)
    server.message = {"content": None, "reasoning": "The answer is QZKRA."}
    error = refusal(ask("--protocol", "thinking", "--extra-tokens", 500, "--option", "api=chat"), 1)
    assert "3 rows failed, one after the other: the text is null" in error
    assert len(server.seen) == 3  # the first go alone


def test_quota_is_not_rate_and_ends_the_run_at_once(server: FakeServer, ask: Ask) -> None:
    message = "You exceeded your current quota, please check your plan and billing details."
    gone = told(429, message, type="insufficient_quota", code="insufficient_quota")
    server.fault = lambda n, b: well(n, b) if n <= 4 else gone
    error = refusal(ask(concurrency=1), 1)
    assert "exceeded your current quota" in error and len(server.seen) == 5


@pytest.mark.parametrize(
    "body",
    [
        {"object": "error", "message": "no GPU"},
        {"detail": "no GPU"},
        {"error": {"message": "no GPU", "code": 502}},
    ],
)
def test_an_error_inside_of_status_200_is_shown(server: FakeServer, ask: Ask, body: Body) -> None:
    server.fault = lambda n, b: status(200, json.dumps(body).encode())
    assert "the server reports an error: 'no GPU'" in refusal(ask("--rows", 1, patience=1), 1)


def chunks(body: Body, *, cut: bool = False) -> bytes:
    """Return the answer `x y` as a stream; `cut` before it ends."""
    parts = [{"choices": [{"text": text, "finish_reason": None}]} for text in ("x", " y")]
    usage = {"prompt_tokens": len(body["prompt"]), "completion_tokens": 2}
    last: list[Body] = [{"choices": [{"text": "", "finish_reason": "stop"}]}]
    last.append({"choices": [], "usage": usage, "model": "m"})
    events = [*parts, *([] if cut else last)]
    text = "".join(f"data: {json.dumps(event)}\n\n" for event in events)
    return (text + ("" if cut else "data: [DONE]\n\n")).encode()


def test_a_stream_is_read_to_its_usage(tmp_path: Path, server: FakeServer, ask: Ask) -> None:
    stream = ("--option", "stream=true", "--rows", 2)
    server.fault = lambda n, b: status(200, chunks(b))
    succeeded(ask(*stream))
    assert all(body["stream_options"] == {"include_usage": True} for body in server.seen)
    (line, _) = lines(tmp_path)
    assert (line["text"], line["answer_tokens"], line["counted"]) == ("x y", 2, "server")
    server.fault = lambda n, b: status(200, chunks(b, cut=True))
    error = refusal(ask(*stream, out=tmp_path / "cut", patience=1), 1)
    assert "the stream ended before its answer did" in error


def test_a_larger_budget_goes_on(tmp_path: Path, server: FakeServer, ask: Ask) -> None:
    error = refusal(ask("--budget-tokens", 9000), 1)
    assert "the budget of 9,000 tokens allows no further row (spent: " in error
    assert 0 < len(server.seen) < 5
    prices = ("--prices", "2,8")
    error = refusal(ask(*prices, "--budget", 0.02), 1)
    assert "the budget of 0.02" in error and 2e-6 * 2048 * len(server.seen) * 0.9 < 0.02
    shown = evaluate("status", tmp_path, "--json")
    spent: dict[str, Any] = json.loads(shown.stdout)["spent"]
    assert spent["money"] == pytest.approx(
        2e-6 * spent["prompt_tokens"] + 8e-6 * spent["answer_tokens"]
    )
    succeeded(ask())
    assert len(server.seen) == 12
    assert "give --prices" in refusal(ask("--budget", 1, out=tmp_path / "b"))


def test_rows_wait_for_what_others_leave_of_a_budget(server: FakeServer, ask: Ask) -> None:
    refusal(ask("--budget-tokens", 9000, "--extra-tokens", 1900), 1)
    assert len(server.seen) == 3  # of 2,025 tokens each, and of 3,950 at most


def test_what_failed_rows_cost_is_told(
    frozen: Path, tmp_path: Path, server: FakeServer, ask: Ask
) -> None:
    filtered = {"choices": [{"text": "x", "finish_reason": "content_filter"}]}
    filtered["usage"] = {"prompt_tokens": 2018, "completion_tokens": 2}  # type: ignore[assignment]
    reply = status(200, json.dumps(filtered).encode())
    server.fault = lambda n, b: well(n, b) if n == 1 else reply
    refusal(ask("--rows", 3), 1)
    assert "for tries without an answer" in succeeded(evaluate("status", tmp_path)).stdout


def test_who_served_and_what_it_cost_is_recorded_and_headers_are_not(
    frozen: Path, tmp_path: Path, server: FakeServer, ask: Ask, monkeypatch: pytest.MonkeyPatch
) -> None:
    server.names = lambda body: {
        "model": "m",
        "provider": "A" if len(server.seen) % 4 else "B",
        "usage": {"prompt_tokens": len(body["prompt"]), "completion_tokens": 3, "cost": 0.25},
    }
    monkeypatch.setenv("TITLE", "my paper")
    secrets = {"api-key": "hush", "b": "hush$TITLE", "c": "$TITLE:hush", "d": "$hush"}
    headers = json.dumps({**secrets, "X-Title": "$TITLE"})
    done = ask("--option", f"headers={headers}")
    succeeded(done)
    sent = {(heads["api-key"], heads["c"], heads["X-Title"]) for heads in server.headers}
    assert sent == {("hush", "my paper:hush", "my paper")}
    written = "".join(path.read_text() for path in tmp_path.rglob("*") if path.is_file())
    assert not re.search("hush|my paper", done.stdout + done.stderr + written)
    assert '"X-Title": "$TITLE"' in written
    assert "spent: " in done.stdout and "3.00 (as the server states)" in done.stdout
    validity = scores_of(tmp_path, frozen).validity
    assert validity.providers == {"A": 9, "B": 3}
    assert "providers: 'A' 9, 'B' 3" in validity.line
