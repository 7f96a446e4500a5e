"""Operators that ONNX or a backend lacks, in ONNX's own domain and in others."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from enginefarm.finding import (
    Finding,
    at_nodes,
    error_finding,
    listed,
    note_finding,
    shown,
    warning_finding,
)
from enginefarm.nearest import did_you_mean, near
from enginefarm.plugins import TAKES_PLUGINS
from enginefarm.preflight.facts import NodeFacts
from enginefarm.preflight.origins import DATA_DEPENDENT
from enginefarm.preflight.rules.grouping import grouped, refusal
from enginefarm.preflight.subject import Rule, Subject
from enginefarm.preflight.tables.onnx_schemas import NEWEST_OPSET, OPERATORS
from enginefarm.repairs import WRITTEN_OUT

_WITHOUT = "Export without it, or rewrite it with standard operators."
_OR_PLUGIN = f"{_WITHOUT} Or name a plugin that has it, if the farm's operator installs one."
_BEHIND = "Move the step (NMS, NonZero, …) behind the model."
_QUANTIZED = "Submit with --allow restore-float, or send the float model that it was made from."
_FIXES = {
    **dict.fromkeys(DATA_DEPENDENT, _BEHIND),
    **dict.fromkeys(
        ("ConvInteger", "DynamicQuantizeLinear", "MatMulInteger", "QLinearConv", "QLinearMatMul"),
        _QUANTIZED,
    ),
    "AffineGrid": "ONNX defines it by operators, and runtimes do not take what comes of that, so no"
    " repair writes it out: compute the grid outside of the model, or export it as MatMul.",
    "TfIdfVectorizer": "Keep text processing out of the model.",
}
_NEVER = 1 << 30
_GUESSED = 10
_NAMED = 50
"""So many unknown operators have a finding each; the names of all others stand in one."""
_NONE = frozenset[str]()
_FRAGILE = frozenset({"Attention"})


def _used(subject: Subject) -> dict[tuple[str, str], list[NodeFacts]]:
    """Return the nodes by operator, but for operators that the model defines itself."""
    own = subject.facts.functions
    nodes = subject.facts.graph.every_node()
    return grouped(((n.domain, n.op), n) for n in nodes if (n.domain, n.op) not in own)


def unknown_operators(subject: Subject) -> Iterator[Finding]:
    """Operators that stand in ONNX's own domain and that ONNX does not have, for any target."""
    nodes = _used(subject)
    named = {op for domain, op in nodes if not domain} | subject.facts.scan.op_types.keys()
    unknown = sorted(op for op in named if _is_unknown(subject, op))
    if subject.left_to_plugins(""):
        yield from _of_plugins(subject, [("", op, _labels(nodes, op)) for op in unknown])
        return
    if more := unknown[_NAMED:]:
        message = f"ONNX has none of {len(more)} more operators."
        yield error_finding(
            "unsupported_operator", message, where=listed(more, "operators"), fix=_WITHOUT
        )
    for number, op in enumerate(unknown[:_NAMED]):
        # A guess takes a while, and a hostile model may have as many names as nodes.
        guesses = near(op, OPERATORS) if number < _GUESSED else []
        found = error_finding(
            "unsupported_operator",
            f"ONNX has no operator {shown(op)}.",
            why=f"It is named without a domain of its own, and no opset up to {NEWEST_OPSET} has "
            "it; the ONNX checker refuses such a model for every target.",
            fix=f"{did_you_mean(op, guesses)} {_WITHOUT}" if guesses else _WITHOUT,
        )
        labels = _labels(nodes, op)
        if labels:
            yield at_nodes(found, labels, op)
        else:
            where = "inside a function of the model"
            yield found.model_copy(update={"operator": shown(op), "where": where})


def _labels(nodes: Mapping[tuple[str, str], list[NodeFacts]], op: str) -> list[str]:
    return [node.label for node in nodes.get(("", op), [])]


def _of_plugins(subject: Subject, rows: Sequence[tuple[str, str, list[str]]]) -> Iterator[Finding]:
    """Say of operators that only a plugin can have that no rule judges them."""
    for domain, op, labels in rows[:_NAMED]:
        named = f"{shown(domain)}::{shown(op)}" if domain else shown(op)
        found = note_finding(
            "operator_of_plugin",
            f"The operator {named} is left to the plugins.",
            why=f"{subject.capabilities.label} has none of that name; with the plugins loaded it"
            " says itself whether one of them has.",
        )
        yield at_nodes(found, labels, op)
    if more := [f"{domain}::{op}" if domain else op for domain, op, _ in rows[_NAMED:]]:
        message = f"{len(more)} more operators are left to the plugins."
        yield note_finding("operator_of_plugin", message, where=listed(more, "operators"))


def _is_unknown(subject: Subject, op: str) -> bool:
    """Tell whether nobody has an operator; what came after the newest opset may well be known."""
    ours = "::" not in op and ("", op) not in subject.facts.functions
    return ours and op not in OPERATORS and subject.facts.opset <= NEWEST_OPSET


def missing_operators(subject: Subject) -> Iterator[Finding]:
    """Operators of ONNX that the backend has no code for, wherever they stand."""
    table = subject.capabilities
    for (domain, op), nodes in _used(subject).items():
        late = subject.facts.opset >= table.missing_from.get(op, _NEVER)
        if domain or _is_unknown(subject, op) or (op not in table.missing and not late):
            continue
        if subject.repairs_follow and op in WRITTEN_OUT:
            yield at_nodes(_written_out(subject, op), [node.label for node in nodes], op)
            continue
        data = op in DATA_DEPENDENT
        found = refusal(
            subject,
            "data_dependent_shape" if data else "unsupported_operator",
            f"{table.label} has no operator {op}{f' of opset {subject.facts.opset}' * late}.",
            why="How large its output is depends on values, which this compiler cannot build."
            if data
            else "",
            fix=_FIXES.get(op, _WITHOUT),
        )
        yield at_nodes(found, [node.label for node in nodes], op)
    yield from _inside_functions(subject)


def _written_out(subject: Subject, op: str) -> Finding:
    return note_finding(
        "operator_written_out",
        f"{subject.capabilities.label} has no operator {op}; a farm writes it out.",
        why="ONNX defines it by operators that the compiler has (repair expand-operators).",
    )


def _inside_functions(subject: Subject) -> Iterator[Finding]:
    """Operators that stand only in functions that the model defines."""
    table = subject.capabilities
    outside = {node.op for node in subject.facts.graph.every_node() if not node.domain}
    for op in sorted(table.missing & (subject.facts.scan.op_types.keys() - outside)):
        if ("", op) not in subject.facts.functions and not _is_unknown(subject, op):
            yield refusal(
                subject,
                "unsupported_operator",
                f"{table.label} has no operator {op}.",
                where="inside a function of the model",
                fix=_FIXES.get(op, _WITHOUT),
            ).model_copy(update={"operator": op})


def other_domains(subject: Subject) -> Iterator[Finding]:
    """Operators of domains that the backend does not have, or only in part."""
    table = subject.capabilities
    foreign = [
        (domain, op, [node.label for node in nodes])
        for (domain, op), nodes in _used(subject).items()
        if domain and (known := table.other_domains.get(domain, _NONE)) is not None
        if op not in known
    ]
    yield from (
        _mistaken(subject, domain, op, labels)
        for domain, op, labels in foreign
        if _is_mistaken(subject, domain, op)
    )
    lacking = [row for row in foreign if not _is_mistaken(subject, *row[:2])]
    if subject.plugins:
        yield from _of_plugins(subject, lacking)
        return
    if more := [f"{domain}::{op}" for domain, op, _ in lacking[_NAMED:]]:
        message = f"{table.label} has none of {len(more)} more operators of other domains."
        where = listed(more, "operators")
        yield refusal(subject, "unsupported_operator", message, where=where, fix=_WITHOUT)
    without = _OR_PLUGIN if subject.target.backend in TAKES_PLUGINS else _WITHOUT
    for domain, op, labels in lacking[:_NAMED]:
        found = refusal(
            subject,
            "unsupported_operator",
            f"{table.label} has no operator {shown(op)}: it is of the domain {shown(domain)}.",
            why="Nodes have only the plugins that their operator has installed, and a build names"
            " those that it needs; none is ever loaded from an upload.",
            fix=_QUANTIZED if domain == "com.microsoft" and _quantized(op) else without,
        )
        yield at_nodes(found, labels, op)


def _is_mistaken(subject: Subject, domain: str, op: str) -> bool:
    """Tell whether a backend takes an operator for ONNX's own, since it looks at its name only."""
    table = subject.capabilities
    elsewhere = table.knows_by_name and domain not in table.other_domains
    return elsewhere and _is_onnx(op, table.missing)


def _mistaken(subject: Subject, domain: str, op: str, labels: list[str]) -> Finding:
    found = warning_finding(
        "operator_mistaken",
        f"{subject.capabilities.label} takes {domain}::{op} for ONNX's own {op}.",
        why="It looks at an operator's name and not at its domain.",
        fix="Compare the engine with the original, or give the operator another name.",
    )
    return at_nodes(found, labels, op)


def _quantized(op: str) -> bool:
    return op.startswith(("QLinear", "DynamicQuantize", "MatMulInteger", "Quantize"))


def _is_onnx(op: str, missing: frozenset[str]) -> bool:
    return op in OPERATORS and op not in missing


def fragile_operators(subject: Subject) -> Iterator[Finding]:
    """Operators that this compiler knows and often fails on."""
    table = subject.capabilities
    for (domain, op), nodes in _used(subject).items():
        if table.label == "TensorRT-RTX" and not domain and op in _FRAGILE:
            yield at_nodes(
                warning_finding(
                    "operator_fragile",
                    f"{table.label} builds few forms of the operator {op}, and may crash on it.",
                    fix="Export with opset 22 or older, which writes it out as MatMul and Softmax.",
                ),
                [node.label for node in nodes],
                op,
            )


RULES: tuple[Rule, ...] = (unknown_operators, missing_operators, other_domains, fragile_operators)
