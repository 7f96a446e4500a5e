"""Write into the model the dimensions that every profile gives one size.

A branch may depend on such a size; once it is a number the branch can be taken in. Where that
decides nothing, the model stays as it is: a compiler learns the sizes from the profile.
"""

from __future__ import annotations

from collections.abc import Sequence

import onnx

from enginefarm.spec import Profile
from workers.repair.base import Ground
from workers.repair.deciding import count, fold


def run(model: onnx.ModelProto, ground: Ground) -> str | None:
    """Pin only where a branch that would stay open is decided by it."""
    if not ground.profiles or count(model.graph, "If") == 0:
        return None
    open_before = _left_open(model)
    pinned = _pin(model.graph, ground.profiles)
    if not pinned:
        return None
    del model.graph.value_info[:]
    if _left_open(model) >= open_before:
        return None
    return f"the profile gives one size only to {', '.join(pinned)}"


def _left_open(model: onnx.ModelProto) -> int:
    """Return how many If would remain."""
    copy = onnx.ModelProto()
    copy.CopyFrom(model)
    fold(copy)
    return count(copy.graph, "If")


def _pin(graph: onnx.GraphProto, profiles: Sequence[Profile]) -> list[str]:
    pinned = []
    for value in graph.input:
        ranges = [profile[value.name] for profile in profiles if value.name in profile]
        for axis, dim in enumerate(value.type.tensor_type.shape.dim):
            sizes = {size for row in ranges for size in (row.min[axis], row.max[axis])}
            if len(sizes) == 1 and not dim.HasField("dim_value"):
                dim.dim_value = sizes.pop()
                pinned.append(f"{value.name}[{axis}]={dim.dim_value}")
    return pinned
