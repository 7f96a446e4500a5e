"""Operators that a compiler lacks, written out as ONNX defines them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import helper

from enginefarm.repair_report import Outcome
from enginefarm.repairs import WRITTEN_OUT
from tests.unit.workers.repair.made import (
    INT64,
    Array,
    branch,
    model,
    one,
    ops,
    ran,
    through,
    weight,
)
from tests.unit.workers.repair.made import value as told

RNG = np.random.default_rng(7)
SCORES = RNG.standard_normal((3, 5)).astype(np.float32)
IMAGE = RNG.standard_normal((4, 6)).astype(np.float32)
LABELS = np.array([1, 0, 4], np.int64)
NAME = "expand-operators"


def loss(op: str, **attributes: Any) -> onnx.ModelProto:  # noqa: ANN401 - an operator's attributes
    node = helper.make_node(op, ["x", "t"], ["y"], **attributes)
    inputs = [told("x", 3, 5), told("t", 3, dtype=INT64)]
    return model([node], inputs, [told("y")])


def cropped(*shape: int) -> onnx.ModelProto:
    node = helper.make_node("CenterCropPad", ["x", "s"], ["y"])
    weights = [weight("s", np.array(shape, np.int64))]
    return model([node], [told("x", 4, 6)], [told("y", *shape)], weights, opset=18)


def window() -> onnx.ModelProto:
    nodes = [
        helper.make_node("HannWindow", ["n"], ["w"]),
        helper.make_node("Mul", ["x", "w"], ["y"]),
    ]
    return model(nodes, [told("x", 4, 6)], [told("y", 4, 6)], [weight("n", np.int64(6))])


KINDS: dict[str, tuple[onnx.ModelProto, dict[str, Array]]] = {
    "a loss": (loss("NegativeLogLikelihoodLoss"), {"x": SCORES, "t": LABELS}),
    "a loss defined by a loss": (loss("SoftmaxCrossEntropyLoss"), {"x": SCORES, "t": LABELS}),
    "a crop": (cropped(2, 4), {"x": IMAGE}),
    "a padding": (cropped(8, 7), {"x": IMAGE}),
}


@pytest.mark.parametrize("kind", KINDS)
def test_an_operator_gives_way_to_its_definition_and_computes_the_same(
    tmp_path: Path, kind: str
) -> None:
    made, feeds = KINDS[kind]
    wanted = ran(made, feeds)

    found, reports = through(made, tmp_path, NAME)

    onnx.checker.check_model(found)
    assert not WRITTEN_OUT & set(ops(found))
    assert one(reports, NAME).outcome is Outcome.APPLIED
    assert np.allclose(ran(found, feeds)[0], wanted[0], rtol=1e-6, atol=1e-6)


def test_an_operator_inside_a_branch_is_written_out_too(tmp_path: Path) -> None:
    node = helper.make_node("NegativeLogLikelihoodLoss", ["x", "t"], ["r"])
    other = helper.make_node("ReduceMax", ["x"], ["s"], keepdims=0)
    chosen = helper.make_node(
        "If", ["c"], ["y"], then_branch=branch([node], "r"), else_branch=branch([other], "s")
    )
    inputs = [told("x", 3, 5), told("t", 3, dtype=INT64), told("c", dtype=onnx.TensorProto.BOOL)]
    made = model([chosen], inputs, [told("y")])
    feeds: dict[str, Array] = {"x": SCORES, "t": LABELS, "c": np.array(True)}
    wanted = ran(made, feeds)

    found, reports = through(made, tmp_path, NAME)

    assert one(reports, NAME).outcome is Outcome.APPLIED
    assert "NegativeLogLikelihoodLoss" not in str(found.graph)
    assert np.allclose(ran(found, feeds)[0], wanted[0], rtol=1e-6)


@pytest.mark.parametrize("op", ["SoftmaxCrossEntropyLoss", "NegativeLogLikelihoodLoss"])
@pytest.mark.parametrize("read", ["x", "q"])
@pytest.mark.parametrize("deeper", [False, True])
def test_a_definition_that_uses_another_is_written_out_in_branches_within_branches(
    tmp_path: Path, op: str, read: str, *, deeper: bool
) -> None:
    """Whether it reads what comes from outside or is made in the branch."""
    nodes = [helper.make_node("Relu", ["x"], ["q"]), helper.make_node(op, [read, "t"], ["r"])]
    rest = branch([helper.make_node("ReduceMax", ["x"], ["s"], keepdims=0)], "s")
    chosen = helper.make_node("If", ["c"], ["z"], then_branch=branch(nodes, "r"), else_branch=rest)
    if deeper:
        least = branch([helper.make_node("ReduceMin", ["x"], ["m"], keepdims=0)], "m")
        chosen = helper.make_node(
            "If", ["c"], ["z"], then_branch=branch([chosen], "z"), else_branch=least
        )
    inputs = [told("x", 3, 5), told("t", 3, dtype=INT64), told("c", dtype=onnx.TensorProto.BOOL)]
    made = model([chosen], inputs, [told("z")])
    feeds: dict[str, Array] = {"x": SCORES, "t": LABELS, "c": np.array(True)}
    wanted = ran(made, feeds)

    found, reports = through(made, tmp_path, NAME)

    assert one(reports, NAME).outcome is Outcome.APPLIED
    assert "Loss" not in str(found.graph)
    assert np.allclose(ran(found, feeds)[0], wanted[0], rtol=1e-6)


def test_what_the_compiler_has_itself_stays(tmp_path: Path) -> None:
    made = window()  # TensorRT-RTX has windows; TensorRT has none
    found, reports = through(made, tmp_path, NAME)
    assert found.SerializeToString() == made.SerializeToString()
    assert one(reports, NAME).outcome is Outcome.NOTHING_TO_DO


def test_a_compiler_without_windows_gets_them_written_out(tmp_path: Path) -> None:
    made = window()
    wanted = ran(made, {"x": IMAGE})

    found, reports = through(made, tmp_path, NAME, backend="tensorrt")

    assert one(reports, NAME).outcome is Outcome.APPLIED
    assert "HannWindow" not in ops(found)
    assert np.allclose(ran(found, {"x": IMAGE})[0], wanted[0], atol=1e-6)
