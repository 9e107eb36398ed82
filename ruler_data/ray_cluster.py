"""The Ray cluster that a build or a run is spread over."""

import logging
import os
import socket
from collections.abc import Callable
from functools import partial
from typing import Any

from ruler_data.errors import UsageError
from ruler_data.names import quote


def connect(workers: int | None = None) -> Any:  # noqa: ANN401 - the module ray, imported late
    """Return Ray, connected to a cluster; its caller shuts it down.

    The cluster is the one at RAY_ADDRESS, otherwise the one that `ray start` started on this
    machine, otherwise a new one here with `workers` CPUs, or all of them.

    Raises:
        UsageError: Ray is not installed, or the cluster does not answer.
    """
    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
    try:
        import ray
    except ImportError as error:
        msg = "--engine ray needs Ray; pip install -e '.[ray]' in the checkout"
        raise UsageError(msg) from error
    address = os.environ.get("RAY_ADDRESS")
    host, _, port = (address or "").removeprefix("ray://").rpartition(":")
    is_new = address in (None, "local")
    quiet = {"include_dashboard": False, "log_to_driver": False, "logging_level": logging.ERROR}
    start: Callable[..., object] = partial(ray.init, address=address, **quiet)
    try:
        if host and port.isdecimal():  # Ray itself needs minutes to notice that nothing listens
            socket.create_connection((host, int(port)), timeout=10).close()
        try:
            start(num_cpus=workers if is_new else None)
        except ValueError:  # a running cluster has its own number of CPUs
            start()
    except (ValueError, OSError) as error:
        name = f"RAY_ADDRESS {quote(address)}" if address else "the cluster of `ray start`"
        advice = "" if address else ", or start a new one here with RAY_ADDRESS=local"
        raise UsageError(name, f"no Ray cluster answers there; see `ray status`{advice}") from error
    return ray
