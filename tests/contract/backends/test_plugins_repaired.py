"""Repairs of a model with operators of plugins: proven with them, and none of them touched."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import helper

from enginefarm.repair_report import Outcome
from enginefarm.spec import FixedInput
from tests.contract.backends import custom_operators as custom
from tests.unit.workers.repair.made import FLOAT, INT64, branch, model, one, through, value, weight
from workers.backends import ort_session

WORKERS = Path(__file__).parents[3] / "workers"
SQUARE = np.array([[2, 1], [1, 3]], np.float32)


@pytest.fixture(autouse=True)
def _with_library() -> Iterator[None]:
    ort_session.take_library(custom.library())
    yield
    ort_session.forget_libraries()


def chosen(domain: str) -> onnx.ModelProto:
    """A branch that a rate chooses, behind it the operator, on what comes and on a constant."""
    then = branch([helper.make_node("Mul", ["x", "two"], ["t"])], "t")
    rest = branch([helper.make_node("Neg", ["x"], ["n"])], "n")
    operator = "Inverse" if domain else "Ours"
    nodes = [
        helper.make_node("Equal", ["sr", "rate"], ["is16"]),
        helper.make_node("If", ["is16"], ["a"], then_branch=then, else_branch=rest),
        helper.make_node(operator, ["a"], ["b"], name="theirs", domain=domain),
        helper.make_node(operator, ["square"], ["c"], name="of-a-constant", domain=domain),
        helper.make_node("MatMul", ["b", "c"], ["y"]),
    ]
    weights = [
        weight("rate", np.int64(16000)),
        weight("two", np.float32(2)),
        weight("square", SQUARE),
    ]
    inputs = [value("x", 2, 2, dtype=FLOAT), value("sr", dtype=INT64)]
    domains = [domain] if domain else []
    return model(nodes, inputs, [value("y", 2, 2)], weights, domains=domains)


def test_what_is_around_the_operators_is_mended_and_proven_with_them(tmp_path: Path) -> None:
    made, reports = through(chosen(custom.DOMAIN), tmp_path, fixed={"sr": FixedInput(value=16000)})
    folded = one(reports, "fold-constants")
    assert folded.outcome is Outcome.APPLIED
    assert folded.proof is not None
    assert folded.proof.max_rel_error is not None
    assert "If" not in {node.op_type for node in made.graph.node}
    theirs = [node for node in made.graph.node if node.domain == custom.DOMAIN]
    assert [node.name for node in theirs] == ["theirs", "of-a-constant"]
    path = tmp_path / "made.onnx"
    onnx.save(made, str(path))
    (found,) = ort_session.open_reference(path).run({"x": SQUARE})
    assert found is not None
    assert np.allclose(found, np.linalg.inv(2 * SQUARE) @ np.linalg.inv(SQUARE), atol=1e-5)


def test_an_operator_that_only_tensorrt_could_have_leaves_the_model_as_it_is(
    tmp_path: Path,
) -> None:
    made, reports = through(chosen(""), tmp_path, "fold-constants", backend="tensorrt")
    assert [node.op_type for node in made.graph.node].count("Ours") == 2
    assert one(reports, "fold-constants").outcome is not Outcome.APPLIED


def test_options_of_sessions_are_made_in_one_place_so_that_none_lacks_a_library() -> None:
    making = {
        str(path.relative_to(WORKERS))
        for path in WORKERS.rglob("*.py")
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.Call)
        and isinstance(node.func, ast.Attribute | ast.Name)
        and getattr(node.func, "attr", getattr(node.func, "id", "")) == "SessionOptions"
    }
    assert making == {"backends/ort_session.py"}
