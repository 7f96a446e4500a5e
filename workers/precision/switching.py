"""One model in which each quantization can be switched off: what a layer costs needs no other.

The model is the quantized one. Around each pair of Q and DQ stands an ``If``: where its switch is
on, the pair rounds; where it is off, the tensor passes as it is. With all switches on the model
computes what the quantized one does, with none what the original does. Nothing here knows which
tool wrote the pairs.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

from workers.backends.base import Array

SWITCHES = "_switches"
NOISE, POWER = "_noise", "_power"
_STORE, _LOAD = "QuantizeLinear", "DequantizeLinear"


@dataclass
class Pair:
    """One quantization: ``source`` is rounded by ``nodes``, and read as ``result``.

    ``layers``: the nodes whose cost it is. ``part``: ``weight``, ``input`` or ``output`` of them.
    """

    source: str
    result: str
    nodes: list[onnx.NodeProto]
    part: str
    layers: list[str] = field(default_factory=list)


def pairs_of(plain: onnx.GraphProto, made: onnx.GraphProto, layers: Sequence[str]) -> list[Pair]:
    """Return the quantizations of a graph, in order, and whose cost each of them is.

    ``plain`` is what ``made`` was written from; nodes have the same names in both, and ``layers``
    names those that compute in int8. What no layer reads is the cost of the layer that wrote it.
    """
    maker = {name: node for node in made.node for name in node.output}
    before = {node.name: node for node in plain.node}
    weights = {row.name for row in plain.initializer}
    readers = _readers(made)
    found = []
    for load in made.node:
        if load.op_type != _LOAD:
            continue
        store = maker.get(load.input[0])
        read = readers.get(load.output[0], [])
        mine = [node.name for node, _ in read if node.name in layers]
        source = _source(store, read, before)
        if source is None:
            continue
        nodes = [load] if store is None else [store, load]
        part = "weight" if source in weights else "input"
        if not mine:
            part = "output"
            mine = [node.name for node in _above(source, maker) if node.name in layers]
        found.append(Pair(source, load.output[0], nodes, part, sorted(set(mine))))
    return found


def _readers(graph: onnx.GraphProto) -> dict[str, list[tuple[onnx.NodeProto, int]]]:
    found: dict[str, list[tuple[onnx.NodeProto, int]]] = {}
    for node in graph.node:
        for at, name in enumerate(node.input):
            found.setdefault(name, []).append((node, at))
    return found


def _source(
    store: onnx.NodeProto | None,
    read: Sequence[tuple[onnx.NodeProto, int]],
    before: Mapping[str, onnx.NodeProto],
) -> str | None:
    """Return the tensor that a pair rounds; of a stored weight its name in the original."""
    if store is not None:
        return str(store.input[0]) if store.op_type == _STORE else None
    for node, at in read:
        known = before.get(node.name)
        if known is not None and at < len(known.input):
            return str(known.input[at])
    return None


def _above(name: str, maker: Mapping[str, onnx.NodeProto]) -> Iterator[onnx.NodeProto]:
    node = maker.get(name)
    if node is not None:
        yield node


def switched(
    plain: onnx.ModelProto, made: onnx.ModelProto, pairs: Sequence[Pair]
) -> onnx.ModelProto:
    """Return the quantized model with one switch for each pair, all in the input ``SWITCHES``."""
    out, graph = _without_pairs(plain, made, pairs)
    count = len(pairs)
    graph.input.append(helper.make_tensor_value_info(SWITCHES, TensorProto.BOOL, [count]))
    ways: dict[str, list[onnx.NodeProto]] = {}
    for number, pair in enumerate(pairs):
        ways[pair.result] = _switch(number, pair)
        place = numpy_helper.from_array(_whole(number), f"_place_{number}")
        graph.initializer.append(place)
    _put_back(graph, made.graph, pairs, ways)
    return out


def watched(
    plain: onnx.ModelProto, made: onnx.ModelProto, pairs: Sequence[Pair]
) -> onnx.ModelProto:
    """Return the original with the noise and the power of each pair as outputs, as sums of squares.

    The tensors are those of the original: none carries the noise of another.
    """
    out, graph = _without_pairs(plain, made, pairs)
    ways: dict[str, list[onnx.NodeProto]] = {}
    for number, pair in enumerate(pairs):
        nodes, rounded = _copied(pair, f"_watch_{number}")
        noise, power, lost = f"{NOISE}_{number}", f"{POWER}_{number}", f"_lost_{number}"
        ways[pair.result] = [
            *nodes,
            helper.make_node("Sub", [pair.source, rounded], [lost]),
            helper.make_node("ReduceSumSquare", [lost], [noise], keepdims=0),
            helper.make_node("ReduceSumSquare", [pair.source], [power], keepdims=0),
            helper.make_node("Identity", [pair.source], [pair.result]),
        ]
        graph.output.extend(onnx.ValueInfoProto(name=name) for name in (noise, power))
    _put_back(graph, made.graph, pairs, ways)
    return out


def _whole(number: int) -> Array:
    return np.asarray(number, np.int64)


def _without_pairs(
    plain: onnx.ModelProto, made: onnx.ModelProto, pairs: Sequence[Pair]
) -> tuple[onnx.ModelProto, onnx.GraphProto]:
    """Return a copy of the quantized model without nodes, but with the weights as they came."""
    out = onnx.ModelProto()
    out.CopyFrom(made)
    graph = out.graph
    del graph.node[:]
    del graph.value_info[:]
    there = {row.name for row in graph.initializer}
    wanted = {pair.source for pair in pairs} - there
    graph.initializer.extend(row for row in plain.graph.initializer if row.name in wanted)
    return out, graph


def _put_back(
    graph: onnx.GraphProto,
    made: onnx.GraphProto,
    pairs: Sequence[Pair],
    ways: Mapping[str, Sequence[onnx.NodeProto]],
) -> None:
    """Add the nodes of the quantized model, with the given ones where a pair stood."""
    gone = {node.output[0] for pair in pairs for node in pair.nodes}
    for node in made.node:
        if node.output and node.output[0] in ways:
            graph.node.extend(ways[node.output[0]])
        elif not node.output or node.output[0] not in gone:
            graph.node.append(node)


def _copied(pair: Pair, suffix: str) -> tuple[list[onnx.NodeProto], str]:
    """Return copies of a pair's nodes, and the name of what they make."""
    nodes = []
    for node in pair.nodes:
        copy = onnx.NodeProto()
        copy.CopyFrom(node)
        copy.name = f"{node.name}{suffix}"
        copy.output[0] = f"{node.output[0]}{suffix}"
        nodes.append(copy)
    if len(nodes) > 1:
        nodes[1].input[0] = nodes[0].output[0]
    return nodes, nodes[-1].output[0]


def _switch(number: int, pair: Pair) -> list[onnx.NodeProto]:
    nodes, rounded = _copied(pair, f"_on_{number}")
    passed = f"{pair.result}_off_{number}"
    on = helper.make_graph(nodes, f"on_{number}", [], [_float(rounded)])
    through = helper.make_node("Identity", [pair.source], [passed])
    off = helper.make_graph([through], f"off_{number}", [], [_float(passed)])
    switch = f"_switch_{number}"
    return [
        helper.make_node("Gather", [SWITCHES, f"_place_{number}"], [switch], axis=0),
        helper.make_node("If", [switch], [pair.result], then_branch=on, else_branch=off),
    ]


def _float(name: str) -> onnx.ValueInfoProto:
    return helper.make_tensor_value_info(name, TensorProto.FLOAT, None)
