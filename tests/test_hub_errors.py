"""What the Hub answers, in words: each status, each broken reply, and what is tried again."""

from types import SimpleNamespace
from typing import Any

import pytest
from huggingface_hub.errors import (
    GatedRepoError,
    HfHubHTTPError,
    OfflineModeIsEnabled,
    RepositoryNotFoundError,
)

from ruler_data.errors import RulerError
from ruler_data.files import TEXT_BYTES
from ruler_data.hub import client, repo
from ruler_data.hub.client import (
    HubDown,
    Patience,
    explain,
    is_temporary,
    one_line,
    seconds,
    status,
    with_retries,
)
from ruler_data.hub.library import http

LATER = "run the same command again later to resume"
DOWN = "the Hub cannot be reached or does not work"


def answered(code: int, said: str | None = None, kind: Any = HfHubHTTPError) -> Exception:  # noqa: ANN401
    """Return the error of the Hub's client for a status."""
    request = http.Request("GET", "https://hub.example/x")
    error: Exception = kind(f"{code}", response=http.Response(code, request=request))
    error.server_message = said  # type: ignore[attr-defined]
    return error


def caused(error: Exception) -> Exception:
    """Return an error that another one is the cause of."""
    outer = ValueError("outer")
    outer.__cause__ = error
    return outer


XET = "error sending request for url (https://cas.example/v1/x)"
#: An error, its status, whether it is temporary, whether the Hub is down, and what is said.
ERRORS: list[tuple[Exception, int | None, bool, bool, str]] = [
    (answered(401), 401, False, False,
     "the Hub does not accept the token; log in again with `hf auth login`, or set HF_TOKEN (401)"),
    (answered(403, "no\n write"), 403, False, False,
     "the token may not do this; use one with write access to the repo (403: no write)"),
    (caused(answered(404)), 404, False, False,
     "the Hub does not have it, or the token may not see it (404)"),
    (answered(400, "bad"), 400, False, False, "the Hub refuses it (400: bad)"),
    (answered(408), 408, True, False, "the Hub refuses it (408)"),
    (answered(412), 412, False, False,
     "another commit to the repo is in progress; run it again (412)"),
    (answered(413), 413, False, False,
     "it is more than the Hub accepts in one request; publish fewer lengths at a time (413)"),
    (answered(429), 429, True, False,
     "the Hub limits the number of requests; wait and run it again (429)"),
    (answered(500), 500, True, True, f"the Hub does not work at the moment; {LATER} (500)"),
    (answered(501), 501, False, False,
     "a mirror may not know Xet, the way of large files; set HF_HUB_DISABLE_XET=1 (501)"),
    (answered(507), 507, False, False, "the account's storage is full (507)"),
    (answered(403, kind=GatedRepoError), 403, False, False,
     "it is gated: accept its terms on the Hub and log in (403)"),
    (OSError("HTTP status client error (404 Not Found), domain"), 404, False, False,
     "the Hub does not have it, or the token may not see it (404)"),
    (RuntimeError(XET), None, False, True,
     "cas.example, which stores large files (Xet), did not answer; HF_HUB_DISABLE_XET=1 goes "
     f"without it, or {LATER}"),
    (OfflineModeIsEnabled("x"), None, False, True, "downloads are off (HF_HUB_OFFLINE is set)"),
    (http.TooManyRedirects("x"), None, False, False, "the Hub's redirects lead in a circle"),
    (UnicodeEncodeError("ascii", "\xe9", 0, 1, "no"), None, False, False,
     "the token holds a character that is not ASCII; set HF_TOKEN again"),
    (http.ReadTimeout(""), None, True, True, f"{DOWN} (ReadTimeout); {LATER}"),
    (ConnectionError("reset\nby peer"), None, True, True, f"{DOWN} (reset by peer); {LATER}"),
    (TimeoutError("late"), None, True, True, f"{DOWN} (late); {LATER}"),
    (OSError("9 of 10 bytes"), None, True, True, f"{DOWN} (9 of 10 bytes); {LATER}"),
    (OSError(28, "No space left", "/x/y"), None, False, False, "/x/y: No space left"),
    (OSError(5, "Input/output error"), None, False, False, "disk: Input/output error"),
]  # fmt: skip


@pytest.mark.parametrize("number", range(len(ERRORS)))
def test_what_the_hub_answers_is_one_line_that_says_what_to_do(number: int) -> None:
    error, code, temporary, down, said = ERRORS[number]
    assert (status(error), is_temporary(error)) == (code, temporary)
    explained = explain(error, "org/x: step")
    assert str(explained) == f"org/x: step: {said}"
    assert isinstance(explained, HubDown) == down


def test_what_is_no_error_of_the_hub_is_raised_as_it_is() -> None:
    bug = KeyError("x")
    with pytest.raises(KeyError):
        explain(bug, "x")
    own = RulerError("a", "b")
    assert explain(caused(own), "x") is own and not is_temporary(own)
    assert is_temporary(answered(404), also=[404]) and not is_temporary(answered(404), also=[409])


def test_a_message_is_one_line_without_a_token_and_ends(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HF_TOKEN", "secret")
    assert one_line("a\n\tb  secret, hf_AbCdEf12x hf_short \x1b") == "a b ***, *** hf_short \\x1b"
    for size, expected in ((1000, "x" * 1000), (1001, "x" * 1000 + "...")):
        assert one_line("x" * size) == expected


@pytest.mark.parametrize(
    ("value", "expected"), [("", 60.0), ("2.5", 2.5), ("0", 0.001), ("-1", 0.001), ("x", 60.0)]
)
def test_limits_of_time_are_the_environments_if_they_are_numbers(
    value: str, expected: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("RULER_HUB_TIMEOUT", value)
    assert seconds("RULER_HUB_TIMEOUT") == expected


@pytest.fixture
def naps(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """The pauses of this process, which last no time."""
    taken = list[float]()
    monkeypatch.setattr("ruler_data.hub.client.time.sleep", taken.append)
    monkeypatch.setattr(Patience, "moved", 0.0)
    for name in client.LIMITS:
        monkeypatch.delenv(name, raising=False)
    return taken


def test_pauses_double_up_to_the_longest_and_end_with_the_attempts(
    naps: list[float], capsys: pytest.CaptureFixture[str]
) -> None:
    patience = Patience()
    waits = []
    while patience.wait("host", "why"):
        waits.append(sum(naps))
        naps.clear()
    assert waits == [1, 2, 4, 8, 16, 30, 30]
    said = capsys.readouterr().err.splitlines()
    assert said[0].endswith("host: why; trying again in 1 s")
    assert said[-1].endswith("host: why; trying again in 30 s")
    assert Patience().wait("host", "why", 299.0) and not Patience().wait("host", "why", 301.0)


def test_a_step_is_tried_again_after_temporary_errors_alone(
    naps: list[float], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("ruler_data.hub.client.client", lambda: None)
    late = answered(503)
    late.response.headers["Retry-After"] = "7"  # type: ignore[attr-defined]
    errors = [answered(500), late, client.NoAnswer("h", "p", 3.0)]

    def work() -> str:
        if errors:
            raise errors.pop()
        return "done"

    assert with_retries("step", work) == "done"
    assert sum(naps) == 3 + 7 + 4
    for error, kind, said in (
        (answered(404), RulerError, "step: the Hub does not have it"),
        (client.GaveUp("no network"), HubDown, "step: no network"),
        (RulerError("own"), RulerError, "own"),
    ):  # fmt: skip
        errors.append(error)
        naps.clear()
        with pytest.raises(kind) as refused:
            with_retries("step", work)
        assert str(refused.value).startswith(said) and not naps
    errors += [client.NoAnswer("h", "p")] * client.ATTEMPTS
    with pytest.raises(HubDown) as down:
        with_retries("step", work)
    assert str(down.value) == f"step: {DOWN} (h: p); {LATER}" and not errors


def test_no_more_is_downloaded_than_was_stated_or_than_a_file_of_its_kind_has() -> None:
    most = client._limit("manifest.json")
    for stated, limit in ((10, 10), (most + 1, most), (None, most)):
        with client.at_most(stated):
            assert client._limit("manifest.json") == limit
    assert client._limit("manifest.json") == most
    with client.at_most(TEXT_BYTES + 1):
        assert client._limit("vt_4096/test.parquet") == TEXT_BYTES + 1


@pytest.mark.parametrize(
    ("error", "is_absent"),
    [
        (answered(404, kind=RepositoryNotFoundError), True),
        (answered(403, kind=GatedRepoError), False),
    ],
)
def test_a_repo_that_is_gated_is_not_one_that_is_absent(
    error: Exception, is_absent: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    def look(*_: object, **__: object) -> None:
        raise error

    monkeypatch.setattr(repo, "client", lambda: SimpleNamespace(dataset_info=look))
    if is_absent:
        assert repo.head("org/ruler") is None
        return
    with pytest.raises(RulerError, match="it is gated: accept its terms"):
        repo.head("org/ruler")
