"""Room on the device for an output of which only a run can tell how large it is."""

from __future__ import annotations

from collections.abc import Iterable
from types import ModuleType
from typing import Any

from workers.backends.device_port import Memory, NotOnDevice, give_back


class Room:
    """Memory that grows when the runtime asks for more, and what it has told of the last run."""

    def __init__(self, trt: ModuleType, memory: Memory) -> None:
        """Have no memory yet; ``allocator`` is what the runtime is given."""
        self._memory = memory
        self.address = self.size = 0
        self.shape: tuple[int, ...] | None = None
        self.error: NotOnDevice | None = None
        self.allocator = _make_allocator(trt, self)

    def begin(self) -> None:
        """Forget what was told of the run before."""
        self.shape = self.error = None

    def grown(self, size: int) -> int:
        """Return where there is so much; 0 where there is none, and ``error`` says why."""
        if size <= self.size and self.address:
            return self.address
        self.let_go()
        try:
            self.address, self.size = self._memory.allocated(size), size
        except NotOnDevice as error:
            self.error = error  # the runtime takes a zero, and no exception
        return self.address

    def let_go(self) -> None:
        """Give the memory back."""
        if self.address:
            give_back(self._memory.freed, [self.address])
        self.address = self.size = 0


def _make_allocator(trt: ModuleType, room: Room) -> Any:  # noqa: ANN401 - the runtime's class
    class Allocator(trt.IOutputAllocator):  # type: ignore[name-defined,misc]  # a class of a module handed over
        def __init__(self) -> None:
            trt.IOutputAllocator.__init__(self)

        def reallocate_output(self, _name: str, _memory: int, size: int, _alignment: int) -> int:
            return room.grown(size)

        def reallocate_output_async(
            self, _name: str, _memory: int, size: int, _alignment: int, _stream: int
        ) -> int:
            return room.grown(size)

        def notify_shape(self, _name: str, shape: Iterable[int]) -> None:
            room.shape = tuple(int(dim) for dim in shape)

    return Allocator()
