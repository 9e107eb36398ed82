"""`ruler-data sources --download`: all sources, once, in a folder that a build takes."""

import hashlib
import io
import threading
import zipfile
from collections.abc import Iterator
from dataclasses import replace
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from ruler_builders.sources import essays, fetch
from ruler_builders.sources.catalogue import CATALOGUE
from ruler_builders.sources.fetch import download_sources
from ruler_data.errors import RulerError

TEXTS = {
    "dev-v2.0.json": b'{"data": []}',
    "hotpot.json": b"[]",
    "a.txt": b"One. Two.",
    "b.txt": b"3.",
}


class Log(SimpleHTTPRequestHandler):
    """Serves a folder, and notes what was asked for."""

    def log_message(self, *_: object) -> None:
        self.server.seen.append(self.path)  # type: ignore[attr-defined]


@pytest.fixture
def host(
    tmp_path: Path, shared: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[ThreadingHTTPServer]:
    """Serve small files in the place of the real sources, and the real sentence model."""
    root = tmp_path / "host"
    root.mkdir()
    for name, body in TEXTS.items():
        (root / name).write_bytes(body)
    model, archive = shared / "sources/nltk_data/tokenizers/punkt_tab/english", io.BytesIO()
    with zipfile.ZipFile(archive, "w") as packed:
        for name in essays.PUNKT:
            packed.write(model / name, f"punkt_tab/english/{name}")
    (root / "punkt_tab.zip").write_bytes(archive.getvalue())
    server = ThreadingHTTPServer(("127.0.0.1", 0), partial(Log, directory=str(root)))
    server.seen = []  # type: ignore[attr-defined]
    url = f"http://127.0.0.1:{server.server_port}/"
    sha256 = {name: hashlib.sha256(body).hexdigest() for name, body in TEXTS.items()}
    squad, hotpot, texts = CATALOGUE["squad"], CATALOGUE["hotpotqa"], CATALOGUE["essays"]
    essays_here = replace(texts)
    essays_here.__dict__["downloads"] = [{url + name: sha256[name]} for name in ("a.txt", "b.txt")]
    catalogue = {
        "essays": essays_here,
        "squad": replace(squad, mirrors={url + "dev-v2.0.json": sha256["dev-v2.0.json"]}),
        "hotpotqa": replace(
            hotpot,
            mirrors={
                "http://127.0.0.1:9/gone.json": "0" * 64,
                url + "hotpot.json": sha256["hotpot.json"],
            },
        ),
    }
    monkeypatch.setattr(fetch, "CATALOGUE", catalogue)
    for module in (fetch, essays):
        monkeypatch.setattr(module, "PUNKT_URL", url + "punkt_tab.zip")
    for name in ("RULER_OFFLINE", "HF_HUB_OFFLINE"):
        monkeypatch.setenv(name, "")
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield server
    server.shutdown()
    server.server_close()


def test_all_sources_are_downloaded_once_and_lie_where_a_build_looks(
    host: ThreadingHTTPServer, tmp_path: Path
) -> None:
    folder = tmp_path / "sources"
    first = download_sources(folder)
    assert (first.missing, first.exit_status) == ((), 0)
    assert (folder / "essays" / "a.txt").read_bytes() == TEXTS["a.txt"]
    assert (folder / "nltk_data/tokenizers/punkt_tab/english/collocations.tab").is_file()
    seen = len(host.seen)  # type: ignore[attr-defined]
    (folder / "essays" / "b.txt").unlink()
    again = download_sources(folder)
    assert again == first
    assert host.seen[seen:] == ["/b.txt"]  # type: ignore[attr-defined]


def test_a_source_with_other_content_is_refused(host: ThreadingHTTPServer, tmp_path: Path) -> None:
    (tmp_path / "host" / "a.txt").write_bytes(b"Other.")
    with pytest.raises(RulerError, match=r"sha256 expected .* found"):
        download_sources(tmp_path / "sources")


def test_without_a_network_it_says_what_to_copy_from_where(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("RULER_OFFLINE", "1")
    found = download_sources(tmp_path / "sources")
    assert found.exit_status == 1
    assert len(found.missing) == len(found.parts) > 50
    shown = " ".join(str(line) for line in found.__rich__().renderables[1:])
    for address in ("PaulGrahamEssays/", "dev-v2.0.json", "hotpot_dev_distractor_v1.json", "punkt"):
        assert address in shown
    assert "downloads are off" in str(found.failure)
    (table, *_) = found.__rich__().renderables
    assert [*table.columns[2].cells] == ["644 kB", "4.4 MB", "46.3 MB", "238 kB"]  # type: ignore[union-attr]


def test_the_size_is_that_of_the_files_that_are_here(
    host: ThreadingHTTPServer, tmp_path: Path
) -> None:
    (table, *_) = download_sources(tmp_path / "sources").__rich__().renderables
    assert [*table.columns[2].cells] == ["0 kB", "0 kB", "0 kB", "238 kB"]  # type: ignore[union-attr]
    with pytest.raises(RulerError, match="a file; give a folder"):
        download_sources(tmp_path / "host" / "a.txt")
