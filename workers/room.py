"""What a node offers a job, and what the farm knows of such jobs, for the rules of the check."""

from __future__ import annotations

from collections.abc import Sequence

from enginefarm.preflight.subject import Measured, Room
from tasks.messages import Assignment, Device
from workers.gpu.need import is_for


def room_of(job: Assignment, devices: Sequence[Device], limit_bytes: int | None) -> Room:
    """Return the memory that the job may have here: its limit, or all there is."""
    by_arch = {device.arch: device for device in devices if is_for(device, job.target)}
    cpu = next((device for device in devices if device.arch == "cpu"), None)
    gpu = next((by_arch[arch] for arch in job.target.archs if arch in by_arch), None)
    return Room(
        memory_bytes=limit_bytes or (cpu.memory_bytes if cpu else None),
        gpu_memory_bytes=gpu.memory_bytes if gpu else None,
        driver=gpu.driver if gpu else None,
        most_memory_bytes=job.most_memory_bytes,
        measured=tuple(
            Measured(str(row.stage), row.peak_bytes, row.enough) for row in job.measured
        ),
        served=None if job.served is None else tuple(map(str, job.served)),
    )
