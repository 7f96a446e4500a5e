"""A precision is accepted only if it is measured to be faster, and accurate enough."""

from __future__ import annotations

from typing import Any

import pytest

from enginefarm.precision import Precision
from enginefarm.report import BuildReport
from enginefarm.spec import Gate
from enginefarm.verdict_report import PairedRuns, PrecisionVerdict, TwinReport, VerdictReport
from tasks.gates import judge
from tasks.quarantine import held_back, measures_again
from tasks.verdict import Beside, speed_of, verdict_on
from tests.unit.tasks.test_gates import output, report
from tests.unit.tasks.test_model_file_gates import with_model_file

INT8: dict[str, Any] = {"kind": "int8", "calibration": "sha256:" + "1" * 64}
TWIN = TwinReport.model_validate({"precision": "fp16", "why": "because", "engine": "sha256:…"})
GOOD = output("y", cosine=0.999, reference_max_abs=1.0)


def paired(*ratios: float, shape: int = 1) -> PairedRuns:
    return PairedRuns(
        shapes={"x": [shape, 4]},
        twin_p50_ms=2.0 * ratios[0],
        engine_p50_ms=2.0,
        twin_runs=10,
        engine_runs=10,
        ratios=list(ratios),
    )


FAST = paired(*[1.5] * 15)


def beside(*rows: PairedRuns) -> Beside:
    return Beside(TWIN, rows or (FAST,))


def verdict(
    told: BuildReport,
    by: Beside | None = None,
    gates: list[Gate] | None = None,
    *,
    lets_lost_out: bool = False,
    **asked: object,
) -> VerdictReport:
    wanted = Precision.model_validate(INT8 | asked)
    gates = gates or []
    judged = list(zip(gates, judge(gates, told), strict=True))
    found = verdict_on(wanted, told, judged, by or beside(), lets_lost_out=lets_lost_out)
    assert found is not None
    return found


def test_faster_and_accurate_is_accepted_and_the_numbers_are_told() -> None:
    found = verdict(report(GOOD))
    assert (found.verdict, found.held_back) == (PrecisionVerdict.ACCEPT, False)
    assert "1.5 times as fast as in fp16 at x 1x4" in found.reason
    assert "cosine of y is 0.999 (engine), at least 0.99" in found.reason


def test_a_build_as_it_is_has_no_verdict() -> None:
    assert verdict_on(Precision(), report(GOOD), [], beside()) is None


@pytest.mark.parametrize(
    "ratios",
    [
        [0.7] * 15,
        [1.0] * 15,
        [1.029] * 15,  # faster, by less than the margin
        [1.5] * 12 + [0.9] * 3,  # three of fifteen pairs say otherwise: not sure enough
        [2.0] * 7,  # too few
    ],
)
def test_what_is_not_shown_to_be_faster_is_slower(ratios: list[float]) -> None:
    found = verdict(report(GOOD), beside(paired(*ratios)))
    assert (found.verdict, found.held_back) == (PrecisionVerdict.SLOWER, True)
    assert "at least 1.03" in found.reason
    kept = verdict(report(GOOD), beside(paired(*ratios)), on_slower="publish")
    assert (kept.verdict, kept.held_back) == (PrecisionVerdict.SLOWER, False)


@pytest.mark.parametrize(
    ("ratios", "still_open"),
    [
        ([0.9] * 4 + [1.6] * 11, True),
        ([2.0] * 7, True),  # too few
        ([0.9] * 4 + [1.02] * 11, False),  # not by the margin, wherever it lies
        ([0.7] * 15, False),
    ],
)
def test_what_nobody_can_tell_is_said_and_measured_again(
    ratios: list[float], *, still_open: bool
) -> None:
    found = verdict(report(GOOD), beside(FAST, paired(*ratios)))
    assert found.verdict is PrecisionVerdict.SLOWER
    assert ("not shown to be faster" in found.reason) is still_open
    judged = report(GOOD).model_copy(update={"precision_verdict": found})
    assert measures_again(judged) is still_open
    failure = held_back(judged, "sha256:…")
    assert ("min_duration_ms" in (failure.fix or "")) is still_open
    surely = verdict(report(GOOD), beside(paired(*ratios), paired(*[0.9] * 15, shape=8)))
    assert "not shown" not in surely.reason, "one shape at which it is slower decides"
    assert not measures_again(report(GOOD).model_copy(update={"precision_verdict": surely}))


def test_two_pairs_of_fifteen_that_say_otherwise_are_chance() -> None:
    assert speed_of(paired(*[1.5] * 13, 0.9, 0.8)).faster


def test_the_slowest_shape_decides() -> None:
    found = verdict(report(GOOD), beside(FAST, paired(*[0.9] * 15, shape=8)))
    assert found.verdict is PrecisionVerdict.SLOWER
    assert "at x 8x4" in found.reason


@pytest.mark.parametrize(
    ("row", "asked", "least", "missed"),
    [
        ({"cosine": 0.98}, {}, 0.99, 0.01),
        ({"cosine": 0.9985}, {"kind": "fp16"}, 0.999, 0.0005),
        ({"cosine": 0.98}, {"min_cosine": 0.97}, 0.97, None),
        # Nothing is there in the original, and something in the engine.
        ({"cosine": 0.0, "reference_max_abs": 0.0, "max_abs_error": 5.0}, {}, 0.99, 0.99),
    ],
)
def test_the_output_that_lost_most_must_reach_the_floor(
    row: dict[str, Any], asked: dict[str, Any], least: float, missed: float | None
) -> None:
    told = report(GOOD, output("z", **({"reference_max_abs": 1.0} | row)))
    found = verdict(told, **asked)
    assert found.floor is not None
    assert (found.floor.output, found.floor.least) == ("z", least)
    assert found.floor.missed_by == (None if missed is None else pytest.approx(missed))
    right = PrecisionVerdict.ACCEPT if missed is None else PrecisionVerdict.REGRESSION
    assert found.verdict is right
    assert found.held_back is (missed is not None)


def test_a_regression_goes_before_slower_and_no_wish_publishes_it() -> None:
    told = report(output("y", cosine=0.5, reference_max_abs=1.0))
    found = verdict(told, beside(paired(*[0.5] * 15)), on_slower="publish")
    assert (found.verdict, found.held_back) == (PrecisionVerdict.REGRESSION, True)
    failure = held_back(told.model_copy(update={"precision_verdict": found}), "sha256:…")
    assert failure.code == "precision_regression"
    assert failure.context["missed_by"] == pytest.approx(0.49)


def test_a_gate_on_accuracy_that_is_missed_is_a_regression_and_one_on_latency_is_not() -> None:
    gates = [
        Gate.model_validate({"metric": "cosine", "at_least": 0.9999}),
        Gate.model_validate({"metric": "engine_bytes", "at_most": 1}),
    ]
    found = verdict(report(GOOD), gates=gates)
    assert found.verdict is PrecisionVerdict.REGRESSION
    assert "gate cosine >= 0.9999: 0.999, missed by" in found.reason
    assert verdict(report(GOOD), gates=gates[1:]).verdict is PrecisionVerdict.ACCEPT


def test_where_nothing_was_run_the_model_file_may_fail_but_accepts_nothing() -> None:
    unrun = Beside(None, reason="not run: no device")
    good = verdict(with_model_file(report(measured=False), GOOD), unrun)
    assert (good.verdict, good.held_back) == (None, False)
    assert good.reason == "speed is not known: not run: no device"
    assert good.floor is not None
    assert good.floor.of == "model file"
    bad = output("y", cosine=0.6, reference_max_abs=1.0)
    found = verdict(with_model_file(report(measured=False), bad), unrun)
    assert (found.verdict, found.held_back) == (PrecisionVerdict.REGRESSION, True)


def test_the_engine_goes_before_the_model_file() -> None:
    bad = output("y", cosine=0.6, reference_max_abs=1.0)
    assert verdict(with_model_file(report(GOOD), bad)).verdict is PrecisionVerdict.ACCEPT


@pytest.mark.parametrize(
    ("row", "why"),
    [
        ({"nan_reference": 1}, "the original gives NaN on output 'y'"),
        ({"cosine": 0.3, "reference_max_abs": 1e-6, "max_abs_error": 1e-6}, "near zero"),
        ({"cosine": None, "reference_max_abs": 0.0, "max_abs_error": 0.0}, "near zero"),
    ],
)
def test_where_accuracy_means_nothing_nothing_is_accepted_and_slower_is_still_slower(
    row: dict[str, Any], why: str
) -> None:
    told = report(output("y", **row))
    found = verdict(told)
    assert found.verdict is None
    assert found.floor is None
    assert why in found.reason
    assert verdict(told, beside(paired(*[0.5] * 15))).verdict is PrecisionVerdict.SLOWER
