"""What a farm has taken back is refused with a code and an exit code of its own."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from enginefarm.cli.app import invoke
from enginefarm.cli.exit_codes import ExitCode
from enginefarm.cli.search_tables import search_lines
from enginefarm.search_words import state_words
from enginefarm.state import ArtifactState, BuildState, Scope
from tests.unit.client.support.release import Release
from tests.unit.client.support.searches import TARGET, candidate, outcome, search
from tests.unit.client.support.server import Handler, LoopbackFarm
from tests.unit.client.support.views import ARTIFACT, artifact, build, published

WHY = "calibrated on the wrong data"


def test_pull_and_an_online_verify_refuse_it_and_an_offline_one_cannot_know(
    farm_env: LoopbackFarm,
    release: Release,
    trust_file: Path,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    folder, trust = str(tmp_path / "engine"), ["--trust", str(trust_file)]
    pull = ["pull", farm_env.serve(release), folder, *trust]
    assert invoke(pull) == ExitCode.OK
    assert invoke(["verify", folder, *trust, "--online"]) == ExitCode.OK
    release.state = "revoked"
    farm_env.serve(release)
    capsys.readouterr()

    assert invoke(["verify", folder, *trust]) == ExitCode.OK
    for command in (["verify", folder, *trust, "--online"], pull):
        assert invoke(command) == ExitCode.REVOKED
        err = capsys.readouterr().err
        assert "[artifact_revoked]" in err
        assert f"The farm has taken it back: revoked on 2026-12-01: {WHY}." in err


def test_a_key_that_only_deploys_hears_the_reason_too(
    farm_env: LoopbackFarm,
    release: Release,
    trust_file: Path,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    digest = farm_env.serve(release)
    farm_env.routes[f"/v1/artifacts/{digest}/summary"] = lambda handler: handler.problem(
        410, "gone", "artifact_revoked", why=f"The reason that was given: {WHY}."
    )
    command = ["pull", digest, str(tmp_path / "engine"), "--trust", str(trust_file)]
    assert invoke(command) == ExitCode.REVOKED
    assert WHY in capsys.readouterr().err


@pytest.mark.parametrize("before", ["", "it crashes"])
def test_revoke_says_what_was_revoked_and_if_it_was_so_before(
    before: str, farm_env: LoopbackFarm, release: Release, capsys: pytest.CaptureFixture[str]
) -> None:
    digest, sent = farm_env.serve(release), []

    def answer(handler: Handler) -> None:
        sent.append(json.loads(handler.body()))
        told = {"digest": digest, "target": "onnxruntime@cpu", "build": "bld_1"}
        told |= {"reason": before or WHY, "revoked_by": "key_1"}
        handler.reply(200, json.dumps(told | {"revoked_at": "2026-12-01T00:00:00Z"}).encode())

    farm_env.routes[f"/v1/artifacts/{digest}/revoke"] = answer
    assert invoke(["revoke", digest, "--reason", f" {WHY} "]) == ExitCode.OK
    assert sent == [{"reason": WHY}]
    out, err = capsys.readouterr()
    assert out == f"{digest} revoked: {before or WHY}\n"
    assert ("it was revoked before, on 2026-12-01" in err) == bool(before)


@pytest.mark.parametrize("reason", ["", "  ", "x" * 501])
def test_without_a_reason_nothing_is_asked_of_the_farm(
    reason: str, farm_env: LoopbackFarm, release: Release
) -> None:
    digest = farm_env.serve(release)
    assert invoke(["revoke", digest, "--reason", reason]) == ExitCode.USAGE
    assert farm_env.seen == []


@pytest.mark.parametrize("scope", [Scope.READ, Scope.DEPLOY])
def test_a_target_whose_artifact_was_revoked_says_so_and_not_how_to_pull_it(
    scope: Scope, farm_env: LoopbackFarm, capsys: pytest.CaptureFixture[str]
) -> None:
    why = "revoked on 2026-12-01: calibrated on the wrong data"
    target = published().model_copy(update={"artifact_state": ArtifactState.REVOKED})
    shown = artifact().model_copy(update={"state": ArtifactState.REVOKED, "kept_back": why})
    done = build(BuildState.SUCCEEDED, [], [target]).model_dump_json().encode()
    farm_env.routes["/v1/builds/bld_1"] = lambda handler: handler.reply(200, done)
    body = shown.model_dump_json().encode()
    farm_env.routes[f"/v1/artifacts/{ARTIFACT}/summary"] = lambda handler: handler.reply(200, body)
    if scope is Scope.DEPLOY:
        farm_env.routes[f"/v1/artifacts/{ARTIFACT}/summary"] = lambda handler: handler.problem(
            410, "gone", "artifact_revoked"
        )

    assert invoke(["show", "bld_1"]) == ExitCode.OK

    out = capsys.readouterr().out
    assert "revoked" in out
    assert (f"onnxruntime@cpu: {why}" in out) == (scope is Scope.READ)
    assert "enginefarm pull" not in out
    assert "need a key" not in out


def test_a_search_whose_choice_was_revoked_since_says_so_and_not_how_to_pull_it() -> None:
    gone = candidate(2, outcome=outcome(0.9931, artifact_state="revoked"), on_front=True)
    told = search(candidates=[gone])
    assert state_words(told, gone) == "revoked"
    lines = list(search_lines(told))
    assert f"{TARGET}: enginefarm report {ARTIFACT}" in lines
    assert not any("enginefarm pull" in line for line in lines)
