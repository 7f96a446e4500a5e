"""A tenant gets what its operator allows, clearly refused beyond it, and others notice nothing."""

from __future__ import annotations

import pytest

from enginefarm.errors import QuotaExceeded
from storage import blobs, tenants
from storage.models import Job
from tasks import quotas
from tests.integration.tasks.fake_node import FakeNode
from tests.integration.tasks.scene import Scene


def allow(scene: Scene, **limits: int) -> None:
    with scene.farm.database.transaction() as session:
        row = tenants.get(session, scene.tenant_id)
        for name, limit in limits.items():
            setattr(row, name, limit)


def test_a_build_beyond_the_unfinished_jobs_is_refused_and_leaves_nothing(
    scene: Scene, node: FakeNode
) -> None:
    allow(scene, max_unfinished=6)
    scene.submit()
    before = scene.count(Job)
    with pytest.raises(QuotaExceeded) as refused:
        scene.submit(model=scene.other())

    assert refused.value.code == "quota_jobs"
    assert "10 unfinished jobs; it may have 6" in refused.value.message
    assert scene.count(Job) == before
    assert Scene.on(scene.farm, "rival").submit()


def test_what_the_cache_answers_is_never_refused(scene: Scene, node: FakeNode) -> None:
    first = scene.submit()
    scene.run(node, first)
    scene.publish()
    allow(scene, max_unfinished=0)

    assert scene.submit() != first


def test_an_upload_beyond_the_bytes_is_refused(scene: Scene) -> None:
    with scene.farm.database.transaction() as session:
        kept = tenants.bytes_kept(session, scene.tenant_id)
        quotas.require_room_for_blobs(session, scene.tenant_id, [("sha256:a", 10**15)])
    allow(scene, max_bytes=kept + 10)
    with scene.farm.database.transaction() as session:
        quotas.require_room_for_blobs(session, scene.tenant_id, [("sha256:a", 10)])
        with pytest.raises(QuotaExceeded) as refused:
            quotas.require_room_for_blobs(session, scene.tenant_id, [("sha256:a", 11)])
        blobs.record(session, scene.tenant_id, "sha256:a", 11, "application/octet-stream")
        quotas.require_room_for_blobs(session, scene.tenant_id, [("sha256:a", 11)])

    assert refused.value.code == "quota_bytes"
    assert refused.value.context == {"limit": kept + 10, "kept": kept}
