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
    OnlyOnes,
    OnlyValues,
)

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
        case ConstantInput():
            name = node.given(limit.number)
            if name and not subject.origins.get(name).constant:
                yield f"{limit.what} only as a constant", "unsupported_operator_input"


def _value(node: NodeFacts, limit: OnlyValues) -> Iterator[tuple[str, str]]:
    if limit.when is not None and node.word(limit.when[0], "") != limit.when[1]:
        return
    value = node.attributes.get(limit.attribute, limit.given)
    if value not in limit.allowed:
        yield f"{limit.said} ({limit.attribute} is {value})", "unsupported_attribute"


RULES: tuple[Rule, ...] = (refused_uses,)
