"""What a twin was built of goes when its numbers are all that anybody needs of it."""

from __future__ import annotations

from enginefarm.state import ArtifactState, JobState, Stage
from storage import catalogue
from storage.models import Expired
from storage.retention import Rule, Terms
from tests.integration.tasks.ageing import let_pass
from tests.integration.tasks.fake_node import FakeNode
from tests.integration.tasks.kept import DAY, has, keep, published, sweep
from tests.integration.tasks.scene import Scene
from tests.integration.tasks.test_precisions import int8
from tests.integration.tasks.test_twins import judged, made, whole

OTHERS = Terms({rule: 30.0 for rule in Rule if rule is not Rule.TWINS})
TWINS = Terms({Rule.TWINS: 30})


def engine_of_twin(scene: Scene, build_id: str) -> str:
    told = judged(scene, build_id).twin
    assert told is not None
    assert told.engine is not None
    return told.engine


def gone(scene: Scene, digest: str) -> Expired | None:
    with scene.farm.database.transaction() as session:
        return catalogue.expired(session, scene.tenant_id, "blobs", digest)


def test_what_only_a_twin_needed_goes_and_the_numbers_stay(scene: Scene, node: FakeNode) -> None:
    build_id = whole(scene, node, **int8(scene))
    engine = engine_of_twin(scene, build_id)
    let_pass(scene.farm, 29 * DAY)
    keep(scene.farm, TWINS)
    let_pass(scene.farm, 2 * DAY)
    keep(scene.farm, OTHERS)
    assert has(scene, engine)
    keep(scene.farm, TWINS)
    sweep(scene.farm)

    assert scene.bucket.head(engine) is None
    job = scene.twin(build_id)[Stage.COMPILE]
    assert (job.state, job.result_expired_at is None) == (JobState.SUCCEEDED, False)
    note = gone(scene, engine)
    assert note is not None
    assert (note.name, note.rule) == (build_id, "twins")
    assert [row.speedup for row in judged(scene, build_id).speed] == [1.5]
    for file in scene.verified(made(scene, build_id).digest).manifest.layers:
        scene.bucket.confirm(file.digest, file.size)
    again = published(scene, node)
    assert scene.job(again, Stage.COMPILE).cached_from is None


def test_a_twins_engine_on_which_a_published_build_stands_stays(
    scene: Scene, node: FakeNode
) -> None:
    build_id = whole(scene, node, **int8(scene))
    plain = published(scene, node)
    twin = scene.twin(build_id)[Stage.COMPILE]
    assert scene.job(plain, Stage.COMPILE).cached_from == twin.id
    let_pass(scene.farm, 31 * DAY)
    keep(scene.farm)
    sweep(scene.farm)
    assert has(scene, engine_of_twin(scene, build_id))
    assert scene.job(plain, Stage.COMPILE).result_expired_at is None


def test_a_twin_stays_for_a_build_under_way_and_for_a_while_after_it(
    scene: Scene, node: FakeNode
) -> None:
    asked = int8(scene)
    first = whole(scene, node, **asked)
    engine = engine_of_twin(scene, first)
    let_pass(scene.farm, 31 * DAY)
    second = scene.submit(**asked, seed=1)
    scene.do(node, second, Stage.CALIBRATE)
    assert scene.twin(second)[Stage.COMPILE].cached_from == scene.twin(first)[Stage.COMPILE].id
    keep(scene.farm, TWINS)
    scene.run(node, second)
    scene.publish()
    assert made(scene, second).state is ArtifactState.PUBLISHED
    assert engine_of_twin(scene, second) == engine
    keep(scene.farm, TWINS)
    assert has(scene, engine)

    let_pass(scene.farm, 31 * DAY)
    keep(scene.farm)
    sweep(scene.farm)
    assert not has(scene, engine)
    assert scene.twin(second)[Stage.COMPILE].result_expired_at is not None
