"""Precisions that an architecture does not have: fp8 on sm_86, bf16 on sm_75, and the like."""

from __future__ import annotations

from collections.abc import Iterator

from enginefarm.finding import Finding, at_nodes, at_tensors
from enginefarm.preflight.facts import NodeFacts
from enginefarm.preflight.names import words
from enginefarm.preflight.rules.grouping import grouped, refusal
from enginefarm.preflight.subject import Rule, Subject

_GEMMS = words("Attention GRU Gemm LSTM MatMul RNN")


def types_of_architecture(subject: Subject) -> Iterator[Finding]:
    """Number types that need a newer GPU than the target's."""
    table = subject.capabilities
    kinds = subject.types | {tensor.name: tensor.dtype for tensor in subject.facts.weights()}
    found = grouped(
        ((arch, kind), name)
        for arch in subject.target.archs
        for name, kind in kinds.items()
        if kind in table.types_by_arch and arch not in table.types_by_arch[kind]
    )
    for (arch, kind), names in found.items():
        able = ", ".join(sorted(table.types_by_arch[kind], key=_number))
        yield at_tensors(
            refusal(
                subject,
                "precision_not_on_architecture",
                f"{arch} has no {kind}; {table.label} builds it for {able}.",
                fix=f"Choose one of {able}, or another precision."
                if not subject.target.beside
                else f"Leave {arch} out of the target, or choose another precision.",
            ),
            names,
        )


def _number(arch: str) -> int:
    return int(arch.removeprefix("sm_"))


def fp32_matrices(subject: Subject) -> Iterator[Finding]:
    """Matrix products in fp32 where the compiler has them only in fp16 and int8."""
    table = subject.capabilities
    without = [arch for arch in subject.target.archs if arch in table.no_fp32_gemm]
    if not without:
        return
    labels = [
        node.label
        for node in subject.facts.graph.every_node()
        if not node.domain
        and node.op in _GEMMS
        and _single(subject, node)
        and not subject.origins.get(node.outputs[0] if node.outputs else "").constant
    ]
    if labels:
        yield at_nodes(
            refusal(
                subject,
                "precision_not_on_architecture",
                f"{table.label} has no fp32 matrix product for {' and '.join(without)}.",
                fix="Convert the model to fp16, or choose sm_80 or newer.",
            ),
            labels,
        )


def _single(subject: Subject, node: NodeFacts) -> bool:
    kind = subject.types.get(node.given(0), "")
    return subject.capabilities.narrowed_types.get(kind, kind) == "float32"


RULES: tuple[Rule, ...] = (types_of_architecture, fp32_matrices)
