"""A driver under ``pynvml``: its functions, answered from a table, with its own errors."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any

import pynvml
import pytest

CARD, INSTANCE = "GPU-1", "MIG-1"
NOT_SUPPORTED, LOST = pynvml.NVML_ERROR_NOT_SUPPORTED, pynvml.NVML_ERROR_GPU_IS_LOST


@dataclass
class Driver:
    """One card, in MIG mode or not. ``answers`` overrides what a function says, or raises."""

    mig: bool = False
    answers: dict[str, Any] = field(default_factory=dict)
    xids: list[int] = field(default_factory=list)

    def install(self, monkeypatch: pytest.MonkeyPatch) -> None:
        """Put the answers under ``pynvml``."""
        for name, usual in self._usual().items():
            monkeypatch.setattr(pynvml, name, self._answering(name, usual))
        monkeypatch.setattr(pynvml, "nvmlEventSetWait_v2", self._wait)

    def _answering(self, name: str, usual: Callable[..., Any]) -> Callable[..., Any]:
        def answer(*given: Any) -> Any:  # noqa: ANN401 - pynvml's own
            said = self.answers.get(name, usual)
            if isinstance(said, int) and not isinstance(said, bool):
                raise pynvml.NVMLError(said)
            return said(*given) if callable(said) else said

        return answer

    def _wait(self, _kept: object, _timeout: int) -> SimpleNamespace:
        if not self.xids:
            raise pynvml.NVMLError(pynvml.NVML_ERROR_TIMEOUT)
        kind = pynvml.nvmlEventTypeXidCriticalError
        return SimpleNamespace(eventType=kind, device=CARD, eventData=self.xids.pop(0))

    def _usual(self) -> dict[str, Callable[..., Any]]:
        unsupported = pynvml.NVMLError(NOT_SUPPORTED)
        whole = {
            "PowerUsage": 76_000,
            "TotalEnergyConsumption": 912_000_000,
            "EnforcedPowerLimit": 700_000,
            "EccMode": [1, 1],
            "PersistenceMode": 1,
            "CurrentClocksEventReasons": 0x1,
            "Temperature": 30,
            "RemappedRows": (0, 0, 0, 0),
            "TotalEccErrors": 0,
            "CudaComputeCapability": (9, 0),
            "MaxMigDeviceCount": 7,
            "MigMode": [int(self.mig), int(self.mig)],
        }

        def of_card(value: object) -> Callable[..., object]:
            def answer(handle: str, *_: object) -> object:
                if handle != CARD:
                    raise unsupported
                return value

            return answer

        named = {f"nvmlDeviceGet{name}": of_card(value) for name, value in whole.items()}
        return named | self._of_both() | {"nvmlDeviceGetRetiredPagesPendingStatus": _unsupported}

    def _of_both(self) -> dict[str, Callable[..., Any]]:
        memory = SimpleNamespace(total=140 << 30, used=0)
        return {
            "nvmlInit": lambda: None,
            "nvmlShutdown": lambda: None,
            "nvmlSystemGetDriverVersion": lambda: b"580.159.04",
            "nvmlSystemGetCudaDriverVersion_v2": lambda: 13_000,
            "nvmlDeviceGetCount": lambda: 1,
            "nvmlDeviceGetHandleByIndex": lambda _index: CARD,
            "nvmlDeviceGetHandleByUUID": _by_uuid,
            "nvmlDeviceIsMigDeviceHandle": lambda handle: SimpleNamespace(value=handle == INSTANCE),
            "nvmlDeviceGetDeviceHandleFromMigDeviceHandle": lambda _handle: CARD,
            "nvmlDeviceGetMigDeviceHandleByIndex": _instance,
            "nvmlDeviceGetUUID": lambda handle: handle,
            "nvmlDeviceGetName": lambda _handle: "NVIDIA H200",
            "nvmlDeviceGetMemoryInfo": lambda *_: memory,
            "nvmlDeviceGetClockInfo": _clock,
            "nvmlDeviceGetMaxClockInfo": _clock,
            "nvmlDeviceGetComputeRunningProcesses": lambda _handle: [],
            "nvmlDeviceGetMPSComputeRunningProcesses": lambda _handle: [],
            "nvmlDeviceGetGraphicsRunningProcesses": lambda _handle: [],
            "nvmlEventSetCreate": object,
            "nvmlDeviceRegisterEvents": lambda *_: None,
        }


def _by_uuid(uuid: str) -> str:
    if uuid not in {CARD, INSTANCE}:
        raise pynvml.NVMLError(pynvml.NVML_ERROR_NOT_FOUND)
    return uuid


def _instance(_card: str, index: int) -> str:
    if index != 0:
        raise pynvml.NVMLError(pynvml.NVML_ERROR_NOT_FOUND)
    return INSTANCE


def _clock(handle: str, kind: int) -> int:
    if handle != CARD:
        raise pynvml.NVMLError(NOT_SUPPORTED)
    return 1980 if kind == pynvml.NVML_CLOCK_SM else 3201


def _unsupported(*_: object) -> object:
    raise pynvml.NVMLError(NOT_SUPPORTED)
