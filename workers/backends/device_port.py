"""What a device is asked for while an engine is run on it, without saying by what. Imports nothing.

:class:`workers.backends.cuda_driver.CudaDriver` is what does it. Addresses, events and graphs are
plain numbers, as the driver and the runtimes have them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from contextlib import suppress
from typing import Protocol


class NotOnDevice(Exception):
    """Something cannot be done on a device; the text says why."""


class Memory(Protocol):
    """A stream on a device, and the device's memory."""

    stream: int

    def use(self) -> None:
        """Let this thread work on the device."""

    def allocated(self, size: int) -> int:
        """Return the address of so many bytes on the device."""

    def freed(self, address: int) -> None:
        """Give them back."""

    def to_device(self, device: int, host: int, size: int) -> None:
        """Have the stream copy to the device."""

    def to_host(self, host: int, device: int, size: int) -> None:
        """Have the stream copy to the host."""

    def finish(self) -> None:
        """Wait until the stream has done all."""

    def close(self) -> None:
        """End the stream."""


class TimedStream(Memory, Protocol):
    """A stream whose work is timed by events on it, and may become a graph."""

    def event(self) -> int:
        """Return a new event."""

    def record(self, event: int) -> None:
        """Have the stream pass an event when it comes there."""

    def wait(self, event: int) -> None:
        """Wait until the stream has passed an event."""

    def elapsed_ms(self, start: int, end: int) -> float:
        """Return the time between two events that were passed."""

    def drop_event(self, event: int) -> None:
        """Give an event back."""

    def pinned(self, size: int) -> int:
        """Return the address of pinned memory of the host."""

    def unpin(self, address: int) -> None:
        """Give it back."""

    def captured(self, work: Callable[[], object]) -> int:
        """Return a graph of what ``work`` has the stream do, which is not done then."""

    def launch(self, graph: int) -> None:
        """Have the stream do all that is in a graph."""

    def drop_graph(self, graph: int) -> None:
        """Give a graph back."""


def give_back(back: Callable[[int], None], taken: Iterable[int]) -> None:
    """Give all back that was taken.

    What a device that has broken does not take back is left: what broke it is for those to say
    that ran on it, and must not be hidden by this.
    """
    for each in taken:
        with suppress(NotOnDevice):
            back(each)
