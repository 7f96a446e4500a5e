"""A job's child takes its GPU: locked, seen by no other job of the host, and looked at first.

All of this happens before a runtime is imported, so that the device was seen without the job's own
context, and the runtime sees this device alone.
"""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace

from enginefarm.errors import JobFailed
from enginefarm.state import Blame
from workers.backends.base import ProgressSink
from workers.gpu import nvml
from workers.gpu.exclusive import CONTEXT_BYTES, Onlookers
from workers.gpu.lock import DeviceLock, take_one
from workers.gpu.need import DeviceNeed
from workers.gpu.port import DeviceLost, Gpu, Nvml
from workers.settings import show_gpu

SETTLE_S, LOOK_S = 5.0, 0.2


@dataclass(frozen=True)
class Taken:
    """A device that is this process's until it ends, and who was on it before.

    Nobody frees the lock: its context on the device ends with the process, and not sooner.
    """

    nvml: Nvml
    gpu: Gpu
    onlookers: Onlookers
    times: int
    lock: DeviceLock | None = None


@contextmanager
def taken(need: DeviceNeed | None, sink: ProgressSink) -> Iterator[Taken | None]:
    """Take one of the devices that would do, until this process ends.

    Without a need the process sees what it saw; with one that names no device it sees none.

    Raises:
        JobFailed: none becomes free (``device_busy``), or it does not answer (``device_lost``).
    """
    if need is None:
        yield None
        return
    if not need.devices:
        show_gpu(None)
        yield None
        return
    sink.report(None, "waiting for a GPU")
    lock = take_one(
        need.lock_folder,
        need.devices,
        shared=need.shared,
        wait_s=need.wait_s,
        waiting=lambda: _say(sink),
    )
    with nvml.opened() as port:
        show_gpu(lock.uuid)
        yield replace(look(port, lock.uuid, need), lock=lock)


def _say(sink: ProgressSink) -> bool:
    sink.report(None, "waiting for a GPU", "other jobs have it")
    return sink.stopping


def look(port: Nvml | None, uuid: str, need: DeviceNeed) -> Taken:
    """Find the device and see who is on it.

    Raises:
        JobFailed: it does not answer (code ``device_lost``).
    """
    try:
        gpu = next((row for row in port.devices() if row.uuid == uuid), None) if port else None
        if port is None or gpu is None:
            raise _lost(uuid, "the driver does not name it any more")
        onlookers = Onlookers(own=frozenset({os.getpid()}))
        if not need.shared:
            _see(port, uuid, onlookers)
    except DeviceLost as error:
        raise _lost(uuid, str(error)) from error
    return Taken(port, gpu, onlookers, need.times)


def disturbed(device: Taken, *, shared: bool) -> str | None:
    """Look once more at who is on a device, and say who else may have been there meanwhile."""
    if shared:
        return "other jobs may have the GPU at the same time"
    try:
        used = device.nvml.reading(device.gpu.uuid).used_bytes
        now = device.nvml.processes(device.gpu.uuid)
        # Who was there first has disturbed it, also if he has gone since.
        device.onlookers.look_during([*device.onlookers.before, *now], used)
    except DeviceLost as error:
        return f"the GPU does not answer: {error}"
    return "; ".join(device.onlookers.strangers) or None


def _see(port: Nvml, uuid: str, onlookers: Onlookers) -> None:
    """See who is there, once those who are just leaving have had a moment to go."""
    deadline = time.monotonic() + SETTLE_S
    while True:
        there, used = port.processes(uuid), port.reading(uuid).used_bytes
        empty = not there and (used is None or used < CONTEXT_BYTES)
        if empty or time.monotonic() > deadline:
            onlookers.look_before(there, used)
            return
        time.sleep(LOOK_S)


def _lost(uuid: str, why: str) -> JobFailed:
    return JobFailed(
        f"The GPU {uuid} does not answer.",
        blame=Blame.NODE,
        code="device_lost",
        why=f"{why}.",
        fix="Look at the machine's kernel log; a GPU that fell off the bus needs a reset.",
    )
