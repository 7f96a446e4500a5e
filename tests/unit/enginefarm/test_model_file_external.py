"""External data is found wherever a tensor can stand, and must say where its bytes lie."""

from __future__ import annotations

import pytest
from onnx import TensorProto, helper

from tests.unit.enginefarm.conftest import Refused, Scan
from tests.unit.enginefarm.onnx_made import branch, external_weight, model, parsed, weight


def test_external_data_is_found_inside_branches_functions_sparse_and_training(scan: Scan) -> None:
    def away(name: str) -> TensorProto:
        return external_weight(name, location=f"{name}.bin")

    branching = helper.make_node(
        "If",
        ["x"],
        ["y"],
        then_branch=branch("then", away("in_then")),
        else_branch=branch("else", away("in_else")),
    )
    function = helper.make_function(
        "my.ops",
        "F",
        [],
        ["out"],
        [helper.make_node("Constant", [], ["out"], value=away("in_function"))],
        [helper.make_opsetid("", 17)],
    )
    proto = parsed(model([branching], functions=[function]))
    sparse = proto.graph.sparse_initializer.add()
    sparse.values.CopyFrom(away("in_sparse"))
    training = proto.training_info.add()
    training.algorithm.CopyFrom(branch("training", away("in_training")))

    found = scan(proto.SerializeToString())

    assert {ref.tensor for ref in found.external} == {
        f"in_{where}" for where in ("then", "else", "function", "sparse", "training")
    }
    assert {ref.location for ref in found.external} == {
        f"{ref.tensor}.bin" for ref in found.external
    }
    assert found.node_count == 5


def test_external_data_that_is_not_in_use_is_not_asked_for(scan: Scan) -> None:
    tensor = weight()
    tensor.external_data.add(key="location", value="left-over.bin")

    assert scan(model(weights=[tensor])).external == []


def test_the_parts_of_external_data_are_told(scan: Scan) -> None:
    tensor = external_weight("w", [2, 3], location="w.bin", offset="8", length="24")

    (ref,) = scan(model(weights=[tensor])).external

    assert (ref.tensor, ref.location, ref.offset, ref.length, ref.needed) == (
        "w", "w.bin", 8, 24, 24,
    )  # fmt: skip


@pytest.mark.parametrize(
    "words",
    [
        {"location": "w.bin", "offset": "-1"},
        {"location": "w.bin", "length": "-5"},
        {"location": "w.bin", "offset": "1_0"},
        {"location": "w.bin", "offset": "٣"},
        {"location": "w.bin", "length": " 4"},
        {"location": "w.bin", "offset": "9" * 30},
        {"location": ""},
        {"offset": "0"},
    ],
)
def test_external_data_without_a_usable_place_is_refused(
    refused: Refused, words: dict[str, str]
) -> None:
    error = refused(model(weights=[external_weight("w", (4,), **words)]))

    assert error.code == "external_data_invalid"
    assert "'w'" in error.message


def test_two_locations_for_one_tensor_are_refused(refused: Refused) -> None:
    tensor = external_weight(location="good.bin")
    tensor.external_data.add(key="location", value="../other.bin")

    assert refused(model(weights=[tensor])).code == "external_data_invalid"
