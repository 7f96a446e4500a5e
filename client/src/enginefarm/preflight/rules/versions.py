"""Operator sets and IR versions that a backend does not know."""

from __future__ import annotations

from collections.abc import Iterator

from enginefarm.finding import Finding
from enginefarm.preflight.rules.grouping import refusal
from enginefarm.preflight.subject import Rule, Subject


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
    """A backend refuses files in a format that came after it."""
    table, version = subject.capabilities, subject.facts.scan.ir_version
    if table.newest_ir is not None and version > table.newest_ir:
        yield refusal(
            subject,
            "unsupported_ir_version",
            f"The model has IR version {version}; {table.label} knows {table.newest_ir}.",
            fix=f"Save the model with IR version {table.newest_ir} or older.",
        )


RULES: tuple[Rule, ...] = (newest_opset, newest_ir)
