"""People are told which repairs were done, what proved them and what they change."""

from __future__ import annotations

import pytest

from enginefarm.cli.app import invoke
from enginefarm.cli.builds import _asked
from enginefarm.cli.exit_codes import ExitCode
from enginefarm.cli.report import _grids, _head
from enginefarm.cli.results import _left, repaired
from enginefarm.cli.run_shapes import require_not_fixed
from enginefarm.cli.submit import _tell_findings
from enginefarm.cli.tables import jobs_table, plan_table
from enginefarm.errors import Failure, InvalidRequest
from enginefarm.finding import error_finding
from enginefarm.plan_views import PlannedJob, PlannedTarget, PlanView
from enginefarm.repair_report import Outcome, PassReport, Proof, RepairReport
from enginefarm.repairs import Exactness
from enginefarm.report import BuildReport
from enginefarm.spec import BuildSpec, FixedInput
from enginefarm.state import Blame, BuildState, JobState, Stage
from enginefarm.views import ArtifactView, AttemptView, TargetView
from tests.unit.client.support.release import engine_config
from tests.unit.client.support.server import LoopbackFarm
from tests.unit.client.support.views import (
    ARTIFACT,
    AT,
    CPU,
    MODEL,
    artifact,
    build,
    job,
    published,
)

WRITTEN = f"sha256:{'2' * 64}"


def passed(
    name: str, outcome: Outcome, exactness: Exactness = Exactness.EXACT, error: float = 0.0
) -> PassReport:
    proof = Proof(
        shapes=[{"x": [1, 3]}],
        outputs=3,
        bit_equal=error == 0,
        max_abs_error=error,
        max_rel_error=error,
    )
    return PassReport(
        name=name, version=1, exactness=exactness, outcome=outcome, why=f"{name} says", proof=proof
    )


def shown(*passes: PassReport, changed: bool = True) -> ArtifactView:
    repair = RepairReport(
        passes=list(passes), changed=changed, nodes_before=9, nodes_after=4, seconds=0.7
    )
    view = artifact()
    assert view.report is not None
    report = view.report.model_copy(
        update={"repair": repair, "repaired_model": WRITTEN if changed else None}
    )
    return view.model_copy(update={"report": report})


def told(view: ArtifactView) -> BuildReport:
    assert view.report is not None
    return view.report


def test_a_report_names_the_model_that_was_built_and_every_pass_that_had_work(
    farm_env: LoopbackFarm, capsys: pytest.CaptureFixture[str]
) -> None:
    view = shown(
        passed("fix-inputs", Outcome.APPLIED),
        passed("raise-opset", Outcome.NOTHING_TO_DO),
        passed("fold-constants", Outcome.UNDONE, error=0.25),
    )
    farm_env.routes[f"/v1/artifacts/{ARTIFACT}/summary"] = lambda handler: handler.reply(
        200, view.model_dump_json().encode()
    )
    assert invoke(["report", ARTIFACT]) == ExitCode.OK
    out = capsys.readouterr().out
    assert f"repaired  {WRITTEN}, 9 nodes became 4, in 0.7 s" in out
    assert "fix-inputs" in out
    assert "undone" in out
    assert "0.25" in out
    assert "raise-opset" not in out


def test_a_report_says_that_nothing_was_changed_or_tried() -> None:
    nothing = shown(passed("sort-nodes", Outcome.NOTHING_TO_DO), changed=False)
    assert "repaired  nothing was changed" in list(_head(nothing, told(nothing)))
    assert not any("repair" in str(grid) for grid in _grids(told(nothing)))
    view = artifact()
    untried = told(view).model_copy(update={"repair_reason": "the build asked for none"})
    assert "repaired  not tried: the build asked for none" in list(_head(view, untried))


def test_below_the_table_of_results_stands_what_was_done_and_what_is_not_exact() -> None:
    report = told(
        shown(
            passed("restore-float", Outcome.APPLIED, Exactness.MEASURED, 0.8),
            passed("fold-constants", Outcome.APPLIED),
        )
    )
    assert list(repaired(report)) == [
        "repaired before it was built: restore-float, fold-constants",
        "restore-float is not exact: restore-float says",
    ]
    assert list(repaired(told(artifact()))) == []


def test_a_build_shows_what_was_asked_for_and_what_its_repair_did(
    capsys: pytest.CaptureFixture[str],
) -> None:
    from enginefarm.cli.output import stdout

    view = build(
        BuildState.SUCCEEDED,
        [job(Stage.REPAIR, JobState.SUCCEEDED, repairs=["fix-inputs", "fold-constants"])],
        [published()],
    )
    options = {"repair": {"fix_inputs": {"sr": {"value": 16000}}, "allow": ["restore-float"]}}
    spec = BuildSpec.model_validate({"model": MODEL, "targets": [str(CPU)], "options": options})
    lines = list(_asked(view.model_copy(update={"spec": spec})))
    assert "repair    --fix sr=16000" in lines
    assert "repair    --allow restore-float" in lines
    stdout().print(jobs_table(view))
    assert "fix-inputs, fold-constants" in capsys.readouterr().out


def test_a_job_that_goes_on_tells_what_became_of_the_attempt_before(
    capsys: pytest.CaptureFixture[str],
) -> None:
    from enginefarm.cli.output import stdout

    lost = AttemptView(
        number=1,
        node="n7",
        state=JobState.FAILED,
        started_at=AT,
        finished_at=AT,
        failure=Failure(code="node_lost", blame=Blame.NODE, message="It fell silent."),
        log=None,
    )
    again = job(Stage.CHECK, JobState.RUNNING, attempt=2, attempts=[lost])
    stdout().print(jobs_table(build(BuildState.RUNNING, [again], [published()])))
    assert "attempt 1: node_lost on n7" in " ".join(capsys.readouterr().out.split())


def test_a_plan_tells_which_repairs_a_cached_build_has_had(
    capsys: pytest.CaptureFixture[str],
) -> None:
    from enginefarm.cli.output import stdout

    planned = PlannedJob(
        stage=Stage.REPAIR,
        key=None,
        queue="repair.cpu",
        outcome="cached",
        source="job_1",
        repairs=["unique-dimensions"],
    )
    target = PlannedTarget(
        target=CPU, backend_version="1", measured=True, reason=None, jobs=[planned]
    )
    stdout().print(plan_table(PlanView(model=MODEL, targets=[target])))
    assert "repairs: unique-dimensions" in capsys.readouterr().out


def test_a_plan_tells_what_was_found_before_and_where_nothing_was_looked_for(
    capsys: pytest.CaptureFixture[str],
) -> None:
    found = error_finding("unsupported_operator", "There is no Frobnicate.", fix="Take it out.")
    row = PlannedTarget(target=CPU, backend_version="1", measured=True, reason=None, jobs=[])

    _tell_findings(row.model_copy(update={"findings": [found]}))
    assert "There is no Frobnicate." in capsys.readouterr().out
    _tell_findings(row.model_copy(update={"findings": []}))
    assert "nothing was found" in capsys.readouterr().out
    _tell_findings(row)
    told = capsys.readouterr()
    assert (told.out, "not checked yet" in told.err) == ("", True)


def test_an_engine_is_not_run_on_values_for_what_it_no_longer_takes() -> None:
    fixed = {"sr": FixedInput(value=16000), "x": FixedInput(shape=[1, 3])}
    engine = engine_config("model.onnx").model_copy(update={"fixed_inputs": fixed})
    require_not_fixed(engine, ["x", "y"])
    with pytest.raises(InvalidRequest) as refused:
        require_not_fixed(engine, ["x", "sr"])
    assert refused.value.code == "input_fixed"
    assert "16000" in refused.value.message


def test_of_a_failed_target_the_repairs_that_were_not_done_are_told_with_why() -> None:
    left = ["fold-constants: undone: 3 of 9 elements of output y are not the same"]
    failed = TargetView(
        target=CPU, state=JobState.FAILED, artifact=None, artifact_state=None, cached=False,
        failure=Failure(code="build_refused", blame="person", message="It was refused."),
    )  # fmt: skip
    view = build(
        BuildState.FAILED, [job(Stage.REPAIR, JobState.SUCCEEDED, repairs_left=left)], [failed]
    )
    assert _left(view, failed) == [f"{CPU}: repair not done, {left[0]}"]
