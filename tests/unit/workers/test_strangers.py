"""ONNX's checker looks at all of a model but what only a plugin of TensorRT's can know."""

from __future__ import annotations

from pathlib import Path

import onnx
from onnx import TensorProto, helper

from bench.hostile.made import model
from workers.backends.graph import check_file
from workers.backends.strangers import DOMAIN, set_apart

OURS = helper.make_node("Ours", ["x"], ["h"], name="ours")


def saved(folder: Path, made: onnx.ModelProto) -> Path:
    path = folder / "model.onnx"
    onnx.save(made, str(path))
    return path


def test_an_unknown_operator_in_onnxs_domain_is_let_be_and_the_file_stays_as_it_is(
    tmp_path: Path,
) -> None:
    path = saved(tmp_path, model([OURS, helper.make_node("Relu", ["h"], ["y"])]))
    before = path.read_bytes()
    assert [row.code for row in check_file(path)] == ["invalid_graph"]
    assert check_file(path, others=True) == []
    assert path.read_bytes() == before
    assert list(tmp_path.iterdir()) == [path]


def test_what_else_is_wrong_is_still_told(tmp_path: Path) -> None:
    wrong = helper.make_node("Relu", ["nowhere"], ["y"])
    path = saved(tmp_path, model([OURS, wrong]))
    (found,) = check_file(path, others=True)
    assert "nowhere" in found.message
    assert str(tmp_path) not in found.message


def test_they_are_found_inside_branches_and_functions(tmp_path: Path) -> None:
    output = helper.make_tensor_value_info("b", TensorProto.FLOAT, None)
    branch = helper.make_graph([helper.make_node("Ours", ["x"], ["b"])], "branch", [], [output])
    nodes = [
        helper.make_node(
            "Constant", [], ["c"], value=helper.make_tensor("", TensorProto.BOOL, [], [1])
        ),
        helper.make_node("If", ["c"], ["i"], then_branch=branch, else_branch=branch),
        helper.make_node("Local", ["i"], ["y"], domain="own"),
    ]
    made = model(nodes)
    made.opset_import.append(helper.make_opsetid("own", 1))
    opsets = [helper.make_opsetid("", 17)]
    inner = [helper.make_node("Ours", ["a"], ["r"])]
    made.functions.append(helper.make_function("own", "Local", ["a"], ["r"], inner, opsets))
    with set_apart(saved(tmp_path, made)) as copy:
        found = onnx.load(str(copy))
    assert found.graph.node[1].attribute[0].g.node[0].domain == DOMAIN
    assert found.functions[0].node[0].domain == DOMAIN
    assert check_file(tmp_path / "model.onnx", others=True) == []


def test_a_model_without_any_is_looked_at_itself(tmp_path: Path) -> None:
    path = saved(tmp_path, model([helper.make_node("Relu", ["x"], ["y"])]))
    with set_apart(path) as copy:
        assert copy == path
    path.write_bytes(b"\x08\x07no model")
    with set_apart(path) as copy:
        assert copy == path


def test_weights_that_lie_apart_are_found_from_the_copy(tmp_path: Path) -> None:
    weights = [helper.make_tensor("w", TensorProto.FLOAT, [16], [1.0] * 16)]
    made = model([OURS, helper.make_node("Add", ["h", "w"], ["y"])], weights=weights)
    onnx.save(
        made,
        str(tmp_path / "model.onnx"),
        save_as_external_data=True,
        location="weights.bin",
        size_threshold=0,
    )
    assert check_file(tmp_path / "model.onnx", others=True) == []
