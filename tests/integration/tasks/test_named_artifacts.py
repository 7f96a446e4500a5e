"""Gates against a published artifact: held when it is published, refused when it cannot be."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest

from enginefarm.errors import Failure, InvalidRequest, NotFound
from enginefarm.manifest import PAGE_TYPE, read_manifest
from enginefarm.report import BuildReport
from enginefarm.report_page import render
from enginefarm.state import ArtifactState, BuildState, Stage
from storage import artifacts
from tests.integration.tasks.fake_node import FakeNode
from tests.integration.tasks.scene import Scene

UNKNOWN = "sha256:" + "0" * 64


def publish(
    scene: Scene, node: FakeNode, *, seed: int = 0, gates: Sequence[dict[str, Any]] = ()
) -> tuple[str, str]:
    """Build and publish; return the build and its artifact."""
    build_id = scene.submit(seed=seed, gates=list(gates))
    scene.run(node, build_id)
    scene.publish()
    return build_id, (scene.job(build_id, Stage.PUBLISH).result or {})["artifact"]


def against(digest: str, metric: str = "cosine", **allowed: float) -> dict[str, Any]:
    return {"metric": metric, "against": digest} | (allowed or {"worse_by": 0.01})


def report(scene: Scene, digest: str) -> BuildReport:
    with scene.farm.database.transaction() as session:
        return BuildReport.model_validate(artifacts.get(session, scene.tenant_id, digest).report)


def failure(scene: Scene, build_id: str) -> Failure:
    return scene.failure(scene.job(build_id, Stage.PUBLISH))


def test_an_engine_that_is_worse_than_the_named_one_is_quarantined_and_says_by_how_much(
    scene: Scene, node: FakeNode
) -> None:
    _, good = publish(scene, node)
    node.cosine = 0.5
    build_id, bad = publish(scene, node, seed=1, gates=[against(good)])

    assert scene.state(build_id) is BuildState.FAILED
    told = failure(scene, build_id)
    assert told.code == "gate_not_met"
    assert f"cosine at most 0.01 worse than {good}: 0.4999, missed by 0.4899" in told.why
    assert "0.5 against 0.9999 of output y" in told.why
    (verdict,) = report(scene, bad).gates
    assert verdict.missed_by == pytest.approx(0.4899)


def test_an_engine_that_is_no_worse_is_published_and_the_gate_is_signed(
    scene: Scene, node: FakeNode
) -> None:
    _, good = publish(scene, node)
    node.cosine = 0.995
    _, other = publish(scene, node, seed=1, gates=[against(good)])

    signed = scene.verified(other).statement.build_definition["externalParameters"]
    assert signed["gates"] == [f"cosine at most 0.01 worse than {good}"]  # type: ignore[index,call-overload]


def test_a_latency_whose_machine_is_not_known_meets_no_gate(scene: Scene, node: FakeNode) -> None:
    _, good = publish(scene, node)
    gate = against(good, "latency_p99_ms", worse_by_percent=1e6)
    build_id, _ = publish(scene, node, seed=1, gates=[gate])
    assert "not comparable: on which machine they were measured" in failure(scene, build_id).why


def test_an_artifact_that_was_revoked_meanwhile_is_no_measure(scene: Scene, node: FakeNode) -> None:
    _, good = publish(scene, node)
    build_id = scene.submit(seed=1, gates=[against(good)])
    scene.run(node, build_id)
    with scene.farm.database.transaction() as session:
        artifacts.get(session, scene.tenant_id, good).state = ArtifactState.REVOKED
    scene.publish()
    assert "not comparable: it is revoked" in failure(scene, build_id).why


def test_what_is_not_published_or_not_there_is_refused_at_once(
    scene: Scene, node: FakeNode
) -> None:
    node.cosine = 0.5
    _, bad = publish(scene, node, gates=[{"metric": "cosine", "at_least": 0.99}])
    with pytest.raises(InvalidRequest) as refused:
        scene.submit(gates=[against(bad)])
    assert refused.value.code == "gate_against"
    assert "quarantined" in refused.value.why
    with pytest.raises(NotFound) as missing:
        scene.submit(gates=[against(UNKNOWN)])
    assert missing.value.code == "unknown_artifact"


def test_the_artifact_of_another_tenant_is_not_there(scene: Scene, node: FakeNode) -> None:
    _, good = publish(scene, node)
    other = Scene.on(scene.farm, "other")
    with pytest.raises(NotFound):
        other.submit(gates=[against(good)])


def test_the_page_of_the_report_is_a_file_of_the_artifact_made_from_the_report_beside_it(
    scene: Scene, node: FakeNode
) -> None:
    _, digest = publish(scene, node)
    manifest = read_manifest(scene.farm.objects.read(digest, 1 << 20))
    page, told = manifest.file("report.html"), manifest.file("report.json")
    assert page is not None
    assert told is not None
    assert page.media_type == PAGE_TYPE
    data = scene.farm.objects.read(told.digest, 1 << 20)
    assert scene.farm.objects.read(page.digest, 1 << 20) == render(
        BuildReport.model_validate_json(data)
    )
    assert {"report.html", "report.json"} <= {
        row.name for row in scene.verified(digest).statement.subjects
    }
