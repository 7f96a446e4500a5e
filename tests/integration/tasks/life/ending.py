"""How every schedule ends: the work is finished, and what is not left to luck is done."""

from __future__ import annotations

from enginefarm.spec import BuildSpec
from enginefarm.state import ArtifactState, JobState
from tests.integration.tasks.life import keeping, sweeping
from tests.integration.tasks.life.files import unreadable
from tests.integration.tasks.life.loops import (
    die_after_commit,
    round_of_work,
    settle_late,
    take_work,
    turn,
)
from tests.integration.tasks.life.steps import Steps
from tests.integration.tasks.life.world import A_GRACE, PASSING
from tests.integration.tasks.scene import CPU, Scene

ROUNDS = 40
_PROVED = 6
"""The point at which a settler knows what is wrong with a job, and has not written it."""


def to_the_end(steps: Steps) -> None:
    """Let healthy nodes and loops work until nothing is left, and look at what came of it."""
    world = steps.world
    world.time_passes(PASSING["a lease"])
    for number, arch in enumerate(("cpu", "cpu", "sm_89", "sm_90")):
        world.newcomer(f"fresh-{number}", arch)
    _work_on(steps)
    _one_more(steps)
    _work_on(steps)
    _stand_still(steps)
    _work_on(steps)
    world.time_passes(PASSING["a window"])
    keeping.keep_all(steps)
    for _ in range(2):
        sweeping.sweep(steps)
        world.time_passes(A_GRACE)
    _nothing_is_left(steps)


def _work_on(steps: Steps) -> None:
    rounds = 0
    while steps.now.busy:
        assert rounds < ROUNDS, _unfinished(steps)
        round_of_work(steps)
        steps.look()
        rounds += 1


def _one_more(steps: Steps) -> None:
    """Let a settler die over a build's first job, give the build up, and ask for it again.

    Then a settler comes late with what it found. Whatever a schedule has chosen: this happens in
    each.
    """
    owner = steps.world.tenants[0]
    steps.world.bring(owner, b"the last model")
    spec = BuildSpec.model_validate({"model": owner.model, "targets": [CPU]})
    build_id = steps.submit(owner, spec, None, None)
    steps.look()
    work = take_work(steps, 0)
    assert work is not None, "nobody takes the only job that there is"
    assert work.given.build_id == build_id
    steps.finish(work, "success")
    die_after_commit(steps, "settle", 3)
    steps.look()
    assert steps.now.in_state(JobState.QUEUED), "the next stage does not begin"
    steps.cancel(build_id, None)
    steps.look()
    steps.submit(owner, spec, None, None)
    steps.look()
    settle_late(steps, _PROVED)


def _stand_still(steps: Steps) -> None:
    """Let a node stand still with what it has stored: others speak for it, sweep, and take over.

    This, too, happens in each schedule.
    """
    owner = steps.world.tenants[1]
    steps.world.bring(owner, b"the very last model")
    spec = BuildSpec.model_validate({"model": owner.model, "targets": [CPU]})
    steps.submit(owner, spec, None, None)
    steps.look()
    work = take_work(steps, 0)
    assert work is not None, "nobody takes the only job that there is"
    steps.upload(work, "whole")
    for how in ("token", "later", "earlier"):
        steps.speak_for_another(work, work.node, how)
    for _ in range(2):
        steps.world.time_passes(A_GRACE)
        sweeping.sweep(steps)
    turn(steps, "reconcile")
    steps.look()


def _unfinished(steps: Steps) -> str:
    live = [str(job) for job in steps.now.jobs.values() if not job.state.terminal]
    return "\n".join(["these never end:", *live, *map(str, steps.now.builds.values())])


def _nothing_is_left(steps: Steps) -> None:
    now, world = steps.now, steps.world
    assert set(now.builds) == set(steps.seen.accepted)
    for artifact in now.artifacts:
        lost = list(unreadable(world.farm, artifact))
        assert not lost, lost
        if artifact.state is ArtifactState.PUBLISHED:
            Scene(world.farm, artifact.tenant_id, "").verified(artifact.digest)
    turn(steps, "reconcile")
    assert world.announce() == 0, "something is still to be announced"
