"""What commands print: tables for people, one JSON document for programs."""

from __future__ import annotations

import json
from pathlib import Path
from urllib.parse import parse_qs, urlsplit

import pytest

from enginefarm.cli.app import invoke
from enginefarm.cli.exit_codes import ExitCode
from enginefarm.errors import Unavailable
from enginefarm.finding import note_finding, warning_finding
from enginefarm.state import BuildKind, BuildState, JobState, Stage
from enginefarm.views import BuildPage, BuildView
from tests.unit.client.support.release import SigningKey
from tests.unit.client.support.server import Handler, LoopbackFarm
from tests.unit.client.support.views import (
    ARTIFACT,
    GPU,
    artifact,
    build,
    event,
    failed,
    job,
    published,
)


def _serve_build(farm: LoopbackFarm, view: BuildView) -> None:
    def stream(handler: Handler) -> None:
        told = [event(1, "snapshot", {"state": "running"}), event(2, "progress", {"fraction": 0.5})]
        told.append(event(3, "build", {"state": view.state}))
        body = "".join(f"id: {each.id}\ndata: {each.model_dump_json()}\n\n" for each in told)
        handler.reply(200, body.encode(), {"Content-Type": "text/event-stream"})

    def shown(handler: Handler) -> None:
        handler.reply(200, view.model_dump_json().encode())

    def summary(handler: Handler) -> None:
        handler.reply(200, artifact().model_dump_json().encode())

    farm.routes["/v1/builds/bld_1/events"] = stream
    farm.routes["/v1/builds/bld_1"] = shown
    farm.routes[f"/v1/artifacts/{ARTIFACT}/summary"] = summary


PARTIAL = build(
    BuildState.PARTIAL,
    [
        job(Stage.COMPILE, JobState.SUCCEEDED, cached_from="job_0"),
        job(Stage.COMPILE, JobState.FAILED, GPU, failure=failed().failure),
    ],
    [published(), failed()],
)


def test_what_a_check_let_pass_with_a_warning_is_shown(
    farm_env: LoopbackFarm, capsys: pytest.CaptureFixture[str]
) -> None:
    found = [
        warning_finding("loop_unbounded", "A Loop has no trip limit.", where="loop_3"),
        note_finding("weights_twice", "1 large weights are there twice."),
    ]
    checked = job(Stage.CHECK, JobState.SUCCEEDED, findings=found)
    _serve_build(farm_env, build(BuildState.SUCCEEDED, [checked], [published()]))
    assert invoke(["show", "bld_1"]) == ExitCode.OK
    said = capsys.readouterr().out
    assert "warning: A Loop has no trip limit. At: loop_3. [loop_unbounded]" in said
    assert "weights_twice" not in said


def test_watch_ends_with_the_table_and_the_builds_exit_code(
    farm_env: LoopbackFarm, capsys: pytest.CaptureFixture[str]
) -> None:
    _serve_build(farm_env, PARTIAL)

    assert invoke(["watch", "bld_1"]) == ExitCode.BUILD_PARTIAL

    out, err = capsys.readouterr()
    assert "succeeded (cached)" in err
    assert "failed: cosine is 0.91." in err
    row = next(line for line in out.splitlines() if "onnxruntime@cpu" in line)
    for cell in ("published", "2.5 MB", "1.5 s", "0.999987", "1.2e-05", "2.25 ms", "2.75 ms"):
        assert cell in row
    assert "gate not met: cosine>=0.9999999 (it is 0.999987)" in out
    assert f"enginefarm pull {ARTIFACT}" in out
    assert "cosine is 0.91. [gate_not_met]" in out
    assert "fix: Lower the gate" in out


def test_watch_with_json_prints_one_event_a_line_and_the_build_as_the_last(
    farm_env: LoopbackFarm, capsys: pytest.CaptureFixture[str]
) -> None:
    _serve_build(farm_env, PARTIAL)

    assert invoke(["watch", "bld_1", "--json"]) == ExitCode.BUILD_PARTIAL

    lines = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert [line["kind"] for line in lines] == ["snapshot", "progress", "build", "result"]
    assert lines[-1]["data"]["state"] == "partial"


def test_who_stops_watching_is_told_that_the_build_goes_on(
    farm_env: LoopbackFarm, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def interrupt(*_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("enginefarm.cli.watch.follow", interrupt)

    assert invoke(["watch", "bld_1"]) == ExitCode.INTERRUPTED
    assert "enginefarm watch bld_1" in capsys.readouterr().err


def test_a_key_that_may_not_see_artifacts_still_sees_how_the_build_ended(
    farm_env: LoopbackFarm, capsys: pytest.CaptureFixture[str]
) -> None:
    _serve_build(farm_env, PARTIAL)
    farm_env.routes[f"/v1/artifacts/{ARTIFACT}/summary"] = lambda handler: handler.problem(
        403, "forbidden", "scope_missing"
    )

    assert invoke(["watch", "bld_1"]) == ExitCode.BUILD_PARTIAL
    assert "need a key with the scope" in capsys.readouterr().out


def test_targets_that_no_node_can_ever_serve_are_told_apart(
    farm_env: LoopbackFarm, capsys: pytest.CaptureFixture[str]
) -> None:
    rows = [
        {"target": name, "compiles": [], "measures": [], "versions": [], "in_this_version": here}
        for name, here in (("tensorrt@sm_90", False), ("tensorrt-rtx@sm_86", True))
    ]
    farm_env.routes["/v1/targets"] = lambda handler: handler.reply(200, json.dumps(rows).encode())

    assert invoke(["targets", "--all"]) == ExitCode.OK
    shown = {line.split()[0]: line for line in capsys.readouterr().out.splitlines() if "@" in line}
    assert "not in this version" in shown["tensorrt@sm_90"]
    assert "not in this version" not in shown["tensorrt-rtx@sm_86"]


READS = {
    "list": ("/v1/builds", b'{"items":[],"next_cursor":null}', {"items": [], "next_cursor": None}),
    "nodes": ("/v1/nodes", b"[]", []),
    "targets": ("/v1/targets", b"[]", []),
    "models": ("/v1/models", b"[]", []),
    "trust": ("/v1/trust", b'{"keys":[]}', {"keys": []}),
}


@pytest.mark.parametrize("command", READS)
def test_json_is_exactly_one_document(
    command: str, farm_env: LoopbackFarm, capsys: pytest.CaptureFixture[str]
) -> None:
    path, body, expected = READS[command]
    farm_env.routes[path] = lambda handler: handler.reply(200, body)

    assert invoke([command, "--json"]) == ExitCode.OK
    assert json.loads(capsys.readouterr().out) == expected


@pytest.mark.parametrize("command", READS)
def test_every_list_can_be_read_by_a_person(command: str, farm_env: LoopbackFarm) -> None:
    path, body, _ = READS[command]
    farm_env.routes[path] = lambda handler: handler.reply(200, body)

    assert invoke([command]) == ExitCode.OK


def test_show_tells_jobs_and_targets(
    farm_env: LoopbackFarm, capsys: pytest.CaptureFixture[str]
) -> None:
    _serve_build(farm_env, PARTIAL)

    assert invoke(["show", "bld_1"]) == ExitCode.OK
    out = capsys.readouterr().out
    assert "job_sm_89compile" in out
    assert "gate_not_met" in out


def test_checks_are_told_from_builds_in_the_list(
    farm_env: LoopbackFarm, capsys: pytest.CaptureFixture[str]
) -> None:
    check = PARTIAL.model_copy(update={"id": "bld_2", "kind": BuildKind.CHECK})
    page = BuildPage(items=[check, PARTIAL], next_cursor=None).model_dump_json().encode()
    farm_env.routes["/v1/builds"] = lambda handler: handler.reply(200, page)

    assert invoke(["list"]) == ExitCode.OK
    assert invoke(["list", "--checks"]) == ExitCode.OK
    assert invoke(["list", "--builds"]) == ExitCode.OK
    assert invoke(["list", "--builds", "--checks"]) == ExitCode.USAGE

    rows = {
        line.split()[0]: line for line in capsys.readouterr().out.splitlines() if "bld_" in line
    }
    assert "check" in rows["bld_2"]
    assert "build" in rows["bld_1"]
    asked = [parse_qs(urlsplit(seen.path).query).get("kind") for seen in farm_env.seen]
    assert asked == [None, ["check"], ["build"]]


def test_show_tells_the_dataset_the_bump_and_that_it_is_a_check(
    farm_env: LoopbackFarm, capsys: pytest.CaptureFixture[str]
) -> None:
    spec = PARTIAL.spec.model_copy(update={"evaluation": ARTIFACT})
    told = {"spec": spec, "bumped_at": PARTIAL.created_at, "kind": BuildKind.CHECK}
    _serve_build(farm_env, PARTIAL.model_copy(update=told))

    assert invoke(["show", "bld_1"]) == ExitCode.OK

    lines = capsys.readouterr().out.splitlines()
    assert f"dataset   {ARTIFACT}" in lines
    assert any(line.startswith("bumped    2026-11-30") for line in lines)
    assert any(line.startswith("kind      check") for line in lines)


def test_a_trust_file_with_other_keys_is_replaced_only_when_told(
    farm_env: LoopbackFarm, tmp_path: Path, trust_file: Path, key: SigningKey
) -> None:
    new = SigningKey.new()
    body = json.dumps({"keys": [new.trusted.model_dump(mode="json")]}).encode()
    farm_env.routes["/v1/trust"] = lambda handler: handler.reply(200, body)
    before = trust_file.read_bytes()

    assert invoke(["trust", "--save", str(trust_file)]) == ExitCode.CONFLICT
    assert trust_file.read_bytes() == before
    refused = ["trust", "--save", str(trust_file), "--replace", "--expect", key.trusted.keyid]
    assert invoke(refused) == ExitCode.VERIFICATION_REFUSED
    assert trust_file.read_bytes() == before
    saved = ["trust", "--save", str(trust_file), "--replace", "--expect", new.trusted.keyid]
    assert invoke(saved) == ExitCode.OK
    assert json.loads(trust_file.read_bytes()) == json.loads(body)


@pytest.mark.parametrize("state", [BuildState.SUCCEEDED, BuildState.CANCELLED])
def test_cancelling_what_is_over_says_so_and_asks_for_nothing(
    state: BuildState, farm_env: LoopbackFarm, capsys: pytest.CaptureFixture[str]
) -> None:
    _serve_build(farm_env, build(state, [], [published()]))

    assert invoke(["cancel", "bld_1"]) == ExitCode.OK

    out, err = capsys.readouterr()
    assert f"bld_1 {state}" in out
    assert "already over; nothing was cancelled" in err
    assert [seen.method for seen in farm_env.seen] == ["GET"]


def test_cancelling_what_runs_cancels_it(
    farm_env: LoopbackFarm, capsys: pytest.CaptureFixture[str]
) -> None:
    _serve_build(farm_env, build(BuildState.RUNNING, [], [published()]))
    body = build(BuildState.CANCELLED, [], [published()]).model_dump_json().encode()
    farm_env.routes["/v1/builds/bld_1/cancel"] = lambda handler: handler.reply(200, body)

    assert invoke(["cancel", "bld_1"]) == ExitCode.OK

    out, err = capsys.readouterr()
    assert out == "bld_1 cancelled\n"
    assert err == ""


def test_who_loses_the_farm_is_told_that_the_build_goes_on(
    farm_env: LoopbackFarm, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def lose(*_: object) -> None:
        raise Unavailable("The farm is away.", fix="Try again.")

    monkeypatch.setattr("enginefarm.cli.watch.follow", lose)

    assert invoke(["watch", "bld_1"]) == ExitCode.FARM_UNAVAILABLE

    err = capsys.readouterr().err
    assert "the build goes on; watch it again with: enginefarm watch bld_1" in err
    assert "The farm is away." in err
