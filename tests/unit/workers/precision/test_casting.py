"""A graph in half precision: what is cast, what stays, and what half really gives."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

from enginefarm.errors import JobFailed
from enginefarm.precision import PrecisionKind
from enginefarm.precision_report import PrecisionReport
from enginefarm.state import Blame
from tests.unit.workers.precision import made
from tests.unit.workers.precision.made import weight
from tests.unit.workers.repair.made import model, value
from workers.precision.casting import HALVES, constants_beyond, plan_cast
from workers.precision.running import opened, outputs_of
from workers.precision.writing import written

FP16, BF16 = PrecisionKind.FP16, PrecisionKind.BF16
ROWS = [{"x": {"min": [1, 32], "opt": [2, 32], "max": [4, 32]}}]


def random(*shape: int, seed: int = 0, size: float = 0.3) -> Any:  # noqa: ANN401 - an array
    return np.random.default_rng(seed).standard_normal(shape) * size


def types(graph: onnx.GraphProto) -> dict[str, int]:
    return {row.name: row.data_type for row in graph.initializer}


def report(result: Any) -> PrecisionReport:  # noqa: ANN401 - a child's result
    return PrecisionReport.model_validate(result.facts["precision"])


def test_a_plain_graph_is_in_half_and_keeps_its_interface(tmp_path: Path) -> None:
    result = made.run(tmp_path, made.small_network(), "fp16")
    told = report(result)
    assert (told.changed, told.nodes, told.kept_count) == (8, 8, 0)
    now = onnx.load(str(tmp_path / "out" / "model.onnx"))
    assert set(types(now.graph).values()) == {TensorProto.FLOAT16}
    assert now.graph.input[0].type.tensor_type.elem_type == TensorProto.FLOAT
    assert now.graph.output[0].type.tensor_type.elem_type == TensorProto.FLOAT
    assert now.ByteSize() < made.small_network().ByteSize() * 0.6
    assert told.model_accuracy is not None
    assert (told.model_accuracy.outputs[0].cosine or 0) > 0.9999


def resized() -> onnx.ModelProto:
    nodes = [
        helper.make_node("Conv", ["x", "w"], ["a"], pads=[1, 1, 1, 1]),
        helper.make_node("Resize", ["a", "roi", "scales"], ["b"], mode="linear"),
        helper.make_node("Sigmoid", ["b"], ["y"]),
    ]
    weights = [weight("w", random(8, 3, 3, 3)), weight("roi", []), weight("scales", [1, 1, 2, 2])]
    return model(nodes, [value("x", "n", 3, 16, 16)], [value("y", "n", 8, 32, 32)], weights)


def test_the_scales_of_a_resize_stay_in_fp32(tmp_path: Path) -> None:
    sizes = [{"x": {each: [1, 3, 16, 16] for each in ("min", "opt", "max")}}]
    result = made.run(tmp_path, resized(), "fp16", profiles=sizes)
    now = onnx.load(str(tmp_path / "out" / "model.onnx"))
    assert types(now.graph)["scales"] == TensorProto.FLOAT
    assert report(result).kept_count == 0


def masked() -> onnx.ModelProto:
    """An infinite constant, and a mask of -1e12: a softmax over what is left."""
    nodes = [
        helper.make_node("MatMul", ["x", "w"], ["a"], name="product"),
        helper.make_node("Min", ["a", "inf"], ["b"], name="least"),
        helper.make_node("Mul", ["mask", "neg"], ["m"], name="masking"),
        helper.make_node("Add", ["b", "m"], ["c"], name="sum"),
        helper.make_node("Softmax", ["c"], ["y"], name="softmax", axis=-1),
    ]
    weights = [weight("w", random(16, 16)), weight("inf", np.inf), weight("neg", -1e12)]
    inputs = [value("x", "n", 16), value("mask", "n", 16)]
    return model(nodes, inputs, [value("y", "n", 16)], weights)


MASKS = {"x": random(8, 16).astype(np.float32), "mask": np.eye(8, 16, dtype=np.float32)}
SIXTEEN = [{name: {each: [1, 16] for each in ("min", "opt", "max")} for name in ("x", "mask")}]


def test_what_a_constant_beyond_half_touches_stays_and_is_told(tmp_path: Path) -> None:
    result = made.run(
        tmp_path, masked(), "fp16", calibration=MASKS, evaluation=MASKS, profiles=SIXTEEN
    )
    told = report(result)
    kept = {row.node: row.why for row in told.kept}
    assert "inf" in kept["least"]
    assert "1e+12" in kept["masking"]
    assert "reaches 1e+12" in kept["sum"]
    assert "product" not in kept
    assert told.model_accuracy is not None
    assert (told.model_accuracy.outputs[0].cosine_worst or 0) > 0.9999
    assert told.model_accuracy.outputs[0].nonfinite_engine == 0


def normalised() -> onnx.ModelProto:
    """A layer norm written out, of values whose squares half cannot hold."""
    nodes = [
        helper.make_node("MatMul", ["x", "w"], ["a"], name="product"),
        helper.make_node("ReduceMean", ["a"], ["mu"], name="mean", axes=[-1]),
        helper.make_node("Sub", ["a", "mu"], ["d"], name="centred"),
        helper.make_node("Pow", ["d", "two"], ["sq"], name="squares"),
        helper.make_node("ReduceMean", ["sq"], ["v"], name="variance", axes=[-1]),
        helper.make_node("Add", ["v", "eps"], ["ve"], name="above-zero"),
        helper.make_node("Sqrt", ["ve"], ["sd"], name="deviation"),
        helper.make_node("Div", ["d", "sd"], ["y"], name="normal"),
    ]
    weights = [weight("w", random(32, 32, size=40)), weight("two", 2), weight("eps", 1e-5)]
    return model(nodes, [value("x", "n", 32)], [value("y", "n", 32)], weights)


def test_squares_that_overflow_stay_in_fp32_and_the_result_is_finite(tmp_path: Path) -> None:
    told = report(made.run(tmp_path, normalised(), "fp16", profiles=ROWS))
    kept = {row.node for row in told.kept}
    assert {"squares", "variance"} <= kept
    assert "product" not in kept
    assert told.model_accuracy is not None
    output = told.model_accuracy.outputs[0]
    assert output.nonfinite_engine == 0
    assert (output.cosine_worst or 0) > 0.9999


def test_overflow_shows_in_the_rounded_graph_although_the_cpu_would_hide_it(tmp_path: Path) -> None:
    plan = plan_cast(normalised(), FP16)
    feeds = {"x": (random(4, 32, seed=1, size=1)).astype(np.float32)}
    rounded = outputs_of(opened(written(plan, rounded=True), tmp_path), feeds)["y"]
    wanted = outputs_of(opened(normalised(), tmp_path), feeds)["y"]
    assert rounded is not None
    assert wanted is not None
    assert not np.allclose(rounded, wanted, atol=0.1)


def test_rounding_is_that_of_numpy(tmp_path: Path) -> None:
    nodes = [helper.make_node("Neg", ["x"], ["y"])]
    graph = model(nodes, [value("x", "n", 4)], [value("y", "n", 4)])
    numbers = np.array([[1 / 3, 70_000, 1e-8, -65_519]], np.float32)
    for kind in (FP16, BF16):
        runner = opened(written(plan_cast(graph, kind), rounded=True), tmp_path)
        found = outputs_of(runner, {"x": numbers})["y"]
        wanted = -HALVES[kind].rounded(numbers).astype(np.float32)
        assert found is not None
        assert np.array_equal(found, wanted), kind


def cancelling() -> onnx.ModelProto:
    """A variance as the mean of squares less the squared mean: nothing is large, and half loses."""
    nodes = [
        helper.make_node("MatMul", ["x", "w"], ["a"], name="before"),
        helper.make_node("Add", ["a", "far"], ["b"], name="away"),
        helper.make_node("ReduceMean", ["b"], ["mu"], name="mean", axes=[-1]),
        helper.make_node("Mul", ["b", "b"], ["sq"], name="squares"),
        helper.make_node("ReduceMean", ["sq"], ["of-sq"], name="mean-of-squares", axes=[-1]),
        helper.make_node("Mul", ["mu", "mu"], ["sq-of"], name="square-of-mean"),
        helper.make_node("Sub", ["of-sq", "sq-of"], ["v"], name="variance"),
        helper.make_node("Add", ["v", "eps"], ["ve"], name="above-zero"),
        helper.make_node("Sqrt", ["ve"], ["sd"], name="deviation"),
        helper.make_node("Sub", ["b", "mu"], ["d"], name="centred"),
        helper.make_node("Div", ["d", "sd"], ["n"], name="normal"),
        helper.make_node("MatMul", ["n", "v2"], ["y"], name="after"),
    ]
    weights = [weight("w", random(32, 32)), weight("far", 100), weight("eps", 1e-3)]
    weights.append(weight("v2", random(32, 8, seed=2)))
    return model(nodes, [value("x", "n", 32)], [value("y", "n", 8)], weights)


def test_a_span_that_half_ruins_is_found_and_stays_and_its_cost_is_told(tmp_path: Path) -> None:
    told = report(made.run(tmp_path, cancelling(), "fp16", profiles=ROWS))
    kept = {row.node: row.why for row in told.kept}
    assert "of the cosine" in kept["variance"]
    assert not {"before", "after"} & set(kept)
    assert told.model_accuracy is not None
    assert (told.model_accuracy.outputs[0].cosine or 0) > 0.999


def test_bf16_has_the_range_of_fp32_and_is_judged_on_a_cpu_that_has_no_bf16(tmp_path: Path) -> None:
    told = report(made.run(tmp_path, made.small_network(), "bf16"))
    now = onnx.load(str(tmp_path / "out" / "model.onnx"))
    assert set(types(now.graph).values()) == {TensorProto.BFLOAT16}
    assert told.model_accuracy is not None
    assert (told.model_accuracy.outputs[0].cosine or 0) > 0.999
    assert any("rounded to bf16" in note for note in told.model_accuracy.notes)
    assert constants_beyond(plan_cast(normalised(), BF16)) == {}


def test_a_name_in_the_interface_that_a_newer_opset_would_know_as_a_number_stays_one(
    tmp_path: Path,
) -> None:
    network = made.small_network()
    network.graph.output[0].type.tensor_type.shape.dim[1].dim_param = "classes"
    network.opset_import[0].version = 13
    report(made.run(tmp_path, network, "bf16"))
    now = onnx.load(str(tmp_path / "out" / "model.onnx"))
    assert now.graph.output[0] == network.graph.output[0]
    assert now.opset_import[0].version > 13


def branching() -> onnx.ModelProto:
    """A branch that reads a tensor from around it."""
    then = helper.make_graph(
        [helper.make_node("Relu", ["a"], ["then_y"])], "then", [], [value("then_y", "n", 4)]
    )
    other = helper.make_graph(
        [helper.make_node("Neg", ["a"], ["else_y"])], "else", [], [value("else_y", "n", 4)]
    )
    nodes = [
        helper.make_node("MatMul", ["x", "w"], ["a"], name="product"),
        helper.make_node("ReduceSum", ["a"], ["s"], name="sum", keepdims=0),
        helper.make_node("Greater", ["s", "zero"], ["positive"], name="asked"),
        helper.make_node(
            "If", ["positive"], ["y"], name="branch", then_branch=then, else_branch=other
        ),
    ]
    weights = [weight("w", random(4, 4)), weight("zero", 0)]
    return model(nodes, [value("x", "n", 4)], [value("y", "n", 4)], weights)


def test_a_branch_gets_in_fp32_what_it_reads_from_around_it(tmp_path: Path) -> None:
    four = [{"x": {each: [2, 4] for each in ("min", "opt", "max")}}]
    told = report(made.run(tmp_path, branching(), "fp16", profiles=four))
    assert told.model_accuracy is not None
    assert (told.model_accuracy.outputs[0].cosine or 0) > 0.9999


def test_nodes_are_left_out_by_name_and_operator(tmp_path: Path) -> None:
    named = report(made.run(tmp_path / "a", made.small_network(), "fp16", exclude=["sec*"]))
    assert [(row.node, row.why) for row in named.kept] == [("second", "excluded by the build")]
    only = report(made.run(tmp_path / "b", made.small_network(), "fp16", op_types=["Conv"]))
    assert only.changed == 2


def test_a_model_of_which_nothing_can_be_cast_is_refused(tmp_path: Path) -> None:
    with pytest.raises(JobFailed) as refused:
        made.run(tmp_path, made.small_network(), "fp16", exclude=["*"])
    assert refused.value.code == "precision_without_effect"


def test_constants_of_a_graph_are_cast_as_weights_are() -> None:
    constant = numpy_helper.from_array(np.array([2.0], np.float32))
    nodes = [
        helper.make_node("Constant", [], ["two"], value=constant),
        helper.make_node("Mul", ["x", "two"], ["y"]),
    ]
    plan = plan_cast(model(nodes, [value("x", "n", 4)], [value("y", "n", 4)]), FP16)
    assert list(types(written(plan).graph).values()) == [TensorProto.FLOAT16]


def _not_there(model: onnx.ModelProto) -> None:
    model.opset_import.append(helper.make_opsetid("acme", 1))
    model.graph.node.append(helper.make_node("Weird", ["y"], ["z"], domain="acme"))


def _no_graph(model: onnx.ModelProto) -> None:
    model.graph.node[1].input[0] = "nowhere"


def _fails_when_run(model: onnx.ModelProto) -> None:
    shape = onnx.numpy_helper.from_array(np.array([7, 9]), "shape")
    model.graph.initializer.append(shape)
    model.graph.node.append(helper.make_node("Reshape", ["y", "shape"], ["z"]))
    model.graph.output.append(helper.make_tensor_value_info("z", TensorProto.FLOAT, [7, 9]))


@pytest.mark.parametrize("spoil", [_not_there, _no_graph, _fails_when_run])
def test_a_model_that_cannot_be_run_is_the_persons_and_spoils_no_node(
    tmp_path: Path, spoil: Callable[[onnx.ModelProto], None]
) -> None:
    model = made.small_network()
    spoil(model)
    with pytest.raises(JobFailed) as refused:
        made.run(tmp_path, model, "fp16")
    assert (refused.value.code, refused.value.blame) == ("precision_not_run", Blame.PERSON)
    assert "It says: " in refused.value.why


@pytest.mark.parametrize("suffix", ["_size", "_largest"])
def test_names_that_are_as_those_of_a_measurement_are_in_nobodys_way(
    tmp_path: Path, suffix: str
) -> None:
    model = made.small_network()
    for node in model.graph.node:
        node.input[:] = [f"a{suffix}" if name == "b" else name for name in node.input]
        node.output[:] = [f"a{suffix}" if name == "b" else name for name in node.output]
    assert report(made.run(tmp_path, model, "fp16")).changed > 0
