"""Pictures of several sizes, products that stand in branches, values that vanish."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

from enginefarm.errors import JobFailed
from enginefarm.precision_report import PrecisionReport
from tests.unit.workers.precision import made
from tests.unit.workers.precision.made import images, small_network
from tests.unit.workers.precision.test_quantizing import GOOD, REAL, cosine
from tests.unit.workers.repair.made import model, value


def any_size() -> onnx.ModelProto:
    """Two convolutions over pictures of any height and width."""
    rng = np.random.default_rng(41)
    nodes = [
        helper.make_node("Conv", ["x", "w1"], ["a"], name="first", pads=[1, 1, 1, 1]),
        helper.make_node("Relu", ["a"], ["b"], name="relu"),
        helper.make_node("Conv", ["b", "w2"], ["y"], name="second"),
    ]
    weights = [
        made.weight("w1", rng.standard_normal((8, 3, 3, 3)) * 0.3),
        made.weight("w2", rng.standard_normal((4, 8, 1, 1)) * 0.3),
    ]
    return model(nodes, [value("x", "n", 3, "h", "w")], [value("y", "n", 4, "h", "w")], weights)


SIZES = {
    f"x/{number}": np.tile(images(number * 5, 5), (1, 1, times, times))
    for number, times in enumerate((1, 2, 3))
}
FITS_SIZES = [{"x": {"min": [1, 3, 32, 32], "opt": [1, 3, 64, 64], "max": [4, 3, 128, 128]}}]


def test_pictures_of_several_sizes_are_calibrated_with_each_at_its_own(tmp_path: Path) -> None:
    asked: dict[str, Any] = {"profiles": FITS_SIZES, "evaluation": SIZES}
    result = made.run(tmp_path, any_size(), "int8", calibration=SIZES, **asked)
    told = PrecisionReport.model_validate(result.facts["precision"])
    assert told.data is not None
    assert (told.data.samples, told.data.sizes) == (15, 3)
    assert told.model_accuracy is not None
    assert told.model_accuracy.samples == 15
    assert cosine(told) > 0.99


def test_a_size_that_the_profile_does_not_allow_is_named(tmp_path: Path) -> None:
    large = SIZES | {"x/3": np.tile(images(99, 1), (1, 1, 5, 5))}
    with pytest.raises(JobFailed) as refused:
        made.run(tmp_path, any_size(), "int8", calibration=large, profiles=FITS_SIZES)
    assert refused.value.code == "calibration_outside_profile"
    assert "sample 15: x is [1, 3, 160, 160]" in refused.value.why


def branching(*, hidden: bool) -> onnx.ModelProto:
    """A product of matrices before, or in both branches of, an If that reads it."""
    product = helper.make_node("MatMul", ["x", "w"], ["p"], name="product")
    inner = [[product]] * 2 if hidden else [[], []]
    branches = [
        helper.make_graph(
            [*nodes, helper.make_node(op, ["p"], [f"{op}_p"])], op, [], [value(f"{op}_p", "n", 4)]
        )
        for nodes, op in zip(inner, ("Relu", "Neg"), strict=True)
    ]
    branch = helper.make_node(
        "If", ["yes"], ["y"], then_branch=branches[0], else_branch=branches[1], name="either"
    )
    inputs = [value("x", "n", 4), helper.make_tensor_value_info("yes", TensorProto.BOOL, [])]
    weights = [made.weight("w", np.eye(4) + 0.1)]
    nodes = [branch] if hidden else [product, branch]
    return model(nodes, inputs, [value("y", "n", 4)], weights)


CHOSEN = {
    "x": np.random.default_rng(0).standard_normal((16, 4)).astype(np.float32).cumsum(axis=0),
    "yes": np.arange(16) % 2 == 0,
}


def test_nodes_come_after_what_a_branch_of_theirs_reads(tmp_path: Path) -> None:
    result = made.run(
        tmp_path,
        branching(hidden=False),
        "int8",
        calibration=CHOSEN,
        evaluation={name: array[::-1].copy() for name, array in CHOSEN.items()},
        profiles=[],
    )
    told = PrecisionReport.model_validate(result.facts["precision"])
    assert told.changed == 1
    assert cosine(told) > 0.99


def test_a_model_whose_products_stand_in_branches_is_told_so(tmp_path: Path) -> None:
    with pytest.raises(JobFailed) as refused:
        made.run(tmp_path, branching(hidden=True), "int8", calibration=CHOSEN, profiles=[])
    assert refused.value.code == "precision_without_effect"
    assert "2 in all) stand inside If or Loop" in refused.value.why
    assert "--fix" in refused.value.fix


@pytest.mark.parametrize("method", ["entropy", "percentile"])
def test_a_network_whose_values_vanish_is_calibrated_all_the_same(
    tmp_path: Path, method: str
) -> None:
    faint = small_network()
    for row in faint.graph.initializer:
        if row.name == "w2":
            values = numpy_helper.to_array(row) * np.float32(1e-42)
            row.CopyFrom(numpy_helper.from_array(values, "w2"))
    result = made.run(
        tmp_path, faint, "int8", calibration=GOOD, evaluation=REAL, method=method, op_types=["Conv"]
    )
    told = PrecisionReport.model_validate(result.facts["precision"])
    assert told.changed == 2
