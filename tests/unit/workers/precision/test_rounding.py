"""A half graph is judged in fp32 as a GPU stores it: overflow and lost digits show."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

from enginefarm.precision import PrecisionKind
from tests.unit.workers.repair.made import model, value
from workers.backends.base import Array
from workers.precision.rounding import half_types, rounded
from workers.precision.running import opened

NUMBERS = {PrecisionKind.FP16: TensorProto.FLOAT16, PrecisionKind.BF16: TensorProto.BFLOAT16}


def half_model(kind: PrecisionKind) -> onnx.ModelProto:
    """A square in half between two casts, with a constant of each sort."""
    number = NUMBERS[kind]
    three = helper.make_tensor("c", number, [1], [3.0])
    one = helper.make_tensor("w", number, [1], [1.0])
    nodes = [
        helper.make_node("Cast", ["x"], ["h"], to=number),
        helper.make_node("Mul", ["h", "h"], ["s"]),
        helper.make_node("Constant", [], ["c"], value=three),
        helper.make_node("Add", ["s", "c"], ["t"]),
        helper.make_node("Mul", ["t", "w"], ["u"]),
        helper.make_node("Cast", ["u"], ["y"], to=TensorProto.FLOAT),
    ]
    return model(nodes, [value("x", 4)], [value("y", 4)], [one], opset=22)


def run(folder: Path, made: onnx.ModelProto, x: Array) -> Array:
    runner = opened(made, folder)
    found = runner.run({"x": x})[0]
    assert found is not None
    return found


@pytest.mark.parametrize("kind", NUMBERS)
def test_the_interface_and_the_names_are_those_of_the_model(kind: PrecisionKind) -> None:
    before = half_model(kind)
    after = rounded(before, kind)
    assert list(before.graph.input) == list(after.graph.input)
    assert list(before.graph.output) == list(after.graph.output)
    assert half_types(before, kind) == {"h", "s", "c", "t", "u", "w"}


def test_fp16_overflows_and_bf16_loses_digits(tmp_path: Path) -> None:
    x = np.array([300.0, 2.0, 1 / 3, 0.0], np.float32)
    fp16 = run(tmp_path, rounded(half_model(PrecisionKind.FP16), PrecisionKind.FP16), x)
    assert np.isinf(fp16[0])
    h = np.float16(1 / 3)
    assert fp16[2] == np.float16(np.float16(np.float32(h) * np.float32(h)) + np.float32(3))
    bf16 = run(tmp_path, rounded(half_model(PrecisionKind.BF16), PrecisionKind.BF16), x)
    assert np.isfinite(bf16[0])
    assert bf16[2] != fp16[2]
    assert bf16[1] == 7


def test_constants_keep_the_values_that_they_had() -> None:
    after = rounded(half_model(PrecisionKind.FP16), PrecisionKind.FP16)
    assert numpy_helper.to_array(after.graph.initializer[0]).dtype == np.float32
    assert not [row for row in after.graph.initializer if row.data_type != TensorProto.FLOAT]


def test_what_is_half_within_a_branch_is_rounded_there_too(tmp_path: Path) -> None:
    half = helper.make_tensor_value_info("inner", TensorProto.FLOAT16, [4])
    square = helper.make_graph([helper.make_node("Mul", ["h", "h"], ["inner"])], "then", [], [half])
    same = helper.make_graph([helper.make_node("Identity", ["h"], ["inner"])], "else", [], [half])
    nodes = [
        helper.make_node("Cast", ["x"], ["h"], to=TensorProto.FLOAT16),
        helper.make_node("If", ["yes"], ["b"], then_branch=square, else_branch=same),
        helper.make_node("Cast", ["b"], ["y"], to=TensorProto.FLOAT),
    ]
    yes = numpy_helper.from_array(np.array(True), "yes")
    before = model(nodes, [value("x", 4)], [value("y", 4)], [yes], opset=22)
    x = np.array([300.0, 2.0, 1 / 3, 0.0], np.float32)
    found = run(tmp_path, rounded(before, PrecisionKind.FP16), x)
    assert np.isinf(found[0])
    assert found[2] == np.float16(np.float16(1 / 3) * np.float16(1 / 3))
    onnx.checker.check_model(rounded(before, PrecisionKind.FP16))
