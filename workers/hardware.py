"""What this machine is: processor, memory, and the NVIDIA GPUs that a driver shows.

No driver means a CPU node; nothing is guessed and no device is made up. A MIG instance is a device
of its own.
"""

from __future__ import annotations

import os
import platform
import socket
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

from tasks.messages import Device
from workers.gpu import nvml
from workers.gpu.narrowing import narrowed
from workers.gpu.port import Gpu, Nvml

_CPUINFO = Path("/proc/cpuinfo")
_MEMINFO = Path("/proc/meminfo")
_GOVERNOR = Path("/sys/devices/system/cpu/cpu0/cpufreq/scaling_governor")
_CGROUP_MEMORY = (
    Path("/sys/fs/cgroup/memory.max"),
    Path("/sys/fs/cgroup/memory/memory.limit_in_bytes"),
)


def hostname() -> str:
    """Return the machine's name."""
    return socket.gethostname()


def cpu_model() -> str:
    """Return the processor's name, or its architecture where the kernel does not say."""
    with suppress(OSError):
        for line in _CPUINFO.read_text().splitlines():
            key, _, value = line.partition(":")
            if key.strip() == "model name" and value.strip():
                return value.strip()
    return platform.machine()


def cores() -> int:
    """Return how many cores this process may use."""
    return len(os.sched_getaffinity(0))


def governor() -> str | None:
    """Return the frequency governor, or None where there is none to see."""
    try:
        return _GOVERNOR.read_text().strip()
    except OSError:
        return None


def load_average() -> float:
    """Return the 1-minute load average."""
    return os.getloadavg()[0]


def memory_bytes() -> int:
    """Return the memory this machine or its container has, whichever is less."""
    found = [_physical_memory()]
    for path in _CGROUP_MEMORY:
        with suppress(OSError, ValueError):
            found.append(int(path.read_text()))  # "max" is no number: no limit
    return min(found)


def _physical_memory() -> int:
    for line in _MEMINFO.read_text().splitlines():
        key, _, value = line.partition(":")
        if key == "MemTotal":
            return int(value.split()[0]) * 1024
    return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")


def devices(wanted: Sequence[str] = (), port: Nvml | None = None) -> list[Device]:
    """Return the processor, then those GPUs that are ``wanted``; none named means every one.

    ``port`` is NVML, opened; without one it is opened here.

    Raises:
        InvalidRequest: what is wanted names no device, or several (code ``device_unknown``).
    """
    processor = Device(arch="cpu", name=cpu_model(), memory_bytes=memory_bytes())
    if port is not None:
        return [processor, *_wanted(port.devices(), wanted)]
    with nvml.opened() as found:
        return [processor, *_wanted(found.devices() if found is not None else [], wanted)]


def _wanted(gpus: Sequence[Gpu], wanted: Sequence[str]) -> list[Device]:
    numbers = {gpu.number: gpu.card or gpu.uuid for gpu in gpus}
    return narrowed(_told(gpus), wanted, numbers)


def _told(gpus: Sequence[Gpu]) -> list[Device]:
    return [
        Device(
            arch=gpu.arch,
            name=gpu.name,
            uuid=gpu.uuid,
            memory_bytes=gpu.memory_bytes,
            driver=gpu.driver,
            cuda=gpu.cuda,
            card=gpu.card,
            ecc=gpu.ecc,
            persistence=gpu.persistence,
        )
        for gpu in gpus
    ]
