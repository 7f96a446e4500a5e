"""What each layer costs in int8: the layer that was made to cost most is found, and by how much."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import helper

from enginefarm.precision import Precision
from enginefarm.precision_report import PrecisionReport
from enginefarm.sensitivity_report import SensitivityReport
from tests.unit.workers.precision import made
from tests.unit.workers.precision.made import images, one_by_one, small_network, weight
from tests.unit.workers.repair.made import model, value
from workers.precision.quantizing import quantize
from workers.precision.running import Outputs, opened, outputs_of
from workers.precision.sensitivity import Bench, sensitivity
from workers.precision.switching import SWITCHES, pairs_of, switched
from workers.precision.tidying import constants_as_weights, named

GOOD, REAL = {"x": images(0, 24)}, {"x": images(500, 4)}
LAYERS = ["first", "head", "second"]
WIDTH = 16


def spoilt(rng: np.random.Generator) -> onnx.ModelProto:
    """Three products, of which the middle one reads a value that takes the range of all others."""
    large = np.ones(WIDTH)
    large[0] = 3000.0
    small = 1 / large
    weights = [
        weight("w1", rng.standard_normal((8, WIDTH))),
        weight("w2", rng.standard_normal((WIDTH, WIDTH)) * small[:, None]),
        weight("w3", rng.standard_normal((WIDTH, 4))),
        weight("large", large),
    ]
    nodes = [
        helper.make_node("MatMul", ["x", "w1"], ["a"], name="early"),
        helper.make_node("Mul", ["a", "large"], ["b"], name="stretch"),
        helper.make_node("MatMul", ["b", "w2"], ["c"], name="hurt"),
        helper.make_node("Tanh", ["c"], ["d"], name="bend"),
        helper.make_node("MatMul", ["d", "w3"], ["y"], name="late"),
    ]
    return model(nodes, [value("x", "n", 8)], [value("y", "n", 4)], weights)


def vectors(seed: int, count: int) -> dict[str, Any]:
    return {"x": np.random.default_rng(seed).standard_normal((count, 8)).astype(np.float32)}


def told(folder: Path, network: onnx.ModelProto, **asked: Any) -> PrecisionReport:  # noqa: ANN401
    result = made.run(folder, network, "int8", method="minmax", **asked)
    return PrecisionReport.model_validate(result.facts["precision"])


def of_spoilt(folder: Path, **asked: Any) -> PrecisionReport:  # noqa: ANN401 - any option
    data = {"calibration": vectors(1, 64), "evaluation": vectors(2, 16), "profiles": []}
    return told(folder, spoilt(np.random.default_rng(7)), **data, **asked)


def found(report: PrecisionReport) -> SensitivityReport:
    assert report.sensitivity is not None, report.sensitivity_reason
    return report.sensitivity


def test_the_layer_that_int8_hurts_comes_first_and_keeping_it_mends_the_model(
    tmp_path: Path,
) -> None:
    report = of_spoilt(tmp_path, sensitivity=True)
    costs = found(report)
    assert costs.layers[0].node == "hurt"
    losses = [row.cosine_loss for row in costs.layers]
    assert losses[0] is not None
    assert losses[1] is not None
    assert losses[0] > 10 * losses[1]
    assert costs.steps[0].cosine < 0.999 < costs.steps[1].cosine


def test_what_keeping_a_layer_is_said_to_give_is_what_the_tool_gives_without_it(
    tmp_path: Path,
) -> None:
    told_of = found(of_spoilt(tmp_path / "asked", sensitivity=True))
    kept = of_spoilt(tmp_path / "kept", exclude=["hurt"])
    assert kept.model_accuracy is not None
    cosine = kept.model_accuracy.outputs[0].cosine or 0.0
    # The one is on calibration, the other on held-out samples.
    assert 1 - cosine < (1 - told_of.steps[0].cosine) / 10


def test_layers_that_are_not_tried_are_estimated_and_come_last(tmp_path: Path) -> None:
    costs = found(of_spoilt(tmp_path, sensitivity=1))
    assert (costs.tried, costs.layers_count) == (1, 3)
    assert [row.cosine_loss is None for row in costs.layers] == [False, True, True]
    estimates = [row.sqnr_db for row in costs.layers]
    assert all(row is not None for row in estimates)
    assert [row.kept for row in costs.steps] == [0, 1]


def test_an_estimate_alone_runs_no_layer(tmp_path: Path) -> None:
    costs = found(of_spoilt(tmp_path, sensitivity=0))
    assert costs.tried == 0
    assert {row.cosine_loss for row in costs.layers} == {None}


def test_it_changes_no_byte_of_the_model_and_says_the_same_each_time(tmp_path: Path) -> None:
    network = small_network()
    plain = told(tmp_path / "plain", network, calibration=GOOD, evaluation=REAL)
    first = told(tmp_path / "a", network, calibration=GOOD, evaluation=REAL, sensitivity=True)
    again = told(tmp_path / "b", network, calibration=GOOD, evaluation=REAL, sensitivity=True)
    assert plain.sensitivity is None
    assert first.sensitivity == again.sensitivity
    files = [(tmp_path / name / "out" / "model.onnx").read_bytes() for name in ("plain", "a", "b")]
    assert files[0] == files[1] == files[2]


@pytest.fixture(scope="module")
def quantized(tmp_path_factory: pytest.TempPathFactory) -> tuple[onnx.ModelProto, onnx.ModelProto]:
    plain = small_network()
    constants_as_weights(plain.graph)
    named(plain.graph)
    folder = tmp_path_factory.mktemp("quantized")
    asked = made.recipe("int8", method="minmax")
    return plain, quantize(plain, asked, one_by_one(GOOD["x"]), folder, lambda _: None)


def answers(network: onnx.ModelProto, folder: Path, **more: Any) -> list[Outputs]:  # noqa: ANN401
    runner = opened(network, folder)
    return [outputs_of(runner, {**row, **more}) for row in one_by_one(REAL["x"])]


@pytest.mark.parametrize("on", [True, False])
def test_with_all_switches_on_it_is_the_int8_model_and_with_none_the_original(
    quantized: tuple[onnx.ModelProto, onnx.ModelProto], tmp_path: Path, *, on: bool
) -> None:
    plain, int8 = quantized
    pairs = pairs_of(plain.graph, int8.graph, LAYERS)
    model_ = switched(plain, int8, pairs)
    given = {SWITCHES: np.full(len(pairs), on)}
    wanted = answers(int8 if on else plain, tmp_path)
    for left, right in zip(wanted, answers(model_, tmp_path, **given), strict=True):
        np.testing.assert_allclose(left["y"], right["y"], rtol=1e-5, atol=1e-6)  # type: ignore[arg-type]


def test_each_pair_is_the_cost_of_who_reads_it_or_else_of_who_wrote_it(
    quantized: tuple[onnx.ModelProto, onnx.ModelProto],
) -> None:
    plain, int8 = quantized
    pairs = pairs_of(plain.graph, int8.graph, LAYERS)
    whose = {(row.part, row.source): row.layers for row in pairs}
    assert whose["weight", "w1"] == ["first"]
    assert whose["input", "c"] == ["second"]
    assert whose["output", "a"] == ["first"]
    assert all(row.layers for row in pairs)


def test_a_tool_whose_pairs_hide_what_they_round_is_not_guessed_at(
    quantized: tuple[onnx.ModelProto, onnx.ModelProto], tmp_path: Path
) -> None:
    plain, int8 = quantized
    other = onnx.ModelProto()
    other.CopyFrom(plain)
    for node in other.graph.node:
        node.name = f"renamed-{node.name}"
    rows = list(one_by_one(REAL["x"]))
    bench = Bench(other, int8, rows, rows, tmp_path, lambda *_: None)
    assert isinstance(sensitivity(bench, [], 4), str)


def test_it_is_in_the_key_only_where_it_is_asked_for() -> None:
    assert "sensitivity" not in Precision.model_validate({"kind": "int8"}).recipe
    for asked, tried in ((True, 32), (0, 0), (5, 5)):
        told_ = Precision.model_validate({"kind": "int8", "sensitivity": asked})
        assert told_.recipe["sensitivity"] == tried
    off = Precision.model_validate({"kind": "int8", "sensitivity": False})
    assert "sensitivity" not in off.recipe


def test_a_model_whose_names_are_those_of_the_measurement_is_quantized_all_the_same(
    tmp_path: Path,
) -> None:
    network = spoilt(np.random.default_rng(3))
    network.graph.node[0].output[0] = network.graph.node[1].input[0] = "_noise_0"
    profile = [{"x": {"min": [1, 8], "opt": [4, 8], "max": [16, 8]}}]
    report = told(
        tmp_path,
        network,
        calibration=vectors(1, 24),
        evaluation=vectors(2, 4),
        sensitivity=2,
        profiles=profile,
    )
    assert report.changed > 0
    assert report.sensitivity is None
    assert "does not run" in (report.sensitivity_reason or "")
