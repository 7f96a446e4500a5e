"""Calibrated int8 models: what a tool says it did is not believed."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

from enginefarm.errors import JobFailed
from enginefarm.finding import Severity
from enginefarm.precision_report import PrecisionReport
from enginefarm.state import Blame
from tests.unit.workers.precision import made
from tests.unit.workers.precision.made import images, small_network
from tests.unit.workers.repair.made import model, value
from workers.backends.base import Array
from workers.precision import changing, quantizing

REAL = {"x": images(500, 16)}
GOOD = {"x": images(0, 32)}


def calibrated(
    folder: Path,
    calibration: dict[str, Array] | None = None,
    **asked: Any,  # noqa: ANN401 - any option
) -> PrecisionReport:
    asked.setdefault("evaluation", REAL)
    result = made.run(folder, small_network(), "int8", calibration=calibration or GOOD, **asked)
    return PrecisionReport.model_validate(result.facts["precision"])


def cosine(told: PrecisionReport) -> float:
    assert told.model_accuracy is not None
    return told.model_accuracy.outputs[0].cosine or 0.0


def written(folder: Path) -> onnx.ModelProto:
    return onnx.load(str(folder / "out" / "model.onnx"))


@pytest.mark.parametrize("method", ["minmax", "entropy", "percentile"])
def test_every_method_gives_a_model_that_is_near_the_original(tmp_path: Path, method: str) -> None:
    told = calibrated(tmp_path, method=method)
    assert told.changed == 3
    assert cosine(told) > 0.99
    assert told.model_accuracy is not None
    assert not told.model_accuracy.synthetic
    assert told.data is not None
    assert told.data.samples == 32


def test_zero_points_are_zero_scales_positive_and_no_bias_is_quantized(tmp_path: Path) -> None:
    calibrated(tmp_path)
    graph = written(tmp_path).graph
    weights = {row.name: row for row in graph.initializer}
    pairs = [node for node in graph.node if node.op_type.endswith("quantizeLinear")]
    pairs += [node for node in graph.node if node.op_type == "QuantizeLinear"]
    assert pairs
    for node in pairs:
        assert np.all(numpy_helper.to_array(weights[node.input[1]]) > 0)
        assert not numpy_helper.to_array(weights[node.input[2]]).any()
    assert TensorProto.INT32 not in {row.data_type for row in graph.initializer}


def test_data_of_another_range_ruins_the_model_and_is_told(
    tmp_path: Path,
) -> None:
    raw = calibrated(tmp_path / "raw", {"x": images(0, 32) * 255}, method="minmax")
    good = calibrated(tmp_path / "good", method="minmax")
    assert "calibration_range_differs" in {row.code for row in raw.findings}
    assert cosine(raw) < cosine(good)


def test_one_bright_pixel_hurts_minmax_and_not_percentile(tmp_path: Path) -> None:
    array = images(0, 64)
    array[10, :, 5, 5] = 60.0
    plain = calibrated(tmp_path / "minmax", {"x": array}, method="minmax")
    kept = calibrated(tmp_path / "percentile", {"x": array}, method="percentile", percentile=99.9)
    assert cosine(plain) < cosine(kept)
    assert cosine(kept) > 0.99


def test_noise_has_its_label_and_is_refused_where_nothing_judges_it(tmp_path: Path) -> None:
    noise = np.random.default_rng(3).standard_normal((32, 3, 32, 32)).astype(np.float32)
    assert calibrated(tmp_path / "judged", {"x": noise}).labels == ["synthetic_calibration"]
    with pytest.raises(JobFailed) as refused:
        calibrated(tmp_path / "not", {"x": noise}, evaluation=None)
    assert refused.value.code == "calibration_noise"


@pytest.mark.parametrize("bad", [np.inf, np.nan])
def test_data_of_no_use_stops_it_and_all_findings_are_told(tmp_path: Path, bad: float) -> None:
    array = images(0, 16)
    array[5, 1, 3, 3] = bad
    with pytest.raises(JobFailed) as refused:
        calibrated(tmp_path, {"x": array})
    assert refused.value.code == "calibration_not_finite"
    assert refused.value.blame is Blame.PERSON
    told: Any = refused.value.context["findings"]
    assert "calibration_few_samples" in {row["code"] for row in told}


def test_batches_do_not_matter_since_samples_come_one_by_one(tmp_path: Path) -> None:
    wide = small_network()
    asked: dict[str, Any] = {"calibration": {"x": images(0, 27)}, "method": "percentile"}
    ones = [made.PROFILE]
    eights = [{"x": made.PROFILE["x"] | {"opt": [8, *made.IMAGE]}}]
    for name, profiles in (("ones", ones), ("eights", eights)):
        made.run(tmp_path / name, wide, "int8", profiles=profiles, **asked)
    one, other = (written(tmp_path / name) for name in ("ones", "eights"))
    assert one.SerializeToString(deterministic=True) == other.SerializeToString(deterministic=True)


def test_the_same_recipe_gives_the_same_bytes(tmp_path: Path) -> None:
    calibrated(tmp_path / "a")
    calibrated(tmp_path / "b")
    paths = [tmp_path / name / "out" / "model.onnx" for name in ("a", "b")]
    assert paths[0].read_bytes() == paths[1].read_bytes()


def test_a_node_that_is_excluded_is_not_quantized_and_told(tmp_path: Path) -> None:
    told = calibrated(tmp_path, exclude=["head"])
    assert told.changed == 2
    assert [(row.node, row.why) for row in told.kept] == [("head", "excluded by the build")]


def dynamic() -> onnx.ModelProto:
    nodes = [
        helper.make_node("DynamicQuantizeLinear", ["x"], ["q", "s", "z"]),
        helper.make_node("DequantizeLinear", ["q", "s", "z"], ["y"]),
    ]
    return model(nodes, [value("x", "n", 4)], [value("y", "n", 4)])


@pytest.mark.parametrize("kind", ["int8", "fp16"])
def test_a_model_that_is_quantized_already_is_refused(tmp_path: Path, kind: str) -> None:
    with pytest.raises(JobFailed) as refused:
        made.run(tmp_path, dynamic(), kind, calibration={"x": np.eye(4, dtype=np.float32)})
    assert refused.value.code == "already_quantized"


def test_a_model_without_what_would_be_quantized_is_refused(tmp_path: Path) -> None:
    with pytest.raises(JobFailed) as refused:
        calibrated(tmp_path, op_types=["Gemm"])
    assert refused.value.code == "precision_without_effect"
    assert "Gemm" in refused.value.why


def test_a_tool_that_says_it_quantized_and_did_not_is_not_believed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(changing, "quantize", lambda model, *_: model)
    with pytest.raises(JobFailed) as refused:
        calibrated(tmp_path)
    assert refused.value.code == "precision_without_effect"


def test_a_tool_that_writes_what_does_not_load_is_not_believed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    honest = quantizing.quantize

    def broken(*given: Any, **named: Any) -> onnx.ModelProto:  # noqa: ANN401 - passed on
        wrong = honest(*given, **named)
        wrong.graph.node[-1].input[0] = "nobody-makes-it"
        return wrong

    monkeypatch.setattr(changing, "quantize", broken)
    with pytest.raises(JobFailed) as refused:
        calibrated(tmp_path)
    assert refused.value.code == "precision_not_loadable"


def test_a_tool_that_changes_the_interface_is_not_believed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    honest = quantizing.quantize

    def broken(*given: Any, **named: Any) -> onnx.ModelProto:  # noqa: ANN401 - passed on
        wrong = honest(*given, **named)
        wrong.graph.output[0].type.tensor_type.shape.dim[1].dim_param = "any"
        return wrong

    monkeypatch.setattr(changing, "quantize", broken)
    with pytest.raises(JobFailed) as refused:
        calibrated(tmp_path)
    assert refused.value.code == "precision_interface_differs"


def test_a_tool_that_fails_is_told_with_its_words(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def failing(*_: Any, **__: Any) -> onnx.ModelProto:  # noqa: ANN401 - not looked at
        raise KeyError("140_scale")

    monkeypatch.setattr(changing, "quantize", failing)
    with pytest.raises(JobFailed) as refused:
        calibrated(tmp_path)
    assert (refused.value.code, refused.value.blame) == ("precision_tool_failed", Blame.PERSON)
    assert "140_scale" in refused.value.why


def test_a_node_with_another_version_of_the_tool_does_not_answer(tmp_path: Path) -> None:
    with pytest.raises(JobFailed) as refused:
        calibrated(tmp_path, tool_version="0.0.1")
    assert (refused.value.code, refused.value.blame) == ("backend_version_differs", Blame.NODE)


def test_a_doubles_dataset_is_rounded_to_what_the_model_takes(tmp_path: Path) -> None:
    told = calibrated(tmp_path / "doubles", {"x": images(0, 32).astype(np.float64)})
    assert cosine(told) > 0.99
    (note,) = (row for row in told.findings if row.code == "calibration_rounded")
    assert note.severity is Severity.NOTE
    assert "x" in note.message
    plain = calibrated(tmp_path / "plain")
    assert "calibration_rounded" not in {row.code for row in plain.findings}
