"""A model that nobody uses goes when its operator wants it; one that somebody needs stays."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta

import pytest

from enginefarm.digest import digest_of
from enginefarm.errors import NotFound
from enginefarm.state import BuildState, Stage
from storage import blobs, builds, catalogue
from storage.database import Session, now
from storage.keeping import SHELVES
from storage.retention import Rule, Terms, is_due
from tasks.cancel import cancel
from tasks.keeping import Keeper
from tasks.submit import Requester, submit
from tests.integration.tasks.ageing import let_pass
from tests.integration.tasks.fake_node import FakeNode
from tests.integration.tasks.kept import ALL, DAY, has, keep, published, sweep
from tests.integration.tasks.scene import Scene, add_model


@pytest.mark.usefixtures("node")
def test_a_model_that_nothing_uses_goes_and_a_submit_says_to_upload_it_again(
    scene: Scene,
) -> None:
    data = b"a model that is forgotten"
    model = add_model(scene.farm, scene.tenant_id, data)
    let_pass(scene.farm, 31 * DAY)
    keep(scene.farm, Terms({Rule.LOGS: 30}))
    assert has(scene, digest_of(data)), "models are kept for ever unless the operator says so"
    keep(scene.farm)
    sweep(scene.farm)

    assert not has(scene, digest_of(data))
    scene.model = model
    with pytest.raises(NotFound) as refused:
        scene.submit()
    assert refused.value.code == "model_expired"
    assert "ENGINEFARM_MODELS_KEPT_DAYS" in refused.value.why
    assert "again" in refused.value.fix
    assert add_model(scene.farm, scene.tenant_id, data) == model
    assert scene.submit()


def test_a_model_stays_while_a_build_is_under_way_or_its_artifact_is_out(
    scene: Scene, node: FakeNode
) -> None:
    under_way = scene.submit()
    let_pass(scene.farm, 31 * DAY)
    keep(scene.farm)
    sweep(scene.farm)
    scene.run(node, under_way)
    scene.publish()
    assert scene.state(under_way) is BuildState.SUCCEEDED
    let_pass(scene.farm, 62 * DAY)
    keep(scene.farm)
    sweep(scene.farm)

    assert published(scene, node, seed=7)


def test_a_job_that_runs_on_for_others_keeps_the_model_of_its_cancelled_build(
    scene: Scene, node: FakeNode
) -> None:
    first = scene.submit()
    second = scene.submit()
    cancel(scene.farm, scene.tenant_id, first)
    let_pass(scene.farm, 31 * DAY)
    keep(scene.farm)
    sweep(scene.farm)
    scene.do(node, first, Stage.REPAIR)
    scene.run(node, second)
    scene.publish()

    assert scene.state(second) is BuildState.SUCCEEDED


def test_bytes_that_another_model_has_too_stay(scene: Scene) -> None:
    shared = b"weights that two models have"
    weights = {"digest": digest_of(shared), "name": "weights.bin", "size": len(shared)}
    scene.bucket.put_bytes(digest_of(shared), shared, "application/octet-stream")

    def with_weights(name: str) -> None:
        with scene.farm.database.transaction() as session:
            blobs.record(session, scene.tenant_id, digest_of(shared), len(shared), "a/b")
            catalogue.add_model(
                session,
                scene.tenant_id,
                digest=digest_of(name.encode()),
                name=name,
                size=len(shared),
                files=[weights],
                interface={"inputs": [], "outputs": [], "opsets": {}, "node_count": 1},
            )

    with_weights("old")
    let_pass(scene.farm, 31 * DAY)
    with_weights("new")
    keep(scene.farm)

    with scene.farm.database.transaction() as session:
        names = [row.name for row in catalogue.list_models(session, scene.tenant_id, 9)]
    assert names == ["new"]
    assert has(scene, digest_of(shared))


@pytest.mark.usefixtures("node")
def test_a_submit_and_a_removal_of_its_model_take_turns(scene: Scene) -> None:
    let_pass(scene.farm, 31 * DAY)
    with scene.farm.database.transaction() as session:
        before = now() - timedelta(days=30)
        (model,) = SHELVES[Rule.MODELS].page(session, before, None, 10)
    assert is_due(model, before)

    with ThreadPoolExecutor(1) as pool, scene.farm.database.transaction() as session:
        builds.lock_tenant(session, scene.tenant_id)
        removing = pool.submit(Keeper(scene.farm, ALL)._remove, model)
        submitted = _submit_within(scene, session)
        assert not removing.done()
        session.commit()
        assert removing.result(30) is False

    assert scene.state(submitted) is BuildState.RUNNING
    with scene.farm.database.transaction() as session:
        assert catalogue.get_model(session, scene.tenant_id, scene.model).name == "doubler"


def _submit_within(scene: Scene, session: Session) -> str:
    accepted = submit(session, scene.farm.policy, Requester(scene.tenant_id), scene.spec())
    return accepted.build.id


@pytest.mark.usefixtures("node")
def test_a_round_ends_though_there_is_more_than_a_batch_that_stays(scene: Scene) -> None:
    with ThreadPoolExecutor(4) as pool:
        models = list(
            pool.map(lambda n: add_model(scene.farm, scene.tenant_id, b"model %d" % n), range(130))
        )
    for model in models[::2]:
        scene.model = model
        scene.submit()
    let_pass(scene.farm, 31 * DAY)
    keep(scene.farm)

    with scene.farm.database.transaction() as session:
        left = {row.digest for row in catalogue.list_models(session, scene.tenant_id, 500)}
    assert left == set(models[::2])
