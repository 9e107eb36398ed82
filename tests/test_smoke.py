"""The real Hub's answers, replayed."""

import json
import os
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from ruler_data import UsageError
from tests import forks
from tests.commands import HANG
from tests.hub import running
from tests.hub_http import Handler, Refused
from tests.smoke import ANSWERS, smoke

RECORDED = json.loads(ANSWERS.read_text(encoding="utf-8"))
REPO, SHA = "OWNER/NAME-smoke", RECORDED["answers"]["info"]["body"]["sha"]


class Replay(Handler):
    """Gives recorded answers and no others."""

    held: dict[str, dict[str, Any]]

    def route(self) -> None:
        answer = self.held.get(place(f"{self.command} {self.path}"))
        if answer is None or answer["status"] is None:
            raise Refused(501, f"no recorded answer to {self.command} {self.path}")
        headers = {k: v for k, v in answer["headers"].items() if not k.startswith("x-error")}
        code = answer["headers"].get("x-error-code")
        self.reply(answer["status"], answer["body"], headers, code)


def place(line: str) -> str:
    """Return a request without its query, and without the revision, of which there is one."""
    return re.sub(r"/(revision/)?(main|v1\.0\.0|[0-9a-f]{40})(?=/|$)", "", line.partition("?")[0])


def _ask(name: str, *arguments: object) -> Any:  # noqa: ANN401
    """Call a function of `ruler_data.hub.repo`; return its result, or the error's text."""
    from ruler_data import RulerError
    from ruler_data.hub import repo
    from ruler_data.hub.client import client

    try:
        if name == "put_files":
            file = repo.PushFile.of_bytes("README.md", b"# another\n")
            return repo.put_files(REPO, [file], "Release")
        if name == "create_tag":
            return client().create_tag(REPO, tag="v1.0.0", repo_type="dataset", revision=SHA)
        return getattr(repo, name)(*arguments)
    except RulerError as error:
        return str(error)


Ask = Callable[..., Any]


@pytest.fixture(scope="module")
def ask(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Ask]:
    """The client of this project in a process of its own, which hears the recorded answers."""

    def serve(*names: str) -> dict[str, dict[str, Any]]:
        answers = {name: RECORDED["answers"][name] for name in names}
        return {place(one["request"]): one for one in answers.values() if "request" in one}

    usual = serve(*(name for name in RECORDED["answers"] if name not in ("bad card", "deleted")))
    with running() as hub:
        env = {**os.environ, **hub.env(), "HF_HOME": str(tmp_path_factory.mktemp("hf"))}
        Replay.hub, hub.server.RequestHandlerClass = hub, Replay

        with forks.pool(env) as pool:  # huggingface_hub reads it when it is imported

            def ask(name: str, *arguments: object, instead: str = "") -> Any:  # noqa: ANN401
                Replay.held = {**usual, **(serve(instead) if instead else {})}
                return pool.submit(_ask, name, *arguments).result(HANG)

            yield ask


def test_the_client_understands_every_recorded_answer(ask: Ask) -> None:
    said = {name: one.get("body") for name, one in RECORDED["answers"].items()}
    asked = ask("check_token", ["nobody/x"], list.append)
    assert f"the token is of {said['whoami']['name']}, who is not seen" in asked
    assert ask("head", REPO).sha == SHA
    assert ask("tags", REPO) == {"v1.0.0": SHA}
    held = ask("tree", REPO, "v1.0.0")
    for one in said["tree"]:
        if one["type"] == "file":
            entry = held.pop(one["path"])
            hashes = ("", one["oid"])
            if one.get("lfs"):
                hashes = (one["lfs"]["oid"], "")
            assert (entry.bytes, entry.sha256, entry.git_hash) == (one["size"], *hashes)
    assert held == {} and any(one.get("lfs") for one in said["tree"])
    assert ask("check_card", REPO, "---\nlicense: mit\n---\n") is None
    assert ask("ensure_repo", REPO) is None
    assert ask("put_files") == (said["commit"]["commitOid"], ["README.md"])
    assert ask("create_tag") is None
    assert ask("put_tag", REPO, "v1.0.0", SHA) is None
    assert "a tag is never moved" in ask("put_tag", REPO, "v1.0.0", "0" * 40)


def test_the_client_says_what_the_recorded_hub_refuses(ask: Ask) -> None:
    bad = ask("check_card", REPO, "---\nlicense: mit\n---\n", instead="bad card")
    assert "license_link" in bad and "Traceback" not in bad
    assert ask("head", REPO, instead="deleted") is None


def test_the_smoke_run_deletes_no_repo_of_another_name(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="ends in -smoke is wanted, since the repo is deleted"):
        smoke("me/mine", tmp_path / "answers.json")
    assert not any(tmp_path.iterdir())
