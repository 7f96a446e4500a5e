"""A device, and NVML that shows it."""

from __future__ import annotations

from tests.contract.nvml.recorded import RecordedNvml, State
from workers.gpu.port import Event, Gpu, Process, Reading

UUID = "GPU-1"
GIB = 1 << 30


def gpu(uuid: str = UUID, **more: object) -> Gpu:
    """Return a device."""
    told = {"name": "NVIDIA H200", "arch": "sm_90", "memory_bytes": 140 * GIB}
    told |= {"driver": "580.159.04", "cuda": "13.0", "max_sm_mhz": 1980, "ecc": True}
    return Gpu(uuid=uuid, **told | more)  # type: ignore[arg-type]  # any field


def reading(**more: object) -> Reading:
    """Return a quiet moment of a device."""
    told: dict[str, object] = {"sm_mhz": 1980, "memory_mhz": 3201, "temperature_c": 31}
    told |= {"power_w": 120.0, "energy_mj": 1000, "throttle": frozenset(), "used_bytes": 0}
    return Reading(**told | more)  # type: ignore[arg-type]  # any field


def port(
    *readings: Reading, processes: list[Process] | None = None, **more: object
) -> RecordedNvml:
    """Return NVML with one device."""
    state = State(gpu(), list(readings) or [reading()], processes or [])
    return RecordedNvml([state], **more)  # type: ignore[arg-type]  # its events


def xid(number: int) -> Event:
    """Return an Xid of the device."""
    return Event(UUID, number)
