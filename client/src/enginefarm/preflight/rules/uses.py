"""Uses of an operator that a backend refuses: the table's limits, held against every node."""

from __future__ import annotations

from collections.abc import Iterator

from enginefarm.finding import Finding, at_nodes
from enginefarm.preflight.facts import NodeFacts
from enginefarm.preflight.rules.grouping import grouped, refusal
from enginefarm.preflight.subject import Rule, Subject
from enginefarm.preflight.tables.limits import (
    ConstantInput,
    Limit,
    MostOutputs,
    NeedsAttribute,
    OnlyOnes,
    OnlyValues,
)

_FLOAT_MOD_SINCE = 28
_FIX = "Export it in another form, or choose another backend."


def refused_uses(subject: Subject) -> Iterator[Finding]:
    """An operator that is known, in a form that is not."""
    limits = grouped((limit.op, limit) for limit in subject.capabilities.limits)
    broken = grouped(
        ((node.op, said, code), node)
        for node in subject.facts.graph.every_node()
        if not node.domain
        for limit in limits.get(node.op, ())
        for said, code in _broken(node, limit, subject)
    )
    label = subject.capabilities.label
    for (op, said, code), nodes in broken.items():
        found = refusal(
            subject,
            code,
            f"{label} cannot take operator {op} as it is used here.",
            why=f"It takes {said}.",
            fix=_FIX,
        )
        yield at_nodes(found, [node.label for node in nodes], op)


def _broken(node: NodeFacts, limit: Limit, subject: Subject) -> Iterator[tuple[str, str]]:
    match limit:
        case OnlyValues():
            yield from _value(node, limit)
        case OnlyOnes():
            if set(node.wholes(limit.attribute) or (1,)) != {1}:
                yield f"no {limit.attribute} but 1", "unsupported_attribute"
        case MostOutputs():
            if any(node.outputs[limit.most :]):
                yield f"only {limit.most} of its outputs", "unsupported_operator_use"
        case NeedsAttribute():
            if limit.attribute not in node.attributes:
                yield f"it only with {limit.attribute}", "unsupported_attribute"
        case ConstantInput():
            name = node.given(limit.number)
            if name and not _is_known(subject, name, limit):
                yield f"{limit.what} only as a constant", "unsupported_operator_input"


def _is_known(subject: Subject, name: str, limit: ConstantInput) -> bool:
    """Tell whether an input is folded when the file is read: what comes from sizes is not."""
    origin = subject.strict_origins.get(name)
    if subject.types.get(name) in limit.unless:
        return True
    if limit.of_values:
        return not any(each.startswith("values:") for each in origin.values)
    return origin.constant


def whole_mod(subject: Subject) -> Iterator[Finding]:
    """Mod of floats as Python has it: ONNX has only C's before opset 28, and compilers after it."""
    if subject.facts.opset >= _FLOAT_MOD_SINCE and not subject.capabilities.symmetric_only:
        return
    labels = [
        node.label
        for node in subject.facts.graph.every_node()
        if node.op == "Mod"
        and not node.domain
        and not node.whole("fmod", 0)
        and "float" in subject.types.get(node.given(0), "")
    ]
    if labels:
        found = refusal(
            subject,
            "unsupported_attribute",
            f"{subject.capabilities.label} cannot take operator Mod as it is used here.",
            why="Of floats it takes only fmod 1.",
            fix="Export it as fmod, or as a subtraction of Floor.",
        )
        yield at_nodes(found, labels, "Mod")


def _value(node: NodeFacts, limit: OnlyValues) -> Iterator[tuple[str, str]]:
    if limit.when is not None and node.word(limit.when[0], "") != limit.when[1]:
        return
    value = node.attributes.get(limit.attribute, limit.given)
    if value not in limit.allowed:
        yield f"{limit.said} ({limit.attribute} is {value})", "unsupported_attribute"


def short_slices(subject: Subject) -> Iterator[Finding]:
    """Slices without axes and with fewer starts than dimensions: some runtimes take the first."""
    if not subject.capabilities.slices_whole:
        return
    labels = list[str]()
    for sized in subject.at_end("opt"):
        for node in subject.facts.graph.nodes:
            starts, shape = sized.known.shape(node.given(1)), sized.known.shape(node.given(0))
            short = node.op == "Slice" and len(node.inputs) > 1 and not node.given(3)
            if short and not node.domain and starts and shape and starts[0] < len(shape):
                labels.append(node.label)
    if labels:
        found = refusal(
            subject,
            "unsupported_operator_use",
            f"{subject.capabilities.label} cannot take operator Slice as it is used here.",
            why="It names no axes, and fewer starts than there are dimensions.",
            fix="Give the Slice its axes.",
        )
        yield at_nodes(found, dict.fromkeys(labels), "Slice")


RULES: tuple[Rule, ...] = (refused_uses, short_slices, whole_mod)
