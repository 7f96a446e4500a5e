"""Types that ONNX's schemas do not allow: what an operator takes, what must be alike, what is told.

The ONNX checker does not look at types. ONNX Runtime refuses such a model; what a compiler makes of
it is not known, so that for others most of it is a warning.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import NamedTuple

from enginefarm.counted import counted
from enginefarm.finding import Finding, Severity, at_nodes, error_finding, shown
from enginefarm.preflight.dtypes import TypedNode, bindings
from enginefarm.preflight.names import words
from enginefarm.preflight.rules.grouping import MOST_FAULTS, grouped
from enginefarm.preflight.subject import Rule, Subject
from enginefarm.preflight.tables.onnx_schemas import NEWEST_OPSET, Parameter, Schema, schema_of
from enginefarm.views import TensorView

_ALIKE = words("Add Concat Conv Div Gemm MatMul Max Min Mul Sub Sum")
"""Of these no compiler either takes operands of two types."""
_DECLARED = frozenset({"Constant"})
"""What becomes a weight before anybody looks at what it was declared to be."""
_MOST_TOLD = 8


class _Fault(NamedTuple):
    """What is wrong with a node, in words that are the same for every node with that fault."""

    code: str
    message: str
    why: str
    fix: str = "Insert a Cast at export."
    everywhere: bool = False


def mistyped(subject: Subject) -> Iterator[Finding]:
    """Nodes whose inputs or outputs are of types that cannot be."""
    opset, functions = subject.facts.opset, subject.facts.functions
    known = (
        (row, schema)
        for row in subject.typed_nodes
        if 0 < opset <= NEWEST_OPSET and not row.node.domain and ("", row.node.op) not in functions
        for schema in [schema_of(row.node.op, opset)]
        if schema is not None
    )
    found_all = (
        ((fault, row.node.op), row.node.label)
        for row, schema in known
        for look in (_taken, _mixed, _made, _branches)
        for fault in look(row, schema)
    )
    faults = grouped(found_all, most=MOST_FAULTS)
    for (fault, op), labels in faults.items():
        found = error_finding(fault.code, fault.message, why=fault.why, fix=fault.fix)
        if not fault.everywhere and not subject.capabilities.types_by_schema:
            why = f"{fault.why} ONNX Runtime refuses it; this compiler decides for itself."
            found = found.model_copy(update={"severity": Severity.WARNING, "why": why})
        yield at_nodes(found, labels, op)


def _taken(row: TypedNode, schema: Schema) -> Iterator[_Fault]:
    """Inputs of a type that the operator does not take."""
    for number, kind in enumerate(row.given):
        place = schema.inputs.at(number)
        if place is None or not kind:
            continue
        allowed = _allowed(place, schema)
        if not _fits(kind, allowed):
            yield _Fault(
                "unsupported_data_type",
                f"{row.node.op} takes no {kind} as its input {number + 1}.",
                f"As of opset {schema.since} it takes {_listed(allowed)}.",
            )


def _mixed(row: TypedNode, schema: Schema) -> Iterator[_Fault]:
    """Inputs that must be of one type and are of several."""
    bound = bindings(schema.inputs, row.given)
    kinds: dict[str, set[str]] = {}
    for number, kind in enumerate(row.given):
        place = schema.inputs.at(number)
        if place is not None and place.alike and kind and place.type in schema.types:
            kinds.setdefault(place.type, {bound[place.type]}).add(kind)
    for several in kinds.values():
        if len(several) > 1 and not any("(" in kind for kind in several):
            yield _Fault(
                "mixed_types",
                f"{row.node.op} mixes {' and '.join(sorted(several))}.",
                "Types are taken strictly as the model says.",
                everywhere=row.node.op in _ALIKE,
            )


def _made(row: TypedNode, schema: Schema) -> Iterator[_Fault]:
    """Outputs that are declared as another type than the operator gives."""
    for number, (made, said) in enumerate(zip(row.made, row.said, strict=True)):
        place = schema.outputs.at(number)
        if not said or place is None or row.node.op in _DECLARED:
            continue
        if made and said != made and "(" not in made + said:
            yield _Fault(
                "mixed_types",
                f"{row.node.op} makes {made}, and the file declares it as {said}.",
                "Types are taken strictly as the model says.",
                "Declare what is made, or insert a Cast at export.",
            )
        elif not made and not _fits(said, _allowed(place, schema)):
            yield _Fault(
                "unsupported_data_type",
                f"{row.node.op} gives no {said}, as which its output is declared.",
                f"As of opset {schema.since} it gives {_listed(_allowed(place, schema))}.",
            )


def _branches(row: TypedNode, _schema: Schema) -> Iterator[_Fault]:
    """Branches that give different types, and graphs that take or give another number of them."""
    fix = "Export the model again; its graphs must agree with the node that holds them."
    look = _GRAPHS.get(row.node.op)
    for said in look(row) if look is not None else ():
        yield _Fault("invalid_graph", said, "", fix)


def _of_if(row: TypedNode) -> Iterator[str]:
    one, other = (row.branches.get(name, ()) for name in ("then_branch", "else_branch"))
    count = len(row.node.outputs)
    for name, found in row.branches.items():
        if len(found) != count:
            yield f"The {name} of an If gives {len(found)}, and the If {counted(count, 'output')}."
    for first, second in zip(one, other, strict=False):
        if first and second and first != second:
            yield f"The branches of an If give two types: {first} and {second}."


def _of_loop(row: TypedNode) -> Iterator[str]:
    body = row.node.graphs.get("body")
    if body is None:
        return
    goes_in, comes_out = max(len(row.node.inputs), 2), len(row.node.outputs) + 1
    if len(body.inputs) != goes_in:
        yield f"The body of a Loop takes {len(body.inputs)}, and is given {goes_in}."
    if len(body.outputs) != comes_out:
        yield f"The body of a Loop gives {len(body.outputs)}, and {comes_out} are to be had."
    yield from _carried("Loop", row.given[2:], body.inputs[2:])


def _carried(op: str, given: Sequence[str], taken: Sequence[TensorView]) -> Iterator[str]:
    """Say which types go into a body that takes others."""
    for kind, view in zip(given, taken, strict=False):
        if kind and view.dtype not in {kind, "undefined"} and "(" not in kind + view.dtype:
            yield f"The body of a {op} takes {view.dtype} as {shown(view.name)}, and gets {kind}."


def _of_scan(row: TypedNode) -> Iterator[str]:
    body = row.node.graphs.get("body")
    if body is None:
        return
    if len(body.outputs) != len(row.node.outputs):
        yield (
            f"The body of a Scan gives {len(body.outputs)}, and the Scan has"
            f" {counted(len(row.node.outputs), 'output')}."
        )
    lengths = len(row.given) - len(body.inputs)  # before opset 9 an input told the lengths
    if lengths in {0, 1}:
        yield from _carried("Scan", row.given[lengths:], body.inputs)


_GRAPHS: dict[str, Callable[[TypedNode], Iterable[str]]] = {
    "If": _of_if,
    "Loop": _of_loop,
    "Scan": _of_scan,
}


def _allowed(place: Parameter, schema: Schema) -> frozenset[str]:
    return schema.types.get(place.type, frozenset({place.type}))


def _fits(kind: str, allowed: frozenset[str]) -> bool:
    """Tell whether a type may stand there; of sequences only that they are none of a tensor's."""
    return kind in allowed or ("(" in kind and any("(" in each for each in allowed))


def _listed(kinds: Iterable[str]) -> str:
    names: Sequence[str] = sorted(kinds)
    more = f" and {len(names) - _MOST_TOLD} more" if len(names) > _MOST_TOLD else ""
    return f"{', '.join(map(shown, names[:_MOST_TOLD]))}{more}"


RULES: tuple[Rule, ...] = (mistyped,)
