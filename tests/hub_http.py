"""How the small Hub of the tests speaks: routes, tokens, and ways to fail."""

import json
import socket
import struct
import urllib.parse
from collections.abc import Callable
from http.server import BaseHTTPRequestHandler
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from tests.hub import Hub
    from tests.hub_store import Blob

Serve = Callable[[], None]

#: The two tokens that it knows.
WRITE, READ = "hf_" + "w" * 34, "hf_" + "r" * 34


class Refused(Exception):
    """The Hub says no."""

    def __init__(self, status: int, message: str, code: str | None = None, **more: str) -> None:
        super().__init__(message)
        self.status, self.code, self.more = status, code, more


class Handler(BaseHTTPRequestHandler):
    """One connection."""

    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True  # else a body waits 40 ms for word of its head
    hub: "Hub"

    def log_message(self, format: str, *arguments: object) -> None:  # noqa: A002 - its name
        """Say nothing."""

    def handle_any(self) -> None:
        self.quiet = self.was_read = False

        def serve() -> None:
            try:
                with self.hub.lock:
                    self.route()
            except Refused as no:
                self.reply(no.status, {"error": str(no), **no.more}, code=no.code)

        fault = self.hub.take_fault(f"{self.command} {self.path}")
        try:
            fault.act(self, serve) if fault else serve()
        except OSError:
            self.close_connection = True

    do_GET = do_HEAD = do_POST = do_PUT = handle_any

    def body(self) -> bytes:
        self.was_read = True
        if "chunked" not in self.headers.get("Transfer-Encoding", ""):
            return self.rfile.read(int(self.headers.get("Content-Length") or 0))
        data = b""
        while size := int(self.rfile.readline(), 16):
            data += self.rfile.read(size)
            self.rfile.readline()
        self.rfile.readline()
        return data

    def reply(
        self,
        status: int,
        body: object,
        headers: dict[str, str] | None = None,
        code: str | None = None,
    ) -> None:
        if not self.was_read:
            self.body()
        if self.quiet:  # done, but nobody hears of it
            return
        data = body if isinstance(body, bytes) else json.dumps(body).encode()
        self.send_response(status)
        said = (
            {"X-Error-Message": str(body["error"])}
            if isinstance(body, dict) and "error" in body
            else {}
        )
        for name, value in {**said, **({"X-Error-Code": code} if code else {})}.items():
            self.send_header(name, value)
        for name, value in (headers or {}).items():
            self.send_header(name, value)
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(data)

    def reset(self) -> None:
        """End the connection rudely."""
        self.close_connection = True
        self.connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        self.connection.close()

    def route(self) -> None:
        path = self.path.partition("?")[0]
        parts = [urllib.parse.unquote(part) for part in path.strip("/").split("/")]
        token = self.headers.get("Authorization", "").removeprefix("Bearer ")
        if token not in ("", READ, WRITE):
            raise Refused(401, "Invalid credentials in Authorization header")
        writes = self.command in ("POST", "PUT") and "paths-info" not in parts
        if writes and token != WRITE and parts[1:2] != ["validate-yaml"] and parts[0] != "lfs":
            raise Refused(403 if token else 401, "You don't have the rights to write here")
        if new := self.hub.renamed(parts):
            headers = {"Location": self.hub.endpoint + self.path.replace(*new, 1)}
            self.reply(307, {"error": "Temporary Redirect"}, headers)
            return
        match parts:
            case ["api", "repos", "create"]:
                asked = json.loads(self.body())
                name, seen = f"{asked['organization']}/{asked['name']}", asked.get("visibility")
                self.reply(200, self.hub.create(name, private=seen == "private"))
            case ["api", "whoami-v2"]:
                if not token:
                    raise Refused(401, "Invalid credentials in Authorization header")
                role = "write" if token == WRITE else "read"
                access = {"type": "access_token", "accessToken": {"displayName": "t", "role": role}}
                orgs = [{"type": "org", "name": one, "roleInOrg": "admin"} for one in self.hub.orgs]
                self.reply(200, {"type": "user", "name": "tester", "orgs": orgs, "auth": access})
            case ["api", "validate-yaml"]:
                self.reply(200, {"errors": [], "warnings": []})
            case ["api", "datasets" | "models", owner, name, *rest]:
                self.dataset(f"{owner}/{name}", rest)
            case ["datasets", owner, name, "info", "lfs", "objects", "batch"]:
                self.reply(200, self.batch(json.loads(self.body())))
            case ["lfs", oid]:
                self.hub.upload(oid, self.body())
                self.reply(200, {})
            case ["datasets", owner, name, "resolve", revision, *rest]:
                self.resolve(f"{owner}/{name}", revision, "/".join(rest))
            case [owner, name, "resolve", revision, *rest]:  # of a model
                self.resolve(f"{owner}/{name}", revision, "/".join(rest))
            case _:
                raise Refused(404, "Not Found")

    def dataset(self, name: str, rest: list[str]) -> None:
        repo = self.hub.repo(name)
        match self.command, rest:
            case "GET", [] | ["revision", _]:
                sha = repo.resolve(rest[1] if rest else "main")
                names = [{"rfilename": path} for path in repo.files(sha)]
                self.reply(200, {"id": name, "sha": sha, "siblings": names, "private": repo.private,
                                 "tags": [], "downloads": 0, "likes": 0})  # fmt: skip
            case "GET", ["tree", revision, *_]:
                files = repo.files(revision)
                self.reply(200, [entry(path, blob) for path, blob in files.items()])
            case "POST", ["paths-info", revision]:
                form = urllib.parse.parse_qs(self.body().decode())
                files = repo.files(revision)
                asked = [path for path in form.get("paths", []) if path in files]
                self.reply(200, [entry(path, files[path]) for path in asked])
            case "GET", ["refs"]:
                tags = [{"name": tag, "ref": f"refs/tags/{tag}", "targetCommit": commit}
                        for tag, commit in repo.tags.items()]  # fmt: skip
                main = {"name": "main", "ref": "refs/heads/main", "targetCommit": repo.head}
                self.reply(200, {"branches": [main], "tags": tags, "converts": []})
            case "POST", ["preupload", _]:
                sent = json.loads(self.body())["files"]
                modes = [{"path": one["path"], "shouldIgnore": False, "oid": None,
                          "uploadMode": "lfs" if one["path"].endswith(".parquet") else "regular"}
                         for one in sent]  # fmt: skip
                self.reply(200, {"files": modes})
            case "POST", ["commit", "main"]:
                lines = [json.loads(line) for line in self.body().splitlines()]
                self.reply(200, self.hub.commit(name, lines))
            case "GET", ["xet-write-token", _] if self.hub.xet:
                place = self.hub.xet_url
                until = "4000000000"  # seconds; long after any test
                self.reply(200, {"casUrl": place, "accessToken": "x", "exp": int(until)})
            case "GET", ["xet-read-token", _] if self.hub.xet:
                about = {"Cas-Url": self.hub.xet_url, "Access-Token": "x",
                         "Token-Expiration": "4000000000"}  # fmt: skip
                self.reply(200, {}, {f"X-Xet-{name}": value for name, value in about.items()})
            case "POST", ["tag", revision]:
                self.hub.tag(name, json.loads(self.body())["tag"], revision)
                self.reply(200, {})
            case _:
                raise Refused(404, "Not Found")

    def batch(self, asked: dict[str, Any]) -> dict[str, Any]:
        """Say where the large files go that are not here yet."""
        answers = []
        for one in asked["objects"]:
            place = {"upload": {"href": f"{self.hub.endpoint}/lfs/{one['oid']}"}}
            answers.append(one if one["oid"] in self.hub.large else {**one, "actions": place})
        return {"transfer": "basic", "objects": answers}

    def resolve(self, name: str, revision: str, path: str) -> None:
        """Serve a file, or what it is."""
        repo = self.hub.repo(name)
        commit = repo.resolve(revision)
        blob = repo.files(commit).get(path)
        if blob is None:
            raise Refused(404, "Entry not found", "EntryNotFound")
        headers = {"X-Repo-Commit": commit, "ETag": f'"{blob.git_oid}"', "Accept-Ranges": "bytes"}
        if blob.large:
            headers |= {"X-Linked-Etag": f'"{blob.sha256}"', "X-Linked-Size": str(len(blob.data))}
            if known := self.hub.xet_hashes.get(blob.sha256):
                route = f"{self.hub.endpoint}/api/datasets/{name}/xet-read-token/{commit}"
                headers |= {"X-Xet-Hash": known, "X-Xet-Refresh-Route": route}
        data, status = blob.data, 200
        if wanted := self.headers.get("Range"):
            first, _, last = wanted.removeprefix("bytes=").partition("-")
            start, end = int(first), min(int(last or len(data)), len(data) - 1)
            headers["Content-Range"] = f"bytes {start}-{end}/{len(data)}"
            data, status = data[start : end + 1], 206
        self.reply(status, data, headers)


def entry(path: str, blob: "Blob") -> dict[str, Any]:
    """Return a file as listings have it."""
    size = len(blob.data)
    large = {"lfs": {"oid": blob.sha256, "size": size, "pointerSize": 130}} if blob.large else {}
    return {"type": "file", "path": path, "size": size, "oid": blob.git_oid, **large}
