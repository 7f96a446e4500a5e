"""Wrong models and profiles give findings, all at once; they never crash a stage."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from onnx import helper, numpy_helper

from enginefarm.state import Blame, Stage
from tests.contract.backends import made
from tests.contract.backends.bench import RANGE, Bench, findings
from workers.sandbox import Ending

WRONG: list[tuple[Callable[[Path], Path], set[str]]] = [
    (made.garbage, {"not_a_model"}),
    (made.truncated, {"model_truncated"}),
    (made.empty, {"empty_file"}),
    (made.unknown_operator, {"unsupported_operator"}),
    (made.duplicate_name, {"invalid_graph"}),
    (made.no_nodes, {"empty_graph"}),
    (made.data_outside, {"external_path_escapes"}),
    (made.baked_batch, {"profile_not_runnable", "shape_mismatch"}),
    (made.opset_from_the_future, {"unsupported_opset"}),
]


@pytest.mark.parametrize(("make", "codes"), WRONG, ids=lambda value: getattr(value, "__name__", ""))
def test_a_wrong_model_gives_findings(
    bench: Bench, tmp_path: Path, make: Callable[[Path], Path], codes: set[str]
) -> None:
    path = make(tmp_path / "model")
    ran = bench.run(Stage.CHECK, path)
    if ran.code is None:  # what a check cannot see, the build must say
        ran = bench.run(Stage.COMPILE, path)
    assert ran.outcome.ending is Ending.EXITED, ran.log
    assert ran.result is not None
    assert ran.result.failure is not None
    assert ran.result.failure.code in codes
    assert ran.result.failure.blame is Blame.PERSON
    assert ran.result.failure.fix
    assert str(tmp_path) not in ran.result.model_dump_json(include={"failure"})
    listed: Any = ran.result.facts.get("findings", [])
    assert all(finding["message"] for finding in listed)


def test_all_that_is_wrong_is_found_at_once(bench: Bench, tmp_path: Path) -> None:
    nodes = [
        helper.make_node("Frobnicate", ["x"], ["a"], name="one", domain="strange.domain"),
        helper.make_node("Relu", ["a"], ["b"]),
        helper.make_node("Grumble", ["b"], ["c"], name="two", domain="strange.domain"),
        helper.make_node("Frobnicate", ["c"], ["y"], name="three", domain="strange.domain"),
    ]
    model = made.model_of(nodes)
    model.opset_import.append(helper.make_opsetid("strange.domain", 1))
    ran = bench.run(Stage.CHECK, made.save(tmp_path / "model", model))
    named = {finding["where"]: finding["message"] for finding in findings(ran)}
    assert {"one, three", "two"} <= set(named)
    assert "Frobnicate" in named["one, three"]
    assert len([finding for finding in findings(ran) if finding["severity"] == "error"]) == 2
    assert ran.result is not None
    assert ran.result.failure is not None
    assert "2 errors" in ran.result.failure.why


def test_an_operator_that_is_known_but_used_otherwise_is_told_apart(
    bench: Bench, tmp_path: Path
) -> None:
    if bench.backend.name != "tensorrt-rtx":
        pytest.skip("ONNX Runtime takes this use")
    node = helper.make_node(
        "Resize",
        ["x", "", "scales"],
        ["y"],
        mode="nearest",
        coordinate_transformation_mode="tf_half_pixel_for_nn",
        nearest_mode="floor",
    )
    scales = numpy_helper.from_array(np.array([1, 1, 2, 2], np.float32), "scales")
    model = made.model_of(
        [node],
        weights=[scales],
        inputs=[made.info("x", [1, 1, 4, 4])],
        outputs=[made.info("y", [1, 1, 8, 8])],
        opset=13,
    )
    ran = bench.run(Stage.CHECK, made.save(tmp_path / "model", model), profiles=[])
    (found,) = [each for each in findings(ran) if each["severity"] == "error"]
    assert found["code"] == "unsupported_attribute"
    assert "round_prefer_floor" in found["why"]
    assert "The runtime says" in found["why"]


PROFILE_FAULTS: list[tuple[str, list[Any], str]] = [
    ("none", [], "profile_required"),
    ("rank", [{"x": {"min": [1], "opt": [4], "max": [8]}}], "profile_rank"),
    ("order", [{"x": RANGE | {"min": [5, 16]}}], "profile_order"),
    ("static", [{"x": RANGE | {"max": [8, 17]}}], "profile_static_mismatch"),
    ("unknown", [{"x": RANGE, "xy": RANGE}], "profile_unknown_input"),
    ("missing", [{}], "profile_missing_input"),
]


@pytest.mark.parametrize(
    ("profiles", "code"), [case[1:] for case in PROFILE_FAULTS], ids=[c[0] for c in PROFILE_FAULTS]
)
def test_a_profile_that_does_not_fit_is_a_finding(
    bench: Bench, model: Path, profiles: list[Any], code: str
) -> None:
    ran = bench.run(Stage.CHECK, model, profiles=profiles)
    assert code in {finding["code"] for finding in findings(ran)}


@pytest.mark.parametrize(
    ("other", "code"),
    [({"min": [6, 16], "opt": [6, 16], "max": [6, 16]}, None), (None, "profile_dim_conflict")],
    ids=["overlapping", "apart"],
)
def test_check_and_compile_agree_on_dimensions_that_share_a_name(
    bench: Bench,
    tmp_path: Path,
    other: dict[str, list[int]] | None,
    code: str | None,
) -> None:
    if bench.backend.name == "onnxruntime":
        pytest.skip("ONNX Runtime takes dimension names as words only")
    node = helper.make_node("Add", ["x", "z"], ["y"])
    inputs = [made.info("x", ["n", 16]), made.info("z", ["n", 16])]
    path = made.save(tmp_path / "model", made.model_of([node], inputs=inputs))
    apart = {"min": [9, 16], "opt": [9, 16], "max": [9, 16]}
    profiles = [{"x": RANGE, "z": other or apart}]
    checked = bench.run(Stage.CHECK, path, profiles=profiles)
    assert checked.code == code
    if code is not None:
        assert findings(checked)[0]["where"] == "x[0], z[0]"
    assert bench.run(Stage.COMPILE, path, profiles=profiles).code == code


def test_what_is_wrong_with_the_model_itself_names_no_other_target(
    bench: Bench, tmp_path: Path
) -> None:
    unheard_of = made.model_of([helper.make_node("Magic", ["x"], ["y"])])
    ran = bench.run(Stage.CHECK, made.save(tmp_path / "model", unheard_of))

    assert ran.code == "unsupported_operator"
    assert "other_targets" not in {row["code"] for row in findings(ran)}
