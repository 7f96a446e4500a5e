"""Names of backends and where they live; a runtime is imported only by :func:`open_backend`."""

from __future__ import annotations

import importlib
from typing import cast

from enginefarm.errors import NotServed
from enginefarm.nearest import did_you_mean
from workers.backends.base import Backend

MODULES = {
    "onnxruntime": "workers.backends.onnxruntime",
    "tensorrt": "workers.backends.tensorrt",
    "tensorrt-rtx": "workers.backends.tensorrt_rtx",
}


def open_backend(name: str) -> Backend:
    """Import a backend and its runtime, which only a child process may do.

    Raises:
        NotServed: this node's software has no such backend (code ``backend_missing``).
        ImportError: the runtime is not installed, or a library of it is missing.
    """
    if name not in MODULES:
        raise NotServed(
            f"This node has no backend {name!r}.",
            code="backend_missing",
            fix=did_you_mean(name, MODULES),
        )
    return cast("Backend", importlib.import_module(MODULES[name]).open_backend())
