"""Whether an engine is for the GPU of this machine, as far as that can be seen from here.

An engine is compiled for an architecture, or several, or one SKU, and a runtime tells a misfit late
or not at all. What can be seen is asked of NVIDIA's own library (``pynvml``, where it is
installed); where nothing can be seen nothing is claimed.
"""

from __future__ import annotations

import importlib
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self

from pydantic import JsonValue

from enginefarm.counted import counted
from enginefarm.errors import FarmError
from enginefarm.manifest import EngineConfig
from enginefarm.runtime_cache import Place
from enginefarm.sku import sku_of
from enginefarm.target_text import Portability, read_parts, runs_on

DRIVER = Path("/proc/driver/nvidia")
_CPU = "cpu"


@dataclass(frozen=True)
class Gpu:
    """A GPU by its name and architecture, such as ``sm_89``."""

    name: str
    arch: str

    @property
    def sku(self) -> str:
        """Its name as a target says it."""
        return sku_of(self.name)


@dataclass(frozen=True)
class Host:
    """The GPUs of this machine; ``unseen`` says why there are none to compare with."""

    gpus: tuple[Gpu, ...] = ()
    unseen: str = ""
    driver: str = ""

    @property
    def place(self) -> Place:
        """What decides about runtime caches."""
        return Place(gpus=tuple(gpu.name for gpu in self.gpus), driver=self.driver)


@dataclass(frozen=True)
class Fit:
    """Whether an engine fits this machine: None where that was not checked. ``said``: in words."""

    fits: bool | None
    said: str


def look_at_host(driver: Path = DRIVER) -> Host:
    """Return the GPUs that can be seen here; only the driver is asked, nothing is run on a GPU."""
    present = sorted(each.name for each in (driver / "gpus").glob("*"))
    try:
        nvml = importlib.import_module("pynvml")
    except ImportError:
        if not present:
            return Host(unseen="no NVIDIA GPU can be seen here")
        here = counted(
            len(present), "NVIDIA GPU is here, and its", "NVIDIA GPUs are here, and their"
        )
        return Host(unseen=f"{here} architecture cannot be seen without the package nvidia-ml-py")
    try:
        return _asked(nvml)
    except nvml.NVMLError as error:
        why = f": {error}" if present else ""
        return Host(unseen=f"no NVIDIA GPU can be seen here{why}")


def _asked(nvml: Any) -> Host:  # noqa: ANN401 - NVIDIA's own module, which may not be installed
    nvml.nvmlInit()
    try:
        handles = map(nvml.nvmlDeviceGetHandleByIndex, range(nvml.nvmlDeviceGetCount()))
        gpus = tuple(_gpu(nvml, handle) for handle in handles)
        driver = _text(nvml.nvmlSystemGetDriverVersion())
    finally:
        nvml.nvmlShutdown()
    return Host(gpus, "" if gpus else "no NVIDIA GPU can be seen here", driver)


def _gpu(nvml: Any, handle: Any) -> Gpu:  # noqa: ANN401 - as above
    major, minor = nvml.nvmlDeviceGetCudaComputeCapability(handle)
    return Gpu(_text(nvml.nvmlDeviceGetName(handle)), f"sm_{major}{minor}")


def _text(said: str | bytes) -> str:
    return said if isinstance(said, str) else said.decode()


@dataclass(frozen=True)
class _Wanted:
    """Which GPUs an engine is for."""

    archs: tuple[str, ...]
    sku: str | None
    portability: Portability | None

    @classmethod
    def of(cls, config: EngineConfig) -> Self:
        """Read it from the target; of one that cannot be read, the architecture alone."""
        parts = read_parts(config.target)
        if parts is None or config.arch not in parts.archs:
            return cls((config.arch,), None, config.portability)
        known = [Portability(mark) for mark in parts.marks if mark in set(Portability)]
        return cls(parts.archs, parts.sku, next(iter(known), config.portability))

    @property
    def text(self) -> str:
        """As a target says it."""
        sku = f":{self.sku}" if self.sku else ""
        return "+".join(self.archs) + sku + (f"+{self.portability}" if self.portability else "")

    def takes(self, gpu: Gpu) -> bool:
        return runs_on(self.archs, self.sku, self.portability, gpu.arch, gpu.sku)

    def here(self, host: Host) -> list[str]:
        """Name the GPUs of a machine as finely as the engine names its own."""
        return sorted({f"{gpu.arch}:{gpu.sku}" if self.sku else gpu.arch for gpu in host.gpus})


def fit_of(config: EngineConfig, host: Host) -> Fit:
    """Compare what an engine is for with the GPUs of a machine."""
    if config.arch == _CPU:
        return Fit(fits=None, said="not checked: the engine needs no GPU")
    if not host.gpus:
        return Fit(fits=None, said=f"not checked: {host.unseen}")
    wanted = _Wanted.of(config)
    same = [gpu for gpu in host.gpus if wanted.takes(gpu)]
    if same:
        return Fit(fits=True, said=f"fits: {same[0].name}, {same[0].arch}")
    here = ", ".join(sorted({f"{gpu.name}, {gpu.arch}" for gpu in host.gpus}))
    return Fit(fits=False, said=f"does not fit: the engine is for {wanted.text}; here is {here}")


def require_fit(config: EngineConfig, host: Host) -> None:
    """Refuse an engine that is for another GPU than any of this machine.

    Raises:
        FarmError: code ``gpu_differs``.
    """
    found, wanted = fit_of(config, host), _Wanted.of(config)
    if found.fits is False:
        raise FarmError(
            f"The engine is for {wanted.text}, and no GPU of this machine is.",
            code="gpu_differs",
            why=f"Here is {', '.join(sorted({f'{gpu.name}, {gpu.arch}' for gpu in host.gpus}))}.",
            fix="Pull the engine that was built for this GPU; or, to fetch this one for another "
            "machine, add --other-gpu.",
            wanted=wanted.text,
            here=list[JsonValue](wanted.here(host)),
        )
