"""Where there is no artifact, what failed says whether the precision could be had at all."""

from __future__ import annotations

from typing import Any

import pytest

from api.verdicts import verdict_of
from enginefarm.state import JobState, Stage
from enginefarm.verdict_report import PrecisionVerdict
from storage.models import Artifact, Build, Job

INT8 = Build(spec={"precision": {"kind": "int8"}})


def failed(stage: Stage, blame: str = "person", state: JobState = JobState.FAILED) -> Job:
    failure: dict[str, Any] = {"code": "parser_failed", "message": "It broke.", "blame": blame}
    return Job(stage=str(stage), state=state, failure=failure)


@pytest.mark.parametrize("stage", [Stage.CALIBRATE, Stage.CHECK, Stage.COMPILE, Stage.BENCHMARK])
def test_what_could_not_be_written_built_or_run_is_infeasible_with_the_cause(stage: Stage) -> None:
    verdict, reason = verdict_of(INT8, failed(stage), None)
    assert verdict is PrecisionVerdict.INFEASIBLE
    assert reason == f"{stage} failed: It broke. [parser_failed]"


@pytest.mark.parametrize("code", ["child_crashed", "out_of_memory", "silent_limit"])
def test_what_every_node_went_down_over_is_infeasible(code: str) -> None:
    job = failed(Stage.COMPILE, "node")
    job.failure = (job.failure or {}) | {"code": code}
    assert verdict_of(INT8, job, None)[0] is PrecisionVerdict.INFEASIBLE


@pytest.mark.parametrize("stage", [Stage.CALIBRATE, Stage.COMPILE, Stage.BENCHMARK])
def test_another_fault_of_nodes_says_nothing_of_the_precision(stage: Stage) -> None:
    verdict, reason = verdict_of(INT8, failed(stage, "node"), None)
    assert verdict is None
    assert reason is not None
    assert reason.startswith("not known, by the fault of the nodes that tried: ")
    assert "It broke. [parser_failed]" in reason


@pytest.mark.parametrize(
    ("build", "job"),
    [
        (Build(spec={}), failed(Stage.COMPILE)),
        (INT8, None),
        (INT8, failed(Stage.COMPILE, "farm")),
        (INT8, failed(Stage.REPAIR)),
        (INT8, failed(Stage.COMPILE, state=JobState.EXPIRED)),
    ],
    ids=["no precision", "nothing failed", "the farm's fault", "before it", "no node came"],
)
def test_what_has_another_cause_is_no_verdict(build: Build, job: Job | None) -> None:
    assert verdict_of(build, job, None) == (None, None)


def test_an_artifact_has_its_verdict_in_its_report() -> None:
    told = {"verdict": "slower", "reason": "0.7 times as fast"}
    made = Artifact(report={"precision_verdict": told})
    assert verdict_of(INT8, failed(Stage.PUBLISH), made) == ("slower", "0.7 times as fast")
    none = Artifact(report={"precision_verdict": told | {"verdict": None}})
    assert verdict_of(INT8, None, none) == (None, "0.7 times as fast")
    assert verdict_of(INT8, None, Artifact(report={})) == (None, None)


def test_data_that_is_refused_says_nothing_of_the_precision() -> None:
    job = failed(Stage.CALIBRATE)
    job.failure = (job.failure or {}) | {"code": "calibration_noise"}
    verdict, reason = verdict_of(INT8, job, None)
    assert verdict is None
    assert reason == (
        "not known, by the calibration data: calibrate failed: It broke. [calibration_noise]"
    )
