"""The machine a result was made on, as data."""

from __future__ import annotations

from collections.abc import Sequence

from enginefarm.report import Machine
from enginefarm.state import Stage
from enginefarm.target import BUILDS_ON_ITS_GPU, Target
from tasks.messages import Device
from workers import hardware


def arch_of(stage: Stage, target: Target) -> str:
    """Return the architecture of the device that a stage of a target works on."""
    on_device = stage is Stage.COMPILE and target.backend in BUILDS_ON_ITS_GPU
    return target.arch if on_device or stage is Stage.BENCHMARK else "cpu"


def describe(
    devices: Sequence[Device], arch: str, load_before: float, uuid: str | None = None
) -> Machine:
    """Return the machine as it is now; the device is the one that the job had taken.

    Of a job that has not told, it is the first of the target's architecture. A job that runs on the
    processor (a compile ahead of time, too) has the device ``cpu``.
    """
    fitting = [device for device in devices if device.arch == arch and arch != "cpu"]
    taken = [device for device in fitting if device.uuid == uuid]
    gpu = next(iter(taken or fitting), None)
    return Machine(
        hostname=hardware.hostname(),
        cpu=hardware.cpu_model(),
        cores=hardware.cores(),
        governor=hardware.governor(),
        load_before=load_before,
        load_after=hardware.load_average(),
        memory_bytes=hardware.memory_bytes(),
        device=gpu.name if gpu else "cpu",
        device_uuid=gpu.uuid if gpu else None,
        driver=gpu.driver if gpu else None,
        cuda=gpu.cuda if gpu else None,
    )
