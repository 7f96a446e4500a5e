"""How two artifacts differ, and when it is said that one is worse."""

from __future__ import annotations

from typing import Any

import pytest

from enginefarm.difference import Difference, Verdict, difference
from enginefarm.report import BuildReport
from tests.unit.enginefarm.reports import latency, machine, output, report

METRIC = {"name": "accuracy", "output": "y", "labels": "l", "original": 0.9, "counted": 40}


def between(a: BuildReport, b: BuildReport) -> Difference:
    return difference(("A", a), ("B", b))


def test_a_report_does_not_differ_from_itself() -> None:
    found = between(report(), report())
    assert found.recipe == []
    assert found.worse == []
    assert [row.verdict for row in found.latency] == [Verdict.SAME]


@pytest.mark.parametrize(
    ("middle", "verdict"),
    [(2.0, Verdict.SAME), (2.02, Verdict.SAME), (2.2, Verdict.SLOWER), (1.7, Verdict.FASTER)],
)
def test_a_latency_is_other_only_if_it_is_surely_and_noticeably_so(
    middle: float, verdict: Verdict
) -> None:
    found = between(report(), report(latency=[latency(middle, seed=9)]))
    (row,) = found.latency
    assert row.verdict is verdict
    assert row.runs == [200, 200]
    assert bool(found.worse) is (verdict is Verdict.SLOWER)


def test_a_difference_that_matters_to_nobody_is_none_however_sure() -> None:
    (row,) = between(report(), report(latency=[latency(2.02, seed=9)])).latency
    assert row.p_value is not None
    assert row.p_value < 0.01
    assert "matters to nobody" in row.why


def test_a_few_slow_runs_are_no_more_than_chance() -> None:
    few = {"runs_ms": latency()["runs_ms"][:25]}
    noisy = latency(2.0) | {"runs_ms": [2.0 + (n % 5) for n in range(25)]}
    found = between(report(latency=[latency() | few]), report(latency=[noisy | {"stable": False}]))
    assert found.latency[0].verdict is Verdict.SAME


@pytest.mark.parametrize(
    ("changed", "why"),
    [
        ({"measure_machine": machine(cpu="Xeon")}, "EPYC, the other on Xeon"),
        ({"measure_machine": None}, "not known"),
        ({"latency": [latency(threads=4)]}, "4"),
        ({"latency": [latency(runs_ms=[])]}, "fewer than 20 runs"),
        ({"latency": [latency(shapes={"x": [2, 4]})]}, "not measured at these shapes"),
    ],
)
def test_latencies_of_two_kinds_have_no_verdict(changed: dict[str, Any], why: str) -> None:
    found = between(report(), report(**changed))
    assert {row.verdict for row in found.latency} == {Verdict.NOT_COMPARABLE}
    assert why in found.latency[0].why
    assert found.worse == []


@pytest.mark.parametrize(("a", "b"), [("A", ""), ("", "B"), ("A", "B")])
def test_nothing_is_concluded_from_a_tainted_latency_and_it_is_said_whose(a: str, b: str) -> None:
    def side(name: str) -> BuildReport:
        told = {"exclusive": False, "exclusive_proof": "p", "tainted": [f"of {name}"] * bool(name)}
        return report(latency=[latency(2.0 if name else 9.0) | {"trust": told}])

    found = between(side(a), side(b))
    (row,) = found.latency
    assert row.verdict is Verdict.NOT_COMPARABLE
    assert row.why == "; ".join(f"of {n} latency was tainted: of {n}" for n in (a, b) if n)
    assert row.numbers
    assert found.worse == []


@pytest.mark.parametrize(
    ("changed", "worse"),
    [
        ({"snr_db": 39.5}, False),
        ({"snr_db": 38.0}, True),
        ({"snr_db": 50.0}, False),
        ({"top1_agreement": 0.97}, True),
        ({"nonfinite_engine": 1}, True),
    ],
)
def test_an_output_is_less_accurate_by_more_than_rounding(
    changed: dict[str, Any], *, worse: bool
) -> None:
    found = between(report(), report(outputs=[output(**changed)]))
    assert found.accuracy[0].worse is worse
    assert bool(found.worse) is worse


def test_accuracy_on_other_data_is_not_compared() -> None:
    other = report(outputs=[output(snr_db=1.0)])
    assert other.accuracy is not None
    changed = other.accuracy.model_copy(update={"data": "synthetic, seed 0"})
    found = between(report(), other.model_copy(update={"accuracy": changed}))
    assert found.accuracy == []
    assert "one was measured on dataset sha256:1" in (found.accuracy_reason or "")
    assert found.worse == []


@pytest.mark.parametrize(("engine", "worse"), [(0.9, False), (0.88, True), (0.95, False)])
def test_the_metric_decides_by_its_own_direction(engine: float, *, worse: bool) -> None:
    a = report(metric=METRIC | {"engine": 0.9, "loss": 0.0})
    b = report(metric=METRIC | {"engine": engine, "loss": 0.9 - engine})
    assert bool(between(a, b).worse) is worse
    reverse = {"name": "ctc_error_rate"}
    a, b = (
        report(metric=METRIC | reverse | {"engine": value, "loss": 0.0})
        for value in (1 - 0.9, 1 - engine)
    )
    assert bool(between(a, b).worse) is worse


def test_what_decides_an_engine_and_differs_is_named() -> None:
    recipe = {"key": "sha256:" + "d" * 64, "options": {"graph_optimization": "basic"}}
    shape = {"min": [1, 4], "opt": [1, 4], "max": [8, 4]}
    other = report(backend_version="1.3.0", recipe=recipe | {"profiles": [{"x": shape}]})
    found = {row.what: (row.a, row.b) for row in between(report(), other).recipe}
    assert found == {
        "backend_version": ("1.2.3", "1.3.0"),
        "options.graph_optimization": (None, "basic"),
        "profile 0": (None, "--profile x=1x4:1x4:8x4"),
    }
