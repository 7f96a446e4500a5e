"""Sizes that are said to be certain are those that ONNX's own cases have."""

from __future__ import annotations

import importlib
from pathlib import Path

import onnx
import pytest
from onnx import TensorProto, helper
from onnx.backend.test.case import node as onnx_cases

from enginefarm.preflight.reading import read_facts
from enginefarm.preflight.shapes import infer
from localfarm.models import MODELS, ShippedModel
from tests.unit.enginefarm.preflight.made import facts_of, info, model, weight, whole

# A module of onnx for each operator whose rule this is about.
OPERATORS = (
    "add averagepool argmax concat constantofshape conv convtranspose depthtospace equal"
    " expand flatten gather gemm globalaveragepool layernormalization lstm matmul maxpool pad pow"
    " rangeop reducemean reducesum reshape resize shape size slice softmax spacetodepth split"
    " squeeze tile topk transpose unsqueeze where"
)


def cases() -> list[onnx.ModelProto]:
    """Return onnx's own cases for these operators."""
    for name in OPERATORS.split():
        importlib.import_module(f"onnx.backend.test.case.node.{name}")
    found = {case.name: case.model for case in onnx_cases._NodeTestCases}
    return [made for made in found.values() if made is not None]


def shape_of(value: onnx.ValueInfoProto) -> tuple[int, ...] | None:
    tensor = value.type.tensor_type
    if not value.type.HasField("tensor_type") or not tensor.HasField("shape"):
        return None
    if not all(dim.HasField("dim_value") for dim in tensor.shape.dim):
        return None
    return tuple(dim.dim_value for dim in tensor.shape.dim)


@pytest.mark.filterwarnings("ignore")
def test_what_is_certain_is_right_and_right_models_have_no_misfit(tmp_path: Path) -> None:
    checked = 0
    for made in cases():
        facts = facts_of(tmp_path, made)
        given = {
            row.name: shape for row in made.graph.input if (shape := shape_of(row)) is not None
        }
        known = infer(facts.graph, given, facts.opset)
        assert known.misfits == [], made.graph.name
        for row in made.graph.output:
            declared, certain = shape_of(row), known.shape(row.name)
            if declared is not None and certain is not None:
                assert certain == declared, made.graph.name
                checked += 1
    assert checked > 150


@pytest.mark.parametrize("sample", MODELS, ids=lambda sample: sample.name)
def test_real_models_fit_their_profiles(sample: ShippedModel) -> None:
    facts = read_facts(sample.file())
    for end in ("min", "opt", "max"):
        given = {name: getattr(row, end) for name, row in (sample.profile or {}).items()}
        assert infer(facts.graph, given, facts.opset).misfits == []


def test_shapes_that_exporters_compute_are_followed(tmp_path: Path) -> None:
    nodes = [
        helper.make_node("Shape", ["x"], ["s"]),
        helper.make_node("Gather", ["s", "zero"], ["n"], axis=0),
        helper.make_node("Unsqueeze", ["n", "first"], ["n1"]),
        helper.make_node("Concat", ["n1", "tail"], ["goal"], axis=0),
        helper.make_node("Reshape", ["x", "goal"], ["y"]),
    ]
    weights = [whole("zero", 0, shape=[]), whole("first", 0), whole("tail", 4, 4)]
    facts = facts_of(tmp_path, model(nodes, weights=weights, outputs=[info("y", ["n", 4, 4])]))
    known = infer(facts.graph, {"x": (3, 16)}, facts.opset)
    assert known.shape("y") == (3, 4, 4)
    assert known.values["goal"] == (3, 4, 4)


def test_what_is_not_certain_is_not_known(tmp_path: Path) -> None:
    nodes = [
        helper.make_node("NonZero", ["x"], ["a"]),
        helper.make_node("Transpose", ["a"], ["b"]),
        helper.make_node("Relu", ["x"], ["y"]),
    ]
    facts = facts_of(tmp_path, model(nodes))
    known = infer(facts.graph, {"x": (3, 16)}, facts.opset)
    assert known.shape("b") is None
    assert known.shape("y") == (3, 16)


def test_a_misfit_names_its_node(tmp_path: Path) -> None:
    made = model(
        [helper.make_node("MatMul", ["x", "w"], ["y"], name="m")], weights=[weight("w", 8, 8)]
    )
    facts = facts_of(tmp_path, made)
    (misfit,) = infer(facts.graph, {"x": (3, 16)}, facts.opset).misfits
    assert misfit.node.label == "m"
    assert misfit.why == "3x16 cannot be multiplied by 8x8"


def test_numbers_that_are_squared_in_every_node_are_not_followed(tmp_path: Path) -> None:
    nodes = [helper.make_node("Mul", [f"v{n}", f"v{n}"], [f"v{n + 1}"]) for n in range(5000)]
    nodes += [helper.make_node("Tile", [f"t{n}", "v0"], [f"t{n + 1}"]) for n in range(5000)]
    nodes.append(helper.make_node("Relu", ["x"], ["y"]))
    weights = [whole("v0", 2**31), weight("t0", 1)]
    facts = facts_of(tmp_path, model(nodes, weights=weights))
    known = infer(facts.graph, {"x": (3, 16)}, facts.opset)
    assert "v5000" not in known.values
    assert known.shape("t5000") is None
    assert known.shape("y") == (3, 16)


def test_numbers_that_make_no_sense_leave_a_shape_unknown(tmp_path: Path) -> None:
    wild = helper.make_tensor("scales", TensorProto.FLOAT, [2], [1.0, float("inf")])
    many = helper.make_node("Split", ["x"], ["a"], axis=1, num_outputs=2**40)
    nodes = [many, helper.make_node("Resize", ["x", "", "scales"], ["y"])]
    facts = facts_of(tmp_path, model(nodes, weights=[wild], opset=18))
    known = infer(facts.graph, {"x": (3, 16)}, facts.opset)
    assert known.shape("y") is None
    assert known.shape("a") is None
    assert known.misfits == []
