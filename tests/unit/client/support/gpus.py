"""GPUs of this machine as NVIDIA's own library tells of them, for whoever looks."""

from __future__ import annotations

import sys
from types import SimpleNamespace

import pytest


class NvmlError(Exception):
    """As NVIDIA's library raises it."""


def nvml(*gpus: tuple[str | bytes, int, int], broken: bool = False) -> SimpleNamespace:
    """Return a library that sees these GPUs, or none at all."""

    def init() -> None:
        if broken:
            raise NvmlError("Driver/library version mismatch")

    return SimpleNamespace(
        NVMLError=NvmlError,
        nvmlInit=init,
        nvmlShutdown=lambda: None,
        nvmlSystemGetDriverVersion=lambda: b"580.159.04",
        nvmlDeviceGetCount=lambda: len(gpus),
        nvmlDeviceGetHandleByIndex=lambda index: gpus[index],
        nvmlDeviceGetName=lambda handle: handle[0],
        nvmlDeviceGetCudaComputeCapability=lambda handle: handle[1:],
    )


def with_gpus(monkeypatch: pytest.MonkeyPatch, *gpus: tuple[str | bytes, int, int]) -> None:
    monkeypatch.setitem(sys.modules, "pynvml", nvml(*gpus))
