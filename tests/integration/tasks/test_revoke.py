"""What was taken back goes out nowhere any more: not by its digest, and not by the cache."""

from __future__ import annotations

import pytest

from enginefarm.errors import NotFound
from enginefarm.state import ArtifactState, BuildState, JobState, Stage
from storage import artifacts
from storage.models import Artifact
from tasks.revoke import revoke
from tests.integration.tasks.fake_node import FakeNode
from tests.integration.tasks.scene import CPU, Scene

WHY = "calibrated on the wrong data"


def published(scene: Scene, node: FakeNode, seed: int = 0) -> tuple[str, str]:
    build_id = scene.submit(CPU, seed=seed)
    scene.run(node, build_id)
    scene.publish()
    return build_id, _artifact(scene, build_id)


def _artifact(scene: Scene, build_id: str) -> str:
    return str((scene.job(build_id, Stage.PUBLISH).result or {})["artifact"])


def taken_back(scene: Scene, digest: str, why: str = WHY, key: str = "key_1") -> Artifact:
    return revoke(scene.farm, scene.tenant_id, digest, why, key)


def test_an_artifact_is_revoked_once_with_who_when_and_why(scene: Scene, node: FakeNode) -> None:
    build_id, digest = published(scene, node)
    row = taken_back(scene, digest)
    again = taken_back(scene, digest, "another reason", "key_2")

    for each in (row, again):
        assert each.state is ArtifactState.REVOKED
        assert (each.revoked_by, each.revoked_reason) == ("key_1", WHY)
        assert each.revoked_at == row.revoked_at
    told = [row.data for row in scene.events(build_id) if "revoked" in row.data]
    assert told == [{"state": "succeeded", "revoked": digest, "reason": WHY}]
    assert scene.state(build_id) is BuildState.SUCCEEDED
    with pytest.raises(NotFound):
        taken_back(scene, f"sha256:{'0' * 64}")


def test_a_build_after_it_is_made_anew_and_so_is_its_artifact(scene: Scene, node: FakeNode) -> None:
    first, digest = published(scene, node)
    again = scene.submit(CPU)
    assert _artifact(scene, again) == digest, "until then the cache has all of it"
    taken_back(scene, digest)

    second, other = published(scene, node)
    assert other != digest
    was, now = scene.jobs(first), scene.jobs(second)
    cached = {stage for stage, job in now.items() if job.cached_from is not None}
    assert cached == {Stage.REPAIR, Stage.CHECK}, "what no artifact vouched for may be kept"
    assert now[Stage.COMPILE].key == was[Stage.COMPILE].key
    third = scene.submit(CPU)
    assert _artifact(scene, third) == other
    with scene.farm.database.transaction() as session:
        states = [artifacts.get(session, scene.tenant_id, name).state for name in (digest, other)]
    assert states == [ArtifactState.REVOKED, ArtifactState.PUBLISHED]


def test_a_build_that_took_the_engine_from_the_cache_before_does_not_let_it_out(
    scene: Scene, node: FakeNode
) -> None:
    _, digest = published(scene, node)
    under_way = scene.submit(CPU, seed=7)
    assert scene.job(under_way, Stage.COMPILE).cached_from is not None
    scene.run(node, under_way)
    taken_back(scene, digest)
    scene.publish()

    job = scene.job(under_way, Stage.PUBLISH)
    assert (job.state, scene.failure(job).code) == (JobState.FAILED, "engine_revoked")
    assert digest in scene.failure(job).why
    assert WHY in scene.failure(job).why
    assert scene.state(under_way) is BuildState.FAILED
    anew, _ = published(scene, node, seed=7)
    assert scene.state(anew) is BuildState.SUCCEEDED


def test_of_two_artifacts_with_one_engine_the_other_stays(scene: Scene, node: FakeNode) -> None:
    first, digest = published(scene, node)
    _, other = published(scene, node, seed=7)
    taken_back(scene, other)
    engine = (scene.job(first, Stage.COMPILE).result or {})["outputs"][0]["digest"]
    with scene.farm.database.transaction() as session:
        assert artifacts.get(session, scene.tenant_id, digest).state is ArtifactState.PUBLISHED
        found = artifacts.revoked_with(session, scene.tenant_id, engine)
        assert found is not None
        assert found.digest == other
        assert artifacts.published_with(session, scene.tenant_id, engine)
