"""Gates are held against the worst that was measured; what was not measured meets none."""

from __future__ import annotations

from typing import Any

import pytest

from enginefarm.report import BuildReport
from enginefarm.spec import Gate, Metric
from tasks.gates import describe, judge

PERCENTILES = {"count": 50, "min": 1.0, "max": 9.0, "mean": 2.0, "std": 0.1, "cov": 0.05}


def latency(p50: float, p99: float) -> dict[str, Any]:
    return {
        "shapes": {"x": [1, 4]},
        "batch": 1,
        "end_to_end_ms": PERCENTILES | {"p50": p50, "p90": p99, "p95": p99, "p99": p99},
        "throughput_qps": 100.0,
        "warmup_iterations": 1,
        "warmup_ms": 1.0,
        "stable": True,
        "load_ms": 1.0,
        "peak_memory_bytes": 1,
        "threads": 1,
    }


def output(name: str, **fields: object) -> dict[str, Any]:
    return {
        "output": name,
        "dtype_reference": "float32",
        "dtype_engine": "float32",
        "max_abs_error": 0.1,
        "mean_abs_error": 0.01,
        "max_rel_error": None,
        "mean_rel_error": None,
        "cosine": 0.99,
        "snr_db": 40.0,
        "exact": False,
        "top1_agreement": None,
        "nonfinite_engine": 0,
        "nonfinite_reference": 0,
    } | fields


METRIC = {"name": "accuracy", "output": "y", "labels": "label"}


def report(
    *outputs: dict[str, Any], measured: bool = True, metric: dict[str, Any] | None = None
) -> BuildReport:
    accuracy = {
        "reference": "r",
        "data": "d",
        "synthetic": True,
        "samples": 1,
        "outputs": list(outputs),
        "metric": metric,
    }
    return BuildReport.model_validate(
        {
            "target": "onnxruntime@cpu",
            "backend_version": "1",
            "model": "sha256:" + "a" * 64,
            "measured": measured,
            "reason": None if measured else "not run: no device",
            "compile": {"seconds": 1.0, "engine_bytes": 1000, "peak_memory_bytes": 1},
            "latency": [latency(1.0, 2.0), latency(3.0, 5.0)] if measured else [],
            "accuracy": accuracy if measured else None,
        }
    )


TWO = report(
    output(
        "y",
        cosine=0.999,
        cosine_worst=0.8,
        snr_db=60.0,
        psnr_db=63.0,
        max_abs_error=0.1,
        mean_abs_error=0.01,
        top5_agreement=0.75,
    ),
    output("z", cosine=0.9, snr_db=20.0, psnr_db=25.0, max_abs_error=0.5, mean_abs_error=0.05),
    metric=METRIC | {"original": 0.9, "engine": 0.875, "loss": 0.025, "counted": 40},
)


@pytest.mark.parametrize(
    ("gate", "value", "met"),
    [
        ({"metric": "cosine", "at_least": 0.9}, 0.9, True),
        ({"metric": "cosine", "at_least": 0.95}, 0.9, False),
        ({"metric": "cosine", "at_least": 0.95, "output": "y"}, 0.999, True),
        ({"metric": "cosine_worst", "at_least": 0.9, "output": "y"}, 0.8, False),
        # Measured before there was a number for the worst sample: then cosine was that.
        ({"metric": "cosine_worst", "at_least": 0.9, "output": "z"}, 0.9, True),
        ({"metric": "snr_db", "at_least": 30}, 20.0, False),
        ({"metric": "psnr_db", "at_least": 30}, 25.0, False),
        ({"metric": "top5_agreement", "at_least": 0.7}, 0.75, True),
        ({"metric": "metric_value", "at_least": 0.87}, 0.875, True),
        ({"metric": "metric_loss", "at_most": 0.02}, 0.025, False),
        ({"metric": "metric_loss", "at_most": 0.03}, 0.025, True),
        ({"metric": "max_abs_error", "at_most": 0.2}, 0.5, False),
        ({"metric": "max_abs_error", "at_most": 0.5}, 0.5, True),
        ({"metric": "mean_abs_error", "at_most": 0.02, "output": "y"}, 0.01, True),
        ({"metric": "latency_p50_ms", "at_most": 2}, 3.0, False),
        ({"metric": "latency_p99_ms", "at_most": 5}, 5.0, True),
        ({"metric": "engine_bytes", "at_most": 999}, 1000.0, False),
        ({"metric": "engine_bytes", "at_least": 10, "at_most": 1000}, 1000.0, True),
    ],
)
def test_a_gate_is_held_against_the_worst_output_and_the_slowest_shape(
    gate: dict[str, Any],
    value: float,
    met: bool,  # noqa: FBT001 - a column of the table
) -> None:
    (verdict,) = judge([Gate.model_validate(gate)], TWO)
    assert (verdict.value, verdict.met) == (value, met)


@pytest.mark.parametrize(
    "gate",
    [
        {"metric": "cosine", "at_least": -1},
        {"metric": "latency_p50_ms", "at_most": 1e9},
    ],
)
def test_what_was_not_measured_meets_no_gate(gate: dict[str, Any]) -> None:
    (verdict,) = judge([Gate.model_validate(gate)], report(measured=False))
    assert (verdict.value, verdict.met) == (None, False)
    assert verdict.reason == "not run: no device"


def test_a_metric_without_meaning_for_the_outputs_meets_no_gate() -> None:
    (verdict,) = judge([Gate.model_validate({"metric": "top1_agreement", "at_least": 0})], TWO)
    assert not verdict.met
    assert verdict.reason == "top1_agreement has no meaning for these outputs"


def test_an_output_for_which_a_metric_has_no_meaning_is_left_out() -> None:
    mixed = report(output("boxes"), output("scores", top1_agreement=0.8))
    (verdict,) = judge([Gate.model_validate({"metric": "top1_agreement", "at_least": 0.7})], mixed)
    assert (verdict.value, verdict.met) == (0.8, True)


def test_every_metric_can_be_judged() -> None:
    for metric in [metric for metric in Metric if not metric.of_model_file]:
        (verdict,) = judge([Gate(metric=metric, at_least=-1e9)], TWO)
        assert verdict.met is (metric is not Metric.TOP1_AGREEMENT)


@pytest.mark.parametrize(
    ("found", "why"),
    [
        (None, "the build has no evaluation_metric"),
        (METRIC | {"reason": "the output was never compared"}, "the output was never compared"),
    ],
)
def test_a_metric_that_was_not_computed_meets_no_gate(
    found: dict[str, Any] | None, why: str
) -> None:
    told = report(output("y"), metric=found)
    (verdict,) = judge([Gate(metric=Metric.METRIC_LOSS, at_most=1)], told)
    assert (verdict.value, verdict.met, verdict.reason) == (None, False, why)


@pytest.mark.parametrize("metric", ["snr_db", "psnr_db"])
def test_exactly_equal_outputs_meet_any_signal_to_noise_ratio(metric: str) -> None:
    exact = report(output("y", exact=True, snr_db=None))
    (verdict,) = judge([Gate.model_validate({"metric": metric, "at_least": 300})], exact)
    assert verdict.met
    assert (verdict.value, verdict.reason) == (None, "the outputs are exactly equal")


def test_a_gate_of_another_target_is_not_judged() -> None:
    gate = {"metric": "cosine", "at_least": 2, "target": "onnxruntime@sm_89"}
    assert judge([Gate.model_validate(gate)], TWO) == []


def test_a_gate_is_told_in_the_words_of_the_command_line() -> None:
    gate = {"metric": "cosine", "at_least": 0.9, "at_most": 1, "output": "y"}
    assert describe(Gate.model_validate(gate)) == "cosine >= 0.9 and cosine <= 1 on output y"


@pytest.mark.parametrize(
    ("bound", "told"), [(0.99999999, "0.99999999"), (123456789, "123456789"), (1e-7, "1e-07")]
)
def test_a_gate_that_is_signed_has_every_digit(bound: float, told: str) -> None:
    gate = Gate.model_validate({"metric": "max_abs_error", "at_most": bound})
    assert describe(gate) == f"max_abs_error <= {told}"


@pytest.mark.parametrize(
    ("broken", "why"),
    [
        (
            report(output("y", elements=16, nonfinite_reference=16)),
            "no finite number on output 'y'",
        ),
        (
            report(output("y", elements=16, nan_reference=2, nonfinite_reference=2)),
            "gives NaN in 2 of 16 values of output 'y'",
        ),
        (
            report(output("y")).model_copy(
                update={"accuracy": None, "accuracy_reason": "no output is a tensor of numbers"}
            ),
            "no output is a tensor of numbers",
        ),
    ],
)
def test_where_nothing_could_be_compared_no_gate_is_met(broken: BuildReport, why: str) -> None:
    gates = [Gate(metric=Metric.MAX_ABS_ERROR, at_most=1), Gate(metric=Metric.COSINE, at_least=-1)]
    for verdict in judge(gates, broken):
        assert (verdict.value, verdict.met) == (None, False)
        assert why in (verdict.reason or "")


def test_a_gate_on_an_output_that_is_no_tensor_says_so() -> None:
    told = report(output("y"))
    assert told.accuracy is not None
    told = told.model_copy(
        update={"accuracy": told.accuracy.model_copy(update={"not_compared": ["s"]})}
    )
    (verdict,) = judge([Gate(metric=Metric.COSINE, at_least=0, output="s")], told)
    assert verdict.reason == "output 's' was not compared: it is no tensor of numbers"


def test_a_gate_that_is_missed_says_by_how_much() -> None:
    low, high = judge(
        [Gate(metric=Metric.COSINE, at_least=0.95), Gate(metric=Metric.ENGINE_BYTES, at_most=900)],
        TWO,
    )
    assert low.missed_by == pytest.approx(0.05)
    assert high.missed_by == 100
