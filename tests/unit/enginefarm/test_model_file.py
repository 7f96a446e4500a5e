"""What a scan says of a model is what is in it; a broken graph is refused by its own code."""

from __future__ import annotations

from collections import Counter
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

from enginefarm.views import TensorView
from tests.unit.enginefarm.conftest import Refused, Scan
from tests.unit.enginefarm.onnx_made import branch, external_weight, model, value, weight


def test_inputs_outputs_opsets_and_operators_are_told(scan: Scan) -> None:
    found = scan(
        model(
            [
                helper.make_node("Relu", ["x"], ["a"]),
                helper.make_node("Relu", ["a"], ["b"]),
                helper.make_node("Own", ["b"], ["y"], domain="my.ops"),
            ],
            inputs=[value("x", ["batch", 3, None, 8])],
            outputs=[value("y", ["batch"], TensorProto.INT64)],
            weights=[],
            opsets={"": 17, "my.ops": 2},
        )
    )

    assert found.ir_version == 9
    assert found.producer == "tests"
    assert found.opsets == {"ai.onnx": 17, "my.ops": 2}
    assert found.inputs == [TensorView(name="x", dtype="float32", shape=["batch", 3, None, 8])]
    assert found.outputs == [TensorView(name="y", dtype="int64", shape=["batch"])]
    assert found.node_count == 3
    assert found.op_types == Counter({"Relu": 2, "my.ops::Own": 1})
    assert found.initializer_bytes == 0
    assert found.external == []


@pytest.mark.parametrize(
    ("number", "name"),
    [
        (TensorProto.FLOAT, "float32"),
        (TensorProto.FLOAT16, "float16"),
        (TensorProto.BFLOAT16, "bfloat16"),
        (TensorProto.DOUBLE, "float64"),
        (TensorProto.INT64, "int64"),
        (TensorProto.UINT8, "uint8"),
        (TensorProto.BOOL, "bool"),
        (TensorProto.STRING, "string"),
        (TensorProto.INT4, "int4"),
    ],
)
def test_types_have_the_names_that_people_use(scan: Scan, number: int, name: str) -> None:
    found = scan(model(inputs=[value("x", [1], number)]))

    assert found.inputs[0].dtype == name


def test_every_type_of_onnx_has_a_name_of_its_own() -> None:
    from enginefarm.onnx_types import dtype_name

    names = [dtype_name(number) for number in TensorProto.DataType.values()]

    assert [name for name in names if name.startswith("type")] == []
    assert len(set(names)) == len(names)
    assert dtype_name(999) == "type999"


def test_sequences_and_maps_are_named_by_what_they_hold(scan: Scan) -> None:
    pairs = helper.make_map_type_proto(
        TensorProto.INT64, helper.make_tensor_type_proto(TensorProto.FLOAT, None)
    )
    listed = helper.make_value_info("y", helper.make_sequence_type_proto(pairs))

    found = scan(model(outputs=[listed]))

    assert found.outputs == [TensorView(name="y", dtype="sequence(map(int64,float32))", shape=[])]


def test_initializers_that_are_listed_as_inputs_are_no_inputs(scan: Scan) -> None:
    found = scan(model(inputs=[value("x"), value("w", [4])], ir_version=3))

    assert [row.name for row in found.inputs] == ["x"]


def test_a_negative_dimension_means_any(scan: Scan) -> None:
    assert scan(model(inputs=[value("x", [-1, 0, 3])])).inputs[0].shape == [None, 0, 3]


def test_the_bytes_of_weights_are_counted_wherever_they_lie(scan: Scan) -> None:
    typed = helper.make_tensor("t", TensorProto.FLOAT, [2], [1.0, 2.0])
    outside = external_weight("e", [4], location="w.bin", offset="0", length="16")
    constant = helper.make_node("Constant", [], ["c"], value=weight("in-attribute", 3))
    nodes = [constant, helper.make_node("Sum", ["x", "w", "t", "e", "c"], ["y"])]

    found = scan(model(nodes, weights=[weight(size=4), typed, outside]))

    assert found.initializer_bytes == 16 + 8 + 16 + 12


def test_a_negative_dimension_of_a_weight_is_refused(refused: Refused) -> None:
    tensor = weight()
    tensor.dims[:] = [-4]

    assert refused(model(weights=[tensor])).code == "invalid_graph"


@pytest.mark.parametrize("size", [2**31, 2**62])
def test_a_dimension_that_no_memory_holds_is_refused(refused: Refused, size: int) -> None:
    assert refused(model(inputs=[value("x", [1, size])])).code == "invalid_graph"


def test_too_many_dimensions_are_refused(refused: Refused) -> None:
    assert refused(model(inputs=[value("x", [1] * 65)])).code == "invalid_graph"


NAMED_TWICE = {
    "outputs of two nodes": model(
        [helper.make_node("Relu", ["x"], ["t"]), helper.make_node("Neg", ["x"], ["t"])],
        outputs=[value("t")],
    ),
    "two outputs of one node": model(
        [helper.make_node("Split", ["x"], ["t", "t"])], outputs=[value("t")]
    ),
    "initializers": model(
        [helper.make_node("Add", ["x", "t"], ["y"])], weights=[weight("t"), weight("t")]
    ),
    "inputs": model(
        [helper.make_node("Relu", ["t"], ["y"])], inputs=[value("t"), value("t")], weights=[]
    ),
    "a graph's outputs": model(
        [helper.make_node("Relu", ["x"], ["t"])], outputs=[value("t"), value("t")]
    ),
    "an initializer and a node": model(
        [helper.make_node("Relu", ["x"], ["t"])], outputs=[value("t")], weights=[weight("t")]
    ),
    "an input and a node": model(
        [helper.make_node("Relu", ["t"], ["t"])], inputs=[value("t")], outputs=[value("t")]
    ),
}


@pytest.mark.parametrize("data", NAMED_TWICE.values(), ids=NAMED_TWICE.keys())
def test_a_name_for_two_tensors_is_refused_and_told(refused: Refused, data: bytes) -> None:
    error = refused(data)

    assert error.code == "invalid_graph"
    assert error.context["tensor"] == "t"


def test_outputs_that_are_not_wanted_may_all_be_nameless(scan: Scan) -> None:
    nodes = [helper.make_node("TopK", ["x", "w"], ["", "y"]), helper.make_node("Relu", ["x"], [""])]

    assert scan(model(nodes)).node_count == 2


def test_the_same_name_in_two_branches_is_no_conflict(scan: Scan) -> None:
    same = branch("same", weight("w2"))
    node = helper.make_node("If", ["x"], ["y"], then_branch=same, else_branch=same)

    assert scan(model([node])).node_count == 3


@pytest.mark.parametrize(
    ("nodes", "outputs"),
    [([], []), ([], [value("x")]), ([helper.make_node("Relu", ["x"], ["y"])], [])],
    ids=["nothing", "no nodes", "no outputs"],
)
def test_a_graph_that_computes_nothing_is_refused(
    refused: Refused, nodes: list[Any], outputs: list[Any]
) -> None:
    assert refused(model(nodes, outputs=outputs)).code == "empty_graph"


def test_an_output_that_nothing_makes_is_refused(refused: Refused) -> None:
    error = refused(model(outputs=[value("z")]))

    assert error.code == "invalid_graph"
    assert error.context["tensor"] == "z"


def test_a_model_without_operator_sets_is_refused_unless_it_is_old_enough(
    refused: Refused, scan: Scan
) -> None:
    assert refused(model(opsets={})).code == "opset_missing"
    assert scan(model(opsets={}, ir_version=2)).opsets == {"ai.onnx": 1}


def test_an_input_without_a_type_is_refused(refused: Refused) -> None:
    assert refused(model(inputs=[onnx.ValueInfoProto(name="x")])).code == "invalid_graph"


@pytest.mark.parametrize("name", ["a\nb", "a\x00b", "\x1b[2J", "a\u2028b"])
def test_names_that_people_see_have_no_control_characters(refused: Refused, name: str) -> None:
    for data in (
        model(inputs=[value(name)]),
        model(inputs=[value("x", [name])]),
        model(opsets={"": 17, name: 1}),
    ):
        assert refused(data).code == "invalid_graph"


def test_weights_of_typed_numbers_are_read_over(scan: Scan) -> None:
    typed = [
        helper.make_tensor("w", TensorProto.INT64, [3], [1, -1, 2**40]),
        numpy_helper.from_array(np.array(["a", "b"], dtype=object), "v"),
        helper.make_tensor("u", TensorProto.DOUBLE, [1], [0.5]),
        numpy_helper.from_array(np.zeros((2, 0), np.float32), "empty"),
    ]

    assert scan(model(weights=typed)).node_count == 1


def test_attributes_of_many_plain_numbers_are_read_over(scan: Scan) -> None:
    node = helper.make_node(
        "TreeEnsembleRegressor",
        ["x"],
        ["y"],
        domain="ai.onnx.ml",
        nodes_values=[0.5] * 50_000,
        nodes_treeids=list(range(50_000)),
        nodes_modes=["LEAF"] * 1000,
    )

    assert scan(model([node], opsets={"": 17, "ai.onnx.ml": 3})).node_count == 1
