"""One suite for the tools that write models in another precision, whatever environment they have.

ModelOpt's part takes seconds a run and belongs to `make soak`, which sets it up.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import helper

from enginefarm.errors import JobFailed
from enginefarm.model_file import scan_model
from enginefarm.precision import Precision, PrecisionKind, PrecisionTool
from enginefarm.precision_report import PrecisionRecipe
from enginefarm.sensitivity_report import SensitivityReport
from tests.contract.precision.environment import modelopt_python
from tests.unit.workers.precision.made import (
    CALIBRATION,
    IMAGE,
    images,
    one_by_one,
    weight,
)
from tests.unit.workers.repair.made import model, value
from workers.precision import quantizing, running
from workers.precision.changing import Changed, Work
from workers.precision.rounding import half_types
from workers.precision.running import likeness, opened, outputs_of
from workers.precision.tools import modelopt
from workers.precision.tools.choosing import quantized_names
from workers.precision.tools.registry import open_tool
from workers.tool_script import ask_versions, version_of

MADE = [
    ("enginefarm", "fp16"),
    ("onnxruntime", "int8"),
    ("modelopt", "fp16"),
    ("modelopt", "int8"),
    ("modelopt", "fp8"),
    ("modelopt", "int4"),
]
WIDE = 32
"""Channels: ModelOpt leaves a convolution of fewer than 16 out of fp8, for it gains nothing."""
LEAST = {"fp16": 0.9999, "int8": 0.98, "fp8": 0.95, "int4": 0.98}


def network() -> onnx.ModelProto:
    """Three convolutions and a product of matrices."""
    rng = np.random.default_rng(7)
    weights = [
        weight("w1", rng.standard_normal((WIDE, 3, 5, 5)) * 0.2),
        weight("w2", rng.standard_normal((WIDE, WIDE, 3, 3)) * 0.08),
        weight("w3", rng.standard_normal((WIDE, WIDE, 3, 3)) * 0.08),
        weight("w4", rng.standard_normal((WIDE, 10)) * 0.5),
    ]
    nodes = [
        helper.make_node("Conv", ["x", "w1"], ["a"], name="first", pads=[2] * 4, strides=[2, 2]),
        helper.make_node("Relu", ["a"], ["b"], name="relu"),
        helper.make_node("Conv", ["b", "w2"], ["c"], name="second", pads=[1] * 4),
        helper.make_node("Relu", ["c"], ["d"], name="again"),
        helper.make_node("Conv", ["d", "w3"], ["e"], name="third", pads=[1] * 4),
        helper.make_node("GlobalAveragePool", ["e"], ["f"], name="mean"),
        helper.make_node("Flatten", ["f"], ["g"], name="flat"),
        helper.make_node("MatMul", ["g", "w4"], ["y"], name="head"),
    ]
    return model(nodes, [value("x", "n", *IMAGE)], [value("y", "n", 10)], weights)


@dataclass
class Bench:
    """One tool, and one kind that it makes."""

    tool: str
    kind: str
    folder: Path
    said: list[str] = field(default_factory=list)

    @property
    def apart(self) -> dict[str, Path]:
        return {"modelopt": modelopt_python()} if self.tool == "modelopt" else {}

    def recipe(self, **asked: Any) -> PrecisionRecipe:  # noqa: ANN401 - any option
        asked |= {"block_size": 16} if self.kind == "int4" else {}
        told = {"kind": self.kind, "tool": self.tool, "calibration": CALIBRATION} | asked
        here = [version_of(ask_versions(python)) for python in self.apart.values()]
        named = {"tool_version": here[0] if here else version("onnxruntime")}
        return PrecisionRecipe.model_validate(Precision.model_validate(told).recipe | named)

    def changed(self, name: str = "a", **asked: Any) -> Changed:  # noqa: ANN401 - any option
        folder = self.folder / name
        folder.mkdir()
        work = Work(
            model=network(),
            recipe=self.recipe(**asked),
            few=list(one_by_one(images(0, 4))),
            every=list(one_by_one(images(0, 16))),
            folder=folder,
            alive=lambda phase, _detail: self.said.append(phase),
        )
        return open_tool(work.recipe, self.apart).change(work)


def case(tool: str, kind: str) -> Any:  # noqa: ANN401 - pytest's own
    marks = [pytest.mark.soak] if tool == PrecisionTool.MODELOPT else []
    return pytest.param((tool, kind), id=f"{tool}-{kind}", marks=marks)


@pytest.fixture(params=[case(*each) for each in MADE])
def bench(request: pytest.FixtureRequest, tmp_path: Path) -> Bench:
    tool, kind = request.param
    return Bench(tool, kind, tmp_path)


def test_the_result_is_near_the_model_has_its_interface_and_the_tool_said_that_it_lives(
    bench: Bench,
) -> None:
    found = bench.changed()
    before_it = network()
    onnx.save(before_it, str(bench.folder / "before.onnx"))
    onnx.save(found.model, str(bench.folder / "after.onnx"))
    onnx.checker.check_model(str(bench.folder / "after.onnx"))
    before, after = (scan_model(bench.folder / f"{part}.onnx") for part in ("before", "after"))
    assert (before.inputs, before.outputs) == (after.inputs, after.outputs)
    assert 0 < found.changed <= found.nodes
    (bench.folder / "run").mkdir()
    one = opened(before_it, bench.folder / "run")
    other = opened(found.rounded or found.model, bench.folder / "run")
    pairs = [(outputs_of(one, row), outputs_of(other, row)) for row in one_by_one(images(50, 8))]
    assert min(likeness(*pair) for pair in pairs) >= LEAST[bench.kind]
    assert min(likeness(*pair) for pair in pairs) < 1
    assert bench.said


def test_the_same_work_gives_the_same_bytes(bench: Bench) -> None:
    first, again = bench.changed("one"), bench.changed("two")
    assert first.model.SerializeToString(deterministic=True) == again.model.SerializeToString(
        deterministic=True
    )


def test_what_is_excluded_stays_and_is_told_by_name(bench: Bench) -> None:
    if bench.kind == "int4":  # of which there is one, so nothing is left to change
        with pytest.raises(JobFailed) as refused:
            bench.changed(exclude=["head"])
        assert "excluded by the build" in refused.value.why
        return
    found = bench.changed(exclude=["sec*"])
    kept = {row.node: row.why for row in found.kept}
    assert kept["second"] == "excluded by the build"
    assert "third" not in kept


def test_only_the_operators_that_a_build_names_are_changed(bench: Bench) -> None:
    if bench.kind == "int4":  # which has but one here
        assert bench.changed(op_types=["MatMul"]).changed == 1
        return
    found = bench.changed(op_types=["Conv"])
    halves = half_types(found.model, PrecisionKind.FP16)
    head = next(row for row in found.model.graph.node if row.name == "head")
    assert not halves & {*head.input, *head.output}
    assert "head" not in quantized_names(network().graph, found.model.graph)
    assert 2 <= found.changed <= 3


def test_a_model_beyond_what_one_file_holds_is_written_alike(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    plain = bench.changed("one").model
    for module in (running, modelopt, quantizing):
        monkeypatch.setattr(module, "MODEL_BYTES_IN_ONE_FILE", 1 << 10)
    (bench.folder / "run").mkdir()
    pair = [opened(each, bench.folder / "run") for each in (plain, bench.changed("two").model)]
    for row in one_by_one(images(50, 2)):
        assert likeness(*(outputs_of(each, row) for each in pair)) == 1


def test_nothing_to_change_is_said_to_be_nothing(bench: Bench) -> None:
    with pytest.raises(JobFailed) as refused:
        bench.changed(exclude=["*"])
    assert refused.value.code == "precision_without_effect"


def test_an_int8_model_says_what_its_layers_cost(bench: Bench) -> None:
    if bench.kind != "int8":
        assert bench.changed().sensitivity is None
        return
    told = bench.changed(sensitivity=2).sensitivity
    assert isinstance(told, SensitivityReport)
    assert {row.node for row in told.layers} >= {"first", "second", "third"}
    assert told.tried == 2


def test_another_version_than_the_key_names_does_not_answer(bench: Bench) -> None:
    recipe = bench.recipe().model_copy(update={"tool_version": "0.0.1"})
    with pytest.raises(JobFailed) as refused:
        open_tool(recipe, bench.apart)
    assert refused.value.code == "backend_version_differs"
