"""If and Loop as compilers take them: branches alike, and nothing that grows from turn to turn."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from enginefarm.finding import Finding, at_nodes, warning_finding
from enginefarm.preflight.facts import GraphFacts, NodeFacts
from enginefarm.preflight.rules.grouping import grouped, refusal
from enginefarm.preflight.shapes import Known, Shape, infer, shown
from enginefarm.preflight.subject import Rule, Subject

_CODE = "control_flow_unsupported"


@dataclass(frozen=True)
class _Open:
    """An If that is decided only at run time, in what it stands, and what is known around it."""

    chain: tuple[NodeFacts, ...]
    known: Known

    @property
    def node(self) -> NodeFacts:
        return self.chain[-1]


def _open_ifs(
    subject: Subject, graph: GraphFacts, known: Known, above: tuple[NodeFacts, ...] = ()
) -> Iterator[_Open]:
    """Give every If that is open, with the open ones around it; what is never taken is left out."""
    for node in graph.nodes:
        if node.op != "If" or node.domain:
            continue
        chain = above
        if not subject.origins.get(node.given(0)).constant:
            chain = (*above, node)
            yield _Open(chain, known)
        for name, inner in node.graphs.items():
            if _taken(subject, node, name, known):
                inside = infer(inner, {}, subject.facts.opset, known)
                yield from _open_ifs(subject, inner, inside, chain)


def _taken(subject: Subject, node: NodeFacts, branch: str, known: Known) -> bool:
    if not subject.origins.get(node.given(0)).constant:
        return True
    value = known.values.get(node.given(0))
    return bool(value) and bool(value[0]) == (branch == "then_branch") if value else False


def _all_open(subject: Subject) -> list[_Open]:
    # At the largest sizes: there a batch of 1 does not look like a dimension that is always 1.
    largest = next(iter(subject.at_end("max")), None)
    known = largest.known if largest is not None else Known(subject.facts.opset)
    return list(_open_ifs(subject, subject.facts.graph, known))


def nested(subject: Subject) -> Iterator[Finding]:
    """An If inside a branch, both decided only at run time, around tensors without a fixed size."""
    if not subject.capabilities.branches_alike:
        return
    inner = [row for row in _all_open(subject) if len(row.chain) > 1 and _moves(subject, row.node)]
    if inner:
        deciding = {
            name
            for row in inner
            for node in row.chain
            for name in subject.origins.get(node.given(0)).values
        }
        yield at_nodes(
            refusal(
                subject,
                _CODE,
                f"{subject.capabilities.label} cannot build an If inside the branch of another If.",
                why="Both conditions are known only at run time.",
                fix=_how_to_decide(subject, deciding),
            ),
            [row.node.label for row in inner],
            "If",
        )


def _moves(subject: Subject, node: NodeFacts) -> bool:
    """Tell whether a branch works on anything that has no fixed size."""
    return any(
        not subject.origins.get(name).static
        for inner in node.graphs.values()
        for part in inner.every_node()
        for name in part.inputs
    )


def _how_to_decide(subject: Subject, deciding: set[str]) -> str:
    whole = {
        row.name
        for row in subject.facts.inputs
        if row.dtype in {"int32", "int64", "bool"} and not row.shape
    }
    named = sorted({each.partition(":")[2] for each in deciding} & whole)
    if named:
        flags = " ".join(f"--fix {name}=VALUE" for name in named)
        return (
            f"Make what decides a constant: submit with {flags} (the value that you will always"
            " give), and the branches that are never taken are folded away."
        )
    sized = sorted(each.partition(":")[2] for each in deciding if each.startswith("sizes:"))
    if sized and len(sized) == len(deciding):
        return (
            f"It is decided by the size of {', '.join(sized)}: export with that size fixed, or"
            " without control flow."
        )
    return "Make the condition a constant and fold the branch away, or export without control flow."


def branches_differ(subject: Subject) -> Iterator[Finding]:
    """Branches of an If whose outputs differ in type or shape, where it is not decided at build."""
    if not subject.capabilities.branches_alike:
        return
    differing = grouped(
        ((why, frozenset(subject.origins.get(row.node.given(0)).values)), row.node.label)
        for row in _all_open(subject)
        if (why := _difference(subject, row)) is not None
    )
    for (why, deciding), labels in differing.items():
        yield at_nodes(
            refusal(
                subject,
                _CODE,
                "The two branches of an If do not give tensors of one type and shape.",
                why=why,
                fix=_how_to_decide(subject, set(deciding)),
            ),
            labels,
            "If",
        )


def _difference(subject: Subject, row: _Open) -> str | None:
    one, other = (row.node.graphs.get(name) for name in ("then_branch", "else_branch"))
    if one is None or other is None:
        return None
    known = [infer(graph, {}, subject.facts.opset, row.known) for graph in (one, other)]
    for first, second in zip(one.outputs, other.outputs, strict=False):
        kinds = subject.types.get(first.name), subject.types.get(second.name)
        if None not in kinds and kinds[0] != kinds[1]:
            return f"One gives {kinds[0]}, the other {kinds[1]}."
        shapes = known[0].shape(first.name), known[1].shape(second.name)
        if shapes[0] is not None and shapes[1] is not None and shapes[0] != shapes[1]:
            return f"One gives {shown(shapes[0])}, the other {shown(shapes[1])}."
    return None


def growing_loops(subject: Subject) -> Iterator[Finding]:
    """Loops that carry a tensor which changes its shape from one turn to the next."""
    if not subject.capabilities.branches_alike:
        return
    changes = dict[str, tuple[Shape, Shape]]()
    for sized in subject.at_end("opt"):
        for node in subject.facts.graph.nodes:
            change = _change(subject, sized.known, node)
            if change is not None:
                changes.setdefault(node.label, change)
    for change, labels in grouped((row, label) for label, row in changes.items()).items():
        yield at_nodes(
            refusal(
                subject,
                _CODE,
                "A Loop carries a tensor that changes its shape from one turn to the next.",
                why=f"It comes in as {shown(change[0])} and leaves as {shown(change[1])}.",
                fix="Give it its last size from the beginning, or take the loop out of the model.",
            ),
            labels,
            "Loop",
        )


def _change(subject: Subject, known: Known, node: NodeFacts) -> tuple[Shape, Shape] | None:
    body = node.graphs.get("body")
    if node.op != "Loop" or node.domain or body is None:
        return None
    carried = [known.shape(name) for name in node.inputs[2:]]
    names = [row.name for row in body.inputs[2:]]
    given = {name: shape for name, shape in zip(names, carried, strict=False) if shape is not None}
    inside = infer(
        body, {**given, **{row.name: () for row in body.inputs[:2]}}, subject.facts.opset, known
    )
    for name, row in zip(names, body.outputs[1:], strict=False):
        before, after = given.get(name), inside.shape(row.name)
        if before is not None and after is not None and before != after:
            return before, after
    return None


def endless_loops(subject: Subject) -> Iterator[Finding]:
    """Loops that end when a value of the data is reached: nothing says how long they run."""
    labels = list[str]()
    for node in subject.facts.graph.every_node():
        body = node.graphs.get("body")
        if node.op != "Loop" or node.domain or body is None or node.given(0) or not body.outputs:
            continue
        if not subject.origins.get(body.outputs[0].name).constant:
            labels.append(node.label)
    if labels:
        yield at_nodes(
            warning_finding(
                "loop_unbounded",
                "A Loop has no trip limit and ends when the data says so.",
                why="How long one inference takes, and whether it ends, depends on the values.",
                fix="Give the Loop a trip limit.",
            ),
            labels,
            "Loop",
        )


RULES: tuple[Rule, ...] = (nested, branches_differ, growing_loops, endless_loops)
