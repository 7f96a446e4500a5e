"""People and programs see whether a precision is worth it, and why."""

from __future__ import annotations

from pathlib import Path

import pytest

from enginefarm.cli.app import invoke
from enginefarm.cli.exit_codes import ExitCode
from enginefarm.precision import PrecisionKind
from enginefarm.state import ArtifactState, BuildState, JobState, Stage
from enginefarm.verdict_report import PrecisionVerdict
from enginefarm.views import ArtifactView
from tests.unit.client.support.server import LoopbackFarm
from tests.unit.client.support.views import ARTIFACT, artifact, build, failed, job, published
from tests.unit.client.test_cli_diff import write
from tests.unit.client.test_cli_results import _serve
from tests.unit.enginefarm.precise_reports import VERDICT, precise
from tests.unit.enginefarm.reports import report

SLOWER = VERDICT | {"verdict": "slower", "reason": "0.7 times as fast", "held_back": True}


def _shown(verdict: dict[str, object]) -> ArtifactView:
    return artifact().model_copy(update={"report": precise(verdict)})


def test_a_build_shows_its_verdict_in_a_column_and_the_numbers_below(
    farm_env: LoopbackFarm, capsys: pytest.CaptureFixture[str]
) -> None:
    told = {"verdict": PrecisionVerdict.SLOWER, "artifact_state": ArtifactState.QUARANTINED}
    target = published().model_copy(update=told)
    _serve(farm_env, build(BuildState.FAILED, [], [target]), _shown(SLOWER))

    assert invoke(["show", "bld_1"]) == ExitCode.OK
    out = capsys.readouterr().out
    assert "verdict" in out
    assert "slower" in out
    assert "precision slower: 0.7 times as fast" in out


def test_what_cannot_be_built_is_infeasible_and_the_failure_says_why(
    farm_env: LoopbackFarm, capsys: pytest.CaptureFixture[str]
) -> None:
    target = failed().model_copy(update={"verdict": PrecisionVerdict.INFEASIBLE})
    _serve(farm_env, build(BuildState.FAILED, [], [target]))

    assert invoke(["show", "bld_1"]) == ExitCode.OK
    assert "infeasible" in capsys.readouterr().out


def test_a_fault_of_the_nodes_is_no_verdict_on_the_precision(
    farm_env: LoopbackFarm, capsys: pytest.CaptureFixture[str]
) -> None:
    reason = "not known, by the fault of the nodes that tried: compile failed: It is gone."
    target = failed().model_copy(update={"verdict_reason": reason})
    _serve(farm_env, build(BuildState.FAILED, [], [target]))

    assert invoke(["show", "bld_1"]) == ExitCode.OK
    out = capsys.readouterr().out
    assert f"precision has no verdict: {reason}" in " ".join(out.split())
    assert "infeasible" not in out


def test_what_was_tainted_beside_the_twin_is_told(
    farm_env: LoopbackFarm, capsys: pytest.CaptureFixture[str]
) -> None:
    trust = {"exclusive": None, "exclusive_proof": "p", "tainted": ["clocks were held down"]}
    rows = [VERDICT["speed"][0] | {"trust": trust}]
    shown = _shown(VERDICT | {"verdict": None, "reason": "it was tainted", "speed": rows})
    _serve(farm_env, build(BuildState.SUCCEEDED, [], [published()]), shown)
    assert invoke(["report", ARTIFACT]) == ExitCode.OK
    out = " ".join(capsys.readouterr().out.split())
    assert "precision has no verdict: it was tainted" in out
    assert "tainted: clocks were held down" in out


def test_what_is_released_though_it_is_slower_says_so(
    farm_env: LoopbackFarm, capsys: pytest.CaptureFixture[str]
) -> None:
    released = _shown(SLOWER | {"held_back": False, "on_slower": "publish"})
    _serve(farm_env, build(BuildState.SUCCEEDED, [], [published()]), released)
    assert invoke(["report", ARTIFACT]) == ExitCode.OK
    out = capsys.readouterr().out
    assert "precision slower, released all the same: 0.7 times as fast" in out
    assert "precision twin as-is: without int8" in out
    assert "times as fast" in out
    assert "1.500" in out


def test_a_build_without_a_precision_has_no_such_column(
    farm_env: LoopbackFarm, capsys: pytest.CaptureFixture[str]
) -> None:
    _serve(farm_env, build(BuildState.SUCCEEDED, [], [published()]))
    assert invoke(["show", "bld_1"]) == ExitCode.OK
    assert "verdict" not in capsys.readouterr().out


def test_the_jobs_of_a_twin_are_told_from_those_of_the_engine(
    farm_env: LoopbackFarm, capsys: pytest.CaptureFixture[str]
) -> None:
    engine = job(Stage.COMPILE, JobState.SUCCEEDED)
    twin = engine.model_copy(
        update={"id": "job_9", "twin": PrecisionKind.FP16, "cached_from": "job_0"}
    )
    _serve(farm_env, build(BuildState.SUCCEEDED, [engine, twin], [published()]))
    assert invoke(["show", "bld_1"]) == ExitCode.OK
    out = capsys.readouterr().out
    assert "twin compile" in out
    assert "engine cached" not in out


def test_a_comparison_says_how_the_verdicts_differ(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    a, b = write(tmp_path, "a.json", report()), write(tmp_path, "b.json", precise(SLOWER))
    assert invoke(["diff", a, b]) == ExitCode.OK
    out = capsys.readouterr().out
    assert "the verdict on the precision of A is –, of B slower" in out  # noqa: RUF001 - a dash
    assert "precision.kind" in out
