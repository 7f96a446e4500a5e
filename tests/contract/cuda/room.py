"""Room for a copy to a device and back, what is copied, and how long that took by events."""

from __future__ import annotations

import ctypes
import statistics
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from workers.backends.cuda_driver import CudaDriver
from workers.backends.device_port import give_back

TIMES = 20
Bytes = np.ndarray[Any, np.dtype[np.uint8]]


@dataclass(frozen=True)
class Room:
    """So many bytes in pinned memory to read from, on the device, and pinned to write to."""

    driver: CudaDriver
    size: int
    source: int
    device: int
    goal: int

    def put(self, data: Bytes) -> None:
        """Write to where is read from, and something else to where is written to."""
        ctypes.memmove(self.source, data.ctypes.data, self.size)
        ctypes.memset(self.goal, 0xA5, self.size)

    def there(self) -> None:
        """Have the stream copy to the device."""
        self.driver.to_device(self.device, self.source, self.size)

    def back(self) -> None:
        """Have the stream copy to the host."""
        self.driver.to_host(self.goal, self.device, self.size)

    def both(self) -> None:
        """Have the stream copy there and back."""
        self.there()
        self.back()

    def found(self) -> Bytes:
        """Return what was written."""
        return np.frombuffer(ctypes.string_at(self.goal, self.size), np.uint8)


Make = Callable[[CudaDriver, int], Room]


def noise(size: int, seed: int) -> Bytes:
    """Return so many random bytes."""
    return np.random.default_rng(seed).integers(0, 256, size, np.uint8)


def took_ms(driver: CudaDriver, work: Callable[[], None]) -> float:
    """Return the median of what events before and after some work tell."""
    start, end = driver.event(), driver.event()
    found = []
    for _ in range(TIMES):
        driver.record(start)
        work()
        driver.record(end)
        driver.wait(end)
        found.append(driver.elapsed_ms(start, end))
    give_back(driver.drop_event, [start, end])
    return statistics.median(found)
