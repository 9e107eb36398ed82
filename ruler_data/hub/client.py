"""The HTTP client that huggingface_hub uses here: time limits, and requests that are sent again.

The library retries some requests, waits for as long as a server asks, and has no time limit. Here a
request that only reads, or that the Hub refused to process (429), is sent again for as long as
patience lasts. What would be done twice if it were sent twice (a commit, a tag) is left to
`with_retries`, which looks at the Hub first. An upload is sent again by the library itself.
"""

import time
from collections.abc import Iterator
from typing import Any

import httpx2
from huggingface_hub.utils._http import hf_request_event_hook

from ruler_data.files import TEMPORARY
from ruler_data.hub.retry import CONNECT, UNREACHABLE, GaveUp, Patience, retry_after, seconds
from ruler_data.terminal import warn


class Watched(httpx2.SyncByteStream):
    """The bytes of a file on their way."""

    def __init__(self, stream: Any) -> None:  # noqa: ANN401 - sync or async, by its type
        self._stream = stream

    def __iter__(self) -> Iterator[bytes]:
        for part in self._stream:
            yield part
            Patience.moved = time.monotonic()

    def close(self) -> None:
        """Close the connection."""
        self._stream.close()


class PatientClient(httpx2.Client):
    """Sends a request again after a temporary error, if that is safe."""

    #: Whether this process has had an answer; if not, a failed connection means no network.
    has_connected = False

    def send(self, request: httpx2.Request, **options: Any) -> httpx2.Response:  # noqa: ANN401
        """Return the response.

        Raises:
            GaveUp: there is no network, or patience ran out.
            httpx2.TransportError: no answer to a request that may have been processed.
        """
        reads, patience = request.method in ("GET", "HEAD"), Patience()
        is_file = not isinstance(request.stream, httpx2.ByteStream)
        # The library asks for no time limit in many of its calls.
        given = request.extensions.get("timeout", {})
        limits = {name: value for name, value in given.items() if value is not None}
        request.extensions["timeout"] = {**self.timeout.as_dict(), **limits}
        if is_file:
            request.stream = Watched(request.stream)
        while True:
            try:
                response = super().send(request, **options)
            except httpx2.TransportError as error:
                failed = isinstance(error, (httpx2.ConnectError, httpx2.ConnectTimeout))
                if failed and not self.has_connected:
                    raise GaveUp(UNREACHABLE) from error
                if not reads:
                    raise
                what, wanted = f"no answer ({type(error).__name__})", None
            else:
                PatientClient.has_connected = True
                what, wanted = f"status {response.status_code}", _wanted_pause(response)
                refused = response.status_code == 429 and not is_file
                if not refused and not (reads and response.status_code in TEMPORARY):
                    if reads and options.get("stream"):
                        response.stream = Watched(response.stream)
                    return response
                response.close()
            pause, host = patience.pause(wanted), request.url.host
            if pause is None:
                msg = f"the Hub cannot be reached or does not work ({host}: {what}); run the same "
                raise GaveUp(msg + "command again later to resume")
            warn(f"{host}: {what}; trying again in {pause:.0f} s")
            time.sleep(pause)


def _wanted_pause(response: httpx2.Response) -> float | None:
    """Return the pause in seconds that a refusal asks for, if any.

    Raises:
        GaveUp: it is longer than patience.
    """
    code, patience = response.status_code, seconds("RULER_HUB_PATIENCE")
    wanted = retry_after(response.headers) if code >= 400 else None
    if wanted is not None and wanted > patience:
        asks = f"the Hub asks for a pause of {wanted:.0f} s ({code}), and RULER_HUB_PATIENCE is"
        msg = f"{asks} {patience:.0f} s; run the same command again then"
        raise GaveUp(msg)
    return wanted


def time_limits() -> httpx2.Timeout:
    """Return the seconds in which to connect, and without a byte, that a request may take."""
    limit = min(seconds("RULER_HUB_TIMEOUT"), seconds("RULER_HUB_PATIENCE") / 2)
    return httpx2.Timeout(limit, connect=min(CONNECT, limit))


def patient_client() -> PatientClient:
    """Return a client for `huggingface_hub.set_client_factory`."""
    return PatientClient(
        event_hooks={"request": [hf_request_event_hook]},
        follow_redirects=True,
        timeout=time_limits(),
    )
