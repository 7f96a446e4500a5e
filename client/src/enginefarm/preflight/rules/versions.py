"""Operator sets and IR versions that a backend does not know."""

from __future__ import annotations

from collections.abc import Iterator

from enginefarm.finding import Finding, at_nodes, error_finding
from enginefarm.preflight.names import words
from enginefarm.preflight.rules.grouping import refusal
from enginefarm.preflight.subject import Rule, Subject
from enginefarm.preflight.tables.onnx_schemas import NEWEST_OPSET, table

_BROADCASTS_BY_SHAPE = 7
_BROADCAST_BY_ATTRIBUTE = words("Add And Div Equal Gemm Greater Less Mul Or Pow Sub Xor")


def newest_opset(subject: Subject) -> Iterator[Finding]:
    """A backend refuses operator sets that came after it."""
    table, opset = subject.capabilities, subject.facts.opset
    if table.newest_opset is not None and opset > table.newest_opset:
        yield refusal(
            subject,
            "unsupported_opset",
            f"The model uses ai.onnx {opset}; {table.label} knows {table.newest_opset}.",
            where="ai.onnx",
            fix=f"Export with opset {table.newest_opset} or older.",
        )


def newest_ir(subject: Subject) -> Iterator[Finding]:
    """The ONNX checker refuses files in a format that came after it; a repair lowers some."""
    version, newest = subject.facts.scan.ir_version, table().newest_ir
    mended = subject.repairs_follow and subject.facts.opset <= NEWEST_OPSET
    if version > newest and not mended:
        yield error_finding(
            "unsupported_ir_version",
            f"The model has IR version {version}; ONNX here knows {newest}.",
            fix=f"Save the model with IR version {newest} or older.",
        )


def old_broadcast(subject: Subject) -> Iterator[Finding]:
    """Before opset 7 an attribute said how to broadcast; no runtime here computes that."""
    opset = subject.facts.opset
    if opset >= _BROADCASTS_BY_SHAPE:
        return
    found = [
        node
        for node in subject.facts.graph.every_node()
        if not node.domain and node.op in _BROADCAST_BY_ATTRIBUTE and node.whole("broadcast", 0)
    ]
    if found:
        yield at_nodes(
            refusal(
                subject,
                "unsupported_opset",
                f"In opset {opset} the operator {found[0].op} broadcasts by an attribute.",
                why="No runtime here computes that, so that no repair of it could be proven.",
                fix="Convert it: onnx.version_converter.convert_version(model, 13). Compare the two"
                " where it was made.",
            ),
            [node.label for node in found],
            found[0].op,
        )


RULES: tuple[Rule, ...] = (newest_opset, newest_ir, old_broadcast)
