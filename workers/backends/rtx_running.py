"""What only TensorRT-RTX has of running an engine: it compiles kernels here, and keeps them.

The runtime compiles an engine's kernels when it is first run. What that leaves is serialized at the
end, and may be given to the next start.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from enginefarm.errors import JobFailed
from enginefarm.target import Target
from workers.backends.trt.opening import Opened, Site, Started
from workers.backends.trt.running import EngineRunner


class RtxOpened(Opened):
    """An engine that the runtime has taken in, with a cache that all its contexts share."""

    def __init__(self, site: Site, path: Path, cache: bytes | None = None) -> None:
        """Open a file, with a cache that an earlier start has left.

        Raises:
            JobFailed: as :class:`Opened`; or the cache is not taken (``runtime_cache_refused``).
        """
        super().__init__(site, path)
        said_before = self.said
        self._config, config = (self.engine.create_runtime_config() for _ in range(2))
        self.cache = self._config.create_runtime_cache()
        if cache is not None and not self.cache.deserialize(cache):
            raise self.refused("does not take the cache", "runtime_cache_refused", said_before)
        # A program has the default: kernels for its shapes come while it runs. What is timed on the
        # device, or captured, has them before: a graph would keep those that only stand in.
        strategies = self.trt.DynamicShapesKernelSpecializationStrategy
        config.dynamic_shapes_kernel_specialization_strategy = strategies.EAGER
        self._config_timed = config
        for each in (self._config, self._config_timed):
            if not each.set_runtime_cache(self.cache):
                raise self.refused("does not keep a cache", "engine_load_failed", said_before)

    def capturable(self, started: Started, stream: int) -> bool:
        """Ask the runtime, which knows whether it has something left to compile."""
        return bool(started.context.is_stream_capturable(stream))

    def _context(self, *, timed: bool) -> Any:  # noqa: ANN401 - the runtime's class
        config = self._config_timed if timed else self._config
        return self.engine.create_execution_context(config)


class RtxRunner(EngineRunner):
    """A runner that leaves a runtime cache, too. See the protocols of ``workers.backends.base``."""

    def __init__(
        self, site: Site, engine: Path, target: Target, cache: bytes | None = None
    ) -> None:
        """Open an engine and start it.

        Raises:
            JobFailed: see :class:`RtxOpened` and :class:`EngineRunner`.
        """
        self._path, self._rtx = engine, RtxOpened(site, engine, cache)
        super().__init__(self._rtx, target)

    def runtime_cache(self) -> bytes:
        """Return what has been compiled so far."""
        return bytes(memoryview(self._rtx.cache.serialize()))

    def started_again(self, cache: bytes) -> RtxRunner | None:
        """Return the engine opened once more, with a cache; None if that is not taken."""
        try:
            return RtxRunner(self._rtx.site, self._path, self._target, cache)
        except JobFailed as error:
            if error.code == "runtime_cache_refused":
                return None
            raise
