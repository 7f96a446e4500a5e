"""``check`` says all that is wrong at once, alone or with a farm; its exit code sums it up."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from onnx import TensorProto, helper

import enginefarm
from bench.hostile.made import model, tensor
from enginefarm.cli.app import invoke
from enginefarm.cli.exit_codes import ExitCode
from enginefarm.client import read_local_model
from enginefarm.finding import Finding, Severity, note_finding
from enginefarm.state import BuildState, JobState, Stage
from enginefarm.target import Target
from enginefarm.views import BuildView, TargetView
from tests.unit.client.support.server import Handler, LoopbackFarm
from tests.unit.client.support.views import CPU, MODEL, build, event, job, model_view

ALONE = ("--offline", "--profile", "x=1x16:4x16:8x16")
REFUSED = Finding(
    severity=Severity.ERROR,
    code="unsupported_operator",
    message="There is no operator Foo.",
    where="node_7",
    fix="Export without it.",
)


def written(folder: Path, *nodes: Any) -> str:  # noqa: ANN401 - onnx's own
    path = folder / "model.onnx"
    made = model(nodes, weights=[tensor("axis", TensorProto.INT64, [1], [0])])
    path.write_bytes(made.SerializeToString())
    return str(path)


def test_a_model_that_is_right_ends_well(
    farm_env: LoopbackFarm, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = written(tmp_path, helper.make_node("Relu", ["x"], ["y"]))
    assert invoke(["check", path, "-t", "onnxruntime@cpu", *ALONE]) == ExitCode.OK
    said = capsys.readouterr()
    assert said.out == "onnxruntime@cpu: nothing is wrong\n"
    assert "by the rules alone" in said.err
    assert farm_env.seen == []


def test_all_that_is_wrong_is_told_for_each_target(
    farm_env: LoopbackFarm, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = written(
        tmp_path,
        helper.make_node("Det", ["x"], ["a"], name="first"),
        helper.make_node("BitwiseNot", ["b"], ["c"], name="second"),
        helper.make_node("Relu", ["x"], ["y"]),
    )
    targets = "onnxruntime@cpu,tensorrt-rtx@sm_89"
    line = ["check", path, "-t", targets, "--offline", "--json"]
    assert invoke(line) == ExitCode.BAD_INPUT
    said = json.loads(capsys.readouterr().out)
    assert (said["ok"], said["offline"]) == (False, True)
    codes = {
        target: {(each["code"], each["where"]) for each in rows}
        for target, rows in said["targets"].items()
    }
    assert ("unsupported_operator", "first") in codes["tensorrt-rtx@sm_89"]
    assert ("unsupported_operator", "second") in codes["tensorrt-rtx@sm_89"]
    for target in said["targets"]:
        assert ("invalid_graph", "b") in codes[target]
        assert ("profile_required", "x") in codes[target]


def test_a_file_that_is_no_model_is_told_for_every_target(
    farm_env: LoopbackFarm, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "model.onnx"
    path.write_bytes(b"")
    line = ["check", str(path), "-t", "onnxruntime@cpu,tensorrt-rtx@sm_86", "--offline"]
    assert invoke(line) == ExitCode.BAD_INPUT
    assert capsys.readouterr().out.count("empty_file") == 2


def test_a_digest_needs_a_farm(farm_env: LoopbackFarm, capsys: pytest.CaptureFixture[str]) -> None:
    assert invoke(["check", MODEL, "-t", "onnxruntime@cpu", "--offline"]) == ExitCode.USAGE
    assert "without the farm" in capsys.readouterr().err


def test_repairs_need_a_farm(
    farm_env: LoopbackFarm, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = written(tmp_path, helper.make_node("Relu", ["x"], ["y"]))
    line = ["check", path, "-t", "onnxruntime@cpu", *ALONE, "--fix", "sr=16000"]
    assert invoke(line) == ExitCode.USAGE
    assert "Only a farm repairs a model" in capsys.readouterr().err


def test_without_numpy_the_weights_are_said_to_be_unseen(tmp_path: Path) -> None:
    path = written(tmp_path, helper.make_node("Relu", ["x"], ["y"]))
    code = (
        "import sys\n"
        "for name in ('numpy', 'onnx', 'onnxruntime'): sys.modules[name] = None\n"
        "from enginefarm.cli.app import invoke\n"
        f"sys.exit(invoke(['check', {path!r}, '-t', 'onnxruntime@cpu', *{ALONE!r}, '--json']))\n"
    )
    root = Path(enginefarm.__file__).parents[1]
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=root, capture_output=True, text=True, check=False
    )
    assert done.returncode == ExitCode.OK, done.stderr
    (row,) = json.loads(done.stdout)["targets"]["onnxruntime@cpu"]
    assert row["code"] == "weights_not_checked"


def _serve_check(farm: LoopbackFarm, done: BuildView) -> list[dict[str, Any]]:
    """Let the farm take a build that is over at once; return the bodies that it is sent."""
    bodies: list[dict[str, Any]] = []

    def answer(handler: Handler) -> None:
        bodies.append(json.loads(handler.body()))
        handler.reply(201, done.model_dump_json().encode())

    farm.routes["/v1/builds"] = answer
    farm.routes["/v1/builds/bld_1"] = lambda handler: handler.reply(
        200, done.model_dump_json().encode()
    )
    told = event(1, "build", {"state": done.state})
    body = f"id: {told.id}\ndata: {told.model_dump_json()}\n\n".encode()
    farm.routes["/v1/builds/bld_1/events"] = lambda handler: handler.reply(
        200, body, {"Content-Type": "text/event-stream"}
    )
    return bodies


def test_the_farm_is_asked_to_stop_after_the_check_and_its_findings_are_shown(
    farm_env: LoopbackFarm, capsys: pytest.CaptureFixture[str]
) -> None:
    failed = job(Stage.CHECK, JobState.FAILED, findings=[REFUSED])
    target = TargetView(
        target=CPU, state=JobState.FAILED, artifact=None, artifact_state=None, cached=False,
        failure=None,
    )  # fmt: skip
    done = build(BuildState.FAILED, [failed], [target])

    bodies = _serve_check(farm_env, done)
    assert invoke(["check", MODEL, "-t", "onnxruntime@cpu"]) == ExitCode.BAD_INPUT
    assert bodies[0]["until"] == "check"
    said = capsys.readouterr().out
    for words in ("unsupported_operator", "There is no operator Foo.", "node_7"):
        assert words in said


def test_a_target_that_was_refused_too_is_not_named_as_the_way_out(
    farm_env: LoopbackFarm, capsys: pytest.CaptureFixture[str]
) -> None:
    rtx = Target.parse("tensorrt-rtx@sm_86")
    way = note_finding("other_targets", f"By the rules alone it can be built for {rtx}.")
    more = note_finding(
        "other_targets", f"By the rules alone it can be built for {CPU}, tensorrt-rtx@sm_89."
    )
    jobs = [
        job(Stage.CHECK, JobState.FAILED, target, findings=[REFUSED, note])
        for target, note in ((CPU, way), (rtx, more))
    ]
    targets = [
        TargetView(
            target=each.target, state=JobState.FAILED, artifact=None, artifact_state=None,
            cached=False, failure=None,
        )
        for each in jobs
    ]  # fmt: skip
    _serve_check(farm_env, build(BuildState.FAILED, jobs, targets))

    line = ["check", MODEL, "-t", f"{CPU},{rtx}", "--json"]
    assert invoke(line) == ExitCode.BAD_INPUT
    told = json.loads(capsys.readouterr().out)["targets"]
    assert [each["code"] for each in told[str(CPU)]] == ["unsupported_operator"]
    (note,) = [each for each in told[str(rtx)] if each["code"] == "other_targets"]
    assert note["message"] == "By the rules alone it can be built for tensorrt-rtx@sm_89."


def test_a_backend_that_this_version_does_not_build_is_told_without_a_farm(
    farm_env: LoopbackFarm, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = written(tmp_path, helper.make_node("Relu", ["x"], ["y"]))

    line = ["check", path, "-t", "tensorrt-llm@sm_90", "-t", "onnxruntime@cpu", *ALONE, "--json"]
    assert invoke(line) == ExitCode.BAD_INPUT

    told = json.loads(capsys.readouterr().out)["targets"]
    rows = {each["code"]: each["severity"] for each in told["tensorrt-llm@sm_90"]}
    assert rows["backend_not_in_version"] == "error"
    assert told["onnxruntime@cpu"] == []
    assert farm_env.seen == []


REFUSED_FOR_WANT_OF_A_PROFILE = {
    "type": "urn:enginefarm:problem:invalid-profile",
    "title": "invalid profile",
    "status": 422,
    "detail": "The model has dynamic inputs but the build has no profile: x [n, 16].",
    "code": "profile_required",
}
SHAPE = {"ok", "offline", "targets", "refused"}


def _refuse(farm: LoopbackFarm, digest: str) -> None:
    """Let the farm have the model, and refuse every build."""
    have = model_view(digest, "model").model_dump_json().encode()
    farm.routes[f"/v1/models/{digest}"] = lambda handler: handler.reply(200, have)
    body = json.dumps(REFUSED_FOR_WANT_OF_A_PROFILE).encode()
    kind = {"Content-Type": "application/problem+json"}

    def refuse(handler: Handler) -> None:
        handler.body()
        handler.reply(422, body, kind)

    farm.routes["/v1/builds"] = refuse


def test_a_farm_without_a_profile_tells_all_that_is_told_without_a_farm(
    farm_env: LoopbackFarm, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    odd = helper.make_node("Frobnicate", ["x"], ["a"], name="odd")
    path = written(tmp_path, odd, helper.make_node("Relu", ["x"], ["y"]))
    _refuse(farm_env, read_local_model(Path(path)).digest)
    line = ["check", path, "-t", "onnxruntime@cpu,tensorrt-rtx@sm_89", "--json"]

    assert invoke([*line, "--offline"]) == ExitCode.BAD_INPUT
    alone = json.loads(capsys.readouterr().out)
    assert invoke(line) == ExitCode.BAD_INPUT
    asked = json.loads(capsys.readouterr().out)

    assert asked["targets"] == alone["targets"]
    found = {each["code"] for each in asked["targets"]["onnxruntime@cpu"]}
    assert {"unsupported_operator", "profile_required"} <= found
    assert (asked["refused"]["code"], asked["offline"]) == ("profile_required", False)
    assert (alone["refused"], alone["offline"]) == (None, True)


def test_the_document_has_one_shape_however_the_check_ended(
    farm_env: LoopbackFarm, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    good = written(tmp_path, helper.make_node("Relu", ["x"], ["y"]))
    bad = tmp_path / "bad.onnx"
    bad.write_bytes(b"no model at all")
    _refuse(farm_env, read_local_model(Path(good)).digest)
    shapes = []
    for more in ([good, "--offline"], [good], [str(bad)], [str(bad), "--offline"], [f"{good}x"]):
        assert invoke(["check", *more, "-t", "onnxruntime@cpu", "--json"]) == ExitCode.BAD_INPUT
        said = json.loads(capsys.readouterr().out)
        assert isinstance(said["targets"]["onnxruntime@cpu"], list)
        assert said["ok"] is False
        shapes.append(set(said))

    assert shapes == [SHAPE] * 5


def test_a_refusal_is_told_beside_what_the_rules_find(
    farm_env: LoopbackFarm, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = written(tmp_path, helper.make_node("Relu", ["x"], ["y"]))
    _refuse(farm_env, read_local_model(Path(path)).digest)

    assert invoke(["check", path, "-t", "onnxruntime@cpu"]) == ExitCode.BAD_INPUT

    said = capsys.readouterr()
    assert "onnxruntime@cpu  1 error, 0 other findings" in said.out
    assert "error: The model has dynamic inputs" in said.err


def test_a_check_that_was_cancelled_found_nothing_right(
    farm_env: LoopbackFarm, capsys: pytest.CaptureFixture[str]
) -> None:
    target = TargetView(
        target=CPU, state=JobState.CANCELLED, artifact=None, artifact_state=None, cached=False,
        failure=None,
    )  # fmt: skip
    done = build(BuildState.CANCELLED, [job(Stage.CHECK, JobState.CANCELLED)], [target])
    _serve_check(farm_env, done)

    assert invoke(["check", MODEL, "-t", "onnxruntime@cpu", "--json"]) == ExitCode.BAD_INPUT

    (found,) = json.loads(capsys.readouterr().out)["targets"]["onnxruntime@cpu"]
    assert (found["code"], found["severity"]) == ("check_not_finished", "error")
