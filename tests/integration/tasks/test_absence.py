"""While the farm itself was away nobody could report: for a while that is held against nobody."""

from __future__ import annotations

from datetime import timedelta

import pytest

from enginefarm.state import JobState, NodeState, Stage
from storage import pulses
from storage.database import now
from storage.models import Pulse
from tasks.reconciler import reconcile
from tests.integration.tasks.fake_node import FakeNode
from tests.integration.tasks.scene import Scene


@pytest.mark.parametrize("part", ["api", "reconciler"])
def test_a_lease_that_ran_out_while_the_farm_was_away_may_still_be_reported_for(
    scene: Scene, node: FakeNode, part: str
) -> None:
    build_id = scene.submit()
    job = scene.job(build_id, Stage.REPAIR)
    work = node.take(job)
    scene.age(job, "lease_until", 1)
    with scene.farm.database.transaction() as session:
        session.merge(Pulse(part=part, beat_at=now() - timedelta(hours=1)))
    reconcile(scene.farm)
    with scene.farm.database.transaction() as session:
        pulses.beat(session, part, 20)
    reconcile(scene.farm)
    assert scene.job(build_id, Stage.REPAIR).state is JobState.RUNNING

    node.tell(work, node.done(work))
    scene.settle()
    job = scene.job(build_id, Stage.REPAIR)
    assert (job.state, job.attempt, job.failures) == (JobState.SUCCEEDED, 1, 0)


@pytest.mark.parametrize(
    ("lapsed_s", "failures"), [(3600, 0), (10_800, 1)], ids=["meanwhile", "before"]
)
def test_who_does_not_report_in_the_grace_is_run_again_and_nobody_charged(
    scene: Scene, node: FakeNode, lapsed_s: float, failures: int
) -> None:
    build_id = scene.submit()
    job = scene.job(build_id, Stage.REPAIR)
    node.take(job)
    scene.age(job, "lease_until", lapsed_s)
    with scene.farm.database.transaction() as session:
        left, back = now() - timedelta(hours=2), now() - timedelta(minutes=2)
        session.merge(Pulse(part="api", beat_at=now(), away_from=left, back_at=back))
    reconcile(scene.farm)

    job = scene.job(build_id, Stage.REPAIR)
    assert (job.attempt, job.failures) == (2, failures)


@pytest.mark.parametrize(("back_s", "state"), [(5, NodeState.ACTIVE), (3600, NodeState.OFFLINE)])
def test_nodes_that_nobody_could_hear_are_not_taken_for_silent(
    scene: Scene, node: FakeNode, back_s: float, state: NodeState
) -> None:
    scene.silence(node.node_id, 1800)
    with scene.farm.database.transaction() as session:
        back = now() - timedelta(seconds=back_s)
        left = back - timedelta(hours=1)
        session.merge(Pulse(part="api", beat_at=now(), away_from=left, back_at=back))
    reconcile(scene.farm)

    assert scene.node(node.node_id).state is state
