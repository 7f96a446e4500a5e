"""What is said of a build and its artifacts: what was cached, what is in doubt, what was found."""

from __future__ import annotations

import json

import pytest

from enginefarm.cli.app import invoke
from enginefarm.cli.exit_codes import ExitCode
from enginefarm.digest import digest_of
from enginefarm.errors import Failure
from enginefarm.report import BuildRecipe, BuildReport, GateVerdict, Machine, TimingsReport
from enginefarm.state import PLAIN_STAGES, ArtifactState, Blame, BuildState, JobState, Stage
from enginefarm.views import ArtifactView, BuildView, JobView
from tests.unit.client.support.server import LoopbackFarm
from tests.unit.client.support.views import (
    ARTIFACT,
    CPU,
    MODEL,
    artifact,
    build,
    failed,
    job,
    published,
)

STAGES = list(PLAIN_STAGES)
MACHINE = Machine(
    hostname="gpu-7",
    cpu="EPYC",
    cores=64,
    memory_bytes=256_000_000_000,
    device="NVIDIA L4",
    driver="580.1",
    cuda="13.0",
    load_before=0.5,
    load_after=1.5,
)

PLUGIN = digest_of(b"a library")


def _serve(farm: LoopbackFarm, view: BuildView, shown: ArtifactView | None = None) -> None:
    farm.routes["/v1/builds/bld_1"] = lambda handler: handler.reply(
        200, view.model_dump_json().encode()
    )
    body = (shown or artifact()).model_dump_json().encode()
    farm.routes[f"/v1/artifacts/{ARTIFACT}/summary"] = lambda handler: handler.reply(200, body)


def _jobs(*cached: Stage) -> list[JobView]:
    return [
        job(stage, JobState.SUCCEEDED, cached_from="job_0" if stage in cached else None)
        for stage in STAGES
    ]


def _told_of(**changed: object) -> ArtifactView:
    """Return an artifact whose report says something else."""
    shown = artifact()
    assert shown.report is not None
    return shown.model_copy(update={"report": shown.report.model_copy(update=changed)})


@pytest.mark.parametrize(
    ("cached", "said"),
    [
        ((), "published  "),
        ((Stage.CHECK,), "published  "),
        ((Stage.CHECK, Stage.COMPILE), "published (engine cached)"),
        (tuple(STAGES), "published (all cached)"),
    ],
)
def test_only_what_came_from_the_cache_is_called_cached(
    cached: tuple[Stage, ...],
    said: str,
    farm_env: LoopbackFarm,
    capsys: pytest.CaptureFixture[str],
) -> None:
    target = published().model_copy(update={"cached": bool(cached)})
    _serve(farm_env, build(BuildState.SUCCEEDED, _jobs(*cached), [target]))

    assert invoke(["show", "bld_1"]) == ExitCode.OK

    rows = [line for line in capsys.readouterr().out.splitlines() if "2.5 MB" in line]
    assert len(rows) == 1
    assert said in rows[0].replace("│", " ")
    assert ("cached" in rows[0]) == ("cached" in said)


def test_a_latency_in_doubt_is_marked_and_the_doubt_is_told(
    farm_env: LoopbackFarm, capsys: pytest.CaptureFixture[str]
) -> None:
    report = artifact().report
    assert report is not None
    noisy = report.latency[0].model_copy(update={"stable": False, "notes": ["other work ran"]})
    done = build(BuildState.SUCCEEDED, _jobs(), [published()])
    _serve(farm_env, done, _told_of(latency=[noisy]))

    assert invoke(["show", "bld_1"]) == ExitCode.OK

    out = capsys.readouterr().out
    assert "~2.25 ms" in out
    assert "~2.75 ms" in out
    note = next(line for line in out.splitlines() if "not to be relied on" in line)
    assert "had not settled" in note
    assert "other work ran" in note


def test_a_steady_latency_carries_no_mark_and_made_up_inputs_are_told(
    farm_env: LoopbackFarm, capsys: pytest.CaptureFixture[str]
) -> None:
    report = artifact().report
    assert report is not None
    fact = report.latency[0].model_copy(update={"notes": ["inputs: synthetic, seed 0"]})
    done = build(BuildState.SUCCEEDED, _jobs(), [published()])
    _serve(farm_env, done, _told_of(latency=[fact]))

    assert invoke(["show", "bld_1"]) == ExitCode.OK

    out = capsys.readouterr().out
    assert "~" not in out
    assert "made-up inputs (synthetic, seed 0)" in out


FINDINGS = Failure(
    code="unsupported_operator",
    blame=Blame.PERSON,
    message="The model cannot be built.",
    why="No operator Foo. There are 2 findings in all.",
    fix="Replace Foo.",
    context={
        "findings": [
            {"severity": "warning", "code": "profile_not_tried", "message": "Not tried."},
            {
                "severity": "error",
                "code": "unsupported_operator",
                "message": "No operator Foo.",
                "where": "node 7",
                "fix": "Replace Foo.",
            },
            {"severity": "error", "code": "unsupported_opset", "message": "Opset 99 is unknown."},
        ]
    },
)


def test_everything_that_the_check_found_is_told(
    farm_env: LoopbackFarm, capsys: pytest.CaptureFixture[str]
) -> None:
    _serve(farm_env, build(BuildState.FAILED, [], [failed(failure=FINDINGS)]))

    assert invoke(["show", "bld_1"]) == ExitCode.OK

    out = capsys.readouterr().out
    assert "1. error: No operator Foo. At: node 7. [unsupported_operator]" in out
    assert "fix: Replace Foo." in out
    assert "2. error: Opset 99 is unknown. [unsupported_opset]" in out
    assert "3. warning: Not tried. [profile_not_tried]" in out


def test_show_tells_what_was_asked_for_and_when(
    farm_env: LoopbackFarm, capsys: pytest.CaptureFixture[str]
) -> None:
    done = build(BuildState.SUCCEEDED, _jobs(), [published()])
    asked = done.spec.model_validate(
        done.spec.model_dump(mode="json")
        | {
            "profiles": [{"x": {"min": [1, 3], "opt": [2, 3], "max": [4, 3]}}],
            "gates": [
                {"metric": "cosine", "at_least": 0.999, "output": "y", "target": "onnxruntime@cpu"},
                {"metric": "latency_p99_ms", "at_most": 5},
            ],
        }
    )
    _serve(farm_env, done.model_copy(update={"labels": {"team": "ocr"}, "spec": asked}))

    assert invoke(["show", "bld_1"]) == ExitCode.OK

    out = capsys.readouterr().out
    assert "team=ocr" in out
    assert "--profile x=1x3:2x3:4x3" in out
    assert "onnxruntime@cpu:cosine[y]>=0.999" in out
    assert "latency_p99_ms<=5" in out
    row = next(line for line in out.splitlines() if f"{CPU}  compile" in line)
    assert "3.0 s" in row
    assert "+" in row, "the time's zone"


QUARANTINED = Failure(
    code="gate_not_met",
    blame=Blame.PERSON,
    message="1 gate(s) were not met.",
    why="cosine >= 0.9999: 0.99871234567891.",
    fix="The artifact is quarantined; look at its report, or change model, options or gate.",
    context={"artifact": ARTIFACT},
)


def test_a_quarantined_artifact_names_the_command_that_shows_why(
    farm_env: LoopbackFarm, capsys: pytest.CaptureFixture[str]
) -> None:
    missed = failed(CPU, QUARANTINED).model_copy(
        update={"artifact": ARTIFACT, "artifact_state": ArtifactState.QUARANTINED}
    )
    verdict = GateVerdict(gate="cosine >= 0.9999", value=0.99871234567891, met=False)
    done = build(BuildState.FAILED, _jobs(), [missed])
    _serve(farm_env, done, _told_of(gates=[verdict]))

    assert invoke(["show", "bld_1"]) == ExitCode.OK

    out = capsys.readouterr().out
    assert f"enginefarm report {ARTIFACT}" in out
    assert "why: cosine >= 0.9999: 0.998712." in out
    assert "gate not met: cosine >= 0.9999 (it is 0.998712)" in out
    assert "0.99871234567891" not in out


def test_a_report_is_shown_for_people_also_of_a_quarantined_artifact(
    farm_env: LoopbackFarm, capsys: pytest.CaptureFixture[str]
) -> None:
    measured = artifact().report
    assert measured is not None
    assert measured.accuracy is not None
    outputs = [
        row.model_copy(update={"cosine_worst": 0.987654}) for row in measured.accuracy.outputs
    ]
    weak = {"outputs": outputs, "notes": ["the signal is weak"]}
    timings = TimingsReport(begun_with=True, hits=118)
    shown = _told_of(
        compile=measured.compile.model_copy(update={"timings": timings}),
        measure_machine=MACHINE,
        versions={"onnxruntime": "1.32.0"},
        accuracy=measured.accuracy.model_copy(update=weak),
        recipe=BuildRecipe(key=MODEL, plugins={"onnxruntime": [PLUGIN]}),
    )
    quarantined = shown.model_copy(update={"state": ArtifactState.QUARANTINED})
    _serve(farm_env, build(BuildState.FAILED, [], [failed()]), quarantined)

    assert invoke(["report", ARTIFACT.removeprefix("sha256:")]) == ExitCode.OK

    out = capsys.readouterr().out
    for told in (
        *(ARTIFACT, MODEL, "quarantined", "onnxruntime@cpu", "onnxruntime 1.32.0"),
        *("cosine>=0.9999999", "0.999987", "1.2e-05", "1e-06", "80"),
        *("0.987654", "the signal is weak", "118 came from earlier builds"),
        *("2.25 ms", "2.50 ms", "2.60 ms", "2.75 ms", "x 1x3"),
        *("gpu-7", "NVIDIA L4", "driver 580.1", "CUDA 13.0", "load 0.5 before and 1.5 after"),
        *("against onnxruntime", "made-up inputs", "synthetic, seed 0", "4 samples"),
        f"plugins   onnxruntime {PLUGIN}",
    ):
        assert told in out
    gate = next(line for line in out.splitlines() if line.startswith("cosine>="))
    assert "no" in gate.split()


def test_a_report_says_why_nothing_was_measured(
    farm_env: LoopbackFarm, capsys: pytest.CaptureFixture[str]
) -> None:
    _serve(farm_env, build(BuildState.FAILED, [], [failed()]), artifact(measured=False))

    assert invoke(["report", ARTIFACT]) == ExitCode.OK
    assert "not measured: No live node measures it." in capsys.readouterr().out


def test_a_report_for_programs_is_the_report_itself(
    farm_env: LoopbackFarm, capsys: pytest.CaptureFixture[str]
) -> None:
    _serve(farm_env, build(BuildState.FAILED, [], [failed()]))

    assert invoke(["report", ARTIFACT, "--json"]) == ExitCode.OK

    told = BuildReport.model_validate(json.loads(capsys.readouterr().out))
    assert told == artifact().report


def test_an_artifact_without_a_report_is_not_found(farm_env: LoopbackFarm) -> None:
    bare = artifact().model_copy(update={"report": None})
    _serve(farm_env, build(BuildState.FAILED, [], [failed()]), bare)

    assert invoke(["report", ARTIFACT]) == ExitCode.NOT_FOUND
