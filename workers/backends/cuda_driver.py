"""The few calls of CUDA's driver library that run and time work on a stream, by ctypes.

``libcuda.so.1`` comes with the driver and keeps its names, so no version of a toolkit is needed.
They are the names of the calls themselves, where ``cuda.h`` of 12 and 13 has macros for them.
Streams made here are those that runtimes take as theirs. Addresses and handles are plain numbers.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from ctypes import byref, c_char_p, c_float, c_int, c_size_t, c_uint, c_ulonglong, c_void_p
from typing import Any

from workers.backends.device_port import NotOnDevice

LIBRARY = "libcuda.so.1"
NON_BLOCKING = 1
THREAD_LOCAL = 1
"""While this thread captures, other threads may call what they like: trtexec's mode, too."""
NAMES = {
    "init": "cuInit",
    "device": "cuDeviceGet",
    "retain": "cuDevicePrimaryCtxRetain",
    "current": "cuCtxSetCurrent",
    "stream": "cuStreamCreate",
    "event": "cuEventCreate",
    "record": "cuEventRecord",
    "wait": "cuEventSynchronize",
    "elapsed": "cuEventElapsedTime",
    "pinned": "cuMemHostAlloc",
    "to_device": "cuMemcpyHtoDAsync_v2",
    "to_host": "cuMemcpyDtoHAsync_v2",
    "allocate": "cuMemAlloc_v2",
    "free": "cuMemFree_v2",
    "finish": "cuStreamSynchronize",
    "unpin": "cuMemFreeHost",
    "drop_event": "cuEventDestroy_v2",
    "close": "cuStreamDestroy_v2",
    "begin": "cuStreamBeginCapture_v2",
    "end": "cuStreamEndCapture",
    "instantiate": "cuGraphInstantiateWithFlags",
    "launch": "cuGraphLaunch",
    "drop_template": "cuGraphDestroy",
    "drop_graph": "cuGraphExecDestroy",
}


class CudaDriver:
    """One device's primary context, a stream on it, and what is timed there."""

    def __init__(self, ordinal: int = 0, *, load: Callable[[str], Any] = ctypes.CDLL) -> None:
        """Open the context that runtimes share; ``load`` finds the library.

        Raises:
            NotOnDevice: there is no driver, or no such device.
        """
        try:
            library = load(LIBRARY)
            self._calls = {name: getattr(library, symbol) for name, symbol in NAMES.items()}
            self._say = library.cuGetErrorString
        except (OSError, AttributeError) as error:
            raise NotOnDevice(f"CUDA's driver library cannot be used: {error}") from error
        device, context, stream = c_int(), c_void_p(), c_void_p()
        self._call("init", c_uint(0))
        self._call("device", byref(device), c_int(ordinal))
        self._call("retain", byref(context), device)
        self._call("current", context)
        self._call("stream", byref(stream), c_uint(NON_BLOCKING))
        self.stream = int(stream.value or 0)
        self._context = context

    def use(self) -> None:
        """Let this thread work in the context, as the one that opened it does."""
        self._call("current", self._context)

    def close(self) -> None:
        """End the stream; until then it is there, also if nobody has this any more."""
        self._call("close", c_void_p(self.stream))

    def event(self) -> int:
        """Return a new event."""
        made = c_void_p()
        self._call("event", byref(made), c_uint(0))
        return int(made.value or 0)

    def drop_event(self, event: int) -> None:
        """Give an event back."""
        self._call("drop_event", c_void_p(event))

    def record(self, event: int) -> None:
        """Have the stream pass an event when it comes there."""
        self._call("record", c_void_p(event), c_void_p(self.stream))

    def wait(self, event: int) -> None:
        """Wait until the stream has passed an event."""
        self._call("wait", c_void_p(event))

    def elapsed_ms(self, start: int, end: int) -> float:
        """Return the time between two events that were passed."""
        took = c_float()
        self._call("elapsed", byref(took), c_void_p(start), c_void_p(end))
        return float(took.value)

    def pinned(self, size: int) -> int:
        """Return the address of pinned memory of the host, to be given back or kept to the end."""
        made = c_void_p()
        self._call("pinned", byref(made), c_size_t(max(size, 1)), c_uint(0))
        return int(made.value or 0)

    def unpin(self, address: int) -> None:
        """Give pinned memory back."""
        self._call("unpin", c_void_p(address))

    def allocated(self, size: int) -> int:
        """Return the address of so many bytes on the device, to be given back."""
        made = c_void_p()
        self._call("allocate", byref(made), c_size_t(max(size, 1)))
        return int(made.value or 0)

    def freed(self, address: int) -> None:
        """Give back what was allocated."""
        self._call("free", c_void_p(address))

    def finish(self) -> None:
        """Wait until the stream has done all."""
        self._call("finish", c_void_p(self.stream))

    def to_device(self, device: int, host: int, size: int) -> None:
        """Have the stream copy so many bytes to the device."""
        stream = c_void_p(self.stream)
        self._call("to_device", c_void_p(device), c_void_p(host), c_size_t(size), stream)

    def to_host(self, host: int, device: int, size: int) -> None:
        """Have the stream copy so many bytes to the host."""
        stream = c_void_p(self.stream)
        self._call("to_host", c_void_p(host), c_void_p(device), c_size_t(size), stream)

    def captured(self, work: Callable[[], object]) -> int:
        """Return a graph of what ``work`` has the stream do, which is not done then.

        The stream is as it was before, also where no graph can be made.

        Raises:
            NotOnDevice: the driver does not take something of it into a graph.
        """
        stream, template, made = c_void_p(self.stream), c_void_p(), c_void_p()
        self._call("begin", stream, c_int(THREAD_LOCAL))
        try:
            work()
        except BaseException:
            # Ended all the same, or the stream would take no other work; what is said is not new.
            self._calls["end"](stream, byref(template))
            if template.value:
                self._call("drop_template", template)
            raise
        self._call("end", stream, byref(template))
        try:
            self._call("instantiate", byref(made), template, c_ulonglong(0))
        finally:
            self._call("drop_template", template)
        return int(made.value or 0)

    def launch(self, graph: int) -> None:
        """Have the stream do all that is in a graph."""
        self._call("launch", c_void_p(graph), c_void_p(self.stream))

    def drop_graph(self, graph: int) -> None:
        """Give a graph back."""
        self._call("drop_graph", c_void_p(graph))

    def _call(self, name: str, *given: object) -> None:
        call: Callable[..., int] = self._calls[name]
        status = call(*given)
        if status != 0:
            words = c_char_p()
            self._say(c_int(status), byref(words))
            said = (words.value or b"it gives no reason").decode(errors="replace")
            raise NotOnDevice(f"{NAMES[name]} answered {status}: {said}")
