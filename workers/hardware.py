"""What this machine is: processor, memory, and the NVIDIA GPUs that a driver shows.

No driver means a CPU node; nothing is guessed and no device is made up.
"""

from __future__ import annotations

import os
import platform
import socket
from contextlib import suppress
from pathlib import Path

import pynvml

from tasks.messages import Device

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


def devices() -> list[Device]:
    """Return the processor, then every GPU that NVML shows."""
    return [
        Device(arch="cpu", name=cpu_model(), memory_bytes=memory_bytes()),
        *_gpus(),
    ]


def _gpus() -> list[Device]:
    try:
        pynvml.nvmlInit()
    except pynvml.NVMLError:  # no driver, or one that does not answer: no GPU to build on
        return []
    try:
        driver = _text(pynvml.nvmlSystemGetDriverVersion())
        number = int(pynvml.nvmlSystemGetCudaDriverVersion_v2())
        cuda = f"{number // 1000}.{number % 1000 // 10}"
        count = int(pynvml.nvmlDeviceGetCount())
        return [_gpu(index, driver, cuda) for index in range(count)]
    finally:
        pynvml.nvmlShutdown()


def _gpu(index: int, driver: str, cuda: str) -> Device:
    handle = pynvml.nvmlDeviceGetHandleByIndex(index)
    major, minor = pynvml.nvmlDeviceGetCudaComputeCapability(handle)
    return Device(
        arch=f"sm_{major}{minor}",
        name=_text(pynvml.nvmlDeviceGetName(handle)),
        uuid=_text(pynvml.nvmlDeviceGetUUID(handle)),
        memory_bytes=int(pynvml.nvmlDeviceGetMemoryInfo(handle).total),
        driver=driver,
        cuda=cuda,
    )


def _text(value: str | bytes) -> str:
    return value.decode() if isinstance(value, bytes) else value
