"""An engine that gives NaN or infinity where the original does not never passes for a right one."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from enginefarm.accuracy_report import OutputAccuracy, why_lost
from enginefarm.gate import Gate
from enginefarm.report import BuildReport
from enginefarm.verdict_report import PrecisionVerdict
from tasks.gates import judge
from tasks.quarantine import held_back
from tests.unit.tasks.test_gates import METRIC, output, report
from tests.unit.tasks.test_verdict import verdict
from workers.measurement.accuracy import OutputTally

RNG = np.random.default_rng(0)
ORIGINALS = {
    "near one": 1 + 0.05 * RNG.standard_normal((8, 4)),
    "scores": 1 / (1 + np.exp(-4 - RNG.standard_normal((8, 100)))),
    "one value each": np.full((8, 4), 7.0),
}
GATES = [Gate.model_validate({"metric": each, "at_least": -1}) for each in ("cosine", "snr_db")]


def told(right: np.ndarray[Any, Any], wrong: np.ndarray[Any, Any]) -> OutputAccuracy:
    tally = OutputTally("z", batch_first=True)
    tally.add(right.astype(np.float32), wrong.astype(np.float32), count=8)
    return tally.result()


def of(row: OutputAccuracy) -> BuildReport:
    return report(row.model_dump())


@pytest.mark.parametrize("bad", [np.nan, np.inf])
@pytest.mark.parametrize("right", ORIGINALS.values(), ids=list(ORIGINALS))
@pytest.mark.parametrize("places", [slice(None), slice(3, 4)])
def test_it_meets_no_gate_and_is_a_regression(
    right: np.ndarray[Any, Any], bad: float, places: slice
) -> None:
    wrong = right.copy()
    wrong.flat[places] = bad
    row = told(right, wrong)
    count = int((~np.isfinite(wrong)).sum())
    assert (row.nonfinite_added, row.cosine, row.cosine_worst) == (count, 0.0, 0.0)
    found = of(row)
    assert found.measurement_labels == ["engine_not_finite"]
    for gate in judge(GATES, found):
        assert (gate.met, gate.value) == (False, None)
        assert f"in {count} of {right.size} values of output 'z'" in (gate.reason or "")
    judged = verdict(found)
    assert (judged.verdict, judged.held_back) == (PrecisionVerdict.REGRESSION, True)
    assert f"{count} of {right.size}" in judged.reason


def test_what_is_not_finite_in_the_original_itself_is_no_fault() -> None:
    right = np.full((8, 4), -np.inf)
    right[0] = np.nan
    assert told(right, right).lost == 0
    masked = ORIGINALS["near one"].copy()
    masked[0] = -np.inf
    assert told(masked, masked).lost == 0
    assert of(told(masked, masked)).why_lost is None
    assert told(masked, -masked).lost == 4, "another infinity is another value"


def test_as_many_of_both_sides_at_other_places_are_told_apart() -> None:
    right, wrong = ORIGINALS["near one"].copy(), ORIGINALS["near one"].copy()
    right[0, 0], wrong[1, 1] = np.inf, np.nan
    row = told(right, wrong)
    assert (row.nonfinite_engine, row.nonfinite_reference, row.lost) == (1, 1, 1)
    old = row.model_copy(update={"nonfinite_added": None, "nonfinite_engine": 3})
    assert old.lost == 2, "an older report has the counts of both sides"


def test_an_output_of_nan_without_a_cosine_is_not_left_out() -> None:
    lost = output("z", cosine=None, nonfinite_engine=32, elements=32, reference_max_abs=5.0)
    judged = verdict(report(output("y", cosine=0.9999), lost))
    assert judged.verdict is PrecisionVerdict.REGRESSION
    assert "32 of 32 values of output 'z'" in judged.reason


def test_a_metric_of_such_an_output_meets_no_gate() -> None:
    loss = Gate.model_validate({"metric": "metric_loss", "at_most": 0.5})
    value = METRIC | {"original": 1.0, "engine": 1.0, "loss": 0.0}
    (bad,) = judge([loss], report(output("y", nonfinite_engine=1), metric=value))
    (good,) = judge([loss], report(output("y"), metric=value))
    assert (bad.met, good.met) == (False, True)


def test_without_gate_and_precision_it_has_a_code_and_another_place_is_named_by_its_sku() -> None:
    found = report(output("y", nonfinite_engine=1))
    failure = held_back(found, "sha256:…")
    assert failure.code == "engine_not_finite"
    assert "output 'y'" in (failure.why or "")
    assert "not_finite: publish" in (failure.fix or "")
    assert why_lost([]) is None


def test_a_build_that_says_so_lets_it_out_with_its_verdict() -> None:
    found = report(output("y", cosine=0.0, reference_max_abs=1.0, nonfinite_engine=1))
    assert verdict(found, lets_lost_out=True).held_back is False
    assert verdict(found, lets_lost_out=True).verdict is PrecisionVerdict.REGRESSION
