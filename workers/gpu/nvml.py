"""NVML by way of ``nvidia-ml-py``. See :mod:`workers.gpu.port`.

An answer of "not supported" is None; one that means the device is gone is
:class:`workers.gpu.port.DeviceLost`; any other is raised as it is.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from typing import Any

import pynvml

from workers.gpu.port import DeviceLost, Errors, Event, Gpu, Process, Reading

MS, WATTS = 1000, 1000.0
UNTOLD = frozenset(
    {
        pynvml.NVML_ERROR_NOT_SUPPORTED,
        pynvml.NVML_ERROR_NO_PERMISSION,
        pynvml.NVML_ERROR_FUNCTION_NOT_FOUND,
        pynvml.NVML_ERROR_ARGUMENT_VERSION_MISMATCH,
        pynvml.NVML_ERROR_CORRUPTED_INFOROM,
        pynvml.NVML_ERROR_NO_DATA,
        pynvml.NVML_ERROR_VGPU_ECC_NOT_SUPPORTED,
    }
)
"""What this device, driver or user is not told."""
GONE = frozenset(
    {
        pynvml.NVML_ERROR_GPU_IS_LOST,
        pynvml.NVML_ERROR_GPU_NOT_FOUND,
        pynvml.NVML_ERROR_NOT_FOUND,
        pynvml.NVML_ERROR_RESET_REQUIRED,
        pynvml.NVML_ERROR_INSUFFICIENT_POWER,
        pynvml.NVML_ERROR_IRQ_ISSUE,
        pynvml.NVML_ERROR_TIMEOUT,
        pynvml.NVML_ERROR_OPERATING_SYSTEM,
        pynvml.NVML_ERROR_INVALID_STATE,
        pynvml.NVML_ERROR_NOT_READY,
        pynvml.NVML_ERROR_IN_USE,
        pynvml.NVML_ERROR_DRIVER_NOT_LOADED,
        pynvml.NVML_ERROR_UNKNOWN,
    }
)
THROTTLE = {
    0x4: "power cap",
    0x8: "hardware slowdown",
    0x10: "sync boost",
    0x20: "thermal, by software",
    0x40: "thermal, by hardware",
    0x80: "power brake",
}
"""Why clocks are held down. Being idle, and clocks that somebody chose, are no such reason."""


@contextmanager
def opened() -> Iterator[PynvmlNvml | None]:
    """Give NVML, or None where there is no driver that answers."""
    try:
        pynvml.nvmlInit()
    except pynvml.NVMLError:
        yield None
        return
    try:
        yield PynvmlNvml()
    finally:
        with suppress(pynvml.NVMLError):
            pynvml.nvmlShutdown()


class PynvmlNvml:
    """See :class:`workers.gpu.port.Nvml`; NVML must have been initialised."""

    def __init__(self) -> None:
        """Listen to nothing yet."""
        self._events: Any = None

    def devices(self) -> list[Gpu]:
        """Return whole GPUs and MIG instances; a card that is lost already is left out.

        The driver counts also those that a scheduler keeps from this process.
        """
        found: list[Gpu] = []
        for index in range(int(pynvml.nvmlDeviceGetCount())):
            try:
                handle = _told(pynvml.nvmlDeviceGetHandleByIndex, index)
                found += [] if handle is None else _on_card(handle, index)
            except DeviceLost as error:
                print(f"GPU {index} is left out: {error}", file=sys.stderr, flush=True)  # noqa: T201 - the node's log
        return found

    def reading(self, uuid: str) -> Reading:
        """Return how a device is now."""
        handle, card = _handle(uuid)
        whole = card is None
        bits = _told(pynvml.nvmlDeviceGetCurrentClocksEventReasons, card or handle)
        memory = _told(pynvml.nvmlDeviceGetMemoryInfo, handle, pynvml.nvmlMemory_v2)
        power = _told(pynvml.nvmlDeviceGetPowerUsage, handle) if whole else None
        return Reading(
            sm_mhz=_told(pynvml.nvmlDeviceGetClockInfo, card or handle, pynvml.NVML_CLOCK_SM),
            memory_mhz=_told(pynvml.nvmlDeviceGetClockInfo, card or handle, pynvml.NVML_CLOCK_MEM),
            temperature_c=_told(
                pynvml.nvmlDeviceGetTemperature, card or handle, pynvml.NVML_TEMPERATURE_GPU
            ),
            power_w=None if power is None else power / WATTS,
            energy_mj=_told(pynvml.nvmlDeviceGetTotalEnergyConsumption, handle) if whole else None,
            throttle=None if bits is None else reasons(bits),
            used_bytes=None if memory is None else int(memory.used),
        )

    def processes(self, uuid: str) -> list[Process]:
        """Return compute processes, those under MPS too, then those that draw."""
        handle, _ = _handle(uuid)
        found: dict[int, Process] = {}
        for ask, compute in (
            (pynvml.nvmlDeviceGetGraphicsRunningProcesses, False),
            (pynvml.nvmlDeviceGetMPSComputeRunningProcesses, True),
            (pynvml.nvmlDeviceGetComputeRunningProcesses, True),
        ):
            for row in _told(ask, handle) or []:
                used = getattr(row, "usedGpuMemory", None)
                found[int(row.pid)] = Process(int(row.pid), compute, used)
        return sorted(found.values(), key=lambda row: row.pid)

    def errors(self, uuid: str) -> Errors:
        """Return the card's errors: an instance has its memory from there."""
        handle, card = _handle(uuid)
        handle = card or handle
        kind, since = pynvml.NVML_MEMORY_ERROR_TYPE_UNCORRECTED, pynvml.NVML_VOLATILE_ECC
        rows = _told(pynvml.nvmlDeviceGetRemappedRows, handle)
        pages = _told(pynvml.nvmlDeviceGetRetiredPagesPendingStatus, handle)
        pending = [bool(rows[2])] if rows is not None else []
        pending += [bool(pages)] if pages is not None else []
        return Errors(
            uncorrected=_told(pynvml.nvmlDeviceGetTotalEccErrors, handle, kind, since),
            needs_reset=any(pending) if pending else None,
        )

    def watch(self, uuids: Sequence[str]) -> None:
        """Register for critical Xids, card by card."""
        kept = _told(pynvml.nvmlEventSetCreate)
        heard = 0
        for uuid in uuids:
            with suppress(DeviceLost, pynvml.NVMLError):
                handle, card = _handle(uuid)
                pynvml.nvmlDeviceRegisterEvents(
                    card or handle, pynvml.nvmlEventTypeXidCriticalError, kept
                )
                heard += 1
        self._events = kept if heard else None

    def event(self, timeout_s: float) -> Event | None:
        """Return an event of the card, as the driver tells it."""
        if self._events is None:
            time.sleep(timeout_s)
            return None
        try:
            said = pynvml.nvmlEventSetWait_v2(self._events, int(timeout_s * MS))
            if said.eventType != pynvml.nvmlEventTypeXidCriticalError:
                return None
            return Event(_text(pynvml.nvmlDeviceGetUUID(said.device)), int(said.eventData))
        except pynvml.NVMLError as error:
            if error.value != pynvml.NVML_ERROR_TIMEOUT:
                time.sleep(timeout_s)  # a device that was lost spoils the set; its loss is seen
            return None


def reasons(bits: int) -> frozenset[str]:
    """Return the reasons in NVML's bits for which clocks are lower than they could be."""
    return frozenset(name for bit, name in THROTTLE.items() if bits & bit)


def _on_card(handle: object, number: int) -> list[Gpu]:
    mode = _told(pynvml.nvmlDeviceGetMigMode, handle)
    if mode is None or mode[0] != pynvml.NVML_DEVICE_MIG_ENABLE:
        return [_gpu(handle, None, number)]
    found = []
    for index in range(int(_told(pynvml.nvmlDeviceGetMaxMigDeviceCount, handle) or 0)):
        with suppress(DeviceLost):  # there are fewer instances than there may be
            instance = _ask(pynvml.nvmlDeviceGetMigDeviceHandleByIndex, handle, index)
            found.append(_gpu(instance, handle, number))
    return found


def _gpu(handle: object, card: object, number: int) -> Gpu:
    whole = handle if card is None else card
    major, minor = _ask(pynvml.nvmlDeviceGetCudaComputeCapability, whole)
    cuda = int(pynvml.nvmlSystemGetCudaDriverVersion_v2())
    memory = _told(pynvml.nvmlDeviceGetMemoryInfo, handle)
    ecc = _told(pynvml.nvmlDeviceGetEccMode, whole)
    kept = _told(pynvml.nvmlDeviceGetPersistenceMode, whole)
    limit = _told(pynvml.nvmlDeviceGetEnforcedPowerLimit, whole)
    return Gpu(
        uuid=_text(_ask(pynvml.nvmlDeviceGetUUID, handle)),
        name=_text(_ask(pynvml.nvmlDeviceGetName, handle)),
        arch=f"sm_{major}{minor}",
        memory_bytes=None if memory is None else int(memory.total),
        driver=_text(pynvml.nvmlSystemGetDriverVersion()),
        cuda=f"{cuda // 1000}.{cuda % 1000 // 10}",
        card=None if card is None else _text(_ask(pynvml.nvmlDeviceGetUUID, card)),
        ecc=None if ecc is None else bool(ecc[0]),
        persistence=None if kept is None else bool(kept),
        power_limit_w=None if limit is None else limit / WATTS,
        max_sm_mhz=_told(pynvml.nvmlDeviceGetMaxClockInfo, whole, pynvml.NVML_CLOCK_SM),
        max_memory_mhz=_told(pynvml.nvmlDeviceGetMaxClockInfo, whole, pynvml.NVML_CLOCK_MEM),
        number=number,
    )


def _handle(uuid: str) -> tuple[object, object | None]:
    """Return a device's handle and, for a MIG instance, its card's."""
    handle = _ask(pynvml.nvmlDeviceGetHandleByUUID, uuid)
    instance = _told(pynvml.nvmlDeviceIsMigDeviceHandle, handle)
    if instance is None or not instance.value:
        return handle, None
    return handle, _ask(pynvml.nvmlDeviceGetDeviceHandleFromMigDeviceHandle, handle)


def _ask(function: Callable[..., Any], *given: object) -> Any:  # noqa: ANN401 - pynvml's own
    """Call NVML.

    Raises:
        DeviceLost: its answer means that the device is gone.
    """
    try:
        return function(*given)
    except pynvml.NVMLError as error:
        if error.value in GONE:
            raise DeviceLost(str(error)) from error
        raise


def _told(function: Callable[..., Any], *given: object) -> Any:  # noqa: ANN401 - pynvml's own
    """Call NVML; None where it does not tell."""
    try:
        return _ask(function, *given)
    except pynvml.NVMLError as error:
        if error.value in UNTOLD:
            return None
        raise


def _text(value: str | bytes) -> str:
    return value.decode() if isinstance(value, bytes) else value
