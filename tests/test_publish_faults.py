"""A Hub that fails while a release is under way: what is published in the end, what is said."""

import json
from collections.abc import Callable
from itertools import product

import pytest

from tests.hub import WRITE
from tests.hub_faults import (
    Act,
    answers,
    first,
    hangs,
    loses_the_answer,
    resets,
    resets_midway,
    says,
)
from tests.hub_http import Handler
from tests.publishing import FIRST, Result, Site

#: One request of each kind that a release makes, in its order.
STEPS = {
    "look": r"GET /api/datasets/[^/]+/[^/]+/revision/main$",
    "create": r"POST /api/repos/create",
    "list": r"GET .*/tree/",
    "preupload": r"POST .*/preupload/",
    "batch": r"POST .*/info/lfs/objects/batch",
    "upload": r"PUT /lfs/",
    "commit": r"POST .*/commit/main",
    "tag": r"POST .*/tag/",
    "refs": r"GET .*/refs",
}


def assert_released(site: Site, done: Result) -> None:
    """One commit, one tag on it, and all files."""
    assert done.code == 0, done.said
    assert site.held.tags == {FIRST: done.commit}
    assert len(site.held.log()) == 2
    assert len(site.contents(FIRST)) == 5


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
def test_a_fault_that_passes_at_every_step_is_survived(name: str, site: Site) -> None:
    for (step, match), act in product(STEPS.items(), PASSING[name]):
        if step != "upload" or name not in ("a page", "no JSON"):
            site.hub.fail(match, act)
    if name == "a connection that ends":
        site.hub.fail(STEPS["upload"], resets_midway)
    assert_released(site, site.publish(site.builds()))
    assert not [fault for fault in site.hub.faults if fault.times], "each was met"


@pytest.mark.slow
@pytest.mark.parametrize("step", [*STEPS, "validate"])
def test_a_hub_that_only_sends_pages_is_given_up_in_one_line(step: str, site: Site) -> None:
    site.hub.fail(
        {**STEPS, "validate": "POST /api/validate-yaml"}[step], says(200, HTML), times=999
    )
    done = site.publish(site.builds())
    assert done.code == 1, done.said
    assert "\n" not in done.said and "Traceback" not in done.said
    assert not (site.repo in site.hub.repos and site.held.tags)


@pytest.mark.parametrize("status", [409, 412])
def test_a_file_that_is_committed_meanwhile_is_not_tagged_and_the_same_command_resumes(
    status: int, site: Site
) -> None:
    def conflict(handler: Handler, serve: Callable[[], None]) -> None:
        site.hub.foreign_commit(site.repo)
        handler.reply(409, {"error": "conflict"}) if status == 409 else serve()

    site.hub.fail(STEPS["commit"], conflict)
    done = site.publish(site.builds())
    assert done.code == 1 and "'NOTES.txt' was committed meanwhile" in done.said, done.said
    assert site.contents("main") == {"NOTES.txt": b"hello"} and site.held.tags == {}
    again = site.publish(site.builds())
    assert "removed by this release, kept by the history" in again.said
    assert again.code == 0 and len(site.contents(FIRST)) == 5
    assert len(site.held.log()) == 3 and site.publisher.verify(site.repo, FIRST).returncode == 0


def test_what_was_uploaded_is_not_sent_again(site: Site) -> None:
    site.hub.fail(STEPS["commit"], answers(403, said="not now"))
    refused = site.publish(site.builds())
    assert refused.code == 1 and "not now" in refused.said and site.held.tags == {}
    site.hub.requests.clear()
    assert_released(site, site.publish(site.builds()))
    assert not [line for line in site.hub.requests if line.startswith("PUT")]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("step", "act", "times"),
    [
        *((step, loses_the_answer, 1) for step in ("create", "commit", "tag", "upload")),
        pytest.param("commit", hangs(3), 1, marks=pytest.mark.slow),
        ("preupload", answers(404), 2),
    ],
)
def test_no_step_is_done_twice(step: str, act: Act, times: int, site: Site) -> None:
    site.hub.fail(STEPS[step], act, times=times)
    assert_released(site, site.publish(site.builds()))


@pytest.mark.slow
@pytest.mark.parametrize("step", ["preupload", "batch", "upload", "commit"])
def test_patience_bounds_an_upload_that_hangs(step: str, site: Site) -> None:
    begun = list[float]()

    def hang(handler: Handler, serve: Callable[[], None]) -> None:
        begun.append(site.hub.clock())
        hangs(9)(handler, serve)

    site.hub.fail(STEPS[step], hang, times=99)
    done = site.publisher.command(site.builds(), "--repo", site.repo, RULER_HUB_PATIENCE="3")
    assert done.returncode == 1 and "no answer" in done.stderr, done.stderr
    assert site.hub.clock() - begun[0] < 10


@pytest.mark.slow
def test_the_pause_that_the_hub_asks_for_is_kept(site: Site) -> None:
    site.hub.fail(STEPS["commit"], answers(429, {"Retry-After": "1"}))
    site.hub.fail(STEPS["tag"], answers(429, {"RateLimit": '"api";r=0;t=1'}))
    begun = site.hub.clock()
    assert_released(site, site.publish(site.builds()))
    assert site.hub.clock() - begun >= 2


def test_a_429_on_every_third_request_ends_well(site: Site) -> None:
    count = iter(range(10**6))

    def limits(handler: Handler, serve: Callable[[], None]) -> None:
        handler.reply(429, {"error": "slow down"}) if next(count) % 3 == 2 else serve()

    site.hub.fail("", limits, times=10**6)
    assert_released(site, site.publish(site.builds()))
    assert next(count) > 20


def test_a_release_that_lands_first_is_neither_undone_nor_mixed_with(site: Site) -> None:
    site.publish(site.builds(), FIRST[1:])
    before = site.contents("main")
    rival = {"manifest.json": b"of a rival"}
    site.hub.fail(
        STEPS["commit"], first(lambda: site.hub.foreign_commit(site.repo, *rival.popitem()))
    )
    done = site.publish(site.builds("vt", length=2048), "")
    assert done.code == 1 and "another release was committed meanwhile" in done.said
    assert site.contents("main") == {**before, "manifest.json": b"of a rival"}
    assert list(site.held.tags) == [FIRST]


def test_a_tag_that_somebody_else_sets_first_stays_where_it_is(site: Site) -> None:
    def rival() -> None:
        site.held.tags[FIRST] = site.hub.foreign_commit(site.repo)

    site.hub.fail(STEPS["tag"], first(rival))
    done = site.publish(site.builds())
    commits = [*site.held.commits]
    assert site.held.tags[FIRST] == commits[-1]
    assert done.code == 1 and done.said.endswith(
        f"tag {FIRST} is on commit {commits[-1]}, not on {commits[-2]}; a tag is never moved, so "
        "release this as another version"
    )


def test_what_an_unfinished_release_left_goes_with_the_next(site: Site) -> None:
    site.hub.fail(STEPS["tag"], answers(403))
    assert site.publish(site.builds("vt", length=2048)).code == 1
    assert "vt_2048/test-00000-of-00001.parquet" in site.contents("main")
    assert site.publish(site.builds(), FIRST[1:]).code == 0
    assert len(site.contents(FIRST)) == 5
    assert not [path for path in site.contents(FIRST) if "2048" in path]


def test_a_config_that_is_no_part_of_a_release_goes_also_if_nothing_is_to_be_sent(
    site: Site,
) -> None:
    other = "vt_2048/test-00000-of-00001.parquet"
    site.hub.fail(STEPS["tag"], answers(403))
    assert site.publish(site.builds()).code == 1
    released = site.contents("main")
    site.hub.foreign_commit(site.repo, other)
    assert other in site.contents("main")
    assert site.publish(site.builds()).code == 0
    assert site.contents(FIRST) == site.contents("main") == released


def test_nothing_is_tagged_that_is_not_what_was_sent(site: Site) -> None:
    def harm(handler: object, serve: Callable[[], None]) -> None:
        serve()
        _, files = site.held.commits[site.held.head]
        files.pop("vt_1024/test-00000-of-00001.parquet")

    site.hub.fail(STEPS["commit"], harm)
    done = site.publish(site.builds())
    assert (
        done.code == 1
        and "vt_1024/test-00000-of-00001.parquet: missing: not as uploaded" in done.said
    )
    assert site.held.tags == {}


def over_quota(handler: Handler, _: Callable[[], None]) -> None:
    """Answer as the Hub does where an account has no room: an error for each file."""
    objects = json.loads(handler.body())["objects"]
    refused = [{**one, "error": {"code": 507, "message": QUOTA}} for one in objects]
    handler.reply(200, {"transfer": "basic", "objects": refused})


QUOTA = "Private repository storage limit reached"
#: As the Hub says it, with an apostrophe, quotation marks and a backquote.
RIGHTS = "You don't have the rights to create a dataset under the namespace \"org\": `org/x` isn't"


@pytest.mark.slow
@pytest.mark.parametrize(
    ("step", "act", "words"),
    [
        ("commit", answers(413, said="too large"), ["413", "fewer lengths at a time"]),
        ("commit", answers(401), ["401", "token"]),
        ("create", answers(403, said="no rights"), ["403", "no rights", "write access"]),
        *((step, answers(403, said=RIGHTS), [RIGHTS]) for step in ("create", "commit", "tag")),
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
def test_what_the_hub_refuses_is_said(step: str, act: Act, words: list[str], site: Site) -> None:
    site.hub.fail(STEPS[step], act, times=99)
    done = site.publish(site.builds())
    assert done.code == 1 and "\n" not in done.said
    assert all(word in done.said for word in words), done.said
    assert not (site.repo in site.hub.repos and site.held.tags)
