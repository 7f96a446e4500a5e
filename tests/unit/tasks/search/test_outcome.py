"""What came of a candidate is read from its report: of the engine, or of the model file."""

from __future__ import annotations

from typing import Any

from enginefarm.precision import Precision
from enginefarm.precision_report import PrecisionReport
from enginefarm.report import BuildReport
from enginefarm.search_views import AccuracyOf
from enginefarm.state import ArtifactState
from tasks.search import outcome
from tests.contract.filled import filled
from tests.unit.enginefarm import reports
from tests.unit.tasks.search.answers import ARTIFACT, DATA, spec

LATENCY = {"metric": "latency_p99_ms", "at_most": 5}


def read(asked: Any, report: BuildReport) -> Any:  # noqa: ANN401 - short
    return outcome.read(asked, report, ARTIFACT, ArtifactState.QUARANTINED, fit=True)


def unmeasured(*, file_cosine: float | None) -> BuildReport:
    told = reports.report(measured=False, reason="not run: no device", latency=[])
    told = told.model_copy(update={"accuracy": None})
    if file_cosine is None:
        return told
    file = filled(PrecisionReport, optional=False)
    accuracy = reports.report(outputs=[reports.output(cosine=file_cosine)]).accuracy
    return told.model_copy(
        update={"precision": file.model_copy(update={"model_accuracy": accuracy})}
    )


def test_where_the_engine_was_run_its_own_numbers_count() -> None:
    report = reports.report(
        outputs=[reports.output(cosine=0.995), reports.output("z", cosine=0.98)]
    )
    found = read(spec(), report)
    assert (found.accuracy_of, found.cosine, found.met) == (AccuracyOf.ENGINE, 0.98, False)
    assert found.latency_p99_ms == report.latency[0].end_to_end_ms.p99
    assert found.engine_bytes == report.compile.engine_bytes
    assert found.memory_bytes == report.latency[0].peak_memory_bytes


def test_what_a_sweep_over_batches_took_is_not_held_against_a_candidate() -> None:
    swept = reports.latency(900.0, swept=True, peak_memory_bytes=1 << 40)
    report = reports.report(latency=[reports.latency(), swept])
    found = read(spec(prefer="latency"), report)
    assert found.latency_p99_ms == report.latency[0].end_to_end_ms.p99
    assert found.latency_p50_ms == report.latency[0].end_to_end_ms.p50
    assert found.memory_bytes == report.latency[0].peak_memory_bytes


def test_where_it_was_not_the_model_file_is_judged_and_latency_is_set_aside() -> None:
    asked = spec(require=[{"metric": "cosine", "at_least": 0.99}, LATENCY])
    found = read(asked, unmeasured(file_cosine=0.97))
    assert (found.accuracy_of, found.cosine, found.met) == (AccuracyOf.MODEL_FILE, 0.97, False)
    assert found.set_aside == ["latency_p99_ms <= 5"]
    assert found.latency_p99_ms is None
    assert found.reason == "not run: no device"
    assert read(asked, unmeasured(file_cosine=0.995)).met


def test_the_model_as_it_came_is_what_accuracy_is_held_against() -> None:
    found = read(spec(), unmeasured(file_cosine=None))
    assert (found.accuracy_of, found.cosine) == (AccuracyOf.ORIGINAL, None)
    assert found.met
    assert found.accurate


def test_a_candidate_can_be_accurate_and_miss_what_else_is_required() -> None:
    asked = spec(require=[{"metric": "cosine", "at_least": 0.5}, LATENCY | {"at_most": 0.001}])
    found = read(asked, reports.report())
    assert found.accurate
    assert not found.met


def test_where_nothing_is_required_of_accuracy_the_usual_bound_is() -> None:
    asked = spec(require=[LATENCY])
    told = [f"{row.metric} {row.at_least}" for row in outcome.requirements(asked)]
    assert told[0] == "cosine 0.99"
    assert outcome.requirements(spec(0.5)) == list(spec(0.5).require)


def test_what_is_required_is_a_gate_of_each_candidate_as_far_as_it_can_be_judged() -> None:
    size = {"metric": "engine_bytes", "at_most": 9}
    asked = spec(require=[{"metric": "cosine", "at_least": 0.5}, LATENCY, size])
    int8 = Precision.model_validate({"kind": "int8", "calibration": DATA})

    def gates(precision: Precision, *, measured: bool) -> list[str]:
        return [str(row.metric) for row in outcome.gates_of(asked, precision, measured=measured)]

    assert gates(int8, measured=True) == ["cosine", "latency_p99_ms", "engine_bytes"]
    assert gates(int8, measured=False) == ["model.cosine", "engine_bytes"]
    # The model as it came is what accuracy is held against: there is no other file to judge.
    assert gates(Precision(), measured=False) == ["engine_bytes"]


def test_what_something_else_keeps_back_cannot_be_chosen_however_good_it_is() -> None:
    report = reports.report(outputs=[reports.output(cosine=0.999)])
    found = outcome.read(spec(), report, ARTIFACT, ArtifactState.QUARANTINED, fit=False)
    assert found.accurate
    assert not found.met


def test_a_tainted_latency_meets_no_requirement_however_small_it_is() -> None:
    asked = spec(require=[{"metric": "cosine", "at_least": 0.5}, LATENCY | {"at_most": 1e6}])
    trust = {"exclusive": True, "exclusive_proof": "asked", "tainted": ["it varies", "it varies"]}
    report = reports.report(latency=[reports.latency(trust=trust)])
    found = read(asked, report)
    assert found.tainted == ["it varies"]
    assert found.accurate
    assert not found.met
    assert not found.verdicts[1].met
    assert "tainted" in (found.verdicts[1].reason or "")
    assert found.latency_p99_ms == report.latency[0].end_to_end_ms.p99
    swept = reports.report(latency=[reports.latency(), reports.latency(trust=trust, swept=True)])
    assert read(asked, swept).tainted == []
    assert read(asked, swept).met
