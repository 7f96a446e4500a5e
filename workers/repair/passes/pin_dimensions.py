"""Write into the model the dimensions that every profile gives one size.

A branch may depend on such a size; once it is a number the branch can be taken in.
"""

from __future__ import annotations

import onnx

from workers.repair.base import Ground
from workers.repair.branches import inner_graphs


def run(model: onnx.ModelProto, ground: Ground) -> str | None:
    """Pin only where the graph branches: elsewhere a compiler learns it from the profile."""
    if not ground.profiles or not any(True for n in model.graph.node for _ in inner_graphs(n)):
        return None
    pinned = []
    for value in model.graph.input:
        ranges = [profile[value.name] for profile in ground.profiles if value.name in profile]
        dims = value.type.tensor_type.shape.dim
        for axis, dim in enumerate(dims):
            sizes = {size for row in ranges for size in (row.min[axis], row.max[axis])}
            if len(sizes) == 1 and not dim.HasField("dim_value"):
                dim.dim_value = sizes.pop()
                pinned.append(f"{value.name}[{axis}]={dim.dim_value}")
    if not pinned:
        return None
    del model.graph.value_info[:]
    return f"the profile gives one size only to {', '.join(pinned)}"
