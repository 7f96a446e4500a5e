"""Which of a node's GPUs a job may have, and how. Pure.

A measurement has its device alone. What checks or compiles for a GPU has one alone, too, unless the
operator lets such jobs share: a compiler that times kernels beside another one chooses wrongly. A
build ahead of time for a GPU that is not here still opens one that is, so it takes any; while all
are out of service it sees none, since it needs none.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from pydantic import BaseModel, ConfigDict

from enginefarm.errors import JobFailed
from enginefarm.sku import sku_of
from enginefarm.state import PRECISION_STAGES, Blame, Stage
from enginefarm.target import SKU_BACKENDS, Target
from tasks.messages import DEVICE_BUSY, Device

LOCK_FOLDER = Path("/dev/shm/enginefarm")  # noqa: S108 - sticky; opened as a stranger's folder
WITHOUT_DEVICE = frozenset({Stage.REPAIR, *PRECISION_STAGES})


class DeviceNeed(BaseModel):
    """What a child is told of the GPU it is to work on. No device: it shall see none."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    devices: list[str] = []
    """The UUIDs of those that will do."""
    shared: bool = False
    lock_folder: Path = LOCK_FOLDER
    wait_s: float = 600.0
    times: int = 3
    """How often a measurement that cannot be relied on is made."""


@dataclass(frozen=True)
class GpuRules:
    """What the operator says of a node's GPUs. ``faults``: why a device is out, by UUID."""

    lock_folder: Path = LOCK_FOLDER
    share: bool = False
    wait_s: float = 600.0
    times: int = 3
    faults: Mapping[str, str] = field(default_factory=dict)


def need_of(
    stage: Stage,
    target: Target,
    devices: Sequence[Device],
    rules: GpuRules,
    sku: str | None = None,
) -> DeviceNeed:
    """Return which devices would do for a stage of a target, measured on ``sku`` if one is named.

    Raises:
        JobFailed: those that would are out of service (code ``device_busy``), or there is none of
            the SKU (``not_measurable_here``).
    """
    gpus = [row for row in devices if row.uuid is not None]
    target = on_sku(target, sku)
    if sku is not None and not any(is_for(row, target) for row in gpus):
        raise _no_such_gpu(target, sku, gpus)
    if target.arch == "cpu" or stage in WITHOUT_DEVICE or not gpus:
        return DeviceNeed()
    fitting = _fitting(stage, target, gpus, rules.faults)
    if not fitting and stage is not Stage.BENCHMARK and target.sku is None:
        fitting = gpus
    well = [row.uuid for row in fitting if row.uuid is not None and row.uuid not in rules.faults]
    if not well and stage is not Stage.BENCHMARK and target.backend not in SKU_BACKENDS:
        return DeviceNeed()  # it is built ahead of time, and as well without a GPU
    if fitting and not well:
        raise _all_out(fitting, rules.faults)
    return DeviceNeed(
        devices=well,
        shared=rules.share and stage is not Stage.BENCHMARK,
        lock_folder=rules.lock_folder,
        wait_s=rules.wait_s,
        times=rules.times,
    )


def _all_out(fitting: Sequence[Device], faults: Mapping[str, str]) -> JobFailed:
    told = "; ".join(f"{row.uuid}: {faults[str(row.uuid)]}" for row in fitting)
    return JobFailed(
        "No GPU of this node may be used now.",
        blame=Blame.NODE,
        code=DEVICE_BUSY,
        why=f"{told}.",
        fix="Nothing: the job is tried again by itself.",
    )


def _fitting(
    stage: Stage, target: Target, gpus: Sequence[Device], faults: Mapping[str, str]
) -> list[Device]:
    """Return the devices a target is for; to measure on, those of its first architecture here."""
    found = [row for row in gpus if is_for(row, target)]
    if stage is not Stage.BENCHMARK:
        return found
    there = {row.arch for row in found if row.uuid not in faults} or {row.arch for row in found}
    first = next((arch for arch in target.archs if arch in there), None)
    return [row for row in found if row.arch == first]


def is_for(device: Device, target: Target) -> bool:
    """Tell whether a target names a device's architecture, and no SKU but its own."""
    return device.arch in target.archs and target.sku in {None, sku_of(device.name)}


def on_sku(target: Target, sku: str | None) -> Target:
    """Return a target as it is measured: on a SKU, if one is named, whichever it was built on."""
    return target if sku is None else target.model_copy(update={"sku": sku})


def _no_such_gpu(target: Target, sku: str, gpus: Sequence[Device]) -> JobFailed:
    return JobFailed(
        f"This node has no GPU {sku} to measure on.",
        blame=Blame.NODE,
        code="not_measurable_here",
        why=f"It has: {', '.join(row.name for row in gpus) or 'none'}; the target is {target}.",
        fix="Start the node again, so that it tells the farm what it has.",
    )
