"""The real Hub's answers, replayed; and the program that collects them, against a server here."""

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from ruler_builders.publish.release import token_faults
from tests.conftest import ROOT
from tests.smoke import ANSWERS

RECORDED = json.loads(ANSWERS.read_text(encoding="utf-8"))
#: What this project reads of the Hub's answers: by answer, the path of keys.
READ = {
    "whoami": ["name", "orgs.0.name", "auth.accessToken.role"],
    "info": ["sha"],
    "tree": ["0.path", "0.oid", "0.size"],
    "refs": ["tags.0.name", "tags.0.targetCommit"],
}


def value(body: Any, path: str) -> Any:  # noqa: ANN401 - JSON
    for key in path.split("."):
        body = body[int(key) if key.isdigit() else key]
    return body


@pytest.fixture(scope="module")
def minihub(shared: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    if not (shared / "tools" / "minihub.py").is_file():
        pytest.skip("the other server is not here")
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(str(shared / "tools"))
        patch.setattr(sys, "dont_write_bytecode", True)
        server = __import__("minihub").MiniHub(root=tmp_path_factory.mktemp("hub"))
    with server:
        yield server


def smoke(server: Any, repo: str, out: Path) -> subprocess.CompletedProcess[str]:  # noqa: ANN401
    code = (
        "import sys; from pathlib import Path; from tests.smoke import smoke; "
        "sys.exit(not smoke(sys.argv[1], Path(sys.argv[2])))"
    )
    env = {**os.environ, **server.env(home=out.parent / "hf"), "HF_HUB_OFFLINE": "",
           "RULER_OFFLINE": "", "PYTHONPATH": os.pathsep.join([str(ROOT), *sys.path])}  # fmt: skip
    return subprocess.run([sys.executable, "-c", code, repo, str(out)], cwd=ROOT, env=env,
                          capture_output=True, text=True, check=False)  # fmt: skip


@pytest.mark.slow
def test_every_answer_is_written_down_and_only_the_repo_of_the_run_is_deleted(
    minihub: Any,  # noqa: ANN401
    tmp_path: Path,
) -> None:
    out = tmp_path / "answers.json"
    done = smoke(minihub, "tester/ruler-smoke", out)
    assert done.returncode == 0, done.stdout + done.stderr
    assert not minihub.store.repos, "the repo is deleted"
    found = json.loads(out.read_text(encoding="utf-8"))
    assert found["answers"].keys() == RECORDED["answers"].keys() and found["seen"]
    for name, paths in READ.items():
        for path in paths:
            value(found["answers"][name]["body"], path)
    assert found["answers"]["bad card"]["status"] == 400
    minihub.store.create("dataset", "tester/mine-smoke", True)
    before = len(minihub.log)
    for repo, said in (("tester/mine-smoke", "exists already"), ("tester/mine", "ends in -smoke")):
        refused = smoke(minihub, repo, out)
        assert refused.returncode and said in refused.stderr
    assert {one["method"] for one in minihub.log[before:]} <= {"GET", "HEAD"}
    assert list(minihub.store.repos) == ["datasets/tester/mine-smoke"]


def test_the_recorded_answers_say_where_they_are_from_and_hold_what_is_read() -> None:
    assert RECORDED["seen"] or "documentation" in RECORDED["source"]
    for name, paths in READ.items():
        for path in paths:
            assert value(RECORDED["answers"][name]["body"], path) is not None
    assert list(token_faults(RECORDED["answers"]["whoami"]["body"], "OWNER")) == []


@pytest.mark.parametrize(
    ("about", "said"),
    [
        ({"auth": {"accessToken": {"role": "read"}}}, "can only read"),
        ({"auth": {"accessToken": {"role": "fineGrained", "fineGrained": {"scoped": [
            {"entity": {"name": "org"}, "permissions": ["repo.content.read"]}]}}}}, "to no repo"),
        ({"orgs": [{"name": "org", "roleInOrg": "read"}]}, "may only read in org"),
        ({"auth": {"accessToken": {"role": "fineGrained", "fineGrained": {"scoped": [
            {"entity": {"name": "org"}, "permissions": ["repo.write"]}]}}}}, ""),
        ({"auth": None, "orgs": None}, ""),
    ],
)  # fmt: skip
def test_a_token_that_may_not_write_is_told_by_whoami(about: dict[str, Any], said: str) -> None:
    faults = "; ".join(token_faults(about, "org"))
    assert said in faults and bool(said) == bool(faults)
