"""Run an engine of TensorRT or TensorRT-RTX: end to end, on its device, by several threads.

Inputs and outputs are copied for each run, as a program does that has its data on the host. The
memory that they are copied to on the device is kept from one run to the next of the same shapes.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

import numpy as np

from enginefarm.target import Target
from workers.backends.base import Array, NotOnDevice
from workers.backends.device_port import TimedStream
from workers.backends.trt.binding import Bound
from workers.backends.trt.compiler import Compiler
from workers.backends.trt.device import EngineOnDevice
from workers.backends.trt.opening import Opened, Site, not_here
from workers.diagnosis import Runtime, refuse_node_fault


class EngineRunner:
    """A runner whose engine several threads may run at once, and which may be run on its device.

    See the protocols of ``workers.backends.base``.
    """

    threads = 0

    def __init__(self, opened: Opened, target: Target) -> None:
        """Start an engine.

        Raises:
            JobFailed: the runtime does not start it (``engine_load_failed``).
        """
        self._opened, self._target = opened, target
        self.inputs, self.outputs = opened.inputs, opened.outputs
        self._started = opened.started()
        self._bound: Bound | None = None
        self._shapes: dict[str, tuple[int, ...]] = {}

    def run(self, feeds: Mapping[str, Array]) -> list[Array | None]:
        """Copy in, run, copy out, and wait for the end.

        Raises:
            JobFailed: the runtime does not run it (``engine_run_failed``).
        """
        fed = self._fed(feeds)
        try:
            return list(self._bound_at(fed).run(fed))
        except NotOnDevice as error:
            self._let_go()
            raise not_here(str(error), "engine_run_failed") from error
        except BaseException:
            self._let_go()
            raise

    def bound(self, feeds: Mapping[str, Array]) -> Callable[[], object]:
        """Start the engine once more, on a stream of its own, with these inputs bound.

        Raises:
            JobFailed: the runtime does not start it (``engine_load_failed``), or there is no room.
        """
        fed, started = self._fed(feeds), self._opened.started()
        try:
            stream = self._opened.site.another()
            bound = Bound(self._opened, started, stream, _shapes(fed), owned=True)
        except NotOnDevice as error:
            raise not_here(str(error), "engine_run_failed") from error
        return lambda: bound.run(fed)

    def on_device(self, feeds: Mapping[str, Array], *, cuda_graph: bool) -> EngineOnDevice:
        """Start the engine once more, with its data on the device.

        Raises:
            NotOnDevice: the engine or its outputs do not allow it.
            JobFailed: the device has no room for it.
        """
        try:
            return EngineOnDevice(self._opened, self._fed(feeds), cuda_graph=cuda_graph)
        except NotOnDevice as error:
            refuse_node_fault(str(error), Runtime.TENSORRT, self._target)
            raise

    def _bound_at(self, fed: Mapping[str, Array]) -> Bound:
        shapes = _shapes(fed)
        if self._bound is None or shapes != self._shapes:
            self._let_go()
            stream = self._opened.site.stream
            self._bound, self._shapes = Bound(self._opened, self._started, stream, shapes), shapes
        return self._bound

    def _let_go(self) -> None:
        if self._bound is not None:
            self._bound.let_go()
        self._bound = None

    def _fed(self, feeds: Mapping[str, Array]) -> dict[str, Array]:
        return {
            view.name: np.ascontiguousarray(feeds[view.name], dtype=view.dtype)
            for view in self.inputs
        }


def open_site(compiler: Compiler, open_stream: Callable[[], TimedStream]) -> Site:
    """Return the runtime with the GPU that this process sees.

    Raises:
        NotOnDevice: there is none, or its driver cannot be used.
    """
    if not compiler.record.has_gpu:
        raise NotOnDevice(f"This node builds {compiler.label} engines and has no GPU to run them")
    stream = open_stream()
    return Site(compiler.trt, compiler.logger, compiler.record, stream, open_stream)


def _shapes(fed: Mapping[str, Array]) -> dict[str, tuple[int, ...]]:
    return {name: array.shape for name, array in fed.items()}
