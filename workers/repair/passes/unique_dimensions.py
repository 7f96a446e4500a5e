"""Give axes names of their own where an exporter wrote one placeholder on several.

``?`` and ``-1`` mean "any size". A compiler that takes them for a name holds the axes to one size
and refuses a profile in which they differ.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

import onnx

from enginefarm.counted import counted
from enginefarm.dim_names import is_placeholder
from workers.repair.base import Ground


def run(model: onnx.ModelProto, _ground: Ground) -> str | None:
    """Rename on inputs; forget on outputs and in between, where inference tells better."""
    shared = Counter(dim.dim_param for _, _, dim in _named(model.graph.input))
    meant = {name for name in shared if is_placeholder(name)}
    if not any(shared[name] > 1 for name in meant):
        return None
    taken = set(shared)
    renamed = []
    for value, axis, dim in _named(model.graph.input):
        if dim.dim_param in meant:
            renamed.append(f"{value.name}[{axis}] {dim.dim_param!r}")
            dim.dim_param = _free(f"{value.name}_dim_{axis}", taken)
    for _, _, dim in _named([*model.graph.output, *model.graph.value_info]):
        if dim.dim_param in meant:
            dim.Clear()
    told = counted(len(renamed), "axis has a name of its own", "axes have names of their own")
    return f"{told}: {', '.join(renamed[:8])}"


def _named(
    values: Iterator[onnx.ValueInfoProto] | list[onnx.ValueInfoProto],
) -> Iterator[tuple[onnx.ValueInfoProto, int, onnx.TensorShapeProto.Dimension]]:
    for value in values:
        for axis, dim in enumerate(value.type.tensor_type.shape.dim):
            if dim.dim_param:
                yield value, axis, dim


def _free(name: str, taken: set[str]) -> str:
    while name in taken:
        name += "_"
    taken.add(name)
    return name
