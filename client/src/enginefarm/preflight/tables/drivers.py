"""Which NVIDIA driver a CUDA runtime needs, and which CUDA a backend is built for, as data."""

from __future__ import annotations

OLDEST_DRIVER = {12: 525, 13: 580}
"""By the major version of CUDA; newer drivers run older runtimes."""

CUDA_OF: dict[str, dict[str, tuple[int, ...]]] = {
    "onnxruntime": {"1": (12, 13)},
    "tensorrt-rtx": {"1": (12, 13)},
    "tensorrt": {"10": (12, 13), "11": (12, 13)},
    "tensorrt-llm": {"1.2": (13,), "1": (12, 13)},
}
"""By backend and the beginning of its version, the CUDA versions for which it is offered."""


def oldest_driver(backend: str, version: str | None) -> int:
    """Return the major version of the oldest driver that can run what a backend builds."""
    rows = CUDA_OF[backend]
    found = next((row for begin, row in rows.items() if (version or "").startswith(begin)), None)
    return OLDEST_DRIVER[min(found or min(rows.values()))]
