"""What is concluded from times that cannot be relied on: nothing, unless a person says so."""

from __future__ import annotations

from typing import Any

import pytest

from enginefarm.gate import Gate, Tainted
from enginefarm.precision import Precision
from enginefarm.report import TAINTED, BuildReport, GateVerdict
from enginefarm.spec import BuildSpec
from enginefarm.state import Stage
from enginefarm.target import Target
from enginefarm.verdict_report import PairedRuns, PrecisionVerdict, VerdictReport
from tasks.gates import describe, judge
from tasks.named_artifacts import without_number
from tasks.portability import together
from tasks.quarantine import held_back, measures_again
from tasks.recipe import Made, recipe_for
from tasks.verdict import Beside, verdict_on
from tests.unit.tasks.test_degradation import CPU, NAMED, against, with_
from tests.unit.tasks.test_gates import latency, output, report
from tests.unit.tasks.test_verdict import FAST, GOOD, INT8, TWIN, paired

WHY = "not alone on the device: process 7"
DEVICE = CPU | {"device": "NVIDIA L4"}


def trust(tainted: list[str]) -> dict[str, Any]:
    return {"exclusive": not tainted, "exclusive_proof": "as a test has it", "tainted": tainted}


def measured(*rows: dict[str, Any]) -> BuildReport:
    return with_(report(GOOD), latency=list(rows), measure_machine=DEVICE)


def row(*tainted: str, **changed: object) -> dict[str, Any]:
    return latency(3.0, 5.0) | {"trust": trust(list(tainted))} | changed


def gate(**changed: object) -> Gate:
    return Gate.model_validate({"metric": "latency_p99_ms", "at_most": 9} | changed)


CLEAN, BAD = measured(row()), measured(row(), row(WHY))


@pytest.mark.parametrize(
    ("asked", "told", "met", "doubted"),
    [
        (gate(), CLEAN, True, False),
        (gate(), BAD, False, True),
        (gate(at_most=4), BAD, False, True),
        (gate(if_tainted="allow"), BAD, True, False),
        (gate(metric="engine_bytes", at_most=10**9), BAD, True, False),
        (Gate.model_validate({"metric": "cosine", "at_least": 0.9}), BAD, True, False),
        # A sweep over batches is no gate's business.
        (gate(), measured(row(), row(WHY, swept=True)), True, False),
    ],
)
def test_a_gate_on_latency_is_met_only_by_what_nothing_taints(
    asked: Gate, told: BuildReport, *, met: bool, doubted: bool
) -> None:
    (verdict,) = judge([asked], told)
    assert (verdict.met, verdict.tainted) == (met, doubted)
    if doubted:
        assert verdict.value == 5.0
        assert verdict.reason == f"latency was tainted at x 1x4: {WHY}"


@pytest.mark.parametrize(
    ("now", "then", "why", "again"),
    [
        (BAD, CLEAN, "not comparable: latency was tainted", True),
        (CLEAN, BAD, "not comparable: of the named artifact latency was tainted", False),
    ],
)
def test_neither_side_of_a_comparison_may_be_tainted(
    now: BuildReport, then: BuildReport, why: str, *, again: bool
) -> None:
    now, then = (with_(each, latency=each.latency[-1:]) for each in (now, then))
    asked = against("latency_p99_ms", worse_by=1)
    (verdict,) = judge([asked], now, {NAMED: then})
    assert (verdict.value, verdict.met, verdict.tainted) == (None, False, again)
    assert (verdict.reason or "").startswith(why)
    trusting = asked.model_copy(update={"if_tainted": Tainted.ALLOW})
    assert judge([trusting], now, {NAMED: then})[0].met


def test_what_a_gate_lets_through_is_signed_with_it() -> None:
    assert describe(gate(if_tainted="allow")) == "latency_p99_ms <= 9, tainted or not"


def test_a_gate_that_believes_less_than_before_has_a_key_of_its_own() -> None:
    def gates(**changed: object) -> Any:  # noqa: ANN401 - JSON
        body = {"model": NAMED, "targets": ["onnxruntime@cpu"], "gates": [gate(**changed)]}
        asked, target = BuildSpec.model_validate(body), Target.parse("onnxruntime@cpu")
        return recipe_for(Stage.PUBLISH, asked, target, "1", {}, Made())["gates"]

    assert gates()[0]["if_tainted"] == "fail"
    assert "if_tainted" not in gates(if_tainted="allow")[0]
    assert "if_tainted" not in gates(metric="cosine", at_most=None, at_least=0.9)[0]


def doubtful(*ratios: float, shape: int = 1) -> PairedRuns:
    return PairedRuns.model_validate(
        paired(*ratios, shape=shape).model_dump() | {"trust": trust([WHY])}
    )


def verdict(*rows: PairedRuns, told: BuildReport = CLEAN) -> VerdictReport:
    found = verdict_on(Precision.model_validate(INT8), told, [], Beside(TWIN, rows))
    assert found is not None
    return found


@pytest.mark.parametrize("ratio", [1.5, 0.5])
def test_neither_accept_nor_slower_rests_on_a_tainted_pair(ratio: float) -> None:
    found = verdict(doubtful(*[ratio] * 15))
    assert (found.verdict, found.held_back) == (None, False)
    assert found.reason == f"speed is not known: it was tainted at x 1x4: {WHY}"
    assert [(row.speedup, row.faster) for row in found.speed] == [(ratio, False)]


def test_one_tainted_shape_spoils_what_is_faster_and_not_what_is_slower_elsewhere() -> None:
    bad = doubtful(*[0.1] * 15, shape=8)
    assert verdict(FAST, bad).verdict is None
    assert verdict(paired(*[0.9] * 15), bad).verdict is PrecisionVerdict.SLOWER


def test_accuracy_is_judged_whatever_the_times_are_worth() -> None:
    lost = with_(CLEAN, accuracy=report(output("y", cosine=0.5, reference_max_abs=1.0)).accuracy)
    assert verdict(doubtful(*[1.5] * 15), told=lost).verdict is PrecisionVerdict.REGRESSION


def judged(told: BuildReport, *verdicts: GateVerdict) -> BuildReport:
    return told.model_copy(update={"gates": list(verdicts)})


def test_what_a_gate_or_a_verdict_would_not_believe_is_measured_again() -> None:
    assert measures_again(judged(BAD, *judge([gate()], BAD)))
    assert not measures_again(judged(BAD, *judge([gate(if_tainted="allow")], BAD)))
    assert not measures_again(BAD)
    for rows, again in (([doubtful(*[1.5] * 15)], True), ([FAST], False)):
        told = CLEAN.model_copy(update={"precision_verdict": verdict(*rows)})
        assert measures_again(told) is again
        assert (TAINTED in told.measurement_labels) is again


def test_a_build_that_misses_another_gate_too_is_told_that_first() -> None:
    missed = Gate.model_validate({"metric": "engine_bytes", "at_most": 1})
    only = held_back(judged(BAD, *judge([gate()], BAD)), "sha256:…")
    both = held_back(judged(BAD, *judge([gate(), missed], BAD)), "sha256:…")
    assert (only.code, both.code) == ("gate_tainted", "gate_not_met")
    assert "latency was tainted" in both.why


def on_two(one: BuildReport, other: BuildReport) -> BuildReport:
    """Return the report of an engine that was measured on two SKUs, and judged on each."""
    rows = {"l4": one, "l40s": other}
    each = {sku: judged(row, *judge([gate()], row)) for sku, row in rows.items()}
    return together(each, [gate()], None)


def test_one_sku_that_was_disturbed_keeps_the_engine_back_and_is_measured_again() -> None:
    told = on_two(CLEAN, BAD)
    (worst,) = told.gates
    assert (worst.met, worst.tainted) == (False, True)
    assert "on l40s, the worst of 2 SKUs" in (worst.reason or "")
    assert measures_again(told)
    assert not measures_again(on_two(CLEAN, CLEAN))


@pytest.mark.parametrize(
    ("named", "refused"),
    [
        (CLEAN, False),
        (BAD, True),
        (on_two(BAD, CLEAN), False),
        (on_two(BAD, BAD), True),
        (measured(row(), row(WHY, swept=True)), False),
    ],
    ids=["quiet", "disturbed", "on one of two SKUs", "on both", "in a sweep"],
)
def test_a_gate_against_an_artifact_is_refused_where_it_could_believe_no_number_of_it(
    named: BuildReport, *, refused: bool
) -> None:
    why = without_number(against("latency_p99_ms", worse_by=1), named)
    assert (why or "").startswith("its latency was tainted") is refused
    believing = against("latency_p99_ms", worse_by=1).model_copy(
        update={"if_tainted": Tainted.ALLOW}
    )
    assert without_number(believing, named) is None
    assert without_number(against("engine_bytes", worse_by=1), named) is None
