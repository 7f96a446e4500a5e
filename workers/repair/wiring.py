"""Who makes and who reads each tensor of a graph, and how to put other nodes in a node's place."""

from __future__ import annotations

import onnx
from onnx import numpy_helper

from workers.backends.base import Array
from workers.repair.base import NotApplied
from workers.repair.branches import names


class Wiring:
    """The outer graph of a model; changes are gathered and written at the end."""

    def __init__(self, graph: onnx.GraphProto) -> None:
        """Look at every node once."""
        self._graph = graph
        self._makers = {name: node for node in graph.node for name in node.output if name}
        self._readers: dict[str, list[onnx.NodeProto]] = {}
        for node in graph.node:
            for name in dict.fromkeys(node.input):
                self._readers.setdefault(name, []).append(node)
        self._weights = {tensor.name: tensor for tensor in graph.initializer}
        self._names = names(graph)
        self._outputs = {value.name for value in graph.output}
        self._instead: dict[int, list[onnx.NodeProto]] = {}
        self._first: list[onnx.NodeProto] = []

    def maker(self, name: str) -> onnx.NodeProto | None:
        """Return the node that makes a tensor; None for inputs and weights."""
        return self._makers.get(name)

    def readers(self, name: str) -> list[onnx.NodeProto]:
        """Return the nodes that read a tensor."""
        return self._readers.get(name, [])

    def only_reader(self, name: str) -> onnx.NodeProto:
        """Return the one node that reads a tensor.

        Raises:
            NotApplied: several do, or none, or the tensor is an output.
        """
        found = self.readers(name)
        if len(found) != 1 or name in self._outputs:
            raise NotApplied(f"{name} is read by {len(found)} nodes instead of one")
        return found[0]

    def value(self, name: str) -> Array | None:
        """Return a weight, or what a Constant holds."""
        tensor = self._weights.get(name)
        maker = self._makers.get(name)
        if tensor is None and maker is not None and maker.op_type == "Constant":
            tensor = next((a.t for a in maker.attribute if a.name == "value"), None)
        if tensor is None or tensor.data_location == onnx.TensorProto.EXTERNAL:
            return None
        return numpy_helper.to_array(tensor)

    def fresh(self, name: str) -> str:
        """Return a name that nothing has yet."""
        goal, number = name, 1
        while goal in self._names:
            number += 1
            goal = f"{name}_{number}"
        self._names.add(goal)
        return goal

    def constant(self, name: str, value: Array) -> str:
        """Add a weight; return its name."""
        goal = self.fresh(name)
        self._graph.initializer.append(numpy_helper.from_array(value, goal))
        return goal

    def prepend(self, node: onnx.NodeProto) -> None:
        """Add a node that reads nothing but inputs and weights."""
        self._first.append(node)

    def replace(self, node: onnx.NodeProto, made: list[onnx.NodeProto]) -> None:
        """Let other nodes stand where one stands."""
        self._instead[id(node)] = made

    def write(self) -> None:
        """Write the nodes anew, with what was put in their places."""
        rows = [*self._first]
        for node in self._graph.node:
            rows += self._instead.get(id(node), [node])
        kept = [onnx.NodeProto.FromString(row.SerializeToString()) for row in rows]
        del self._graph.node[:]
        self._graph.node.extend(kept)
