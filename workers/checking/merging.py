"""One finding for one fault: what a rule and a runtime say of the same node belongs together.

The rule's words stay, for they say what to do; the runtime's are added as the reason. Pure.
"""

from __future__ import annotations

from collections.abc import Sequence

from enginefarm.finding import Finding, Severity, graver

_OF_SIZES = frozenset({"profile_not_runnable", "shape_mismatch"})
_RUNS_AT = "It runs at"


def merged(rules: Sequence[Finding], said: Sequence[Finding]) -> list[Finding]:
    """Return the findings of the rules and what the runtime adds to them."""
    found = list(rules)
    for each in said:
        at = next((number for number, rule in enumerate(found) if _same(rule, each)), None)
        if at is None:
            found.append(each)
        else:
            found[at] = _joined(found[at], each)
    return found


def _same(rule: Finding, said: Finding) -> bool:
    if rule.code in _OF_SIZES and said.code in _OF_SIZES:
        return True
    if rule.severity is Severity.NOTE and rule.code != said.code:
        return False
    if set(rule.nodes) & set(said.nodes):
        return rule.operator == said.operator or not rule.operator
    if rule.operator or said.operator:
        unnamed = not said.nodes or said.nodes[0].startswith("#")
        return rule.operator == said.operator and (rule.code == said.code or unnamed)
    return rule.code == said.code and rule.tensors == said.tensors


def _joined(rule: Finding, said: Finding) -> Finding:
    words = said.message.partition(" It says: ")[2]
    if not words and said.code in _OF_SIZES:
        words = said.message
    why = " ".join(
        part for part in (rule.why, f"The runtime says: {words}" if words else "") if part
    )
    known = said.fix.startswith(_RUNS_AT)
    return rule.model_copy(
        update={
            "severity": graver(rule.severity, said.severity),
            "why": why if words not in rule.why or not words else rule.why,
            "fix": said.fix if known else rule.fix or said.fix,
            "where": rule.where or said.where,
            "nodes": rule.nodes or said.nodes,
        }
    )
