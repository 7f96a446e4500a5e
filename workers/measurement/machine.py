"""The machine a result was made on, as data."""

from __future__ import annotations

from collections.abc import Sequence

from enginefarm.report import Machine
from enginefarm.state import Stage
from enginefarm.target import SKU_BACKENDS, Target
from tasks.messages import Assignment, Device
from workers import hardware
from workers.gpu.need import is_for, on_sku


def of_job(
    job: Assignment, devices: Sequence[Device], load_before: float, uuid: str | None
) -> Machine:
    """Return the machine of a job that has taken a device, if it has taken one."""
    target = target_on_device(job.stage, on_sku(job.target, job.sku), uuid)
    return describe(devices, target, load_before, uuid)


def target_on_device(stage: Stage, target: Target, uuid: str | None) -> Target | None:
    """Return the target of a job that ran on its GPU: a measurement, or a build for that very GPU.

    A build ahead of time is none, whichever GPU it has opened.
    """
    built_there = stage is Stage.COMPILE and uuid is not None and target.backend in SKU_BACKENDS
    return target if stage is Stage.BENCHMARK or built_there else None


def describe(
    devices: Sequence[Device], target: Target | None, load_before: float, uuid: str | None = None
) -> Machine:
    """Return the machine as it is now; the device is the one that the job had taken.

    Of a job that has not told, it is the first that its target is for. A job that runs on the
    processor has no ``target``, and the device ``cpu``.
    """
    fitting = [row for row in devices if target and row.arch != "cpu" and is_for(row, target)]
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
