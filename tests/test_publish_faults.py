"""A Hub that fails while a release is under way: what is published in the end, what is said."""

import json
from collections.abc import Callable
from itertools import product

import pytest

from tests.conftest import Builds
from tests.hub import WRITE, Hub
from tests.hub_faults import (
    Act,
    answers,
    first,
    flips_a_bit,
    hangs,
    loses_the_answer,
    resets,
    resets_midway,
    says,
)
from tests.hub_http import Handler
from tests.publishing import FIRST, Publisher, Result, contents

#: One request of each kind that a release makes, in its order.
STEPS = {
    "look": r"GET /api/datasets/[^/]+/[^/]+/revision/main$",
    "create": r"POST /api/repos/create",
    "list": r"GET .*/tree/",
    "preupload": r"POST .*/preupload/",
    "batch": r"POST .*/info/lfs/objects/batch",
    "upload": r"PUT /lfs/",
    "commit": r"POST .*/commit/main",
    "download": r"GET .*/resolve/.*/manifest.json",
    "tag": r"POST .*/tag/",
    "refs": r"GET .*/refs",
}


def assert_released(hub: Hub, repo: str, done: Result) -> None:
    """One commit, one tag on it, and all files."""
    assert done.code == 0, done.said
    assert hub.repos[repo].tags == {FIRST: done.commit}
    assert len(hub.repos[repo].log()) == 2
    assert len(contents(hub, repo, FIRST)) == 6


SOON = {"Retry-After": "0"}
HTML = b"<html><body>Bad Gateway</body></html>"
#: Faults that pass. A page for an upload is taken for success by the client, so it is left out.
PASSING: dict[str, list[Act]] = {
    "408 and 429": [answers(408, SOON), answers(429, SOON)],
    "500 and 503": [answers(500, SOON), answers(503, SOON)],
    "a connection that ends": [resets],
    "a 502 page": [says(502, HTML)],
    "a page": [says(200, HTML)],
    "no JSON": [says(200, b'{"sha": ')],
}


@pytest.mark.slow
@pytest.mark.parametrize("name", PASSING)
def test_a_fault_that_passes_at_every_step_is_survived(
    name: str, publisher: Publisher, hub: Hub, repo: str, builds: Builds
) -> None:
    for (step, match), act in product(STEPS.items(), PASSING[name]):
        if step != "upload" or name not in ("a page", "no JSON"):
            hub.fail(match, act)
    if name == "a connection that ends":
        hub.fail(STEPS["upload"], resets_midway)
    assert_released(hub, repo, publisher(builds(), repo))
    assert not [fault for fault in hub.faults if fault.times], "each was met"


@pytest.mark.parametrize("step", [*STEPS, "validate"])
def test_a_hub_that_only_sends_pages_is_given_up_in_one_line(
    step: str, publisher: Publisher, hub: Hub, repo: str, builds: Builds
) -> None:
    hub.fail({**STEPS, "validate": "POST /api/validate-yaml"}[step], says(200, HTML), times=999)
    done = publisher(builds(), repo)
    assert done.code == 1, done.said
    assert "\n" not in done.said and "Traceback" not in done.said
    assert not (repo in hub.repos and hub.repos[repo].tags)


@pytest.mark.parametrize("status", [409, 412])
def test_a_commit_that_lands_first_is_kept_and_the_release_follows_it(
    status: int, publisher: Publisher, hub: Hub, repo: str, builds: Builds
) -> None:
    def conflict(handler: Handler, serve: Callable[[], None]) -> None:
        hub.foreign_commit(repo)
        handler.reply(409, {"error": "conflict"}) if status == 409 else serve()

    hub.fail(STEPS["commit"], conflict)
    done = publisher(builds(), repo)
    assert done.code == 0, done.said
    held = contents(hub, repo, FIRST)
    assert held["NOTES.txt"] == b"hello" and len(held) == 7
    assert len(hub.repos[repo].log()) == 3


def test_a_token_that_is_not_ascii_is_said_in_one_line_and_not_shown(
    publisher: Publisher, hub: Hub, repo: str, builds: Builds
) -> None:
    done = publisher(builds(), repo, token="hf_gehe\u00efm" + "x" * 30)
    assert done.code == 1 and "not ASCII" in done.said and "gehe" not in done.said
    assert "\n" not in done.said


def test_what_the_hub_serves_is_compared_before_the_tag(
    publisher: Publisher, hub: Hub, repo: str, builds: Builds
) -> None:
    hub.fail("GET .*/resolve/.*parquet", flips_a_bit, times=99)
    done = publisher(builds(), repo)
    assert done.code == 1 and "the Hub serves other bytes than were sent" in done.said, done.said
    assert hub.repos[repo].tags == {}
    hub.faults.clear()
    hub.fail("GET .*/resolve/.*parquet", flips_a_bit)
    again = publisher(builds(), repo)  # nothing is sent, and still what is new is downloaded
    assert_released(hub, repo, again)
    assert "compared with the Hub's listing" in again.said
    assert "new files downloaded, and their bytes compared" in again.said


def test_what_was_uploaded_is_not_sent_again(
    publisher: Publisher, hub: Hub, repo: str, builds: Builds
) -> None:
    hub.fail(STEPS["commit"], answers(403, said="not now"))
    refused = publisher(builds(), repo)
    assert refused.code == 1 and "not now" in refused.said and hub.repos[repo].tags == {}
    hub.requests.clear()
    assert_released(hub, repo, publisher(builds(), repo))
    assert not [line for line in hub.requests if line.startswith("PUT")]


@pytest.mark.parametrize(
    ("step", "act", "times"),
    [
        *((step, loses_the_answer, 1) for step in ("create", "commit", "tag", "upload")),
        pytest.param("commit", hangs(3), 1, marks=pytest.mark.slow),
        ("preupload", answers(404), 2),
    ],
)
def test_a_lost_a_silent_and_a_late_step_is_not_done_twice(
    step: str, act: Act, times: int, publisher: Publisher, hub: Hub, repo: str, builds: Builds
) -> None:
    hub.fail(STEPS[step], act, times=times)
    assert_released(hub, repo, publisher(builds(), repo))


def test_the_pause_that_the_hub_asks_for_is_kept(
    publisher: Publisher, hub: Hub, repo: str, builds: Builds
) -> None:
    hub.fail(STEPS["commit"], answers(429, {"Retry-After": "1"}))
    hub.fail(STEPS["tag"], answers(429, {"RateLimit": '"api";r=0;t=1'}))
    begun = hub.clock()
    assert_released(hub, repo, publisher(builds(), repo))
    assert hub.clock() - begun >= 2


def test_a_429_on_every_third_request_ends_well(
    publisher: Publisher, hub: Hub, repo: str, builds: Builds
) -> None:
    count = iter(range(10**6))

    def limits(handler: Handler, serve: Callable[[], None]) -> None:
        handler.reply(429, {"error": "slow down"}) if next(count) % 3 == 2 else serve()

    hub.fail("", limits, times=10**6)
    assert_released(hub, repo, publisher(builds(), repo))
    assert next(count) > 20


def test_a_release_that_lands_first_is_neither_undone_nor_mixed_with(
    publisher: Publisher, hub: Hub, repo: str, builds: Builds
) -> None:
    publisher(builds(), repo, FIRST[1:])
    before = contents(hub, repo, "main")
    rival = {"manifest.json": b"of a rival"}
    hub.fail(STEPS["commit"], first(lambda: hub.foreign_commit(repo, *rival.popitem())))
    done = publisher(builds("vt", length=2048), repo, "")
    assert done.code == 1 and "another release was committed meanwhile" in done.said
    assert contents(hub, repo, "main") == {**before, "manifest.json": b"of a rival"}
    assert list(hub.repos[repo].tags) == [FIRST]


def test_a_tag_that_somebody_else_sets_first_stays_where_it_is(
    publisher: Publisher, hub: Hub, repo: str, builds: Builds
) -> None:
    def rival() -> None:
        hub.repos[repo].tags[FIRST] = hub.foreign_commit(repo)

    hub.fail(STEPS["tag"], first(rival))
    done = publisher(builds(), repo)
    assert done.code == 1 and "a tag is never moved" in done.said
    assert hub.repos[repo].tags[FIRST] == hub.repos[repo].head


def test_what_an_unfinished_release_left_goes_with_the_next(
    publisher: Publisher, hub: Hub, repo: str, builds: Builds
) -> None:
    hub.fail(STEPS["tag"], answers(403))
    assert publisher(builds("vt", length=2048), repo).code == 1
    assert "vt_2048/test-00000-of-00001.parquet" in contents(hub, repo, "main")
    assert publisher(builds(), repo, FIRST[1:]).code == 0
    assert len(contents(hub, repo, FIRST)) == 6
    assert not [path for path in contents(hub, repo, FIRST) if "2048" in path]


def test_nothing_is_tagged_that_is_not_what_was_sent(
    publisher: Publisher, hub: Hub, repo: str, builds: Builds
) -> None:
    def harm(handler: object, serve: Callable[[], None]) -> None:
        serve()
        _, files = hub.repos[repo].commits[hub.repos[repo].head]
        files.pop("vt_1024/test-00000-of-00001.parquet")

    hub.fail(STEPS["commit"], harm)
    done = publisher(builds(), repo)
    assert done.code == 1 and "not as uploaded: vt_1024/" in done.said
    assert hub.repos[repo].tags == {}


def over_quota(handler: Handler, _: Callable[[], None]) -> None:
    """Answer as the Hub does where an account has no room: an error for each file."""
    objects = json.loads(handler.body())["objects"]
    refused = [{**one, "error": {"code": 507, "message": QUOTA}} for one in objects]
    handler.reply(200, {"transfer": "basic", "objects": refused})


QUOTA = "Private repository storage limit reached"


@pytest.mark.parametrize(
    ("step", "act", "words"),
    [
        ("commit", answers(413, said="too large"), ["413", "fewer lengths at a time"]),
        ("commit", answers(401), ["401", "token"]),
        ("create", answers(403, said="no rights"), ["403", "no rights", "write access"]),
        ("tag", answers(403, said="no rights"), ["403", "no rights"]),
        ("commit", answers(400, said="Invalid YAML in README.md"), ["400", "Invalid YAML"]),
        ("batch", answers(403, said=QUOTA), ["403", QUOTA]),
        ("batch", over_quota, ["the Hub refuses the files", QUOTA]),
        ("commit", answers(507, said=QUOTA), ["507", QUOTA, "storage is full"]),
        ("commit", answers(400, said=f"bad {WRITE} here"), ["bad *** here"]),
        ("commit", answers(503), ["run the same command again"]),
        ("commit", answers(429, {"Retry-After": "86400"}), ["a pause of 86400 s"]),
        ("create", answers(429, {"Retry-After": "86400"}), ["a pause of 86400 s"]),
    ],
)
def test_what_the_hub_refuses_is_said_in_one_line_and_nothing_is_tagged(
    step: str, act: Act, words: list[str], publisher: Publisher, hub: Hub, repo: str, builds: Builds
) -> None:
    hub.fail(STEPS[step], act, times=99)
    done = publisher(builds(), repo)
    assert done.code == 1 and "\n" not in done.said
    assert all(word in done.said for word in words), done.said
    assert not (repo in hub.repos and hub.repos[repo].tags)
