"""Data types that a backend does not know, narrows, or has no kernel for."""

from __future__ import annotations

from collections.abc import Iterator

from enginefarm.finding import Finding, at_nodes, at_tensors, note_finding
from enginefarm.onnx_types import dtype_name
from enginefarm.preflight.facts import ModelFacts, NodeFacts
from enginefarm.preflight.rules.grouping import grouped, refusal
from enginefarm.preflight.subject import Rule, Subject
from enginefarm.preflight.tables.onnx_schemas import schema_of

_CAST = (
    "Cast it at export to a type that every runtime has (float32, int32), and keep text processing"
)
_FIX = f"{_CAST} out of the model."

_RAISED = 7
"""A repair raises older opsets."""


def _used_weights(facts: ModelFacts) -> set[str]:
    return {name for node in facts.graph.every_node() for name in node.inputs} | {
        row.name for row in facts.graph.outputs
    }


def refused_types(subject: Subject) -> Iterator[Finding]:
    """Tensors and weights of a type that may stand nowhere in a model for this backend."""
    table, facts = subject.capabilities, subject.facts
    used = _used_weights(facts)
    weights = {tensor.name: tensor.dtype for tensor in facts.weights() if tensor.name in used}
    found = grouped(
        (kind, name)
        for name, kind in subject.types.items()
        if name not in weights and _refused(kind, table.refused_types)
    )
    for kind, names in found.items():
        yield at_tensors(
            refusal(
                subject,
                "unsupported_data_type",
                f"{table.label} does not know the type {kind}.",
                fix=_FIX,
            ),
            names,
        )
    for kind, names in grouped(
        (kind, name) for name, kind in weights.items() if kind in table.refused_types
    ).items():
        yield at_tensors(
            refusal(
                subject,
                "unsupported_initializer",
                f"{table.label} cannot read weights of the type {kind}.",
                fix="Cast the weight at export.",
            ),
            names,
        )


def _refused(kind: str, refused: frozenset[str]) -> bool:
    """Tell whether a type is refused; sequences, maps and optionals go with texts."""
    return kind in refused or ("(" in kind and "string" in refused)


def casts_to_refused(subject: Subject) -> Iterator[Finding]:
    """Casts to types that only quantization may make."""
    table = subject.capabilities
    casts = grouped(
        (kind, node.label)
        for node in subject.facts.graph.every_node()
        if node.op in {"Cast", "CastLike"} and not node.domain
        for kind in [_goal(subject, node), subject.types.get(node.given(0), "")]
        if kind in table.cast_only_types
    )
    for kind, labels in casts.items():
        yield at_nodes(
            refusal(
                subject,
                "unsupported_data_type",
                f"{table.label} has no Cast from or to {kind}.",
                why="Only QuantizeLinear and DequantizeLinear make and take such numbers.",
                fix="Use QuantizeLinear or DequantizeLinear in place of the Cast.",
            ),
            labels,
            "Cast",
        )


def _goal(subject: Subject, node: NodeFacts) -> str:
    if node.op == "CastLike":
        return subject.types.get(node.given(1), "")
    return dtype_name(node.whole("to", 0))


def no_kernel(subject: Subject) -> Iterator[Finding]:
    """Operators that are there, but not for the type that they are given."""
    table = subject.capabilities
    if subject.target.arch != "cpu" and table.label == "ONNX Runtime":
        return  # the table is of its kernels for processors
    found = grouped(
        ((row.node.op, kind), row.node.label)
        for row in subject.typed_nodes
        if not row.node.domain and ("", row.node.op) not in subject.facts.functions
        for kind in [next(iter(row.given[row.node.op == "Where" :]), "")]
        if row.node.op in table.no_kernel.get(kind, ()) or _lacks(subject, row.node, kind)
    )
    for (op, kind), labels in found.items():
        yield at_nodes(
            refusal(
                subject,
                "unsupported_operator",
                f"{table.label} has no operator {op} for the type {kind}.",
                fix="Cast to float32 around it, or choose another target.",
            ),
            labels,
            op,
        )


def _lacks(subject: Subject, node: NodeFacts, kind: str) -> bool:
    """Tell whether the version of an operator that the model imports is lacking for a type."""
    opset = subject.facts.opset
    schema = schema_of(node.op, opset)
    if schema is None or (subject.repairs_follow and opset < _RAISED):
        return False
    if node.whole("broadcast", 0):
        return False  # that has a finding of its own
    return f"{node.op}-{schema.since}" in subject.capabilities.no_form.get(kind, ())


def narrowed_types(subject: Subject) -> Iterator[Finding]:
    """Types that are taken and computed with less."""
    table = subject.capabilities
    found = grouped(
        (kind, name) for name, kind in subject.types.items() if kind in table.narrowed_types
    )
    for kind, names in found.items():
        less = table.narrowed_types[kind]
        yield at_tensors(
            note_finding(
                "type_narrowed",
                f"{table.label} computes {kind} as {less}, and gives such outputs as {less}.",
                fix=f"Cast to {less} at export where that is enough, so that it is the same"
                " everywhere.",
            ),
            names,
        )


RULES: tuple[Rule, ...] = (refused_types, casts_to_refused, no_kernel, narrowed_types)
