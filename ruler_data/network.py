"""The network: what the environment says of it, when it is slow, and downloads pinned by a hash."""

import _thread
import contextvars
import fcntl
import os
import re
import socket
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from concurrent.futures import Future
from contextlib import suppress
from email.utils import parsedate_to_datetime
from functools import partial
from http import HTTPStatus
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO, TypeVar
from urllib.parse import urlsplit

from ruler_data.errors import RulerError
from ruler_data.files import sha256_file, unwritable
from ruler_data.names import quote

if TYPE_CHECKING:
    import requests

    Get = Callable[..., requests.Response]

#: Seconds without a byte after which a host counts as unreachable.
TIMEOUT = 10
#: Attempts of a download that a host answers with a temporary error.
ATTEMPTS = 3
#: Statuses that another attempt may not get.
TEMPORARY = frozenset({408, 425, 429, 500, 502, 503, 504})
#: Bytes that must arrive in the time limit of a client.
BYTES = 4096
#: Bytes a second of the slowest download.
SLOWEST = 20_000
#: Bytes that a download has if its size is not told.
UNKNOWN = 10_000_000
#: Most bytes of a download whose size is not pinned.
LARGEST = 200_000_000
#: Connections that a signal ends, since a thread that waits for bytes does not see it.
connections: list[socket.socket] = []
T = TypeVar("T")
_PROXIES = ("ALL_PROXY", "HTTPS_PROXY", "HTTP_PROXY")
_CERTIFICATES = ("SSL_CERT_FILE", "SSL_CERT_DIR", "REQUESTS_CA_BUNDLE", "CURL_CA_BUNDLE")


class Unreachable(RulerError):
    """The address did not answer; a mirror may."""


class WrongContent(RulerError):
    """The address has another file than the pinned one; a mirror may have the right one."""


def offline() -> bool:
    """Whether the user has turned downloads off (RULER_OFFLINE or HF_HUB_OFFLINE)."""
    switches = ("RULER_OFFLINE", "HF_HUB_OFFLINE")
    return any(os.environ.get(name, "0") not in ("", "0") for name in switches)


def check_environment(environment: Mapping[str, str] = os.environ) -> None:
    """Refuse a proxy or a certificate file with which no client can be made.

    Raises:
        RulerError: with the variable and its value, without a password.
    """
    for name in (*_PROXIES, *map(str.lower, _PROXIES)):
        if fault := _proxy_fault(environment.get(name, "")):
            where = f"{name}={quote(environment[name].rpartition('@')[2])[1:-1]}"
            raise RulerError(where, fault)
    for name in _CERTIFICATES:
        if (path := environment.get(name)) and not Path(path).exists():
            problem = "no such file or folder; name the certificates of your network, or unset it"
            where = f"{name}={quote(path)[1:-1]}"
            raise RulerError(where, problem)


def _proxy_fault(address: str) -> str:
    """Return why a proxy cannot be used; empty if it can.

    >>> _proxy_fault("http://user:secret@proxy:3128"), _proxy_fault("")
    ('', '')
    >>> _proxy_fault("::::")
    'is not the address of a proxy, e.g. http://proxy:3128'
    """
    if not address:
        return ""
    if "://" not in address:
        address = f"http://{address}"
    try:
        url = urlsplit(address)
        is_known = url.scheme in ("http", "https", "socks5", "socks5h") and url.port != 0
    except ValueError:
        is_known = False
    if not is_known or not url.hostname:
        return "is not the address of a proxy, e.g. http://proxy:3128"
    if url.scheme.startswith("socks") and find_spec("socksio") is None:
        return "a SOCKS proxy needs the package socksio: pip install socksio"
    return ""


#: Seconds that a thread may take to begin.
BEGINNING = 20


def within(seconds: float, work: Callable[[], T], received: Callable[[], int] = lambda: 0) -> T:
    """Return what `work` returns; TimeoutError if it takes longer, whatever a host does meanwhile.

    A time limit of a client starts anew with every byte, this one with every `SLOWEST` bytes a
    second that are `received`.
    """
    future = Future[T]()
    context = contextvars.copy_context()
    begun = threading.Event()

    def run() -> None:
        begun.set()
        try:
            future.set_result(context.run(work))
        except BaseException as error:
            future.set_exception(error)

    # `Thread.start` waits for ever for a thread that has no memory to begin.
    _thread.start_new_thread(run, ())
    if not begun.wait(BEGINNING):
        raise MemoryError
    while True:
        before = received()
        try:
            return future.result(seconds)
        except TimeoutError:
            if future.done() or received() - before < seconds * SLOWEST:
                raise


def steady(chunks: Iterable[bytes], seconds: float) -> Iterator[bytes]:
    """Yield the bytes of a reply; TimeoutError if too few come in this time."""
    begun = time.monotonic()
    count = 0
    for chunk in chunks:
        count += len(chunk)
        now = time.monotonic()
        if now - begun > seconds:
            if count < BYTES:
                raise TimeoutError(f"fewer than {BYTES:,} bytes in {seconds:.0f} s")
            begun = now
            count = 0
        yield chunk


def close_connections() -> None:
    """End all connections: what waits for their bytes fails."""
    for connection in connections:
        with suppress(OSError):
            socket.socket.shutdown(connection, socket.SHUT_RDWR)  # not TLS's, which is not atomic


def retry_after(headers: Mapping[str, str]) -> float | None:
    """Return the seconds that a response asks to wait, or None if it does not ask.

    >>> retry_after({"Retry-After": "120"}), retry_after({"ratelimit": '"api";r=0;t=55'})
    (120.0, 55.0)
    >>> retry_after({"retry-after": "Wed, 21 Oct 2015 07:28:00 GMT"})  # in the past
    0.0
    """
    lower = {name.lower(): value.strip() for name, value in headers.items()}
    after = lower.get("retry-after", "")
    if re.fullmatch(r"[0-9]{1,9}(\.[0-9]{1,9})?", after, re.ASCII):
        return float(after)
    with suppress(ValueError, OverflowError):
        return max(parsedate_to_datetime(after).timestamp() - time.time(), 0.0)
    used_up = re.search(r";\s*r=0;\s*t=([0-9]{1,9})", lower.get("ratelimit", ""))
    if used_up is None:
        return None
    return float(used_up[1])


def client(certificates: str | None = None, proxy: str | None = None) -> "Get":
    """Return `requests.get` with the settings of this machine.

    It trusts what the system trusts, SSL_CERT_FILE and SSL_CERT_DIR included, and with
    REQUESTS_CA_BUNDLE or CURL_CA_BUNDLE the certificates named there.

    Args:
        certificates: a file or folder of certificates to trust as well.
        proxy: that all requests take; None for those that the environment names.
    """
    import ssl

    import requests
    import truststore
    from requests.adapters import HTTPAdapter

    class Adapter(HTTPAdapter):
        """Verifies with the system's certificates besides those of `requests`."""

        def init_poolmanager(self, *args: Any, **more: Any) -> None:  # noqa: ANN401 - requests' own
            context = truststore.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
            super().init_poolmanager(*args, ssl_context=context, **more)

        def proxy_manager_for(self, proxy: str, **more: Any) -> Any:  # noqa: ANN401 - requests' own
            context = truststore.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
            return super().proxy_manager_for(proxy, ssl_context=context, **more)

    session = requests.Session()
    session.mount("https://", Adapter())
    settings: dict[str, Any] = {"timeout": TIMEOUT}
    for name in ("REQUESTS_CA_BUNDLE", "CURL_CA_BUNDLE"):
        certificates = certificates or os.environ.get(name)
    if certificates:
        settings["verify"] = str(Path(certificates).expanduser())
    if proxy:
        settings["proxies"] = {"http": proxy, "https": proxy}
    return partial(session.get, **settings)


def download(
    url: str,
    sha256: str | None,
    folder: Path,
    *,
    name: str | None = None,
    get: "Get | None" = None,
    largest: int = LARGEST,
) -> Path:
    """Return a downloaded file; one in the folder with the right hash is not downloaded again.

    What was received before a break stays in a file `.part`: the next attempt, or the same command
    again, asks for the rest. A host that cannot be connected to is not tried again, so that a
    machine without network does not wait.

    Args:
        url: its address.
        sha256: its hash; None only if the caller checks what is in it.
        folder: to keep it in.
        name: of the file there; None for the last part of the address.
        get: the client; None for one with the settings of this machine.
        largest: most bytes that are received.

    Raises:
        Unreachable: no answer, or downloads are off.
        WrongContent: the hash differs, or the file is too long.
        RulerError: the file cannot be written.
    """
    import requests

    path = folder / (name or url.rsplit("/", 1)[-1])
    where = re.sub("//[^/@]*@", "//", url)  # without the password of a mirror
    if path.is_file() and sha256 in (None, sha256_file(path)):
        return path
    if offline():
        raise Unreachable(where, "downloads are off (RULER_OFFLINE or HF_HUB_OFFLINE is set)")
    check_environment()
    unfinished = path.with_name(f"{path.name}.part")
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with unfinished.open("ab") as file:
            fcntl.flock(file, fcntl.LOCK_EX)  # of two downloads, the second finds the file
            if path.is_file() and sha256 in (None, sha256_file(path)):
                return path
            _receive_checked(url, file, sha256, get or client(), largest)
            unfinished.replace(path)
    except (requests.RequestException, TimeoutError) as error:
        raise Unreachable(where, f"cannot be downloaded ({type(error).__name__})") from error
    except OSError as error:
        raise unwritable(path, error) from error
    finally:
        with suppress(OSError):
            if not unfinished.stat().st_size:
                unfinished.unlink()
    return path


def _receive_checked(
    url: str, file: BinaryIO, sha256: str | None, get: "Get", largest: int
) -> None:
    """Complete a file, try temporary errors again, and check it; a wrong one is emptied."""
    from tenacity import Retrying, retry_if_exception, stop_after_attempt, wait_exponential

    retrying = Retrying(
        retry=retry_if_exception(_is_temporary),
        wait=wait_exponential(),
        stop=stop_after_attempt(ATTEMPTS),
        reraise=True,
    )
    path = Path(file.name)
    is_resumed = file.tell() > 0
    retrying(_receive, url, file, get, largest)
    if is_resumed and sha256 not in (None, sha256_file(path)):  # it began with another file
        file.truncate(0)
        retrying(_receive, url, file, get, largest)
    actual = sha256_file(path)
    if sha256 not in (None, actual):
        file.truncate(0)
        where = re.sub("//[^/@]*@", "//", url)
        raise WrongContent(where, f"refused: sha256 expected {sha256}, found {actual}")


def _receive(url: str, file: BinaryIO, get: "Get", largest: int) -> None:
    """Append to a file what it lacks."""
    import requests

    from ruler_data.progress import transfer

    done = file.seek(0, os.SEEK_END)
    headers = {}
    if done:
        headers = {"Range": f"bytes={done}-", "Accept-Encoding": "identity"}
    reply = within(3 * TIMEOUT, partial(get, url, headers=headers, stream=True, timeout=TIMEOUT))
    if not reply.ok:
        reply.close()
    if reply.status_code == HTTPStatus.REQUESTED_RANGE_NOT_SATISFIABLE:  # of another file
        file.truncate(0)
        raise requests.exceptions.ChunkedEncodingError(url)
    reply.raise_for_status()
    if reply.status_code != HTTPStatus.PARTIAL_CONTENT:
        file.truncate(0)
        done = 0
    size = int(reply.headers.get("Content-Length", 0))
    end = time.monotonic() + 3 * TIMEOUT + (size or UNKNOWN) / SLOWEST
    count = 0
    with transfer(url.rsplit("/", 1)[-1], done + size) as advance:
        advance(done)

        def write() -> None:
            nonlocal count
            with reply:  # closed here: another thread would wait for the bytes that this one reads
                for chunk in reply.iter_content(1 << 16):
                    count += len(chunk)
                    if done + count > largest:
                        file.truncate(0)
                        where = re.sub("//[^/@]*@", "//", url)
                        raise WrongContent(where, f"refused: longer than {largest:,} bytes")
                    file.write(chunk)
                    advance(len(chunk))
                    if time.monotonic() > end:
                        raise TimeoutError

        within(3 * TIMEOUT, write, lambda: count)
    file.flush()


def _is_temporary(error: BaseException) -> bool:
    """Whether a host that was reached may answer the next request."""
    import requests

    if isinstance(error, requests.HTTPError) and error.response is not None:
        return error.response.status_code in TEMPORARY
    return isinstance(error, (requests.exceptions.ChunkedEncodingError, requests.ReadTimeout))
