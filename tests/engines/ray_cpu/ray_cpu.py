"""A platform of vLLM: CPUs that it starts workers on where Ray has GPUs.

vLLM's own platform for CPUs has no kind of device that Ray knows, so Ray places none of its workers.
The nodes of a test's cluster have GPUs in name only: one each places a worker of the CPU on each.
"""

from vllm.platforms.cpu import CpuPlatform


def plugin() -> str:
    """Return the platform's class, as vLLM asks the entry point `vllm.platform_plugins`."""
    return f"{__name__}.{RayCpu.__name__}"


class RayCpu(CpuPlatform):
    """CPUs, on nodes that have GPUs in name only."""

    ray_device_key = "GPU"
