"""`python -m tests.smoke me/ruler-smoke`: what the real Hub answers, written into fixtures.

Publishes two small configs to a new private repo, reads them back in every way that users have, and
deletes the repo. A repo that exists, or whose name does not end in `-smoke`, is refused, so that
this deletes nothing that it has not created itself.
"""

import json
import os
import re
import subprocess
import sys
import tempfile
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

#: Answers to replay in tests; `seen` is the day of the run, or null if written from documentation,
#: and `endpoint` the Hub that answered.
ANSWERS = Path(__file__).with_name("hub_answers.json")
#: Personal values of `whoami`, which are not recorded.
PERSONAL = {"email", "fullname", "avatarUrl", "displayName", "periodEnd", "createdAt"}
#: The client's own requests whose first answers are recorded, too.
STEPS = {
    "create": r"POST /api/repos/create",
    "preupload": r"POST .*/preupload/main",
    "commit": r"POST .*/commit/main",
    "tag": r"POST .*/tag/",
}
VIEWER = "https://datasets-server.huggingface.co"
READ_BACK = """
import sys, ruler_data
rows = ruler_data.load(sys.argv[1], "vt_1024", revision="v1.0.0")
print(len(rows), rows[0].outputs[0])
"""
LOAD = """
import sys
from datasets import load_dataset
rows = load_dataset(sys.argv[1], "vt_1024", split="test", revision="v1.0.0", streaming=STREAMING)
first = [row["outputs"][0] for row in rows]  # one pass: a reader that stops early may abort at exit
print(len(first), first[0])
"""


class Notebook:
    """Every answer, by name."""

    def __init__(self, repo: str) -> None:
        self.repo, self.answers = repo, dict[str, Any]()

    def ask(self, name: str, method: str, path: str, **more: Any) -> None:  # noqa: ANN401
        """Send a request and note its answer, whatever it is."""
        from huggingface_hub import constants, get_session
        from huggingface_hub.utils._headers import build_hf_headers

        host = VIEWER if path.startswith("/viewer") and constants.ENDPOINT.endswith(".co") else ""
        address = (host or constants.ENDPOINT) + path.removeprefix("/viewer" if host else "")
        answer = get_session().request(method, address, headers=build_hf_headers(), **more)
        self.note(name, f"{method} {path}", answer)

    def note(self, name: str, asked: str, answer: Any) -> None:  # noqa: ANN401 - a response
        """Keep an answer, without personal values and the names of owner and repo."""
        try:
            body = _without_personal(answer.json())
            if name == "whoami" and isinstance(body, dict):
                owner = self.repo.split("/")[0]
                for one in (body, *(body.get("orgs") or ())):
                    one["name"] = owner if one is body or one["name"] == owner else "ANOTHER"
        except ValueError:
            body = answer.text[:200]
        kept = ("x-error-code", "x-error-message", "x-repo-commit", "x-xet-hash", "etag")
        headers = {key: answer.headers[key] for key in kept if key in answer.headers}
        whole = {"request": asked, "status": answer.status_code, "headers": headers, "body": body}
        text = json.dumps(whole).replace(self.repo, "OWNER/NAME-smoke")
        self.answers[name] = json.loads(text.replace(f'"{self.repo.split("/")[0]}"', '"OWNER"'))
        print(f"{answer.status_code} {asked}")  # noqa: T201 - what the user waits for

    def overhear(self, answer: Any) -> None:  # noqa: ANN401 - a response
        """Keep the answer to one of the client's own `STEPS`."""
        asked = f"{answer.request.method} {answer.request.url.path}"
        for name, step in STEPS.items():
            if name not in self.answers and re.match(step, asked):
                answer.read()
                self.note(name, asked, answer)

    def client(self) -> Any:  # noqa: ANN401 - of httpx
        """Return a client whose answers are overheard."""
        from ruler_data.hub.client import patient_client

        client = patient_client()
        client.event_hooks = {**client.event_hooks, "response": [self.overhear]}
        return client

    def run(self, name: str, code: str, **env: str) -> None:
        """Run Python in a process of its own, and note what it prints and how it ended."""
        with tempfile.TemporaryDirectory() as home:
            caches = {"HF_HUB_CACHE": home, "HF_DATASETS_CACHE": home}
            done = subprocess.run(
                [sys.executable, "-c", code, self.repo], capture_output=True, text=True,
                check=False, env={**os.environ, **caches, **env},
            )  # fmt: skip
        last = (done.stderr.strip().splitlines() or [""])[-1]
        self.answers[name] = {
            "status": done.returncode,
            "printed": done.stdout,
            "error": last[:300],
        }
        print(f"{done.returncode} {name}: {done.stdout.strip() or last}")  # noqa: T201


def _without_personal(body: Any) -> Any:  # noqa: ANN401 - JSON
    if isinstance(body, dict):
        return {k: _without_personal(v) for k, v in body.items() if k not in PERSONAL}
    return [_without_personal(one) for one in body] if isinstance(body, list) else body


def smoke(repo: str, out: Path) -> bool:
    """Publish, read back and delete; return whether publishing and every reader succeeded.

    What was answered is written also if the Hub refuses something.

    Raises:
        UsageError: the repo exists, or its name does not end in `-smoke`.
        RulerError: the Hub refuses something, or to delete the repo.
    """
    from huggingface_hub import constants, set_client_factory

    from ruler_builders import build
    from ruler_builders.publish.release import release
    from ruler_builders.publish.version import Version
    from ruler_builders.rebuild import verify
    from ruler_data import UsageError
    from ruler_data.hub.client import client, with_retries
    from ruler_data.hub.repo import head

    if not repo.endswith("-smoke"):
        raise UsageError(repo, "a name that ends in -smoke is wanted, since the repo is deleted")
    if head(repo) is not None:
        raise UsageError(repo, "exists already; name a repo that does not")
    book = Notebook(repo)
    set_client_factory(book.client)
    try:
        client().create_repo(repo, repo_type="dataset", private=True, exist_ok=False)
        try:
            with tempfile.TemporaryDirectory() as scratch:
                folder = Path(scratch) / "build"
                build("mistral", tasks="vt,fwe", lengths=[1024], rows=3, sources="sample",
                      out=folder, progress=False)  # fmt: skip
                (done,) = release({repo: folder}, prove=verify, tell=print, allowed=["sample"],
                                  version=Version.parse("1.0.0"))  # fmt: skip
                _ask_everything(book, repo, (folder / "README.md").read_text(encoding="utf-8"))
        finally:
            delete: Callable[[], None] = lambda: client().delete_repo(repo, repo_type="dataset")  # noqa: E731
            with_retries(f"{repo}: is left on the Hub; delete it by hand", delete)
        book.ask("deleted", "GET", f"/api/datasets/{repo}")
    except Exception as error:
        book.answers["failed"] = {"status": 1, "error": str(error)[:300]}
        raise
    finally:
        when = {"seen": datetime.now(UTC).date().isoformat(), "endpoint": constants.ENDPOINT}
        body = json.dumps({**when, "answers": book.answers}, indent=1)
        out.write_text(body + "\n", encoding="utf-8")
    readers = [one for one in book.answers.values() if "printed" in one]
    return done.commit is not None and not any(one["status"] for one in readers)


def _ask_everything(book: Notebook, repo: str, card: str) -> None:
    bad = card.replace("license:\n", "license_link: LICENSES.md\nlicense:\n", 1)
    for name, text in (("card", card), ("bad card", bad)):
        body = {"repoType": "dataset", "content": text}
        book.ask(name, "POST", "/api/validate-yaml", json=body)
    ask: Callable[[str, str], None] = lambda name, path: book.ask(name, "GET", path)  # noqa: E731
    ask("whoami", "/api/whoami-v2")
    ask("info", f"/api/datasets/{repo}")
    ask("tree", f"/api/datasets/{repo}/tree/v1.0.0?recursive=true")
    ask("refs", f"/api/datasets/{repo}/refs")
    ask("leaderboard", f"/api/datasets/{repo}/leaderboard")
    ask("croissant", f"/api/datasets/{repo}/croissant")
    ask("viewer", f"/viewer/is-valid?dataset={repo}")
    ask("first rows", f"/viewer/first-rows?dataset={repo}&config=vt_1024&split=test")
    file = "vt_1024/test-00000-of-00001.parquet"
    book.ask("file", "HEAD", f"/datasets/{repo}/resolve/v1.0.0/{file}")
    if os.environ.get("HF_HUB_DISABLE_XET"):
        book.answers["read back with Xet"] = {"status": None, "error": "HF_HUB_DISABLE_XET is set"}
    else:
        book.run("read back with Xet", READ_BACK)
    book.run("read back without Xet", READ_BACK, HF_HUB_DISABLE_XET="1")
    book.run("load_dataset", LOAD.replace("STREAMING", "False"))
    book.run("streaming", LOAD.replace("STREAMING", "True"))


if __name__ == "__main__":
    from ruler_data import terminal

    def main() -> None:
        """Run it, and say where the answers are."""
        if not smoke(sys.argv[1], ANSWERS):
            raise SystemExit(1)
        terminal.say(f"{ANSWERS}: every answer")

    terminal.run("smoke", main)
