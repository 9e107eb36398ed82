"""What a calibration sees of a server, case by case: the server is a function of its requests.

Over HTTP it is tested in `test_dialects.py`.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import pytest

from ruler_data.errors import RulerError
from ruler_eval.running.calibration import (
    MIXED,
    PLAIN,
    REPEATED,
    SAMPLING,
    Calibration,
    Dialect,
    named,
    stated_window,
)
from ruler_eval.running.models import Model
from ruler_eval.running.transport import RequestError

#: Neutral values by every spelling that servers are known to have.
NEUTRAL = {
    "temperature": 0.0, "top_p": 1.0, "top_k": -1, "min_p": 0.0, "presence_penalty": 0.0,
    "frequency_penalty": 0.0, "repetition_penalty": 1.0, "repeat_penalty": 1.0, "rep_pen": 1.0,
    "no_repeat_ngram_size": 0, "dry_multiplier": 0.0, "xtc_probability": 0.0, "typical_p": 1.0,
    "mirostat": 0,
}  # fmt: skip


def test_neutral_sampling_has_every_known_spelling() -> None:
    assert dict(SAMPLING) == {**NEUTRAL, "min_tokens": 1}


@dataclass
class Server:
    """A server by what it refuses, how it counts and what penalty is its own."""

    refuses: dict[str, str] = field(default_factory=dict)  # a field, and the words of the refusal
    template: int = 0  # tokens that it adds to a prompt
    own: dict[str, float] = field(default_factory=dict)  # sampling unless a request has another
    count: Callable[[str], int] = len
    repeats: bool = True
    obeys: bool = True  # whether a penalty of a request changes answers
    limit: str = "max_tokens"
    window: int | None = None
    seen: list[tuple[dict[str, Any], str, int]] = field(default_factory=list)

    def __call__(self, dialect: Dialect, text: str, tokens: int) -> Mapping[str, Any]:
        self.seen.append((dict(dialect.fields), text, tokens))
        for name, words in self.refuses.items():
            if name in dialect.fields:
                raise RequestError(f"status 400: {words!r}", 400, words)
        if dialect.limit != self.limit:
            words = f"{dialect.limit} is not supported, use {self.limit}"
            raise RequestError(f"status 400: {words!r}", 400, words)
        if self.window and tokens > self.window:
            words = f"this model's maximum context length is {self.window} tokens, not {tokens}"
            raise RequestError("status 400", 400, words)
        values = {**self.own, **dialect.fields} if self.obeys else self.own
        penalized = any(value != NEUTRAL[name] for name, value in values.items() if "pen" in name)
        said = "yes yes no maybe" if penalized or not self.repeats else "yes " * 24
        usage = {"prompt_tokens": self.count(text) + self.template, "completion_tokens": 24}
        return {"choices": [{"text": said, "finish_reason": "length"}], "usage": usage}


def calibration(
    server: Server, *, renders: bool = True, chosen: tuple[str, ...] = ()
) -> Calibration:
    return Calibration(
        "m at gpu7", server, chosen, is_chat=False, count=lambda text: (len(text), len(text)),
        renders=renders,
    )  # fmt: skip


START = Dialect(NEUTRAL)


def test_a_server_that_takes_everything_is_asked_once() -> None:
    server = Server()
    assert calibration(server).fields(START, 9) == START
    assert server.seen == [(NEUTRAL, PLAIN, 9)]


def test_fields_that_are_refused_are_left_out_and_told_in_one_line(
    capsys: pytest.CaptureFixture[str],
) -> None:
    server = Server({"min_p": "unknown field min_p", "mirostat": "mirostat is not known"})
    found = calibration(server).fields(START, 9)
    rest = {name: value for name, value in NEUTRAL.items() if name not in ("min_p", "mirostat")}
    assert (found.fields, found.refused) == (rest, ("min_p", "mirostat"))
    assert capsys.readouterr().err == (
        "warning: m at gpu7: refuses min_p, mirostat; they are left out ('unknown field min_p')\n"
    )
    one = Server({"rep_pen": "no  such\nrep_pen"})
    assert calibration(one).fields(START, 9).refused == ("rep_pen",)
    assert "refuses rep_pen; it is left out ('no such rep_pen')" in capsys.readouterr().err


def test_what_the_user_chose_is_not_left_out() -> None:
    server = Server({"min_p": "unknown field min_p"})
    with pytest.raises(RequestError, match="unknown field min_p"):
        calibration(server, chosen=("min_p",)).fields(START, 9)


def test_a_field_that_is_named_beside_another_comes_back() -> None:
    """Its words name two fields, of which the second alone is refused."""
    server = Server({"rep_pen": "top_p may stand, rep_pen may not"})
    found = calibration(server).fields(START, 9)
    assert found.refused == ("rep_pen",) and found.fields["top_p"] == 1.0


def test_top_k_is_spelled_in_another_way_before_it_is_left_out() -> None:
    class Positive(Server):
        def __call__(self, dialect: Dialect, text: str, tokens: int) -> Mapping[str, Any]:
            self.refuses = (
                {"top_k": "top_k must be 0 or more"} if (dialect.fields.get("top_k", 0) < 0) else {}
            )
            return super().__call__(dialect, text, tokens)

    assert calibration(Positive()).fields(START, 9) == START.with_field("top_k", 0)
    never = calibration(Server({"top_k": "no top_k"})).fields(START, 9)
    assert never.refused == ("top_k",) and "top_k" not in never.fields


def test_a_newer_name_of_the_limit_is_taken_and_told(capsys: pytest.CaptureFixture[str]) -> None:
    found = calibration(Server(limit="max_completion_tokens")).fields(START, 9)
    assert found.limit == "max_completion_tokens" and found.fields == NEUTRAL
    assert "takes max_completion_tokens as the limit ('max_tokens is not" in capsys.readouterr().err


@pytest.mark.parametrize(
    "error",
    [
        RequestError("why", None, "top_k"),
        RequestError("why", 401, "top_k"),
        RequestError("why", 402, "top_k"),
        RequestError("why", 400, "top_k", quota=True),
        RequestError("why", 503, "top_k"),  # busy, whatever its words name
        RequestError("why", 400, "something else"),
    ],
)
def test_what_is_no_refusal_of_a_field_is_an_error(error: RequestError) -> None:
    def send(dialect: Dialect, text: str, tokens: int) -> Mapping[str, Any]:
        raise error

    found = Calibration("m", send, (), is_chat=False, count=lambda text: (1, 1), renders=True)
    with pytest.raises(RequestError) as raised:
        found.fields(START, 9)
    assert raised.value is error


def test_a_model_that_thinks_until_its_tokens_run_out_took_the_request() -> None:
    spent = RequestError("why", 400, "Could not finish the message")

    def send(dialect: Dialect, text: str, tokens: int) -> Mapping[str, Any]:
        raise spent

    found = Calibration("m", send, (), is_chat=False, count=lambda text: (1, 1), renders=True)
    assert found.fields(START, 9) == START and found.first == {}


@pytest.mark.parametrize(
    ("server", "renders", "offset", "why"),
    [
        (Server(), True, 0, ""),
        (Server(template=40), True, 40, ""),
        (Server(template=-2), True, -2, ""),
        (Server(template=7), False, 7, ""),
        (Server(count=lambda text: len(text) + 2 * (text == MIXED)), True, 2, ""),
        (Server(count=lambda text: len(text) + 3 * (text == MIXED)), True, None,
         "not tested: the server's counts of two prompts differ from those here by +0 and +3 tokens"
         ", so it has another tokenizer, or cuts prompts"),
        (Server(count=lambda text: len(text) - 9 * (text == MIXED)), False, 0, ""),
    ],
)  # fmt: skip
def test_the_offset_is_what_the_server_reads_beyond_what_is_rendered_here(
    server: Server, renders: bool, offset: int | None, why: str
) -> None:
    found = calibration(server, renders=renders)
    found.fields(START, 9)
    assert found.offset(START) == (offset, why)
    assert [text for _, text, _ in server.seen] == [PLAIN, MIXED][: 1 + renders]


def test_an_option_sets_the_window_whatever_the_models_positions_reach() -> None:
    config = {"max_position_embeddings": 4096}
    assert Model("m", "m", config=config).window == 4096
    assert Model("m", "m", config=config, limit=99).window == 99
    assert Model("m", "m").window is None


def test_an_offset_that_nobody_can_know_is_not_tested_and_a_cut_prompt_is_an_error() -> None:
    found = calibration(Server())
    found.first = {"choices": []}
    assert found.offset(START) == (
        None, "not tested: the server does not count the tokens of prompts"
    )  # fmt: skip
    cut = calibration(Server(template=-3))
    cut.fields(START, 9)
    read, least = len(MIXED) - 3, len(MIXED)
    with pytest.raises(RulerError, match=f"it read {read} tokens of a text of {least}: it cuts"):
        cut.offset(START)
    late = calibration(Server())
    late.fields(START, 9)
    late.send = Server({"top_k": "busy"})
    assert late.offset(START) == (None, "not tested: status 400: 'busy'")


@pytest.mark.parametrize(
    ("server", "dialect", "seen"),
    [
        (Server(), START, "no penalty of the server's own was seen"),
        (Server(own={"repeat_penalty": 1.1}), START,
         "a penalty of the server's own was seen; neutral values switch it off"),
        (Server(own={"frequency_penalty": 0.5}), START,
         "a penalty of the server's own was seen; neutral values switch it off"),
        (Server(own={"repeat_penalty": 1.1}, obeys=False), START,
         "not tested: the model does not repeat a text that repeats itself"),
        (Server(obeys=False), START, "not tested: a deliberate penalty changes no answer"),
        (Server(repeats=False), START,
         "not tested: the model does not repeat a text that repeats itself"),
        (Server(), Dialect({"temperature": 0.0, "top_p": 1.0}),
         "not tested: the server takes no field for a penalty"),
        (Server(), Dialect({"rep_pen": 1.0}), "not tested: the server takes no temperature"),
        (Server({"top_k": "no"}), START, "not tested: status 400: 'no'"),
    ],
)  # fmt: skip
def test_a_penalty_is_seen_only_where_neutral_and_deliberate_values_change_the_answer(
    server: Server, dialect: Dialect, seen: str
) -> None:
    assert calibration(server).sampling(dialect) == seen
    assert all(text == REPEATED for _, text, _ in server.seen) and len(server.seen) <= 4


def test_the_servers_own_values_are_looked_at_without_the_neutral_ones() -> None:
    server = Server()
    dialect = Dialect({**NEUTRAL, "seed": 7, "min_tokens": 1, "logit_bias": {}})
    calibration(server, chosen=("top_p",)).sampling(dialect)
    own = {"temperature": 0.0, "top_p": 1.0, "min_tokens": 1, "logit_bias": {}}
    neutral = {**NEUTRAL, "min_tokens": 1, "logit_bias": {}}
    penalty = dict.fromkeys(("repetition_penalty", "repeat_penalty", "rep_pen", "presence_penalty",
                             "frequency_penalty"), 2.0)  # fmt: skip
    expected = [own, neutral, {**neutral, **penalty}, own]
    assert [fields for fields, _, _ in server.seen] == expected


def test_answers_that_differ_by_themselves_show_nothing() -> None:
    said = iter(["yes " * 24, "yes " * 24, "no", "other"])

    def send(dialect: Dialect, text: str, tokens: int) -> Mapping[str, Any]:
        return {"choices": [{"text": next(said), "finish_reason": "stop"}]}

    found = Calibration("m", send, (), is_chat=False, count=lambda text: (1, 1), renders=True)
    assert found.sampling(START) == "not tested: one request has two answers"


def test_a_window_is_read_from_the_refusal_of_an_endless_answer() -> None:
    server = Server(window=4096)
    assert calibration(server).window(START) == 4096
    fields, text, tokens = server.seen[0]
    assert (text, tokens, fields["stop"]) == (PLAIN, 100_000_000, [" ", "\n", ".", ","])
    assert calibration(Server()).window(START) is None
    for words, window in (
        ("n_ctx=8192 is too small", 8192),
        ("the context window of 131072 tokens is exceeded", 131072),
        ("max_model_len is 99", None),
        ("context of 100000000 tokens", None),
        ("at most 4096", None),
    ):
        refusing = calibration(Server({"stop": words}))
        assert refusing.window(START) == window, words


@pytest.mark.parametrize(
    ("card", "window"),
    [
        ({}, None),
        ({"max_model_len": 4096, "context_length": 8192}, 4096),
        ({"max_model_len": 0, "context_length": 8192}, 8192),
        ({"max_model_len": True, "context_window": 5}, 5),
        ({"max_model_len": "4096", "max_context_length": 6}, 6),
        ({"loaded_context_length": 7, "meta": {"n_ctx": 8}}, 7),
        ({"meta": {"n_ctx": 8, "n_ctx_train": 9}}, 8),
        ({"meta": None}, None),
    ],
)
def test_a_servers_card_states_its_window(card: dict[str, Any], window: int | None) -> None:
    assert stated_window(card) == window


@pytest.mark.parametrize(
    ("error", "names"),
    [
        (RequestError("", 400, "temperature, top_p and min_p"), ["top_p", "min_p", "temperature"]),
        (RequestError("", 400, "top_p", field="min_p"), ["min_p"]),
        (RequestError("", 400, "top_p", field="else"), ["top_p"]),
        (RequestError("", 429, "top_p"), []),
        (RequestError("", 400, "my_top_p, top_p_x"), []),
        (RequestError("", 400, "max_tokens, stream"), ["max_tokens", "stream"]),
        (RequestError("", 400, "max_completion_tokens"), ["max_completion_tokens"]),
    ],
)
def test_a_refusal_names_fields_the_likeliest_first(error: RequestError, names: list[str]) -> None:
    assert named(error, START) == names
