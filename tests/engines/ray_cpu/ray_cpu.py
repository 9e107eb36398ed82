"""A platform of vLLM: CPUs that it starts workers on where Ray has GPUs.

vLLM's own platform for CPUs names no device that Ray knows, so Ray would place none of its workers.
The nodes of a test's cluster have one GPU each, in name only: so each gets one worker.
"""

from vllm.platforms.cpu import CpuPlatform


def plugin() -> str:
    """Return the platform's class, as vLLM asks the entry point `vllm.platform_plugins`."""
    return f"{__name__}.{RayCpu.__name__}"


class RayCpu(CpuPlatform):  # type: ignore[misc]
    """CPUs, on nodes that have GPUs in name only."""

    ray_device_key = "GPU"
