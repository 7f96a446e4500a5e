"""A gate against an artifact: the worst place of what may be compared, and nothing else."""

from __future__ import annotations

from typing import Any

import pytest

from enginefarm.gate import Gate
from enginefarm.report import BuildReport
from tasks.gates import describe, judge
from tests.unit.tasks.test_gates import METRIC, TWO, latency, output, report

CPU = {"hostname": "a", "cpu": "EPYC", "cores": 8, "memory_bytes": 1, "device": "cpu"}
NAMED = "sha256:" + "b" * 64


def against(metric: str, **allowed: float) -> Gate:
    return Gate.model_validate({"metric": metric, "against": NAMED} | allowed)


def machine(**changed: object) -> dict[str, Any]:
    return {"measure_machine": CPU | changed}


def with_(told: BuildReport, **changed: object) -> BuildReport:
    return BuildReport.model_validate(told.model_dump() | changed)


NOW, THEN = with_(TWO, **machine()), with_(TWO, **machine(hostname="b"))
SLOWER = with_(NOW, latency=[latency(1.0, 2.3), latency(3.0, 5.2)])


@pytest.mark.parametrize(
    ("gate", "now", "value", "missed"),
    [
        (against("latency_p99_ms", worse_by_percent=15), SLOWER, 15.0, None),
        (against("latency_p99_ms", worse_by_percent=10), SLOWER, 15.0, 5.0),
        (against("latency_p99_ms", worse_by=0.1), SLOWER, 0.3, 0.2),
        (against("latency_p50_ms", worse_by=0), SLOWER, 0.0, None),
        (against("engine_bytes", worse_by_percent=0), NOW, 0.0, None),
        (
            against("cosine", worse_by=0.05),
            with_(NOW, accuracy=report(output("y"), output("z", cosine=0.8)).accuracy),
            0.1,
            0.05,
        ),
    ],
)
def test_a_gate_against_an_artifact_is_held_against_the_worst_place(
    gate: Gate, now: BuildReport, value: float, missed: float | None
) -> None:
    (verdict,) = judge([gate], now, {NAMED: THEN})
    assert verdict.value == pytest.approx(value)
    assert verdict.met is (missed is None)
    assert verdict.missed_by == (None if missed is None else pytest.approx(missed))
    assert "against" in (verdict.reason or "")


def test_what_has_become_better_is_not_worse() -> None:
    (verdict,) = judge([against("latency_p99_ms", worse_by=0)], NOW, {NAMED: SLOWER})
    assert verdict.met
    assert verdict.value is not None
    assert verdict.value < 0


@pytest.mark.parametrize(
    ("metric", "now", "then", "why"),
    [
        ("latency_p99_ms", NOW, with_(THEN, **machine(cpu="Xeon")), "one was measured on EPYC"),
        ("latency_p99_ms", NOW, with_(THEN, **machine(cores=4)), "8 cores"),
        ("latency_p99_ms", NOW, with_(THEN, **machine(device="L4")), "one was measured on cpu"),
        ("latency_p99_ms", NOW, with_(THEN, measure_machine=None), "not known of both"),
        (
            "latency_p99_ms",
            NOW,
            with_(THEN, latency=[latency(1, 2) | {"threads": 2}, latency(1, 2)]),
            "with 1 threads, the other with 2",
        ),
        (
            "latency_p99_ms",
            NOW,
            with_(THEN, latency=[latency(1, 2) | {"shapes": {"x": [9]}}]),
            "it was not measured at x 1x4",
        ),
        ("latency_p99_ms", report(measured=False), THEN, "not run: no device"),
        ("cosine", NOW, report(measured=False), "not run: no device"),
        ("cosine", NOW, report(output("y", cosine=None), output("z")), "only one of them has it"),
        ("metric_loss", NOW, report(output("y")), "has no evaluation_metric"),
        ("metric_loss", NOW, report(output("y"), metric=METRIC | {"labels": "l"}), "accuracy[y]=l"),
        ("cosine", report(output("y", nan_reference=1)), THEN, "gives NaN"),
        ("latency_p99_ms", NOW, "it is revoked", "it is revoked"),
    ],
)
def test_what_cannot_be_compared_meets_no_gate_and_says_why(
    metric: str, now: BuildReport, then: BuildReport | str, why: str
) -> None:
    (verdict,) = judge([against(metric, worse_by=1e9)], now, {NAMED: then})
    assert (verdict.value, verdict.met) == (None, False)
    assert (verdict.reason or "").startswith("not comparable: ")
    assert why in (verdict.reason or "")


def test_an_artifact_whose_report_is_not_there_meets_no_gate() -> None:
    (verdict,) = judge([against("cosine", worse_by=1)], NOW)
    assert verdict.reason == "not comparable: its report is not there"


def test_other_data_is_no_measure_of_accuracy_and_does_not_matter_to_latency() -> None:
    assert THEN.accuracy is not None
    other = with_(THEN, accuracy=THEN.accuracy.model_copy(update={"data": "dataset sha256:1"}))
    cosine, speed = judge(
        [against("cosine", worse_by=1), against("latency_p50_ms", worse_by=1)], NOW, {NAMED: other}
    )
    assert not cosine.met
    assert "one was measured on d, the other on dataset sha256:1" in (cosine.reason or "")
    assert speed.met


def test_an_output_that_is_exact_no_more_has_become_worse() -> None:
    exact, near = report(output("y", exact=True, snr_db=None)), report(output("y"))
    gate = against("snr_db", worse_by=100)
    (lost,) = judge([gate], near, {NAMED: exact})
    (kept,) = judge([gate], exact, {NAMED: exact})
    assert (lost.met, lost.value, lost.reason) == (
        False,
        None,
        "40 against exactly equal of output y",
    )
    assert (kept.met, kept.value) == (True, 0.0)


def test_a_gate_against_an_artifact_is_told_with_its_digest() -> None:
    said = describe(against("latency_p99_ms", worse_by_percent=10))
    assert said == f"latency_p99_ms at most 10 % worse than {NAMED}"
    assert describe(against("cosine", worse_by=0.001)) == f"cosine at most 0.001 worse than {NAMED}"
