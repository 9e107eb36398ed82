"""The Hub's client with time limits; it does not log its own retries."""

import logging
import os
from functools import cache
from typing import TYPE_CHECKING

from ruler_data.hub.retry import CONNECT, refuse_long_pauses, timeout
from ruler_data.version import __version__

if TYPE_CHECKING:
    import httpx2
    from huggingface_hub import HfApi


@cache
def client() -> "HfApi":
    """Return the client; its address is HF_ENDPOINT, its token HF_TOKEN or the saved one.

    The library's HTTP client has no time limit, so this sets one for the whole process.
    """
    import httpx2
    from huggingface_hub import HfApi, set_client_factory
    from huggingface_hub.utils._http import default_client_factory

    def factory() -> "httpx2.Client":
        made = default_client_factory()
        made.timeout = httpx2.Timeout(timeout(), connect=min(CONNECT, timeout()))
        hooks = made.event_hooks
        made.event_hooks = {**hooks, "response": [*hooks["response"], refuse_long_pauses]}
        return made

    set_client_factory(factory)
    if not os.environ.get("HF_DEBUG"):
        logging.getLogger("huggingface_hub").setLevel(logging.ERROR)
    return HfApi(library_name="ruler-data", library_version=__version__)


def token() -> str | None:
    """Return the token that is sent with requests, or None."""
    from huggingface_hub import get_token

    return get_token()
