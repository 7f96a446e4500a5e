"""A model with thousands of faults has a list that a person can read, and nothing is hidden by it.

Files of a few megabytes can have a fault in each of 100,000 nodes: a finding for each took minutes.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import onnx
import pytest
from onnx import TensorProto, helper

from enginefarm.finding import Finding, Severity, error_finding, note_finding
from enginefarm.preflight.check import MOST_FINDINGS, check, first_of_each, ordered
from enginefarm.preflight.rules.branches import branches_differ, endless_loops, growing_loops
from enginefarm.preflight.rules.operators import other_domains, unknown_operators
from enginefarm.preflight.rules.sizes import large_topk, misfits
from enginefarm.preflight.subject import Rule, Subject
from enginefarm.target import Target
from tests.unit.enginefarm.preflight.made import ROWS, RTX, facts_of, info, model, whole

MANY = 300
FEW = 51


def node(op: str, given: list[str], made: list[str], **more: Any) -> onnx.NodeProto:  # noqa: ANN401
    return helper.make_node(op, given, made, **more)


def many(nodes: list[onnx.NodeProto], **more: Any) -> onnx.ModelProto:  # noqa: ANN401
    return model(nodes, outputs=[info("y0", None)], **more)


def misspelt() -> onnx.ModelProto:
    return many([node(f"Relu{at}", ["x"], [f"y{at}"]) for at in range(MANY)])


def foreign() -> onnx.ModelProto:
    nodes = [node(f"Op{at}", ["x"], [f"y{at}"], domain="acme") for at in range(MANY)]
    return many(nodes, domains=["acme"])


def loops() -> onnx.ModelProto:
    """Loops without a trip limit, that end by the data and carry what grows."""
    body = helper.make_graph(
        [
            node("ReduceMax", ["v"], ["top"], keepdims=0),
            node("Cast", ["top"], ["on"], to=TensorProto.BOOL),
            node("Concat", ["v", "v"], ["w"], axis=0),
        ],
        "body",
        [
            info("n", [], TensorProto.INT64),
            info("c", [], TensorProto.BOOL),
            info("v", None),
        ],
        [info("on", [], TensorProto.BOOL), info("w", None)],
    )
    nodes = [node("Loop", ["", "", "x"], [f"y{at}"], body=body) for at in range(MANY)]
    return many(nodes)


def branches() -> onnx.ModelProto:
    def branch(kind: int) -> onnx.GraphProto:
        cast = node("Cast", ["x"], [f"b{kind}"], to=kind)
        return helper.make_graph([cast], "b", [], [info(f"b{kind}", ["n", 16], kind)])

    one, other = branch(TensorProto.FLOAT), branch(TensorProto.INT32)
    nodes = [
        node("ReduceMax", ["x"], ["top"], keepdims=0),
        node("Cast", ["top"], ["c"], to=TensorProto.BOOL),
        *(node("If", ["c"], [f"y{at}"], then_branch=one, else_branch=other) for at in range(MANY)),
    ]
    return many(nodes)


def topk() -> onnx.ModelProto:
    nodes = [node("TopK", ["x", "k"], [f"y{at}", f"i{at}"]) for at in range(MANY)]
    return many(nodes, weights=[whole("k", 5000)])


def baked() -> onnx.ModelProto:
    nodes = [node("Reshape", ["x", "shape"], [f"y{at}"]) for at in range(MANY)]
    return many(nodes, weights=[whole("shape", 2, 16)])


@pytest.mark.parametrize(
    ("make", "rule"),
    [
        (misspelt, unknown_operators),
        (foreign, other_domains),
        (loops, endless_loops),
        (loops, growing_loops),
        (branches, branches_differ),
        (topk, large_topk),
        (baked, misfits),
    ],
    ids=lambda each: each.__name__,
)
def test_one_fault_in_hundreds_of_nodes_is_not_a_finding_for_each(
    tmp_path: Path, make: Callable[[], onnx.ModelProto], rule: Rule
) -> None:
    subject = Subject(facts_of(tmp_path, make()), Target.parse(RTX), [ROWS])
    found = list(rule(subject))
    assert 1 <= len(found) <= FEW
    named = [each for each in found if f"({MANY} nodes)" in each.where]
    rest = [each for each in found if f"({MANY - FEW + 1} operators)" in each.where]
    assert len(named) + len(rest) == 1, [each.where for each in found]


def test_all_that_is_not_listed_is_counted_and_errors_come_first(tmp_path: Path) -> None:
    subject = Subject(facts_of(tmp_path, misspelt()), Target.parse(RTX), [ROWS])
    found = check(subject)
    assert len(found) <= MOST_FINDINGS + 1
    (rest,) = [each for each in found if "more operators" in each.message]
    assert rest.severity is Severity.ERROR
    assert str(MANY - FEW + 1) in rest.message


def test_what_stops_a_build_is_kept_however_many_notes_come_before_it() -> None:
    def notes_first() -> Iterator[Finding]:
        yield from (note_finding("dim_name_placeholder", f"note {at}") for at in range(5000))
        yield error_finding("shape_mismatch", "the last")

    kept, more = first_of_each(notes_first())
    assert more == 5000 - MOST_FINDINGS
    found = ordered(kept, more)
    assert found[0].message == "the last"
    assert found[-1].code == "findings_cut"
    assert found[-1].message == f"Not listed: {more + 1} more findings."
