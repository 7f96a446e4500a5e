"""Follow sizes through a graph, at one choice of input shapes: what is certain, and what cannot be.

Pure, and careful rather than clever: a shape is known only if every operator before it is one whose
rule is known; else it is unknown, and nothing is said of it. Small whole numbers are followed as
well, for exporters compute shapes inside the graph.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from enginefarm.preflight.facts import GraphFacts, NodeFacts, Number, TensorFacts

Shape = tuple[int, ...]
_MOST_SIZE, _MOST_VALUE = 1 << 40, 1 << 63
"""What is beyond is not followed: a hostile graph could square it in every node."""
MAX_FOLLOWED = 1024
"""Values of tensors with more elements are not followed."""


class Misfit(NamedTuple):
    """A node that cannot take the shapes that reach it."""

    node: NodeFacts
    why: str


class MisfitError(Exception):
    """Raised by a rule for an operator that cannot take its inputs."""


@dataclass
class Known:
    """What is certain of a graph's tensors at one choice of input shapes."""

    opset: int
    shapes: dict[str, Shape] = field(default_factory=dict)
    values: dict[str, tuple[Number, ...]] = field(default_factory=dict)
    misfits: list[Misfit] = field(default_factory=list)

    def shape(self, name: str) -> Shape | None:
        """Return a tensor's shape, or None if it is not certain."""
        return self.shapes.get(name)

    def wholes(self, name: str) -> tuple[int, ...] | None:
        """Return a tensor's values if they are certain and whole numbers."""
        found = self.values.get(name)
        if found is None or any(isinstance(each, float) for each in found):
            return None
        return tuple(int(each) for each in found)

    def inner(self) -> Known:
        """Return a copy for a graph inside a node, which sees all that is outside."""
        return Known(self.opset, dict(self.shapes), dict(self.values))


Rule = Callable[[NodeFacts, Known], Sequence[Shape | None]]


def infer(
    graph: GraphFacts, inputs: Mapping[str, Sequence[int]], opset: int, outer: Known | None = None
) -> Known:
    """Follow the given input shapes through a graph; ``outer`` is known around an inner one."""
    from enginefarm.preflight.shape_ranks import require_ranks
    from enginefarm.preflight.shape_rules import RULES
    from enginefarm.preflight.shape_values import value_of

    known = outer.inner() if outer is not None else Known(opset)
    known.shapes |= {name: tuple(shape) for name, shape in inputs.items()}
    for tensor in graph.weights.values():
        _learn(known, tensor.name, tensor)
    for node in graph.nodes:
        rule = None if node.domain else RULES.get(node.op)
        if node.op == "Constant" and not node.domain:
            _constant(node, known)
        try:
            if not node.domain:
                require_ranks(node, known)
            found = rule(node, known) if rule is not None else ()
        except MisfitError as misfit:
            known.misfits.append(Misfit(node, str(misfit)))
            continue
        except (ArithmeticError, IndexError, ValueError):
            continue  # numbers that make no sense, an infinite scale say: nothing is certain then
        for name, shape in zip(node.outputs, found, strict=False):
            if name and shape is not None and all(size <= _MOST_SIZE for size in shape):
                known.shapes[name] = shape
        value = value_of(node, known)
        if value is not None and node.outputs and _fits(value, known.shape(node.outputs[0])):
            known.values[node.outputs[0]] = value
    return known


def _constant(node: NodeFacts, known: Known) -> None:
    made = GraphFacts(nodes=[node]).constants()
    for name, tensor in made.items():
        _learn(known, name, tensor)


def _learn(known: Known, name: str, tensor: TensorFacts) -> None:
    known.shapes[name] = tensor.shape
    if tensor.values is not None:
        known.values[name] = tensor.values


def _fits(value: tuple[Number, ...], shape: Shape | None) -> bool:
    return (
        shape is not None
        and len(value) == math.prod(shape)
        and len(value) <= MAX_FOLLOWED
        and all(abs(each) <= _MOST_VALUE for each in value if not isinstance(each, float))
    )


def broadcast(shapes: Sequence[Shape | None]) -> Shape | None:
    """Return the common shape of operands.

    Raises:
        MisfitError: two of them have sizes that do not go together.
    """
    known = [shape for shape in shapes if shape is not None]
    if len(known) < len(shapes) or not known:
        return None
    rank = max(map(len, known))
    found: list[int] = []
    for axis in range(-rank, 0):
        sizes = {shape[axis] for shape in known if len(shape) >= -axis}
        wide = sizes - {1}
        if len(wide) > 1:
            told = " and ".join(map(shown, known))
            raise MisfitError(f"{told} do not go together")
        found.append(wide.pop() if wide else 1)
    return tuple(found)


def shown(shape: Sequence[int]) -> str:
    """Return a shape as people write it."""
    return "x".join(map(str, shape)) or "scalar"


def at_axis(axis: int, rank: int) -> int:
    """Return an axis counted from the front.

    Raises:
        MisfitError: there is no such axis.
    """
    if not -rank <= axis < max(rank, 1):
        raise MisfitError(f"there is no axis {axis} in {rank} dimensions")
    return axis % max(rank, 1)
