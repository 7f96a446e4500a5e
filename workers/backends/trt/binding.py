"""Inputs and outputs of a started engine, bound to memory of their own, for one set of shapes.

What the runtime reads and writes on the host (a tensor that holds a shape) is bound to memory
there. An output whose size depends on data gets its memory while the engine runs.
"""

from __future__ import annotations

import weakref
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass

import numpy as np

from enginefarm.views import TensorView
from workers.backends.base import Array, NotOnDevice
from workers.backends.device_port import Memory, give_back
from workers.backends.trt.fitting import fitting
from workers.backends.trt.growing import Room
from workers.backends.trt.opening import Opened, Started

SEVERAL = 2
Shapes = Mapping[str, Sequence[int]]


@dataclass(frozen=True)
class Place:
    """Where an input or output lies; ``host`` is the array there if it is the host's memory."""

    view: TensorView
    shape: tuple[int, ...]
    address: int
    size: int
    host: Array | None = None


class Bound:
    """A started engine on one stream, with its own memory; to be run by one thread at a time.

    ``grown`` names the outputs whose size depends on data; they are in no ``outputs``.
    """

    def __init__(
        self,
        opened: Opened,
        started: Started,
        memory: Memory,
        shapes: Shapes,
        *,
        owned: bool = False,
    ) -> None:
        """Take the memory; it is given back with :meth:`let_go`, or when nobody has this any more.

        The stream then ends, too, if it is ``owned``.

        Raises:
            JobFailed: the runtime does not take the shapes (``engine_run_failed``).
            NotOnDevice: there is no room.
        """
        self._opened, self._started, self.memory = opened, started, memory
        self._context = started.context
        self._taken: list[int] = []
        self._growing: dict[str, Room] = {}
        self._finalizer = weakref.finalize(
            self, _left, memory, self._taken, self._growing, owned=owned
        )
        self._finalizer.atexit = False  # the device takes all back from a process that has ended
        try:
            self._suit(shapes)
            self.inputs = [self._placed(view, shapes[view.name]) for view in opened.inputs]
            self.outputs = [self._placed(view, shape) for view, shape in self._sized()]
        except BaseException:
            self.let_go()
            raise

    @property
    def grown(self) -> list[str]:
        """The outputs whose size is known only when the engine has run."""
        return list(self._growing)

    def let_go(self) -> None:
        """Give the memory back, now."""
        self._finalizer()

    def enqueue(self) -> None:
        """Have the stream run the engine.

        Raises:
            JobFailed: the runtime does not (``engine_run_failed``).
            NotOnDevice: there is no room for an output whose size depends on data.
        """
        context, said_before = self._context, self._opened.said
        for room in self._growing.values():
            room.begin()
        if not context.execute_async_v3(self.memory.stream):
            for room in self._growing.values():
                if room.error is not None:
                    raise room.error
            raise self._opened.refused("does not run the engine", "engine_run_failed", said_before)

    def fill(self, fed: Mapping[str, Array]) -> None:
        """Write the inputs that the runtime reads on the host."""
        for place in self.inputs:
            if place.host is not None:
                np.copyto(place.host, fed[place.view.name])

    def run(self, fed: Mapping[str, Array]) -> list[Array]:
        """Copy in, run, copy out into new arrays, and wait for the end.

        Raises:
            JobFailed: the runtime does not run it (``engine_run_failed``).
            NotOnDevice: the driver does not take what it is told.
        """
        memory = self.memory
        memory.use()
        self.fill(fed)
        for place in self.inputs:
            if place.host is None:
                memory.to_device(place.address, fed[place.view.name].ctypes.data, place.size)
        self.enqueue()
        lying = {place.view.name: place for place in self.outputs}
        made = [
            self._copied_out(lying.get(view.name) or self._grown_place(view))
            for view in self._opened.outputs
        ]
        memory.finish()
        return [array if host is None else host.copy() for array, host in made]

    def _copied_out(self, place: Place) -> tuple[Array, Array | None]:
        array = np.empty(place.shape, dtype=place.view.dtype)
        if place.host is None:
            self.memory.to_host(array.ctypes.data, place.address, array.nbytes)
        return array, place.host

    def _suit(self, shapes: Shapes) -> None:
        """Have the context run under the profile that fits, and at these shapes."""
        engine, context, opened = self._opened.engine, self._context, self._opened
        if engine.num_optimization_profiles >= SEVERAL:
            number, said_before = fitting(engine, shapes), opened.said
            if number != context.active_optimization_profile:
                if not context.set_optimization_profile_async(number, self.memory.stream):
                    what = f"does not take profile {number}"
                    raise opened.refused(what, "engine_run_failed", said_before)
                self.memory.finish()
        for view in opened.inputs:
            shape, said_before = tuple(shapes[view.name]), opened.said
            if not context.set_input_shape(view.name, shape):
                what = f"does not take {view.name} as {list(shape)}"
                raise opened.refused(what, "engine_run_failed", said_before)

    def _sized(self) -> list[tuple[TensorView, tuple[int, ...]]]:
        """Return the outputs that have a size; those without get what will make room."""
        context, growing, rows = self._context, self._started.growing, []
        for view in self._opened.outputs:
            shape = tuple(int(dim) for dim in context.get_tensor_shape(view.name))
            if min(shape, default=0) >= 0:
                rows.append((view, shape))
                continue
            if view.name not in growing:
                growing[view.name] = Room(self._opened.trt, self.memory)
            room = self._growing[view.name] = growing[view.name]
            self._require(context.set_output_allocator(view.name, room.allocator), view)
        return rows

    def _placed(self, view: TensorView, shape: Sequence[int]) -> Place:
        engine, context, trt = self._opened.engine, self._context, self._opened.trt
        size, host = int(np.prod(shape, dtype=np.int64)) * np.dtype(view.dtype).itemsize, None
        if engine.get_tensor_location(view.name) == trt.TensorLocation.HOST:
            host = np.zeros(tuple(shape), dtype=view.dtype)
            address = int(host.ctypes.data)
        else:
            address = self.memory.allocated(size)
            self._taken.append(address)
        self._require(context.set_tensor_address(view.name, address), view)
        return Place(view, tuple(shape), address, size, host)

    def _require(self, taken: object, view: TensorView) -> None:
        if not taken:
            what = f"does not take memory for {view.name}"
            raise self._opened.refused(what, "engine_run_failed", self._opened.said)

    def _grown_place(self, view: TensorView) -> Place:
        room = self._growing[view.name]
        if room.shape is None:
            what = f"does not tell the size of {view.name}"
            raise self._opened.refused(what, "engine_run_failed", self._opened.said)
        return Place(view, room.shape, room.address, room.size)


def _left(memory: Memory, taken: list[int], growing: Mapping[str, Room], *, owned: bool) -> None:
    with suppress(NotOnDevice):
        memory.use()
    give_back(memory.freed, taken)
    for room in growing.values():
        room.let_go()
    if owned:
        with suppress(NotOnDevice):
            memory.close()
