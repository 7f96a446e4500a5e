"""int64 that fits becomes int32, and nothing else; what does not fit stays and is named."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
from onnx import helper

from enginefarm.repair_report import Outcome
from enginefarm.repairs import passes_for
from enginefarm.spec import RepairOptions
from tests.unit.workers.repair.made import (
    BOOL,
    INT64,
    branch,
    model,
    one,
    ops,
    ran,
    through,
    value,
    weight,
)

NAME = "narrow-int64"
X = np.arange(24, dtype=np.float32).reshape(2, 12)


def whole(name: str, *values: int) -> onnx.TensorProto:
    return weight(name, np.array(values, np.int64))


def kinds(made: onnx.ModelProto) -> dict[str, str]:
    rows = made.graph.initializer
    return {row.name: onnx.TensorProto.DataType.Name(row.data_type) for row in rows}


def sliced_and_shifted(end: int, big: int) -> onnx.ModelProto:
    """A slice of what comes in, and identifiers to which a number is added."""
    nodes = [
        helper.make_node("Slice", ["x", "starts", "ends", "axes"], ["s"]),
        helper.make_node("Reshape", ["s", "shape"], ["y"]),
        helper.make_node("Add", ["id", "big"], ["ids"]),
    ]
    weights = [
        whole("starts", 1),
        whole("ends", end),
        whole("axes", 1),
        whole("shape", 2, -1, 1),
        whole("big", big),
    ]
    inputs = [value("x", 2, 12), value("id", 2, dtype=INT64)]
    return model(nodes, inputs, [value("y", 2, None, 1), value("ids", 2, dtype=INT64)], weights)


def test_what_fits_is_narrow_and_every_result_is_the_same(tmp_path: Path) -> None:
    made = sliced_and_shifted(9, 7)
    found, reports = through(made, tmp_path, NAME)
    assert one(reports, NAME).outcome is Outcome.APPLIED
    proof = one(reports, NAME).proof
    assert proof is not None
    assert proof.bit_equal
    assert set(kinds(found).values()) == {"INT32"}
    assert ops(found) == ["Cast", "Cast", "Slice", "Reshape", "Add"]
    onnx.checker.check_model(found, full_check=True)
    ids = np.array([1 << 40, 3], np.int64)
    for before, after in zip(
        ran(made, {"x": X, "id": ids}), ran(found, {"x": X, "id": ids}), strict=True
    ):
        assert (before.dtype, before.tolist()) == (after.dtype, after.tolist())


def test_a_value_that_does_not_fit_stays_and_is_named(tmp_path: Path) -> None:
    made = sliced_and_shifted((1 << 63) - 1, (1 << 40) + 7)
    found, reports = through(made, tmp_path, NAME)
    report = one(reports, NAME)
    assert report.outcome is Outcome.APPLIED
    assert "ends, big" in report.why
    assert {name for name, kind in kinds(found).items() if kind == "INT64"} == {"ends", "big"}
    ids = np.array([5, 6], np.int64)
    assert ran(found, {"x": X, "id": ids})[1].tolist() == [(1 << 40) + 12, (1 << 40) + 13]


def test_where_nothing_fits_nothing_is_done(tmp_path: Path) -> None:
    nodes = [helper.make_node("Add", ["id", "big"], ["ids"])]
    rows = [value("id", 1, dtype=INT64)], [value("ids", 1, dtype=INT64)]
    _, reports = through(model(nodes, *rows, [whole("big", 1 << 31)]), tmp_path, NAME)
    assert one(reports, NAME).outcome is Outcome.NOT_APPLIED
    assert "big" in one(reports, NAME).why
    _, reports = through(model(nodes, *rows, [whole("big", 2**31 - 1)]), tmp_path, NAME)
    assert one(reports, NAME).outcome is Outcome.APPLIED


def test_constants_of_nodes_and_of_branches_and_outputs_are_narrow_too(tmp_path: Path) -> None:
    row = helper.make_node("Constant", [], ["row"], value_ints=[1])
    then = branch([row, helper.make_node("Gather", ["x", "row"], ["t"])], "t")
    rest = branch([helper.make_node("Gather", ["x", "at"], ["e"])], "e")
    nodes = [
        helper.make_node("Constant", [], ["at"], value=whole("", 0)),
        helper.make_node("If", ["c"], ["y"], then_branch=then, else_branch=rest),
    ]
    inputs = [value("x", 2, 12), value("c", dtype=BOOL)]
    outputs = [value("y", 1, 12), value("told", 1, dtype=INT64)]
    made = model(nodes, inputs, outputs, [whole("told", 42)])
    found, reports = through(made, tmp_path, NAME)
    assert one(reports, NAME).outcome is Outcome.APPLIED
    assert "3 int64 constants" in one(reports, NAME).why
    for choice in (True, False):
        feeds = {"x": X, "c": np.array(choice)}
        for before, after in zip(ran(made, feeds), ran(found, feeds), strict=True):
            assert (before.dtype, before.tolist()) == (after.dtype, after.tolist())


def test_it_is_done_only_where_it_is_asked_for() -> None:
    for asked in (False, True):
        rows = passes_for("onnxruntime", RepairOptions(narrow_int64=asked))
        assert (NAME in {row.name for row in rows}) is asked
