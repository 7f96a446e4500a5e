"""Keep whole numbers in 32 bits where they fit: int64 weights and constants, and nothing computed.

What is read as int64 still is: through a Cast, or as int32 where the operator takes indices of both
types. A tensor with one value that does not fit stays as it is.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

import numpy as np
import onnx
from onnx import numpy_helper

from enginefarm.counted import counted
from workers.backends.base import Array
from workers.repair.base import Ground, NotApplied
from workers.repair.branches import inner_graphs, names

_TAKES_BOTH = {
    "Gather": frozenset({1}),
    "GatherElements": frozenset({1}),
    "ScatterElements": frozenset({1}),
    "Slice": frozenset({1, 2, 3, 4}),
}
"""Inputs that may be of either type; all of a node must be of one."""
_OWN = ("", "ai.onnx")
_TOLD = 5
_INT32 = np.iinfo(np.int32)


@dataclass
class _Count:
    narrowed: int = 0
    kept: list[str] = field(default_factory=list)


def run(model: onnx.ModelProto, _ground: Ground) -> str | None:
    """Narrow what fits, in the graph and in those inside it."""
    count = _Count()
    taken = names(model.graph)
    for graph in [model.graph, *_inside(model.graph)]:
        _Graph(graph, taken, count).narrow()
    kept = f"{', '.join(count.kept[:_TOLD])}{' and more' * (len(count.kept) > _TOLD)}"
    if not count.narrowed and count.kept:
        raise NotApplied(f"values do not fit into 32 bits, or lie outside the file: {kept}")
    if not count.narrowed:
        return None
    said = f"{counted(count.narrowed, 'int64 constant is', 'int64 constants are')} kept as int32"
    return f"{said}; as they are stay {kept}, whose values do not fit" if kept else said


def _inside(graph: onnx.GraphProto) -> Iterator[onnx.GraphProto]:
    for node in graph.node:
        for inner in inner_graphs(node):
            yield inner
            yield from _inside(inner)


class _Graph:
    """One graph: its int64 constants, and who reads them in it."""

    def __init__(self, graph: onnx.GraphProto, taken: set[str], count: _Count) -> None:
        self._graph = graph
        self._taken = taken
        self._count = count
        self._narrow: dict[str, str] = {}

    def narrow(self) -> None:
        found = dict(self._constants())
        fitting = {name: row for name, row in found.items() if row is not None and _fits(row)}
        self._count.kept += [name for name in found if name not in fitting]
        if not fitting:
            return
        self._narrow = {name: self._fresh(f"{name}_int32") for name in fitting}
        self._count.narrowed += len(fitting)
        for node in self._graph.node:
            self._read_narrow(node)
        weights = [
            numpy_helper.from_array(row.astype(np.int32), self._narrow[name])
            for name, row in fitting.items()
        ]
        self._replace(weights)

    def _constants(self) -> Iterator[tuple[str, Array | None]]:
        """Give the int64 constants; None for values that lie outside the file."""
        inputs = {value.name for value in self._graph.input}
        for tensor in self._graph.initializer:
            if tensor.data_type == onnx.TensorProto.INT64 and tensor.name not in inputs:
                yield tensor.name, _values(tensor)
        for node in self._graph.node:
            if node.op_type != "Constant" or node.domain not in _OWN:
                continue
            for row in node.attribute:
                if row.name == "value" and row.t.data_type == onnx.TensorProto.INT64:
                    yield node.output[0], _values(row.t)
                elif row.name == "value_int":
                    yield node.output[0], np.array(row.i, np.int64)
                elif row.name == "value_ints":
                    yield node.output[0], np.array(list(row.ints), np.int64)

    def _read_narrow(self, node: onnx.NodeProto) -> None:
        """Let a node read int32 where all that it may read so is narrow."""
        places = _TAKES_BOTH.get(node.op_type, frozenset()) if node.domain in _OWN else frozenset()
        given = [n for n in sorted(places) if n < len(node.input) and node.input[n]]
        if given and all(node.input[number] in self._narrow for number in given):
            for number in given:
                node.input[number] = self._narrow[node.input[number]]

    def _replace(self, weights: list[onnx.TensorProto]) -> None:
        """Put the narrow weights in the places of the wide ones; who needs 64 bits has a Cast."""
        graph = self._graph
        kept = [
            onnx.NodeProto.FromString(node.SerializeToString())
            for node in graph.node
            if not (node.op_type == "Constant" and node.output[0] in self._narrow)
        ]
        wide = _read(kept) | {value.name for value in graph.output}
        casts = [
            onnx.helper.make_node(
                "Cast",
                [narrow],
                [name],
                to=onnx.TensorProto.INT64,
                name=self._fresh(f"{name}_wide"),
            )
            for name, narrow in self._narrow.items()
            if name in wide
        ]
        rest = [
            onnx.TensorProto.FromString(row.SerializeToString())
            for row in graph.initializer
            if row.name not in self._narrow
        ]
        del graph.initializer[:], graph.node[:]
        graph.initializer.extend([*rest, *weights])
        graph.node.extend([*casts, *kept])

    def _fresh(self, name: str) -> str:
        goal, number = name, 1
        while goal in self._taken:
            number += 1
            goal = f"{name}_{number}"
        self._taken.add(goal)
        return goal


def _values(tensor: onnx.TensorProto) -> Array | None:
    if tensor.data_location == onnx.TensorProto.EXTERNAL:
        return None
    return numpy_helper.to_array(tensor)


def _fits(values: Array) -> bool:
    return not values.size or bool(values.min() >= _INT32.min and values.max() <= _INT32.max)


def _read(nodes: list[onnx.NodeProto]) -> set[str]:
    """Return every name that nodes, and the graphs inside them, read or give as outputs."""
    found: set[str] = set()
    for node in nodes:
        found.update(node.input)
        for inner in inner_graphs(node):
            found |= _read(list(inner.node)) | {value.name for value in inner.output}
    return found
