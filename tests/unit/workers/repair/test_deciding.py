"""Branches within branches, chains of them and sparse weights: each is taken in, or left alone."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import helper

from enginefarm.repair_report import Outcome
from tests.unit.workers.repair.made import (
    BOOL,
    branch,
    model,
    one,
    ops,
    ran,
    through,
    value,
    weight,
)
from workers.repair import deciding
from workers.repair.folding import Constants

X = np.arange(8, dtype=np.float32).reshape(2, 4) - 3


def decided_if(condition: str, out: str, then: onnx.GraphProto, name: str = "e") -> onnx.NodeProto:
    rest = branch([helper.make_node("Abs", ["x"], [name])], name)
    return helper.make_node("If", [condition], [out], then_branch=then, else_branch=rest)


def always(*nodes: onnx.NodeProto) -> onnx.ModelProto:
    """A model in which ``c`` is always true."""
    last = helper.make_node("Relu", ["a"], ["y"])
    truth = weight("c", np.array(True))
    return model([*nodes, last], [value("x", 2, 4)], [value("y", 2, 4)], [truth])


def sparse(name: str) -> onnx.SparseTensorProto:
    values = weight(name, np.array([2.0, 3.0, 4.0], np.float32))
    return helper.make_sparse_tensor(values, weight("", np.array([0, 1, 3], np.int64)), [4])


def test_branches_within_branches_are_taken_in_though_all_use_one_name(tmp_path: Path) -> None:
    inner = branch([helper.make_node("Neg", ["x"], ["t"])], "t")
    for _ in range(3):
        inner = branch([decided_if("c", "t", inner, "t")], "t")
    made = always(decided_if("c", "a", inner, "t"))
    found, reports = through(made, tmp_path, "fold-constants")
    assert one(reports, "fold-constants").outcome is Outcome.APPLIED
    assert {"Neg", "Relu"} <= set(ops(found)) <= {"Neg", "Identity", "Relu"}
    assert np.array_equal(ran(found, {"x": X})[0], np.maximum(-X, 0))


def test_sparse_weights_of_a_branch_come_with_it_under_a_name_of_their_own(tmp_path: Path) -> None:
    then = branch([helper.make_node("Add", ["x", "s"], ["t"])], "t")
    then.sparse_initializer.append(sparse("s"))
    made = always(decided_if("c", "a", then))
    made.graph.node.append(helper.make_node("Neg", ["y"], ["s"]))
    made.graph.output.append(value("s", 2, 4))
    found, reports = through(made, tmp_path, "fold-constants")
    assert one(reports, "fold-constants").outcome is Outcome.APPLIED
    assert "If" not in ops(found)
    y, s = ran(found, {"x": X})
    assert np.array_equal(y, np.maximum(X + np.array([2, 3, 0, 4], np.float32), 0))
    assert np.array_equal(s, -y)


def test_a_branch_that_cannot_be_taken_in_is_left_and_the_others_are_taken(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = branch([helper.make_node("Neg", ["x"], ["t"])], "t")
    second = branch([helper.make_node("Neg", ["b"], ["t"])], "t")
    made = always(decided_if("c", "b", first), decided_if("c", "a", second))
    monkeypatch.setattr(
        deciding, "can_take_in", lambda node, *, condition: condition and node.output[0] != "b"
    )
    found, reports = through(made, tmp_path, "fold-constants")
    told = one(reports, "fold-constants")
    assert told.outcome is Outcome.APPLIED
    assert "1 time an If gave way" in told.why
    assert "1 If remains, of which 1 is decided and could not be taken in" in told.why
    assert ops(found).count("If") == 1


def test_what_follows_from_a_branch_is_decided_on_the_same_way_through(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Many Ifs one after the other, each decided by the one before it: no round for each."""
    count, nodes, condition = 70, [], "c"
    for number in range(count):
        then = branch([helper.make_node("Not", [condition], ["t"])], "t", dtype=BOOL)
        rest = branch([helper.make_node("Not", [condition], ["e"])], "e", dtype=BOOL)
        nodes.append(
            helper.make_node("If", [condition], [f"c{number}"], then_branch=then, else_branch=rest)
        )
        condition = f"c{number}"
    last = branch([helper.make_node("Neg", ["x"], ["t"])], "t")
    made = always(*nodes, decided_if(condition, "a", last))
    rounds: list[int] = []

    def counted(each: onnx.ModelProto) -> Constants:
        rounds.append(len(each.graph.node))
        return Constants(each)

    monkeypatch.setattr(deciding, "Constants", counted)
    found, _ = through(made, tmp_path, "fold-constants")
    assert "If" not in ops(found)
    assert len(rounds) <= 3
    assert np.array_equal(ran(found, {"x": X})[0], np.maximum(-X, 0))
