"""Nodes that ONNX itself does not allow: its schemas, held against every node.

Of counts and attributes the ONNX checker says the same, for every target. Of types it says nothing;
ONNX Runtime refuses such a model, and of a compiler it is not known.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import NamedTuple

from enginefarm.counted import counted
from enginefarm.finding import Finding, at_nodes, error_finding, shown
from enginefarm.nearest import did_you_mean, near
from enginefarm.preflight.facts import NodeFacts
from enginefarm.preflight.rules.grouping import MOST_FAULTS, grouped
from enginefarm.preflight.subject import Rule, Subject
from enginefarm.preflight.tables.onnx_schemas import (
    NEWEST_OPSET,
    OPERATORS,
    Parameters,
    Schema,
    schema_of,
)

_GUESSED = 10
_EXPORT = "Export the model again; onnx.checker.check_model names the place."


class _Fault(NamedTuple):
    """What is wrong with a node, in words that are the same for every node with that fault."""

    code: str
    op: str
    message: str
    why: str = ""
    fix: str = _EXPORT
    misspelt: tuple[str, tuple[str, ...]] = ("", ())
    """A name that is not known, and those that are."""


def _own(subject: Subject) -> Iterator[NodeFacts]:
    """Give the nodes of ONNX's own domain of which the table knows."""
    opset, functions = subject.facts.opset, subject.facts.functions
    if 0 < opset <= NEWEST_OPSET:
        for node in subject.facts.graph.every_node():
            if not node.domain and node.op in OPERATORS and ("", node.op) not in functions:
                yield node


def _told(faults: Iterable[tuple[_Fault, str]]) -> Iterator[Finding]:
    """Return one finding for all nodes with one fault."""
    for number, (fault, labels) in enumerate(grouped(faults, most=MOST_FAULTS).items()):
        name, known = fault.misspelt
        # A guess takes a while, and a hostile model may have as many names as nodes.
        guesses = near(name, known) if name and number < _GUESSED else []
        fix = f"{did_you_mean(name, guesses)} {fault.fix}" if guesses else fault.fix
        found = error_finding(fault.code, fault.message, why=fault.why, fix=fix)
        yield at_nodes(found, labels, fault.op)


def not_of_this_opset(subject: Subject) -> Iterator[Finding]:
    """Operators that came with a later operator set than the model imports, or were gone by it."""
    opset = subject.facts.opset
    yield from _told(
        (fault, node.label)
        for node in _own(subject)
        for fault in _not_of(node.op, schema_of(node.op, opset), opset)
    )


def _not_of(op: str, schema: Schema | None, opset: int) -> Iterator[_Fault]:
    if schema is None:
        since = next(n for n in range(opset, NEWEST_OPSET + 1) if schema_of(op, n) is not None)
        yield _Fault(
            "unsupported_operator",
            op,
            f"ONNX has the operator {op} since opset {since}; the model imports opset {opset}.",
            "An operator is what the imported opset says; in this one there is none of that name.",
            f"Export with opset {since} or newer.",
        )
    elif schema.gone:
        yield _Fault(
            "unsupported_operator",
            op,
            f"ONNX has no operator {op} in opset {opset}.",
            f"It was taken out with opset {schema.since}.",
            "Export with a current exporter, which writes what has taken its place.",
        )


def malformed(subject: Subject) -> Iterator[Finding]:
    """Nodes with too many or too few inputs, outputs or attributes, or with other kinds of them."""
    yield from _told(
        (fault, node.label)
        for node in _own(subject)
        for schema in [schema_of(node.op, subject.facts.opset)]
        if schema is not None and not schema.gone
        for fault in _malformed(node, schema)
    )


def _malformed(node: NodeFacts, schema: Schema) -> Iterator[_Fault]:
    for what, names, allowed in (
        ("input", node.inputs, schema.inputs),
        ("output", node.outputs, schema.outputs),
    ):
        said = _miscounted(what, names, allowed)
        if said:
            yield _Fault("invalid_graph", node.op, f"{node.op} {said}.")
    yield from _attributes(node, schema)


def _miscounted(what: str, names: tuple[str, ...], allowed: Parameters) -> str:
    count = len(names)
    if not allowed.least <= count <= allowed.most:
        verb = "takes" if what == "input" else "gives"
        return f"{verb} {_range(allowed, what)}, and here it has {count}"
    for number, name in enumerate(names):
        row = allowed.at(number)
        # A place of any number may be empty for the checker and for no runtime, but in a Loop.
        if not name and row is not None and not row.optional and row.alike and what == "input":
            return f"must have its {what} {number + 1}, which is left out here"
    return ""


def _range(allowed: Parameters, what: str) -> str:
    if allowed.least == allowed.most:
        return counted(allowed.least, what)
    if allowed.most > NEWEST_OPSET << 1:
        return f"at least {counted(allowed.least, what)}"
    return f"{allowed.least} to {counted(allowed.most, what)}"


def _attributes(node: NodeFacts, schema: Schema) -> Iterator[_Fault]:
    op, forms, seen = node.op, schema.attributes, set[str]()
    for name, kind in node.kinds:
        form, told = forms.get(name), shown(name)
        if name in seen:
            yield _Fault("invalid_graph", op, f"{op} has the attribute {told} twice.")
        elif form is None and not name.startswith("__") and not schema.any_attribute:
            since = f"as of opset {schema.since}"
            message = f"{op} has no attribute {told} {since}."
            yield _Fault("unsupported_attribute", op, message, misspelt=(name, tuple(forms)))
        elif form is not None and form.kind != kind:
            message = (
                f"The attribute {told} of {op} is {_one(kind)} and should be {_one(form.kind)}."
            )
            yield _Fault("unsupported_attribute", op, message)
        seen.add(name)
    if op == "Constant" and len(node.kinds) != 1:
        yield _Fault("invalid_graph", op, f"Constant has {len(node.kinds)} values instead of one.")
    for name, form in forms.items():
        if form.required and name not in seen:
            yield _Fault(
                "invalid_graph", op, f"{op} lacks the attribute {name}, which it must have."
            )


def _one(kind: str) -> str:
    words = {
        "int": "a whole number",
        "float": "a float",
        "string": "a text",
        "undefined": "of no kind",
    }
    if kind in words:
        return words[kind]
    return f"a list of {kind}" if kind.endswith("s") else f"a {kind.replace('_', ' ')}"


RULES: tuple[Rule, ...] = (not_of_this_opset, malformed)
