"""Write a graph of which a plan says what computes in half precision.

``rounded`` writes the same graph in fp32 with every half tensor rounded to half and back. That is
what a GPU computes, which adds up in fp32 and stores half. It shows overflow, which ONNX Runtime's
CPU kernels hide since they compute most of a half graph in fp32 from end to end.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

from workers.precision.casting import Plan, Slots

HALF = "_in_half"


def written(plan: Plan, *, rounded: bool = False) -> onnx.ModelProto:
    """Return the model with the planned nodes in half, or in fp32 as half would have rounded it."""
    return _Writer(plan, rounded=rounded).model()


class _Writer:
    """Writes one graph; ``name + HALF`` is the half form of a tensor."""

    def __init__(self, plan: Plan, *, rounded: bool) -> None:
        self._plan = plan
        self._rounded = rounded
        self._out = onnx.ModelProto()
        self._out.CopyFrom(plan.model)
        self._there: set[str] = set()
        given = {row.name for row in plan.model.graph.input}
        weights = plan.model.graph.initializer
        self._weights = {row.name: row for row in weights if row.name not in given}
        self._cast = set(plan.cast)
        self._wide = self._wanted_wide()

    def _wanted_wide(self) -> set[str]:
        """Return the names that something reads as they are."""
        graph = self._plan.model.graph
        # A weight that is listed as an input may be given, and stays.
        names = {row.name for row in (*graph.input, *graph.output)}
        for place, node in enumerate(graph.node):
            half = self._plan.slots[place].inputs if place in self._cast else []
            names |= {name for at, name in enumerate(node.input) if at not in half}
            names |= set(_captured(node))
        return names

    def model(self) -> onnx.ModelProto:
        graph = self._out.graph
        nodes = list(self._plan.model.graph.node)
        del graph.node[:]
        for place, node in enumerate(nodes):
            if place in self._cast:
                self._cast_node(node, self._plan.slots[place])
            else:
                graph.node.append(node)
        left = [
            row
            for row in graph.initializer
            if row.name in self._wide
            or row.name in self._there
            or row.data_type != TensorProto.FLOAT
        ]
        del graph.initializer[:]
        graph.initializer.extend(left)
        del graph.value_info[:]
        return self._out

    def _cast_node(self, node: onnx.NodeProto, slots: Slots) -> None:
        graph = self._out.graph
        half = onnx.NodeProto()
        half.CopyFrom(node)
        for at in slots.inputs:
            half.input[at] = self._as_half(node.input[at])
        for at in slots.outputs:
            half.output[at] = node.output[at] + HALF + ("_exact" if self._rounded else "")
        graph.node.append(half)
        for at in slots.outputs:
            name = node.output[at]
            self._there.add(name + HALF)
            if self._rounded:
                self._round(half.output[at], name + HALF)
            if name in self._wide:
                to = TensorProto.FLOAT
                graph.node.append(_cast(name + HALF, name, to, "back"))

    def _as_half(self, name: str) -> str:
        made = name + HALF
        if made in self._there:
            return made
        self._there.add(made)
        weight = self._weights.get(name)
        if weight is None and self._rounded:
            self._round(name, made)
        elif weight is None:
            self._out.graph.node.append(_cast(name, made, self._plan.half.number, "half"))
        else:
            values = self._plan.half.rounded(numpy_helper.to_array(weight))
            values = values.astype(np.float32) if self._rounded else values
            self._out.graph.initializer.append(numpy_helper.from_array(values, made))
        return made

    def _round(self, name: str, made: str) -> None:
        half = f"{made}_stored"
        self._out.graph.node.append(_cast(name, half, self._plan.half.number, "store"))
        self._out.graph.node.append(_cast(half, made, TensorProto.FLOAT, "load"))


def _cast(name: str, made: str, to: int, what: str) -> onnx.NodeProto:
    return helper.make_node("Cast", [name], [made], name=f"{made}_{what}", to=to)


def _captured(node: onnx.NodeProto) -> Iterator[str]:
    """Yield the names that the graphs inside a node may read from around it."""
    for row in node.attribute:
        for graph in [row.g] if row.HasField("g") else list(row.graphs):
            yield from (output.name for output in graph.output)
            for inner in graph.node:
                yield from inner.input
                yield from _captured(inner)
