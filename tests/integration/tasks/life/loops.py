"""The loops of the control plane within a schedule: one turn, one turn that others meet, all."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable

from enginefarm.state import JobState, Stage
from tasks.publish import publish_due
from tasks.reconciler import reconcile
from tasks.settle import settle_due
from tests.integration.tasks.life.schedule import Mishap
from tests.integration.tasks.life.snapshot import Snapshot
from tests.integration.tasks.life.steps import Steps
from tests.integration.tasks.life.world import PASSING, Work, World

_TAKEN = 6
"""The point at which a publisher has taken a job: two transactions have three points each."""


def _settle(world: World) -> None:
    settle_due(world.brittle)


def _publish(world: World) -> None:
    publish_due(world.brittle, world.signer)


def _reconcile(world: World) -> None:
    reconcile(world.brittle)


LOOPS: dict[str, Callable[[World], None]] = {
    "settle": _settle,
    "publish": _publish,
    "reconcile": _reconcile,
}


def take_work(steps: Steps, number: int, mishap: Mishap = None) -> Work | None:
    """Announce what there is, and let a node have the first job that it can take."""
    steps.world.announce()
    living = steps.world.living()
    first = number % len(living)
    for ring in steps.world.broker.take():
        for node in living[first:] + living[:first]:
            work = steps.claim(node, ring, mishap)
            if work is not None:
                return work
            steps.look()
    return None


def upload_and_stand_still(steps: Steps) -> None:
    """Let a node take what there is and upload what it made, and not say so yet."""
    for node in steps.world.living():
        steps.beat_node(node, draining=False, forgets=False)
    work = take_work(steps, 0)
    if work is not None:
        steps.upload(work, "whole")


def make_due(steps: Steps, loop: str) -> str | None:
    """See to it that a loop has something to do, if it can be; return whose build it is for."""
    if loop == "reconcile":
        steps.world.time_passes(PASSING["a lease"])
        return None
    for _ in range(4):
        steps.look()
        due = _due(steps.now, loop)
        work = None if due else take_work(steps, 0)
        if work is None:
            return due
        steps.finish(work, "success")
        if loop == "publish":
            turn(steps, "settle")
    return None


def _due(now: Snapshot, loop: str) -> str | None:
    if loop == "settle":
        found = now.in_state(JobState.UPLOADED)
    else:
        waiting = now.in_state(JobState.WAITING, Stage.PUBLISH)
        found = [job for job in waiting if job.key is not None and job.joined_to is None]
    return str(found[0].build_id) if found else None


def turn(steps: Steps, loop: str, mishap: Mishap = None) -> None:
    with steps.within(mishap):
        LOOPS[loop](steps.world)


def turn_meanwhile(steps: Steps, loop: str, at: int, others: Callable[[], None]) -> None:
    """Take one turn of a loop; at its ``at``-th point others come between."""
    with steps.world.trap.meanwhile(at, others):
        LOOPS[loop](steps.world)
    if steps.world.trap.sprung:
        steps.met[f"{loop} met {steps.world.trap.sprung}"] += 1


def die_after_commit(steps: Steps, loop: str, commits: int) -> None:
    """Let a loop's process end when it has committed so often; what it wrote is all there is."""
    with steps.world.trap.ending(commits, "killed", only="after a commit"):
        LOOPS[loop](steps.world)
    if steps.world.trap.sprung:
        steps.met[f"{loop} died after commit {commits}"] += 1


def overtake(steps: Steps, *, whole: bool) -> None:
    """Take over what a slow process holds: its leases end, and others do its work."""
    steps.world.time_passes(PASSING["a lease"])
    for loop in ("reconcile", "settle", "publish") if whole else ("reconcile",):
        LOOPS[loop](steps.world)


def follow(steps: Steps) -> list[tuple[str, int]]:
    """Take over what a slow publisher holds, and stand still oneself; return what is held then."""
    overtake(steps, whole=False)
    with steps.world.trap.ending(_TAKEN, "killed"):
        publish_due(steps.world.brittle, steps.world.signer)
    steps.look()
    return [(job.id, job.attempt) for job in steps.now.in_state(JobState.RUNNING, Stage.PUBLISH)]


def be_followed(steps: Steps, at: int) -> None:
    """Let a publisher be followed by another at its ``at``-th point; what the other holds stays."""
    held: list[tuple[str, int]] = []
    turn_meanwhile(steps, "publish", at, lambda: held.extend(follow(steps)))
    steps.look()
    for job_id, attempt in held:
        job = steps.now.jobs[job_id]
        out = [row.digest for row in steps.now.artifacts if row.job_id == job_id]
        assert (job.state, job.attempt, out) == (JobState.RUNNING, attempt, []), (
            f"a publisher whose lease had ended published {out}: {job}"
        )
        steps.met["publisher followed"] += 1


def settle_late(steps: Steps, at: int) -> None:
    """Look at an attempt that has stored nothing; at point ``at`` the next one has stored all."""
    work = take_work(steps, 0)
    if work is not None:
        steps.upload(work, "none")
        steps.finish(work, "success")
        turn_meanwhile(steps, "settle", at, lambda: _try_again(steps))
        steps.look()


def _try_again(steps: Steps) -> None:
    LOOPS["settle"](steps.world)
    steps.world.time_passes(PASSING["a pause"])
    steps.look()
    work = take_work(steps, 0)
    if work is not None:
        steps.finish(work, "success")
        steps.met["settler followed"] += 1


def round_of_work(steps: Steps, most: int = 1000) -> None:
    """Let every part do its duty once: what is announced is done, settled and published.

    Of what was announced, ``most`` jobs are done.
    """
    world = steps.world
    for node in world.living():
        if world.clock - node.heard_at > PASSING["a silence"] / 3:
            steps.beat_node(node, draining=node.draining, forgets=False)
        for work in world.of(node):
            if steps.holds(work):
                steps.finish(work, "success")
    for loop in LOOPS:
        turn(steps, loop)
    world.time_passes(PASSING["a pause"])
    world.announce()
    steps.look()
    for ring in world.broker.take():
        works = (steps.claim(node, ring) for node in world.living())
        taken = next((work for work in works if work is not None), None)
        if taken is not None:
            steps.finish(taken, "success")
            most -= 1
        if most == 0:
            break
    for loop in ("settle", "publish"):
        turn(steps, loop)


def hear_again(steps: Steps) -> None:
    """Lose every ring; after a while each queued job has one that is still to be sent."""
    world = steps.world
    world.broker.rings.clear()
    world.time_passes(PASSING["a pause"])
    turn(steps, "reconcile")
    steps.look()
    for job in steps.now.in_state(JobState.QUEUED):
        rings = steps.now.rings[job.id, job.attempt]
        assert any(ring.sent_at is None for ring in rings), f"nobody will be told of {job.id}"


def what_happened(now: Snapshot) -> Counter[str]:
    """Count what came of a schedule, to see that schedules reach what they are made for."""
    met: Counter[str] = Counter(f"build {row.state}" for row in now.builds.values())
    for job in now.jobs.values():
        met[f"{job.stage} {job.state}"] += 1
        met["cached"] += job.cached_from is not None
        met["tried again"] += job.attempt > 1
        met[(job.failure or {}).get("code", "no failure")] += 1
    measured = Counter(
        (job.build_id, job.target)
        for job in now.in_state(JobState.SUCCEEDED, Stage.BENCHMARK)
        if job.sku is not None
    )
    met.update("measured on two" for count in measured.values() if count > 1)
    met.update(f"artifact {row.state}" for row in now.artifacts)
    return met
