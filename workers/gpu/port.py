"""The one narrow port to NVML: what devices there are, how each is, and who is on it.

Implemented by :mod:`workers.gpu.nvml` and, for tests, by recorded devices; both pass one suite.
What a device does not tell is None, never zero.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol


class DeviceLost(Exception):
    """A device does not answer any more: it fell off the bus, or waits for a reset."""


@dataclass(frozen=True)
class Gpu:
    """A device that can be given a job: a whole GPU, or one MIG instance.

    ``arch`` is ``sm_NN``; ``card`` is the UUID of the GPU that an instance is a part of. ``number``
    is the driver's for the card: it stays when a card before it is lost, or is not this user's.
    """

    uuid: str
    name: str
    arch: str
    memory_bytes: int | None
    driver: str
    cuda: str
    card: str | None = None
    ecc: bool | None = None
    persistence: bool | None = None
    power_limit_w: float | None = None
    max_sm_mhz: int | None = None
    max_memory_mhz: int | None = None
    number: int = 0


@dataclass(frozen=True)
class Reading:
    """How a device is at one moment.

    ``used_bytes`` leaves out what the driver keeps for itself. ``energy_mj`` counts since the
    driver was loaded. Of a MIG instance, clocks and temperature are its card's, and power and
    energy are not known.
    """

    sm_mhz: int | None = None
    memory_mhz: int | None = None
    temperature_c: int | None = None
    power_w: float | None = None
    energy_mj: int | None = None
    throttle: frozenset[str] | None = None
    used_bytes: int | None = None


@dataclass(frozen=True)
class Process:
    """A process that has a context on a device.

    ``pid`` is the number in some namespace, which need not be ours: from within a container it may
    name no process, or another one.
    """

    pid: int
    compute: bool = True
    memory_bytes: int | None = None


@dataclass(frozen=True)
class Errors:
    """What a device's memory has been found out in since the driver was loaded."""

    uncorrected: int | None = None
    needs_reset: bool | None = None
    """Bad rows or pages were found that only a reset puts out of use."""


@dataclass(frozen=True)
class Event:
    """An Xid that the driver has reported of a device."""

    uuid: str
    xid: int


class Nvml(Protocol):
    """See this module."""

    def devices(self) -> list[Gpu]:
        """Return the devices in the driver's order; of a card in MIG mode, its instances.

        A card that does not answer is left out, and one that this user may not have.
        """

    def reading(self, uuid: str) -> Reading:
        """Return how a device is now.

        Raises:
            DeviceLost: it does not answer.
        """

    def processes(self, uuid: str) -> list[Process]:
        """Return who has a context on a device, as far as the driver shows it here.

        Raises:
            DeviceLost: it does not answer.
        """

    def errors(self, uuid: str) -> Errors:
        """Return what is wrong with a device's memory.

        Raises:
            DeviceLost: it does not answer.
        """

    def watch(self, uuids: Sequence[str]) -> None:
        """Listen for events of these devices from now on, where the driver allows it."""

    def event(self, timeout_s: float) -> Event | None:
        """Wait for the next event, at most so long; without a device to listen to, just wait."""
