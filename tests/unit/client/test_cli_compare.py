"""``enginefarm compare`` asks for a measurement, waits for it, and shows only what was signed."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from enginefarm.cli.app import invoke
from enginefarm.cli.exit_codes import ExitCode
from enginefarm.compared import Compared
from enginefarm.comparison_proof import PREDICATE_TYPE
from enginefarm.comparison_report import ComparisonReport
from enginefarm.comparison_views import ComparisonPage, ComparisonView
from enginefarm.state import BuildKind, BuildState
from tests.unit.client.support.comparisons import ID, OTHER, comparison, report
from tests.unit.client.support.release import BUILDER, SigningKey
from tests.unit.client.support.server import Handler, LoopbackFarm
from tests.unit.client.support.views import ARTIFACT, build, published

ASK = ["compare", ARTIFACT, OTHER]
SHOW = ["comparisons", "show", ID]


def comparing(farm: LoopbackFarm, *views: ComparisonView) -> list[dict[str, Any]]:
    """Let the farm show these, one after another; return the bodies that come."""
    bodies: list[dict[str, Any]] = []
    left = list(views)

    def shown(handler: Handler, status: int = 200) -> None:
        view = left.pop(0) if len(left) > 1 else left[0]
        handler.reply(status, view.model_dump_json().encode())

    def begun(handler: Handler) -> None:
        bodies.append(json.loads(handler.body()))
        shown(handler, 201)

    farm.routes["/v1/comparisons"] = begun
    farm.routes[f"/v1/comparisons/{ID}"] = shown
    return bodies


def attested(farm: LoopbackFarm, key: SigningKey, told: ComparisonReport, **more: Any) -> None:  # noqa: ANN401
    """Let the farm have signed a report."""
    statement = {
        "_type": "https://in-toto.io/Statement/v1",
        "subject": [
            {"name": "", "digest": {"sha256": row.artifact.removeprefix("sha256:")}}
            for row in (told.first, told.second)
        ],
        "predicateType": PREDICATE_TYPE,
        "predicate": {"builder": {"id": BUILDER}, "report": told.model_dump(mode="json")},
    }
    data = json.dumps(key.bundle(statement | more)).encode()
    farm.routes[f"/v1/comparisons/{ID}/attestation"] = lambda handler: handler.reply(200, data)


def test_it_asks_for_the_two_with_all_that_was_written(
    farm_env: LoopbackFarm, capsys: pytest.CaptureFixture[str]
) -> None:
    bodies = comparing(farm_env, comparison("pending"))
    line = ["--again", "--priority", "2", "--wait-for-node", "10m", "--on", "l4"]
    assert invoke([*ASK, *line, "--option", "benchmark.min_duration_ms=5000"]) == ExitCode.OK
    (body,) = bodies
    assert (body["first"], body["second"], body["again"]) == (ARTIFACT, OTHER, True)
    assert (body["priority"], body["wait_for_node"], body["on"]) == (2, 600, "l4")
    assert body["options"]["min_duration_ms"] == 5000
    assert capsys.readouterr().out.strip() == ID


@pytest.mark.parametrize(
    "option", ["compile.optimization_level=3", "benchmark.batches=1,2", "benchmark.nonsense=1"]
)
def test_an_option_that_a_comparison_does_not_heed_is_refused(
    farm_env: LoopbackFarm, option: str
) -> None:
    assert invoke([*ASK, "--option", option]) in {ExitCode.USAGE, ExitCode.BAD_INPUT}
    assert farm_env.seen == []


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (["--option", "benchmark.streams=2"], "benchmark.streams"),
        (["--on", "L4"], "write l4"),
        (["--on", "l4+ampere_plus"], "not the name of a SKU"),
    ],
)
def test_what_is_refused_is_named_with_what_to_write(
    farm_env: LoopbackFarm, capsys: pytest.CaptureFixture[str], words: list[str], says: str
) -> None:
    assert invoke([*ASK, *words]) in {ExitCode.USAGE, ExitCode.BAD_INPUT}
    assert says in capsys.readouterr().err
    assert farm_env.seen == []


def test_it_waits_and_shows_the_numbers_a_picture_and_the_verdict(
    farm_env: LoopbackFarm, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("enginefarm.cli.compare.time.sleep", lambda _: None)
    comparing(farm_env, comparison("pending"), comparison("running"), comparison())
    assert invoke([*ASK, "--wait"]) == ExitCode.OK
    out, err = capsys.readouterr()
    assert err.splitlines() == [f"{ID}  pending", f"{ID}  running"]
    assert "1.250" in out
    assert "B is faster: 1.25 times as fast" in out
    lines = [line for line in out.splitlines() if "B slower" in line]
    faster, alike = (line[11:52] for line in lines)
    assert faster.index("|") == alike.index("#") == 20  # 1 is in the middle
    assert faster.index("#") > 35
    assert set(faster) <= set("-.|=#")


@pytest.mark.parametrize(
    ("verdict", "code"),
    [
        ("faster", ExitCode.OK),
        ("alike", ExitCode.OK),
        ("slower", ExitCode.WORSE),
        ("cannot_tell", ExitCode.WORSE),
    ],
)
def test_ci_may_ask_to_fail_unless_it_is_known_to_be_no_slower(
    farm_env: LoopbackFarm, verdict: str, code: ExitCode
) -> None:
    comparing(farm_env, comparison(report=report(verdict), verdict=verdict))
    assert invoke([*ASK, "--fail-if-slower"]) == code
    assert invoke([*ASK, "--wait"]) == ExitCode.OK


def test_a_comparison_that_failed_says_why_and_ends_so(
    farm_env: LoopbackFarm, capsys: pytest.CaptureFixture[str]
) -> None:
    failure = {"code": "engine_run_failed", "blame": "person", "message": "The first does not run."}
    comparing(farm_env, comparison("failed", failure=failure))
    assert invoke([*ASK, "--wait"]) == ExitCode.BUILD_FAILED
    assert "failed [engine_run_failed]: The first does not run." in capsys.readouterr().out


def test_what_is_shown_may_be_held_against_the_farms_keys(
    farm_env: LoopbackFarm,
    key: SigningKey,
    trust_file: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    comparing(farm_env, comparison(report=report("slower", 0.5)))  # not what was signed
    attested(farm_env, key, report())
    assert invoke([*SHOW, "--trust", str(trust_file)]) == ExitCode.OK
    assert "B is faster" in capsys.readouterr().out


@pytest.mark.parametrize(
    "spoilt",
    [
        {"predicateType": "https://slsa.dev/provenance/v1"},
        {"subject": [{"name": "", "digest": {"sha256": "a" * 64}}]},
        {"predicate": {"builder": {"id": "another"}, "report": report().model_dump(mode="json")}},
        {"predicate": {"builder": {"id": BUILDER}, "report": {}}},
    ],
)
def test_what_was_not_signed_as_it_is_shown_is_refused(
    farm_env: LoopbackFarm, key: SigningKey, trust_file: Path, spoilt: dict[str, Any]
) -> None:
    comparing(farm_env, comparison())
    attested(farm_env, key, report(), **spoilt)
    line = [*SHOW, "--trust", str(trust_file)]
    assert invoke(line) == ExitCode.VERIFICATION_REFUSED


def test_a_statement_by_a_stranger_or_about_others_is_refused(
    farm_env: LoopbackFarm, key: SigningKey, trust_file: Path
) -> None:
    comparing(farm_env, comparison())
    attested(farm_env, SigningKey.new(), report())
    line = [*SHOW, "--trust", str(trust_file)]
    assert invoke(line) == ExitCode.VERIFICATION_REFUSED
    comparing(farm_env, comparison(second=f"sha256:{'c' * 64}"))
    attested(farm_env, key, report())
    assert invoke(line) == ExitCode.VERIFICATION_REFUSED
    # «The second is faster», of the same two the other way round, says the opposite.
    comparing(farm_env, comparison())
    turned = report()
    turned = report(first=turned.second, second=turned.first)
    attested(farm_env, key, turned)
    assert invoke(line) == ExitCode.VERIFICATION_REFUSED


def test_shown_as_the_build_that_it_is_it_says_what_it_compares_and_where_to_look(
    farm_env: LoopbackFarm, capsys: pytest.CaptureFixture[str]
) -> None:
    without = {"artifact": None, "artifact_state": None}
    view = build(BuildState.SUCCEEDED, [], [published().model_copy(update=without)])
    compare = Compared(first=ARTIFACT, second=OTHER)
    told = {"kind": BuildKind.COMPARISON, "spec": view.spec.model_copy(update={"compare": compare})}
    data = view.model_copy(update=told).model_dump_json().encode()
    farm_env.routes["/v1/builds/bld_1"] = lambda handler: handler.reply(200, data)
    assert invoke(["show", "bld_1"]) == ExitCode.OK
    out = capsys.readouterr().out
    assert f"kind      comparison of A {ARTIFACT}" in out
    assert "enginefarm comparisons show bld_1" in out


def test_they_are_listed(farm_env: LoopbackFarm, capsys: pytest.CaptureFixture[str]) -> None:
    page = ComparisonPage(items=[comparison(), comparison("running")], next_cursor=None)
    farm_env.routes["/v1/comparisons"] = lambda handler: handler.reply(
        200, page.model_dump_json().encode()
    )
    assert invoke(["comparisons", "list", "--artifact", ARTIFACT]) == ExitCode.OK
    assert f"artifact={ARTIFACT.replace(':', '%3A')}" in farm_env.seen[0].path
    out = capsys.readouterr().out
    assert ID in out
    assert "faster" in out
