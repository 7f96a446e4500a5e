"""Looks at a device several times a second while something is measured on it."""

from __future__ import annotations

import threading
from dataclasses import dataclass, field
from typing import Self

from workers.gpu.exclusive import Onlookers
from workers.gpu.port import DeviceLost, Nvml, Reading

EVERY_S = 0.2


@dataclass
class Seen:
    """What was seen of a device, in order; at least the first and the last moment."""

    readings: list[Reading] = field(default_factory=list)
    lost: str | None = None


class Sampler:
    """A thread that looks; NVML lets Python go while it works, so runs are not held up.

    Use as a context; ``seen`` has what was seen.
    """

    def __init__(self, nvml: Nvml, uuid: str, onlookers: Onlookers) -> None:
        """Look at one device; ``onlookers`` judges who is on it."""
        self._nvml, self._uuid = nvml, uuid
        self.onlookers = onlookers
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._look_on, name="device-sampler", daemon=True)
        self.seen = Seen()

    def __enter__(self) -> Self:
        """Look once, then again and again."""
        self._look()
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        """Look a last time."""
        self._ended.set()
        self._thread.join()
        self._look()

    def energy_mj(self) -> int | None:
        """Return the device's counter of energy now."""
        try:
            return self._nvml.reading(self._uuid).energy_mj
        except DeviceLost as error:
            self.seen.lost = str(error)
            return None

    def _look_on(self) -> None:
        while not self._ended.wait(EVERY_S):
            self._look()

    def _look(self) -> None:
        try:
            reading = self._nvml.reading(self._uuid)
            there = self._nvml.processes(self._uuid)
        except DeviceLost as error:
            self.seen.lost = str(error)
            return
        self.seen.readings.append(reading)
        self.onlookers.look_during(there, reading.used_bytes)
