"""Each thing that a reply or a stream may say, and the one record that is made of it."""

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ruler_eval.running.replies import NoAnswer, error_of, merged, read_reply, usage_of

USAGE = {"prompt_tokens": 4000, "completion_tokens": 9}
#: What is made of a plain answer.
PLAIN = {
    "text": "QZKRA", "finish": "stop", "prompt_tokens": 4000, "answer_tokens": 9,
    "reasoning_tokens": None, "counted": "server", "reasoning": None, "cached_tokens": None,
    "cost": None, "provider": None, "model": None, "system_fingerprint": None,
}  # fmt: skip


def chat(message: object, finish: object = "stop", usage: object = USAGE, **more: Any) -> Any:  # noqa: ANN401
    """Return a reply of a chat server, whose choice has other fields in `choice`."""
    choice = {"index": 0, "message": message, "finish_reason": finish, **more.pop("choice", {})}
    return {"choices": [choice], "usage": usage, **more}


def text(said: object, finish: object = "stop", usage: object = USAGE, **more: Any) -> Any:  # noqa: ANN401
    return {"choices": [{"text": said, "finish_reason": finish}], "usage": usage, **more}


def content(*pieces: object) -> dict[str, object]:
    return {"content": list(pieces)}


SAID = {"content": "QZKRA"}
THOUGHT = {"type": "thinking", "thinking": "Hm."}
ITEM = {"type": "text", "text": "QZKRA"}

#: A reply, whether it is of a chat, and in what its record is not that of a plain answer.
RECORDS: list[tuple[Any, bool, dict[str, Any]]] = [
    (text("QZKRA"), False, {}),
    (chat(SAID), True, {}),
    (text("QZKRA", "EOS_TOKEN"), False, {}),
    (text("QZKRA", "max_output_tokens"), False, {"finish": "length"}),
    (text("QZKRA", "Content_Filter"), False, {"finish": "Content_Filter"}),
    (text("QZKRA", "unknown"), False, {"finish": None}),
    (text("QZKRA", 3), False, {"finish": None}),
    (text(None), False, {"text": None}),
    (text(None, "length"), False, {"text": "", "finish": "length"}),
    (text("", "stop"), False, {"text": ""}),
    (text("QZKRA", usage=None), False,
     {"prompt_tokens": None, "answer_tokens": None, "counted": "nobody"}),
    (text("QZKRA", model="m", provider="p", system_fingerprint="f"), False,
     {"model": "m", "provider": "p", "system_fingerprint": "f"}),
    (text("QZKRA", model="", provider=3), False, {}),
    (chat(content(ITEM, "!", {"type": "output_text", "text": "?"})), True, {"text": "QZKRA!?"}),
    (chat(content(THOUGHT, ITEM)), True, {"reasoning": "Hm."}),
    (chat({**SAID, "reasoning": "Hm."}), True, {"reasoning": "Hm."}),
    (chat({**SAID, "reasoning_content": "Hm."}), True, {"reasoning": "Hm."}),
    (chat({**SAID, "thinking": "Hm."}), True, {"reasoning": "Hm."}),
    (chat({**SAID, "thinking_blocks": [THOUGHT, {"text": "So."}, "x"]}), True,
     {"reasoning": "Hm.So.x"}),
    (chat({"content": None}, "length"), True,
     {"text": "", "finish": "length", "reasoning_tokens": 9}),
    (chat({"content": None, "reasoning": "Hm."}, "length",
          {**USAGE, "completion_tokens_details": {"reasoning_tokens": 7}}), True,
     {"text": "", "finish": "length", "reasoning": "Hm.", "reasoning_tokens": 7}),
    (chat(SAID, usage={**USAGE, "completion_tokens_details": {"reasoning_tokens": 5}}), True,
     {"reasoning_tokens": 5}),
    (chat(SAID, usage={**USAGE, "completion_tokens_details": {"reasoning_tokens": "5"}}), True, {}),
    (chat(SAID, usage={**USAGE, "total_tokens": 4009}), True, {}),
    (chat(SAID, usage={**USAGE, "total_tokens": 4020}), True,  # thoughts in the total alone
     {"answer_tokens": 20, "reasoning_tokens": 11}),
    (chat(SAID, usage={**USAGE, "total_tokens": 4000}), True, {}),
    (chat(SAID, usage={**USAGE, "prompt_tokens_details": {"cached_tokens": 64}}), True,
     {"cached_tokens": 64}),
    (chat(SAID, usage={**USAGE, "cache_read_input_tokens": 0}), True, {"cached_tokens": 0}),
    (chat(SAID, usage={**USAGE, "cache_read_input_tokens": -1}), True, {}),
    (chat(SAID, usage={**USAGE, "cost": 0.25}), True, {"cost": 0.25}),
    (chat(SAID, usage={**USAGE, "cost": 0}), True, {"cost": 0.0}),
    (chat(SAID, usage={**USAGE, "cost": -1}), True, {}),
    (chat(SAID, usage={**USAGE, "cost": 1e9}), True, {}),
    (chat({**SAID, "tool_calls": [1]}), True, {}),  # beside a text it is no event
    (chat({**SAID, "refusal": None}), True, {}),
    (chat({"content": ""}, choice={"content_filter_results": {"hate": {"filtered": False}}}), True,
     {"text": ""}),
]  # fmt: skip


@pytest.mark.parametrize(("reply", "is_chat", "changes"), RECORDS)
def test_a_reply_is_one_record(reply: Any, is_chat: bool, changes: dict[str, Any]) -> None:  # noqa: ANN401
    assert read_reply(reply, is_chat=is_chat) == {**PLAIN, **changes}


FILTERED = {"hate": {"filtered": True}, "violence": {"filtered": False}, "sex": {"filtered": 1}}

NO_ANSWERS: list[tuple[Any, bool, str]] = [
    ({}, False, "the server's reply holds no answer: '{}'"),
    ({"choices": []}, False, "the server's reply holds no answer: "),
    ({"choices": {}}, False, "the server's reply holds no answer: "),
    ({"choices": [3]}, False, "the server's reply holds no answer: "),
    (chat(None), True, "the server's reply holds no answer: "),
    (chat(SAID, choice={"error": "x"}), True, "the server's reply holds no answer: "),
    ({"choices": [SAID, SAID]}, True, "the server's reply has 2 choices, one was asked for"),
    (chat(SAID, choice={"index": 1}), True, "the server's reply is choice '1', not the first"),
    (chat({"content": 3}), True, "the answer is int, not text"),
    (chat(content({"type": "image"})), True, "the answer holds 'image', not text alone"),
    (chat(content({"type": "text", "text": 3})), True, "the answer holds 'text', not text alone"),
    (chat(content(3)), True, "the answer holds 'None', not text alone"),
    (chat({"content": None, "refusal": "no"}), True, "the model refuses: '\"no\"'"),
    (chat({"content": " ", "tool_calls": [1]}), True, "the model calls a tool: '[1]'"),
    (chat({"content": "", "function_call": {}, "tool_calls": [2]}), True,
     "the model calls a tool: '[2]'"),
    (chat({"content": "", "function_call": {"a": 1}}), True, "the model calls a function: "),
    (chat({"content": "", "content_filter_results": FILTERED}), True,
     "a filter took the text: 'hate', 'sex'"),
    (chat({"content": ""}, choice={"content_filter_results": FILTERED}), True,
     "a filter took the text: 'hate', 'sex'"),
]  # fmt: skip


@pytest.mark.parametrize(("reply", "is_chat", "why"), NO_ANSWERS)
def test_a_reply_without_an_answer_is_named(reply: Any, is_chat: bool, why: str) -> None:  # noqa: ANN401
    with pytest.raises(NoAnswer) as error:
        read_reply(reply, is_chat=is_chat)
    assert str(error.value).startswith(why)


def stream(*events: object, end: bool = True) -> bytes:
    """Return events as a server streams them; a text is sent as it is."""
    lines = [one if isinstance(one, str) else f"data: {json.dumps(one)}" for one in events]
    return "".join(f"{line}\n\n" for line in [*lines, *["data: [DONE]"] * end]).encode()


def delta(piece: object, finish: object = None, **more: object) -> dict[str, object]:
    return {"choices": [{"index": 0, "delta": piece, "finish_reason": finish}], **more}


@given(st.lists(st.text(max_size=5), min_size=1, max_size=5), st.lists(st.text(max_size=5)))
def test_a_stream_is_the_reply_that_it_stands_for(said: list[str], thought: list[str]) -> None:
    pieces = [delta({"role": "assistant", "content": None})]
    pieces += [delta({"reasoning": piece}) for piece in thought]
    pieces += [delta({"content": piece}) for piece in said]
    end = [delta({}, "stop"), {"choices": [], "usage": USAGE, "model": "m"}]
    reply, fault = merged(stream(*pieces, ": a comment", *end))
    assert fault == ""
    record = read_reply(reply, is_chat=True)
    changes = {"text": "".join(said), "reasoning": "".join(thought) or None, "model": "m"}
    assert record == {**PLAIN, **changes}


DONE = delta({"content": "x"}, "stop")
UNKNOWN = "the stream has an event that is not understood: "

#: Events, whether they end, and why they are no whole answer.
FAULTS: list[tuple[tuple[object, ...], str]] = [
    ((DONE,), ""),
    ((delta({"content": "x"}),), "the stream ended before its answer did"),
    ((), "the stream ended before its answer did"),
    (({"type": "ping"}, DONE), ""),
    (("event: keepalive\ndata: {}", DONE), ""),
    (({"id": 3}, DONE), UNKNOWN + "'{\"id\": 3}'"),
    (("data: [3]", DONE), UNKNOWN + "'[3]'"),
    (("data: torn {", {"id": 3}, DONE), UNKNOWN + "'torn {'"),  # the first is told
    (({"choices": [{"index": 1, "delta": {"content": "y"}}]}, DONE),
     "the stream has another choice than the first"),
    (("id: 3", DONE), ""),
]  # fmt: skip


@pytest.mark.parametrize(("events", "fault"), FAULTS)
def test_a_stream_that_is_no_whole_answer_says_why(events: tuple[object, ...], fault: str) -> None:
    reply, found = merged(stream(*events))
    assert found == fault
    if DONE in events:
        assert reply["choices"][0]["message"]["content"] == "x"
        assert reply["choices"][0]["finish_reason"] == "stop"


def test_an_error_in_a_stream_ends_it_and_its_usage_is_the_last() -> None:
    for event in ({"error": {"message": "no"}}, "event: error\ndata: no memory"):
        reply, fault = merged(stream(delta({"content": "x"}, usage=USAGE), event, DONE))
        assert error_of(reply)[0] in ("no", "no memory") and fault == ""
        assert usage_of(reply) == (4000, 9)
    later = {"choices": [], "usage": {**USAGE, "completion_tokens": 10}}
    reply, _ = merged(stream(delta({"content": "x"}, "stop", usage=USAGE), later))
    assert usage_of(reply) == (4000, 10)
    whole, _ = merged(stream(DONE, {"error": "late"}, end=False))
    assert whole["error"] == "late"
    after, fault = merged(stream(DONE, "data: [DONE]", {"id": 3}))
    assert fault == "" and "id" not in after


def test_pieces_that_are_lists_are_one_list_and_filters_are_kept() -> None:
    results = {"hate": {"filtered": True}}
    events = [delta({"thinking_blocks": [THOUGHT]}), delta({"thinking_blocks": [THOUGHT]}),
              {"choices": [{"index": 0, "delta": {}, "content_filter_results": results}]},
              {"choices": [{"text": "a"}]},
              {"choices": [{"text": "b", "finish_reason": "stop"}]}]  # fmt: skip
    reply, fault = merged(stream(*events))
    (choice,) = reply["choices"]
    assert fault == "" and choice["text"] == "ab" and choice["finish_reason"] == "stop"
    assert choice["message"]["thinking_blocks"] == [THOUGHT, THOUGHT]
    assert choice["content_filter_results"] == results


@pytest.mark.parametrize(
    ("body", "words", "field"),
    [
        (None, None, None),
        ([], None, None),
        ({}, None, None),
        ({"error": "no"}, "no", None),
        ({"error": {"message": "no", "param": "top_k"}}, "no", "top_k"),
        ({"message": "no", "param": ""}, "no", None),
        ([{"error": {"message": "no"}}], "no", None),
        ({"error": {"code": 3}}, '{"code": 3}', None),
        ({"error": {"message": "no", "metadata": {"raw": "why"}}}, "no: why", None),
        ({"detail": [{"loc": ["body", "top_k"], "msg": "no"}]},
         '[{"loc": ["body", "top_k"], "msg": "no"}]', "top_k"),
        ({"detail": [{"loc": ["body", 3]}]}, '[{"loc": ["body", 3]}]', None),
    ],
)  # fmt: skip
def test_an_error_is_read_in_every_form(body: object, words: str | None, field: str | None) -> None:
    assert error_of(body) == (words, field)


@pytest.mark.parametrize(
    ("body", "usage"),
    [
        ({"usage": USAGE}, (4000, 9)),
        ({"usage": {**USAGE, "total_tokens": 4020}}, (4000, 20)),
        ({"usage": {"prompt_tokens": 0, "completion_tokens": 0}}, (0, 0)),
        ({"usage": {"prompt_tokens": -1, "completion_tokens": 0}}, None),
        ({"usage": {"prompt_tokens": 5}}, None),
        ({"usage": {"prompt_tokens": "5", "completion_tokens": 1}}, None),
        ({}, None),
        ([], None),
    ],
)
def test_usage_is_what_a_reply_counts(body: object, usage: tuple[int, int] | None) -> None:
    assert usage_of(body) == usage
