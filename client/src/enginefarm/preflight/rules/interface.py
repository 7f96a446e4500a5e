"""What goes in and what comes out: inputs that are no inputs, and values that decide sizes."""

from __future__ import annotations

from collections.abc import Iterator

from enginefarm.counted import counted
from enginefarm.finding import Finding, at_tensors, error_finding, note_finding
from enginefarm.preflight.facts import GraphFacts
from enginefarm.preflight.rules.grouping import refusal
from enginefarm.preflight.subject import Rule, Subject

_DEFAULTS_IR = 4
"""Since this IR version a weight that is an input, too, is an input with a default value."""
_WHOLE = frozenset({"int32", "int64"})


def overridable_weights(subject: Subject) -> Iterator[Finding]:
    """Weights that are listed as inputs, too, as every file before IR version 4 had them."""
    graph = subject.facts.graph
    both = [row.name for row in graph.inputs if row.name in graph.weights]
    if both:
        old = subject.facts.scan.ir_version < _DEFAULTS_IR
        found = note_finding(
            "weights_overridable",
            counted(
                len(both),
                "weight is also listed as an input; it is taken as a weight.",
                "weights are also listed as inputs; they are taken as weights.",
            )
            if old
            else counted(
                len(both),
                "input has a default value, with which the engine computes.",
                "inputs have default values, with which the engine computes.",
            ),
            fix="Export with IR version 4 or newer to lose the ambiguity."
            if old
            else "To make weights of them: --option repair.drop_defaults=true. To give a value of"
            " your own: export the model with it, or without the default.",
        )
        yield at_tensors(found, both)


def shape_inputs(subject: Subject) -> Iterator[Finding]:
    """Inputs whose values decide the sizes of other tensors: a profile gives shapes only."""
    whole = {row.name for row in subject.facts.inputs if row.dtype in _WHOLE}
    for name, nodes in subject.origins.shape_inputs().items():
        if name not in whole:
            continue
        at = ", ".join(dict.fromkeys(f"{node.op} {node.label}" for node in nodes[:3]))
        said = {
            "why": f"It reaches {at} as a size.",
            "fix": f"Make it a constant at export, or submit with --fix {name}=VALUE;"
            " profiles give shapes, not values.",
        }
        message = f"The values of input {name} decide the shapes of other tensors."
        found = (
            refusal(subject, "shape_tensor_input", message, **said)
            if subject.capabilities.needs_profile_values
            else note_finding("shape_tensor_input", message, **said)
        )
        yield at_tensors(found, [name])


def nothing_to_run(subject: Subject) -> Iterator[Finding]:
    """A graph whose outputs are its inputs or weights: it computes nothing."""
    made = {name for node in subject.facts.graph.nodes for name in node.outputs}
    if not any(row.name in made for row in subject.facts.graph.outputs):
        yield error_finding(
            "empty_graph",
            "No output of the graph is computed by a node.",
            fix="Export the model with its nodes and outputs.",
        )


def wiring(subject: Subject) -> Iterator[Finding]:
    """Nodes that read what nothing has made before them: they run in the file's order."""
    graph = subject.facts.graph
    outside = {row.name for row in graph.inputs} | set(graph.weights)
    late, never = list[str](), list[str]()
    _follow(graph, outside, late, never)
    if late:
        found = error_finding(
            "invalid_graph",
            counted(
                len(late),
                "tensor is used before it is made.",
                "tensors are used before they are made.",
            ),
            why="Nodes must stand in the order in which they run.",
            fix="Sort the graph (onnxslim does), or export it again.",
        )
        yield at_tensors(found, late)
    if never:
        found = error_finding(
            "invalid_graph",
            counted(
                len(never),
                "tensor is used and nothing makes it.",
                "tensors are used and nothing makes them.",
            ),
            fix="Export the model again; onnx.checker.check_model names the place.",
        )
        yield at_tensors(found, never)


def _follow(graph: GraphFacts, outside: set[str], late: list[str], never: list[str]) -> None:
    made_here = {name for node in graph.nodes for name in node.outputs}
    known = set(outside)
    for node in graph.nodes:
        missing = [name for name in node.inputs if name and name not in known]
        late += [name for name in missing if name in made_here]
        never += [name for name in missing if name not in made_here]
        for inner in node.graphs.values():
            own = {row.name for row in inner.inputs} | set(inner.weights)
            _follow(inner, known | own, late, never)
        known.update(node.outputs)
    gone = [row.name for row in graph.outputs if graph.depth and row.name not in known]
    never += gone


RULES: tuple[Rule, ...] = (overridable_weights, shape_inputs, nothing_to_run, wiring)
