"""Lower the version of the file format where the model needs none of what is new in it.

An exporter stamps the newest that it knows, and a runtime that is older refuses the stamp.
"""

from __future__ import annotations

import onnx

from workers.repair.base import Ground

_OWN = ("", "ai.onnx")


def run(model: onnx.ModelProto, _ground: Ground) -> str | None:
    """Lower a version that is newer than ONNX here knows to the newest that it does."""
    found, known = model.ir_version, int(onnx.IR_VERSION)
    newest = onnx.defs.onnx_opset_version()
    if found <= known or any(o.version > newest for o in model.opset_import if o.domain in _OWN):
        return None
    model.ir_version = known
    return f"IR version {found} became {known}, in which all of its operators are known"
