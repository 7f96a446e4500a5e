"""On what a tensor's values and sizes depend: on weights only, on inputs' sizes, on values. Pure.

A compiler may fold what depends on nothing, and needs a profile for what depends on sizes. What
sizes the values of an input decide, no profile of shapes can tell.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import NamedTuple

from enginefarm.preflight.facts import GraphFacts, NodeFacts
from enginefarm.preflight.names import words
from enginefarm.profile import dynamic_inputs
from enginefarm.views import TensorView

_Names = frozenset[str]
NOTHING: _Names = frozenset()
_SIZES, _VALUES, _DATA = "sizes:", "values:", "data:"
# What compilers compute on the host while they look for shapes. Anything else is data to them.
_ON_THE_HOST = words(
    "Abs Add Cast Ceil Concat Div Equal Expand Flatten Floor Gather GreaterOrEqual Greater "
    "Identity Less LessOrEqual Max Min Mod Mul Neg Not Pad Range ReduceMax ReduceMin ReduceProd "
    "ReduceSum Reshape Slice Split Squeeze Sub Tile Transpose Unsqueeze Where"
)
# Which inputs of an operator say what shape the output has.
SHAPE_INPUTS: dict[str, tuple[int, ...]] = {
    "AffineGrid": (1,),
    "ConstantOfShape": (0,),
    "Expand": (1,),
    "OneHot": (1,),
    "Pad": (1,),
    "Range": (0, 1, 2),
    "Reshape": (1,),
    "Resize": (2, 3),
    "Slice": (1, 2, 3, 4),
    "Split": (1,),
    "Tile": (1,),
    "TopK": (1,),
    "Upsample": (1,),
}
DATA_DEPENDENT = frozenset({"Compress", "NonMaxSuppression", "NonZero", "Unique"})
"""Operators whose output has as many elements as the data says."""


class Origin(NamedTuple):
    """On which inputs a tensor's values and its sizes depend.

    Each is ``sizes:x``, ``values:x``, or ``data:x`` after more than index arithmetic.
    """

    values: _Names = NOTHING
    sizes: _Names = NOTHING

    @property
    def constant(self) -> bool:
        """Whether a compiler knows the values when it builds."""
        return not self.values

    @property
    def static(self) -> bool:
        """Whether a compiler knows the shape when it builds."""
        return not self.sizes


@dataclass(frozen=True)
class Origins:
    """The origin of every tensor of a graph and of the graphs inside it."""

    of: Mapping[str, Origin]
    shape_values: tuple[tuple[NodeFacts, str, Origin], ...]
    """Nodes with the name and origin of an input that says the shape of their output."""

    def get(self, name: str) -> Origin:
        """Return a tensor's origin."""
        return self.of.get(name, Origin())

    def shape_inputs(self) -> dict[str, list[NodeFacts]]:
        """Return the inputs whose values decide shapes, with the nodes at which they do."""
        found: dict[str, list[NodeFacts]] = {}
        for node, _, origin in self.shape_values:
            for each in origin.values:
                if each.startswith(_VALUES):
                    found.setdefault(each.removeprefix(_VALUES), []).append(node)
        return found


def trace(graph: GraphFacts, inputs: Iterable[TensorView], *, fixed: bool = False) -> Origins:
    """Follow a graph from its inputs; with ``fixed``, also sizes that the model fixes count."""
    inputs = list(inputs)
    dynamic = {row.name for row in (inputs if fixed else dynamic_inputs(inputs))}
    of = {
        row.name: Origin(
            frozenset({_VALUES + row.name}),
            frozenset({_SIZES + row.name}) if row.name in dynamic else NOTHING,
        )
        for row in inputs
    }
    shape_values: list[tuple[NodeFacts, str, Origin]] = []
    _walk(graph, of, shape_values)
    return Origins(of, tuple(shape_values))


def _walk(
    graph: GraphFacts, of: dict[str, Origin], found: list[tuple[NodeFacts, str, Origin]]
) -> None:
    for name in graph.weights:
        of[name] = Origin()
    for node in graph.nodes:
        of_inputs = [of.get(name, Origin()) for name in node.inputs if name]
        if node.graphs:
            origin = _through(node, of_inputs, of, found)
        else:
            origin = _of(node, of_inputs, of, found)
        of.update(dict.fromkeys((name for name in node.outputs if name), origin))


def _of(
    node: NodeFacts,
    inputs: list[Origin],
    of: Mapping[str, Origin],
    found: list[tuple[NodeFacts, str, Origin]],
) -> Origin:
    if not node.domain and node.op in {"Shape", "Size"}:
        return Origin(values=_union(origin.sizes for origin in inputs))
    values, sizes = _union(row.values for row in inputs), _union(row.sizes for row in inputs)
    if node.domain:
        return Origin(values, sizes)
    for number in SHAPE_INPUTS.get(node.op, ()):
        name = node.given(number)
        origin = of.get(name, Origin())
        if name and origin.values:
            found.append((node, name, origin))
            sizes |= origin.values
    if node.op in DATA_DEPENDENT:
        sizes |= values
    if node.op not in _ON_THE_HOST:
        values = frozenset(each.replace(_VALUES, _DATA, 1) for each in values)
    return Origin(values, sizes)


def _through(
    node: NodeFacts,
    inputs: list[Origin],
    of: dict[str, Origin],
    found: list[tuple[NodeFacts, str, Origin]],
) -> Origin:
    """Go through the graphs of an If, Loop or Scan: what comes out depends on all that goes in."""
    values, sizes = _union(row.values for row in inputs), _union(row.sizes for row in inputs)
    for inner in node.graphs.values():
        around = dict(of)
        for row in inner.inputs:
            around[row.name] = Origin(values, sizes)
        _walk(inner, around, found)
        values |= _union(around.get(row.name, Origin()).values for row in inner.outputs)
        sizes |= _union(around.get(row.name, Origin()).sizes for row in inner.outputs)
        of.update(around)
    return Origin(values, sizes)


def _union(parts: Iterable[_Names]) -> _Names:
    found: _Names = NOTHING
    for part in parts:
        found |= part
    return found
