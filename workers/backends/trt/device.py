"""An engine with its inputs and outputs on the GPU, timed step by step as trtexec does.

It has a context, a stream and memory of its own. It is run once before it is captured: a first run
does what later ones need not, and some of that cannot be in a graph.
"""

from __future__ import annotations

import ctypes
import time
import weakref
from collections.abc import Callable, Mapping
from contextlib import ExitStack, suppress

from enginefarm.errors import JobFailed
from workers.backends.base import Array, NotOnDevice, RunTimes
from workers.backends.device_port import TimedStream, give_back
from workers.backends.trt.binding import Bound, Place
from workers.backends.trt.opening import Opened, Started, not_here

MS = 1000.0
EVENTS = 4


class EngineOnDevice:
    """See :class:`workers.backends.base.DeviceRunner`."""

    def __init__(self, opened: Opened, fed: Mapping[str, Array], *, cuda_graph: bool) -> None:
        """Start the engine once more, bind these inputs, run it, and capture it if that is asked.

        Raises:
            NotOnDevice: the engine, its outputs or the device do not allow it.
        """
        self.cuda_graph = cuda_graph
        self._stream = opened.site.another()
        self._held = ExitStack()
        self._held.callback(_close, self._stream)
        self._finalizer = weakref.finalize(self, _left, self._stream, self._held)
        self._finalizer.atexit = False  # the device takes all back from a process that has ended
        try:
            started = opened.started(timed=True)
            self._bind(opened, started, fed)
            self._work: Callable[[], None] = self._bound.enqueue
            self._run()
            if cuda_graph:
                self._capture(opened, started)
                self._run()
        except NotOnDevice:
            self._finalizer()
            raise
        except JobFailed as failed:
            self._finalizer()
            why = f"it does not run with its data on the device: {failed.why}"
            raise NotOnDevice(why) from failed

    def run(self) -> RunTimes:
        """Copy in, run and copy out on one stream, with an event at each border.

        Raises:
            JobFailed: the runtime or the device does not run it (``engine_run_failed``).
        """
        try:
            return self._run()
        except NotOnDevice as failed:
            raise not_here(str(failed), "engine_run_failed") from failed

    def _run(self) -> RunTimes:
        stream, (start, before, after, end) = self._stream, self._events
        stream.record(start)
        for place, host in self._inputs:
            stream.to_device(place.address, host, place.size)
        stream.record(before)
        began = time.perf_counter()
        self._work()
        enqueued = time.perf_counter()
        stream.record(after)
        for place, host in self._outputs:
            stream.to_host(host, place.address, place.size)
        stream.record(end)
        stream.wait(end)
        return RunTimes(
            h2d=stream.elapsed_ms(start, before),
            enqueue=(enqueued - began) * MS,
            compute=stream.elapsed_ms(before, after),
            d2h=stream.elapsed_ms(after, end),
        )

    def host_outputs(self) -> dict[str, int]:
        """Return where the outputs of the last run lie in the host's pinned memory."""
        return {place.view.name: host for place, host in self._outputs}

    def _bind(self, opened: Opened, started: Started, fed: Mapping[str, Array]) -> None:
        stream, shapes = self._stream, {name: array.shape for name, array in fed.items()}
        self._bound = bound = Bound(opened, started, stream, shapes)
        self._held.callback(bound.let_go)
        if bound.grown:
            raise NotOnDevice(f"the size of {', '.join(bound.grown)} depends on data")
        self._inputs = [(row, self._pinned(row)) for row in bound.inputs if row.host is None]
        self._outputs = [(row, self._pinned(row)) for row in bound.outputs if row.host is None]
        for place, host in self._inputs:
            ctypes.memmove(host, fed[place.view.name].ctypes.data, place.size)
        bound.fill(fed)
        start, before, after, end = (
            self._kept(stream.event(), stream.drop_event) for _ in range(4)
        )
        self._events = (start, before, after, end)

    def _capture(self, opened: Opened, started: Started) -> None:
        if not opened.capturable(started, self._stream.stream):
            raise NotOnDevice("the runtime says that the engine cannot be captured")
        stream = self._stream
        graph = self._kept(stream.captured(self._bound.enqueue), stream.drop_graph)
        self._work = lambda: stream.launch(graph)

    def _pinned(self, place: Place) -> int:
        return self._kept(self._stream.pinned(place.size), self._stream.unpin)

    def _kept(self, handle: int, back: Callable[[int], None]) -> int:
        self._held.callback(give_back, back, [handle])
        return handle


def _close(stream: TimedStream) -> None:
    with suppress(NotOnDevice):
        stream.close()


def _left(stream: TimedStream, held: ExitStack) -> None:
    with suppress(NotOnDevice):
        stream.use()
    held.close()
