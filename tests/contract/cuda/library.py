"""CUDA's driver library as ``ctypes`` gives it, with this process's memory for the device's.

It does what it is told at once, unless a stream is captured: then it is kept for the graph. It
knows what each thread may do, what was given back, and how much there is; a copy of a byte takes a
moment of a clock of its own. What the real one answers, it answers: ``suite.py`` asks both.
"""

from __future__ import annotations

import ctypes
import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from itertools import count
from typing import Any, Protocol

OK, INVALID_VALUE, OUT_OF_MEMORY, INVALID_DEVICE = 0, 1, 2, 101
INVALID_CONTEXT, INVALID_HANDLE, CANNOT_CAPTURE, SPOILT = 201, 400, 900, 901
WORDS = {
    INVALID_VALUE: b"invalid argument",
    OUT_OF_MEMORY: b"out of memory",
    INVALID_DEVICE: b"invalid device ordinal",
    INVALID_CONTEXT: b"invalid device context",
    INVALID_HANDLE: b"invalid resource handle",
    CANNOT_CAPTURE: b"operation not permitted when stream is capturing",
    SPOILT: b"operation failed due to a previous error during capture",
}
MS_OF_A_BYTE = 1e-6
FIRST_HANDLE = 1000
Work = Callable[[], None]


class Value(Protocol):
    """A number of ``ctypes``, which is given by value."""

    value: int


class Place(Protocol):
    """Where a call writes: what ``byref`` makes."""

    _obj: Any


@dataclass
class Capture:
    """What a thread has a stream keep for a graph."""

    thread: int
    work: list[Work] = field(default_factory=list)
    spoilt: bool = False


class Library:
    """One process's driver with one device. ``fails``: what a call answers, by its name."""

    def __init__(self, capacity: int = 64 << 20) -> None:
        """Have a device with so many bytes."""
        self.capacity, self.fails = capacity, dict[str, int]()
        self.device, self.pinned = dict[int, Any](), dict[int, Any]()
        self.events, self.graphs = dict[int, float | None](), dict[int, list[Work]]()
        self.streams: dict[int, Capture | None] = {}
        self.clock_ms, self.launched, self.most_held = 0.0, 0, 0
        self._handles, self._local = count(FIRST_HANDLE), threading.local()
        self._templates: dict[int, list[Work]] = {}
        self._calls: dict[str, Callable[..., int]] = {
            "cuGetErrorString": self._get_error_string,
            "cuInit": self._init,
            "cuDeviceGet": self._device_get,
            "cuDevicePrimaryCtxRetain": self._device_primary_ctx_retain,
            "cuCtxSetCurrent": self._ctx_set_current,
            "cuStreamCreate": self._stream_create,
            "cuStreamDestroy_v2": self._stream_destroy,
            "cuStreamSynchronize": self._stream_synchronize,
            "cuEventCreate": self._event_create,
            "cuEventDestroy_v2": self._event_destroy,
            "cuEventRecord": self._event_record,
            "cuEventSynchronize": self._event_synchronize,
            "cuEventElapsedTime": self._event_elapsed_time,
            "cuMemAlloc_v2": self._mem_alloc,
            "cuMemFree_v2": self._mem_free,
            "cuMemHostAlloc": self._mem_host_alloc,
            "cuMemFreeHost": self._mem_free_host,
            "cuMemcpyHtoDAsync_v2": self._copy_to_device,
            "cuMemcpyDtoHAsync_v2": self._copy_to_host,
            "cuStreamBeginCapture_v2": self._stream_begin_capture,
            "cuStreamEndCapture": self._stream_end_capture,
            "cuGraphInstantiateWithFlags": self._graph_instantiate_with_flags,
            "cuGraphLaunch": self._graph_launch,
            "cuGraphDestroy": self._graph_destroy,
            "cuGraphExecDestroy": self._graph_exec_destroy,
        }

    @property
    def held(self) -> dict[str, int]:
        """What was not given back, without what is empty: a stream is kept to the end."""
        names = ("device", "pinned", "events", "graphs", "_templates")
        return {name: len(vars(self)[name]) for name in names if vars(self)[name]}

    def load(self, _name: str) -> Library:
        """Stand in for ``ctypes.CDLL``."""
        return self

    def __getattr__(self, name: str) -> Callable[..., int]:
        """Return a call by the driver's name for it."""
        calls: dict[str, Callable[..., int]] = vars(self).get("_calls", {})
        if name not in calls:
            raise AttributeError(name)

        def answer(*given: object) -> int:
            status = self.fails.get(name)
            return calls[name](*given) if status is None else status

        return answer

    def put(self, stream: int, work: Work) -> int:
        """Have a stream do some work, as a kernel is; return the status."""
        if not self._here:
            return INVALID_CONTEXT
        if stream not in self.streams:
            return INVALID_HANDLE
        capture = self.streams[stream]
        if capture is None:
            work()
        elif capture.spoilt:
            return SPOILT
        else:
            capture.work.append(work)
        return OK

    def refused_while_capturing(self) -> bool:
        """Tell whether this thread captures, and spoil that by what is no work of a stream."""
        mine = [row for row in self.streams.values() if row and row.thread == threading.get_ident()]
        for row in mine:
            row.spoilt = True
        return bool(mine)

    @property
    def _here(self) -> bool:
        return bool(getattr(self._local, "current", None))

    def _handle(self, place: Place) -> int:
        place._obj.value = next(self._handles)
        return int(place._obj.value)

    def _get_error_string(self, status: Value, place: Place) -> int:
        place._obj.value = WORDS.get(status.value)
        return OK

    def _init(self, _flags: Value) -> int:
        return OK

    def _device_get(self, place: Place, ordinal: Value) -> int:
        place._obj.value = ordinal.value
        return INVALID_DEVICE if ordinal.value else OK

    def _device_primary_ctx_retain(self, place: Place, _device: Value) -> int:
        place._obj.value = FIRST_HANDLE - 1
        return OK

    def _ctx_set_current(self, context: Value) -> int:
        self._local.current = context.value
        return OK

    def _stream_create(self, place: Place, flags: Value) -> int:
        assert flags.value == 1
        self.streams[self._handle(place)] = None
        return OK

    def _stream_destroy(self, stream: Value) -> int:
        return INVALID_CONTEXT if not self._here else self._dropped(self.streams, stream)

    def _stream_synchronize(self, stream: Value) -> int:
        capture = self.streams.get(stream.value)
        if not self._here:
            return INVALID_CONTEXT
        if capture is not None:
            capture.spoilt = True
            return CANNOT_CAPTURE
        return OK if stream.value in self.streams else INVALID_HANDLE

    def _event_create(self, place: Place, _flags: Value) -> int:
        if not self._here:
            return INVALID_CONTEXT
        self.events[self._handle(place)] = None
        return OK

    def _event_destroy(self, event: Value) -> int:
        return self._dropped(self.events, event)

    def _event_record(self, event: Value, stream: Value) -> int:
        if event.value not in self.events:
            return INVALID_HANDLE

        def passed() -> None:
            self.events[event.value] = self.clock_ms

        return self.put(stream.value, passed)

    def _event_synchronize(self, event: Value) -> int:
        return OK if event.value in self.events else INVALID_HANDLE

    def _event_elapsed_time(self, place: Place, start: Value, end: Value) -> int:
        times = [self.events.get(event.value) for event in (start, end)]
        if times[0] is None or times[1] is None:
            return INVALID_HANDLE
        place._obj.value = times[1] - times[0]
        return OK

    def _mem_alloc(self, place: Place, size: Value) -> int:
        return self._taken(self.device, place, size)

    def _mem_free(self, address: Value) -> int:
        return self._given_back(self.device, address)

    def _mem_host_alloc(self, place: Place, size: Value, _flags: Value) -> int:
        return self._taken(self.pinned, place, size)

    def _mem_free_host(self, address: Value) -> int:
        return self._given_back(self.pinned, address)

    def _copy_to_device(self, device: Value, host: Value, size: Value, stream: Value) -> int:
        return self._copied(device.value, device.value, host.value, size.value, stream.value)

    def _copy_to_host(self, host: Value, device: Value, size: Value, stream: Value) -> int:
        return self._copied(device.value, host.value, device.value, size.value, stream.value)

    def _stream_begin_capture(self, stream: Value, mode: Value) -> int:
        assert mode.value == 1
        if self.streams[stream.value] is not None:
            return CANNOT_CAPTURE
        self.streams[stream.value] = Capture(threading.get_ident())
        return OK

    def _stream_end_capture(self, stream: Value, place: Place) -> int:
        capture, self.streams[stream.value] = self.streams[stream.value], None
        if capture is None:
            return INVALID_VALUE
        if capture.spoilt:
            place._obj.value = None
            return SPOILT
        self._templates[self._handle(place)] = capture.work
        return OK

    def _graph_instantiate_with_flags(self, place: Place, template: Value, flags: Value) -> int:
        assert isinstance(flags, ctypes.c_ulonglong)
        self.graphs[self._handle(place)] = self._templates[template.value]
        return OK

    def _graph_launch(self, graph: Value, stream: Value) -> int:
        if graph.value not in self.graphs:
            return INVALID_HANDLE
        self.launched += 1
        for work in self.graphs[graph.value]:
            status = self.put(stream.value, work)
            if status:
                return status
        return OK

    def _graph_destroy(self, template: Value) -> int:
        return self._dropped(self._templates, template)

    def _graph_exec_destroy(self, graph: Value) -> int:
        return self._dropped(self.graphs, graph)

    def _dropped(self, rows: dict[int, Any], handle: Value) -> int:
        return INVALID_HANDLE if rows.pop(handle.value, self) is self else OK

    def _taken(self, rows: dict[int, Any], place: Place, size: Value) -> int:
        if not self._here:
            return INVALID_CONTEXT
        if self.refused_while_capturing():
            return CANNOT_CAPTURE
        used = sum(len(row) for row in list(rows.values()))
        if used + size.value > self.capacity:
            return OUT_OF_MEMORY
        kept = ctypes.create_string_buffer(size.value)
        rows[ctypes.addressof(kept)] = kept
        self.most_held = max(self.most_held, used + size.value)
        place._obj.value = ctypes.addressof(kept)
        return OK

    def _given_back(self, rows: dict[int, Any], address: Value) -> int:
        if not self._here:
            return INVALID_CONTEXT
        if self.refused_while_capturing():
            return CANNOT_CAPTURE
        return INVALID_VALUE if rows.pop(address.value, None) is None else OK

    def _copied(self, device: int, goal: int, source: int, size: int, stream: int) -> int:
        kept = self.device.get(device)
        if size and (kept is None or size > len(kept)):
            return INVALID_VALUE

        def copy() -> None:
            ctypes.memmove(goal, source, size)
            self.clock_ms += size * MS_OF_A_BYTE

        return self.put(stream, copy)
