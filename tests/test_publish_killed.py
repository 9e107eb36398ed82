"""The command itself: killed, stopped and watched for what it must not tell."""

import getpass
import os
import signal
import time
from pathlib import Path

import pytest

from tests.commands import finish, started
from tests.hub import WRITE
from tests.hub_faults import answers, kills
from tests.hub_http import Handler, Serve
from tests.publishing import Site, contents

CREATE, PUT, COMMIT, TAG = "POST /api/repos/create", "PUT /lfs/", "POST .*/commit/", "POST .*/tag/"
#: Seconds for which the Hub hangs.
HUNG = 8
MOMENTS = [(step, served) for step in (CREATE, PUT, COMMIT, TAG) for served in (False, True)]


@pytest.mark.slow
def test_killed_at_any_write_the_same_command_completes_the_same_release(site: Site) -> None:
    folder, command = site.builds(), (site.builds(), "--repo", site.repo, "--version", "1.0.0")
    running: list[int] = []
    for step, served in MOMENTS:
        running.clear()  # the one before may still be a zombie, which can be killed again
        site.hub.fail(step, kills(lambda: running[-1], served=served))
        with site.publisher.started(*command) as process:
            running.append(process.pid)
            finish(process)
        assert process.returncode == -signal.SIGKILL, (step, served)
        site.hub.faults.clear()
    last = site.publisher.command(*command)
    assert last.returncode == 0, last.stderr
    assert len(site.held.log()) == 2, "one commit for all that"
    assert site.held.tags == {"v1.0.0": site.held.head}
    undisturbed = site.publisher(folder, site.repo + "-calm", "1.0.0")
    assert undisturbed.code == 0
    calm, held = contents(site.hub, site.repo + "-calm", "v1.0.0"), site.contents("v1.0.0")
    assert calm.keys() == held.keys()
    assert all(calm[path] == held[path] for path in held if path.endswith(".parquet"))


@pytest.mark.slow
@pytest.mark.parametrize("step", ["PUT /lfs/", "POST .*/commit/main", "POST .*/tag/"])
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_one_signal_ends_it_while_the_hub_hangs(step: str, number: int, site: Site) -> None:
    signalled = []

    def hang(handler: Handler, _: Serve) -> None:
        signalled.append(site.hub.clock())
        os.kill(process.pid, number)
        time.sleep(HUNG)
        handler.reset()

    site.hub.fail(step, hang)
    env = {**site.publisher.env(), "RULER_HUB_TIMEOUT": "60"}
    command = ("publish", site.builds(), "--repo", site.repo)
    with started("ruler-data", *command, env=env) as process:
        done = finish(process)
    assert done.returncode == 128 + number and site.hub.clock() - signalled[0] < HUNG
    said = "ruler-data: stopped; run the same command again to resume"
    assert done.stderr.splitlines()[-1] == said
    site.hub.faults.clear()
    assert site.publish(site.builds()).code == 0


@pytest.mark.slow
@pytest.mark.parametrize("fault", [None, answers(400, said=f"no {WRITE}"), answers(503)])
def test_the_token_and_the_machine_are_in_no_output_and_no_file(fault: object, site: Site) -> None:
    if callable(fault):
        site.hub.fail(COMMIT, fault, times=99)
    done = site.publisher.command(
        site.builds(), "--repo", site.repo, "--json", HF_DEBUG="1", RULER_HUB_PATIENCE="0.1"
    )
    assert done.returncode == (1 if fault else 0), done.stderr
    assert WRITE not in done.stdout + done.stderr
    secrets = [WRITE, str(Path.home()), str(site.builds()), str(site.builds().parent)]
    user = getpass.getuser()
    for path, data in site.contents("main").items():
        assert not [text for text in secrets if text.encode() in data], path
        assert user == "root" or user.encode() not in data, path
