"""What each backend takes of ONNX, as data: measured or documented, with the version it holds for.

For a version that a table was not made for its refusals are only warnings: the runtime decides.
"""

from __future__ import annotations

from enginefarm.preflight.tables import onnxruntime, tensorrt, tensorrt_rtx
from enginefarm.preflight.tables.limits import Capabilities

_TABLES: dict[str, tuple[Capabilities, ...]] = {
    "onnxruntime": (onnxruntime.V1_32,),
    "tensorrt-rtx": (tensorrt_rtx.V1_7,),
    "tensorrt": (tensorrt.V11, tensorrt.V10),
    "tensorrt-llm": (tensorrt.V10,),
}


def capabilities_of(backend: str, version: str | None) -> Capabilities:
    """Return the table for a backend's version; the newest where none is named or none fits."""
    tables = _TABLES[backend]
    if version is None:
        return tables[0]
    return next((table for table in tables if table.holds_for(version)), tables[0].loosened())
